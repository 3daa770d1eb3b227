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
from placement.validation.rl_run import Run
from placement.validation.rows import Unpredictable
from placement.validation.setting import hardware, port_bytes_per_s
from placement.workloads.dataflow import Work, dataflow
from placement.workloads.workload import (
    Algorithm,
    Engine,
    LayoutMenu,
    Master,
    Offload,
    Precision,
    Role,
    RoleName,
    RolloutMenu,
    TrainMenu,
    Workload,
)

US = 1e-6

UTILIZATION_SHARED, UTILIZATION_ALONE = 0.6, 0.9
"""Memory that an engine claims beside training (recipes of NeMo-RL), and on GPUs of its own (vLLM's default)."""

MAX_NUM_SEQS = 1024
"""Sequences at a time, vLLM's default on cards of 80 GB and more."""



def step_s(run: Run) -> tuple[float, Mapping[str, float]]:
    """
    Return the time of a step, seconds, and that of each piece of work.

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
        train=TrainMenu(),
        rollout=None if run.rollout_gpus else RolloutMenu(),
    )
    roles = [actor]
    if run.rollout_gpus:
        roles.append(Role(RoleName.ROLLOUT, run.model, Engine.VLLM, rollout=RolloutMenu()))
    if run.has_ref:
        roles.append(Role(RoleName.REF, run.model, run.engine))
    job = Workload(Algorithm.GRPO, run.batch, tuple(roles), run.schedule)
    train = hardware(run.card, run.train_gpus)
    times = dict(_train(run, job, actor, train))
    rollout, where = (roles[1], hardware(run.card, run.rollout_gpus)) if run.rollout_gpus else (actor, train)
    for work, us in _rollout(run, job, rollout, where).items():
        times[work] = max(times.get(work, 0), us)
    if run.rollout_gpus:
        uplink = port_bytes_per_s(run.card) * min(run.train_gpus, run.rollout_gpus, 8)
        times[Work.SYNC_WEIGHTS] = max(times[Work.SYNC_WEIGHTS], transfer_us(run.model, uplink / 1e9, constants()))
    if not run.has_old:
        times.pop(Work.OLD_LOG_PROBS)
    seconds = {work.value: us * US for work, us in times.items()}
    sync = seconds[Work.SYNC_WEIGHTS.value]
    busy = sum(seconds.values()) - sync
    generation = seconds[Work.GENERATE.value]
    return (max(generation, busy - generation) if run.schedule.overlaps_generation else busy) + sync, seconds


def _train(run: Run, job: Workload, actor: Role, where: Hardware) -> dict[Work, int]:
    dp = run.train_gpus // (run.tp * run.pp * run.sp)
    offload = Offload.NONE if run.rollout_gpus else Offload.BETWEEN
    choice = TrainChoice(run.tp, run.pp, dp, Precision.BF16, Master.FP32, offload, run.batch.micro_batch_tokens, sp=run.sp, ep=run.ep)
    times = dict(_times(actor, Part.TRAIN, choice, job, where))
    ref = job.role(RoleName.REF)
    if ref is not None:
        frozen = FrozenChoice(run.tp, run.pp, dp, Precision.BF16, Offload.BETWEEN, sp=run.sp, ep=run.ep)
        times |= _times(ref, Part.FROZEN, frozen, job, where)
    return times


def _rollout(run: Run, job: Workload, role: Role, where: Hardware) -> Mapping[Work, int]:
    share = UTILIZATION_ALONE if run.rollout_gpus else UTILIZATION_SHARED
    sizes = (run.rollout_tp,) if run.rollout_tp else (1, 2, 4, 8, 16)
    refusal: Unpredictable | None = None
    for tp in sizes:
        if where.gpus % tp or where.block(tp) is None:
            continue
        choice = RolloutChoice(Engine.VLLM, tp, where.gpus // tp, Precision.BF16, share, MAX_NUM_SEQS, run.quantization)
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
