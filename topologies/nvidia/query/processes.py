"""
The processes that ``nvidia-smi --query-compute-apps=… --format=csv`` lists, by the UUID or the bus id of their GPU.

When to modify: the query states another fact about a process.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from topologies.merging.identity import ONLY_SOME, SOME, bus_key
from topologies.model import Gpu, Topology
from topologies.nvidia.matrix.header import MOST_DEVICES
from topologies.nvidia.query.forms import BUS_ID
from topologies.nvidia.query.rows import Table
from topologies.nvidia.uuids import whole
from topologies.parts import Process

_FIELDS = {
    "pid": "pid", "process_name": "name", "name": "name", "used_memory": "memory", "used_gpu_memory": "memory", "gpu_uuid": "uuid",
    "gpu_bus_id": "bus", "gpu_name": "card",
}  # fmt: skip
_PID = re.compile(r"[0-9]{1,10}")
_MIB = re.compile(r"([0-9]{1,9})\s*(?:MiB)?")
_MOST_PROCESSES = 4096

(FORMAT,) = SOME


def topology(tables: Sequence[Table]) -> Topology | None:
    """Return the GPUs that *tables* name, in the order in which they come, with their processes; None when there are none."""
    gpus: dict[str, Gpu] = {}
    warnings: list[str] = []
    left_out = 0
    for table in tables:
        warnings += [note for note in table.notes if note not in warnings]
        columns = [_FIELDS.get(title) for title in table.titles]
        left_out += len(table.odd)
        for row in table.rows[:_MOST_PROCESSES]:
            cells = {column: cell for column, cell in zip(columns, row, strict=True) if column is not None}
            uuid = whole(cells.get("uuid")) or ""
            bus = cells.get("bus", "") if BUS_ID.fullmatch(cells.get("bus", "")) else ""
            key = uuid.lower() or (bus_key(bus) if bus else "")
            if not key or not _PID.fullmatch(cells["pid"]) or (key not in gpus and len(gpus) == MOST_DEVICES):
                left_out += 1
                continue
            size = _MIB.fullmatch(cells.get("memory", ""))
            process = Process(int(cells["pid"]), cells.get("name") or None, int(size[1]) if size else None)
            gpu = gpus.get(key) or Gpu(
                len(gpus), name=cells.get("card") or None, uuid=uuid or None, pci_bus_id=bus or None, processes=()
            )
            gpus[key] = gpu.replace(processes=(*(gpu.processes or ()), process))
        left_out += max(0, len(table.rows) - _MOST_PROCESSES)
    if not gpus and not left_out:
        return None
    if left_out:
        warnings.append(f"{left_out} rows of the list of processes name no process of a GPU: they were left out")
    named = tuple(gpus.values()) or (Gpu(0, is_named=False),)    # some GPU runs them
    return Topology(named, format=FORMAT, warnings=(*warnings, ONLY_SOME))
