"""
Which GPUs share a level of the machine: island, PCIe switch, root complex, NUMA node, host.

The codes of a matrix are statements of closeness: ``PIX`` says that two devices hang from one switch.
Statements chain (what is close to the same NIC is close to each other), which is how the PCIe place of GPUs
shows whose pairs all read ``NV12``. Where statements contradict each other the closest wins, and a warning
says so. What nothing is known about joins nothing.

When to modify: a new level, or a new kind of fact that tells who shares one.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from topologies import paths
from topologies.cliques import Partition, clique_partition
from topologies.links import DIRECT_KINDS, PCIE_KINDS, LinkKind, parse_code
from topologies.model import Gpu, Topology
from topologies.peer import blocked

if TYPE_CHECKING:
    import networkx

Device: TypeAlias = tuple[str, object]
"""``("gpu", 3)`` or ``("nic", "NIC0")``; also the node of the device in the graph."""

PCIE_LEVELS = PCIE_KINDS[:-1]
"""Kinds that place two devices together, closest first; `LinkKind.SYS` places them apart."""

_PCIE_ONLY = "topo-mp"
_ALL_LINKS = "topo-m"

_TOOLS_OF_AMD = ("rocm", "amd-smi")
_KINDS_OF_AMD = (LinkKind.XGMI, LinkKind.PCIE)
_MADE_BY_AMD = re.compile(r"\b(?:AMD|Instinct|Radeon)\b|\bMI[0-9]{2,3}[A-Z]?\b", re.IGNORECASE)

_RANK = {kind: rank for rank, kind in enumerate(PCIE_KINDS)}


class Level(StrEnum):
    """A level of the machine, closest first. PCIe levels nest in each other, islands need not."""

    ISLAND = "island"
    SWITCH = "switch"
    ROOT_COMPLEX = "root complex"
    NUMA = "NUMA node"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class Nest:
    """
    Who is close to whom over PCIe.

    Parameters
    ----------
    clusters
        For each of `PCIE_LEVELS`, all GPUs and NICs as clusters of devices that are at least so close: each
        nests in the next.
    warnings
        Statements that contradict each other.
    """

    clusters: Mapping[LinkKind, tuple[tuple[Device, ...], ...]]
    warnings: tuple[str, ...]


def domains(machine: Topology | networkx.Graph[Device], level: Level) -> Partition:
    """
    Return the GPUs of *machine*, cut into the domains of *level*; ascending.

    `Level.SWITCH` groups the GPUs that hang from the same switch: of switches under a switch, the one that
    they hang from directly. A GPU whose place is unknown is alone.
    """
    topology = machine if isinstance(machine, Topology) else machine.graph["topology"]
    if level is Level.ISLAND:
        return islands(machine)
    if level is Level.HOST:
        return _partition((gpu.index, gpu.host) for gpu in topology.gpus)
    clusters = (nest(topology) if isinstance(machine, Topology) else machine.graph["nest"]).clusters
    if level is Level.SWITCH:
        return _switches(clusters)
    return _of_gpus(clusters[LinkKind.PHB if level is Level.ROOT_COMPLEX else LinkKind.NODE])


def islands(machine: Topology | networkx.Graph[Device]) -> Partition:
    """
    Return the islands: the GPUs of each host cut into cliques of NVLink (or AMD's XGMI), ascending.

    Fewest cliques, then most bandwidth inside, then smallest ids. Bandwidth is counted in NVLinks: GPUs that
    NVLink joins are of one generation. See `topologies.cliques.clique_partition` for how exact it is. An
    unknown link joins nothing, nor do NVLinks whose peer-to-peer copies are off (`topologies.peer`).
    """
    topology = machine if isinstance(machine, Topology) else machine.graph["topology"]
    links = {}
    off = blocked(topology)
    for (i, j), code in topology.links.items():
        kind, count = parse_code(code)
        if kind in DIRECT_KINDS and (i, j) not in off and topology.gpus[i].host == topology.gpus[j].host:
            links[i, j] = count
    return clique_partition(len(topology.gpus), links)


def is_pcie_only(topology: Topology) -> bool:
    """Whether what is known of links comes from a source that never tells of NVLink."""
    codes = {code for code in topology.links.values() if parse_code(code)[0] in DIRECT_KINDS}
    return topology.format == _PCIE_ONLY and _ALL_LINKS not in topology.formats and not codes


def amd_hosts(topology: Topology) -> frozenset[str | None]:
    """Return the hosts whose GPUs are AMD's, as far as the source, the codes of links or the names of cards tell."""
    if len(topology.hosts) == 1 and any(name.startswith(_TOOLS_OF_AMD) for name in topology.formats):
        return frozenset(topology.hosts)
    linked = {topology.gpus[i].host for (i, _), code in topology.links.items() if parse_code(code)[0] in _KINDS_OF_AMD}
    return frozenset(linked | {gpu.host for gpu in topology.gpus if gpu.name is not None and _MADE_BY_AMD.search(gpu.name)})


def nest(topology: Topology) -> Nest:
    """Return who is close to whom over PCIe in *topology*."""
    codes = tuple(pcie_statements(topology))
    devices: list[Device] = [("gpu", gpu.index) for gpu in topology.gpus]
    devices += dict.fromkeys(b for _, b, _ in codes if b[0] == "nic")
    position = {device: k for k, device in enumerate(devices)}
    cluster = {device: [device] for device in devices}
    clusters = {}
    for level in PCIE_LEVELS:
        for a, b, kind in codes:
            if kind is level:
                _join(cluster, a, b)
        if level is LinkKind.NODE:
            for a, b in _same_numa(topology):
                _join(cluster, a, b)
        unique = {id(members): members for members in cluster.values()}
        clusters[level] = tuple(
            tuple(sorted(members, key=position.__getitem__)) for members in unique.values()
        )
    return Nest(clusters, tuple(_contradictions(topology, codes, clusters)))


def nic_device(topology: Topology, host: str | None, nic: str) -> Device:
    """Return the NIC column *nic* of *host* as a device; columns of several hosts may have the same name."""
    is_lone = all(gpu.host == host for gpu in (topology.gpus[0], topology.gpus[-1])) and len(topology.hosts) == 1
    return ("nic", nic if is_lone or nic.startswith(f"{host}:") else f"{host}:{nic}")


def pcie_statements(topology: Topology) -> Iterator[tuple[Device, Device, LinkKind]]:
    """Yield every statement of *topology* on PCIe: GPU, GPU or NIC of the same host, kind."""
    for (i, j), code in sorted((*topology.links.items(), *topology.pcie_links.items())):
        kind, _ = parse_code(code)
        if kind in _RANK and topology.gpus[i].host == topology.gpus[j].host:
            yield ("gpu", i), ("gpu", j), kind
    for i, j, kind in paths.statements(topology):
        if parse_code(topology.link(i, j))[0] not in _RANK:  # a matrix is believed where it tells
            yield ("gpu", i), ("gpu", j), kind
    for gpu in topology.gpus:
        for nic, code in topology.gpu_nic.get(gpu.index, {}).items():
            kind, _ = parse_code(code)
            if kind in _RANK:
                yield ("gpu", gpu.index), nic_device(topology, gpu.host, nic), kind


def _same_numa(topology: Topology) -> Iterator[tuple[Device, Device]]:
    """
    Yield pairs of GPUs that their affinity puts on one NUMA node.

    The NUMA column is the kernel's own statement. CPU affinity is cut by containers, so that it speaks only
    where the code of the pair hides the PCIe level (NVLink, or unknown).
    """
    by_host: dict[str | None, list[Gpu]] = {}
    for gpu in topology.gpus:
        by_host.setdefault(gpu.host, []).append(gpu)
    for a, b in (pair for gpus in by_host.values() for pair in itertools.combinations(gpus, 2)):
        if stated_numa(a) is not None or stated_numa(b) is not None:
            same = stated_numa(a) == stated_numa(b)
        else:
            is_hidden = parse_code(topology.link(a.index, b.index))[0] not in _RANK
            same = is_hidden and a.cpu_affinity == b.cpu_affinity not in (None, "N/A")
        if same:
            yield ("gpu", a.index), ("gpu", b.index)


def stated_numa(gpu: Gpu) -> str | None:
    """Return the NUMA node that *gpu* states; None when it states none."""
    return None if gpu.numa in (None, "", "N/A") else gpu.numa


def _join(cluster: dict[Device, list[Device]], a: Device, b: Device) -> None:
    if cluster[a] is not cluster[b]:
        joined = cluster[a] + cluster[b]
        for device in joined:
            cluster[device] = joined


def _contradictions(
    topology: Topology,
    codes: tuple[tuple[Device, Device, LinkKind], ...],
    clusters: Mapping[LinkKind, tuple[tuple[Device, ...], ...]],
) -> Iterator[str]:
    home = {
        level: {d: k for k, members in enumerate(clusters[level]) for d in members} for level in PCIE_LEVELS
    }
    broken = []
    for a, b, kind in codes:
        closest = next((level for level in PCIE_LEVELS if home[level][a] == home[level][b]), LinkKind.SYS)
        if _RANK[closest] < _RANK[kind]:
            broken.append(f"{_name(a)}–{_name(b)} reads {kind} but is {closest} by what else is stated")
    if broken:
        codes_contradict = (
            "1 link code contradicts" if len(broken) == 1 else f"{len(broken)} link codes contradict"
        )
        yield f"{codes_contradict} others, and the closest statement is taken: {broken[0]}"
    for members in clusters[LinkKind.NODE]:
        gpus = [topology.gpus[d[1]] for d in members if d[0] == "gpu" and isinstance(d[1], int)]
        stated = {numa: gpu.index for gpu in reversed(gpus) if (numa := stated_numa(gpu)) is not None}
        if len(stated) > 1:
            where = ", ".join(
                f"GPU {index} on {numa}" for numa, index in sorted(stated.items(), key=lambda item: item[1])
            )
            yield f"link codes put GPUs of several NUMA nodes together ({where}): taken as one node"


def _name(device: Device) -> str:
    return f"GPU{device[1]}" if device[0] == "gpu" else str(device[1])


def _switches(clusters: Mapping[LinkKind, tuple[tuple[Device, ...], ...]]) -> Partition:
    lower = {g: members for members in _of_gpus(clusters[LinkKind.PIX]) if len(members) > 1 for g in members}
    upper = {g: k for k, members in enumerate(_of_gpus(clusters[LinkKind.PXB])) for g in members}
    return _partition((g, lower.get(g, upper[g])) for g in sorted(upper))


def _of_gpus(clusters: tuple[tuple[Device, ...], ...]) -> Partition:
    return _partition(
        sorted((d[1], k) for k, members in enumerate(clusters) for d in members if isinstance(d[1], int))
    )


def _partition(labelled: Iterable[tuple[int, object]]) -> Partition:
    groups: dict[object, list[int]] = {}
    for gpu, label in labelled:
        groups.setdefault(label, []).append(gpu)
    return tuple(tuple(members) for members in groups.values())
