"""Who shares a level of the machine."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.domains import Level, domains, islands
from topologies.graph import machine_graph
from topologies.links import LinkKind
from topologies.model import Gpu, Topology

CONTRADICTS = "1 link code contradicts others, and the closest statement is taken: "
LEVELS_OF_PCIE = (Level.SWITCH, Level.ROOT_COMPLEX, Level.NUMA, Level.HOST)


def by_level(topology: Topology) -> dict[Level, tuple[tuple[int, ...], ...]]:
    return {level: domains(topology, level) for level in Level}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("two pairs", ((0, 1), (2, 3))),
        ("two switches", ((0,), (1,), (2,), (3,))),
        ("square", ((0, 1), (2, 3))),
        ("nvswitch", ((0, 1, 2, 3),)),
    ],
)
def test_islands_are_nvlink_cliques(drawn, name, expected):
    assert islands(drawn[name]) == islands(machine_graph(drawn[name])) == expected


def test_an_unknown_link_joins_no_island(draw):
    assert islands(draw("X ?\n? X")) == ((0,), (1,))
    assert islands(draw("X NV12 ?\nNV12 X NV12\n? NV12 X")) == ((0, 1), (2,))


def test_islands_stay_inside_a_host(draw):
    """One NVLink domain over two hosts is still an island per host."""
    assert islands(draw("X NV18\nNV18 X", hosts="a b")) == ((0,), (1,))


def test_levels_nest_and_the_switch_is_the_one_a_gpu_hangs_from(drawn):
    """(({0 1} {2 3}) 4) 5: a switch under a switch, one GPU on the host bridge, one on another."""
    assert by_level(drawn["nested"]) == {
        Level.ISLAND: ((0,), (1,), (2,), (3,), (4,), (5,)),
        Level.SWITCH: ((0, 1), (2, 3), (4,), (5,)),
        Level.ROOT_COMPLEX: ((0, 1, 2, 3, 4), (5,)),
        Level.NUMA: ((0, 1, 2, 3, 4, 5),),
        Level.HOST: ((0, 1, 2, 3, 4, 5),),
    }


def test_gpus_of_an_upper_switch_are_together_beside_those_of_a_lower_one(draw):
    """({0 1} 2 3): two hang from the upper switch itself."""
    machine = draw("X PIX PXB PXB\nPIX X PXB PXB\nPXB PXB X PXB\nPXB PXB PXB X")
    assert domains(machine, Level.SWITCH) == ((0, 1), (2, 3))


NVLINK4 = "X NV12 NV12 NV12\nNV12 X NV12 NV12\nNV12 NV12 X NV12\nNV12 NV12 NV12 X"


def test_nics_show_the_switches_that_nvlink_hides(draw):
    """As on a DGX A100: two GPUs and a NIC under each switch."""
    machine = draw(NVLINK4, nics={"NIC0": "PXB PXB SYS SYS", "NIC1": "SYS SYS PXB PXB"})
    assert domains(machine, Level.SWITCH) == domains(machine, Level.ROOT_COMPLEX) == ((0, 1), (2, 3))
    assert domains(machine, Level.ISLAND) == ((0, 1, 2, 3),)


def test_a_nic_of_its_own_shows_that_a_gpu_shares_no_switch(draw):
    """As on a DGX H100: NODE between a GPU and the NICs of the others."""
    machine = draw(NVLINK4, nics={"NIC0": "PXB NODE NODE NODE", "NIC1": "NODE PXB NODE NODE"})
    assert domains(machine, Level.SWITCH) == ((0,), (1,), (2,), (3,))
    assert domains(machine, Level.NUMA) == ((0, 1, 2, 3),)


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        pytest.param({"numa": "0 0 1 1"}, ((0, 1), (2, 3)), id="NUMA column"),
        pytest.param({"numa": "0-1 0-1 0-1 0-1"}, ((0, 1, 2, 3),), id="a range of nodes is one label"),
        pytest.param({"cpus": "0-7 0-7 8-15 8-15"}, ((0, 1), (2, 3)), id="CPU affinity alone"),
        pytest.param(
            {"numa": "N/A N/A N/A N/A", "cpus": "0-7 0-7 8-15 8-15"},
            ((0, 1), (2, 3)),
            id="NUMA not available",
        ),
        pytest.param(
            {"numa": "0 ? 1 1", "cpus": "0-7 0-7 8-15 8-15"}, ((0,), (1,), (2, 3)), id="NUMA of one unknown"
        ),
        pytest.param({"cpus": "? ? N/A N/A"}, ((0,), (1,), (2,), (3,)), id="nothing known joins nothing"),
    ],
)
def test_affinity_places_gpus_whose_pairs_are_all_nvlink(draw, affinity, expected):
    machine = draw(NVLINK4, **affinity)
    assert domains(machine, Level.NUMA) == expected
    assert domains(machine, Level.SWITCH) == ((0,), (1,), (2,), (3,))


def test_cpu_affinity_does_not_overrule_a_code(draw):
    """A container with one CPU gives all GPUs the same affinity, on whatever socket they are."""
    assert domains(draw("X SYS\nSYS X", cpus="0 0"), Level.NUMA) == ((0,), (1,))


def test_a_flat_matrix_of_a_virtual_machine_is_one_root_complex(draw):
    machine = draw(NVLINK4, nics={"NIC0": "PHB PHB PHB PHB"})
    assert domains(machine, Level.ROOT_COMPLEX) == ((0, 1, 2, 3),)
    assert machine_graph(machine).graph["warnings"] == ()


@pytest.mark.parametrize(
    ("machine", "numa", "warning"),
    [
        pytest.param(
            {"text": "X PIX SYS\nPIX X PIX\nSYS PIX X"},
            ((0, 1, 2),),
            CONTRADICTS + "GPU0–GPU2 reads SYS but is PIX by what else is stated",
            id="codes that are no tree",
        ),
        pytest.param(
            {"text": "X SYS\nSYS X", "numa": "0 0"},
            ((0, 1),),
            CONTRADICTS + "GPU0–GPU1 reads SYS but is NODE by what else is stated",
            id="SYS on one NUMA node",
        ),
        pytest.param(
            {"text": "X NODE\nNODE X", "numa": "0 1"},
            ((0, 1),),
            "link codes put GPUs of several NUMA nodes together (GPU 0 on 0, GPU 1 on 1): taken as one node",
            id="NODE across NUMA nodes",
        ),
        pytest.param(
            {"text": "X PIX\nPIX X", "nics": {"NIC0": "PXB SYS"}},
            ((0, 1),),
            CONTRADICTS + "GPU1–NIC0 reads SYS but is PXB by what else is stated",
            id="a NIC that is near and far",
        ),
    ],
)
def test_contradictions_take_the_closest_statement_and_warn(draw, machine, numa, warning):
    topology = draw(machine.pop("text"), **machine)
    assert domains(topology, Level.NUMA) == numa
    assert machine_graph(topology).graph["warnings"] == (warning,)


def test_hosts_are_never_joined(draw):
    """Two hosts whose NICs and NUMA nodes have the same names."""
    machine = draw(
        "X PIX ? ?\nPIX X ? ?\n? ? X PIX\n? ? PIX X",
        hosts="a a b b",
        numa="0 0 0 0",
        nics={"NIC0": "PIX PIX PIX PIX"},
    )
    for level in LEVELS_OF_PCIE:
        assert domains(machine, level) == ((0, 1), (2, 3))


CODES = ["PIX", "PXB", "PHB", "NODE", "SYS", "NV2", "NV4", None]


@st.composite
def machines(draw: st.DrawFn) -> Topology:
    """Any machine, possible or not."""
    count = draw(st.integers(1, 6))
    gpus = tuple(
        Gpu(i, host=draw(st.sampled_from([None, "b"])), numa=draw(st.sampled_from([None, "0", "1", "N/A"])))
        for i in range(count)
    )
    links = {p: c for p in itertools.combinations(range(count), 2) if (c := draw(st.sampled_from(CODES)))}
    nics = {i: {"NIC0": c} for i in range(count) if (c := draw(st.sampled_from(CODES)))}
    return Topology(gpus, links, nics={"NIC0": None}, gpu_nic=nics)


@given(machines())
def test_every_level_is_a_partition_and_pcie_levels_nest(machine):
    graph = machine_graph(machine)
    for level in Level:
        found = domains(machine, level)
        assert domains(graph, level) == found
        assert sorted(itertools.chain(*found)) == [gpu.index for gpu in machine.gpus]
        assert all(tuple(sorted(domain)) == domain for domain in found)
        assert list(found) == sorted(found)
    for inner, outer in itertools.pairwise(LEVELS_OF_PCIE):
        for domain in domains(machine, inner):
            assert any(set(domain) <= set(bigger) for bigger in domains(machine, outer))


@given(machines())
def test_no_stated_code_is_read_as_farther_than_it_says(machine):
    home = {
        level: {g: k for k, domain in enumerate(domains(machine, level)) for g in domain}
        for level in (Level.ROOT_COMPLEX, Level.NUMA)
    }
    for (i, j), code in machine.links.items():
        if machine.gpus[i].host == machine.gpus[j].host:
            if code in (LinkKind.PIX, LinkKind.PXB, LinkKind.PHB):
                assert home[Level.ROOT_COMPLEX][i] == home[Level.ROOT_COMPLEX][j]
            if code == LinkKind.NODE:
                assert home[Level.NUMA][i] == home[Level.NUMA][j]


def test_islands_of_a_topology_need_no_networkx():
    code = """if True:
        import sys
        from topologies.domains import Level, domains, islands
        from topologies.model import Gpu, Topology
        machine = Topology((Gpu(0), Gpu(1)), {(0, 1): "NV4"})
        islands(machine), [domains(machine, level) for level in Level]
        assert "networkx" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", code], check=True)
