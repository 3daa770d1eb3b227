"""A group of unlike cards runs at the pace of its slowest member."""

from __future__ import annotations

import dataclasses

import pytest
from conftest_placement import actor, ask, job, machine, ref

from placement.choices.hardware import Hardware
from placement.planner import plan
from placement.program.candidates import candidates
from placement.program.instance import Instance


def question(cards: str) -> Instance:
    return ask(machine("NV12", 2, cards), job(actor(gpu_menu=(2,)), ref(gpu_menu=(2,))), "free,same_card=off")


def pair(cards: str) -> Hardware:
    asked = question(cards)
    found = candidates(asked.machine, asked.rules, sizes=(2,), tp_sizes=(2,))
    return next(one.hardware for one in found.groups if one.gpus == (0, 1))


@pytest.mark.parametrize(("slow", "fast"), [("a100-40gb", "h100-80gb"), ("a100-80gb", "h100-80gb")])
def test_it_has_the_least_of_every_member(slow: str, fast: str) -> None:
    mixed, both_slow, both_fast = (pair(cards) for cards in (f"0={slow},1={fast}", slow, fast))
    for field in ("flops", "memory_bytes_per_s", "total_mib", "compute_capability", "host_bytes_per_s"):
        slowest = min(getattr(both_slow, field), getattr(both_fast, field))
        assert getattr(mixed, field) == slowest, field


def test_its_plan_is_as_slow_as_that_of_the_slow_card_alone() -> None:
    steps = {
        cards: {stage.name: stage.us for stage in plan(question(cards)).plan.estimate.stages}
        for cards in ("a100-80gb", "0=a100-80gb,1=h100-80gb", "h100-80gb")
    }
    slow, mixed, fast = steps.values()
    assert mixed == slow
    # H100 has 3.2 times the FLOP/s and 1.6 times the bandwidth.
    assert all(fast[stage] < mixed[stage] for stage in ("generate", "prepare", "update"))


def test_the_slowest_counts_wherever_it_stands() -> None:
    assert dataclasses.astuple(pair("0=a100-80gb,1=h100-80gb")) == dataclasses.astuple(pair("0=h100-80gb,1=a100-80gb"))
