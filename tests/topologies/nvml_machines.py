"""
Machines as a driver tells of them: the answers of the stub library (`nvml_stub/stub.c`), machines made of them, and the text that
``nvidia-smi topo -m`` prints of them.

`topo_m` is the oracle of the reader: it looks only at the answers, and counts links in its own way.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from topologies.documents.document_read import from_document
from topologies.errors import TopologyError
from topologies.model import Topology

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
STUB = HERE / "nvml_stub"
NOWHERE = "FFFFFFFF:FF:FF.0"
SWITCHES = tuple(f"00000000:{number:02X}:00.0" for number in (0xC4, 0xC5, 0xC6, 0xC7, 0xC8, 0xC9))

NO_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, LOST, UNKNOWN = "!2", "!3", "!4", "!6", "!15", "!999"
PIX, PXB, PHB, NODE, SYS = 10, 20, 30, 40, 50

MB_PER_S = ((10, 53125), (9, 26562), (0, 25781))
"""What a link carries, by the first compute capability."""

Answers = dict[str, str]


class Driver:
    """
    A library of the stub, loaded in a process of its own.

    Parameters
    ----------
    folder
        Where the library and the machines are written.
    flags
        What the stub is compiled with.
    """

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder = folder
        library = folder / "libnvidia-ml.so.1"
        subprocess.run(
            ["cc", "-shared", "-fPIC", *flags, "-o", str(library), str(STUB / "stub.c")], check=True, timeout=120
        )
        self._worker: subprocess.Popen[str] | None = None
        self.seconds = 0.0

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a process that finds the library, and this tree."""
        return os.environ | {"LD_LIBRARY_PATH": str(self.folder), "PYTHONPATH": str(ROOT)}

    def write(self, answers: Mapping[str, object]) -> Path:
        """Write the machine file of *answers*."""
        path = self.folder / "machine.txt"
        path.write_text("".join(f"{key} = {answer}\n" for key, answer in answers.items()), encoding="utf-8", errors="surrogatepass")
        return path

    def document(self, answers: Mapping[str, object]) -> dict[str, Any]:
        """Return the document of the machine that gives *answers*."""
        if self._worker is None:
            self._worker = subprocess.Popen(
                [sys.executable, str(STUB / "worker.py")],
                env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self._worker.stdin.write(f"{self.write(answers)}\n")
        self._worker.stdin.flush()
        line = self._worker.stdout.readline()
        assert line, "the reader ended"
        found = json.loads(line)
        self.seconds = found["seconds"]
        document: dict[str, Any] = found["document"]
        return document

    def read(self, answers: Mapping[str, object]) -> Topology:
        """Return the machine that gives *answers*; raises the error of the reader."""
        document = self.document(answers)
        if document["status"] == "error":
            raise TopologyError(document["error"])
        return from_document(document)

    def close(self) -> None:
        if self._worker is not None:
            self._worker.communicate(timeout=30)


def machine(
    count: int,
    *,
    levels: Mapping[tuple[int, int], int] | int = SYS,
    nvlinks: Mapping[int, Sequence[str | int | None]] | None = None,
    name: str = "NVIDIA A100-SXM4-80GB",
    capability: str = "8.0",
    memory_mib: int = 81920,
    numa: Sequence[int] | None = None,
    buses: Sequence[int] | None = None,
    peers: Mapping[tuple[int, int], int] | None = None,
) -> Answers:
    """
    Return what the driver of a healthy machine answers.

    Parameters
    ----------
    levels
        Common ancestor by pair, or of all pairs.
    nvlinks
        For each GPU where each of its links leads: a GPU, the bus id of a switch, or None for a link that is down; None for cards
        without NVLink.
    numa
        NUMA node of each GPU, of 32 CPUs each.
    buses
        PCI bus number of each GPU.
    peers
        State of peer-to-peer by pair, OK elsewhere.
    """
    buses = buses or [7 + 8 * gpu for gpu in range(count)]
    numa = numa or [2 * gpu // count for gpu in range(count)]
    answers: Answers = {
        "Count": str(count), "DriverVersion": "570.86.15", "MigMode": "0 0", "ComputeRunningProcesses": "",
        "GraphicsRunningProcesses": "", "MaxPcieLinkGeneration": "4", "MaxPcieLinkWidth": "16", "CurrPcieLinkGeneration": "1",
        "CurrPcieLinkWidth": "16", "Name": name, "ComputeCapability": capability,
        "MemoryInfo": f"{memory_mib << 20} {600 << 20} {5 << 20}", "P2PStatus": "0",
    }  # fmt: skip
    for gpu in range(count):
        answers[f"UUID {gpu}"] = f"GPU-00000000-0000-0000-0000-{gpu:012}"
        answers[f"PciInfo {gpu}"] = bus(buses[gpu])
        cpus = 0xFFFFFFFF << 32 * (numa[gpu] % 2)
        answers[f"CpuAffinity {gpu}"] = " ".join(["0"] * (numa[gpu] // 2) + [f"{cpus:x}"])
        answers[f"MemoryAffinity {gpu}"] = " ".join(["0"] * (numa[gpu] // 64) + [f"{1 << numa[gpu] % 64:x}"])
        for other in range(gpu + 1, count):
            level = levels if isinstance(levels, int) else levels[gpu, other]
            both_ways(answers, "TopologyCommonAncestor", gpu, other, str(level))
            if peers is not None and (gpu, other) in peers:
                both_ways(answers, "P2PStatus", gpu, other, str(peers[gpu, other]))
    for gpu, ends in (nvlinks or {}).items():
        answers[f"NvLinkCount {gpu}"] = str(len(ends))
        mb_per_s = next(rate for first, rate in MB_PER_S if float(capability) >= first)
        answers[f"FieldValues {gpu} 90 0"] = str(mb_per_s)
        for link, end in enumerate(ends):
            state = str(int(end is not None))
            answers[f"NvLinkState {gpu} {link}"] = "0" if float(capability) >= 9 else state
            answers[f"FieldValues {gpu} 165 {link}"] = state
            if end is not None and float(capability) >= 8:
                answers[f"FieldValues {gpu} 164 {link}"] = str(mb_per_s)
            if end is not None:
                answers[f"NvLinkRemotePciInfo {gpu} {link}"] = bus(buses[end]) if isinstance(end, int) else end
                answers[f"NvLinkRemoteDeviceType {gpu} {link}"] = "0" if isinstance(end, int) else "2"
    for gpu in range(count):
        for other in range(gpu + 1, count):
            is_joined = _nvlinks(answers, gpu, other) > 0
            both_ways(answers, "P2PStatus", gpu, other, "0" if is_joined else "5", more=" 2")
    return answers


def bus(number: int) -> str:
    return f"0000{number >> 8:04X}:{number & 255:02X}:00.0"


def both_ways(answers: Answers, call: str, a: int, b: int, answer: str, *, more: str = "") -> None:
    answers[f"{call} {a} {b}{more}"] = answers[f"{call} {b} {a}{more}"] = answer


def joined(edges: Mapping[tuple[int, int], int], count: int, links: int) -> dict[int, list[str | int | None]]:
    """Return the ends of the links that join pairs directly; the further ones of *links* are down."""
    ends: dict[int, list[str | int | None]] = {gpu: [] for gpu in range(count)}
    for (a, b), number in edges.items():
        ends[a] += [b] * number
        ends[b] += [a] * number
    return {gpu: found + [None] * (links - len(found)) for gpu, found in ends.items()}


def blocks(count: int, size: int, near: int, far: int = SYS) -> dict[tuple[int, int], int]:
    """Return the levels of GPUs in blocks of *size* that are *near*, and *far* from others."""
    return {
        (i, j): near if i // size == j // size else far for i in range(count) for j in range(i + 1, count)
    }


DGX1 = {
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2, (2, 6): 1, (3, 7): 1,
    (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2,
}  # fmt: skip
"""NVLinks of the hybrid mesh of a DGX-1V: two quads, each GPU with one partner in the other."""


def dgx1() -> Answers:
    """Return eight V100 in a hybrid mesh."""
    return machine(
        8, levels=blocks(8, 4, PHB), nvlinks=joined(DGX1, 8, 6), name="Tesla V100-SXM2-16GB", capability="7.0",
        memory_mib=16160,
    )  # fmt: skip


def pairs_of_bridges(count: int = 4, links: int = 12) -> Answers:
    """Return ``0 ══ 1   2 ══ 3 …``: cards in pairs under a bridge."""
    edges = {(gpu, gpu + 1): links for gpu in range(0, count, 2)}
    return machine(count, levels=blocks(count, count // 2, NODE), nvlinks=joined(edges, count, links),
                   name="NVIDIA A100 80GB PCIe")  # fmt: skip


def switched(count: int = 8, links: int = 12, *, capability: str = "8.0", end: str | None = None) -> Answers:
    """Return GPUs whose links all lead to NVSwitches, which have bus ids of their own unless *end* names them all."""
    ends = {gpu: [end or SWITCHES[link % 6] for link in range(links)] for gpu in range(count)}
    return machine(count, levels=blocks(count, max(count // 2, 1), PXB), nvlinks=ends, capability=capability,
                   name="NVIDIA H100 80GB HBM3" if capability == "9.0" else "NVIDIA A100-SXM4-80GB")  # fmt: skip


def consumer(count: int = 4) -> Answers:
    """Return RTX 4090: no NVLink, and a driver that refuses peer-to-peer."""
    refused = {(i, j): 2 for i in range(count) for j in range(i + 1, count)}
    answers = machine(count, levels=PHB, name="NVIDIA GeForce RTX 4090", capability="8.9", memory_mib=24564, peers=refused)
    return answers | {"MigMode": NOT_SUPPORTED}


# ---- what nvidia-smi prints of it ----


def answer(answers: Mapping[str, str], call: str, *arguments: int) -> str:
    """Return what the stub answers, as it looks it up; an error where it says nothing."""
    for given in range(len(arguments), -1, -1):
        key = " ".join([call, *map(str, arguments[:given])])
        if key in answers:
            return answers[key]
    return NOT_SUPPORTED


def _active(answers: Mapping[str, str], gpu: int) -> list[int]:
    call = "FieldValues" if float(answer(answers, "ComputeCapability", gpu)) >= 9 else "NvLinkState"
    count = answers.get(f"NvLinkCount {gpu}", "0")
    field = [165] if call == "FieldValues" else []
    return [link for link in range(int(count)) if answer(answers, call, gpu, *field, link) in ("1", "2")]


def _nvlinks(answers: Mapping[str, str], i: int, j: int) -> int:
    ids = [answers[f"PciInfo {gpu}"].lower() for gpu in range(int(answers["Count"]))]

    def ends(gpu: int) -> list[str]:
        return [answer(answers, "NvLinkRemotePciInfo", gpu, link).lower() for link in _active(answers, gpu)]

    direct = max(ends(i).count(ids[j]), ends(j).count(ids[i]))
    return direct or min(sum(end not in ids for end in ends(gpu)) for gpu in (i, j))


def topo_m(answers: Mapping[str, str], *, is_pci: bool = False) -> str:
    """Return what ``nvidia-smi topo -m`` prints of a healthy machine; what ``-mp`` does with *is_pci*."""
    count = int(answers["Count"])
    words = {"0": "PIX", "10": "PIX", "20": "PXB", "30": "PHB", "40": "NODE", "50": "SYS"}
    lines = ["\t".join(["", *(f"GPU{gpu}" for gpu in range(count)), "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for i in range(count):
        cells = [f"GPU{i}"]
        for j in range(count):
            links = _nvlinks(answers, i, j) if i != j and not is_pci else 0
            path = words.get(answer(answers, "TopologyCommonAncestor", i, j), "?")
            cells.append(" X " if i == j else f"NV{links}" if links else path)
        cells += [_bits(answer(answers, call, i)) for call in ("CpuAffinity", "MemoryAffinity")]
        node = answer(answers, "NumaNodeId", i)
        lines.append("\t".join([*cells, "", "N/A" if node == NOT_SUPPORTED else node]))
    return "\n".join([*lines, "", "Legend:", "", "  X    = Self", ""])


def nvlink_s(answers: Mapping[str, str]) -> str:
    """Return what ``nvidia-smi nvlink -s`` prints."""
    lines = []
    for gpu in range(int(answers["Count"])):
        lines.append(f"GPU {gpu}: {answer(answers, 'Name', gpu)} (UUID: {answers[f'UUID {gpu}']})")
        active = _active(answers, gpu)
        for link in range(int(answers.get(f"NvLinkCount {gpu}", "0"))):
            rate = answers.get(f"FieldValues {gpu} 164 {link}") or answers[f"FieldValues {gpu} 90 0"]
            lines.append(f"\t Link {link}: " + (f"{int(rate) / 1000:.3f} GB/s" if link in active else "<inactive>"))
    return "\n".join([*lines, ""])


def _bits(mask: str) -> str:
    if mask.startswith("!"):
        return ""
    number = sum(int(word, 16) << 64 * k for k, word in enumerate(mask.split()))
    return _as_list([bit for bit in range(number.bit_length()) if number >> bit & 1])


def _as_list(numbers: Iterable[int]) -> str:
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
