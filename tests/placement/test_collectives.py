"""Time of collectives; numbers in comments are worked by hand."""

from __future__ import annotations

import dataclasses

import pytest

from placement.collectives import all_reduce_s, alpha_s, gather_s
from placement.constants import constants

C = dataclasses.replace(
    constants(),
    ring_efficiency=0.5,
    nvlink_alpha_us=10.0,
    nvlink_alpha_us_per_gpu=1.0,
    pcie_alpha_us=20.0,
    pcie_alpha_us_per_gpu=5.0,
)


def test_collectives_are_a_start_and_bytes_over_the_bus() -> None:
    # 4 GPUs, 1 GB, bus 100 · 0.5 = 50 GB/s: 14 µs + 2 · 3/4 · 20 ms, and 14 µs + 3/4 · 20 ms.
    assert all_reduce_s(1e9, 4, 100e9, nvlink=True, c=C) == pytest.approx(0.030014)
    assert gather_s(1e9, 4, 100e9, nvlink=True, c=C) == pytest.approx(0.015014)


def test_collectives_start_later_without_nvlink() -> None:
    assert alpha_s(4, nvlink=True, c=C) == pytest.approx(14e-6)
    assert alpha_s(4, nvlink=False, c=C) == pytest.approx(40e-6)


def test_one_gpu_needs_no_collective() -> None:
    assert all_reduce_s(1e9, 1, 0.0, nvlink=True, c=C) == gather_s(1e9, 1, 0.0, nvlink=True, c=C) == 0


# Fits of public NCCL measurements on SXM boards (aiconfigurator): all-reduce bus bandwidth at 512 MiB.
@pytest.mark.parametrize(
    ("gpus", "link", "bus"),
    [
        pytest.param(4, 275e9, 217e9, id="4 A100"),
        pytest.param(8, 275e9, 222e9, id="8 A100"),
        pytest.param(2, 393e9, 318e9, id="2 H100"),
        pytest.param(4, 393e9, 350e9, id="4 H100"),
    ],
)
def test_large_all_reduces_are_within_twenty_percent_of_measurements(
    gpus: int, link: float, bus: float
) -> None:
    measured = 2 * (gpus - 1) / gpus * 2**29 / bus
    assert all_reduce_s(2**29, gpus, link, nvlink=True, c=constants()) == pytest.approx(measured, rel=0.2)
