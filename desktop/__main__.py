"""The door: `quern`. Sends the first word to the window, the engine process or the command line.

Nothing is imported before it is known what is wanted: an engine process holds no Qt and the window no command line.
"""

from __future__ import annotations

import os
import sys

from runtime.network import close_network


def main(arguments: list[str] | None = None) -> int:
    """Runs what the arguments ask for and returns the exit code."""
    _fill_closed_streams()
    if getattr(sys, "frozen", False):
        _prepare_package()
    words = sys.argv[1:] if arguments is None else arguments
    close_network()
    if words[:1] == ["engine"]:
        from runtime import worker

        return worker.main(words[1:])
    if words[:1] == ["render"]:
        from runtime import render

        return render.main()
    if words == ["job", "convert"]:
        from convert import worker as conversion

        return conversion.main()
    if words[:1] == ["measure"]:
        from runtime import exact_memory

        return exact_memory.main()
    if words[:1] == ["try-backend"]:
        from runtime.llama import trials

        return trials.main(words[1:])
    if words[:1] == ["phase"]:
        from convert import phases

        return phases.main()
    if _wants_window(words):
        from desktop import app

        return app.main(words)
    if arguments is not None:
        return _command_line(words)
    try:
        from desktop.cli.guard import guarded

        return guarded(lambda: _command_line(words))
    except KeyboardInterrupt:  # Ctrl-C before the guard stands
        return 130


def _fill_closed_streams() -> None:
    """Leads closed standard streams nowhere: the next file opened would take their place, and be printed into."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number is this one


def _prepare_package() -> None:
    import multiprocessing

    from runtime.installation import restore_library_path

    multiprocessing.freeze_support()  # a library's worker process comes in here, and goes no further
    restore_library_path()


def _command_line(words: list[str]) -> int:
    try:
        from desktop.cli.main import run

        return run(words)
    except KeyboardInterrupt:  # Ctrl-C while the modules were still being read
        return 130


def _wants_window(words: list[str]) -> bool:
    """Nothing, or one model file: this is how a desktop opens a file that was double-clicked."""
    if "_QUERN_COMPLETE" in os.environ:
        return False  # a shell asks what may follow; desktop/cli/completion.py answers
    return not words or (len(words) == 1 and words[0].lower().endswith(".gguf") and os.path.isfile(words[0]))


if __name__ == "__main__":
    sys.exit(main())
