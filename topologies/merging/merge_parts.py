"""
Two statements about one part of a machine (a PCIe port, a NIC, a host) as one: each fact from the first that states it.

What a PCIe port runs at under load is stated as an upper bound by whoever sees one of its ends, so that the least counts.

When to modify: a part gets a fact of which the second statement may be the better one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from topologies.parts import Bridge, BridgeKind, Pcie
from topologies.ports import settled

K = TypeVar("K")
T = TypeVar("T")


def joined(a: T, b: T) -> T:
    """
    Return one of *a* and *b*, which say something about the same part.

    Mappings and parts within are joined, too. Of two generations or widths of a port the lower counts, of two paths the longer, and
    any kind of bridge more than just "bridge": NCCL and the tree of lspci leave out what others state.
    """
    found: T = b if a is None else a if b is None else _both(a, b)
    return found


def both(left: Mapping[K, T], right: Mapping[K, T]) -> dict[K, T]:
    """Return the entries of both, joined where both have one."""
    shared = {key: joined(left[key], right[key]) for key in left if key in right}
    return {**left, **right, **shared}


def _both(a: Any, b: Any) -> Any:
    if isinstance(a, Pcie):
        a, b = settled(a), settled(b)
    if dataclasses.is_dataclass(a) and not isinstance(a, type):
        found = type(a)(**{f.name: joined(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a)})
        if not isinstance(a, Pcie | Bridge):
            return found
        return dataclasses.replace(found, gen=_least(a.gen, b.gen), width=_least(a.width, b.width))
    if isinstance(a, Mapping):
        return both(a, b)
    if isinstance(a, tuple):
        return b if len(b) > len(a) else a
    return b if a is BridgeKind.OTHER else a


def _least(a: int | None, b: int | None) -> int | None:
    return min((n for n in (a, b) if n is not None), default=None)
