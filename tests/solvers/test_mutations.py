"""Without any one rule or term CP-SAT no longer agrees with the oracle: every one of them is needed, and tested."""

from __future__ import annotations

import functools

import pytest
from cases import CASES

from solvers import cpsat, exhaustive
from solvers.cpsat import cost, rules
from solvers.cpsat.proto import constant


@functools.cache
def expected(case: str):
    """Return what the oracle says."""
    return exhaustive.solve(CASES[case])


def disagreements() -> list[str]:
    """Return the cases on which CP-SAT and the oracle differ (or CP-SAT's answer is refused by the checker)."""
    found = []
    for case, problem in CASES.items():
        try:
            if cpsat.solve(problem) != expected(case):
                found.append(case)
        except RuntimeError:        # SolverDisagrees, or no choice to be read
            found.append(case)
    return found


def test_whole_model_agrees():
    """Otherwise the tests below would show nothing."""
    assert disagreements() == []


@pytest.mark.parametrize("rule", rules.ALL, ids=lambda rule: rule.__name__)
def test_without_a_rule(monkeypatch, rule):
    """The rule is left out."""
    monkeypatch.setattr(rules, "ALL", tuple(r for r in rules.ALL if r is not rule))
    assert disagreements() != []


@pytest.mark.parametrize("term", cost.TERMS)
def test_without_a_term(monkeypatch, term):
    """The term costs nothing."""
    monkeypatch.setitem(cost.TERMS, term, lambda x: constant(0))
    assert disagreements() != []


@pytest.mark.parametrize(
    ("part", "nothing"),
    [
        pytest.param("_collisions", [], id="lanes never collide"),
        pytest.param("_wait_for", None, id="transfers take no time"),
        pytest.param("_wish", None, id="soft pairs are never broken"),
        pytest.param("ids", [], id="any ids will do"),
    ],
)
def test_without_a_part_of_a_term(monkeypatch, part, nothing):
    """A part of the cost does nothing."""
    monkeypatch.setattr(cost, part, lambda *_: nothing)
    assert disagreements() != []


def test_every_rule_function_is_listed():
    """A rule that is written but not listed would be no rule."""
    cuts = {rules.add_area, rules.add_smallest_ids}
    written = {f for name, f in vars(rules).items() if name.startswith("add_")}
    assert written - cuts == set(rules.ALL)
