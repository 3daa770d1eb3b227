"""
What a network says that the machine makes doubtful: it may be right, but is mostly a slip.

When to modify: people mistype another thing.
"""

from __future__ import annotations

from collections.abc import Iterator

from topologies.model import Topology
from topologies.networks.fabric import KIND
from topologies.networks.network import KINDS_BY_HEIGHT
from topologies.networks.rails import nics_by_host
from topologies.pages.reading import listing
from topologies.parts import Network

_FASTEST_NIC_GB_PER_S = 100.0
"""What the fastest NICs carry, GB/s: 800 Gbit/s (InfiniBand XDR, 800G Ethernet)."""


def doubts(topology: Topology) -> tuple[str, ...]:
    """Return warnings about the network of *topology*."""
    network = topology.network
    if network is None:
        return ()
    return (*_too_many_rails(topology, network), *_too_fast(network), *_left_out(topology, network), *_between(network), *_odd(network))


def _reached(network: Network) -> set[str | None]:
    """Return the hosts that hang from some switch or block."""
    return {host for domain in network.domains if domain.kind != KIND for host in domain.hosts}


def _too_many_rails(topology: Topology, network: Network) -> Iterator[str]:
    """
    Yield a warning if hosts of *topology* have fewer NICs that serve GPUs than its network has rails.

    A host that no switch of the network leads to has no rails: nothing is said of it.
    """
    if (rails := network.rails) is None:
        return
    reached = _reached(network)
    short: dict[int, list[str]] = {}
    for host, nics in nics_by_host(topology).items():
        if len(nics) < rails and (host in reached or not reached):
            short.setdefault(len(nics), []).append(str(host or "the host"))
    for count, hosts in short.items():
        yield (
            f"the network has {rails} rail{'s' * (rails != 1)} a host, but on {'each of ' * (len(hosts) > 1)}{listing(hosts)} only "
            f"{count} NIC{'s are' if count != 1 else ' is'} the closest to some GPU"
        )


def _too_fast(network: Network) -> Iterator[str]:
    """Yield a warning if a NIC carries more than any does: who types Gbit/s means an eighth."""
    rate = network.gb_per_s
    if rate is not None and rate > _FASTEST_NIC_GB_PER_S:
        yield f"gb_per_s is what one NIC carries; none carries {rate:g} GB/s: if {rate:g} Gbit/s were meant, write {rate / 8:g}"


def _left_out(topology: Topology, network: Network) -> Iterator[str]:
    """Yield a warning if switches lead to some hosts, but not to all."""
    reached = _reached(network)
    if lone := [str(host) for host in topology.hosts if host not in reached] if reached else []:
        yield f"the network does not say where {listing(lone)} hang{'s' * (len(lone) == 1)}: in no switch or block"


def _between(network: Network) -> Iterator[str]:
    """Yield a warning for each switch that leads to lower switches, and to some hosts past all of these."""
    for domain in network.domains:
        height = KINDS_BY_HEIGHT.index(domain.kind) if domain.kind in KINDS_BY_HEIGHT else 0
        lower = [other for other in network.domains if other.within == domain.name and other.kind in KINDS_BY_HEIGHT[:height]]
        below = {host for other in lower for host in other.hosts}
        if below and (lone := [host for host in domain.hosts if host not in below]):
            kinds = " or ".join(dict.fromkeys(other.kind for other in lower))
            hang = f"hang{'s' * (len(lone) == 1)}"
            yield f"the network does not say in which {kinds} {listing(lone)} {hang}: in {domain.name!r}, but in none of those within it"


def _odd(network: Network) -> Iterator[str]:
    """Yield a warning for each domain without hosts, and for each switch inside a lower one."""
    kinds = {domain.name: domain.kind for domain in network.domains}
    for domain in network.domains:
        above = kinds.get(domain.within or "")
        if not domain.hosts:
            yield f"no host hangs from the {domain.kind} {domain.name!r} of the network"
        if {domain.kind, above} <= {*KINDS_BY_HEIGHT} and KINDS_BY_HEIGHT.index(domain.kind) > KINDS_BY_HEIGHT.index(str(above)):
            yield f"the network has the {domain.kind} {domain.name!r} within the {above} {domain.within!r}: that is the wrong way round"
