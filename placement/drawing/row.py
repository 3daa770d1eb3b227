"""
A row of a host: GPUs side by side, NVLink above them, and the boxes that they hang from around them.

When to modify: where things in a row stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from placement.drawing import nic
from placement.drawing.gpu import Face, draw_gpu
from placement.drawing.nic import NicFace, draw_nics
from placement.drawing.nvlink import ARC_STEP, FIRST_ARC, Bundle, arc_levels, draw_arcs, plate
from placement.drawing.shapes import (
    Anchor,
    Box,
    Panel,
    Shape,
    Stroke,
    Text,
    TextStyle,
    text_width,
)
from placement.drawing.tree import Frame, Part, depth_of
from topologies.links import Link
from topologies.model import Pair

GAP = 10
"""Between GPUs, and between NICs, px."""

_PAD = 9
_FOOT = 23
"""Room for the name of a box at its lower edge, px."""

BAR = 22
_BAR_STEP = 32
STUB = 4.0

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


class Bar(NamedTuple):
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


class _Edges(NamedTuple):
    """The left and right edge of a frame, and how far its lower edge is below the GPUs, px."""

    left: float
    right: float
    below: float


class _Placed(NamedTuple):
    """The left edge of each GPU, the edges of each frame (outer first), and the right edge of all."""

    gpus: dict[int, float]
    frames: list[tuple[Frame, _Edges]]
    right: float


class Row:
    """
    The parts of a host that stand side by side, with what NVLink joins among them.

    Attributes
    ----------
    bars
        The bars over it.
    width, height
        Px.
    """

    def __init__(self, frame: Frame, bars: Sequence[Bar], arcs: Mapping[Pair, Link], cell: Cell) -> None:
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
        self.height = self._zone + cell.height + max(map(self._below, self._parts))

    def bar_y(self, bar: Bar, top: float) -> float:
        """Return the upper edge of *bar* when the row is at *top*."""
        return top + self._zone - self._clearance - self._arcs_top - _BAR_STEP * (bar.track + 1)

    def draw(self, x: float, top: float, faces: Sequence[Face], nics: Mapping[str, NicFace]) -> list[Shape]:
        """Return the row with its upper left corner at (*x*, *top*)."""
        foot = top + self._zone
        placed = self._place(x)
        boxes = {g: Box(left, foot, *self._cell) for g, left in placed.gpus.items()}
        shapes = [s for frame, edges in placed.frames for s in self._frame(frame, edges, foot, nics)]
        bars = sorted(self.bars, key=lambda bar: -bar.track)
        for bar in bars:
            shapes += self._stubs(bar, boxes, x, self.bar_y(bar, top) + BAR / 2)
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
        right = x - GAP
        below = max(map(self._below, self._parts))
        for part in self._parts:
            right = self._place_part(part, right + GAP, below, placed)
        return placed._replace(right=right)

    def _place_part(self, part: Part, x: float, below: float, placed: _Placed) -> float:
        """Place *part* with its left edge at *x*, a frame down to *below* the GPUs; return its right edge."""
        if isinstance(part, int):
            placed.gpus[part] = x
            return x + self._cell.width
        position = len(placed.frames)
        right = x + _PAD - GAP
        inner = below - _FOOT - self._nics_height(part)
        for piece in part.parts:
            right = self._place_part(piece, right + GAP, inner, placed)
        right = max(right + _PAD, x + self._least_width(part))
        placed.frames.insert(position, (part, _Edges(x, right, below)))
        return right

    def _least_width(self, frame: Frame) -> float:
        """Return what the name and the NICs of *frame* take, px."""
        name = text_width(frame.name, TextStyle.FRAME)
        return 2 * _PAD + max(name, nic.least_room(len(frame.nics), self._cell.width, GAP))

    def _width(self, part: Part) -> float:
        if isinstance(part, int):
            return self._cell.width
        inside = sum(map(self._width, part.parts)) + GAP * (len(part.parts) - 1)
        return max(inside + 2 * _PAD, self._least_width(part))

    def _in_a_line(self, frame: Frame) -> int:
        """Return how many NICs of *frame* stand side by side."""
        return nic.columns(len(frame.nics), self._width(frame) - 2 * _PAD, self._cell.width, GAP)

    def _nics_height(self, frame: Frame) -> float:
        return nic.height(len(frame.nics), self._in_a_line(frame)) if frame.nics else 0

    def _below(self, part: Part) -> float:
        """Return how far *part* reaches below the GPUs, px."""
        if isinstance(part, int):
            return 0
        return max(map(self._below, part.parts)) + self._nics_height(part) + _FOOT

    def _frame(self, frame: Frame, edges: _Edges, foot: float, nics: Mapping[str, NicFace]) -> list[Shape]:
        top = foot - _PAD * frame.depth
        bottom = foot + self._cell.height + edges.below
        left = edges.left
        faces = [nics[name] for name in frame.nics]
        in_a_line = self._in_a_line(frame)
        room, width, start = edges.right - left - 2 * _PAD, self._cell.width, 0.0
        if all(isinstance(part, int) for part in frame.parts):
            width = nic.filling(in_a_line, room, GAP)
            strip = foot + self._cell.height  # right below the GPUs, also where a taller box beside stretches this one
        else:
            start = nic.centred(in_a_line, room, width, GAP)
            strip = bottom - _FOOT - self._nics_height(frame)
        return [
            Panel(Box(left, top, edges.right - left, bottom - top), f"frame depth-{frame.depth % 2}", radius=8),
            Text(left + _PAD + 1, bottom - 7, frame.name, TextStyle.FRAME),
            *draw_nics(left + _PAD + start, strip, width, GAP, in_a_line, faces),
        ]

    def _stubs(self, bar: Bar, boxes: Mapping[int, Box], x: float, y: float) -> list[Shape]:
        """Return the lines from the middle of *bar*, at *y*, to its GPUs and to the bars of other rows."""
        feet = [(boxes[g].middle, boxes[g].y) for g in bar.gpus]
        stubs: list[Shape] = [Stroke(((foot_x, y), (foot_x, foot_y)), STUB) for foot_x, foot_y in feet]
        if bar.reach is not None:
            stubs.append(Stroke(((x - bar.reach, y), (feet[0][0], y)), STUB))
        return stubs

    def _bar(self, bar: Bar, boxes: Mapping[int, Box], y: float) -> list[Shape]:
        left = min(boxes[g].x for g in bar.gpus)
        right = max(boxes[g].right for g in bar.gpus)
        box = Box(left, y, right - left, BAR)
        room = box.width - 2 * _PAD
        fitting = [name for name in bar.bundle.names if text_width(name, TextStyle.BAR) <= room]
        shapes: list[Shape] = [Panel(box, "bar", radius=BAR / 2)]
        if fitting:
            shapes.append(Text(box.middle, box.y + 15.5, fitting[0], TextStyle.BAR, Anchor.MIDDLE))
        return shapes


def bars_over(row: Frame, bundles: Sequence[Bundle], reach: Mapping[tuple[int, ...], float]) -> list[Bar]:
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
        bars.append(Bar(bundle, gpus, track, reach.get(bundle.gpus)))
    return bars
