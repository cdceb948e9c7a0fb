"""The set-up's command line: what to bring the checkout to, and what to start afterwards. Called by set_up.py."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from console import Console, SetUpError, end_as_interrupted
from set_up_steps import ROOT, SetUp
from system_packages import has_display

TEST = ("-m", "pytest", "-m", "not acceptance and not package")
ACCEPTANCE = ("-m", "pytest", "--hypothesis-profile=exploring", "-m", "acceptance or hypothesis")  # new examples, too
PACKAGE = ("-m", "pytest", "-m", "package", "tests/packaging")
# What `check` runs, in order; all of them run even when one fails. Checks of generated files belong here too.
CHECKS: tuple[tuple[str, ...], ...] = (
    ("-m", "ruff", "check", "."),
    ("-m", "mypy"),
    ("-m", "pytest", "-q", "tests/test_imports.py"),
    ("packaging/translations.py", "--check"),
    ("-m", "desktop.cli.help_pages", "--check"),
)
_ACTIONS = {
    "install": "bring this folder to where Quern can run (the default)",
    "run": "open the window, or chat in the terminal where no display is",
    "test": "run the tests",
    "check": "run the linter, the type checker, the import rules and what compares generated files",
    "acceptance": "run the long tests",
    "package-test": "try the packages in dist/, which packaging/package.py makes",
}


def main(arguments: Sequence[str]) -> int:
    """Runs the set-up with the words after `set_up.py`; returns the exit status."""
    action, rest = arguments[0] if arguments else "install", list(arguments[1:])
    console = Console(ROOT / "build" / "set_up.log")
    if action not in _ACTIONS:
        console.say(_usage())
        return 0 if action in {"-h", "--help", "help"} else 2
    end_as_interrupted()
    try:
        set_up = SetUp(console)
        level = "run" if action in {"install", "run"} else "dev"
        set_up.bring_to(level, with_font=level == "run" and has_display())
        return _act(action, rest, set_up, console)
    except SetUpError as error:
        console.say(str(error))
        return 2
    except OSError as error:  # a folder that is not ours, a full disk
        console.say(f"The set-up cannot go on: {error}. Check who owns this folder, and the disk's free space.")
        return 2
    except KeyboardInterrupt:
        console.say("Interrupted. Run the same command again to go on.")
        return 130


def _usage() -> str:
    listed = "\n".join(f"  {name:12}{text}" for name, text in _ACTIONS.items())
    return f"usage: set_up.py [action] [words for what it starts]\n\n{listed}\n\nFor example: set_up.py run chat --help"


def _act(action: str, rest: list[str], set_up: SetUp, console: Console) -> int:
    python = str(set_up.python)
    if action == "install":
        start = "make run" if shutil.which("make") else "python packaging/set_up.py run"
        console.say(f"Quern is ready. Start it with: {start}")
        return 0
    if action == "run":
        return _become([python, "-m", "desktop", *_words(rest, console)])
    if action == "check":
        return max(_announced(console, [python, *check]) for check in CHECKS)
    os.chdir(ROOT)
    chosen = {"acceptance": ACCEPTANCE, "package-test": PACKAGE}.get(action, TEST)
    return _become([python, *chosen, *rest])


def _words(rest: list[str], console: Console) -> list[str]:
    """Returns the words for `quern`: without a display, what would open the window becomes a chat in the terminal."""
    if has_display() or (rest and not rest[0].startswith("-")):
        return rest
    console.say("No display was found: the chat starts in this terminal.")
    return ["chat", *rest]


def _announced(console: Console, command: list[str]) -> int:
    console.say("$ " + " ".join(["python", *command[1:]]))
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def _become(command: list[str]) -> int:
    """Runs `command` with this terminal's input and signals, in place of this process where that is possible."""
    if os.name != "nt":
        sys.stderr.flush()
        os.execv(command[0], command)
    return subprocess.run(command, check=False).returncode
