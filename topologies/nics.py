"""
Which NIC serves which GPU.

When to modify: another fact tells how near a NIC is.
"""

from __future__ import annotations

from collections.abc import Mapping

from topologies.links import PCIE_KINDS, parse_code
from topologies.model import Topology

_RANK = {kind: rank for rank, kind in enumerate(PCIE_KINDS)}


def nearest_nics(topology: Topology) -> Mapping[int, tuple[str, ...]]:
    """
    Return the NICs that serve each GPU: those of the closest level that some NIC of it has.

    GPUs that have the same nearest NICs at the same level share them evenly, in the order of NUMA nodes and indices: as many each
    as there are, else one each, several GPUs to a NIC. A NIC that is down serves none; a GPU of which no NIC's place is known is absent.
    """
    column = {nic: k for k, nic in enumerate(topology.nics)}
    groups: dict[tuple[str | None, tuple[str, ...]], list[int]] = {}
    for gpu in topology.gpus:
        rank = {
            nic: _RANK[kind]
            for nic, code in topology.gpu_nic.get(gpu.index, {}).items()
            if (kind := parse_code(code)[0]) in _RANK and not _is_down(topology, nic)
        }
        if rank:
            closest = min(rank.values())
            near = tuple(sorted((nic for nic, level in rank.items() if level == closest and nic in column), key=column.__getitem__))
            groups.setdefault((gpu.host, near), []).append(gpu.index)
    found: dict[int, tuple[str, ...]] = {}
    for (_, near), gpus in groups.items():
        gpus.sort(key=lambda g: (_numa(topology.gpus[g].numa), g))
        for position, index in enumerate(gpus):
            first, last = (len(near) * k // len(gpus) for k in (position, position + 1))
            found[index] = near[first:last] or (near[first],)
    return dict(sorted(found.items()))


def _is_down(topology: Topology, nic: str) -> bool:
    details = topology.nic_details.get(nic)
    return details is not None and details.is_down is True


def _numa(stated: str | None) -> tuple[int, str]:
    """Return what orders GPUs by NUMA node; those without one come last."""
    return (int(stated), "") if stated is not None and stated.isdecimal() else (2**31, stated or "")
