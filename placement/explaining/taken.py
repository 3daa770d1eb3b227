"""
What a plan chose, without its figures: groups in rank order, and one choice for every part of every role.

Equal GPUs need no care here: of plans that differ in nothing else the solver takes the one with the smallest ids.

When to modify: a part of a role is chosen in a new way, or a difference is put into better words.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from placement.choices.choices import Choice, FrozenChoice, Part, RolloutChoice, TrainChoice, parts
from placement.machines.machine import id_ranges
from placement.program.instance import Instance
from placement.program.lower import Lowered, lower
from placement.program.menu import Menu, fixed_menu
from placement.workloads.workload import RoleName
from solvers import check
from solvers.problem import Term
from solvers.result import Answer


@dataclass(frozen=True)
class Taken:
    """
    What is chosen.

    Parameters
    ----------
    groups
        Physical ids in rank order.
    choices
        Part by part.
    """

    groups: Mapping[RoleName, tuple[int, ...]]
    choices: Mapping[RoleName, Mapping[Part, Choice]]


def taken(lowered: Lowered, menu: Menu, answer: Answer) -> Taken:
    """Return what *answer* chooses."""
    problem = lowered.problem
    return Taken(
        {
            role.name: tuple(lowered.gpus[d] for d in problem.groups[g].devices)
            for role, g in zip(menu.roles, answer.groups, strict=True)
        },
        {
            role.name: {part: lowered.choice(i, s, answer.options[i][s]) for s, part in enumerate(parts(role))}
            for i, role in enumerate(menu.roles)
        },
    )


def terms(choice: Taken, instance: Instance) -> Mapping[Term, int] | None:
    """Return what *choice* costs in *instance*; None when it cannot run there, or does not fit into memory."""
    tables = fixed_menu(instance, choice.groups, choice.choices)
    if tables is None:
        return None
    problem = lower(instance, tables).problem
    number = {tuple(problem.groups[g].devices): g for g in range(len(problem.groups))}
    position = {gpu: d for d, gpu in enumerate(instance.machine.usable)}
    groups = tuple(number[tuple(position[g] for g in choice.groups[role.name])] for role in tables.roles)
    # Each slot has one option: that of the role's own profile.
    answer = Answer(groups, tuple((0,) * len(parts(role)) for role in tables.roles))
    return None if check.violations(problem, answer) else check.terms(problem, answer)


# ── words ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def difference(old: Taken, new: Taken) -> tuple[str, ...]:
    """Say what *new* does otherwise than *old*, one clause each; empty when they are the same."""
    return (*_moves(old, new), *_changes(old, new))


def _moves(old: Taken, new: Taken) -> Iterator[str]:
    """Roles that move alike are said together."""
    moved: dict[tuple[tuple[int, ...], bool], list[str]] = {}
    for role, gpus in new.groups.items():
        before = old.groups[role]
        if gpus != before:
            moved.setdefault((gpus, sorted(gpus) == sorted(before)), []).append(role.value)
    for (gpus, is_reordered), roles in moved.items():
        who = " and ".join(filter(None, [", ".join(roles[:-1]), roles[-1]]))
        s = "s" if len(roles) == 1 else ""
        if is_reordered:
            yield f"{who} take{s} {'its' if s else 'their'} GPUs in the order {','.join(map(str, gpus))}"
        else:
            yield f"{who} move{s} to GPU{'s' if len(gpus) > 1 else ''} {id_ranges(sorted(gpus))}"


def _changes(old: Taken, new: Taken) -> Iterator[str]:
    for role, chosen in new.choices.items():
        is_resized = len(new.groups[role]) != len(old.groups[role])
        said = [
            word
            for part, choice in chosen.items()
            if choice != old.choices[role][part]
            for word in _words(old.choices[role][part], choice, is_resized=is_resized)
        ]
        if said:
            yield f"{role.value}: {', '.join(said)}"


def _words(old: Choice, new: Choice, *, is_resized: bool) -> Iterator[str]:
    """Yield what *new* has otherwise; how many replicas a group of another size holds goes without saying."""
    changed = {f.name for f in dataclasses.fields(new) if getattr(old, f.name) != getattr(new, f.name)}
    match new:
        case RolloutChoice():
            if changed & ({"tp"} if is_resized else {"tp", "replicas"}):
                yield f"engines {new.replicas}×tp{new.tp}"
            if "gpu_memory_utilization" in changed:
                yield f"gpu_memory_utilization {new.gpu_memory_utilization:g}"
        case TrainChoice() | FrozenChoice():
            if changed & ({"tp", "pp"} if is_resized else {"tp", "pp", "dp"}):
                yield f"tp×pp×dp {new.tp}×{new.pp}×{new.dp}"
            if isinstance(new, TrainChoice) and "master" in changed:
                yield f"{new.master} master"
            if "offload" in changed:
                yield f"offload {new.offload}"
            if isinstance(new, TrainChoice) and "micro_batch_tokens" in changed:
                yield f"micro-batches of {new.micro_batch_tokens} tokens"
    if "precision" in changed:
        yield f"precision {new.precision}"
