"""
Whether a job's configuration is the one that its device map was made for.

Imports neither Ray nor verl: configurations are read as mappings with dots.

When to modify: verl's keys change, or a map can place more of its roles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from placement.targets.verl_pools import ACTOR, CRITIC, REF, REWARD, VerlPool

Select = Callable[[str], Any]
"""Reads a key of the configuration (``trainer.nnodes``); None where it has none."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Which roles the job has, by verl's own reading of its configuration."""

    critic: bool
    ref: bool
    ref_in_actor: bool
    teacher: bool


def pool_of(pools: Sequence[VerlPool], role: str) -> VerlPool | None:
    """Return the pool of *role*; None when the map does not place it."""
    return next((pool for pool in pools if role in pool.roles), None)


def disagreements(pools: Sequence[VerlPool], needs: Needs, select: Select) -> tuple[str, ...]:
    """Return in sentences where the configuration and the map contradict each other, with the override that mends it."""
    actor, reward = pool_of(pools, ACTOR), pool_of(pools, REWARD)
    assert actor is not None
    said = _sizes("trainer", actor, select)
    said += _engines("actor_rollout_ref.rollout", actor, select)
    said += _roles(pools, needs, bool(select("reward.reward_model.enable")))
    if needs.teacher:
        said.append("distillation is on, and no map places a teacher: distillation.enabled=False")
    if select("actor_rollout_ref.hybrid_engine") is False:
        said.append("the actor of a map generates: actor_rollout_ref.hybrid_engine=True")
    if len(actor.parts) > 1 and select("actor_rollout_ref.rollout.name") == "trtllm":
        said.append("pools over several hosts are not tried with TensorRT-LLM: actor_rollout_ref.rollout.name=vllm")
    if reward is not None and select("reward.reward_model.enable"):
        said += _engines("reward.reward_model.rollout", reward, select)
        separate = bool(select("reward.reward_model.enable_resource_pool"))
        if reward is actor and separate:
            said.append("the map gives reward the GPUs of the actor: reward.reward_model.enable_resource_pool=False")
        if separate:
            said += _sizes("reward.reward_model", reward, select)
        elif ACTOR not in reward.roles and len(reward.roles) == 1:
            said.append("the map gives reward GPUs of its own: reward.reward_model.enable_resource_pool=True")
    return tuple(said)


def _sizes(key: str, pool: VerlPool, select: Select) -> list[str]:
    wanted = {f"{key}.nnodes": len(pool.parts), f"{key}.n_gpus_per_node": pool.per_host}
    wrong = {name: value for name, value in wanted.items() if select(name) != value}
    if not wrong:
        return []
    is_said = ", ".join(f"{name} is {select(name)}" for name in wrong)
    remedy = " ".join(f"{name}={value}" for name, value in wanted.items())
    what = f"{len(pool.parts)} × {pool.per_host}" if len(pool.parts) > 1 else str(pool.per_host)
    return [f"{is_said}, and the map has {what} GPUs for {' and '.join(pool.roles)}: {remedy}"]


def _engines(key: str, pool: VerlPool, select: Select) -> list[str]:
    """Return whether engines of the size that *key* says fill *pool*: verl finds out after it has loaded the models."""
    sizes = {name: int(select(f"{key}.{name}_parallel_size") or 1) for name in ("tensor_model", "data", "pipeline_model")}
    gpus = len(pool.seats)
    if gpus % math.prod(sizes.values()) == 0:
        return []
    said = " ".join(f"{key}.{name}_parallel_size={size}" for name, size in sizes.items() if size > 1)
    return [f"engines of {math.prod(sizes.values())} GPUs ({said}) do not fill the {gpus} of {' and '.join(pool.roles)}"]


def _roles(pools: Sequence[VerlPool], needs: Needs, has_reward: bool) -> list[str]:
    said = []
    actor, ref = pool_of(pools, ACTOR), pool_of(pools, REF)
    for role, exists, on, off in (
        (CRITIC, needs.critic, "critic.enable=True (or algorithm.adv_estimator=gae)", "critic.enable=False"),
        (
            REF,
            needs.ref,
            "actor_rollout_ref.actor.use_kl_loss=True or algorithm.use_kl_in_reward=True",
            "actor_rollout_ref.actor.use_kl_loss=False algorithm.use_kl_in_reward=False",
        ),
        (REWARD, has_reward, "reward.reward_model.enable=True", "reward.reward_model.enable=False"),
    ):
        placed = pool_of(pools, role) is not None
        if placed and not exists:
            said.append(f"the map places {role}, and the job has none: {on}")
        if exists and not placed:
            said.append(f"the job has {role}, and the map does not place it: {off}, or plan again with {role}")
    if needs.ref_in_actor and ref is not None and ref is not actor:
        said.append("with LoRA the actor without its adapter is the reference, and the map gives ref other GPUs: plan with `lora`")
    return said
