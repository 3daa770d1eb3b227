"""
The choices that a role's menus leave, on a group of a given kind.

A role has *parts* that are chosen independently of each other: an actor with the hybrid engine trains (one
part) and generates (another), on the same GPUs.

When to modify: a menu is added to `placement.workload`, or an engine learns a new layout.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from placement.hardware import Hardware
from placement.workload import Engine, Master, Offload, Precision, Role, RoleName, RolloutMenu, TrainMenu

LEAST_CAPABILITY: dict[Engine | Precision, tuple[int, int]] = {
    # bf16 arithmetic came with Ampere, fast fp16 with Pascal's P100 (CUDA C++ Programming Guide, arithmetic
    # throughput).
    Precision.BF16: (8, 0),
    Precision.FP16: (6, 0),
    # vLLM's installation page asks for 7.0; FlashInfer, on which SGLang rests, for 7.5.
    Engine.VLLM: (7, 0),
    Engine.SGLANG: (7, 5),
    # FSDP is PyTorch alone; Megatron's fused kernels are built for Volta and later.
    Engine.FSDP: (6, 0),
    Engine.MEGATRON: (7, 0),
}
"""Lowest compute capability that runs an engine or a 16-bit type."""

OF_AMD = (0, 0)
"""
What cards of AMD have for a compute capability. Those of the catalogue (gfx90a, gfx942) run all engines and both types: vLLM and SGLang
name them on their installation pages, PyTorch is built for ROCm, and Megatron has a port by AMD.
"""


def runs(compute_capability: tuple[int, int], what: Engine | Precision) -> bool:
    """Whether a card of *compute_capability* runs *what*."""
    return compute_capability == OF_AMD or compute_capability >= LEAST_CAPABILITY[what]


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
    assert_never(role.name)


def precision(role: Role, hardware: Hardware, *, supported: bool = True) -> Precision | None:
    """Return the first of the role's 16-bit types that the card runs; any, with rule ``supported`` off."""
    listed = (p for p in role.precision if not supported or _runs(hardware, p))
    return next(listed, None)


def choices(
    role: Role, part: Part, hardware: Hardware, *, supported: bool = True
) -> Iterator[tuple[Choice, int]]:
    """
    Yield the choices for *part* of *role* on *hardware* in menu order.

    Each comes with its preference, the sum of its positions in the menus: 0 is what the user named first. A
    choice fills the group exactly, cuts the attention heads evenly, and uses TP blocks that the group offers.
    Whether it fits into memory, and whether the batch has a sequence for every rank, is `placement.demand`'s
    to say.
    """
    kind = precision(role, hardware, supported=supported)
    if kind is None or (supported and not _runs(hardware, _engine(role, part))):
        return
    match part:
        case Part.TRAIN:
            yield from _train_choices(role, _train_menu(role), hardware, kind, supported=supported)
        case Part.ROLLOUT:
            yield from _rollout_choices(role, _rollout_menu(role), hardware, kind)
        case Part.FROZEN:
            for (layout, place), (a, offload) in itertools.product(
                _layouts(role, hardware), enumerate(role.offload)
            ):
                yield FrozenChoice(*layout, kind, offload), place + a


def unsupported(role: Role, part: Part, hardware: Hardware) -> str | None:
    """
    Return why *part* of *role* has no choice on *hardware*, as a sentence; None when it has one.

    Reasons that switching rule ``supported`` off would not remove come first.
    """
    group = "1 GPU" if hardware.gpus == 1 else f"{hardware.gpus} GPUs"
    tps = _rollout_menu(role).tp if part is Part.ROLLOUT else role.layout.tp
    if not any(_can_cut(role, hardware, tp) for tp in tps):
        sizes = " or ".join(map(str, tps))
        return f"{group} cannot be cut into TP blocks of {sizes} for {role.name} ({part})"
    if part is not Part.ROLLOUT and not any(_layouts(role, hardware)):
        return f"no layout in the menu of {role.name} fills {group}"
    engine = _engine(role, part)
    have = ".".join(map(str, hardware.compute_capability))
    if not _runs(hardware, engine):
        need = ".".join(map(str, LEAST_CAPABILITY[engine]))
        return (
            f"{role.name} runs on {engine}, which needs compute capability {need}; the card has {have} "
            "(rule supported)"
        )
    if precision(role, hardware) is None:
        types = " or ".join(role.precision)
        return f"{role.name} asks for {types}, which compute capability {have} does not run (rule supported)"
    if part is Part.TRAIN and not any(_updates(hardware, master) for master in _train_menu(role).master):
        return f"{role.name} asks for a bf16 master, which compute capability {have} does not run (rule supported)"
    return None


def _train_choices(
    role: Role, menu: TrainMenu, hardware: Hardware, kind: Precision, *, supported: bool
) -> Iterator[tuple[Choice, int]]:
    for (layout, place), (a, master), (b, offload), (c, tokens) in itertools.product(
        _layouts(role, hardware),
        ((a, master) for a, master in enumerate(menu.master) if not supported or _updates(hardware, master)),
        enumerate(menu.offload),
        enumerate(menu.micro_batch_tokens),
    ):
        yield TrainChoice(*layout, kind, master, offload, tokens), place + a + b + c


def _rollout_choices(
    role: Role, menu: RolloutMenu, hardware: Hardware, kind: Precision
) -> Iterator[tuple[Choice, int]]:
    for (a, tp), (b, share) in itertools.product(enumerate(menu.tp), enumerate(menu.gpu_memory_utilization)):
        if _can_cut(role, hardware, tp):
            yield RolloutChoice(menu.engine, tp, hardware.gpus // tp, kind, share, menu.max_num_seqs), a + b


def _layouts(role: Role, hardware: Hardware) -> Iterator[tuple[tuple[int, int, int], int]]:
    """Yield the layouts (tp, pp, dp) that fill the group, with their position in the menus."""
    assert role.model is not None
    menu = role.layout
    for (a, tp), (b, pp) in itertools.product(enumerate(menu.tp), enumerate(menu.pp)):
        dp, rest = divmod(hardware.gpus, tp * pp)
        if rest or pp > role.model.layers or not _can_cut(role, hardware, tp):
            continue
        if menu.dp is None:
            yield (tp, pp, dp), a + b
        elif dp in menu.dp:
            yield (tp, pp, dp), a + b + menu.dp.index(dp)


def _can_cut(role: Role, hardware: Hardware, tp: int) -> bool:
    assert role.model is not None
    return hardware.gpus % tp == 0 and role.model.can_share_heads(tp) and hardware.block(tp) is not None


def _runs(hardware: Hardware, what: Engine | Precision) -> bool:
    return runs(hardware.compute_capability, what)


def _updates(hardware: Hardware, master: Master) -> bool:
    """Whether the optimizer can run on weights of this precision; any card adds in 32 bits."""
    return master is Master.FP32 or _runs(hardware, Precision.BF16)


def _engine(role: Role, part: Part) -> Engine:
    return _rollout_menu(role).engine if part is Part.ROLLOUT else role.engine


def _train_menu(role: Role) -> TrainMenu:
    assert role.train is not None
    return role.train


def _rollout_menu(role: Role) -> RolloutMenu:
    assert role.rollout is not None
    return role.rollout
