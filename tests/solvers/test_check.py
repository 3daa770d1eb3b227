"""The specification, by example: each sentence and each term once, worked out in a comment."""

from __future__ import annotations

import pytest
from cases import IN_LANES, LANES, answer, hosted, problem

from solvers import check
from solvers.problem import Device, SharedReserve, Sharing, SoftPair, Term, Transfer, Want
from solvers.result import Answer


@pytest.mark.parametrize(
    ("changes", "given", "sentence"),
    [
        pytest.param({}, Answer((0,), ((0,),)), "the answer has 1 groups and 1 choices for 2 items", id="too few"),
        pytest.param({}, Answer((9, 0), ((0,), (0,))), "item 0 takes group 9, which it may not", id="group"),
        pytest.param({}, Answer((0, 1), ((), (0,))), "item 0 chooses 0 options for 1 slots", id="slots"),
        pytest.param({}, Answer((0, 1), ((0,), (2,))), "item 1 takes option 2 of slot 0, which has 2", id="option"),
        pytest.param(
            {}, Answer((0, 1), ((0,), (1,))),
            "item 1 takes option 1 of slot 0, which is for profile 1, on group 1 of profile 0", id="profile",
        ),
        pytest.param({"apart": ((0, 1),)}, answer(2, 2), "items 0 and 1 must be apart and share devices [0, 1]", id="apart"),
        pytest.param(
            {"together": ((0, 1),)}, answer(0, 1), "items 0 and 1 must be together and take groups 0 and 1", id="together"
        ),
        pytest.param(
            {"patterns": (frozenset({(0, 1)}),)},
            answer(0, 1),
            "the pairs of items that overlap are [], which is none of the patterns",
            id="patterns",
        ),
        pytest.param({}, answer(2, 3), "items 0 and 1 have the same devices in different rank orders", id="order"),
        pytest.param({}, answer(2, 1), "items 0 and 1 share some of their devices, not all", id="pool"),
        pytest.param(
            {"devices": (Device(7),) * 3}, answer(0, 0), "device 0 has room for 7 MiB and would hold 8 in phase 0", id="memory"
        ),
        pytest.param(
            {"shared_reserves": (SharedReserve(1, (7, 7, 7)),)}, answer(0, 0),
            "device 0 has room for 7 MiB and would hold 8 in phase 0", id="reserve",
        ),
    ],
)
def test_a_broken_rule_is_a_sentence(changes, given, sentence):
    """Exactly this rule is broken, and it is said so."""
    assert check.violations(problem(**changes), given) == [sentence]


@pytest.mark.parametrize(
    ("changes", "given"),
    [
        pytest.param({"apart": ((0, 1),)}, answer(0, 1), id="apart"),
        pytest.param({"together": ((0, 1),)}, answer(2, 2), id="together"),
        pytest.param({"alike": ((0, 1),)}, answer(0, 0), id="alike"),
        pytest.param({"patterns": (frozenset(), frozenset({(0, 1)}))}, answer(2, 2), id="a pattern with the pair"),
        pytest.param({"patterns": (frozenset(), frozenset({(0, 1)}))}, answer(0, 1), id="a pattern without it"),
        pytest.param({"sharing": Sharing.PARTIAL}, answer(2, 1), id="partial overlap"),
        pytest.param({"shared_reserves": (SharedReserve(1, (7, 7, 7)),)}, answer(0, 1), id="a reserve is for shared devices"),
        pytest.param({"devices": (Device(7),) * 3, "shared_reserves": (SharedReserve(1, (8, 8, 8)),)}, answer(0, 0), id="less"),
    ],
)
def test_a_right_answer_has_no_violations(changes, given):
    """The rule is there, and kept."""
    assert check.violations(problem(**changes), given) == []


@pytest.mark.parametrize(
    ("changes", "given", "term", "value"),
    [
        pytest.param({}, answer(0, 1), Term.STEP, 10, id="side by side"),
        pytest.param({}, answer(0, 0), Term.STEP, 20, id="take turns"),
        # 2 = {0, 1} meets 0 = {0} and 5 = {1, 2}, which do not meet each other
        pytest.param({"k": 3, "sharing": Sharing.PARTIAL}, answer(0, 2, 5), Term.STEP, 20, id="no three overlap mutually"),
        pytest.param(
            {"transfers": (Transfer(0, 1, 0, ((0, 50, 40), (60, 0, 30), (1, 1, 0))),)}, answer(2, 4), Term.STEP, 30,
            id="transfer over the best pair",
        ),
        pytest.param({"stages": LANES, "operations": IN_LANES}, answer(0, 1), Term.STEP, 10, id="lanes"),
        pytest.param({"stages": LANES, "operations": IN_LANES}, answer(0, 0), Term.STEP, 20, id="collide"),
        pytest.param({"soft_pairs": (SoftPair(0, 1, (1, 2, 2), Want.MEET),)}, answer(0, 1), Term.SOFT, 1, id="do not meet"),
        pytest.param({"soft_pairs": (SoftPair(0, 1, (1, 2, 2), Want.MEET),)}, answer(1, 4), Term.SOFT, 0, id="meet"),
        pytest.param({"soft_pairs": (SoftPair(0, 1, (1, 2, 2), Want.AVOID),)}, answer(1, 4), Term.SOFT, 1, id="do not avoid"),
        pytest.param({"soft_pairs": (SoftPair(0, 1, (1, 2, 2), Want.AVOID),)}, answer(1, 1), Term.SOFT, 0, id="not apart"),
        pytest.param({}, answer(2, 4), Term.GPUS, 3, id="devices"),
        # 8 of 10 MiB held, 3 wished free
        pytest.param({}, answer(0, 0), Term.MEMORY, 1, id="shortfall"),
        pytest.param({}, answer(0, 1), Term.MEMORY, 0, id="comfortable"),
        pytest.param({}, answer(0, 4), Term.ISLANDS, 1, id="one of two used"),
        pytest.param({}, answer(2, 2), Term.BANDWIDTH, 7, id="ring"),
        pytest.param({}, answer(2, 0), Term.PREFERENCE, 1, id="menus"),
    ],
)
def test_terms(changes, given, term, value):
    """One term, worked out by hand."""
    assert check.terms(problem(**changes), given)[term] == value


@pytest.mark.parametrize(
    ("question", "given", "sentences"),
    [
        # Each item needs 5 MiB for each device at its second moment: 10 for the pair {0, 1}, 5 for {2}.
        pytest.param(hosted(hosts=(15,)), answer(2, 4), [], id="fits"),
        pytest.param(hosted(hosts=(14,)), answer(2, 4), ["host 0 has 14 MiB for plans and would hold 15 at moment 1"], id="one"),
        pytest.param(hosted(hosts=(10, 5), on=(0, 0, 1)), answer(2, 4), [], id="each fits"),
        pytest.param(
            hosted(hosts=(10, 4), on=(0, 0, 1)), answer(2, 4), ["host 1 has 4 MiB for plans and would hold 5 at moment 1"],
            id="the second host",
        ),
        pytest.param(
            hosted(hosts=(4, 5), on=(0, 0, 1)), answer(5, 5),
            ["host 0 has 4 MiB for plans and would hold 10 at moment 1", "host 1 has 5 MiB for plans and would hold 10 at moment 1"],
            id="a group on both",
        ),
        pytest.param(hosted(hosts=(None, 5), on=(0, 0, 1)), answer(2, 4), [], id="unknown"),
    ],
)
def test_hosts(question, given, sentences):
    """Host memory is counted for each host, over the devices that it has of each group."""
    assert check.violations(question, given) == sentences


def test_a_stage_names_who_makes_it_so_long():
    """The items that take turns, or nobody when a transfer is longer."""
    assert check.stage(problem(3), answer(0, 4, 0), 0) == (20, (0, 2))
    slow = problem(2, transfers=(Transfer(0, 1, 0, ((99,) * 3,) * 3),))
    assert check.stage(slow, answer(0, 1), 0) == (99, ())


def test_ids_are_groups_then_options():
    """All groups come before all options."""
    assert check.key_ids(Answer((3, 1), ((2, 0), (5,)))) == (3, 1, 2, 0, 5)
