"""
Several hosts: boxes for the parts of the network that hosts share, and one box for many hosts that are alike.

When to modify: how hosts stand on the page, or when alike ones are drawn as one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from placement.drawing.network import Part
from placement.drawing.shapes import (
    Box,
    Panel,
    Shape,
    Text,
    TextStyle,
    fit,
    fit_middle,
    printable,
    text_width,
)
from placement.machines.hosts import HostGroup, name_list

_T = TypeVar("_T")

PAGE = 960
"""Width at which hosts wrap, px; a wider host makes a wider page."""

MOST_ALIKE_HOSTS = 4
"""That are drawn one by one; of more, `FIRST_HOSTS` are drawn and the others are named."""

FIRST_HOSTS = 3
MOST_ALIKE_DOMAINS = 2
FIRST_DOMAINS = 1
GAP = 14
_PAD = 12
_HEAD = 30
_FOLD_HEIGHT = 52
_FOLD_WIDEST = 420
_NAME_WIDEST = 600


class Block(Protocol):
    """Something on the page with a size, px."""

    @property
    def width(self) -> float:
        """Px."""

    @property
    def height(self) -> float:
        """Px."""

    def draw(self, x: float, y: float) -> list[Shape]:
        """Return it with its upper left corner at (*x*, *y*)."""


@dataclass(frozen=True, slots=True)
class Folded:
    """
    What is not drawn, mostly because it is like what stands before it.

    Parameters
    ----------
    names
        What people call them, in short.
    count
        How many there are, in words.
    why
        Why they are not drawn.
    """

    names: str
    count: str
    why: str = "the same"

    @property
    def width(self) -> float:
        """Px."""
        wanted = max(text_width(self._name, TextStyle.HOST), text_width(self.count, TextStyle.DETAIL))
        return min(wanted, _FOLD_WIDEST) + 2 * _PAD

    @property
    def height(self) -> float:
        """Px."""
        return _FOLD_HEIGHT

    @property
    def _name(self) -> str:
        return f"{self.names}: {self.why}"

    def draw(self, x: float, y: float) -> list[Shape]:
        """Return it with its upper left corner at (*x*, *y*)."""
        room = self.width - 2 * _PAD
        return [
            Panel(Box(x, y, self.width, self.height), "folded", radius=10, hint=self._name),
            Text(x + _PAD, y + 22, fit_middle(self._name, TextStyle.HOST, room), TextStyle.HOST),
            Text(x + _PAD, y + 40, fit(self.count, TextStyle.DETAIL, room), TextStyle.DETAIL),
        ]


class Around:
    """
    A box around blocks, with a name above them.

    Parameters
    ----------
    name
        What the blocks share.
    blocks
        What is in it.
    page
        Width at which they wrap, px.
    """

    def __init__(self, name: str, blocks: Sequence[Block], page: float) -> None:
        self._name = fit(name, TextStyle.HOST, _NAME_WIDEST)
        self._hint = name
        self._rows = list(flow(blocks, page - 2 * _PAD))
        inside = max(sum(b.width + GAP for b in row) - GAP for row in self._rows)
        self.width = max(inside, text_width(self._name, TextStyle.HOST)) + 2 * _PAD
        self.height = _HEAD + sum(max(b.height for b in row) + GAP for row in self._rows) - GAP + _PAD

    def draw(self, x: float, y: float) -> list[Shape]:
        """Return it with its upper left corner at (*x*, *y*)."""
        panel = Panel(Box(x, y, self.width, self.height), "domain", radius=12, hint=self._hint)
        name = Text(x + _PAD, y + 20, self._name, TextStyle.HOST)
        return [panel, name, *draw_rows(self._rows, x + _PAD, y + _HEAD)]


def flow(blocks: Sequence[Block], page: float) -> Iterator[list[Block]]:
    """Yield *blocks* in rows of at most *page* px."""
    row: list[Block] = []
    used: float = 0
    for block in blocks:
        if row and used + block.width > page:
            yield row
            row, used = [], 0
        row.append(block)
        used += block.width + GAP
    yield row


def draw_rows(rows: Sequence[Sequence[Block]], x: float, y: float) -> list[Shape]:
    """Return *rows* of blocks with their upper left corner at (*x*, *y*)."""
    shapes: list[Shape] = []
    for row in rows:
        left = x
        for block in row:
            shapes += block.draw(left, y)
            left += block.width + GAP
        y += max(block.height for block in row) + GAP
    return shapes


def shown_hosts(part: Part, groups: Sequence[HostGroup]) -> tuple[str | None, ...]:
    """Return the hosts that a drawing of *part* shows one by one."""
    return tuple(_Plan(groups).shown(part))


def blocks(
    part: Part, groups: Sequence[HostGroup], host: Callable[[str | None], Block], page: float = PAGE
) -> list[Block]:
    """
    Return *part* as blocks, without a box around all.

    Parameters
    ----------
    groups
        Hosts that are alike.
    host
        Returns the block of one.
    """
    return _Plan(groups).blocks(part, host, page)


class _Plan:
    """Which hosts and parts are drawn, and which are only named."""

    def __init__(self, groups: Sequence[HostGroup]) -> None:
        self._kind = {host: k for k, group in enumerate(groups) for host in group.hosts}
        self._size = {h: len(g) for group in groups for h, g in zip(group.hosts, group.gpus, strict=True)}

    def shown(self, part: Part) -> Iterator[str | None]:
        for parts, are_folded in self._parts(part):
            if not are_folded:
                yield from self.shown(parts[0])
        for hosts, are_folded in self._hosts(part):
            if not are_folded:
                yield hosts[0]

    def blocks(self, part: Part, host: Callable[[str | None], Block], page: float) -> list[Block]:
        found: list[Block] = []
        for parts, are_folded in self._parts(part):
            if are_folded:
                hosts = [h for other in parts for h in _all_hosts(other)]
                found.append(self._fold((other.title for other in parts), hosts))
            else:
                inside = self.blocks(parts[0], host, page - 2 * _PAD)
                found.append(Around(parts[0].name, inside, page))
        for hosts, are_folded in self._hosts(part):
            found.append(self._fold(hosts, hosts) if are_folded else host(hosts[0]))
        return found

    def _parts(self, part: Part) -> Iterator[tuple[list[Part], bool]]:
        return _folded(part.inner, self._look, MOST_ALIKE_DOMAINS, FIRST_DOMAINS)

    def _hosts(self, part: Part) -> Iterator[tuple[list[str | None], bool]]:
        return _folded(part.hosts, self._kind.__getitem__, MOST_ALIKE_HOSTS, FIRST_HOSTS)

    def _look(self, part: Part) -> Hashable:
        """Return what shows of *part* besides names."""
        inner = tuple(sorted(map(repr, map(self._look, part.inner))))
        return part.facts, tuple(sorted(self._kind[host] for host in part.hosts)), inner

    def _fold(self, names: Iterable[str | None], hosts: Sequence[str | None]) -> Folded:
        gpus = sum(self._size[host] for host in hosts)
        count = f"{len(hosts)} host{'s' * (len(hosts) != 1)}, {gpus} GPU{'s' * (gpus != 1)}"
        return Folded(printable(name_list(names)), count)


def _folded(
    items: Sequence[_T], look: Callable[[_T], Hashable], most: int, first: int
) -> Iterator[tuple[list[_T], bool]]:
    """
    Yield *items* one by one, and where more than *most* look alike the first *first* of them.

    The others stand together after the last that is drawn; the second of each pair says that they do.
    """
    alike: dict[Hashable, list[_T]] = {}
    looks = [look(item) for item in items]
    for item, seen in zip(items, looks, strict=True):
        alike.setdefault(seen, []).append(item)
    drawn: dict[Hashable, int] = {}
    for item, seen in zip(items, looks, strict=True):
        count = drawn[seen] = drawn.get(seen, 0) + 1
        others = alike[seen]
        if len(others) <= most or count <= first:
            yield [item], False
        if len(others) > most and count == first:
            yield others[first:], True


def _all_hosts(part: Part) -> Iterator[str | None]:
    yield from part.hosts
    for inner in part.inner:
        yield from _all_hosts(inner)
