"""
What a role needs on this machine at the least, in words and with the numbers: one half of why there is no plan.

A role that finds a group in a question needs GPUs and memory. A role that finds none is explained by its most promising size:
where memory alone is short that is the size that needs least of it, otherwise one that its TP sizes divide.

When to modify: a role can be refused for a new reason, or a reason is put into better words.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from placement.choices.batches import uneven
from placement.choices.choices import Choice, Part, RolloutChoice, choices, parts, unsupported
from placement.choices.hardware import Hardware
from placement.demand import Refusal, demand
from placement.program.instance import Instance
from placement.program.menu import Menu, sizes
from placement.workloads.workload import Role
from solvers.problem import Item, Problem


@dataclass(frozen=True, slots=True)
class Need:
    """
    What a role needs.

    Parameters
    ----------
    says
        The words; empty where the sizes that were asked for have said it all.
    counts
        Whether it is to be held against the number of GPUs and their memory.
    """

    says: str
    counts: bool


@dataclass(frozen=True, slots=True, order=True)
class _Alone:
    """A role on a group of its own: GPUs, what it needs of each at the least, and what the tightest leaves."""

    gpus: int
    mib: int
    room_mib: int

    @property
    def missing_mib(self) -> int:
        """What the tightest GPU lacks; not positive where the role fits."""
        return self.mib - self.room_mib


class _Kind(IntEnum):
    """Why a part of a role cannot run on a group, the most promising reason first."""

    MEMORY = 0     # it runs, but in more memory than there is
    REFUSED = 1    # it has a layout that cannot work
    CARD = 2       # the card does not run it
    CONTIGUITY = 3 # its TP blocks would break the rule
    SHAPE = 4      # its layouts do not fill the group


@dataclass(frozen=True, slots=True, order=True)
class _Obstacle:
    """Why a part of a role cannot run on a group; obstacles are in the order of their promise."""

    kind: _Kind
    amount: int
    says: str


def need(question: Instance, tables: Menu, role: Role, problem: Problem, *, memory: bool = True) -> Need:
    """
    Say what *role* needs at the least in *question*, whose tables are *tables* and whose lowered form is *problem*.

    Parameters
    ----------
    memory
        Whether memory matters; without it only numbers of GPUs are said, and none that goes without saying.
    """
    alone = list(_alone(problem, problem.items[tables.roles.index(role)]))
    fitting = [a for a in alone if a.missing_mib <= 0]
    if fitting:
        fewest, most = min(fitting), max(fitting)
        if not memory:
            known = max(role.min_gpus or 1, min(role.gpu_menu or (1,)))
            return Need(f"{role.name} needs {gpus(fewest.gpus)} or more" if fewest.gpus > known else "", counts=True)
        says = f"{role.name} needs {gpus(fewest.gpus)} or more, with {gib_up(fewest.mib)} free on each of {fewest.gpus}"
        if most.gpus > fewest.gpus:
            least = min(a.mib for a in fitting if a.gpus == most.gpus)
            says += f", or {gib_up(least)} on each of {most.gpus}"
        return Need(says, counts=True)
    if alone:
        best = min(alone, key=lambda a: (a.missing_mib, a))
        where = f"on {gpus(best.gpus)} {role.name} needs at least {gib_up(best.mib)} on each"
        return Need(f"{where}, and the tightest of them has {gib_down(best.room_mib)}", counts=False)
    wanted = sizes(role, len(question.machine.usable))
    offered = {hardware.gpus for hardware in tables.profiles}
    obstacles = [o for n in wanted if n in offered and (o := _of_size(question, tables, role, n)) is not None]
    if obstacles:
        return Need(min(obstacles).says, counts=False)
    if wanted and not offered.intersection(wanted):
        return Need(f"no group of {_or(wanted)} GPUs obeys the rules for {role.name}", counts=True)
    return Need("", counts=True)


def supply(question: Instance, *, more: bool, memory: bool = True) -> str:
    """
    Say how many GPUs there are in *question*, with *memory* also what a plan has of each; *more*: the hidden and busy ones among them.
    """
    rooms = sorted(question.machine.room_mib)
    included = ", the hidden or busy ones included" if more else ""
    if not memory:
        return f"{gpus(len(rooms))} can be used{included}"
    amount = gib_down(rooms[0])
    if gib_down(rooms[-1]) != amount:
        amount = f"{amount.removesuffix(' GiB')} to {gib_down(rooms[-1])}"
    each = "" if len(rooms) == 1 else " on each"
    return f"{gpus(len(rooms))} can be used{included}, with {amount}{each}"


def gpus(count: int) -> str:
    """Return a number of GPUs in words."""
    return f"{count} GPU{'' if count == 1 else 's'}"


def _alone(problem: Problem, item: Item) -> Iterator[_Alone]:
    """Yield, for every group that *item* may take, what it needs there when it has the group to itself."""
    least: dict[int, int] = {}
    for g in item.groups:
        group = problem.groups[g]
        if group.profile not in least:
            offered = [[o.memory for o in slot if o.profile == group.profile] for slot in item.slots]
            least[group.profile] = max(
                sum(min(memory[phase] for memory in listed) for listed in offered) for phase in range(problem.phases)
            )
        room = min(problem.devices[d].capacity for d in group.devices)
        yield _Alone(len(group.devices), least[group.profile], room)


# ── a role that finds no group ──────────────────────────────────────────────────────────────────────────────────────────


def _of_size(question: Instance, tables: Menu, role: Role, size: int) -> _Obstacle | None:
    """Return why *role* cannot run on groups of *size* GPUs; None when the rules that relate roles to sizes forbid them."""
    profiles = [p for p, hardware in enumerate(tables.profiles) if hardware.gpus == size]
    if any(all(tables.priced.get((role.name, part, p)) for part in parts(role)) for p in profiles):
        return None
    refused = [
        min(_obstacle(question, tables, role, part, tables.profiles[p]) for p in profiles)
        for part in parts(role)
        if not any(tables.priced.get((role.name, part, p)) for p in profiles)
    ]
    if refused:
        return max(refused)
    return _Obstacle(_Kind.REFUSED, -size, f"no group of {gpus(size)} suits {' and '.join(parts(role))} of {role.name} alike")


def _obstacle(question: Instance, tables: Menu, role: Role, part: Part, hardware: Hardware) -> _Obstacle:
    """Return why *part* of *role* cannot run on *hardware*."""
    listed = [choice for choice, _ in choices(role, part, hardware, supported=question.rules.supported)]
    if not listed:
        return _shape(question, role, part, hardware)
    least: tuple[int, str] | None = None
    refusals: list[tuple[float, str]] = []
    for choice in listed:
        ranks = None if isinstance(choice, RolloutChoice) else choice.dp
        if question.rules.even_batch and ranks is not None and (what := uneven(role, ranks, question.workload.batch)):
            why = f"{role.name} has {ranks} data-parallel ranks, which cannot share {what} evenly (rule even_batch)"
            refusals.append((_promise(choice), why))
            continue
        cost = demand(role, part, choice, question.workload, hardware, question.constants, tables.stages)
        if isinstance(cost, Refusal):
            refusals.append((_promise(choice), cost.why))
            continue
        mib, when = max((cost.active_mib.get(phase, cost.resident_mib), phase.value) for phase in tables.phases)
        least = min(least or (mib, when), (mib, when))
    if least is None:
        why = max(refusals)[1]
        where = "" if why.startswith(role.name) else f"{role.name} on {gpus(hardware.gpus)}: "
        return _Obstacle(_Kind.REFUSED, -hardware.gpus, where + why)
    mib, when = least
    room = max(question.machine.room_mib)
    return _Obstacle(
        _Kind.MEMORY,
        mib,
        f"on {gpus(hardware.gpus)} {role.name} needs at least {gib_up(mib)} on each ({when}), "
        f"the roomiest GPU has {gib_down(room)}",
    )


def _shape(question: Instance, role: Role, part: Part, hardware: Hardware) -> _Obstacle:
    """Return why *part* of *role* has no layout on *hardware*."""
    size = hardware.gpus
    says = unsupported(role, part, hardware, card=_weakest(question, hardware)) or f"{role.name} has no layout on {gpus(size)}"
    if any(choices(role, part, hardware, supported=False)):
        return _Obstacle(_Kind.CARD, -size, says)
    tps = role.rollout.tp if part is Part.ROLLOUT and role.rollout is not None else role.layout.blocks
    cuts = [tp for tp in tps if size % tp == 0 and role.model is not None and role.model.can_share_heads(tp)]
    if cuts and all(hardware.block(tp) is None for tp in cuts):
        return _Obstacle(
            _Kind.CONTIGUITY,
            -size,
            f"{gpus(size)} cannot be cut into TP blocks of {_or(cuts)} that obey rule contiguity, for {role.name} ({part})",
        )
    return _Obstacle(_Kind.SHAPE, -size, says)


def _weakest(question: Instance, hardware: Hardware) -> str:
    """Return which usable GPU has the weakest card of a group that offers *hardware*, and its card."""
    machine = question.machine
    found = next((g for g in machine.usable if machine.cards[g].compute_capability == hardware.compute_capability), None)
    return "the card" if found is None else f"GPU {found} ({machine.cards[found].slug})"


def _promise(choice: Choice) -> float:
    """Return how far *choice* goes to avoid a refusal: a wide block with much memory, few data-parallel ranks."""
    if isinstance(choice, RolloutChoice):
        return choice.tp + choice.gpu_memory_utilization
    return -choice.dp


def _or(sizes: tuple[int, ...] | list[int]) -> str:
    return " or ".join(map(str, sizes))


# What is needed is rounded up and what there is is rounded down: a need that is not met never reads as if it were.


def gib_up(mib: int) -> str:
    """Return what is needed, in GiB."""
    return f"{math.ceil(mib / 102.4) / 10:.1f} GiB"


def gib_down(mib: int) -> str:
    """Return what there is, in GiB."""
    return f"{math.floor(mib / 102.4) / 10:.1f} GiB"
