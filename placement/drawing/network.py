"""
The parts of a network that hosts share, as a tree.

When to modify: what a box around hosts says, or which parts of a network get one.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from placement.drawing.shapes import printable
from topologies.model import Topology
from topologies.parts import Network, NetworkDomain


@dataclass(slots=True)
class Part:
    """
    A part of the network on its way to a box.

    Parameters
    ----------
    name
        What the box says.
    title
        What people call it alone.
    facts
        What else the box tells.
    hosts
        Those that are in no smaller part.
    inner
        The parts in it.
    """

    name: str
    title: str
    facts: Hashable = None
    hosts: list[str | None] = field(default_factory=list)
    inner: list[Part] = field(default_factory=list)


def network_parts(topology: Topology) -> Part:
    """
    Return the hosts of *topology* as a tree of the parts of the network that they share.

    Of two parts that share some hosts only, no box can be around both: the one with fewer hosts is left out. A
    part that is all of another has no box of its own.
    """
    whole = Part("", "")
    if len(topology.hosts) == 1 or topology.network is None:
        whole.hosts = list(topology.hosts)
        return whole
    net = topology.network
    if rails := rail_words(net):
        whole.name = f"network: {rails}"
    place: dict[str | None, Part] = dict.fromkeys(topology.hosts, whole)
    # Stated outer ones first, and stable sorting keeps that where two have the same hosts.
    for domain in sorted(net.domains, key=lambda domain: -len(set(domain.hosts))):
        around = {id(place[host]): place[host] for host in domain.hosts}
        if len(around) == 1:
            (outer,) = around.values()
            part = Part(_domain_name(domain), domain.name, (domain.kind, domain.gb_per_s))
            outer.inner.append(part)
            place |= dict.fromkeys(domain.hosts, part)
    for host, part in place.items():
        part.hosts.append(host)
    while len(whole.inner) == 1 and not whole.hosts:
        (inner,) = whole.inner
        inner.name = " · ".join(name for name in (whole.name, inner.name) if name)
        whole = inner
    return whole


def rail_words(network: Network) -> str:
    """Return what joins the hosts of *network*: ``8 rails × 50 GB/s on each host``; nothing when that is not stated."""
    rate = f"{network.gb_per_s:g} GB/s" if network.gb_per_s is not None else ""
    if network.rails is not None:
        rails = f"{network.rails} rail{'s' * (network.rails != 1)}"
        return f"{rails} × {rate} on each host" if rate else f"{rails} on each host, speed not stated"
    return f"{rate} for each NIC, rails not stated" if rate else ""


def domain_title(domain: NetworkDomain) -> str:
    """Return *domain* with its kind, where its name does not say that already: ``leaf1``, ``spine core-a``."""
    kind = "NVLink domain" if domain.kind == "nvlink" else domain.kind
    says_kind = domain.name.lower().startswith(domain.kind.lower())
    return printable(domain.name if says_kind else f"{kind} {domain.name}")


def _domain_name(domain: NetworkDomain) -> str:
    uplinks = f" · uplinks {domain.gb_per_s:g} GB/s" if domain.gb_per_s is not None else ""
    return f"{domain_title(domain)}{uplinks}"
