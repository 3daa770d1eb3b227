"""
Several sources about one machine, merged by GPU index.

What one source states and another does not is taken; what two sources state differently is an error that names both.

When to modify: `Topology` or `Gpu` gets a field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from topologies.errors import TopologyError
from topologies.model import Gpu, Topology

K = TypeVar("K")
V = TypeVar("V")

_DESCRIPTIONS = {
    "name": "the name", "uuid": "the UUID", "pci_bus_id": "the PCI bus id", "memory_mib": "the memory (MiB)", "host": "the host",
    "cpu_affinity": "the CPU affinity", "numa": "the NUMA affinity", "gpu_numa_id": "the NUMA id",
}  # fmt: skip

_CHANGES = frozenset({"memory_used_mib"})
"""Facts that differ between two moments: the first source counts."""


def merge(topologies: Sequence[Topology], *, names: Sequence[str] = ()) -> Topology:
    """
    Return what *topologies*, all of one machine, state together.

    Parameters
    ----------
    topologies
        At least one. `Topology.format` is that of the first that states links, else of the first.
    names
        What messages call each; its number and format if there is none.

    Raises
    ------
    TopologyError
        If two contradict each other; the message names both.
    """
    labels = [*names, *(f"source {k + 1} ({t.format})" for k, t in enumerate(topologies))][: len(topologies)]
    merged, sources = topologies[0], labels[0]
    for other, label in zip(topologies[1:], labels[1:], strict=True):
        merged = _merge_two(merged, other, sources, label)
        sources = f"{sources} and {label}"
    return merged


def _merge_two(a: Topology, b: Topology, name_a: str, name_b: str) -> Topology:
    size = max(len(a.gpus), len(b.gpus))
    a, b = (_padded(t, size) if t.format == "topo-c" else t for t in (a, b))
    if len(a.gpus) != len(b.gpus):
        raise TopologyError(
            f"{name_a} has {len(a.gpus)} GPUs and {name_b} has {len(b.gpus)}: they are not the same machine, or one was cut"
        )

    def union(left: Mapping[K, V], right: Mapping[K, V], what: str, word: str = "GPUs {}") -> dict[K, V]:
        for key in left.keys() & right.keys():
            if left[key] != right[key] and left[key] is not None and right[key] is not None:
                where = word.format("-".join(map(str, key)) if isinstance(key, tuple) else key)
                raise TopologyError(
                    f"{where}: {what} is {left[key]} in {name_a} but {right[key]} in {name_b}"
                )
        return {**left, **{key: value for key, value in right.items() if left.get(key) is None}}

    gpu_nic = {
        index: union(
            a.gpu_nic.get(index, {}), b.gpu_nic.get(index, {}), f"the link to GPU {index}", "column {}"
        )
        for index in sorted({*a.gpu_nic, *b.gpu_nic})
    }
    states_links = a if a.links or not b.links else b
    return Topology(
        gpus=tuple(_merge_gpus(x, y, name_a, name_b) for x, y in zip(a.gpus, b.gpus, strict=True)),
        links=dict(sorted(union(a.links, b.links, "the link").items())),
        nics=union(a.nics, b.nics, "its device name", "column {}"),
        gpu_nic=gpu_nic,
        format=states_links.format,
        warnings=tuple(dict.fromkeys((*a.warnings, *b.warnings))),
        columns=a.columns | b.columns,
        rows_missing=a.rows_missing or b.rows_missing,
        rows_partial_cells_seen={**b.rows_partial_cells_seen, **a.rows_partial_cells_seen},
        conflict=tuple(dict.fromkeys((*a.conflict, *b.conflict))),
        extra_columns=tuple(dict.fromkeys((*a.extra_columns, *b.extra_columns))),
        other_columns=max(a.other_columns, b.other_columns),
        p2p=dict(sorted(union(a.p2p, b.p2p, "the peer-to-peer state").items())),
        p2p_kind=a.p2p_kind or b.p2p_kind,
        gpus_near_cpu=union(a.gpus_near_cpu, b.gpus_near_cpu, "the list of near GPUs", "CPU {}"),
    )


def _padded(topology: Topology, size: int) -> Topology:
    """Return *topology*, of a format that names only some GPUs, with *size* GPUs."""
    gpus = (*topology.gpus, *(Gpu(index, is_named=False) for index in range(len(topology.gpus), size)))
    return topology.replace(gpus=gpus)


def _merge_gpus(a: Gpu, b: Gpu, name_a: str, name_b: str) -> Gpu:
    merged: dict[str, Any] = {"index": a.index, "is_named": a.is_named or b.is_named}
    for fact, description in (*_DESCRIPTIONS.items(), ("memory_used_mib", "the used memory")):
        left, right = getattr(a, fact), getattr(b, fact)
        if fact not in _CHANGES and None not in (left, right) and _plain(fact, left) != _plain(fact, right):
            raise TopologyError(f"GPU {a.index}: {description} is {left} in {name_a} but {right} in {name_b}")
        merged[fact] = left if left is not None else right
    assert merged.keys() == {f.name for f in fields(Gpu)}, "a field of Gpu is not merged"
    return Gpu(**merged)


def _plain(fact: str, value: object) -> object:
    """Return *value* without differences in writing: the PCI domain has four or eight digits, in either case."""
    if fact != "pci_bus_id":
        return value
    return re.sub(r"^0*(?=[0-9a-f]{4}:)", "", str(value).lower())
