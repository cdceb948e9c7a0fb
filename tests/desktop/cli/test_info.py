"""What a model file says about itself is shown as it is, and can neither drive a terminal nor break JSON."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest

import raw_gguf
import tiny_gguf
import tiny_native
from command_line import Run
from desktop.cli import output
from desktop.cli.layout import cell_width
from runtime.places import places


def told(run: Run, tmp_path: Path, *flags: str, **metadata: object) -> str:
    file = tiny_gguf.write_tiny(tmp_path / "m.gguf", metadata=metadata)
    return run("info", str(file), *flags).out


def test_control_characters_in_the_name_of_a_key_are_made_visible(run: Run, tmp_path: Path):
    shown = told(run, tmp_path, **{"general.\x1b[31m\nkey": 1})
    assert "general.␛[31m␊key" in shown
    assert "\x1b" not in shown


def test_numbers_that_json_does_not_have_are_null(run: Run, tmp_path: Path):
    odd = {"general.a": math.nan, "general.b": math.inf, "general.c": [1.5, -math.inf]}
    found = json.loads(told(run, tmp_path, "--json", **odd), parse_constant=refuse)
    assert found["metadata"]["general.a"] is None
    assert found["metadata"]["general.b"] is None
    assert found["metadata"]["general.c"] == [1.5, None]


def test_numbers_are_shown_as_people_write_them(run: Run, tmp_path: Path):
    lines = [line.split() for line in told(run, tmp_path).splitlines()]
    assert ["llama.attention.layer_norm_rms_epsilon", "1e-05"] in lines
    assert ["llama.rope.freq_base", "10000"] in lines


def refuse(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


def test_memory_is_estimated_and_measured(run: Run, tmp_path: Path):
    found = json.loads(told(run, tmp_path, "--json", "--context-length", "1024"))["memory"]
    assert found["context_length"] == found["exact"]["context_length"] == 1024
    assert found["exact"]["weights"] == found["weights"]
    assert found["note"] == ""
    assert found["exact"]["total"] == sum(found["exact"][part] for part in ("weights", "cache", "compute", "other"))
    lines = [line.split() for line in told(run, tmp_path, "--context-length", "1024").splitlines()]
    assert ["Estimated", "Measured"] in lines


def test_memory_that_cannot_be_measured_is_estimated_with_the_reason(run: Run, tmp_path: Path):
    file = tmp_path / "m.gguf"
    file.write_bytes(raw_gguf.pack())
    found = json.loads(run("info", str(file), "--json").out)["memory"]
    assert found["exact"] is None
    assert found["total"] > 0
    assert f"Not measured: {found['note']}" in run("info", str(file)).out
    assert found["note"] == "It has no vocabulary."


@pytest.mark.parametrize(
    ("flags", "warned"), [((), True), (("--rope-factor", "2"), False), (("--rope-factor", "1.5"), True)]
)
def test_a_context_beyond_training_is_told_of_unless_positions_are_stretched(
    run: Run, tiny: Path, flags: tuple[str, ...], warned: bool
):
    said = run("info", str(tiny), "--context-length", "8192", *flags).out
    assert ("was trained for 4,096 tokens" in said) == warned


def test_templates_their_variables_and_a_guess_are_listed(run: Run, tmp_path: Path):
    source = tiny_gguf.chatml_template() + "{% if enable_thinking %}x{% endif %}"
    switched = tiny_gguf.write_tiny(tmp_path / "switched.gguf", chat_template=source)
    assert "enable_thinking" in run("info", str(switched)).out
    found = json.loads(run("info", str(switched), "--json").out)
    assert found["chat_template_variables"] == {"default": ["enable_thinking"]}
    assert {"chatml", "raw"} <= set(found["built_in_templates"])
    bare = tiny_gguf.write_tiny(tmp_path / "bare.gguf", chat_template=None)
    assert "--template chatml" in run("info", str(bare)).out
    assert json.loads(run("info", str(bare), "--json").out)["chat_template_guess"] == "chatml"


# --- folders and narrow terminals ------------------------------------------------------------------------------------


def test_a_folder_is_described_from_its_config_and_the_heads_of_its_files(run: Run, tmp_path: Path):
    folder = tmp_path / "tiny"
    folder.mkdir()
    tiny_native.write_folder(folder)
    shown = run("info", str(folder), "--dtype", "f32")
    found = json.loads(run("info", str(folder), "--json", "--dtype", "f32", "--tensors", "all").out)
    lines = [line.split() for line in shown.out.splitlines()]

    assert shown.code == 0
    assert ["Architecture", "LlamaForCausalLM"] in lines
    assert ["hidden_size", "16"] in lines
    assert ["f32", str(len(found["tensors"]))] in lines
    assert (found["kind"], found["context_length"], found["runnable"]) == ("folder", 64, True)
    assert found["parameters"] == sum(math.prod(tensor["shape"]) for tensor in found["tensors"])
    assert found["memory"]["weights"] == 4 * found["parameters"]
    assert found["metadata"]["hidden_size"] == 16


def test_a_folder_that_cannot_be_run_says_why_and_a_damaged_one_what_is_missing(run: Run, tmp_path: Path):
    folder = tmp_path / "odd"
    folder.mkdir()
    tiny_native.write_folder(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "strange", "architectures": ["Strange"]}))
    assert "Cannot be run: " in run("info", str(folder)).out
    (folder / "config.json").write_text("{}")
    refused = run("info", str(folder))
    assert (refused.code, refused.out) == (2, "")
    assert "no config.json" in refused.err


def test_other_templates_are_listed_in_their_order(run: Run, tmp_path: Path):
    names = json.loads(told(run, tmp_path, "--json"))["built_in_templates"]
    assert names[:-1] == sorted(names[:-1])
    assert len(names) > 2


@pytest.mark.parametrize("command", [("info", "--tensors", "all"), ("models",)])
def test_tables_fold_on_a_narrow_terminal(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
):
    places().models.mkdir(parents=True)
    file = tiny_gguf.write_tiny(places().models / "A model with a long name.gguf")
    monkeypatch.setattr(output, "is_terminal", lambda stream: stream is sys.stdout)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "20")
    name, *flags = command
    lines = run(name, *([str(file)] if name == "info" else []), *flags).out.splitlines()
    assert len(lines) > 5
    assert [line for line in lines if cell_width(line) > 20 and " " in line.strip()] == []
    if name == "models":
        assert "A model with a long" in lines
        assert "name" in lines
