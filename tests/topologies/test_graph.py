"""The weighted graph: which nodes the codes imply, and what each edge carries, with its source."""

from __future__ import annotations

import networkx
import pytest

from topologies.cards import find_card
from topologies.graph import machine_graph
from topologies.links import LinkKind


def parents(graph: networkx.Graph) -> dict[str, str]:
    """Return what each node of the PCIe tree hangs from, as words."""
    return {" ".join(map(str, a)): " ".join(map(str, b)) for a, b in graph.graph["above"].items()}


def rate(graph: networkx.Graph, a: tuple[str, object], b: tuple[str, object]) -> float:
    return graph.edges[a, b]["gb_per_s"]


def test_the_tree_has_the_nodes_that_the_codes_imply(drawn):
    assert parents(machine_graph(drawn["nested"])) == {
        "gpu 0": "switch 1",
        "gpu 1": "switch 1",
        "gpu 2": "switch 2",
        "gpu 3": "switch 2",
        "gpu 4": "root 0",
        "gpu 5": "root 1",
        "switch 1": "switch 0",
        "switch 2": "switch 0",
        "switch 0": "root 0",
        "root 0": "numa 0",
        "root 1": "numa 0",
        "numa 0": "host 0",
    }


def test_nics_hang_where_their_codes_say(draw):
    graph = machine_graph(
        draw(
            "X SYS\nSYS X",
            "a100-80gb",
            nics={
                "near": "PXB SYS",
                "bridge": "PHB SYS",
                "socket": "NODE SYS",
                "far": "SYS SYS",
                "blank": "? N/A",
            },
        )
    )
    above = parents(graph)
    assert above["nic near"] == above["gpu 0"] == "switch 0"
    assert above["nic bridge"] == above["switch 0"] == "root 0"
    assert above["nic socket"] == above["root 0"] == "numa 0"
    assert above["nic far"] == above["nic blank"] == above["numa 0"] == "host 0"
    assert rate(graph, ("nic", "near"), ("switch", 0)) == 25.0
    assert (
        "what the NIC itself carries is not stated" in graph.edges[("nic", "near"), ("switch", 0)]["source"]
    )


def test_a_gpu_of_which_only_nvlink_is_known_hangs_from_the_host(drawn):
    assert parents(machine_graph(drawn["nvswitch"])) == {f"gpu {i}": "host 0" for i in range(4)}


def test_numa_affinity_gives_nvlinked_gpus_their_numa_node(draw):
    graph = machine_graph(draw("X NV18\nNV18 X", "h100-80gb", numa="0 1"))
    assert parents(graph) == {"gpu 0": "numa 0", "gpu 1": "numa 1", "numa 0": "host 0", "numa 1": "host 0"}
    assert [graph.nodes["numa", k]["label"] for k in (0, 1)] == ["NUMA 0", "NUMA 1"]


def test_one_gpu_is_a_machine(draw):
    graph = machine_graph(draw("X", "a100-80gb"))
    assert parents(graph) == {"gpu 0": "host 0"}
    assert graph.nodes["gpu", 0] == {"label": "GPU0", "card": "a100-80gb"}
    assert rate(graph, ("gpu", 0), ("host", 0)) == 25.0


def test_a_mesh_has_direct_nvlinks_and_a_switched_machine_has_ports(drawn):
    square, switched = machine_graph(drawn["square"]), machine_graph(drawn["nvswitch"])
    assert rate(square, ("gpu", 0), ("gpu", 1)) == 48.4
    assert not square.has_edge(("gpu", 0), ("gpu", 2))
    assert ("nvswitch", 0) not in square
    assert [rate(switched, ("gpu", i), ("nvswitch", 0)) for i in range(4)] == [275.0] * 4
    assert not switched.has_edge(("gpu", 0), ("gpu", 1))
    assert switched.edges[("gpu", 0), ("nvswitch", 0)]["kind"] == "NV12"


@pytest.mark.parametrize(
    ("text", "card", "switches"),
    [
        pytest.param(
            "X NV4 NV4 NV4\nNV4 X NV4 NV4\nNV4 NV4 X NV4\nNV4 NV4 NV4 X",
            "a100-80gb",
            0,
            id="12 links, 12 used",
        ),
        pytest.param("X NV8 NV8\nNV8 X NV8\nNV8 NV8 X", "a800-80gb", 1, id="8 links, 16 used"),
        pytest.param(
            "X NV8 NV8 NV8\nNV8 X NV8 NV8\nNV8 NV8 X NV8\nNV8 NV8 NV8 X", None, 1, id="unknown card, 24 used"
        ),
        pytest.param("X NV4 NV4\nNV4 X NV4\nNV4 NV4 X", None, 0, id="unknown card, 8 used"),
        pytest.param(
            "X NV18 ?\nNV18 X NV18\n? NV18 X", "h100-80gb", 1, id="a pair of a switched machine is unknown"
        ),
        pytest.param(
            "X NV4 NODE\nNV4 X NV4\nNODE NV4 X", "a6000", 0, id="PCIe inside: no switch, whatever the card"
        ),
    ],
)
def test_an_nvswitch_is_where_links_outnumber_the_cards(draw, text, card, switches):
    graph = machine_graph(draw(text, card))
    assert sum(node[0] == "nvswitch" for node in graph) == switches


def test_a_degraded_gpu_has_a_smaller_port(draw):
    """GPU 1 lost three of its 18 links."""
    graph = machine_graph(draw("X NV15 NV18\nNV15 X NV15\nNV18 NV15 X", "h100-80gb"))
    assert [rate(graph, ("gpu", i), ("nvswitch", 0)) for i in range(3)] == [
        393.0,
        pytest.approx(337.5),
        393.0,
    ]


def test_every_edge_says_what_it_carries_and_why(drawn):
    for topology in drawn.values():
        for _, _, data in machine_graph(topology).edges(data=True):
            assert data["gb_per_s"] > 0
            assert data["kind"]
            assert data["source"]


def test_uplinks_host_bridges_and_sockets_have_their_own_capacity(drawn):
    graph = machine_graph(drawn["nested"])
    assert rate(graph, ("switch", 1), ("switch", 0)) == 25.0
    assert rate(graph, ("root", 0), ("numa", 0)) == 50.0  # the port of the switch and that of GPU 4
    assert rate(graph, ("root", 1), ("numa", 0)) == 25.0
    assert rate(graph, ("numa", 0), ("host", 0)) == 19.6


def test_an_uplink_is_as_fast_as_the_fastest_port_below_it(draw):
    graph = machine_graph(draw("X PIX\nPIX X", "v100-pcie-32gb h100-pcie"))
    assert rate(graph, ("gpu", 0), ("switch", 0)) == 10.3
    assert rate(graph, ("switch", 0), ("root", 0)) == 53.5
    assert graph.graph["links"][0, 1].gb_per_s == 10.3


def test_power9_reaches_the_cpu_over_nvlink(draw):
    """0 ═ 1 │ 2 ═ 3: three NVLinks between two V100 are found on POWER9 only."""
    pairs = "X NV3 SYS SYS\nNV3 X SYS SYS\nSYS SYS X NV3\nSYS SYS NV3 X"
    power9 = machine_graph(draw(pairs, "v100-16gb", numa="0 0 8 8"))
    assert rate(power9, ("gpu", 0), ("root", 0)) == 68.9
    assert rate(power9, ("numa", 0), ("host", 0)) == 29.0
    other = machine_graph(draw(pairs, "a100-pcie-80gb", numa="0 0 8 8"))
    assert rate(other, ("numa", 0), ("host", 0)) == 19.6


def test_unknown_and_staged_links_say_so(draw):
    graph = machine_graph(draw("X ? PIX\n? X SYS\nPIX SYS X", "rtx4090"))
    links = graph.graph["links"]
    assert links[0, 1].kind is LinkKind.UNKNOWN
    assert links[0, 1].source.startswith("link unknown: taken as staged through the host")
    assert links[0, 2].source.startswith("no P2P on this card")


def test_hosts_are_apart(draw):
    graph = machine_graph(
        draw("X PIX ?\nPIX X ?\n? ? X", "l40s", hosts="a a b", nics={"NIC0": "PIX PIX PIX"})
    )
    assert networkx.number_connected_components(graph) == 2
    assert [graph.nodes["host", k]["label"] for k in (0, 1)] == ["a", "b"]
    assert set(graph.graph["links"]) == {(0, 1)}
    assert {node for node in graph if node[0] == "nic"} == {("nic", "a:NIC0"), ("nic", "b:NIC0")}


def test_cards_stand_on_the_graph(draw):
    graph = machine_graph(draw("X SYS\nSYS X", "a100-40gb a100-80gb"))
    assert graph.graph["cards"] == (find_card("a100-40gb"), find_card("a100-80gb"))
    assert machine_graph(draw("X")).graph["cards"] == (None,)


def test_a_root_complex_carries_what_the_fastest_card_of_each_switch_does(draw):
    """Whatever ids the cards have: the numbering is no fact about the machine."""
    links = "X PIX NODE\nPIX X NODE\nNODE NODE X"
    rates = set()
    for cards in ("v100-pcie-32gb h100-pcie v100-pcie-32gb", "h100-pcie v100-pcie-32gb v100-pcie-32gb"):
        edges = machine_graph(draw(links, cards, numa="0 0 0")).edges(data=True)
        rates |= {data["gb_per_s"] for a, b, data in edges if {a, b} == {("root", 0), ("numa", 0)}}
    assert len(rates) <= 1
