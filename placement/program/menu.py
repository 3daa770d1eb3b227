"""
What every role can do on every kind of group, with its price: the tables from which the program is built.

Groups that offer the same are one *profile*; demands are computed once per profile. Nothing here depends on the rules that
relate roles to each other, so one `Menu` serves the plan, the price of the rules and the trivial plan.

When to modify: how choices are listed or pruned. What they *cost* is `placement.demand`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from placement.choices.batches import uneven
from placement.choices.choices import Choice, Part, RolloutChoice, choices, parts
from placement.choices.hardware import Hardware
from placement.demand import Demand, Refusal, demand
from placement.memory.host_memory import by_moment
from placement.program.candidates import Candidate, Candidates, candidate, candidates
from placement.program.instance import Instance
from placement.workloads.dataflow import StagePlan, Work, dataflow
from placement.workloads.workload import Engine, Role, RoleName


@dataclass(frozen=True, slots=True)
class PricedChoice:
    """
    One choice for one part of a role on one profile, and what it costs.

    ``memory_mib`` is aligned with `Menu.phases`, ``times_us`` with `Menu.operations`, ``host_mib`` (of the host for each GPU of the
    group) with `placement.memory.host_memory.moments` of the roles.
    """

    choice: Choice
    preference: int
    times_us: tuple[int, ...]
    memory_mib: tuple[int, ...]
    bound_by: Mapping[Work, str]
    host_mib: tuple[int, ...]

    def is_as_good_as(self, other: PricedChoice, *, on_host: bool, alike: bool) -> bool:
        """
        Whether taking this in place of *other* makes nothing worse, in any term.

        *on_host*: nor on the host; *alike*: nor changes the layout, in which roles of a pool must agree.
        """
        return (
            (not alike or layout_kind(self.choice) == layout_kind(other.choice))
            and self.preference <= other.preference
            and all(a <= b for a, b in zip(self.times_us, other.times_us, strict=True))
            and all(a <= b for a, b in zip(self.memory_mib, other.memory_mib, strict=True))
            and (not on_host or all(a <= b for a, b in zip(self.host_mib, other.host_mib, strict=True)))
        )


@dataclass(frozen=True, slots=True)
class Menu:
    """
    The tables.

    Parameters
    ----------
    roles
        The roles that are placed, in map order.
    stages, operations, phases
        The dataflow; each operation is (role, work, stage index); phases are the moments at which memory is counted.
    groups
        The candidate groups, with their profile.
    priced
        Per role, part and profile: the choices that fit into memory alone and that no other choice matches or beats.
    room_mib
        What the roomiest usable GPU leaves for a plan; choices that need more are not priced.
    """

    roles: tuple[Role, ...]
    stages: tuple[StagePlan, ...]
    operations: tuple[tuple[RoleName, Work, int], ...]
    phases: tuple[Work, ...]
    groups: tuple[Candidate, ...]
    profiles: tuple[Hardware, ...]
    profile_of: tuple[int, ...]
    priced: Mapping[tuple[RoleName, Part, int], tuple[PricedChoice, ...]]
    is_complete: bool
    has_rough_rings: bool
    room_mib: int


def layout_kind(choice: Choice) -> int:
    """Return a label of tp, pp and ep: the same for choices that lay out their model in the same way; 0 for an engine that generates."""
    if isinstance(choice, RolloutChoice):
        return 0
    return (choice.tp * 10**4 + choice.pp) * 10**4 + choice.ep


def sizes(role: Role, usable: int) -> tuple[int, ...]:
    """Return the group sizes that the user allows *role* on *usable* GPUs."""
    wanted = role.gpu_menu or range(1, usable + 1)
    low = role.min_gpus or 1
    high = role.max_gpus or usable
    return tuple(n for n in wanted if low <= n <= min(high, usable))


def alike_roles(instance: Instance) -> tuple[RoleName, ...]:
    """Rule ``target``: return the roles that have one layout where they share a pool."""
    target = instance.rules.expressible
    if target is None or not target.one_megatron_layout:
        return ()
    return tuple(role.name for role in instance.workload.placed if role.engine is Engine.MEGATRON)


def menu(
    instance: Instance, *, groups: Sequence[tuple[int, ...]] | None = None, known: Menu | None = None
) -> Menu:
    """
    Return the tables of *instance*.

    Parameters
    ----------
    groups
        Only these sets, whatever the rules say of their shape; None for all that the rules allow.
    known
        Tables of the same machine and job; what they price is not priced again. Their rules ``supported`` and ``even_batch`` must be the
        same.
    """
    roles = instance.workload.placed
    usable = len(instance.machine.usable)
    tp_sizes = {tp for role in roles for tp in _tp_sizes(role)}
    if groups is None:
        wanted = {n for role in roles for n in sizes(role, usable)}
        found = candidates(instance.machine, instance.rules, sizes=wanted, tp_sizes=tp_sizes)
    else:
        found = candidates(instance.machine, instance.rules, only=groups, sizes=(), tp_sizes=tp_sizes)
    return _tables(instance, roles, found, known)


def priced_menu(instance: Instance, groups: tuple[Candidate, ...]) -> Menu:
    """Return the tables of *instance* over *groups*, whether its machine has such groups or not."""
    return _tables(instance, instance.workload.placed, Candidates(groups, is_complete=True), None)


def fixed_menu(
    instance: Instance, groups: Mapping[RoleName, tuple[int, ...]], chosen: Mapping[RoleName, Mapping[Part, Choice]]
) -> Menu | None:
    """
    Return tables in which every role has one group, in rank order, and of every part one choice, whatever it costs.

    None when some choice cannot run there.
    """
    roles = instance.workload.placed
    names = tuple(role.name for role in roles)
    tps = {tp for role in roles for tp in _tp_sizes(role)}
    listed = tuple(candidate(instance.machine, instance.rules, gpus, tp_sizes=tps) for gpus in dict.fromkeys(groups.values()))
    found = _tables(instance, (), Candidates(listed, is_complete=True), None)
    priced: dict[tuple[RoleName, Part, int], tuple[PricedChoice, ...]] = {
        (role.name, part, p): () for role in roles for part in parts(role) for p in range(len(found.profiles))
    }
    for role in roles:
        profile = found.profile_of[next(k for k, group in enumerate(listed) if group.gpus == groups[role.name])]
        hardware = found.profiles[profile]
        for part in parts(role):
            choice = chosen[role.name][part]
            preference = dict(choices(role, part, hardware, supported=instance.rules.supported)).get(choice)
            cost = demand(role, part, choice, instance.workload, hardware, instance.constants, found.stages)
            if preference is None or isinstance(cost, Refusal):
                return None
            priced[role.name, part, profile] = (_priced(role, choice, preference, cost, found.operations, found.phases, names),)
    return replace(found, roles=roles, priced=priced)


def _tp_sizes(role: Role) -> Iterable[int]:
    """Yield the sizes of blocks that exchange activations: those that share sequences are laid like TP blocks."""
    yield from role.layout.blocks
    if role.rollout is not None:
        yield from role.rollout.tp


def _tables(instance: Instance, roles: tuple[Role, ...], found: Candidates, known: Menu | None) -> Menu:
    stages = dataflow(instance.workload)
    operations = tuple((role, work, s) for s, stage in enumerate(stages) for role, work in stage.work)
    phases = tuple(dict.fromkeys(work for _, work, _ in operations))
    profiles: dict[Hardware, int] = {}
    profile_of = tuple(profiles.setdefault(group.hardware, len(profiles)) for group in found.groups)
    room = _most_room_mib(instance)
    before = {} if known is None or known.room_mib != room else _by_hardware(known)
    priced: dict[tuple[RoleName, Part, int], tuple[PricedChoice, ...]] = {}
    for role in roles:
        allowed = set(sizes(role, len(instance.machine.usable)))
        for hardware, profile in sorted(profiles.items(), key=lambda entry: entry[0].gpus):
            if hardware.gpus not in allowed:
                continue
            for part in parts(role):
                if (kept := before.get((role.name, part, hardware))) is None:
                    kept = _price(instance, role, part, hardware, stages, operations, phases, room)
                priced[role.name, part, profile] = kept
    return Menu(
        roles,
        stages,
        operations,
        phases,
        found.groups,
        tuple(profiles),
        profile_of,
        priced,
        is_complete=found.is_complete,
        has_rough_rings=found.has_rough_rings,
        room_mib=room,
    )


def _most_room_mib(instance: Instance) -> int:
    """Return what the roomiest usable GPU leaves, MiB; beside a reward model that can be more than alone."""
    machine, percent = instance.machine, instance.rules.reward_reserve_percent
    beside = () if percent is None else machine.room_beside_reward_mib(percent)
    return max((*machine.room_mib, *beside))


def _by_hardware(tables: Menu) -> dict[tuple[RoleName, Part, Hardware], tuple[PricedChoice, ...]]:
    return {(role, part, tables.profiles[p]): kept for (role, part, p), kept in tables.priced.items()}


def _price(
    instance: Instance,
    role: Role,
    part: Part,
    hardware: Hardware,
    stages: tuple[StagePlan, ...],
    operations: tuple[tuple[RoleName, Work, int], ...],
    phases: tuple[Work, ...],
    room_mib: int,
) -> tuple[PricedChoice, ...]:
    """Return the choices worth keeping with their price."""
    kept: list[PricedChoice] = []
    on_host = instance.machine.knows_host_memory
    alike = bool(alike_roles(instance))
    roles = tuple(placed.name for placed in instance.workload.placed)
    for choice, preference in choices(role, part, hardware, supported=instance.rules.supported):
        if instance.rules.even_batch and not isinstance(choice, RolloutChoice) and uneven(role, choice.dp, instance.workload.batch):
            continue
        cost = demand(role, part, choice, instance.workload, hardware, instance.constants, stages)
        if isinstance(cost, Refusal):
            continue
        priced_choice = _priced(role, choice, preference, cost, operations, phases, roles)
        fits = max(priced_choice.memory_mib) <= room_mib
        if fits and not any(other.is_as_good_as(priced_choice, on_host=on_host, alike=alike) for other in kept):
            kept = [other for other in kept if not priced_choice.is_as_good_as(other, on_host=on_host, alike=alike)]
            kept.append(priced_choice)
    return tuple(kept)


def _priced(
    role: Role,
    choice: Choice,
    preference: int,
    cost: Demand,
    operations: tuple[tuple[RoleName, Work, int], ...],
    phases: tuple[Work, ...],
    roles: tuple[RoleName, ...],
) -> PricedChoice:
    return PricedChoice(
        choice=choice,
        preference=preference,
        times_us=tuple(cost.times_us.get(work, 0) if name is role.name else 0 for name, work, _ in operations),
        memory_mib=tuple(cost.active_mib.get(phase, cost.resident_mib) for phase in phases),
        bound_by=cost.bound_by,
        host_mib=by_moment(cost.host, role.name, roles),
    )
