"""
What a published run of reinforcement learning was: its model, GPUs, schedule and batch.

When to modify: tables describe runs in other words, or state more of them.
"""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass

from placement.memory.states import FULL_SHARDING
from placement.models.model import Model
from placement.validation import naming, words
from placement.validation.reading import Record
from placement.validation.rl_batch import read_batch
from placement.validation.rl_mode import schedule_of, split
from placement.validation.rows import Unpredictable
from placement.validation.setting import GPUS_PER_NODE, model_or_usual, needs_fp8
from placement.workloads.workload import Algorithm, Batch, Engine, KvCache, Quantization, Schedule, TrainMenu
from topologies.cards import Card

MOST_GPUS = 1 << 16
MEAN_RESPONSE_TOKENS = 1000
"""Mean response where a table names the longest alone: about a thousand tokens in published runs of models of 7B on maths (Dr. GRPO)."""

LORA_RANK = 32
"""Rank of adapters where a table names none (verl's page on LoRA)."""

ALGORITHMS = {
    "ppo": Algorithm.PPO, "vapo": Algorithm.PPO, "rloo": Algorithm.RLOO, "remax": Algorithm.REMAX, "reinforce++": Algorithm.REINFORCE_PP,
}  # fmt: skip
"""What tables call algorithms whose dataflow is another than that of GRPO; DAPO's is not."""

AS_GRPO = ("grpo", "dapo", "gspo", "dr. grpo", "dr.grpo", "dr grpo", "drgrpo", "cispo", "gmpo")
"""Algorithms with the dataflow of GRPO."""

OTHERS = r"(?<![a-z])(dpo|ipo|kto|orpo|simpo|sft|rm|reward model\w*|distill\w*|gkd|pre-?train\w*|supervised)(?![a-z])"
"""Trainings without generation of their own answers: a step of theirs is another quantity."""

LONG_TOKENS, SHARING = 16_384, 4
"""Sequences of so many tokens and more are shared by so many GPUs in training (Ulysses) in verl's recipes for FSDP."""

_SAID = ("engine", "mode", "notes", "train_layout")


@dataclass(frozen=True, slots=True)
class Run:
    """
    What a row says, and what is taken for granted where it says nothing.

    Parameters
    ----------
    train_gpus, rollout_gpus
        GPUs of both sides; none for the rollout when the same GPUs do both in turns.
    schedule
        Whether generation and training take turns or run at the same time, and whether generation then waits for its longest
        answer.
    has_old, has_ref
        Whether the trainer computes log-probabilities of its own, and of a reference.
    ep
        Ranks that share the experts of a mixture, as many as the row says or, where Megatron spreads them over tensor parallel ranks
        too, as the data parallel ones can.
    sp
        GPUs that share a sequence in training.
    rollout_tp
        None when the row does not say it: the smallest that starts.
    train
        How the actor, and a critic, are trained: adapters, recomputation, 8 bits.
    zero
        Stage of ZeRO.
    critic, reward
        Their models; None where the run has none, or a function scores answers.
    share
        Of the memory that an engine claims; None when the row does not say it.
    """

    model: Model
    card: Card
    train_gpus: int
    rollout_gpus: int
    schedule: Schedule
    batch: Batch
    engine: Engine
    tp: int
    pp: int
    ep: int
    sp: int
    rollout_tp: int | None
    quantization: Quantization
    kv_cache: KvCache
    share: float | None
    train: TrainMenu
    zero: int
    algorithm: Algorithm
    critic: Model | None
    reward: Model | None
    has_old: bool
    has_ref: bool
    assumed: tuple[str, ...]


def read_run(record: Record, mean_tokens: int = MEAN_RESPONSE_TOKENS) -> Run:
    """
    Return what *record* describes.

    Parameters
    ----------
    mean_tokens
        Mean response that is taken for granted where the row states none.

    Raises
    ------
    Unpredictable
        If the row leaves out what nothing can be assumed for.
    """
    model, taken = _model(record.text("model"))
    assumed: list[str] = list(taken)
    named = record.text("system") or record.text("hardware") or record.text("gpus") or record.text("gpu")
    card = naming.one_card(named)
    gpus = record.count("n_gpus", most=MOST_GPUS) or words.gpu_count(named) or record.needed("n_gpus", most=MOST_GPUS)
    mode = record.words("mode", "policy")
    train, rollout = split(mode, gpus, assumed)
    tp, pp, ep, is_megatron = _layout(record)
    if train % (tp * pp):
        raise Unpredictable(f"{train} GPUs do not hold layouts of {tp * pp}")
    said = record.words(*_SAID)
    quantization, fp8 = _eight_bits(record, card, assumed)
    old = record.number("old_logprob_s")
    batch = read_batch(record, assumed, mean_tokens)
    algorithm = _algorithm(record, assumed)
    critic = _other(record, "critic", model, assumed) if algorithm is Algorithm.PPO else None
    sp = 1
    if not is_megatron and batch.micro_batch_tokens >= LONG_TOKENS and train % SHARING == 0 and model.can_share_heads(SHARING):
        sp = SHARING
        assumed.append(f"sequences shared by {SHARING} GPUs")
    run = Run(
        model=model,
        card=card,
        train_gpus=train,
        rollout_gpus=rollout,
        schedule=schedule_of(mode),
        batch=batch,
        engine=Engine.MEGATRON if is_megatron else Engine.FSDP,
        tp=tp,
        pp=pp,
        ep=math.gcd(ep, model.experts, train // (tp * pp)) if model.experts else 1,
        sp=sp,
        rollout_tp=_first(record.text("gen_tp_pp")),
        quantization=quantization,
        kv_cache=KvCache.FP8 if "8" in record.words("kv_cache_dtype") or words.has_8_bit_cache(said) else KvCache.AUTO,
        share=record.number("gpu_memory_utilization", least=0.01, most=0.99) or words.claimed_share(said),
        train=TrainMenu(
            lora=_lora(record, said, assumed),
            fp8=fp8,
            recompute=words.recomputation(said),
            distributed_optimizer=not words.without_distributed_optimizer(said),
        ),
        zero=_stage(said, is_megatron=is_megatron),
        algorithm=algorithm,
        critic=critic,
        reward=_other(record, "reward_model", None, assumed),
        has_old=bool(old) or "fully async" not in mode,
        has_ref=record.has("ref_s") or record.has("gen_gbs"),
        assumed=(),
    )
    return dataclasses.replace(run, assumed=(*assumed, *_unsaid(record, run, said)))


def _model(name: str) -> tuple[Model, tuple[str, ...]]:
    """Return the model; a mixture of experts that is not known is not taken for a dense model."""
    return (naming.find(name), naming.granted(name)) if naming.sounds_like_experts(name) else model_or_usual(name)


def _eight_bits(record: Record, card: Card, assumed: list[str]) -> tuple[Quantization, bool]:
    """Return the engine's weights, and whether training multiplies in 8 bits: where a row says ``fp8`` alone, both do."""
    stated = record.words("precision")
    if "fp8" not in stated:
        if (other := re.search(r"int8|int4|w8a8|w4a16|awq|gptq|nvfp4|mxfp[48]|fp4|fp32|tf32", stated)) is not None:
            assumed.append(f"16 bits, where the row says {other[0]}")
        return Quantization.NONE, False
    if words.is_only_generation(record.words("precision", "mode", "notes")):
        return Quantization.FP8, False
    needs_fp8(card)
    assumed.append("training and generation in 8 bits")
    return Quantization.FP8, True


def _algorithm(record: Record, assumed: list[str]) -> Algorithm:
    said = record.words("algorithm").strip()
    if (other := re.search(OTHERS, said)) is not None:
        raise Unpredictable(f"{other[1]} generates no answers: a step of it is another quantity than one of reinforcement learning")
    for name, algorithm in ALGORITHMS.items():
        if said.startswith(name):
            return algorithm
    if not said.startswith(AS_GRPO):
        if not said and record.has("critic"):
            return Algorithm.PPO
        assumed.append(f"{said[:40]} runs as GRPO does" if said else "GRPO, as no algorithm is named")
    return Algorithm.GRPO


def _unsaid(record: Record, run: Run, said: str) -> tuple[str, ...]:
    """Return what moves the time of *run*, is in no field and no word of its row, and is taken for granted."""
    found = [f"prompts of {run.batch.prompt_tokens} tokens", "a micro-batch is one sequence of the longest"]
    if run.train.recompute is None:
        found.append("selective recomputation" if run.engine is Engine.MEGATRON else "full recomputation")
    if run.rollout_tp is None:
        found.append("engines of the fewest GPUs that start")
    if run.share is None:
        found.append("engines claim the usual share of the memory")
    if not run.rollout_gpus:
        found.append("states wait in host memory during generation")
    if run.engine is Engine.FSDP and not re.search(r"fsdp|zero|deepspeed", said):
        found.append("training runs under FSDP")
    if run.engine is Engine.MEGATRON and words.parallel_size(said, "tp") is None and not record.has("train_layout"):
        found.append("Megatron without tensor or pipeline parallelism")
    if words.is_hybrid_sharding(said):
        found.append("states are spread over all GPUs, where HSDP spreads them over a node")
    if not run.has_ref:
        found.append("no log-probabilities of a reference")
    if run.train_gpus + run.rollout_gpus > GPUS_PER_NODE:
        found.append(f"nodes of {GPUS_PER_NODE} GPUs, each with a network port of its own")
    return tuple(found)


def _other(record: Record, key: str, usual: Model | None, assumed: list[str]) -> Model | None:
    """Return the model of another role that *key* names; *usual* where the row does not name it."""
    if record.has(key) and isinstance(record.fields[key], str):
        return naming.find(record.text(key))
    if usual is not None:
        assumed.append(f"a {key} as large as the actor, on the same GPUs")
    return usual


def _lora(record: Record, said: str, assumed: list[str]) -> int:
    rank = record.count("lora_rank", most=65_536) or words.lora_rank(f"{said} {record.words('model')}")
    if rank == 0:
        assumed.append(f"adapters of rank {LORA_RANK}")
        return LORA_RANK
    return rank or 0


def _stage(said: str, *, is_megatron: bool) -> int:
    """Return the stage of ZeRO that FSDP or DeepSpeed runs; FSDP without a word shards fully."""
    stage = None if is_megatron else words.zero_stage(said)
    if stage == 0:
        raise Unpredictable("every GPU keeps all of the optimizer (DDP, or stage 0 of ZeRO), which no plan does")
    return stage or FULL_SHARDING


def _layout(record: Record) -> tuple[int, int, int, bool]:
    """Return tensor, pipeline and expert parallel sizes of the trainer, and whether it is Megatron."""
    text = record.text("train_layout")
    sizes = [int(size) for size in re.findall(r"\b\d{1,4}\b", text)]
    said = record.words(*_SAID)
    if len(sizes) >= 3:  # [TP, CP, EP, PP, VPP]: n/a is no number, so that PP is the last one, or the last but one
        has_virtual = "n/a" not in text
        return max(sizes[0], 1), max(sizes[-2 if has_virtual else -1], 1), max(sizes[2], 1), True
    is_megatron = words.is_megatron(said)
    tp, pp, ep = (words.parallel_size(said, kind) or 1 for kind in ("tp", "pp", "ep"))
    return (tp, pp, ep, True) if is_megatron else (1, 1, 1, False)


def _first(text: str) -> int | None:
    found = re.search(r"\d{1,4}", text)
    return max(int(found[0]), 1) if found else None
