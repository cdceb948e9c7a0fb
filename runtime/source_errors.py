"""What can go wrong with models that turn a source text into a target, such as T5. Knows no engine."""

from __future__ import annotations

from runtime.errors import UserError
from runtime.text import _


def why_no_state() -> str:
    """Returns a sentence."""
    return _("A model that reads a source keeps no state of it: it reads the source again, in one go.")


class HoldsNoConversation(UserError):
    """A conversation was sent to a model that turns one text into another."""

    code = "holds_no_conversation"

    def __init__(self) -> None:
        super().__init__(
            _("This model holds no conversation."),
            _("It reads a source text and writes another one: a translation, a summary, an answer to one question."),
            _("Use “quern complete”: its text is the source, and what it prints is the target."),
        )


class NoSource(UserError):
    """An empty source."""

    code = "no_source"

    def __init__(self) -> None:
        super().__init__(_("There is nothing to read."), _("The source text is empty."), _("Write the source text."))


class SourceTooLong(UserError):
    """The source has more tokens than the encoder reads at once."""

    code = "source_too_long"

    def __init__(self, tokens: int, limit: int) -> None:
        super().__init__(
            _("The source text is too long: {tokens} tokens, and the model reads {limit} at once.").format(
                tokens=f"{tokens:,}", limit=f"{limit:,}"
            ),
            _("An encoder reads its source as a whole, so nothing of it can be left out."),
            _("Split the text, or raise the context length and load the model again."),
        )


class NoScoreWithoutSource(UserError):
    """A plain text was to be scored by a model whose target depends on a source."""

    code = "no_score_without_source"

    def __init__(self) -> None:
        super().__init__(
            _("This model cannot score a text."),
            _("It finds a target more or less likely given a source; a text by itself has no probability for it."),
            _("Choose a model that continues texts."),
        )
