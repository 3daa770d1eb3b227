"""
Peaks of training memory: `placement.memory.gpu_memory` predicts the update.

Tables describe a run in words; `_Setting` says what the words mean, and what is taken for granted where they say nothing.

When to modify: tables describe runs in other words.
"""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass

from placement.choices.choices import TrainChoice
from placement.constants.table import constants
from placement.memory import gpu_memory
from placement.memory.states import FULL_SHARDING
from placement.models.model import Model
from placement.timing import stages
from placement.validation import naming
from placement.validation import words as reading
from placement.validation.reading import Folder, Record
from placement.validation.relatives import NF4_BYTES
from placement.validation.rows import Group, Part, Row, Unpredictable
from placement.validation.setting import hardware
from placement.workloads.dataflow import Work
from placement.workloads.workload import (
    Batch,
    Engine,
    Master,
    Offload,
    Precision,
    Recompute,
    Role,
    RoleName,
    TrainMenu,
)
from topologies.cards import Card

GIB = 1024
LORA_RANK = 8
"""Rank of adapters where a table names none: that of torchtune's recipes."""

_BF16_MASTER = r"(pure|all)[- ]bf16|bf16 (master|optimizer)|16-bit (master|optimizer)"

UNSAID = "read from the words, a workload cannot say it"
MOST_GPUS = 1 << 20
MOST_TOKENS = 1 << 30


@dataclass(frozen=True, slots=True)
class _Setting:
    """A run, read from the words of its row; *zero* is None where the engine has no such stages."""

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
    assumed: tuple[str, ...]


def group(folder: Folder) -> Group:
    """Return the rows of ``memory.json``, list ``training``."""
    rows = []
    said = ""
    model: Model | None = None
    for record in folder.records(folder.parts("memory.json").get("training"), "memory.json: training"):
        try:
            setup = record.text("setup")
            said = f"{said}; {setup}" if setup.startswith("same") else setup
            row, model = _row(record, said, model)
        except Unpredictable as why:
            row = record.unfit("GiB", why)
        rows.append(row)
    return Group("training_memory", "peak memory of training, GiB per GPU", tuple(rows))


def _row(record: Record, setup: str, before: Model | None) -> tuple[Row, Model | None]:
    """Return the row, and the model that the next one may mean."""
    measured = record.measured("measured_peak")
    if measured is None:
        raise record.fail("measured_peak", "a measured value above zero")
    model = record.text("model")
    shown = ", ".join(filter(None, (model, record.text("setup"), record.text("mode"))))
    source = record.text("source")
    try:
        setting = _setting(record, setup, before)
        predicted = _predicted(setting)
        if setting.may_offload and setting.card is not None and predicted * GIB > setting.card.torch_mib:
            # The source says that some of its runs offload; this one would not fit otherwise.
            why = f"state is offloaded, as it would not fit ({predicted:.0f} GiB)"
            setting = dataclasses.replace(setting, offload=Offload.ALWAYS, assumed=(*setting.assumed, why))
            predicted = _predicted(setting)
    except Unpredictable as why:
        return Row(shown, "GiB", measured, why=str(why), model=model, source=source), before
    name = f"{shown}, {setting.gpus} GPU{'s' if setting.gpus > 1 else ''}, {setting.tokens} tokens"
    row = Row(name, "GiB", measured, predicted, assumed=setting.assumed, model=setting.model.name, source=source)
    return dataclasses.replace(row, parts=_speed(record, setting)), setting.model


def _speed(record: Record, setting: _Setting) -> tuple[Part, ...]:
    """Return the throughput of a row that states it beside its peak, where the row or its source names a card."""
    measured = record.measured("tok_per_s_per_gpu")
    card = setting.card or _card(record.text("source"))
    if measured is None or card is None:
        return ()
    role, choice, batch = _job(setting)
    where = hardware(card, setting.gpus)
    if where.block(setting.tp) is None or where.block(setting.tp * setting.sp) is None:
        return ()
    seconds = stages.update(role, setting.model, choice, batch, where, constants()).seconds
    return (Part("tokens/s per GPU", measured, batch.tokens / seconds / setting.gpus),)


def _predicted(setting: _Setting) -> float:
    role, choice, batch = _job(setting)
    footprint = gpu_memory.train(role, setting.model, choice, batch, constants(), hybrid=True)
    return footprint.active_mib[Work.UPDATE_ACTOR] / GIB


def _job(setting: _Setting) -> tuple[Role, TrainChoice, Batch]:
    role = Role(RoleName.ACTOR, setting.model, setting.engine, train=setting.menu)
    dp = setting.gpus // (setting.tp * setting.pp * setting.sp)
    # As many micro-batches as there are stages of the pipeline: the first one then holds all that it can.
    tokens = setting.tokens * setting.sp
    batch = Batch(dp * setting.pp, 1, 1, tokens - 1, tokens - 1, 1, tokens)
    choice = TrainChoice(
        setting.tp, setting.pp, dp, Precision.BF16, setting.master, setting.offload, tokens, sp=setting.sp, ep=setting.ep,
        zero=FULL_SHARDING if setting.zero is None else setting.zero,
    )  # fmt: skip
    return role, choice, batch


def _named(setup: str, before: Model | None) -> Model:
    """Return the model that *setup* names; one of the size that it names is that of the row before, in a table of one family."""
    try:
        return naming.find_in(setup)
    except Unpredictable:
        size = re.search(r"\b(\d{1,3}(?:\.\d)?)b\b", setup.lower())
        if size is None or before is None or not re.search(rf"(?<!\d){re.escape(size[1])}b", before.name.lower()):
            raise
        return before


def _setting(record: Record, setup: str, before: Model | None) -> _Setting:
    name = record.text("model")
    model = naming.find(name) if name else _named(setup, before)
    words = f"{setup} {record.text('mode')} {record.text('source')}".lower()
    assumed: list[str] = list(naming.granted(name or setup))
    is_torchtune = "torchtune" in words
    tokens = record.count("tokens_per_gpu", most=MOST_TOKENS) or _tokens(words)
    gpus = record.count("n_gpus", most=MOST_GPUS) or _gpus(setup)
    said = f"{setup} {record.text('mode')}"
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
    return _Setting(
        model=model,
        gpus=gpus,
        tokens=tokens,
        engine=engine,
        tp=tp,
        pp=pp,
        sp=sp,
        ep=ep,
        zero=_stage(said, engine),
        menu=menu,
        master=Master.BF16 if is_torchtune or re.search(_BF16_MASTER, words) else Master.FP32,
        offload=Offload.ALWAYS if "offload" in setup.lower() else Offload.NONE,
        card=_card(f"{setup} {record.text('gpu')} {record.text('hardware')}"),
        may_offload="offload" in words,
        assumed=tuple(assumed),
    )


def _card(text: str) -> Card | None:
    try:
        return naming.card(text)
    except Unpredictable:
        return None


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
    """Return the stage of ZeRO; FSDP without a word shards fully."""
    stage = reading.zero_stage(said)
    if stage == 0:
        raise Unpredictable("every GPU keeps all of the optimizer (DDP, or stage 0 of ZeRO), which no plan does")
    return stage if engine is Engine.FSDP else None


def _lora(record: Record, said: str, assumed: list[str]) -> int:
    """Return the rank of adapters, 0 without any."""
    rank = record.count("lora_rank", most=65_536) or reading.lora_rank(said)
    if rank == 0:
        assumed.append(f"rank {LORA_RANK}")
    return LORA_RANK if rank == 0 else rank or 0


def _tokens(words: str) -> int:
    """Return the tokens of a micro-batch: ``seq 8192, local batch 2``, ``batch 2, packed 2048``."""
    length = re.search(r"\b(?:seq(?:uence)?(?: len(?:gth)?)?|packed(?: to)?) ?(\d{2,7})\b", words)
    batch = re.search(r"\bbatch(?: size)? (\d{1,4})\b", words)
    if length is None:
        raise Unpredictable("the row does not state tokens_per_gpu")
    return int(length[1]) * (int(batch[1]) if batch else 1)


def _gpus(setup: str) -> int:
    found = re.search(r"\b(\d{1,4}) ?x ?[A-Za-z]*\d", setup)
    if found is None:
        raise Unpredictable("the row does not state n_gpus")
    return int(found[1])
