"""
What one choice costs: memory and time of one part of a role on a group of a given kind.

This is the only place where `placement.memory` and `placement.timing` meet; lowering and checking both ask here.

When to modify: a part does a new piece of work.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from placement import memory, timing
from placement.choices import Choice, FrozenChoice, Part, RolloutChoice, TrainChoice
from placement.constants import Constants
from placement.dataflow import StagePlan, Work
from placement.hardware import Hardware
from placement.memory import Footprint
from placement.models import Model
from placement.timing import Timed
from placement.workload import Offload, Role, RoleName, Workload


@dataclass(frozen=True, slots=True)
class Demand:
    """
    Memory and time of a choice.

    Parameters
    ----------
    resident_mib
        MiB on each GPU while idle, rounded up.
    active_mib
        MiB on each GPU while it does a piece of work, the idle share included, rounded up.
    times_us
        µs per piece of work, rounded up.
    bound_by
        What bounds each piece of work, in words.
    """

    resident_mib: int
    active_mib: Mapping[Work, int]
    times_us: Mapping[Work, int]
    bound_by: Mapping[Work, str]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a choice cannot run at all, whatever memory is left."""

    why: str


def demand(
    role: Role,
    part: Part,
    choice: Choice,
    workload: Workload,
    hardware: Hardware,
    constants: Constants,
    stages: Sequence[StagePlan],
) -> Demand | Refusal:
    """
    Return what *choice* for *part* of *role* costs on *hardware*.

    Parameters
    ----------
    stages
        The dataflow: only work that occurs there is counted.
    """
    model = role.model
    assert model is not None
    hybrid = workload.is_hybrid
    match choice:
        case TrainChoice():
            if role.name is RoleName.CRITIC:
                model = model.as_scalar_head()
            footprint = memory.train(role, model, choice, workload.batch, hardware, constants, hybrid=hybrid)
            times = _train_times(role, model, choice, workload, hardware, constants)
        case FrozenChoice():
            if role.name is RoleName.REWARD:
                model = model.as_scalar_head()
            footprint = memory.frozen(role, model, choice, workload.batch, hardware, constants)
            times = _frozen_times(role, model, choice, workload, hardware, constants)
        case RolloutChoice():
            space = memory.engine_space(model, choice, workload.batch, hardware, constants)
            if space.slots == 0:
                return Refusal(
                    f"{choice.engine} at gpu_memory_utilization {choice.gpu_memory_utilization:g} claims "
                    f"{space.claim_mib / 1024:.1f} GiB, which does not hold {space.weights_mib / 1024:.1f} GiB of weights, "
                    f"{space.activation_mib / 1024:.1f} GiB of activations and one sequence's KV cache (tp {choice.tp})"
                )
            footprint = memory.rollout(space, constants, hybrid=hybrid)
            times = {Work.GENERATE: timing.generate(model, choice, space, workload, hardware, constants)}
            if not hybrid:
                times[Work.SYNC_WEIGHTS] = _receive(model, hardware, constants)
    wanted = {work for stage in stages for name, work in stage.work if name is role.name}
    return _rounded(footprint, times, wanted, constants)


def transfer_us(model: Model, gb_per_s: float, constants: Constants) -> int:
    """Return the time of sending a model's new 16-bit weights over a link of *gb_per_s*, µs, with its fixed overhead."""
    return math.ceil(2 * model.parameters / (gb_per_s * 1e9) * 1e6) + constants.separate_sync_overhead_us


def _train_times(
    role: Role, model: Model, choice: TrainChoice, workload: Workload, hardware: Hardware, c: Constants
) -> dict[Work, Timed]:
    batch = workload.batch
    held = memory.state(role, model, choice, hardware.gpus)
    update = timing.train(role, model, choice, batch, hardware, c)
    extra = timing.optimizer_s(held, hardware, choice, batch, c) + timing.offload_s(held, hardware, choice)
    if choice.offload is Offload.ALWAYS:
        micro_batches = -(-batch.tokens // (choice.dp * memory.tokens_at_a_time(batch, choice)))
        extra += micro_batches * timing.fetch_s(2 * held.weights + held.gradients, hardware)
    update = Timed(update.seconds + extra, "host memory traffic (offload)" if extra > update.seconds else update.bound_by)
    fetch = timing.fetch_s(held.weights, hardware) if choice.offload is not Offload.NONE else 0.0
    look = timing.forward(role, model, choice, batch, hardware, c)
    look = Timed(look.seconds + fetch, "weights from host memory (offload)" if fetch > look.seconds else look.bound_by)
    if role.name is RoleName.CRITIC:
        return {Work.VALUES: look, Work.UPDATE_CRITIC: update}
    times = {Work.OLD_LOG_PROBS: look, Work.UPDATE_ACTOR: update}
    if workload.is_hybrid:
        ring, nvlink = hardware.ring_bytes_per_s, hardware.ring_nvlink
        reshard = timing.gather_s(2 * model.parameters, hardware.gpus, ring, nvlink=nvlink, c=c) if ring else 0.0
        seconds = c.hybrid_sync_overhead_us * 1e-6 + reshard + fetch
        times[Work.SYNC_WEIGHTS] = Timed(seconds, "resharding" if reshard > 0 else "copy")
    return times


def _frozen_times(
    role: Role, model: Model, choice: FrozenChoice, workload: Workload, hardware: Hardware, c: Constants
) -> dict[Work, Timed]:
    look = timing.forward(role, model, choice, workload.batch, hardware, c)
    cut = choice.tp * choice.pp * (choice.dp if role.engine.value == "fsdp" else 1)
    fetch = timing.fetch_s(2 * model.parameters / cut, hardware) if choice.offload is not Offload.NONE else 0.0
    work = Work.REF_LOG_PROBS if role.name is RoleName.REF else Work.REWARD
    return {work: Timed(look.seconds + fetch, "weights from host memory (offload)" if fetch > look.seconds else look.bound_by)}


def _receive(model: Model, hardware: Hardware, c: Constants) -> Timed:
    """The rollout's own share of the weight sync: passing the weights along its ring."""
    ring = hardware.ring_bytes_per_s
    return Timed(2 * model.parameters / ring + c.separate_sync_overhead_us * 1e-6 if ring else 0.0, "weights along the rollout's ring")


def _rounded(footprint: Footprint, times: Mapping[Work, Timed], wanted: set[Work], c: Constants) -> Demand:
    """Round up: a plan never promises more than the model says; every piece of work has its start."""
    return Demand(
        resident_mib=math.ceil(footprint.resident_mib),
        active_mib={work: math.ceil(mib) for work, mib in footprint.active_mib.items() if work in wanted},
        times_us={work: math.ceil(t.seconds * 1e6) + c.stage_overhead_us for work, t in times.items() if work in wanted},
        bound_by={work: t.bound_by for work, t in times.items() if work in wanted},
    )
