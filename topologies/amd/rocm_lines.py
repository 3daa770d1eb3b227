"""
The lines of AMD's tools without what a log or a mail put before them; those of several hosts one host after the other.

When to modify: lines get another kind of prefix.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from topologies.amd.rocm_tables import label_start, title_start
from topologies.pages.text import Line, prefix_shape

_LONGEST_PREFIX = 120


def streams(lines: Sequence[Line]) -> Iterator[tuple[list[Line], list[str]]]:
    """Yield the lines of each host that talks, without prefixes, and what was stripped."""
    prefixes: dict[int, str] = {}
    titles: set[str] = set()
    for position, line in enumerate(lines):
        title, label = title_start(line.text), label_start(line.text)
        starts = [start for start in (title, label) if start is not None]
        if not starts or min(starts) > _LONGEST_PREFIX:
            continue
        prefixes[position] = _bare(line.text[: min(starts)])
        if title is not None and title <= min(starts):
            titles.add(prefixes[position])
    shapes = Counter(map(prefix_shape, prefixes.values()))
    wanted = [shape for shape, count in shapes.items() if shape and count * 4 >= len(prefixes)]
    if not wanted or len(wanted) > 4:
        yield list(lines), []
        return
    pattern = re.compile("|".join(wanted))
    are_hosts = len(titles) > 1 and set(prefixes.values()) <= titles
    hosts: dict[str, list[Line]] = {}
    for line in lines:
        match = pattern.match(line.text)
        host = match[0] if match and are_hosts else ""
        text = line.text[match.end() :] if match else line.text
        hosts.setdefault(host, []).append(Line(line.number, text[1:] if match and text[:1] == " " else text))
    shown = ", ".join(repr(prefix) for prefix in [*dict.fromkeys(filter(None, prefixes.values()))][:3])
    for stream in hosts.values():
        yield stream, [f"the lines had a prefix, which was stripped: {shown}"]


def _bare(prefix: str) -> str:
    """Return *prefix* without the blanks and bars that a table or a header begins with."""
    return prefix.rstrip(" \t|*`=") if prefix.strip(" \t|*`=") else ""
