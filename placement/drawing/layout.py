"""
The page: a title, the hosts, the legend.

When to modify: what a drawing shows besides its hosts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from placement.drawing.gpu import face, size
from placement.drawing.host import Cell, HostDrawing
from placement.drawing.legend import draw_legend
from placement.drawing.nvlink import Bundle, bundles, rates
from placement.drawing.roles import Tenant, spans, tenants
from placement.drawing.shapes import Picture, Shape, Text, TextStyle, fit, printable
from placement.drawing.tree import host_frames
from topologies.graph import machine_graph
from topologies.model import Topology

_PAGE = 960
"""Width at which hosts and the legend wrap, px; a wider host or title makes a wider page."""

_MARGIN = 18
_HOST_GAP = 14
_TITLE = 34
_LEGEND_GAP = 18


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
        HostDrawing(frame, [b for b in joined if b.gpus[0] in frame.gpus], cell)
        for frame in host_frames(graph)
    ]

    shapes: list[Shape] = []
    y: float = _MARGIN
    right: float = 0
    if title is not None:
        line = Text(_MARGIN, y + 16, fit(printable(title), TextStyle.TITLE, _PAGE), TextStyle.TITLE)
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
    bottom = y - _HOST_GAP
    notes = _notes(on_gpu, joined)
    if roles or notes:
        legend = draw_legend(roles or {}, notes, _MARGIN, bottom + _LEGEND_GAP, right)
        shapes += legend.shapes
        right, bottom = max(right, legend.right), legend.bottom
    return Picture(right + _MARGIN, bottom + _MARGIN, tuple(shapes), _caption(topology, roles or {}))


def _flow(hosts: Sequence[HostDrawing]) -> Iterator[list[HostDrawing]]:
    """Yield *hosts* in rows that fit the page."""
    row: list[HostDrawing] = []
    for host in hosts:
        if row and sum(h.width + _HOST_GAP for h in row) + host.width > _PAGE:
            yield row
            row = []
        row.append(host)
    yield row


def _notes(on_gpu: Sequence[Sequence[Tenant]], joined: Sequence[Bundle]) -> list[str]:
    """Return what the numbers in the drawing mean."""
    notes = []
    if any(tenant.rank is not None for there in on_gpu for tenant in there):
        notes.append("number after a role: its rank on that GPU")
    if joined:
        notes.append(rates(joined))
    return notes


def _caption(topology: Topology, roles: Mapping[str, Sequence[int]]) -> str:
    count = len(topology.gpus)
    words = [f"{count} GPU{'s' * (count > 1)}"]
    if len(topology.hosts) > 1:
        words.append(f"on {len(topology.hosts)} hosts")
    where = [f"{printable(name)} on {spans(gpus)}" for name, gpus in roles.items() if gpus]
    return " ".join(words) + (f": {'; '.join(where)}" if where else "")
