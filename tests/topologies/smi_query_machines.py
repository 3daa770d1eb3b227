"""
Made-up machines, and what ``nvidia-smi -q`` and ``nvidia-smi -q -x`` print of them.

The printers go by how the tool writes, the expectation (`Card.gpu`) by what the words mean; neither knows the readers.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from topologies.model import Gpu
from topologies.parts import Fabric, Mig, MigInstance, Pcie, Process

NAMES = ("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB", "Tesla V100-PCIE-32GB", "NVIDIA GeForce RTX 4090", "Quadro P5000")


@dataclass(frozen=True)
class Card:
    """The truth about one GPU; what is None is printed as N/A."""

    bus_id: str
    uuid: str
    name: str
    fb: tuple[int, int, int]
    """Total, reserved, used: MiB."""
    bar1: int
    gens: tuple[int, int, int, int]
    """Max, current, device max, host max; a host max of 0 is not known."""
    width: int
    mig: str
    instances: tuple[int, ...]
    """Memory of each MIG instance, MiB."""
    fabric: tuple[str, str, int, str] | None
    processes: tuple[tuple[int, str, int | None], ...]

    def gpu(self, index: int) -> Gpu:
        """Return what a reader must find."""
        state, status, clique, cluster = self.fabric or ("", "", 0, "")
        state = state.lower() if status == "Success" else f"{state} ({status})".lower()
        return Gpu(
            index,
            name=self.name,
            uuid=self.uuid,
            pci_bus_id=self.bus_id,
            memory_mib=self.fb[0],
            memory_reserved_mib=self.fb[1],
            memory_used_mib=self.fb[2],
            processes=tuple(Process(*process) for process in self.processes),
            mig=None
            if self.mig == "N/A"
            else Mig(self.mig == "Enabled", tuple(MigInstance(memory_mib=mib) for mib in self.instances)),
            fabric=Fabric(cluster, clique, state) if self.fabric else None,
            pcie=Pcie(min(g for g in (self.gens[0], *self.gens[2:]) if g), self.width, self.gens[1], self.width),
        )


@st.composite
def cards(draw: st.DrawFn, position: int) -> Card:
    total = draw(st.integers(1000, 200_000))
    mig = draw(st.sampled_from(("N/A", "Disabled", "Enabled")))
    gen = draw(st.integers(3, 6))
    uuid = f"GPU-{position:08x}-f9c4-4a0e-8a13-{draw(st.integers(0, 16**12 - 1)):012x}"
    fabric = st.tuples(
        st.sampled_from(("Completed", "In Progress")),
        st.sampled_from(("Success", "Insufficient Resources")),
        st.integers(0, 99),
        st.just("853d98f9-f9c4-4a0e-8a13-33d598ee082f"),
    )
    process = st.tuples(
        st.integers(1, 4_000_000), st.sampled_from(("python", "/usr/bin/my app", "ray::Worker")), st.none() | st.integers(1, 9999)
    )
    return Card(
        bus_id=f"{draw(st.sampled_from((0, 0, 15))):08X}:{7 + 9 * position:02X}:00.0",
        uuid=uuid,
        name=draw(st.sampled_from(NAMES)),
        fb=(total, draw(st.integers(0, 900)), draw(st.integers(0, total - 900))),
        bar1=draw(st.sampled_from((256, 32768, 131072))),
        gens=(gen, draw(st.integers(1, gen)), draw(st.integers(gen, 6)), draw(st.sampled_from((0, 3, 4, 5)))),
        width=draw(st.sampled_from((4, 8, 16))),
        mig=mig,
        instances=tuple(draw(st.lists(st.integers(1000, 90_000), max_size=3))) if mig == "Enabled" else (),
        fabric=draw(st.none() | fabric),
        processes=tuple(draw(st.lists(process, max_size=3))),
    )


@st.composite
def machines(draw: st.DrawFn, most: int = 4) -> tuple[Card, ...]:
    return tuple(draw(cards(position)) for position in range(draw(st.integers(1, most))))


def _memory(title: str, total: int, used: int, reserved: int | None, indent: int) -> list[tuple[int, str, str | None]]:
    rows = [("Total", total), ("Reserved", reserved), ("Used", used), ("Free", total - used)]
    return [(indent, title, None), *((indent + 1, key, f"{mib} MiB") for key, mib in rows if mib is not None)]


def _card_lines(card: Card) -> list[tuple[int, str, str | None]]:
    """Return depth, key and value of the lines of *card*; a title has no value."""
    state, status, clique, cluster = card.fabric or ("N/A", "N/A", "N/A", "N/A")
    lines: list[tuple[int, str, str | None]] = [
        (0, f"GPU {card.bus_id}", None),
        (1, "Product Name", card.name), (1, "Product Brand", "NVIDIA"), (1, "Addressing Mode", "HMM"),
        (1, "MIG Mode", None), (2, "Current", card.mig), (2, "Pending", card.mig),
    ]  # fmt: skip
    for index, mib in enumerate(card.instances):
        lines += [(1, "MIG Device", None), (2, "Index", str(index)), (2, "GPU Instance ID", str(index + 1))]
        lines += [(2, "Device Attributes", None), (3, "Shared", None), (4, "Multiprocessor count", "14")]
        lines += [*_memory("FB Memory Usage", mib, 5, 0, 2), *_memory("BAR1 Memory Usage", 9, 1, None, 2)]
    lines += [
        (1, "Driver Model", None), (2, "Current", "N/A"), (1, "GPU UUID", card.uuid), (1, "Minor Number", "3"),
        (1, "GPU Virtualization Mode", None), (2, "Virtualization Mode", "None"),
        (1, "PCI", None), (2, "Bus", "0x18"), (2, "Bus Id", card.bus_id), (2, "GPU Link Info", None),
        (3, "PCIe Generation", None), (4, "Max", str(card.gens[0])), (4, "Current", str(card.gens[1])),
        (4, "Device Current", str(card.gens[1])), (4, "Device Max", str(card.gens[2])),
        (4, "Host Max", str(card.gens[3]) if card.gens[3] else "N/A"),
        (3, "Link Width", None), (4, "Max", f"{card.width}x"), (4, "Current", f"{card.width}x"),
        (2, "Bridge Chip", None), (3, "Type", "N/A"),
        *_memory("FB Memory Usage", card.fb[0], card.fb[2], card.fb[1], 1), *_memory("BAR1 Memory Usage", card.bar1, 3, None, 1),
        *_memory("Conf Compute Protected Memory Usage", 0, 0, None, 1),
        (1, "Compute Mode", "Default"), (1, "Utilization", None), (2, "Memory", "0 %"), (1, "ECC Mode", None), (2, "Current", "Enabled"),
        (1, "ECC Errors", None), (2, "Volatile", None), (3, "Total", "0"), (1, "Max Clocks", None), (2, "Memory", "2619 MHz"),
        (1, "Fabric", None), (2, "State", state), (2, "Status", status), (2, "CliqueId", str(clique)), (2, "ClusterUUID", cluster),
        (2, "Health", None), (3, "Bandwidth", "N/A"),
        (1, "Processes", None if card.processes else "None"),
    ]  # fmt: skip
    for pid, name, mib in card.processes:
        lines += [(2, "GPU instance ID", "N/A"), (2, "Process ID", str(pid)), (3, "Type", "C"), (3, "Name", name)]
        lines += [(3, "Used GPU Memory", "Not available in WDDM driver model" if mib is None else f"{mib} MiB")]
    return lines


def print_text(machine: tuple[Card, ...], *, attached: int | None = None) -> str:
    """Return what ``nvidia-smi -q`` prints."""
    lines: list[tuple[int, str, str | None]] = [
        (0, "Timestamp", "Tue Jan  2 03:04:05 2024"), (0, "Driver Version", "550.90.07"), (0, "CUDA Version", "12.4"),
        (0, "", None), (0, "Attached GPUs", str(attached or len(machine))),
    ]  # fmt: skip
    for card in machine:
        lines += [*_card_lines(card), (0, "", None)]
    printed = [
        ("    " * depth + key).ljust(50) + f" : {value}" if value is not None else "    " * depth + key
        for depth, key, value in lines
    ]
    return "\n==============NVSMI LOG==============\n\n" + "\n".join(printed)


def print_xml(machine: tuple[Card, ...], *, attached: int | None = None) -> str:
    """Return what ``nvidia-smi -q -x`` prints."""
    gpus = "".join(_card_xml(card) for card in machine)
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n'
        "\t<timestamp>Tue Jan  2 03:04:05 2024</timestamp>\n\t<driver_version>550.90.07</driver_version>\n"
        f"\t<cuda_version>12.4</cuda_version>\n\t<attached_gpus>{attached or len(machine)}</attached_gpus>\n{gpus}</nvidia_smi_log>\n"
    )


def _memory_xml(tag: str, total: int, used: int, reserved: int | None) -> str:
    rows = {"total": total, "reserved": reserved, "used": used, "free": total - used}
    inner = "".join(f"\t\t\t<{part}>{mib} MiB</{part}>\n" for part, mib in rows.items() if mib is not None)
    return f"\t\t<{tag}>\n{inner}\t\t</{tag}>\n"


def _card_xml(card: Card) -> str:
    state, status, clique, cluster = card.fabric or ("N/A", "N/A", "N/A", "N/A")
    devices = "".join(
        f"\t\t\t<mig_device>\n\t\t\t\t<index>{index}</index>\n{_memory_xml('fb_memory_usage', mib, 5, 0)}\t\t\t</mig_device>\n"
        for index, mib in enumerate(card.instances)
    )
    processes = "".join(
        f"\t\t\t<process_info>\n\t\t\t\t<pid>{pid}</pid>\n\t\t\t\t<process_name>{name}</process_name>\n"
        f"\t\t\t\t<used_memory>{'N/A' if mib is None else f'{mib} MiB'}</used_memory>\n\t\t\t</process_info>\n"
        for pid, name, mib in card.processes
    )
    gens = zip(("max_link_gen", "current_link_gen", "max_device_link_gen", "max_host_link_gen"), card.gens, strict=True)
    return (
        f'\t<gpu id="{card.bus_id}">\n\t\t<product_name>{card.name}</product_name>\n'
        f"\t\t<mig_mode>\n\t\t\t<current_mig>{card.mig}</current_mig>\n\t\t</mig_mode>\n"
        f"\t\t<mig_devices>\n{devices or chr(9) * 4 + 'None' + chr(10)}\t\t</mig_devices>\n\t\t<uuid>{card.uuid}</uuid>\n"
        "\t\t<pci>\n\t\t\t<pci_gpu_link_info>\n\t\t\t\t<pcie_gen>\n"
        + "".join(f"\t\t\t\t\t<{tag}>{gen}</{tag}>\n" for tag, gen in gens)
        + f"\t\t\t\t</pcie_gen>\n\t\t\t\t<link_widths>\n\t\t\t\t\t<max_link_width>{card.width}x</max_link_width>\n"
        f"\t\t\t\t\t<current_link_width>{card.width}x</current_link_width>\n\t\t\t\t</link_widths>\n\t\t\t</pci_gpu_link_info>\n\t\t</pci>\n"
        + _memory_xml("fb_memory_usage", card.fb[0], card.fb[2], card.fb[1])
        + _memory_xml("bar1_memory_usage", card.bar1, 3, None)
        + f"\t\t<fabric>\n\t\t\t<state>{state}</state>\n\t\t\t<status>{status}</status>\n\t\t\t<cliqueId>{clique}</cliqueId>\n"
        f"\t\t\t<clusterUuid>{cluster}</clusterUuid>\n\t\t</fabric>\n\t\t<processes>\n{processes}\t\t</processes>\n\t</gpu>\n"
    )


PREFIXES = (
    "node1: ", "+", "*", "0: ", "> ", "// ", "# ", "web-1  | ", "2024-05-01T12:00:00.123Z stdout F ", "<30>Jan  2 03:04:05 host smi: ",
)  # fmt: skip


def prefixed(text: str, prefix: str) -> str:
    """Return *text* with *prefix* before every line."""
    return "".join(prefix + line for line in text.splitlines(keepends=True))


def prefix_warnings(damage: str) -> tuple[str, ...]:
    """Return what a reading must say of the prefix that the damage *damage* puts before every line, if it does."""
    words = {"comment signs without a space": "//", "prefix and wrapped": "node1:"} | {f"prefix {p!r}": p.strip() for p in PREFIXES}
    return (f"the lines had a prefix, which was stripped: {words[damage]!r}",) if damage in words else ()


def framed(text: str) -> str:
    """Return *text* the way it stands in an issue."""
    return f"Here it is:\n\n```console\n$ nvidia-smi -q\n{text}\n```\nWhat do you think? Total: 3 problems.\n"
