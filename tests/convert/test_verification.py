"""A result is held against its source before it gets its name; what does not agree is taken away."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tiny_gguf
from broken_checkpoints import write_sound
from convert import tensor_check
from convert.options import ConvertOptions
from convert.phases import PhaseDied, run_phase
from convert.pipeline import Converted, convert
from convert.planning import plan_of
from convert.recipes import Wishes
from convert.safe_file import SafeFiles
from convert.tensor_check import VerificationFailed
from convert.verification import Verified, VerifyProgress, VerifyRequest, verify
from convert.writing import ConversionStopped, write
from lived_time import LivedClock
from runtime.checkpoint import open_checkpoint
from runtime.engine import StopFlag
from runtime.errors import UserError

ROOT = Path(__file__).parent.parent.parent
QUERN = [sys.executable, "-m", "desktop", "convert"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write_tiny(tmp_path_factory.mktemp("model") / "model.gguf", n_layers=1, d_model=64, d_ff=64)


def written(options: ConvertOptions) -> Path:
    """Writes the file and nothing else."""
    with open_checkpoint(options.source) as checkpoint, SafeFiles([options.target]) as files:
        list(write(plan_of(checkpoint, options), files, StopFlag(), threads=1))
    return options.target


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_sound_file_passes_and_its_losses_are_told(model: Path, tmp_path: Path) -> None:
    options = ConvertOptions(source=model, target=tmp_path / "q8.gguf", recipe="Q8_0")
    *progress, found = verify(VerifyRequest(options=options, parts=(written(options),)))
    assert isinstance(found, Verified)
    assert all(isinstance(event, VerifyProgress) for event in progress)
    losses = {tensor.name: tensor for tensor in found.tensors}
    assert 0 < losses["blk.0.ffn_up.weight"].share < 0.01
    assert 0 < losses["blk.0.ffn_up.weight"].rms < losses["blk.0.ffn_up.weight"].max
    assert losses["blk.0.attn_norm.weight"].max == 0
    assert found.logits is not None
    assert 0 < found.logits < 0.15


def test_a_file_is_allowed_what_its_coarsest_type_loses(tmp_path: Path) -> None:
    source = tiny_gguf.write_tiny(tmp_path / "wide.gguf", n_layers=1, d_model=256, d_ff=256)
    wishes = Wishes(tensor_types=((".", "Q2_K"),))
    options = ConvertOptions(source=source, target=tmp_path / "out.gguf", recipe="Q8_0", wishes=wishes, verify=True)
    *_events, last = convert(options, StopFlag())
    assert isinstance(last, Converted)
    assert last.verified is not None
    assert last.verified.logits is not None
    assert last.verified.logits > 0.15  # more than Q8_0 alone may lose


def test_relative_paths_are_those_of_the_current_folder_in_every_phase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sound(tmp_path / "model")
    (tmp_path / "text.txt").write_text("The miller opened the sluice and the stone began to turn. " * 20)
    (tmp_path / "json.py").write_text("raise RuntimeError('nothing is imported from where a person works')")
    monkeypatch.chdir(tmp_path)
    options = ConvertOptions(
        source=Path("model"), target=Path("out.gguf"), recipe="Q8_0", verify=True, card=True, text=Path("text.txt")
    )
    *_events, last = convert(options, StopFlag())
    assert isinstance(last, Converted)
    assert last.verified is not None
    assert last.card is not None


def test_a_folders_file_agrees_with_the_folder(tmp_path: Path) -> None:
    options = ConvertOptions(source=write_sound(tmp_path / "model"), target=tmp_path / "f32.gguf", recipe="F32")
    *_progress, found = verify(VerifyRequest(options=options, parts=(written(options),)))
    assert isinstance(found, Verified)
    assert all(tensor.max == 0 for tensor in found.tensors)
    assert found.logits is not None
    assert found.logits < 1e-3


@pytest.mark.parametrize("place", ["header", "weights", "end"])
def test_damage_anywhere_is_found(model: Path, tmp_path: Path, place: str) -> None:
    options = ConvertOptions(source=model, target=tmp_path / "q8.gguf", recipe="Q8_0")
    content = bytearray(written(options).read_bytes())
    if place == "end":
        content += b"\0"
    else:
        at = 40 if place == "header" else len(content) * 3 // 4 // 34 * 34
        content[at : at + 8] = b"\x7f" * 8
    options.target.write_bytes(content)
    with pytest.raises(VerificationFailed):
        list(verify(VerifyRequest(options=options, parts=(options.target,))))


def test_a_source_that_changes_meanwhile_leaves_no_file(model: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "model.gguf", tmp_path / "out.gguf"
    source.write_bytes(model.read_bytes())
    options = ConvertOptions(source=source, target=target, recipe="F16", verify=True)
    for event in (events := convert(options, StopFlag())):
        if getattr(event, "done", 0) == getattr(event, "total", 1):
            break  # written, not yet verified
    with open_checkpoint(source) as checkpoint:
        n_bytes = checkpoint.raw("blk.0.ffn_down.weight").nbytes
    content = source.read_bytes()
    source.write_bytes(content[:-n_bytes] + np.ones(n_bytes // 4, np.float32).tobytes())
    with pytest.raises(UserError, match="agree"):
        list(events)
    assert names(tmp_path) == ["model.gguf"]


def test_a_phase_is_stopped_within_a_second_and_nothing_is_left(
    model: Path, clock: LivedClock, tmp_path: Path
) -> None:
    stop, target = StopFlag(), tmp_path / "out.gguf"
    options = ConvertOptions(source=model, target=target, recipe="Q8_0", verify=True)
    asked = []

    def ask() -> None:
        asked.append(clock.now())
        stop.set()

    threading.Timer(0.5, ask).start()
    with pytest.raises(ConversionStopped):
        list(convert(options, stop))
    assert clock.now() - asked[0] < 5  # a second where nobody else computes
    assert names(tmp_path) == []


def test_a_phase_that_dies_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("convert.phases._command", lambda: [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])
    options = ConvertOptions(source=tmp_path, target=tmp_path, recipe="F16")
    with pytest.raises(PhaseDied, match="-9"):
        list(run_phase(VerifyRequest(options=options, parts=()), StopFlag()))


def test_losses_that_no_rounding_explains_are_not_near() -> None:
    def near(kind: str, share: float, peak: float = 0.0, *, weighed: bool = False) -> bool:
        error = tensor_check.TensorError(name="", type=kind, rms=1, max=1, share=share, peak=peak)
        return tensor_check._is_near(kind, error, weighed=weighed)

    assert near("Q4_K", 0.08)
    assert not near("Q4_K", 0.7)
    assert near("F16", 0.0003)
    assert not near("F16", 0.02)
    assert not near("Q8_0", float("nan"))
    assert not near("F32", 0.0)  # although its largest error is 1
    assert not near("Q4_K", 0.08, 0.9)
    assert near("Q4_K", 0.08, 0.9, weighed=True)  # a number that does not matter may go


# --- the whole command, as a process ---------------------------------------------------------------------------------


def start(*words: str, home: Path, **options: object) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "QUERN_HOME": str(home)}
    return subprocess.Popen([*QUERN, *words], cwd=ROOT, env=environment, stderr=subprocess.PIPE, **options)  # type: ignore[call-overload]


@pytest.mark.skipif(os.name != "posix", reason="signals and limits of Unix")
def test_ctrl_c_ends_the_command_without_remains(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    process = start(
        str(model), str(folder / "out.gguf"), "--type", "q8_0", home=tmp_path / "home", start_new_session=True
    )
    while not names(folder) and process.poll() is None:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _out, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in said
    assert names(folder) == []


@pytest.mark.skipif(os.name != "posix", reason="signals and limits of Unix")
def test_a_full_disk_is_told_in_a_sentence(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    process = start(
        str(model), str(folder / "out.gguf"), "--type", "f16", "--no-verify", home=tmp_path / "home", preexec_fn=limit
    )
    _out, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "could not be written" in said.decode()
    assert names(folder) == []


_PEAK = """
import sys
from pathlib import Path
from desktop.__main__ import main
code = main(sys.argv[1:])
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(code, int(peak.split()[1]) // 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the system's own figures")
def test_memory_is_bounded_by_the_largest_tensor(tmp_path: Path) -> None:
    peaks = []
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "QUERN_HOME": str(tmp_path / "home")}
    for layers in (2, 24):
        source = tiny_gguf.write_tiny(tmp_path / f"{layers}.gguf", n_layers=layers, d_model=512, d_ff=2048)
        words = ["convert", str(source), str(tmp_path / "out.gguf"), "--type", "q8_0", "--no-verify", "--yes"]
        told = subprocess.run(
            [sys.executable, "-c", _PEAK, *words, "--no-card"], env=environment, cwd=ROOT, check=True,
            capture_output=True,
        )  # fmt: skip
        code, peak = told.stdout.decode().splitlines()[-1].split()
        assert code == "0"
        peaks.append(int(peak))
    grown = (24 - 2) * 4 * (512 * 512 * 2.5 + 3 * 512 * 2048) / 1e6  # megabytes
    assert grown > 300
    assert peaks[1] - peaks[0] < grown / 5
