"""Measurements for tests of what they are worth (imported by name, see pyproject)."""

from __future__ import annotations

from collections.abc import Mapping

from topologies.measurements import AllReduce, AtSize, Copy, Device, Measured, OfGpu, Spread

MIB = 2**20


def spread(median: float) -> Spread:
    """Return eleven runs about *median*."""
    return Spread(median, 0.99 * median, 1.01 * median, 11)


def copies(rates: Mapping[tuple[int, int], float]) -> tuple[Copy, ...]:
    """Return copies of so many GB/s from one GPU to another."""
    return tuple(Copy(a, b, spread(rate)) for (a, b), rate in sorted(rates.items()))


def measured(
    *,
    pairs: Mapping[tuple[int, int], float] | None = None,
    tflops: Mapping[int, float] | None = None,
    memory: Mapping[int, float] | None = None,
    rings: Mapping[tuple[int, ...], float] | None = None,
    size: int = 512 * MIB,
    device: Device = Device.CUDA,
) -> Measured:
    """
    Return measurements.

    Parameters
    ----------
    pairs
        GB/s between GPUs i < j, both directions alike.
    tflops, memory
        10**12 FLOP/s and GB/s of GPUs.
    rings
        Bus GB/s of all-reduces of *size* bytes.
    """
    both = {way: rate for (a, b), rate in (pairs or {}).items() for way in ((a, b), (b, a))}
    gpus = sorted({*(tflops or {}), *(memory or {})})
    return Measured(
        device,
        ("torch 2.13.0", "NCCL 2.27.3"),
        tuple(
            OfGpu(g, spread((tflops or {})[g]) if g in (tflops or {}) else None, spread((memory or {})[g]) if g in (memory or {}) else None)
            for g in gpus
        ),
        copies(both),
        tuple(
            AllReduce(group, (AtSize(MIB, spread(rate / 2)), AtSize(size, spread(rate))))
            for group, rate in sorted((rings or {}).items())
        ),
    )
