"""
Peaks of training memory: `placement.memory.gpu_memory` predicts the update.

Tables describe a run in words; `_Setting` says what the words mean, and what is taken for granted where they say nothing.

When to modify: tables describe runs in other words.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

from placement.choices.choices import TrainChoice
from placement.constants.table import constants
from placement.memory import gpu_memory
from placement.models.model import Model
from placement.validation import naming
from placement.validation.reading import Folder, Record
from placement.validation.relatives import NF4_BYTES
from placement.validation.rows import Group, Row, Unpredictable
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
MOST_GPUS = 1 << 20
MOST_TOKENS = 1 << 30


@dataclass(frozen=True, slots=True)
class _Setting:
    """A run, read from the words of its row."""

    model: Model
    gpus: int
    tokens: int
    tp: int
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
    assumed = setting.assumed
    return Row(name, "GiB", measured, predicted, assumed=assumed, model=setting.model.name, source=source), setting.model


def _predicted(setting: _Setting) -> float:
    role = Role(RoleName.ACTOR, setting.model, Engine.FSDP, train=setting.menu)
    batch = Batch(setting.gpus, 1, 1, setting.tokens - 1, setting.tokens - 1, 1, setting.tokens)
    dp = setting.gpus // setting.tp
    choice = TrainChoice(setting.tp, 1, dp, Precision.BF16, setting.master, setting.offload, setting.tokens)
    footprint = gpu_memory.train(role, setting.model, choice, batch, constants(), hybrid=True)
    return footprint.active_mib[Work.UPDATE_ACTOR] / GIB


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
    tp = re.search(r"\btp ?=? ?(\d{1,3})\b", f"{setup} {record.text('mode')}".lower())
    size = max(int(tp[1]), 1) if tp else 1
    if gpus % size:
        raise Unpredictable(f"{gpus} GPUs cannot be cut into groups of {size}")
    lora = 8 if "lora" in setup.lower() else 0
    if lora:
        assumed.append("rank 8")
    in_backward = is_torchtune and not lora and gpus == 1
    if in_backward:
        assumed.append("torchtune's recipe for one GPU: the optimizer runs in the backward pass, its state is paged")
    menu = TrainMenu(
        fused_ce=_is_fused(words, assumed),
        lora=lora,
        recompute=_recompute(words, assumed),
        compiled="compile" in words,
        in_backward=in_backward,
        frozen_bytes=NF4_BYTES if "qlora" in setup.lower() else None,
    )
    return _Setting(
        model=model,
        gpus=gpus,
        tokens=tokens,
        tp=size,
        menu=menu,
        master=Master.BF16 if is_torchtune else Master.FP32,
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


def _recompute(words: str, assumed: list[str]) -> Recompute:
    if re.search(r"selective", words):
        return Recompute.SELECTIVE
    if re.search(r"no (recompute|ac\b|activation checkpointing)", words):
        return Recompute.NONE
    if not re.search(r"(full|activation) (recompute|ac\b|checkpoint)", words):
        assumed.append("full recomputation")
    return Recompute.FULL


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
