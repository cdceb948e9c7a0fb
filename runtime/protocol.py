"""The engine process's language: one JSON object a line, commands in, events out. Knows no engine and no Qt.

Every command carries an `id` chosen by the parent, and every event repeats the id of the command it answers, so that
a late event can never land in the wrong answer. A command is answered by exactly one closing event:
`Load` by `Loaded`, `Generate` by `Finished`, `Tokenize` by `Tokenized`, `CountTokens` by `TokensCounted`,
`MeasureContext` by `ContextMeasured`,
`SaveState` by `StateSaved`, `LoadState` by `StateLoaded`, `Replay` by `Replayed`, `IdentifyModel` by `ModelIdentified`,
`Unload` by `Unloaded`; any of them by `Failed`. `Stop` names the id of the command that it ends, one that takes time,
and has no answer of its own. The child says `Hello` once, before all else, and exits when its stdin closes.
"""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from runtime.beams import BeamParams
from runtime.errors import ErrorInfo
from runtime.messages import Message
from runtime.params import LoadParams, SamplingParams
from runtime.receipt import Receipt

VERSION = 1


class FinishReason(enum.StrEnum):
    """Why an answer ended."""

    END = "end"  # the model said so
    STOP_TEXT = "stop_text"  # one of the stop texts appeared
    LENGTH = "length"  # max_tokens reached
    CONTEXT = "context"  # no room is left in the context
    STOPPED = "stopped"  # the person pressed Stop
    GRAMMAR = "grammar"  # the grammar or the schema is complete, or allows no token that the model has


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one answer cost. Times are seconds; `prompt_tokens = cached_tokens + evaluated_tokens`."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    evaluated_tokens: int = 0
    generated_tokens: int = 0
    reasoning_tokens: int = 0  # of those generated, what the model thought before it answered
    prompt_seconds: float = 0.0
    generation_seconds: float = 0.0
    context_used: int = 0
    context_length: int = 0
    reuse_note: str = ""  # why the prompt had to be read again; empty where the cache was used as far as possible
    drafted_tokens: int = 0  # guesses that were evaluated; 0 where speculation is off or nothing was worth guessing
    accepted_tokens: int = 0  # those of them that came true, and so are part of the answer

    @property
    def prompt_speed(self) -> float:
        """Prompt tokens read a second; 0 where none were read."""
        return self.evaluated_tokens / self.prompt_seconds if self.prompt_seconds > 0 else 0.0

    @property
    def generation_speed(self) -> float:
        """Tokens written a second. The first token comes out of reading the prompt and is not counted."""
        steps = self.generated_tokens - 1
        return steps / self.generation_seconds if steps > 0 and self.generation_seconds > 0 else 0.0


class EngineInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A loaded model and the engine that holds it."""

    engine: str  # "llama" or "native"
    build: str = ""
    path: str = ""  # spelled by `runtime.places.spelled_path`
    name: str = ""
    architecture: str = ""
    description: str = ""
    size_bytes: int = 0
    n_params: int = 0
    n_vocab: int = 0
    context_length: int = 0
    trained_context: int = 0
    kv_type_k: str = ""
    kv_type_v: str = ""
    flash_attention: bool = False
    threads: int = 0
    devices: tuple[str, ...] = ()
    has_template: bool = False
    adapters: tuple[str, ...] = ()  # those that act, each with its scale, as "style.gguf × 0.5"
    reads_source: bool = False  # it turns a source text into a target, and holds no conversation
    templates: tuple[str, ...] = ()  # names of the model's own chat templates
    template_guess: str = ""  # where it has none: the format of ours that its vocabulary was made for
    memory_bytes: int = 0  # model, cache and compute buffers, as the library reports them
    load_seconds: float = 0.0
    speculation: str = "off"  # "ngram" or "draft" where guesses are made
    draft_path: str = ""  # the draft model's, spelled like `path`
    notes: tuple[str, ...] = ()  # what was corrected while loading, in words for the person
    backends: tuple[str, ...] = ()  # what llama.cpp computes with and what was left out, a line each


class GenerationRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answer asked for: a conversation through the chat template, a raw `prompt`, or token ids as they are.

    With `only_end`, a raw prompt longer than the context is read from as late as leaves room, instead of being refused.
    With `continue_last`, the last message is an answer that was cut, and the model goes on with it. In a raw prompt
    control tokens may be written out; in messages they never take effect. `ignore_end` goes on past the model's end
    marks, up to `max_tokens`: for measuring. With `alternatives`, every token comes with a `TokenDrawn` that shows so
    many of the likeliest tokens before and after the samplers. With `receipt`, `Finished` brings the answer's receipt.
    More beams than one search for the likeliest text. `pinned` are positions of messages that are never left out of the
    prompt, with the questions and answers that belong to them.
    """

    messages: tuple[Message, ...] = ()
    pinned: tuple[int, ...] = ()
    prompt: str | None = None
    prompt_ids: tuple[int, ...] = ()
    only_end: bool = False
    ignore_end: bool = False
    continue_last: bool = False
    alternatives: int = 0
    receipt: bool = False
    sampling: SamplingParams = SamplingParams()
    beams: BeamParams = BeamParams()


# --- commands ---------------------------------------------------------------------------------------------------


class Command(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """Base of what the parent sends."""

    id: int


class Load(Command, tag="load", frozen=True):
    """`path` is spelled by `runtime.places.spelled_path`, since a file's name need not be text."""

    path: str
    params: LoadParams = LoadParams()
    language: str = "en"


class Generate(Command, tag="generate", frozen=True):
    request: GenerationRequest


class Stop(Command, tag="stop", frozen=True):
    """Ends the generation or the load with this id; unknown ids are ignored (it may have ended by itself)."""


class Tokenize(Command, tag="tokenize", frozen=True):
    text: str
    special: bool = False  # whether control tokens written in the text are recognised


class CountTokens(Command, tag="count_tokens", frozen=True):
    """Counts the tokens of a conversation through the template, or of a raw `prompt`; also while an answer runs."""

    messages: tuple[Message, ...] = ()
    prompt: str | None = None
    sampling: SamplingParams = SamplingParams()  # for the chat template that it names


class MeasureContext(Command, tag="measure_context", frozen=True):
    """Asks what a request would take of the context, and what would be left out; answered also while an answer runs."""

    request: GenerationRequest


class SaveState(Command, tag="save_state", frozen=True):
    """Saves what the model has read to the file `path`, spelled as in `Load`, so that it need not be read again."""

    path: str


class LoadState(Command, tag="load_state", frozen=True):
    """Takes a saved state back, in place of what the model has read so far."""

    path: str


class Replay(Command, tag="replay", frozen=True):
    """Makes an answer again from its receipt and compares; `anyway` also where it was made under other conditions."""

    receipt: Receipt
    anyway: bool = False


class IdentifyModel(Command, tag="identify_model", frozen=True):
    """Asks for the content hash of the loaded model's files; answered also while an answer runs."""


class Unload(Command, tag="unload", frozen=True):
    pass


AnyCommand = (
    Load | Generate | Stop | Tokenize | CountTokens | MeasureContext | SaveState | LoadState | Replay | IdentifyModel
    | Unload
)  # fmt: skip

# --- events -----------------------------------------------------------------------------------------------------


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """Base of what the child sends; `id` is that of the command answered."""

    id: int


class Hello(Event, tag="hello", frozen=True):
    version: int = VERSION
    pid: int = 0


class LoadProgress(Event, tag="load_progress", frozen=True):
    fraction: float


class Loaded(Event, tag="loaded", frozen=True):
    info: EngineInfo


class PromptProgress(Event, tag="prompt_progress", frozen=True):
    """`done` of `total` prompt tokens are in the cache, `cached` of them from before."""

    done: int
    total: int
    cached: int = 0


class TextDelta(Event, tag="text", frozen=True):
    """New text, always whole characters. `n_tokens` is how many tokens the answer has so far.

    It takes the place of the last `replaces` characters of the answer: where an answer that was cut inside a character
    is continued, the first new text replaces the U+FFFD that stood for it. With `reasoning`, it is what the model
    thinks before it answers; the marks around that are never in a text.
    """

    text: str
    n_tokens: int
    replaces: int = 0
    reasoning: bool = False


class Alternative(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A token that was drawn or could have been, with its probability before and after the samplers.

    `removed_by` names the sampler that took it out of the draw, "grammar" also for a JSON schema; empty where none did.
    """

    token: int
    text: str
    before: float
    after: float = 0.0
    removed_by: str = ""


class TokenDrawn(Event, tag="token", frozen=True):
    """How a token was drawn, sent before its text. Only for requests with `alternatives`; likeliest before first."""

    token: int
    text: str
    probability: float  # after the samplers
    alternatives: tuple[Alternative, ...] = ()


class ContextTrimmed(Event, tag="context_trimmed", frozen=True):
    """Messages that no longer fit were left out of the prompt: their positions in the request."""

    dropped: tuple[int, ...]


class Finished(Event, tag="finished", frozen=True):
    """Closes a generation. `seed` is the one used; `notes` say, in words, what had to be done to the conversation.

    `receipt` is there where it was asked for and the answer can be made again.
    """

    reason: FinishReason
    usage: Usage
    seed: int = 0
    stop_text: str = ""
    notes: tuple[str, ...] = ()
    receipt: Receipt | None = None


class Tokenized(Event, tag="tokenized", frozen=True):
    ids: tuple[int, ...]
    pieces: tuple[str, ...]


class TokensCounted(Event, tag="tokens_counted", frozen=True):
    """`total` is the length of the prompt that was asked about, with what the template or the model adds to it."""

    total: int


class ContextMeasured(Event, tag="context_measured", frozen=True):
    """What a request would take of the context now. All positions are those of its messages.

    `tokens` has a number for each message, also for those that are left out; with `marks`, what the chat template
    writes around them, those of the others add up to `total`. Of these, the first `cached` need not be read again as
    far as the model allows it, and `reused` says how many that are of each message. `reserve` is kept free for the
    answer. `dropped` is left out, `next` goes when there is no more room, `held` stays because of a pin, and `loose`
    of it may yet roll out while an answer is written. With `error`, the request would be refused.
    """

    tokens: tuple[int, ...] = ()
    reused: tuple[int, ...] = ()
    marks: int = 0
    total: int = 0
    cached: int = 0
    reserve: int = 0
    context_length: int = 0
    dropped: tuple[int, ...] = ()
    next: tuple[int, ...] = ()
    held: tuple[int, ...] = ()
    loose: tuple[int, ...] = ()
    error: ErrorInfo | None = None


class StateSaved(Event, tag="state_saved", frozen=True):
    """So many tokens are in the file; where there were none, no file was written, and `note` may say why."""

    tokens: int
    size_bytes: int = 0
    note: str = ""


class StateLoaded(Event, tag="state_loaded", frozen=True):
    """So many tokens need not be read again; 0 where the file was of no use, and `note` then says why."""

    tokens: int
    note: str = ""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Where an answer that was made again departs: after `tokens` equal tokens, `character` characters into its text.

    `expected` and `found` are the pieces of text that follow there; "" where one of them ends.
    """

    tokens: int
    character: int
    expected: str
    found: str


class Replayed(Event, tag="replayed", frozen=True):
    """Closes a replay: the text as it came out, up to the first difference, and that difference; None where equal."""

    text: str
    tokens: int
    difference: Difference | None = None
    notes: tuple[str, ...] = ()


class ModelIdentified(Event, tag="model_identified", frozen=True):
    """The SHA-256 of each of the model's files, in hexadecimal."""

    sha256: tuple[str, ...]


class Unloaded(Event, tag="unloaded", frozen=True):
    pass


class Failed(Event, tag="failed", frozen=True):
    """Closes a command that could not be done. Text that was streamed before stays valid."""

    error: ErrorInfo


AnyEvent = (
    Hello | LoadProgress | Loaded | PromptProgress | TextDelta | TokenDrawn | ContextTrimmed | Finished
    | Tokenized | TokensCounted | ContextMeasured | StateSaved | StateLoaded | Replayed | ModelIdentified | Unloaded
    | Failed
)  # fmt: skip
CLOSING = (
    Loaded, Finished, Tokenized, TokensCounted, ContextMeasured, StateSaved, StateLoaded, Replayed, ModelIdentified,
    Unloaded, Failed,
)  # fmt: skip
"""The events that close a command; exactly one answers each."""

GenerationEvent = PromptProgress | TextDelta | TokenDrawn | ContextTrimmed | Finished
ReplayEvent = PromptProgress | Replayed

_commands: msgspec.json.Decoder[Any] = msgspec.json.Decoder(AnyCommand)
_events: msgspec.json.Decoder[Any] = msgspec.json.Decoder(AnyEvent)
_encoder = msgspec.json.Encoder()


def encode_line(message: Command | Event) -> bytes:
    """Returns one line, newline included. JSON escapes every newline inside, so a line is always one message."""
    return _encoder.encode(message) + b"\n"


def decode_command(line: bytes) -> Any:
    """Returns an `AnyCommand`. Raises `msgspec.DecodeError` (`ValidationError` for the wrong shape)."""
    return _commands.decode(line)


def decode_event(line: bytes) -> Any:
    """Returns an `AnyEvent`. Raises `msgspec.DecodeError` (`ValidationError` for the wrong shape)."""
    return _events.decode(line)
