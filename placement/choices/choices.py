"""
The choices that a role's menus leave, on a group of a given kind.

A role has *parts* (`placement.choices.parts`) that are chosen independently of each other: an actor with the hybrid engine trains
(one part) and generates (another), on the same GPUs.

When to modify: a menu is added to `placement.workloads.workload`, or an engine learns a new layout.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from placement.choices.capabilities import Feature, multiplies_fp8
from placement.choices.capabilities import least_capability as least_capability
from placement.choices.capabilities import runs as runs
from placement.choices.card_lacks import card_lacks
from placement.choices.hardware import Hardware
from placement.choices.parts import Part as Part
from placement.choices.parts import engine_of, rollout_menu, train_menu
from placement.choices.parts import parts as parts
from placement.workloads.workload import (
    Engine,
    KvCache,
    Master,
    Offload,
    Precision,
    Quantization,
    Role,
    RolloutMenu,
    TrainMenu,
)


@dataclass(frozen=True, slots=True)
class TrainChoice:
    """How a role is trained, on ``tp·pp·dp·sp`` GPUs; see `placement.workloads.workload.LayoutMenu` and `TrainMenu`."""

    tp: int
    pp: int
    dp: int
    precision: Precision
    master: Master
    offload: Offload
    micro_batch_tokens: int
    zero: int = 3
    sp: int = 1
    ep: int = 1

    @property
    def shards(self) -> int:
        """GPUs over which FSDP spreads what a TP rank holds: those that share a sequence hold shards like all others."""
        return self.dp * self.sp


@dataclass(frozen=True, slots=True)
class RolloutChoice:
    """How a role generates: *replicas* engines of *tp* GPUs."""

    engine: Engine
    tp: int
    replicas: int
    precision: Precision
    gpu_memory_utilization: float
    max_num_seqs: int
    quantization: Quantization = Quantization.NONE
    kv_cache: KvCache = KvCache.AUTO


@dataclass(frozen=True, slots=True)
class FrozenChoice:
    """How a role that is never trained runs its forward passes."""

    tp: int
    pp: int
    dp: int
    precision: Precision
    offload: Offload
    sp: int = 1
    ep: int = 1

    @property
    def shards(self) -> int:
        """GPUs over which FSDP spreads what a TP rank holds."""
        return self.dp * self.sp


Choice = TrainChoice | RolloutChoice | FrozenChoice


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
    if kind is None or (supported and not (_runs(hardware, engine_of(role, part)) and _trains_in_its_bits(role, part, hardware))):
        return
    match part:
        case Part.TRAIN:
            yield from _train_choices(role, train_menu(role), hardware, kind, supported=supported)
        case Part.ROLLOUT:
            yield from _rollout_choices(role, rollout_menu(role), hardware, kind, supported=supported)
        case Part.FROZEN:
            for (layout, place), (a, offload) in itertools.product(
                _layouts(role, hardware), enumerate(role.offload)
            ):
                tp, pp, dp, sp, ep = layout
                yield FrozenChoice(tp, pp, dp, kind, offload, sp, ep), place + a


def unsupported(role: Role, part: Part, hardware: Hardware, *, card: str = "the card") -> str | None:
    """
    Return why *part* of *role* has no choice on *hardware*, as a sentence; None when it has one.

    Reasons that switching rule ``supported`` off would not remove come first.

    Parameters
    ----------
    card
        What the weakest card of the group is called.
    """
    group = "1 GPU" if hardware.gpus == 1 else f"{hardware.gpus} GPUs"
    tps = rollout_menu(role).tp if part is Part.ROLLOUT else role.layout.blocks
    if not any(_can_cut(role, hardware, tp) for tp in tps):
        sizes = " or ".join(map(str, tps))
        return f"{group} cannot be cut into TP blocks of {sizes} for {role.name} ({part})"
    if part is not Part.ROLLOUT and not any(_layouts(role, hardware)):
        return f"no layout in the menu of {role.name} fills {group}"
    return next(card_lacks(role, part, hardware.compute_capability, card), None)


def _train_choices(
    role: Role, menu: TrainMenu, hardware: Hardware, kind: Precision, *, supported: bool
) -> Iterator[tuple[Choice, int]]:
    stages = menu.zero if role.engine is Engine.FSDP else (3,)
    for (layout, place), (a, master), (b, offload), (c, tokens), (d, zero) in itertools.product(
        _layouts(role, hardware),
        ((a, master) for a, master in enumerate(menu.master) if not supported or _updates(hardware, master)),
        enumerate(menu.offload),
        enumerate(menu.micro_batch_tokens),
        enumerate(stages),
    ):
        tp, pp, dp, sp, ep = layout
        yield TrainChoice(tp, pp, dp, kind, master, offload, tokens, zero, sp, ep), place + a + b + c + d


def _rollout_choices(
    role: Role, menu: RolloutMenu, hardware: Hardware, kind: Precision, *, supported: bool
) -> Iterator[tuple[Choice, int]]:
    for (a, tp), (b, share), (quantization, kv_cache, c) in itertools.product(
        enumerate(menu.tp), enumerate(menu.gpu_memory_utilization), _eight_bits(menu, hardware, supported=supported)
    ):
        if _can_cut(role, hardware, tp):
            replicas = hardware.gpus // tp
            yield RolloutChoice(menu.engine, tp, replicas, kind, share, menu.max_num_seqs, quantization, kv_cache), a + b + c


def _eight_bits(
    menu: RolloutMenu, hardware: Hardware, *, supported: bool
) -> Iterator[tuple[Quantization, KvCache, int]]:
    """Yield what weights and cache of an engine may be stored in on this card, with the position in the menus."""
    for (a, quantization), (b, kv_cache) in itertools.product(enumerate(menu.quantization), enumerate(menu.kv_cache)):
        if not supported or (_runs(hardware, quantization) and _runs(hardware, kv_cache)):
            yield quantization, kv_cache, a + b


class _Layout(NamedTuple):
    """Sizes of all kinds of parallelism; they fill the group."""

    tp: int
    pp: int
    dp: int
    sp: int
    ep: int


def _layouts(role: Role, hardware: Hardware) -> Iterator[tuple[_Layout, int]]:
    """Yield the layouts that fill the group, with their position in the menus."""
    assert role.model is not None
    menu = role.layout
    for (a, tp), (b, pp), (c, sp), (d, ep) in itertools.product(*map(enumerate, (menu.tp, menu.pp, menu.sp, menu.ep))):
        dp, rest = divmod(hardware.gpus, tp * pp * sp)
        if rest or pp > role.model.layers or not _can_cut(role, hardware, tp) or not _can_cut(role, hardware, tp * sp):
            continue
        if not can_spread_experts(role.model.experts, dp, ep):
            continue
        if menu.dp is None:
            yield _Layout(tp, pp, dp, sp, ep), a + b + c + d
        elif dp in menu.dp:
            yield _Layout(tp, pp, dp, sp, ep), a + b + c + d + menu.dp.index(dp)


def can_spread_experts(experts: int, dp: int, ep: int) -> bool:
    """
    Whether *ep* of *dp* ranks can share *experts* evenly.

    Megatron cuts experts by tensor parallelism like all else (``expert_tensor_parallel_size`` is tp unless it is said), so that ranks
    which share them are data-parallel ones.
    """
    return ep == 1 or (experts > 0 and experts % ep == 0 and dp % ep == 0)


def _can_cut(role: Role, hardware: Hardware, tp: int) -> bool:
    assert role.model is not None
    return hardware.gpus % tp == 0 and role.model.can_share_heads(tp) and hardware.block(tp) is not None


def _runs(hardware: Hardware, what: Feature) -> bool:
    return runs(hardware.compute_capability, what)


def _trains_in_its_bits(role: Role, part: Part, hardware: Hardware) -> bool:
    """Whether the card has the matrix products that training asks for."""
    return part is not Part.TRAIN or not train_menu(role).fp8 or multiplies_fp8(hardware.compute_capability)


def _updates(hardware: Hardware, master: Master) -> bool:
    """Whether the optimizer can run on weights of this precision; any card adds in 32 bits."""
    return master is Master.FP32 or _runs(hardware, Precision.BF16)
