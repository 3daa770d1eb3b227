"""
What planning needs and no source states, and where it can be had.

When to modify: planning needs another fact, or another command tells one.
"""

from __future__ import annotations

from collections import Counter

from placement.cli.facts import gpu_words
from placement.cli.table import counted
from topologies.cards import card_of
from topologies.domains import is_pcie_only
from topologies.links import LinkKind, parse_code
from topologies.model import Topology


def missing(topology: Topology) -> str | None:
    """Return in one line what planning needs and *topology* does not tell; None when it tells all."""
    is_amd = topology.format.startswith("rocm") or any(parse_code(c)[0] is LinkKind.XGMI for c in topology.links.values())
    needed = [part for part in (_cards(topology, is_amd=is_amd), _links(topology, is_amd=is_amd)) if part is not None]
    return f"not stated: {'; '.join(needed)}" if needed else None


def _cards(topology: Topology, *, is_amd: bool) -> str | None:
    nameless = [gpu for gpu in topology.gpus if gpu.name is None]
    if not nameless:
        return None
    what = "cards, memory" if any(gpu.memory_mib is None for gpu in nameless) else "cards"
    of = "" if len(nameless) == len(topology.gpus) else f" of {gpu_words([gpu.index for gpu in nameless])}"
    ask = "rocm-smi --showproductname --showmeminfo vram" if is_amd else "nvidia-smi -q"
    return f"{what}{of} (join `{ask}`, or say --gpu)"


def _links(topology: Topology, *, is_amd: bool) -> str | None:
    sizes = Counter(gpu.host for gpu in topology.gpus)
    total = sum(n * (n - 1) // 2 for n in sizes.values())
    stated = sum(topology.gpus[i].host == topology.gpus[j].host for i, j in topology.links)
    ask = f"join `{'rocm-smi --showtopo' if is_amd else 'nvidia-smi topo -m'}`"
    if total and is_pcie_only(topology) and stated == total:
        can_have = any(card is None or card.nvlink_gen for card in map(card_of, topology.gpus))
        return f"NVLinks ({ask})" if can_have else None
    if stated == total:
        return None
    return f"links ({ask})" if not stated else f"links of {counted(total - stated, 'pair')} of GPUs ({ask})"
