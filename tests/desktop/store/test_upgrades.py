"""A newer Quern over an older profile keeps everything, and an older one over a newer profile leaves it alone.

The profiles were written by the code of their time; `tests/support/golden_profile.py` writes the next one.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

import golden_profile
from desktop.store.database import ChatDatabase
from desktop.store.notebooks import read_notebook
from desktop.store.records import Edit, MessageState
from desktop.store.schema import MIGRATIONS, NewerChats
from runtime.saved_settings import SavedSettings

PROFILES = Path(__file__).parent / "profiles"
VERSIONS = range(1, len(MIGRATIONS) + 1)


@pytest.fixture(params=VERSIONS, ids=lambda version: f"v{version}")
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def profile(version: int, tmp_path: Path) -> Path:
    """A copy of the profile that a version wrote."""
    return Path(shutil.copytree(PROFILES / f"v{version}", tmp_path / "profile"))


def format_of(file: Path) -> int:
    with closing(sqlite3.connect(file)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def test_there_is_a_profile_of_every_format() -> None:
    assert sorted(int(folder.name[1:]) for folder in PROFILES.iterdir()) == list(VERSIONS)
    assert all(format_of(PROFILES / f"v{number}" / "chats.db") == number for number in VERSIONS)


def test_chats_branches_drafts_and_errors_are_kept(profile: Path) -> None:
    with closing(ChatDatabase(profile / "chats.db")) as database:
        database.recover()
        assert {chat.title for chat in database.list_chats()} == {"Mühlen 磨坊 🌾", "Bread"}
        found = database.open_chat("long")
        assert found is not None
        assert (found.chat.system_prompt, found.chat.draft) == ("Be brief.", "not sent yet")
        assert [message.content for message in found.messages] == [
            "Why do querns have grooves?", "因为要磨碎谷物。", "And then?", "", "Go on",
            "The flour runs out at the rim",
        ]  # fmt: skip
        failed, answer, interrupted = found.messages[3], found.messages[1], found.messages[-1]
        assert failed.error is not None
        assert (failed.state, failed.error.code) == (MessageState.FAILED, "engine_fault")
        assert (answer.model, answer.version, answer.versions) == ("SmolLM2", 2, 2)
        assert interrupted.state is MessageState.INTERRUPTED
        other = database.choose_version("long", "a2", -1)
        assert other is not None
        assert other.messages[1].receipt is not None
        assert other.messages[1].receipt.seed == 7


def test_everything_can_be_found(profile: Path) -> None:
    with closing(ChatDatabase(profile / "chats.db")) as database:
        for words in ("grooves", "磨碎谷物", "Rye"):
            assert database.search(words), words
        assert not database.search("forget me")


def test_what_a_format_brought_is_kept_from_it_on(profile: Path, version: int) -> None:
    with closing(ChatDatabase(profile / "chats.db")) as database:
        second = database.open_chat("second")
        assert second is not None
        has_settings, has_receipts, has_notebooks = version >= 2, version >= 3, version >= 4
        assert (second.chat.pinned, second.chat.folder) == ((True, "Recipes") if has_settings else (False, ""))
        assert second.chat.settings == ({"temperature": 0.1} if has_settings else {})
        assert second.chat.edit == (Edit("b1", "Rye, wheat") if version >= 6 else Edit())
        receipt = database.receipt("a1")
        assert (msgspec.json.decode(receipt)["seed"] if receipt else None) == (7 if has_receipts else None)
        book = read_notebook(database.connection, "n")
        found = database.open_chat("long")
        assert found is not None
        assert [message.id for message in found.messages if message.pinned] == (["q1"] if version >= 5 else [])
        assert (book.text if book else None) == ("Grain by grain" if has_notebooks else None)


def test_an_older_profile_is_copied_before_it_is_changed(profile: Path, version: int) -> None:
    ChatDatabase(profile / "chats.db").close()
    assert format_of(profile / "chats.db") == len(MIGRATIONS)
    backup = profile / f"chats.db.backup-v{version}"
    assert backup.exists() == (version < len(MIGRATIONS))
    if backup.exists():
        assert format_of(backup) == version


def test_an_older_program_leaves_a_newer_profile_as_it_is(profile: Path, version: int) -> None:
    file = profile / "chats.db"
    before = file.read_bytes()
    with pytest.raises(NewerChats, match=f"format {version}; this version knows formats up to {version - 1}"):
        ChatDatabase(file, migrations=MIGRATIONS[: version - 1])
    assert file.read_bytes() == before
    assert [found.name for found in profile.iterdir() if found.name.startswith("chats.db")] == ["chats.db"]


def test_settings_are_kept(profile: Path) -> None:
    saved = SavedSettings.read(profile / "settings.json")
    assert saved.notes == ()
    assert saved.app == {"theme": "dark", "language": "zh_CN"}
    assert saved.sampling == {"temperature": 0.3, "stop": ("END",)}
    assert saved.load == {"context_length": 2048}
    assert saved.for_model("/models/a.gguf")[0] == {"top_k": 7}
    saved.write(profile / "settings.json")
    assert SavedSettings.read(profile / "settings.json").document == saved.document


def test_the_next_profile_can_be_written_and_is_like_the_last(tmp_path: Path) -> None:
    golden_profile.write_profile(tmp_path / "new")
    assert format_of(tmp_path / "new" / "chats.db") == len(MIGRATIONS)
    last = PROFILES / f"v{len(MIGRATIONS)}"
    assert (tmp_path / "new" / "settings.json").read_text() == (last / "settings.json").read_text()
    with closing(sqlite3.connect(tmp_path / "new" / "chats.db")) as new, closing(
        sqlite3.connect(last / "chats.db")
    ) as old:
        assert list(new.iterdump()) == list(old.iterdump())
