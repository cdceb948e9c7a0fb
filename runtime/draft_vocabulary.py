"""Says whether a draft model numbers its tokens as the model does that it guesses for. Knows no engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.errors import UserError
from runtime.text import _

if TYPE_CHECKING:
    from runtime.tokenizer import Tokenizer

SIZES_DIFFER = 128  # tokens; families pad their vocabularies differently (the same tolerance as llama.cpp's)
FIRST_COMPARED = 5  # the first few are marks, which relatives name differently


class DraftVocabularyDiffers(UserError):
    """A draft model that writes other tokens."""

    code = "draft_vocabulary"

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            _("“{name}” cannot be the draft model here.").format(name=name),
            reason,
            _("Choose a smaller model of the same family, or let the text itself be the draft (n-grams)."),
        )


def difference(ours: Tokenizer, draft: Tokenizer) -> str:
    """Returns in what the vocabularies differ, a sentence; "" where they number the same tokens alike."""
    if ours.tokenize("", add_bos=True) != draft.tokenize("", add_bos=True):
        return _("It begins or ends a text with another token.")
    return size_difference(ours.size, draft.size) or _token_difference(ours, draft)


def size_difference(ours: int, draft: int) -> str:
    """Returns a sentence where two vocabularies' sizes are those of different families."""
    if abs(ours - draft) <= SIZES_DIFFER:
        return ""
    return _("It has {theirs} tokens, the model has {ours}.").format(theirs=f"{draft:,}", ours=f"{ours:,}")


def _token_difference(ours: Tokenizer, draft: Tokenizer) -> str:
    for token in range(FIRST_COMPARED, min(ours.size, draft.size)):
        if ours.raw_piece(token) != draft.raw_piece(token):
            return token_difference(token, ours.label(token), draft.label(token))
    return ""


def token_difference(token: int, ours: str, draft: str) -> str:
    """Returns the sentence about a token that means different things."""
    words = _("Its token {token} is “{theirs}”, the model's is “{ours}”.")
    return words.format(token=token, theirs=draft, ours=ours)
