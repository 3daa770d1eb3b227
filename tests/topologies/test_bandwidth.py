"""How fast groups can talk, against an oracle that routes on the graph by itself and tries every order."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies import bandwidth
from topologies.bandwidth import blocks, flows, host_gb_per_s, pair_gb_per_s, ring
from topologies.errors import TopologyError
from topologies.graph import machine_graph
from topologies.links import LinkKind
from topologies.model import Gpu, Topology

CARDS = ["NVIDIA RTX A6000", "Tesla V100-SXM2-32GB", "NVIDIA GeForce RTX 4090", None]
CODES = ["NV1", "NV2", "PIX", "PXB", "PHB", "NODE", "SYS", None]


@st.composite
def machines(draw: st.DrawFn, most: int = 6) -> Topology:
    """A machine of one host with any codes, possible or not, and mixed cards."""
    count = draw(st.integers(2, most))
    codes = draw(st.lists(st.sampled_from(CODES), min_size=1, max_size=4, unique=True))
    gpus = tuple(
        Gpu(i, name=draw(st.sampled_from(CARDS)), numa=draw(st.sampled_from(["0", "1", None])))
        for i in range(count)
    )
    links = {p: c for p in itertools.combinations(range(count), 2) if (c := draw(st.sampled_from(codes)))}
    return Topology(gpus, links)


class Oracle:
    """Routes with networkx; shares edges by counting."""

    def __init__(self, graph: networkx.Graph) -> None:
        self.graph = graph
        is_pcie = lambda a, b: not graph.edges[a, b]["kind"].startswith("NV")  # noqa: E731
        self.pcie = networkx.subgraph_view(graph, filter_edge=is_pcie)
        self.nvlink = networkx.subgraph_view(graph, filter_edge=lambda a, b: not is_pcie(a, b))

    def hop(self, a: int, b: int) -> tuple[float, list[tuple[object, object]]]:
        """Return the rate of the pair's class and the directed edges of its way."""
        found = self.graph.graph["links"][min(a, b), max(a, b)]
        if found.kind is LinkKind.NVLINK:
            direct = self.nvlink.has_edge(("gpu", a), ("gpu", b))
            way = (
                [("gpu", a), ("gpu", b)]
                if direct
                else networkx.shortest_path(self.nvlink, ("gpu", a), ("gpu", b))
            )
        else:
            way = networkx.shortest_path(self.pcie, ("gpu", a), ("gpu", b))
        return found.gb_per_s, list(itertools.pairwise(way))

    def rates(self, pairs: list[tuple[int, int]]) -> list[float]:
        hops = [self.hop(a, b) for a, b in pairs]
        crossing = Counter(edge for _, edges in hops for edge in edges)
        return [
            min(rate, *(self.graph.edges[e]["gb_per_s"] / crossing[e] for e in edges)) for rate, edges in hops
        ]

    def best_ring(self, gpus: tuple[int, ...]) -> float:
        orders = ((gpus[0], *rest) for rest in itertools.permutations(gpus[1:]))
        return max(min(self.rates([*itertools.pairwise(order), (order[-1], order[0])])) for order in orders)


@given(machines())
def test_no_order_beats_the_ring(machine):
    graph = machine_graph(machine)
    oracle = Oracle(graph)
    for size in range(2, len(machine.gpus) + 1):
        for gpus in itertools.combinations(range(len(machine.gpus)), size):
            assert ring(graph, gpus).gb_per_s == pytest.approx(oracle.best_ring(gpus))


@pytest.mark.parametrize("name", ["two sockets", "cube mesh"])
def test_no_order_of_eight_beats_the_ring(drawn, draw, name):
    """All 5040 orders, on a tree and on a hybrid cube mesh."""
    mesh = """
        X   NV1 NV1 NV2 NV2 SYS SYS SYS
        NV1 X   NV2 NV1 SYS NV2 SYS SYS
        NV1 NV2 X   NV2 SYS SYS NV1 SYS
        NV2 NV1 NV2 X   SYS SYS SYS NV1
        NV2 SYS SYS SYS X   NV1 NV1 NV2
        SYS NV2 SYS SYS NV1 X   NV2 NV1
        SYS SYS NV1 SYS NV1 NV2 X   NV2
        SYS SYS SYS NV1 NV2 NV1 NV2 X
    """
    graph = machine_graph(drawn[name] if name in drawn else draw(mesh, "v100-32gb", numa="0 0 0 0 1 1 1 1"))
    assert ring(graph, range(8)).gb_per_s == pytest.approx(Oracle(graph).best_ring(tuple(range(8))))


@given(machines(), st.data())
def test_a_ring_is_what_its_own_order_gets(machine, data):
    """The reported order, run as flows, gets the reported rate; so a heuristic ring is a lower bound."""
    gpus = data.draw(st.lists(st.sampled_from(range(len(machine.gpus))), min_size=2, unique=True))
    graph = machine_graph(machine)
    found = ring(graph, gpus)
    assert sorted(found.order) == sorted(gpus)
    assert found.order[0] == min(gpus)
    hops = [*itertools.pairwise(found.order), (found.order[-1], found.order[0])]
    assert min(flows(graph, hops)) == pytest.approx(found.gb_per_s)
    kinds = {graph.graph["links"][min(hop), max(hop)].kind for hop in hops}
    assert found.nvlink == (kinds == {LinkKind.NVLINK})
    assert ring(graph, gpus[::-1]) == found


@given(machines())
def test_pairs_are_symmetric_and_no_faster_than_their_class(machine):
    graph = machine_graph(machine)
    for (a, b), found in graph.graph["links"].items():
        assert pair_gb_per_s(graph, a, b) == pair_gb_per_s(graph, b, a) <= found.gb_per_s
        assert pair_gb_per_s(graph, a, b) == pytest.approx(Oracle(graph).rates([(a, b)])[0])
    assert pair_gb_per_s(graph, 0, 0) == math.inf


@given(machines(), st.data())
def test_flows_share_edges_and_another_flow_speeds_up_none(machine, data):
    graph = machine_graph(machine)
    gpus = st.sampled_from(range(len(machine.gpus)))
    pairs = data.draw(
        st.lists(st.tuples(gpus, gpus).filter(lambda pair: pair[0] != pair[1]), min_size=1, max_size=6)
    )
    together = flows(graph, pairs)
    assert together == pytest.approx(Oracle(graph).rates(pairs))
    for before, after in zip(flows(graph, pairs[:-1]), together, strict=False):
        assert after <= before


@given(machines())
def test_together_no_faster_than_the_network_can_carry(machine):
    """Flows out of all other GPUs into one carry no more than the maximum flow of the graph."""
    graph = machine_graph(machine)
    directed = networkx.DiGraph()
    for x, y, edge in graph.edges(data=True):
        directed.add_edge(x, y, capacity=edge["gb_per_s"])
        directed.add_edge(y, x, capacity=edge["gb_per_s"])
    senders = range(1, len(machine.gpus))
    directed.add_edges_from(("source", ("gpu", sender)) for sender in senders)
    most = networkx.maximum_flow_value(directed, "source", ("gpu", 0))
    assert sum(flows(graph, [(sender, 0) for sender in senders])) <= most + 1e-9


def test_two_flows_over_one_uplink_get_half_each(drawn):
    """{0 1} {2 3}: both flows leave the first switch over its one uplink."""
    graph = machine_graph(drawn["two switches"])
    assert flows(graph, [(0, 2)]) == (25.0,)
    assert flows(graph, [(0, 2), (1, 3)]) == (12.5, 12.5)
    assert flows(graph, [(0, 2), (3, 1)]) == (25.0, 25.0)  # opposite directions
    assert flows(graph, [(0, 1), (2, 3)]) == (25.0, 25.0)  # inside the switches
    assert flows(graph, []) == ()


def test_measured_contention_of_a_shared_uplink(draw):
    """RTX PRO 6000 on Gen5, four per switch: one, two and four flows got 53.8, 26.9 and 13.3 GB/s."""
    text = "\n".join(
        " ".join("X" if i == j else "PIX" if i // 4 == j // 4 else "NODE" for j in range(8)) for i in range(8)
    )
    graph = machine_graph(draw(text, "rtx-pro-6000"))
    for count, measured in ((1, 53.8), (2, 26.9), (4, 13.3)):
        rates = flows(graph, [(g, 4 + g) for g in range(count)])
        assert rates == pytest.approx([measured] * count, rel=0.1)
    inside = flows(graph, list(itertools.permutations(range(4), 2)))
    assert sum(inside) == pytest.approx(
        4 * 53.5
    )  # measured 148.9: twelve flows lose to protocol what we do not model


def test_a_ring_crosses_a_shared_uplink_once_per_direction(drawn):
    """{0 1 2 3} {4 5 6 7} given in any order: each socket is walked through before the next."""
    graph = machine_graph(drawn["two sockets"])
    assert ring(graph, (0, 4, 1, 5, 2, 6, 3, 7)).order == (0, 1, 2, 3, 4, 5, 6, 7)
    assert ring(graph, range(8)).gb_per_s == 19.6
    assert ring(graph, (0, 1, 2, 3)).gb_per_s == 25.0


def test_a_fourth_gpu_can_close_a_faster_ring(drawn):
    """A square of NVLinks: three corners need the slow diagonal, four do not."""
    graph = machine_graph(drawn["square"])
    assert ring(graph, (0, 1, 2)) == bandwidth.Ring(10.3, False, (0, 1, 2))
    assert ring(graph, (0, 1, 2, 3)) == bandwidth.Ring(48.4, True, (0, 1, 2, 3))


def test_bridged_pairs_are_fast_inside_and_slow_across(drawn):
    graph = machine_graph(drawn["two pairs"])
    assert ring(graph, (0, 1)) == bandwidth.Ring(275.0, True, (0, 1))
    assert ring(graph, (0, 1, 2, 3)) == bandwidth.Ring(19.6, False, (0, 1, 2, 3))


def test_behind_an_nvswitch_every_group_has_the_rate_of_a_port(drawn):
    graph = machine_graph(drawn["nvswitch"])
    for size in (2, 3, 4):
        for gpus in itertools.combinations(range(4), size):
            assert ring(graph, gpus) == bandwidth.Ring(275.0, True, gpus)
    assert blocks(graph, [(0, 1), (2, 3)]) == bandwidth.Blocks(275.0, True)
    assert flows(graph, [(0, 1), (2, 1)]) == (137.5, 137.5)  # the port of GPU 1 is shared


def test_one_gpu_needs_no_ring_and_none_has_none(drawn):
    graph = machine_graph(drawn["nvswitch"])
    assert ring(graph, (2,)) == bandwidth.Ring(math.inf, True, (2,))
    with pytest.raises(ValueError, match="at least one GPU"):
        ring(graph, ())


def test_blocks_share_what_their_rings_cross(drawn):
    """{0 1} {2 3}: blocks inside the switches do not meet, blocks across share both uplinks."""
    graph = machine_graph(drawn["two switches"])
    assert blocks(graph, [(0, 1), (2, 3)]) == bandwidth.Blocks(25.0, False)
    assert blocks(graph, [(0, 2), (1, 3)]) == bandwidth.Blocks(12.5, False)
    assert blocks(graph, [(0, 2)]) == bandwidth.Blocks(25.0, False)
    assert blocks(graph, [(0,), (1,)]) == bandwidth.Blocks(math.inf, True)


def test_blocks_over_nvlink_say_so(drawn):
    graph = machine_graph(drawn["two pairs"])
    assert blocks(graph, [(0, 1), (2, 3)]) == bandwidth.Blocks(275.0, True)
    assert blocks(graph, [(0, 2), (1, 3)]) == bandwidth.Blocks(9.8, False)  # two rings over the socket link


@given(machines(), st.data())
def test_blocks_are_no_faster_than_each_alone(machine, data):
    graph = machine_graph(machine)
    order = data.draw(st.permutations(range(len(machine.gpus))))
    size = data.draw(st.integers(1, len(order)))
    groups = [order[k : k + size] for k in range(0, len(order), size)]
    assert blocks(graph, groups).gb_per_s <= min(ring(graph, group).gb_per_s for group in groups)


def test_copies_to_the_host_share_the_uplink(drawn):
    graph = machine_graph(drawn["two sockets"])
    assert host_gb_per_s(graph, (0,)) == 25.0
    assert host_gb_per_s(graph, (0, 4)) == 25.0
    assert host_gb_per_s(graph, (0, 1)) == 12.5
    assert host_gb_per_s(graph, range(8)) == 6.25
    assert host_gb_per_s(machine_graph(drawn["nvswitch"]), range(4)) == 25.0


def test_a_copy_to_the_host_ends_at_the_numa_node(draw):
    """The link between the sockets is no part of it."""
    graph = machine_graph(draw("X NODE\nNODE X", "h100-pcie"))
    assert host_gb_per_s(graph, (0, 1)) == 53.5


def test_consumer_cards_are_staged(drawn):
    graph = machine_graph(drawn["consumer"])
    assert {pair_gb_per_s(graph, a, b) for a, b in itertools.combinations(range(4), 2)} == {19.5}


def test_across_hosts_there_is_no_answer_but_a_reason(draw):
    graph = machine_graph(draw("X PIX ?\nPIX X ?\n? ? X", "l40s", hosts="a a b"))
    assert ring(graph, (0, 1)).gb_per_s == 25.0
    for ask in (
        lambda: pair_gb_per_s(graph, 0, 2),
        lambda: ring(graph, (0, 1, 2)),
        lambda: blocks(graph, [(0, 1), (1, 2)]),
        lambda: flows(graph, [(2, 0)]),
    ):
        with pytest.raises(
            TopologyError, match=r"different hosts, and no source states a network: plan each host by itself"
        ):
            ask()
    assert host_gb_per_s(graph, (0, 2)) == 25.0


def test_a_large_group_gets_a_good_ring_in_bounded_time(draw):
    """32 GPUs, four switches of eight on two sockets: the walk from neighbour to neighbour is best."""
    places = [(i // 16, i // 8) for i in range(32)]

    def code(i: int, j: int) -> str:
        if i == j:
            return "X"
        (socket, switch), (other_socket, other_switch) = places[i], places[j]
        return "PIX" if switch == other_switch else "NODE" if socket == other_socket else "SYS"

    graph = machine_graph(draw("\n".join(" ".join(code(i, j) for j in range(32)) for i in range(32)), "l40s"))
    assert ring(graph, range(32)) == bandwidth.Ring(19.6, False, tuple(range(32)))


@given(machines(most=8), st.integers(0, 20))
def test_a_search_that_is_cut_short_still_gives_a_ring(machine, steps):
    gpus = range(len(machine.gpus))
    best = ring(machine_graph(machine), gpus).gb_per_s
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bandwidth, "EXACT_UP_TO", 1)
        patch.setattr(bandwidth, "_STEPS", steps)
        graph = machine_graph(machine)
        found = ring(graph, gpus)
    hops = [*itertools.pairwise(found.order), (found.order[-1], found.order[0])]
    assert min(flows(graph, hops)) == pytest.approx(found.gb_per_s)
    assert found.gb_per_s <= best


def unlike(count: int, seed: int) -> Topology:
    """V100 joined by a ring of NV2 in a random order; a quarter of the other pairs are joined too, the rest is PCIe."""
    rng = random.Random(seed)
    hidden = rng.sample(range(count), count)
    around = {frozenset(pair) for pair in zip(hidden, hidden[1:] + hidden[:1], strict=True)}
    pairs = itertools.combinations(range(count), 2)
    links = {pair: "NV2" if frozenset(pair) in around or rng.random() < 0.25 else "SYS" for pair in pairs}
    return Topology(tuple(Gpu(i, name="Tesla V100-SXM2-32GB", memory_mib=32768) for i in range(count)), links)


@pytest.mark.parametrize("seed", range(20))
def test_a_ring_of_nvlinks_that_is_hidden_in_a_large_group_is_found(seed):
    """Among 39,916,800 orders."""
    assert ring(machine_graph(unlike(12, seed)), range(12)).nvlink


@given(machines(most=7))
def test_a_bounded_search_says_when_its_ring_is_the_best(machine):
    """The search of large groups, on groups whose best ring is known."""
    gpus = tuple(range(len(machine.gpus)))
    best = ring(machine_graph(machine), gpus)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bandwidth, "EXACT_UP_TO", 1)
        found = ring(machine_graph(machine), gpus)
    assert found.gb_per_s <= best.gb_per_s
    assert found.gb_per_s == best.gb_per_s or not found.is_best
