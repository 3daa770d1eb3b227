"""
Pictures of machines.

The oracle is geometry; see `pictures.faults`.
"""

from __future__ import annotations

import itertools
import re
import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import clusters, faults, frames, hosts, is_inside, machine, of, several, texts, uniform, words

from placement.drawing import draw
from placement.drawing.layout import picture
from placement.drawing.nvlink import bundles, plate
from placement.drawing.shapes import (
    Anchor,
    Arc,
    Stroke,
    Text,
    TextStyle,
    fit,
    printable,
    text_width,
)
from placement.drawing.svg import PALETTE
from placement.drawing.tree import Frame, host_frames, rows
from placement.errors import InputError
from placement.workloads.workload import RoleName
from topologies import sources
from topologies.catalog import machine_names
from topologies.clusters.collect import collect
from topologies.domains import Level, domains
from topologies.graph import machine_graph
from topologies.model import Gpu, Topology
from topologies.read import read_text

SOURCES = Path(__file__).parents[1] / "data" / "sources"
CASES = SOURCES.with_name("topology")
SVG = "{http://www.w3.org/2000/svg}"


def halves(count: int) -> dict[str, range]:
    """Return two pools; the second runs backwards, and the last GPU has no role."""
    first, second = range((count + 1) // 2), range(count - 2, (count + 1) // 2 - 1, -1)
    return {"actor": first, "critic": second, "ref": first, "reward": second}


PRESETS = {name: sources.load(name) for name in machine_names()} | {
    "2 GPUs": machine("X NV4\nNV4 X", name="NVIDIA RTX A6000", numa="0 0"),
    "16 GPUs, NVSwitch": uniform(16, "NV6", name="Tesla V100-SXM3-32GB"),
    "12 GPUs of which nothing is known": Topology(tuple(map(Gpu, range(12)))),
    "4 hosts of 8": several(sources.load("dgx-h100"), 4),
    "4 hosts of a mesh": several(sources.load("dgx-1-v100"), 4),
    "16 hosts of 4": several(sources.load("hgx-a100-4"), 16),
    "64 GPUs in one host": uniform(64, "NV18"),
    "64 hosts of 1": several(sources.load("a100-1"), 64),
}


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("with_roles", [pytest.param(True, id="roles"), pytest.param(False, id="bare")])
def test_nothing_overlaps(name, with_roles):
    topology = PRESETS[name]
    drawn = picture(topology, roles=halves(len(topology.gpus)) if with_roles else None, title=name)
    assert faults(drawn) == []
    if not of("folded", drawn):
        assert sorted(words(drawn, TextStyle.GPU)) == sorted(f"GPU {gpu.index}" for gpu in topology.gpus)


@given(st.one_of(hosts(), clusters()), st.data())
def test_nothing_overlaps_on_any_machine(topology, data):
    gpu = st.integers(0, len(topology.gpus) - 1)
    roles = data.draw(st.dictionaries(st.text(max_size=12), st.lists(gpu, unique=True), max_size=5))
    drawn = picture(topology, roles=roles, title=data.draw(st.text(max_size=200)))
    assert faults(drawn) == []
    if len(topology.hosts) == 1:
        assert len(of("gpu", drawn)) == len(topology.gpus)
        assert len(of("nic", drawn)) == len(topology.nics)
    ElementTree.fromstring(draw(topology, roles=roles))


@pytest.mark.parametrize("name", machine_names())
def test_boxes_are_the_domains_of_the_machine(name):
    graph = machine_graph(PRESETS[name])
    levels = [domains(graph, level) for level in (Level.SWITCH, Level.ROOT_COMPLEX, Level.NUMA)]
    expected = {group for level in levels for group in level if len(group) > 1}
    whole = set(domains(graph, Level.HOST))
    found = [tuple(sorted(frame.gpus)) for host in host_frames(graph) for frame in frames(host)]
    assert len(found) == len(set(found))
    assert {gpus for gpus in found if len(gpus) > 1} | whole == expected | whole
    alone = [frame for host in host_frames(graph) for frame in frames(host) if len(frame.gpus) == 1 and not frame.nics]
    assert {frame.gpus for frame in alone} <= {*domains(graph, Level.NUMA), *whole}


def test_a_box_that_is_two_levels_has_both_names():
    host = host_frames(machine_graph(machine("X PIX SYS\nPIX X SYS\nSYS SYS X", numa="3 3 5")))[0]
    assert [frame.name for frame in frames(host)] == ["host", "NUMA node 3 · PCIe switch", "NUMA node 5"]


def test_a_root_complex_is_named_where_it_is_a_level_of_its_own():
    matrix = "X PHB NODE NODE\nPHB X NODE NODE\nNODE NODE X PHB\nNODE NODE PHB X"
    (host,) = host_frames(machine_graph(machine(matrix, numa="0 0 0 0")))
    assert [frame.name for frame in frames(host)] == ["host · NUMA node 0", "root complex", "root complex"]


def test_roots_of_which_nobody_tells_the_numa_node_are_no_numa_nodes():
    def names(topology: Topology) -> list[str]:
        (host,) = host_frames(machine_graph(topology))
        return [frame.name for frame in frames(host)]

    gpus = tuple(map(Gpu, range(4)))
    near = {(0, 1): "PHB", (2, 3): "PIX"}
    far = {(i, j): "SYS" for i in (0, 1) for j in (2, 3)}
    assert names(Topology(gpus, near)) == ["host", "root complex", "PCIe switch"]
    assert names(Topology(gpus, {**near, **far})) == ["host", "NUMA node", "NUMA node · PCIe switch"]
    assert names(Topology(gpus, {**near, (0, 2): "SYS"})) == ["host", "NUMA node", "NUMA node · PCIe switch"]  # statements chain
    on_one = tuple(gpu.replace(numa="0" if gpu.index < 2 else None) for gpu in gpus)
    assert names(Topology(on_one, near)) == ["host", "NUMA node 0", "PCIe switch"]
    assert names(Topology(gpus, {**near, (0, 2): "NODE"})) == ["host · NUMA node", "root complex", "PCIe switch"]


def test_a_level_of_lone_gpus_is_drawn_only_where_a_source_names_its_boxes():
    (host,) = host_frames(machine_graph(machine("X SYS\nSYS X")))
    assert host == Frame("host", (0, 1))
    named = machine("X SYS\nSYS X", numa="0 1")
    (host,) = host_frames(machine_graph(named))
    assert host == Frame("host", (Frame("NUMA node 0", (0,)), Frame("NUMA node 1", (1,))))
    assert faults(picture(named)) == []
    cluster = collect({"a": sources.load("a100-1"), "b": named})
    assert [len(frames(frame)) for frame in host_frames(machine_graph(cluster))] == [1, 3]


def test_gpus_of_an_island_stand_side_by_side():
    matrix = "X PIX NV4 PIX\nPIX X PIX NV4\nNV4 PIX X PIX\nPIX NV4 PIX X"
    (host,) = host_frames(machine_graph(machine(matrix)))
    assert host.gpus == (0, 2, 1, 3)


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        pytest.param(8, [8], id="one row"),
        pytest.param(10, [5, 5], id="even rows"),
        pytest.param(17, [6, 6, 5], id="three rows"),
    ],
)
def test_a_wide_host_is_cut_into_even_rows(count, expected):
    host = Frame("host", tuple(range(count)))
    assert [len(row.gpus) for row in rows(host)] == expected


def test_rows_keep_boxes_whole_where_they_can():
    whole = Frame("host", tuple(Frame(f"NUMA node {k}", tuple(range(5 * k, 5 * k + 5))) for k in range(3)))
    assert [row.gpus for row in rows(whole)] == [tuple(range(5 * k, 5 * k + 5)) for k in range(3)]
    wide = Frame("host", (Frame("NUMA node 0", tuple(range(10))),))
    assert rows(wide) == tuple(Frame("host", (Frame("NUMA node 0", tuple(range(k, k + 5))),)) for k in (0, 5))


@pytest.mark.parametrize(
    ("name", "bar_names"),
    [
        pytest.param("dgx-a100-80gb", ["NVSwitch NV12 · all pairs · 275 GB/s"], id="NVSwitch"),
        pytest.param("hgx-a100-4", ["NVLink NV4 · all pairs · 90 GB/s"], id="all pairs directly"),
        pytest.param("dgx-1-v100", [], id="mesh"),
        pytest.param("h100-nvl-4", [], id="bridged pairs"),
        pytest.param("l40s-8", [], id="no NVLink"),
        pytest.param("16 GPUs, NVSwitch", ["NVSwitch NV6 · all pairs · 135 GB/s"] * 2, id="two rows"),
    ],
)
def test_one_bar_stands_for_gpus_that_reach_each_other_alike(name, bar_names):
    assert words(picture(PRESETS[name]), TextStyle.BAR) == bar_names


def test_rows_of_one_nvswitch_are_joined():
    drawn = picture(PRESETS["16 GPUs, NVSwitch"])
    upper, lower = of("bar", drawn)
    heights = [bar.box.y + bar.box.height / 2 for bar in (upper, lower)]
    strokes = [shape.points for shape in drawn.shapes if isinstance(shape, Stroke)]
    (trunk,) = [(start, end) for start, end in strokes if start[1] == heights[0] and end[1] == heights[1]]
    assert trunk[0][0] == trunk[1][0] < upper.box.x
    arms = [(start, end) for start, end in strokes if start[0] == trunk[0][0] and start[1] == end[1]]
    assert [start[1] for start, _ in arms] == heights
    assert all(end[0] > upper.box.x for _, end in arms)


def test_each_direct_link_is_an_arc_with_its_name():
    drawn = picture(PRESETS["dgx-1-v100"])
    arcs = [shape for shape in drawn.shapes if isinstance(shape, Arc)]
    codes = PRESETS["dgx-1-v100"].links.values()
    assert sorted(words(drawn, TextStyle.LINK)) == sorted(code for code in codes if code.startswith("NV"))
    assert len(arcs) == 16
    assert {arc.width for arc in arcs} == {3, 6}
    assert words(drawn, TextStyle.LEGEND)[0] == "NV1 24 GB/s, NV2 48 GB/s between two GPUs, one direction"


@pytest.mark.parametrize("name", ["dgx-1-v100", "dgx-1-p100"])
def test_in_a_mesh_each_arc_passes_its_own_name_only(name):
    drawn = picture(PRESETS[name])
    plates = [plate(text) for text in texts(drawn) if text.style is TextStyle.LINK]
    arcs = [[shape.point(k / 50) for k in range(51)] for shape in drawn.shapes if isinstance(shape, Arc)]
    hits = [sum(any(box.contains(*point) for point in arc) for arc in arcs) for box in plates]
    assert hits == [1] * 16


def test_a_pair_tells_its_bandwidth():
    drawn = picture(PRESETS["h100-nvl-4"])
    assert words(drawn, TextStyle.LINK) == ["NV12 · 257 GB/s"] * 2
    assert words(drawn, TextStyle.LEGEND)[0] == "GB/s: between two GPUs, one direction"


@pytest.mark.parametrize("topology", [uniform(4, "NV12"), uniform(2, "NV4"), machine("X NV2 NV1\nNV2 X SYS\nNV1 SYS X")])
def test_links_of_cards_that_nobody_names_have_no_bandwidth(topology):
    drawn = picture(topology)
    assert not [text.words for text in texts(drawn) if "GB/s" in text.words]
    assert words(drawn, TextStyle.LEGEND) == ["what the links carry is not known: no source names the cards"]
    strange = topology.replace(gpus=tuple(gpu.replace(name="NVIDIA Z900 Prototype") for gpu in topology.gpus))
    assert " ".join(words(picture(strange), TextStyle.LEGEND)) == "what the links carry is not known: the catalogue has no such card"
    named = topology.replace(gpus=tuple(gpu.replace(name="NVIDIA A100-SXM4-80GB") for gpu in topology.gpus))
    assert [text.words for text in texts(picture(named)) if "GB/s" in text.words]


def test_what_no_line_shows_stands_below():
    machine_ = uniform(4, "NV12", name="NVIDIA A100-SXM4-80GB").replace(p2p={(0, 1): "GNS"}, p2p_kind="r")
    links_ = {pair: code for pair, code in machine_.links.items() if pair != (2, 3)}
    drawn = picture(machine_.replace(links=links_))
    below = " ".join(words(drawn, TextStyle.LEGEND))
    assert "peer-to-peer between GPU 0 and 1 is off (GNS: the GPUs do not support it): copies go through host memory" in below
    assert "the link of 1 pair of GPUs is not stated and not drawn" in below
    assert faults(drawn) == []
    assert "not stated" not in " ".join(words(picture(machine_), TextStyle.LEGEND))


def test_links_that_no_source_tells_of_are_said_to_be_missing():
    paths = machine("X PIX\nPIX X").replace(format="topo-mp", formats=("topo-mp",))
    said = "NVLink is not stated and not drawn: the source shows PCIe paths only"
    assert said in " ".join(words(picture(paths), TextStyle.LEGEND))
    assert said not in " ".join(words(picture(paths.replace(formats=("topo-mp", "topo-m"))), TextStyle.LEGEND))
    bridges = read_text((SOURCES / "lspci-vv.txt").read_text())
    assert said in " ".join(words(picture(bridges), TextStyle.LEGEND))
    hosts = collect({"a": bridges, "b": sources.load("a100-1")})
    said = "NVLink on a is not stated and not drawn: the source shows PCIe paths only"
    assert said in " ".join(words(picture(hosts), TextStyle.LEGEND))


def test_peer_access_that_is_not_known_is_said():
    three = machine("X PIX PIX\nPIX X PIX\nPIX PIX X")

    def below(states: dict[tuple[int, int], str]) -> str:
        return " ".join(words(picture(three.replace(p2p=states, p2p_kind="r")), TextStyle.LEGEND))

    said = "whether peer-to-peer works is not known of"
    assert f"{said} 2 pairs of GPUs" in below({(0, 1): "OK", (0, 2): "U"})
    assert f"{said} 1 pair of GPUs" in below({(0, 1): "OK", (0, 2): "U", (1, 2): "GNS"})
    assert said not in below({(0, 1): "OK", (0, 2): "OK", (1, 2): "GNS"})
    assert said not in below({})


def test_a_busy_gpu_says_what_is_in_use():
    drawn = picture(Topology((Gpu(0, memory_used_mib=20480), Gpu(1, memory_used_mib=500), Gpu(2))))
    assert words(drawn, TextStyle.DETAIL) == ["20 GiB in use"]


def test_a_nic_of_two_gpus_stands_below_both():
    drawn = picture(PRESETS["dgx-1-v100"])
    gpus, nics = ({panel.hint.split(":")[0]: panel.box for panel in of(kind, drawn)} for kind in ("gpu", "nic"))
    first = nics["NIC mlx5_0"]
    assert (first.x, first.right) == pytest.approx((gpus["GPU 0"].x, gpus["GPU 1"].right))


def test_nics_stand_right_below_their_gpus_in_a_box_that_a_taller_one_stretches():
    cut = read_text((CASES / "097-dgx2-x16-nv6-cut-gpu4.txt").read_text())
    drawn = picture(cut)
    gpus, nics = ({panel.hint.split(":")[0]: panel.box for panel in of(kind, drawn)} for kind in ("gpu", "nic"))
    tops = {name: nics[f"NIC {name}"].y for name in ("mlx5_0", "mlx5_1", "mlx5_2")}
    assert set(tops.values()) == {gpus["GPU 0"].bottom + 5}
    assert faults(drawn) == []


def test_gpus_of_a_host_are_as_tall_as_the_fullest_of_them():
    """Not as that of another host; what is not known of a host and of the network stands below."""
    bare = machine("X NV4\nNV4 X")
    drawn = picture(collect({"a": sources.load("hgx-a100-4"), "b": bare}))
    heights = {panel.hint.split(":")[0]: panel.box.height for panel in of("gpu", drawn)}
    assert heights["GPU 0"] == heights["GPU 3"] > heights["GPU 4"] == heights["GPU 5"]
    below = words(drawn, TextStyle.LEGEND)
    assert "what the links carry is not known on b: no source names the cards" in below
    assert below[-1] == "the network between the hosts is not stated"
    assert faults(drawn) == []


def test_nics_of_several_boxes_stand_in_the_middle():
    drawn = picture(PRESETS["dgx-h100"])
    node = next(p.box for p in of("frame", drawn) if p.box.width == max(f.box.width for f in of("frame", drawn)))
    own = [p.box for p in of("nic", drawn) if p.hint in ("NIC mlx5_1: NIC1", "NIC mlx5_2: NIC2")]
    assert len(own) == 2
    assert (own[0].x + own[1].right) / 2 == pytest.approx(node.middle)


def test_nics_whose_place_nobody_states_stand_apart():
    gpus = tuple(map(Gpu, range(3)))
    nics = dict.fromkeys(["near", "far", "cut", "bare"])
    codes = {0: {"near": "PIX", "far": "SYS", "cut": "SYS"}, 1: {"near": "SYS", "far": "SYS", "cut": "SYS"}}
    codes[2] = {"near": "SYS", "far": "SYS"}
    topology = Topology(gpus, nics=nics, gpu_nic=codes)
    (host,) = host_frames(machine_graph(topology))
    assert (host.nics, host.unplaced) == (("far",), ("cut", "bare"))
    drawn = picture(topology)
    (apart,) = of("unplaced", drawn)
    assert [p.hint for p in of("nic", drawn) if is_inside(p.box, apart.box)] == ["NIC cut", "NIC bare"]
    assert not any(apart.box.overlaps(gpu.box) for gpu in of("gpu", drawn))
    assert "NICs whose place is not stated" in words(drawn, TextStyle.FRAME)
    assert faults(drawn) == []


def test_a_description_denies_no_nvlink_that_is_only_not_stated():
    told = machine("X PIX\nPIX X")
    assert picture(told).description == "2 GPUs, no NVLink."
    for vague in (told.replace(links={}), told.replace(format="topo-mp", formats=())):
        assert picture(vague).description == "2 GPUs, NVLink is not stated."


def test_a_description_calls_links_what_their_maker_does():
    assert picture(machine("X PCIE\nPCIE X")).description == "2 GPUs, no XGMI."
    assert picture(machine("X XGMI\nXGMI X")).description == "2 GPUs, XGMI joins 0–1."
    assert picture(machine("X NV4\nNV4 X")).description == "2 GPUs, NVLink joins 0–1."


@pytest.mark.parametrize("name", ["AMD INSTINCT MI250 (MCM) OAM AC MBA", "NVIDIA DRIVE-PG199-PROD Engineering Sample 64GB", "Z1"])
def test_a_card_that_the_catalogue_lacks_shows_all_of_its_name(name):
    drawn = picture(Topology((Gpu(0, name=name), Gpu(1))))
    assert " ".join(words(drawn, TextStyle.DETAIL)) == name
    assert faults(drawn) == []


def test_a_mesh_that_no_eye_can_follow_is_a_bar_that_counts():
    links_ = {
        pair: f"NV{1 + sum(pair) % 2}" for pair in itertools.combinations(range(9), 2) if pair != (0, 1)
    }
    (bundle,) = bundles(machine_graph(Topology(tuple(map(Gpu, range(9))), links_)))
    assert bundle.is_bar
    pairs = "35 of 36 pairs, 1 not stated"
    assert bundle.names == (f"NVLink NV1–NV2 · {pairs}", f"NV1–NV2 · {pairs}", "NV1–NV2")
    told = Topology(tuple(map(Gpu, range(9))), links_ | {(0, 1): "SYS"})
    (bundle,) = bundles(machine_graph(told))
    assert bundle.names[0] == "NVLink NV1–NV2 · 35 of 36 pairs"


def test_bars_of_interleaved_islands_are_one_above_the_other():
    matrix = """
    X    NODE NV4  SYS  NV4  SYS
    NODE X    NODE NV4  SYS  NV4
    NV4  NODE X    SYS  NV4  SYS
    SYS  NV4  SYS  X    NODE NV4
    NV4  SYS  NV4  NODE X    NODE
    SYS  NV4  SYS  NV4  NODE X
    """
    drawn = picture(machine(matrix, numa="0 0 0 1 1 1"))
    assert len({bar.box.y for bar in of("bar", drawn)}) == 2
    assert faults(drawn) == []


def test_the_order_of_ranks_is_shown_where_it_does_not_ascend():
    drawn = picture(PRESETS["hgx-a100-4"], roles={"actor": [3, 1, 0, 2], "ref": [0, 1, 2, 3]})
    in_boxes = words(drawn, TextStyle.CHIP)[: -len(["actor", "ref"])]
    assert [rank for rank in in_boxes if rank.isdigit()] == ["2", "1", "3", "0"]
    assert words(drawn, TextStyle.LEGEND)[:3] == [
        "GPUs 0–3",
        "GPUs 0–3",
        "number after a role: its rank on that GPU",
    ]


def test_the_legend_says_where_each_role_runs():
    drawn = picture(PRESETS["l40s-8"], roles={"actor": [0, 1, 2, 4, 6, 7], "critic": [5], "judge": []})
    assert words(drawn, TextStyle.LEGEND) == ["GPUs 0–2, 4, 6–7", "GPU 5", "GPUs none"]
    assert drawn.caption == "8 GPUs: actor on 0–2, 4, 6–7; critic on 5"
    assert picture(PRESETS["4 hosts of 8"]).caption == "32 GPUs on 4 hosts"
    assert picture(PRESETS["a100-1"]).caption == "1 GPU"


def test_a_gpu_without_a_role_says_so():
    drawn = picture(PRESETS["a6000-4"], roles={"actor": [0, 1, 2]})
    assert [panel.hint for panel in of("idle", drawn)] == ["GPU 3: NVIDIA RTX A6000, 48 GiB"]
    assert words(drawn, TextStyle.DETAIL).count("no role") == 1
    assert of("idle", picture(PRESETS["a6000-4"])) == []


def test_a_gpu_of_which_nothing_is_known_has_its_number():
    (panel,) = of("gpu", picture(Topology((Gpu(0),))))
    assert panel.hint == "GPU 0"


def test_a_role_has_one_colour_and_usual_roles_have_theirs():
    others = [f"role {k}" for k in range(5)]
    drawn = picture(PRESETS["a100-1"], roles=dict.fromkeys([*others, *reversed(RoleName)], (0,)))
    colour = [panel.role for panel in of("chip", drawn)]
    assert colour == [5, 6, 7, 5, 6, 4, 3, 2, 1, 0] * 2
    assert max(filter(None, colour)) < len(PALETTE)


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        pytest.param(
            {"actor": [0, 4]}, "role 'actor' names GPU 4; this machine has the GPUs 0–3", id="no such GPU"
        ),
        pytest.param({"ref": [-1]}, "role 'ref' names GPU -1; this machine has the GPUs 0–3", id="negative"),
        pytest.param({"ref": [2, 0, 2]}, "role 'ref' names GPU 2 twice; name each GPU once", id="twice"),
    ],
)
def test_roles_that_do_not_fit_the_machine_are_refused(roles, message):
    with pytest.raises(InputError) as caught:
        draw(PRESETS["hgx-a100-4"], roles=roles)
    assert str(caught.value) == message


HOSTILE = "<script>alert(1)</script>&\"'\x00\x1b\ud800\n" + "x" * 500


def test_words_of_the_user_are_only_words():
    topology = Topology(
        (Gpu(0, host=HOSTILE, name=HOSTILE, numa=HOSTILE), Gpu(1, host=HOSTILE, numa=HOSTILE))
    )
    svg = draw(topology, roles={HOSTILE: [1, 0]}, title=HOSTILE)
    tags = {element.tag for element in ElementTree.fromstring(svg.encode()).iter()}
    assert tags == {SVG + tag for tag in ("svg", "style", "rect", "text", "title", "desc")}
    assert faults(picture(topology, roles={HOSTILE: [1, 0]}, title=HOSTILE)) == []


def test_the_document_is_self_contained_and_the_same_every_time():
    svg = draw(PRESETS["dgx-1-v100"], roles=halves(8), title="a title")
    assert svg == draw(PRESETS["dgx-1-v100"], roles=halves(8), title="a title")
    assert re.findall(r"https?://[^\"]*", svg) == ["http://www.w3.org/2000/svg"]
    assert "url(" not in svg
    assert "@import" not in svg
    assert svg.count("prefers-color-scheme:dark") == 1


def test_the_pictures_of_the_documentation_are_what_is_drawn():
    docs = Path(__file__).parents[2] / "docs"
    drawn = runpy.run_path(str(docs / "make_pictures.py"))["pictures"]()
    written = {name: (docs / "img" / name).read_text(encoding="utf-8") for name in drawn}
    assert [name for name in drawn if written[name] != drawn[name]] == [], "run python docs/make_pictures.py"


def test_every_class_has_a_colour_in_light_and_dark():
    svg = draw(PRESETS["16 GPUs, NVSwitch"], roles=halves(16), title="a") + draw(PRESETS["dgx-1-v100"])
    light, dark = (part.split("</style>")[0] for part in svg.split("@media")[:2])
    for kind in (
        "page",
        "host",
        "depth-1",
        "gpu",
        "bar",
        "stroke",
        "plate",
        "nic",
        "domain",
        "folded",
        "unplaced",
        "frame-name",
        "detail",
        "legend",
    ):
        assert f".{kind}" in light, kind
        assert f".{kind}" in dark, kind


def test_names_read_on_every_colour():
    """WCAG 2 asks for a contrast of 4.5 for small text."""
    svg = draw(PRESETS["a100-1"])

    def luminance(colour: str) -> float:
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    inks = re.findall(r"\.on-role-\d\{fill:(#\w{6})\}", svg)
    assert len(inks) == len(PALETTE)
    for ground, ink in zip(PALETTE, inks, strict=True):
        darker, lighter = sorted(map(luminance, (ground, ink)))
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, ground


@pytest.mark.parametrize("anchor", Anchor)
def test_a_text_takes_its_room_where_it_is_anchored(anchor):
    text = Text(100, 50, "NV12", TextStyle.LINK, anchor)
    edge = {Anchor.START: text.box.x, Anchor.MIDDLE: text.box.middle, Anchor.END: text.box.right}
    assert edge[anchor] == pytest.approx(100)
    assert is_inside(text.box, plate(text))


@given(st.text(max_size=40).map(printable), st.sampled_from(TextStyle), st.integers(0, 300))
def test_words_are_cut_to_the_room_they_have(text, style, width):
    shown = fit(text, style, width)
    assert text_width(shown, style) <= width
    assert shown == text or shown == "" or (shown.endswith("…") and text.startswith(shown[:-1]))
