"""
What is known of the ports of switches and NICs, where a source states the bridges of a host.

When to modify: a source states another fact about what a shared link carries.
"""

from __future__ import annotations

from collections.abc import Iterable

from topologies.link_rates import SHIPPED, Rates
from topologies.links import Link, pcie_port
from topologies.model import Topology
from topologies.parts import BridgeKind, Pcie
from topologies.paths import shared


def uplink(topology: Topology, members: Iterable[tuple[str, object]], rates: Rates = SHIPPED) -> Link | None:
    """
    Return the link above the switch that *members* share, that is above its upstream port; None if nobody states it.

    Parameters
    ----------
    members
        GPUs and NICs as the nest calls them (`topologies.domains.Device`).
    """
    ports: list[Pcie] = []
    hosts = set()
    for kind, number in members:
        if kind == "gpu" and isinstance(number, int):
            hosts.add(topology.gpus[number].host)
            port = topology.gpus[number].pcie
        else:
            nic = topology.nic_details.get(str(number))
            port = nic.pcie if nic is not None else None
        if port is not None and port.path:
            ports.append(port)
    facts = topology.host_facts.get(next(iter(hosts))) if len(hosts) == 1 else None
    if facts is None or len(ports) < 2:
        return None
    common = min(shared(ports[0], port) for port in ports)
    for bus_id in reversed(ports[0].path[:common]):
        bridge = facts.bridges.get(bus_id)
        if bridge is None or bridge.kind is not BridgeKind.UPSTREAM:
            return _port(bridge.gen, bridge.width, rates) if bridge is not None else None
    return None


def nic_port(topology: Topology, nic: str, rates: Rates = SHIPPED) -> Link | None:
    """Return what the PCIe port of *nic* carries; None if nobody states it."""
    details = topology.nic_details.get(nic)
    return None if details is None or details.pcie is None else _port(details.pcie.gen, details.pcie.width, rates)


def _port(gen: int | None, width: int | None, rates: Rates) -> Link | None:
    return None if gen is None or width is None else pcie_port(None, Pcie(gen, width), rates)
