"""
What one choice costs: memory and time of one part of a role on a group of a given kind.

This is the only place where the models of memory and time meet; lowering and checking both ask here.

When to modify: a part does a new piece of work.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import assert_never

from placement.choices.batches import longest_tokens, mean_tokens
from placement.choices.choices import Choice, FrozenChoice, Part, RolloutChoice, TrainChoice
from placement.choices.footprints import Footprint, rounded_up
from placement.choices.hardware import Hardware
from placement.constants.table import Constants
from placement.memory import engine_memory, gpu_memory
from placement.memory.engine_memory import EngineSpace
from placement.memory.gpu_memory import MIB
from placement.memory.host_memory import HostNeed, host_need
from placement.memory.sending import Sent, all_weights, sent
from placement.models.model import Model
from placement.timing import generation, stages
from placement.timing.collectives import US
from placement.timing.passes import Timed
from placement.workloads.dataflow import StagePlan, Work
from placement.workloads.workload import Role, RoleName, Workload

MAX_TIME_US = 1 << 50
"""36 years: solvers add times in 64 bits, and a job that takes longer is not planned but refused."""


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
    host
        What each GPU needs of its host.
    """

    resident_mib: int
    active_mib: Mapping[Work, int]
    times_us: Mapping[Work, int]
    bound_by: Mapping[Work, str]
    host: HostNeed


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
    Return what *choice* for *part* of *role* costs on *hardware*; whether that is too much is not asked here.

    Parameters
    ----------
    choice
        One of `placement.choices.choices` for this part and hardware.
    stages
        The dataflow: only work that occurs there is counted.

    Raises
    ------
    ValueError
        If *choice* is of another kind than *part*.
    """
    match part, choice:
        case Part.TRAIN, TrainChoice():
            refusal = _too_few_sequences(role, choice.dp, workload, updates=workload.batch.minibatches)
            if refusal is not None:
                return refusal
            footprint, times = _train(role, choice, workload, hardware, constants)
        case Part.FROZEN, FrozenChoice():
            refusal = _too_few_sequences(role, choice.dp, workload, updates=1)
            if refusal is not None:
                return refusal
            footprint, times = _frozen(role, choice, workload, hardware, constants)
        case Part.ROLLOUT, RolloutChoice():
            model = _model(role)
            space = _space(model, choice, workload, hardware, constants)
            if space.slots == 0:
                return _engine_too_small(choice, space)
            footprint, times = _rollout(role, choice, space, workload, hardware, constants)
        case _:
            raise ValueError(f"{choice} is no choice for {part} of {role.name}")
    wanted = {work for stage in stages for name, work in stage.work if name is role.name}
    host = host_need(role, _model(role), choice, workload, constants)
    cost = _rounded(footprint, times, wanted, host, workload, constants)
    return _takes_too_long(role, cost, workload) or cost


def footprint(
    role: Role, part: Part, choice: Choice, workload: Workload, hardware: Hardware, constants: Constants
) -> Footprint | None:
    """
    Return what `demand` counts as memory, piece by piece; None where the choice is refused.

    Raises
    ------
    ValueError
        If *choice* is of another kind than *part*.
    """
    match part, choice:
        case Part.TRAIN, TrainChoice():
            return _train_footprint(role, choice, workload, constants)
        case Part.FROZEN, FrozenChoice():
            return _frozen_footprint(role, choice, workload, constants)
        case Part.ROLLOUT, RolloutChoice():
            space = _space(_model(role), choice, workload, hardware, constants)
            return _rollout_footprint(role, space, workload, constants) if space.slots else None
    raise ValueError(f"{choice} is no choice for {part} of {role.name}")


def transfer_us(model: Model, gb_per_s: float, constants: Constants, what: Sent | None = None) -> int:
    """
    Return the time in which new 16-bit weights reach another pool over a link of *gb_per_s*, µs, rounded up.

    Parameters
    ----------
    what
        What passes (`placement.memory.sending.sent`); None for all weights of *model*.
    """
    what = what or all_weights(model)
    us = math.ceil(what.size / (gb_per_s * 1e9) / US + stages.separate_sync_us(what, constants))
    return math.ceil(us * constants.time_factor(Work.SYNC_WEIGHTS))


# ── part by part ────────────────────────────────────────────────────────────────────────────────────────────

Costs = tuple[Footprint, dict[Work, Timed]]


def _train(role: Role, choice: TrainChoice, workload: Workload, hardware: Hardware, c: Constants) -> Costs:
    model, batch = _model(role), workload.batch
    footprint = _train_footprint(role, choice, workload, c)
    forward = stages.forward(role, model, choice, batch, hardware, c)
    update = stages.update(role, model, choice, batch, hardware, c)
    if role.name is RoleName.CRITIC:
        return footprint, {Work.VALUES: forward, Work.UPDATE_CRITIC: update}
    send = stages.send(role, model, choice, hardware, c, hybrid=workload.is_hybrid)
    return footprint, {Work.OLD_LOG_PROBS: forward, Work.UPDATE_ACTOR: update, Work.SYNC_WEIGHTS: send}


def _frozen(role: Role, choice: FrozenChoice, workload: Workload, hardware: Hardware, c: Constants) -> Costs:
    model, batch = _model(role), workload.batch
    footprint = _frozen_footprint(role, choice, workload, c)
    work = Work.REF_LOG_PROBS if role.name is RoleName.REF else Work.REWARD
    actor = workload.role(RoleName.ACTOR)
    # The reference runs in the actor's engine, with its switches.
    fp8 = role.name is RoleName.REF and actor is not None and actor.train is not None and actor.train.fp8
    return footprint, {work: stages.frozen_forward(role, model, choice, batch, hardware, c, fp8=fp8)}


def _rollout(
    role: Role,
    choice: RolloutChoice,
    space: EngineSpace,
    workload: Workload,
    hardware: Hardware,
    c: Constants,
) -> Costs:
    model = _model(role)
    footprint = _rollout_footprint(role, space, workload, c)
    times = {Work.GENERATE: generation.generate(model, choice, space, workload, hardware, c)}
    actor = workload.role(RoleName.ACTOR)
    if not workload.is_hybrid:
        what = all_weights(model) if actor is None else sent(actor, model, hybrid=False)
        times[Work.SYNC_WEIGHTS] = stages.receive(what, hardware, c)
    elif role.rollout is not None and role.rollout.sleep and _adapters(workload, model):
        times[Work.SYNC_WEIGHTS] = stages.wake(space.weights_mib * MIB, hardware)
    return footprint, times


def _train_footprint(role: Role, choice: TrainChoice, workload: Workload, c: Constants) -> Footprint:
    return gpu_memory.train(role, _model(role), choice, workload.batch, c, hybrid=workload.is_hybrid)


def _frozen_footprint(role: Role, choice: FrozenChoice, workload: Workload, c: Constants) -> Footprint:
    actor = workload.role(RoleName.ACTOR)
    # Frameworks have one switch for the actor's and the reference's log-probabilities.
    fused = actor is None or actor.train is None or actor.train.fused_ce
    return gpu_memory.frozen(role, _model(role), choice, workload.batch, c, fused_ce=fused)


def _rollout_footprint(role: Role, space: EngineSpace, workload: Workload, c: Constants) -> Footprint:
    assert role.rollout is not None
    return engine_memory.rollout(space, c, hybrid=workload.is_hybrid, sleeps=role.rollout.sleep)


def _space(
    model: Model, choice: RolloutChoice, workload: Workload, hardware: Hardware, c: Constants
) -> EngineSpace:
    return engine_memory.engine_space(model, choice, workload.batch, hardware, c, adapters=_adapters(workload, model))


def _adapters(workload: Workload, model: Model) -> float:
    """Return the bytes of the adapters that an engine is sent in place of all weights; 0 where it is not."""
    actor = workload.role(RoleName.ACTOR)
    what = None if actor is None else sent(actor, model, hybrid=workload.is_hybrid)
    return what.size if what is not None and what.adapters else 0.0


def _model(role: Role) -> Model:
    """Return the model that *role* runs: critic and reward have a scalar head."""
    model = role.model
    assert model is not None
    match role.name:
        case RoleName.CRITIC | RoleName.REWARD:
            return _scalar_head(model)
        case RoleName.ACTOR | RoleName.ROLLOUT | RoleName.REF:
            return model
    assert_never(role.name)


@functools.lru_cache(maxsize=64)
def _scalar_head(model: Model) -> Model:
    return model.as_scalar_head()


def _too_few_sequences(role: Role, dp: int, workload: Workload, *, updates: int) -> Refusal | None:
    sequences = workload.batch.sequences // updates
    if dp <= sequences:
        return None
    return Refusal(
        f"{role.name} has {dp} data-parallel ranks for {sequences} sequences of a "
        f"{'minibatch' if updates > 1 else 'step'}: some would have none"
    )


def _engine_too_small(choice: RolloutChoice, space: EngineSpace) -> Refusal:
    return Refusal(
        f"{choice.engine} at gpu_memory_utilization {choice.gpu_memory_utilization:g} claims "
        f"{space.claim_mib / 1024:.1f} GiB, which does not hold {space.weights_mib / 1024:.1f} GiB of weights "
        f"(tp {choice.tp}), {space.activation_mib / 1024:.1f} GiB of activations and the KV cache of the longest "
        "sequence"
    )


def _takes_too_long(role: Role, cost: Demand, workload: Workload) -> Refusal | None:
    work, longest = max(cost.times_us.items(), key=itemgetter(1), default=(None, 0))
    if longest < MAX_TIME_US:
        return None
    model, batch = _model(role), workload.batch
    return Refusal(
        f"{work} of {role.name} would take {longest / 1e6:.1e} s, more than the {MAX_TIME_US / 1e6:.1e} s that are planned: "
        f"the step has {batch.sequences:,} sequences of {mean_tokens(batch):,} tokens, the model "
        f"{model.active_parameters:,} active parameters"
    )


def _hand_over_us(work: Work, workload: Workload, c: Constants) -> int:
    """
    Return the time in which one controller hands a piece of work its batch, µs.

    Engines get the prompts; whoever computes over answers gets sequences that are padded to the longest; a weight sync gets none.
    """
    if work is Work.SYNC_WEIGHTS:
        return 0
    batch = workload.batch
    tokens = batch.prompt_tokens if work is Work.GENERATE else longest_tokens(batch)
    return math.ceil(batch.sequences * tokens * c.hand_over_ns_per_token / 1e3)


def _rounded(
    footprint: Footprint, times: Mapping[Work, Timed], wanted: set[Work], host: HostNeed, workload: Workload, c: Constants
) -> Demand:
    """
    Round up: a plan never promises more than the model says.

    Every piece of work has its start, one call to all workers, and what it is handed.
    """
    call = c.stage_overhead_us
    done = {work: time for work, time in times.items() if work in wanted}
    return Demand(
        resident_mib=rounded_up(footprint.resident_mib),
        active_mib={work: rounded_up(mib) for work, mib in footprint.active_mib.items() if work in wanted},
        times_us={
            # A calibration scales a piece of work as a whole: what was measured has its start in it.
            work: math.ceil((math.ceil(time.seconds / US) + call + _hand_over_us(work, workload, c)) * c.time_factor(work))
            for work, time in done.items()
        },
        bound_by={work: time.bound_by for work, time in done.items()},
        host=host,
    )
