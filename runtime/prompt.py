"""From a request to the token ids that the model reads, cut to fit the context. Evaluates nothing.

What a person writes in a message never becomes a control token: only the template's own marks do. A prompt made by a
template holds exactly what the template says, so a begin mark is never added to it; a raw prompt gets the model's own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from runtime.chat_formats import ChatFormat, ChatFormats
from runtime.control_text import Segment
from runtime.errors import ErrorInfo, UserError
from runtime.evaluation import common_prefix
from runtime.known_answers import KnownAnswers
from runtime.measuring import kept_of, measured
from runtime.messages import Message, Role
from runtime.params import SamplingParams
from runtime.prompt_ids import PromptIds, Run
from runtime.protocol import ContextMeasured, GenerationRequest
from runtime.reasoning import joined, separated
from runtime.reasoning_marks import Marks, all_marks, families_of, opened_by
from runtime.render import Rendered, TemplateRenderer
from runtime.text import _, ngettext
from runtime.trimming import held_by_pins, leading, left_out, possible_cuts

if TYPE_CHECKING:
    from runtime.tokenizer import Tokenizer

_SINKS = 4  # first tokens that models need to keep seeing: Xiao et al., "Efficient streaming language models", 2023
_UNLIKE = ("a", "0")  # two messages that begin with different tokens
_ANSWER_SHARE = 4  # a quarter of the context is kept free for the answer, unless the answer is limited to less
_LONG = 1 << 20  # characters from which on it is worth asking whether a text can fit at all
_CERTAINLY = 2  # messages with so many times more tokens than there is room for do not fit, whatever a template does


@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids, the positions of messages that were left out, and what to tell the person.

    `keep` is how many tokens at the beginning stay when the context shifts: the system prompt. `lead` is the text
    between the last mark and the answer, and `continued` the ids of the answer so far, where they are known.
    `template` is the source of the chat template that wrote it, `families` the marks of reasoning that the model knows,
    `inside` those that the prompt has opened, and `named` the control tokens that are part of such marks. The first
    `source` ids are what an encoder reads.
    """

    ids: list[int]
    dropped: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    keep: int = 0
    lead: str = ""
    continued: tuple[int, ...] = ()
    template: str = ""
    families: tuple[Marks, ...] = ()
    inside: Marks | None = None
    named: tuple[int, ...] = ()
    source: int = 0


class PromptTooLong(UserError):
    """The prompt alone fills the context."""

    code = "prompt_too_long"

    def __init__(self, tokens: int, context_length: int, *, at_least: bool = False) -> None:
        words = _("The message is too long: {tokens} tokens, and the context holds {limit}.")
        if at_least:
            words = _("The message is too long: at least {tokens} tokens, and the context holds {limit}.")
        super().__init__(
            words.format(tokens=f"{tokens:,}", limit=f"{context_length:,}"),
            _("Earlier turns can be left out, but not the last message and the system prompt."),
            _("Shorten the message, or raise the context length in the settings and load the model again."),
        )


class PinnedTooLong(UserError):
    """Without its pinned messages the conversation would fit."""

    code = "pinned_too_long"

    def __init__(self, tokens: int, context_length: int) -> None:
        over = tokens - context_length + 1
        super().__init__(
            ngettext("The pinned messages no longer fit: {over} token too many.",
                     "The pinned messages no longer fit: {over} tokens too many.", over).format(over=f"{over:,}"),
            _("With the system prompt and the last message they take {tokens} tokens, and the context holds {limit}. "
              "Pinned messages stay, each with its question and answer.").format(
                tokens=f"{tokens:,}", limit=f"{context_length:,}"
            ),
            _("Unpin some of them, or raise the context length in the settings and load the model again."),
        )  # fmt: skip


class NothingMayBeLeftOut(UserError):
    """The conversation no longer fits, and the setting forbids leaving turns out."""

    code = "nothing_may_be_left_out"

    def __init__(self, tokens: int, context_length: int) -> None:
        super().__init__(
            _("The conversation no longer fits: {tokens} tokens, and the context holds {limit}.").format(
                tokens=f"{tokens:,}", limit=f"{context_length:,}"
            ),
            _("The setting “When the context is full” says that nothing may be left out."),
            _("Start a new chat, change that setting, or raise the context length and load the model again."),
        )


class NothingToContinue(UserError):
    """An empty prompt on a model without a begin mark."""

    code = "nothing_to_continue"

    def __init__(self) -> None:
        super().__init__(_("There is nothing to continue."), _("The prompt is empty."), _("Write how the text begins."))


class PromptBuilder:
    """Builds prompts for one model. Safe to use from several threads.

    An answer that is among `known` is read as the tokens that the model drew, wherever the prompt holds it verbatim.
    """

    def __init__(
        self, vocabulary: Tokenizer, known: KnownAnswers, *, templates: Mapping[str, str], context_length: int
    ) -> None:
        """`templates` are the model's own, by their names."""
        self._vocabulary = vocabulary
        self._known_answers = known
        self._tokens = PromptIds(vocabulary, known)
        self._context_length = context_length
        self._formats = ChatFormats(dict(templates), vocabulary.is_token)
        self._families: dict[str, tuple[Marks, ...]] = {}  # by the template's source
        self._last_cut: tuple[Message, ...] = ()
        self._renderer = TemplateRenderer()
        self._asking = threading.local()  # what says, in this thread, that its prompt is no longer wanted
        if templates:
            self._renderer.warm_up()

    def build(self, request: GenerationRequest, is_stopped: Callable[[], bool] | None = None) -> Prompt:
        """Returns the prompt for a request.

        Raises `PromptTooLong`, `PinnedTooLong`, `NothingMayBeLeftOut`, `NothingToContinue`, `UnknownToken`, what the
        chat template raises, and `Stopped` where `is_stopped` says so while the template is at work.
        """
        self._asking.is_stopped = is_stopped
        try:
            return self._build(request)
        finally:
            self._asking.is_stopped = None

    def _build(self, request: GenerationRequest) -> Prompt:
        if request.prompt_ids:
            return self._checked(Prompt(self._vocabulary.checked(request.prompt_ids), keep=_SINKS))
        self._require_possible_length(request)
        if request.prompt is not None:
            return self._checked(self._text(request))
        if not request.messages:
            raise NothingToContinue
        request = msgspec.structs.replace(request, messages=tuple(map(separated, request.messages)))
        policy = request.sampling.context_policy
        if policy == "stop":
            return self._whole(request)
        prompt = self._rolling(request) if policy == "shift" else self._conversation(request)
        return self._checked(prompt, request)

    def count(self, messages: tuple[Message, ...], sampling: SamplingParams) -> int:
        """Returns the length in tokens of the whole conversation, nothing left out."""
        turns = tuple(map(separated, messages))
        return len(self._tokens.ids(self._render(turns, self._formats.chosen(sampling)), turns)) if turns else 0

    def measure(self, request: GenerationRequest, reusable: Callable[[Sequence[int]], int]) -> ContextMeasured:
        """Returns what a request would take of the context, and what its policy leaves out; nothing is changed by it.

        `reusable` says how many tokens of a prompt the engine has read already. Raises what the chat template raises.
        """
        if not request.messages:
            return ContextMeasured(id=0, context_length=self._context_length, reserve=self._answer_room(request))
        turns = tuple(map(separated, request.messages))
        request = msgspec.structs.replace(request, messages=turns, continue_last=False)
        leaves_out = request.sampling.context_policy != "stop"
        if not leaves_out and not self._may_fit(request, 0, self._context_length):
            return self._far_too_long(request)
        prompt = self._fitted(request) if leaves_out else self._cut(request, 0)
        kept = tuple(turns[at] for at in kept_of(turns, prompt.dropped))
        runs = self._tokens.runs(self._render(kept, self._formats.chosen(request.sampling)), kept)
        found = measured(
            request, runs, prompt.dropped, cached=reusable(prompt.ids), length_of=self._tokens.length,
            context_length=self._context_length, reserve=self._answer_room(request),
        )  # fmt: skip
        return msgspec.structs.replace(found, error=self._refusal(prompt, request))

    def _far_too_long(self, request: GenerationRequest) -> ContextMeasured:
        """Returns the measures of a conversation of which nothing may be left out, without what its template adds."""
        runs = [Run(at, self._tokens.length(turn.content)) for at, turn in enumerate(request.messages)]
        found = measured(
            request, runs, (), cached=0, length_of=self._tokens.length, context_length=self._context_length,
            reserve=self._answer_room(request),
        )  # fmt: skip
        return msgspec.structs.replace(found, error=NothingMayBeLeftOut(found.total, self._context_length).info)

    def _refusal(self, prompt: Prompt, request: GenerationRequest) -> ErrorInfo | None:
        try:
            if request.sampling.context_policy == "stop":
                self._require_room_for_all(prompt)
            self._checked(prompt, request)
        except UserError as error:
            return error.info
        return None

    def close(self) -> None:
        self._renderer.close()

    def _checked(self, prompt: Prompt, request: GenerationRequest | None = None) -> Prompt:
        if not prompt.ids:
            raise NothingToContinue
        if len(prompt.ids) < self._context_length:
            return prompt
        if request is not None and request.pinned:
            free = self._cut(msgspec.structs.replace(request, pinned=()), possible_cuts(request.messages)[-1])
            if len(free.ids) < self._context_length:
                raise PinnedTooLong(len(prompt.ids), self._context_length)
        raise PromptTooLong(len(prompt.ids), self._context_length)

    def _require_possible_length(self, request: GenerationRequest) -> None:
        """Raises `PromptTooLong` for megabytes that can never fit: tokenizing them takes minutes and gigabytes.

        Every token stands for so many bytes at most, but some vocabularies leave out white space.
        """
        last = request.messages[-1].content if request.messages else ""
        text = last if request.prompt is None else request.prompt
        if len(text) < _LONG or request.only_end or request.continue_last:
            return
        least = sum(len(word.encode("utf-8", "replace")) for word in text.split()) // self._longest_token
        if least >= self._context_length:
            raise PromptTooLong(least, self._context_length, at_least=True)

    @cached_property
    def _longest_token(self) -> int:
        """The most bytes that a token of this model stands for."""
        return max(1, *(len(self._vocabulary.raw_piece(token)) for token in range(self._vocabulary.size)))

    def _raw(self, text: str) -> list[int]:
        return self._vocabulary.tokenize(text, special=True, add_bos=True)

    def _text(self, request: GenerationRequest) -> Prompt:
        """Returns a raw prompt; with `only_end`, its beginning is left out where it would leave no room to go on.

        What is left out grows by half a context at a time: else every further word would have all of it read again.
        """
        ids = self._raw(request.prompt or "")
        excess = len(ids) - (self._context_length - self._answer_room(request))
        if not request.only_end or excess <= 0:
            return Prompt(ids, keep=_SINKS)
        begin, half = len(self._raw("")), max(self._context_length // 2, 1)
        left_out = -(-excess // half) * half
        note = _("The text is longer than the context, so only its last part was read.")
        return Prompt([*ids[:begin], *ids[begin + left_out :]], notes=(note,), keep=_SINKS)

    # --- conversations ------------------------------------------------------------------------------------------

    def _conversation(self, request: GenerationRequest) -> Prompt:
        """Returns the conversation, without its oldest turns where it would not leave room for an answer.

        The same turns stay out as long as that fits: otherwise every further message would have the whole conversation
        read again.
        """
        prompt = self._fitted(request)
        self._last_cut = request.messages[: max(prompt.dropped, default=-1) + 1]
        return prompt

    def _fitted(self, request: GenerationRequest) -> Prompt:
        """Returns the conversation cut as before, or where that no longer fits, to about half of the context."""
        turns = request.messages
        room = self._context_length - self._answer_room(request)
        cuts = possible_cuts(turns)
        earlier = len(self._last_cut) if self._last_cut and turns[: len(self._last_cut)] == self._last_cut else 0
        before = earlier if earlier in cuts else 0
        if self._may_fit(request, before, room) and len((whole := self._cut(request, before)).ids) <= room:
            return whole
        half = self._context_length // 2
        fitting = self._first_fitting(request, cuts, half)
        if half < len(fitting.ids) < room:  # what has to stay takes so much that the rest is shared anew
            fitting = self._first_fitting(request, cuts, (len(fitting.ids) + room) // 2)
        return fitting

    def _may_fit(self, request: GenerationRequest, upto: int, room: int) -> bool:
        """Whether it is worth rendering a prompt to see if it has at most `room` tokens: templates take their time."""
        gone = frozenset(left_out(request.messages, upto, held_by_pins(request.messages, request.pinned)))
        kept = (turn for at, turn in enumerate(request.messages) if at not in gone)
        tokens = 0
        return all((tokens := tokens + self._tokens.length(turn.content)) <= _CERTAINLY * room for turn in kept)

    def _whole(self, request: GenerationRequest) -> Prompt:
        prompt = self._cut(request, 0)
        self._require_room_for_all(prompt)
        return prompt

    def _require_room_for_all(self, prompt: Prompt) -> None:
        if len(prompt.ids) >= self._context_length:
            raise NothingMayBeLeftOut(len(prompt.ids), self._context_length)

    def _rolling(self, request: GenerationRequest) -> Prompt:
        """Returns a conversation whose answer may shift the context; a cut answer that fills it continues its end."""
        prompt = self._conversation(request)
        prompt = replace(prompt, keep=self._beginning(request, prompt))
        end = (self._context_length - prompt.keep) // 2
        if not request.continue_last or len(prompt.ids) < self._context_length or end < 1:
            return prompt
        note = _("The answer is longer than the context, so only its last part was read again.")
        return replace(prompt, ids=prompt.ids[: prompt.keep] + prompt.ids[-end:], notes=(*prompt.notes, note))

    def _beginning(self, request: GenerationRequest, prompt: Prompt) -> int:
        """Returns how many tokens stay when the context rolls on: the system prompt, and pinned turns behind it.

        So many have two conversations in common that only have these in common.
        """
        turns, held = request.messages, held_by_pins(request.messages, request.pinned)
        stays = frozenset(leading(turns, kept_of(turns, prompt.dropped), held))
        head = tuple(turn for at, turn in enumerate(turns) if at in stays or turn.role is Role.SYSTEM)
        chosen = self._formats.chosen(request.sampling)
        asked = ((*head, Message(Role.USER, text)) for text in _UNLIKE)
        first, second = (self._tokens.ids(self._render(turns, chosen), turns) for turns in asked)
        return max(common_prefix(first, second), _SINKS)

    def _first_fitting(self, request: GenerationRequest, cuts: list[int], room: int) -> Prompt:
        """Returns the prompt with the fewest turns left out that has at most `room` tokens, or the shortest."""
        low, high = 0, len(cuts) - 1
        while low < high:
            middle = (low + high) // 2
            if self._may_fit(request, cuts[middle], room) and len(self._cut(request, cuts[middle]).ids) <= room:
                high = middle
            else:
                low = middle + 1
        return self._cut(request, cuts[low])

    def _cut(self, request: GenerationRequest, upto: int) -> Prompt:
        """Returns the prompt without the messages before position `upto`, system prompts and pinned ones apart."""
        dropped = left_out(request.messages, upto, held_by_pins(request.messages, request.pinned))
        gone = frozenset(dropped)
        kept = tuple(turn for at, turn in enumerate(request.messages) if at not in gone)
        chosen = self._formats.chosen(request.sampling)
        if request.continue_last and kept[-1].reasoning and len(kept) > 1 and chosen.source:
            return replace(self._thinking_on(kept, chosen), dropped=dropped)
        rendered = self._render(kept, chosen, continue_last=request.continue_last)
        ids = self._tokens.ids(rendered, kept)
        prompt = self._marked(Prompt(ids, dropped, (*chosen.notes, *rendered.notes)), chosen)
        if not request.continue_last:
            behind = _behind_messages(rendered.text, kept)
            lead = min(_lead(rendered), behind, key=len)  # where no mark comes behind the last message, its end counts
            return replace(prompt, lead=lead, inside=opened_by(behind, prompt.families))
        answer = self._known_answers.find(kept[-1].content)
        if answer is None or prompt.ids[-len(answer.ids) :] != list(answer.ids):
            return prompt
        return replace(prompt, lead=answer.lead, continued=answer.ids)

    def _thinking_on(self, turns: tuple[Message, ...], chosen: ChatFormat) -> Prompt:
        """Returns the prompt for going on with an answer that thought first: as it was asked, and what it wrote.

        A template would write such an answer as one that is complete, or leave out what was thought.
        """
        rendered = self._render(turns[:-1], chosen)
        prompt = Prompt(self._tokens.ids(rendered, turns), (), (*chosen.notes, *rendered.notes), lead=_lead(rendered))
        prompt = self._marked(prompt, chosen)
        opened = opened_by(_behind_messages(rendered.text, turns[:-1]), prompt.families)
        marks = opened or next(iter(prompt.families), None)
        inside = marks if not turns[-1].content else None
        answer = self._known_answers.find(joined(turns[-1]))
        if answer is not None and answer.ids:
            return replace(prompt, ids=[*prompt.ids, *answer.ids], continued=answer.ids, inside=inside)
        written = self._thoughts(turns[-1], marks, opened=opened is not None)
        return replace(prompt, ids=[*prompt.ids, *written], inside=inside)

    def _thoughts(self, turn: Message, marks: Marks | None, *, opened: bool) -> list[int]:
        """Returns the ids of reasoning and answer between the model's own marks, or of the answer without any."""
        tokenize = self._vocabulary.tokenize
        if marks is None:
            return tokenize(turn.content or turn.reasoning)
        ids = [] if opened else tokenize(marks.open.rstrip("\n") + "\n", special=True)
        ids += tokenize(turn.reasoning)
        if turn.content:
            ids += tokenize("\n" + marks.close + "\n\n", special=True) + tokenize(turn.content)
        return ids

    def _marked(self, prompt: Prompt, chosen: ChatFormat) -> Prompt:
        """Returns the prompt with its template and the marks that its model knows; a raw text has neither."""
        template = chosen.source
        if not template:
            return prompt
        families = self._families.get(template)
        if families is None:
            families = self._families[template] = families_of(template, self._vocabulary.is_token)
        marks = all_marks(families)
        named = [token for text, token in self._vocabulary.control_tokens.items() if families and text in marks]
        return replace(prompt, template=template, families=families, named=tuple(named))

    def _answer_room(self, request: GenerationRequest) -> int:
        share = self._context_length // _ANSWER_SHARE
        return min(share, request.sampling.max_tokens) if request.sampling.max_tokens > 0 else share

    def _render(
        self, messages: tuple[Message, ...], chosen: ChatFormat, *, continue_last: bool = False
    ) -> Rendered:  # fmt: skip
        if not chosen.source:
            return self._without_marks(messages)
        return self._renderer.render(
            chosen.source,
            messages,
            bos=self._vocabulary.bos_text,
            eos=self._vocabulary.eos_text,
            control_texts=self._vocabulary.control_tokens,
            add_generation_prompt=not continue_last,
            continue_last=continue_last,
            variables=chosen.variables,
            is_stopped=getattr(self._asking, "is_stopped", None),
        )

    def _without_marks(self, messages: tuple[Message, ...]) -> Rendered:
        """Returns a conversation as one text: answers go on what was said, and what is said next is a new paragraph."""
        text = ""
        for turn in messages:
            apart = text and turn.role is not Role.ASSISTANT
            text += f"\n\n{turn.content}" if apart else turn.content
        begin = self._vocabulary.bos_text if self._vocabulary.adds_bos else ""
        marks = (Segment(begin, control=True),) if begin else ()
        return Rendered(begin + text, (), (*marks, Segment(text)), guarded=True)


def _lead(rendered: Rendered) -> str:
    """Returns what stands behind the last mark of a prompt."""
    last = rendered.segments[-1:]
    return last[0].text if last and not last[0].control else ""


def _behind_messages(text: str, turns: tuple[Message, ...]) -> str:
    """Returns what a rendered prompt holds behind the last message."""
    at = 0
    for turn in turns:
        content = turn.content.strip()
        found = text.find(content, at)
        at = found + len(content) if found >= 0 else at
    return text[at:]
