"""Why there is no plan: the clashing statements, minimal, true and in the user's words."""

from __future__ import annotations

import itertools
import math
import re
import time
from dataclasses import replace

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
)
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.catalog import load_workload
from placement.machines.sources import read_machine
from placement.planner import plan
from placement.program.clash import NOT_SMALLEST, Search, clash
from placement.program.lower import lower
from placement.program.menu import menu, sizes
from placement.program.needs import need
from placement.workloads.workload import Engine, LayoutMenu
from solvers import cpsat
from solvers.result import Options, Result, Status

ONLY_FEASIBLE = Options(first_term_only=True)


def search_of(question, *, solve=cpsat.solve, deadline=math.inf):
    return Search(question, menu(question), solve, deadline)


def has_plan(question):
    """Ask with the full tables, as a user would who lifts the rules by hand."""
    if not question.workload.placed:
        return True
    return cpsat.solve(lower(question, menu(question)).problem, ONLY_FEASIBLE).status is not Status.INFEASIBLE


@settings(max_examples=150)
@given(questions(most=3))
def test_the_set_leaves_no_plan_and_without_any_member_there_is_one(question):
    if has_plan(question):
        return
    search = search_of(question)
    kept = search.smallest()
    assert not has_plan(search.question(kept))
    for statement in kept:
        assert has_plan(search.question([s for s in kept if s is not statement]))
    assert search.is_smallest(kept)


@settings(max_examples=100)
@given(questions(most=4), st.randoms(use_true_random=False))
def test_few_groups_are_enough_to_tell_whether_there_is_a_plan(question, dice):
    """What the search finds out with interchangeable GPUs taken once is what all groups say."""
    search = search_of(question)
    search._known.clear()
    kept = [s for s in search.everything if dice.random() < 0.7]
    assert search.has_plan(kept) is has_plan(search.question(kept))


@settings(max_examples=150)
@given(questions(most=4))
def test_what_a_role_needs_is_true_in_the_question_that_remains(question):
    """It has no group of fewer GPUs, and on that many no choices that need less memory, whatever else is asked for."""
    if has_plan(question):
        return
    search = search_of(question)
    kept = search.smallest()
    left = search.question(kept)
    tables = menu(left)
    problem = lower(left, tables).problem
    said = list(search.words(kept))
    memory = any(s.is_memory for s in kept)
    assert memory or not any("GiB" in line and "reserve" not in line for line in said)
    for role, item in zip(tables.roles, problem.items, strict=True):
        words = need(left, tables, role, problem, memory=memory).says
        assert (words in said) == (words != "" and role.name in {s.role for s in kept})
        alone = [
            (len(group.devices), least_mib(item, group), min(problem.devices[d].capacity for d in group.devices))
            for group in (problem.groups[g] for g in item.groups)
        ]
        fitting = {gpus: mib for gpus, mib, room in sorted(alone, reverse=True) if mib <= room}
        stated = re.search(r"needs (\d+) GPUs? or more, with ([\d.]+) GiB", words)
        assert (stated is not None) == (bool(fitting) and memory)
        counted = re.fullmatch(r"\w+ needs (\d+) GPUs? or more", words)
        assert counted is None or int(counted[1]) == min(fitting) > 1
        if stated:
            assert int(stated[1]) == min(fitting)
            assert 0 <= float(stated[2]) * 1024 - fitting[min(fitting)] < 103
        short = re.search(r"on (\d+) GPUs? \w+ needs at least ([\d.]+) GiB on each.* leaves ([\d.]+) GiB", words)
        if short:
            assert int(short[1]) in sizes(role, len(left.machine.usable))
            assert float(short[2]) > float(short[3])


def least_mib(item, group):
    """Try all options of all slots."""
    offered = [[o.memory for o in slot if o.profile == group.profile] for slot in item.slots]
    return min(max(map(sum, zip(*memory, strict=True))) for memory in itertools.product(*offered))


def test_no_line_is_said_twice_and_a_role_without_a_size_is_no_line():
    for topology, work in [
        (machine("NV12", 1), job(actor(min_gpus=2))),
        (machine("NV12", 8), job(actor(gpu_menu=(9,)))),
    ]:
        lines = plan(ask(topology, work)).clash
        assert len(lines) == len(set(lines)) == 2
        assert [("the workload says so" in line) for line in lines] == [True, False]


@pytest.mark.parametrize(
    ("topology", "work", "rules", "words"),
    [
        pytest.param(
            machine("NV12", 1),
            job(actor(), critic(), ref()),
            "guide",
            ["critic and ref share no GPU", "1 GPU can be used"],
            id="one GPU, roles apart",
        ),
        pytest.param(
            machine("NV12", 1, "rtx4090"),
            job(actor(rollout=rollout(share=0.05))),
            "guide",
            ["actor on 1 GPU: ", "gpu_memory_utilization 0.05"],
            id="engine share",
        ),
        pytest.param(
            machine("NV12", 2, "0=a100-40gb,1=a100-80gb"),
            job(actor(gpu_menu=(2,))),
            "guide",
            ["rule same_card", "2 GPUs"],
            id="mixed cards",
        ),
        pytest.param(
            machine("NV1", 2, "v100-32gb"),
            job(actor(rollout=replace(rollout(), engine=Engine.SGLANG))),
            "guide",
            ["actor runs on sglang (`actor.rollout.engine`), which needs compute capability 7.5; GPU 0 (v100-32gb) has 7.0: take cards"],
            id="old card",
        ),
        pytest.param(
            machine("NV12", 2),
            job(actor(gpu_menu=(3,))),
            "guide",
            ["3 GPUs", "2 GPUs can be used"],
            id="too few GPUs",
        ),
        pytest.param(
            machine("NV12", 3),
            job(actor(gpu_menu=(1,)), critic(gpu_menu=(2,)), reward(gpu_menu=(1,))),
            "guide",
            ["actor and critic", "rule sharing", "3 GPUs can be used"],
            id="sizes that do not fit",
        ),
        pytest.param(
            bridged_pairs(),
            job(actor(rollout=rollout(4))),
            "guide",
            ["TP blocks stay on NVLink", "4 GPUs cannot be cut into TP blocks of 4 that obey rule contiguity"],
            id="a block over two bridges",
        ),
        pytest.param(
            machine("NV12", 7),
            job(actor(layout=LayoutMenu(tp=(2, 4)), gpu_menu=(3, 5, 7))),
            "guide",
            ["7 GPUs cannot be cut into TP blocks of 2 or 4"],
            id="sizes that no block divides",
        ),
        pytest.param(
            machine("NV12", 3),
            job(actor(gpu_menu=(3,))),
            "even_batch=on",
            [
                "actor gets 3 GPUs (the workload says so)",
                "data-parallel ranks get as many sequences as each other (rule even_batch)",
                "actor has 3 data-parallel ranks, which cannot share the 256 sequences of a step evenly (rule even_batch)",
            ],
            id="an uneven batch",
        ),
        pytest.param(
            machine("NV12", 2, "rtx4090"),
            job(actor()),
            "guide,reserve=23GiB",
            ["23 GiB of every GPU stays free (rule reserve)", "the roomiest GPU has 0."],
            id="reserve",
        ),
    ],
)
def test_words(topology, work, rules, words):
    outcome = plan(ask(topology, work, rules))
    assert outcome.status is Status.INFEASIBLE
    for word in words:
        assert word in " | ".join(outcome.clash)


@pytest.mark.parametrize(
    ("topology", "work", "rules", "lines"),
    [
        pytest.param(
            machine("NV12", 1),
            job(actor(), critic(), ref()),
            "guide",
            ["critic and ref share no GPU (isolation, preset guide)", "1 GPU can be used"],
            id="one GPU for two",
        ),
        pytest.param(
            machine("NV12", 2, "rtx4090"),
            job(actor(), critic(), ref()),
            "strict",
            [
                "actor and critic share no GPU (isolation, preset strict)",
                "actor and ref share no GPU (isolation, preset strict)",
                "critic and ref share no GPU (isolation, preset strict)",
                "2 GPUs can be used",
            ],
            id="two GPUs for three, little memory",
        ),
        pytest.param(
            machine("NV12", 4),
            job(actor(layout=LayoutMenu(tp=(4,))), ref()),
            "strict",
            ["actor and ref share no GPU (isolation, preset strict)", "actor needs 4 GPUs or more", "4 GPUs can be used"],
            id="a layout that takes all",
        ),
    ],
)
def test_where_there_are_too_few_gpus_nothing_is_said_of_memory(topology, work, rules, lines):
    assert list(plan(ask(topology, work, rules)).clash) == lines


@pytest.mark.parametrize(
    ("topology", "workload", "words", "never"),
    [
        ("dgx-1-p100", "ppo-7b", ["compute capability 7.0", "rule supported"], ["rule reserve"]),
        ("dgx-1-p100", "grpo-32b", ["on 8 GPUs"], ["7 GPUs", "cannot be cut"]),
        ("a6000-4", "ppo-70b", ["on 4 GPUs"], ["cannot be cut"]),
        ("a100-pcie-mixed-8", "ppo-70b", ["on 8 GPUs actor needs", "tightest of them has 39.0 GiB"], ["cannot be cut"]),
        ("a100-1", "grpo-7b", ["at least 2 GPUs", "1 GPU can be used"], []),
    ],
)
def test_shipped_machines_that_are_too_small(topology, workload, words, never):
    lines = " | ".join(plan(ask(read_machine(topology), load_workload(workload))).clash)
    assert [word for word in words if word not in lines] == []
    assert [word for word in never if word in lines] == []


def test_a_hidden_gpu_is_named_with_its_reason():
    outcome = plan(ask(machine("NV12", 2), job(actor(gpu_menu=(2,))), visible=[0]))
    assert "GPU 1 is not used: hidden by --visible or CUDA_VISIBLE_DEVICES" in outcome.clash


def test_hidden_gpus_that_would_not_help_are_counted_in():
    outcome = plan(ask(machine("NV12", 2), job(actor(gpu_menu=(3,))), visible=[0]))
    assert any(line.startswith("2 GPUs can be used, the hidden or busy ones included") for line in outcome.clash)


def test_a_rule_that_more_gpus_make_hard_is_found_all_the_same():
    """With six usable GPUs ``min_gpus`` is hard: to show a hidden GPU can take a plan away, and the set is minimal all the same."""
    question = ask(machine("NV12", 6), job(actor(gpu_menu=(5,)), critic(max_gpus=1)), "guide", visible=[0, 1, 2, 3, 4])
    assert not has_plan(question)
    search = search_of(question)
    kept = search.smallest()
    assert search.is_smallest(kept)
    assert all(has_plan(search.question([s for s in kept if s is not statement])) for statement in kept)


# ── limits ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

TOO_SMALL = ask(machine("NV12", 1), job(actor(), critic(), ref()))


def test_past_the_deadline_everything_stays_and_that_is_said():
    def solve(problem, options):
        raise AssertionError("nothing is solved past the deadline")

    lines = clash(TOO_SMALL, menu(TOO_SMALL), solve, deadline=time.monotonic())
    assert lines[-1] == NOT_SMALLEST
    assert len(lines) > len(clash(TOO_SMALL, menu(TOO_SMALL), cpsat.solve)) + 1


def test_each_solve_ends_at_the_deadline():
    limits = []

    def solve(problem, options):
        limits.append(options.time_limit_s)
        return Result(Status.UNKNOWN)

    assert clash(TOO_SMALL, menu(TOO_SMALL), solve, deadline=time.monotonic() + 2.0)[-1] == NOT_SMALLEST
    assert limits
    assert max(limits) <= 2.0


def test_a_set_that_is_proven_says_nothing_of_limits():
    deadline = time.monotonic() + 600
    lines = clash(TOO_SMALL, menu(TOO_SMALL), cpsat.solve, deadline=deadline)
    assert lines == clash(TOO_SMALL, menu(TOO_SMALL), cpsat.solve)
    assert NOT_SMALLEST not in lines


def test_an_interrupted_solve_is_no_answer():
    with pytest.raises(KeyboardInterrupt):
        clash(TOO_SMALL, menu(TOO_SMALL), lambda problem, options: Result(Status.UNKNOWN, interrupted=True))


def test_only_feasibility_is_asked_for_and_only_where_no_answer_is_at_hand():
    found = []

    def solve(problem, options):
        assert options.first_term_only
        assert options.step_below is None
        found.append(cpsat.solve(problem, options))
        return found[-1]

    clash(TOO_SMALL, menu(TOO_SMALL), solve)
    assert {result.status for result in found} == {Status.INFEASIBLE}
