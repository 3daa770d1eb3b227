"""What measurements say in the terms of the cost model, and what plans make of them."""

from __future__ import annotations

import dataclasses

import pytest
from conftest_placement import actor, ask, bridged_pairs, job, machine, questions, ref, rollout
from hypothesis import given, settings
from hypothesis import strategies as st
from measuring import measured

from placement.checking import problems
from placement.constants.table import Override, constants
from placement.machines.machine import resolve
from placement.planner import plan
from placement.program.candidates import candidates, ideal_hardware
from placement.program.lower import lower
from placement.program.menu import menu
from placement.timing.collectives import all_reduce_s, bytes_per_s_of, reduces_in_switch
from placement.workloads.rules import parse_rules
from solvers import check, cpsat, exhaustive
from solvers.result import Options, Status
from topologies import bandwidth
from topologies.measured import REHEARSAL
from topologies.measurements import Device

MIB = 2**20
GUIDE = parse_rules("guide")
C = constants()


def test_a_machine_that_is_as_usual_is_planned_on_as_if_nothing_had_been_measured():
    """
    The best matrix products of an A100-SXM4 reach 271.2 of 312 TFLOP/s, copies in memory 0.9 of 2039 GB/s, NVLink 275 GB/s.

    An all-reduce of 512 MiB over four takes what the formula says of 275 GB/s; so the ring is 275 GB/s again.
    """
    plain = machine("NV12", 4)
    usual = resolve(plain, GUIDE)
    size, ring = 512 * MIB, bandwidth.ring(usual.wiring, (0, 1, 2, 3)).gb_per_s
    assert ring == 275.0
    seconds = all_reduce_s(size, 4, 275e9, nvlink=True, c=C)
    bus = 2 * 3 / 4 * size / seconds / 1e9
    found = resolve(
        plain.replace(
            measured=measured(
                pairs={(i, j): 275.0 for j in range(4) for i in range(j)},
                tflops=dict.fromkeys(range(4), 271.2), memory=dict.fromkeys(range(4), 1835.1), rings={(0, 1, 2, 3): bus},
            )
        ), GUIDE,
    )  # fmt: skip
    for g in range(4):
        assert found.cards[g].dense_16bit_tflops == pytest.approx(312)
        assert found.cards[g].memory_gb_per_s == pytest.approx(2039)
    assert bandwidth.ring(found.wiring, (0, 1, 2, 3)).gb_per_s == pytest.approx(275, rel=1e-9)
    assert bandwidth.ring(found.wiring, (0, 1)).gb_per_s == 275.0


@pytest.mark.parametrize(
    ("code", "gpus", "card"), [("NV18", 4, "b200"), ("NV4", 2, "a6000"), ("NV2", 2, "v100-32gb"), ("NV18", 8, "h100-80gb")]
)
def test_an_all_reduce_that_took_what_is_predicted_changes_no_ring(code, gpus, card):
    """A GPU's own share goes with the bandwidth of its memory, in the prediction and in its inverse alike."""
    plain = machine(code, gpus, card)
    usual = resolve(plain, GUIDE)
    ring, own = bandwidth.ring(usual.wiring, range(gpus)).gb_per_s, usual.cards[0]
    in_switch = reduces_in_switch(own.compute_capability, gpus)
    memory = own.memory_gb_per_s * 1e9
    seconds = all_reduce_s(512 * MIB, gpus, ring * 1e9, nvlink=True, c=C, in_switch=in_switch, memory_bytes_per_s=memory)
    bus = 2 * (gpus - 1) / gpus * 512 * MIB / seconds / 1e9
    found = resolve(plain.replace(measured=measured(rings={tuple(range(gpus)): bus})), GUIDE)
    assert bandwidth.ring(found.wiring, range(gpus)).gb_per_s == pytest.approx(ring, rel=1e-6)


def test_a_card_that_nobody_published_a_matrix_product_of_takes_the_mean_share():
    """l40s: 362 TFLOP/s measured 290 are 290 / 0.81 = 358.02."""
    found = resolve(machine("SYS", 2, "l40s").replace(measured=measured(tflops={0: 290.0})), GUIDE)
    assert found.cards[0].dense_16bit_tflops == pytest.approx(358.02, abs=0.01)
    assert found.cards[1] == resolve(machine("SYS", 2, "l40s"), GUIDE).cards[1]


@given(
    st.floats(1e9, 1e12), st.sampled_from((2, 4, 8)), st.sampled_from((MIB, 64 * MIB, 512 * MIB)), st.booleans(), st.booleans()
)
def test_the_link_of_a_ring_follows_from_its_time(bytes_per_s, gpus, size, nvlink, in_switch):
    seconds = all_reduce_s(size, gpus, bytes_per_s, nvlink=nvlink, c=C, in_switch=in_switch)
    found = bytes_per_s_of(seconds, size, gpus, nvlink=nvlink, c=C, in_switch=in_switch)
    assert found is not None
    assert all_reduce_s(size, gpus, found, nvlink=nvlink, c=C, in_switch=in_switch) == pytest.approx(seconds, rel=1e-6)


def test_a_time_that_no_link_explains_is_no_ring():
    """8 MiB pass a GPU's own memory in 2 µs, and starting takes longer still: 1 µs is no measurement of this."""
    assert bytes_per_s_of(1e-6, 8 * MIB, 4, nvlink=True, c=C) is None
    odd = machine("NV12", 4).replace(measured=measured(rings={(0, 1, 2, 3): 1e6}))
    assert resolve(odd, GUIDE).wiring.rings == {}


def test_an_all_reduce_is_predicted_as_it_was_measured():
    """
    Two bridged pairs over SYS: 11 GB/s of bus bandwidth at 512 MiB over all four.

    2 · 3/4 · 536.87 MB / 11 GB/s = 73.2 ms, and that is what the model says of the group now.
    """
    found = resolve(bridged_pairs().replace(measured=measured(rings={(0, 1, 2, 3): 11.0})), GUIDE)
    offered = next(c.hardware for c in candidates(found, GUIDE, sizes=[4], tp_sizes=[1]).groups)
    seconds = all_reduce_s(512 * MIB, 4, offered.ring_bytes_per_s, nvlink=offered.ring_nvlink, c=C)
    assert seconds == pytest.approx(0.0732, rel=1e-3)


def test_runs_that_differ_by_noise_leave_equal_gpus_equal():
    """Eight GPUs on a switch, all within 4 %: what was measured of them is one number, and so is every set of one size."""
    pairs = {(i, j): 268.0 + (i + j) % 5 for j in range(8) for i in range(j)}
    noisy = measured(pairs=pairs, tflops={g: 250.0 + g for g in range(8)}, memory={g: 1700.0 + 5 * g for g in range(8)})
    found = resolve(machine("NV12", 8).replace(measured=noisy), GUIDE)
    assert len(set(found.cards)) == 1
    assert {bandwidth.pair_gb_per_s(found.wiring, *pair) for pair in pairs} == {270.0}
    groups = candidates(found, GUIDE, sizes=[2], tp_sizes=[1, 2]).groups
    assert len({c.hardware for c in groups}) == 1
    assert len(groups) == len(candidates(resolve(machine("NV12", 8), GUIDE), GUIDE, sizes=[2], tp_sizes=[1, 2]).groups)


def test_a_slow_gpu_is_left_out_of_the_group_that_waits_for_it():
    """GPU 0 multiplies at half the rate: an actor of three GPUs takes the other three."""
    slow = measured(tflops={g: 135.6 if g == 0 else 271.2 for g in range(4)})
    question = ask(machine("NV12", 4).replace(measured=slow), job(actor(min_gpus=3, max_gpus=3), ref(min_gpus=1, max_gpus=1)), "free")
    found = plan(question).plan
    assert found is not None
    assert set(found.device_map["actor"]) == {1, 2, 3}
    assert problems(found, question) == []


@pytest.mark.parametrize("slower", [0.9, 0.5, 0.1])
@pytest.mark.parametrize("what", ["pairs", "tflops", "memory", "rings"])
def test_nothing_gets_faster_when_everything_measured_is_slower(what, slower):
    pairs = {(i, j): 270.0 for j in range(4) for i in range(j)}
    usual = {"pairs": pairs, "tflops": dict.fromkeys(range(4), 260.0), "memory": dict.fromkeys(range(4), 1800.0)}
    usual["rings"] = {(0, 1, 2, 3): 200.0, (0, 1): 210.0}
    worse = usual | {what: {key: slower * value for key, value in usual[what].items()}}
    work = job(actor(rollout=rollout(1, 2)), ref())
    before, after = (plan(ask(machine("NV12", 4).replace(measured=measured(**m)), work)).plan for m in (usual, worse))
    assert before is not None
    assert after is not None
    assert before.proof.objective_terms[0].value <= after.proof.objective_terms[0].value


def test_a_plan_says_what_was_measured():
    work = job(actor(), ref())
    found = plan(ask(machine("NV12", 2).replace(measured=measured(pairs={(0, 1): 260.0}, tflops={0: 250.0}, rings={(0, 1): 200.0})), work))
    said = found.plan.estimate.assumptions
    assert any(
        "but for what was measured on this machine (by torch 2.13.0, NCCL 2.27.3): copies of all 1 pairs of GPUs, matrix products of 1 "
        "of 2 GPUs, all-reduces of 1 group" in sentence for sentence in said
    ), said  # fmt: skip
    assert not any("not measurements of this machine" in sentence for sentence in said)


def test_a_rehearsal_changes_no_plan_and_is_said():
    work, plain = job(actor(), ref()), machine("NV12", 2)
    rehearsed = plain.replace(measured=measured(tflops={0: 0.1, 1: 0.1}, pairs={(0, 1): 5.0}, device=Device.CPU))
    one, other = (plan(ask(m, work)).plan for m in (plain, rehearsed))
    assert one.estimate.step_us == other.estimate.step_us
    assert REHEARSAL in other.estimate.assumptions
    assert set(other.estimate.assumptions) - {REHEARSAL} == set(one.estimate.assumptions)


# ── random machines ─────────────────────────────────────────────────────────────────────────────────────────────────────


@st.composite
def measured_questions(draw):
    """Draw a question of up to five GPUs whose machine was measured, in part or all of it, with values that do and do not stand out."""
    question = draw(questions(5))
    n = len(question.machine.topology.gpus)
    share = st.sampled_from((0.4, 0.98, 1.0, 1.02, 1.3))
    pairs = {(i, j): 100 * draw(share) for j in range(n) for i in range(j) if draw(st.booleans())}
    tflops = {g: 200 * draw(share) for g in range(n) if draw(st.booleans())}
    groups = draw(st.lists(st.sampled_from([(0, 1), tuple(range(n)), tuple(range(1, n))]), max_size=2, unique=True))
    rings = {group: 60 * draw(share) for group in groups if len(group) > 1}
    topology = question.machine.topology.replace(measured=measured(pairs=pairs, tflops=tflops, memory=tflops, rings=rings))
    found = resolve(topology, question.rules, visible=question.visible)
    return question.replace(machine=found)


@settings(max_examples=25)
@given(measured_questions())
def test_both_solvers_and_the_checker_agree_on_measured_machines(question):
    lowered = lower(question, menu(question))
    expected = exhaustive.solve(lowered.problem, Options(time_limit_s=120))
    assert expected.status in (Status.OPTIMAL, Status.INFEASIBLE)
    result = cpsat.solve(lowered.problem)
    assert result == expected
    if result.answer is not None:
        assert check.violations(lowered.problem, result.answer) == []
        found = plan(question).plan
        assert found is not None
        assert problems(found, question) == []


@settings(max_examples=25)
@given(measured_questions())
def test_no_group_beats_the_ideal_one(question):
    """The bound of machines that are too large to look at all of their groups rests on this."""
    found = question.machine
    if len({(found.cards[g].chip, found.capacity_mib[g]) for g in found.usable}) > 1:
        return
    for candidate in candidates(found, question.rules, sizes=range(1, 6), tp_sizes=[2, 4]).groups:
        best, offered = ideal_hardware(found, candidate.hardware.gpus), candidate.hardware
        for name in ("flops", "memory_bytes_per_s", "ring_bytes_per_s", "host_bytes_per_s"):
            assert getattr(offered, name) <= getattr(best, name)
        assert all(rate <= best.block(tp) for tp, rate in offered.block_bytes_per_s)


def test_measured_cards_are_not_other_cards():
    """The rule same_card looks at chips and capacities, not at rates."""
    found = resolve(machine("NV12", 2).replace(measured=measured(tflops={0: 135.6, 1: 271.2})), GUIDE)
    one, other = found.cards
    assert one.chip == other.chip
    assert dataclasses.replace(one, dense_16bit_tflops=312.0) == dataclasses.replace(other, dense_16bit_tflops=312.0)




def test_a_users_constants_turn_what_was_measured_into_peaks():
    """What is measured stays what it is: with another share of the peak the peak is another, and the time is the same."""
    topology = machine("SYS", 1, "a100-80gb").replace(measured=measured(tflops={0: 200.0}))
    usual, own = (ask(topology, job(actor()), overrides=overrides) for overrides in ((), (Override("best_matmul_share", 0.5),)))
    # The share of this card is published; of one for which it is not, the constant counts.
    assert own.machine.cards == usual.machine.cards
    topology = machine("SYS", 1, "l40s").replace(measured=measured(tflops={0: 200.0}))
    own = ask(topology, job(actor()), overrides=(Override("best_matmul_share", 0.5),))
    assert own.machine.cards[0].dense_16bit_tflops == 400.0
    assert ask(topology, job(actor())).with_overrides(own.overrides).machine.cards == own.machine.cards


def test_a_users_constant_says_what_torch_does_not_see():
    topology = machine("SYS", 2, "0=a100-80gb,1=l40")
    usual, own = (ask(topology, job(actor()), overrides=overrides).machine for overrides in ((), (Override("unseen_memory_mib", 500),)))
    assert own.capacity_mib[0] == usual.capacity_mib[0] == 81_152
    assert own.capacity_mib[1] - usual.capacity_mib[1] == 922 - 500
