"""
The lines of a text that are looked at: all of a short one, of a long one those near an output of nvidia-smi.

Everything that is done to a line costs time, so a long log is searched for outputs before anything else happens to it, and what
is looked at is bounded. A text with more of it than any machine prints is refused.

When to modify: an output begins with words that `_TELLING` does not know, or real machines print more than the bounds allow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from topologies.errors import TopologyError

MOST_LINES = 2048
"""Most lines that are looked at; the matrices of one machine have a few hundred."""

MOST_CHARACTERS = 2**18
"""Most characters that are looked at; a matrix of 200 devices has less."""

LONGEST_LINE = 2**15
"""Longest line that is looked at, characters; a matrix of 64 devices that was squeezed onto one line has less."""

_BEFORE = 4
_AFTER = 64
"""Lines around a telling one that may belong to the same output: the command above, wrapped rows, rows of NICs, a legend."""

_TELLING = re.compile(
    r"PU[0-9]{1,4}[^\w\n]{0,40}(?:X\b|NV[0-9]|PIX|PXB|PHB|NODE|SYS|SOC|N/A|OK|[CGT]?NS|GPU[0-9]|NIC[0-9]|mlx|CPU|NUMA)"
    r"|affinity with CPU"
    r"|memory\.(?:total|used)|pci\.bus_id|gpu_(?:bus_id|name|uuid)"
    r"|index, ?(?:index|name|uuid)|name, ?(?:index|name|uuid)|uuid, ?(?:index|name|uuid)"
    r"|,(?<=[0-9],) ?\"?(?:NVIDIA|Tesla|Quadro|GeForce)"
    r"|\| NVIDIA-SMI [0-9]|MiB / {1,8}[0-9]{1,8}MiB|\| {1,4}[0-9]{1,4} {2}\S[^|\n]{1,60}\| {1,4}[0-9A-F]{4,8}:[0-9A-F]{2}:"
    r"|between two GPUs|T(?<=[A-Z] T)ABLE:|PU ?\[?[0-9]{1,4}\]?\s*: (?:\(Topology\)|VRAM|Card|PCI Bus|Unique)|XGMI|PCIE"
    r"|UUID: ?(?:GPU|MIG)-|Link [0-9]{1,2}: (?:[0-9]|<|Remote)|all links are inActive|gpuId [0-9]"
    r"|NVIDIA-SMI has failed|Failed to (?:run topology|initialize NVML)|No (?:devices|supported GPUs) (?:were )?found"
    r"|Unable to de(?:termine|tect) the device handle|fallen off the bus|establish a connection to the specified host"
)
"""What a log has only where it shows an output of nvidia-smi: labels before codes or labels, titles of a query, messages.

Each alternative begins with a letter of its own, so that the search skips whatever is no such letter quickly.
"""


def excerpt(text: str, *, name: str) -> tuple[list[tuple[int, str]], str | None]:
    """
    Return the lines of *text* that are looked at, with their numbers from 1, and a warning if others are left out.

    Parameters
    ----------
    name
        What messages call the text.

    Raises
    ------
    TopologyError
        If too much of it looks like outputs of nvidia-smi.
    """
    count = text.count("\n") + 1
    is_short = count <= MOST_LINES and len(text) <= MOST_CHARACTERS
    found: list[tuple[int, str]] = []
    size = 0
    for number, line in enumerate(text.split("\n"), start=1) if is_short else _near_outputs(text):
        where = f"{name}:{number}"
        if len(line) > LONGEST_LINE:
            if _TELLING.search(line):
                message = f"a line of {len(line):,} characters: paste the output of nvidia-smi with its line breaks"
                raise TopologyError(message, where=where)
            line = line[:LONGEST_LINE]
        size += len(line)
        if size > MOST_CHARACTERS or len(found) == MOST_LINES:
            raise TopologyError(
                "too much of this text looks like outputs of nvidia-smi: cut it down to those of one machine", where=where
            )
        found.append((number, line))
    if is_short:
        return found, None
    return found, f"the text is long: of its {count:,} lines the {len(found):,} near an output of nvidia-smi were looked at"


def _near_outputs(text: str) -> Iterator[tuple[int, str]]:
    """Yield the first lines of *text* and those around the telling ones; what lies between is only searched, not split."""
    position, number, wanted = 0, 1, _BEFORE
    while position < len(text):
        match = _TELLING.search(text, position)
        start = len(text) if match is None else text.rfind("\n", position, match.start()) + 1 or position
        end = _skip(text, position, start, wanted)
        for line in _split(text[position:end]):
            yield number, line
            number += 1
        if match is None:
            return
        near = start
        for _ in range(_BEFORE):
            near = max(text.rfind("\n", end, max(near - 1, end)) + 1, end)
        number += text.count("\n", end, near)
        position, wanted = _skip(text, start, len(text), 1), _AFTER
        for line in _split(text[near:position]):
            yield number, line
            number += 1


def _split(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _skip(text: str, position: int, limit: int, lines: int) -> int:
    """Return where *lines* lines from *position* on end, at most *limit*, which is the beginning of a line or the end of *text*."""
    for _ in range(lines):
        end = text.find("\n", position, limit)
        if end < 0:
            return limit
        position = end + 1
    return position
