"""The four schedules as plans: what overlaps, and what the step is made of."""

from __future__ import annotations

import dataclasses

import pytest
from conftest_placement import BATCH, TINY, actor, ask, job, machine, ref

from placement.checking import problems
from placement.planner import plan
from placement.plans import Plan
from placement.workloads.workload import Engine, Role, RoleName, RolloutMenu, Schedule

LONG = dataclasses.replace(BATCH, response_max_tokens=16 * BATCH.response_mean_tokens)
"""Few answers, the longest of which is sixteen times the mean."""


def planned(schedule: Schedule) -> Plan:
    rollout = Role(RoleName.ROLLOUT, TINY, engine=Engine.VLLM, rollout=RolloutMenu(), gpu_menu=(2,))
    work = job(actor(rollout=None, gpu_menu=(2,)), rollout, ref(gpu_menu=(2,)), schedule=schedule, batch=LONG)
    asked = ask(machine("NV12", 4), work)
    found = plan(asked).plan
    assert found is not None
    assert list(problems(found, asked)) == []
    return found


@pytest.fixture(scope="module")
def plans() -> dict[Schedule, Plan]:
    return {schedule: planned(schedule) for schedule in Schedule}


def stages(found: Plan) -> dict[str, int]:
    return {stage.name: stage.us for stage in found.estimate.stages}


@pytest.mark.parametrize("schedule", [Schedule.FULL, Schedule.NONE])
def test_without_overlap_stages_follow_each_other(plans: dict[Schedule, Plan], schedule: Schedule) -> None:
    found = plans[schedule]
    assert found.estimate.step_us == sum(stages(found).values())


@pytest.mark.parametrize("schedule", [Schedule.ONE_STEP_OFF, Schedule.ASYNC])
def test_generation_runs_beside_training_and_the_sync_follows_both(plans: dict[Schedule, Plan], schedule: Schedule) -> None:
    found = plans[schedule]
    us = stages(found)
    assert found.estimate.step_us == max(us["generate"], us["prepare"] + us["update"]) + us["sync_weights"]


def test_only_fully_asynchronous_generation_has_no_tail(plans: dict[Schedule, Plan]) -> None:
    generate = {schedule: stages(found)["generate"] for schedule, found in plans.items()}
    assert generate[Schedule.FULL] == generate[Schedule.NONE] == generate[Schedule.ONE_STEP_OFF]
    # 128 answers of 256 tokens on each engine; the longest has 4096.
    assert generate[Schedule.ASYNC] < generate[Schedule.FULL] / 4
    steps = [plans[schedule].estimate.step_us for schedule in (Schedule.ASYNC, Schedule.ONE_STEP_OFF, Schedule.FULL)]
    assert steps == sorted(steps)
    assert steps[0] < steps[1] < steps[2]
