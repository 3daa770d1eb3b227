"""
The machine as data.

A `Topology` is what a source *states*, nothing more: link codes stand as printed, what is absent is `None`,
what was repaired is in `warnings`. Everything derived from it (capacities, islands, domains) lives in
`topologies.graph` and `topologies.domains`.

When to modify: a new *fact* that some source can state gets a field here.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from topologies.errors import TopologyError
from topologies.measurements import Measured
from topologies.parts import Fabric, Host, Mig, Network, Nic, Pcie, Process

Pair = tuple[int, int]
"""Two GPU indices, the smaller first."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """
    One GPU, as a source states it.

    Parameters
    ----------
    index
        Position in PCI order over all hosts, from 0.
    host
        Host name; None on a machine of one host.
    name
        Product name as NVML prints it (``NVIDIA A100-SXM4-80GB``); None if no source says.
    uuid, pci_bus_id
        Identity; None if no source says.
    memory_mib
        Total memory as NVML counts it, MiB.
    memory_used_mib
        Memory held by running processes, MiB.
    memory_reserved_mib
        Memory that the driver keeps for itself, MiB.
    processes
        Who holds memory; None when the source does not tell, empty when nobody does.
    mig
        MIG mode; None when the source does not tell.
    fabric
        Place in an NVLink fabric.
    compute_capability
        ``"8.0"``.
    pcie
        Its PCIe port.
    cpu_affinity, numa, gpu_numa_id
        As printed: ``"0-31,64-95"``, ``"0"``, ``"N/A"``; None when blank, cut or not printed.
    is_named
        False when no source names it: it is only counted because GPUs with higher numbers are there.
    """

    index: int
    host: str | None = None
    name: str | None = None
    uuid: str | None = None
    pci_bus_id: str | None = None
    memory_mib: int | None = None
    memory_used_mib: int | None = None
    memory_reserved_mib: int | None = None
    processes: tuple[Process, ...] | None = None
    mig: Mig | None = None
    fabric: Fabric | None = None
    compute_capability: str | None = None
    pcie: Pcie | None = None
    cpu_affinity: str | None = None
    numa: str | None = None
    gpu_numa_id: str | None = None
    is_named: bool = True

    def __post_init__(self) -> None:
        if self.index < 0:
            raise TopologyError(f"GPU index {self.index} is negative")
        if self.memory_mib is not None and self.memory_mib <= 0:
            raise TopologyError(f"GPU {self.index} has {self.memory_mib} MiB of memory")
        if self.memory_used_mib is not None and self.memory_used_mib < 0:
            raise TopologyError(f"GPU {self.index} has {self.memory_used_mib} MiB of memory in use")

    def replace(self, **changes: object) -> Self:
        """Return a copy with *changes*."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Topology:
    """
    A machine of one or several hosts.

    Parameters
    ----------
    gpus
        In the order of `Gpu.index`, which runs 0 … n-1 without gaps.
    links
        Code of every pair i < j that the source states, as printed (``NV12``, ``SYS``); a pair that is absent is *unknown*.
    pcie_links
        PCIe code of pairs i < j that NVLink joins, where a source states it beside (``topo -mp``, NVML, NCCL): it tells who shares a
        switch or a socket.
    nics
        NIC column to device name; None when the text does not name the device.
    gpu_nic
        GPU index to {NIC column: code}; GPUs of which nothing is known are absent.
    format
        Which source it was (``topo-m``, ``query-csv``, ``yaml`` …).
    formats
        Every source that was merged, in the order of reading; a lone one is its `format` only.
    warnings
        What was repaired, cut, contradictory or not understood: one sentence each.
    columns
        The optional columns that the text had: among ``cpu_affinity``, ``numa``, ``gpu_numa_id``, ``links``.
    rows_missing
        Labels of columns whose row the text lacks.
    rows_partial_cells_seen
        Label of a row that is cut or short to the number of link cells that it shows, its X included.
    conflict
        Cells that contradict each other, as ``"row-column"``.
    extra_columns
        Names of columns that nvidia-smi does not print.
    other_columns
        Number of link columns whose name is lost.
    p2p
        Peer-to-peer state of every pair i < j that the source states, as printed (``OK``, ``GNS``); it is not a link.
    p2p_kind
        Which capability was asked for (``r``, ``w``, ``rw``, ``n`` …), ``"unknown"`` when the text does not say; None without `p2p`.
    p2p_kinds
        The states of further kinds, by kind; see `topologies.peer_kinds`.
    gpus_near_cpu
        CPU number to the GPUs that have an affinity with it.
    nic_details
        NIC column to what else is known of the NIC.
    host_facts
        Host name to what is known of it beside its GPUs; the key None is a lone host without a name.
    network
        What joins the hosts; None when no source tells.
    stated
        What only one format states, as it states it, under the names of the schema: shown and kept, never computed with.
    measured
        What `placement measure` found on it; None when nothing was measured.
    """

    gpus: tuple[Gpu, ...]
    links: Mapping[Pair, str] = field(default_factory=dict)
    nics: Mapping[str, str | None] = field(default_factory=dict)
    gpu_nic: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    format: str = "topo-m"
    warnings: tuple[str, ...] = ()
    columns: frozenset[str] = frozenset()
    rows_missing: tuple[str, ...] = ()
    rows_partial_cells_seen: Mapping[str, int] = field(default_factory=dict)
    conflict: tuple[str, ...] = ()
    extra_columns: tuple[str, ...] = ()
    other_columns: int = 0
    p2p: Mapping[Pair, str] = field(default_factory=dict)
    p2p_kind: str | None = None
    gpus_near_cpu: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    nic_details: Mapping[str, Nic] = field(default_factory=dict)
    host_facts: Mapping[str | None, Host] = field(default_factory=dict)
    network: Network | None = None
    pcie_links: Mapping[Pair, str] = field(default_factory=dict)
    p2p_kinds: Mapping[str, Mapping[Pair, str]] = field(default_factory=dict)
    formats: tuple[str, ...] = ()
    stated: Mapping[str, Any] = field(default_factory=dict)
    measured: Measured | None = None

    def __post_init__(self) -> None:
        if not self.gpus:
            raise TopologyError("a machine needs at least one GPU, this one has none")
        for position, gpu in enumerate(self.gpus):
            if gpu.index != position:
                raise TopologyError(
                    f"GPU indices must run 0, 1, 2 …; position {position} holds GPU {gpu.index}"
                )
        if len(self.formats) < 2:
            object.__setattr__(self, "formats", (self.format,))
        if (self.p2p_kind or "unknown") in self.p2p_kinds:
            raise TopologyError(f"the peer-to-peer states of kind {self.p2p_kind or 'unknown'} are there twice")
        further = (pair for states in self.p2p_kinds.values() for pair in states)
        for i, j in (*self.links, *self.p2p, *self.pcie_links, *further):
            if not 0 <= i < j < len(self.gpus):
                raise TopologyError(
                    f"link {i}-{j} names GPUs that a machine of {len(self.gpus)} GPUs does not have"
                )
        for nic in self.nic_details:
            if nic not in self.nics:
                raise TopologyError(f"there are details of the NIC {nic!r}, which no column declares")
        self._check_hosts()
        self._check_measured()
        for index, nics in self.gpu_nic.items():
            if not 0 <= index < len(self.gpus):
                raise TopologyError(
                    f"NIC row of GPU {index}, which a machine of {len(self.gpus)} GPUs does not have"
                )
            for nic in nics:
                if nic not in self.nics:
                    raise TopologyError(f"GPU {index} names the NIC {nic!r}, which no column declares")

    def _check_hosts(self) -> None:
        known = set(self.hosts)
        for host in self.host_facts:
            if host not in known:
                raise TopologyError(f"there are facts about the host {host!r}, of which no GPU is known")
        names: set[str] = set()
        for domain in self.network.domains if self.network is not None else ():
            if domain.name in names:
                raise TopologyError(f"network: two domains are called {domain.name!r}")
            if domain.within is not None and domain.within not in names:
                raise TopologyError(
                    f"network: {domain.name!r} is within {domain.within!r}, which must be stated before it"
                )
            names.add(domain.name)
            for host in domain.hosts:
                if host not in known:
                    raise TopologyError(
                        f"network: {domain.name!r} has the host {host!r}, of which no GPU is known (hosts here: "
                        f"{', '.join(str(name) for name in [*self.hosts][:8])}{' …' * (len(known) > 8)})"
                    )

    def _check_measured(self) -> None:
        if self.measured is None:
            return
        if (last := max(self.measured.indices(), default=0)) >= len(self.gpus):
            raise TopologyError(f"measured: it names GPU {last}, which a machine of {len(self.gpus)} GPUs does not have")
        for copy in self.measured.copies:
            if self.gpus[copy.source].host != self.gpus[copy.target].host:
                raise TopologyError(f"measured: a copy goes from GPU {copy.source} to GPU {copy.target}, which is on another host")

    @property
    def links_complete(self) -> bool:
        """Whether the code of every pair of GPUs of one host is known; never where further GPUs may be there."""
        if self.other_columns or self.format == "topo-c":
            return False
        sizes = Counter(gpu.host for gpu in self.gpus)
        within = sum(self.gpus[i].host == self.gpus[j].host for i, j in self.links)
        return within == sum(n * (n - 1) // 2 for n in sizes.values())

    @property
    def hosts(self) -> tuple[str | None, ...]:
        """Host names in order of first appearance; ``(None,)`` for a lone unnamed host."""
        return tuple(dict.fromkeys(gpu.host for gpu in self.gpus))

    def link(self, i: int, j: int) -> str | None:
        """Return the code between GPUs *i* and *j*, or None when unknown."""
        return self.links.get((i, j) if i < j else (j, i))

    def replace(self, **changes: object) -> Self:
        """Return a copy with *changes*."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]
