"""
Time of collectives over a ring, seconds: ``alpha + fill + factor · bytes / bus``.

*bus* is the ring's slowest link times `Constants.ring_efficiency`; *alpha* grows with the number of GPUs and
depends on whether the ring runs over NVLink only.

When to modify: another algorithm than the ring and the switch (trees), or a better fit of the start-up time.
"""

from __future__ import annotations

import math

from placement.constants.table import Constants

US = 1e-6

_SLOWEST, _FASTEST = 1e6, 1e14
_HALVINGS = 50


def all_reduce_s(
    size: float,
    gpus: int,
    bytes_per_s: float,
    *,
    nvlink: bool,
    c: Constants,
    in_switch: bool = False,
    memory_bytes_per_s: float | None = None,
) -> float:
    """
    Return the time of an all-reduce of *size* bytes: ``alpha + fill + 2 (n-1)/n · size / bus + size/n / own``; 0 for one GPU.

    Parameters
    ----------
    in_switch
        Whether an NVSwitch can do the additions: then every byte goes up and down once, where that is faster.
    memory_bytes_per_s
        Memory bandwidth of the GPUs, B/s; None for that of `Constants.own_memory_bytes_per_s`.
    """
    if gpus == 1:
        return 0.0
    start = all_reduce_alpha_s(gpus, bytes_per_s, nvlink=nvlink, c=c) + _fill_s(size, bytes_per_s, c)
    passing = 2 * (gpus - 1) / gpus * size / (bytes_per_s * c.ring_efficiency) + size / gpus / _own(memory_bytes_per_s, c)
    if nvlink and in_switch:
        passing = min(passing, size / (bytes_per_s * c.switch_efficiency))
    return start + passing


def bytes_per_s_of(
    seconds: float,
    size: float,
    gpus: int,
    *,
    nvlink: bool,
    c: Constants,
    in_switch: bool = False,
    memory_bytes_per_s: float | None = None,
) -> float | None:
    """
    Return the link with which `all_reduce_s` of *size* bytes takes *seconds*, B/s: its inverse, by bisection.

    None if no link is so fast or so slow: then the formula has nothing to say of what was measured.
    """
    low, high = _SLOWEST, _FASTEST

    def takes(bytes_per_s: float) -> float:
        return all_reduce_s(
            size, gpus, bytes_per_s, nvlink=nvlink, c=c, in_switch=in_switch, memory_bytes_per_s=memory_bytes_per_s
        )

    if not takes(high) < seconds < takes(low):
        return None
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if takes(middle) > seconds else (low, middle)
    return math.sqrt(low * high)


def small_all_reduce_s(size: float, gpus: int, bytes_per_s: float, c: Constants) -> float:
    """Return what *size* bytes add to an all-reduce of few bytes, of which a decode step has two in a layer: it has no pipeline to fill."""
    return 2 * (gpus - 1) / gpus * size / (bytes_per_s * c.ring_efficiency)


def gather_s(
    size: float,
    gpus: int,
    bytes_per_s: float,
    *,
    nvlink: bool,
    c: Constants,
    memory_bytes_per_s: float | None = None,
    islands: int = 0,
) -> float:
    """
    Return the time of an all-gather or reduce-scatter of *size* bytes in all: ``alpha + fill + (n - 1)/n · size / bus
    + size/n / own``.

    0 for one GPU. *islands* as in `alpha_s`.
    """
    if gpus == 1:
        return 0.0
    start = alpha_s(gpus, bytes_per_s, nvlink=nvlink, c=c, islands=islands) + _fill_s(size, bytes_per_s, c)
    return start + (gpus - 1) / gpus * size / (bytes_per_s * c.ring_efficiency) + size / gpus / _own(memory_bytes_per_s, c)


def all_to_all_s(size: float, gpus: int, bytes_per_s: float, *, nvlink: bool, c: Constants) -> float:
    """
    Return the time in which each GPU sends ``size/n`` of its *size* bytes to every other: ``alpha + (n-1)/n · size / bus``; 0 for one GPU.

    NVLink carries all pairs at once. Over shared links half of the GPUs send half of their bytes across the middle, ``n/4 · size``.
    """
    if gpus == 1:
        return 0.0
    share = (gpus - 1) / gpus if nvlink else max((gpus - 1) / gpus, gpus / 4)
    return alpha_s(gpus, bytes_per_s, nvlink=nvlink, c=c) + share * size / (bytes_per_s * c.ring_efficiency)


def broadcast_s(size: float, gpus: int, bytes_per_s: float, *, nvlink: bool, c: Constants, islands: int = 0) -> float:
    """
    Return the time in which *size* bytes of one GPU reach all of *gpus* along a chain: ``(√alpha + √(size / bus))²``; 0 for one GPU.

    In k chunks, over hops that take alpha in all, the last chunk arrives after ``alpha + size/bus + k · alpha/n + n · size/(k · bus)``; the
    best k makes the last two terms ``2 · √(alpha · size/bus)``. *islands* as in `alpha_s`.
    """
    if gpus == 1:
        return 0.0
    hops = alpha_s(gpus, bytes_per_s, nvlink=nvlink, c=c, islands=islands)
    return (math.sqrt(hops) + math.sqrt(size / (bytes_per_s * c.ring_efficiency))) ** 2


def send_s(size: float, bytes_per_s: float, *, nvlink: bool, c: Constants) -> float:
    """Return the time in which one GPU sends *size* bytes to another: ``alpha + size / bus``."""
    return alpha_s(2, bytes_per_s, nvlink=nvlink, c=c) + size / (bytes_per_s * c.ring_efficiency)


def reduces_in_switch(compute_capability: tuple[int, int], gpus: int) -> bool:
    """Whether *gpus* GPUs, all joined by NVLink, have a switch that adds: Hopper and later, more than the four that can do without one."""
    return compute_capability >= (9, 0) and gpus > 4


def alpha_s(gpus: int, bytes_per_s: float, *, nvlink: bool, c: Constants, islands: int = 0) -> float:
    """
    Return the start-up time of a collective; the bandwidth matters over NVLink alone.

    A ring has a hop for each GPU, and each hop takes what its own link takes: of a ring over several *islands* of NVLink (the nodes of a
    cluster) as many hops as there are islands leave one, all others stay inside. NCCL counts latencies of gathers so (src/graph/tuning.cc:
    ``nInterSteps = nNodes - 1``), as it has no other algorithm for them than the ring.

    Parameters
    ----------
    islands
        Islands that a ring beyond NVLink joins; 0 where every hop is beyond.
    """
    if nvlink:
        return (c.nvlink_alpha_us + c.nvlink_alpha_us_per_gpu * gpus) * _newer(bytes_per_s, c) * US
    inside = max(gpus - islands, 0) if islands else 0
    return (c.pcie_alpha_us + c.pcie_alpha_us_per_gpu * (gpus - inside) + c.nvlink_alpha_us_per_gpu * inside) * US


def all_reduce_alpha_s(gpus: int, bytes_per_s: float, *, nvlink: bool, c: Constants) -> float:
    """
    Return the start-up time of an all-reduce.

    Beyond NVLink NCCL sums small messages up a tree and sends them down again (double binary trees, since NCCL 2.4): a message makes
    ``2 · log2 n`` hops where that is fewer than around the ring.
    """
    hops = gpus if nvlink else min(gpus, 2 * (gpus - 1).bit_length())
    return alpha_s(hops, bytes_per_s, nvlink=nvlink, c=c)


def _fill_s(size: float, bytes_per_s: float, c: Constants) -> float:
    """
    Return the time in which the ring's pipeline fills and empties.

    Chunks each start in ``a = nvlink_alpha_us``: k of them take ``k·a`` and leave ``size/(k·bus)`` unhidden, at best ``2·√(a·size/bus)`` in
    all. Slower links take smaller chunks, so that none waits longer for its pipeline than those on which *a* was measured.
    """
    bus = c.nvlink_alpha_bytes_per_s * c.ring_efficiency
    return 2 * math.sqrt(c.nvlink_alpha_us * US * size / bus) * _newer(bytes_per_s, c)


def _own(memory_bytes_per_s: float | None, c: Constants) -> float:
    """Return how fast a GPU copies or reduces its own share of a message, B/s: in proportion to its memory's bandwidth."""
    scale = 1.0 if memory_bytes_per_s is None else memory_bytes_per_s / c.own_memory_bytes_per_s
    return c.own_bytes_per_s * scale


def _newer(bytes_per_s: float, c: Constants) -> float:
    """Return how much sooner faster links start than those on which `Constants.nvlink_alpha_us` was measured."""
    return min(c.nvlink_alpha_bytes_per_s / bytes_per_s, 1.0) if bytes_per_s else 1.0
