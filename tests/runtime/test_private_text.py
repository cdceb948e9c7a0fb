"""What may be written to a log, and what is taken out of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.private_text import plain_traceback, without_private

HOME = "/home/ann"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path(HOME))


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        (f"loading {HOME}/My Novel/hero.gguf", "loading ~/….gguf"),
        (f"loaded 30 pairs from {HOME}/a b.gguf (version GGUF V3)", "loaded 30 pairs from ~/….gguf (version GGUF V3)"),
        (f"{HOME}/Ünï 模型/é🦙.safetensors: not there", "~/….safetensors: not there"),
        (f"cannot read '{HOME}/notes for Bo' today", "cannot read '~/…' today"),
        (f"“{HOME}/a.b/hero” is missing", "“~/…” is missing"),
        (f"{HOME}/one.gguf, {HOME}/two.bin", "~/….gguf, ~/….bin"),
        (f"file://{HOME}/My%20Novel/hero.txt", "file://~/….txt"),
        (f"in {HOME}/folder: it is full", "in ~/…: it is full"),
        (f"{HOME} is the home", f"{HOME} is the home"),
        ("/mnt/models/public.gguf", "/mnt/models/public.gguf"),
        (f"{HOME}ette/other.gguf", f"{HOME}ette/other.gguf"),
    ],
)
def test_files_in_the_home_folder_lose_their_names(line: str, kept: str) -> None:
    assert without_private(line) == kept
    assert without_private(f"before\n{line}\nafter") == f"before\n{kept}\nafter"


def test_windows_paths_are_known_in_both_spellings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: r"C:\Users\Ann")
    assert without_private(r"at C:\Users\Ann\hero.gguf") == "at ~/….gguf"
    assert without_private(repr(r"C:\Users\Ann\hero.gguf")) == "'~/….gguf'"


def test_the_program_itself_stays_legible(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).resolve().parents[2]
    monkeypatch.setattr(Path, "home", lambda: root.parent)
    assert without_private(f'File "{root}/desktop/app.py", line 3') == 'File "<quern>/desktop/app.py", line 3'


def _traceback_of(error: Exception) -> str:
    try:
        raise error
    except Exception as caught:  # noqa: BLE001 - any kind is tried
        return plain_traceback(type(caught), caught, caught.__traceback__)


def test_an_exception_is_logged_without_the_values_it_speaks_of() -> None:
    secret = "what Bo said"
    for error in (KeyError(secret), ValueError(secret), RuntimeError(secret), AssertionError(secret)):
        text = _traceback_of(error)
        assert secret not in text
        assert "in _traceback_of" in text
        assert type(error).__name__ in text


def test_messages_about_code_and_files_stay() -> None:
    assert "has no attribute 'x'" in _traceback_of(AttributeError("'str' object has no attribute 'x'"))
    text = _traceback_of(FileNotFoundError(2, "No such file", f"{HOME}/hero.gguf"))
    assert "No such file" in text
    assert "hero" not in text
