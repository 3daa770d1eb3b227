"""
On how few of the usable GPUs does the job fit?

When to modify: other sets of GPUs are tried.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from placement.machines.machine import id_ranges
from placement.program.instance import Instance, Objective
from placement.program.lower import lower
from placement.program.menu import menu
from placement.program.needs import gpus
from placement.program.sets import twin_classes
from placement.smallest.trial import UNKNOWN, Smallest, Trial, Tried, of_menus, reason
from solvers.result import Options, Solve, Status

MOST_SETS = 300
"""Sets of GPUs that are tried at the most, those that equal GPUs make equal taken once."""

MOST_ABOVE = 100
"""Sets of more GPUs than are needed that are tried at the most: they are only there to compare."""


def fewest_gpus(instance: Instance, solve: Solve, options: Options) -> Smallest:
    """
    Return on how few of the usable GPUs the job fits: as if the machine had no others.

    Raises
    ------
    KeyboardInterrupt
        If the user stops it.
    SolverBug
        If a solver's answer breaks a rule.
    """
    trial = Trial(solve, options)
    sets = _sets(instance)
    if sets is None:
        return _by_objective(instance, trial)
    by_size = {size: [on for on in sets if len(on) == size] for size in range(1, len(instance.machine.usable) + 1)}
    tried: list[Tried] = []
    notes: list[str] = []
    skipped: tuple[int, ...] = ()
    answer = None
    for size, these in by_size.items():
        if size in skipped:
            continue
        rows = [trial.run(_only(instance, on), on) for on in these]
        tried.append(of_menus(replace(_best(rows), sets=len(rows))))
        if answer is None and tried[-1].fits:
            answer = len(tried) - 1
            skipped = _too_many({larger: len(listed) for larger, listed in by_size.items() if larger > size})
    if skipped:
        left_out = sum(len(by_size[size]) for size in skipped)
        notes.append(
            f"{id_ranges(skipped)} GPUs were not tried: they are {left_out} sets that differ, and above the smallest {MOST_ABOVE} at the "
            "most are tried"
        )
    if answer is not None and (gaps := [row.gpus for row in tried[answer:] if row.fits is False]):
        notes.append(f"more GPUs are not always enough: {id_ranges(gaps)} do not do, although {tried[answer].gpus} do")
    return trial.explained(tried, answer, notes)


def _sets(instance: Instance) -> list[tuple[int, ...]] | None:
    """
    Return the sets of usable GPUs that differ, by size, the roomiest first; None when there are too many.

    GPUs that can be exchanged are taken in ascending order: which of them are left out makes no difference.
    """
    classes = twin_classes(instance.machine)
    if math.prod(1 + len(twins) for twins in classes) - 1 > MOST_SETS:
        return None
    room = dict(zip(instance.machine.usable, instance.machine.room_mib, strict=True))
    taken = itertools.product(*([twins[:n] for n in range(len(twins) + 1)] for twins in classes))
    found = [tuple(sorted(itertools.chain.from_iterable(some))) for some in taken]
    return sorted(filter(None, found), key=lambda on: (len(on), -sum(room[g] for g in on), on))


def _too_many(counts: Mapping[int, int]) -> tuple[int, ...]:
    """Return the sizes of *counts*, size → sets of it, that are not tried, ascending: those with fewest sets are."""
    left, skipped = MOST_ABOVE, []
    for size, count in sorted(counts.items(), key=lambda item: (item[1], item[0])):
        left -= count
        if left < 0:
            skipped.append(size)
    return tuple(sorted(skipped))


def _only(instance: Instance, on: tuple[int, ...]) -> Instance:
    """Return the question for a machine of which the job sees *on* alone."""
    if on == instance.machine.usable:
        return instance
    left_out = tuple(gpu for gpu in instance.machine.usable if gpu not in on)
    machine = instance.machine.again(instance.rules, visible=instance.visible, not_needed=left_out)
    return instance.replace(machine=machine, not_needed=left_out)


def _best(rows: Sequence[Tried]) -> Tried:
    """Return what stands for a size: the set with the shortest step; else one of which nothing is known; else the roomiest."""
    fitting = [row for row in rows if row.fits]
    if fitting:
        return min(fitting, key=lambda row: (row.step_us or 0, row.on))
    return next((row for row in rows if row.fits is None), rows[0])


def _by_objective(instance: Instance, trial: Trial) -> Smallest:
    """Answer with the proof of objective ``gpus``, where there are too many sets to try each; the rules are those of all GPUs together."""
    question = instance.replace(objective=Objective.GPUS)
    usable = instance.machine.usable
    tables = menu(question)
    left = max(trial.deadline - time.monotonic(), 0.0)
    result = trial.solved(question, tables, lowered := lower(question, tables), left)
    if result.answer is None:
        is_known = result.status is Status.INFEASIBLE
        why = reason(question, tables, lowered.problem) if is_known else UNKNOWN
        return trial.explained([Tried(len(usable), usable, None, None, False if is_known else None, None, (why,), question)], None, ())
    fewest, star = result.proofs[0], result.step_star
    rows = [Tried(fewest.value, (), None, None, True, star.value if star else None, (), question)]
    if fewest.value > 1:
        proof = f"no plan of this machine uses fewer than {gpus(fewest.value)} (objective gpus, proven)"
        why, fits = (proof, False) if fewest.proven else (UNKNOWN, None)
        rows.insert(0, Tried(fewest.value - 1, (), None, None, fits, None, (why,), None))
    note = (
        f"more than {MOST_SETS} sets of GPUs differ, too many to try each: the rules are those of all {len(usable)} together, "
        "and what more GPUs would give was not looked at"
    )
    return Smallest(tuple(rows), len(rows) - 1, None, (note,))
