"""
Which NIC of one source is which NIC of another: by device name, by bus id, else by where it is near.

When to modify: another fact tells NICs apart.
"""

from __future__ import annotations

from collections.abc import Iterator

from topologies.merging.identity import bus_key
from topologies.model import Topology

_NEAR = ("PIX", "PXB")


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
