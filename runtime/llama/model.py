"""Loads a GGUF file with llama.cpp and makes its context. Knows nothing about chats or sampling."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runtime import memory
from runtime.engine import LoadListener, StopFlag
from runtime.errors import UserError
from runtime.llama import cache_types, long_context, native_params
from runtime.llama import library as llama_library
from runtime.llama.lora import LoadedAdapters
from runtime.llama.placement import Placement
from runtime.llama.vocabulary import Vocabulary
from runtime.lora_files import LoraAdapter
from runtime.model_errors import LoadStopped
from runtime.model_files import stamps_of
from runtime.params import QUANTIZED_KV_TYPES, LoadParams
from runtime.places import shown_path
from runtime.text import _

_NO_FLASH = ("Flash Attention not supported, set to disabled", "flash_attn is not compatible")
_NO_ROPE = -1  # LLAMA_ROPE_TYPE_NONE
_SHIFT_BLOCK = 64  # llama.cpp moves quantized keys only where this divides the head size
_BUFFER_LINE = re.compile(r"buffer size\s*=\s*([\d.]+) MiB")


class LoadFailed(UserError):
    """llama.cpp refused the file although its header reads well."""

    code = "load_failed"

    def __init__(self, path: Path, log: str) -> None:
        super().__init__(
            _("The model “{name}” could not be loaded.").format(name=shown_path(Path(path.name))),
            llama_library.last_reason(log),
            _("Download or convert the file again, or choose another model."),
            details=log,
        )


class NoRoomForContext(UserError):
    """The cache or the compute buffers could not be had."""

    code = "no_room_for_context"

    def __init__(self, context_length: int, log: str) -> None:
        super().__init__(
            _("There is not enough memory for a context of {n} tokens.").format(n=f"{context_length:,}"),
            llama_library.last_reason(log),
            _("Choose a shorter context length or a smaller cache type in the settings, and load the model again."),
            details=log,
        )


class WritesNoText(UserError):
    """The file holds a model that has no way to continue a text."""

    code = "writes_no_text"

    def __init__(self, path: Path) -> None:
        super().__init__(
            _("“{name}” writes no text.").format(name=shown_path(Path(path.name))),
            _("It is an encoder: it makes vectors out of texts."),
            _("Use it with “quern embed”, and choose a model that was made for chat or text completion to talk to."),
        )


class LlamaModel:
    """A loaded model with one context. Owns both; `close` frees them.

    Without a `context_length` it is for reading only: it has no context, and need not be one that writes. With
    `allocate` off it holds no weights and no cache: the library only works out how large they would be.
    """

    def __init__(
        self,
        path: Path,
        params: LoadParams,
        *,
        context_length: int | None,
        threads: int,
        adapters: Sequence[LoraAdapter] = (),
        allocate: bool = True,
        listener: LoadListener | None = None,
        stop: StopFlag | None = None,
    ) -> None:
        self.path = path
        self.stamps = stamps_of(path)
        self.notes: list[str] = [note for adapter in adapters for note in adapter.notes]
        self.memory_bytes = 0  # as the library reports it
        self._library = llama_library.load_library_for(params)
        self.notes += llama_library.variant_notes(params.cpu_variant)
        self._model: Any = None
        self._context: Any = None
        self._threads = threads
        self._stop = StopFlag() if stop is None else stop
        self._abort = _native_abort(self._library)
        with self._measured():
            self._load(params, listener, allocate=allocate)
        try:
            with self._measured():
                self.adapters = LoadedAdapters(self._library, self._model, adapters)
            if context_length is not None and not self.writes_text:
                raise WritesNoText(path)
            head_k, head_v = self._head_sizes()
            self.params, notes = cache_types.workable(
                params, head_k=head_k, head_v=head_v, reads_source=self.reads_source
            )
            self.notes.extend(notes)
            self.trained_context = int(self._library.llama_model_n_ctx_train(self._model))  # a context may change it
            if context_length is not None:
                with self._measured():
                    self._make_context(context_length)
                self.notes.extend(long_context.notes(self))
        except BaseException:
            self.close()
            raise
        self.vocabulary = Vocabulary(self._library, self._library.llama_model_get_vocab(self._model))

    @property
    def library(self) -> Any:
        return self._library

    @property
    def context(self) -> Any:
        return self._context

    @property
    def stopped(self) -> bool:
        """Whether the flag that native code looks at is set."""
        return self._stop.is_set()

    def watch(self, stop: StopFlag, *, context: Any = None) -> None:
        """Makes native code look at this flag while it evaluates, also in a `context` made by `new_context`."""
        self._stop = stop
        for watching in filter(None, (self._context, context)):
            self._library.llama_set_abort_callback(watching, self._abort, ctypes.c_void_p(stop.address))

    def new_context(self, context_length: int, **changes: Any) -> Any:
        """Returns a context with `changes` to llama.cpp's parameters; the caller frees it before the model.

        Raises `NoRoomForContext`.
        """
        wanted = native_params.context_params(
            self._library, self.params, context_length=context_length, threads=self._threads
        )
        wanted.abort_callback = self._abort
        wanted.abort_callback_data = self._stop.address
        for name, value in changes.items():
            setattr(wanted, name, value)
        context = self._library.llama_init_from_model(self._model, wanted)
        if not context:
            raise NoRoomForContext(context_length, llama_library.log_tail(30))
        self.adapters.apply(context)
        return context

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Native code inside does not look at the stop flag."""
        self._library.llama_set_abort_callback(self._context, type(self._abort)(), None)
        try:
            yield
        finally:
            self.watch(self._stop)

    @property
    def context_length(self) -> int:
        # llama.cpp rounds the cache up to a multiple of 256; what was asked for is what is promised.
        return self._context_length

    @property
    def native_context_length(self) -> int:
        """The cells that llama.cpp made for a sequence, by which it chooses among position factors."""
        return int(self._library.llama_n_ctx_seq(self._context))

    @property
    def writes_text(self) -> bool:
        """False for encoders."""
        return bool(self._library.llama_model_has_decoder(self._model))

    @property
    def reads_source(self) -> bool:
        """True for encoder-decoders: they read a source text whole, and then write a target."""
        return self.writes_text and bool(self._library.llama_model_has_encoder(self._model))

    @property
    def start_token(self) -> int:
        """The token with which a target begins: the one that the file names, else the begin or the padding token."""
        named = int(self._library.llama_model_decoder_start_token(self._model))
        special = self.vocabulary.special
        return next((token for token in (special.bos, special.pad) if token is not None), 0) if named < 0 else named

    @property
    def remembers_states(self) -> bool:
        """True for recurrent and hybrid models, whose memory is a state for each sequence."""
        lib = self._library
        return bool(lib.llama_model_is_recurrent(self._model) or lib.llama_model_is_hybrid(self._model))

    @property
    def vector_size(self) -> int:
        """How many numbers a text's vector has."""
        return int(self._library.llama_model_n_embd_out(self._model))

    @property
    def micro_batch(self) -> int:
        return int(self._library.llama_n_ubatch(self._context))

    @property
    def original_context(self) -> int:
        """How many tokens the model was trained for before its positions were stretched."""
        said = self.metadata(f"{self.architecture}.rope.scaling.original_context_length")
        return int(said) if said.isdigit() and int(said) else self.trained_context

    @property
    def sliding_window(self) -> int:
        """How far back the windowed layers look, in tokens; 0 where every layer sees everything."""
        return int(self._library.llama_model_n_swa(self._model))

    @property
    def keeps_everything(self) -> bool:
        """True where any part of the cache can be cut off without reading the prompt again."""
        return not self.remembers_states and (self.sliding_window == 0 or self.params.swa_full)

    @property
    def can_shift(self) -> bool:
        """Whether tokens can be taken out of the middle of the cache and the later ones moved up.

        llama.cpp would end the process in the cases that this excludes (its pull requests 25636 and 27967), except
        that where some layers keep only a window, the beginning is no longer in all of them.
        """
        memory = self._library.llama_get_memory(self._context)
        if self.reads_source or not self.keeps_everything or not self._library.llama_memory_can_shift(memory):
            return False
        if self.metadata(f"{self.architecture}.attention.indexer.key_length"):
            return False
        if self.params.kv_type_k in QUANTIZED_KV_TYPES:
            return self._can_shift_quantized()
        return self.params.kv_type_k != "bf16"  # its rotation is not implemented

    def _can_shift_quantized(self) -> bool:
        head, _head_v = self._head_sizes()
        rotated = self.metadata(f"{self.architecture}.rope.dimension_count")
        whole = head % _SHIFT_BLOCK == 0 and rotated in ("", str(head))
        return whole and not self._placement.on_gpu and "LLAMA_ATTN_ROT_DISABLE" not in os.environ

    @property
    def architecture(self) -> str:
        return self.metadata("general.architecture")

    @property
    def turns_positions(self) -> bool:
        """Whether the model knows positions by RoPE."""
        return int(self._library.llama_model_rope_type(self._model)) != _NO_ROPE

    @property
    def rope_factor(self) -> float:
        """How many times longer than trained the file itself stretches positions; 1 where it does not."""
        return 1 / float(self._library.llama_model_rope_freq_scale_train(self._model) or 1)

    @property
    def n_params(self) -> int:
        return int(self._library.llama_model_n_params(self._model))

    @property
    def size_bytes(self) -> int:
        return int(self._library.llama_model_size(self._model))

    @property
    def logit_rows(self) -> int:
        """For how many tokens of a batch the scores may be wanted; llama.cpp ends the process where there are more."""
        vocabulary = self._library.llama_model_get_vocab(self._model)
        return memory.logit_rows(int(self._library.llama_vocab_n_tokens(vocabulary)), self.params)

    @property
    def description(self) -> str:
        buffer = ctypes.create_string_buffer(256)
        self._library.llama_model_desc(self._model, buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace")

    @property
    def context_log(self) -> tuple[str, ...]:
        """What the library said while it made the context."""
        return self._context_log

    @property
    def flash_attention(self) -> bool:
        """Whether flash attention is in use; where it cannot be, llama.cpp tells only its log."""
        given_up = any(words in line for line in self._context_log for words in _NO_FLASH)
        return self.params.flash_attention != "off" and not given_up

    def metadata(self, key: str) -> str:
        """Returns a metadata value as text; empty where the file has none."""
        name = key.encode()
        length = self._library.llama_model_meta_val_str(self._model, name, None, 0)
        if length < 0:
            return ""
        buffer = ctypes.create_string_buffer(length + 1)
        self._library.llama_model_meta_val_str(self._model, name, buffer, length + 1)
        return buffer.value.decode("utf-8", "replace")

    def template_names(self) -> list[str]:
        """Returns the names of the file's chat templates; the unnamed one is "default"."""
        prefix = "tokenizer.chat_template"
        keys = [key for key in self._metadata_keys() if key == prefix or key.startswith(prefix + ".")]
        return [key.removeprefix(prefix).lstrip(".") or "default" for key in keys]

    def template(self, name: str = "default") -> str:
        """Returns a chat template's source; empty where the file has none of that name."""
        key = "tokenizer.chat_template" if name == "default" else f"tokenizer.chat_template.{name}"
        return self.metadata(key)

    def _metadata_keys(self) -> list[str]:
        buffer = ctypes.create_string_buffer(512)
        count = self._library.llama_model_meta_count(self._model)
        keys = []
        for index in range(count):
            self._library.llama_model_meta_key_by_index(self._model, index, buffer, len(buffer))
            keys.append(buffer.value.decode("utf-8", "replace"))
        return keys

    def close(self) -> None:
        if self._context is not None:
            self._library.llama_free(self._context)
            self._context = None
        if self._model is not None:
            self._library.llama_model_free(self._model)
            self._model = None

    # --- loading ------------------------------------------------------------------------------------------------

    def _load(self, params: LoadParams, listener: LoadListener | None, *, allocate: bool) -> None:
        lib = self._library
        wanted = native_params.model_params(lib, params, allocate=allocate)
        self._placement = Placement(params, llama_library.devices())
        self._placement.apply(wanted)
        self.notes.extend(self._placement.notes())
        wanted.progress_callback = self._progress_callback(listener)
        model = lib.llama_model_load_from_file(os.fsencode(self.path), wanted)
        if not model:
            raise LoadStopped(self.path) if self._stop.is_set() else LoadFailed(self.path, llama_library.log_tail(30))
        self._model = model
        if any("failed to mlock" in line or "mlock not supported" in line for line in llama_library.log_lines()):
            self.notes.append(_("The system does not allow the model to be kept in memory; it may be moved to disk."))

    def _progress_callback(self, listener: LoadListener | None) -> Any:
        def report(fraction: float, _data: object) -> bool:
            if listener is not None and not listener(fraction):
                self._stop.set()
            return not self._stop.is_set()

        self._progress = self._library.llama_progress_callback(report)  # kept alive as long as C may call it
        return self._progress

    def _head_sizes(self) -> tuple[int, int]:
        lib, architecture = self._library, self.architecture
        heads = max(int(lib.llama_model_n_head(self._model)), 1)
        usual = int(lib.llama_model_n_embd(self._model)) // heads
        key = self.metadata(f"{architecture}.attention.key_length")
        value = self.metadata(f"{architecture}.attention.value_length")
        return (int(key) if key.isdigit() else usual), (int(value) if value.isdigit() else usual)

    @contextmanager
    def _measured(self) -> Iterator[None]:
        """Counts the buffers that are made inside. The log begins anew: it keeps its last lines only."""
        llama_library.clear_log()
        yield
        self.memory_bytes += _logged_buffers()

    def _workable_context(self, context_length: int, **changes: Any) -> Any:
        """Returns a context; where llama.cpp refuses its cache types, one with others, and notes it."""
        while True:
            try:
                return self.new_context(context_length, **changes)
            except NoRoomForContext as error:
                refused = cache_types.after_refusal(self.params, error.info.details)
                if refused is None:
                    raise
            self.params, note = refused
            self.notes.append(note)
            llama_library.clear_log()

    def _make_context(self, context_length: int) -> None:
        # An encoder reads its source in one piece; llama.cpp ends the process for a longer one.
        whole = {"n_batch": context_length, "n_ubatch": context_length}
        changes = whole if self.reads_source else {"n_outputs_max": min(self.logit_rows, context_length)}
        context = self._workable_context(context_length, **changes)
        self._context_log = llama_library.log_lines()
        self._context = context
        self._context_length = min(context_length, int(self._library.llama_n_ctx(context)))


def _native_abort(library: Any) -> Any:
    """Returns an abort callback that runs no Python: the C library's own `strlen`.

    llama.cpp calls `bool callback(void *data)` between the nodes of its graph, hundreds of times a token. With the
    stop flag's memory as `data`, `strlen` returns 0 while the flag's first byte is 0, and 1 (true) once it is set.
    """
    c_library = ctypes.CDLL("ucrtbase" if os.name == "nt" else None)
    return library.ggml_abort_callback(ctypes.cast(c_library.strlen, ctypes.c_void_p).value)


def _logged_buffers() -> int:
    sizes = (_BUFFER_LINE.search(line) for line in llama_library.log_lines())
    return int(sum(float(found[1]) for found in sizes if found) * 1024 * 1024)
