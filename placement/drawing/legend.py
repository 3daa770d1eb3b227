"""
The legend: where each role runs, and what the numbers mean.

When to modify: something in a drawing needs explaining.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from placement.drawing.gpu import CHIP, chip_width, draw_chip
from placement.drawing.roles import Tenant, colours, spans
from placement.drawing.shapes import Box, Shape, Text, TextStyle, fit, text_width

_STEP = 27
_NOTE_STEP = 18
_LONGEST = 300
"""Of a chip, of the words beside it and of a line that wraps, at least, px."""

_NARROWEST_NOTE = 420
"""At least of a note before it wraps, px."""

_BESIDE = 6
_BETWEEN = 20


class Legend(NamedTuple):
    """
    A legend.

    Parameters
    ----------
    shapes
        What it is made of.
    right, bottom
        Its edges, px.
    """

    shapes: tuple[Shape, ...]
    right: float
    bottom: float


def draw_legend(
    roles: Mapping[str, Sequence[int]], notes: Sequence[str], left: float, top: float, right: float
) -> Legend:
    """Return the legend of *roles*, wrapped at *right*, and below it *notes*, each on a line of its own."""
    shapes: list[Shape] = []
    edge, limit = left, max(right, left + _LONGEST)
    x, y = left, top
    colour = colours(roles)
    for name, gpus in roles.items():
        tenant = Tenant(name, colour[name], None)
        chip = Box(x, y, min(chip_width(tenant), _LONGEST), CHIP)
        where = f"GPU{'s' * (len(gpus) != 1)} {spans(gpus) or 'none'}"
        words = Text(chip.right + _BESIDE, y + 14, fit(where, TextStyle.LEGEND, _LONGEST), TextStyle.LEGEND)
        if x > left and words.box.right > limit:
            y += _STEP
            chip = chip._replace(x=left, y=y)
            words = replace(words, x=chip.right + _BESIDE, baseline=y + 14)
        shapes += [*draw_chip(chip, tenant), words]
        edge = max(edge, words.box.right)
        x = words.box.right + _BETWEEN
    bottom = y + CHIP if roles else top - _BETWEEN / 2
    for note_line in (piece for note in notes for piece in _lines(note, max(limit - left, _NARROWEST_NOTE))):
        line = Text(left, bottom + _NOTE_STEP, note_line, TextStyle.LEGEND)
        shapes.append(line)
        edge, bottom = max(edge, line.box.right), bottom + _NOTE_STEP
    return Legend(tuple(shapes), edge, bottom)


def _lines(note: str, room: float) -> list[str]:
    """Return *note* in lines of at most *room* px; a word that is longer is cut."""
    lines: list[str] = []
    for word in note.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, TextStyle.LEGEND) <= room:
            lines[-1] = longer
        else:
            lines.append(fit(word, TextStyle.LEGEND, room))
    return lines
