"""Errors that a person can act on. Knows nothing about how they are shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorInfo:
    """What the engine process sends of a `UserError`; the window and the command line show it.

    A dataclass, which `msgspec` reads and writes like its own structs: errors are known before the first paint, and
    msgspec need not be.
    """

    title: str
    message: str = ""
    hint: str = ""
    details: str = ""
    code: str = "error"


class UserError(Exception):
    """Something went wrong that a person can do something about: exit code 2, never a traceback.

    `title` says what happened in a sentence, `message` gives the cause with its numbers, `hint` says what to do
    next, `details` holds what only an expert reads, and `code` names the kind for programs.
    Subclasses live beside the code that raises them, set `code`, and build their sentences from their arguments.
    """

    code: ClassVar[str] = "error"

    def __init__(self, title: str, message: str = "", hint: str = "", *, details: str = "", code: str = "") -> None:
        super().__init__(title)
        self.info = ErrorInfo(title=title, message=message, hint=hint, details=details, code=code or self.code)

    @classmethod
    def from_info(cls, info: ErrorInfo) -> UserError:
        """Returns the error that another process reported."""
        return cls(info.title, info.message, info.hint, details=info.details, code=info.code)

    def __str__(self) -> str:
        return "\n".join(part for part in (self.info.title, self.info.message, self.info.hint) if part)
