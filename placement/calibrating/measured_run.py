"""
The setting that a user measured, as a plan: what ran where, so that the model can say what it predicts for it.

When to modify: a file of timings says what ran where in another form.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from placement.calibrating.timings import Timings
from placement.checking.choices import choice_problems
from placement.checking.form import form_problems
from placement.errors import InputError
from placement.maps.inputs import inputs
from placement.maps.replay import MAX_BYTES, replay
from placement.planner import SolverName, load_solver, plan
from placement.plans import Plan
from placement.program.instance import Instance, make_instance
from placement.program.lift import lift
from placement.program.lower import Lowered, lower
from placement.program.menu import menu
from placement.program.prices import not_compared
from placement.program.proving import verified
from placement.text.text_files import read_text
from placement.workloads.rules import parse_rules
from placement.workloads.workload import RoleName
from solvers.result import Options

ANY_MAP = (
    "free,contiguity=off,sharing=partial,same_card=off,min_gpus=off,reserve=off,reward_reserve=off,busy=off,"
    "affinity=off,root_complex=off"
)
"""Rules that nothing breaks but GPUs that do not exist."""


@dataclass(frozen=True, slots=True)
class Setting:
    """
    What was measured.

    Parameters
    ----------
    plan
        The measured placement; its times are the model's.
    instance
        The question that it answers.
    text
        What it is, in words.
    """

    plan: Plan
    instance: Instance
    text: str


def setting(
    question: Instance, timings: Timings, *, solver: SolverName = SolverName.CPSAT, options: Options | None = None
) -> Setting | None:
    """
    Return the setting of *timings*; None if the user does not say and *question* has no plan.

    Parameters
    ----------
    question
        Machine and job of the run that was measured (a map brings its own), factors at 1.

    Raises
    ------
    InputError
        If the map of the run cannot be read, or is none for this machine and job.
    KeyboardInterrupt
        If the user stops the search: what is known so far is not the setting.
    """
    options = options or Options()
    run = timings.run
    if run is None:
        outcome = plan(question, solver=solver, options=options)
        if outcome.interrupted:
            raise KeyboardInterrupt
        text = "the plan of the uncalibrated model, as the timings do not say what ran where (`run:`)"
        return None if outcome.plan is None else Setting(outcome.plan, question, text)
    if run.map is not None:
        return _of_file(question, run.map, run.where)
    assert run.device_map is not None
    return _of_groups(question, run.device_map, run.where, solver, options)


def _of_file(question: Instance, path: Path, where: str) -> Setting:
    text = read_text(path, what="device map", most=MAX_BYTES)
    try:
        found, its = replay(text, name=str(path))
    except InputError as error:
        raise InputError(f"the map {path} does not record the machine and the job that it is for: {error}", where=where) from None
    instance = its.with_overrides(question.overrides)
    wrong = list(form_problems(found, instance)) or list(choice_problems(found, instance))
    if wrong:
        raise InputError(f"the map {path} is no plan for the machine and the job that it records: {wrong[0]}", where=where)
    asked, ran = inputs(question), inputs(instance)
    others = [what for name, what in (("topology", "machine"), ("workload", "job")) if asked[name] != ran[name]]
    said = f"the map {path.name} of the timings"
    return Setting(found, instance, f"{said}, for another {' and '.join(others)} than this question has" if others else said)


def _of_groups(
    question: Instance, groups: Mapping[str, tuple[int, ...]], where: str, solver: SolverName, options: Options
) -> Setting:
    """Let the solver choose layouts and menus alone: the groups are the user's."""
    # No rule that the run may have broken: it did run.
    instance = make_instance(
        question.machine.topology,
        question.workload,
        parse_rules(ANY_MAP),
        visible=question.visible,
        within_percent=0.0,
        overrides=question.overrides,
    )
    wanted = [role.name.value for role in instance.workload.placed]
    if set(groups) != set(wanted):
        raise InputError(f"device_map names {', '.join(groups)}; the job places {', '.join(wanted)}", where=where)
    usable = instance.machine.usable
    for role, gpus in groups.items():
        if missing := [gpu for gpu in gpus if gpu not in usable]:
            ids = ", ".join(map(str, usable))
            raise InputError(f"{role} ran on GPU {missing[0]}, which this machine does not have, or hides: it has {ids}", where=where)
    tables = menu(instance, groups=sorted({tuple(sorted(gpus)) for gpus in groups.values()}))
    lowered = lower(instance, tables)
    sets = [frozenset(candidate.gpus) for candidate in tables.groups]
    items = tuple(
        dataclasses.replace(item, groups=tuple(g for g in item.groups if sets[g] == frozenset(groups[role.name.value])))
        for role, item in zip(tables.roles, lowered.problem.items, strict=True)
    )
    fixed = Lowered(dataclasses.replace(lowered.problem, items=items), lowered.gpus, lowered.choices)
    none_left = next((role.name for role, item in zip(tables.roles, items, strict=True) if not item.groups), None)
    result = None if none_left is not None else verified(fixed, load_solver(solver)(fixed.problem, options))
    if result is not None and result.interrupted:
        raise KeyboardInterrupt
    if result is None or result.answer is None:
        raise InputError(_does_not_fit(none_left), where=where)
    answer = lift(instance, tables, fixed, result, not_compared("measured"), verdict="", assumptions=(), inputs={})
    return Setting(answer, instance, "the device_map of the timings, each role as fast as its menus allow")


def _does_not_fit(role: RoleName | None) -> str:
    what = "the roles" if role is None else role.value
    return (
        f"by the memory model {what} cannot run where device_map says, with any choice of the menus: give the run's layout, offload "
        "and micro-batch in the workload"
    )

