"""
How much is measured, and how long it may take.

When to modify: a measurement takes too long, or too short to be trusted.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from topologies.measurements import Device, Spread

MIB = 2**20

MEASURE_S = 60.0
"""Longest wait for one measurement, s; each takes well under a second on a healthy machine."""

JOIN_S = 120.0
"""Longest wait for the processes to import torch, find each other and set up NCCL, s: a cold file system takes a minute."""

DIGITS = 4
"""Significant digits that are written: runs differ in the third."""


@dataclass(frozen=True, slots=True)
class Settings:
    """
    Sizes and repetitions of all measurements.

    Parameters
    ----------
    runs
        Runs of each measurement, of which median and quartiles are taken.
    least_s, steady_s
        Shortest run, s: work is repeated until it takes so long. What a GPU does alone runs longer (*steady_s*), until it is warm and
        its clocks are those of a job.
    matmul_n
        Side of the square matrices.
    memory_bytes
        Copied inside a GPU's memory.
    copy_bytes
        Copied between two GPUs.
    all_reduce_bytes
        Sizes of all-reduces, ascending; the largest decides what a ring is worth.
    """

    runs: int
    least_s: float
    steady_s: float
    matmul_n: int
    memory_bytes: int
    copy_bytes: int
    all_reduce_bytes: tuple[int, ...]


FULL = Settings(11, 0.02, 0.2, 8192, 1024 * MIB, 256 * MIB, (MIB, 8 * MIB, 64 * MIB, 512 * MIB))
QUICK = Settings(5, 0.005, 0.05, 8192, 512 * MIB, 128 * MIB, (8 * MIB, 256 * MIB))
REHEARSAL = Settings(5, 0.002, 0.002, 192, 4 * MIB, MIB, (MIB // 16, MIB))
QUICK_REHEARSAL = Settings(3, 0.001, 0.001, 128, MIB, MIB // 4, (MIB // 16,))


def settings(device: Device, *, quick: bool) -> Settings:
    """Return what is measured on *device*."""
    if device is Device.CPU:
        return QUICK_REHEARSAL if quick else REHEARSAL
    return QUICK if quick else FULL


def spread(samples: Sequence[Any]) -> Spread:
    """
    Return median and quartiles of *samples*, to `DIGITS` significant digits.

    Raises
    ------
    ValueError
        If there is none, or one is no number above zero.
    TopologyError
        If they are that small that nothing is left of them.
    """
    values = [float(sample) for sample in samples]
    if not values or not all(0 < value < float("inf") for value in values):
        raise ValueError(f"{len(values)} samples, not all of them numbers above zero")
    q1, median, q3 = (values * 3 if len(values) == 1 else statistics.quantiles(values, n=4, method="inclusive"))[:3]
    return Spread(_rounded(median), _rounded(q1), _rounded(q3), len(values))


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
