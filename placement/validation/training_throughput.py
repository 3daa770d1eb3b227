"""
Throughput of training: `placement.timing.stages` predicts the update.

When to modify: tables of other trainers.
"""

from __future__ import annotations

import re

from placement.choices.choices import TrainChoice
from placement.constants.table import constants
from placement.memory.states import FULL_SHARDING
from placement.models.model import Model
from placement.timing import stages
from placement.validation import naming, words
from placement.validation.reading import Folder, Record
from placement.validation.rows import Group, Part, Row, Unpredictable
from placement.validation.setting import GB, hardware, needs_fp8, usual_shape
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

FILE = "train_throughput.csv"
MOST_GPUS = 1 << 20
MOST_TOKENS = 1 << 24
VOCAB = 50_368

_SHAPES = {
    "125m": (768, 12, 12), "350m": (1024, 24, 16), "760m": (1536, 24, 12), "1b": (2048, 24, 16), "3b": (2560, 32, 20),
    "7b": (4096, 32, 32), "13b": (5120, 40, 40), "30b": (7168, 48, 56), "70b": (8192, 80, 64),
}  # fmt: skip
"""Width, layers and heads of the models that llm-foundry trains in its benchmarks (MPT); the counts of the table confirm them."""


def group(folder: Folder) -> Group:
    """Return the rows of ``train_throughput.csv``."""
    return Group("training_throughput", "training, tokens/s per GPU", tuple(one.or_unfit("tokens/s", _row) for one in folder.table(FILE)))


def _row(record: Record) -> Row:
    gpus = record.count("n_gpus", most=MOST_GPUS)
    measured = record.measured("tok_per_s_per_gpu")
    if measured is None and gpus is not None and (total := record.measured("tok_per_s")) is not None:
        measured = total / gpus
    if measured is None:
        raise record.fail("tok_per_s_per_gpu", "a measured value above zero")
    model = record.text("model")
    name = f"{model} × {record.text('seq_len')} tokens, {gpus} {record.text('gpu')}"
    try:
        seconds, tokens, assumed = _predicted(record)
        stated_mfu = record.number("mfu_pct", most=100.0)
    except Unpredictable as why:
        return Row(name, "tokens/s", measured, why=str(why), model=model)
    assert gpus is not None
    mfu = Part("MFU as the table states it, %", stated_mfu, None)
    return Row(name, "tokens/s", measured, tokens / seconds / gpus, assumed=assumed, parts=(mfu,), model=model)


def _predicted(record: Record) -> tuple[float, int, tuple[str, ...]]:
    """Return seconds and tokens of a step, and what was taken for granted."""
    card, gpus = naming.card(record.text("gpu")), record.needed("n_gpus", most=MOST_GPUS)
    length, sequences = record.needed("seq_len", most=MOST_TOKENS), record.needed("microbatch", most=1 << 16)
    whole = record.count("global_batch") or sequences * gpus * (record.count("grad_accum") or 1)
    model, assumed = _model(record)
    fp8 = "fp8" in record.words("precision", "section")
    if fp8:
        needs_fp8(card)
    uplink = re.search(r"(\d{2,5}) ?gbps", record.words("section"))
    where = hardware(card, gpus, node_bytes_per_s=int(uplink[1]) / 8 * GB if uplink else None)
    recompute = Recompute.FULL if record.text("act_ckpt").lower() == "true" else Recompute.NONE
    master = Master.BF16 if record.text("mp_mode").upper() == "PURE" else Master.FP32
    role = Role(RoleName.ACTOR, model, Engine.FSDP, train=TrainMenu(recompute=recompute, fp8=fp8))
    tokens = sequences * length
    batch = Batch(whole, 1, 1, length - 1, length - 1, 1, tokens) if length > 1 else None
    if batch is None or whole < gpus:
        raise Unpredictable("there are fewer sequences than GPUs")
    stage = words.zero_stage(record.text("sharding"))
    if stage == 0:
        assumed = (*assumed, "gradients of whole models are all-reduced: as many bytes as in stage 1 of ZeRO")
    if words.is_hybrid_sharding(record.text("sharding")):
        assumed = (*assumed, "states are spread over all GPUs, where HSDP spreads them over a node")
    if record.text("act_cpu_offload").lower() == "true":
        assumed = (*assumed, "activations on the host cost no time")
    zero = FULL_SHARDING if stage is None else max(stage, 1)
    choice = TrainChoice(1, 1, gpus, Precision.BF16, master, Offload.NONE, tokens, zero)
    return stages.update(role, model, choice, batch, where, constants()).seconds, whole * length, assumed


def _model(record: Record) -> tuple[Model, tuple[str, ...]]:
    name = record.text("model")
    try:
        return naming.find(name), naming.granted(name)
    except Unpredictable:
        parameters = record.needed("n_params")
    shape = _SHAPES.get(name.lower())
    assumed = () if shape else ("a decoder of the usual form with as many parameters",)
    hidden, layers, heads = shape or usual_shape(parameters)
    numbers = {
        "name": name or "unnamed", "hidden": hidden, "layers": layers, "heads": heads, "kv_heads": heads, "vocab": VOCAB, "ffn": 4 * hidden,
        "parameters": parameters, "tie_embeddings": True,
    }  # fmt: skip
    return naming.described(numbers), assumed
