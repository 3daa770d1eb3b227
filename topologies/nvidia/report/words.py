"""
The words of ``nvidia-smi -q``: titles, keys, and how a line with one looks.

When to modify: the tool prints another fact, or words one differently.
"""

from __future__ import annotations

import re

from topologies.bus_ids import WITH_DOMAIN

TITLES = {
    "FB Memory Usage": "fb", "BAR1 Memory Usage": "bar1", "Memory Usage": "fb", "PCIe Generation": "gens", "Link Width": "widths",
    "MIG Mode": "mig", "MIG Device": "instance", "Processes": "processes", "Compute Processes": "processes", "Fabric": "fabric",
}  # fmt: skip
"""Title to section."""

OTHER_TITLES = (
    "Conf Compute Protected Memory Usage", "ECC Mode", "Ecc Mode", "DRAM Encryption Mode", "GPU Operation Mode", "Driver Model",
    "GPU Virtualization Mode", "Utilization", "Bridge Chip", "ECC Errors", "Ecc Errors", "Temperature", "Clocks", "Max Clocks",
)  # fmt: skip
SECTION_KEYS = {
    "fb": {"Total": "total", "Reserved": "reserved", "Used": "used", "Free": "free"},
    "bar1": {"Total": "total", "Reserved": "reserved", "Used": "used", "Free": "free"},
    "gens": {"Max": "max", "Current": "current", "Device Max": "device max", "Host Max": "host max"},
    "widths": {"Max": "max", "Current": "current"},
    "fabric": {"State": "state", "Status": "status", "CliqueId": "clique", "ClusterUUID": "cluster"},
    "mig": {"Current": "mode", "Pending": "pending"},
    "instance": {"Index": "index", "UUID": "uuid", "MIG UUID": "uuid"},
    "processes": {"Name": "name", "Used GPU Memory": "memory"},
}
KEYS = (
    "Driver Version", "CUDA Version", "Attached GPUs", "Product Name", "GPU UUID", "Bus Id", "Minor Number", "CUDA Compute Capability",
    "Compute Capability", "Process ID", "Used GPU Memory", "Device Max", "Device Current", "Host Max", "MIG UUID", "Total", "Reserved",
    "Used", "Free", "Max", "Current", "Pending", "State", "Status", "CliqueId", "ClusterUUID", "Index", "UUID", "Name", "GPU Instance ID",
    "Multiprocessor count", "Multiprocessor Count", "Processes", "Compute Processes",
)  # fmt: skip
LINE = re.compile(
    rf"(?P<word>=NVSMI LOG|GPU|{'|'.join((*TITLES, *OTHER_TITLES, *KEYS))})"  # literals only: so a search is quick
    rf"(?:(?P<banner>=)| (?P<bus>{WITH_DOMAIN})[ \t]{{0,200}}$|(?P<end>[ \t]{{0,200}}$)|(?P<gap>[ \t]{{0,200}}):(?P<value>[^\n]*))",
    re.M,
)
ANCHORS = frozenset({*TITLES, "Attached GPUs", "Product Name", "GPU UUID"} - {"Fabric", "Processes"})
"""Words that stand at the beginning of their line: what stands before them is a prefix."""

ONE_LINE = re.compile(r"Memory Usage[ \t]{1,200}Total[ \t]{0,200}:[^\n]{1,100}(?:Used|Free|Reserved)[ \t]{0,200}:")
"""What stands on several lines."""

HEADER = {"Driver Version": "driver", "CUDA Version": "cuda", "Attached GPUs": "attached"}
PLAIN_KEYS = {
    "Product Name": "name", "GPU UUID": "uuid", "CUDA Compute Capability": "compute_capability",
    "Compute Capability": "compute_capability", "Minor Number": "minor",
}  # fmt: skip
WHOLE = re.compile(r"\s*(?:GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]+ MiB|[0-9]+x|N/A|None)\s*")
"""Values that say where they end."""

CARD = re.compile(r"(?!.*\b[DH]GX\b)(?:NVIDIA|Tesla|Quadro|GeForce|GRID|TITAN|GPU-)")
"""How names and UUIDs of GPUs begin: other tools print the name of the server under the same key."""
