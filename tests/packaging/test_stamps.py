"""What the set-up remembers between two runs."""

from __future__ import annotations

import threading
from pathlib import Path

from stamps import Stamps, fingerprint, only_one


def test_a_step_is_done_only_for_the_inputs_it_was_done_with(tmp_path: Path) -> None:
    stamps = Stamps(tmp_path)

    stamps.mark("packages", fingerprint("3.11", {"numpy": "2.4.6"}))

    assert stamps.is_done("packages", fingerprint("3.11", {"numpy": "2.4.6"}))
    assert not stamps.is_done("packages", fingerprint("3.11", {"numpy": "2.4.7"}))
    assert not stamps.is_done("packages", fingerprint("3.12", {"numpy": "2.4.6"}))
    assert not stamps.is_done("models", fingerprint("3.11", {"numpy": "2.4.6"}))


def test_a_forgotten_step_is_not_done(tmp_path: Path) -> None:
    stamps = Stamps(tmp_path)
    stamps.mark("packages", "key")

    stamps.forget("packages")
    stamps.forget("packages")

    assert not stamps.is_done("packages", "key")


def test_stamps_go_away_with_the_environment_they_lie_in(tmp_path: Path) -> None:
    stamps = Stamps(tmp_path / ".venv")
    stamps.mark("packages", "key")

    for file in (tmp_path / ".venv").iterdir():
        file.unlink()
    (tmp_path / ".venv").rmdir()

    assert not stamps.is_done("packages", "key")


def test_a_second_set_up_in_the_same_folder_says_so_and_waits(tmp_path: Path) -> None:
    order: list[str] = []
    waiting = threading.Event()

    def second() -> None:
        with only_one(tmp_path / "lock", waiting.set):
            order.append("second")

    with only_one(tmp_path / "lock", waiting.set):
        assert not waiting.is_set()
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(60)
        order.append("first")
    thread.join(60)

    assert order == ["first", "second"]
