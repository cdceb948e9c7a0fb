"""From `LoadParams` to the structs that llama.cpp is loaded with. Knows no file and owns no model."""

from __future__ import annotations

from typing import Any

from runtime.params import LoadParams

# ggml_type numbers (ggml.h) of the types a cache may have
_KV_TYPES = {
    "f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "iq4_nl": 20, "bf16": 30,
}  # fmt: skip
_FLASH = {"auto": -1, "off": 0, "on": 1}
_LOAD_MODES = {(False, False): 0, (True, False): 1, (False, True): 2, (True, True): 3}  # (mmap, mlock)
_ROPE_SCALINGS = {"file": -1, "none": 0, "linear": 1, "yarn": 2}  # enum llama_rope_scaling_type


def model_params(library: Any, params: LoadParams, *, allocate: bool = True) -> Any:
    """Returns how the weights are loaded; without `allocate` they are not, only counted."""
    native = library.llama_model_default_params()
    native.n_gpu_layers = params.gpu_layers
    maps, locks = params.mmap != "off", params.mlock
    native.load_mode = _LOAD_MODES[maps and allocate, locks and allocate]  # else there is nothing to map or lock
    native.no_alloc = not allocate
    return native


def context_params(library: Any, params: LoadParams, *, context_length: int, threads: int) -> Any:
    """Returns how a context for one sequence is made."""
    native = library.llama_context_default_params()
    native.n_ctx = context_length
    native.n_batch = min(params.batch, context_length)
    native.n_ubatch = min(params.micro_batch, native.n_batch)
    native.n_seq_max = 1
    native.n_threads = threads
    native.n_threads_batch = params.prompt_threads or threads
    native.flash_attn_type = _FLASH[params.flash_attention]
    native.type_k, native.type_v = _KV_TYPES[params.kv_type_k], _KV_TYPES[params.kv_type_v]
    native.offload_kqv = params.kv_on_gpu
    native.swa_full = params.swa_full
    native.no_perf = True
    _set_rope(native, params)
    return native


def _set_rope(native: Any, params: LoadParams) -> None:
    native.rope_scaling_type = _ROPE_SCALINGS[params.rope_scaling]
    native.rope_freq_base = params.rope_base
    native.rope_freq_scale = 1 / params.rope_factor if params.rope_factor else 0.0
    native.yarn_orig_ctx = params.yarn_original_context
    native.yarn_beta_fast, native.yarn_beta_slow = params.yarn_beta_fast, params.yarn_beta_slow
    native.yarn_ext_factor = params.yarn_ext_factor
    if params.rope_scaling in ("none", "linear"):  # or a file's own factor would still mix YaRN in
        native.yarn_ext_factor = 0.0
