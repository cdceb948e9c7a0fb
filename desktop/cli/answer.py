"""Shows one answer while it is written, for people or for programs. Knows nothing about where it comes from."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from desktop.cli import output
from desktop.cli.layout import harmless
from desktop.cli.word_wrap import WordWrap
from runtime.protocol import (
    ContextTrimmed,
    EngineInfo,
    Finished,
    FinishReason,
    GenerationEvent,
    PromptProgress,
    TextDelta,
    Usage,
)
from runtime.text import N_, _, ngettext

# Why an answer ended, where a person who sees it would wonder.
_CUT = {
    FinishReason.LENGTH: N_("The answer was cut at its length limit; --max-tokens sets it."),
    FinishReason.STOPPED: N_("Stopped."),
}
_REASONS = {
    FinishReason.END: N_("the model ended it"),
    FinishReason.STOP_TEXT: N_("a stop text appeared"),
    FinishReason.LENGTH: N_("the length limit was reached"),
    FinishReason.CONTEXT: N_("the context is full"),
    FinishReason.STOPPED: N_("it was stopped"),
    FinishReason.GRAMMAR: N_("the grammar allows nothing more"),
}


class AnswerView(Protocol):
    """Shows what an engine says."""

    def loaded(self, info: EngineInfo) -> None: ...

    def show(self, events: Iterable[GenerationEvent]) -> Finished | None:
        """Shows one answer to its end and returns how it ended; None where it never began."""
        ...


class TextView:
    """The answer on stdout; progress, remarks and, with `verbose`, numbers on stderr."""

    def __init__(self, *, verbose: bool = False, wrap: bool = False, reasoning: bool = True) -> None:
        """`reasoning` shows what the model thinks before it answers, to a person; no pipe ever gets it."""
        self._verbose = verbose
        self._reasoning = reasoning and output.is_terminal(sys.stdout)
        self._wrap = wrap
        self._status = output.StatusLine()
        self._told: set[str] = set()

    def loaded(self, info: EngineInfo) -> None:
        """Says what was corrected while loading; with `verbose` also what was loaded."""
        self._tell_once(info.notes)
        if self._verbose:
            output.remark(loaded_words(info))

    def show(self, events: Iterable[GenerationEvent]) -> Finished | None:
        """Streams the text and ends it with a line break."""
        finished, text, answered = None, _Text(wrap=self._wrap), True
        try:
            for event in events:
                if isinstance(event, TextDelta):
                    answered = self._show_text(event, text)
                finished = self._other(event) or finished
        finally:
            self._status.clear()
            text.end()
        if finished is not None:
            self._ended(finished)
        if finished is not None and not answered:
            output.remark(_("The model was still thinking when the answer ended."))
        return finished

    def _show_text(self, event: TextDelta, text: _Text) -> bool:
        """Shows text; returns whether it belongs to the answer itself."""
        if event.reasoning and not self._reasoning:
            self._status.show(_("Thinking: {count} tokens").format(count=f"{event.n_tokens:,}"))
        else:
            self._status.clear()
            text.write(event.text, thought=event.reasoning)
        return not event.reasoning

    def _other(self, event: GenerationEvent) -> Finished | None:
        if isinstance(event, PromptProgress) and event.total:
            self._status.show(_("Reading: {done} of {total} tokens").format(done=event.done, total=event.total))
        elif isinstance(event, ContextTrimmed):
            self._status.clear()
            output.remark(trimmed_words(event.dropped))
        return event if isinstance(event, Finished) else None

    def _tell_once(self, notes: Iterable[str]) -> None:
        for note in notes:
            if note not in self._told:
                self._told.add(note)
                output.remark(note)

    def _ended(self, finished: Finished) -> None:
        self._tell_once(finished.notes)
        if finished.reason is FinishReason.CONTEXT:
            output.remark(_("The context is full; --context-length makes it larger."))
        elif finished.reason in _CUT:
            output.aside(_(_CUT[finished.reason]))
        if self._verbose:
            output.remark(finished_words(finished))


class _Text:
    """Text on stdout: as it is for a file or a pipe, harmless and broken between words for a terminal."""

    def __init__(self, *, wrap: bool) -> None:
        self._seen = output.is_terminal(sys.stdout)
        self._wrap = WordWrap(lambda: shutil.get_terminal_size().columns) if wrap and self._seen else None
        self._last = ""
        self._thought = False

    def write(self, text: str, *, thought: bool = False) -> None:
        """Writes text, paler where the model only thinks it."""
        if thought != self._thought and self._last:
            self.end()
            output.write("\n")
        self._thought = thought
        if self._seen:
            text = harmless(text)
        self._last = text or self._last
        self._put(self._wrap.feed(text) if self._wrap else text)

    def _put(self, text: str) -> None:
        output.write(output.dim(text, sys.stdout) if self._thought and text else text)

    def end(self) -> None:
        """Writes what was held back, and a line break where the text has none."""
        held = self._wrap.finish() if self._wrap else ""
        if held or self._last:
            self._put(held if self._last.endswith("\n") else held + "\n")
        self._last = ""


class JsonView:
    """Every event as one JSON object a line on stdout."""

    def loaded(self, info: EngineInfo) -> None:
        """Writes what was loaded as the first line."""
        output.write_json({"type": "loaded", "info": info})

    def show(self, events: Iterable[GenerationEvent]) -> Finished | None:
        """Writes the events."""
        finished = None
        for event in events:
            output.write_json(event_object(event))
            finished = event if isinstance(event, Finished) else finished
        return finished


def event_object(event: GenerationEvent) -> dict[str, Any]:
    """Returns an event as the engine process would write it, without the id, and with the speeds worked out."""
    fields = {name: getattr(event, name) for name in event.__struct_fields__ if name != "id"}
    if fields.get("receipt", "") is None:
        del fields["receipt"]
    if isinstance(event, Finished):
        usage = {name: getattr(event.usage, name) for name in event.usage.__struct_fields__}
        usage["prompt_tokens_per_second"] = event.usage.prompt_speed
        usage["generation_tokens_per_second"] = event.usage.generation_speed
        fields["usage"] = usage
    return {"type": event.__struct_config__.tag, **fields}


def trimmed_words(dropped: Sequence[int]) -> str:
    """Returns what the context no longer holds, in words."""
    count = len(dropped)
    sentence = ngettext(
        "{count} earlier message no longer fits into the context and was left out.",
        "{count} earlier messages no longer fit into the context and were left out.",
        count,
    )
    return sentence.format(count=count)


def loaded_words(info: EngineInfo) -> str:
    """Returns what was loaded, on one line, and the adapters that act on it on another."""
    words = ngettext(
        "{name} · engine {engine} · {context} tokens of context · {threads} thread · {seconds:.1f} s",
        "{name} · engine {engine} · {context} tokens of context · {threads} threads · {seconds:.1f} s",
        info.threads,
    )
    loaded = words.format(
        name=harmless(info.name or info.path), engine=info.engine, context=f"{info.context_length:,}",
        threads=info.threads, seconds=info.load_seconds,
    )  # fmt: skip
    if not info.adapters:
        return loaded
    return "\n".join((loaded, _("Adapters: {names}").format(names=", ".join(info.adapters))))


def finished_words(finished: Finished) -> str:
    """Returns an answer's numbers: why it ended, its seed, what was read and written, and how fast."""
    usage = finished.usage
    lines = [
        _("Ended because {reason}; seed {seed}.").format(reason=_(_REASONS[finished.reason]), seed=finished.seed),
        _("Prompt: {tokens} tokens, {cached} from the cache, {speed:.0f} tokens/s.").format(
            tokens=usage.prompt_tokens, cached=usage.cached_tokens, speed=usage.prompt_speed
        ),
        _("Answer: {tokens} tokens, {speed:.1f} tokens/s. Context: {used} of {length} tokens.").format(
            tokens=usage.generated_tokens, speed=usage.generation_speed,
            used=usage.context_used, length=usage.context_length,
        ),
        _("Of these, {tokens} were thought before the answer.").format(tokens=f"{usage.reasoning_tokens:,}")
        if usage.reasoning_tokens else "",
        _("Of {count} tokens that were guessed ahead, {accepted} came true.").format(
            count=f"{usage.drafted_tokens:,}", accepted=f"{usage.accepted_tokens:,}"
        ) if usage.drafted_tokens else "",
        usage.reuse_note,
    ]  # fmt: skip
    return "\n".join(filter(None, lines))


def drafted_words(usage: Usage) -> str:
    """Returns how many guesses came true; "" where nothing was guessed."""
    if not usage.drafted_tokens:
        return ""
    return ngettext(
        "{accepted} of {count} guess came true", "{accepted} of {count} guesses came true", usage.drafted_tokens
    ).format(accepted=f"{usage.accepted_tokens:,}", count=f"{usage.drafted_tokens:,}")


def short_words(finished: Finished) -> str:
    """Returns what stands below an answer in the terminal chat."""
    usage = finished.usage
    parts = [
        ngettext("{count} token", "{count} tokens", usage.generated_tokens).format(count=usage.generated_tokens),
        _("{speed:.1f} tokens/s").format(speed=usage.generation_speed) if usage.generation_speed else "",
        drafted_words(usage),
        _("context {used} of {length}").format(used=f"{usage.context_used:,}", length=f"{usage.context_length:,}"),
    ]
    return " · ".join(filter(None, parts))
