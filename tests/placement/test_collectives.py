"""Time of collectives; numbers in comments are worked by hand."""

from __future__ import annotations

import dataclasses
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.constants.table import constants
from placement.timing.collectives import (
    all_reduce_alpha_s,
    all_reduce_s,
    alpha_s,
    broadcast_s,
    gather_s,
    reduces_in_switch,
    send_s,
)

C = dataclasses.replace(
    constants(),
    ring_efficiency=0.5,
    own_bytes_per_s=125e9,
    own_memory_bytes_per_s=1e12,
    nvlink_alpha_us=10.0,
    nvlink_alpha_us_per_gpu=1.0,
    nvlink_alpha_bytes_per_s=100e9,
    pcie_alpha_us=20.0,
    pcie_alpha_us_per_gpu=5.0,
)


def test_collectives_are_a_start_a_fill_and_bytes_over_the_bus() -> None:
    # 4 GPUs, 1 GB, bus 100 · 0.5 = 50 GB/s, 20 ms: a start of 14 µs, a fill of 2 · √(10 µs · 20 ms) = 894.427 µs,
    # 2 · 3/4 or 3/4 · 20 ms, and a fourth of the message at 125 GB/s, 2 ms.
    assert all_reduce_s(1e9, 4, 100e9, nvlink=True, c=C) == pytest.approx(0.032908427)
    assert gather_s(1e9, 4, 100e9, nvlink=True, c=C) == pytest.approx(0.017908427)
    # Twice the memory bandwidth copies the own share in half the time: 1 ms less.
    assert all_reduce_s(1e9, 4, 100e9, nvlink=True, c=C, memory_bytes_per_s=2e12) == pytest.approx(0.031908427)
    assert gather_s(1e9, 4, 100e9, nvlink=True, c=C, memory_bytes_per_s=2e12) == pytest.approx(0.016908427)
    # Not over NVLink the start alone differs: 40 µs.
    assert all_reduce_s(1e9, 4, 100e9, nvlink=False, c=C) == pytest.approx(0.032934427)
    assert gather_s(1e9, 4, 100e9, nvlink=False, c=C) == pytest.approx(0.017934427)


def test_a_broadcast_goes_down_a_chain_in_chunks() -> None:
    # Hops of 14 µs, and 5 MB over a bus of 50 GB/s, 100 µs: 14 + 100 + 2 · √1400 µs.
    assert broadcast_s(5e6, 4, 100e9, nvlink=True, c=C) == pytest.approx(188.833e-6, rel=1e-5)
    assert broadcast_s(5e6, 1, 100e9, nvlink=True, c=C) == 0


@given(st.integers(2, 512), st.integers(1, 64), st.floats(1e9, 1e12))
def test_islands_never_start_later_than_single_gpus_beyond_nvlink(gpus: int, islands: int, link: float) -> None:
    c = constants()
    joined = alpha_s(gpus, link, nvlink=False, c=c, islands=islands)
    assert joined <= alpha_s(gpus, link, nvlink=False, c=c) == alpha_s(gpus, link, nvlink=False, c=c, islands=gpus)


@given(st.floats(1, 1e12), st.integers(2, 64), st.floats(1e8, 1e12), st.floats(1, 10), st.booleans())
def test_faster_links_and_nvlink_are_never_slower(size: float, gpus: int, link: float, faster: float, adds: bool) -> None:
    c = constants()
    for time in (partial(all_reduce_s, in_switch=adds), gather_s):
        slow = time(size, gpus, link, nvlink=False, c=c)
        same = time(size, gpus, link, nvlink=True, c=c)
        assert same <= slow
        assert time(size, gpus, link * faster, nvlink=True, c=c) <= same * (1 + 1e-12)
        assert time(size, gpus, link * faster, nvlink=False, c=c) <= slow * (1 + 1e-12)


def test_a_switch_adds_where_that_is_faster() -> None:
    # 8 GPUs: 18 µs + 894.427 µs, and 1 GB over 100 · 0.7 GB/s = 14.286 ms in place of 14/8 · 20 + 1 = 36 ms.
    c = dataclasses.replace(C, switch_efficiency=0.7)
    assert all_reduce_s(1e9, 8, 100e9, nvlink=True, c=c, in_switch=True) == pytest.approx(0.018e-3 + 0.894427e-3 + 1 / 70)
    slow = dataclasses.replace(C, switch_efficiency=0.1)
    ring = all_reduce_s(1e9, 8, 100e9, nvlink=True, c=slow)
    assert all_reduce_s(1e9, 8, 100e9, nvlink=True, c=slow, in_switch=True) == ring
    assert reduces_in_switch((9, 0), 8)
    assert not reduces_in_switch((9, 0), 4)
    assert not reduces_in_switch((8, 0), 8)


def test_faster_nvlinks_start_sooner_and_slower_ones_no_later() -> None:
    c = dataclasses.replace(C, nvlink_alpha_bytes_per_s=100e9)
    assert alpha_s(4, 200e9, nvlink=True, c=c) == pytest.approx(7e-6)
    assert alpha_s(4, 50e9, nvlink=True, c=c) == pytest.approx(14e-6)


def test_sending_is_a_start_and_all_bytes() -> None:
    assert send_s(1e9, 100e9, nvlink=True, c=C) == pytest.approx(0.020012)


def test_collectives_start_later_without_nvlink() -> None:
    assert alpha_s(4, 100e9, nvlink=True, c=C) == pytest.approx(14e-6)
    assert alpha_s(4, 100e9, nvlink=False, c=C) == pytest.approx(40e-6)


def test_all_reduces_beyond_nvlink_go_up_and_down_a_tree() -> None:
    # 20 + 5 µs for each hop: 4 of 4 GPUs, 6 of 8, 10 of 32.
    starts = [all_reduce_alpha_s(gpus, 100e9, nvlink=False, c=C) for gpus in (2, 4, 8, 32)]
    assert starts == pytest.approx([30e-6, 40e-6, 50e-6, 70e-6])
    assert all_reduce_alpha_s(32, 100e9, nvlink=True, c=C) == alpha_s(32, 100e9, nvlink=True, c=C)


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
