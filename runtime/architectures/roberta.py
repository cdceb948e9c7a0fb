"""RoBERTa (arXiv 1907.11692) and XLM-RoBERTa: BERT with another tokenizer, and positions counted from behind the pad.

In a GGUF file they are BERTs: their tables of positions begin at position 0 there.
"""

from __future__ import annotations

from runtime.architectures import bert
from runtime.architectures.base import Architecture, Fields, Settings
from runtime.architectures.both_sides import masked_fields
from runtime.architectures.shared import refuse
from runtime.config import ModelConfig


def _extra_hf(raw: Settings, known: Fields) -> Fields:
    refuse(raw, is_decoder=True, position_embedding_type=("relative_key", "relative_key_query"))
    offset = int(raw.get("pad_token_id", 1)) + 1  # position p has row pad + 1 + p
    lengths = {"position_offset": offset, "context_length": known["context_length"] - offset}
    return masked_fields(raw) | lengths


def _write_hf(config: ModelConfig) -> Fields:
    lengths = {"pad_token_id": config.position_offset - 1,
               "max_position_embeddings": config.context_length + config.position_offset}  # fmt: skip
    return bert.write_hf(config, ("RobertaForMaskedLM", "RobertaModel")) | lengths


ARCHITECTURE = Architecture(
    name="roberta",
    hf_types=("roberta", "xlm-roberta", "camembert"),
    hf_classes=("RobertaForMaskedLM", "RobertaModel", "XLMRobertaForMaskedLM", "XLMRobertaModel"),
    gguf="bert",
    accepts=lambda settings: False,
    prefix="roberta.",
    fixed=bert.FIXED,
    hf_defaults={"hidden_act": "gelu"},
    tensors=(
        *bert.backbone("roberta."),
        *bert.head("lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "lm_head.decoder"),
    ),
    keys=bert.KEYS,
    ignorable=("*pooler.dense.*", "*embeddings.position_ids", "lm_head.bias", "lm_head.decoder.bias"),
    extra_hf=_extra_hf,
    extra_gguf=bert.extra_gguf,
    write_hf=_write_hf,
    write_gguf=bert.write_gguf,
    fits_gguf=bert.misfit,
    by_names=lambda config, names: bert.without_missing_head(config, names, "lm_head.dense"),
)  # fmt: skip
