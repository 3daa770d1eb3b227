"""
How the GPUs of one host are linked: islands, the matrix of links, or the PCIe levels where no source tells of NVLink.

When to modify: another source tells in part how GPUs are linked.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import RenderableType

from placement.cli.facts import gpu_words, nic_codes
from placement.cli.matrix import legend, matrix, pair_words, peer_access
from placement.cli.table import counted
from placement.cli.wrap import wrapped
from placement.drawing.roles import spans
from placement.drawing.shapes import printable
from topologies.domains import amd_hosts, is_pcie_only, islands
from topologies.links import DIRECT_KINDS, PCIE_KINDS, LinkKind, parse_code
from topologies.model import Pair, Topology
from topologies.paths import pcie_levels
from topologies.peer import blocked, summary
from topologies.peer_kinds import all_kinds


@dataclass(frozen=True, slots=True)
class _Maker:
    """What a maker of GPUs calls the links between them, and what prints them."""

    link: str
    ask: str


_RANK = {kind: rank for rank, kind in enumerate(PCIE_KINDS)}

_NVIDIA = _Maker("NVLink", "join `nvidia-smi topo -m`")
_AMD = _Maker("XGMI", "join `rocm-smi --showtopo`")


def linkage(part: Topology, width: int) -> Iterator[RenderableType]:
    """Yield what is known of the links of *part*, a machine of one host."""
    maker = _AMD if amd_hosts(part) else _NVIDIA
    unknown = f"islands: not known, {maker.link} is not stated"
    if part.links and not is_pcie_only(part):
        together = islands(part)
        yield wrapped(_islands(part, together, maker.link), width)
        yield ""
        yield matrix(part, together, width)
        under = _under_direct_links(part)
        yield wrapped(legend(part, together, others={*nic_codes(part), *under}), width)
        if under:
            listed = ", ".join(f"{code} between {pair_words(pairs)}" for code, pairs in under.items())
            yield wrapped(printable(f"the PCIe paths under {maker.link}: {listed}"), width)
    elif part.links:
        yield wrapped(f"{unknown} (`topo -mp` shows PCIe paths only; {maker.ask})", width)
        yield from _levels(part, part.links, width)
    elif levels := pcie_levels(part):
        yield wrapped(f"{unknown}; the PCIe levels are those of the bridges above the GPUs ({maker.ask})", width)
        yield from _levels(part, levels, width)
    elif len(part.gpus) > 1:
        yield "how the GPUs are linked is not stated"
    yield from (wrapped(sentence, width) for sentence in _peer_to_peer(part))


def _peer_to_peer(part: Topology) -> Iterator[str]:
    """Yield what turns peer-to-peer copies off: in the words of plans, or state by state where these would shorten it."""
    off = blocked(part)
    gpus = range(len(part.gpus))
    told = summary(off, gpus)
    if told is None or not ("…" in told or "more like it" in told):
        yield from [] if told is None else [printable(told)]
        yield from peer_access(part, without=off)
        return
    states = {(pair, state) for kind in all_kinds(part).values() for pair, state in kind.items()}
    others = {pair: why for pair, why in off.items() if (pair, why.partition(":")[0]) not in states}
    if (rest := summary(others, gpus)) is not None:
        yield printable(rest)
    yield from peer_access(part, over_host=off)


def _under_direct_links(part: Topology) -> dict[str, list[Pair]]:
    """Return how close over PCIe pairs are that a direct link joins, as far as it is stated: code → pairs, closest first."""
    found: dict[str, list[Pair]] = {}
    for pair, code in sorted(pcie_levels(part).items()):
        if parse_code(part.link(*pair))[0] in DIRECT_KINDS:
            found.setdefault(code, []).append(pair)
    return dict(sorted(found.items(), key=lambda item: _RANK.get(parse_code(item[0])[0], len(_RANK))))


def has_matrix(part: Topology) -> bool:
    """Whether `linkage` yields a matrix of *part*, and explains the codes in it and in the tables below."""
    return bool(part.links or pcie_levels(part))


def _levels(part: Topology, levels: Mapping[Pair, str], width: int) -> Iterator[RenderableType]:
    shown = part.replace(links=levels)
    are_apart = all(_have_roots_apart(part, pair) for pair in _pairs(part) if pair not in levels)
    unknown = "over the CPU, NODE or SYS is not stated" if are_apart else "not stated"
    yield ""
    yield matrix(shown, (), width)
    yield wrapped(f"PCIe levels · {legend(shown, (), others=nic_codes(part), unknown=unknown)}", width)


def _have_roots_apart(part: Topology, pair: Pair) -> bool:
    a, b = (part.gpus[g].pcie for g in pair)
    return a is not None and b is not None and None not in (a.root, b.root) and a.root != b.root


def _pairs(part: Topology) -> Iterator[Pair]:
    return itertools.combinations(range(len(part.gpus)), 2)


def _islands(part: Topology, groups: Sequence[Sequence[int]], link: str) -> str:
    """
    Return the islands of more than one GPU, which *link* joins; the GPUs that are in none.

    What is not stated denies nothing: a GPU is alone where all its links are known, and none of them is direct.
    """
    kinds = {pair: parse_code(part.link(*pair))[0] for pair in _pairs(part)}
    gaps = [pair for pair, kind in kinds.items() if kind is LinkKind.UNKNOWN]
    in_doubt = {g for pair in gaps for g in pair}
    linked = {g for pair, kind in kinds.items() if kind in DIRECT_KINDS for g in pair}
    not_stated = f"{counted(len(gaps), 'pair')} {'is' if len(gaps) == 1 else 'are'} not stated"
    joined = ", ".join("{" + spans(island) + "}" for island in groups if len(island) > 1)
    if not joined and gaps:
        return f"islands: none that is stated; {not_stated}"
    if not joined:
        return f"islands: none, no two GPUs are joined by {link}"
    single = [g for island in groups if len(island) == 1 for g in island]
    others = {
        "alone": [g for g in single if g not in in_doubt and g not in linked],
        "in no island": [g for g in single if g not in in_doubt and g in linked],
        "not known": [g for g in single if g in in_doubt],
    }
    rest = [f"{what}: {gpu_words(gpus)}" for what, gpus in others.items() if gpus]
    return "; ".join([f"islands, joined by {link}: {joined}", *rest])
