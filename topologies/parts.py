"""
What a machine has besides GPUs and links, and what a GPU has besides its identity: each as a source states it.

All of it is optional: None is *unknown*, never "none".

When to modify: a new *fact* about a process, an instance, a PCIe port, a NIC, a host or a network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Process:
    """
    A process that holds memory of a GPU.

    Parameters
    ----------
    pid
        Its number on the host, as the driver sees it.
    name
        Command, if the source tells.
    memory_mib
        What it holds, MiB; None where the driver does not tell (inside containers, on Windows).
    """

    pid: int
    name: str | None = None
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True)
class MigInstance:
    """An instance of a GPU in MIG mode: its profile (``3g.40gb``), and what else the source tells."""

    profile: str | None = None
    uuid: str | None = None
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True)
class Mig:
    """
    MIG mode of a GPU.

    Parameters
    ----------
    enabled
        Whether CUDA sees instances instead of the GPU.
    instances
        Those that a source lists; not every source that tells the mode lists them.
    """

    enabled: bool
    instances: tuple[MigInstance, ...] = ()


@dataclass(frozen=True, slots=True)
class Fabric:
    """
    Where a GPU stands in an NVLink fabric that may span hosts.

    GPUs of the same cluster and clique whose state is ``completed`` are one NVLink domain; a zero UUID or another state is
    *unknown*, never "the same domain".
    """

    cluster_uuid: str | None = None
    clique_id: int | None = None
    state: str | None = None


@dataclass(frozen=True, slots=True)
class Pcie:
    """
    The PCIe port of a device.

    Parameters
    ----------
    gen, width
        Generation and lanes that it runs at under load: what device and slot can both do.
    current_gen, current_width
        What it ran at when it was read; an idle link lowers its speed to save power.
    path
        Bus ids of the bridges above it, from the root port down (``("0000:3a:00.0", "0000:3b:00.0")``); empty when unknown.
    root
        Name of the root complex (``pci0000:3a``); None when unknown.
    """

    gen: int | None = None
    width: int | None = None
    current_gen: int | None = None
    current_width: int | None = None
    path: tuple[str, ...] = ()
    root: str | None = None


class BridgeKind(StrEnum):
    """What a PCIe bridge is."""

    ROOT_PORT = "root port"
    UPSTREAM = "switch upstream port"
    DOWNSTREAM = "switch downstream port"
    OTHER = "bridge"


@dataclass(frozen=True, slots=True)
class Bridge:
    """
    A PCIe bridge that GPUs or NICs hang from.

    Parameters
    ----------
    kind
        Its place.
    gen, width
        What its link to the device below runs at under load.
    acs_redirect
        Whether Access Control Services send peer-to-peer requests up to the root complex instead of across; None when unknown.
    """

    kind: BridgeKind = BridgeKind.OTHER
    gen: int | None = None
    width: int | None = None
    acs_redirect: bool | None = None


@dataclass(frozen=True, slots=True)
class Nic:
    """
    A network port of a host.

    Parameters
    ----------
    pci_bus_id, numa
        Its place; the NUMA node as printed.
    gb_per_s
        What the port carries in one direction, GB/s (10**9 bytes).
    pcie
        Its PCIe port.
    is_down
        Whether none of its ports carries traffic; None when no source says.
    """

    pci_bus_id: str | None = None
    numa: str | None = None
    gb_per_s: float | None = None
    pcie: Pcie | None = None
    is_down: bool | None = None


@dataclass(frozen=True, slots=True)
class Host:
    """
    A host beside its GPUs.

    Parameters
    ----------
    memory_mib
        Its memory, MiB.
    cpus
        Number of logical CPUs.
    driver
        Version of the GPU driver.
    iommu
        How the IOMMU treats the GPUs: ``off``, ``passthrough`` or ``translated``; the last sends peer-to-peer traffic through
        the root complex.
    ray_node_id
        Its id in a running Ray cluster.
    bridges
        PCIe bridges by bus id.
    cuda
        Highest version of CUDA that the driver can run.
    """

    memory_mib: int | None = None
    cpus: int | None = None
    driver: str | None = None
    iommu: str | None = None
    ray_node_id: str | None = None
    bridges: Mapping[str, Bridge] = field(default_factory=dict)
    cuda: str | None = None


@dataclass(frozen=True, slots=True)
class NetworkDomain:
    """
    Hosts that share a part of the network.

    Parameters
    ----------
    name
        What people call it: ``leaf1``.
    kind
        ``leaf``, ``spine``, ``core``, ``block``, or ``nvlink`` for a fabric of NVLinks that spans hosts.
    hosts
        Names of all hosts in it, those of domains inside it included.
    within
        Name of the domain that it is a part of; None at the top.
    gb_per_s
        What its uplinks carry together in one direction, GB/s; None when it is not known to be less than the NICs give.
    """

    name: str
    kind: str
    hosts: tuple[str, ...]
    within: str | None = None
    gb_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Network:
    """
    What joins hosts.

    Parameters
    ----------
    rails
        NICs per host that carry traffic between GPUs: rail k is the k-th NIC that is the closest to some GPU
        (`topologies.networks.rails.rail_nics`).
    gb_per_s
        What each of them carries in one direction, GB/s (10**9 bytes).
    domains
        Its parts, each before those inside it.
    """

    rails: int | None = None
    gb_per_s: float | None = None
    domains: tuple[NetworkDomain, ...] = ()
