"""
A topology as a document: what ``placement topology SRC --json`` and ``--yaml`` write.

Field names are those of the schema ``placement/topology/v1``; a field that has nothing to say is left out, except the minimum
that every document has. `topologies.documents.document_read` reads it back.

When to modify: `Topology` or `Gpu` gets a field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from topologies.model import Gpu, Pair, Topology
from topologies.parts import Fabric, Host, Mig, Pcie
from topologies.plain.parts import to_plain

SCHEMA = "placement/topology/v1"

GPU_FIELDS = {
    "index": int, "host": str, "name": str, "uuid": str, "pci_bus_id": str, "memory_mib": int, "memory_used_mib": int,
    "memory_reserved_mib": int, "cpu_affinity": str, "numa": str, "gpu_numa_id": str, "compute_capability": str,
}  # fmt: skip
"""Plain facts of a GPU and their types."""

GPU_PARTS: Mapping[str, type] = {"mig": Mig, "fabric": Fabric, "pcie": Pcie}
"""Facts of a GPU that have parts of their own; ``processes`` is a list."""

STATED = frozenset(
    {
        "attached_gpus", "bar1_mib", "c2c", "cuda", "devices", "driver", "fb_mib", "gpu_ids_seen", "gpu_links_GBps", "gpu_links_up",
        "gpu_list", "header", "hops", "indices", "memory_total_mib", "mig_devices_seen", "name", "names", "nic_count",
        "numa_of_gpu_busid", "nvlinks_seen", "nvswitch_links", "pcie", "rows", "unit_as_printed", "weight",
    }
)  # fmt: skip
"""Names of what only one format states (`Topology.stated`)."""

_MINIMUM = frozenset(
    {"index", "host", "name", "uuid", "pci_bus_id", "memory_mib", "cpu_affinity", "numa", "gpu_numa_id"}
)


def to_document(topology: Topology, *, islands: Sequence[Sequence[int]] | None = None) -> dict[str, Any]:
    """
    Return *topology* as a document.

    GPUs of which nothing is known, not even that a source names them, are not listed; ``gpu_count`` stands where the last ones
    are among them.

    Parameters
    ----------
    topology
        What was read.
    islands
        The NVLink islands, which are derived and so not part of it; left out when None.
    """
    known = [gpu for gpu in topology.gpus if gpu != Gpu(gpu.index, is_named=False)]
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "status": "warn" if topology.warnings else "ok",
        "format": topology.format,
        "warnings": list(topology.warnings),
        "gpus": [_gpu_document(gpu) for gpu in known],
        "links": _pairs_document(topology.links),
        "links_complete": topology.links_complete,
        "nics": dict(topology.nics),
        "gpu_nic": {str(index): dict(nics) for index, nics in topology.gpu_nic.items()},
    }
    if topology.gpus[-1] not in known[-1:]:
        document["gpu_count"] = len(topology.gpus)
    if islands is not None:
        document["islands"] = [list(island) for island in islands]
    further: dict[str, Any] = {
        "columns": sorted(topology.columns),
        "rows_missing": list(topology.rows_missing),
        "rows_partial_cells_seen": dict(topology.rows_partial_cells_seen),
        "conflict": list(topology.conflict),
        "extra_column": topology.extra_columns[0]
        if len(topology.extra_columns) == 1
        else list(topology.extra_columns),
        "other_columns": topology.other_columns,
        "pcie_links": _pairs_document(topology.pcie_links),
        "p2p": _pairs_document(topology.p2p),
        "p2p_kind": topology.p2p_kind,
        "p2p_kinds": {kind: _pairs_document(states) for kind, states in topology.p2p_kinds.items()},
        "formats": list(topology.formats) if len(topology.formats) > 1 else [],
        **{f"gpus_near_cpu{cpu}": list(gpus) for cpu, gpus in topology.gpus_near_cpu.items()},
        "nic_details": to_plain(topology.nic_details),
        "hosts": [_host_document(name, host) for name, host in topology.host_facts.items()],
    }
    if topology.network is not None:
        document["network"] = to_plain(topology.network)
    if topology.measured is not None:
        document["measured"] = to_plain(topology.measured)
    return (
        document
        | dict(topology.stated)
        | {name: value for name, value in further.items() if value or name.startswith("gpus_near_cpu")}
    )


def error_document(message: str) -> dict[str, Any]:
    """Return the document of a source that could not be read."""
    return {"schema": SCHEMA, "status": "error", "error": message}


def _gpu_document(gpu: Gpu) -> dict[str, Any]:
    document = {
        name: getattr(gpu, name) for name in GPU_FIELDS if name in _MINIMUM or getattr(gpu, name) is not None
    }
    parts = {
        name: to_plain(getattr(gpu, name))
        for name in (*GPU_PARTS, "processes")
        if getattr(gpu, name) is not None
    }
    return document | parts | ({} if gpu.is_named else {"is_named": False})


def _host_document(name: str | None, host: Host) -> dict[str, Any]:
    return {"name": name, **to_plain(host)}


def _pairs_document(pairs: Mapping[Pair, str]) -> dict[str, str]:
    return {f"{i}-{j}": code for (i, j), code in pairs.items()}
