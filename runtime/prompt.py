"""From a request to the token ids that the model reads, cut to fit the context. Evaluates nothing.

What a person writes in a message never becomes a control token: only the template's own marks do. A prompt made by a
template holds exactly what the template says, so a begin mark is never added to it; a raw prompt gets the model's own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from runtime.chat_formats import ChatFormat, ChatFormats
from runtime.control_text import Segment
from runtime.errors import UserError
from runtime.evaluation import common_prefix
from runtime.known_answers import Answer, KnownAnswers
from runtime.messages import Message, Role
from runtime.params import SamplingParams
from runtime.protocol import GenerationRequest
from runtime.reasoning import joined, separated
from runtime.reasoning_marks import Marks, all_marks, families_of, opened_by
from runtime.render import Rendered, TemplateRenderer
from runtime.text import _

if TYPE_CHECKING:
    from runtime.tokenizer import Tokenizer

_SINKS = 4  # first tokens that models need to keep seeing: Xiao et al., "Efficient streaming language models", 2023
_UNLIKE = ("a", "0")  # two messages that begin with different tokens
_BOUNDARY = 16  # characters behind an answer that show how the rest is tokenized
_WHITE_SPACE = " \t\n\v\f\r"  # what C's isspace() takes for it
_ANSWER_SHARE = 4  # a quarter of the context is kept free for the answer, unless the answer is limited to less


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

    def __init__(self, tokens: int, context_length: int) -> None:
        super().__init__(
            _("The message is too long: {tokens} tokens, and the context holds {limit}.").format(
                tokens=f"{tokens:,}", limit=f"{context_length:,}"
            ),
            _("Earlier turns can be left out, but not the last message and the system prompt."),
            _("Shorten the message, or raise the context length in the settings and load the model again."),
        )


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

        Raises `PromptTooLong`, `NothingMayBeLeftOut`, `NothingToContinue`, `UnknownToken`, what the chat template
        raises, and `Stopped` where `is_stopped` says so while the template is at work.
        """
        self._asking.is_stopped = is_stopped
        try:
            return self._build(request)
        finally:
            self._asking.is_stopped = None

    def _build(self, request: GenerationRequest) -> Prompt:
        if request.prompt_ids:
            return self._checked(Prompt(self._vocabulary.checked(request.prompt_ids), keep=_SINKS))
        if request.prompt is not None:
            return self._checked(self._text(request))
        if not request.messages:
            raise NothingToContinue
        request = msgspec.structs.replace(request, messages=tuple(map(separated, request.messages)))
        policy = request.sampling.context_policy
        if policy == "stop":
            return self._whole(request)
        return self._checked(self._rolling(request) if policy == "shift" else self._conversation(request))

    def count(self, messages: tuple[Message, ...], sampling: SamplingParams) -> int:
        """Returns the length in tokens of the whole conversation, nothing left out."""
        turns = tuple(map(separated, messages))
        return len(self._ids(self._render(turns, self._formats.chosen(sampling)), turns)) if turns else 0

    def close(self) -> None:
        self._renderer.close()

    def _checked(self, prompt: Prompt) -> Prompt:
        if not prompt.ids:
            raise NothingToContinue
        if len(prompt.ids) >= self._context_length:
            raise PromptTooLong(len(prompt.ids), self._context_length)
        return prompt

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

        Much is left out at once (half of the context stays), and the same turns stay out as long as that fits:
        otherwise every further message would have the whole conversation read again.
        """
        turns = request.messages
        room = self._context_length - self._answer_room(request)
        cuts = _possible_cuts(turns)
        earlier = len(self._last_cut) if self._last_cut and turns[: len(self._last_cut)] == self._last_cut else 0
        whole = self._cut(request, earlier if earlier in cuts else 0)
        if len(whole.ids) <= room:
            return whole
        fitting = self._first_fitting(request, cuts, self._context_length // 2)
        if len(fitting.ids) > room:
            fitting = self._first_fitting(request, cuts, room)
        self._last_cut = turns[: max(fitting.dropped, default=-1) + 1]
        return fitting

    def _whole(self, request: GenerationRequest) -> Prompt:
        prompt = self._cut(request, 0)
        if len(prompt.ids) >= self._context_length:
            raise NothingMayBeLeftOut(len(prompt.ids), self._context_length)
        return prompt

    def _rolling(self, request: GenerationRequest) -> Prompt:
        """Returns a conversation whose answer may shift the context; a cut answer that fills it continues its end."""
        prompt = replace(self._conversation(request), keep=self._beginning(request))
        if not request.continue_last or len(prompt.ids) < self._context_length:
            return prompt
        end = (self._context_length - prompt.keep) // 2
        note = _("The answer is longer than the context, so only its last part was read again.")
        return replace(prompt, ids=prompt.ids[: prompt.keep] + prompt.ids[-end:], notes=(*prompt.notes, note))

    def _beginning(self, request: GenerationRequest) -> int:
        """Returns how many tokens two conversations have in common that only have the system prompt in common."""
        system = tuple(turn for turn in request.messages if turn.role is Role.SYSTEM)
        chosen = self._formats.chosen(request.sampling)
        first, second = (self._ids(self._render((*system, Message(Role.USER, text)), chosen), ()) for text in _UNLIKE)
        return max(common_prefix(first, second), _SINKS)

    def _first_fitting(self, request: GenerationRequest, cuts: list[int], room: int) -> Prompt:
        """Returns the prompt with the fewest turns left out that has at most `room` tokens, or the shortest."""
        low, high = 0, len(cuts) - 1
        while low < high:
            middle = (low + high) // 2
            if len(self._cut(request, cuts[middle]).ids) <= room:
                high = middle
            else:
                low = middle + 1
        return self._cut(request, cuts[low])

    def _cut(self, request: GenerationRequest, upto: int) -> Prompt:
        """Returns the prompt without the messages before position `upto`, system prompts apart."""
        dropped = tuple(at for at, turn in enumerate(request.messages[:upto]) if turn.role is not Role.SYSTEM)
        kept = tuple(turn for at, turn in enumerate(request.messages) if at not in dropped)
        chosen = self._formats.chosen(request.sampling)
        if request.continue_last and kept[-1].reasoning and len(kept) > 1 and chosen.source:
            return replace(self._thinking_on(kept, chosen), dropped=dropped)
        rendered = self._render(kept, chosen, continue_last=request.continue_last)
        prompt = self._marked(Prompt(self._ids(rendered, kept), dropped, (*chosen.notes, *rendered.notes)), chosen)
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
        prompt = Prompt(self._ids(rendered, turns), (), (*chosen.notes, *rendered.notes), lead=_lead(rendered))
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

    def _ids(self, rendered: Rendered, turns: tuple[Message, ...]) -> list[int]:
        """Returns the ids of a rendered conversation of `turns`."""
        segments = rendered.segments if rendered.guarded else (Segment(rendered.text),)
        answers = self._answers_in(rendered.text, turns)
        ids: list[int] = []
        at = 0
        for segment in segments:
            control = self._vocabulary.control_tokens.get(segment.text) if segment.control else None
            inside = [(start - at, answer) for start, answer in answers if at <= start < at + len(segment.text)]
            at += len(segment.text)
            if control is not None:
                ids.append(control)
                continue
            taken = self._taken_in(ids, segment.text[: min((start for start, _ in inside), default=None)])
            inside = [(start - taken, answer) for start, answer in inside]
            ids += self._segment_ids(segment.text[taken:], inside, rendered.guarded)
        return ids

    def _taken_in(self, ids: list[int], text: str) -> int:
        """Returns how much of the white space that begins `text` belongs to the mark before it, as in Phi-3."""
        if not ids or not self._vocabulary.takes_space(ids[-1]):
            return 0
        return len(text) - len(text.lstrip(_WHITE_SPACE))

    def _answers_in(self, text: str, turns: tuple[Message, ...]) -> list[tuple[int, Answer]]:
        """Returns where known answers begin in a rendered conversation."""
        found, at = [], 0
        for turn in turns:
            answer = self._known_answers.find(turn.content) if turn.role is Role.ASSISTANT else None
            before = len(answer.lead) if answer is not None else 0
            start = text.find(answer.lead + answer.text if answer is not None else turn.content, at)
            if start >= 0:
                at = start + before + len(turn.content)
            if start >= 0 and answer is not None:
                found.append((start + before, answer))
        return found

    def _segment_ids(self, text: str, answers: list[tuple[int, Answer]], guarded: bool) -> list[int]:
        """Returns the ids of a piece of the prompt that holds `answers` at these places."""
        ids: list[int] = []
        done = 0
        for start, answer in answers:
            rest = text[start + len(answer.text) :]
            if start < done or not text.startswith(answer.text, start) or not self._can_begin(rest):
                continue
            ids += self._vocabulary.tokenize(text[done:start], special=not guarded)
            ids += answer.ids
            done = start + len(answer.text)
        return ids + (self._vocabulary.tokenize(text[done:], special=not guarded) if done < len(text) else [])

    def _can_begin(self, text: str) -> bool:
        """Whether this text is tokenized alone as it would be behind an answer: some tokenizers add a space to it."""
        if not text or text.startswith(self._control_texts):
            return True
        first = text[:_BOUNDARY]
        pieces = map(self._vocabulary.raw_piece, self._vocabulary.tokenize(first))
        return b"".join(pieces) == first.encode("utf-8", "replace")

    @cached_property
    def _control_texts(self) -> tuple[str, ...]:
        return tuple(self._vocabulary.control_tokens)


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


def _possible_cuts(turns: tuple[Message, ...]) -> list[int]:
    """Returns where a conversation may begin: at its start, or at any message of the person, the last one included."""
    return [0, *(at for at, turn in enumerate(turns) if at and turn.role is Role.USER)]
