"""
A published run of reinforcement learning as a job that planning knows, and the time of its step.

When to modify: tables describe runs in other words, or state more of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from placement.choices import Choice, FrozenChoice, Part, RolloutChoice, TrainChoice
from placement.constants import constants
from placement.dataflow import Work, dataflow
from placement.demand import Demand, Refusal, demand, transfer_us
from placement.hardware import Hardware
from placement.models import Model
from placement.validation import naming
from placement.validation.reading import Record
from placement.validation.rows import Unpredictable
from placement.validation.setting import hardware, in_8_bits, port_bytes_per_s
from placement.workload import (
    Algorithm,
    Batch,
    Engine,
    LayoutMenu,
    Master,
    Offload,
    Precision,
    Role,
    RoleName,
    RolloutMenu,
    Schedule,
    TrainMenu,
    Workload,
)
from topologies.cards import Card

US = 1e-6
MOST_GPUS = 1 << 16
MOST_SEQUENCES = 1 << 24
MOST_TOKENS = 1 << 24

PROMPT_TOKENS = 200
"""Prompts of the maths questions that such runs train on (OpenMathInstruct-2, DAPO-Math-17k)."""

MEAN_RESPONSE_TOKENS = 1000
"""Mean response where a table names the longest alone: about a thousand tokens in published runs of models of 7B on maths (Dr. GRPO)."""

MAX_RESPONSE_TOKENS = 16_384
"""Longest response where a table names none."""

BATCH = (512, 16, 32)
"""Prompts, samples of each and prompts of an update where a table names none: those of verl's recipes for DAPO."""

UTILIZATION_SHARED, UTILIZATION_ALONE = 0.6, 0.9
"""Memory that an engine claims beside training (recipes of NeMo-RL), and on GPUs of its own (vLLM's default)."""

MAX_NUM_SEQS = 1024
"""Sequences at a time, vLLM's default on cards of 80 GB and more."""

SAMPLES = 32
"""Samples of each prompt in NeMo-RL's recipes."""


@dataclass(frozen=True, slots=True)
class Run:
    """
    What a row says, and what is taken for granted where it says nothing.

    Parameters
    ----------
    train_gpus, rollout_gpus
        GPUs of both sides; none for the rollout when the same GPUs do both in turns.
    overlaps
        Whether generation and training run at the same time, each on the other's last result.
    has_old, has_ref
        Whether the trainer computes log-probabilities of its own, and of a reference.
    rollout_tp
        None when the row does not say it: the smallest that starts.
    """

    model: Model
    card: Card
    train_gpus: int
    rollout_gpus: int
    overlaps: bool
    batch: Batch
    engine: Engine
    tp: int
    pp: int
    rollout_tp: int | None
    has_old: bool
    has_ref: bool
    assumed: tuple[str, ...]


def read_run(record: Record) -> Run:
    """
    Return what *record* describes.

    Raises
    ------
    Unpredictable
        If the row leaves out what nothing can be assumed for.
    """
    assumed: list[str] = []
    model = naming.find(record.text("model"))
    card = naming.card(record.text("system") or record.text("hardware"))
    gpus = record.needed("n_gpus", most=MOST_GPUS)
    mode = record.words("mode", "policy")
    train, rollout = _split(mode, gpus)
    is_off_policy = re.search(r"off|async", mode) is not None
    tp, pp, is_megatron = _layout(record)
    if train % (tp * pp):
        raise Unpredictable(f"{train} GPUs do not hold layouts of {tp * pp}")
    if "fp8" in record.words("precision"):
        card = in_8_bits(card)
        assumed.append("matrix products in 8 bits, all else in 16")
    old = record.number("old_logprob_s")
    return Run(
        model=model,
        card=card,
        train_gpus=train,
        rollout_gpus=rollout,
        overlaps=is_off_policy and "staleness 0)" not in mode,
        batch=_batch(record, assumed),
        engine=Engine.MEGATRON if is_megatron else Engine.FSDP,
        tp=tp,
        pp=pp,
        rollout_tp=_first(record.text("gen_tp_pp")),
        has_old=bool(old) or "fully async" not in mode,
        has_ref=record.has("ref_s") or record.has("gen_gbs"),
        assumed=tuple(assumed),
    )


def _split(mode: str, gpus: int) -> tuple[int, int]:
    """Return the GPUs of trainer and rollout; no rollout when all do both in turns."""
    named = re.search(r"rollout (\d+) ?: ?trainer (\d+)", mode)
    if named is not None:
        parts = int(named[2]), int(named[1])
    elif (pair := re.search(r"(?<![\d.])(\d+) ?: ?(\d+)(?![\d.])", mode)) is not None:
        first, second = int(pair[1]), int(pair[2])
        parts = (second, first) if "one-step" in mode or "one step" in mode or "rollout:" in mode else (first, second)
    elif re.search(r"off|async", mode):
        parts = gpus // 2, gpus - gpus // 2
    else:
        return gpus, 0
    if min(parts) < 1 or sum(parts) != gpus:
        raise Unpredictable(f"{parts[0]} and {parts[1]} GPUs are not the {gpus} of the row")
    return parts


def _layout(record: Record) -> tuple[int, int, bool]:
    """Return tensor and pipeline parallel sizes of the trainer, and whether it is Megatron."""
    text = record.text("train_layout")
    sizes = [int(size) for size in re.findall(r"\b\d{1,4}\b", text)]
    if len(sizes) >= 3:  # [TP, CP, EP, PP, VPP]: n/a is no number, so that PP is the last one, or the last but one
        has_virtual = "n/a" not in text
        return max(sizes[0], 1), max(sizes[-2 if has_virtual else -1], 1), True
    return 1, 1, "megatron" in record.words("engine", "mode")


def _first(text: str) -> int | None:
    found = re.search(r"\d{1,4}", text)
    return max(int(found[0]), 1) if found else None


def _batch(record: Record, assumed: list[str]) -> Batch:
    mean, longest = _lengths(record, assumed)
    whole = record.count("gen_gbs", most=MOST_SEQUENCES)
    if whole is not None:
        samples = SAMPLES if whole % SAMPLES == 0 else 1
        prompts, updates = whole // samples, max(whole // (record.count("train_gbs_table", most=MOST_SEQUENCES) or whole), 1)
    else:
        stated = (
            record.count("train_batch_prompts", most=MOST_SEQUENCES),
            record.count("n_samples", most=1 << 12),
            record.count("mini_batch", most=MOST_SEQUENCES),
        )
        prompts, samples, minibatch = (value or usual for value, usual in zip(stated, BATCH, strict=True))
        if None in stated:
            assumed.append(f"{prompts} prompts × {samples} samples, updates of {minibatch} prompts")
        updates = max(prompts // minibatch, 1)
    total = PROMPT_TOKENS + longest
    return Batch(prompts, samples, PROMPT_TOKENS, mean, longest, updates, total)


def _lengths(record: Record, assumed: list[str]) -> tuple[int, int]:
    """Return the mean and the longest response, tokens."""
    longest = record.count("max_response", most=MOST_TOKENS)
    whole = record.count("max_seq", most=MOST_TOKENS)
    if longest is None and whole is not None:
        longest = whole - PROMPT_TOKENS
    if longest is None:
        longest = MAX_RESPONSE_TOKENS
        assumed.append(f"{longest} tokens in the longest response")
    average = record.number("avg_seq", least=1, most=MOST_TOKENS)
    mean = record.count("mean_response", most=MOST_TOKENS)
    if average is not None:
        mean = round(average) - PROMPT_TOKENS
    elif mean is None:
        mean = min(MEAN_RESPONSE_TOKENS, longest // 2)
        assumed.append(f"{mean} tokens of response on average")
    if not 1 <= mean <= longest:
        raise Unpredictable(f"a mean response of {mean} tokens is not between 1 and {longest}")
    return mean, longest


# ── the step ────────────────────────────────────────────────────────────────────────────────────────────────


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
    schedule = Schedule.ASYNC if run.overlaps else Schedule.FULL
    job = Workload(Algorithm.GRPO, run.batch, tuple(roles), schedule)
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
    return (max(generation, busy - generation) if run.overlaps else busy) + sync, seconds


def _train(run: Run, job: Workload, actor: Role, where: Hardware) -> dict[Work, int]:
    dp = run.train_gpus // (run.tp * run.pp)
    offload = Offload.NONE if run.rollout_gpus else Offload.BETWEEN
    choice = TrainChoice(run.tp, run.pp, dp, Precision.BF16, Master.FP32, offload, run.batch.micro_batch_tokens)
    times = dict(_times(actor, Part.TRAIN, choice, job, where))
    ref = job.role(RoleName.REF)
    if ref is not None:
        frozen = FrozenChoice(run.tp, run.pp, dp, Precision.BF16, Offload.BETWEEN)
        times |= _times(ref, Part.FROZEN, frozen, job, where)
    return times


def _rollout(run: Run, job: Workload, role: Role, where: Hardware) -> Mapping[Work, int]:
    share = UTILIZATION_ALONE if run.rollout_gpus else UTILIZATION_SHARED
    sizes = (run.rollout_tp,) if run.rollout_tp else (1, 2, 4, 8, 16)
    refusal: Unpredictable | None = None
    for tp in sizes:
        if where.gpus % tp or where.block(tp) is None:
            continue
        choice = RolloutChoice(Engine.VLLM, tp, where.gpus // tp, Precision.BF16, share, MAX_NUM_SEQS)
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
