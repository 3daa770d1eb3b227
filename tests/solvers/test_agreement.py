"""CP-SAT against the oracle, on random problems that use everything."""

from __future__ import annotations

import dataclasses

import pytest
from cases import CASES
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import is_small, problems

from solvers import check, cpsat, exhaustive, greedy
from solvers.bounds import lower_bounds
from solvers.cpsat.reduce import reduce
from solvers.problem import Problem, Term
from solvers.result import Options, Status

EXAMPLES = 200


@pytest.mark.parametrize("case", CASES)
def test_cpsat_and_oracle_agree_on_cases(case: str):
    """The same on the small problems that need one rule each."""
    assert exhaustive.solve(CASES[case]) == cpsat.solve(CASES[case])


@given(problems())
@settings(max_examples=max(EXAMPLES, settings().max_examples))
def test_cpsat_and_oracle_agree(problem: Problem):
    """Same status, same value and bound of every term, and (because of the ids) the same answer."""
    assume(is_small(problem))
    expected = exhaustive.solve(problem, Options())
    assert expected == cpsat.solve(problem, Options())
    if expected.answer is not None:
        assert expected.status is Status.OPTIMAL
        assert all(proof.proven for proof in expected.proofs)
        assert check.violations(problem, expected.answer) == []


@given(problems())
@settings(max_examples=EXAMPLES)
def test_first_term_only_proves_the_same(problem: Problem):
    """What is proven without the band is what is proven with it."""
    assume(is_small(problem))
    whole, first = (cpsat.solve(problem, Options(first_term_only=only)) for only in (False, True))
    assert first.status is whole.status
    assert first.proofs == whole.proofs[: len(first.proofs)]


@given(problems(), st.integers(-2, 2))
@settings(max_examples=EXAMPLES)
def test_a_step_that_is_known_hides_no_shorter_one(problem: Problem, above: int):
    """Below a known step there is the optimum, or nothing; never another value."""
    problem = dataclasses.replace(problem, primary=Term.STEP)
    assume(is_small(problem))
    best = exhaustive.solve(problem, Options(first_term_only=True))
    assume(best.answer is not None)
    star = best.proofs[0].value
    found = cpsat.solve(problem, Options(first_term_only=True, step_below=star + above))
    if above <= 0:
        assert found.status is Status.INFEASIBLE
    else:
        assert found.proofs == best.proofs


@given(problems(), st.integers(0, 3))
@settings(max_examples=EXAMPLES)
def test_what_is_dropped_is_in_no_answer_that_is_short_enough(problem: Problem, above: int):
    """The oracle's optimum survives every limit that it keeps, groups and options."""
    problem = dataclasses.replace(problem, primary=Term.STEP)
    assume(is_small(problem))
    best = exhaustive.solve(problem, Options(first_term_only=True))
    assume(best.answer is not None)
    left = reduce(problem, check.step(problem, best.answer) + above)
    terms = check.terms(problem, best.answer)
    smaller = dataclasses.replace(
        problem, items=tuple(dataclasses.replace(item, groups=kept) for item, kept in zip(problem.items, left.groups, strict=True))
    )
    again = exhaustive.solve(smaller, Options(first_term_only=True))
    assert again.proofs[0].value == terms[Term.STEP]


@given(problems())
@settings(max_examples=EXAMPLES)
def test_greedy_breaks_no_rule_and_never_beats_the_optimum(problem: Problem):
    """An answer without a proof is still an answer, and its bounds hold."""
    assume(is_small(problem))
    found, best = greedy.solve(problem), cpsat.solve(problem)
    if found.answer is None:
        assert found.status is Status.UNKNOWN
        return
    assert best.answer is not None
    assert check.violations(problem, found.answer) == []
    terms, bounds = check.terms(problem, found.answer), lower_bounds(problem)
    assert best.proofs[0].value <= found.proofs[0].value == terms[problem.primary]
    assert all(bounds[term] <= value for term, value in check.terms(problem, best.answer).items() if term is not Term.IDS)
    assert all(proof.bound <= proof.value for proof in found.proofs)
    assert all(f.bound <= b.value for f, b in zip(found.proofs, best.proofs, strict=True))
