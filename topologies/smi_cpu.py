"""
Read the answer of ``nvidia-smi topo -c CPU``: which GPUs are near a CPU.

It names no links, and GPUs that are not near are not named, so it is only a part of a machine.

When to modify: the driver words its answer differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from topologies.model import Gpu, Topology
from topologies.reading import Reading
from topologies.smi_header import MOST_DEVICES
from topologies.text import Page

_ANSWER = re.compile(r"GPUs?\b.{0,40}\baffinity with CPU\s*#?(\d{1,5})\b[^:\d]*:?\s*(.*)", re.IGNORECASE)
_INDICES = re.compile(r"\s*(?:GPU)?\d+(?:[\s,]+(?:GPU)?\d+)*\s*", re.IGNORECASE)


def read(page: Page) -> Iterator[Reading]:
    """Yield one reading for every answer on *page* that names a GPU."""
    for position, line in enumerate(page.lines):
        match = _ANSWER.search(line.text)
        if match is None:
            continue
        below = next((n.text for n in page.lines[position + 1 : position + 3] if n.text.strip()), "")
        text = match[2] if match[2].strip() else below
        if not _INDICES.fullmatch(text):
            continue
        near = tuple(sorted({int(number) for number in re.findall(r"\d{1,9}", text)}))
        if near[-1] >= MOST_DEVICES:
            continue
        yield Reading(
            line.number,
            Topology(
                tuple(Gpu(index) for index in range(near[-1] + 1)),
                format="topo-c",
                warnings=(
                    f"`topo -c` names only the GPUs near CPU {match[1]}: links, memory and further GPUs are unknown",
                ),
                gpus_near_cpu={int(match[1]): near},
            ),
        )
