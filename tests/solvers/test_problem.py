"""A problem whose parts do not fit together never passes its constructor."""

from __future__ import annotations

import pytest
from cases import GROUPS, answer, problem

from solvers.problem import Device, Group, Item, Operation, Option, Term
from solvers.result import Answer, Result, Status, TermProof

GOOD = Option(0, (1,), (1,))


def one(option: Option = GOOD, groups: tuple[int, ...] = (0,), slots: int = 1) -> tuple[Item, ...]:
    return (Item(groups, ((option,),) * slots),)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"groups": (*GROUPS, Group((), 0))}, r"group 6 is empty or repeats", id="empty group"),
        pytest.param({"groups": (*GROUPS, Group((1, 1), 0))}, r"group 6 is empty or repeats", id="repeated device"),
        pytest.param({"groups": (*GROUPS, Group((3,), 0))}, r"group 6 names a device beyond 2", id="unknown device"),
        pytest.param({"items": one(slots=0)}, "item 0 has no slot", id="no slot"),
        pytest.param({"items": one(groups=(1, 0))}, "item 0 must list existing groups", id="descending groups"),
        pytest.param({"items": one(groups=(9,))}, "item 0 must list existing groups", id="unknown group"),
        pytest.param({"items": one(Option(0, (), (1,)))}, "wrong length", id="times"),
        pytest.param({"items": one(Option(0, (1,), ()))}, "wrong length", id="memory"),
        pytest.param({"items": one(Option(0, (-1,), (1,)))}, "negative number", id="negative"),
        pytest.param({"moments": 1}, "host memory has the wrong length", id="host memory"),
        pytest.param(
            {"moments": 1, "items": one(Option(0, (1,), (1,), host=(-1,)))}, "negative number", id="negative host memory"
        ),
        pytest.param({"hosts": (9,), "devices": (Device(9), Device(9), Device(9, host=1))}, "a host beyond 0", id="host"),
        pytest.param({"items": one() * 2}, "time for another item's operation", id="another's operation"),
        pytest.param({"operations": (Operation(0, 7),)}, "does not exist", id="unknown stage"),
        pytest.param({"apart": ((0, 0),)}, "the pair 0, 0 does not name two items", id="pair of one"),
        pytest.param({"patterns": (frozenset({(1, 0)}),)}, "a pattern has the pair 1, 0", id="pattern"),
        pytest.param({"primary": Term.SOFT}, "soft cannot come first", id="primary"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes, message):
    """The message names the culprit."""
    with pytest.raises(ValueError, match=message):
        problem(1).replace(**changes)


def test_step_star_is_the_first_step():
    """The last step is the one inside the band."""
    first, last = TermProof(Term.STEP, 10, 10), TermProof(Term.STEP, 11, 11)
    memory = TermProof(Term.MEMORY, 0, 0)
    assert Result(Status.OPTIMAL, answer(0), (memory, first, last)).step_star == first
    assert Result(Status.UNKNOWN).step_star is None


@pytest.mark.parametrize(("status", "found"), [(Status.OPTIMAL, None), (Status.UNKNOWN, Answer((), ()))])
def test_a_status_and_an_answer_go_together(status, found):
    """An answer stands beside optimal and feasible, and beside nothing else."""
    with pytest.raises(ValueError, match="does not go with"):
        Result(status, found)
