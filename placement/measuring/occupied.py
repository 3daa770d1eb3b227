"""
Who uses the GPUs now: a machine that is busy cannot be measured, and measuring it would slow whoever is.

When to modify: another source tells who uses a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from topologies.model import Gpu, Topology

BUSY_MIB = 1024
"""Memory in use beside which a GPU counts as free, where the driver names no process: contexts of monitoring, MiB."""

_MOST_PROCESSES = 3


def occupied(topology: Topology, gpus: Sequence[int]) -> Iterator[str]:
    """Yield for each of *gpus* that is in use who uses it: ``GPU 3 (python with pid 4711 holds 20480 MiB)``."""
    for g in gpus:
        gpu = topology.gpus[g]
        if gpu.processes or (gpu.memory_used_mib or 0) > BUSY_MIB:
            yield f"GPU {g} ({_by_whom(gpu)})"


def _by_whom(gpu: Gpu) -> str:
    processes = sorted(gpu.processes or (), key=lambda process: (-(process.memory_mib or 0), process.pid))
    if not processes:
        return f"{gpu.memory_used_mib} MiB in use, by whom the driver does not tell"
    words = []
    for process in processes[:_MOST_PROCESSES]:
        command = "".join(c if c.isprintable() else "?" for c in (process.name or "").rpartition("/")[2][:40])
        holds = f" holds {process.memory_mib} MiB" if process.memory_mib is not None else ""
        words.append(f"{command} with pid {process.pid}{holds}" if command else f"pid {process.pid}{holds}")
    more = len(processes) - len(words)
    return ", ".join(words) + (f" and {more} more" if more else "")
