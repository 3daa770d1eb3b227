"""
Which NICs of a host are its rails: those that serve GPUs, beside others for storage and management.

When to modify: a source tells which NICs carry traffic between GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping

from topologies.model import Topology
from topologies.nics import nearest_nics


def rail_nics(topology: Topology, host: str | None) -> tuple[str, ...]:
    """
    Return the NICs of *host* that are closest to some GPU, in the order of the columns: entry k is on rail k.

    A host with more of them than the network has rails uses the first ones. Empty where no source tells how near any NIC is to a GPU.
    """
    return nics_by_host(topology).get(host, ())


def nics_by_host(topology: Topology) -> Mapping[str | None, tuple[str, ...]]:
    """Return `rail_nics` of every host."""
    serving: dict[str | None, dict[str, None]] = {}
    for gpu, nics in nearest_nics(topology).items():
        serving.setdefault(topology.gpus[gpu].host, {}).update(dict.fromkeys(nics))
    position = {nic: k for k, nic in enumerate(topology.nics)}
    return {host: tuple(sorted(nics, key=position.__getitem__)) for host, nics in serving.items()}
