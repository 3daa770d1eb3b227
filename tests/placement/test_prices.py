"""What stands beside a plan: the price of the rules and the trivial plan."""

from __future__ import annotations

import dataclasses

import pytest
from conftest_placement import BATCH, actor, ask, critic, job, machine, ref, reward, two_switches

from placement import planner
from placement.planner import SolverName, plan
from placement.plans import Alternative, Comparison
from placement.program import prices
from placement.program.instance import Objective
from placement.program.prices import price, seconds, seconds_down
from placement.workloads.rules import parse_rules
from solvers.problem import Term
from solvers.result import Answer, Options, Result, Status, TermProof

EVEN = dataclasses.replace(BATCH, response_max_tokens=BATCH.response_mean_tokens)
"""Answers of one length: no rank of the colocated roles waits for a fuller one."""

FOUR = job(actor(), critic(), ref(), reward(), batch=EVEN)


@pytest.mark.parametrize(
    ("us", "up", "down"),
    [
        (1, "0.001 s", "0.000 s"),
        (299_000, "0.299 s", "0.299 s"),
        (9_999_999, "10.000 s", "9.999 s"),
        (10_000_000, "10.0 s", "10.0 s"),
        (81_400_001, "81.5 s", "81.4 s"),
    ],
)
def test_times_are_rounded_up_and_bounds_down(us, up, down):
    assert seconds(us) == up
    assert seconds_down(us) == down


def proven(value: int, bound: int | None = None) -> Result:
    """Return a result whose shortest step is *value*."""
    status = Status.OPTIMAL if bound is None else Status.FEASIBLE
    return Result(status, Answer((), ()), (TermProof(Term.STEP, value, value if bound is None else bound),))


@pytest.mark.parametrize(
    ("ours", "free", "says"),
    [
        (proven(114_000), Alternative(100_000, "optimal"), "rules cost 14.0 % (the shortest without them: 0.100 s)"),
        (proven(100_000), Alternative(100_000, "optimal"), "the rules cost nothing"),
        (proven(114_000), Alternative(100_000, "best found, not below 0.090 s"), "not proven"),
        (proven(100_000), Alternative(120_000, "best found, not proven"), "not proven"),
        (proven(114_000, 90_000), Alternative(100_000, "optimal"), "14.0 % at most"),
        (proven(114_000), Alternative(None, "not computed: interrupted"), "not computed"),
    ],
)
def test_only_a_proven_price_is_said_as_one(ours, free, says):
    question = ask(machine("NV12", 2), job(actor()))
    assert says in price(ours, Comparison(free, Alternative(None, "does not fit")), question)


def test_the_price_is_the_optimum_without_the_rules():
    """What is said is what the same question without them has as its shortest step."""
    question = ask(machine("NV12", 8), FOUR)
    ours = plan(question).plan
    lifted = plan(question.replace(rules=question.rules.lifted())).plan
    assert ours.comparison.free == Alternative(lifted.proof.objective, "optimal")
    assert lifted.comparison.lifted == ()
    assert lifted.comparison.free.step_us is None
    assert ours.proof.objective > lifted.proof.objective
    percent = 100 * (ours.proof.objective / lifted.proof.objective - 1)
    assert f"rules cost {percent:.1f} %" in ours.verdict


@pytest.mark.parametrize("objective", ["gpus", "memory", "bandwidth"])
def test_another_objective_is_priced_as_itself(objective):
    """What the objective costs is not put on the rules."""
    question = ask(two_switches(), FOUR, "free,contiguity=off,same_card=off,min_gpus=off,reward_reserve=off")
    question = question.replace(objective=prices.Objective(objective))
    assert "no rule of choice is on" in plan(question).verdict
    guide = question.replace(rules=parse_rules("guide"))
    outcome, lifted = plan(guide), plan(guide.replace(rules=guide.rules.lifted()))
    free = outcome.plan.comparison.free
    first = lifted.plan.proof.objective_terms[0].value
    assert (free.first_term, free.step_us) == (first, lifted.plan.proof.objective)
    if first == outcome.plan.proof.objective_terms[0].value:
        assert "rules cost" in outcome.verdict
    else:
        assert "without the rules" in outcome.verdict


def test_a_shorter_trivial_plan_has_its_reason():
    assert plan(ask(machine("NV12", 8), FOUR)).plan.comparison.why_not_colocated == "rule isolation forbids it"
    free = plan(ask(two_switches(), FOUR, "free"))
    compare = free.plan.comparison
    if compare.colocated.step_us < free.plan.estimate.step_us:
        assert "band" in compare.why_not_colocated
    alone = plan(ask(machine("NV12", 1), job(actor()), "free"))
    assert alone.plan.comparison.why_not_colocated == ""


def test_a_wide_band_is_the_reason():
    question = ask(machine("NV12", 8), job(actor(), ref()), "free").replace(within_percent=100.0)
    outcome = plan(question)
    assert outcome.plan.comparison.colocated.step_us < outcome.plan.estimate.step_us
    assert "inside the band of 100 %" in outcome.plan.comparison.why_not_colocated
    assert "(the shortest: " in outcome.verdict


@pytest.mark.parametrize("where", ["before", "inside"])
def test_ctrl_c_while_comparing_keeps_the_plan(monkeypatch, where):
    question = ask(two_switches(), FOUR)
    whole = plan(question)
    solve = planner.load_solver(SolverName.CPSAT)

    def interrupt(problem, options):
        if not options.first_term_only:
            return solve(problem, options)
        if where == "before":
            raise KeyboardInterrupt
        return Result(Status.UNKNOWN, interrupted=True)

    monkeypatch.setattr(planner, "load_solver", lambda _: interrupt)
    outcome = plan(question)
    assert outcome.interrupted
    assert outcome.plan.device_map == whole.plan.device_map
    assert "interrupted" in outcome.plan.comparison.free.note


def test_no_time_is_left_to_compare():
    question = ask(two_switches(), FOUR)
    result = Result(Status.FEASIBLE, Answer((), ()), (TermProof(Term.STEP, 5, 1),))
    compare = prices.comparison(question, planner.menu(question), result, lambda *_: None, Options(), deadline=0.0)
    assert compare.free.note == compare.colocated.note == prices.NO_TIME


def test_a_reserve_above_the_reward_models_own_is_no_dearer_without_rules():
    """Where `reward_reserve` asks for less than `reserve` it makes room: lifted with the rest, it would make plans worse."""
    question = ask(machine("NV12", 3), job(actor(), ref(), reward()), "colocate,reserve=60%", objective=Objective.MEMORY)
    outcome = plan(question)
    assert outcome.status is Status.OPTIMAL
    first = outcome.plan.proof.objective_terms[0].value
    assert outcome.plan.comparison.free.first_term <= first
