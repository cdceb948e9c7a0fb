"""Small files of strangers: whatever they are, reading them comes to an end."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from in_time import in_time
from runtime.chat_formats import TemplateFileUnreadable, read_template
from runtime.receipt import BadReceipt, read_receipt
from runtime.small_files import opened, read_text

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes on this system")


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe.jinja"
    os.mkfifo(path)
    return path


def test_a_pipe_into_which_nobody_writes_is_empty_everywhere(pipe: Path):
    assert in_time(read_text, pipe) == ""
    assert isinstance(in_time(read_receipt, pipe), BadReceipt)
    assert isinstance(in_time(read_template, pipe), TemplateFileUnreadable)


def test_a_pipe_that_is_written_slowly_is_read_to_its_end():
    reading, writing = os.pipe()
    threading.Timer(0.2, lambda: (os.write(writing, b"late"), os.close(writing))).start()
    with opened(Path(f"/dev/fd/{reading}")) as file:
        assert file.read() == b"late"
    os.close(reading)
