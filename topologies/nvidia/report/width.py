"""
Lines of ``nvidia-smi -q`` that are longer than a window: wrapped by a terminal, or cut by a pager (``less -S``).

That lines are too long is seen by the UUIDs, which have one form: all that are not whole end in the same column.

When to modify: the tool prints longer values, or another window damages lines in another way.
"""

from __future__ import annotations

import re

from topologies.nvidia.report.words import LINE
from topologies.nvidia.uuids import UUID

_UUID_FORM = "GPU-00000000-0000-0000-0000-000000000000"
_WHOLE_UUID = re.compile(rf"GPU-{UUID}", re.IGNORECASE)
_UUID_LINE = re.compile(r"^[^\n]{0,250}?GPU UUID[ \t]{0,100}:[ \t]{0,100}(?P<value>[^\n]{0,200})$", re.MULTILINE)
_REST = re.compile(r" ?(?!GPU [0-9A-F]{4,8}:|=|--)[^\s:$#>`][^\n:]{0,120}", re.IGNORECASE)
"""What a terminal puts below a line that it wraps: the rest of a value, at the margin."""

_NARROWEST = 40
_FEWEST = 2
"""Windows have more columns than this, and a single line may end anywhere."""


def unwrapped(text: str) -> tuple[str, int | None]:
    """
    Return *text* with wrapped lines in one piece, and the width at which its lines are cut; None if they are not.

    Where a line was joined an empty one takes the place of its rest, so that lines keep their numbers.
    """
    broken = [match for match in _UUID_LINE.finditer(text) if _is_begun(match["value"].rstrip())] if "GPU UUID" in text else []
    widths = {len(match[0].rstrip()) for match in broken}
    if len(widths) == 1:
        return _unwrapped(text, widths.pop())
    if not broken and "Product Name" in text:
        return _with_long_names(text), None
    return text, None


def _is_begun(uuid: str) -> bool:
    """Whether *uuid* is the beginning of one, and not the whole."""
    return 0 < len(uuid) < len(_UUID_FORM) and _WHOLE_UUID.fullmatch(uuid + _UUID_FORM[len(uuid) :]) is not None


def _unwrapped(text: str, width: int) -> tuple[str, int | None]:
    lines = text.split("\n")
    if _join(lines, width):
        return "\n".join(lines), None
    lengths = [len(line.rstrip()) for line in lines]
    is_longest = not any(length > width and LINE.search(line) for length, line in zip(lengths, lines, strict=True))
    return text, width if width > _NARROWEST and lengths.count(width) >= _FEWEST and is_longest else None


def _with_long_names(text: str) -> str:
    """Return *text* with names in one piece where only they, longer than UUIDs, were wrapped."""
    lines = text.split("\n")
    names = [k for k, line in enumerate(lines) if "Product Name" in line and ":" in line]
    width = max((len(lines[k].rstrip()) for k in names), default=0)
    ends = [k for k in names if len(lines[k].rstrip()) == width]
    if width > 2 * _NARROWEST and len(ends) >= _FEWEST and all(_rest(lines, k) for k in ends):
        _join(lines, width)
    return "\n".join(lines)


def _join(lines: list[str], width: int) -> bool:
    """Put together what belongs together in *lines*, which fill *width* columns, but for a blank at the end; tell whether anything did."""
    full = (width - 1, width)
    found = False
    for begin, line in enumerate(lines):
        if len(line.rstrip()) not in full or ":" not in line or _WHOLE_UUID.search(line[-len(_UUID_FORM) :]):
            continue
        position, whole = begin, ""
        while (position == begin or len(lines[position].rstrip()) in full) and _rest(lines, position):
            whole += lines[position].rstrip().ljust(width)
            position += 1
        if position > begin:
            lines[begin] = whole + lines[position].rstrip()
            lines[begin + 1 : position + 1] = [""] * (position - begin)
            found = True
    return found


def _rest(lines: list[str], position: int) -> str:
    """Return what may be the rest of the line at *position*; nothing if the next line is none."""
    following = lines[position + 1].rstrip() if position + 1 < len(lines) else ""
    return following if _REST.fullmatch(following) and not LINE.search(following) else ""
