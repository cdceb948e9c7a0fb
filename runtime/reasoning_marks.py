"""The marks between which families of models think before they answer. Knows no stream and no model.

The table follows the families' own chat templates. A family counts for a model only where its template, or its
vocabulary, shows that it knows these marks: elsewhere they are text like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Marks:
    """What begins and ends a family's reasoning; `silent` marks stand in its answers and mean nothing to people.

    `evidence` is what a template of this family contains; the opening mark where nothing else is said.
    """

    open: str
    close: str
    silent: tuple[str, ...] = ()
    evidence: str = ""

    def is_known_to(self, template: str, is_token: Callable[[str], bool]) -> bool:
        """Whether a template or a vocabulary, asked whether a text is one of its tokens, has these marks."""
        if self.evidence:
            return self.evidence in template
        return self.open in template or self.close in template or (is_token(self.open) and is_token(self.close))


FAMILIES = (
    Marks("<think>", "</think>"),  # DeepSeek, Qwen, GLM, MiniMax, Nemotron, SmolLM3 and many more
    Marks("<think>", "</think>", silent=("<response>", "</response>"), evidence="<response></response>"),  # Granite 3.3
    Marks("[THINK]", "[/THINK]"),  # Mistral
    Marks("<seed:think>", "</seed:think>"),
    Marks("<mm:think>", "</mm:think>"),  # MiniMax M3
    Marks("<thinking>", "</thinking>", evidence="'<thinking>'"),  # Apriel 1.5
    Marks(  # Apriel 1.6
        "Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]", silent=("[END FINAL RESPONSE]",),
        evidence="[BEGIN FINAL RESPONSE]",
    ),
    Marks("<|START_THINKING|>", "<|END_THINKING|>", silent=("<|START_RESPONSE|>", "<|END_RESPONSE|>")),  # Command R7B
    Marks("<|inner_prefix|>", "<|inner_suffix|>"),  # Apertus
    Marks("◁think▷", "◁/think▷"),  # Kimi-VL
    Marks("<|channel>thought\n", "<channel|>", evidence="<|channel>thought"),  # Gemma 4
    Marks("<|think|>", "<|end|>", silent=("<|begin|>assistant", "<|content|>"), evidence="assistant<|think|>"),  # Solar
    Marks(  # gpt-oss
        "<|channel|>analysis<|message|>", "<|end|>", evidence="<|channel|>analysis",
        silent=("<|start|>assistant", "<|channel|>final<|message|>", "<|channel|>commentary<|message|>"),
    ),
)  # fmt: skip


def families_of(template: str, is_token: Callable[[str], bool]) -> tuple[Marks, ...]:
    """Returns the families that a model knows."""
    return tuple(marks for marks in FAMILIES if marks.is_known_to(template, is_token))


def opened_by(prompt: str, families: Iterable[Marks]) -> Marks | None:
    """Returns the family whose opening mark the end of a prompt has left open: the model begins by thinking.

    `prompt` is what follows the last message.
    """
    for marks in families:
        opened = prompt.rfind(marks.open.rstrip("\n"))
        if opened >= 0 and marks.close not in prompt[opened:]:
            return marks
    return None


def all_marks(families: Iterable[Marks]) -> str:
    """Returns every mark of the families in one text, to look for tokens in."""
    return "\0".join(text for marks in families for text in (marks.open, marks.close, *marks.silent))
