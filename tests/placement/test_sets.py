"""Which sets of GPUs may form a group."""

from __future__ import annotations

import itertools

import pytest
from conftest_placement import actor, ask, critic, job, machine, rollout

import placement
from placement.machines.machine import Machine, resolve
from placement.planner import plan
from placement.program import sets as listed
from placement.program.sets import card_classes, contiguous, sets, twin_classes
from placement.workloads.rules import Rules, parse_rules
from placement.workloads.workload import Engine, LayoutMenu
from topologies.domains import Level
from topologies.model import Topology

FREE = parse_rules("free,contiguity=off")


def shipped(name: str, **how) -> Machine:
    """Return a shipped machine as planning sees it."""
    return resolve(placement.read_machine(name), Rules(), **how)


def alone(m: Machine):
    """Return every GPU as a class of its own."""
    return tuple((g,) for g in m.usable)


def subsets(m: Machine, size: int):
    """Return all sets of *size* GPUs."""
    return list(itertools.combinations(m.usable, size))


@pytest.mark.parametrize("name", ["dgx-1-v100", "dgx-a100-80gb", "a100-pcie-mixed-8", "l40s-8", "a6000-4"])
@pytest.mark.parametrize("spec", ["guide", "free", "strict,contiguity=off"])
def test_leaving_out_twins_changes_no_plan(monkeypatch, name, spec):
    """Also the ids are the same: runs of twins have the smallest."""
    job = placement.load_workload("ppo-1.5b")
    instance = placement.make_instance(placement.read_machine(name), job, parse_rules(spec))
    few = plan(instance)
    monkeypatch.setattr(listed, "twin_classes", alone)
    assert plan(instance) == few


def test_twins_are_what_can_be_exchanged():
    """Behind one switch GPUs are alike; on the mesh of a DGX-1 no two see the others in the same way."""
    for name in ("dgx-a100-80gb", "dgx-1-v100"):
        m = shipped(name)
        for twins in twin_classes(m):
            for a, b in itertools.combinations(twins, 2):
                swap = {a: b, b: a}
                codes = m.topology.links
                assert all(
                    m.topology.link(swap.get(i, i), swap.get(j, j)) == code for (i, j), code in codes.items()
                )
    assert len(twin_classes(shipped("dgx-a100-80gb"))) == 4
    assert twin_classes(shipped("dgx-1-v100")) == alone(shipped("dgx-1-v100"))


def test_equal_gpus_are_not_listed_twice():
    """Sixteen GPUs, all alike: runs only. With rule sharing=partial any sets may overlap, so all of them."""
    m = resolve(machine("NV12", 16), FREE)
    assert twin_classes(m) == (tuple(range(16)),)
    found = sets(m, FREE, range(1, 17))
    assert found.is_complete
    assert len(found.listed) == 16 * 17 // 2
    assert all(gpus == tuple(range(gpus[0], gpus[-1] + 1)) for gpus in found.listed)
    partial = parse_rules("free,contiguity=off,sharing=partial")
    assert len(sets(resolve(machine("NV12", 4), partial), partial, range(1, 5)).listed) == 15


def unlike(gpus: int) -> Topology:
    """Return a machine of which no two GPUs are alike."""
    pairs = [(i, j) for j in range(gpus) for i in range(j)]
    return machine({pair: f"NV{1 + k % 17}" for k, pair in enumerate(pairs)}, gpus)


@pytest.mark.parametrize("gpus", [16, 24])
def test_what_is_left_out_is_said(gpus):
    """All sizes are there, and it is no proof."""
    found = sets(resolve(unlike(gpus), FREE), FREE, range(1, gpus + 1))
    assert not found.is_complete
    assert {len(gpus_of) for gpus_of in found.listed} == set(range(1, gpus + 1))
    assert len(found.listed) <= listed.MAX_SETS


def test_a_set_that_tears_no_domain_is_right():
    """One NIC beside GPUs 2 and 3 puts them under one switch; the bridged pair 0, 1 is as good."""
    m = shipped("a6000-4")
    assert contiguous(subsets(m, 2), m, m.usable) == [(0, 1), (2, 3)]


def test_whole_domains_are_right_where_one_would_hold_all():
    """Of dgx-a100-80gb, GPUs 2, 4 and 6 are alone behind their switches when their neighbours are hidden."""
    m = shipped("dgx-a100-80gb", visible=(0, 1, 2, 4, 6))
    pairs = contiguous(subsets(m, 2), m, m.usable)
    assert (0, 1) in pairs
    assert (4, 6) in pairs
    assert (0, 2) not in pairs


def test_sets_torn_without_need_are_not_right():
    m = shipped("l40s-8")
    numa = dict(m.levels)[Level.NUMA]
    assert numa == ((0, 1, 2, 3), (4, 5, 6, 7))
    fours = contiguous(subsets(m, 4), m, m.usable)
    assert set(fours) == set(numa)


def test_classes_of_cards_overlap_where_capacities_are_close():
    """45.6, 47.2, 48.6 and 49.1 GB: the first two are one card, and the last three."""
    cards = machine("SYS", 4, "a40")
    memory = (45634, 47200, 48600, 49140)
    gpus = tuple(gpu.replace(memory_mib=mib) for gpu, mib in zip(cards.gpus, memory, strict=True))
    assert card_classes(resolve(cards.replace(gpus=gpus), Rules())) == ((0, 1), (1, 2, 3))


def test_twins_that_are_no_neighbours_are_not_exchanged():
    """
    Ids ascend in a TP block, so smaller blocks inside it are other pairs after an exchange.

        2 ═ 3 (NV1)   0 1 4 5 are alike: PHB to 2 and 3, SYS to each other
    """
    links = {(2, 3): "NV1"} | {(min(a, b), max(a, b)): "PHB" for a in (0, 1, 4, 5) for b in (2, 3)}
    topology = machine(links, 6, "v100-32gb")
    assert twin_classes(resolve(topology, FREE)) == ((0, 1), (2, 3), (4, 5))
    four = actor(gpu_menu=(4,), layout=LayoutMenu(tp=(4,)), rollout=rollout(2), engine=Engine.MEGATRON)
    work = job(four, critic(gpu_menu=(2,)))
    rules = "free,contiguity=off"
    pools, any_sets = (plan(ask(topology, work, text)).plan for text in (rules, f"{rules},sharing=partial"))
    assert pools.proof.objective == any_sets.proof.objective
    assert pools.device_map == any_sets.device_map


def test_of_too_many_sets_some_are_taken_from_everywhere(monkeypatch):
    """Groups that stand side by side have no GPU in common: both halves of the machine are there."""
    monkeypatch.setattr(listed, "MAX_SETS", 120)
    found = sets(resolve(unlike(12), FREE), FREE, range(1, 13))
    assert not found.is_complete
    for size in range(1, 7):
        of_size = [set(gpus) for gpus in found.listed if len(gpus) == size]
        assert any(a.isdisjoint(b) for a in of_size for b in of_size)
        assert set.union(*of_size) == set(range(12))
