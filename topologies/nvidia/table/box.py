"""
Which lines are those of the box that plain ``nvidia-smi`` prints, which of them a terminal wrapped, and whether the left border is lost.

Readers of other tables leave these lines alone: between bars they look like rows.

When to modify: a driver writes other words into the box.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from topologies.bus_ids import BUS_ID
from topologies.pages.text import Line

_TELLING = re.compile(
    rf"NVIDIA-SMI\s|Persistence-M|Memory-Usage|\bBus-Id\b|\bMIG M\.|\bProcesses:|\bMIG devices:"
    rf"|{BUS_ID}\s{{1,20}}(?:On|Off|N/A)\s{{0,20}}\|"
    r"|[0-9]\s?MiB\s{0,12}/\s{0,12}[0-9]{1,9}\s?MiB"
)
"""What stands in the box only, at least once between two rules."""

_WITHOUT_BORDER = re.compile(rf"(?P<before>[^|]{{0,100}})\|\s{{0,30}}{BUS_ID}\s{{1,20}}(?:On|Off|N/A)\s{{0,20}}\|[^|]{{1,40}}(?:\||$)")


def lines_of_boxes(lines: Sequence[Line]) -> frozenset[int]:
    """Return the numbers of those *lines* that are of a box: whatever stands between two rules where one line tells it."""
    if not any("|" in line.text and _TELLING.search(line.text) for line in lines):
        return frozenset()
    blocks = itertools.groupby(lines, key=lambda line: "|" in line.text and any(map(str.isalnum, line.text)))
    found: list[int] = []
    for has_bars, block in blocks:
        within = list(block)
        if has_bars and any(_TELLING.search(line.text) for line in within):
            found += [line.number for line in within]
    return frozenset(found)


def without_border(lines: Sequence[Line]) -> int | None:
    """Return the number of the first of *lines* that names a GPU of a box of which the left border is missing; None if none does."""
    for line in lines:
        match = _WITHOUT_BORDER.match(line.text) if "|" in line.text else None
        if match is not None and match["before"].strip():
            return line.number
    return None


def unwrapped(lines: Sequence[Line]) -> Iterator[Line]:
    """Yield *lines*, those put together that a narrow terminal wrapped: the first begins with a bar, the second ends with one."""
    position = 0
    while position < len(lines):
        text = lines[position].text
        after = lines[position + 1].text if position + 1 < len(lines) else ""
        is_wrapped = (
            text.lstrip().startswith("|") and len(text) >= 40
            and after.rstrip().endswith("|") and not after.lstrip().startswith("|") and after.count("|") == 1
        )  # fmt: skip
        yield Line(lines[position].number, text + after) if is_wrapped else lines[position]
        position += 1 + is_wrapped


def are_different(a: str, b: str) -> bool:
    """Whether two names in boxes, each of which may be cut to its column, are those of different cards; what has no number is none."""
    first, second = (name.removeprefix("NVIDIA ").removesuffix("...").rstrip() for name in (a, b))
    return all(any(map(str.isdigit, name)) for name in (a, b)) and not (first.startswith(second) or second.startswith(first))
