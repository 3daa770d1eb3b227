"""
One host: its GPUs in rows, NVLink above each row, and the boxes that they hang from around them.

No link crosses a GPU or the name of a box: links stay above the GPUs, and boxes have their names at their
lower edge. GPUs of a row stand at one height, however many boxes are around each.

When to modify: where things in a host stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placement.drawing import nic
from placement.drawing.gpu import Face
from placement.drawing.nic import NicFace, draw_nics
from placement.drawing.nvlink import Bundle
from placement.drawing.row import BAR, GAP, STUB, Cell, Row, bars_over
from placement.drawing.shapes import Box, Panel, Shape, Stroke, Text, TextStyle, fit_middle, text_width
from placement.drawing.tree import Frame, rows

_HOST_PAD = 14
_HOST_HEAD = 34
_ROW_GAP = 20
_NICS_GAP = 4
_UNPLACED = "NICs whose place is not stated"
_PAD = 9
_FOOT = 23
"""Room for the name of a box at its lower edge, px."""

_GUTTER = 16
"""Room at the left of a host for what joins the bars of several rows, px."""
_WIDEST_HOST_NAME = 300
"""Of the name of a host that has not more room inside, px."""


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
        self._hint = frame.name
        self._nics = frame.nics
        self._unplaced = frame.unplaced
        self._are_bare = all(isinstance(part, int) for part in frame.parts)
        self._nic_width = cell.width
        cut = rows(frame)
        split = [b for b in bundles if sum(not set(b.gpus).isdisjoint(row.gpus) for row in cut) > 1]
        reach = {bundle.gpus: _GUTTER * (k + 0.5) for k, bundle in enumerate(split)}
        self._rows = []
        for row in cut:
            here = [b for b in bundles if not set(b.gpus).isdisjoint(row.gpus)]
            as_bars = [b for b in here if b.is_bar or b.gpus in reach]
            arcs = {pair: link for b in here if b not in as_bars for pair, link in b.links.items()}
            self._rows.append(Row(row, bars_over(row, as_bars, reach), arcs, cell))
        self._left = _HOST_PAD + _GUTTER * len(split)
        nics = nic.least_room(len(self._nics), cell.width, GAP)
        unplaced = nic.least_room(len(self._unplaced), cell.width, GAP) + 2 * _PAD if self._unplaced else 0
        inside = max(nics, unplaced, *(row.width for row in self._rows))
        self._name = fit_middle(frame.name, TextStyle.HOST, max(inside, _WIDEST_HOST_NAME))
        inside = max(inside, text_width(self._name, TextStyle.HOST))
        if self._unplaced:
            inside = max(inside, 2 * _PAD + text_width(_UNPLACED, TextStyle.FRAME))
        self.width = self._left + inside + _HOST_PAD
        self._nics_in_a_line = nic.columns(len(self._nics), inside, cell.width, GAP)
        rows_height = sum(row.height for row in self._rows) + _ROW_GAP * (len(cut) - 1)
        self._inside = inside
        self._nics_top = _HOST_HEAD + rows_height + (_NICS_GAP if self._nics else 0)
        self._unplaced_in_a_line = nic.columns(len(self._unplaced), inside - 2 * _PAD, cell.width, GAP)
        self._unplaced_top = self._nics_top + nic.height(len(self._nics), self._nics_in_a_line)
        self._unplaced_height: float = 0
        if self._unplaced:
            self._unplaced_top += _ROW_GAP / 2
            self._unplaced_height = _PAD + nic.height(len(self._unplaced), self._unplaced_in_a_line) + _FOOT
        self.height = self._unplaced_top + self._unplaced_height + _HOST_PAD

    def draw(self, x: float, y: float, faces: Sequence[Face], nics: Mapping[str, NicFace]) -> list[Shape]:
        """Return the host with its upper left corner at (*x*, *y*)."""
        shapes: list[Shape] = [
            Panel(Box(x, y, self.width, self.height), "host", radius=10, hint=self._hint),
            Text(x + _HOST_PAD, y + 22, self._name, TextStyle.HOST),
        ]
        trunks: dict[float, list[float]] = {}
        inside: list[Shape] = []
        top = y + _HOST_HEAD
        for row in self._rows:
            inside += row.draw(x + self._left, top, faces, nics)
            for bar in row.bars:
                if bar.reach is not None:
                    trunks.setdefault(x + self._left - bar.reach, []).append(row.bar_y(bar, top) + BAR / 2)
            top += row.height + _ROW_GAP
        shapes += [Stroke(((at, heights[0]), (at, heights[-1])), STUB) for at, heights in trunks.items()]
        own = [nics[name] for name in self._nics]
        left = x + self._left
        width, start = self._nic_width, 0.0
        if self._are_bare:
            width = nic.filling(self._nics_in_a_line, self._inside, GAP)
        else:
            start = nic.centred(self._nics_in_a_line, self._inside, width, GAP)
        inside += draw_nics(left + start, y + self._nics_top, width, GAP, self._nics_in_a_line, own)
        return [*shapes, *inside, *self._draw_unplaced(left, y + self._unplaced_top, nics)]

    def _draw_unplaced(self, x: float, y: float, nics: Mapping[str, NicFace]) -> list[Shape]:
        """Return a box apart, with its upper left corner at (*x*, *y*): below a GPU, a NIC would seem to belong to it."""
        if not self._unplaced:
            return []
        in_a_line = self._unplaced_in_a_line
        least = text_width(_UNPLACED, TextStyle.FRAME)
        width = 2 * _PAD + max(in_a_line * (self._nic_width + GAP) - GAP, least)
        return [
            Panel(Box(x, y, width, self._unplaced_height), "frame unplaced", radius=8),
            Text(x + _PAD + 1, y + self._unplaced_height - 7, _UNPLACED, TextStyle.FRAME),
            *draw_nics(x + _PAD, y + _PAD / 2, self._nic_width, GAP, in_a_line, [nics[name] for name in self._unplaced]),
        ]
