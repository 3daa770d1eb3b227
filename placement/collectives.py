"""
Time of collectives over a ring, seconds: ``alpha + factor · bytes / bus``.

*bus* is the ring's slowest link times `Constants.ring_efficiency`; *alpha* grows with the number of GPUs and
depends on whether the ring runs over NVLink only.

When to modify: another algorithm than the ring (trees, NVLS), or a better fit of the start-up time.
"""

from __future__ import annotations

from placement.constants import Constants

US = 1e-6


def all_reduce_s(size: float, gpus: int, bytes_per_s: float, *, nvlink: bool, c: Constants) -> float:
    """Return the time of an all-reduce of *size* bytes: ``alpha + 2 (n-1)/n · size / bus``; 0 for one GPU."""
    if gpus == 1:
        return 0.0
    return alpha_s(gpus, nvlink=nvlink, c=c) + 2 * (gpus - 1) / gpus * size / (
        bytes_per_s * c.ring_efficiency
    )


def gather_s(size: float, gpus: int, bytes_per_s: float, *, nvlink: bool, c: Constants) -> float:
    """
    Return the time of an all-gather or reduce-scatter of *size* bytes in all: ``alpha + (n-1)/n · size /
    bus``.

    0 for one GPU.
    """
    if gpus == 1:
        return 0.0
    return alpha_s(gpus, nvlink=nvlink, c=c) + (gpus - 1) / gpus * size / (bytes_per_s * c.ring_efficiency)


def alpha_s(gpus: int, *, nvlink: bool, c: Constants) -> float:
    """Return the start-up time of a collective."""
    if nvlink:
        return (c.nvlink_alpha_us + c.nvlink_alpha_us_per_gpu * gpus) * US
    return (c.pcie_alpha_us + c.pcie_alpha_us_per_gpu * gpus) * US
