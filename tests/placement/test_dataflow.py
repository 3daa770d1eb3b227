"""Stages of a step: which work, by whom, in which order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.models.model import find_model
from placement.workloads.dataflow import StagePlan, Work, dataflow, generated_sequences
from placement.workloads.workload import Algorithm, Batch, Role, RoleName, Schedule, Workload

ACTOR, ROLLOUT, CRITIC, REF, REWARD = RoleName
ALL = (ACTOR, CRITIC, REF, REWARD)


def job(*names, schedule=Schedule.FULL, algorithm=Algorithm.PPO, functions=()):
    model = find_model("Qwen2.5-0.5B")
    roles = tuple(Role(name, None if name in functions else model) for name in names)
    return Workload(algorithm, Batch(64, 4, 100, 200, 300, 1, 8192), roles, schedule)


def test_full_is_three_stages_and_the_sync():
    assert dataflow(job(*ALL)) == (
        StagePlan("generate", ((ACTOR, Work.GENERATE),)),
        StagePlan(
            "prepare",
            (
                (REWARD, Work.REWARD),
                (ACTOR, Work.OLD_LOG_PROBS),
                (REF, Work.REF_LOG_PROBS),
                (CRITIC, Work.VALUES),
            ),
        ),
        StagePlan("update", ((CRITIC, Work.UPDATE_CRITIC), (ACTOR, Work.UPDATE_ACTOR))),
        StagePlan("sync_weights", ((ACTOR, Work.SYNC_WEIGHTS),)),
    )


def test_none_is_one_piece_after_the_other():
    stages = dataflow(job(*ALL, schedule=Schedule.NONE))
    assert [work.value for work in Work] == [stage.name for stage in stages]
    assert all(len(stage.work) == 1 and stage.lane is None for stage in stages)


def test_a_separate_rollout_generates_and_receives_weights():
    for schedule in Schedule:
        stages = dataflow(job(*ALL, ROLLOUT, schedule=schedule))
        assert stages[0].work == ((ROLLOUT, Work.GENERATE),)
        assert stages[-1].work == ((ACTOR, Work.SYNC_WEIGHTS), (ROLLOUT, Work.SYNC_WEIGHTS))


@pytest.mark.parametrize("schedule", [Schedule.ONE_STEP_OFF, Schedule.ASYNC])
def test_overlapping_schedules_put_generation_beside_the_rest(schedule):
    assert schedule.overlaps_generation
    stages = dataflow(job(*ALL, ROLLOUT, schedule=schedule))
    assert [(s.name, s.lane) for s in stages] == [
        ("generate", 0),
        ("prepare", 1),
        ("update", 1),
        ("sync_weights", None),
    ]


def test_a_reward_function_works_on_no_gpu():
    stages = dataflow(job(ACTOR, REWARD, functions=(REWARD,), algorithm=Algorithm.GRPO))
    assert stages[1].work == ((ACTOR, Work.OLD_LOG_PROBS),)


@given(st.sets(st.sampled_from(RoleName)).map(lambda s: {ACTOR, *s}), st.sampled_from(Schedule))
def test_every_schedule_does_the_same_work_once(names, schedule):
    stages = dataflow(job(*sorted(names), schedule=schedule))
    work = [piece for stage in stages for piece in stage.work]
    assert len(work) == len(set(work))
    assert set(work) == {piece for stage in dataflow(job(*sorted(names))) for piece in stage.work}
    assert {role for role, _ in work} == names
    assert all(stage.work for stage in stages)


@pytest.mark.parametrize(
    ("algorithm", "sequences"), [(Algorithm.PPO, 256), (Algorithm.GRPO, 256), (Algorithm.REMAX, 320)]
)
def test_remax_generates_a_greedy_answer_per_prompt_more(algorithm, sequences):
    assert sequences == generated_sequences(job(*ALL, algorithm=algorithm))
