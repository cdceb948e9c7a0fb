"""The catalogues: in step with the sources, complete, and set as their language is set."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel.messages import Message

import resources
from runtime.params import GROUPS
from runtime.settings import SettingField, fields_of
from runtime.text import LANGUAGES, _, ngettext, set_language
from shown_words import words_in_both

SCRIPT = Path(__file__).parent.parent.parent / "packaging" / "translations.py"
_spec = importlib.util.spec_from_file_location("translations", SCRIPT)
assert _spec is not None
assert _spec.loader is not None
translations = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(translations)

CHINESE = "\u3400-\u9fff"
# Names that are the same in every language: samplers, techniques, file formats, and what is typed.
NAMES = {"Flash attention", "JSON schema", "Mirostat", "Min-p", "Quern", "Top-k", "Top-n-sigma", "Top-p", "Typical-p"}
KEYS = {"Alt+Enter, \\ Enter", "Ctrl-C", "Ctrl-D", "Enter", "Up, Down, Ctrl-R"}
SETTINGS = [declared for group in GROUPS for declared in fields_of(group)]


def chinese_texts() -> dict[str, str]:
    """Returns every translated text of the catalogue with its translation."""
    catalogue = translations.load(resources.path("translations", "zh_CN", "LC_MESSAGES", "quern.po"))
    found = {_single(message.id): _single(message.string) for message in catalogue if message.id}
    return {text: translated for text, translated in found.items() if translated}


def _single(text: str | tuple[str, ...]) -> str:
    return text if isinstance(text, str) else text[0]


@pytest.fixture
def chinese() -> Iterator[None]:
    set_language("zh_CN")
    yield
    set_language("en")


# --- the catalogues and the sources -----------------------------------------------------------------------------------


def test_every_text_of_the_sources_is_translated():
    assert translations.problems() == [], "run `python packaging/translations.py --write` and translate what is new"


def test_every_language_that_can_be_chosen_has_a_catalogue():
    assert {path.parent.parent.name for path in translations.catalogues()} == set(LANGUAGES) - {"en"}


def test_the_compiled_catalogue_is_the_same_each_time(tmp_path: Path):
    path = resources.path("translations", "zh_CN", "LC_MESSAGES", "quern.po")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import translations, pathlib;"
        "sys.stdout.buffer.write(translations.compiled(translations.load(pathlib.Path(sys.argv[2]))))"
    )
    again = subprocess.run(
        [sys.executable, "-c", code, str(SCRIPT.parent), str(path)],
        stdout=subprocess.PIPE, check=True, env={"PYTHONHASHSEED": "7", "TZ": "Asia/Shanghai"},
    )  # fmt: skip
    assert again.stdout == path.with_suffix(".mo").read_bytes()


# --- what the check finds ---------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source folder with two texts, translated; returns the catalogue."""
    source = tmp_path / "desktop"
    source.mkdir()
    (source / "words.py").write_text(
        'print(_("Loading {name}"), ngettext("{n} file", "{n} files", 2))\n', encoding="utf-8"
    )
    folder = tmp_path / "translations"
    path = folder / "zh_CN" / "LC_MESSAGES" / "quern.po"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    for name, value in (("ROOT", tmp_path), ("FOLDER", folder), ("TEMPLATE", folder / "quern.pot")):
        monkeypatch.setattr(translations, name, value)
    monkeypatch.setattr(translations, "SOURCES", ("desktop",))
    translations.write()
    text = path.read_text(encoding="utf-8")
    text = text.replace('"Loading {name}"\nmsgstr ""', '"Loading {name}"\nmsgstr "正在加载 {name}"')
    path.write_text(text.replace('msgstr[0] ""', 'msgstr[0] "{n} 个文件"'), encoding="utf-8")
    translations.write()
    assert translations.problems() == []
    return path


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("正在加载 {name}", "", "does not translate 'Loading {name}'"),
        ("正在加载 {name}", "正在加载", "lacks {name} in 'Loading {name}'"),
        ("正在加载 {name}", "正在加载 {Name}", "has {Name} too many in 'Loading {name}'"),
        ("正在加载 {name}", "正在加载 {name} }", "has } too many in 'Loading {name}'"),
        ("{n} 个文件", "文件", "lacks {n} in '{n} file'"),
        ("#, python-brace-format\nmsgid \"Loading", "#, fuzzy, python-brace-format\nmsgid \"Loading", "as uncertain"),
        ("正在加载", "加载", "does not match quern.mo"),
        ("Loading", "Opening", "is stale"),
        ("Language: zh_CN", "Language: zh", "is stale"),
    ],
)  # fmt: skip
def test_a_broken_catalogue_is_found(small: Path, old: str, new: str, complaint: str):
    text = small.read_text(encoding="utf-8")
    assert old in text
    small.write_text(text.replace(old, new, 1), encoding="utf-8")
    assert any(complaint in problem for problem in translations.problems()), translations.problems()


def test_a_new_text_in_the_sources_is_found(small: Path):
    with (translations.ROOT / "desktop" / "words.py").open("a", encoding="utf-8") as file:
        file.write('print(_("Stop"))\n')
    assert any("quern.pot is stale" in problem for problem in translations.problems())
    translations.write()
    assert [problem for problem in translations.problems() if "does not translate 'Stop'" in problem]


def test_an_uncertain_translation_is_not_shown(small: Path):
    catalogue = translations.load(small)
    catalogue["Loading {name}"].flags.add("fuzzy")
    assert "正在加载".encode() not in translations.compiled(catalogue)


def test_a_number_that_only_the_plural_names_is_needed():
    message = ("one file", "{n} files")
    assert list(translations.faults(Message(message, ("{n} 个文件",)))) == []
    assert list(translations.faults(Message(message, ("文件",)))) == ["lacks {n} in 'one file'"]


# --- how Chinese is set -----------------------------------------------------------------------------------------------


def test_chinese_has_chinese_letters_in_every_text():
    left = {text for text, translated in chinese_texts().items() if not re.search(f"[{CHINESE}]", translated)}
    assert {text for text in left if re.search("[a-z]{2}", re.sub(r"\{[^{}]*\}", "", text))} <= NAMES | KEYS


def test_chinese_and_latin_words_are_set_apart_by_a_space():
    apart = f"[{CHINESE}][A-Za-z0-9{{(]|[A-Za-z0-9}})%][{CHINESE}]"
    # What stands in for these is Chinese itself.
    texts = [re.sub(r"\{(what|reason|line)\}", "", translated) for translated in chinese_texts().values()]
    assert [text for text in texts if re.search(apart, text)] == []


def test_chinese_has_its_own_punctuation():
    wrong = f"[{CHINESE}] ?[,;:?!]|[{CHINESE}]\\.(?![a-z])|[{CHINESE}] ?\\([^*]|  |\\.\\.\\.|[“‘] | [”’]"
    assert [text for text in chinese_texts().values() if re.search(wrong, text)] == []


def test_a_sentence_ends_as_a_sentence():
    assert [
        text for text, translated in chinese_texts().items()
        if text.endswith((".", "?")) != translated.endswith(("。", "？"))
    ] == []  # fmt: skip


def test_chinese_speaks_to_nobody_formally():
    assert [text for text in chinese_texts().values() if "您" in text] == []


# --- what people see --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("chinese")
def test_the_compiled_catalogue_is_the_one_in_use():
    assert _("Temperature") == "温度"
    assert ngettext("{n} byte", "{n} bytes", 1).format(n=1) == "1 字节"


@pytest.mark.parametrize("declared", SETTINGS, ids=lambda declared: declared.name)
@pytest.mark.usefixtures("chinese")
def test_every_setting_is_explained_in_chinese(declared: SettingField):
    setting = declared.setting
    words = [setting.title, setting.help, setting.section, setting.unit, *setting.special.values()]
    for word in filter(None, words):
        assert _(word) != word or word in NAMES, word


@pytest.mark.usefixtures("quern_home")
def test_the_language_chosen_in_the_window_is_the_language_of_the_window(tmp_path: Path):
    english, chinese = words_in_both(tmp_path / "profile", "zh_CN")
    assert {"Settings", "New chat", "Temperature", "Drop a .gguf file anywhere in this window."} <= english
    assert {"设置", "新建对话", "温度", "可将 .gguf 文件拖到此窗口的任意位置。"} <= chinese
    both = {words for words in english & chinese if re.search("[A-Za-z]{2}", words)}
    assert both - NAMES - {"starter", "auto"} == set()  # words that are typed
