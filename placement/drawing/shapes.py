"""
What a picture is made of: rectangles, texts and curves with a place, no colours.

Text is measured without a font, from above: a viewer may substitute any font for another, and words must not
run out of their boxes in the widest of them.

When to modify: a new shape, or a new style of text.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

ELLIPSIS = "…"


class Box(NamedTuple):
    """
    An upright rectangle, px; y grows downwards.

    Parameters
    ----------
    x, y
        The upper left corner.
    width, height
        Its size.
    """

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """The x of the right edge."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The y of the lower edge."""
        return self.y + self.height

    @property
    def middle(self) -> float:
        """The x half way between the edges."""
        return self.x + self.width / 2

    def overlaps(self, other: Box) -> bool:
        """Whether the two share more than an edge."""
        return (
            self.x < other.right and other.x < self.right and self.y < other.bottom and other.y < self.bottom
        )

    def contains(self, x: float, y: float) -> bool:
        """Whether the point is inside."""
        return self.x < x < self.right and self.y < y < self.bottom


class Font(NamedTuple):
    """
    Size and weight of a text.

    Parameters
    ----------
    size
        Of an em, px.
    bold
        Whether it is semi-bold.
    """

    size: int
    bold: bool = False


class TextStyle(StrEnum):
    """What a text is; also its class in the style sheet."""

    TITLE = "title"
    HOST = "host-name"
    FRAME = "frame-name"
    GPU = "gpu-name"
    DETAIL = "detail"
    NIC = "nic-name"
    CHIP = "chip"
    LINK = "link-name"
    BAR = "bar-name"
    LEGEND = "legend"


FONTS = {
    TextStyle.TITLE: Font(17, bold=True),
    TextStyle.HOST: Font(13, bold=True),
    TextStyle.FRAME: Font(11),
    TextStyle.GPU: Font(13, bold=True),
    TextStyle.DETAIL: Font(11),
    TextStyle.NIC: Font(11),
    TextStyle.CHIP: Font(11, bold=True),
    TextStyle.LINK: Font(11, bold=True),
    TextStyle.BAR: Font(12, bold=True),
    TextStyle.LEGEND: Font(12),
}


class Anchor(StrEnum):
    """Which part of a text stands at its x."""

    START = "start"
    MIDDLE = "middle"
    END = "end"


@dataclass(frozen=True, slots=True)
class Text:
    """
    One line of text.

    Parameters
    ----------
    x, baseline
        Where its anchor stands, px.
    words
        What it says, as it is; escaping is the writer's.
    style
        Decides font and colour.
    anchor
        Which part of it stands at *x*.
    role
        Place in the palette of the role on whose colour it stands, if any.
    """

    x: float
    baseline: float
    words: str
    style: TextStyle
    anchor: Anchor = Anchor.START
    role: int | None = None

    @property
    def box(self) -> Box:
        """The room that it takes, from above."""
        width = text_width(self.words, self.style)
        size = FONTS[self.style].size
        left = {Anchor.START: 0.0, Anchor.MIDDLE: width / 2, Anchor.END: width}[self.anchor]
        return Box(self.x - left, self.baseline - 0.8 * size, width, size)


@dataclass(frozen=True, slots=True)
class Panel:
    """
    A filled rectangle.

    Parameters
    ----------
    box
        Where.
    kind
        Its class in the style sheet.
    radius
        Of its corners, px.
    role
        Place in the palette of the role whose colour it has, if any.
    hint
        What a viewer shows on hovering.
    """

    box: Box
    kind: str
    radius: float = 0
    role: int | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Stroke:
    """
    Straight lines along points.

    Parameters
    ----------
    points
        (x, y), at least two.
    width
        Of the line, px.
    """

    points: tuple[tuple[float, float], ...]
    width: float


@dataclass(frozen=True, slots=True)
class Arc:
    """
    A curve from one point to another at the same height, through the air above them.

    Parameters
    ----------
    left, right
        The x of its ends.
    foot
        The y of both.
    height
        How far its top is above *foot*, px.
    width
        Of the line, px.
    """

    left: float
    right: float
    foot: float
    height: float
    width: float

    def point(self, t: float) -> tuple[float, float]:
        """Return where it is at *t* of its way, 0 … 1: a cubic Bézier curve with upright ends."""
        x = self.left + (self.right - self.left) * t * t * (3 - 2 * t)
        return x, self.foot - 4 * self.height * t * (1 - t)


Shape: TypeAlias = Panel | Stroke | Arc | Text


@dataclass(frozen=True, slots=True)
class Picture:
    """
    A drawing of a machine.

    Parameters
    ----------
    width, height
        Px.
    shapes
        In the order in which they are painted.
    caption
        What it shows, in a few words.
    description
        The same in sentences, for those who cannot see it.
    """

    width: float
    height: float
    shapes: tuple[Shape, ...]
    caption: str
    description: str


def text_width(words: str, style: TextStyle) -> float:
    """Return the width of *words* in px, from above: DejaVu Sans, the widest usual font, has less."""
    font = FONTS[style]
    return sum(map(_em, words)) * font.size * (1.12 if font.bold else 1)


def fit(words: str, style: TextStyle, width: float) -> str:
    """Return *words*, cut with an ellipsis where they are wider than *width* px; "" if not even that fits."""
    if text_width(words, style) <= width:
        return words
    head = _beginning(words, style, width - text_width(ELLIPSIS, style))
    return head.rstrip() + ELLIPSIS if head else ""


def fit_middle(words: str, style: TextStyle, width: float) -> str:
    """Return *words*, with an ellipsis in their middle where they are wider than *width* px: names differ at their ends."""
    if text_width(words, style) <= width:
        return words
    half = (width - text_width(ELLIPSIS, style)) / 2
    head, tail = _beginning(words, style, half), _beginning(words[::-1], style, half)[::-1]
    return f"{head.rstrip()}{ELLIPSIS}{tail.lstrip()}" if head and tail else fit(words, style, width)


def printable(words: str) -> str:
    """Return *words* in one line, with what no XML may contain or no one can see replaced."""
    return "".join(c if c.isprintable() else "�" for c in " ".join(words.split()))


def _beginning(words: str, style: TextStyle, width: float) -> str:
    """Return as many of the first characters of *words* as fit in *width* px."""
    end = 0
    while end < len(words) and (width := width - text_width(words[end], style)) >= 0:
        end += 1
    return words[:end]


def _em(character: str) -> float:
    """Return the width of *character* in em, from above."""
    if character in "iljI.,:;'|!()[] -/·tfr":
        return 0.42
    if character in "mwMW@%…—" or unicodedata.east_asian_width(character) in "WF":
        return 1.0
    if character.isascii() and not character.isupper():
        return 0.65
    return 0.8
