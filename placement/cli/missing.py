"""
What planning needs and no source states, and where it can be had.

When to modify: planning needs another fact, or another command tells one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from placement.cli.facts import gpu_words
from placement.cli.table import counted
from topologies.cards import card_of
from topologies.domains import amd_hosts, is_pcie_only
from topologies.model import Gpu, Topology


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
    ask = "rocm-smi --showproductname --showmeminfo vram" if is_amd else "nvidia-smi -q"
    yield f"{words} (join `{ask}`, or say --gpu)"


def _links(topology: Topology, gpus: list[Gpu], *, is_amd: bool) -> Iterator[str]:
    """Yield what is not stated of the links of *gpus*, which are of one maker."""
    sizes = Counter(gpu.host for gpu in gpus)
    total = sum(n * (n - 1) // 2 for n in sizes.values())
    hosts = [gpu.host for gpu in topology.gpus]
    stated = sum(hosts[i] == hosts[j] and hosts[i] in sizes for i, j in topology.links)
    ask = f"join `{'rocm-smi --showtopo' if is_amd else 'nvidia-smi topo -m'}`"
    if total and is_pcie_only(topology) and stated == total:
        if any(card is None or card.nvlink_gen for card in map(card_of, gpus)):
            yield f"NVLinks ({ask})"
    elif stated < total:
        is_all = not stated and len(gpus) == len(topology.gpus)
        yield f"links ({ask})" if is_all else f"links of {counted(total - stated, 'pair')} of GPUs ({ask})"
