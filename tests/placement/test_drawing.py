"""
Pictures of machines.

The oracle is geometry: in every picture no two names touch, boxes are inside or beside each other, and no link
crosses a GPU or a name that is not its own.
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

from placement.drawing import draw
from placement.drawing.layout import picture
from placement.drawing.nvlink import bundles, plate
from placement.drawing.shapes import (
    Anchor,
    Arc,
    Box,
    Panel,
    Picture,
    Stroke,
    Text,
    TextStyle,
    fit,
    printable,
    text_width,
)
from placement.drawing.svg import PALETTE
from placement.drawing.tree import Frame, Part, host_frames, rows
from placement.errors import InputError
from placement.workload import RoleName
from topologies import sources
from topologies.catalog import machine_names
from topologies.domains import Level, domains
from topologies.graph import machine_graph
from topologies.model import Gpu, Topology

SVG = "{http://www.w3.org/2000/svg}"


def machine(matrix: str, *, host: str | None = None, name: str | None = None, numa: str = "") -> Topology:
    """Return the machine of a matrix as people sketch it; ``?`` is an unknown link."""
    codes = [line.split() for line in matrix.strip().splitlines()]
    count = len(codes)
    nodes: list[str | None] = [*numa.split()] or [None] * count
    return Topology(
        tuple(Gpu(i, host=host, name=name, numa=nodes[i]) for i in range(count)),
        {(i, j): codes[i][j] for i, j in itertools.combinations(range(count), 2) if codes[i][j] != "?"},
    )


def uniform(count: int, code: str, *, name: str | None = None) -> Topology:
    """Return a machine of *count* GPUs of which every pair reads *code*."""
    pairs = itertools.combinations(range(count), 2)
    return Topology(tuple(Gpu(i, name=name) for i in range(count)), dict.fromkeys(pairs, code))


def several(host: Topology, count: int) -> Topology:
    """Return *count* hosts like *host*."""
    size = len(host.gpus)
    gpus = [
        gpu.replace(index=gpu.index + k * size, host=f"node{k}") for k in range(count) for gpu in host.gpus
    ]
    links = {(i + k * size, j + k * size): c for k in range(count) for (i, j), c in host.links.items()}
    return host.replace(gpus=tuple(gpus), links=links, gpu_nic={})


def halves(count: int) -> dict[str, range]:
    """Return two pools; the second runs backwards, and the last GPU has no role."""
    first, second = range((count + 1) // 2), range(count - 2, (count + 1) // 2 - 1, -1)
    return {"actor": first, "critic": second, "ref": first, "reward": second}


def of(kind: str, drawn: Picture) -> list[Panel]:
    return [shape for shape in drawn.shapes if isinstance(shape, Panel) and kind in shape.kind.split()]


def texts(drawn: Picture) -> list[Text]:
    return [shape for shape in drawn.shapes if isinstance(shape, Text)]


def words(drawn: Picture, style: TextStyle) -> list[str]:
    return [text.words for text in texts(drawn) if text.style is style]


def is_inside(inner: Box, outer: Box) -> bool:
    return (
        outer.x <= inner.x
        and inner.right <= outer.right
        and outer.y <= inner.y
        and inner.bottom <= outer.bottom
    )


def faults(drawn: Picture) -> list[str]:
    """Return what is wrong with the geometry of *drawn*, one sentence each."""
    page = Box(0, 0, drawn.width, drawn.height)
    gpus, chips, bars = of("gpu", drawn), of("chip", drawn), of("bar", drawn)
    boxes = [*of("host", drawn), *of("frame", drawn), *gpus]
    named = texts(drawn)
    found = [f"{text.words} leaves the page" for text in named if not is_inside(text.box, page)]
    found += [f"{panel} leaves the page" for panel in (*boxes, *bars) if not is_inside(panel.box, page)]
    found += [
        f"{a.words} touches {b.words}" for a, b in itertools.combinations(named, 2) if a.box.overlaps(b.box)
    ]
    found += [
        f"{a} cuts {b}"
        for a, b in itertools.combinations(boxes, 2)
        if a.box.overlaps(b.box) and not (is_inside(a.box, b.box) or is_inside(b.box, a.box))
    ]
    for solid in (gpus, chips, bars):
        found += [f"{a} touches {b}" for a, b in itertools.combinations(solid, 2) if a.box.overlaps(b.box)]
    found += [
        f"{text.words} runs out of {panel.kind}"
        for text in named
        for panel in (*boxes, *chips, *bars)
        if text.box.overlaps(panel.box) and not is_inside(text.box, panel.box)
    ]
    found += [f"{bar} covers {gpu}" for bar in bars for gpu in gpus if bar.box.overlaps(gpu.box)]
    on_a_link = (TextStyle.LINK, TextStyle.BAR)
    solid_boxes = [gpu.box for gpu in gpus] + [text.box for text in named if text.style not in on_a_link]
    found += [
        f"a link crosses {box}"
        for way in links(drawn)
        for box in solid_boxes
        if any(box.contains(x, y) for x, y in way)
    ]
    return found


def links(drawn: Picture) -> list[list[tuple[float, float]]]:
    """Return points along every line of *drawn*."""
    ways = []
    for shape in drawn.shapes:
        if isinstance(shape, Arc):
            ways.append([shape.point(k / 50) for k in range(51)])
        elif isinstance(shape, Stroke):
            (x0, y0), (x1, y1) = shape.points
            ways.append([(x0 + (x1 - x0) * k / 50, y0 + (y1 - y0) * k / 50) for k in range(51)])
    return ways


def frames(part: Part) -> list[Frame]:
    if isinstance(part, int):
        return []
    return [part, *(frame for inner in part.parts for frame in frames(inner))]


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
    assert sorted(words(drawn, TextStyle.GPU)) == sorted(f"GPU {gpu.index}" for gpu in topology.gpus)


@st.composite
def machines(draw_: st.DrawFn) -> Topology:
    count = draw_(st.integers(1, 20))
    hosts = draw_(st.sampled_from([1, 1, 2, 3]))
    some = st.sampled_from(["NV1", "NV2", "NV12", "PIX", "PXB", "PHB", "NODE", "SYS", "?!", None])
    name = (
        draw_(st.text(max_size=30))
        if draw_(st.booleans())
        else "NVIDIA RTX PRO 6000 Blackwell Server Edition"
    )
    numa = st.sampled_from([None, "0", "1", "N/A"])
    gpus = tuple(
        Gpu(i, host=f"node{i * hosts // count}" if hosts > 1 else None, name=name, numa=draw_(numa))
        for i in range(count)
    )
    codes = {pair: draw_(some) for pair in itertools.combinations(range(count), 2)}
    return Topology(gpus, {pair: code for pair, code in codes.items() if code is not None})


@given(machines(), st.data())
def test_nothing_overlaps_on_any_machine(topology, data):
    gpu = st.integers(0, len(topology.gpus) - 1)
    roles = data.draw(st.dictionaries(st.text(max_size=12), st.lists(gpu, unique=True), max_size=5))
    drawn = picture(topology, roles=roles, title=data.draw(st.text(max_size=200)))
    assert faults(drawn) == []
    assert len(of("gpu", drawn)) == len(topology.gpus)
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
    assert {gpus for gpus in found if len(gpus) == 1} <= {*domains(graph, Level.NUMA), *whole}


def test_a_box_that_is_two_levels_has_both_names():
    host = host_frames(machine_graph(machine("X PIX SYS\nPIX X SYS\nSYS SYS X", numa="3 3 5")))[0]
    assert [frame.name for frame in frames(host)] == ["host", "NUMA node 3 · PCIe switch", "NUMA node 5"]


def test_a_root_complex_is_named_where_it_is_a_level_of_its_own():
    matrix = "X PHB NODE NODE\nPHB X NODE NODE\nNODE NODE X PHB\nNODE NODE PHB X"
    (host,) = host_frames(machine_graph(machine(matrix, numa="0 0 0 0")))
    assert [frame.name for frame in frames(host)] == ["host · NUMA node 0", "root complex", "root complex"]


def test_a_level_of_lone_gpus_is_not_drawn():
    (host,) = host_frames(machine_graph(machine("X SYS\nSYS X", numa="0 1")))
    assert host == Frame("host", (0, 1))


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
        pytest.param("dgx-a100-80gb", ["NVLink NV12 · all pairs · 275 GB/s"], id="NVSwitch"),
        pytest.param("hgx-a100-4", ["NVLink NV4 · all pairs · 90 GB/s"], id="all pairs directly"),
        pytest.param("dgx-1-v100", [], id="mesh"),
        pytest.param("h100-nvl-4", [], id="bridged pairs"),
        pytest.param("l40s-8", [], id="no NVLink"),
        pytest.param("16 GPUs, NVSwitch", ["NVLink NV6 · all pairs · 135 GB/s"] * 2, id="two rows"),
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
    assert words(drawn, TextStyle.LEGEND) == ["NV1 24 GB/s, NV2 48 GB/s between two GPUs, one direction"]


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
    assert words(drawn, TextStyle.LEGEND) == ["GB/s: between two GPUs, one direction"]


def test_a_mesh_that_no_eye_can_follow_is_a_bar_that_counts():
    links_ = {
        pair: f"NV{1 + sum(pair) % 2}" for pair in itertools.combinations(range(9), 2) if pair != (0, 1)
    }
    (bundle,) = bundles(machine_graph(Topology(tuple(map(Gpu, range(9))), links_)))
    assert bundle.is_bar
    assert bundle.names[1:] == ("NVLink NV1–NV2 · 35 of 36 pairs", "NV1–NV2 · 35 of 36 pairs", "NV1–NV2")


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
    assert tags == {SVG + tag for tag in ("svg", "style", "rect", "text", "title")}
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
