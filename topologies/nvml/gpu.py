"""
What the driver says of one GPU.

When to modify: another NVML call becomes a fact of `Gpu`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from topologies.model import Gpu
from topologies.nvml.calls import (
    ARGUMENT_VERSION_MISMATCH,
    FUNCTION_NOT_FOUND,
    INSUFFICIENT_SIZE,
    NOT_SUPPORTED,
    Driver,
    Unanswered,
)
from topologies.nvml.mig import read_mig
from topologies.parts import Fabric, Pcie, Process
from topologies.ports import settled, too_narrow

_MIB = 2**20
_CPU_WORDS = (64, 1024)
"""Words of 64 CPUs that a mask may have; the second size is for a driver that finds the first too small."""

_NODE_WORDS = 16
_HOST_NODE = 0
"""The scope of an affinity: the NUMA node, not the socket."""

_MOST_PROCESSES = 256
_MOST_PCIE = 64
_MOST_MEMORY_MIB = 2**26
_FABRIC_STATES = {1: "not started", 2: "in progress", 3: "completed"}
_COMPLETED = 3
_UNHEALTHY = {2: "unhealthy", 3: "of limited capacity"}


def read_gpu(driver: Driver, index: int, handle: Any, pci_bus_id: str | None) -> Gpu:
    """
    Return everything that *driver* says of GPU *index*, its driver's index.

    Raises
    ------
    topologies.nvml.calls.Lost
        If the GPU is.
    """
    total, used, reserved = _memory(driver, index, handle)
    capability = driver.fact(index, "compute capability", "DeviceGetCudaComputeCapability", handle)
    nodes = driver.fact(
        index, "NUMA affinity", "DeviceGetMemoryAffinity", handle, _NODE_WORDS, _HOST_NODE
    )
    return Gpu(
        index,
        name=text(driver.fact(index, "name", "DeviceGetName", handle)),
        uuid=text(driver.fact(index, "UUID", "DeviceGetUUID", handle)),
        pci_bus_id=pci_bus_id,
        memory_mib=total,
        memory_used_mib=used,
        memory_reserved_mib=reserved,
        processes=_processes(driver, index, handle),
        mig=read_mig(driver, index, handle),
        fabric=_fabric(driver, index, handle),
        compute_capability=f"{capability[0]}.{capability[1]}" if capability is not None else None,
        pcie=_pcie(driver, index, handle),
        cpu_affinity=_cpu_affinity(driver, index, handle),
        numa=(ranges(nodes) or "N/A") if nodes is not None else None,
        gpu_numa_id=_numa_id(driver, index, handle),
    )


def with_host_nodes(gpus: Mapping[int, Gpu]) -> dict[int, Gpu]:
    """
    Return *gpus*, whose NUMA ids are taken for the nodes of their CPUs where no memory of a GPU can be such a node.

    Node 0 has a CPU, and each GPU that is a node is one of its own; what drivers of virtual machines tell is neither.
    """
    ids = [gpu.gpu_numa_id for gpu in gpus.values() if gpu.gpu_numa_id not in (None, "N/A")]
    if "0" not in ids and len(set(ids)) == len(ids):
        return dict(gpus)
    return {
        index: gpu
        if gpu.gpu_numa_id in (None, "N/A")
        else gpu.replace(gpu_numa_id="N/A", numa=_nodes_with(gpu.numa, gpu.gpu_numa_id))
        for index, gpu in gpus.items()
    }


def _nodes_with(affinity: str | None, node: str) -> str:
    """Return *affinity* if *node* is one of it, else *node*, which is told of this GPU alone."""
    for part in (affinity or "N/A").replace("N/A", "").split(","):
        first, _, last = part.partition("-")
        if first and int(first) <= int(node) <= int(last or first):
            return str(affinity)
    return node


def text(value: Any) -> str | None:
    """Return *value* as text; older versions of the package give bytes."""
    found = value.decode("utf-8", errors="replace") if isinstance(value, bytes) else value
    return found or None


def ranges(words: Sequence[int]) -> str:
    """Return the numbers of the bits that are set in *words* of 64 bits, lowest first: ``0-31,64-95``; empty if none is."""
    mask = b"".join((int(word) & (2**64 - 1)).to_bytes(8, "little") for word in words)
    bits = [8 * k + bit for k, byte in enumerate(mask) if byte for bit in range(8) if byte >> bit & 1]
    return ",".join(f"{a}-{b}" if a != b else str(a) for a, b in _runs(bits))


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for k, number in enumerate(numbers):
        if k + 1 == len(numbers) or numbers[k + 1] != number + 1:
            yield numbers[start], number
            start = k + 1


def _memory(driver: Driver, index: int, handle: Any) -> tuple[int | None, int | None, int | None]:
    """Return total, used and reserved MiB; a driver that is too old for the last counts it as used."""
    try:
        memory = driver.call("DeviceGetMemoryInfo", handle, getattr(driver.nvml, "nvmlMemory_v2", None))
    except Unanswered as error:
        if error.code not in (FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH):
            driver.failed(index, "memory", error)
            return None, None, None
        memory = driver.fact(index, "memory", "DeviceGetMemoryInfo", handle)
    if memory is None:
        return None, None, None
    found = [getattr(memory, kind, None) for kind in ("total", "used", "reserved")]
    total, used, reserved = (
        mib if byte is not None and (mib := byte // _MIB) < _MOST_MEMORY_MIB else None for byte in found
    )
    return total or None, used, reserved


def _processes(driver: Driver, index: int, handle: Any) -> tuple[Process, ...] | None:
    """Return who holds memory; None unless at least those that compute are told."""
    held: dict[int, int | None] = {}
    for kind in ("Graphics", "Compute"):
        running = _running(driver, index, handle, kind)
        if running is None:
            if kind == "Compute":
                return None
            continue
        for process in running[:_MOST_PROCESSES]:
            byte = process.usedGpuMemory
            mib = byte // _MIB if byte is not None and byte // _MIB < _MOST_MEMORY_MIB else None
            before = held.get(process.pid)  # an instance of MIG each, or both kinds: never less than the larger
            held[process.pid] = max((n for n in (mib, before) if n is not None), default=None)
    return tuple(Process(pid, _process_name(driver, pid), mib) for pid, mib in sorted(held.items()))


def _running(driver: Driver, index: int, handle: Any, kind: str) -> list[Any] | None:
    name = f"DeviceGet{kind}RunningProcesses"
    is_rare = kind == "Graphics"  # data-centre cards have none
    try:
        found: list[Any] = driver.call(f"{name}_v3", handle)
    except Unanswered as error:
        if error.code != FUNCTION_NOT_FOUND:
            driver.failed(index, "processes", error, is_rare=is_rare)
            return None
        older: list[Any] | None = driver.fact(index, "processes", f"{name}_v2", handle, is_rare=is_rare)
        return older
    return found


def _process_name(driver: Driver, pid: int) -> str | None:
    """Return the command of a process; None where it is another user's, or has ended."""
    try:
        return text(driver.call("SystemGetProcessName", pid))
    except Unanswered:
        return None


def _pcie(driver: Driver, index: int, handle: Any) -> Pcie | None:
    """Return the port: an idle link is slow, so what it can do and what it does are two facts."""
    calls = {
        "gen": "DeviceGetMaxPcieLinkGeneration",
        "width": "DeviceGetMaxPcieLinkWidth",
        "current_gen": "DeviceGetCurrPcieLinkGeneration",
        "current_width": "DeviceGetCurrPcieLinkWidth",
    }
    found = {field: driver.fact(index, "PCIe link", name, handle) for field, name in calls.items()}
    known = {field: value for field, value in found.items() if value and value <= _MOST_PCIE}
    port = Pcie(**known)
    if (narrow := too_narrow(port, "{gpus}")) is not None:
        driver.note(index, narrow)
    return settled(port) if known else None


def _cpu_affinity(driver: Driver, index: int, handle: Any) -> str | None:
    for words in _CPU_WORDS:
        try:
            return ranges(driver.call("DeviceGetCpuAffinity", handle, words)) or None
        except Unanswered as error:
            if error.code != INSUFFICIENT_SIZE or words == _CPU_WORDS[-1]:
                driver.failed(index, "CPU affinity", error)
                break
    return None


def _numa_id(driver: Driver, index: int, handle: Any) -> str | None:
    """Return the NUMA node that the GPU's own memory is, which only GPUs that share the memory of their CPU have."""
    try:
        node = driver.call("DeviceGetNumaNodeId", handle)
    except Unanswered as error:
        driver.failed(index, "NUMA id", error, is_rare=True)
        return "N/A" if error.code == NOT_SUPPORTED else None
    return str(node) if 0 <= node < 64 * _NODE_WORDS else "N/A"


def _fabric(driver: Driver, index: int, handle: Any) -> Fabric | None:
    """Return the place in an NVLink fabric, asked in the newest way that the driver knows."""
    info = _fabric_info(driver, index, handle)
    phase = info.state & 0xFF if info is not None else 0  # the package reads a byte and what stands behind it
    if info is None or phase not in _FABRIC_STATES:
        return None
    cluster = bytes(info.clusterUuid)
    state = _FABRIC_STATES[phase]
    remedy = "see the log of the fabric manager"
    if phase != _COMPLETED:
        driver.note(index, f"the NVLink fabric has not taken in {{gpus}} yet ({state}): {remedy}")
    elif info.status != 0:
        state = "failed"
        driver.note(index, f"the NVLink fabric refused {{gpus}} (NVML error {info.status}): {remedy}")
    if health := _UNHEALTHY.get(getattr(info, "healthSummary", 0)):
        driver.note(index, f"the NVLink fabric of {{gpus}} is {health}: links to other GPUs may be down")
    return Fabric(_uuid(cluster) if any(cluster) else None, info.cliqueId, state)


def _fabric_info(driver: Driver, index: int, handle: Any) -> Any | None:
    error = Unanswered(FUNCTION_NOT_FOUND, "Function Not Found")
    for struct, name in (
        ("c_nvmlGpuFabricInfo_v3_t", "DeviceGetGpuFabricInfoV"),
        ("c_nvmlGpuFabricInfo_v2_t", "DeviceGetGpuFabricInfoV"),
        ("c_nvmlGpuFabricInfo_t", "DeviceGetGpuFabricInfo"),
    ):
        kind = getattr(driver.nvml, struct, None)
        if kind is None:
            continue
        info = kind()
        try:
            driver.call(name, handle, ctypes.byref(info))
        except Unanswered as failure:
            error = failure
            if failure.code == NOT_SUPPORTED:
                break  # there is no fabric, whatever the way to ask
            continue
        return info
    driver.failed(index, "NVLink fabric", error, is_rare=True)
    return None


def _uuid(raw: bytes) -> str:
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
