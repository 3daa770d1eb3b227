"""What fills a GPU, piece by piece: pieces add up to what is planned, and nothing that comes in needs more than work does."""

from __future__ import annotations

import dataclasses

import pytest
from conftest_placement import actor, ask, critic, job, machine, ref, reward, rollout, train
from hypothesis import given, settings
from hypothesis import strategies as st
from random_questions import Asked, asked

from placement.choices.choices import Part
from placement.choices.footprints import LOAD, Footprint, Piece, rounded_up, whole
from placement.explaining.memory_table import memory_table
from placement.planner import plan
from placement.workloads.workload import Engine, LayoutMenu, Offload, Quantization, RoleName


def test_whole_pieces_add_up_to_the_sum_rounded_up() -> None:
    # 1.5 + 2.25 + 0.5 = 4.25, that is 5: floors make 3; the two halves lost most.
    pieces = {Piece.WEIGHTS: 1.5, Piece.GRADIENTS: 2.25, Piece.OPTIMIZER: 0.5, Piece.LOGITS: 0.0}
    assert whole(pieces) == {"weights": 2, "gradients": 2, "optimizer": 1}


def test_less_than_a_byte_is_not_rounded_up() -> None:
    # Binary fractions: 0.1 · 3 is a bit more than 0.3.
    assert rounded_up(40_576 + 1e-9) == 40_576
    assert rounded_up(40_576 + 1e-5) == 40_577


@given(st.dictionaries(st.sampled_from(Piece), st.floats(0, 1e6), min_size=1))
def test_no_piece_is_off_by_more_than_one(pieces: dict[Piece, float]) -> None:
    found = whole(pieces)
    assert sum(found.values()) == rounded_up(sum(pieces.values()))
    assert all(abs(found.get(piece.value, 0) - mib) < 1 + 1e-5 for piece, mib in pieces.items())


def test_a_role_idles_while_others_work() -> None:
    footprint = Footprint({Piece.CONTEXT: 1.0}, {}, {Piece.WEIGHTS: 2.0})
    assert footprint.moment("generate") == {Piece.CONTEXT: 1.0}
    assert footprint.moment(LOAD) == {Piece.WEIGHTS: 2.0}


def test_the_pieces_of_a_small_plan() -> None:
    """Actor and reference on one A100: every moment names what it holds, the load is the engine's claim beside the others."""
    question = ask(machine("NV12", 1), job(actor(), ref()), "free")
    found = plan(question).plan
    assert found is not None
    moments = {moment.name: moment for moment in memory_table(found, question)}
    assert list(moments) == [LOAD, "generate", "old_log_probs", "ref_log_probs", "update_actor", "sync_weights"]
    generate = {(held.role, held.part): held.pieces for held in moments["generate"].held}
    assert list(generate[RoleName.ACTOR, Part.ROLLOUT]) == ["context", "weights", "engine", "kv_cache"]
    assert list(generate[RoleName.ACTOR, Part.TRAIN]) == ["context", "weights", "optimizer"]
    update = {(held.role, held.part): held.pieces for held in moments["update_actor"].held}
    assert list(update[RoleName.ACTOR, Part.TRAIN]) == ["context", "weights", "gradients", "optimizer", "activations"]
    assert list(update[RoleName.ACTOR, Part.ROLLOUT]) == ["context"]
    # The engine claims 0.4 of the total beside its context; the others idle.
    claim = 0.4 * question.machine.capacity_mib[0]
    started = {(held.role, held.part): held for held in moments[LOAD].held}
    assert started[RoleName.ACTOR, Part.ROLLOUT].mib == pytest.approx(2280 + claim, abs=1)
    assert moments[LOAD].mib == moments["generate"].mib


def _add_up(question: Asked) -> None:
    instance = question.instance
    found = plan(instance).plan
    if found is None:
        return
    table = memory_table(found, instance)
    for row in found.memory_mib:
        moments = [moment for moment in table if moment.gpu == row.gpu]
        phases = {moment.name: moment.mib for moment in moments if moment.name != LOAD}
        assert row.planned == max(phases.values(), default=0)
        assert row.worst_phase is None or phases[row.worst_phase] == row.planned
        assert all(moment.mib <= row.planned for moment in moments), "loading needs more than any phase"
        assert all(mib > 0 for moment in moments for held in moment.held for mib in held.pieces.values())


@settings(max_examples=25)
@given(asked(gpus=3, roles=3, short=True))
def test_the_pieces_of_any_plan_add_up_to_what_it_plans(question: Asked) -> None:
    """And what comes in when the job starts never needs more: so the start has no rule of its own."""
    _add_up(question)


@settings(max_examples=15)
@given(asked(gpus=2, roles=2, short=True), st.sampled_from([1, 2]), st.booleans(), st.booleans())
def test_so_do_those_of_other_layouts(question: Asked, zero: int, eight_bits: bool, sleeps: bool) -> None:
    first, *others = question.workload.roles
    menu = first.rollout
    if menu is not None:
        stored = Quantization.FP8 if eight_bits else Quantization.NONE
        menu = dataclasses.replace(menu, quantization=(stored,), sleep=sleeps)
    assert first.train is not None
    first = first.replace(train=dataclasses.replace(first.train, zero=(zero,)), rollout=menu)
    workload = question.workload.replace(roles=(first, *others))
    _add_up(dataclasses.replace(question, workload=workload, rules="free,supported=off,same_card=off"))


@pytest.mark.parametrize("offload", Offload)
@pytest.mark.parametrize("engine", [Engine.FSDP, Engine.MEGATRON])
def test_loading_needs_no_more_than_the_work_of_the_same_role(engine: Engine, offload: Offload) -> None:
    layout = LayoutMenu(tp=(2,), pp=(1,))
    roles = [kind(engine=engine, layout=layout, gpu_menu=(4,), train=train(offload=(offload,))) for kind in (actor, critic)]
    roles[0] = roles[0].replace(rollout=rollout(2))
    question = ask(machine("NV12", 4), job(*roles, ref(layout=layout, gpu_menu=(4,)), reward(gpu_menu=(4,))), "free,reward_reserve=off")
    found = plan(question).plan
    assert found is not None
    table = memory_table(found, question)
    worst = max(moment.mib for moment in table if moment.name != LOAD)
    assert all(moment.mib <= worst for moment in table)
