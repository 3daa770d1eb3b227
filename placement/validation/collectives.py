"""
Collectives against fits of NCCL measurements: `placement.timing.collectives` predicts.

A row is a system, an operation and a group size, at the largest message that was measured. Of several curves of one such kind those
within a node (``devices_per_node``) count before those over nodes, then the fastest, and the row says so: the others spread their GPUs
over sockets, which they do not state. A curve over nodes needs the rate of the network between them (``network_gbit_per_s`` or ``400
Gbps`` in the words).

When to modify: an operation that is not predicted yet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from placement.constants.table import constants
from placement.timing import collectives
from placement.validation import naming
from placement.validation.reading import Folder, Record
from placement.validation.rows import Group, Part, Row, Unpredictable
from placement.validation.setting import GB, hardware, inside, nvlink_domain
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
    unfit: list[Row] = []
    for record in folder.records(folder.document("collectives.json"), "collectives.json"):
        try:
            kinds.setdefault(_kind(record), []).append(record)
        except Unpredictable as why:
            unfit.append(record.unfit("ms", why))
    rows = tuple(_row(*kind, records) for kind, records in kinds.items())
    return Group("collectives", "collectives at the largest measured message, ms", (*rows, *unfit))


def _kind(record: Record) -> tuple[str, str, int]:
    """Return what curves of one kind have in common, of a row that has all that it takes."""
    size = record.count("n", most=MOST_GPUS)
    if size is None:
        raise record.fail("n", "the number of GPUs")
    _rate(record), _per_node(record), record.count("max_bytes"), record.text("source"), record.measured("network_gbit_per_s")
    return record.text("system"), record.text("op"), size


def _per_node(record: Record) -> int | None:
    """Return how many GPUs one node holds; None when the row does not say."""
    return record.count("devices_per_node", most=MOST_GPUS)


def _rate(record: Record) -> float:
    rate = record.measured("busbw_at_max_GBs") or record.measured("busbw_fit_GBs")
    if rate is None:
        raise record.fail("busbw_at_max_GBs", "a measured value above zero")
    return rate


def _row(system: str, op: str, size: int, records: list[Record]) -> Row:
    rates = [(_rate(one), one) for one in records]
    within = [(rate, one) for rate, one in rates if (_per_node(one) or size) >= size]
    rate, record = max(within or rates, key=lambda pair: pair[0])
    per_node = _per_node(record)
    length = record.count("max_bytes") or 512 * MIB
    over = "" if per_node is None or per_node >= size else f" over nodes of {per_node}"
    name = f"{system} {op} × {size}{over}, {length / MIB:.0f} MiB"
    source = record.text("source")
    factor = _FACTORS.get(op)
    others = tuple(Part("a slower curve, GB/s", other, None) for other, one in rates if one is not record)
    if factor is None:
        return Row(name, "ms", length / (rate * GB) * 1e3, why=f"nothing predicts the operation {op!r}", source=source)
    if size == 1:
        return Row(name, "ms", length / (rate * GB) * 1e3, why="one GPU has nobody to exchange with", source=source)
    measured = factor(size) * length / (rate * GB) * 1e3
    try:
        seconds, assumed = _predicted(record, system, op, size, per_node, length)
    except Unpredictable as why:
        return Row(name, "ms", measured, why=str(why), parts=others, model=system, source=source)
    if others:
        assumed = (*assumed, *_left_out(len(within), len(rates)))
    bus = Part("bus bandwidth, GB/s", rate, factor(size) * length / seconds / GB)
    return Row(name, "ms", measured, seconds * 1e3, assumed=assumed, parts=(bus, *others), model=system, source=source)


def _left_out(within: int, curves: int) -> Iterator[str]:
    """Yield which of several *curves*, of which some lie *within* a node, do not count."""
    counted = within or curves
    if counted > 1:
        yield f"the fastest of {counted} measured curves, which the rows do not tell apart"
    if counted < curves:
        yield f"curves over nodes left out: {curves - counted}"


def _predicted(record: Record, system: str, op: str, size: int, per_node: int | None, length: int) -> tuple[float, tuple[str, ...]]:
    """Return seconds, and what was taken for granted."""
    card = naming.card(system)
    held = min(per_node or nvlink_domain(card), size)
    width, over_nvlink, assumed = _over_nodes(card, record, size, held) if held < size else _ring(card, system, size)
    c, memory = constants(), card.memory_gb_per_s * GB
    if op == "all_reduce":
        in_switch = over_nvlink and collectives.reduces_in_switch(card.compute_capability, size)
        seconds = collectives.all_reduce_s(length, size, width, nvlink=over_nvlink, c=c, in_switch=in_switch, memory_bytes_per_s=memory)
    elif op == "send_recv":
        seconds = collectives.send_s(length, width, nvlink=over_nvlink, c=c)
    else:
        # Every rank keeps its own share of an all-to-all, as of an all-gather: (n-1)/n of the bytes leave it.
        seconds = collectives.gather_s(length, size, width, nvlink=over_nvlink, c=c, memory_bytes_per_s=memory)
    return seconds, assumed


def _over_nodes(card: Card, record: Record, size: int, per_node: int) -> tuple[float, bool, tuple[str, ...]]:
    """Return the ring over nodes of *per_node* GPUs: what the network between them carries, or the slower link inside."""
    words = re.search(r"(?<!\d)(\d{2,5}) ?gbps", record.words("system", "source"))
    stated = record.measured("network_gbit_per_s") or (float(words[1]) if words else None)
    if not stated:
        nodes = -(-size // per_node)
        raise Unpredictable(f"{size} GPUs on {nodes} nodes, and the row does not state the rate of their network (network_gbit_per_s)")
    network = stated / 8 * GB
    return min(network, inside(card, per_node)[0]) if per_node > 1 else network, False, (f"nodes joined at {stated:g} Gb/s",)


def _ring(card: Card, system: str, size: int) -> tuple[float, bool, tuple[str, ...]]:
    words = system.lower()
    if "pairwise" in words or "bridge" in words:
        if size == 2:
            return nvlink(card.nvlink_links, card, card).gb_per_s * GB, True, ("two bridged GPUs",)
        return link("NODE", card, card).gb_per_s * GB, False, ("bridged pairs, over PCIe between them",)
    where = hardware(card, size)
    return where.ring_bytes_per_s, where.ring_nvlink, () if where.ring_nvlink else ("all GPUs under one PCIe root",)
