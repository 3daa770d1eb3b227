"""How far an answer is proven."""

from __future__ import annotations

import dataclasses

import pytest
from conftest_placement import (
    actor,
    ask,
    bridged_pairs,
    critic,
    job,
    machine,
    ref,
    reward,
    rollout,
    two_switches,
)

from placement.errors import SolverBug
from placement.planner import plan
from placement.program import candidates as listed
from placement.program import sets as sets_of
from placement.program.lower import lower
from placement.program.menu import menu
from placement.program.proving import _ideal, verified
from solvers import check, cpsat
from solvers.problem import Term
from solvers.result import Options, Result, Status, TermProof


@pytest.fixture(scope="module")
def asked():
    """Return a lowered question with an honest answer whose step is longer than T*."""
    lowered = _lowered(ask(two_switches(), job(actor(), critic(), ref(), reward())))
    return lowered, cpsat.solve(lowered.problem)


def _lowered(question):
    return lower(question, menu(question))


def test_a_false_term_is_caught(asked):
    lowered, honest = asked
    false_value = TermProof(honest.proofs[2].term, honest.proofs[2].value + 1, 0)
    liar = Result(Status.OPTIMAL, honest.answer, (*honest.proofs[:2], false_value, *honest.proofs[3:]))
    with pytest.raises(SolverBug, match="the checker says"):
        verified(lowered, liar)


def test_an_answer_that_breaks_a_rule_is_caught():
    question = ask(machine("NV12", 2), job(actor(max_gpus=1), ref(max_gpus=1)), "strict")
    lowered = lower(question, menu(question))
    honest = cpsat.solve(lowered.problem).answer
    both_on_one = type(honest)((honest.groups[0], honest.groups[0]), honest.options)
    with pytest.raises(SolverBug, match="breaks a rule"):
        verified(lowered, Result(Status.FEASIBLE, both_on_one))


@pytest.mark.parametrize("star", [1, -1])
def test_a_false_shortest_step_is_caught(asked, star):
    """Too short for the band around it, or longer than the plan itself."""
    lowered, honest = asked
    step = check.terms(lowered.problem, honest.answer)[Term.STEP]
    value = 1 if star == 1 else step + 1
    liar = dataclasses.replace(honest, proofs=(TermProof(Term.STEP, value, value), *honest.proofs[1:]))
    with pytest.raises(SolverBug, match="outside the band"):
        verified(lowered, liar)


def test_an_optimum_that_is_not_proven_is_caught(asked):
    lowered, honest = asked
    star, *rest = honest.proofs
    for bound, why in ((star.value - 1, "has not proven"), (star.value + 1, "bounds step")):
        liar = dataclasses.replace(honest, proofs=(TermProof(Term.STEP, star.value, bound), *rest))
        with pytest.raises(SolverBug, match=why):
            verified(lowered, liar)


# ── when not all sets were looked at ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("rules", ["guide", "free", "strict"])
@pytest.mark.parametrize("topology", [two_switches(), bridged_pairs(), machine("NV12", 5)], ids=["switches", "pairs", "nvswitch"])
def test_no_plan_is_shorter_than_on_the_ideal_machine(topology, rules):
    question = ask(topology, job(actor(rollout=rollout(1, 2)), critic(), ref(), reward()), rules)
    best = cpsat.solve(_lowered(question).problem, Options(first_term_only=True))
    ideal = cpsat.solve(_ideal(question), Options(first_term_only=True))
    if best.answer is not None:
        assert ideal.step_star.value <= best.step_star.value


def test_where_groups_are_equal_the_ideal_machine_is_the_machine():
    question = ask(machine("NV12", 6), job(actor(), critic(), ref()), "guide,contiguity=off")
    best = cpsat.solve(_lowered(question).problem, Options(first_term_only=True))
    assert cpsat.solve(_ideal(question), Options(first_term_only=True)).step_star == best.step_star


def test_a_plan_over_some_of_the_sets_is_not_called_optimal(monkeypatch):
    """The bound is one for all sets, and the other terms have none."""
    question = ask(two_switches(), job(actor(), critic(), ref(), reward()), "guide,contiguity=off")
    whole = plan(question).plan
    monkeypatch.setattr(sets_of, "MAX_SETS", 60)
    part = plan(question)
    assert part.status is Status.FEASIBLE
    assert part.plan.proof.bound <= whole.proof.bound <= part.plan.proof.objective
    assert part.plan.proof.gap == pytest.approx(1 - part.plan.proof.bound / part.plan.proof.objective, abs=1e-6)
    assert all(t.bound < t.value for t in part.plan.proof.objective_terms[1:] if t.value)
    assert any("too many groups" in said for said in part.plan.estimate.assumptions)


def test_no_plan_among_some_of_the_sets_is_no_proof_that_there_is_none(monkeypatch):
    question = ask(machine({(0, 1): "NV12"}, 8), job(actor(gpu_menu=(7,)), critic(gpu_menu=(1,))), "guide,contiguity=off")
    assert plan(question).plan is not None
    monkeypatch.setattr(listed, "sets", lambda *_: sets_of.Sets(((0,), (0, 1, 2, 3, 4, 5, 6)), is_complete=False))
    part = plan(question)
    assert part.status is Status.UNKNOWN
    assert "groups that were looked at" in part.verdict


def test_what_even_the_ideal_machine_cannot_do_is_infeasible(monkeypatch):
    question = ask(machine("SYS", 4), job(actor(gpu_menu=(3,)), critic(gpu_menu=(2,))), "guide,contiguity=off")
    monkeypatch.setattr(sets_of, "MAX_SETS", 3)
    assert plan(question).status is Status.INFEASIBLE
