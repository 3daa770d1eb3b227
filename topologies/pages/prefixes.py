"""
What logs, mails and launchers put before every line of an output, taken off; and whose line it is where several hosts talk at once.

`topologies.pages.text` does this for the rows of matrices. Here it is done for outputs whose lines are told by a pattern of their own.

When to modify: prefixes are written in a new way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from topologies.pages.text import Line, one_machine, prefix_shape

_LONGEST = 200
_MOST = 64


def without_prefixes(
    lines: Sequence[Line], find_head: Callable[[str], re.Match[str] | None], is_first: Callable[[re.Match[str]], bool]
) -> tuple[list[list[Line]], list[str]]:
    """
    Return *lines* without prefixes, one list for each host that talks, and what was taken off as a warning.

    Parameters
    ----------
    find_head
        Finds what begins an entry; what stands before it on its line is a prefix.
    is_first
        Whether an entry is the first of an output; where every prefix has one, each is a host of its own.
    """
    before: dict[str, bool] = {}
    for line in lines:
        head = find_head(line.text)
        if head is not None and head.start() <= _LONGEST:
            prefix = line.text[: head.start()].strip(" \t|")
            before[prefix] = before.get(prefix, False) or is_first(head)
    prefixes = [prefix for prefix in before if prefix]
    if not 0 < len({prefix_shape(prefix) for prefix in prefixes}) <= _MOST:
        return [list(lines)], []
    are_hosts = len(before) > 1 and all(before.values()) and len(prefixes) == len(before) <= _MOST
    shapes = {re.escape(prefix) for prefix in prefixes} if are_hosts else {prefix_shape(prefix) for prefix in prefixes}
    pattern = re.compile(rf"[ \t|]*(?P<prefix>{'|'.join(sorted(shapes, key=len, reverse=True))})(?:[ \t]*\|)? ?")
    groups: dict[str, list[Line]] = {}
    talker = ""
    count = 0
    for line in lines:
        match = pattern.match(line.text)
        if match is not None:
            count += 1
            talker = match["prefix"] if are_hosts else ""
            line = Line(line.number, line.text[match.end() :])
        groups.setdefault(talker, []).append(line)
    if count < 2:
        return [*groups.values()], []
    return [*groups.values()], [stripped(prefixes), *(one_machine(prefixes) if are_hosts else [])]


def stripped(prefixes: Sequence[str]) -> str:
    """Return the warning that *prefixes* were taken off."""
    shown = ", ".join(repr(prefix) for prefix in prefixes[:3]) + (" …" if len(prefixes) > 3 else "")
    return f"the lines had a prefix, which was stripped: {shown}"


def before_lines(prefix: str) -> re.Pattern[str]:
    """Return what matches *prefix*, whatever its numbers are, at the beginning of a line."""
    return re.compile(rf"(?m)^[ \t]*{prefix_shape(prefix)}")


def is_before_every_line(prefix: str, text: str) -> bool:
    """Whether most lines of *text* after the first begin with *prefix*."""
    further = text.count("\n")
    return further > 0 and sum(1 for _ in before_lines(prefix).finditer(text)) * 2 > further
