"""
Why there is no plan: rules and facts that cannot hold together, in the user's words.

Every rule and every role is a *statement*. Statements are dropped one at a time; one without which there is still no plan had no
part in the clash and goes. The set that remains is minimal: without any one of its members a plan exists.

When to modify: a rule is added (its statement belongs here), or a statement is put into better words.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from placement.choices import parts
from placement.instance import Instance
from placement.lower import lower
from placement.machine import resolve
from placement.menu import Menu, menu, sizes
from placement.rule_values import Reserve
from placement.rules import Relation
from placement.workload import Role
from solvers.result import Options, Solve, Status

ONE_SOLVE_LIMIT_S = 5.0
"""Seconds for one of the small solves; a statement whose solve takes longer stays in the set."""

Change = Callable[[Instance], Instance]


@dataclass(frozen=True, slots=True)
class Statement:
    """Something that was asked for: its words, and the question without it."""

    says: str
    lift: Change


def clash(instance: Instance, tables: Menu, solve: Solve) -> tuple[str, ...]:
    """Return the statements that cannot hold together, in words. *instance*, whose tables are *tables*, has no plan."""
    everything = tuple(_statements(instance, tables))
    kept = list(everything)
    for statement in everything:
        trial = [s for s in kept if s is not statement]
        if _has_no_plan(_with_only(instance, everything, trial), solve):
            kept = trial
    return tuple(s.says for s in kept)


def _with_only(instance: Instance, everything: Sequence[Statement], kept: Sequence[Statement]) -> Instance:
    """Return the question in which only the statements *kept* hold."""
    for statement in everything:
        if statement not in kept:
            instance = statement.lift(instance)
    return instance


def _has_no_plan(question: Instance, solve: Solve) -> bool:
    if not question.workload.placed:
        return False
    problem = lower(question, menu(question)).problem
    result = solve(problem, Options(time_limit_s=ONE_SOLVE_LIMIT_S, first_term_only=True))
    return result.status is Status.INFEASIBLE


# ── the statements, those that explain least first: they are the first to go ────────────────────────────────────────────


def _statements(instance: Instance, tables: Menu) -> Iterator[Statement]:
    rules, machine = instance.rules, instance.machine
    if rules.supported:
        yield Statement(
            "engines and precisions must be ones that the cards can run (rule supported)", _rules(supported=False)
        )
    if rules.same_card:
        yield Statement("all GPUs of a role are the same card (rule same_card)", _rules(same_card=False))
    if rules.contiguity:
        yield Statement(
            "TP blocks stay on NVLink and groups touch no more domains than their size forces (rule contiguity)",
            _rules(contiguity=False),
        )
    if rules.reward_reserve_percent is not None:
        yield Statement(
            f"{rules.reward_reserve_percent:g} % of a GPU that the reward model shares stays free (rule reward_reserve)",
            _rules(reward_reserve_percent=None),
        )
    if rules.reserve != Reserve():
        yield Statement(f"{_reserve(rules.reserve)} of every GPU stays free (rule reserve)", _resolved(reserve=Reserve()))
    for gpu, why in machine.unusable.items():
        yield Statement(f"GPU {gpu} is not used: {why}", _with_gpu(gpu))
    for name, least in rules.min_gpus.items():
        yield Statement(f"{name} gets at least {least} GPUs (rule min_gpus)", _rules(critic_min_gpus=1))
    for role in tables.roles:
        if role.min_gpus or role.max_gpus or role.gpu_menu:
            yield Statement(f"{role.name} gets {_asked(role)} (the workload says so)", _any_size(role))
    for a, b in itertools.combinations(tables.roles, 2):
        relation = rules.relation(a.name, b.name)
        if relation is not Relation.MAY:
            verb = "share no GPU" if relation is Relation.APART else "have the same GPUs"
            yield Statement(f"{a.name} and {b.name} {verb} (isolation, preset {rules.preset})", _may_share(a, b))
    for role in tables.roles:
        yield Statement(_need(instance, tables, role), _without_role(role))


def _rules(**changes: object) -> Change:
    return lambda i: i.replace(rules=replace(i.rules, **changes))  # type: ignore[arg-type]


def _resolved(**changes: object) -> Change:
    """Change rules on which the machine's capacities depend."""

    def change(i: Instance) -> Instance:
        rules = replace(i.rules, **changes)  # type: ignore[arg-type]
        return i.replace(rules=rules, machine=resolve(i.machine.topology, rules, visible=i.visible))

    return change


def _with_gpu(gpu: int) -> Change:
    """Make one GPU usable that is hidden or busy."""

    def change(i: Instance) -> Instance:
        gpus = list(i.machine.topology.gpus)
        gpus[gpu] = gpus[gpu].replace(memory_used_mib=0)
        visible = None if i.visible is None else tuple(sorted({*i.visible, gpu}))
        topology = i.machine.topology.replace(gpus=tuple(gpus))
        return i.replace(machine=resolve(topology, i.rules, visible=visible), visible=visible)

    return change


def _any_size(role: Role) -> Change:
    return _with_role(role, min_gpus=None, max_gpus=None, gpu_menu=None)


def _with_role(role: Role, **changes: object) -> Change:
    return lambda i: i.replace(
        workload=i.workload.replace(
            roles=tuple(r.replace(**changes) if r.name is role.name else r for r in i.workload.roles)
        )
    )


def _without_role(role: Role) -> Change:
    return lambda i: i.replace(
        workload=i.workload.replace(roles=tuple(r for r in i.workload.roles if r.name is not role.name))
    )


def _may_share(a: Role, b: Role) -> Change:
    return lambda i: i.replace(rules=i.rules.excusing(a.name, b.name))


def _reserve(reserve: Reserve) -> str:
    amounts = [f"{reserve.percent:g} %"] if reserve.percent else []
    amounts += [f"{reserve.mib / 1024:g} GiB"] if reserve.mib else []
    return " or ".join(amounts) + (", whichever is more," if len(amounts) > 1 else "")


def _asked(role: Role) -> str:
    if role.gpu_menu:
        return f"{' or '.join(map(str, role.gpu_menu))} GPUs"
    low, high = role.min_gpus, role.max_gpus
    if low and high:
        return f"{low} to {high} GPUs"
    return f"at least {low} GPUs" if low else f"at most {high} GPUs"


def _need(instance: Instance, tables: Menu, role: Role) -> str:
    """Say what *role* needs at the least, with the numbers: its smallest group, and the memory when it has that to itself."""
    needs: dict[int, int] = {}
    for profile, hardware in enumerate(tables.profiles):
        offered = [tables.priced.get((role.name, part, profile), ()) for part in parts(role)]
        if all(offered):
            least = [sum(min(c.memory_mib[p] for c in listed) for listed in offered) for p in range(len(tables.phases))]
            needs[hardware.gpus] = min(max(least), needs.get(hardware.gpus, max(least)))
    if needs:
        fewest = min(needs)
        return f"{role.name} needs {_gpus(fewest)} or more, with {needs[fewest] / 1024:.1f} GiB free on each of {fewest}"
    refusals = tables.refusals.get(role.name, ())
    wanted = sizes(role, len(instance.machine.usable))
    usable = len(instance.machine.usable)
    if not wanted:
        return f"{role.name} gets {_asked(role)} (the workload says so), and {_gpus(usable)} can be used"
    return refusals[-1] if refusals else f"no group of {' or '.join(map(str, wanted))} GPUs obeys the rules for {role.name}"


def _gpus(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}"
