"""
Collectives against fits of NCCL measurements: `placement.collectives` predicts.

A row is a system, an operation and a group size, at the largest message that was measured. Of several curves of one kind the
fastest counts: those are of one node, the others spread their GPUs over nodes or sockets, which the rows do not say.

When to modify: an operation that is not predicted yet.
"""

from __future__ import annotations

from collections.abc import Callable

from placement import collectives
from placement.constants import constants
from placement.validation import naming
from placement.validation.reading import Folder, Record
from placement.validation.rows import Group, Part, Row, Unpredictable
from placement.validation.setting import GB, GPUS_PER_NODE, hardware
from topologies.cards import Card
from topologies.links import link, nvlink

MIB = 2**20
MOST_GPUS = 1 << 16

_FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "alltoall": lambda n: (n - 1) / n,
    "send_recv": lambda _: 1.0,
}
"""Bytes on the bus over bytes of the message, as nccl-tests count them."""


def group(folder: Folder) -> Group:
    """Return the rows of ``collectives.json``."""
    kinds: dict[tuple[str, str, int], list[Record]] = {}
    for record in folder.records(folder.document("collectives.json"), "collectives.json"):
        size = record.count("n", most=MOST_GPUS)
        if size is None:
            raise record.fail("n", "the number of GPUs")
        kinds.setdefault((record.text("system"), record.text("op"), size), []).append(record)
    rows = tuple(_row(*kind, records) for kind, records in kinds.items())
    return Group("collectives", "collectives at the largest measured message, ms", rows)


def _row(system: str, op: str, size: int, records: list[Record]) -> Row:
    rates: list[tuple[float, Record]] = []
    for one in records:
        rate = one.measured("busbw_at_max_GBs") or one.measured("busbw_fit_GBs")
        if rate is None:
            raise one.fail("busbw_at_max_GBs", "a measured value above zero")
        rates.append((rate, one))
    rate, record = max(rates, key=lambda pair: pair[0])
    length = record.count("max_bytes") or 512 * MIB
    name = f"{system} {op} × {size}, {length / MIB:.0f} MiB"
    source = record.text("source")
    factor = _FACTORS.get(op)
    others = tuple(Part("a slower curve, GB/s", other, None) for other, one in rates if one is not record)
    if factor is None:
        return Row(name, "ms", length / (rate * GB) * 1e3, why=f"nothing predicts the operation {op!r}", source=source)
    if size == 1:
        return Row(name, "ms", length / (rate * GB) * 1e3, why="one GPU has nobody to exchange with", source=source)
    measured = factor(size) * length / (rate * GB) * 1e3
    try:
        seconds, assumed = _predicted(system, op, size, length)
    except Unpredictable as why:
        return Row(name, "ms", measured, why=str(why), parts=others, source=source)
    bus = Part("bus bandwidth, GB/s", rate, factor(size) * length / seconds / GB)
    return Row(name, "ms", measured, seconds * 1e3, assumed=assumed, parts=(bus, *others), source=source)


def _predicted(system: str, op: str, size: int, length: int) -> tuple[float, tuple[str, ...]]:
    """Return seconds, and what was taken for granted."""
    card = naming.card(system)
    width, over_nvlink, assumed = _ring(card, system, size)
    c = constants()
    if op == "all_reduce":
        in_switch = collectives.reduces_in_switch(card.compute_capability, size)
        seconds = collectives.all_reduce_s(length, size, width, nvlink=over_nvlink, c=c, in_switch=in_switch)
    elif op == "send_recv":
        seconds = collectives.send_s(length, width, nvlink=over_nvlink, c=c)
    else:
        # Every rank keeps its own share of an all-to-all, as of an all-gather: (n-1)/n of the bytes leave it.
        seconds = collectives.gather_s(length, size, width, nvlink=over_nvlink, c=c)
    return seconds, assumed


def _ring(card: Card, system: str, size: int) -> tuple[float, bool, tuple[str, ...]]:
    words = system.lower()
    if size > GPUS_PER_NODE:
        return hardware(card, size).ring_bytes_per_s, False, (f"nodes of {GPUS_PER_NODE} with a port for each GPU",)
    if "pairwise" in words or "bridge" in words:
        if size == 2:
            return nvlink(card.nvlink_links, card, card).gb_per_s * GB, True, ("two bridged GPUs",)
        return link("NODE", card, card).gb_per_s * GB, False, ("bridged pairs, over PCIe between them",)
    where = hardware(card, size)
    return where.ring_bytes_per_s, where.ring_nvlink, () if card.is_wired else ("all GPUs under one PCIe root",)
