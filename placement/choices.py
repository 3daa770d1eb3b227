"""
The choices that a role's menus leave, on a group of a given kind.

A role has *parts* that are chosen independently of each other: an actor with the hybrid engine trains (one part) and generates
(another), on the same GPUs.

When to modify: a menu is added to `placement.workload`, or an engine learns a new layout.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from placement.hardware import Hardware
from placement.workload import Engine, LayoutMenu, Master, Offload, Precision, Role, RoleName

LEAST_CAPABILITY: dict[Engine | Precision, tuple[int, int]] = {
    # Tensor cores with bf16 came with Ampere; fp16 arithmetic with Pascal P100 (CUDA C++ Programming Guide, arithmetic table).
    Precision.BF16: (8, 0),
    Precision.FP16: (6, 0),
    # vLLM's installation page asks for compute capability 7.0, SGLang's (FlashInfer) for 7.5.
    Engine.VLLM: (7, 0),
    Engine.SGLANG: (7, 5),
    Engine.FSDP: (6, 0),
    Engine.MEGATRON: (7, 0),
}
"""Lowest compute capability that runs an engine or a 16-bit type."""


class Part(StrEnum):
    """An independently chosen part of a role."""

    TRAIN = "train"
    ROLLOUT = "rollout"
    FROZEN = "frozen"


@dataclass(frozen=True, slots=True)
class TrainChoice:
    """How a role is trained."""

    tp: int
    pp: int
    dp: int
    precision: Precision
    master: Master
    offload: Offload
    micro_batch_tokens: int


@dataclass(frozen=True, slots=True)
class RolloutChoice:
    """How a role generates: *replicas* engines of *tp* GPUs."""

    engine: Engine
    tp: int
    replicas: int
    precision: Precision
    gpu_memory_utilization: float
    max_num_seqs: int


@dataclass(frozen=True, slots=True)
class FrozenChoice:
    """How a role that is never trained runs its forward passes."""

    tp: int
    pp: int
    dp: int
    precision: Precision
    offload: Offload


Choice = TrainChoice | RolloutChoice | FrozenChoice


def parts(role: Role) -> tuple[Part, ...]:
    """Return the parts of *role*, in the order of their slots."""
    match role.name:
        case RoleName.ACTOR:
            return (Part.TRAIN, Part.ROLLOUT) if role.rollout is not None else (Part.TRAIN,)
        case RoleName.CRITIC:
            return (Part.TRAIN,)
        case RoleName.ROLLOUT:
            return (Part.ROLLOUT,)
        case RoleName.REF | RoleName.REWARD:
            return (Part.FROZEN,)


def precision(role: Role, hardware: Hardware, *, supported: bool = True) -> Precision | None:
    """Return the first of the role's 16-bit types that the card runs (any, when rule ``supported`` is off)."""
    listed = (p for p in role.precision if not supported or hardware.compute_capability >= LEAST_CAPABILITY[p])
    return next(listed, None)


def choices(role: Role, part: Part, hardware: Hardware, *, supported: bool = True) -> Iterator[tuple[Choice, int]]:
    """
    Yield the choices for *part* of *role* on *hardware* in menu order, each with its preference: the sum of its menu positions.

    A choice must fill the group exactly, cut the heads evenly, and use TP blocks that the group offers. Whether it fits into
    memory is not asked here.
    """
    kind = precision(role, hardware, supported=supported)
    if kind is None or (supported and unsupported(role, part, hardware) is not None):
        return
    match part:
        case Part.TRAIN:
            menu = role.train
            assert menu is not None
            for (tp, pp, dp, place), (a, master), (b, offload), (c, tokens) in itertools.product(
                _layouts(role, hardware), enumerate(menu.master), enumerate(menu.offload), enumerate(menu.micro_batch_tokens)
            ):
                yield TrainChoice(tp, pp, dp, kind, master, offload, tokens), place + a + b + c
        case Part.ROLLOUT:
            rollout = role.rollout
            assert rollout is not None
            for (a, tp), (b, share) in itertools.product(
                enumerate(rollout.tp), enumerate(rollout.gpu_memory_utilization)
            ):
                if _can_cut(role, hardware, tp):
                    yield RolloutChoice(rollout.engine, tp, hardware.gpus // tp, kind, share, rollout.max_num_seqs), a + b
        case Part.FROZEN:
            for (tp, pp, dp, place), (a, offload) in itertools.product(_layouts(role, hardware), enumerate(role.offload)):
                yield FrozenChoice(tp, pp, dp, kind, offload), place + a


def unsupported(role: Role, part: Part, hardware: Hardware) -> str | None:
    """Return why *part* of *role* has no choice on *hardware*, as a sentence; None when nothing speaks against it."""
    engine = role.rollout.engine if part is Part.ROLLOUT and role.rollout is not None else role.engine
    have = ".".join(map(str, hardware.compute_capability))
    if hardware.compute_capability < LEAST_CAPABILITY[engine]:
        need = ".".join(map(str, LEAST_CAPABILITY[engine]))
        return f"{role.name} runs on {engine}, which needs compute capability {need}; the card has {have} (rule supported)"
    if precision(role, hardware) is None:
        return f"{role.name} asks for {' or '.join(role.precision)}, which compute capability {have} does not run (rule supported)"
    tps = role.rollout.tp if part is Part.ROLLOUT and role.rollout is not None else role.layout.tp
    if not any(_can_cut(role, hardware, tp) for tp in tps):
        sizes = " or ".join(map(str, tps))
        return f"{hardware.gpus} GPUs cannot be cut into TP blocks of {sizes} for {role.name} ({part})"
    if part is not Part.ROLLOUT and not list(_layouts(role, hardware)):
        return f"no layout in the menu of {role.name} fills {hardware.gpus} GPUs"
    return None


def _layouts(role: Role, hardware: Hardware) -> Iterator[tuple[int, int, int, int]]:
    """Yield (tp, pp, dp, menu position) of the layouts that fill the group."""
    menu: LayoutMenu = role.layout
    assert role.model is not None
    for (a, tp), (b, pp) in itertools.product(enumerate(menu.tp), enumerate(menu.pp)):
        dp, rest = divmod(hardware.gpus, tp * pp)
        if rest or pp > role.model.layers or not _can_cut(role, hardware, tp):
            continue
        if menu.dp is None or dp in menu.dp:
            yield tp, pp, dp, a + b


def _can_cut(role: Role, hardware: Hardware, tp: int) -> bool:
    assert role.model is not None
    return hardware.gpus % tp == 0 and role.model.heads % tp == 0 and hardware.block(tp) is not None
