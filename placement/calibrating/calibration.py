"""
Calibration: one factor per stage that makes the model's times those that a user measured.

``factor = measured / predicted``, where the prediction is for the setting that was measured (`placement.calibrating.measured_run`) and the
shipped factors of 1. A timer of several pieces of work gives all of them one factor, measured over the sum of their predictions. The
factors are constants like all others (``generate_time_factor`` …): they are recorded in a plan, and its checker obeys them.

When to modify: more than one factor per piece of work is fitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from placement.calibrating import timing_keys
from placement.calibrating.timing_keys import ADDED, STAGES, WHOLE, Timer, name_of
from placement.calibrating.timings import Timings
from placement.calibrating.waiting import BESIDE, WAITS, bound, busy_s
from placement.constants.table import FARTHEST, TIME_FACTOR, Override
from placement.errors import InputError
from placement.program.instance import Instance
from placement.text.suggest import did_you_mean
from placement.workloads.dataflow import Work
from placement.workloads.workload import Schedule

PLAUSIBLE = (0.5, 2.0)
"""Factors outside say that the model misses something, not that it is a little off."""

SHORTEST_SHARE = 0.01
"""A measured time below this share of the predicted one shows that the stage was not run, or ran inside another."""

DIGITS = 5
"""Significant digits of a factor: more than any measurement has."""

MISSED: Mapping[Work, str] = {
    Work.GENERATE: "tools or environments between turns, responses of another length than the workload's, preempted sequences, eager mode",
    Work.REWARD: "rewards computed by a function or a remote service, or inside generation",
    Work.OLD_LOG_PROBS: "another micro-batch than the plan's, padded sequences, entropy over the whole vocabulary",
    Work.REF_LOG_PROBS: "another micro-batch than the plan's, padded sequences, weights fetched from host memory",
    Work.VALUES: "another micro-batch than the plan's, padded sequences",
    Work.UPDATE_CRITIC: "another micro-batch or offload than the plan's, padded sequences, several epochs over a batch",
    Work.UPDATE_ACTOR: "another micro-batch or offload than the plan's, padded sequences, several epochs over a batch",
    Work.SYNC_WEIGHTS: "another way of sending weights (a checkpoint engine, disk), engines that start anew",
}
"""What a factor far above 1 often comes from, for people to look at first."""

SPARED = "more GPUs than the plan's, another layout (say with `run:` what ran where), a job smaller than the workload's"
"""What a factor far below 1 often comes from: less was done than is predicted, or more GPUs did it."""

SHORTER = f"shorter answers than the workload's, {SPARED}"
"""The same for work on answers."""


class Timed(NamedTuple):
    """A timer as it was written, its median in seconds, and how many steps that is of."""

    key: str
    seconds: float
    steps: int


@dataclass(frozen=True, slots=True)
class Fit:
    """
    One factor.

    Parameters
    ----------
    works
        The pieces of work that have it.
    timer
        The timer that was taken, as it was written.
    predicted_s, measured_s
        Seconds, for the setting that was measured.
    factor
        *measured_s* over *predicted_s*.
    steps
        How many steps *measured_s* is the median of.
    """

    works: tuple[Work, ...]
    timer: str
    predicted_s: float
    measured_s: float
    factor: float
    steps: int

    @property
    def is_plausible(self) -> bool:
        """Whether the factor is one that the model's error explains."""
        return PLAUSIBLE[0] <= self.factor <= PLAUSIBLE[1]

    @property
    def often(self) -> str:
        """What a factor that is not plausible often comes from."""
        if self.factor > 1:
            return MISSED[self.works[0]]
        return SPARED if self.works[0] is Work.SYNC_WEIGHTS else SHORTER


@dataclass(frozen=True, slots=True)
class Calibration:
    """
    What was fitted, and what was not.

    Parameters
    ----------
    fits
        In the order of the step.
    left
        Pieces of work of the job without a measured time: they keep what is predicted.
    unused
        Timer → why no factor comes from it.
    unknown
        Timers that no framework known here has, with a suggestion.
    step_s
        The measured step; None if it was not measured.
    """

    fits: tuple[Fit, ...]
    left: tuple[Work, ...]
    unused: Mapping[str, str]
    unknown: tuple[str, ...]
    step_s: float | None

    def overrides(self) -> tuple[Override, ...]:
        """Return the factors as constants that say where they come from."""
        return tuple(
            Override(
                f"{work}{TIME_FACTOR}",
                fit.factor,
                f"calibrated: {fit.timer} measured {fit.measured_s:.5g} s{_median(fit.steps)}, predicted {fit.predicted_s:.5g} s",
            )
            for fit in self.fits
            for work in fit.works
        )


def _median(steps: int) -> str:
    return "" if steps == 1 else f", median of {steps} steps"


def uncalibrated(instance: Instance) -> Instance:
    """Return *instance* with all factors at 1, and whatever else its user put in place of shipped numbers."""
    return instance.with_overrides([each for each in instance.overrides if not each.name.endswith(TIME_FACTOR)])


def calibrate(timings: Timings, predicted_us: Mapping[Work, int], schedule: Schedule) -> Calibration:
    """
    Fit the factors.

    Parameters
    ----------
    predicted_us
        What the model says of each piece of work of the measured setting, factors at 1
        (`placement.checking.costs.work_us`), in the order of the step.
    schedule
        Where generation overlaps with training, some timers hold the wait for it alone (`placement.calibrating.waiting`).

    Raises
    ------
    InputError
        If a time is so much longer than predicted that it cannot be in seconds.
    """
    unused: dict[str, str] = {}
    unknown = []
    found: dict[str, Timed] = {}
    beside: list[tuple[str, str, float]] = []
    step_s = None
    overlaps = schedule.overlaps_generation
    waits: dict[str, Timed] = {}
    for key, seconds in timings.seconds.items():
        name = name_of(key)
        if name in WHOLE:
            step_s = seconds
        elif overlaps and name in WAITS:
            waits[name] = Timed(key, seconds, timings.steps_of(key))
        elif name in STAGES:
            found[name] = Timed(key, seconds, timings.steps_of(key))
        elif name in ADDED:
            beside.append((ADDED[name], key, seconds))
        elif (why := timing_keys.why_not(name)) is not None:
            unused[key] = why
        elif timing_keys.OTHER_UNITS.search(key) is None:
            unknown.append(f"{key}{did_you_mean(name, [*STAGES, *WHOLE])}")
    for name, key, seconds in beside:
        if name in found:
            known = found[name]
            found[name] = Timed(f"{known.key} + {key}", known.seconds + seconds, min(known.steps, timings.steps_of(key)))
        else:
            unused[key] = f"it belongs to {name}, which was not measured"
    fits = []
    taken: dict[Work, str] = {}
    for name, (key, seconds, steps) in sorted(found.items(), key=lambda item: STAGES[item[0]].rank):
        timer = STAGES[name]
        works = tuple(work for work in timer.works if work in predicted_us)
        if not works:
            unused[key] = "the job has no such work on GPUs"
        elif clash := next((taken[work] for work in works if work in taken), None):
            unused[key] = f"{clash} is taken for the same work"
        elif _is_too_short(own := seconds - _inside(name, found), predicted := sum(predicted_us[w] for w in works) / 1e6):
            unused[key] = f"{seconds:g} s, where {predicted:.3g} s are predicted: not run, or inside another stage"
        elif own > FARTHEST * predicted:
            raise InputError(f"{key}: {own:g} s, where {predicted:.3g} s are predicted: timers are in seconds")
        else:
            fits.append(_fit(works, key, predicted, own, steps))
            taken |= dict.fromkeys(works, key)
    if waits and Work.GENERATE in predicted_us:
        found_by_wait = _waited(waits, fits, taken, predicted_us, schedule, unused)
        if found_by_wait is not None:
            for other in [fit for fit in fits if fit.works == (Work.GENERATE,)]:
                fits.remove(other)
                unused[other.timer] = "the wait for generation says how long all of it took"
            fits.append(found_by_wait)
            taken[Work.GENERATE] = found_by_wait.timer
    order = list(predicted_us)
    return Calibration(
        fits=tuple(sorted(fits, key=lambda fit: order.index(fit.works[0]))),
        left=tuple(work for work in order if work not in taken),
        unused=unused,
        unknown=tuple(unknown),
        step_s=step_s,
    )


def _fit(works: tuple[Work, ...], timer: str, predicted_s: float, measured_s: float, steps: int) -> Fit:
    return Fit(works, timer, predicted_s, measured_s, float(f"{measured_s / predicted_s:.{DIGITS}g}"), steps)


def _waited(
    waits: Mapping[str, Timed],
    fits: Sequence[Fit],
    taken: Mapping[Work, str],
    predicted_us: Mapping[Work, int],
    schedule: Schedule,
    unused: dict[str, str],
) -> Fit | None:
    """Return the fit of generation that the wait for it gives; None where it gives none, and then *unused* gets the reason."""
    first, *others = (name for name in WAITS if name in waits)
    unused |= {waits[name].key: f"{waits[first].key} is taken for the wait for generation" for name in others}
    key, wait, steps = waits[first]
    is_wait = f"under schedule {schedule} it is the wait for generation, not its time"
    beside = [fit for fit in fits if fit.works[0] in BESIDE]
    missing = {work: us for work, us in predicted_us.items() if work not in taken}
    busy = busy_s({fit.works[0]: fit.measured_s for fit in beside}, missing)
    own, predicted = taken.get(Work.GENERATE), predicted_us[Work.GENERATE] / 1e6
    if own is not None and name_of(own) == Work.GENERATE:
        unused[key] = f"{is_wait}; {own} is taken"
        return None
    if busy is None:
        unused[key] = f"{is_wait}: it says how long that took only beside a time of update_actor"
        return None
    took = bound(wait, busy)
    if took.is_exact or (own is None and took.seconds < predicted):
        atmost = "" if took.is_exact else ", at most"
        return _fit((Work.GENERATE,), f"prepare + update + wait ({key}){atmost}", predicted, took.seconds, steps)
    unused[key] = f"{is_wait}, and there was hardly any: generation took {took.seconds:.3g} s or less"
    return None


def _inside(name: str, found: Mapping[str, Timed]) -> float:
    """Return what timer *name* holds of others, s: of those that are taken for work of their own."""
    inner: Iterator[tuple[str, Timer]] = ((other, STAGES[other]) for other in found if STAGES[other].within == name)
    return sum(
        found[other].seconds
        for other, timer in inner
        if not any(STAGES[b].works == timer.works and STAGES[b].rank < timer.rank for b in found)
    )


def _is_too_short(measured_s: float, predicted_s: float) -> bool:
    return measured_s <= SHORTEST_SHARE * predicted_s
