"""Verifies a written file in a process of its own: against its plan, its source's numbers, and the source's answers.

llama.cpp runs the file, our own Transformer the source; their logits for a few prompts must agree as far as the type
lets them. Where only one of the two can run the model, that part is left out and said so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from convert import tensor_check
from convert.importance import read_importance
from convert.merging import open_source
from convert.options import ConvertOptions
from convert.plan import Plan
from convert.planning import plan_of
from convert.tensor_check import TensorError, VerificationFailed
from runtime import engines, memory
from runtime.architectures.reading import UnknownArchitecture, identify
from runtime.checkpoint import Checkpoint, open_checkpoint
from runtime.engine import Engine, StopFlag
from runtime.errors import UserError
from runtime.gguf_types import TYPE_BY_NAME
from runtime.params import LoadParams
from runtime.text import _

_PROMPTS = (
    "The mill stands where the river bends, and every morning",
    "In 1874 the bridge was 31 metres long; by 1901",
    "def mean(values):\n    return sum(values)",
    "水车慢慢地转，",
)
_CONTEXT = 256
# How far logits may lie apart, as a share of their spread; unrelated ones are about 1.4 apart.
_AGREEMENT = {"F32": 0.01, "F16": 0.02, "BF16": 0.1, "Q8_0": 0.15}
_AGREEMENT_BY_BITS = ((6.0, 0.4), (5.0, 0.6), (4.0, 0.9), (3.0, 1.2))


class VerifyProgress(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """`done` of `total` bytes are held against the source."""

    done: int
    total: int


class Verified(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What was found. `logits` is how far they lie apart, as a share of their spread; None where not compared."""

    tensors: tuple[TensorError, ...]
    logits: float | None
    notes: tuple[str, ...] = ()

    @property
    def worst(self) -> TensorError:
        """The tensor that lost most."""
        return max(self.tensors, key=lambda tensor: tensor.share)


class VerifyRequest(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What is to be verified: the files as they were written from the options, not yet under their names."""

    options: ConvertOptions
    parts: tuple[Path, ...]


def verify(request: VerifyRequest) -> Iterator[VerifyProgress | Verified]:
    """Yields progress, and `Verified` last. Raises `VerificationFailed`, and what reading the source raises."""
    options = msgspec.structs.replace(request.options, agreed=True)
    importance = read_importance(options.importance) if options.importance else None
    found: list[TensorError] = []
    with open_source(options, threads=1) as source:
        plan = plan_of(source, options, importance=importance)
        tensor_check.check_headers(plan, request.parts)
        with open_checkpoint(request.parts[0], threads=1) as written:
            tensor_check.check_tensors(plan, written)
            done = 0
            for error, n_bytes in tensor_check.errors(plan, written):
                found.append(error)
                done += n_bytes
                yield VerifyProgress(done=done, total=plan.size)
        reason = _why_not_run(source, plan)
    logits, notes = (None, (reason,)) if reason else _compared(options, request.parts[0], _limit(plan))
    yield Verified(tensors=tuple(found), logits=logits, notes=notes)


def _why_not_run(source: Checkpoint, plan: Plan) -> str:
    """Returns why the answers cannot be compared, "" where they can."""
    try:
        architecture, config = identify(source)
    except UnknownArchitecture:
        return _("The answers were not compared: Quern's own engine does not know this architecture.")
    if config.form != "decoder":
        return _("The answers were not compared: {name} does not go on with a text.").format(name=architecture.name)
    needed = int(4.6 * plan.n_params) + plan.size
    if needed > memory.free_memory():
        return _("The answers were not compared: {needed:,.0f} MB of memory would be needed.").format(
            needed=needed / 1e6
        )
    return ""


def _compared(
    options: ConvertOptions, part: Path, limit: float | None
) -> tuple[float | None, tuple[str, ...]]:
    reference = LoadParams(engine="native", dtype="f32", context_length=_CONTEXT, lora=options.lora)
    candidate = LoadParams(
        engine="llama", context_length=_CONTEXT, kv_type_k="f32", kv_type_v="f32", flash_attention="off"
    )
    try:
        ours, prompts = _logits(options.source, reference, ())
    except UserError as error:
        return None, (_("The answers were not compared: {reason}").format(reason=error.info.title),)
    theirs, _prompts = _logits(part, candidate, prompts)
    apart = _apart(ours, theirs)
    if limit is not None and not apart <= limit:
        reason = _("llama.cpp's predictions lie {apart:.2f} of their spread from the source's; {limit} is allowed.")
        raise VerificationFailed(reason.format(apart=apart, limit=limit))
    return apart, ()


def _logits(
    path: Path, params: LoadParams, prompts: Sequence[list[int]]
) -> tuple[list[NDArray[np.float32]], list[list[int]]]:
    engine = engines.open_engine(path, params.validated())
    try:
        asked = list(prompts) or [ids for ids in map(engine.tokenize, _PROMPTS) if ids]
        return [_last(engine, ids) for ids in asked], asked
    finally:
        engine.close()


def _last(engine: Engine, ids: Sequence[int]) -> NDArray[np.float32]:
    tokens = [*engine.begin_marks(), *ids][:_CONTEXT]
    pieces = engine.logits(tokens, StopFlag(), first=0, at_most=len(tokens))
    return np.concatenate([piece.copy() for piece in pieces])


def _apart(ours: Sequence[NDArray[np.float32]], theirs: Sequence[NDArray[np.float32]]) -> float:
    """Returns the root-mean-square difference of centred logits, over the spread of the first."""
    reference, candidate = (_centred(np.concatenate(each)) for each in (ours, theirs))
    spread = float(np.sqrt(np.square(reference).mean()))
    return float(np.sqrt(np.square(candidate - reference).mean())) / max(spread, 1e-30)


def _centred(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Logits that no sampler may draw are minus infinity in both, or very low; they are left out of the sums."""
    wide = np.where(np.isfinite(logits), logits, 0.0).astype(np.float64)
    return np.asarray(wide - wide.mean(axis=1, keepdims=True))


def _limit(plan: Plan) -> float | None:
    """Returns how far the answers may lie apart for the coarsest of a file's types; None where nobody can say."""
    limits = [_limit_of(kind) for kind in {choice.type for choice in plan.choices}]
    return None if None in limits else max(filter(None, limits), default=None)


def _limit_of(kind: str) -> float | None:
    form = TYPE_BY_NAME[kind]
    bits = 8 * form.block_bytes / form.block
    return _AGREEMENT.get(kind) or next((limit for least, limit in _AGREEMENT_BY_BITS if bits >= least), None)
