"""
What planning needs and no source states, and where it can be had.

When to modify: planning needs another fact, or another command tells one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from placement.cli.facts import gpu_words
from placement.cli.table import counted
from placement.drawing.shapes import printable
from placement.machines.hosts import name_list
from topologies.cards import card_of
from topologies.domains import amd_hosts, is_pcie_only
from topologies.model import Gpu, Topology
from topologies.paths import pcie_levels


def missing(topology: Topology) -> str | None:
    """Return in one line what planning needs and *topology* does not tell; None when it tells all."""
    amd = amd_hosts(topology)
    makers = [[gpu for gpu in topology.gpus if (gpu.host in amd) == is_amd] for is_amd in (False, True)]
    needed = [part for is_amd, gpus in enumerate(makers) if gpus for part in _cards(topology, gpus, is_amd=bool(is_amd))]
    needed += [part for is_amd, gpus in enumerate(makers) if gpus for part in _links(topology, gpus, is_amd=bool(is_amd))]
    return f"not stated: {'; '.join(needed)}" if needed else None


def _cards(topology: Topology, gpus: list[Gpu], *, is_amd: bool) -> Iterator[str]:
    """Yield what is not stated of the cards of *gpus*, which are of one maker."""
    nameless = [gpu.index for gpu in gpus if gpu.name is None]
    if not nameless:
        return
    lacks = {"cards": nameless}
    if any(topology.gpus[g].memory_mib is None for g in nameless):
        lacks["memory"] = [gpu.index for gpu in gpus if gpu.memory_mib is None]

    def of(indices: list[int]) -> str:
        return "" if len(indices) == len(topology.gpus) else f" of {gpu_words(indices)}"

    if len({of(indices) for indices in lacks.values()}) == 1:
        words = f"{', '.join(lacks)}{of(nameless)}"
    else:
        words = ", ".join(f"{what}{of(indices)}" for what, indices in lacks.items())
    ask = "`rocm-smi --showproductname --showmeminfo vram`" if is_amd else "`nvidia-smi -q`"
    is_cut = not is_amd and not {"q-text", "q-xml"}.isdisjoint(topology.formats)  # it was joined, and does not show them
    yield f"{words} (join {'the whole of ' * is_cut}{ask}, or say --gpu)"


def _links(topology: Topology, gpus: list[Gpu], *, is_amd: bool) -> Iterator[str]:
    """Yield what is not stated of the links of *gpus*, which are of one maker: all of a link, or only whether it is more than PCIe."""
    of_host: dict[str | None, list[Gpu]] = {}
    for gpu in gpus:
        of_host.setdefault(gpu.host, []).append(gpu)
    pairs = [(a.index, b.index) for some in of_host.values() for a, b in itertools.combinations(some, 2)]
    ask = f"join `{'rocm-smi --showtopo' if is_amd else 'nvidia-smi topo -m'}`"
    maker = "XGMI links" if is_amd else "NVLinks"
    levels = topology.links if is_pcie_only(topology) else pcie_levels(topology)
    unknown = [pair for pair in pairs if pair not in topology.links or levels is topology.links]
    may_be_linked = {gpu.index for gpu in gpus if (card := card_of(gpu)) is None or card.nvlink_gen or is_amd}
    lacks = {
        "links": [pair for pair in unknown if pair not in levels],
        maker: [pair for pair in unknown if pair in levels and may_be_linked.issuperset(pair)],
    }
    for what, some in lacks.items():
        if some:
            hosts = list(dict.fromkeys(topology.gpus[i].host for i, _ in some))
            is_all = len(some) == len(pairs) and len(gpus) == len(topology.gpus)
            of_pairs = "" if is_all else f" of {counted(len(some), 'pair')} of GPUs"
            where = f" on {printable(name_list(hosts))}" if len(hosts) < len(topology.hosts) else ""
            yield f"{what}{of_pairs}{where} ({ask})"
