"""Why there is no plan: the clashing statements, minimal and in the user's words."""

from __future__ import annotations

import pytest
from conftest_placement import actor, ask, critic, job, machine, questions, ref, reward, rollout
from hypothesis import given, settings

from placement.clash import _has_no_plan, _statements, _with_only, clash
from placement.menu import menu
from placement.planner import plan
from solvers import cpsat
from solvers.result import Status


@settings(max_examples=150)
@given(questions(most=3))
def test_the_set_is_minimal(question):
    tables = menu(question)
    if plan(question).status is not Status.INFEASIBLE:
        return
    said = clash(question, tables, cpsat.solve)
    everything = tuple(_statements(question, tables))
    kept = [s for s in everything if s.says in said]
    assert len(kept) == len(said) > 0
    assert _has_no_plan(_with_only(question, everything, kept), cpsat.solve)
    for statement in kept:
        fewer = [s for s in kept if s is not statement]
        assert not _has_no_plan(_with_only(question, everything, fewer), cpsat.solve)


@pytest.mark.parametrize(
    ("topology", "work", "rules", "words"),
    [
        pytest.param(
            machine("NV12", 1),
            job(actor(), critic(), ref()),
            "guide",
            ["critic and ref share no GPU"],
            id="one GPU, roles apart",
        ),
        pytest.param(
            machine("NV12", 1, "rtx4090"),
            job(actor(rollout=rollout(share=0.05))),
            "guide",
            ["gpu_memory_utilization 0.05"],
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
            machine("NV1", 2, "p100-16gb"),
            job(actor()),
            "guide",
            ["compute capability 7.0", "6.0"],
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
            ["actor and critic"],
            id="sizes that do not fit",
        ),
    ],
)
def test_words(topology, work, rules, words):
    outcome = plan(ask(topology, work, rules))
    assert outcome.status is Status.INFEASIBLE
    for word in words:
        assert word in " | ".join(outcome.clash)


def test_a_hidden_gpu_is_named_with_its_reason():
    outcome = plan(ask(machine("NV12", 2), job(actor(gpu_menu=(2,))), visible=[0]))
    assert "GPU 1 is not used: hidden by CUDA_VISIBLE_DEVICES" in outcome.clash
