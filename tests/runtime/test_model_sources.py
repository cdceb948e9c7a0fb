"""Other programs' folders are known on every system, and their own settings are followed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from foreign_models import write_json
from runtime.model_sources import OTHER_PROGRAMS, System

HOME = Path("/home/ann")


def roots(name: str, platform: str = "linux", home: Path = HOME, **environment: str) -> list[str]:
    source = next(source for source in OTHER_PROGRAMS if source.name == name)
    return [root.as_posix() for root in source.roots(System(platform, home, environment))]


@pytest.mark.parametrize(
    ("name", "platform", "expected"),
    [
        ("lm-studio", "linux", ["/home/ann/.lmstudio/models", "/home/ann/.cache/lm-studio/models"]),
        ("ollama", "linux", ["/home/ann/.ollama/models", "/usr/share/ollama/.ollama/models", "/var/lib/ollama"]),
        ("ollama", "darwin", ["/home/ann/.ollama/models"]),
        ("ollama", "win32", ["/home/ann/.ollama/models"]),
        ("gpt4all", "linux", ["/home/ann/.cache/gpt4all", "/home/ann/.local/share/nomic.ai/GPT4All"]),
        ("gpt4all", "darwin",
         ["/home/ann/.cache/gpt4all", "/home/ann/Library/Application Support/nomic.ai/GPT4All"]),
        ("gpt4all", "win32", ["/home/ann/.cache/gpt4all", "/home/ann/AppData/Local/nomic.ai/GPT4All"]),
        ("llama.cpp", "linux", ["/home/ann/.cache/llama.cpp"]),
        ("llama.cpp", "darwin", ["/home/ann/Library/Caches/llama.cpp"]),
        ("llama.cpp", "win32", ["/home/ann/AppData/Local/llama.cpp"]),
        ("hugging-face", "linux", ["/home/ann/.cache/huggingface/hub"]),
        ("hugging-face", "win32", ["/home/ann/.cache/huggingface/hub"]),
    ],
)  # fmt: skip
def test_the_usual_folders_of_each_system(name: str, platform: str, expected: list[str]) -> None:
    assert roots(name, platform) == expected


@pytest.mark.parametrize(
    ("platform", "data"),
    [
        ("linux", "/home/ann/.local/share/Jan/data"),
        ("linux", "/home/ann/.config/Jan/data"),
        ("darwin", "/home/ann/Library/Application Support/Jan/data"),
        ("win32", "/home/ann/AppData/Roaming/Jan/data"),
    ],
)
def test_jan_keeps_models_below_its_data_folder(platform: str, data: str) -> None:
    assert {f"{data}/llamacpp/models", f"{data}/models", "/home/ann/jan/models"} <= set(roots("jan", platform))


def test_the_system_s_own_variables_move_folders() -> None:
    assert "/x/Jan/data/models" in roots("jan", XDG_DATA_HOME="/x")
    assert roots("llama.cpp", XDG_CACHE_HOME="/x") == ["/x/llama.cpp"]
    assert "/x/nomic.ai/GPT4All" in roots("gpt4all", "win32", LOCALAPPDATA="/x")


@pytest.mark.parametrize(
    ("name", "environment", "expected"),
    [
        ("ollama", {"OLLAMA_MODELS": "/disk/ollama"}, "/disk/ollama"),
        ("ollama", {"OLLAMA_MODELS": "~/big"}, "/home/ann/big"),
        ("llama.cpp", {"LLAMA_CACHE": "/disk/llama"}, "/disk/llama"),
        ("hugging-face", {"HF_HUB_CACHE": "/disk/hub", "HF_HOME": "/other"}, "/disk/hub"),
        ("hugging-face", {"HUGGINGFACE_HUB_CACHE": "/disk/hub"}, "/disk/hub"),
        ("hugging-face", {"HF_HOME": "/disk/hf"}, "/disk/hf/hub"),
    ],
)
def test_a_variable_of_the_program_takes_the_place_of_the_usual_folders(
    name: str, environment: Mapping[str, str], expected: str
) -> None:
    assert roots(name, **environment) == [expected]


@pytest.mark.parametrize("value", ["", "  ", "not/from/the/root"])
def test_a_variable_that_names_no_whole_path_is_passed_over(value: str) -> None:
    assert roots("llama.cpp", LLAMA_CACHE=value) == ["/home/ann/.cache/llama.cpp"]


def test_without_a_home_only_the_system_s_folders_are_left() -> None:
    assert roots("ollama", home=Path("~")) == ["/usr/share/ollama/.ollama/models", "/var/lib/ollama"]
    assert roots("lm-studio", home=Path("~")) == []


# --- settings of the programs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("platform", "settings"),
    [
        ("linux", ".lmstudio/settings.json"),
        ("linux", ".cache/lm-studio/settings.json"),
        ("linux", ".config/LM Studio/settings.json"),
        ("darwin", "Library/Application Support/LM Studio/settings.json"),
        ("win32", "AppData/Roaming/LM Studio/settings.json"),
    ],
)
def test_lm_studio_s_chosen_folder_is_found(tmp_path: Path, platform: str, settings: str) -> None:
    write_json(tmp_path / settings, {"downloadsFolder": "/disk/模型"})
    assert roots("lm-studio", platform, tmp_path)[-1] == "/disk/模型"


def test_lm_studio_s_moved_home_is_found(tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    (tmp_path / ".lmstudio-home-pointer").write_text(f"{moved}\n")
    write_json(moved / "settings.json", {"downloadsFolder": "/disk/models"})
    assert roots("lm-studio", home=tmp_path)[-2:] == [f"{moved}/models", "/disk/models"]


@pytest.mark.parametrize(
    ("platform", "settings"),
    [
        ("linux", ".config/Jan/settings.json"),
        ("linux", ".local/share/Jan/settings.json"),
        ("darwin", "Library/Application Support/Jan/settings.json"),
        ("win32", "AppData/Roaming/Jan/settings.json"),
    ],
)
def test_jan_s_chosen_data_folder_is_found(tmp_path: Path, platform: str, settings: str) -> None:
    write_json(tmp_path / settings, {"data_folder": "/disk/jan"})
    assert roots("jan", platform, tmp_path)[-2:] == ["/disk/jan/llamacpp/models", "/disk/jan/models"]


@pytest.mark.parametrize(
    ("platform", "settings"),
    [
        ("linux", ".config/nomic.ai/GPT4All.ini"),
        ("darwin", ".config/gpt4all.io/GPT4All.ini"),
        ("win32", "AppData/Roaming/nomic.ai/GPT4All.ini"),
    ],
)
@pytest.mark.parametrize("line", ["modelPath=/disk/gpt, all/\r\n", 'modelPath="/disk/gpt, all/"\n'])
def test_gpt4all_s_chosen_folder_is_found(tmp_path: Path, platform: str, settings: str, line: str) -> None:
    path = tmp_path / settings
    path.parent.mkdir(parents=True)
    path.write_text(f"[General]\nlastVersionStarted=3.10.0\n{line}[download]\n", newline="")
    assert roots("gpt4all", platform, tmp_path)[-1] == "/disk/gpt, all"


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"downloadsFolder": 7}', b'{"downloadsFolder": "here"}', b"\xff\xfe", b"[" * 99999,
                b'{"downloadsFolder": "/a\\u0000b"}', b'{"downloadsFolder": "\\ud800/x"}']
)  # fmt: skip
def test_odd_settings_of_a_program_change_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".lmstudio").mkdir()
    (tmp_path / ".lmstudio" / "settings.json").write_bytes(content)
    assert roots("lm-studio", home=tmp_path) == [f"{tmp_path}/.lmstudio/models", f"{tmp_path}/.cache/lm-studio/models"]


def test_a_folder_in_place_of_settings_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / ".lmstudio" / "settings.json").mkdir(parents=True)
    (tmp_path / ".lmstudio-home-pointer").mkdir()
    assert len(roots("lm-studio", home=tmp_path)) == 2
