"""
Read the answer of ``nvidia-smi topo -c CPU``: which GPUs are near a CPU.

It names no links, and GPUs that are not near are not named, so it is only a part of a machine.

When to modify: the driver words its answer differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from topologies.errors import TopologyError
from topologies.model import Gpu, Topology
from topologies.reading import Reading, listing
from topologies.smi_header import MOST_DEVICES
from topologies.text import Page

_ANSWER = re.compile(r"GPUs?\b.{0,40}\baffinity with CPU\s*#?([0-9]{1,5})\b[^:0-9]*:?\s*(.*)", re.IGNORECASE)
_INDICES = re.compile(r"\s*(?:GPU)?[0-9]+(?:[\s,]+(?:GPU)?[0-9]+)*\s*", re.IGNORECASE)


def read(page: Page) -> Iterator[Reading]:
    """
    Yield one reading for all answers on *page* that name a GPU.

    Raises
    ------
    TopologyError
        If two answers about one CPU differ.
    """
    near: dict[int, tuple[int, ...]] = {}
    first_line = 0
    for position, line in enumerate(page.lines):
        match = _ANSWER.search(line.text) if "ffinity" in line.text else None
        if match is None:
            continue
        below = next((n.text for n in page.lines[position + 1 : position + 3] if n.text.strip()), "")
        text = match[2] if match[2].strip() else below
        if not _INDICES.fullmatch(text):
            continue
        gpus = tuple(sorted({int(number) for number in re.findall(r"[0-9]{1,9}", text)}))
        if gpus[-1] >= MOST_DEVICES:
            continue
        first_line = first_line or line.number
        if near.setdefault(int(match[1]), gpus) != gpus:
            message = f"another line of the text names other GPUs near CPU {match[1]}"
            raise TopologyError(message, where=page.where(line.number))
    if near:
        yield Reading(first_line, _topology(near))


def _topology(near: Mapping[int, tuple[int, ...]]) -> Topology:
    named = {index for gpus in near.values() for index in gpus}
    cpus = listing([str(cpu) for cpu in near])
    return Topology(
        tuple(Gpu(index, is_named=index in named) for index in range(max(named) + 1)),
        format="topo-c",
        warnings=(f"`topo -c` names only the GPUs near CPU {cpus}: links, memory and further GPUs are unknown",),
        gpus_near_cpu=dict(near),
    )
