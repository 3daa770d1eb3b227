"""
Several sources about one machine, merged GPU by GPU.

GPUs are the same where UUID or bus id say so, else where the index says so. What one source states and another does not is
taken; what two sources state differently is an error that names both.

When to modify: `Topology` or `Gpu` gets a field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from topologies.cards import product
from topologies.errors import TopologyError
from topologies.links import PCIE_KINDS, LinkKind, parse_code
from topologies.merging.concluded import stated_first
from topologies.merging.identity import bus_key, is_numbered, is_part, is_whole, order_like
from topologies.merging.merge_parts import both, joined
from topologies.merging.names import ChipName, is_better, only_names, renamed, unknown_names, with_chip_names
from topologies.merging.nic_identity import PORTS, named_like, ports_of, with_gpus
from topologies.model import Gpu, Pair, Topology
from topologies.pages.reading import listing
from topologies.parts import Fabric, Host, Mig
from topologies.paths import contradictions
from topologies.peer_kinds import UNKNOWN, all_kinds, fields_of

K = TypeVar("K")
V = TypeVar("V")

_DESCRIPTIONS = {
    "name": "the name", "uuid": "the UUID", "pci_bus_id": "the PCI bus id", "memory_mib": "the memory (MiB)", "host": "the host",
    "cpu_affinity": "the CPU affinity", "numa": "the NUMA affinity", "gpu_numa_id": "the NUMA id",
    "compute_capability": "the compute capability",
}  # fmt: skip

_CHANGES = ("memory_used_mib", "memory_reserved_mib", "processes", "mig", "fabric")
"""Facts that differ between two moments, or that sources tell in part: the first source counts."""

PCIE_ONLY = "topo-mp"
"""Format that states PCIe paths also where NVLink joins a pair."""

NEAR_CPU = "topo-c"

_LINK = "the link"
_HINT = "; if one is `topo -mp`, put that command line above it"

TREES = frozenset({"lspci", "nccl-topo-xml"})
"""Formats that state a PCIe tree, from which they conclude the codes of pairs."""

PARTIAL = frozenset({NEAR_CPU, "smi-table-part", "nvlink-status", "dcgmi-nvlink", "query-apps", PORTS})
"""Formats that name only some GPUs of a machine."""


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
    # Those that say which GPU is which come first, whatever the order they were given in; the sort is stable.
    ordered = sorted(
        _gathered([*zip(map(with_chip_names, topologies), labels, strict=True)]), key=lambda source: _rank(source[0])
    )
    merged, sources = ordered[0]
    for other, label in ordered[1:]:
        merged = _merge_two(merged, other, sources, label)
        sources = f"{sources} and {label}"
    further = [warning for warning in contradictions(merged) if warning not in merged.warnings]
    merged = merged.replace(gpus=tuple(gpu.replace(name=str(gpu.name)) if gpu.name else gpu for gpu in merged.gpus))
    formats = tuple(dict.fromkeys(name for topology in topologies for name in topology.formats))
    return with_gpus(merged.replace(warnings=(*merged.warnings, *further), formats=formats))


def _gathered(sources: Sequence[tuple[Topology, str]]) -> list[tuple[Topology, str]]:
    """Return *sources* with one in place of several that each show some GPUs of a machine (``nvidia-smi -q -i 0``, ``-i 1`` …)."""
    parts = [source for source in sources if is_part(source[0])]
    if len(parts) < 2:
        return [*sources]
    gathered, names = parts[0]
    for part, name in parts[1:]:
        gathered = _merge_two(gathered, part, names, name)
        names = f"{names} and {name}"
    return [*(source for source in sources if not is_part(source[0])), (gathered, names)]


def _rank(topology: Topology) -> int:
    """Return 0 for a source that numbers all GPUs, then whole lists, other lists, parts of one, and what names only some GPUs."""
    if topology.format in PARTIAL:
        return 4 + (topology.format == PORTS)
    if is_numbered(topology):
        return 0
    return 1 if is_whole(topology) else 2 + is_part(topology)


def _merge_two(a: Topology, b: Topology, name_a: str, name_b: str) -> Topology:
    a, b = order_like(a, b, name_a, name_b)
    size = max(len(a.gpus), len(b.gpus))
    a, b = (
        _padded(t, size, is_completed=other.format not in PARTIAL) if t.format in PARTIAL else t
        for t, other in ((a, b), (b, a))
    )
    b = ports_of(b, a) if b.format == PORTS else _yielding(named_like(b, a), a)
    if len(a.gpus) > len(b.gpus) and only_names(b):
        return a.replace(warnings=(*a.warnings, *b.warnings, unknown_names(b, a, name_b, name_a)))
    if len(a.gpus) < len(b.gpus) and only_names(a):
        return b.replace(warnings=(*a.warnings, *b.warnings, unknown_names(a, b, name_a, name_b)))
    if len(a.gpus) != len(b.gpus):
        raise TopologyError(
            f"{name_a} has {len(a.gpus)} GPUs and {name_b} has {len(b.gpus)}: they are not the same machine, or one was cut"
        )

    links, pcie_links = _links(a, b)
    hint = _HINT if _is_mp_against_m(*links) else ""

    def union(left: Mapping[K, V], right: Mapping[K, V], what: str, word: str = "GPUs {}") -> dict[K, V]:
        for key in left.keys() & right.keys():
            if left[key] != right[key] and left[key] is not None and right[key] is not None:
                where = word.format("-".join(map(str, key)) if isinstance(key, tuple) else key)
                raise TopologyError(
                    f"{where}: {what} is {left[key]} in {name_a} but {right[key]} in {name_b}{hint if what == _LINK else ''}"
                )
        return {**left, **{key: value for key, value in right.items() if left.get(key) is None}}

    gpu_nic = {
        index: union(
            a.gpu_nic.get(index, {}), b.gpu_nic.get(index, {}), f"the link to GPU {index}", "column {}"
        )
        for index in sorted({*a.gpu_nic, *b.gpu_nic})
    }
    peers_a, peers_b = all_kinds(a), all_kinds(b)
    states_links = a if (a.links and (a.format != PCIE_ONLY or not b.links)) or not b.links else b
    gpus = tuple(_merge_gpus(x, y, name_a, name_b) for x, y in zip(a.gpus, b.gpus, strict=True))
    hosts = tuple(dict.fromkeys(gpu.host for gpu in gpus))
    host_facts, unplaced = _host_facts(a, b, hosts)
    warnings = (*a.warnings, *b.warnings, *renamed(a, b, gpus), *unplaced)
    return Topology(
        gpus=gpus,
        links=dict(sorted(union(links[0], links[1], _LINK).items())),
        pcie_links=dict(sorted(union(pcie_links[0], pcie_links[1], "the PCIe path").items())),
        nics=union(a.nics, b.nics, "its device name", "column {}"),
        gpu_nic=gpu_nic,
        format=states_links.format,
        warnings=tuple(dict.fromkeys(warnings)),
        columns=a.columns | b.columns,
        rows_missing=a.rows_missing or b.rows_missing,
        rows_partial_cells_seen={**b.rows_partial_cells_seen, **a.rows_partial_cells_seen},
        conflict=tuple(dict.fromkeys((*a.conflict, *b.conflict))),
        extra_columns=tuple(dict.fromkeys((*a.extra_columns, *b.extra_columns))),
        other_columns=max(a.other_columns, b.other_columns),
        **fields_of({kind: union(peers_a.get(kind, {}), peers_b.get(kind, {}), _peers(kind)) for kind in {**peers_a, **peers_b}}),
        gpus_near_cpu=union(a.gpus_near_cpu, b.gpus_near_cpu, "the list of near GPUs", "CPU {}"),
        nic_details=both(a.nic_details, b.nic_details),
        host_facts=host_facts,
        network=a.network or b.network,
        stated={**b.stated, **a.stated},
        measured=a.measured or b.measured,
    )


def _host_facts(
    a: Topology, b: Topology, hosts: Sequence[str | None]
) -> tuple[dict[str | None, Host], list[str]]:
    """Return what *a* and *b* know of *hosts*, those of the merged machine, and a warning if something can be of several of them."""
    rename: dict[str | None, str | None] = {None: hosts[0]} if len(hosts) == 1 else {}
    known = [{rename.get(host, host): facts for host, facts in t.host_facts.items()} for t in (a, b)]
    found = both(*known)
    if found.keys() <= set(hosts):
        return found, []
    names = listing([str(host) for host in hosts])
    warning = f"facts about a host without a name were left out: it may be any of {names}"
    return {host: facts for host, facts in found.items() if host in hosts}, [warning]


def _is_mp_against_m(a: Mapping[Pair, str], b: Mapping[Pair, str]) -> bool:
    """Whether *a* and *b* differ only where one of them states NVLink and the other PCIe, as ``topo -m`` and ``-mp`` do."""
    different = [(a[pair], b[pair]) for pair in a.keys() & b.keys() if a[pair] != b[pair]]
    kinds = [{parse_code(code)[0] for code in ends} for ends in different]
    return bool(kinds) and all(LinkKind.NVLINK in ends and ends & set(PCIE_KINDS) for ends in kinds)


def _peers(kind: str) -> str:
    """Return what messages call the peer-to-peer states of *kind*."""
    remedy = "which was asked for is not said: put its command, such as `nvidia-smi topo -p2p r`, above each matrix"
    return f"the peer-to-peer state ({remedy if kind == UNKNOWN else kind})"


def _yielding(b: Topology, a: Topology) -> Topology:
    """
    Return *b* without what it only concludes from a PCIe tree and *a* states.

    Tools name the levels of a tree differently: NCCL takes a NUMA node for a CPU, and some count the ports of a switch as bridges.
    """
    if b.format not in TREES:
        return b
    is_pcie = {pair: not code.startswith("NV") for pair, code in a.links.items()}
    return b.replace(
        links={pair: code for pair, code in b.links.items() if code.startswith("NV") or not is_pcie.get(pair, False)},
        pcie_links={pair: code for pair, code in b.pcie_links.items() if pair not in a.pcie_links},
        gpu_nic={
            gpu: {nic: code for nic, code in codes.items() if nic not in a.gpu_nic.get(gpu, {})}
            for gpu, codes in b.gpu_nic.items()
        },
    )


def _links(a: Topology, b: Topology) -> tuple[list[Mapping[Pair, str]], list[Mapping[Pair, str]]]:
    """
    Return the links and the PCIe paths that *a* and *b* state.

    What ``topo -mp`` prints is the PCIe path where the other states NVLinks for the pair; alone it is the link.
    """
    links, paths = [a.links, b.links], [a.pcie_links, b.pcie_links]
    for k, (one, other) in enumerate(((a, b), (b, a))):
        if one.format == PCIE_ONLY != other.format:
            joined = {pair for pair, code in other.links.items() if code.startswith("NV")}
            paths[k] = {**paths[k], **{pair: code for pair, code in one.links.items() if pair in joined}}
            links[k] = {pair: code for pair, code in one.links.items() if pair not in joined}
    return links, paths


def _padded(topology: Topology, size: int, *, is_completed: bool) -> Topology:
    """Return *topology*, of a format that names only some GPUs, with *size* GPUs; *is_completed*: the other source names all."""
    if is_completed and topology.format == NEAR_CPU:
        topology = topology.replace(warnings=())    # it only says that further GPUs are unknown
    gpus = (*topology.gpus, *(Gpu(index, is_named=False) for index in range(len(topology.gpus), size)))
    return topology.replace(gpus=gpus)


def _merge_gpus(a: Gpu, b: Gpu, name_a: str, name_b: str) -> Gpu:
    merged: dict[str, Any] = {"index": a.index, "is_named": a.is_named or b.is_named}
    merged["pcie"] = joined(a.pcie, b.pcie)
    for fact in (*_DESCRIPTIONS, *_CHANGES):
        left, right = stated_first(getattr(a, fact), getattr(b, fact))
        if fact == "numa":
            left, right = _nearer(left, right), _nearer(right, left)
        if fact == "name" and isinstance(left, ChipName) and right is not None and not isinstance(right, ChipName):
            left, right = right, left
        is_told = fact in _DESCRIPTIONS and None not in (left, right) and not isinstance(right, ChipName)
        if is_told and _plain(fact, left) != _plain(fact, right):
            raise TopologyError(
                f"GPU {a.index}: {_DESCRIPTIONS[fact]} is {left} in {name_a} but {right} in {name_b}"
            )
        if fact in ("mig", "fabric"):
            left, right = _fuller(left, right), None
        is_worse = fact == "name" and not isinstance(right, ChipName) and is_better(right, left)
        merged[fact] = left if left is not None and not is_worse else right
    assert merged.keys() == {f.name for f in fields(Gpu)}, "a field of Gpu is not merged"
    return Gpu(**merged)


def _fuller(a: Mig | Fabric | None, b: Mig | Fabric | None) -> Mig | Fabric | None:
    """
    Return *b* if it says more than *a* of the same mode or fabric, else *a*.

    Not every source lists the instances of a GPU in MIG mode; one that lists none may only not tell.
    """
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, Mig) and isinstance(b, Mig):
        return b if b.instances and not a.instances and a.enabled == b.enabled else a
    return joined(a, b)


def _nearer(numa: str | None, other: str | None) -> str | None:
    """Return *numa*, or *other* if that says more: a node where this is not available, or one node out of a range."""
    is_vague = numa is None or numa == "N/A" or re.fullmatch(r"[0-9]+[-,][0-9,-]*", numa) is not None
    return other if is_vague and other is not None and other.isdecimal() else numa


def _plain(fact: str, value: object) -> object:
    """Return *value* without differences in writing: a card has several names, a bus id several forms."""
    if fact == "name":
        return product(str(value))  # lspci writes `H100 SXM5 80GB` for NVIDIA H100 80GB HBM3
    return bus_key(str(value)) if fact == "pci_bus_id" else value
