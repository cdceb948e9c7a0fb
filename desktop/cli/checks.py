"""The doctor's checks: each looks at one thing and says what it found and what to do. Prints nothing."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import signal
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

import resources
from desktop.cli import probes
from desktop.cli.layout import shown_path
from runtime.errors import UserError
from runtime.installation import full_version, installation, repair_advice
from runtime.messages import Message, Role
from runtime.text import LANGUAGES, _, ngettext, sentences

if TYPE_CHECKING:
    from runtime.devices import GraphicsCard

_ENOUGH_DISK = 1 << 30
_SELF_TEST_SECONDS = 300
_SELF_TEST_PROMPT = "The quern is a mill of two stones that people turned by hand to grind their grain. " * 8


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one check found. `ok` is False for a problem; without `needed`, Quern works all the same."""

    name: str
    title: str
    ok: bool
    found: str
    advice: str = ""
    needed: bool = True


def all_findings() -> Iterator[Finding]:
    """Yields one finding after the other."""
    for name, (title, check) in all_checks().items():
        yield _guarded(name, title, check)


Result = tuple[str, str]  # what was found, and what to do about it; no advice means that all is well


def all_checks() -> dict[str, tuple[str, Callable[[], Result]]]:
    """Returns every check by its name for programs: its title, and the function that looks."""
    return {
        "version": (_("Quern"), _version),
        "computer": (_("Computer"), _computer),
        "llama": (_("Engine llama.cpp"), _llama),
        "starter": (_("Starter model"), _starter),
        "self-test": (_("Self-test"), _self_test),
        "native": (_("Quern's own engine"), _native),
        "templates": (_("Chat templates"), _templates),
        "window": (_("Window"), _window),
        "x11": (_("X11 libraries"), _x11),
        "parts": (_("Libraries and plugins"), _parts),
        "places": (_("Folders"), _places),
        "network": (_("Network"), _network),
        "settings": (_("Settings"), _settings),
        "search": (_("Search in chats"), _search),
        "translations": (_("Translations"), _translations),
    }


OPTIONAL = ("starter", "x11", "settings", "translations")


def _guarded(name: str, title: str, check: Callable[[], Result]) -> Finding:
    try:
        found, advice = check()
    except UserError as error:
        found = sentences(error.info.title, error.info.message)
        advice = error.info.hint or repair_advice()
    except (OSError, ImportError) as error:
        found, advice = f"{type(error).__name__}: {error}", repair_advice()
    return Finding(name=name, title=title, ok=not advice, found=found, advice=advice, needed=name not in OPTIONAL)


def _version() -> Result:
    return f"{full_version()} · Python {platform.python_version()} · {shown_path(sys.executable)}", ""


def _computer() -> Result:
    from runtime import devices

    here = devices.machine()
    memory = _("{total:.1f} GB of memory, {free:.1f} GB free")
    cores = _("{usable} of {cores} processor cores usable")
    lines = (
        f"{platform.system()} {platform.release()} {here.processor.architecture}",
        f"{here.processor.name}: {' '.join(here.processor.features)}",
        cores.format(usable=here.processor.usable, cores=here.processor.cores),
        memory.format(total=here.memory_total / 1e9, free=here.memory_free / 1e9),
        *(_graphics(card) for card in here.graphics),
    )
    return "\n".join(lines), ""


def _graphics(card: GraphicsCard) -> str:
    memory = f", {card.memory / 1e9:.1f} GB" if card.memory else ""
    return _("Graphics card: {name}").format(name=card.name) + memory


def _llama() -> Result:
    outcome = probes.probe("llama")
    if not outcome.found:
        return _ended(outcome), repair_advice()
    found = outcome.found
    devices = [_device(line, found["memory"].get(line.partition(":")[0])) for line in found["devices"]]
    return "\n".join((found["build"].replace(" = 1", ""), *devices, *found["lines"])), ""


def _device(line: str, memory: list[int] | None) -> str:
    if memory is None:
        return line
    free, total = memory
    return _("{device}, {free:.1f} of {total:.1f} GB free").format(device=line, free=free / 1e9, total=total / 1e9)


def _ended(outcome: probes.Outcome) -> str:
    """Returns how a child process ended, in words."""
    if outcome.status is None:
        return _("It did not answer in time.")
    if outcome.status < 0:
        name = signal.Signals(-outcome.status).name
        if name == "SIGILL":
            return _("It ended with an illegal instruction: it was built for another processor.")
        return _("It was ended by signal {name}. {line}").format(name=name, line=outcome.last_words)
    return outcome.last_words or _("It ended with status {status}.").format(status=outcome.status)


def _starter() -> Result:
    from runtime import starter
    from runtime.gguf_header import read_header

    header = read_header(starter.starter_path())
    return _("{name}, {quantization}, {size:.0f} MB: {path}").format(
        name=header.name, quantization=header.quantization, size=header.file_size / 1e6, path=shown_path(header.path)
    ), ""  # fmt: skip


def _self_test() -> Result:
    """Reads a prompt of some length and writes a few tokens, in an engine process: what every chat needs."""
    return _tried("llama")


def _native() -> Result:
    if not installation().has_torch and installation().is_package:
        return _("not part of this edition; the full edition of Quern has it"), ""
    return _tried("native")


def _tried(name: Literal["llama", "native"]) -> Result:
    from runtime.engine_process import EngineProcess
    from runtime.params import LoadParams, SamplingParams
    from runtime.protocol import Finished, GenerationRequest

    request = GenerationRequest(
        prompt=_SELF_TEST_PROMPT, ignore_end=True, sampling=SamplingParams(temperature=0, max_tokens=8)
    )
    with EngineProcess() as engine, _ended_after(_SELF_TEST_SECONDS, engine.pid):
        engine.load(_model_to_test(), LoadParams(context_length=512, engine=name))
        *_events, finished = engine.generate(request)
    assert isinstance(finished, Finished)
    usage = finished.usage
    if usage.generated_tokens != 8:
        return _("Only {count} of 8 tokens were written.").format(count=usage.generated_tokens), _("Report this.")
    return _("Read {prompt} tokens at {speed:.0f} tokens/s and wrote 8 in an engine process.").format(
        prompt=usage.prompt_tokens, speed=usage.prompt_speed
    ), ""  # fmt: skip


@contextlib.contextmanager
def _ended_after(seconds: float, pid: int) -> Iterator[None]:
    """Ends a process that does not come to an end: the doctor must not wait for ever."""
    timer = threading.Timer(seconds, os.kill, (pid, signal.SIGTERM))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _model_to_test() -> Path:
    """Returns the starter model, or the smallest other one that can be run. Raises `StarterMissing`."""
    from runtime import starter
    from runtime.library import Library

    try:
        return starter.starter_path()
    except starter.StarterMissing:
        usable = [model for model in Library().models() if model.can_chat]
        if not usable:
            raise
        return min(usable, key=lambda model: model.size_bytes).path


def _templates() -> Result:
    from runtime.render import TemplateRenderer

    renderer = TemplateRenderer(timeout=20)
    try:
        rendered = renderer.render("{% for m in messages %}{{ m.content }}{% endfor %}", (Message(Role.USER, "ok"),))
    finally:
        renderer.close()
    if rendered.text != "ok":
        return _("The template process wrote “{text}”.").format(text=rendered.text), repair_advice()
    return _("They are applied in a process of their own."), ""


def _window() -> Result:
    seen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")) or sys.platform in ("win32", "darwin")
    chosen = os.environ.get("QT_QPA_PLATFORM")
    outcome = probes.probe("qt", environment={} if seen or chosen else {"QT_QPA_PLATFORM": "offscreen"})
    if not outcome.found:
        return _ended(outcome), _("The command line works without the window. Install what the line above names.")
    found = _("Qt {version} on {platform}").format(**outcome.found)
    return (found if seen else _("{found}; there is no display here").format(found=found)), ""


def _x11() -> Result:
    if not sys.platform.startswith("linux"):
        return _("not needed on this system"), ""
    outcome = probes.probe("xcb")
    if outcome.status != 0:
        return _ended(outcome), repair_advice()
    if missing := outcome.found.get("missing"):
        library = missing.split(":")[0]
        return missing, _("Install the package that holds {library}; libxcb-cursor0 is the usual one.").format(
            library=library
        )
    return _("complete"), ""


def _parts() -> Result:
    """Only a package has just what Quern uses; from source, Qt brings plugins of no interest here."""
    if not installation().is_package:
        return _("only looked at in a package"), ""
    outcome = probes.probe("parts")
    if not outcome.found:
        return _ended(outcome), repair_advice()
    if failed := outcome.found["failed"]:
        return "\n".join(f"{name}: {why}" for name, why in failed.items()), repair_advice()
    return ngettext("{count} was loaded.", "{count} were loaded.", outcome.found["count"]).format(
        count=outcome.found["count"]
    ), ""


def _places() -> Result:
    from runtime.places import places

    where = places()
    folders = dict.fromkeys((where.config, where.data, where.state, where.cache, where.logs, where.models))
    unwritable = [folder for folder in folders if not _writable(folder)]
    if unwritable:
        paths = ", ".join(shown_path(folder) for folder in unwritable)
        return _("Not writable: {paths}").format(paths=paths), _(
            "Give permission there, or set QUERN_HOME to a folder that can be written. Until then nothing is kept."
        )
    free = shutil.disk_usage(_existing(where.data)).free
    if free < _ENOUGH_DISK:
        return _("Only {free:.0f} MB are free at {path}.").format(free=free / 1e6, path=shown_path(where.data)), _(
            "Make room: chats and models are kept there."
        )
    return _("{path} and others are writable; {free:.1f} GB are free.").format(
        path=shown_path(where.data), free=free / 1e9
    ), ""


def _existing(folder: Path) -> Path:
    return next(place for place in (folder, *folder.parents) if place.exists())


def _writable(folder: Path) -> bool:
    """Tries it, where the folder is or would be made; permissions alone do not tell (read-only disks, root)."""
    try:
        with tempfile.TemporaryDirectory(dir=_existing(folder)):
            return True
    except OSError:
        return False


def _network() -> Result:
    from runtime import network
    from runtime.places import places

    return "\n".join(network.report(places().logs)), ""


def _settings() -> Result:
    from desktop.cli.options import read_saved

    notes = read_saved().notes
    return ("\n".join(notes), _("Open the settings once and save them.")) if notes else (_("read without a fault"), "")


def _search() -> Result:
    database = sqlite3.connect(":memory:")
    try:
        database.execute("CREATE VIRTUAL TABLE words USING fts5(text, tokenize = 'trigram')")
    except sqlite3.OperationalError as error:
        return f"SQLite {sqlite3.sqlite_version}: {error}", _("Use a Python whose SQLite is 3.34 or newer, with FTS5.")
    finally:
        database.close()
    return f"SQLite {sqlite3.sqlite_version}, FTS5", ""


def _translations() -> Result:
    missing = [
        name for code, name in LANGUAGES.items()
        if code != "en" and not resources.path("translations", code, "LC_MESSAGES", "quern.mo").is_file()
    ]  # fmt: skip
    if missing:
        return _("Missing: {names}").format(names=", ".join(missing)), repair_advice()
    return ", ".join(LANGUAGES.values()), ""
