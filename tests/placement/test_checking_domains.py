"""The second half of rule ``contiguity``: which groups are spread over more domains than they need."""

from __future__ import annotations

import functools
import itertools

import pytest
from conftest_placement import ask, job, machine, ref, topologies, two_switches
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.checking.domains import domain_problems, standards
from placement.planner import plan
from placement.plans import Plan
from placement.program.instance import Instance
from placement.program.sets import sets
from topologies.model import Topology


@functools.cache
def any_plan() -> Plan:
    """Return some plan: only its GPUs are judged here."""
    return plan(asked(machine("NV12", 1))).plan


def is_right(question: Instance, gpus: tuple[int, ...]) -> bool:
    """Whether a role may have *gpus* by this rule."""
    return not list(domain_problems(any_plan().replace(device_map={"ref": gpus}), question))


def asked(topology: Topology, rules: str = "guide", **options: object) -> Instance:
    """Return a question about one role of any size."""
    return ask(topology, job(ref()), rules, **options)


def pairs_across() -> Topology:
    """
    Return eight A100 in bridged pairs, each pair over two PCIe switches.

        switch  0 1 2 3        bridges  0 ═ 4, 1 ═ 5, 2 ═ 6, 3 ═ 7
        switch  4 5 6 7
    """
    links = {(i, j): "PIX" for j in range(8) for i in range(j) if i // 4 == j // 4}
    return machine(links | {(i, i + 4): "NV12" for i in range(4)}, 8, "a100-pcie-80gb")


@pytest.mark.parametrize(
    ("topology", "rules", "gpus", "right"),
    [
        pytest.param(two_switches(), "guide", (0, 2, 4, 6), False, id="half of two switches"),
        pytest.param(two_switches(), "guide", (4, 5, 6, 7), True, id="one switch"),
        pytest.param(two_switches(), "guide", (0, 1, 2, 4, 5, 6), True, id="six need two switches"),
        pytest.param(two_switches(), "guide", (3, 4), False, id="two of different switches"),
        pytest.param(two_switches(), "contiguity=off", (0, 2, 4, 6), True, id="the rule is off"),
        pytest.param(pairs_across(), "guide", (0, 4), True, id="a whole pair across two switches"),
        pytest.param(pairs_across(), "guide", (0, 1), False, id="halves of two pairs under one switch"),
        pytest.param(pairs_across(), "guide", (0, 1, 4, 5), True, id="two whole pairs"),
        pytest.param(pairs_across(), "guide", (0, 1, 2, 3), False, id="four halves"),
        pytest.param(machine("NV12", 8), "guide", (0, 2, 5), True, id="one island"),
    ],
)
def test_what_is_spread_too_far(topology, rules, gpus, right):
    assert right == is_right(asked(topology, rules), gpus)


def test_whole_domains_are_right_also_where_fewer_would_do():
    """
    Two bridged pairs and a switch of four: two whole pairs touch two islands where four GPUs of a mesh touch one.

        0 ═ 1   2 ═ 3     4 5 6 7 all joined
    """
    mesh = {(i, j): "NV4" for j in range(4, 8) for i in range(4, j)}
    question = asked(machine(mesh | {(0, 1): "NV4", (2, 3): "NV4"}, 8, "a100-pcie-80gb"))
    assert is_right(question, (4, 5, 6, 7))
    assert is_right(question, (0, 1, 2, 3))
    assert not is_right(question, (0, 1, 4, 5))


def test_only_usable_gpus_make_a_domain_whole():
    topology = two_switches()
    hidden = asked(topology, visible=[0, 1, 4, 5, 6, 7])
    assert is_right(hidden, (0, 1))
    busy = topology.replace(gpus=tuple(g.replace(memory_used_mib=9000 if g.index in (2, 3) else 0) for g in topology.gpus))
    assert is_right(asked(busy), (0, 1))
    assert not is_right(asked(topology), (0, 1, 4))


def test_a_group_is_measured_within_its_class_of_cards():
    """Under each switch two cards of 40 and two of 80 GB: four of one class cannot do without both switches."""
    cards = "0-1=a100-pcie-40gb,2-3=a100-pcie-80gb,4-5=a100-pcie-40gb,6-7=a100-pcie-80gb"
    topology = machine({(i, j): "PIX" for j in range(8) for i in range(j) if i // 4 == j // 4}, 8, cards)
    assert is_right(asked(topology), (0, 1, 4, 5))
    assert not is_right(asked(topology, "same_card=off"), (0, 1, 4, 5))


def test_cards_between_two_classes_may_belong_to_either():
    """46, 47.5 and 49 GB: the middle one is within 5 % of both others, which are not of each other."""
    topology = machine("SYS", 3)
    sized = topology.replace(
        gpus=tuple(g.replace(memory_mib=mib) for g, mib in zip(topology.gpus, (46000, 47500, 49500), strict=True))
    )
    question = asked(sized)
    assert is_right(question, (0, 1))
    assert is_right(question, (1, 2))


def test_sixteen_gpus_are_judged_and_more_are_not():
    four = {(i, j): "PIX" for j in range(20) for i in range(j) if i // 4 == j // 4}
    sixteen = asked(machine({pair: code for pair, code in four.items() if pair[1] < 16}, 16)).machine
    assert [s.fewest for s in standards(sixteen, sixteen.usable, 8)][:1] == [2]
    twenty = asked(machine(four, 20)).machine
    assert standards(twenty, twenty.usable, 10) == ()


@settings(max_examples=40)
@given(topologies(), st.sampled_from(["guide", "same_card=off", "contiguity=off"]), st.data())
def test_planning_offers_the_very_groups_that_the_check_accepts(topology, rules, data):
    """Two implementations that share no code; with sharing=partial planning lists all groups, not one of each kind."""
    question = asked(topology, f"{rules},sharing=partial")
    usable = question.machine.usable
    size = data.draw(st.integers(1, len(usable)))
    offered = set(sets(question.machine, question.rules, [size]).listed)
    for gpus in itertools.combinations(usable, size):
        if question.rules.same_card and not any(set(gpus) <= set(c) for c in _classes(question)):
            continue
        assert (gpus in offered) == is_right(question, gpus)


def _classes(question: Instance) -> list[list[int]]:
    m = question.machine
    return [
        [
            g for g in m.usable
            if m.cards[g].chip == m.cards[k].chip and m.capacity_mib[k] <= m.capacity_mib[g] <= 1.05 * m.capacity_mib[k]
        ]
        for k in m.usable
    ]
