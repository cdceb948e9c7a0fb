"""Prompts of models that read a source text whole and then write a target, such as T5. Evaluates nothing.

A prompt is the source, and the token, or the two, with which every target begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from runtime.messages import Message
from runtime.params import SamplingParams
from runtime.prompt import Prompt
from runtime.protocol import ContextMeasured, GenerationRequest
from runtime.source_errors import HoldsNoConversation, NoSource, SourceTooLong


class Vocabulary(Protocol):
    """What is asked of a tokenizer."""

    @property
    def has_end_mark(self) -> bool: ...

    def checked(self, ids: Iterable[int]) -> list[int]: ...

    def tokenize_whole(self, text: str, *, special: bool = False) -> list[int]: ...


class SourcePrompts:
    """Builds the prompts of one model, as `PromptBuilder` does for others. Safe to use from several threads."""

    def __init__(self, vocabulary: Vocabulary, *, context_length: int, start: Sequence[int]) -> None:
        """`start` are the tokens with which a target begins."""
        self._vocabulary = vocabulary
        self._context_length = context_length
        self._start = start

    def build(self, request: GenerationRequest, _is_stopped: Callable[[], bool] | None = None) -> Prompt:
        """Returns the source's ids with the marks that the model wants, and the tokens that begin the target.

        Control tokens may be written out in the source: T5's sentinels are. Raises `HoldsNoConversation`, `NoSource`,
        `SourceTooLong` and `UnknownToken`.
        """
        if request.messages:
            raise HoldsNoConversation
        source = self._vocabulary.checked(request.prompt_ids) or self._source(request.prompt or "")
        if len(source) > self._context_length:
            raise SourceTooLong(len(source), self._context_length)
        return Prompt([*source, *self._start], source=len(source))

    def count(self, messages: tuple[Message, ...], sampling: SamplingParams) -> int:
        """Raises `HoldsNoConversation`."""
        raise HoldsNoConversation

    def measure(self, request: GenerationRequest, reusable: Callable[[Sequence[int]], int]) -> ContextMeasured:
        """Raises `HoldsNoConversation`."""
        raise HoldsNoConversation

    def close(self) -> None:
        """Frees nothing: no template is ever rendered."""

    def _source(self, text: str) -> list[int]:
        if not text.strip():
            raise NoSource
        ids = self._vocabulary.tokenize_whole(text, special=True)
        is_marked_twice = self._vocabulary.has_end_mark and ids[-2:-1] == ids[-1:]
        return ids[:-1] if is_marked_twice else ids


def target_start(config: Mapping[str, Any], generation_config: Mapping[str, Any]) -> tuple[int, ...]:
    """Returns the tokens with which a target begins, by what a folder's two configs say.

    That is the token that they name, else the begin mark, else the padding; and behind it one that must come first.
    """
    sources = (generation_config, config)
    start = next(
        (token for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id")
         for token in _tokens(sources, name)), 0,
    )  # fmt: skip
    return (start, *_tokens(sources, "forced_bos_token_id")[:1])


def gguf_target_start(metadata: Mapping[str, Any]) -> tuple[int, ...]:
    """Returns the token with which a target begins, by what a GGUF file says."""
    named = (f"{metadata.get('general.architecture')}.decoder_start_token_id", "tokenizer.ggml.bos_token_id",
             "tokenizer.ggml.padding_token_id")  # fmt: skip
    return (next((token for name in named for token in _tokens((metadata,), name)), 0),)


def _tokens(sources: Iterable[Mapping[str, Any]], name: str) -> list[int]:
    found = (source.get(name) for source in sources)
    return [token for token in found if isinstance(token, int) and not isinstance(token, bool) and token >= 0]
