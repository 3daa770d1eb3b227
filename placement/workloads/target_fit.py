"""
A job as a target can run it: menus without what the target does not have, and the schedule that it runs.

When to modify: `placement.workloads.target_rules` states something new of a target that is no matter of which GPUs roles share.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from placement.errors import InputError
from placement.workloads.target_rules import Generates, TargetRules
from placement.workloads.workload import (
    Algorithm,
    Engine,
    KvCache,
    Offload,
    Quantization,
    Role,
    RoleName,
    Schedule,
    Workload,
)

Value = TypeVar("Value")

MOST_RANKS = 1024
"""More data-parallel ranks no target is given."""


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
    fit = _Fit(target, workload)
    roles = tuple(role if role.is_function else fit.fitted(role) for role in workload.roles)
    roles = tuple(_like_actor(role, workload.replace(roles=roles), target) for role in roles)
    return workload.replace(roles=roles, schedule=_schedule(workload, target))


def _check_roles(workload: Workload, target: TargetRules) -> None:
    for role in workload.placed:
        if role.name not in target.roles:
            known = ", ".join(name for name in RoleName if name in target.roles)
            also = "; make the reward a function (`reward: {function: true}`)" if role.name is RoleName.REWARD else ""
            raise InputError(f"target {target.name} has no {role.name} on GPUs: it places {known}{also}")
    if workload.algorithm not in target.algorithms:
        has = ", ".join(known for known in Algorithm if known in target.algorithms)
        raise InputError(f"algorithm: target {target.name} has {has}, not {workload.algorithm}")
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


def _like_actor(role: Role, workload: Workload, target: TargetRules) -> Role:
    """Return *role* with the actor's sizes, where the target gives it those; menus of several sizes could not be kept alike."""
    actor = workload.role(RoleName.ACTOR)
    if role.name not in target.like_actor or role.is_function or actor is None:
        return role
    if role.engine is not actor.engine:
        raise InputError(f"roles.{role.name}.engine: target {target.name} has one for actor and {role.name}: write {actor.engine}")
    sizes = {}
    for key in ("tp", "pp", "sp", "ep"):
        wanted, menu = getattr(actor.layout, key), getattr(role.layout, key)
        if len(wanted) > 1:
            raise InputError(
                f"roles.actor.layout.{key}: target {target.name} has one layout for actor and {role.name}, and "
                f"{' and '.join(map(str, wanted))} are several: write one, and compare the plans"
            )
        if wanted[0] not in menu:
            raise InputError(f"roles.{role.name}.layout.{key}: target {target.name} gives {role.name} that of actor: write {wanted[0]}")
        sizes[key] = wanted
    return role.replace(layout=replace(role.layout, **sizes))


@dataclass(frozen=True, slots=True)
class _Fit:
    """What takes from the menus of a role what the target does not have."""

    target: TargetRules
    workload: Workload

    def fitted(self, role: Role) -> Role:
        target = self.target
        computes = self._kept(role, "precision", role.precision, target.precisions, "its models compute in nothing else")
        role = role.replace(precision=computes)
        if role.name is RoleName.REWARD and target.serves_reward:
            engine = role.engine if role.engine in target.generation else target.generation[0]
            return role.replace(engine=engine, offload=(Offload.NONE,))
        if role.name is not RoleName.ROLLOUT:
            role = self._trained(self._cut(role))
        if role.rollout is not None:
            role = self._generating(role)
        return role

    def _cut(self, role: Role) -> Role:
        """Sizes of parallelism."""
        target, layout = self.target, role.layout
        if role.engine not in target.training:
            raise InputError(f"roles.{role.name}.engine: target {target.name} has {_listed(target.training)}, not {role.engine}")
        if role.engine is Engine.FSDP and not target.tensor_parallel_fsdp:
            tp = self._kept(role, "layout.tp", layout.tp, (1,), "its fsdp does not cut tensors")
            layout = replace(layout, tp=tp)
        if role.engine is Engine.FSDP:
            layout = replace(layout, pp=self._kept(role, "layout.pp", layout.pp, (1,), "its fsdp has no pipeline"))
        if not target.shares_sequences:
            layout = replace(layout, sp=self._kept(role, "layout.sp", layout.sp, (1,), "its GPUs share no sequences"))
        if role.train is not None and target.whole_batches:
            whole = self._whole(role)
            dp = whole if layout.dp is None else self._kept(role, "layout.dp", layout.dp, whole, "it cuts a minibatch evenly")
            layout = replace(layout, dp=dp)
        return role.replace(layout=layout)

    def _whole(self, role: Role) -> tuple[int, ...]:
        """Data-parallel sizes that divide the sequences of an optimizer update, largest first."""
        batch = self.workload.batch
        sequences, rest = divmod(batch.sequences, batch.minibatches)
        if rest:
            raise InputError(
                f"batch: target {self.target.name} cuts a step into equal minibatches, and {batch.sequences} sequences "
                f"do not make {batch.minibatches}"
            )
        return tuple(dp for dp in range(min(sequences, MOST_RANKS), 0, -1) if sequences % dp == 0)

    def _trained(self, role: Role) -> Role:
        """Where state is, and how precise."""
        target, train = self.target, role.train
        if train is not None:
            if role.engine is Engine.FSDP:
                train = replace(train, zero=self._kept(role, "train.zero", train.zero, target.zero, "its fsdp has no other stage"))
            offloads = target.waits(role.engine, is_hybrid=self.workload.is_hybrid)
            master = self._kept(role, "train.master", train.master, target.kept(role.engine), "it can say nothing else")
            offload = self._kept(role, "train.offload", train.offload, offloads, "it can say nothing else")
            role = role.replace(train=replace(train, master=master, offload=offload))
        elif role.engine is Engine.FSDP and role.name is RoleName.REF and target.ref_fsdp is not None:
            role = role.replace(offload=(target.ref_fsdp,))
        return role

    def _generating(self, role: Role) -> Role:
        target, menu = self.target, role.rollout
        assert menu is not None
        if menu.engine not in target.generation:
            raise InputError(f"roles.{role.name}: target {target.name} generates with {_listed(target.generation)}, not {menu.engine}")
        if target.quantized:
            return role
        words = "its files ask engines for 16 bits"
        plain = self._kept(role, "rollout.quantization", menu.quantization, (Quantization.NONE,), words)
        cache = self._kept(role, "rollout.kv_cache", menu.kv_cache, (KvCache.AUTO,), words)
        return role.replace(rollout=replace(menu, quantization=plain, kv_cache=cache))

    def _kept(self, role: Role, key: str, menu: tuple[Value, ...], known: tuple[Value, ...], why: str) -> tuple[Value, ...]:
        kept = tuple(value for value in menu if value in known)
        if not kept:
            raise InputError(
                f"roles.{role.name}.{key}: target {self.target.name} takes {' or '.join(map(str, known))}, not "
                f"{' or '.join(map(str, menu))}: {why}"
            )
        return kept


def _listed(engines: tuple[Engine, ...]) -> str:
    return " or ".join(engines)
