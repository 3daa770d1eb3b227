"""
The page: a title, the hosts, the legend.

When to modify: what a drawing shows besides its hosts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from placement.drawing.cluster import (
    GAP,
    PAGE,
    Around,
    Block,
    Folded,
    blocks,
    draw_rows,
    flow,
    shown_hosts,
)
from placement.drawing.gpu import Face, face, size
from placement.drawing.host import HostDrawing
from placement.drawing.legend import draw_legend
from placement.drawing.network import network_parts
from placement.drawing.nic import NicFace, nic_faces, nic_note, nic_width
from placement.drawing.nvlink import Bundle, bundles, no_rate, rates
from placement.drawing.roles import Tenant, spans, tenants
from placement.drawing.row import Cell
from placement.drawing.shapes import Picture, Shape, Text, TextStyle, fit, printable
from placement.drawing.tree import host_frames
from placement.machines.hosts import HostGroup, alone, host_groups, name_list, only
from topologies.domains import amd_hosts, is_pcie_only, islands
from topologies.graph import machine_graph
from topologies.model import Pair, Topology
from topologies.paths import pcie_levels
from topologies.peer import blocked, in_doubt, summary

_WIDEST_NIC = 140
_MOST_HOSTS = 32
"""Hosts of kinds of their own that are drawn; nobody reads more, and they take long."""

_MARGIN = 18
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
    on_gpu = tenants(len(topology.gpus), roles or {})
    groups = host_groups(topology, marks=on_gpu if roles else None)
    network = network_parts(topology)
    part, index = only(topology, set(shown_hosts(network, groups)[:_MOST_HOSTS]))
    graph = machine_graph(part)
    faces = [
        face(gpu.replace(index=index[gpu.index]), card, None if roles is None else on_gpu[index[gpu.index]])
        for gpu, card in zip(part.gpus, graph.graph["cards"], strict=True)
    ]
    nics = nic_faces(part)
    width = max(size(faces)[0], min(nic_width(nics.values()), _WIDEST_NIC))
    joined = bundles(graph)
    hosts: dict[str | None, Block] = {
        part.gpus[frame.gpus[0]].host: HostBlock(
            HostDrawing(
                frame,
                [b for b in joined if b.gpus[0] in frame.gpus],
                Cell(width, size([faces[g] for g in frame.gpus])[1]),
            ),
            faces,
            nics,
        )
        for frame in host_frames(graph)
    }

    def block(host: str | None) -> Block:
        return hosts.get(host) or Folded(printable(host or "host"), "of its own kind", "not drawn")

    drawn = blocks(network, groups, block, PAGE)
    if network.name:
        drawn = [Around(network.name, drawn, PAGE)]

    shapes: list[Shape] = []
    y: float = _MARGIN
    right: float = 0
    if title is not None:
        line = Text(_MARGIN, y + 16, fit(printable(title), TextStyle.TITLE, PAGE), TextStyle.TITLE)
        shapes.append(line)
        right = line.box.right
        y += _TITLE
    rows = list(flow(drawn, PAGE))
    shapes += draw_rows(rows, _MARGIN, y)
    for row in rows:
        right = max(right, _MARGIN + sum(block.width + GAP for block in row) - GAP)
        y += max(block.height for block in row) + GAP
    bottom = y - GAP
    notes = _notes(on_gpu, joined, part)
    if nics:
        notes.append(nic_note(part))
    notes += _unusual(topology)
    if roles or notes:
        legend = draw_legend(roles or {}, notes, _MARGIN, bottom + _LEGEND_GAP, right)
        shapes += legend.shapes
        right, bottom = max(right, legend.right), legend.bottom
    caption = _caption(topology, roles or {})
    return Picture(right + _MARGIN, bottom + _MARGIN, tuple(shapes), caption, describe(topology, groups))


@dataclass(frozen=True, slots=True)
class HostBlock:
    """A host with what its boxes say."""

    drawing: HostDrawing
    faces: Sequence[Face]
    nics: Mapping[str, NicFace]

    @property
    def width(self) -> float:
        """Px."""
        return self.drawing.width

    @property
    def height(self) -> float:
        """Px."""
        return self.drawing.height

    def draw(self, x: float, y: float) -> list[Shape]:
        """Return it with its upper left corner at (*x*, *y*)."""
        return self.drawing.draw(x, y, self.faces, self.nics)


def describe(topology: Topology, groups: Sequence[HostGroup]) -> str:
    """Return what the drawing shows, in sentences for those who cannot see it."""
    sentences = []
    parts = alone(topology, [group.hosts[0] for group in groups[:_MOST_HOSTS]])
    for group in groups[:_MOST_HOSTS]:
        part = parts[group.hosts[0]]
        cards = dict.fromkeys(printable(gpu.name) for gpu in part.gpus if gpu.name)
        joined = [island for island in islands(part) if len(island) > 1]
        who = "" if topology.hosts == (None,) else f"{printable(name_list(group.hosts))}: "
        what = f"{len(part.gpus)} GPU{'s' * (len(part.gpus) != 1)}"
        is_told = part.links_complete and not is_pcie_only(part)
        maker = "XGMI" if amd_hosts(part) else "NVLink"
        none = f"no {maker}" if is_told else f"{maker} is not stated"
        cards_said = f" ({', '.join(cards)})" if cards else ""
        links = "; ".join(f"{maker} joins {spans(island)}" for island in joined) or none
        sentences.append(f"{who}{what}{cards_said}, {links}.")
    return " ".join(sentences)


def _notes(on_gpu: Sequence[Sequence[Tenant]], joined: Sequence[Bundle], part: Topology) -> list[str]:
    """Return what the numbers in the drawing of *part* mean, and on which hosts a link has none although others have."""
    notes = []
    if any(tenant.rank is not None for there in on_gpu for tenant in there):
        notes.append("number after a role: its rank on that GPU")
    if joined:
        notes.append(rates(joined, are_named=all(gpu.name is not None for gpu in part.gpus)))
    unrated = [bundle for bundle in joined if not all(link.gb_per_s for link in bundle.links.values())]
    if len(unrated) < len(joined):
        of_why: dict[str, dict[str | None, None]] = {}
        for bundle in unrated:
            members = [part.gpus[g] for g in bundle.gpus]
            of_why.setdefault(no_rate(are_named=all(gpu.name is not None for gpu in members)), {})[members[0].host] = None
        for why, hosts in of_why.items():
            where = f" on {printable(name_list(hosts))}" if len(part.hosts) > 1 else " everywhere"
            notes.append(f"what the links carry is not known{where}: {why}")
    return notes


def _unusual(topology: Topology) -> Iterator[str]:
    """Yield what no line shows: where peer-to-peer copies are off or may be, and what of the links is not known."""
    if off := summary(blocked(topology), range(len(topology.gpus))):
        yield printable(off)
    if pairs := len(in_doubt(topology)):
        yield f"whether peer-to-peer works is not known of {pairs} pair{'s' * (pairs > 1)} of GPUs"
    yield from _not_drawn(topology)
    if topology.network is None and len(topology.hosts) > 1:
        yield "the network between the hosts is not stated"


def _not_drawn(topology: Topology) -> Iterator[str]:
    """Yield of which pairs of GPUs the link, or whether NVLink joins them beside the PCIe path that is drawn, is not stated."""
    if topology.links and is_pcie_only(topology):
        yield "NVLink is not stated and not drawn: the source shows PCIe paths only"
    of_host: dict[str | None, list[int]] = {}
    for gpu in topology.gpus:
        of_host.setdefault(gpu.host, []).append(gpu.index)
    pairs = [pair for gpus in of_host.values() for pair in itertools.combinations(gpus, 2)]
    unknown = [pair for pair in pairs if pair not in topology.links]
    levels = pcie_levels(topology) if unknown else {}
    amd = amd_hosts(topology) if unknown else frozenset()
    lacks: dict[str, list[Pair]] = {}
    for pair in unknown:
        maker = "XGMI" if topology.gpus[pair[0]].host in amd else "NVLink"
        lacks.setdefault(maker if pair in levels else "the link", []).append(pair)
    for what, some in lacks.items():
        hosts = list(dict.fromkeys(topology.gpus[i].host for i, _ in some))
        of_pairs = f" of {len(some)} pair{'s' * (len(some) > 1)} of GPUs" if len(some) < len(pairs) or what == "the link" else ""
        where = f" on {name_list(hosts)}" if len(hosts) < len(of_host) else ""
        so = ": the source shows PCIe paths only" if what != "the link" else ""
        yield printable(f"{what}{of_pairs}{where} is not stated and not drawn{so}")


def _caption(topology: Topology, roles: Mapping[str, Sequence[int]]) -> str:
    count = len(topology.gpus)
    words = [f"{count} GPU{'s' * (count > 1)}"]
    if len(topology.hosts) > 1:
        words.append(f"on {len(topology.hosts)} hosts")
    where = [f"{printable(name)} on {spans(gpus)}" for name, gpus in roles.items() if gpus]
    return " ".join(words) + (f": {'; '.join(where)}" if where else "")
