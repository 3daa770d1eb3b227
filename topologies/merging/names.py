"""
Names of cards: whose counts where two sources differ.

When to modify: another source has names of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from topologies.cards import Card, find_card, product
from topologies.errors import TopologyError
from topologies.model import Gpu, Topology
from topologies.pages.reading import listing


class ChipName(str):
    """A name by the list of PCI ids, which knows chips better than cards: it yields to any other."""

    __slots__ = ()


def with_chip_names(topology: Topology) -> Topology:
    """Return *topology* with its names as `ChipName` if they are lspci's."""
    if set(topology.formats) != {"lspci"}:
        return topology
    return topology.replace(
        gpus=tuple(gpu.replace(name=ChipName(gpu.name)) if gpu.name else gpu for gpu in topology.gpus)
    )


def renamed(a: Topology, b: Topology, merged: Sequence[Gpu]) -> Iterator[str]:
    """Yield a warning for each name of lspci's that yielded to that of another card."""
    found: dict[tuple[str, str], list[str]] = {}
    for x, y, gpu in zip(a.gpus, b.gpus, merged, strict=True):
        for name in (x.name, y.name):
            if isinstance(name, ChipName) and gpu.name and product(name) != product(gpu.name):
                found.setdefault((str(name), str(gpu.name)), []).append(f"GPU {gpu.index}")
    for (chip, name), gpus in found.items():
        yield f"lspci calls {listing(gpus)} {chip}, but another source {name}, which was taken"


def is_better(name: str | None, other: str) -> bool:
    """Whether *name* is what a driver prints for the card and *other* is not: lspci has names of its own."""
    card = _card(name) if name is not None and name != other else None
    return card is not None and name in card.nvml_names and other not in card.nvml_names


def only_names(topology: Topology) -> bool:
    """Whether *topology* only names GPUs: that may be those that a process sees, numbered anew."""
    bare = [gpu.replace(name=None, compute_capability=None, is_named=True) for gpu in topology.gpus]
    return topology.format == "list" and bare == [Gpu(gpu.index) for gpu in topology.gpus]


def unknown_names(some: Topology, full: Topology, name: str, other: str) -> str:
    """Return the warning for the names of *some* that were left out, for *full* has more GPUs."""
    return (
        f"{name} names {len(some.gpus)} GPUs without UUIDs, {other} has {len(full.gpus)}: which of them those are is unknown, "
        "so they were left out"
    )


@functools.lru_cache(maxsize=256)
def _card(name: str) -> Card | None:
    try:
        return find_card(name)
    except TopologyError:
        return None
