"""Where formulas stand in markdown: `$…$`, `$$…$$`, `\\(…\\)`, `\\[…\\]` and LaTeX environments. Draws nothing.

A dollar is money unless what it opens looks like a formula: no blank inside the marks, no letter or digit outside them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

_FORMULA = re.compile(
    r"\\\((?:.|\n)*?\\\)|\\\[(?:.|\n)*?\\\]|\$\$(?:.|\n)+?\$\$|\$(?=[^\s$])(?:[^$\n\\]|\\.)*?(?<![\s\\])\$(?!\w)"
)
_OPEN = re.compile(r"\\[()\[\]]")
_AMOUNT = re.compile(r"\$\d[\d.,]*(?:[-–/+]|\s+[^\W\d_]{2,}\b|\s*[(\[])")  # "$5 million to 6$", "$5-", "$5 ("
_MATHS = re.compile(r"[\\^_=<>{}]")
_BEGIN = re.compile(r"\$\$|\\\[|\\begin\{(equation|align|alignat|gather|multline|eqnarray|displaymath)(\*?)\}")
_AFTER = " \t.,;:!?。，；：！？"  # may follow a formula on a line of its own


def formula_at(text: str, at: int) -> str:
    """Returns the formula that starts at a position, with its marks; empty where none does."""
    found = _FORMULA.match(text, at)
    if found is None:
        return ""
    formula = found.group()
    if formula.startswith("$") and not formula.startswith("$$"):
        joined_on = at > 0 and (text[at - 1].isalnum() or text[at - 1] == "$")
        if joined_on or (_AMOUNT.match(formula) and not _MATHS.search(formula)):
            return ""
    return formula


def inline_rule(state: StateInline, silent: bool) -> bool:
    """Keeps a formula out of every other rule; a mark that opens none stays as it was written."""
    if state.src[state.pos] not in "\\$":
        return False
    formula = formula_at(state.src, state.pos)
    found = None if formula else _OPEN.match(state.src, state.pos)
    if not formula and found is None:
        return False
    if not silent:
        state.push("formula" if formula else "text", "", 0).content = formula or found.group()  # type: ignore[union-attr]
    state.pos += len(formula) or 2
    return True


def block_rule(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Reads a formula on lines of its own; what opens one and is not closed yet is kept from all other rules."""
    if state.is_code_block(start) or (start == 0 and state.env.get("continued")):
        return False
    first = state.src[state.bMarks[start] + state.tShift[start] : state.eMarks[start]]
    begin = _BEGIN.match(first)
    if begin is None:
        return False
    closed, line = _closing_line(state, start, end, begin)
    if not closed and line < end:
        return False
    if silent:
        return True
    token = state.push("formula", "", 0)
    token.content = state.getLines(start, line, state.blkIndent, False).strip("\n")
    token.map = [start, line]
    token.meta = {"closed": closed}
    state.line = line
    return True


def _closing_line(state: StateBlock, start: int, end: int, begin: re.Match[str]) -> tuple[bool, int]:
    """Returns whether the formula is closed, and the line after it; the end where more text may still close it."""
    closing = {"$$": "$$", r"\[": r"\]"}.get(begin.group(), f"\\end{{{begin.group(1)}{begin.group(2)}}}")
    for line in range(start, end):
        if line > start and (state.isEmpty(line) or state.sCount[line] < state.blkIndent):
            return False, line
        text = state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]
        text = text[begin.end() :] if line == start else text
        inside, mark, after = text.partition(closing)
        if mark:
            alone = not after.strip(_AFTER) and (line > start or bool(inside.strip()))
            return alone, line + 1 if alone else start
    return False, end
