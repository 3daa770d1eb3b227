"""
Read the answer of ``nvidia-smi topo -c CPU``: which GPUs are near a CPU.

It names no links, and GPUs that are not near are not named, so it is only a part of a machine.

When to modify: the driver words its answer differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from topologies.errors import TopologyError
from topologies.model import Gpu, Topology
from topologies.nvidia.matrix.header import MOST_DEVICES
from topologies.pages.prefixes import without_prefixes
from topologies.pages.reading import Reading, listing
from topologies.pages.text import Line, Page

_ANSWER = re.compile(r"GPUs?\b.{0,40}\baffinity with CPU\s*#?([0-9]{1,5})\b[^:0-9]*:?\s*(.*)", re.IGNORECASE)
_HEAD = re.compile(r"(?:The\s+)?GPUs?\b.{0,40}\baffinity with CPU", re.IGNORECASE)
_INDICES = re.compile(r"\s*(?:GPU)?[0-9]+(?:[\s,]+(?:GPU)?[0-9]+)*\s*,?\s*", re.IGNORECASE)


def read(page: Page) -> Iterator[Reading]:
    """
    Yield one reading for all answers on *page* that name a GPU.

    Raises
    ------
    TopologyError
        If two answers about one CPU differ.
    """
    if "ffinity with CPU" not in page.text:
        return
    near: dict[int, tuple[int, ...]] = {}
    first_line = 0
    groups, notes = without_prefixes(page.lines, _head, lambda head: True)
    for lines in groups:
        for position, line in enumerate(lines):
            match = _ANSWER.search(line.text) if "ffinity" in line.text else None
            if match is None:
                continue
            text = _indices(match[2], lines[position + 1 : position + 1 + MOST_DEVICES])
            if text is None:
                continue
            gpus = tuple(sorted({int(number) for number in re.findall(r"[0-9]{1,9}", text)}))
            if gpus[-1] >= MOST_DEVICES:
                continue
            first_line = first_line or line.number
            if near.setdefault(int(match[1]), gpus) != gpus:
                message = f"another line of the text names other GPUs near CPU {match[1]}"
                raise TopologyError(message, where=page.where(line.number))
    if near:
        yield Reading(first_line, _topology(near, notes))


def _head(text: str) -> re.Match[str] | None:
    """Return the beginning of an answer, wherever in *text* it stands."""
    return _HEAD.search(text) if "ffinity" in text else None


def _indices(text: str, below: Sequence[Line]) -> str | None:
    """Return the list that begins with *text* and goes on in the lines *below*: one GPU per line, or wrapped behind a comma."""
    if text.strip() and not _INDICES.fullmatch(text):
        return None
    is_wrapped = text.rstrip().endswith(",")
    blanks = 0
    for line in below:
        if not line.text.strip():
            blanks += 1
            if blanks > 1 or (text.strip() and not is_wrapped):
                break
            continue
        if not _INDICES.fullmatch(line.text) or (text.strip() and not is_wrapped and "," in text):
            break
        text += f" {line.text}"
        is_wrapped = line.text.rstrip().endswith(",")
    return text if text.strip() else None


def _topology(near: Mapping[int, tuple[int, ...]], notes: Sequence[str]) -> Topology:
    named = {index for gpus in near.values() for index in gpus}
    cpus = listing([str(cpu) for cpu in near])
    return Topology(
        tuple(Gpu(index, is_named=index in named) for index in range(max(named) + 1)),
        format="topo-c",
        warnings=(*notes, f"`topo -c` names only the GPUs near CPU {cpus}: links, memory and further GPUs are unknown"),
        gpus_near_cpu=dict(near),
    )
