"""
Machines as people sketch them, random ones, and what may be wrong with a picture of one.

The oracle is geometry: no two names touch, boxes are inside or beside each other, and no link crosses a GPU or
a name that is not its own.
"""

from __future__ import annotations

import itertools

from hypothesis import strategies as st

from placement.drawing.shapes import Arc, Box, Panel, Picture, Stroke, Text, TextStyle
from placement.drawing.tree import Frame, Part
from topologies.model import Gpu, Topology
from topologies.parts import Mig, MigInstance, Network, NetworkDomain, Nic, Pcie


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
    gpu_nic = {g + k * size: nics for k in range(count) for g, nics in host.gpu_nic.items()}
    return host.replace(gpus=tuple(gpus), links=links, gpu_nic=gpu_nic)


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
    small = [*of("nic", drawn), *of("folded", drawn)]
    boxes = [*of("domain", drawn), *of("host", drawn), *of("frame", drawn), *gpus, *small]
    named = [text for text in texts(drawn) if text.words]
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
    for solid in ([*gpus, *small], chips, bars):
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


NAMES = (None, "NVIDIA H100 80GB HBM3", "NVIDIA RTX PRO 6000 Blackwell Server Edition of a very long name")
CODES = st.sampled_from(["NV1", "NV2", "NV12", "PIX", "PXB", "PHB", "NODE", "SYS", "?!", None])


@st.composite
def hosts(draw_: st.DrawFn, most: int = 20) -> Topology:
    """Draw a host: any links, NICs that hang anywhere, GPUs of which more or less is known."""
    count = draw_(st.integers(1, most))
    name = draw_(st.one_of(st.sampled_from(NAMES), st.text(max_size=30)))
    numa = st.sampled_from([None, "0", "1", "N/A"])
    port = st.sampled_from([None, Pcie(), Pcie(5, 16), Pcie(None, None, 1, 8)])
    mig = st.sampled_from([None, Mig(False), Mig(True), Mig(True, (MigInstance("1g.10gb"),) * 7)])
    gpus = tuple(
        Gpu(i, name=name, numa=draw_(numa), pcie=draw_(port), mig=draw_(mig), is_named=draw_(st.booleans()))
        for i in range(count)
    )
    codes = {pair: draw_(CODES) for pair in itertools.combinations(range(count), 2)}
    device = st.one_of(st.none(), st.sampled_from(["mlx5_0", "mlx5_bond_0", "rocep193s0f1np1_port_one"]), st.text(max_size=20))
    nics = {f"NIC{k}": draw_(device) for k in range(draw_(st.sampled_from([0, 0, 1, 2, 5, 18])))}
    gpu_nic = {
        g: {nic: code for nic in nics if (code := draw_(CODES)) is not None and not code.startswith("NV")}
        for g in range(count)
        if nics and draw_(st.booleans())
    }
    rate = st.sampled_from([None, 25.0, 50.0])
    details = {nic: Nic(gb_per_s=draw_(rate)) for nic in nics}
    known = {pair: code for pair, code in codes.items() if code is not None}
    return Topology(gpus, known, nics, gpu_nic, nic_details=details)


@st.composite
def clusters(draw_: st.DrawFn) -> Topology:
    """Draw up to a dozen hosts of up to two kinds, and what may be said of their network."""
    kinds = [draw_(hosts(most=3)) for _ in range(draw_(st.integers(1, 2)))]
    count = draw_(st.integers(2, 12))
    prefix = draw_(st.sampled_from(["node", "a-host-name-of-sixty-characters-as-some-clouds-give-them-", ""]))
    names = [f"{prefix}{k}" for k in range(count)]
    gpus: list[Gpu] = []
    links, gpu_nic, nics = {}, {}, {}
    for name in names:
        kind, start = draw_(st.sampled_from(kinds)), len(gpus)
        gpus += [gpu.replace(index=start + gpu.index, host=name) for gpu in kind.gpus]
        links |= {(i + start, j + start): code for (i, j), code in kind.links.items()}
        gpu_nic |= {g + start: codes for g, codes in kind.gpu_nic.items()}
        nics |= kind.nics
    some = st.lists(st.sampled_from(names), min_size=1, unique=True).map(tuple)
    rate = st.sampled_from([None, 50.0, 1 / 3])
    domains = tuple(
        NetworkDomain(f"part{k}", draw_(st.sampled_from(["leaf", "nvlink", "part"])), draw_(some), None, draw_(rate))
        for k in range(draw_(st.integers(0, 6)))
    )
    net = draw_(st.sampled_from([None, Network(draw_(st.sampled_from([None, 1, 8])), draw_(rate), domains)]))
    return Topology(tuple(gpus), links, nics, gpu_nic, network=net)
