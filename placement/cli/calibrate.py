"""
``placement plan --calibrate``: fit the factors, and say what they change.

When to modify: what people are told of a calibration.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from placement.calibrating import timings
from placement.calibrating.calibration import PLAUSIBLE, Calibration, Fit, calibrate, uncalibrated
from placement.calibrating.measured_run import Setting, setting
from placement.calibrating.timings import Timings
from placement.checking.costs import step_us, work_us
from placement.cli.say import note
from placement.cli.table import new_table, percent, rendered
from placement.constants.table import TIME_FACTOR
from placement.errors import InputError
from placement.planner import SolverName
from placement.program.instance import Instance
from placement.workloads.dataflow import Work, dataflow
from placement.workloads.workload import Schedule
from solvers.result import Options

WAITS = 1.1
"""Where a measured step is so many times longer than its calibrated stages make it, they did not overlap as planned."""

CLOSE = 0.05
"""A share by which a calibrated step may miss the measured one without more being said: work of the CPU is not modelled."""


def calibrated(question: Instance, path: Path, *, solver: SolverName, options: Options) -> Instance:
    """
    Return *question* with the factors that the times in *path* ask for, and tell the user about them.

    Raises
    ------
    InputError
        If the file cannot be read, or holds no time of a stage of this job that a factor could explain.
    """
    measured = timings.read_file(path)
    base = uncalibrated(question)
    found = setting(base, measured, solver=solver, options=options)
    if found is None:
        # Factors change no memory: the answer will be no, and says why.
        note("not calibrated: there is no plan whose times could be compared; say with `run:` what ran where")
        return question
    result = calibrate(measured, work_us(found.plan, found.instance), found.instance.workload.schedule)
    if not result.fits:
        raise InputError("; ".join(["no time in it is that of a stage of this job", *_left_out(result)]), where=str(path))
    replaced = [each.name for each in question.overrides if each.name.endswith(TIME_FACTOR)]
    answer = question.with_overrides([*question.overrides, *result.overrides()])
    for text in report(result, measured, found, answer):
        note(text)
    if twice := [each.name for each in result.overrides() if each.name in replaced]:
        note(f"in place of --constants: {', '.join(twice)}")
    return answer


def report(result: Calibration, measured: Timings, found: Setting, answer: Instance) -> Iterator[str]:
    """Yield what is said of a calibration: the table, doubts, what changed, and what stays as predicted."""
    first = "; the first step is left out" if measured.dropped else ""
    steps = "one step" if measured.steps == 1 else f"the median of {measured.steps} steps"
    yield from (f"warning: {doubt}" for doubt in measured.doubts)
    yield f"calibrated to {steps}{first}; predicted: {found.text}"
    table = new_table(
        ("stage", "left"),
        ("predicted", "right"),
        ("measured", "right"),
        ("factor", "right"),
        ("steps", "right"),
        ("timer", "left"),
        prose=["stage"],
    )
    for fit in result.fits:
        table.add_row(*_row(fit))
    # Beside each other they add up to no step.
    if len(result.fits) > 1 and not found.instance.workload.schedule.overlaps_generation:
        predicted = sum(fit.predicted_s for fit in result.fits)
        own = sum(fit.measured_s for fit in result.fits)
        table.add_row("together", _seconds(predicted), _seconds(own), _factor(own / predicted), "", "")
    yield rendered(table, stream=sys.stderr).rstrip()
    for fit in result.fits:
        if not fit.is_plausible:
            many = " + ".join(fit.works)
            yield (
                f"warning: {many} takes {fit.factor:.3g} times what is predicted, outside {PLAUSIBLE[0]:g} to {PLAUSIBLE[1]:g}: the "
                f"model misses something; look for {fit.often}"
            )
    before = step_us(found.plan, found.instance) / 1e6
    after = step_us(found.plan, found.instance.with_overrides(answer.overrides)) / 1e6
    whole = "" if result.step_s is None else f", {_seconds(result.step_s)} measured"
    yield f"a step of that placement: {_seconds(before)} predicted, {_seconds(after)} calibrated{whole}"
    if result.step_s is not None:
        yield from _beside_the_step(result, after, result.step_s, found.instance.workload.schedule)
    fitted = {work for fit in result.fits for work in fit.works}
    asked = dict.fromkeys(work for stage in dataflow(answer.workload) for _, work in stage.work)
    if left := [_kept(work, answer) for work in asked if work not in fitted]:
        yield f"not calibrated: {', '.join(left)}"
    yield from _left_out(result)


def _beside_the_step(result: Calibration, after_s: float, step_s: float, schedule: Schedule) -> Iterator[str]:
    """Yield what the measured step says of a plan that is *after_s* long for the same setting."""
    if schedule.overlaps_generation:
        if abs(after_s / step_s - 1) > CLOSE:
            yield (
                f"warning: under schedule {schedule} that placement is planned {percent(abs(after_s / step_s - 1))} "
                f"{'shorter' if after_s < step_s else 'longer'} than was measured: look for work of the step without a timer, for "
                "generation that starts later than training does, and for the wait for it (gen, exposed_generation), which was not measured"
            )
        elif step_s > after_s:
            yield f"{_seconds(step_s - after_s)} of the measured step are in none of these stages: plans leave them out"
        return
    if (rest := step_s - sum(fit.measured_s for fit in result.fits)) > 0:
        yield f"{_seconds(rest)} of the measured step are in none of these stages: plans leave them out"
    if step_s > WAITS * after_s and schedule is Schedule.FULL:
        yield (
            "the measured step is much longer: where pieces of work wait for each other, also on disjoint GPUs, write `schedule: none` "
            "in the workload"
        )


def _kept(work: Work, answer: Instance) -> str:
    factor = answer.constants.time_factor(work)
    return work.value if factor == 1 else f"{work} (keeps its factor of {factor:g})"


def _row(fit: Fit) -> tuple[str, ...]:
    times = _seconds(fit.predicted_s), _seconds(fit.measured_s)
    return " + ".join(fit.works), *times, _factor(fit.factor), str(fit.steps), fit.timer


def _factor(factor: float) -> str:
    return f"{factor:.2f}" if factor >= 0.1 else f"{factor:.2g}"


def _left_out(result: Calibration) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for timer, why in result.unused.items():
        reasons.setdefault(why, []).append(timer)
    for why, timers in reasons.items():
        yield f"not used: {', '.join(timers)} ({why})"
    if result.unknown:
        yield f"unknown timers, not used: {', '.join(result.unknown)}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds:.3f} s"
