"""How long a conversion takes, and how much memory, against llama.cpp's own two tools and against copying.

    python tests/benchmarks/bench_convert.py FOLDER --llama-cpp SOURCES [-r 3]   a Hugging Face folder
    python tests/benchmarks/bench_convert.py --generated 2 [-r 3]                gigabytes of F16, against copying

Each way runs in a process of its own, in turn, and the medians are compared; SOURCES is a checkout of llama.cpp, whose
convert_hf_to_gguf.py is used. Only the write phase is measured: the result is neither verified nor measured.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from runtime.llama.library import load_library  # noqa: E402
from runtime.tokenizer import FolderTokenizer  # noqa: E402
from tiny_tokenizers import write_tokenizer  # noqa: E402

WIDTH, INNER = 2048, 8192  # of the generated model
LARGEST = 2 * WIDTH * INNER  # bytes of its largest tensor
TYPES = {"F16": 1, "Q8_0": 7, "Q4_K_M": 15}


def measured(command: Sequence[str]) -> tuple[float, float]:
    """Runs a command; returns its seconds and its peak memory in megabytes."""
    started = time.perf_counter()
    paths = filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    _pid, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return time.perf_counter() - started, usage.ru_maxrss / 1024


def ours(source: Path, target: Path, kind: str) -> list[tuple[float, float]]:
    words = [str(source), str(target), "--type", kind, "--no-verify", "--no-card", "--yes"]
    return [measured([sys.executable, "-m", "desktop", "convert", *words])]


def theirs(source: Path, target: Path, kind: str, sources: Path) -> list[tuple[float, float]]:
    """Returns what each of llama.cpp's steps took: its converter makes F16 and Q8_0, its quantizer the others."""
    direct = kind in ("F16", "Q8_0")
    plain = target if direct else target.with_suffix(".f16.gguf")
    script = [sys.executable, str(sources / "convert_hf_to_gguf.py"), str(source), "--outfile", str(plain)]
    steps = [measured([*script, "--outtype", kind.lower() if direct else "f16"])]
    if not direct:
        steps.append(measured([sys.executable, __file__, "--quantize", str(plain), str(target), str(TYPES[kind])]))
        plain.unlink()
    return steps


def quantize(source: str, target: str, number: int) -> None:
    library = load_library()
    params = library.llama_model_quantize_default_params()
    params.ftype, params.nthread = number, len(os.sched_getaffinity(0))
    if library.llama_model_quantize(source.encode(), target.encode(), params):
        raise SystemExit("llama_model_quantize failed")


def copied(source: Path, target: Path, kind: str) -> list[tuple[float, float]]:
    """Copies a file in large pieces and brings it to the disk."""
    code = (
        "import os,sys\n"
        "with open(sys.argv[1],'rb') as a, open(sys.argv[2],'wb') as b:\n"
        "    while piece := a.read(1 << 24): b.write(piece)\n"
        "    b.flush(); os.fsync(b.fileno())\n"
    )
    return [measured([sys.executable, "-c", code, str(source), str(target)])]


def alternate(ways: dict[str, Callable[[], list[tuple[float, float]]]], rounds: int, target: Path) -> dict[str, list]:
    """Runs the ways in turn; returns (seconds of all steps, largest memory) of each round."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for number in range(rounds):
        names = list(ways)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            steps = ways[name]()
            found[name].append((sum(step[0] for step in steps), max(step[1] for step in steps)))
            target.unlink()
            os.sync()
    return found


def show(title: str, found: dict[str, list[tuple[float, float]]], base: str) -> None:
    middle = {name: [statistics.median(each) for each in zip(*rounds, strict=True)] for name, rounds in found.items()}
    for name, (seconds, memory) in middle.items():
        ratios = [mine[0] / other[0] for mine, other in zip(found[name], found[base], strict=True)]
        line = f"{title:8} {name:10} {seconds:7.2f} s  {memory:7.0f} MB   time {statistics.median(ratios):.2f}, "
        sys.stdout.write(line + f"memory {memory / middle[base][1]:.2f} of {base}\n")


def generated(folder: Path, gigabytes: float) -> Path:
    """Writes a Llama-type folder of so many gigabytes, in F16, with a tokenizer of its own."""
    write_tokenizer(folder, "byte-level")
    n_rows, width, inner = FolderTokenizer(folder).size, WIDTH, INNER
    layers = max(1, round(gigabytes * 1e9 / 2 / (4 * width * width + 3 * width * inner)))
    config = {"model_type": "llama", "vocab_size": n_rows, "hidden_size": width, "intermediate_size": inner,
              "num_hidden_layers": layers, "num_attention_heads": 16, "num_key_value_heads": 16,
              "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "tie_word_embeddings": True}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    draw = np.random.default_rng(0)
    tensors = {"model.embed_tokens.weight": draw.normal(size=(n_rows, width)), "model.norm.weight": np.ones(width)}
    pattern = draw.normal(size=(inner, width)).astype(np.float16)
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}{name}.weight"] = np.ones(width)
        for name in "qkvo":
            tensors[f"{prefix}self_attn.{name}_proj.weight"] = pattern[:width]
        tensors |= {f"{prefix}mlp.{name}_proj.weight": pattern for name in ("gate", "up")}
        tensors[f"{prefix}mlp.down_proj.weight"] = np.ascontiguousarray(pattern.T)
    save_file({name: each.astype(np.float16) for name, each in tensors.items()}, folder / "model.safetensors")
    return folder


def against_copying(scratch: Path, gigabytes: float, rounds: int) -> None:
    """Shows the speed beside copying's, and the memory beside what a model of one layer takes."""
    folder, small, target = scratch / "model", scratch / "small", scratch / "out.gguf"
    for place, size in ((folder, gigabytes), (small, 0.0)):
        maker = get_context("spawn").Process(target=generated, args=(place, size))
        maker.start()  # a process's own memory would count for its children
        maker.join()
    weights = folder / "model.safetensors"
    shutil.copyfile(weights, target)  # both ways find the source in memory
    target.unlink()
    ((_seconds, least),) = ours(small, target, "F16")
    target.unlink()
    ways = {"quern": lambda: ours(folder, target, "F16"), "copying": lambda: copied(weights, target, "F16")}
    found = alternate(ways, rounds, target)
    show("F16", found, "copying")
    most = statistics.median(memory for _time, memory in found["quern"])
    sys.stdout.write(f"memory: {most:.0f} MB; for one layer {least:.0f} MB, and the largest tensor has "
                     f"{LARGEST / 1e6:.0f} MB\n")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--llama-cpp", type=Path)
    parser.add_argument("--generated", type=float)
    parser.add_argument("--types", nargs="+", default=list(TYPES))
    parser.add_argument("--quantize", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("-r", type=int, default=3)
    given = parser.parse_args()
    if given.quantize:
        quantize(given.quantize[0], given.quantize[1], int(given.quantize[2]))
        return
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / "out.gguf"
        if given.generated:
            against_copying(Path(scratch), given.generated, given.r)
            return
        for kind in given.types:
            ways = {
                "quern": lambda kind=kind: ours(given.folder, target, kind),
                "llama.cpp": lambda kind=kind: theirs(given.folder, target, kind, given.llama_cpp),
            }
            show(kind, alternate(ways, given.r, target), "llama.cpp")


if __name__ == "__main__":
    main()
