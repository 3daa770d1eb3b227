"""
Which NIC of one source is which NIC of another: by device name, by bus id, else by where it is near.

When to modify: another fact tells NICs apart.
"""

from __future__ import annotations

from collections.abc import Iterator

from topologies.errors import TopologyError
from topologies.merging.identity import bus_key
from topologies.model import Topology
from topologies.pages.reading import listing

_NEAR = ("PIX", "PXB")

PORTS = "nic-ports"
"""Format of a source that tells of the ports of NICs, and of no GPU."""


def named_like(topology: Topology, other: Topology) -> Topology:
    """
    Return *topology* with the NICs that *other* has, too, under the names of *other*.

    Two NICs are the same if their device names or bus ids are. Where those are not known they are the same if each is the only one
    of its source that shares PCIe switches with just these GPUs.
    """
    new: dict[str, str] = {}
    for facts in (_devices, _bus_ids, _ways):
        known = {fact: nic for nic, fact in facts(other)}
        for nic, fact in facts(topology):
            if fact in known and nic not in new and known[fact] not in new.values():
                new[nic] = known[fact]
    if all(nic == name for nic, name in new.items()):
        return topology
    return topology.replace(
        nics={new.get(nic, nic): device for nic, device in topology.nics.items()},
        gpu_nic={
            gpu: {new.get(nic, nic): code for nic, code in codes.items()} for gpu, codes in topology.gpu_nic.items()
        },
        nic_details={new.get(nic, nic): details for nic, details in topology.nic_details.items()},
    )


def ports_of(ports: Topology, other: Topology) -> Topology:
    """
    Return *ports*, of format `PORTS`, with those of its NICs that are NICs of *other* for certain, under the names of *other*.

    Further ones are kept unless they may be among the NICs of *other*, whose devices are not all named.
    """
    if len(other.hosts) > 1:
        said = "which of the hosts it is about is not said, so that it was left out: join it with that host before `placement collect`"
        return ports.replace(nics={}, nic_details={}, warnings=(*ports.warnings, f"{PORTS}: {said}"))
    named = named_like(ports, other)
    told = {bus_key(nic.pci_bus_id) for nic in other.nic_details.values() if nic.pci_bus_id}
    are_told = all(other.nics.values()) or (len(told) == len(other.nics) and all(n.pci_bus_id for n in named.nic_details.values()))
    loose = [nic for nic in named.nics if nic not in other.nics and not are_told]
    if not loose:
        return named
    said = f"the other sources do not name the devices of all NICs, so that what is said of {listing(loose)} was left out"
    return named.replace(
        nics={nic: device for nic, device in named.nics.items() if nic not in loose},
        nic_details={nic: details for nic, details in named.nic_details.items() if nic not in loose},
        warnings=(*named.warnings, f"{PORTS}: {said}"),
    )


def with_gpus(topology: Topology, *, where: str | None = None) -> Topology:
    """
    Return *topology*.

    Raises
    ------
    TopologyError
        If it only tells of the ports of NICs.
    """
    if topology.formats == (PORTS,):
        message = "this lists the ports of NICs, and no GPU: join the output of `nvidia-smi topo -m` (topo.txt+ports.txt)"
        raise TopologyError(message, where=where)
    return topology


def _devices(topology: Topology) -> Iterator[tuple[str, object]]:
    for nic, device in topology.nics.items():
        if device is not None:
            yield nic, device


def _bus_ids(topology: Topology) -> Iterator[tuple[str, object]]:
    for nic, details in topology.nic_details.items():
        if details.pci_bus_id is not None:
            yield nic, bus_key(details.pci_bus_id)


def _ways(topology: Topology) -> Iterator[tuple[str, object]]:
    """Yield the NICs that no other of *topology* resembles, with the GPUs that reach them without a host bridge."""
    near: dict[frozenset[int], list[str]] = {}
    for nic in topology.nics:
        gpus = frozenset(gpu for gpu, codes in topology.gpu_nic.items() if codes.get(nic) in _NEAR)
        near.setdefault(gpus, []).append(nic)
    for gpus, nics in near.items():
        if len(nics) == 1 and gpus:
            yield nics[0], gpus
