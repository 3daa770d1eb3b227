"""
What the words of a row say of a training: its model, batch, layout, and how its states are kept.

When to modify: tables describe runs in other words. How one word is read is `placement.validation.words`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from placement.models.model import Model
from placement.validation import naming
from placement.validation import words as reading
from placement.validation.reading import Record
from placement.validation.relatives import NF4_BYTES
from placement.validation.rows import Unpredictable
from placement.validation.setting import GPUS_PER_NODE
from placement.workloads.workload import Engine, Master, Offload, Recompute, TrainMenu
from topologies.cards import Card

LORA_RANK = 8
"""Rank of adapters where a table names none: that of torchtune's recipes."""

_BF16_MASTER = r"(pure|all)[- ]bf16|bf16 (master|optimizer)|16-bit (master|optimizer)"

UNSAID = "read from the words, a workload cannot say it"
MOST_GPUS = 1 << 20
MOST_TOKENS = 1 << 30


@dataclass(frozen=True, slots=True)
class Setting:
    """
    A run, read from the words of its row.

    *zero* is None where the engine has no such stages. *states_on* is how many data-parallel ranks share a state, *optimizer_bytes* of
    both moments of a parameter where they are other than those of the master.
    """

    model: Model
    gpus: int
    tokens: int
    engine: Engine
    tp: int
    pp: int
    sp: int
    ep: int
    zero: int | None
    menu: TrainMenu
    master: Master
    offload: Offload
    card: Card | None
    may_offload: bool
    states_on: int
    optimizer_bytes: int | None
    assumed: tuple[str, ...]


def _named(setup: str, before: Model | None) -> Model:
    """Return the model that *setup* names; one of the size that it names is that of the row before, in a table of one family."""
    try:
        return naming.find_in(setup)
    except Unpredictable:
        size = re.search(r"\b(\d{1,3}(?:\.\d)?)b\b", setup.lower())
        if size is None or before is None or not re.search(rf"(?<!\d){re.escape(size[1])}b", before.name.lower()):
            raise
        return before


def read_setting(record: Record, setup: str, before: Model | None) -> Setting:
    name = record.text("model")
    model = naming.find(name) if name else _named(setup, before)
    words = f"{setup} {record.text('mode')} {record.text('source')}".lower()
    assumed: list[str] = list(naming.granted(name) if name else naming.granted_in(setup, model))
    is_torchtune = "torchtune" in words
    said = f"{setup} {record.text('mode')}"
    tokens = record.count("tokens_per_gpu", most=MOST_TOKENS) or _tokens(record, (said.lower(), words), assumed)
    gpus = record.count("n_gpus", most=MOST_GPUS) or _gpus(f"{said} {record.text('gpu')} {record.text('hardware')}", record.text("source"))
    engine = Engine.MEGATRON if reading.is_megatron(words) else Engine.FSDP
    tp, pp, sp, ep = _layout(said, model, engine, gpus)
    if pp > 1 and engine is Engine.FSDP:
        assumed.append("a pipeline under FSDP, which no plan has")
    lora = _lora(record, said, assumed)
    in_backward = is_torchtune and not lora and gpus == 1
    if in_backward:
        assumed.append(f"torchtune's recipe for one GPU: the optimizer runs in the backward pass, its state is paged ({UNSAID})")
    fused, is_compiled, is_nf4 = _is_fused(words, assumed), "compile" in words, "qlora" in setup.lower()
    if is_compiled and not fused:
        assumed.append(f"the loss is compiled into one kernel ({UNSAID})")
    if is_nf4:
        assumed.append(f"frozen weights in 4 bits ({UNSAID})")
    menu = TrainMenu(
        fused_ce=fused,
        lora=lora,
        recompute=_recompute(words, engine, assumed),
        distributed_optimizer=not reading.without_distributed_optimizer(said),
        compiled=is_compiled,
        in_backward=in_backward,
        frozen_bytes=NF4_BYTES if is_nf4 else None,
    )
    return Setting(
        model=model,
        gpus=gpus,
        tokens=tokens,
        engine=engine,
        tp=tp,
        pp=pp,
        sp=sp,
        ep=ep,
        zero=_stage(said, engine),
        states_on=_states_on(said, engine, gpus // (tp * pp * sp), assumed),
        optimizer_bytes=_optimizer_bytes(words, lora, assumed),
        menu=menu,
        master=_master(words, lora, is_torchtune, assumed),
        offload=Offload.ALWAYS if "offload" in setup.lower() else Offload.NONE,
        card=card_in(f"{setup} {record.text('gpu')} {record.text('hardware')}"),
        may_offload="offload" in words,
        assumed=tuple(assumed),
    )


def card_in(text: str) -> Card | None:
    try:
        return naming.card(text)
    except Unpredictable:
        return None


def _master(words: str, lora: int, is_torchtune: bool, assumed: list[str]) -> Master:
    """Return the precision of the state: 32 bits, or 16 where words say so and under adapters, whose frozen weights stay as published."""
    if is_torchtune or re.search(_BF16_MASTER, words):
        return Master.BF16
    if lora and reading.other_precision(words) != "fp32":
        assumed.append("adapters on weights in 16 bits, as they are published")
        return Master.BF16
    return Master.FP32


def _is_fused(words: str, assumed: list[str]) -> bool:
    if re.search(r"unfused|full logits", words):
        return False
    if re.search(r"chunked|fused|\brl\b|torchtune|liger", words):
        return True
    assumed.append("logits are kept whole")
    return False


def _recompute(words: str, engine: Engine, assumed: list[str]) -> Recompute | None:
    found = reading.recomputation(words)
    if found is None:
        assumed.append("selective recomputation" if engine is Engine.MEGATRON else "full recomputation")
    return found


def _layout(said: str, model: Model, engine: Engine, gpus: int) -> tuple[int, int, int, int]:
    """Return the sizes of tensor, pipeline, sequence and expert parallelism; each rank of the rest is a data-parallel one."""
    tp, pp, ep = (reading.parallel_size(said, kind) or 1 for kind in ("tp", "pp", "ep"))
    sp = (reading.parallel_size(said, "sp") or reading.parallel_size(said, "cp") or 1) if engine is Engine.FSDP else 1
    if gpus % (tp * pp * sp):
        raise Unpredictable(f"{gpus} GPUs cannot be cut into groups of {tp * pp * sp}")
    if pp > model.layers:
        raise Unpredictable(f"{model.layers} layers cannot be cut into {pp} stages")
    spread = ep if engine is Engine.MEGATRON and model.experts else 1
    return tp, pp, sp, math.gcd(spread, model.experts, gpus // (tp * pp)) if spread > 1 else 1


def _stage(said: str, engine: Engine) -> int | None:
    """Return the stage of ZeRO; FSDP without a word shards fully, and stage 0 is that of a rank alone (`_states_on`)."""
    stage = reading.zero_stage(said)
    return (stage or None) if engine is Engine.FSDP else None


def _states_on(said: str, engine: Engine, ranks: int, assumed: list[str]) -> int:
    """Return over how many of the data-parallel *ranks* states are spread: all, those of a node, or none."""
    if engine is Engine.FSDP and ranks > 1 and reading.zero_stage(said) == 0:
        assumed.append("a GPU keeps all states, as one alone does (DDP), without buckets of gradients")
        return 1
    if engine is Engine.FSDP and reading.is_hybrid_sharding(said) and ranks > GPUS_PER_NODE:
        assumed.append(f"states are spread over the {GPUS_PER_NODE} GPUs of a node (HSDP)")
        return GPUS_PER_NODE
    return ranks


def _optimizer_bytes(words: str, lora: int, assumed: list[str]) -> int | None:
    """Return the bytes of Adam's moments where they are quantized (Dettmers et al., 2022: 8 bits each); None for the usual ones."""
    other = reading.other_precision(words)
    if other is not None:
        assumed.append(f"activations in 16 bits, where the row says {other}")
    if lora or not reading.has_8_bit_optimizer(words):
        return None
    assumed.append(f"Adam's moments in 8 bits ({UNSAID})")
    return 2


def _lora(record: Record, said: str, assumed: list[str]) -> int:
    """Return the rank of adapters, 0 without any."""
    rank = record.count("lora_rank", most=65_536) or reading.lora_rank(said)
    if rank == 0:
        assumed.append(f"rank {LORA_RANK}")
    return LORA_RANK if rank == 0 else rank or 0


def _tokens(record: Record, said: tuple[str, ...], assumed: list[str]) -> int:
    """Return the tokens of a micro-batch: ``seq 8192, local batch 2``; what the row says counts before what its source does."""
    length = record.count("seq_len", most=MOST_TOKENS) or _first(reading.sequence_tokens, said)
    if length is None:
        raise Unpredictable("the row does not state tokens_per_gpu, nor how long sequences are")
    batch = record.count("micro_batch_size", most=1 << 16) or record.count("batch_size", most=1 << 16) or _first(reading.micro_batch, said)
    if batch is None:
        assumed.append("a micro-batch is one sequence")
    if length * (batch or 1) > MOST_TOKENS:
        raise Unpredictable(f"a micro-batch of {length} × {batch} tokens is larger than any")
    return length * (batch or 1)


def _gpus(*said: str) -> int:
    found = _first(reading.gpu_count, said)
    if found is None:
        raise Unpredictable("the row does not state n_gpus")
    if not 1 <= found <= MOST_GPUS:
        raise Unpredictable(f"a run has 1 to {MOST_GPUS} GPUs, not {found}")
    return found


def _first(read: Callable[[str], int | None], said: tuple[str, ...]) -> int | None:
    return next((found for text in said if (found := read(text)) is not None), None)
