"""The commands around chatting: lists, help, errors and exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import foreign_models
import tiny_gguf
from command_line import Opened, Run
from desktop.cli.commands import COMMANDS
from runtime import engines
from runtime.places import places
from runtime.text import set_language

ROOT = Path(__file__).resolve().parents[3]


def _quern(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "desktop", *arguments], cwd=ROOT, env={**os.environ, **environment},
        capture_output=True, stdin=subprocess.DEVNULL, check=False, timeout=120,
    )  # fmt: skip


# --- help -------------------------------------------------------------------------------------------------------


def test_help_lists_every_command(run: Run):
    result = run("--help")
    assert result.code == 0
    assert [name for name in COMMANDS if f"  {name} " not in result.out] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_explains_itself_with_an_example_within_the_width(run: Run, name: str):
    result = run(name, "--help")
    assert (result.code, result.err) == (0, "")
    assert f"  quern {name}" in result.out
    assert "\n\n\n" not in result.out
    assert [line for line in result.out.splitlines() if len(line) > 100] == []


def test_help_is_also_a_word(run: Run):
    assert run("help").out == run("--help").out
    assert run("help", "chat").out == run("chat", "--help").out


def test_the_version_is_one_line(run: Run):
    result = run("--version")
    assert result.out.startswith("Quern ")
    assert result.out.count("\n") == 1


def test_help_is_written_in_the_saved_language(run: Run, quern_home: Path, monkeypatch: pytest.MonkeyPatch):
    quern_home.mkdir()
    (quern_home / "settings.json").write_text(json.dumps({"app": {"language": "zh_CN"}}))
    chosen: list[str] = []
    monkeypatch.setattr("desktop.cli.main.set_language", chosen.append)
    run("--help")
    assert chosen[-1] == "zh_CN"
    set_language("en")


# --- usage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["chta"], "The nearest one is “quern chat”"),
        (["frobnicate"], "There is no command “frobnicate”"),
        (["chat", "--temprature", "1"], "The nearest one is --temperature"),
        (["chat", "--temperature"], "The option --temperature needs a value"),
        (["chat", "--temperature"], "“quern chat --help”"),
        (["complete"], "quern complete needs --prompt"),
        (["tokenize"], "quern tokenize needs MODEL"),
        (["chat", "--engine", "warp"], "Allowed: auto, llama, native."),
        (["bench", "-r", "0"], "Allowed: a whole number from 1 to 1,000."),
        (["chat", "starter", "too", "many"], "quern chat does not take “too many”"),
    ],
)
def test_a_wrong_command_line_is_explained_and_exits_with_2(run: Run, arguments: list[str], said: str):
    result = run(*arguments)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert "Traceback" not in result.err


def test_a_model_in_place_of_a_command_is_understood(run: Run, tiny: Path, tmp_path: Path):
    assert f"quern chat {tiny}" in run(str(tiny), "-p", "hi").err
    missing = run(str(tmp_path / "gone.gguf"))
    assert missing.code == 2
    assert "gone.gguf” is missing" in missing.err


def test_command_and_engine_names_are_read_in_any_case(run: Run, tiny: Path, engine: object):
    assert run("CHAT", str(tiny), "-p", "hi", "--engine", "LLAMA").out == "echo hi\n"


# --- models that cannot be used ---------------------------------------------------------------------------------


def test_a_missing_model_is_named(run: Run, tmp_path: Path):
    result = run("chat", str(tmp_path / "gone.gguf"), "-p", "hi")
    assert result.code == 2
    assert "gone.gguf" in result.err
    assert "Traceback" not in result.err


def test_a_cut_model_is_refused_with_both_sizes(run: Run, tiny: Path, tmp_path: Path):
    data = tiny.read_bytes()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(data[:-1])
    for command in (["chat", str(cut), "-p", "hi"], ["info", str(cut)], ["tokenize", str(cut), "hi"]):
        result = run(*command)
        assert result.code == 2
        assert f"{len(data):,}" in result.err
        assert f"{len(data) - 1:,}" in result.err


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_model_without_permission_is_named(run: Run, tiny: Path, tmp_path: Path):
    locked = tmp_path / "locked.gguf"
    locked.write_bytes(tiny.read_bytes())
    locked.chmod(0)
    result = run("info", str(locked))
    assert result.code == 2
    assert "permission" in result.err


# --- models and info --------------------------------------------------------------------------------------------


def test_models_lists_what_runs_and_what_does_not_with_the_reason(run: Run, tiny: Path, quern_home: Path):
    (quern_home / "models").mkdir(parents=True)
    (quern_home / "models" / "模型 é.gguf").write_bytes(tiny.read_bytes())
    (quern_home / "models" / "page.gguf").write_text("<!DOCTYPE html><html></html>")
    listed = {model["name"]: model for model in json.loads(run("models", "--json").out)["models"]}
    assert set(listed["模型 é"]) == {
        "name", "path", "kind", "architecture", "size_bytes", "quantization", "context_length", "runnable", "reason",
    }  # fmt: skip
    assert listed["模型 é"]["runnable"] is True
    assert (listed["page"]["runnable"], bool(listed["page"]["reason"])) == (False, True)
    shown = run("models").out
    assert "模型 é" in shown
    assert listed["page"]["reason"] in shown


def test_models_of_other_programs_are_listed_and_found_by_their_names(run: Run, person_home: Path):
    foreign_models.ollama(person_home / ".ollama" / "models", {"registry.ollama.ai/library/llama3.2:1b": "x"})
    foreign_models.write_model(person_home / "mine" / "Tale.gguf")
    saved = {"app": {"model_folders": [str(person_home / "mine"), str(person_home / "gone")]}}
    foreign_models.write_json(places().settings_file, saved)
    result = run("models")
    assert {"llama3.2:1b", "Tale"} <= set(result.out.split())
    assert "gone is missing" in result.err
    assert json.loads(run("info", "LLAMA3.2", "--json").out)["name"] == "x"


def test_models_warns_of_a_model_larger_than_the_memory(
    run: Run, tiny: Path, quern_home: Path, monkeypatch: pytest.MonkeyPatch
):
    (quern_home / "models").mkdir(parents=True)
    (quern_home / "models" / "large.gguf").write_bytes(tiny.read_bytes())
    monkeypatch.setattr("runtime.memory.total_memory", lambda: 1000)
    assert "this computer has 0.0 GB" in run("models").out


def test_info_as_json_holds_metadata_and_memory(run: Run, tiny: Path):
    short = json.loads(run("info", str(tiny), "--json", "--context-length", "512").out)
    long = json.loads(run("info", str(tiny), "--json", "--context-length", "4096", "--tensors", "ALL").out)
    assert short["architecture"] == "llama"
    assert short["metadata"]["general.name"] == "Tiny"
    assert long["memory"]["cache"] == 8 * short["memory"]["cache"]
    assert sum(short["tensor_types"].values()) == len(long["tensors"])


def test_info_shows_no_control_characters_of_the_file(run: Run, tmp_path: Path):
    title = {"general.description": "\x1b]0;owned\x07"}
    file = tiny_gguf.write_tiny(tmp_path / "evil.gguf", name="a\x1b[31mb", metadata=title)
    assert "\x1b" not in run("info", str(file)).out


def test_a_path_that_is_no_text_works_and_is_shown(run: Run, tiny: Path, tmp_path: Path):
    file = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff '\"%d.gguf"))
    try:
        file.write_bytes(tiny.read_bytes())
    except OSError:
        pytest.skip("this file system takes only valid names")
    assert "\ufffd '\"%d.gguf" in run("info", str(file)).out
    assert json.loads(run("info", str(file), "--json").out)["path"] == str(file)


# --- in processes of their own ----------------------------------------------------------------------------------


def test_the_c_locale_prints_chinese(tiny: Path, tmp_path: Path):
    file = tmp_path / "模型 🦙.gguf"
    file.write_bytes(tiny.read_bytes())
    done = _quern("info", str(file), LC_ALL="C", LANG="C")
    assert done.returncode == 0
    assert "模型 🦙" in done.stdout.decode("utf-8")


def test_an_encoding_without_the_character_does_not_end_the_program(tiny: Path, tmp_path: Path):
    file = tmp_path / "模型.gguf"
    file.write_bytes(tiny.read_bytes())
    done = _quern("info", str(file), PYTHONIOENCODING="latin-1", PYTHONUTF8="0")
    assert done.returncode == 0
    assert b"??" in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="pipes close differently there")
def test_a_closed_pipe_is_quiet():
    command = f'"{sys.executable}" -m desktop info starter --tensors all | head -n 1'
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, check=False, timeout=120)
    assert done.stderr == b""


def test_a_real_answer_comes_from_a_real_model(tmp_path: Path):
    script = tiny_gguf.write_scripted(tmp_path / "scripted.gguf", tiny_gguf.pieces_of("The answer is 42, 模型 said."))
    done = _quern("chat", str(tmp_path / "scripted.gguf"), "-p", "What is it?", "--temperature", "0")
    assert done.stdout == script.data + b"\n"
    assert (done.returncode, done.stderr) == (0, b"")


def test_every_folder_and_file_may_have_any_name(tmp_path: Path):
    home = tmp_path / "Ünï 模型　é🦙 'q\" %d"
    (home / "models").mkdir(parents=True)
    script = tiny_gguf.write_scripted(home / "models" / "m 模型 '%s.gguf", tiny_gguf.pieces_of("Here I am."))
    done = _quern("chat", "m 模型 '%s", "-p", "hi", QUERN_HOME=str(home), TMPDIR=str(home), LC_ALL="C", LANG="C")
    assert (done.returncode, done.stdout) == (0, script.data + b"\n"), done.stderr


def test_an_unknown_architecture_is_refused_and_no_other_model_answers(tmp_path: Path):
    file = tiny_gguf.write_tiny(tmp_path / "foo.gguf", metadata={"general.architecture": "foo"})
    done = _quern("chat", str(file), "-p", "hi")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"foo" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_program_without_streams_still_runs(tiny: Path):
    code = (
        "import os, sys; sys.stdin = sys.stdout = sys.stderr = None;"
        "from desktop.__main__ import main; os._exit(main(sys.argv[1:]))"
    )
    for words, expected in ((["info", str(tiny)], 0), (["chat", str(tiny)], 2), (["frobnicate"], 2)):
        done = subprocess.run([sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (expected, b"", b"")


@pytest.mark.skipif(os.name != "posix", reason="a shell closes the streams")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_closed_streams_are_as_good_as_empty_ones(tiny: Path, tmp_path: Path, closed: str):
    run = f'"{sys.executable}" -m desktop "$@" {closed}'
    for words, expected in ((["chat", str(tiny), "-p", "hi", "--max-tokens", "2"], 0), (["frobnicate"], 2)):
        done = subprocess.run(["sh", "-c", run, "sh", *words], cwd=ROOT, capture_output=True, check=False)
        assert done.returncode == expected
        assert b"Traceback" not in done.stderr
        assert bool(done.stdout) == (expected == 0 and ">&-" not in closed.replace("2>&-", ""))


@pytest.mark.skipif(os.name != "posix", reason="a shell closes the streams")
def test_nothing_that_is_opened_takes_the_place_of_a_closed_stream(tmp_path: Path):
    code = (
        "import os; from desktop.__main__ import main; main(['--version']);"
        "import subprocess, sys; opened = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT);"
        "subprocess.run([sys.executable, '-c', 'import os; os.write(2, b\"words\")'], check=True);"
        "os._exit(opened)"
    )
    closed = f'"{sys.executable}" -c "$1" "$2" <&- >&- 2>&-'
    done = subprocess.run(["sh", "-c", closed, "sh", code, str(tmp_path / "kept")], cwd=ROOT, check=False)
    assert done.returncode > 2
    assert (tmp_path / "kept").read_bytes() == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_full_disk_is_told_and_exits_with_2():
    done = subprocess.run(
        f'"{sys.executable}" -m desktop models > /dev/full', shell=True, cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.decode().splitlines() == ["The output cannot be written: the disk is full."]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_remarks_that_find_no_room_do_not_cost_the_answer(tiny: Path):
    done = subprocess.run(
        f'"{sys.executable}" -m desktop complete "{tiny}" -p "The mill" --max-tokens 2 -v 2> /dev/full',
        shell=True, cwd=ROOT, stdout=subprocess.PIPE, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stdout.strip()


def test_a_lack_of_memory_is_told_and_is_no_bug(run: Run, opened: Opened, monkeypatch: pytest.MonkeyPatch):
    def lacking(*_arguments: object, **_options: object) -> None:
        raise MemoryError

    monkeypatch.setattr(engines, "open_engine", lacking)
    result = run("chat", "-p", "hi")
    assert (result.code, result.out) == (2, "")
    assert "not enough memory" in result.err



def test_chat_imports_neither_qt_nor_torch(tiny: Path):
    code = (
        "import sys; from desktop.__main__ import main; code = main(sys.argv[1:]);"
        "sys.exit(code or any(name in sys.modules for name in ('PySide6', 'torch', 'rich', 'numpy')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "chat", str(tiny), "-p", "hi", "--max-tokens", "2"],
        cwd=ROOT, capture_output=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_bench_reports_median_least_and_most(tmp_path: Path):
    file = tiny_gguf.write_tiny(tmp_path / "tiny.gguf")
    done = _quern("bench", str(file), "-p", "16", "-n", "8", "-r", "2", "--json", "--threads", "1")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    for key in ("prompt_tokens_per_second", "generation_tokens_per_second"):
        assert 0 < result[key]["min"] <= result[key]["median"] <= result[key]["max"]


def test_bench_tells_what_came_of_guesses(tmp_path: Path):
    path = tmp_path / "endless.gguf"
    tiny_gguf.write_scripted(path, [b"la ", b"li "], cyclic=True)
    done = _quern("bench", str(path), "-p", "8", "-n", "64", "-r", "1", "--threads", "1", "--speculation", "ngram")
    assert done.returncode == 0, done.stderr
    assert re.search(rb"Speculation: \d+ of \d+ guesses came true, in 64 tokens", done.stdout)
