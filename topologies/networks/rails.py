"""
Which NICs of a host are its rails: those that serve GPUs, beside others for storage and management.

When to modify: a source tells which NICs carry traffic between GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping

from topologies.model import Topology
from topologies.networks.fabric import KIND
from topologies.nics import nearest_nics
from topologies.pages.reading import listing


def rail_nics(topology: Topology, host: str | None) -> tuple[str, ...]:
    """
    Return the NICs of *host* that are closest to some GPU, in the order of the columns: entry k is on rail k.

    A host with more of them than the network has rails uses the first ones. Empty where no source tells how near any NIC is to a GPU.
    """
    return _by_host(topology).get(host, ())


def too_many_rails(topology: Topology) -> tuple[str, ...]:
    """
    Return a warning if hosts of *topology* have fewer NICs that serve GPUs than its network has rails.

    A host that no switch of the network leads to has no rails: nothing is said of it.
    """
    network = topology.network
    if network is None or network.rails is None:
        return ()
    rails = network.rails
    reached = {host for domain in network.domains if domain.kind != KIND for host in domain.hosts}
    short: dict[int, list[str]] = {}
    for host, nics in _by_host(topology).items():
        if len(nics) < rails and (host in reached or not reached):
            short.setdefault(len(nics), []).append(str(host or "the host"))
    return tuple(
        f"the network has {rails} rail{'s' * (rails != 1)} a host, but on {'each of ' * (len(hosts) > 1)}{listing(hosts)} only "
        f"{count} NIC{'s are' if count != 1 else ' is'} the closest to some GPU"
        for count, hosts in short.items()
    )


def _by_host(topology: Topology) -> Mapping[str | None, tuple[str, ...]]:
    serving: dict[str | None, dict[str, None]] = {}
    for gpu, nics in nearest_nics(topology).items():
        serving.setdefault(topology.gpus[gpu].host, {}).update(dict.fromkeys(nics))
    position = {nic: k for k, nic in enumerate(topology.nics)}
    return {host: tuple(sorted(nics, key=position.__getitem__)) for host, nics in serving.items()}
