"""
Which stages an algorithm runs, in which order, and which role works in each.

The order is verl's and HybridFlow's: generate; then what the advantage needs (reward, old log-probabilities,
reference log-probabilities, values); then the updates; then the new weights reach the engine that generates.

When to modify: a new algorithm or a new schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from placement.workloads.workload import Algorithm, RoleName, Schedule, Workload


class Work(StrEnum):
    """A piece of work of one role; also the name of a memory phase (the moment when that role is active)."""

    GENERATE = "generate"
    REWARD = "reward"
    OLD_LOG_PROBS = "old_log_probs"
    REF_LOG_PROBS = "ref_log_probs"
    VALUES = "values"
    UPDATE_CRITIC = "update_critic"
    UPDATE_ACTOR = "update_actor"
    SYNC_WEIGHTS = "sync_weights"


@dataclass(frozen=True, slots=True)
class StagePlan:
    """A stage: its name, who works in it (role and work), and its lane when generation overlaps training."""

    name: str
    work: tuple[tuple[RoleName, Work], ...]
    lane: int | None = None


def dataflow(workload: Workload) -> tuple[StagePlan, ...]:
    """
    Return the stages of one step of *workload* in order; roles that are functions or absent do no work.

    ``full``: HybridFlow's three stages (generate, prepare, update) and the weight sync; inside a stage
    disjoint pools overlap. ``none``: as stock verl, each piece of work is a stage of its own.

    ``one_step_off``: generation of the next step (lane 0, to the end of its longest answer) runs beside prepare and
    update of this one (lane 1); both wait for the weight sync. ``async``: the same lanes, but generation never waits
    for its longest answer: syncs interrupt answers, which go on with the new weights (`placement.timing.generation`).
    """
    prepare = _present(
        workload,
        (RoleName.REWARD, Work.REWARD),
        (RoleName.ACTOR, Work.OLD_LOG_PROBS),
        (RoleName.REF, Work.REF_LOG_PROBS),
        (RoleName.CRITIC, Work.VALUES),
    )
    update = _present(workload, (RoleName.CRITIC, Work.UPDATE_CRITIC), (RoleName.ACTOR, Work.UPDATE_ACTOR))
    generator = RoleName.ACTOR if workload.is_hybrid else RoleName.ROLLOUT
    generate = _present(workload, (generator, Work.GENERATE))
    sync = _present(workload, (RoleName.ACTOR, Work.SYNC_WEIGHTS), (RoleName.ROLLOUT, Work.SYNC_WEIGHTS))
    match workload.schedule:
        case Schedule.FULL:
            return (
                StagePlan("generate", generate),
                StagePlan("prepare", prepare),
                StagePlan("update", update),
                StagePlan("sync_weights", sync),
            )
        case Schedule.NONE:
            # The two ends of a weight transfer are one piece of work.
            alone = tuple(StagePlan(piece[1].value, (piece,)) for piece in (*prepare, *update))
            return (StagePlan("generate", generate), *alone, StagePlan("sync_weights", sync))
        case Schedule.ONE_STEP_OFF | Schedule.ASYNC:
            return (
                StagePlan("generate", generate, lane=0),
                StagePlan("prepare", prepare, lane=1),
                StagePlan("update", update, lane=1),
                StagePlan("sync_weights", sync),
            )
    assert_never(workload.schedule)


def _present(workload: Workload, *work: tuple[RoleName, Work]) -> tuple[tuple[RoleName, Work], ...]:
    """Keep the work of roles that the job has and that run on GPUs."""
    placed = {role.name for role in workload.placed}
    return tuple(piece for piece in work if piece[0] in placed)


def generated_sequences(workload: Workload) -> int:
    """
    Return how many sequences a step generates.

    ReMax subtracts the reward of one greedy answer per prompt, which is generated beside the samples (Li et
    al. 2024, arXiv:2310.10505); it is not trained on.
    """
    greedy = 1 if workload.algorithm is Algorithm.REMAX else 0
    return workload.batch.prompts * (workload.batch.samples_per_prompt + greedy)
