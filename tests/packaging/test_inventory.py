"""The list of what is in a bundle, with versions, licences and their texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from inventory import Part, common_texts, licence_file, licence_of, parts


def package(tree: Path, name: str, *lines: str, text: str = "") -> None:
    """Writes the metadata of a Python package into the bundle."""
    folder = tree / "_internal" / f"{name}-1.0.dist-info"
    (folder / "licenses").mkdir(parents=True)
    (folder / "METADATA").write_text("\n".join([f"Name: {name}", "Version: 1.0", *lines, "", "long words"]))
    if text:
        (folder / "licenses" / "LICENSE").write_text(text)


@pytest.mark.parametrize(
    ("classifiers", "expression", "written", "licence"),
    [
        ([], "BSD-3-Clause AND MIT", "old words", "BSD-3-Clause AND MIT"),
        ([], None, "MIT", "MIT"),
        ([], None, "Apache 2.0", "Apache-2.0"),
        (["License :: OSI Approved :: Apache Software License"], None, "a whole\ntext", "Apache-2.0"),
        (["License :: OSI Approved :: MIT License"], None, None, "MIT"),
        ([], None, None, "NOASSERTION"),
    ],
)
def test_the_short_name_is_taken_from_where_it_is_said_best(
    classifiers: list[str], expression: str | None, written: str | None, licence: str
) -> None:
    assert licence_of(classifiers, expression, written) == licence


def test_python_packages_python_and_models_are_listed(tmp_path: Path) -> None:
    package(tmp_path, "quern", "License-Expression: MIT")
    package(tmp_path, "some_library", "License-Expression: MIT", "Author: Ada", text="Copyright Ada")
    (tmp_path / "_internal" / "resources" / "models").mkdir(parents=True)
    (tmp_path / "_internal" / "resources" / "models" / "Small.gguf").touch()
    found = {part.name: part for part in parts(tmp_path)}
    assert set(found) == {"some_library", "CPython", "Small"}
    assert found["some_library"].url == "pkg:pypi/some-library@1.0"
    assert found["some_library"].texts == (("licenses/LICENSE", "Copyright Ada"),)
    assert found["Small"].kind == "machine-learning-model"


def test_a_package_without_a_text_gets_the_common_one(tmp_path: Path) -> None:
    package(tmp_path, "bare", "License: MIT", "Author: Ada")
    (part,) = (part for part in parts(tmp_path) if part.name == "bare")
    assert part.texts[0][1].startswith("Copyright (c) Ada")
    assert list(common_texts("NOASSERTION", "Ada")) == []


def test_the_same_text_is_printed_once() -> None:
    text = licence_file([Part("a", "1", "X", "u", texts=(("L", "long words"),)),
                         Part("b", "2", "X", "v", texts=(("L", "long words"),))], "0.1.0")  # fmt: skip
    assert text.count("long words") == 1
    assert "The same as: a, L" in text
