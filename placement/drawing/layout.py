"""
The page: a title, the hosts, the legend.

When to modify: what a drawing shows besides its hosts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from placement.drawing.gpu import CHIP, chip_width, draw_chip, face, size
from placement.drawing.host import Cell, HostDrawing
from placement.drawing.nvlink import bundles
from placement.drawing.roles import Tenant, colours, spans, tenants
from placement.drawing.shapes import Box, Panel, Picture, Shape, Text, TextStyle, fit, printable, text_width
from placement.drawing.tree import host_frames
from topologies.graph import machine_graph
from topologies.model import Topology

_PAGE = 960
"""Width at which hosts and the legend wrap, px; a wider host or title makes a wider page."""

_MARGIN = 18
_HOST_GAP = 14
_TITLE = 34
_LEGEND_GAP = 24
_LEGEND_STEP = 27
_LONGEST_TITLE = 120
_LONGEST_LEGEND = 300
_BETWEEN = 6


def picture(
    topology: Topology, *, roles: Mapping[str, Sequence[int]] | None = None, title: str | None = None
) -> Picture:
    """
    Return the drawing of *topology* with *roles* on it; see `placement.drawing.draw`.

    Raises
    ------
    InputError
        If a role names a GPU that there is not, or one GPU twice.
    """
    graph = machine_graph(topology)
    on_gpu = tenants(len(topology.gpus), roles or {})
    faces = [
        face(gpu, card, None if roles is None else on_gpu[gpu.index])
        for gpu, card in zip(topology.gpus, graph.graph["cards"], strict=True)
    ]
    cell = Cell(*size(faces))
    joined = bundles(graph)
    hosts = [
        HostDrawing(frame, [b for b in joined if b.gpus[0] in frame.gpus], cell) for frame in host_frames(graph)
    ]

    shapes: list[Shape] = []
    y: float = _MARGIN
    right: float = 0
    if title is not None:
        line = Text(_MARGIN, y + 16, printable(title)[:_LONGEST_TITLE], TextStyle.TITLE)
        shapes.append(line)
        right = line.box.right
        y += _TITLE
    for row in _flow(hosts):
        x: float = _MARGIN
        for host in row:
            shapes += host.draw(x, y, faces)
            x += host.width + _HOST_GAP
        right = max(right, x - _HOST_GAP)
        y += max(host.height for host in row) + _HOST_GAP
    y -= _HOST_GAP
    if roles:
        shapes += _legend(roles, y + _LEGEND_GAP, max(right, _MARGIN + _LONGEST_LEGEND))
    return Picture(right + _MARGIN, y + _MARGIN, tuple(shapes), _caption(topology, roles or {}))


def _flow(hosts: Sequence[HostDrawing]) -> Iterator[list[HostDrawing]]:
    """Yield *hosts* in rows that fit the page."""
    row: list[HostDrawing] = []
    for host in hosts:
        if row and sum(h.width + _HOST_GAP for h in row) + host.width > _PAGE:
            yield row
            row = []
        row.append(host)
    yield row


def _legend(
    roles: Mapping[str, Sequence[int]], on_gpu: Sequence[Sequence[Tenant]], *, has_links: bool
) -> Iterator[tuple[Tenant | None, str]]:
    """Yield what the legend says: a chip, if any, and words."""
    colour = colours(roles)
    for name, gpus in roles.items():
        yield Tenant(name, colour[name], None), f"GPU{'s' * (len(gpus) > 1)} {spans(gpus) or 'none'}"
    if any(tenant.rank is not None for there in on_gpu for tenant in there):
        yield None, "number in a role: its rank"
    if has_links:
        yield None, "GB/s: between two GPUs, one direction"


def _draw_legend(
    entries: Sequence[tuple[Tenant | None, str]], top: float, right: float
) -> tuple[list[Shape], float, float]:
    """Return the shapes of the legend, and its lower and its right edge; it wraps at *right*."""
    shapes: list[Shape] = []
    x: float = _MARGIN
    y = top
    edge = x
    for tenant, words in entries:
        shown = fit(words, TextStyle.LEGEND, _LONGEST_LEGEND)
        chip = min(chip_width(tenant), _LONGEST_LEGEND) if tenant else 0
        width = chip + _BETWEEN * (tenant is not None) + text_width(shown, TextStyle.LEGEND)
        if x > _MARGIN and x + width > right:
            x, y = _MARGIN, y + _LEGEND_STEP
        if tenant:
            shapes += draw_chip(Box(x, y, chip, CHIP), tenant)
        shapes.append(Text(x + width - text_width(shown, TextStyle.LEGEND), y + 14, shown, TextStyle.LEGEND))
        edge = max(edge, x + width)
        x += width + 3 * _BETWEEN
    return shapes, y + CHIP, edge


def _caption(topology: Topology, roles: Mapping[str, Sequence[int]]) -> str:
    count = len(topology.gpus)
    words = [f"{count} GPU{'s' * (count > 1)}"]
    if len(topology.hosts) > 1:
        words.append(f"on {len(topology.hosts)} hosts")
    where = [f"{printable(name)} on {spans(gpus)}" for name, gpus in roles.items() if gpus]
    return " ".join(words) + (f": {'; '.join(where)}" if where else "")
