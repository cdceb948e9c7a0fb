"""Tries a back end in a child process: a build for another processor or a broken driver ends it, and nothing else.

Both ends are in this file: `tried` is the parent's, `main` the child's. The child loads the one library, evaluates a
tiny model whole and token by token on it, and prints what it found as one JSON object.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from runtime import interrupts
from runtime.llama.files import backend_files
from runtime.llama.trial_model import ALL_TYPES, COMMON_TYPES, VOCABULARY, write_trial_model
from runtime.llama.verdicts import TriedDevice, Verdict
from runtime.network import close_network

TIME_LIMIT = 120.0  # seconds; a driver compiles its programs at the first use
_PROMPT, _THREADS = 96, 2  # tokens; more than the largest tile of any kernel, and a thread beside the main one
_FATAL = {"SIGILL", "SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE", "SIGSYS", "SIGTRAP"}
_WINDOWS_FATAL = {0xC000001D: "SIGILL", 0xC0000005: "SIGSEGV", 0xC0000409: "SIGABRT", 0xC0000374: "SIGSEGV"}
_KEPT = 400  # characters of what it said last


class NoVerdict(Exception):
    """The trial could not be held, or was ended from outside: nothing is known of the back end."""


def tried(name: str, *, seconds: float = TIME_LIMIT) -> Verdict:
    """Tries the back end of this file name, one of our own folder, and returns how that ended.

    Raises `NoVerdict`.
    """
    try:
        with interrupts.held_back():
            child = subprocess.Popen(
                _command(name), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                cwd=None if getattr(sys, "frozen", False) else Path(__file__).resolve().parents[2],
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )  # fmt: skip
    except OSError as error:
        raise NoVerdict(error.strerror or str(error)) from error
    with child:
        try:
            written, said = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return Verdict(reason="timeout", details=f"{seconds:.0f} s")
        finally:
            child.kill()
    return _verdict(child.returncode, written, _last_words(said))


def _command(name: str) -> list[str]:
    if getattr(sys, "frozen", False):
        return [sys.executable, "try-backend", name]
    return [sys.executable, "-m", "runtime.llama.trials", name]


def _last_words(said: bytes) -> str:
    lines = said.decode("utf-8", "replace").split("\n")
    return "\n".join(line.strip() for line in lines if line.strip())[-_KEPT:]


def _verdict(status: int, written: bytes, said: str) -> Verdict:
    if status == 0:
        with contextlib.suppress(msgspec.MsgspecError, IndexError):
            return msgspec.json.decode(written.strip().splitlines()[-1], type=Verdict)
    if (reason := fatal_reason(status)) is not None:
        return Verdict(reason=reason, details=said)
    raise NoVerdict(said or f"exit status {status}")


def fatal_reason(status: int) -> str | None:
    """Returns what native code died of, for an exit status as Python tells it; None for any other end."""
    if status < 0:
        with contextlib.suppress(ValueError):
            name = signal.Signals(-status).name
            return name if name in _FATAL else None
    return _WINDOWS_FATAL.get(status & 0xFFFFFFFF)


# --- the child's end --------------------------------------------------------------------------------------------


def main(words: list[str] | None = None) -> int:
    """Tries the back end that the one argument names. Returns the exit code."""
    close_network()
    (name,) = sys.argv[1:] if words is None else words
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # native code prints
        answers.write(msgspec.json.encode(_found(name)) + b"\n")
    return 0


def _found(name: str) -> Verdict:
    """Returns the verdict of a back end that did not end this process. Raises `UserError` where none can be had."""
    from runtime.llama import library
    from runtime.llama.variants import is_variant

    file = next((file for file in backend_files() if file.name == name), None)
    if file is None:
        return Verdict(reason="missing", details=name)
    _quiet_crash()
    if is_variant(file):
        functions = library.load_for_trial(file)
        return _computed(functions, ALL_TYPES, device=None)
    functions = library.load_for_trial(file, with_processor=True)
    cards = [device for device in library.devices() if device.is_card]
    if not cards:
        return Verdict(reason="no device", details=library.log_tail(5))
    for card in cards:
        verdict = _computed(functions, COMMON_TYPES, device=card.handle)
        if not verdict.survived:
            return verdict
    return Verdict(devices=tuple(_described(card) for card in cards))


def _described(card: Any) -> TriedDevice:
    from runtime.llama import library

    free, total = library.device_memory(card)
    return TriedDevice(card.name, card.description, free, total)


def _quiet_crash() -> None:
    """Leaves no core file of a death that is expected."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _computed(functions: Any, types: tuple[str, ...], *, device: int | None) -> Verdict:
    """Evaluates the tiny model and returns whether all its logits are the zeros that they must be."""
    with tempfile.TemporaryDirectory(prefix="quern-") as folder:
        file = Path(folder) / "trial.gguf"
        write_trial_model(file, types)
        with _context(functions, file, device) as context:
            if context is None:
                from runtime.llama import library

                return Verdict(reason="refused", details=library.last_reason(library.log_tail(30)))
            for tokens in (_PROMPT, 1, 1):
                ids = (ctypes.c_int32 * tokens)(*range(tokens))
                status = functions.llama_decode(context, functions.llama_batch_get_one(ids, tokens))
                logits = functions.llama_get_logits_ith(context, -1)[:VOCABULARY] if status == 0 else [1.0]
                if any(logit != 0 for logit in logits):
                    return Verdict(reason="wrong", details=f"status {status}, {logits[:4]}")
    return Verdict()


@contextlib.contextmanager
def _context(functions: Any, file: Path, device: int | None) -> Iterator[Any]:
    """Yields a context with the model on the processor, or whole on a device; None where there is none to be had."""
    wanted = functions.llama_model_default_params()
    wanted.n_gpu_layers = 0 if device is None else 99
    devices = (ctypes.c_void_p * 2)(device, None)
    wanted.devices = ctypes.addressof(devices)
    model = functions.llama_model_load_from_file(os.fsencode(file), wanted)
    if not model:
        yield None
        return
    params = functions.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = 2 * _PROMPT
    params.n_threads = params.n_threads_batch = _THREADS
    context = functions.llama_init_from_model(model, params)
    yield context or None
    if context:
        functions.llama_free(context)
    functions.llama_model_free(model)


if __name__ == "__main__":
    sys.exit(main())
