"""
How long generation took in a run that generates beside training, where its logger times the wait for it alone.

Generation starts as training does, after the weight sync, and the trainer then waits for what is left of it. So where the trainer
waited, generation took ``prepare + update + wait``, and it is what bounds the step; where it did not, generation took no longer than that.

When to modify: a framework starts generation at another moment, or times the wait in another way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from placement.workloads.dataflow import Work

WAITS = ("exposed_generation", "wait_prev_gen", "gen", "generation")
"""Timers that hold the wait for generation alone where it overlaps with training; the first that was measured is taken."""

LEAST_WAIT = 0.02
"""A wait below this share of the step is the hand-over of the answers, which ends whenever training does."""

BESIDE = frozenset(Work) - {Work.GENERATE, Work.SYNC_WEIGHTS}
"""What the trainer does while the next answers are generated."""


class Bound(NamedTuple):
    """What a wait says of generation, s; *is_exact* if it took so long, else it took no longer."""

    seconds: float
    is_exact: bool


def bound(wait_s: float, busy_s: float) -> Bound:
    """
    Return what a wait of *wait_s* after *busy_s* of prepare and update says of generation.

    45 s of work and a wait of 15 s: generation took 60 s. With no wait it took 45 s or less.
    """
    whole = busy_s + wait_s
    return Bound(whole, wait_s >= LEAST_WAIT * whole)


def busy_s(measured_s: Mapping[Work, float], predicted_us: Mapping[Work, int]) -> float | None:
    """
    Return how long prepare and update took, s; None if the actor's update was not measured, which most of it is.

    Parameters
    ----------
    measured_s
        By the first work of each timer.
    predicted_us
        Of the pieces of work that were not measured: what is predicted counts.
    """
    if Work.UPDATE_ACTOR not in measured_s:
        return None
    return sum(measured_s.values()) + sum(us for work, us in predicted_us.items() if work in BESIDE) / 1e6
