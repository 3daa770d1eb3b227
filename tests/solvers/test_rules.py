"""Each rule alone: build only it, fix the decisions that it speaks of, and ask whether that can be."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cases import GROUPS, hosted, problem

from solvers.cpsat import rules
from solvers.cpsat.engine import minimise
from solvers.cpsat.proto import Linear, Model
from solvers.cpsat.reduce import Choices
from solvers.cpsat.variables import Variables
from solvers.problem import Device, Problem, SharedReserve, Sharing


def whole(question: Problem) -> Choices:
    """Return all choices of *question*, nothing dropped."""
    return Choices(
        tuple(item.groups for item in question.items),
        tuple(tuple(tuple(range(len(slot))) for slot in item.slots) for item in question.items),
    )


def is_possible(
    question: Problem, rule: Callable[[Variables], None], decide: Callable[[Variables], dict[object, int]]
) -> bool:
    """Whether *rule* alone leaves room for the decisions."""
    x = Variables(model := Model(), question, whole(question))
    rule(x)
    for literal, value in decide(x).items():
        assert isinstance(literal, int)     # a known literal would make the question pointless
        model.between(value, Linear({literal: 1}, 0, 0, 1), value)
    found = minimise(model, Linear(), hint={}, time_limit_s=10)
    assert found.is_optimal != found.is_infeasible
    return found.is_optimal


PARTIAL = problem(sharing=Sharing.PARTIAL)
SMALL = problem(devices=(Device(7),) * 3)
SMALL_PARTIAL = SMALL.replace(sharing=Sharing.PARTIAL)
RESERVED = problem(shared_reserves=(SharedReserve(1, (7, 7, 7)),))
LOOSE = SMALL.replace(shared_reserves=(SharedReserve(1, (8, 8, 8)),))


def share(x: Variables, value: int) -> dict[object, int]:
    return {x.overlap((0, 1))[0]: value}


def groups(x: Variables, *taken: int) -> dict[object, int]:
    return {x.group[i][g]: int(g == t) for i, t in enumerate(taken) for g in x.group[i]}


def profiles(x: Variables, *taken: int) -> dict[object, int]:
    return {x.profile[i][p]: int(p == t) for i, t in enumerate(taken) for p in x.profile[i]}


def options(x: Variables, *taken: int) -> dict[object, int]:
    return {x.option[i][0][o]: int(o == t) for i, t in enumerate(taken) for o in x.option[i][0]}


@pytest.mark.parametrize(
    ("question", "rule", "decide", "expected"),
    [
        pytest.param(problem(), rules.add_groups, lambda x: groups(x, 2), True, id="one group"),
        pytest.param(
            problem(), rules.add_groups, lambda x: {x.group[0][0]: 1, x.group[0][1]: 1}, False, id="two groups"
        ),
        pytest.param(problem(), rules.add_groups, lambda x: dict.fromkeys(x.group[0].values(), 0), False, id="no group"),
        pytest.param(
            problem(), rules.add_groups, lambda x: {x.group[0][2]: 1, x.profile[0][1]: 1}, True, id="profile of the group"
        ),
        pytest.param(
            problem(), rules.add_groups, lambda x: {x.group[0][2]: 1, x.profile[0][0]: 1}, False, id="another profile"
        ),
        pytest.param(
            problem(), rules.add_options, lambda x: {x.profile[0][1]: 1} | options(x, 1), True, id="option of the profile"
        ),
        pytest.param(
            problem(), rules.add_options, lambda x: {x.profile[0][1]: 1} | options(x, 0), False, id="another's option"
        ),
        pytest.param(
            problem(), rules.add_options, lambda x: dict.fromkeys(x.option[0][0].values(), 0), False, id="no option"
        ),
        pytest.param(problem(), rules.add_holding, lambda x: groups(x, 2) | {x.holds[0][1]: 1}, True, id="holds"),
        pytest.param(problem(), rules.add_holding, lambda x: groups(x, 2) | {x.holds[0][1]: 0}, False, id="holds not"),
        pytest.param(problem(), rules.add_holding, lambda x: groups(x, 2) | {x.holds[0][2]: 1}, False, id="holds more"),
        pytest.param(problem(), rules.add_used, lambda x: {x.holds[0][1]: 1, x.used[1]: 1}, True, id="used"),
        pytest.param(problem(), rules.add_used, lambda x: {x.holds[0][1]: 1, x.used[1]: 0}, False, id="held, not used"),
        pytest.param(
            problem(), rules.add_used, lambda x: {x.holds[0][1]: 0, x.holds[1][1]: 0, x.used[1]: 1}, False, id="used by none"
        ),
        pytest.param(
            problem(apart=((0, 1),)), rules.add_apart, lambda x: {x.holds[0][0]: 1, x.holds[1][1]: 1}, True, id="apart"
        ),
        pytest.param(
            problem(apart=((0, 1),)), rules.add_apart, lambda x: {x.holds[0][0]: 1, x.holds[1][0]: 1}, False, id="not apart"
        ),
        pytest.param(problem(together=((0, 1),)), rules.add_together, lambda x: groups(x, 2, 2), True, id="together"),
        pytest.param(problem(together=((0, 1),)), rules.add_together, lambda x: groups(x, 2, 3), False, id="not together"),
        pytest.param(problem(patterns=(frozenset({(0, 1)}),)), rules.add_patterns, lambda x: share(x, 1), True, id="as a pattern says"),
        pytest.param(problem(patterns=(frozenset({(0, 1)}),)), rules.add_patterns, lambda x: share(x, 0), False, id="as no pattern says"),
        pytest.param(
            problem(), rules.add_overlap, lambda x: share(x, 0) | {x.holds[0][0]: 1, x.holds[1][1]: 1}, True, id="disjoint"
        ),
        pytest.param(
            problem(), rules.add_overlap, lambda x: share(x, 0) | {x.holds[0][0]: 1, x.holds[1][0]: 1}, False, id="overlap denied"
        ),
        pytest.param(
            PARTIAL, rules.add_overlap, lambda x: share(x, 1) | {x.holds[0][0]: 1, x.holds[1][0]: 1}, True, id="overlap"
        ),
        pytest.param(
            PARTIAL, rules.add_overlap, lambda x: share(x, 1) | dict.fromkeys(x.holds[0].values(), 0), False,
            id="overlap claimed",
        ),
        pytest.param(problem(), rules.add_pools, lambda x: share(x, 1) | groups(x, 2, 2), True, id="one pool"),
        pytest.param(problem(), rules.add_pools, lambda x: share(x, 1) | groups(x, 2, 5), False, id="part of a pool"),
        pytest.param(problem(), rules.add_pools, lambda x: share(x, 0) | groups(x, 0, 5), True, id="two pools"),
        pytest.param(PARTIAL, rules.add_pools, lambda x: share(x, 1) | groups(x, 2, 5), True, id="no pools"),
        pytest.param(PARTIAL, rules.add_one_rank_order, lambda x: groups(x, 3, 3), True, id="one order"),
        pytest.param(PARTIAL, rules.add_one_rank_order, lambda x: groups(x, 2, 3), False, id="two orders"),
        pytest.param(PARTIAL, rules.add_one_rank_order, lambda x: groups(x, 2, 0), True, id="other devices"),
        pytest.param(SMALL, rules.add_memory, lambda x: share(x, 0) | options(x, 0, 0), True, id="fit alone"),
        pytest.param(SMALL, rules.add_memory, lambda x: share(x, 1) | options(x, 0, 0), False, id="do not fit together"),
        pytest.param(
            SMALL_PARTIAL, rules.add_memory, lambda x: {x.holds[0][1]: 1, x.holds[1][1]: 0}, True, id="device of one"
        ),
        pytest.param(
            SMALL_PARTIAL, rules.add_memory, lambda x: {x.holds[0][1]: 1, x.holds[1][1]: 1}, False, id="device of both"
        ),
        pytest.param(RESERVED, rules.add_memory, lambda x: share(x, 0) | options(x, 0, 0), True, id="not reserved"),
        pytest.param(RESERVED, rules.add_memory, lambda x: share(x, 1) | options(x, 0, 0), False, id="reserved"),
        pytest.param(LOOSE, rules.add_memory, lambda x: share(x, 1) | options(x, 0, 0), True, id="asks for less"),
        pytest.param(hosted(), rules.add_hosts, lambda x: options(x, 0, 0), False, id="two need too much of the host"),
        pytest.param(hosted(hosts=(10,)), rules.add_hosts, lambda x: options(x, 0, 0), True, id="two fit on the host"),
        pytest.param(hosted(hosts=(14,)), rules.add_hosts, lambda x: options(x, 0, 1), False, id="three devices need more"),
        pytest.param(
            hosted(hosts=(5, 5), on=(0, 0, 1)), rules.add_hosts, lambda x: groups(x, 0, 4) | options(x, 0, 0), True,
            id="a host for each",
        ),
        pytest.param(
            hosted(hosts=(5, 5), on=(0, 0, 1)), rules.add_hosts, lambda x: groups(x, 0, 1) | options(x, 0, 0), False,
            id="both on one host",
        ),
        pytest.param(
            hosted(hosts=(None, 5), on=(0, 0, 1)), rules.add_hosts, lambda x: groups(x, 0, 1) | options(x, 0, 0), True,
            id="unknown host",
        ),
        pytest.param(problem(), rules.add_area, lambda x: share(x, 0) | profiles(x, 0, 1), True, id="one and two on three"),
        pytest.param(problem(), rules.add_area, lambda x: share(x, 0) | profiles(x, 1, 1), False, id="two and two on three"),
    ],
)
def test_rule_alone(question, rule, decide, expected):
    """The rule allows what is right and refuses what is wrong."""
    assert is_possible(question, rule, decide) is expected


@pytest.mark.parametrize(("first", "expected"), [pytest.param(0, True, id="smallest"), pytest.param(1, False, id="larger")])
def test_smallest_ids_alone(first, expected):
    """Item 1 may take group 0 only when item 0 takes group 0."""
    needs = {(1, 0): ((0, frozenset({0})),)}
    assert is_possible(problem(), lambda x: rules.add_smallest_ids(x, needs), lambda x: {
        x.group[1][0]: 1, **{x.group[0][g]: int(g == first) for g in range(len(GROUPS))}
    }) is expected


