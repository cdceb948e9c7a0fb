"""Turns the bytes of tokens into text, as they come. Knows nothing about tokens or stop texts."""

from __future__ import annotations

import codecs


class StreamDecoder:
    """Decodes UTF-8 that arrives in pieces cut anywhere.

    A character comes out with the byte that completes it, never later; the bytes of an unfinished one are held back.
    What is no UTF-8 becomes U+FFFD, one for each longest run of bytes that begins a character and does not go on (the
    practice of the Unicode standard, section 3.9), so any cutting gives the same text. NUL is a character like others.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def unfinished(self) -> bool:
        """Whether the bytes so far end inside a character."""
        return bool(self._decoder.getstate()[0])

    def feed(self, data: bytes) -> str:
        """Returns the characters that are complete with `data`."""
        return self._decoder.decode(data)

    def finish(self) -> str:
        """Returns U+FFFD if the bytes ended inside a character, else nothing; the decoder can then be used anew."""
        tail = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return tail
