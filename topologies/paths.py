"""
How close two devices are by their paths through PCIe bridges.

A path names the bridges above a device from the root port down (`Pcie.path`), a root complex has a name (`Pcie.root`). Devices
that share a bridge are below one switch or one port; devices that share only the root complex meet in the CPU.

When to modify: another fact tells where two paths meet.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from topologies.links import PCIE_KINDS, LinkKind, parse_code
from topologies.model import Gpu, Pair, Topology
from topologies.parts import Nic, Pcie

_BELOW_ROOT = (LinkKind.PIX, LinkKind.PXB)
_RANK = {kind: rank for rank, kind in enumerate(PCIE_KINDS)}


def shared(a: Pcie | None, b: Pcie | None) -> int:
    """Return how many bridges the paths *a* and *b* have in common, from the root port down."""
    if a is None or b is None or (a.root and b.root and a.root != b.root):
        return 0
    same = itertools.takewhile(lambda ends: ends[0] == ends[1], zip(a.path, b.path, strict=False))
    return sum(1 for _ in same)


def closeness(a: Pcie | None, b: Pcie | None, numa_a: str | None = None, numa_b: str | None = None) -> LinkKind | None:
    """
    Return how close two devices of one host are; None when that is unknown.

    Parameters
    ----------
    a, b
        Their ports: one switch between them is PIX, several are PXB, only the root complex in common is PHB.
    numa_a, numa_b
        Their NUMA nodes, which tell NODE from SYS where not even the root complex is the same.
    """
    if a is None or b is None or a.root is None or b.root is None:
        return None
    common = shared(a, b)
    if common:
        return LinkKind.PIX if max(len(a.path), len(b.path)) - common <= 1 else LinkKind.PXB
    if a.root == b.root:
        return LinkKind.PHB
    if numa_a is None or numa_b is None:
        return None
    return LinkKind.NODE if numa_a == numa_b else LinkKind.SYS


def statements(topology: Topology) -> Iterator[tuple[int, int, LinkKind]]:
    """Yield GPU pairs of one host whose paths meet below the CPU, and how close that makes them."""
    for a, b in _pairs(topology):
        kind = closeness(a.pcie, b.pcie)
        if kind is not None:
            yield a.index, b.index, kind


def nic_code(gpu: Gpu, nic: Nic) -> str | None:
    """Return how close *gpu* and *nic* of one host are by their paths and NUMA nodes; None when these do not tell."""
    kind = closeness(gpu.pcie, nic.pcie, gpu.numa, nic.numa)
    return None if kind is None else kind.value


def contradictions(topology: Topology) -> list[str]:
    """
    Return a warning if the paths say something else than the matrix, which is believed.

    PIX and PXB count as the same: what is one switch to a driver may be several to the kernel.
    """
    wrong = []
    for a, b in _pairs(topology):
        code = topology.link(a.index, b.index)
        stated, _ = parse_code(code)
        if stated not in _RANK:
            continue
        found = closeness(a.pcie, b.pcie)
        if found is None:
            have_roots = a.pcie and b.pcie and a.pcie.root and b.pcie.root
            if have_roots and _RANK[stated] < _RANK[LinkKind.NODE]:
                wrong.append(f"GPU {a.index} and {b.index} read {code} but hang from different root complexes")
        elif found is not stated and not (found in _BELOW_ROOT and stated in _BELOW_ROOT):
            wrong.append(f"GPU {a.index} and {b.index} read {code} but are {found} by the bridges above them")
    if not wrong:
        return []
    more = f" (and so for {len(wrong) - 1} more pairs)" if len(wrong) > 1 else ""
    return [f"the matrix and the PCIe paths differ, and the matrix is taken: {wrong[0]}{more}"]


def pcie_levels(topology: Topology) -> dict[Pair, str]:
    """Return how close the pairs of GPUs of one host are over PCIe, by what is stated besides links."""
    found = dict(topology.pcie_links)
    of_host: dict[str | None, list[Gpu]] = {}
    for gpu in topology.gpus:
        if gpu.pcie is not None:
            of_host.setdefault(gpu.host, []).append(gpu)
    for gpus in of_host.values():
        has_switches_only = any(gpu.pcie is not None and gpu.pcie.path and gpu.pcie.root is None for gpu in gpus)
        for a, b in itertools.combinations(gpus, 2):
            kind = closeness(a.pcie, b.pcie, a.numa, b.numa)
            if kind is None and has_switches_only:
                kind = _below_switches(a, b)
            if kind is not None:
                found.setdefault((a.index, b.index), kind.value)
    return found


def _below_switches(a: Gpu, b: Gpu) -> LinkKind | None:
    """Return how close two GPUs are by switches and NUMA nodes, where root complexes are not told (NCCL): PHB may be NODE there."""
    if a.pcie is None or b.pcie is None or None in (a.numa, b.numa):
        return None
    if a.numa != b.numa:
        return LinkKind.SYS
    if not (common := shared(a.pcie, b.pcie)):
        return LinkKind.PHB
    return LinkKind.PIX if common == len(a.pcie.path) == len(b.pcie.path) else LinkKind.PXB


def _pairs(topology: Topology) -> Iterator[tuple[Gpu, Gpu]]:
    """Yield the pairs of GPUs of one host that both have a root complex."""
    of_host: dict[str | None, list[Gpu]] = {}
    for gpu in topology.gpus:
        if gpu.pcie is not None and gpu.pcie.root is not None:
            of_host.setdefault(gpu.host, []).append(gpu)
    for gpus in of_host.values():
        yield from itertools.combinations(gpus, 2)
