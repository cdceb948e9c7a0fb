"""A small picture for tests that need one."""

from __future__ import annotations

import base64

BROWN = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAYAAAAf8/9hAAAAGUlEQVR4"
    "2mPo9mL4TwlmGDVg1IBRA4aLAQBSutQQOw7llwAAAABJRU5ErkJggg=="
)  # a PNG of 16 by 16 dots
