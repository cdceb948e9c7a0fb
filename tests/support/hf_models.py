"""Tiny random models of every family, made by transformers: the oracle of the native Transformer's tests.

Importing transformers takes seconds, so it happens when the first model is made.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.numpy import load_file

from memory_checkpoint import MemoryCheckpoint

_COMMON: dict[str, Any] = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "bos_token_id": None, "eos_token_id": None,
    "pad_token_id": None,
}  # fmt: skip
_LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 4.0, "low_freq_factor": 1.0,
           "high_freq_factor": 4.0, "original_max_position_embeddings": 16}  # fmt: skip
_WINDOWED = {"head_dim": 16, "sliding_window": 4, "query_pre_attn_scalar": 16, "num_hidden_layers": 6}
_LAYER_TYPES = ["full_attention", "sliding_attention", "sliding_attention"] * 2
_LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.1, 1.2, 1.3],
         "long_factor": [1.5, 2.0, 3.0, 4.0]}  # fmt: skip
_NORM = re.compile(r"(norm|ln_.|LayerNorm|layernorm_embedding)\.weight$")


@dataclass(frozen=True)
class Case:
    """A family's class in transformers, and what its tiny model's config says beside the common sizes."""

    name: str
    config: str
    model: str
    options: dict[str, Any] = field(default_factory=dict)
    common: bool = True
    spread: float = 0.3  # of the random weights


CASES = (
    Case("llama", "LlamaConfig", "LlamaForCausalLM"),
    Case("llama, tied, own head size, biases", "LlamaConfig", "LlamaForCausalLM",
         {"tie_word_embeddings": True, "head_dim": 16, "attention_bias": True, "mlp_bias": True}),
    Case("llama, llama3 scaling", "LlamaConfig", "LlamaForCausalLM", {"rope_parameters": _LLAMA3}),
    Case("llama, yarn", "LlamaConfig", "LlamaForCausalLM",
         {"rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                              "original_max_position_embeddings": 32}}),
    Case("llama, yarn, bounds of its own", "LlamaConfig", "LlamaForCausalLM",
         {"rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0, "beta_fast": 8,
                              "beta_slow": 2, "attention_factor": 1.2, "original_max_position_embeddings": 32}}),
    Case("llama, linear", "LlamaConfig", "LlamaForCausalLM",
         {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}}),
    Case("llama, dynamic", "LlamaConfig", "LlamaForCausalLM",
         {"max_position_embeddings": 8, "rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0,
                                                            "factor": 2.0}}),
    Case("llama, multi-query", "LlamaConfig", "LlamaForCausalLM", {"num_key_value_heads": 1}),
    Case("mistral, windowed", "MistralConfig", "MistralForCausalLM", {"sliding_window": 4}),
    Case("qwen2", "Qwen2Config", "Qwen2ForCausalLM"),
    Case("qwen2, windowed", "Qwen2Config", "Qwen2ForCausalLM",
         {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}),
    Case("qwen3", "Qwen3Config", "Qwen3ForCausalLM", {"head_dim": 16}),
    Case("qwen3_moe", "Qwen3MoeConfig", "Qwen3MoeForCausalLM",
         {"head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
          "norm_topk_prob": True}),
    Case("qwen3_moe, dense layer, weights as they are", "Qwen3MoeConfig", "Qwen3MoeForCausalLM",
         {"head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
          "norm_topk_prob": False, "mlp_only_layers": [0]}),
    Case("mixtral", "MixtralConfig", "MixtralForCausalLM", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    Case("gemma2", "Gemma2Config", "Gemma2ForCausalLM", _WINDOWED),
    Case("gemma2, head of its own", "Gemma2Config", "Gemma2ForCausalLM", _WINDOWED | {"tie_word_embeddings": False}),
    Case("gemma3", "Gemma3TextConfig", "Gemma3ForCausalLM", _WINDOWED),
    Case("gemma3, scale of its own", "Gemma3TextConfig", "Gemma3ForCausalLM",
         _WINDOWED | {"query_pre_attn_scalar": 12}),
    Case("gemma3, other windows", "Gemma3TextConfig", "Gemma3ForCausalLM", _WINDOWED | {"layer_types": _LAYER_TYPES}),
    Case("gemma3, stretched", "Gemma3TextConfig", "Gemma3ForCausalLM",
         _WINDOWED | {"rope_parameters": {
             "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
             "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}}),
    Case("bloom", "BloomConfig", "BloomForCausalLM",
         {"vocab_size": 96, "hidden_size": 36, "n_layer": 2, "n_head": 6, "seq_length": 128, "bos_token_id": None,
          "eos_token_id": None}, common=False),
    Case("gpt2", "GPT2Config", "GPT2LMHeadModel",
         {"vocab_size": 96, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128, "bos_token_id": None,
          "eos_token_id": None}, common=False),
    Case("gpt_neox", "GPTNeoXConfig", "GPTNeoXForCausalLM", {"rotary_pct": 0.5}),
    Case("gpt_neox, one after the other", "GPTNeoXConfig", "GPTNeoXForCausalLM", {"use_parallel_residual": False}),
    Case("phi3", "Phi3Config", "Phi3ForCausalLM"),
    Case("phi3, longrope", "Phi3Config", "Phi3ForCausalLM",
         {"original_max_position_embeddings": 8, "rope_parameters": _LONG}),
    Case("olmo2", "Olmo2Config", "Olmo2ForCausalLM"),
    Case("glm4", "Glm4Config", "Glm4ForCausalLM", {"head_dim": 16}),
    Case("smollm3", "SmolLM3Config", "SmolLM3ForCausalLM", {"num_hidden_layers": 5}),
)  # fmt: skip

_BART = {
    "vocab_size": 96, "d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 64,
    "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": None,
}  # fmt: skip
_T5 = {
    "vocab_size": 96, "d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4,
    "relative_attention_num_buckets": 8, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0,
}  # fmt: skip
ENCODERS = (
    Case("bert", "BertConfig", "BertForMaskedLM", {"type_vocab_size": 3}),
    Case("bert, tanh, without a head", "BertConfig", "BertModel", {"hidden_act": "gelu_new"}),
    Case("bert, head of its own", "BertConfig", "BertForMaskedLM", {"tie_word_embeddings": False}),
    Case("bert, next sentences", "BertConfig", "BertForPreTraining"),
    Case("roberta", "RobertaConfig", "RobertaForMaskedLM", {"pad_token_id": 1, "type_vocab_size": 1}),
    Case("xlm-roberta, without a head", "XLMRobertaConfig", "XLMRobertaModel",
         {"pad_token_id": 1, "type_vocab_size": 1}),
)
ENCODER_DECODERS = (
    Case("t5", "T5Config", "T5ForConditionalGeneration", _T5, common=False, spread=0.15),
    Case("t5, gated, head of its own", "T5Config", "T5ForConditionalGeneration",
         _T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}, common=False, spread=0.15),
    Case("mt5", "MT5Config", "MT5ForConditionalGeneration",
         _T5 | {"feed_forward_proj": "gated-gelu", "relative_attention_max_distance": 16}, common=False, spread=0.15),
    Case("bart", "BartConfig", "BartForConditionalGeneration", _BART, common=False),
    Case("bart, scaled embedding", "BartConfig", "BartForConditionalGeneration",
         _BART | {"scale_embedding": True, "activation_function": "relu"}, common=False),
)


def case(name: str) -> Case:
    """Returns the case with this name."""
    return next(found for found in (*CASES, *ENCODERS, *ENCODER_DECODERS) if found.name == name)


@cache
def oracle(case_name: str, **more: Any) -> Any:
    """Returns the tiny model of a case, in f32, with weights that leave no part of it without effect."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    wanted = case(case_name)
    options = (_COMMON if wanted.common else {}) | wanted.options | more
    config = getattr(transformers, wanted.config)(**options, attn_implementation="eager")
    torch.manual_seed(7)
    model = getattr(transformers, wanted.model)(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            near_one = _NORM.search(name) and "gemma" not in case_name
            spread = wanted.spread if weight.ndim > 1 else 0.1
            weight.copy_(torch.randn_like(weight) * spread + (1.0 if near_one else 0.0))
    return model.requires_grad_(False)


def checkpoint_of(model: Any) -> MemoryCheckpoint:
    """Returns what `save_pretrained` writes of a model: names and layout of the disk differ from those in memory."""
    with TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        config = json.loads(Path(folder, "config.json").read_text(encoding="utf-8"))
        return MemoryCheckpoint("folder", load_file(Path(folder, "model.safetensors")), config=config)
