"""Beam search as a person asks for it: its settings, and where it cannot be done. Knows no engine."""

from __future__ import annotations

from typing import Annotated, Literal

from runtime.errors import UserError
from runtime.settings import Setting, SettingsGroup
from runtime.text import N_, _

EarlyStopping = Literal["true", "false", "never"]


class BeamParams(SettingsGroup, frozen=True):
    """How a beam search runs; the person does not choose `n_best` and `max_tokens` here.

    `early_stopping`, once `beams` texts are finished: "true" stops; "false" stops where the best running text, were it
    finished now, is no better than the worst finished one; "never" stops only where no running text can become better.
    """

    beams: Annotated[
        int,
        Setting(
            title=N_("Beams"),
            help=N_("Keeps so many of the likeliest beginnings, and writes the likeliest text of all; nothing is drawn "
                    "by chance. Only Quern's own engine does it."),
            section=N_("Beam search"), minimum=1, maximum=64, special={1: N_("off")},
        ),
    ] = 1
    length_penalty: Annotated[
        float,
        Setting(
            title=N_("Length penalty"),
            help=N_("A text's log-probability is divided by its length to the power of this: above 0 favours long "
                    "texts, below 0 short ones."),
            section=N_("Beam search"), minimum=-10.0, maximum=10.0, step=0.1,
        ),
    ] = 1.0
    early_stopping: Annotated[
        EarlyStopping,
        Setting(
            title=N_("Early stopping"),
            help=N_("When a beam search ends, once as many texts as beams are finished: true at once, false where no "
                    "better one is in sight, never only where none is possible."),
            section=N_("Beam search"),
        ),
    ] = "false"
    n_best: int = 1
    max_tokens: int = 256

    @classmethod
    def title(cls) -> str:
        return _("Sampling")


class NoBeamSearch(UserError):
    """A beam search was asked of an engine that has none."""

    code = "no_beam_search"

    def __init__(self) -> None:
        super().__init__(
            _("This engine has no beam search."),
            _("llama.cpp draws one text; several beams need Quern's own engine."),
            _("Choose it with --engine native, or leave --beams out."),
        )


class BeamsAreFree(UserError):
    """A beam search that is held to a form, or is to be looked into token by token."""

    code = "beams_are_free"

    def __init__(self, setting: str) -> None:
        super().__init__(
            _("A beam search cannot be combined with “{setting}”.").format(setting=setting),
            _("It follows several texts at once, and that setting belongs to one."),
            _("Leave one of the two out."),
        )
