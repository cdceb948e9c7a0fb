"""`quern inspect`: what it prints, what it draws, and what it refuses."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PySide6.QtGui import QImage

import tiny_bert
import tiny_t5
from command_line import Run
from desktop.cli import png
from desktop.cli.attention_picture import as_png, as_svg, layout, shade
from desktop.cli.dot_letters import LETTERS
from desktop.cli.png import Image, drawable

TEXT = "Once upon a time"
RED, WHITE = (255, 0, 0), (255, 255, 255)


# --- the command ------------------------------------------------------------------------------------------------


def test_json_holds_attention_probabilities_entropies_and_the_lens(run: Run, tiny: Path):
    told = json.loads(run("inspect", str(tiny), "-p", TEXT, "--layer", "0", "--head", "1", "--json").out)

    attention, tokens = told["attention"], told["tokens"]
    assert (attention["kind"], attention["layer"], attention["head"]) == ("self", 0, 1)
    assert len(attention["weights"]) == len(attention["rows"]) == len(tokens)
    assert all(sum(row) == pytest.approx(1, abs=1e-4) for row in attention["weights"])
    assert tokens[-1]["probability"] >= 0
    assert len(tokens[-1]["alternatives"]) == 3
    assert [layer["layer"] for layer in told["lens"]] == [-1, *range(len(told["entropy"]))]


def test_a_person_gets_tokens_the_lens_a_map_and_entropies(run: Run, tiny: Path):
    result = run("inspect", str(tiny), "-p", TEXT)

    assert result.code == 0
    for words in ("likely", "logit lens", "Attention: attention on what was written, mean of all layers", "entropy"):
        assert words in result.out
    assert "   0  O" in result.out
    assert "█" in result.out


def test_a_wide_map_becomes_the_strongest_of_each_row(run: Run, tiny: Path):
    result = run("inspect", str(tiny), "-p", "one two three four " * 12)

    assert "█" not in result.out
    assert "% 0:" in result.out


def test_a_picture_is_drawn_in_place_of_the_map(run: Run, tiny: Path, tmp_path: Path):
    result = run("inspect", str(tiny), "-p", TEXT, "--png", str(tmp_path / "a.png"))

    assert result.code == 0
    assert "a.png" in result.err
    assert "█" not in result.out
    image = QImage(str(tmp_path / "a.png"))
    assert image.width() > 200
    assert image.height() > 100


def test_a_name_that_ends_in_svg_is_drawn_as_svg(run: Run, tiny: Path, tmp_path: Path):
    assert run("inspect", str(tiny), "-p", TEXT, "--png", str(tmp_path / "a.svg")).code == 0

    assert ElementTree.parse(tmp_path / "a.svg").getroot().tag.endswith("svg")


def test_an_encoder_decoder_shows_its_cross_attention(run: Run, tmp_path: Path):
    path = tiny_t5.write_tiny_t5(tmp_path / "t5.gguf").path

    told = json.loads(run("inspect", str(path), "-p", "the miller", "--target", "old bread", "--json").out)

    assert told["attention"]["kind"] == "cross"
    assert told["attention"]["columns"] == [" the", " miller", "</s>"]
    assert told["attention"]["rows"] == ["<pad>", " old", " bread"]


def test_an_encoder_is_looked_into_also_without_a_head(run: Run, tmp_path: Path):
    path = tiny_bert.write_tiny_bert(tmp_path / "bert.gguf").path

    result = run("inspect", str(path), "-p", "the miller")

    assert result.code == 0
    assert "attention of the encoder" in result.out
    assert "logit lens" not in result.out
    assert "likely" not in result.out


@pytest.mark.parametrize(("arguments", "said"), [
    (("--layer", "77"), "layer 77"),
    (("--head", "77"), "head 77"),
    (("--kind", "cross"), "cross"),
    (("--png", "/no/such/folder/a.png"), "cannot be written"),
])  # fmt: skip
def test_what_cannot_be_done_is_said_in_words(arguments: tuple[str, ...], said: str, run: Run, tiny: Path):
    result = run("inspect", str(tiny), "-p", TEXT, *arguments)

    assert result.code == 2
    assert said in result.err


# --- pictures ---------------------------------------------------------------------------------------------------


def test_a_png_is_what_others_read_pixel_by_pixel():
    image = Image(5, 4, WHITE)
    image.fill(1, 2, 2, 9, RED)  # more than there is
    image.fill(-3, -3, 4, 4, (1, 2, 3))

    read = QImage.fromData(image.png())

    assert (read.width(), read.height()) == (5, 4)
    colours = [[read.pixelColor(x, y).getRgb()[:3] for x in range(5)] for y in range(4)]
    assert colours[0] == [(1, 2, 3), WHITE, WHITE, WHITE, WHITE]
    assert colours[1] == [WHITE] * 5
    assert colours[2] == colours[3] == [WHITE, RED, RED, WHITE, WHITE]


def test_a_png_has_the_checksums_of_its_parts():
    content = Image(2, 2, WHITE).png()
    at = 8
    kinds = []
    while at < len(content):
        (length,) = struct.unpack(">I", content[at : at + 4])
        part = content[at + 4 : at + 8 + length]
        kinds.append(part[:4])
        assert content[at + 8 + length : at + 12 + length] == struct.pack(">I", zlib.crc32(part))
        at += 12 + length
    assert kinds == [b"IHDR", b"IDAT", b"IEND"]


def test_letters_stand_upright_and_climb():
    """An L has its foot at the bottom right; climbing, its foot is at the right and its back lies below."""
    upright, climbing = Image(5, 7, WHITE), Image(7, 5, WHITE)
    upright.text(0, 0, "L", RED)
    climbing.text(0, 5, "L", RED, upwards=True)

    def reds(image: Image) -> set[tuple[int, int]]:
        read = QImage.fromData(image.png())
        return {(x, y) for x in range(read.width()) for y in range(read.height())
                if read.pixelColor(x, y).getRgb()[:3] == RED}  # fmt: skip

    assert reds(upright) == {(0, y) for y in range(7)} | {(x, 6) for x in range(5)}
    assert reds(climbing) == {(x, 4) for x in range(7)} | {(6, y) for y in range(5)}


def test_every_printable_ascii_character_has_a_letter_of_its_own():
    wanted = [chr(code) for code in range(0x20, 0x7F)]

    assert [character for character in wanted if character not in LETTERS] == []
    assert len({LETTERS[character] for character in wanted}) == len(wanted)
    assert all(0 <= row < 32 for rows in LETTERS.values() for row in rows)
    assert {len(rows) for rows in LETTERS.values()} == {png.LETTER_HEIGHT}


def test_letters_with_accents_lose_them_and_other_scripts_are_boxes():
    assert drawable("naïve Café 水") == "naive Cafe □"


def test_more_attention_is_darker_without_a_step_back():
    light = [sum(shade(weight)) for weight in np.linspace(0, 1, 101)]

    assert light == sorted(light, reverse=True)
    assert shade(-1.0) == shade(0.0) != shade(1.0) == shade(2.0)


def test_pictures_of_long_texts_stay_small_and_their_labels_apart():
    labels = [f"word {at}" for at in range(1000)]

    place = layout(labels, labels, "many")

    assert place.width < 3000
    assert place.cell * place.step >= png.LETTER_HEIGHT * 2
    assert as_png("many", labels, labels, np.zeros((1000, 1000), np.float32)).startswith(b"\x89PNG")


def test_an_svg_holds_any_script_and_no_markup_of_the_text():
    labels = ["<b>&", "水\x07"]

    svg = as_svg("title", labels, labels, np.full((2, 2), 0.5, np.float32)).decode()

    root = ElementTree.fromstring(svg)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "<b>&" in texts
    assert "水\ufffd" in texts


def test_a_place_that_takes_no_picture_is_refused_before_anything_is_read(run: Run, engine: object, tmp_path: Path):
    for place, why in ((tmp_path, "no ordinary file"), (tmp_path / "no" / "a.png", "no such folder")):
        result = run("inspect", "starter", "-p", "A cat", "--png", str(place))
        assert (result.code, result.out) == (2, "")
        assert why in result.err
