"""
One host: its GPUs in rows, NVLink above each row, and the boxes that they hang from around them.

No link crosses a GPU or the name of a box: links stay above the GPUs, and boxes have their names at their
lower edge. GPUs of a row stand at one height, however many boxes are around each.

When to modify: where things in a host stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from placement.drawing.gpu import Face, draw_gpu
from placement.drawing.nvlink import ARC_STEP, FIRST_ARC, Bundle, arc_levels, draw_arcs, plate
from placement.drawing.shapes import Anchor, Box, Panel, Shape, Stroke, Text, TextStyle, text_width
from placement.drawing.tree import Frame, Part, depth_of, rows
from topologies.links import Link
from topologies.model import Pair

_GAP = 10
_PAD = 9
_FOOT = 23
"""Room for the name of a box at its lower edge, px."""

_HOST_PAD = 14
_HOST_HEAD = 34
_ROW_GAP = 20
_BAR = 22
_BAR_STEP = 32
_STUB = 4.0
_GUTTER = 16
"""Room at the left of a host for what joins the bars of several rows, px."""

_NAME_OVER_ARC = 17


class Cell(NamedTuple):
    """
    The box of a GPU.

    Parameters
    ----------
    width, height
        Px.
    """

    width: float
    height: float


class _Bar(NamedTuple):
    """
    The bar of a bundle over one row.

    Parameters
    ----------
    bundle
        What it stands for.
    gpus
        Those of the row.
    track
        Its height among the bars of the row, 0 is the lowest.
    reach
        How far left of the row the line stands that joins it to bars of other rows, px; None when there are none.
    """

    bundle: Bundle
    gpus: tuple[int, ...]
    track: int
    reach: float | None


class _Placed(NamedTuple):
    """The left edge of each GPU, left and right edge of each frame (outer first), and the right edge of all."""

    gpus: dict[int, float]
    frames: list[tuple[Frame, float, float]]
    right: float


class _Row:
    """
    The parts of a host that stand side by side, with what NVLink joins among them.

    Attributes
    ----------
    bars
        The bars over it.
    width, height
        Px.
    """

    def __init__(self, frame: Frame, bars: Sequence[_Bar], arcs: Mapping[Pair, Link], cell: Cell) -> None:
        self.bars = bars
        self._parts = frame.parts
        self._arcs = arcs
        self._cell = cell
        self._depth = max(depth_of(part) for part in frame.parts)
        self._clearance = _PAD * self._depth
        column = {g: k for k, g in enumerate(frame.gpus)}
        tallest = max(arc_levels(arcs.keys(), column).values(), default=-1)
        self._arcs_top = FIRST_ARC + ARC_STEP * tallest + _NAME_OVER_ARC if arcs else 0
        tracks = 1 + max((bar.track for bar in bars), default=-1)
        self._zone = self._clearance + self._arcs_top + tracks * _BAR_STEP
        self.width = self._place(0).right
        self.height = self._zone + cell.height + _FOOT * self._depth

    def bar_y(self, bar: _Bar, top: float) -> float:
        """Return the upper edge of *bar* when the row is at *top*."""
        return top + self._zone - self._clearance - self._arcs_top - _BAR_STEP * (bar.track + 1)

    def draw(self, x: float, top: float, faces: Sequence[Face]) -> list[Shape]:
        """Return the row with its upper left corner at (*x*, *top*)."""
        foot = top + self._zone
        placed = self._place(x)
        boxes = {g: Box(left, foot, *self._cell) for g, left in placed.gpus.items()}
        shapes = [s for frame, left, right in placed.frames for s in self._frame(frame, left, right, foot)]
        bars = sorted(self.bars, key=lambda bar: -bar.track)
        for bar in bars:
            shapes += self._stubs(bar, boxes, x, self.bar_y(bar, top) + _BAR / 2)
        for bar in bars:
            shapes += self._bar(bar, boxes, self.bar_y(bar, top))
        if self._arcs:
            arcs = draw_arcs(self._arcs, boxes, self._clearance)
            shapes += arcs.curves
            for name in arcs.names:
                shapes += [Panel(plate(name), "plate", radius=3), name]
        for g, box in boxes.items():
            shapes += draw_gpu(box, faces[g])
        return shapes

    def _place(self, x: float) -> _Placed:
        placed = _Placed({}, [], x)
        right = x - _GAP
        for part in self._parts:
            right = self._place_part(part, right + _GAP, placed)
        return placed._replace(right=right)

    def _place_part(self, part: Part, x: float, placed: _Placed) -> float:
        """Place *part* with its left edge at *x*; return its right edge."""
        if isinstance(part, int):
            placed.gpus[part] = x
            return x + self._cell.width
        position = len(placed.frames)
        right = x + _PAD - _GAP
        for inner in part.parts:
            right = self._place_part(inner, right + _GAP, placed)
        right = max(right + _PAD, x + 2 * _PAD + text_width(part.name, TextStyle.FRAME))
        placed.frames.insert(position, (part, x, right))
        return right

    def _frame(self, frame: Frame, left: float, right: float, foot: float) -> list[Shape]:
        top = foot - _PAD * frame.depth
        bottom = foot + self._cell.height + _FOOT * frame.depth
        return [
            Panel(Box(left, top, right - left, bottom - top), f"frame depth-{frame.depth % 2}", radius=8),
            Text(left + _PAD + 1, bottom - 7, frame.name, TextStyle.FRAME),
        ]

    def _stubs(self, bar: _Bar, boxes: Mapping[int, Box], x: float, y: float) -> list[Shape]:
        """Return the lines from the middle of *bar*, at *y*, to its GPUs and to the bars of other rows."""
        feet = [(boxes[g].middle, boxes[g].y) for g in bar.gpus]
        stubs: list[Shape] = [Stroke(((foot_x, y), (foot_x, foot_y)), _STUB) for foot_x, foot_y in feet]
        if bar.reach is not None:
            stubs.append(Stroke(((x - bar.reach, y), (feet[0][0], y)), _STUB))
        return stubs

    def _bar(self, bar: _Bar, boxes: Mapping[int, Box], y: float) -> list[Shape]:
        left = min(boxes[g].x for g in bar.gpus)
        right = max(boxes[g].right for g in bar.gpus)
        box = Box(left, y, right - left, _BAR)
        room = box.width - 2 * _PAD
        fitting = [name for name in bar.bundle.names if text_width(name, TextStyle.BAR) <= room]
        shapes: list[Shape] = [Panel(box, "bar", radius=_BAR / 2)]
        if fitting:
            shapes.append(Text(box.middle, box.y + 15.5, fitting[0], TextStyle.BAR, Anchor.MIDDLE))
        return shapes


class HostDrawing:
    """
    One host, ready to be drawn anywhere.

    Parameters
    ----------
    frame
        The host.
    bundles
        What NVLink joins on it.
    cell
        The box of a GPU.

    Attributes
    ----------
    width, height
        Px.
    """

    def __init__(self, frame: Frame, bundles: Sequence[Bundle], cell: Cell) -> None:
        self._name = frame.name
        cut = rows(frame)
        split = [b for b in bundles if sum(not set(b.gpus).isdisjoint(row.gpus) for row in cut) > 1]
        reach = {bundle.gpus: _GUTTER * (k + 0.5) for k, bundle in enumerate(split)}
        self._rows = []
        for row in cut:
            here = [b for b in bundles if not set(b.gpus).isdisjoint(row.gpus)]
            as_bars = [b for b in here if b.is_bar or b.gpus in reach]
            arcs = {pair: link for b in here if b not in as_bars for pair, link in b.links.items()}
            self._rows.append(_Row(row, _bars(row, as_bars, reach), arcs, cell))
        self._left = _HOST_PAD + _GUTTER * len(split)
        inside = max(row.width for row in self._rows)
        self.width = self._left + max(inside, text_width(self._name, TextStyle.HOST)) + _HOST_PAD
        rows_height = sum(row.height for row in self._rows) + _ROW_GAP * (len(cut) - 1)
        self.height = _HOST_HEAD + rows_height + _HOST_PAD

    def draw(self, x: float, y: float, faces: Sequence[Face]) -> list[Shape]:
        """Return the host with its upper left corner at (*x*, *y*)."""
        shapes: list[Shape] = [
            Panel(Box(x, y, self.width, self.height), "host", radius=10),
            Text(x + _HOST_PAD, y + 22, self._name, TextStyle.HOST),
        ]
        trunks: dict[float, list[float]] = {}
        inside: list[Shape] = []
        top = y + _HOST_HEAD
        for row in self._rows:
            inside += row.draw(x + self._left, top, faces)
            for bar in row.bars:
                if bar.reach is not None:
                    trunks.setdefault(x + self._left - bar.reach, []).append(row.bar_y(bar, top) + _BAR / 2)
            top += row.height + _ROW_GAP
        shapes += [Stroke(((at, heights[0]), (at, heights[-1])), _STUB) for at, heights in trunks.items()]
        return [*shapes, *inside]


def _bars(row: Frame, bundles: Sequence[Bundle], reach: Mapping[tuple[int, ...], float]) -> list[_Bar]:
    """Return the bars of *bundles* over *row*, each as low as it can be without touching another."""
    column = {g: k for k, g in enumerate(row.gpus)}
    ends: list[list[tuple[int, int]]] = []
    bars = []
    for bundle in bundles:
        gpus = tuple(sorted((g for g in bundle.gpus if g in column), key=column.__getitem__))
        left, right = -1 if bundle.gpus in reach else column[gpus[0]], column[gpus[-1]]
        track = next((k for k, t in enumerate(ends) if all(right < a or b < left for a, b in t)), len(ends))
        if track == len(ends):
            ends.append([])
        ends[track].append((left, right))
        bars.append(_Bar(bundle, gpus, track, reach.get(bundle.gpus)))
    return bars
