"""Opens a folder or a GGUF file as one thing: the Transformer, its tokenizer, its chat templates, how it is run.

Knows nothing about chats, sampling or the tokens that were read.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path

import torch

from runtime import devices, gguf_header
from runtime.architectures.reading import identify
from runtime.checkpoint import Checkpoint, open_checkpoint
from runtime.config import ModelConfig, ModelForm
from runtime.engine import LoadListener, StopFlag
from runtime.llama.tokenizer import GgufTokenizer
from runtime.model_errors import UnsupportedModel
from runtime.model_files import stamps_of, weight_files
from runtime.native import settings
from runtime.native.adapters import Adapters
from runtime.native.kv_cache import KVCache
from runtime.native.lending import Lending
from runtime.native.load import load_model
from runtime.native.mapped import DTYPES
from runtime.native.one_token import OneToken
from runtime.native.stretching import stretched
from runtime.params import LoadParams
from runtime.source import gguf_target_start, target_start
from runtime.text import _
from runtime.tokenizer import FolderTokenizer

Vocabulary = GgufTokenizer | FolderTokenizer


class NativeModel:
    """A loaded model. Owns its weights and its tokenizer; `close` lets them go.

    `params` are the settings as they are carried out, `notes` what had to be corrected, in words for the person.
    """

    def __init__(
        self, path: Path, params: LoadParams, *, forms: tuple[ModelForm, ...] = ("decoder",),
        listener: LoadListener | None = None, stop: StopFlag | None = None,
    ) -> None:  # fmt: skip
        """`forms` are those that the caller can use. Raises `UnsupportedModel`, and what opening and loading raise."""
        self.notes: list[str] = []
        self.stamps = stamps_of(path)
        with open_checkpoint(path) as checkpoint:
            self.path = checkpoint.path
            self.name = str(checkpoint.metadata.get("general.name") or "")
            self.size_bytes = _size(checkpoint)
            architecture, config = identify(checkpoint)
            _require_form(config, forms, self.path)
            self.architecture = architecture.name
            self.params = settings.workable(params, config, self.notes)
            settings.require_room(self.params, config)
            self.device = settings.device_of(self.params, self.notes)
            self.adapters = Adapters(self.params.lora, architecture, config, dtype=self.params.dtype)
            self.vocabulary, self.templates = _tokenizer_of(checkpoint, config)
            self.target_start = _target_start(checkpoint)
            self._lending = Lending() if self._may_lend else None
            try:
                self._use_threads(self.params)
                self.transformer = load_model(
                    checkpoint, dtype=self.params.dtype, device=self.device, listener=listener, stop=stop,
                    change=partial(stretched, params=self.params, notes=self.notes), adapters=self.adapters,
                    lending=self._lending,
                )  # fmt: skip
                self.adapters.finish(self.transformer)
                self.notes.extend(checkpoint.notes)
            except BaseException:
                self._close_vocabulary()
                raise
        self.config = self.transformer.config
        self.context_length = self.params.context_length
        self.transformer.planned_length = self.context_length
        self._shorten()
        self.micro_batch = min(self.params.micro_batch, self.params.batch)
        if self._lending is not None:
            self._lending.move(then=self._shorten)

    def reading(self) -> AbstractContextManager[None]:
        """Tokens are read inside."""
        return nullcontext() if self._lending is None else self._lending.read()

    def _shorten(self) -> None:
        """Makes the short way for single tokens, out of the weights where they lie now."""
        self.one_token = OneToken.of(self.transformer)

    @property
    def _may_lend(self) -> bool:
        """Whether weights may stay in the file for a while: not where they are changed, or live somewhere else."""
        return self.device == "cpu" and self.params.dtype in DTYPES and not self.adapters.words

    def _use_threads(self, params: LoadParams) -> None:
        self.threads = params.threads or devices.usable_cores()
        self.prompt_threads = params.prompt_threads or self.threads
        torch.set_num_threads(self.threads)

    @property
    def reads_source(self) -> bool:
        """Whether it turns a source text into a target."""
        return self.config.form == "encoder-decoder"

    def new_cache(self) -> KVCache:
        """Returns an empty cache of the types that were chosen."""
        return KVCache(
            self.config, capacity=min(self.context_length, 512), k_type=settings.cache_type(self.params.kv_type_k),
            v_type=settings.cache_type(self.params.kv_type_v), device=self.device,
            dtype=DTYPES.get(self.params.dtype, torch.bfloat16), full=self.params.swa_full,
        )  # fmt: skip

    @property
    def weight_bytes(self) -> int:
        """The memory that the weights take."""
        tensors = (*self.transformer.parameters(), *self.transformer.buffers())
        return sum({tensor.data_ptr(): tensor.nbytes for tensor in tensors}.values())

    @property
    def cache_bytes(self) -> int:
        """The memory that the cache takes when the context is full."""
        return settings.full_cache_bytes(self.config, self.context_length, self.params)

    def close(self) -> None:
        """Lets the weights and the tokenizer go. May be called twice."""
        if self._lending is not None:
            self._lending.close()
        with suppress(AttributeError):
            del self.transformer, self.one_token
        self._close_vocabulary()

    def _close_vocabulary(self) -> None:
        if isinstance(self.vocabulary, GgufTokenizer):
            self.vocabulary.close()


def _size(checkpoint: Checkpoint) -> int:
    """Returns the bytes of the files with weights."""
    if checkpoint.kind == "gguf":
        return gguf_header.read_header(checkpoint.path, arrays=False).file_size
    return sum(file.stat().st_size for file in weight_files(checkpoint.path))


def _tokenizer_of(checkpoint: Checkpoint, config: ModelConfig) -> tuple[Vocabulary, Mapping[str, str]]:
    """Returns the tokenizer and the chat templates by name. Raises what opening them raises."""
    if checkpoint.kind == "gguf":
        return GgufTokenizer(checkpoint.path), gguf_header.read_header(checkpoint.path).chat_templates
    folder = FolderTokenizer(
        checkpoint.path, config=checkpoint.config, generation_config=checkpoint.generation_config,
        size=config.vocab_size,
    )  # fmt: skip
    return folder, folder.templates


def _target_start(checkpoint: Checkpoint) -> tuple[int, ...]:
    """Returns the tokens with which an encoder-decoder begins to write."""
    if checkpoint.kind == "gguf":
        return gguf_target_start(checkpoint.metadata)
    return target_start(checkpoint.config, checkpoint.generation_config)


def _require_form(config: ModelConfig, forms: tuple[ModelForm, ...], path: Path) -> None:
    if config.form not in forms:
        what = _("It makes vectors out of texts (“{architecture}”) and writes none.")
        hint = _("“quern embed” makes vectors with it. To write text, choose another model.")
        raise UnsupportedModel(path, what.format(architecture=config.family), hint)
