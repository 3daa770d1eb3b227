"""The shipped machines."""

from __future__ import annotations

import itertools

import pytest

from topologies import bandwidth
from topologies.cards import card_of
from topologies.catalog import machine_names, machine_summary, machine_text
from topologies.domains import Level, domains
from topologies.errors import TopologyError
from topologies.graph import machine_graph
from topologies.read import read_text

NVLINKED = {
    "dgx-1-p100",
    "dgx-1-v100",
    "dgx-a100-40gb",
    "dgx-a100-80gb",
    "hgx-a100-4",
    "dgx-h100",
    "dgx-h200",
    "dgx-b200",
}
PAIRS = {"a100-pcie-mixed-8", "a100-pcie-mixed-4", "a6000-4", "h100-nvl-4", "ac922-v100-4"}
ALONE = {"l40s-8", "rtx4090-8", "a100-1"}


def test_the_promised_machines_are_shipped():
    assert set(machine_names()) == NVLINKED | PAIRS | ALONE
    assert list(machine_names()) == sorted(machine_names())


def test_a_wrong_name_is_refused_with_the_nearest():
    with pytest.raises(TopologyError) as caught:
        machine_text("dgx-a100-8gb")
    assert str(caught.value) == (
        "there is no shipped machine 'dgx-a100-8gb' (`placement catalog machines` lists them); "
        "did you mean dgx-a100-80gb or dgx-a100-40gb or hgx-a100-4?"
    )
    with pytest.raises(TopologyError, match=r"lists them\)$"):
        machine_text("../../errors")


@pytest.mark.parametrize("name", machine_names())
def test_a_machine_has_a_drawing_and_a_source(name):
    comment = [line for line in machine_text(name).splitlines() if line.startswith("#")]
    assert comment[0] == f"# {machine_summary(name)}"
    assert any(line.startswith("# Source: ") for line in comment)
    assert any("│" in line or "└" in line or "║" in line for line in comment)


@pytest.mark.parametrize("name", machine_names())
def test_a_machine_is_read_whole_and_without_a_warning(name):
    machine = read_text(machine_text(name), name=name)
    assert machine.warnings == ()
    assert machine.links_complete
    graph = machine_graph(machine)
    assert graph.graph["warnings"] == ()
    for gpu in machine.gpus:
        card = card_of(gpu)
        assert card is not None
        assert gpu.memory_mib == card.total_mib
    assert all(found.source for found in graph.graph["links"].values())


@pytest.mark.parametrize("name", machine_names())
def test_islands_of_a_machine_are_what_its_summary_says(name):
    machine = read_text(machine_text(name), name=name)
    sizes = {len(island) for island in domains(machine, Level.ISLAND)}
    if name in ALONE:
        assert sizes == {1}
    elif name in PAIRS:
        assert sizes == {2}
    else:
        assert sizes == {4 if name.startswith("dgx-1") else len(machine.gpus)}


@pytest.mark.parametrize("name", ["dgx-a100-40gb", "dgx-a100-80gb", "dgx-1-v100", "dgx-1-p100", "l40s-8"])
def test_pairs_under_a_switch_are_found(name):
    machine = read_text(machine_text(name), name=name)
    assert domains(machine, Level.SWITCH) == ((0, 1), (2, 3), (4, 5), (6, 7))


@pytest.mark.parametrize("name", ["dgx-h100", "dgx-h200", "dgx-b200"])
def test_newer_machines_have_a_switch_for_each_gpu(name):
    graph = machine_graph(read_text(machine_text(name), name=name))
    assert domains(graph, Level.SWITCH) == tuple((g,) for g in range(8))
    assert sum(node[0] == "switch" for node in graph) == 8


def test_every_group_of_every_machine_has_a_ring():
    for name in machine_names():
        machine = read_text(machine_text(name), name=name)
        graph = machine_graph(machine)
        count = len(machine.gpus)
        for size in range(2, count + 1):
            for gpus in itertools.combinations(range(count), size):
                assert bandwidth.ring(graph, gpus).gb_per_s > 5
