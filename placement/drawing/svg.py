"""
A picture as SVG: one text without scripts, fonts or addresses, the same bytes for the same picture.

The colours of roles are the palette of Okabe and Ito ("Color Universal Design", 2008), which people with any
kind of colour vision tell apart; names stand on them, so that they read in grey as well.

When to modify: colours, or the way in which a shape is written.
"""

from __future__ import annotations

from typing import assert_never
from xml.sax.saxutils import escape, quoteattr

from placement.drawing.shapes import FONTS, Anchor, Arc, Panel, Picture, Shape, Stroke, Text, TextStyle

PALETTE = ("#0072b2", "#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#f0e442", "#999999")

_FONTS = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"

_LIGHT = {
    "page": "#ffffff",
    "host": "#f6f8fa",
    "frame": "#eaeef2",
    "inner": "#dde3e9",
    "gpu": "#ffffff",
    "nic": "#d5e3ee",
    "edge": "#c5ccd3",
    "gpu-edge": "#8c959f",
    "ink": "#1f2328",
    "muted": "#59636e",
    "link": "#3d4853",
    "on-link": "#ffffff",
}

_DARK = {
    "page": "#0d1117",
    "host": "#151b23",
    "frame": "#1f2730",
    "inner": "#2a333d",
    "gpu": "#0d1117",
    "nic": "#24394a",
    "edge": "#3d444d",
    "gpu-edge": "#656c76",
    "ink": "#f0f6fc",
    "muted": "#9aa4af",
    "link": "#b7c0ca",
    "on-link": "#0d1117",
}


def to_svg(picture: Picture) -> str:
    """Return *picture* as an SVG document in light and dark, as the viewer prefers."""
    width, height = _number(picture.width), _number(picture.height)
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    # The label as well: some readers know no title inside an image, and several images on a page must not share ids.
    label = quoteattr(picture.caption)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="machine" {size} role="img" aria-label={label}>',
        f"<title>{escape(picture.caption)}</title>",
        f"<desc>{escape(picture.description)}</desc>",
        "<style>",
        *_style(),
        "</style>",
        '<rect class="page" width="100%" height="100%"/>',
        *map(_element, picture.shapes),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _style() -> list[str]:
    fonts = [
        f".machine .{style}{{font-size:{font.size}px;font-weight:{600 if font.bold else 400}}}"
        for style, font in FONTS.items()
    ]
    roles = [
        rule
        for place, colour in enumerate(PALETTE)
        for rule in (
            f".machine .role-{place}{{fill:{colour}}}",
            f".machine .on-role-{place}{{fill:{_ink_on(colour)}}}",
        )
    ]
    return [
        f".machine{{font-family:{_FONTS}}}",
        ".machine .stroke{fill:none;stroke-linecap:round}",
        ".machine .idle,.machine .folded,.machine .unplaced{stroke-dasharray:4 3}",
        *fonts,
        *_colours(_LIGHT),
        "@media (prefers-color-scheme:dark){",
        *_colours(_DARK),
        "}",
        *roles,
    ]


def _colours(theme: dict[str, str]) -> list[str]:
    # No CSS variables: several viewers of SVG know none.
    rules = {
        ".page": f"fill:{theme['page']}",
        ".host": f"fill:{theme['host']};stroke:{theme['edge']}",
        ".depth-1": f"fill:{theme['frame']};stroke:{theme['edge']}",
        ".depth-0": f"fill:{theme['inner']};stroke:{theme['edge']}",
        ".gpu": f"fill:{theme['gpu']};stroke:{theme['gpu-edge']}",
        ".nic": f"fill:{theme['nic']};stroke:{theme['gpu-edge']}",
        ".unplaced": f"fill:none;stroke:{theme['gpu-edge']}",
        ".domain": f"fill:none;stroke:{theme['muted']}",
        ".folded": f"fill:{theme['host']};stroke:{theme['gpu-edge']}",
        ".plate": f"fill:{theme['host']}",
        ".bar": f"fill:{theme['link']}",
        ".stroke": f"stroke:{theme['link']}",
        "text": f"fill:{theme['ink']}",
        f".{TextStyle.FRAME},.machine .{TextStyle.DETAIL},.machine .{TextStyle.LEGEND}": f"fill:{theme['muted']}",
        f".{TextStyle.BAR}": f"fill:{theme['on-link']}",
    }
    return [f".machine {selector}{{{rule}}}" for selector, rule in rules.items()]


def _ink_on(colour: str) -> str:
    """Return black or white, whichever stands out more from *colour* (contrast of WCAG 2)."""
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    )
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "#000000" if (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) else "#ffffff"


def _element(shape: Shape) -> str:
    match shape:
        case Panel():
            return _panel(shape)
        case Stroke():
            points = " ".join(f"{_number(x)},{_number(y)}" for x, y in shape.points)
            return f'<polyline class="stroke" points="{points}" stroke-width="{_number(shape.width)}"/>'
        case Arc():
            control = shape.foot - shape.height * 4 / 3
            left, right, foot, top = map(_number, (shape.left, shape.right, shape.foot, control))
            way = f"M{left} {foot}C{left} {top} {right} {top} {right} {foot}"
            return f'<path class="stroke" d="{way}" stroke-width="{_number(shape.width)}"/>'
        case Text():
            return _text(shape)
        case _:
            assert_never(shape)


def _panel(panel: Panel) -> str:
    x, y, width, height, radius = map(_number, (*panel.box, panel.radius))
    kind = panel.kind if panel.role is None else f"{panel.kind} role-{panel.role}"
    start = f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}"'
    return f"{start}/>" if panel.hint is None else f"{start}><title>{escape(panel.hint)}</title></rect>"


def _text(text: Text) -> str:
    kind = text.style if text.role is None else f"{text.style} on-role-{text.role}"
    anchor = "" if text.anchor is Anchor.START else f' text-anchor="{text.anchor}"'
    place = f'x="{_number(text.x)}" y="{_number(text.baseline)}"'
    return f'<text class="{kind}" {place}{anchor}>{escape(text.words)}</text>'


def _number(value: float) -> str:
    """Return *value* to a tenth of a pixel, as short as it goes."""
    return f"{value:.1f}".removesuffix(".0")
