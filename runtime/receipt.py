"""An answer's receipt: everything that made the answer, so that it can be made again and compared.

A receipt is a JSON object of some kilobytes. It names the model by content, the engine by build, and tells the
parameters, the seed, and the pieces in which tokens were evaluated since the cache was empty (`runtime.schedule`): with
a quantized model only the same pieces give the same text. The prompt is in it as token ids, the answer as ids and text.
Whoever reads a receipt from outside passes it through `read_receipt` and `Receipt.check`. Knows no engine.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from runtime.errors import UserError
from runtime.model_errors import why_unreadable
from runtime.params import LoadParams, SamplingParams
from runtime.places import shown_path
from runtime.schedule import LEAST_SHIFT, Schedule
from runtime.settings import Group, changed, field_of, layered
from runtime.small_files import opened
from runtime.text import N_, _

VERSION = 1
MAX_BYTES = 1 << 26
_MAX_OPERATIONS = 1 << 22
# Settings of loading that decide where weights lie or how fast it goes, and not what is computed.
_NO_MATTER = frozenset({
    "batch", "cpu_variant", "draft_min_p", "draft_model", "draft_tokens", "engine", "mlock", "mmap", "ngram_size",
    "speculation",
})  # fmt: skip

# What is told of a receipt that cannot be used, and of what is not as it was.
_DAMAGED = {
    "form": N_("It is not a receipt, or it is damaged."),
    "version": N_("It was made by a newer version of Quern."),
    "steps": N_("Its steps and its tokens do not add up."),
    "token": N_("It holds a token that the model does not have."),
    "context": N_("It tells of more tokens than its context holds."),
    "answer": N_("Its answer and its steps do not belong together."),
}
_OTHER = {
    "model": N_("The model’s file is not the one that wrote the answer."),
    "unidentified": N_("The receipt does not say which model wrote the answer."),
    "adapter": N_("The file of an adapter is not the one that the answer was written with."),
    "unidentified_adapters": N_("The receipt does not say what was in the adapters that wrote the answer."),
    "build": N_("The answer was written by another build of the engine: {then}. This one is {now}."),
    "load": N_("The model is loaded with other settings: {names}."),
}


class BadReceipt(UserError):
    """A receipt that no answer can have left."""

    code = "bad_receipt"

    def __init__(self, what: str, details: str = "") -> None:
        """`what` is a key of the table of reasons, "setting" for a setting out of bounds, which `details` names."""
        super().__init__(
            _("The receipt cannot be replayed."),
            details if what == "setting" else _(_DAMAGED[what]),
            _("Use the file as Quern wrote it."),
            details=details,
        )


class ReceiptUnreadable(UserError):
    """There is no file, or the system does not let it be read."""

    code = "receipt_unreadable"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(_("The receipt “{path}” cannot be read.").format(path=shown_path(path)), reason)


class ReplayRefused(UserError):
    """The answer was made under other conditions, so that the same text is not to be expected."""

    code = "replay_refused"

    def __init__(self, what: str, **numbers: str) -> None:
        super().__init__(
            _("The answer cannot be made again just so."),
            _(_OTHER[what]).format(**numbers),
            _("With --anyway it is tried all the same, and may come out differently."),
        )


class Receipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What made one answer.

    `ids` are the tokens drawn, without the one that ended it; `prompt` leads an empty cache to the first draw, `answer`
    from there to the last one. Where an answer was continued, `continued` are the ids it had and `written` its text.
    `load` and `sampling` hold what differs from the defaults. `model_sha256` has one entry for each of the model's
    files, and is empty as long as nobody has read them.
    """

    version: int = VERSION
    model_path: str = ""  # spelled by `runtime.places.spelled_path`
    model_name: str = ""
    model_sha256: tuple[str, ...] = ()
    adapters_sha256: tuple[tuple[str, ...], ...] = ()  # likewise, for each adapter in use
    engine: str
    build: str
    template_sha256: str = ""  # empty for raw completion
    load: dict[str, Any] = {}
    sampling: dict[str, Any] = {}
    seed: int
    prompt: Schedule
    answer: Schedule
    ids: tuple[int, ...]
    text: str
    reason: str
    stop_text: str = ""
    continued: tuple[int, ...] = ()
    written: str = ""
    named: tuple[int, ...] = ()  # control tokens that are marks of reasoning, and stand in `text` by their names
    ignore_end: bool = False
    alternatives: int = 0

    @property
    def load_params(self) -> LoadParams:
        """How the model was loaded, by the engine that wrote the answer. Raises `BadReceipt`."""
        engine = {"engine": self.engine} if self.engine in field_of(LoadParams, "engine").choices else {}
        return _group(LoadParams, engine | {name: said for name, said in self.load.items() if name not in _NO_MATTER})

    @property
    def sampling_params(self) -> SamplingParams:
        """How the answer was drawn, with the seed that was used. Raises `BadReceipt`."""
        return _group(SamplingParams, {**self.sampling, "seed": self.seed})

    def check(self, *, n_vocab: int, context_length: int) -> None:
        """Raises `BadReceipt` where the receipt asks for what no model of this size can have done."""
        _check_version_and_settings(self)
        tokens = (self.prompt.ids, self.answer.ids, self.ids, self.continued, self.named)
        if any(not 0 <= token < n_vocab for ids in tokens for token in ids):
            raise BadReceipt("token")
        _check_lengths(self.prompt, self.answer, context_length)
        self.prompt_ids()

    def prompt_ids(self) -> list[int]:
        """Returns the ids that the answer follows. Raises `BadReceipt`."""
        try:
            held = self.prompt.held()
            self.answer.held(held)
        except ValueError as error:
            raise BadReceipt("steps", str(error)) from error
        if not held:
            raise BadReceipt("steps")
        return held


def deciding(params: LoadParams) -> dict[str, Any]:
    """Returns the settings of loading that decide what is computed, where they differ from the defaults."""
    return {name: value for name, value in changed(params).items() if name not in _NO_MATTER}


def _check_version_and_settings(receipt: Receipt) -> None:
    if receipt.version > VERSION:
        raise BadReceipt("version")
    steps = (*receipt.prompt.steps, *receipt.answer.steps)
    if len(steps) + len(receipt.prompt.ids) + len(receipt.answer.ids) > _MAX_OPERATIONS:
        raise BadReceipt("steps")
    receipt.load_params.validated()
    receipt.sampling_params.validated()


def _check_lengths(prompt: Schedule, answer: Schedule, context_length: int) -> None:
    """Looks only at how many tokens there are on the way: what is followed after that cannot take for ever."""
    length = 0
    try:
        for operation in chain(prompt.operations(), answer.operations()):
            if operation.kind == "shift" and not length <= LEAST_SHIFT * operation.taken <= LEAST_SHIFT * length:
                raise BadReceipt("steps")
            if operation.kind == "cut" and operation.keep > length:
                raise BadReceipt("steps")
            length = operation.length_after(length)
            if length > context_length:
                raise BadReceipt("context")
    except ValueError as error:
        raise BadReceipt("steps", str(error)) from error


def _group(group: type[Group], values: dict[str, Any]) -> Group:
    try:
        return layered(group, values)
    except KeyError as error:
        raise BadReceipt("version", str(error)) from error
    except UserError as error:
        raise BadReceipt("setting", str(error)) from error


def read_receipt(path: Path) -> Receipt:
    """Reads a receipt from a file. Raises `ReceiptUnreadable` and `BadReceipt`."""
    try:
        with opened(path) as file:
            return parsed(file.read(MAX_BYTES + 1))
    except OSError as error:
        raise ReceiptUnreadable(path, _why(path, error)) from error


def _why(path: Path, error: OSError) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return _("Nothing is at {path}.").format(path=shown_path(path))
    if path.is_dir():
        return _("It is a folder, not a file.")
    return why_unreadable(error)


def parsed(data: bytes) -> Receipt:
    """Returns the receipt that was written as `data`. Raises `BadReceipt`."""
    if len(data) > MAX_BYTES:
        raise BadReceipt("form")
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadReceipt("form", str(error)) from error


def written(receipt: Receipt) -> bytes:
    """Returns a receipt as it is kept in a file."""
    return msgspec.json.encode(receipt) + b"\n"


_decoder = msgspec.json.Decoder(Receipt)
