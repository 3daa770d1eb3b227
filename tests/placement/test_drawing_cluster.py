"""Pictures of clusters and of what is further known: network, alike hosts, NICs, and what those hear who cannot see."""

from __future__ import annotations

import itertools
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from pictures import clusters, faults, is_inside, machine, of, several, texts, words

from placement.drawing import draw, svg
from placement.drawing.layout import picture
from placement.drawing.shapes import TextStyle, fit_middle, text_width
from topologies import sources
from topologies.errors import TopologyError
from topologies.model import Gpu, Topology
from topologies.parts import Mig, MigInstance, Network, NetworkDomain, Nic, Pcie
from topologies.read import read_text

CASES = sorted(
    path for path in (Path(__file__).parents[1] / "data" / "topology").iterdir() if path.suffix in {".txt", ".csv", ".xml"}
)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_case_that_can_be_read_can_be_drawn(path):
    try:
        topology = read_text(path.read_bytes().decode("utf-8-sig", "replace"))
    except TopologyError:
        return  # a refusal has no picture
    drawn = picture(topology)
    assert faults(drawn) == []
    assert len(of("gpu", drawn)) == len(topology.gpus)
    assert len(of("nic", drawn)) == len(topology.nics)


def test_a_nic_stands_in_the_box_that_it_hangs_from():
    topology = sources.load("dgx-1-v100")
    drawn = picture(topology)
    switches = [frame for frame in of("frame", drawn) if len([g for g in of("gpu", drawn) if is_inside(g.box, frame.box)]) == 2]
    where = {
        nic.hint.removeprefix("NIC "): {gpu.hint[:5] for gpu in of("gpu", drawn) if is_inside(gpu.box, switch.box)}
        for switch in switches
        for nic in of("nic", drawn)
        if is_inside(nic.box, switch.box)
    }
    stated = {
        nic: {f"GPU {g}" for g, codes in topology.gpu_nic.items() if codes[nic] == "PIX"} for nic in topology.nics
    }
    assert where == stated


def test_nics_say_what_is_known_of_them():
    topology = Topology(
        (Gpu(0),),
        nics={"NIC0": "mlx5_0", "NIC1": None},
        gpu_nic={0: {"NIC0": "PIX"}},
        nic_details={"NIC0": Nic(gb_per_s=50.0, pcie=Pcie(5, 16))},
    )
    drawn = picture(topology)
    assert words(drawn, TextStyle.NIC) == ["mlx5_0", "NIC1"]
    assert [nic.hint for nic in of("nic", drawn)] == ["NIC mlx5_0: NIC0, 50 GB/s, gen5 x16", "NIC NIC1"]
    assert words(drawn, TextStyle.LEGEND) == ["small pills: NICs, 50 GB/s in one direction"]


def test_many_nics_make_no_tower():
    topology = Topology((Gpu(0),), nics={f"NIC{k}": None for k in range(18)})
    tops = {nic.box.y for nic in of("nic", picture(topology))}
    assert len(tops) == 4


def test_a_gpu_says_its_port_and_its_instances_and_whether_it_is_named():
    gpus = (
        Gpu(0, name="NVIDIA H100 80GB HBM3", memory_mib=81559, pcie=Pcie(5, 16, 1, 16)),
        Gpu(1, mig=Mig(True, (MigInstance("1g.10gb"),) * 7)),
        Gpu(2, mig=Mig(False), is_named=False),
    )
    drawn = picture(Topology(gpus))
    assert words(drawn, TextStyle.DETAIL) == ["H100", "80 GiB", "gen5 x16", "MIG: 7 parts", "not named"]
    assert [panel.hint for panel in of("idle", drawn)] == ["GPU 2: not named"]


def leaves(topology: Topology, *sizes: int, **uplinks: float) -> Topology:
    """Return *topology* under a spine with leaves of *sizes* hosts."""
    names = iter(topology.hosts)
    parts = [("leaf" + str(k), tuple(itertools.islice(names, size))) for k, size in enumerate(sizes)]
    spine = NetworkDomain("spine0", "spine", topology.hosts)
    below = (NetworkDomain(name, "leaf", hosts, "spine0", uplinks.get(name)) for name, hosts in parts)
    return topology.replace(network=Network(8, 50.0, (spine, *below)))


def test_the_network_is_around_its_hosts():
    drawn = picture(leaves(several(sources.load("hgx-a100-4"), 4), 3, 1, leaf0=400.0))
    title = "network: 8 rails × 50 GB/s on each host · spine0"
    boxes = {panel.hint: panel.box for panel in of("domain", drawn)}
    assert list(boxes) == [title, "leaf0 · uplinks 400 GB/s", "leaf1"]
    inside = {
        name: [host.hint.split(" ")[0] for host in of("host", drawn) if is_inside(host.box, box)] for name, box in boxes.items()
    }
    assert list(inside.values()) == [["node0", "node1", "node2", "node3"], ["node0", "node1", "node2"], ["node3"]]


def test_parts_that_cross_have_no_box_around_both():
    topology = several(sources.load("a100-1"), 3)
    crossing = (
        NetworkDomain("rack1", "leaf", ("node0", "node1")),
        NetworkDomain("rack2", "leaf", ("node1", "node2")),
    )
    drawn = picture(topology.replace(network=Network(domains=crossing)))
    assert [panel.hint for panel in of("domain", drawn)] == ["leaf rack1"]
    assert len(of("host", drawn)) == 3
    assert faults(drawn) == []


@pytest.mark.parametrize(
    ("count", "drawn_hosts", "folded"),
    [
        pytest.param(4, 4, [], id="a handful"),
        pytest.param(5, 3, ["node[3-4]: the same"], id="one more"),
        pytest.param(128, 3, ["node[3-127]: the same"], id="a cluster"),
    ],
)
def test_alike_hosts_beyond_a_handful_are_one_box(count, drawn_hosts, folded):
    drawn = picture(several(sources.load("hgx-a100-4"), count))
    assert len(of("host", drawn)) == drawn_hosts
    assert [panel.hint for panel in of("folded", drawn)] == folded
    if folded:
        assert f"{count - 3} hosts, {4 * (count - 3)} GPUs" in words(drawn, TextStyle.DETAIL)
    assert faults(drawn) == []


def test_alike_parts_of_the_network_are_one_box():
    drawn = picture(leaves(several(sources.load("a100-1"), 12), 3, 3, 3, 3))
    assert [panel.hint for panel in of("domain", drawn)][1:] == ["leaf0"]
    assert [panel.hint for panel in of("folded", drawn)] == ["leaf[1-3]: the same"]
    unlike = picture(leaves(several(sources.load("a100-1"), 12), 3, 3, 3, 3, leaf1=100.0, leaf2=200.0))
    assert of("folded", unlike) == []


def test_a_host_with_other_roles_is_not_the_same():
    topology = several(sources.load("a100-1"), 8)
    drawn = picture(topology, roles={"actor": [0, 1, 2, 3, 4, 5], "critic": [6]})
    assert [panel.hint for panel in of("folded", drawn)] == ["node[3-5]: the same"]
    assert words(drawn, TextStyle.GPU) == ["GPU 0", "GPU 1", "GPU 2", "GPU 6", "GPU 7"]


@given(clusters())
def test_what_is_drawn_and_what_is_folded_is_all(topology):
    drawn = picture(topology)
    folded = [int(text.split(" ")[-2]) for text in words(drawn, TextStyle.DETAIL) if text.split(" ")[0].isdigit() and " host" in text]
    assert len(of("gpu", drawn)) + sum(folded) == len(topology.gpus)


def test_long_names_of_hosts_keep_their_ends():
    names = [f"gpu-cluster-production-frankfurt-building-4-rack-17-host-000{k}" for k in (1, 2)]
    topology = Topology((Gpu(0, host=names[0]), Gpu(1, host=names[1])))
    shown = words(picture(topology), TextStyle.HOST)
    assert len(set(shown)) == 2
    assert [name[-4:] for name in shown] == ["0001", "0002"]
    assert all(text_width(fit_middle(name, TextStyle.HOST, 120), TextStyle.HOST) <= 120 for name in names)


def test_those_who_cannot_see_hear_the_same():
    topology = several(machine("X NV4 SYS\nNV4 X SYS\nSYS SYS X", name="NVIDIA RTX A6000"), 6)
    root = ElementTree.fromstring(draw(topology))
    spoken = {child.tag.rsplit("}")[-1]: child.text for child in root if child.tag.endswith(("title", "desc"))}
    assert spoken == {
        "title": "18 GPUs on 6 hosts",
        "desc": "node[0-5]: 3 GPUs (NVIDIA RTX A6000), NVLink joins 0–1.",
    }
    assert root.get("role") == "img"
    assert root.get("aria-label") == spoken["title"]


def luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted(map(luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("theme", [pytest.param(svg._LIGHT, id="light"), pytest.param(svg._DARK, id="dark")])
def test_words_and_links_read_on_every_ground(theme):
    """WCAG 2 asks for a contrast of 4.5 for small text and of 3 for lines; luminance alone counts, so it holds in grey."""
    for ground in ("page", "host", "frame", "inner", "gpu", "nic"):
        assert contrast(theme["ink"], theme[ground]) >= 4.5, ground
    for ground in ("page", "host", "frame", "inner", "gpu"):
        assert contrast(theme["muted"], theme[ground]) >= 4.5, ground
        assert contrast(theme["link"], theme[ground]) >= 3, ground
    assert contrast(theme["on-link"], theme["link"]) >= 4.5


def test_a_picture_of_128_hosts_is_small():
    topology = leaves(several(sources.load("dgx-h100"), 128), *[16] * 8)
    drawn = picture(topology)
    assert len(of("host", drawn)) == 3
    assert [panel.hint for panel in of("folded", drawn)] == ["node[3-15]: the same", "leaf[1-7]: the same"]
    assert max(text.box.right for text in texts(drawn)) <= drawn.width < 1200
    assert drawn.height < 1200


def test_hosts_of_very_many_kinds_are_named_only():
    host = sources.load("a100-1")
    topology = several(host, 40)
    topology = topology.replace(gpus=tuple(gpu.replace(memory_mib=1024 * (1 + gpu.index)) for gpu in topology.gpus))
    drawn = picture(topology)
    assert len(of("host", drawn)) == 32
    assert [panel.hint for panel in of("folded", drawn)] == [f"node{k}: not drawn" for k in range(32, 40)]
    assert faults(drawn) == []
