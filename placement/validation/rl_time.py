"""
A published run of reinforcement learning as a job that planning knows, and the time of its step.

When to modify: a run is timed by further choices. What rows say is `placement.validation.rl_run`'s to read.
"""

from __future__ import annotations

from collections.abc import Mapping

from placement.choices.choices import Choice, FrozenChoice, Part, RolloutChoice, TrainChoice
from placement.choices.hardware import Hardware
from placement.constants.table import constants
from placement.demand import Demand, Refusal, demand, transfer_us
from placement.memory.sending import sent
from placement.validation.rl_run import Run
from placement.validation.rows import Unpredictable
from placement.validation.setting import hardware, port_bytes_per_s
from placement.workloads.dataflow import Work, dataflow
from placement.workloads.workload import (
    Engine,
    LayoutMenu,
    Master,
    Offload,
    Precision,
    Role,
    RoleName,
    RolloutMenu,
    Workload,
)

US = 1e-6

UTILIZATION_SHARED, UTILIZATION_ALONE = 0.6, 0.9
"""Memory that an engine claims beside training (recipes of NeMo-RL), and on GPUs of its own (vLLM's default)."""

MAX_NUM_SEQS = 1024
"""Sequences at a time, vLLM's default on cards of 80 GB and more."""

WAIT = "wait_for_generation"
"""The time for which the trainer waits where generation runs beside it: what frameworks log as generation then."""


def step_s(run: Run) -> tuple[float, Mapping[str, float]]:
    """
    Return the time of a step, seconds, and that of each piece of work, and of the wait for generation where it runs beside training.

    Raises
    ------
    Unpredictable
        If planning would refuse the run.
    """
    actor = Role(
        RoleName.ACTOR,
        run.model,
        run.engine,
        layout=LayoutMenu((run.tp,), (run.pp,)),
        train=run.train,
        rollout=None if run.rollout_gpus else RolloutMenu(),
    )
    roles = [actor]
    if run.critic is not None:
        roles.append(actor.replace(name=RoleName.CRITIC, model=run.critic, rollout=None))
    if run.reward is not None:
        roles.append(Role(RoleName.REWARD, run.reward, run.engine))
    if run.rollout_gpus:
        roles.append(Role(RoleName.ROLLOUT, run.model, Engine.VLLM, rollout=RolloutMenu()))
    if run.has_ref:
        roles.append(Role(RoleName.REF, run.model, run.engine))
    job = Workload(run.algorithm, run.batch, tuple(roles), run.schedule)
    train = hardware(run.card, run.train_gpus)
    times = dict(_train(run, job, actor, train))
    generator = job.role(RoleName.ROLLOUT)
    rollout, where = (actor, train) if generator is None else (generator, hardware(run.card, run.rollout_gpus))
    for work, us in _rollout(run, job, rollout, where).items():
        # An engine beside the trainer works in turns with it, one on other GPUs at the same time.
        times[work] = max(times.get(work, 0), us) if run.rollout_gpus else times.get(work, 0) + us
    if run.rollout_gpus:
        uplink = port_bytes_per_s(run.card) * min(run.train_gpus, run.rollout_gpus, 8)
        passing = transfer_us(run.model, uplink / 1e9, constants(), sent(actor, run.model, hybrid=False))
        times[Work.SYNC_WEIGHTS] = max(times[Work.SYNC_WEIGHTS], passing)
    if not run.has_old:
        times.pop(Work.OLD_LOG_PROBS)
    seconds = {work.value: us * US for work, us in times.items()}
    sync = seconds[Work.SYNC_WEIGHTS.value]
    busy = sum(seconds.values()) - sync
    generation = seconds[Work.GENERATE.value]
    if not run.schedule.overlaps_generation:
        return busy + sync, seconds
    trained = busy - generation
    return max(generation, trained) + sync, {**seconds, WAIT: max(generation - trained, 0.0)}


def _train(run: Run, job: Workload, actor: Role, where: Hardware) -> dict[Work, int]:
    dp = run.train_gpus // (run.tp * run.pp * run.sp)
    offload = Offload.NONE if run.rollout_gpus else Offload.BETWEEN
    tokens = run.batch.micro_batch_tokens
    choice = TrainChoice(run.tp, run.pp, dp, Precision.BF16, Master.FP32, offload, tokens, run.zero, run.sp, run.ep)
    frozen = FrozenChoice(run.tp, run.pp, dp, Precision.BF16, Offload.BETWEEN, run.sp, run.ep)
    times = dict(_times(actor, Part.TRAIN, choice, job, where))
    for name in (RoleName.CRITIC, RoleName.REF, RoleName.REWARD):
        role = job.role(name)
        if role is not None:
            part, chosen = (Part.TRAIN, choice) if name is RoleName.CRITIC else (Part.FROZEN, frozen)
            times |= _times(role, part, chosen, job, where)
    return times


def _rollout(run: Run, job: Workload, role: Role, where: Hardware) -> Mapping[Work, int]:
    share = run.share or (UTILIZATION_ALONE if run.rollout_gpus else UTILIZATION_SHARED)
    sizes = (run.rollout_tp,) if run.rollout_tp else (1, 2, 4, 8, 16, 32)
    refusal: Unpredictable | None = None
    for tp in sizes:
        if where.gpus % tp or where.block(tp) is None:
            continue
        choice = RolloutChoice(Engine.VLLM, tp, where.gpus // tp, Precision.BF16, share, MAX_NUM_SEQS, run.quantization, run.kv_cache)
        try:
            return _times(role, Part.ROLLOUT, choice, job, where)
        except Unpredictable as why:
            refusal = why
    raise refusal or Unpredictable(f"{where.gpus} GPUs do not hold engines of tp {' or '.join(map(str, sizes))}")


def _times(role: Role, part: Part, choice: Choice, job: Workload, where: Hardware) -> Mapping[Work, int]:
    found: Demand | Refusal = demand(role, part, choice, job, where, constants(), dataflow(job))
    if isinstance(found, Refusal):
        raise Unpredictable(found.why)
    return found.times_us
