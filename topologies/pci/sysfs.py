"""
What the kernel of this host says about its GPUs, NICs and bridges: ``/sys`` and ``/proc``.

Nothing here fails: a file that is missing or cannot be read leaves its fact unknown.

When to modify: another fact that stands in ``/sys``.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable
from pathlib import Path

from topologies.bus_ids import full_bus_id
from topologies.merging.identity import bus_key
from topologies.merging.merge_parts import joined
from topologies.model import Gpu, Topology
from topologies.parts import BridgeKind, Host, Nic
from topologies.paths import nic_code
from topologies.pci.lspci import bridges_above, narrow_links
from topologies.peer import Iommu
from topologies.ports import MOST_NICS, Function, Tree, generation, lanes

_MOST_BYTES = 2**16
_VENDORS = {0x10DE: "nvidia", 0x1002: "amd", 0x1B36: "virtual", 0x15AD: "virtual"}
_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_PORT_KINDS = {4: BridgeKind.ROOT_PORT, 5: BridgeKind.UPSTREAM, 6: BridgeKind.DOWNSTREAM}

_PCI_EXPRESS = 0x10
_ACCESS_CONTROL = 0x000D
_REDIRECTS = 0b1100
"""P2P Request Redirect and Completion Redirect in the ACS control register."""


def add_host_facts(topology: Topology, root: str = "/sys", proc: str = "/proc") -> Topology:
    """
    Return *topology*, of this host, with what the kernel says about its GPUs beside what it states.

    Facts that *topology* states already are kept.

    Parameters
    ----------
    root, proc
        Where ``/sys`` and ``/proc`` are.
    """
    if len(topology.hosts) != 1:
        return topology
    reader = _Reader(Path(root))
    places = {gpu.index: reader.add(gpu.pci_bus_id) for gpu in topology.gpus if gpu.pci_bus_id}
    nics = {} if topology.nics else reader.nics()
    tree = Tree(reader.functions)
    known = {index: reader.functions[bus_id] for index, bus_id in places.items() if bus_id is not None}
    gpus = tuple(_with_facts(gpu, known.get(gpu.index), tree, reader) for gpu in topology.gpus)
    details = {
        column: Nic(f.bus_id, numa=f.numa, gb_per_s=rate, pcie=tree.pcie(f)) for column, (_, f, rate) in nics.items()
    }
    gpu_nic = {
        gpu.index: {column: code for column, nic in details.items() if (code := nic_code(gpu, nic)) is not None}
        for gpu in gpus
    }
    ports = [*(gpu.pcie for gpu in gpus), *(nic.pcie for nic in details.values())]
    host = topology.hosts[0]
    stated = topology.host_facts.get(host, Host())
    memory_mib = _memory_mib(Path(proc) / "meminfo", Path(root) / "fs" / "cgroup")
    facts = Host(
        memory_mib=stated.memory_mib or memory_mib,
        cpus=stated.cpus or reader.cpus(),
        driver=stated.driver,
        iommu=stated.iommu or reader.iommu([f.bus_id for f in known.values()]),
        ray_node_id=stated.ray_node_id,
        bridges=stated.bridges or bridges_above(tree, [port.path for port in ports if port is not None]),
        cuda=stated.cuda,
    )
    return topology.replace(
        gpus=gpus,
        nics=topology.nics or {column: name for column, (name, _, _) in nics.items()},
        gpu_nic=topology.gpu_nic or {index: codes for index, codes in gpu_nic.items() if codes},
        nic_details=topology.nic_details or details,
        host_facts={host: facts} if facts != Host() else topology.host_facts,
        warnings=(*topology.warnings, *narrow_links(tree, known)),
    )


def _with_facts(gpu: Gpu, function: Function | None, tree: Tree, reader: _Reader) -> Gpu:
    """Return *gpu* with what the kernel says about its PCI *function*."""
    if function is None:
        return gpu
    port = tree.pcie(function)
    return gpu.replace(
        pcie=port if gpu.pcie is None else joined(gpu.pcie, port),
        numa=gpu.numa or function.numa,
        cpu_affinity=gpu.cpu_affinity or reader.cpu_list(function.bus_id),
    )


class _Reader:
    """Reads devices below *root*, each once; `functions` is what was found."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._devices = root / "bus" / "pci" / "devices"
        self._folders = {bus_key(name): name for name in _names(self._devices)}
        self.functions: dict[str, Function] = {}

    def add(self, bus_id: str) -> str | None:
        """Add the device *bus_id* and all bridges above it; return its bus id as the kernel writes it, None if there is no such device."""
        name = self._folders.get(bus_key(bus_id))
        if name is None or full_bus_id(name) != name:
            return None
        above: list[Path] = []
        root = None
        for parent in _real(self._devices / name).parents:
            if _ROOT.fullmatch(parent.name):
                root = parent.name
                break
            if full_bus_id(parent.name) != parent.name:
                break
            above.append(parent)
        chain = [*(path.name for path in reversed(above)), name]
        for position, bus in enumerate(chain):
            if bus not in self.functions:
                kind = None if bus == name else _kind_at(position)
                self.functions[bus] = self._function(bus, kind)
            function = self.functions[bus]
            function.is_placed, function.root = root is not None, root
            function.above = chain[position - 1] if position else None
            if bus != name:
                function.bus_below = chain[position + 1].rpartition(":")[0]
        return name

    def _function(self, bus_id: str, kind: BridgeKind | None) -> Function:
        folder = self._devices / bus_id
        config = _bytes(folder / "config")
        is_express = os.path.exists(folder / "max_link_speed")
        numa = _text(folder / "numa_node")
        return Function(
            bus_id,
            code=_hex(_text(folder / "class"), shift=8),
            vendor=_VENDORS.get(_hex(_text(folder / "vendor")) or 0),
            numa=numa if numa.isdecimal() else None,
            can=self._link(folder, "max"),
            now=self._link(folder, "current"),
            port=_port_kind(config) or (kind if is_express else None),
            acs_redirect=_redirects(config),
        )

    def _link(self, folder: Path, which: str) -> tuple[int | None, int | None]:
        speed = _text(folder / f"{which}_link_speed").partition(" ")[0]
        return generation(speed), lanes(_text(folder / f"{which}_link_width"))

    def nics(self) -> dict[str, tuple[str, Function, float | None]]:
        """Return the NICs by column: device name, function, GB/s. RDMA devices are numbered as nvidia-smi does, others keep their names."""
        found: dict[str, tuple[str, Function, float | None]] = {}
        seen = set()
        for kind in ("infiniband", "net"):
            folder = self._root / "class" / kind
            for name in sorted(_names(folder), key=_natural):
                device = _real(folder / name / "device")
                bus_id = full_bus_id(device.name)
                is_virtual = os.path.exists(device / "physfn")
                if bus_id is None or is_virtual or bus_id in seen or len(found) == MOST_NICS or self.add(bus_id) is None:
                    continue
                seen.add(bus_id)
                rate = _rdma_rate(folder / name) if kind == "infiniband" else _net_rate(folder / name)
                found[f"NIC{len(found)}" if kind == "infiniband" else name] = (name, self.functions[bus_id], rate)
        return found

    def cpu_list(self, bus_id: str) -> str | None:
        return _text(self._devices / bus_id / "local_cpulist") or None

    def cpus(self) -> int | None:
        """Return how many logical CPUs are online."""
        ranges = re.findall(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", _text(self._root / "devices" / "system" / "cpu" / "online"))
        return sum(int(last or first) - int(first) + 1 for first, last in ranges) or None

    def iommu(self, bus_ids: Iterable[str]) -> str | None:
        """Return how the IOMMU treats the devices *bus_ids*; None when that is unknown."""
        kinds = {_text(self._devices / bus_id / "iommu_group" / "type") for bus_id in bus_ids}
        if kinds & {"DMA", "DMA-FQ"}:
            return Iommu.TRANSLATED.value
        if kinds == {"identity"}:
            return Iommu.PASSTHROUGH.value
        groups = self._root / "kernel" / "iommu_groups"
        return Iommu.OFF.value if kinds == {""} and os.path.isdir(groups) and not _names(groups) else None


def _kind_at(position: int) -> BridgeKind:
    """Return what the bridge at *position* of a path is: below a root port, switches bring an upstream and a downstream port each."""
    if position == 0:
        return BridgeKind.ROOT_PORT
    return BridgeKind.UPSTREAM if position % 2 else BridgeKind.DOWNSTREAM


def _port_kind(config: bytes) -> BridgeKind | None:
    """Return the kind of port that the configuration space *config* states; None if it is no port or may not be read so far."""
    at = config[0x34] if len(config) > 0x40 else 0
    for _ in range(48):
        if not 0x40 <= at <= len(config) - 4:
            return None
        if config[at] == _PCI_EXPRESS:
            return _PORT_KINDS.get(config[at + 2] >> 4)
        at = config[at + 1]
    return None


def _redirects(config: bytes) -> bool | None:
    """Return whether *config* redirects peer-to-peer requests (ACS); None if it may not be read so far."""
    at = 0x100
    for _ in range(960):
        if not 0x100 <= at <= len(config) - 8:
            return None
        (header,) = struct.unpack_from("<I", config, at)
        if header & 0xFFFF == _ACCESS_CONTROL:
            (control,) = struct.unpack_from("<H", config, at + 6)
            return bool(control & _REDIRECTS)
        at = header >> 20
        if not at:
            return False if header else None
    return None


def _rdma_rate(folder: Path) -> float | None:
    """Return what the ports of an RDMA device carry together, GB/s."""
    found = 0.0
    for port in _names(folder / "ports"):
        match = re.match(r"([0-9]{1,5}(?:\.[0-9])?) Gb/sec", _text(folder / "ports" / port / "rate"))
        found += float(match[1]) / 8 if match and "ACTIVE" in _text(folder / "ports" / port / "state") else 0
    return found or None


def _net_rate(folder: Path) -> float | None:
    """Return what a network interface carries, GB/s; None when it is down."""
    speed = _text(folder / "speed")
    return int(speed) / 8000 if speed.isdecimal() and 0 < int(speed) < 10**8 else None


def _memory_mib(meminfo: Path, cgroup: Path) -> int | None:
    """Return what the host has, MiB, or where that is less, what the container may use: beyond it processes are killed."""
    match = re.search(r"^MemTotal:\s+([0-9]{1,15}) kB", _text(meminfo), re.MULTILINE)
    limits = (_text(cgroup / name) for name in ("memory.max", "memory/memory.limit_in_bytes"))      # version 2, version 1
    known = [int(limit) // 2**20 for limit in limits if limit.isdecimal() and len(limit) < 20]
    return min([int(match[1]) // 1024, *known]) or None if match else None


def _natural(name: str) -> list[tuple[int, str]]:
    """Return what sorts names with numbers as people do: mlx5_2 before mlx5_10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]{1,9})", name)]


def _hex(text: str, shift: int = 0) -> int | None:
    return int(text, 16) >> shift if re.fullmatch(r"0x[0-9a-f]{1,8}", text) else None


def _text(path: Path) -> str:
    return _bytes(path).decode("ascii", errors="replace").strip()


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES)
    except (OSError, ValueError):
        return b""


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (OSError, ValueError):
        return []


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
