"""
What a question states: every rule that can forbid a plan, every wish and every role, each with the question without it.

When to modify: a rule is added (its statement belongs here), or a statement is put into better words.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from placement.machines.machine import id_ranges
from placement.program.instance import Instance
from placement.program.needs import gpus
from placement.workloads.rule_values import Reserve
from placement.workloads.rules import Relation
from placement.workloads.workload import Role, RoleName

Change = Callable[[Instance], Instance]


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """
    Something that was asked for.

    Parameters
    ----------
    says
        Its words; empty for a role and for memory, whose need depends on what else holds.
    lift
        The question without it.
    role
        The role whose need it is.
    is_slow_to_lift
        Whether questions without it take long to answer.
    is_host_memory
        Whether it is what the hosts have.
    is_memory
        Whether it is what the GPUs have. It is lifted last: other changes look the machine up again.
    """

    says: str
    lift: Change
    role: RoleName | None = None
    is_slow_to_lift: bool = False
    is_host_memory: bool = False
    is_memory: bool = False


ROOMY = 1000
"""So many times the memory that a GPU has is as good as any amount; shares and differences between cards stay what they are."""


def statements(instance: Instance) -> Iterator[Statement]:
    """Yield the statements of *instance*, those that explain least first: they are the first to go."""
    rules, machine, roles = instance.rules, instance.machine, instance.workload.placed
    if rules.same_card:
        yield Statement("all GPUs of a role are the same card (rule same_card)", _rules(same_card=False))
    if rules.contiguity:
        blocks = "on NVLink" if machine.is_nvlinked else "in one domain of the closest level that can hold them"
        yield Statement(
            f"TP blocks stay {blocks} and groups touch no more domains than their size forces, unless they take whole "
            "domains (rule contiguity)",
            _rules(contiguity=False),
        )
    if (target := rules.expressible) is not None:
        order = "; ranks follow ids" if target.is_ascending else ""
        yield Statement(f"target {target.name}: {target.says}{order} (rule target)", _rules(target=None))
    if rules.sharing == "pool":
        yield Statement(
            "two roles share all their GPUs or none (rule sharing)", _rules(sharing="partial"), is_slow_to_lift=True
        )
    if rules.reward_reserve_percent is not None:
        yield Statement(
            f"{rules.reward_reserve_percent:g} % of a GPU that the reward model shares stays free (rule reward_reserve)",
            _rules(reward_reserve_percent=None),
        )
    if rules.reserve != Reserve():
        yield Statement(f"{_reserve(rules.reserve)} of every GPU stays free (rule reserve)", _resolved(reserve=Reserve()))
    if rules.supported:
        yield Statement(
            "engines and precisions must be ones that the cards can run (rule supported)", _rules(supported=False)
        )
    if rules.even_batch:
        yield Statement("data-parallel ranks get as many sequences as each other (rule even_batch)", _rules(even_batch=False))
    for why, left_out in _by_reason(machine.unusable).items():
        verb = "are" if len(left_out) > 1 else "is"
        yield Statement(f"GPU {id_ranges(left_out)} {verb} not used: {why}", _with_gpus(left_out))
    if machine.knows_host_memory:
        yield Statement("", _any_host_memory, is_host_memory=True)
    for name, least in rules.min_gpus.items():
        yield Statement(f"{name} gets at least {gpus(least)} (rule min_gpus)", _rules(critic_min_gpus=1))
    for role in roles:
        if role.min_gpus or role.max_gpus or role.gpu_menu:
            yield Statement(f"{role.name} gets {_asked(role)} (the workload says so)", _any_size(role))
    for a, b in itertools.combinations(roles, 2):
        relation = rules.relation(a.name, b.name)
        if relation is not Relation.MAY:
            verb = "share no GPU" if relation is Relation.APART else "have the same GPUs"
            yield Statement(f"{a.name} and {b.name} {verb} (isolation, preset {rules.preset})", _may_share(a, b))
    for role in roles:
        yield Statement("", _without_role(role), role.name)
    yield Statement("", _roomy, is_memory=True)


def _rules(**changes: object) -> Change:
    return lambda i: i.replace(rules=replace(i.rules, **changes))  # type: ignore[arg-type]


def _resolved(**changes: object) -> Change:
    """Change rules on which the machine's capacities depend."""

    def change(i: Instance) -> Instance:
        rules = replace(i.rules, **changes)  # type: ignore[arg-type]
        return i.replace(rules=rules, machine=i.machine.again(rules, visible=i.visible, not_needed=i.not_needed))

    return change


def _roomy(i: Instance) -> Instance:
    """Let every GPU have more memory than anything needs."""
    capacity = tuple(ROOMY * mib for mib in i.machine.capacity_mib)
    return i.replace(machine=replace(i.machine, capacity_mib=capacity).wired(i.machine.wiring))


def _any_host_memory(i: Instance) -> Instance:
    """Forget what memory the hosts have."""
    topology = i.machine.topology
    facts = {host: replace(known, memory_mib=None) for host, known in topology.host_facts.items()}
    unknown = topology.replace(host_facts=facts)
    return i.replace(machine=i.machine.again(i.rules, visible=i.visible, not_needed=i.not_needed, topology=unknown))


def _by_reason(unusable: Mapping[int, str]) -> dict[str, tuple[int, ...]]:
    """Return the GPUs that are left out for the same reason together."""
    found: dict[str, tuple[int, ...]] = {}
    for gpu, why in unusable.items():
        found[why] = (*found.get(why, ()), gpu)
    return found


def _with_gpus(indices: tuple[int, ...]) -> Change:
    """Make GPUs usable that are hidden, busy or divided."""

    def change(i: Instance) -> Instance:
        freed = tuple(g.replace(memory_used_mib=0, mig=None) if g.index in indices else g for g in i.machine.topology.gpus)
        visible = None if i.visible is None else tuple(sorted({*i.visible, *indices}))
        topology = i.machine.topology.replace(gpus=freed)
        left_out = tuple(gpu for gpu in i.not_needed if gpu not in indices)
        machine = i.machine.again(i.rules, visible=visible, not_needed=left_out, topology=topology)
        return i.replace(machine=machine, visible=visible, not_needed=left_out)

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
    low, high = role.min_gpus, role.max_gpus
    if role.gpu_menu:
        *others, last = role.gpu_menu
        return " or ".join([*map(str, others), gpus(last)])
    if low and high:
        return gpus(low) if low == high else f"{low} to {gpus(high)}"
    return f"at least {gpus(low)}" if low else f"at most {gpus(high or 0)}"
