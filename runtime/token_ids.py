"""Token ids that came from outside. Knows no vocabulary."""

from __future__ import annotations

from runtime.errors import UserError
from runtime.text import _


class UnknownToken(UserError):
    """A token id that the vocabulary does not have."""

    code = "unknown_token"

    def __init__(self, token: int, size: int) -> None:
        super().__init__(
            _("The token {token} does not exist.").format(token=token),
            _("This model's vocabulary has the tokens 0 to {last}.").format(last=size - 1),
            _("Check the ids, or that the model is the one they were made for."),
        )
