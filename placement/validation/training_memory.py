"""
Peaks of training memory: `placement.memory.gpu_memory` predicts the update.

When to modify: tables state another figure of a training. What their words mean is `placement.validation.training_setting`'s to read.
"""

from __future__ import annotations

import dataclasses

from placement.choices.choices import TrainChoice
from placement.constants.table import constants
from placement.memory import gpu_memory
from placement.memory.states import FULL_SHARDING
from placement.models.model import Model
from placement.timing import stages
from placement.validation.reading import Folder, Record
from placement.validation.rows import Group, Part, Row, Unpredictable
from placement.validation.setting import hardware
from placement.validation.training_setting import Setting, card_in, read_setting
from placement.workloads.dataflow import Work
from placement.workloads.workload import (
    Batch,
    Master,
    Offload,
    Precision,
    Role,
    RoleName,
)

GIB = 1024


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
        setting = read_setting(record, setup, before)
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


def _speed(record: Record, setting: Setting) -> tuple[Part, ...]:
    """Return the throughput of a row that states it beside its peak, where the row or its source names a card."""
    measured = record.measured("tok_per_s_per_gpu")
    card = setting.card or card_in(record.text("source"))
    if measured is None or card is None:
        return ()
    role, choice, batch = _job(setting)
    where = hardware(card, setting.gpus)
    if where.block(setting.tp) is None or where.block(setting.tp * setting.sp) is None:
        return ()
    seconds = stages.update(role, setting.model, choice, batch, where, constants()).seconds
    return (Part("tokens/s per GPU", measured, batch.tokens / seconds / (setting.tp * setting.pp * setting.sp * setting.states_on)),)


def _predicted(setting: Setting) -> float:
    role, choice, batch = _job(setting)
    footprint = gpu_memory.train(role, setting.model, choice, batch, constants(), hybrid=True)
    return (footprint.active_mib[Work.UPDATE_ACTOR] - _saved_mib(setting)) / GIB


def _saved_mib(setting: Setting) -> float:
    """Return what moments of *optimizer_bytes* save on a GPU: fp32 ones have 8 bytes a parameter, those of a 16-bit master 4."""
    if setting.optimizer_bytes is None or setting.menu.in_backward or setting.offload is Offload.ALWAYS:
        return 0.0
    usual = 8 if setting.master is Master.FP32 else 4
    return (usual - setting.optimizer_bytes) * setting.model.parameters / (setting.tp * setting.pp * setting.states_on) / 2**20


def _job(setting: Setting) -> tuple[Role, TrainChoice, Batch]:
    role = Role(RoleName.ACTOR, setting.model, setting.engine, train=setting.menu)
    # Ranks that keep the same states hold what one of them holds.
    dp = setting.states_on
    # As many micro-batches as there are stages of the pipeline: the first one then holds all that it can.
    tokens = setting.tokens * setting.sp
    batch = Batch(dp * setting.pp, 1, 1, tokens - 1, tokens - 1, 1, tokens)
    choice = TrainChoice(
        setting.tp, setting.pp, dp, Precision.BF16, setting.master, setting.offload, tokens, sp=setting.sp, ep=setting.ep,
        zero=FULL_SHARDING if setting.zero is None else setting.zero,
    )  # fmt: skip
    return role, choice, batch
