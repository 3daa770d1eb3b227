"""
What carries data in a machine: its parts, and the edges between them with what they carry.

PCIe is a tree: GPU, switches, root complex, NUMA node, host. NVLink joins two GPUs directly, or each GPU to
an NVSwitch. Nothing joins two hosts: no source states a network.

`topologies.graph.machine_graph` shows the same as a graph of networkx; planning does without, because importing
networkx takes longer than most plans.

When to modify: a new part of a machine that carries data.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from topologies.cards import Card, card_of
from topologies.domains import PCIE_LEVELS, Device, Nest, nest, nic_device, stated_numa
from topologies.link_rates import SHIPPED, Rates
from topologies.links import DIRECT_KINDS, PCIE_KINDS, Link, LinkKind, link, nvlink, parse_code, pcie_port
from topologies.measured import MEASURED, pair_rates, seen_on_edges
from topologies.model import Pair, Topology
from topologies.peer import blocked
from topologies.uplinks import nic_port, uplink

PIX, PXB, PHB, NODE = PCIE_LEVELS

_MOST_NVLINKS_PER_GPU = 18
"""Of any GPU so far; what an unknown card is taken to have."""

_POWER9_NVLINKS_TO_CPU = 3


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a machine: what people call it, and the catalogue name of its card if it is a GPU with a known one."""

    label: str
    card: str | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """
    What joins two parts.

    Parameters
    ----------
    gb_per_s
        What it carries in one direction; both directions at once get as much.
    kind
        ``pcie``, ``host bridge``, ``sockets``, ``NV<n>`` or ``XGMI``.
    source
        Where the figure comes from.
    """

    gb_per_s: float
    kind: str
    source: str


@dataclass(frozen=True, eq=False)
class Wiring:
    """
    A machine as parts and edges.

    Parameters
    ----------
    topology
        What it was made from.
    cards
        The card of each GPU, None when it is unknown.
    nodes, edges
        The parts, and what joins them; an edge stands once, for both directions.
    links
        What every pair of GPUs of one host is worth to each other.
    nest
        Who is close to whom over PCIe.
    above
        What each part of the PCIe tree hangs from.
    rings
        Groups, ascending, whose ring is known to carry so many GB/s, whatever its links say: `topologies.bandwidth.ring` takes that.
    """

    topology: Topology
    cards: tuple[Card | None, ...]
    nodes: Mapping[Device, Node]
    edges: Mapping[tuple[Device, Device], Edge]
    links: Mapping[Pair, Link]
    nest: Nest
    above: Mapping[Device, Device]
    rings: Mapping[tuple[int, ...], float] = field(default_factory=dict)


def wiring(topology: Topology, rates: Rates = SHIPPED) -> Wiring:
    """Return what carries data in *topology*, by the numbers of *rates* where nothing was measured."""
    return _Builder(topology, rates).build()


class _Builder:
    def __init__(self, topology: Topology, rates: Rates) -> None:
        self.topology = topology
        self.rates = rates
        self.nest = nest(topology)
        self.cards = tuple(card_of(gpu) for gpu in topology.gpus)
        self.blocked = blocked(topology)
        self.power9_hosts = {
            topology.gpus[i].host
            for (i, j), code in topology.links.items()
            if self._is_power9_link(i, j, code)
        }
        self.measured: dict[Pair, float] = {}
        self.nodes: dict[Device, Node] = {}
        self.edges: dict[tuple[Device, Device], Edge] = {}
        # Looked up once for all GPUs: a cluster has thousands.
        self.host_number = {host: number for number, host in enumerate(topology.hosts)}
        self.switches = frozenset(self.nest.clusters[PXB])
        self.switch_of = {g: members for members in self.switches for g in _gpus(members)}
        self.placed = self._placed_by_statement()

    def build(self) -> Wiring:
        above = self._add_pcie_tree()
        links = self._pair_links()
        self.measured = pair_rates(self.topology, links)
        links |= {pair: replace(links[pair], gb_per_s=rate, source=MEASURED, derived=False) for pair, rate in self.measured.items()}
        self._add_nvlink({pair: found for pair, found in links.items() if found.kind in DIRECT_KINDS})
        over_tree = {pair: rate for pair, rate in self.measured.items() if links[pair].kind not in DIRECT_KINDS}
        for ends, rate in seen_on_edges(over_tree, above).items():
            if self.edges[ends].gb_per_s < rate:
                self.edges[ends] = replace(self.edges[ends], gb_per_s=rate, source=MEASURED)
        return Wiring(self.topology, self.cards, self.nodes, self.edges, links, self.nest, above)

    def _is_power9_link(self, i: int, j: int, code: str) -> bool:
        """Three NVLinks between two V100: only POWER9 machines with two GPUs a socket are wired so."""
        ends = (self.cards[i], self.cards[j])
        return code == "NV3" and all(card is not None and card.nvlink_gen == 2 for card in ends)

    def _pair_links(self) -> dict[Pair, Link]:
        gpus = self.topology.gpus
        return {
            (a.index, b.index): link(
                self.topology.link(a.index, b.index),
                self.cards[a.index],
                self.cards[b.index],
                is_power9=self._is_power9(a.index),
                ports=(a.pcie, b.pcie),
                blocked=self.blocked.get((a.index, b.index)),
                rates=self.rates,
            )
            for a, b in itertools.combinations(gpus, 2)
            if a.host == b.host
        }

    def _join(self, a: Device, b: Device, gb_per_s: float, kind: str, source: str) -> None:
        self.edges[a, b] = Edge(gb_per_s, kind, source)

    def _add_pcie_tree(self) -> dict[Device, Device]:
        """Add what the devices hang from, from the hosts down, then the devices."""
        above: dict[Device, Device] = {}
        nic_ports: dict[Device, Link] = {}
        for gpu in self.topology.gpus:
            node: Device = ("host", self.host_number[gpu.host])
            self.nodes[node] = Node(gpu.host or "host")
            above["gpu", gpu.index] = node
            for nic in self.topology.gpu_nic.get(gpu.index, {}):
                device = nic_device(self.topology, gpu.host, nic)
                above.setdefault(device, node)
                nic_ports.setdefault(device, nic_port(self.topology, nic, self.rates) or self._nic_port_like(gpu.index))
        number = {kind: itertools.count() for kind in ("numa", "root", "switch")}
        for kind, level in (("numa", NODE), ("root", PHB), ("switch", PXB), ("switch", PIX)):
            for members in self.nest.clusters[level]:
                if self._exists(level, members):
                    self._hang((kind, next(number[kind])), members, above)
        for gpu in self.topology.gpus:
            card = self.cards[gpu.index]
            port = self._port(gpu.index)
            self.nodes["gpu", gpu.index] = Node(f"GPU{gpu.index}", card.slug if card else None)
            self._join(("gpu", gpu.index), above["gpu", gpu.index], port.gb_per_s, "pcie", port.source)
        for device, port in nic_ports.items():
            self.nodes[device] = Node(str(device[1]))
            self._join(device, above[device], port.gb_per_s, "pcie", port.source)
        return above

    def _exists(self, level: LinkKind, members: tuple[Device, ...]) -> bool:
        """Whether the statements imply a thing of *level* that holds exactly *members*."""
        gpus = _gpus(members)
        if not gpus:
            return False
        if level is PIX and members in self.switches:
            return False  # the same switch
        if len(members) > 1:
            return True
        if level is NODE:
            return stated_numa(self.topology.gpus[gpus[0]]) is not None
        return level is PHB and gpus[0] in self.placed

    def _placed_by_statement(self) -> frozenset[int]:
        """Return the GPUs whose PCIe place some code or path tells: each has a root complex of its own at least."""
        stated = list(self.topology.links.items())
        stated += [((g, g), code) for g, nics in self.topology.gpu_nic.items() for code in nics.values()]
        stated += [((g.index, g.index), PHB) for g in self.topology.gpus if g.pcie is not None and g.pcie.root is not None]
        kinds = (PHB, NODE, LinkKind.SYS)
        return frozenset(g for pair, code in stated if parse_code(code)[0] in kinds for g in pair)

    def _hang(self, node: Device, members: tuple[Device, ...], above: dict[Device, Device]) -> None:
        """Put *node* between *members* and what they hung from."""
        gpus = _gpus(members)
        fastest = max((self._port(g) for g in gpus), key=_rate)
        parent = above[members[0]]
        match node[0]:
            case "numa":
                across = max((self._socket_link(g) for g in gpus), key=_rate)
                self._join(node, parent, across.gb_per_s, "sockets", f"between CPU sockets: {across.source}")
            case "root":
                # A host bridge has a port for each switch or GPU below it and is no bottleneck of its own.
                total = sum(port.gb_per_s for port in self._root_ports(gpus))
                self._join(node, parent, total, "host bridge", f"sum of its root ports: {fastest.source}")
            case _:
                shared = uplink(self.topology, members, self.rates) or fastest
                self._join(node, parent, shared.gb_per_s, "pcie", f"uplink of the switch: {shared.source}")
        self.nodes[node] = Node(self._label(node, gpus))
        above[node] = parent
        for device in members:
            above[device] = node

    def _root_ports(self, gpus: Iterable[int]) -> list[Link]:
        """Return one port for each switch or lone GPU among *gpus* that hangs from the root complex."""
        below = {_gpus(members): members for members in map(self.switch_of.__getitem__, gpus)}
        return [
            uplink(self.topology, members, self.rates) or max(map(self._port, switch), key=_rate)
            for switch, members in sorted(below.items())
            if set(switch) <= set(gpus)
        ]

    def _label(self, node: Device, gpus: tuple[int, ...]) -> str:
        if node[0] != "numa":
            return f"{node[0]} {node[1]}"
        stated = dict.fromkeys(numa for g in gpus if (numa := stated_numa(self.topology.gpus[g])) is not None)
        return f"NUMA {' and '.join(stated) or '?'}"

    def _is_power9(self, index: int) -> bool:
        return self.topology.gpus[index].host in self.power9_hosts

    def _port(self, index: int) -> Link:
        """Return what joins GPU *index* to the CPU's side of the machine."""
        card = self.cards[index]
        if self._is_power9(index):
            return nvlink(_POWER9_NVLINKS_TO_CPU, card, card, self.rates)
        return pcie_port(card, self.topology.gpus[index].pcie, self.rates)

    def _nic_port_like(self, index: int) -> Link:
        """Return the port of GPU *index* for a NIC of which no source states the port."""
        port = self._port(index)
        source = f"the port of a GPU ({port.source}): what the NIC itself carries is not stated"
        return replace(port, source=source)

    def _socket_link(self, index: int) -> Link:
        card = self.cards[index]
        return link("SYS", card, card, is_power9=self._is_power9(index), rates=self.rates)

    def _add_nvlink(self, links: dict[Pair, Link]) -> None:
        """
        Add NVLinks: direct ones, or through an NVSwitch.

        An NVSwitch is where some GPU has more NVLinks to others than its card has, and no two GPUs talk over
        PCIe instead.
        """
        widest: dict[int, int] = {}
        total: dict[int, int] = {}
        for pair, found in links.items():
            for g in pair:
                widest[g] = max(widest.get(g, 0), found.nvlinks)
                total[g] = total.get(g, 0) + found.nvlinks
        numbers = itertools.count()
        for part in connected(links):
            kinds = {parse_code(self.topology.link(i, j))[0] for i, j in itertools.combinations(part, 2)}
            if kinds.isdisjoint({*PCIE_KINDS, LinkKind.XGMI}) and any(total[g] > _most_nvlinks(self.cards[g]) for g in part):
                node: Device = ("nvswitch", next(numbers))
                self.nodes[node] = Node(f"NVSwitch {node[1]}")
                for g in part:
                    port = nvlink(widest[g], self.cards[g], self.cards[g], self.rates)
                    most = max((rate for pair, rate in self.measured.items() if g in pair and pair in links), default=0.0)
                    rate, source = (most, MEASURED) if most > port.gb_per_s else (port.gb_per_s, port.source)
                    self._join(("gpu", g), node, rate, f"NV{port.nvlinks}", source)
            else:
                for (i, j), found in links.items():
                    if i in part:
                        self._join(("gpu", i), ("gpu", j), found.gb_per_s, found.code, found.source)


def connected(pairs: Iterable[Pair]) -> tuple[tuple[int, ...], ...]:
    """Return the GPUs of *pairs*, those together that the pairs join; ascending."""
    part: dict[int, list[int]] = {}
    for a, b in pairs:
        one, other = part.setdefault(a, [a]), part.setdefault(b, [b])
        if one is not other:
            for g in (joined := one + other):
                part[g] = joined
    return tuple(sorted({tuple(sorted(members)) for members in part.values()}))


def _most_nvlinks(card: Card | None) -> int:
    return card.nvlink_links if card is not None and card.nvlink_links else _MOST_NVLINKS_PER_GPU


def _gpus(members: Iterable[Device]) -> tuple[int, ...]:
    return tuple(number for kind, number in members if kind == "gpu" and isinstance(number, int))


def _rate(found: Link) -> float:
    return found.gb_per_s
