"""Chat templates as transformers renders them, with its clock stopped."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from unittest.mock import patch

from transformers.utils import chat_template_utils

from runtime.messages import Message

NOW = datetime(2031, 2, 3, 4, 5, 6)


class _StoppedClock(datetime):
    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return NOW


def oracle(
    source: str,
    messages: tuple[Message, ...],
    *,
    continue_last: bool = False,
    add_generation_prompt: bool = True,
    in_parts: bool = False,
    **variables: Any,
) -> str:
    """Returns what transformers makes of a conversation; raises whatever it raises."""
    chat = [
        {"role": turn.role.value, "content": [{"type": "text", "text": turn.content}] if in_parts else turn.content}
        for turn in messages
    ]
    with patch.object(chat_template_utils, "datetime", _StoppedClock):
        rendered, _spans = chat_template_utils.render_jinja_template(
            [chat],
            chat_template=source,
            continue_final_message=continue_last,
            add_generation_prompt=add_generation_prompt and not continue_last,
            **variables,
        )
    return str(rendered[0])
