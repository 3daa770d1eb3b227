"""
What ``nvidia-smi -q`` states of GPUs, as text or as XML, made a `Topology`.

Memory is that of the frame buffer (FB), never BAR1, which is only a window into it. The PCIe port runs under load at what device
and host can both do; the speed that it has now is less when it is idle, the lanes are not.

When to modify: the tool prints another fact.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from topologies.errors import TopologyError
from topologies.model import Gpu, Topology
from topologies.nvidia.matrix.header import MOST_DEVICES
from topologies.nvidia.report.lost import places_of, plausible
from topologies.nvidia.uuids import telling, whole
from topologies.pages.reading import listing
from topologies.parts import Fabric, Mig, MigInstance, Pcie, Process
from topologies.ports import settled_gpus

V = TypeVar("V")

MEMORY_PARTS = ("total", "reserved", "used", "free")

_NO_ANSWER = re.compile(
    r"\[?(?:N/A|None|Not (?:Supported|Available|Active).*|Unknown.*|ERR!|GPU is lost.*|Insufficient Permissions?|"
    r"Requested functionality has been deprecated)\]?",
    re.IGNORECASE,
)
_SIZE = re.compile(r"([0-9]{1,9}) ?Mi?B")
_COUNT = re.compile(r"[0-9]{1,9}")
_WIDTH = re.compile(r"([0-9]{1,3})x")
_CAPABILITY = re.compile(r"[0-9]{1,2}\.[0-9]")
_ZERO_UUID = re.compile(r"[0-]*")
_LONGEST = 200


@dataclass(slots=True)
class Block:
    """
    What is printed of one GPU: values as printed.

    Parameters
    ----------
    fb, bar1
        Parts of the memory (`MEMORY_PARTS`).
    gens, widths
        PCIe generations and widths: ``max``, ``current``, ``device max``, ``host max``.
    fabric
        ``state``, ``status``, ``clique``, ``cluster``.
    processes
        None when nothing is printed about them.
    unread_processes
        How many more there are whose number cannot be read.
    is_cut
        Whether the output ends within it for certain.
    """

    bus_id: str | None = None
    minor: str | None = None
    name: str | None = None
    uuid: str | None = None
    compute_capability: str | None = None
    fb: dict[str, str] = field(default_factory=dict)
    bar1: dict[str, str] = field(default_factory=dict)
    gens: dict[str, str] = field(default_factory=dict)
    widths: dict[str, str] = field(default_factory=dict)
    mig_mode: str | None = None
    mig_pending: str | None = None
    mig_indices: list[int] = field(default_factory=list)
    mig_instances: list[MigInstance] = field(default_factory=list)
    fabric: dict[str, str] = field(default_factory=dict)
    processes: list[Process] | None = None
    unread_processes: int = 0
    is_cut: bool = False

    @property
    def is_excerpt(self) -> bool:
        """Whether it is what somebody chose to show: all of its memory, but not its processes, with which an output ends."""
        return not self.is_cut and self.processes is None and "free" in self.bar1


@dataclass(slots=True)
class Log:
    """
    One output: its header, what is printed of each GPU, and the bus ids of those of which only a message says that they are lost.

    *is_headless* tells that it begins within a GPU before those, which was left out.
    """

    attached: str | None = None
    driver: str | None = None
    cuda: str | None = None
    blocks: list[Block] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    is_headless: bool = False


def answer(value: str | None) -> str | None:
    """Return *value* unless it stands for none (``N/A``, ``Not Supported`` …)."""
    value = value.strip()[:_LONGEST] if value else None
    return None if not value or _NO_ANSWER.fullmatch(value) else value


def size_mib(value: str | None) -> int | None:
    """Return the size in *value* (``32480 MiB``; old drivers write MB), if it is one."""
    match = _SIZE.fullmatch(value.strip()) if value else None
    return int(match[1]) if match else None


def _unit(blocks: Sequence[Block]) -> str | None:
    """Return the unit of memory where it is not MiB: old drivers print MB and mean MiB."""
    sizes = [size for block in blocks for size in (*block.fb.values(), *block.bar1.values())]
    return "MB" if any(_SIZE.fullmatch(size.strip()) and size.rstrip().endswith(" MB") for size in sizes) else None


def count(value: str | None) -> int | None:
    """Return the number that *value* is, if it is one."""
    match = _COUNT.fullmatch(value.strip()) if value else None
    return int(match[0]) if match else None


def lanes(value: str | None) -> int | None:
    """Return the PCIe width in *value* (``16x``), if it is one."""
    match = _WIDTH.fullmatch(value.strip()) if value else None
    return int(match[1]) or None if match else None


def topology(log: Log, *, format: str, where: str) -> Topology:
    """
    Return the machine that *log* describes.

    GPUs are numbered in the order of the text, with places for those that are lost, or left out between others (see
    `topologies.nvidia.report.lost`). Those that are attached and not shown are there, and nothing is known of them.

    Raises
    ------
    TopologyError
        If it shows too many GPUs, or one twice.
    """
    blocks = log.blocks
    warnings = list(log.warnings)
    attached = plausible(count(log.attached), len(blocks), warnings)
    places, lost = places_of(blocks, log.lost, attached, warnings, is_headless=log.is_headless)
    total = max(len(blocks) + len(lost) + log.is_headless, attached or 0, *(index + 1 for index in places))
    if total > MOST_DEVICES:
        raise TopologyError(f"{total} GPUs, which no machine has", where=where)
    if attached is not None and attached < len(blocks):
        warnings.append(f"{len(blocks)} GPUs are shown, but only {attached} are said to be attached")
    ids = [block.bus_id.lower() for block in blocks if block.bus_id]
    if twice := next((bus_id for bus_id in ids if ids.count(bus_id) > 1), None):
        raise TopologyError(f"the GPU {twice} is shown twice: give one output", where=where)
    uuids = telling({i: answer(b.uuid) for i, b in zip(places, blocks, strict=True)}, "the output of `nvidia-smi -q`", warnings)
    known = {i: _gpu(i, block, warnings).replace(uuid=uuids.get(i)) for i, block in zip(places, blocks, strict=True)}
    warnings += _switched(dict(zip(places, blocks, strict=True)))
    known |= {index: Gpu(index, pci_bus_id=bus_id, is_named=False) for index, bus_id in lost.items()}
    gpus, narrow = settled_gpus(known.get(index, Gpu(index, is_named=False)) for index in range(total))
    return Topology(gpus, format=format, warnings=(*warnings, *narrow), stated=_stated(log, attached, places))


def _gpu(index: int, block: Block, warnings: list[str]) -> Gpu:
    label = f"GPU {index}" + (f" ({block.bus_id})" if block.bus_id else "")
    if block.bar1 and not block.fb:
        warnings.append(f"{label}: BAR1 memory alone is stated, which is not the memory of the GPU: that is unknown")
    total = size_mib(block.fb.get("total"))
    if block.fb and not total:
        shown = block.fb.get("total", "missing")[:40]
        warnings.append(f"{label}: the total of its memory (FB) is {shown!r}: it is unknown")
    unread = [part for part in MEMORY_PARTS[1:] if (v := answer(block.fb.get(part))) and size_mib(v) is None]
    warnings += [f"{label}: {part} memory is {block.fb[part][:40]!r}, which is no size" for part in unread]
    if block.unread_processes:
        warnings.append(f"{label}: the number (pid) of {block.unread_processes} of its processes cannot be read: who holds it is unknown")
    instances = tuple(i if whole(i.uuid) else dataclasses.replace(i, uuid=None) for i in block.mig_instances)
    if cut := sum(bool(old.uuid) and not new.uuid for old, new in zip(block.mig_instances, instances, strict=True)):
        warnings.append(f"{label}: {cut} of its instances show no whole UUID, so that is left unknown")
    mode = (answer(block.mig_mode) or "").lower()
    return Gpu(
        index,
        name=answer(block.name),
        pci_bus_id=answer(block.bus_id),
        memory_mib=total or None,
        memory_used_mib=size_mib(block.fb.get("used")),
        memory_reserved_mib=size_mib(block.fb.get("reserved")),
        processes=tuple(block.processes) if block.processes is not None and not block.unread_processes else None,
        mig=Mig(mode == "enabled", instances) if mode in ("enabled", "disabled") else None,
        fabric=_fabric(block.fabric),
        compute_capability=value if (value := answer(block.compute_capability)) and _CAPABILITY.fullmatch(value) else None,
        pcie=_pcie(block),
    )


def _switched(blocks: Mapping[int, Block]) -> Iterator[str]:
    """Yield what is said of GPUs whose MIG mode is to be another."""
    for state, word in (("enabled", "on"), ("disabled", "off")):
        gpus = [
            f"GPU {index}"
            for index, block in sorted(blocks.items())
            if (block.mig_pending or "").lower() == state and (block.mig_mode or "").lower() in {"enabled", "disabled"} - {state}
        ]
        if gpus:
            it = "it is" if len(gpus) == 1 else "they are"
            yield f"MIG mode of {listing(gpus)} is to be switched {word} when {it} reset: then CUDA sees other devices"


def _pcie(block: Block) -> Pcie | None:
    """Return the port; a host that says 0 does not tell."""
    able = [n for part in ("max", "device max", "host max") if (n := count(block.gens.get(part)))]
    port = Pcie(
        gen=min(able, default=None),
        width=lanes(block.widths.get("max")),
        current_gen=count(block.gens.get("current")) or None,
        current_width=lanes(block.widths.get("current")),
    )
    return port if port != Pcie() else None


def _fabric(facts: dict[str, str]) -> Fabric | None:
    """Return the place in the fabric; a state whose status is no success is not *completed*."""
    state, status, cluster = answer(facts.get("state")), answer(facts.get("status")), answer(facts.get("cluster"))
    if state and status and status.lower() != "success":
        state = f"{state} ({status})"
    if cluster and _ZERO_UUID.fullmatch(cluster):
        cluster = None
    found = Fabric(cluster, count(answer(facts.get("clique"))), state.lower() if state else None)
    return found if found != Fabric() else None


def _stated(log: Log, attached: int | None, places: Sequence[int]) -> dict[str, Any]:
    """Return what is shown of the output beside the facts of `Gpu`: plain for one GPU, by index for several."""
    blocks = log.blocks
    names = [answer(block.name) for block in blocks]
    mig = {block.bus_id or str(index): list(block.mig_indices) for index, block in enumerate(blocks) if block.mig_indices}
    stated: dict[str, Any] = {
        "attached_gpus": attached,
        "driver": answer(log.driver),
        "cuda": answer(log.cuda),
        "name": _each(names, places),
        "names": list(dict.fromkeys(name for name in names if name)) if len(blocks) > 1 else None,
        "fb_mib": _each([_sizes(block.fb) for block in blocks], places),
        "bar1_mib": _each([_sizes(block.bar1) for block in blocks], places),
        "pcie": _each([_port(block) for block in blocks], places),
        "gpu_ids_seen": [block.bus_id for block in blocks if block.bus_id],
        "mig_devices_seen": mig,
        "unit_as_printed": _unit(blocks),
    }
    return {name: value for name, value in stated.items() if value is not None and value not in ({}, [])}


def _sizes(memory: dict[str, str]) -> dict[str, int] | None:
    found = {part: n for part in MEMORY_PARTS if (n := size_mib(memory.get(part))) is not None}
    return found or None


def _port(block: Block) -> dict[str, int] | None:
    port = _pcie(block)
    found = {"gen": port.gen, "width": port.width} if port is not None else {}
    return {name: value for name, value in found.items() if value} or None


def _each(values: Sequence[V | None], places: Sequence[int]) -> V | dict[str, V] | None:
    if len(values) == 1:
        return values[0]
    return {str(index): value for index, value in zip(places, values, strict=True) if value is not None}


def seen(bus_ids: Sequence[str], attached: str | None) -> str:
    """Return in words which GPUs a broken output shows."""
    if not bus_ids:
        return "no GPU was seen"
    said = f"{len(bus_ids)} GPU{'s were' if len(bus_ids) > 1 else ' was'} seen ({listing(bus_ids)})"
    return said + (f", of {attached} attached" if attached else "")
