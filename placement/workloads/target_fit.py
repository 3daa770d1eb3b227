"""
A job as a target can run it: menus without what the target does not have, and the schedule that it runs.

When to modify: `placement.workloads.target_rules` states something new of a target that is no matter of which GPUs roles share.
"""

from __future__ import annotations

from dataclasses import replace

from placement.errors import InputError
from placement.workloads.target_rules import Generates, TargetRules
from placement.workloads.workload import Engine, Offload, Role, RoleName, Schedule, Workload


def fitted(workload: Workload, target: TargetRules | None) -> Workload:
    """
    Return *workload* with what *target* leaves of its menus; the same where there is no target.

    Raises
    ------
    InputError
        If the job needs what the target does not have.
    """
    if target is None:
        return workload
    _check_roles(workload, target)
    roles = tuple(role if role.is_function else _fitted(role, target) for role in workload.roles)
    return workload.replace(roles=roles, schedule=_schedule(workload, target))


def _check_roles(workload: Workload, target: TargetRules) -> None:
    for role in workload.placed:
        if role.name not in target.roles:
            known = ", ".join(name for name in RoleName if name in target.roles)
            also = "; make the reward a function (`reward: {function: true}`)" if role.name is RoleName.REWARD else ""
            raise InputError(f"target {target.name} has no {role.name} on GPUs: it places {known}{also}")
    if workload.is_hybrid and target.generates is Generates.APART:
        raise InputError(
            f"target {target.name} generates on GPUs of its own: give the job a role `rollout` in place of `rollout:` under actor"
        )
    if not workload.is_hybrid and target.generates is Generates.HYBRID:
        raise InputError(
            f"target {target.name} generates on the actor's GPUs: give the actor a `rollout:` in place of the role rollout"
        )
    if not any(target.patterns([role.name for role in workload.placed])):
        raise InputError(f"target {target.name} cannot place these roles together: {target.says}")


def _schedule(workload: Workload, target: TargetRules) -> Schedule:
    """Return the job's schedule where the target runs it, else the one that it usually runs."""
    allowed = target.schedules[0 if workload.is_hybrid else 1]
    return workload.schedule if not allowed or workload.schedule in allowed else allowed[0]


def _fitted(role: Role, target: TargetRules) -> Role:
    if role.name is RoleName.REWARD and target.serves_reward:
        engine = role.engine if role.engine in target.generation else target.generation[0]
        return role.replace(engine=engine, offload=(Offload.NONE,))
    if role.name is not RoleName.ROLLOUT:
        if role.engine not in target.training:
            raise InputError(f"roles.{role.name}.engine: target {target.name} has {_listed(target.training)}, not {role.engine}")
        if role.engine is Engine.FSDP and not target.tensor_parallel_fsdp:
            tp = _kept(role, target, "layout.tp", role.layout.tp, (1,), "its fsdp does not cut tensors")
            pp = _kept(role, target, "layout.pp", role.layout.pp, (1,), "its fsdp has no pipeline")
            role = role.replace(layout=replace(role.layout, tp=tp, pp=pp))
        if role.engine is Engine.FSDP and role.train is not None:
            zero = _kept(role, target, "train.zero", role.train.zero, target.zero, "its fsdp has no other stage")
            role = role.replace(train=replace(role.train, zero=zero))
        if role.engine is Engine.FSDP and role.name is RoleName.REF and target.ref_fsdp is not None:
            role = role.replace(offload=(target.ref_fsdp,))
    if role.rollout is not None and role.rollout.engine not in target.generation:
        raise InputError(
            f"roles.{role.name}: target {target.name} generates with {_listed(target.generation)}, not {role.rollout.engine}"
        )
    return role


def _kept(role: Role, target: TargetRules, key: str, menu: tuple[int, ...], known: tuple[int, ...], why: str) -> tuple[int, ...]:
    kept = tuple(value for value in menu if value in known)
    if not kept:
        raise InputError(
            f"roles.{role.name}.{key}: target {target.name} takes {' or '.join(map(str, known))}, not "
            f"{' or '.join(map(str, menu))}: {why}"
        )
    return kept


def _listed(engines: tuple[Engine, ...]) -> str:
    return " or ".join(engines)
