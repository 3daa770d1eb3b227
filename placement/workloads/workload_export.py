"""
A workload as the document that reads back as the same workload: every default that a job may want to change written out.

When to modify: `Workload` gets a field.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from placement.models.model import Model, catalogued
from placement.workloads.workload import Batch, LayoutMenu, Role, RoleName, RolloutMenu, TrainMenu, Workload

SCHEMA: Final = "placement/workload/v1"


def to_document(workload: Workload) -> dict[str, Any]:
    """Return *workload* as plain data of the schema; reading it back gives the same workload."""
    document: dict[str, Any] = {"schema": SCHEMA}
    if workload.name is not None:
        document["name"] = workload.name
    document |= {
        "algorithm": workload.algorithm.value,
        "schedule": workload.schedule.value,
        "batch": _batch(workload.batch),
        "roles": {role.name.value: _role(role) for role in workload.roles},
    }
    if workload.rules is not None:
        document["rules"] = workload.rules
    return document


def _batch(batch: Batch) -> dict[str, Any]:
    return {
        "prompts": batch.prompts,
        "samples_per_prompt": batch.samples_per_prompt,
        "prompt_tokens": batch.prompt_tokens,
        "response_tokens": {"mean": batch.response_mean_tokens, "max": batch.response_max_tokens},
        "minibatches": batch.minibatches,
        "micro_batch_tokens": batch.micro_batch_tokens,
    }


def _role(role: Role) -> dict[str, Any]:
    if role.model is None:
        return {"function": True}
    written: dict[str, Any] = {"model": _model(role.model)}
    if role.name is RoleName.ROLLOUT:
        assert role.rollout is not None
        written |= _rollout(role.rollout)
    else:
        written |= {"engine": role.engine.value, "layout": _layout(role.layout)}
    if (gpus := _gpus(role)) is not None:
        written["gpus"] = gpus
    written["precision"] = _menu(role.precision)
    if role.train is not None:
        written["train"] = _train(role.train)
    if role.name in (RoleName.REF, RoleName.REWARD):
        written["offload"] = _menu(role.offload)
    if role.name is RoleName.ACTOR and role.rollout is not None:
        written["rollout"] = _rollout(role.rollout)
    return written


def _model(model: Model) -> str | dict[str, Any]:
    """Return the name of a shipped model, else all its numbers: no other file is needed to read it back."""
    if catalogued(model.name) == model:
        return model.name
    return {name: value for name, value in dataclasses.asdict(model).items() if value is not None}


def _gpus(role: Role) -> Any:
    if role.gpu_menu is not None:
        return _menu(role.gpu_menu)
    bounds = {"min": role.min_gpus, "max": role.max_gpus}
    return {name: value for name, value in bounds.items() if value is not None} or None


def _layout(layout: LayoutMenu) -> dict[str, Any]:
    written = {"tp": _menu(layout.tp), "pp": _menu(layout.pp)}
    if layout.dp is not None:
        written["dp"] = _menu(layout.dp)
    usual = LayoutMenu()
    return written | {name: _menu(getattr(layout, name)) for name in ("sp", "ep") if getattr(layout, name) != getattr(usual, name)}


# What few jobs change is written where it is not the default.


def _train(train: TrainMenu) -> dict[str, Any]:
    written = {
        "master": _menu(train.master),
        "offload": _menu(train.offload),
        "micro_batch_tokens": _menu(train.micro_batch_tokens),
        "fused_ce": train.fused_ce,
        "lora": train.lora,
    }
    if train.lora_merge is not None:
        written["lora_merge"] = train.lora_merge
    if train.zero != TrainMenu().zero:
        written["zero"] = _menu(train.zero)
    if not train.distributed_optimizer:
        written["distributed_optimizer"] = False
    if train.recompute is not None:
        written["recompute"] = train.recompute.value
    return {**written, "fp8": True} if train.fp8 else written


def _rollout(rollout: RolloutMenu) -> dict[str, Any]:
    written = {
        "engine": rollout.engine.value,
        "tp": _menu(rollout.tp),
        "gpu_memory_utilization": _menu(rollout.gpu_memory_utilization),
        "max_num_seqs": rollout.max_num_seqs,
    }
    usual = RolloutMenu()
    for name in ("quantization", "kv_cache"):
        if getattr(rollout, name) != getattr(usual, name):
            written[name] = _menu(getattr(rollout, name))
    return written if rollout.sleep else {**written, "sleep": False}


def _menu(values: tuple[Any, ...]) -> Any:
    """Return a menu of one as its value; members of closed sets as their text."""
    plain = [str(v) if isinstance(v, str) else v for v in values]
    return plain[0] if len(plain) == 1 else plain
