"""
Time of collectives over a ring, seconds: ``alpha + fill + factor · bytes / bus``.

*bus* is the ring's slowest link times `Constants.ring_efficiency`; *alpha* grows with the number of GPUs and
depends on whether the ring runs over NVLink only.

When to modify: another algorithm than the ring and the switch (trees), or a better fit of the start-up time.
"""

from __future__ import annotations

import math

from placement.constants import Constants

US = 1e-6


def all_reduce_s(
    size: float, gpus: int, bytes_per_s: float, *, nvlink: bool, c: Constants, in_switch: bool = False
) -> float:
    """
    Return the time of an all-reduce of *size* bytes: ``alpha + fill + 2 (n-1)/n · size / bus + size/n / own``; 0 for one GPU.

    Parameters
    ----------
    in_switch
        Whether an NVSwitch can do the additions: then every byte goes up and down once, where that is faster.
    """
    if gpus == 1:
        return 0.0
    start = alpha_s(gpus, bytes_per_s, nvlink=nvlink, c=c) + _fill_s(size, bytes_per_s, c)
    passing = 2 * (gpus - 1) / gpus * size / (bytes_per_s * c.ring_efficiency) + size / gpus / c.own_bytes_per_s
    if nvlink and in_switch:
        passing = min(passing, size / (bytes_per_s * c.switch_efficiency))
    return start + passing


def small_all_reduce_s(size: float, gpus: int, bytes_per_s: float, c: Constants) -> float:
    """Return what *size* bytes add to an all-reduce of few bytes, of which a decode step has two in a layer: it has no pipeline to fill."""
    return 2 * (gpus - 1) / gpus * size / (bytes_per_s * c.ring_efficiency)


def gather_s(size: float, gpus: int, bytes_per_s: float, *, nvlink: bool, c: Constants) -> float:
    """
    Return the time of an all-gather or reduce-scatter of *size* bytes in all: ``alpha + fill + (n - 1)/n · size / bus
    + size/n / own``.

    0 for one GPU.
    """
    if gpus == 1:
        return 0.0
    start = alpha_s(gpus, bytes_per_s, nvlink=nvlink, c=c) + _fill_s(size, bytes_per_s, c)
    return start + (gpus - 1) / gpus * size / (bytes_per_s * c.ring_efficiency) + size / gpus / c.own_bytes_per_s


def send_s(size: float, bytes_per_s: float, *, nvlink: bool, c: Constants) -> float:
    """Return the time in which one GPU sends *size* bytes to another: ``alpha + size / bus``."""
    return alpha_s(2, bytes_per_s, nvlink=nvlink, c=c) + size / (bytes_per_s * c.ring_efficiency)


def reduces_in_switch(compute_capability: tuple[int, int], gpus: int) -> bool:
    """Whether *gpus* GPUs, all joined by NVLink, have a switch that adds: Hopper and later, more than the four that can do without one."""
    return compute_capability >= (9, 0) and gpus > 4


def alpha_s(gpus: int, bytes_per_s: float, *, nvlink: bool, c: Constants) -> float:
    """Return the start-up time of a collective; the bandwidth matters over NVLink alone."""
    if nvlink:
        return (c.nvlink_alpha_us + c.nvlink_alpha_us_per_gpu * gpus) * _newer(bytes_per_s, c) * US
    return (c.pcie_alpha_us + c.pcie_alpha_us_per_gpu * gpus) * US


def _fill_s(size: float, bytes_per_s: float, c: Constants) -> float:
    """
    Return the time in which the ring's pipeline fills and empties.

    Chunks each start in ``a = nvlink_alpha_us``: k of them take ``k·a`` and leave ``size/(k·bus)`` unhidden, at best ``2·√(a·size/bus)`` in
    all. Slower links take smaller chunks, so that none waits longer for its pipeline than those on which *a* was measured.
    """
    bus = c.nvlink_alpha_bytes_per_s * c.ring_efficiency
    return 2 * math.sqrt(c.nvlink_alpha_us * US * size / bus) * _newer(bytes_per_s, c)


def _newer(bytes_per_s: float, c: Constants) -> float:
    """Return how much sooner faster links start than those on which `Constants.nvlink_alpha_us` was measured."""
    return min(c.nvlink_alpha_bytes_per_s / bytes_per_s, 1.0) if bytes_per_s else 1.0
