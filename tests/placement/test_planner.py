"""Plans as users get them: right, proven, and the same every time."""

from __future__ import annotations

import itertools

import pytest
from conftest_placement import (
    actor,
    ask,
    bridged_pairs,
    critic,
    job,
    machine,
    questions,
    ref,
    reward,
    rollout,
    two_switches,
)
from hypothesis import given, settings

from placement.checking import problems
from placement.errors import InputError
from placement.maps.devicemap import dump, load
from placement.planner import SolverName, plan
from placement.workloads.workload import LayoutMenu
from solvers.result import Options, Status


@settings(max_examples=100)
@given(questions())
def test_every_plan_is_right_in_the_domains_own_words(question):
    outcome = plan(question)
    if outcome.plan is None:
        assert outcome.status is Status.INFEASIBLE
        assert outcome.clash
        return
    assert problems(outcome.plan, question) == []
    assert outcome.plan.proof.status == "optimal"
    assert outcome.plan.proof.objective == outcome.plan.proof.bound
    assert load(dump(outcome.plan)) == outcome.plan


@pytest.mark.parametrize("workers", [2, 4])
def test_any_number_of_workers_gives_the_same_bytes(workers):
    question = ask(two_switches(), job(actor(), critic(), ref(), reward()))
    alone = plan(question).plan
    together = plan(question, options=Options(workers=workers)).plan
    assert dump(alone) == dump(together)


def test_solvers_agree_through_the_same_problem():
    question = ask(bridged_pairs(), job(actor(), critic(), ref()))
    best, tried = plan(question).plan, plan(question, solver=SolverName.EXHAUSTIVE).plan
    assert best == tried
    guessed = plan(question, solver=SolverName.GREEDY)
    assert guessed.status is Status.FEASIBLE
    assert guessed.plan is not None
    assert guessed.plan.estimate.step_us >= best.proof.objective
    assert problems(guessed.plan, question) == []


def test_equal_machines_give_the_smallest_ids():
    question = ask(machine("NV12", 4), job(actor(max_gpus=1), ref(max_gpus=1)), "strict")
    assert plan(question).plan.device_map == {"actor": (0,), "ref": (1,)}


def test_a_tp_block_takes_the_bridge():
    question = ask(bridged_pairs(), job(actor(layout=LayoutMenu(tp=(2,)), gpu_menu=(2,), rollout=rollout(2))))
    assert plan(question).plan.device_map["actor"] == (0, 2)


def test_two_bridged_pairs_are_ordered_so_that_blocks_are_consecutive():
    question = ask(bridged_pairs(), job(actor(gpu_menu=(4,), rollout=rollout(2))))
    assert plan(question).plan.device_map["actor"] == (0, 2, 1, 3)


def test_an_interrupted_or_unproven_plan_says_so():
    question = ask(two_switches(), job(actor(), critic(), ref(), reward()))
    outcome = plan(question, solver=SolverName.GREEDY)
    assert outcome.plan.proof.status == "feasible"
    assert outcome.verdict.startswith("feasible: ")
    assert "not proven" in outcome.verdict


def test_a_time_limit_of_nothing_leaves_no_plan_or_an_honest_one():
    outcome = plan(ask(two_switches(), job(actor(), critic(), ref(), reward())), options=Options(time_limit_s=0.0))
    if outcome.plan is None:
        assert outcome.status is Status.UNKNOWN
        assert "--time-limit" in outcome.verdict
    else:
        # A small job can be proven before the clock is looked at.
        assert outcome.plan.proof.status == outcome.status
        # Without time a bound can be as good as the plan and not known to be: what is said to be proven is.
        assert outcome.status is not Status.OPTIMAL or all(t.value == t.bound for t in outcome.plan.proof.objective_terms)


@pytest.mark.parametrize("bridges", [((0, 1), (2, 3)), ((0, 3), (1, 2)), ((0, 2), (1, 3))])
def test_a_slower_nvlink_can_be_the_better_block(bridges):
    """One NVLink of an A100 carries less than its PCIe port, and starts sooner; what machine it is does not hang on the numbering."""
    topology = machine(dict.fromkeys(bridges, "NV1") | {p: "PIX" for p in itertools.combinations(range(4), 2) if p not in bridges}, 4)
    work = job(actor(gpu_menu=(4,), rollout=rollout(2)))
    steps = {plan(ask(topology, work, rules)).plan.proof.objective for rules in ("free", "free,contiguity=off")}
    assert len(steps) == 1
    found = plan(ask(topology, work, "free,contiguity=off")).plan.device_map["actor"]
    assert {frozenset(found[:2]), frozenset(found[2:])} == set(map(frozenset, bridges))


@pytest.mark.parametrize("solver", ["CPSAT", "", "scip"])
def test_a_solver_that_there_is_not_is_refused(solver):
    with pytest.raises(InputError, match="there is no solver"):
        plan(ask(machine("NV12", 2), job(actor())), solver=solver)


def test_a_part_in_place_of_a_question_is_refused():
    with pytest.raises(InputError, match="make_instance"):
        plan(machine("NV12", 2))
