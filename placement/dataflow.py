"""
Which stages an algorithm runs, in which order, and which role works in each.

The order is verl's and HybridFlow's: generate; then what the advantage needs (reward, old log-probabilities, reference
log-probabilities, values); then the updates; then the new weights reach the engine that generates.

When to modify: a new algorithm or a new schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from placement.workload import RoleName, Schedule, Workload


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
    """A stage: its name, who works in it (role and work), and its lane when the schedule is asynchronous."""

    name: str
    work: tuple[tuple[RoleName, Work], ...]
    lane: int | None = None


def dataflow(workload: Workload) -> tuple[StagePlan, ...]:
    """
    Return the stages of one step of *workload* in order; roles that are functions or absent do no work.

    ``full``: HybridFlow's three stages (generate, prepare, update) and the weight sync; inside a stage disjoint pools overlap.
    ``none``: as stock verl, each piece of work is a stage of its own.
    ``async``: generation is lane 0, prepare and update are lane 1, the weight sync follows both.
    """
    raise NotImplementedError
