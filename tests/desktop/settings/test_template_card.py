"""The chat template: chosen from a list, previewed through the child that renders, and offered where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

import tiny_gguf
from desktop.main_window import Parts
from desktop.settings.template_card import TemplateCard
from desktop.settings.template_preview import Templates, preview
from runtime.describe import gguf_file
from runtime.errors import UserError
from runtime.params import SamplingParams
from window_kit import Shelf, window_parts

_PATIENCE_MS = 20_000


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_gguf.write_tiny(tmp_path / "tiny.gguf")


@pytest.fixture
def parts(model: Path, qtbot: QtBot) -> Iterator[Parts]:
    with window_parts(Shelf(gguf_file(model, source="path"))) as made:
        yield made


def test_the_list_holds_the_models_own_and_ours(parts: Parts, model: Path, qtbot: QtBot) -> None:
    card = TemplateCard(parts.live, parts.models)
    qtbot.addWidget(card)
    parts.models.load(str(model))
    qtbot.waitUntil(lambda: card.choice.findData("gemma") >= 0)
    assert card.choice.itemText(0) == "The model’s own"
    card._take(card.choice.findData("gemma"))
    assert parts.live.sampling.template == "gemma"
    card.dot.click()
    assert card.choice.currentData() == ""


def test_the_preview_shows_what_the_model_reads(parts: Parts, model: Path, qtbot: QtBot) -> None:
    card = TemplateCard(parts.live, parts.models)
    qtbot.addWidget(card)
    card.show()
    parts.models.load(str(model))
    qtbot.waitUntil(lambda: card.choice.findData("gemma") >= 0)
    parts.live.set_values(SamplingParams, template="gemma")
    card._fold.click()
    qtbot.waitUntil(lambda: "<start_of_turn>user" in card.text.toPlainText(), timeout=_PATIENCE_MS)


def test_a_hostile_template_is_refused_and_not_run(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    walk = "{{ ''.__class__.__mro__[1].__subclasses__() }}"
    source = walk + "{{ cycler.__init__.__globals__.os.mknod('MARKER') }}".replace("MARKER", str(marker))
    with pytest.raises(UserError):
        preview(Templates({"default": source}, ()), SamplingParams())
    assert not marker.exists()


def test_a_template_that_never_ends_is_given_up() -> None:
    source = "{% for a in range(99999) %}" * 3 + "{% endfor %}" * 3
    with pytest.raises(UserError):
        preview(Templates({"default": source}, ()), SamplingParams())
