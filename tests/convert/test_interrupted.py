"""Conversions that are killed, cancelled, or run into a full or read-only disk leave no half file and their source."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest

import engines
import tiny_gguf
from convert.measuring import MeasureProgress
from convert.options import ConvertOptions
from convert.pipeline import Converted, convert
from convert.preflight import Planned
from convert.recipes import NEEDS_IMPORTANCE
from convert.safe_file import NoRoom, NotWritten, TargetIsSource
from convert.verification import VerifyProgress
from convert.writing import ConversionStopped, WriteProgress
from lived_time import LivedClock
from llama_quantizer import tensors_of
from runtime.engine import StopFlag
from small_disk import make_read_only, small_disk

ROOT = Path(__file__).parent.parent.parent
KILLS = 40
PATIENCE = 600  # seconds after which something hangs; a machine may stand still for minutes
pytestmark = pytest.mark.timeout(3 * PATIENCE)
unix = pytest.mark.skipif(os.name != "posix", reason="signals of Unix")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write_tiny(tmp_path_factory.mktemp("model") / "model.gguf", n_layers=4, d_model=256, d_ff=1024)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# --- killed ----------------------------------------------------------------------------------------------------------


class Command:
    """`quern convert` as a process group of its own."""

    def __init__(self, source: Path, target: Path, home: Path, *more: str) -> None:
        self.target = target
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "QUERN_HOME": str(home)}
        words = [str(source), str(target), "--type", "q4_0", *more]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "desktop", "convert", *words], cwd=ROOT, env=environment, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def until(self, reached: Callable[[], bool]) -> None:
        while not reached() and self._process.poll() is None:
            time.sleep(0.001)

    def ask_to_end(self, number: signal.Signals, *, all_of_it: bool) -> None:
        """Sends a signal to the command alone, as `kill` does, or to all its processes, as a closed terminal does."""
        send = os.killpg if all_of_it else os.kill
        with contextlib.suppress(ProcessLookupError):
            send(self._process.pid, number)

    def kill(self) -> None:
        """Ends the command and everything that it started, as a crash of the machine would."""
        family = psutil.Process(self._process.pid).children(recursive=True) if self._process.poll() is None else []
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        assert psutil.wait_procs(family, timeout=PATIENCE)[1] == []

    def wait(self) -> int:
        try:
            return self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._process.wait()

    def part(self) -> Path | None:
        """Where the file lies while it is written."""
        return next(iter(self.target.parent.glob(f".quern-*.part/{self.target.name}")), None)


def part_of_size(command: Command, least: int) -> Callable[[], bool]:
    def reached() -> bool:
        part = command.part()
        return part is not None and part.stat().st_size >= least

    return reached


@unix
def test_a_killed_conversion_leaves_no_half_file_and_the_next_one_takes_its_remains_away(
    model: Path, tmp_path: Path
) -> None:
    target, home, before = tmp_path / "out" / "small.gguf", tmp_path / "home", digest(model)
    target.parent.mkdir()
    list(convert(ConvertOptions(source=model, target=tmp_path / "whole.gguf", recipe="Q4_0"), StopFlag()))
    whole = (tmp_path / "whole.gguf").stat().st_size
    for least in (0, whole // 2, whole):  # as it begins, in the middle, and while it is verified
        command = Command(model, target, home, "--no-card")
        command.until(part_of_size(command, least))
        command.kill()
        assert not target.exists()
        assert all(name.startswith(".quern-") for name in names(target.parent))
        assert digest(model) == before

    assert Command(model, target, home, "--no-card", "--no-verify").wait() == 0
    assert names(target.parent) == ["small.gguf"]
    assert tensors_of(target) == tensors_of(tmp_path / "whole.gguf")


@unix
@pytest.mark.parametrize("all_of_it", [False, True], ids=["alone", "all processes"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP] if os.name == "posix" else [])
def test_a_conversion_that_is_asked_to_end_leaves_nothing_in_any_phase(
    number: signal.Signals, all_of_it: bool, model: Path, tmp_path: Path
) -> None:
    target, home, before = tmp_path / "out" / "small.gguf", tmp_path / "home", digest(model)
    target.parent.mkdir()
    text = tmp_path / "text.txt"
    text.write_text("The miller opened the sluice and the stone began to turn. " * 400)
    list(convert(ConvertOptions(source=model, target=tmp_path / "whole.gguf", recipe="Q4_0"), StopFlag()))
    whole = (tmp_path / "whole.gguf").stat().st_size
    for least in (0, whole // 2, whole):  # as it begins, in the middle, and while it is verified and measured
        command = Command(model, target, home, "--text", str(text))
        command.until(part_of_size(command, least))
        command.ask_to_end(number, all_of_it=all_of_it)
        assert command.wait() == 128 + number
        assert names(target.parent) == []
        assert digest(model) == before


@unix
@pytest.mark.acceptance
@pytest.mark.timeout(7200)
def test_conversions_killed_at_random_moments_never_leave_a_half_file(clock: LivedClock, tmp_path: Path) -> None:
    source = tiny_gguf.write_tiny(tmp_path / "model.gguf", n_layers=8, d_model=512, d_ff=2048)
    folder, home, before, draw = tmp_path / "out", tmp_path / "home", digest(source), random.Random(5)
    folder.mkdir()
    (tmp_path / "text.txt").write_text("The miller opened the sluice and the stone began to turn. " * 60)
    more = ("--yes", "--text", str(tmp_path / "text.txt"))
    started = clock.now()
    assert Command(source, folder / "whole.gguf", home, *more).wait() == 0
    takes, whole = clock.now() - started, tensors_of(folder / "whole.gguf")
    (folder / "whole.gguf").unlink()
    ended = 0
    for _number in range(KILLS):
        target = folder / "small.gguf"
        command = Command(source, target, home, *more)
        clock.sleep(draw.uniform(0, 1.1 * takes))
        command.kill()
        if target.exists():
            assert tensors_of(target) == whole
            ended += 1
            target.unlink()
        assert digest(source) == before
    assert 0 < ended < KILLS
    assert Command(source, folder / "small.gguf", home).wait() == 0
    assert names(folder) == ["small.gguf"]


# --- cancelled -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [WriteProgress, VerifyProgress, MeasureProgress])
def test_a_cancelled_conversion_ends_at_once_in_every_phase(
    phase: type, model: Path, clock: LivedClock, tmp_path: Path
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("The miller opened the sluice and the stone began to turn. " * 200)
    (tmp_path / "out").mkdir()
    stop, asked = StopFlag(), 0.0
    options = ConvertOptions(
        source=model, target=tmp_path / "out" / "small.gguf", recipe="Q4_0", verify=True, card=True, text=text
    )
    with pytest.raises(ConversionStopped):  # noqa: PT012
        for event in convert(options, stop):
            if isinstance(event, phase) and not stop.is_set():
                stop.set()
                asked = clock.now()
    assert stop.is_set()
    assert clock.now() - asked < 5  # a tenth of that where nobody else computes
    assert names(tmp_path / "out") == []


def test_slow_types_are_cancelled_in_the_middle_of_a_tensor(tmp_path: Path) -> None:
    from convert.importance import Importance, Measured, write_importance

    source = tiny_gguf.write_tiny(tmp_path / "model.gguf", n_layers=1, d_model=512, d_ff=4096)
    columns = {"ffn_down": 4096}
    tensors = {
        f"blk.0.{name}.weight": Measured(np.ones((1, columns.get(name, 512)), np.float32), np.array([1]))
        for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_gate", "ffn_down")
    }
    write_importance(Importance(tensors, ("text",), 1, 512, "imatrix.gguf"), tmp_path / "imatrix.gguf")
    (tmp_path / "out").mkdir()
    assert "IQ1_S" in NEEDS_IMPORTANCE
    stop = StopFlag()
    options = ConvertOptions(source=source, target=tmp_path / "out" / "small.gguf", recipe="IQ1_S", threads=1,
                             importance=tmp_path / "imatrix.gguf")  # fmt: skip
    pieces, used = 0, 0.0
    with pytest.raises(ConversionStopped):  # noqa: PT012
        for event in convert(options, stop):
            if isinstance(event, WriteProgress) and event.tensor:
                pieces += 1
                stop.set()
                used = time.process_time()
    assert pieces == 1
    assert time.process_time() - used < 4  # packing one of the large tensors takes 15 seconds
    assert names(tmp_path / "out") == []


# --- disks and links -------------------------------------------------------------------------------------------------


def test_a_disk_that_fills_up_meanwhile_is_told_and_nothing_is_left(model: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", megabytes=40) as disk:
        options = ConvertOptions(source=model, target=disk / "small.gguf", recipe="F16")
        events = convert(options, StopFlag())
        assert isinstance(next(events), Planned)
        next(events)  # the room was looked for
        with pytest.raises(OSError, match="space"):
            (disk / "another's").write_bytes(bytes(60 << 20))
        with pytest.raises(NotWritten, match="No space left") as refused:
            list(events)
        assert "Free some room" in refused.value.info.hint
        assert names(disk) == ["another's"]


def test_a_disk_that_is_too_small_is_told_before(model: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", megabytes=2) as disk:
        with pytest.raises(NoRoom):
            list(convert(ConvertOptions(source=model, target=disk / "small.gguf", recipe="F16"), StopFlag()))
        assert names(disk) == []


def test_a_folder_that_may_only_be_read_is_told(model: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", megabytes=40) as disk:
        make_read_only(disk)
        for target in ("small.gguf", "folder"):
            with pytest.raises(NotWritten, match="Read-only") as refused:
                list(convert(ConvertOptions(source=model, target=disk / target, recipe="F16"), StopFlag()))
            assert "may write" in refused.value.info.hint
        assert names(disk) == []


@pytest.mark.parametrize("way", ["itself", "symlink", "hard link", "detour", "linked folder"])
def test_a_source_is_never_overwritten_whatever_its_target_is_called(way: str, model: Path, tmp_path: Path) -> None:
    source = tmp_path / "model.gguf"
    source.write_bytes(model.read_bytes())
    (tmp_path / "symlink.gguf").symlink_to(source)
    os.link(source, tmp_path / "hard link.gguf")
    (tmp_path / "x").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path)
    target = {
        "itself": source, "symlink": tmp_path / "symlink.gguf", "hard link": tmp_path / "hard link.gguf",
        "detour": tmp_path / "x" / ".." / "model.gguf", "linked folder": tmp_path / "linked" / "model.gguf",
    }[way]  # fmt: skip
    with pytest.raises(TargetIsSource):
        list(convert(ConvertOptions(source=source, target=target, recipe="F16", agreed=True), StopFlag()))
    assert digest(source) == digest(model)
    assert names(tmp_path) == ["hard link.gguf", "linked", "model.gguf", "symlink.gguf", "x"]


def test_a_loaded_model_answers_on_when_its_file_is_replaced_or_read(model: Path, tmp_path: Path) -> None:
    target = tmp_path / "loaded.gguf"
    target.write_bytes(model.read_bytes())
    request = engines.raw("The miller", max_tokens=24, temperature=0.0)
    loaded = engines.load(target)
    before = engines.collect(loaded, request).text
    other = tiny_gguf.write_tiny(tmp_path / "other.gguf", n_layers=4, d_model=256, d_ff=1024, seed=7)
    list(convert(ConvertOptions(source=other, target=target, recipe="Q8_0", agreed=True), StopFlag()))

    assert engines.collect(loaded, request).text == before
    list(convert(ConvertOptions(source=target, target=tmp_path / "again.gguf", recipe="F16", agreed=True), StopFlag()))
    assert engines.collect(loaded, request).text == before
    assert engines.collect(engines.load(target), request).text != before


def test_a_loaded_model_is_never_written_over_by_itself(model: Path, tmp_path: Path) -> None:
    source = tmp_path / "loaded.gguf"
    source.write_bytes(model.read_bytes())
    loaded = engines.load(source)
    with pytest.raises(TargetIsSource):
        list(convert(ConvertOptions(source=source, target=source, recipe="Q8_0", agreed=True), StopFlag()))
    assert engines.collect(loaded, engines.raw("The miller", max_tokens=4)).text
    assert digest(source) == digest(model)


def test_a_cancelled_conversion_can_be_begun_again_at_once(model: Path, tmp_path: Path) -> None:
    stop, target = StopFlag(), tmp_path / "small.gguf"
    options = ConvertOptions(source=model, target=target, recipe="Q8_0")
    with pytest.raises(ConversionStopped):  # noqa: PT012
        for event in convert(options, stop):
            if isinstance(event, WriteProgress):
                stop.set()
    *_events, last = convert(options, StopFlag())
    assert isinstance(last, Converted)
    assert names(tmp_path) == ["small.gguf"]
