"""
Weights on their way from the trainer to engines on other GPUs: `placement.timing.stages` and `placement.demand` predict.

When to modify: tables name the two sides in other words.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Mapping

from placement.choices.choices import TrainChoice
from placement.constants.table import constants
from placement.demand import transfer_us
from placement.memory.sending import all_weights
from placement.timing import stages
from placement.timing.collectives import broadcast_s
from placement.validation import naming, words
from placement.validation.reading import Folder, Record
from placement.validation.rows import Group, Row, Unpredictable
from placement.validation.setting import GB, hardware, model_or_usual, nvlink_domain, port_bytes_per_s
from placement.workloads.workload import Engine, Master, Offload, Precision, Role, RoleName, TrainMenu

FILE = "rl_steps.json"
MOST_GPUS = 1 << 16
_INHERITED = ("hardware", "mapping", "source")


def group(folder: Folder) -> Group:
    """Return the rows of ``rl_steps.json``, list ``weight_sync``."""
    rows = []
    before: Mapping[str, str] = {}
    for record in folder.records(folder.parts(FILE).get("weight_sync"), f"{FILE}: weight_sync"):
        try:
            before = {key: before.get(key, "") if record.text(key) == "same" else record.text(key) for key in _INHERITED}
        except Unpredictable as why:
            rows.append(record.unfit("s", why))
            continue
        rows.append(record.or_unfit("s", functools.partial(_row, said=before)))
    return Group("weight_sync", "new weights reach engines on other GPUs, s", tuple(rows))


def _row(record: Record, said: Mapping[str, str]) -> Row:
    low, high = record.measured("sync_s_min"), record.measured("sync_s_max")
    measured = record.measured("sync_s") or (math.sqrt(low * high) if low and high else low or high)
    if measured is None:
        raise record.fail("sync_s", "a measured value above zero")
    model = record.text("model")
    sides = said["mapping"] or f"{record.count('trainer_gpus')} to {record.count('rollout_gpus')} GPUs"
    name = ", ".join(filter(None, (model, record.text("precision"), said["hardware"], sides, record.text("method"))))
    who = record.text("framework") or _framework(said["source"])
    try:
        seconds, assumed = _predicted(record, said)
    except Unpredictable as why:
        return Row(name, "s", measured, why=str(why), framework=who, model=model, source=said["source"])
    return Row(name, "s", measured, seconds, assumed=assumed, framework=who, model=model, source=said["source"])


def _framework(source: str) -> str:
    """Return whose syncs *source* measures: the repository that it names; empty where it names none."""
    found = re.search(r"(?:github:|github\.com/)([\w.-]+/[\w.-]+)", source)
    return found[1].removesuffix(".git") if found else ""


def _predicted(record: Record, said: Mapping[str, str]) -> tuple[float, tuple[str, ...]]:
    model, assumed = model_or_usual(record.text("model"))
    card = naming.card(said["hardware"])
    send, receive = record.count("trainer_gpus", most=MOST_GPUS), record.count("rollout_gpus", most=MOST_GPUS)
    if send is None or receive is None:
        send, receive = _sides(said["mapping"])
    one_by_one = record.fields.get("checkpoint_engine") is False
    # Shards that go straight from GPU to GPU fill no buckets either.
    has_buckets = not one_by_one and "p2p" not in record.words("method")
    c = constants() if has_buckets else dataclasses.replace(constants(), sync_bucket_us=0.0)
    trained = said["mapping"].partition("->")[0]
    said_engine = record.words("engine", "train_engine", "notes", "method")
    is_megatron = re.search(r"[tpe]p\d", trained.lower()) is not None or words.is_megatron(said_engine)
    tp = math.gcd(words.parallel_size(trained, "tp") or 1, send)
    role = Role(RoleName.ACTOR, model, Engine.MEGATRON if is_megatron else Engine.FSDP, train=TrainMenu())
    choice = TrainChoice(tp, 1, send // tp, Precision.BF16, Master.FP32, Offload.NONE, 1)
    sending = stages.send(role, model, choice, hardware(card, send), c, hybrid=False).seconds
    receiving = stages.receive(all_weights(model), hardware(card, receive), c).seconds
    fewer = min(send, receive)
    # Up to a node's GPUs together both sides are in one node (or rack), else every GPU of the smaller side has a port.
    inside = hardware(card, send + receive).ring_bytes_per_s
    joined = nvlink_domain(card)
    between = inside if send + receive <= joined else port_bytes_per_s(card) * min(fewer, joined)
    passing = transfer_us(model, between / GB, c) * 1e-6
    if "fp8" in record.words("precision"):
        assumed = (*assumed, "counted in 16 bits")
    if not one_by_one:
        return max(sending, receiving, passing), assumed
    # Without buckets every tensor is put together and then broadcast over all GPUs of both sides, and the next one waits for it.
    where = hardware(card, send + receive)
    what = all_weights(model)
    each = what.size / what.tensors
    ring, nvlink = where.ring_bytes_per_s, where.ring_nvlink
    broadcast = broadcast_s(each, where.gpus, ring, nvlink=nvlink, c=c, islands=where.islands)
    assumed = (*assumed, "tensor by tensor, where plans count buckets")
    return sending + what.tensors * broadcast, assumed


def _sides(mapping: str) -> tuple[int, int]:
    """Return the GPUs of both sides of ``EP8xDP2->TP2xDP8``: the product of the sizes, experts spread over the others."""
    sides = mapping.split("->")
    if len(sides) != 2:
        raise Unpredictable("the row does not say how many GPUs either side has")
    counts = []
    for side in sides:
        sizes = {kind: int(size) for kind, size in re.findall(r"([A-Z]P)(\d{1,5})", side.upper())}
        if not sizes:
            raise Unpredictable(f"{side!r} names no sizes of parallelism")
        counts.append(math.prod(sizes.values()))
        if not 1 <= counts[-1] <= MOST_GPUS:
            raise Unpredictable(f"{side!r} is no layout of 1 to {MOST_GPUS} GPUs")
    return counts[0], counts[1]
