"""
What a topology states besides links, as tables: GPUs, NICs, processes. A fact that nobody states has no column.

When to modify: a new fact of a GPU or NIC that people should see.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from rich.table import Table

from placement.cli.table import GAP, counted, new_table
from placement.drawing.gpu import port_name
from placement.drawing.roles import spans
from placement.drawing.shapes import printable
from placement.machines.hosts import HostGroup, name_list, nic_name
from topologies.links import PCIE_KINDS, LinkKind, parse_code
from topologies.model import Gpu, Topology
from topologies.parts import Mig

_MOST_PROCESSES = 32
_MOST_CPU_RANGES = 4
_MOST_NAMES = 2
_PROSE = ("NIC", "card", "CPUs", "closest NICs", "MIG", "closest to", "command")

Cells = Sequence[str | None]
Column = tuple[str, str, Cells]


def gpu_table(topology: Topology, part: Topology, group: HostGroup, width: int) -> tuple[str | None, Table | None]:
    """
    Return the GPUs of a host, a line for each run of GPUs of which the same is known.

    Where that would be wider than *width*, what is the same for all is a sentence instead of columns.

    Parameters
    ----------
    topology
        All hosts.
    part
        The first host of *group* alone.
    group
        Hosts that are alike; what is in use on them is shown from the least to the most.
    """
    twins = [[topology.gpus[gpus[k]] for gpus in group.gpus] for k in range(len(part.gpus))]
    near = _closest_nics(part)
    columns: list[Column] = [
        ("card", "left", [_card(gpu) for gpu in part.gpus]),
        ("memory", "right", [_mib([gpu.memory_mib]) for gpu in part.gpus]),
        ("in use", "right", [_mib(gpu.memory_used_mib for gpu in alike) for alike in twins]),
        ("reserved", "right", [_mib(gpu.memory_reserved_mib for gpu in alike) for alike in twins]),
        ("PCIe", "left", [port_name(gpu.pcie) for gpu in part.gpus]),
        ("MIG", "left", [_mig(gpu.mig) for gpu in part.gpus]),
        ("NUMA", "left", [_stated(gpu.numa) for gpu in part.gpus]),
        ("memory NUMA", "left", [_stated(gpu.gpu_numa_id) for gpu in part.gpus]),
        ("CPUs", "left", [_cpus(gpu.cpu_affinity) for gpu in part.gpus]),
        ("closest NICs", "left", [_by_code(near.get(gpu.index, ()), gpu.host) for gpu in part.gpus]),
    ]
    stated = [column for column in columns if any(column[2])]
    same = [(name, cells[0]) for name, _, cells in stated if cells[0] and len(set(cells)) == 1]
    needed = sum(max(len(name), *(len(cell or "?") for cell in cells)) + GAP for name, _, cells in stated)
    sentence = None
    if needed + len("GPU") > width and same and len(part.gpus) > 1:
        sentence = f"every GPU: {', '.join(f'{name} {cell}' for name, cell in same)}"
        stated = [column for column in stated if len(set(column[2])) > 1]
    if not stated:
        return sentence, None
    runs = _runs(len(part.gpus), stated)
    return sentence, _table("GPU", [spans(run) for run in runs], _at(runs, stated), unknown="?")


def nic_table(part: Topology) -> Table | None:
    """Return the NICs of a host and which GPUs each is closest to; None when there are none."""
    if not part.nics:
        return None
    host = part.gpus[0].host
    serves: dict[str, dict[str, list[int]]] = {}
    near = _closest_nics(part)
    for gpu, nics in near.items():
        for nic, code in nics:
            serves.setdefault(nic, {}).setdefault(code, []).append(gpu)

    def closest(nic: str) -> str | None:
        if not near:
            return None
        by_code = serves.get(nic, {})
        is_told = len(near) == len(part.gpus) and all(nic in part.gpu_nic.get(gpu.index, {}) for gpu in part.gpus)
        none = "no GPU: each has a closer NIC" if is_told else "no GPU that is known"
        listed = ", ".join(f"{gpu_words(gpus)} ({code})" for code, gpus in by_code.items())
        return listed or none

    details = part.nic_details
    rows = [(nic, device, details.get(nic)) for nic, device in part.nics.items()]
    columns: list[Column] = [
        ("device", "left", [printable(d) if d and d != nic_name(nic, host) else None for nic, d, _ in rows]),
        ("GB/s", "right", [f"{d.gb_per_s:g}" if d and d.gb_per_s is not None else None for _, _, d in rows]),
        ("state", "left", ["down" if d and d.is_down else "up" if d and d.is_down is False else None for _, _, d in rows]),
        ("PCIe", "left", [port_name(d.pcie) if d else None for _, _, d in rows]),
        ("NUMA", "left", [_stated(d.numa) if d else None for _, _, d in rows]),
        ("closest to", "left", [closest(nic) for nic, _, _ in rows]),
    ]
    names = [printable(nic_name(nic, host)) for nic, _, _ in rows]
    runs = _runs(len(rows), columns)
    return _table("NIC", [_names([names[k] for k in run]) for run in runs], _at(runs, columns))


def nic_codes(part: Topology) -> set[str]:
    """Return the codes that say how close NICs are in the tables of a host."""
    return {code for nics in _closest_nics(part).values() for _, code in nics}


def process_table(topology: Topology) -> tuple[Table | None, str | None]:
    """Return who holds memory of which GPU, counted over all hosts, and a sentence on those of which nothing is to be listed."""
    rows = []
    free = [gpu for gpu in topology.gpus if gpu.processes == ()]
    is_cluster = len(topology.hosts) > 1
    for gpu in topology.gpus:
        for process in gpu.processes or ():
            holds = _mib([process.memory_mib]) or "not told"
            host = [printable(gpu.host or "host")] if is_cluster else []
            rows.append((str(gpu.index), *host, str(process.pid), holds, printable(process.name or "") or "?"))
    told = f"no process on {counted(len(free), 'GPU')} of {len(topology.gpus)}" if free else None
    if free and len(free) == len(topology.gpus):
        return None, "no process holds memory of a GPU"
    if not rows:
        return None, told
    hosts = [("of host", "left")] if is_cluster else []
    table = new_table(("GPU", "right"), *hosts, ("pid", "right"), ("holds", "right"), ("command", "left"), prose=["command"])
    for row in rows[:_MOST_PROCESSES]:
        table.add_row(*row)
    if more := len(rows) - min(len(rows), _MOST_PROCESSES):
        told = "; ".join([f"{more} more process{'es' * (more > 1)}, which --json lists", *([told] if told else [])])
    return table, told


def _card(gpu: Gpu) -> str | None:
    if not gpu.is_named:
        return "not named by the source"
    return printable(gpu.name) if gpu.name else None


def _mib(amounts: Iterable[int | None]) -> str | None:
    known = [amount for amount in amounts if amount is not None]
    return f"{as_range(known)} MiB" if known else None


def as_range(values: Sequence[int]) -> str:
    """Return the least and the most of *values*: ``5``, ``5–7``."""
    least, most = min(values), max(values)
    return str(least) if least == most else f"{least}–{most}"


def _mig(mig: Mig | None) -> str | None:
    if mig is None:
        return None
    if not mig.enabled:
        return "off"
    count: dict[str, int] = {}
    for instance in mig.instances:
        profile = printable(instance.profile or _mib([instance.memory_mib]) or "?")
        count[profile] = count.get(profile, 0) + 1
    return ", ".join(f"{number} × {profile}" for profile, number in count.items()) or "on"


def _stated(text: str | None) -> str | None:
    return printable(text) if text and text != "N/A" else None


def _cpus(affinity: str | None) -> str | None:
    """Return *affinity* so that it can wrap; a long list of single CPUs is shortened."""
    if not (stated := _stated(affinity)):
        return None
    ranges = stated.split(",")
    if len(ranges) > _MOST_CPU_RANGES and all(re.fullmatch(r"\d{1,6}(-\d{1,6})?", r) for r in ranges):
        return f"{ranges[0]}, {ranges[1]} … {ranges[-1]} ({len(ranges)} ranges)"
    return ", ".join(ranges)


def _closest_nics(part: Topology) -> dict[int, list[tuple[str, str]]]:
    """
    Return for each GPU the NICs that no other NIC is closer than, with their code.

    A GPU of which some code is cut is left out where what was cut may be closer: nothing is closer than a switch in common,
    and no NIC of another PCIe root is as close as one of the GPU's own.
    """
    rank = {kind: k for k, kind in enumerate(PCIE_KINDS)}
    coded = {nic for codes in part.gpu_nic.values() for nic in codes}
    found = {}
    for gpu, codes in part.gpu_nic.items():
        level = {nic: rank[kind] for nic, code in codes.items() if (kind := _kind(code)) in rank}
        closest = min(level.values(), default=None)
        cut = coded - codes.keys()
        if cut and (closest is None or any(_least(part, gpu, nic, rank) < closest for nic in cut)):
            continue
        found[gpu] = [(nic, codes[nic]) for nic, value in level.items() if value == closest]
    return found


def _least(part: Topology, gpu: int, nic: str, rank: Mapping[LinkKind, int]) -> int:
    """Return the rank of the closest level at which *nic*, of which no code is stated, may be to *gpu*."""
    a, b = part.gpus[gpu].pcie, part.nic_details[nic].pcie if nic in part.nic_details else None
    are_apart = a is not None and b is not None and None not in (a.root, b.root) and a.root != b.root
    return rank[LinkKind.NODE if are_apart else LinkKind.PIX]


def _kind(code: str) -> LinkKind:
    return parse_code(code)[0]


def _by_code(nics: Iterable[tuple[str, str]], host: str | None) -> str | None:
    by_code: dict[str, list[str]] = {}
    for nic, code in nics:
        by_code.setdefault(code, []).append(printable(nic_name(nic, host)))
    return ", ".join(f"{_names(names)} ({code})" for code, names in by_code.items()) or None


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _MOST_NAMES else name_list(names)


def gpu_words(gpus: Sequence[int]) -> str:
    """Return *gpus* in words: ``GPU 3``, ``GPUs 0–3``."""
    return f"GPU{'s' * (len(gpus) > 1)} {spans(gpus)}"


def _table(title: str, names: Sequence[str], columns: Iterable[Column], *, unknown: str = "") -> Table:
    stated = [(name, justify, cells) for name, justify, cells in columns if any(cells)]
    table = new_table((title, "left"), *((name, justify) for name, justify, _ in stated), prose=_PROSE)
    for k, name in enumerate(names):
        table.add_row(name, *(cells[k] or unknown for _, _, cells in stated))
    return table


def _runs(count: int, columns: Sequence[Column]) -> list[list[int]]:
    """Return 0 … *count* - 1, those together that follow each other and whose cells are alike."""
    runs: list[list[int]] = []
    for k in range(count):
        if runs and all(cells[k] == cells[k - 1] for _, _, cells in columns):
            runs[-1].append(k)
        else:
            runs.append([k])
    return runs


def _at(runs: Sequence[Sequence[int]], columns: Sequence[Column]) -> list[Column]:
    return [(name, justify, [cells[run[0]] for run in runs]) for name, justify, cells in columns]
