"""Tells what a file is that was taken for a GGUF model, from its first bytes. Knows no model."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

from runtime.model_errors import NotAModel
from runtime.text import N_, _

HEAD_BYTES = 4096

_DOWNLOAD_AGAIN = N_("The download failed: download the model again.")
_SAFETENSORS_HINT = N_("Choose a GGUF file; a Hugging Face folder must be converted first.")


def _starts(*starts: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(starts)


def _is_html(head: bytes) -> bool:
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith((b"<!doctype", b"<html", b"<head", b"<?xml"))


def _is_safetensors(head: bytes) -> bool:
    return len(head) > 9 and struct.unpack_from("<Q", head)[0] < 1 << 32 and head[8:9] == b"{"


def _is_pickle(head: bytes) -> bool:
    return len(head) > 2 and head[0] == 0x80 and head[1] in range(2, 6)


def _is_torch_zip(head: bytes) -> bool:
    return head.startswith(b"PK\x03\x04") and b"data.pkl" in head


def _is_zeros(head: bytes) -> bool:
    return not head.strip(b"\0")


_KINDS: tuple[tuple[Callable[[bytes], bool], str, str], ...] = (
    (_starts(b"version https://git-lfs"), N_("It is a Git LFS pointer of {size} bytes, not the file it stands for."),
     N_("Fetch the real file with `git lfs pull`.")),
    (_is_html, N_("It is a web page, as a failed download leaves behind."), _DOWNLOAD_AGAIN),
    (_is_zeros, N_("It holds only zeros, as an interrupted download leaves behind."), _DOWNLOAD_AGAIN),
    (_is_safetensors, N_("It is a safetensors file."), _SAFETENSORS_HINT),
    (_is_torch_zip, N_("It is a PyTorch checkpoint, which can run code when it is opened."), _SAFETENSORS_HINT),
    (_is_pickle, N_("It is a Python pickle, which can run code when it is opened."), _SAFETENSORS_HINT),
    (_starts(b"lmgg", b"fmgg", b"tjgg", b"algg", b"ggml", b"ggmf", b"ggjt"),
     N_("It is in an old GGML format of 2023, which llama.cpp no longer reads."), N_("Download the model as GGUF.")),
    (_starts(b"PK\x03\x04", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf", b"\xfd7zXZ", b"Rar!", b"BZh"),
     N_("It is a compressed archive."), N_("Unpack it and choose the GGUF file inside.")),
    (_starts(b"{", b"["), N_("It is a JSON text."), ""),
)  # fmt: skip


def not_a_model(path: Path, head: bytes, size: int) -> NotAModel:
    """Returns the error that says what the file is. `head` is its beginning, up to `HEAD_BYTES`."""
    if not head:
        return NotAModel(path, _("The file is empty: 0 bytes."), _(_DOWNLOAD_AGAIN))
    known = what_it_is(head, size)
    if known is not None:
        return NotAModel(path, *known)
    shown = head[:4].hex(" ")
    return NotAModel(path, _("It does not begin with “GGUF” but with the bytes {shown}.").format(shown=shown))


def what_it_is(head: bytes, size: int) -> tuple[str, str] | None:
    """Returns a sentence and a hint for a file of a known other kind. `head` is its beginning, up to `HEAD_BYTES`."""
    for fits, sentence, hint in _KINDS:
        if fits(head):
            return _(sentence).format(size=f"{size:,}"), _(hint) if hint else ""
    return None
