"""The llama.cpp that packages carry runs: on this processor, on older ones, and on a graphics card's driver.

Needs it built (`packaging/llama_package.py`); older processors are emulated by qemu-user, the card by Mesa's lavapipe.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import packaged_llama
from packaged_llama import in_process
from runtime.llama.variants import NEEDS, is_variant
from runtime.starter import StarterMissing, starter_path

pytestmark = [pytest.mark.package, pytest.mark.timeout(900)]
TREE = packaged_llama.find_tree()
QEMU = shutil.which("qemu-x86_64")
LAVAPIPE = next(Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json"), None)
QUESTION = "What is 2+2?"
REPORT = (
    "from runtime.llama import library; import msgspec; "
    "print(msgspec.json.encode(library.backend_report()).decode())"
)  # fmt: skip


@pytest.fixture(scope="module")
def tree() -> Path:
    if TREE is None:
        pytest.skip("llama.cpp was not built for packages here")
    return TREE


@pytest.fixture
def own_tree(tree: Path, tmp_path: Path) -> Path:
    """A copy whose libraries may be removed or damaged."""
    return Path(shutil.copytree(tree, tmp_path / "tree"))


def libraries(tree: Path) -> list[Path]:
    return sorted((tree / "llama_cpp" / "lib").iterdir())


def report(tree: Path, **environment: str) -> dict[str, object]:
    done = in_process(tree, "-c", REPORT, **environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_there_is_one_of_everything(tree: Path) -> None:
    names = [file.name for file in libraries(tree)]
    assert {name for name in map(variant_of, names) if name} == set(NEEDS)
    assert {"libllama.so", "libggml.so.0", "libggml-base.so.0"} <= set(names)
    contents = [file.read_bytes() for file in libraries(tree)]
    assert len(set(contents)) == len(contents)


def variant_of(name: str) -> str:
    found = re.fullmatch(r"libggml-cpu-(\w+)\.so", name)
    return found[1] if found else ""


def test_the_libraries_find_each_other_and_need_an_old_c_library(tree: Path) -> None:
    newest = 0
    for file in libraries(tree):
        dynamic = subprocess.run(["readelf", "-dW", file], capture_output=True, text=True, check=True).stdout
        assert "$ORIGIN" in dynamic or "libggml" not in dynamic.partition("Shared library")[2], file.name
        symbols = subprocess.run(["objdump", "-T", file], capture_output=True, text=True, check=True).stdout
        newest = max([newest, *(int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", symbols))])
    assert newest <= 36  # Debian 12's


def test_this_processor_runs_its_best_variant_and_tries_it_once(tree: Path) -> None:
    first = report(tree)
    assert first["variant"]
    left_out = [one["name"] for one in first["left_out"]]  # type: ignore[attr-defined]
    assert first["variant"] not in left_out
    verdicts = Path(os.environ["QUERN_HOME"]) / "cache" / "backends.json"
    before = verdicts.read_bytes()
    assert report(tree) == first
    assert verdicts.read_bytes() == before


PROMPTS = ("The miller ground the wheat.", "def f(x):\n    return", "天气很好，我们去")
LOGITS = """
import sys
from pathlib import Path
import numpy as np
from runtime.llama import library
from llama_logits import llama_logits, llama_tokens
variant, layers, file, target, *prompts = sys.argv[1:]
library.load_library(variant, cards=int(layers) > 0)
rows = [llama_logits(Path(file), llama_tokens(Path(file), prompt), n_ctx=64, gpu_layers=int(layers))
        for prompt in prompts]
assert library.backend_report().variant == variant or variant == "auto"
np.save(target, np.concatenate(rows))
"""


def log_probabilities(
    tree: Path, folder: Path, model: Path, *, variant: str = "auto", layers: int = 0, **environment: str
) -> np.ndarray:
    """Returns what the model expects after each token of the prompts (T, V), computed in a process of its own."""
    target = folder / f"{variant}-{layers}.npy"
    done = in_process(tree, "-c", LOGITS, variant, str(layers), str(model), str(target), *PROMPTS, **environment)
    assert done.returncode == 0, done.stderr
    logits = np.load(target).astype(np.float64)
    return np.asarray(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))


def divergence(reference: np.ndarray, other: np.ndarray) -> float:
    """Returns the KL divergence in nats, the mean over positions; no single one may be far out.

    One position out of thirty of a small model may tip at 0.02 by rounding alone, as between two processors.
    """
    each = (np.exp(reference) * (reference - other)).sum(axis=1)
    assert each.max() < 0.05
    return float(each.mean())


def test_every_variant_that_survives_computes_the_same(tree: Path, tmp_path: Path) -> None:
    first = report(tree)
    reference = log_probabilities(tree, tmp_path, starter(), variant=str(first["variant"]))
    for name in first["others"]:  # type: ignore[attr-defined]
        assert divergence(reference, log_probabilities(tree, tmp_path, starter(), variant=name)) < 0.01, name


def test_processor_code_that_traps_is_refused_by_name_and_left_out_by_itself(tree: Path) -> None:
    found = report(tree)
    for one in found["left_out"]:  # type: ignore[attr-defined]
        if one["reason"] in ("SIGILL", "SIGSEGV"):
            words = ("-m", "desktop", "chat", str(starter()), "-p", QUESTION, "--cpu-variant", one["name"])
            done = in_process(tree, *words)
            assert done.returncode == 2
            assert "does not run here" in done.stderr


def test_a_variant_that_dies_in_use_gives_way_and_is_named_by_the_doctor(tree: Path) -> None:
    first = report(tree)
    dies = "from runtime.llama import library; library.load_library(); import os; os.kill(os.getpid(), 4)"
    assert in_process(tree, "-c", dies).returncode == -signal.SIGILL
    after = report(tree)
    assert after["variant"] == first["others"][0]  # type: ignore[index]
    told = json.loads(in_process(tree, "-m", "desktop", "doctor", "--probe", "llama").stdout)
    reason = "it ended with an illegal instruction while it was in use"
    assert f"Left out: {first['variant']}, {reason}" in told["lines"]
    assert report(tree)["variant"] == after["variant"]  # the doctor has not brought it back


def starter() -> Path:
    try:
        return starter_path()
    except StarterMissing:
        pytest.skip("the starter model is not installed")


def test_without_any_variant_a_sentence_says_so(own_tree: Path) -> None:
    for file in libraries(own_tree):
        if is_variant(file):
            file.unlink()
    done = in_process(own_tree, "-m", "desktop", "chat", str(starter()), "-p", QUESTION)
    assert done.returncode == 2
    assert "No part of llama.cpp runs on this processor." in done.stderr
    assert "Traceback" not in done.stderr


def test_damaged_variants_give_way_and_are_named_by_the_doctor(own_tree: Path) -> None:
    best = str(report(own_tree)["variant"])
    (own_tree / "llama_cpp" / "lib" / f"libggml-cpu-{best}.so").write_bytes(b"\x7fELF cut off")
    found = report(own_tree)
    assert found["variant"] in NEEDS.keys() - {best}
    told = json.loads(in_process(own_tree, "-m", "desktop", "doctor", "--probe", "llama").stdout)
    assert any(line.startswith(f"Left out: {best}, it cannot be loaded") for line in told["lines"])


@pytest.mark.parametrize("gone", ["libggml.so.0", "libggml-base.so.0", "libllama.so"])
def test_a_library_that_is_gone_is_named(own_tree: Path, gone: str) -> None:
    (own_tree / "llama_cpp" / "lib" / gone).unlink()
    told = in_process(own_tree, "-m", "desktop", "doctor", "--probe", "llama")
    assert told.returncode == 2
    assert gone.split(".")[0].removeprefix("lib") in told.stderr
    assert "Traceback" not in told.stderr


# --- older processors -------------------------------------------------------------------------------------------

# qemu-user executes the CPU model's instructions and traps on all others; it knows no AVX-512.
MODELS = {"Nehalem-v1": "sse42", "Westmere-v1": "sse42", "SandyBridge-v1": "sandybridge", "Haswell-v1": "haswell",
          "EPYC-v1": "haswell"}  # fmt: skip


@pytest.fixture
def emulated(tmp_path: Path) -> dict[str, str]:
    """Makes children start under the emulator, too: they are started by the interpreter's own name for itself."""
    (tmp_path / "sitecustomize.py").write_text("import os, sys\nsys.executable = os.environ['EMULATED_PYTHON']\n")
    return {"PYTHONPATH": str(tmp_path), "EMULATED_PYTHON": str(tmp_path / "python")}


def emulator(folder: Path, model: str) -> tuple[str, ...]:
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nexec {QEMU} -cpu {model} {sys.executable} "$@"\n')
    script.chmod(0o755)
    return (str(script),)


@pytest.mark.skipif(QEMU is None, reason="qemu-user is not installed")
@pytest.mark.parametrize(("model", "variant"), MODELS.items())
def test_an_older_processor_gets_what_it_can_run(
    tree: Path, tmp_path: Path, emulated: dict[str, str], model: str, variant: str
) -> None:
    done = in_process(tree, "-c", REPORT, python=emulator(tmp_path, model), **emulated)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["variant"] == variant


@pytest.mark.skipif(QEMU is None, reason="qemu-user is not installed")
def test_the_oldest_processor_chats(tree: Path, tmp_path: Path, emulated: dict[str, str]) -> None:
    words = ("-m", "desktop", "chat", str(starter()), "-p", QUESTION, "--max-tokens", "2", "--temperature", "0",
             "--context-length", "64")  # fmt: skip
    done = in_process(tree, *words, python=emulator(tmp_path, "Nehalem-v1"), **emulated)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


# --- graphics cards ---------------------------------------------------------------------------------------------

@pytest.fixture
def lavapipe(tree: Path) -> dict[str, str]:
    """Makes Mesa's driver for the processor the only card; llama.cpp takes such a one only where it is named."""
    if LAVAPIPE is None or not any("vulkan" in file.name for file in libraries(tree)):
        pytest.skip("there is no Vulkan back end, or no lavapipe")
    return {"VK_DRIVER_FILES": str(LAVAPIPE), "GGML_VK_VISIBLE_DEVICES": "0"}


def test_a_vulkan_driver_survives_its_trial_and_is_listed_by_the_doctor(tree: Path, lavapipe: dict[str, str]) -> None:
    assert report(tree, **lavapipe)["cards"] == ["vulkan"]
    told = in_process(tree, "-m", "desktop", "doctor", "--probe", "llama", **lavapipe)
    found = json.loads(told.stdout)
    assert any(line.startswith("Vulkan0: llvmpipe") for line in found["devices"])
    assert found["memory"]["Vulkan0"][0] > 0


def test_without_a_driver_vulkan_is_simply_absent(tree: Path) -> None:
    found = report(tree, VK_DRIVER_FILES="/nowhere.json")
    assert found["cards"] == []
    assert {"name": "vulkan", "reason": "no driver", "detail": ""} in found["left_out"]  # type: ignore[operator]


def test_a_driver_that_cannot_be_loaded_is_left_out(tree: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    content = {"file_format_version": "1.0.0", "ICD": {"library_path": "/nowhere/libdriver.so", "api_version": "1.3.0"}}
    broken.write_text(json.dumps(content))
    found = report(tree, VK_DRIVER_FILES=str(broken))
    assert found["cards"] == []
    assert found["variant"]


def test_a_card_computes_what_the_processor_computes(tree: Path, tmp_path: Path, lavapipe: dict[str, str]) -> None:
    model = os.environ.get("QUERN_F16_MODEL")
    if not model:
        pytest.skip("QUERN_F16_MODEL names no model in F16")
    processor = log_probabilities(tree, tmp_path, Path(model), **lavapipe)
    card = log_probabilities(tree, tmp_path, Path(model), layers=99, **lavapipe)
    assert np.any(card != processor), "the card has not computed anything"
    assert divergence(processor, card) < 0.01
