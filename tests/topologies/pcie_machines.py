"""
Made-up hosts as trees of PCIe functions, and what ``lspci``, the kernel and ``nvidia-smi topo -m`` print of each.

The writers share nothing with the readers: closeness is counted in switches on the way between two objects of the tree.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import strategies as st

SPEEDS = {1: "2.5", 2: "5", 3: "8", 4: "16", 5: "32", 6: "64"}
GPUS = {
    "A100 PCIe 40GB": ("GA100", 0x20F1, "3D controller", 0x0302),
    "L40S": ("AD102GL", 0x26B9, "3D controller", 0x0302),
    "GeForce RTX 4090": ("AD102", 0x2684, "VGA compatible controller", 0x0300),
}


@dataclass(eq=False)
class Link:
    """What joins a device to the port above it: what both ends can, what came up, how fast it is while nothing runs."""

    port: tuple[int, int]
    device: tuple[int, int]
    lanes: int
    idle_gen: int


@dataclass(eq=False)
class Device:
    """
    A function of the tree.

    *kind* is ``root``, ``root port``, ``upstream``, ``downstream``, ``gpu``, ``nic`` or ``other``; a root is no function.
    """

    kind: str
    above: Device | None
    place: str = "00.0"
    link: Link | None = None
    bus: int = 0
    numa: int = 0
    acs: bool = False
    name: str = ""
    below: list[Device] = field(default_factory=list)

    @property
    def bus_id(self) -> str:
        return f"0000:{self.bus:02x}:{self.place}"

    @property
    def last_bus(self) -> int:
        return max([self.bus, *(d.bus for d in self.walk())])

    @property
    def ways_up(self) -> list[Device]:
        """What is above it, from the root down."""
        return [] if self.above is None else [*self.above.ways_up, self.above]

    def walk(self) -> Iterator[Device]:
        for device in self.below:
            yield device
            yield from device.walk()


@dataclass(eq=False)
class Host:
    """A host: its roots, ascending by bus."""

    roots: list[Device]

    def all(self, kind: str) -> list[Device]:
        return [d for root in self.roots for d in root.walk() if d.kind == kind]

    @property
    def functions(self) -> list[Device]:
        return sorted((d for root in self.roots for d in root.walk()), key=lambda d: d.bus_id)


def code(a: Device, b: Device) -> str:
    """Return what ``nvidia-smi topo -m`` prints between two devices."""
    up_a, up_b = a.ways_up, b.ways_up
    if up_a[0] is not up_b[0]:
        return "NODE" if a.numa == b.numa else "SYS"
    common = [d for d in up_a if d in up_b]
    if len(common) == 1:
        return "PHB"
    switches = {d for d in (*up_a, *up_b) if d.kind == "upstream" and (d not in common or d is common[-1])}
    return "PIX" if len(switches) <= 1 else "PXB"


@st.composite
def hosts(draw: st.DrawFn, most_gpus: int = 8) -> Host:
    """Any host with at least one GPU: roots with ports, switches up to two deep, GPUs, NICs and other functions."""
    numbers = itertools.count(1)

    def new_link() -> Link:
        gens, lanes = st.integers(1, 6), st.sampled_from([1, 4, 8, 16])
        port, device = (draw(gens), draw(lanes)), (draw(gens), draw(lanes))
        can = min(port[1], device[1])
        up = draw(st.sampled_from([can, can, can, *(n for n in (1, 4, 8) if n < can)]))
        return Link(port, device, up, draw(st.integers(1, min(port[0], device[0]))))

    def hang(above: Device, depth: int) -> None:
        """Put something below the port *above*."""
        bus = next(numbers)
        kinds = ["gpu", "gpu", "nic", "other", "nothing", *(["switch"] * 3 if depth else [])]
        kind = draw(st.sampled_from(kinds))
        if kind == "nothing" or (kind == "gpu" and len(gpus) == most_gpus):
            return
        if kind != "switch":
            device = Device(kind, above, "00.0", new_link(), bus, above.numa)
            above.below.append(device)
            if kind == "gpu":
                device.name = draw(st.sampled_from(sorted(GPUS)))
                gpus.append(device)
            return
        upstream = Device("upstream", above, "00.0", new_link(), bus, above.numa)
        above.below.append(upstream)
        inner = next(numbers)
        for slot in range(draw(st.integers(1, 4))):
            port = Device("downstream", upstream, f"{4 * slot:02x}.0", None, inner, above.numa, acs=draw(st.booleans()))
            upstream.below.append(port)
            hang(port, depth - 1)

    roots = []
    gpus: list[Device] = []
    for position in range(draw(st.integers(1, 3))):
        root = Device("root", None, bus=0 if position == 0 else next(numbers), numa=draw(st.integers(0, 1)))
        roots.append(root)
        if draw(st.booleans()) or position == 0:
            root.below.append(Device("other", root, "00.0", None, root.bus, root.numa))
        for slot in range(draw(st.integers(1, 3))):
            port = Device("root port", root, f"{slot + 1:02x}.0", None, root.bus, root.numa, acs=draw(st.booleans()))
            root.below.append(port)
            hang(port, 2)
    if not gpus:
        port = Device("root port", roots[-1], "1f.0", None, roots[-1].bus, roots[-1].numa)
        roots[-1].below.append(port)
        gpu = Device("gpu", port, "00.0", new_link(), next(numbers), port.numa, name="L40S")
        port.below.append(gpu)
    return Host(roots)


def described(device: Device) -> tuple[str, int, str]:
    """Return class in words, class code, and maker with product."""
    match device.kind:
        case "gpu":
            chip, _, words, number = GPUS[device.name]
            return words, number, f"NVIDIA Corporation {chip} [{device.name}]"
        case "nic":
            return "Infiniband controller", 0x0207, "Mellanox Technologies MT28908 Family [ConnectX-6]"
        case "root port":
            return "PCI bridge", 0x0604, "Intel Corporation Sky Lake-E PCI Express Root Port A"
        case "upstream" | "downstream":
            return "PCI bridge", 0x0604, "Broadcom / LSI PEX880xx PCIe Gen 4 Switch"
    if device.above is not None and device.above.kind == "root":
        return "Host bridge", 0x0600, "Intel Corporation Sky Lake-E DMI3 Registers"
    return "Non-Volatile memory controller", 0x0108, "Samsung Electronics Co Ltd NVMe SSD Controller PM9A1"


def lspci(host: Host, *, nn: bool = False, domains: bool = False, verbose: bool = True, root: bool = True) -> str:
    """Return what ``lspci`` prints; ``-vv`` when *verbose*, to a user that may read capabilities when *root*."""
    blocks = []
    for device in host.functions:
        words, number, product = described(device)
        bus_id = device.bus_id if domains else device.bus_id.removeprefix("0000:")
        title = f"{words} [{number:04x}]" if nn else words
        prog = " (prog-if 00 [VGA controller])" if number == 0x0300 and verbose else ""
        lines = [f"{bus_id} {title}: {product}{' [10de:20f1]' if nn and device.kind == 'gpu' else ''} (rev a1){prog}"]
        blocks.append("\n".join(lines + (_details(device, root) if verbose else [])))
    return "\n\n".join(blocks) + "\n" if verbose else "\n".join(blocks) + "\n"


def _details(device: Device, root: bool) -> list[str]:
    lines = ["\tControl: I/O- Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr-", f"\tNUMA node: {device.numa}"]
    if device.kind in ("root port", "upstream", "downstream"):
        below = device.below[0].bus if device.below else 0xFF
        lines.append(f"\tBus: primary={device.bus:02x}, secondary={below:02x}, subordinate={device.last_bus:02x}, sec-latency=0")
    if not root:
        return [*lines, "\tCapabilities: <access denied>"]
    kind = {
        "root port": "Root Port (Slot+)", "upstream": "Upstream Port", "downstream": "Downstream Port (Slot+)"
    }.get(device.kind, "Endpoint")  # fmt: skip
    lines.append(f"\tCapabilities: [60] Express (v2) {kind}, MSI 00")
    lines.append("\t\tDevCap:\tMaxPayload 256 bytes, PhantFunc 0, Latency L0s unlimited, L1 <64us")
    below = device.below[0].link if device.kind in ("root port", "downstream") and device.below else None
    can, link = (below.port, below) if below else (device.link.device, device.link) if device.link else (None, None)
    if can is not None and link is not None:
        most = min(link.port[0], link.device[0]), min(link.port[1], link.device[1])
        slow = "" if link.idle_gen == can[0] else " (downgraded)"
        few = "" if link.lanes == can[1] else " (downgraded)"
        assert link.lanes <= most[1]
        lines.append(f"\t\tLnkCap:\tPort #0, Speed {SPEEDS[can[0]]}GT/s, Width x{can[1]}, ASPM L1, Exit Latency L1 <4us")
        lines.append(f"\t\tLnkSta:\tSpeed {SPEEDS[link.idle_gen]}GT/s{slow}, Width x{link.lanes}{few}")
        lines.append("\t\tLnkCap2: Supported Link Speeds: 2.5-16GT/s, Crosslink- Retimer+")
    if device.kind in ("root port", "downstream"):
        sign = "+" if device.acs else "-"
        lines.append("\tCapabilities: [148 v1] Access Control Services")
        lines.append("\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+")
        lines.append(f"\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir{sign} CmpltRedir{sign} UpstreamFwd+ EgressCtrl- DirectTrans-")
    return lines


def lspci_tree(host: Host, *, names: bool = True) -> str:
    """Return what ``lspci -tv`` prints (``-t`` without *names*)."""
    lines: list[str] = []

    def show(device: Device, line: str) -> None:
        line += device.place
        if device.kind not in ("root port", "upstream", "downstream"):
            lines.append(line + (f"  {described(device)[2]}" if names else ""))
            return
        first = device.below[0].bus if device.below else 0xFF
        last = max(first, device.last_bus)
        show_bus(device.below, f"{line}-[{first:02x}{f'-{last:02x}' if last > first else ''}]--")

    def show_bus(devices: list[Device], line: str) -> None:
        if not devices:
            lines.append(line)
        elif len(devices) == 1:
            show(devices[0], line + "--")
        else:
            for device in devices:
                show(device, line + ("\\-" if device is devices[-1] else "+-"))
                line = "".join("|" if letter in "+|" else " " for letter in line)

    line = "-"
    for root in host.roots:
        branch = "" if len(host.roots) == 1 else "\\-" if root is host.roots[-1] else "+-"
        show_bus(root.below, f"{line}{branch}[0000:{root.bus:02x}]-")
        line = " "
    return "\n".join(lines) + "\n"


def matrix(host: Host) -> str:
    """Return what ``nvidia-smi topo -m`` prints of a host without NVLink."""
    gpus, nics = host.all("gpu"), host.all("nic")
    gpus, nics = (sorted(devices, key=lambda d: d.bus_id) for devices in (gpus, nics))
    labels = {d: f"GPU{k}" for k, d in enumerate(gpus)} | {d: f"NIC{k}" for k, d in enumerate(nics)}
    rows = ["\t" + "\t".join(labels.values()) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"]
    for a, label in labels.items():
        cells = [" X " if a is b else code(a, b) for b in labels]
        rows.append("\t".join([label, *cells, *([f"{8 * a.numa}-{8 * a.numa + 7}", str(a.numa), "N/A"] if a in gpus else [])]))
    legend = [f"  NIC{k}: mlx5_{k}" for k in range(len(nics))]
    return "\n".join([*rows, "", *(["NIC Legend:", "", *legend] if legend else [])]) + "\n"


def sysfs(host: Host, folder: Path, *, config: bool = True, iommu: str | None = None) -> Path:
    """
    Write the host as the kernel shows it below *folder*, and return that: devices in their tree, links to them by bus id and class.

    *config* is whether all of the configuration space may be read; *iommu* is the type of all IOMMU groups.
    """
    by_id, groups = folder / "bus" / "pci" / "devices", folder / "kernel" / "iommu_groups"
    for path in (by_id, groups, folder / "class" / "infiniband", folder / "class" / "net"):
        path.mkdir(parents=True)
    rdma = {d: f"mlx5_{k}" for k, d in enumerate(sorted(host.all("nic"), key=lambda d: d.bus_id))}
    for position, device in enumerate(host.functions):
        above = device.ways_up
        path = folder / "devices" / f"pci0000:{above[0].bus:02x}"
        for bridge in above[1:]:
            path /= bridge.bus_id
        path /= device.bus_id
        path.mkdir(parents=True, exist_ok=True)
        (by_id / device.bus_id).symlink_to(path)
        _, number, _ = described(device)
        facts = {"class": f"0x{number:04x}00", "vendor": "0x10de" if device.kind == "gpu" else "0x8086"}
        facts |= {"numa_node": str(device.numa), "local_cpulist": f"{8 * device.numa}-{8 * device.numa + 7}"}
        link = device.link
        can = link.device if link else None
        if device.kind in ("root port", "downstream") and device.below and (link := device.below[0].link):
            can = link.port
        if link is not None and can is not None:
            facts |= {
                "max_link_speed": f"{float(SPEEDS[can[0]])} GT/s PCIe", "max_link_width": str(can[1]),
                "current_link_speed": f"{float(SPEEDS[link.idle_gen])} GT/s PCIe", "current_link_width": str(link.lanes),
            }  # fmt: skip
        elif device.kind in ("root port", "upstream", "downstream"):
            facts |= {"max_link_speed": "Unknown", "max_link_width": "255"}
        for name, text in facts.items():
            (path / name).write_text(text + "\n")
        (path / "config").write_bytes(_config(device)[: 4096 if config else 64])
        if iommu is not None:
            group = groups / str(position)
            group.mkdir()
            (group / "type").write_text(iommu + "\n")
            (path / "iommu_group").symlink_to(group)
        if device in rdma:
            port = path / "infiniband" / rdma[device] / "ports" / "1"
            port.mkdir(parents=True)
            (port / "rate").write_text("200 Gb/sec (4X HDR)\n")
            (port / "state").write_text("4: ACTIVE\n")
            (path / "infiniband" / rdma[device] / "device").symlink_to(path)
            (folder / "class" / "infiniband" / rdma[device]).symlink_to(path / "infiniband" / rdma[device])
    cpus = folder / "devices" / "system" / "cpu"
    cpus.mkdir(parents=True)
    (cpus / "online").write_text("0-15\n")
    (folder / "meminfo").write_text("MemTotal:       1056000000 kB\nMemFree: 1 kB\n")
    return folder


def _config(device: Device) -> bytes:
    """Return a configuration space with the capabilities that matter: PCI Express, and ACS where the device has it."""
    space = bytearray(4096)
    space[0x34] = 0x60
    kind = {"root port": 4, "upstream": 5, "downstream": 6}.get(device.kind, 0)
    space[0x60:0x64] = bytes([0x10, 0, 2 | kind << 4, 0])
    if device.kind in ("root port", "downstream"):
        space[0x100:0x108] = bytes([0x0D, 0, 1, 0, 0x5F, 0, 0x1D if device.acs else 0x11, 0])
    else:
        space[0x100:0x104] = bytes([1, 0, 1, 0])
    return bytes(space)
