"""
Does the map record the question that it answers, and do its words agree with its figures?

When to modify: the map records something more about its question, or the verdict is worded anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from placement.maps.inputs import inputs
from placement.plans import Plan
from placement.program.instance import Instance, Objective

VERDICT = re.compile(r"(?P<status>\w+): (?P<seconds>\d+(?:\.\d+)?) s a step on (?P<gpus>\d+) GPUs?\b")


def record_problems(plan: Plan, instance: Instance) -> Iterator[str]:
    """Say where the record of *plan* differs from the question, or from the plan itself."""
    if dict(plan.rules) != instance.rules.describe():
        yield f"the map obeys the rules {dict(plan.rules)}, the question asks for {instance.rules.describe()}"
    if plan.estimate.schedule != instance.workload.schedule:
        yield f"the map is timed for schedule {plan.estimate.schedule}, the job has {instance.workload.schedule}"
    asked = inputs(instance)
    for name in sorted((plan.inputs.keys() | asked.keys()) - {"version"}):
        if plan.inputs.get(name) != asked.get(name):
            yield f"the map records another {name} than the question has"
    if "version" not in plan.inputs:
        yield "the map does not record the version that planned it"
    yield from _verdict(plan)
    yield from _comparison(plan, instance)


def _verdict(plan: Plan) -> Iterator[str]:
    """The step is rounded up to the last digit that is said: a plan is never promised to be faster than it is."""
    said = VERDICT.match(plan.verdict)
    if said is None:
        yield f"the verdict does not say status, step and GPUs: {plan.verdict!r}"
        return
    digits = len(said["seconds"].partition(".")[2])
    above_us = round(float(said["seconds"]) * 1e6) - plan.estimate.step_us
    is_right = said["status"] == plan.proof.status and int(said["gpus"]) == len(plan.used_gpus)
    if not is_right or not 0 <= above_us < 10 ** (6 - digits):
        yield f"the verdict says otherwise than the map: {plan.verdict!r}"


def _comparison(plan: Plan, instance: Instance) -> Iterator[str]:
    """
    With all rules of choice lifted nothing gets worse: no step is longer than ours, nor than that of the trivial plan.

    Where another objective comes first, that is so for proven optima alone, and for the step only where the first term is equal.
    """
    free, colocated, star_us = plan.comparison.free, plan.comparison.colocated.step_us, plan.proof.objective
    if free.step_us is None:
        return
    if instance.objective is Objective.STEP:
        if free.step_us > star_us:
            yield f"without rules a step takes {free.step_us} µs, longer than with them ({star_us} µs)"
        if colocated is not None and free.step_us > colocated:
            yield f"without rules a step takes {free.step_us} µs, longer than with all roles colocated ({colocated} µs)"
    elif free.note == "optimal" and free.first_term is not None:
        first = plan.proof.objective_terms[0].value if plan.proof.objective_terms else 0
        if (free.first_term, free.step_us) > (first, star_us):
            yield f"without rules {instance.objective} is {free.first_term} and a step {free.step_us} µs, worse than with them"
