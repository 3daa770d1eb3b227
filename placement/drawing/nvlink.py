"""
What NVLink joins, and how that is drawn: one bar over GPUs that all reach each other alike, or an arc per pair.

When to modify: another way to show who is joined.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from placement.drawing.shapes import Anchor, Arc, Box, Text, TextStyle
from topologies.links import DIRECT_KINDS, Link
from topologies.model import Pair, Topology
from topologies.wiring import connected

if TYPE_CHECKING:
    import networkx

    from topologies.domains import Device

MOST_ARCS = 32
"""Of one group of GPUs; beyond it no eye can follow them, and a bar says how many there are."""

FIRST_ARC = 14
"""How far the lowest arc rises above the boxes that it crosses, px."""

ARC_STEP = 24
"""How far an arc rises above those that it spans, px."""

_THIN, _THICK = 3.0, 7.0

NO_RATE = 0.0
"""GB/s of a link in a drawing when its cards, by which it would have to be computed, are not known."""
_ARC_STEPS = 32


@dataclass(frozen=True, slots=True)
class Bundle:
    """
    GPUs that NVLink joins, directly or over others.

    Parameters
    ----------
    gpus
        Ascending.
    links
        The pairs that are joined, and by what.
    switched
        Whether they are joined by an NVSwitch.
    unknown
        How many pairs of them there are whose link no source states.
    """

    gpus: tuple[int, ...]
    links: Mapping[Pair, Link]
    switched: bool
    unknown: int = 0

    @property
    def is_bar(self) -> bool:
        """Whether one bar says it better than an arc per pair."""
        alike = len({link.nvlinks for link in self.links.values()}) == 1 and self._is_complete
        return len(self.gpus) > 2 and (self.switched or alike or len(self.links) > MOST_ARCS)

    @property
    def names(self) -> tuple[str, ...]:
        """What it is, from all that there is to say to the least."""
        counts = sorted({(link.nvlinks, link.code) for link in self.links.values()})
        code = _from_to([code for _, code in counts])
        maker = "NVSwitch" if self.switched else "NVLink"
        what = f"{maker} {code}" if code.startswith("NV") else code
        speed = _speed({link.gb_per_s for link in self.links.values()})
        n = len(self.gpus)
        pairs = "all pairs" if self._is_complete else f"{len(self.links)} of {n * (n - 1) // 2} pairs"
        if self.unknown:
            pairs += f", {self.unknown} not stated"
        return (
            *([f"{what} · {pairs} · {speed}"] if speed else []),
            f"{what} · {pairs}",
            f"{code} · {pairs}",
            code,
        )

    @property
    def is_pair(self) -> bool:
        """Whether it is one link only."""
        return len(self.links) == 1

    @property
    def _is_complete(self) -> bool:
        return len(self.links) == len(self.gpus) * (len(self.gpus) - 1) // 2


def bundles(graph: networkx.Graph[Device]) -> tuple[Bundle, ...]:
    """Return the groups of GPUs that NVLink joins in the *graph* of a machine, ascending."""
    links: Mapping[Pair, Link] = graph.graph["links"]
    cards = graph.graph["cards"]
    joined = {
        pair: link if all(cards[g] is not None for g in pair) else replace(link, gb_per_s=NO_RATE)
        for pair, link in links.items()
        if link.kind in DIRECT_KINDS
    }
    topology: Topology = graph.graph["topology"]
    found = []
    for part in connected(joined):
        inside = {pair: link for pair, link in sorted(joined.items()) if pair[0] in part}
        switched = any(node[0] == "nvswitch" for g in part for node in graph["gpu", g])
        unknown = sum(topology.link(*pair) is None for pair in itertools.combinations(part, 2))
        found.append(Bundle(part, inside, switched, unknown))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Arcs:
    """
    The arcs over a row of GPUs, and what they are called.

    Parameters
    ----------
    curves
        The arcs.
    names
        One for each, except where there is no room for it.
    """

    curves: tuple[Arc, ...]
    names: tuple[Text, ...]


def plate(name: Text) -> Box:
    """Return the ground on which *name* stands out from the curve below it."""
    box = name.box
    return Box(box.x - 3, box.y - 1, box.width + 6, box.height + 2)


def rates(bundles: Sequence[Bundle], *, are_named: bool = False) -> str:
    """
    Return what the numbers at links mean, and the numbers that the links do not show themselves.

    *are_named* tells that a source names all cards: then it is the catalogue that lacks one whose links have no rate.
    """
    found: dict[tuple[int, str], set[float]] = {}
    for bundle in bundles:
        if not bundle.is_bar and not bundle.is_pair:
            for link in bundle.links.values():
                found.setdefault((link.nvlinks, link.code), set()).add(link.gb_per_s)
    codes = [f"{key[1]} {speed}" for key in sorted(found) if (speed := _speed(found[key]))]
    if not codes and not any(link.gb_per_s for bundle in bundles for link in bundle.links.values()):
        return f"what the links carry is not known: {no_rate(are_named=are_named)}"
    return f"{', '.join(codes) or 'GB/s:'} between two GPUs, one direction"


def no_rate(*, are_named: bool) -> str:
    """Return why no rate is known of links of cards; *are_named* tells that a source names them."""
    return "the catalogue has no such card" if are_named else "no source names the cards"


def arc_levels(pairs: Collection[Pair], column: Mapping[int, int]) -> dict[Pair, int]:
    """
    Return how high the arc of each of *pairs* must be: above all arcs that it spans.

    *column* tells where a GPU stands from left to right.
    """
    ends = {pair: tuple(sorted((column[pair[0]], column[pair[1]]))) for pair in pairs}
    level: dict[Pair, int] = {}
    for pair in sorted(pairs, key=lambda p: (ends[p][1] - ends[p][0], p)):
        left, right = ends[pair]
        under = [level[p] for p in level if left <= ends[p][0] and ends[p][1] <= right]
        level[pair] = 1 + max(under, default=-1)
    return level


def draw_arcs(links: Mapping[Pair, Link], gpus: Mapping[int, Box], clearance: float) -> Arcs:
    """
    Return the arcs of *links* over the boxes *gpus*, all of one height.

    Parameters
    ----------
    clearance
        Height of what the arcs pass before there is air, px.
    """
    in_order = sorted(gpus, key=lambda g: gpus[g].x)
    level = arc_levels(links.keys(), {g: k for k, g in enumerate(in_order)})
    thinnest = min(link.nvlinks for link in links.values())
    port = _ports(links.keys(), gpus)
    curves = {}
    for pair, link in links.items():
        left, right = sorted((port[pair[0], pair[1]], port[pair[1], pair[0]]))
        curves[pair] = Arc(
            left=left,
            right=right,
            foot=gpus[pair[0]].y,
            height=clearance + FIRST_ARC + ARC_STEP * level[pair],
            width=min(_THIN * link.nvlinks / thinnest, _THICK),
        )
    busy = Counter(g for pair in links for g in pair)
    names: list[Text] = []
    for pair, curve in curves.items():
        others = [c for p, c in curves.items() if p != pair]
        is_lone = all(busy[g] == 1 for g in pair)
        if name := _name(links[pair], curve, is_lone, others, names):
            names.append(name)
    return Arcs(tuple(curves.values()), tuple(names))


def _ports(pairs: Collection[Pair], gpus: Mapping[int, Box]) -> dict[Pair, float]:
    """
    Return the x at which the arc from a GPU to another leaves the first.

    Arcs to the left leave on the left, and of two on one side the longer leaves further inside: so arcs of
    one GPU never cross.
    """
    ends: dict[int, list[int]] = {}
    for a, b in pairs:
        ends.setdefault(a, []).append(b)
        ends.setdefault(b, []).append(a)
    port = {}
    for gpu, others in ends.items():
        box = gpus[gpu]
        to_left = sorted((o for o in others if gpus[o].x < box.x), key=lambda o: -gpus[o].x)
        to_right = sorted((o for o in others if gpus[o].x > box.x), key=lambda o: -gpus[o].x)
        gap = min(16, 0.8 * box.width / len(others))
        for k, other in enumerate([*to_left, *to_right]):
            port[gpu, other] = box.middle + gap * (k - (len(others) - 1) / 2)
    return port


def _name(link: Link, curve: Arc, is_lone: bool, others: Sequence[Arc], taken: Sequence[Text]) -> Text | None:
    """Return the name of *curve* where it hides least: on the curve, or above a curve that is alone."""
    code = link.code
    candidates = [_text_at(curve, t, code) for t in (0.5, 0.42, 0.58, 0.35, 0.65, 0.28, 0.72)]
    if is_lone:
        x, y = curve.point(0.5)
        words = " · ".join(filter(None, [code, _speed([link.gb_per_s])]))
        candidates.insert(0, Text(x, y - curve.width / 2 - 5, words, TextStyle.LINK, Anchor.MIDDLE))
    free = [text for text in candidates if not any(text.box.overlaps(plate(other)) for other in taken)]
    return min(free, key=lambda text: sum(_crosses(arc, plate(text)) for arc in others), default=None)


def _text_at(curve: Arc, t: float, words: str) -> Text:
    x, y = curve.point(t)
    return Text(x, y + 4, words, TextStyle.LINK, Anchor.MIDDLE)


def _crosses(arc: Arc, box: Box) -> bool:
    return any(box.contains(*arc.point(k / _ARC_STEPS)) for k in range(_ARC_STEPS + 1))


def _from_to(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]}–{names[-1]}"


def _speed(speeds: Collection[float]) -> str | None:
    """Return *speeds* in words; None when one of them is not known."""
    return f"{_from_to(_rounded(speeds))} GB/s" if all(speeds) else None


def _rounded(speeds: Collection[float]) -> list[str]:
    return [str(speed) for speed in sorted({round(speed) for speed in speeds})]
