"""Matrix products of 8-bit floats; numbers in comments are worked by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from worked_models import EXPERTS_FOR_TIME, FOR_TIME

from placement.choices.choices import FrozenChoice, TrainChoice
from placement.choices.eight_bits import fp8_flops, linear_flops_per_token, saved_s
from placement.choices.hardware import Hardware
from placement.constants.table import constants
from placement.models.model import Model
from placement.timing import stages
from placement.timing.passes import Timed
from placement.workloads.workload import Batch, Engine, Master, Offload, Precision, Role, RoleName, TrainMenu

C = dataclasses.replace(constants(), matmul_efficiency=0.8, fp8_rate=2.0)
OLD = Hardware(1, 100e12, 1e12, 80_000, (8, 0), 0.0, False)
NEW = dataclasses.replace(OLD, compute_capability=(8, 9))


@pytest.mark.parametrize(
    ("capability", "times"), [((9, 0), 2), ((8, 9), 2), ((12, 0), 2), ((8, 6), 1), ((7, 5), 1), ((0, 0), 1)]
)
def test_cards_from_ada_on_multiply_twice_as_fast(capability: tuple[int, int], times: int) -> None:
    assert fp8_flops(dataclasses.replace(OLD, compute_capability=capability), C) == times * 100e12


def test_linear_layers_are_all_but_the_embeddings() -> None:
    expected = 2 * (FOR_TIME.parameters - FOR_TIME.embedding_parameters)
    assert linear_flops_per_token(FOR_TIME) == expected
    experts = EXPERTS_FOR_TIME
    assert linear_flops_per_token(experts) == 2 * (experts.active_parameters - experts.embedding_parameters)
    assert linear_flops_per_token(dataclasses.replace(FOR_TIME, embedding_parameters=2 * FOR_TIME.parameters)) == 0


def test_the_products_alone_get_faster() -> None:
    # 8e13 FLOP at 80 of 100 TFLOP/s take 1 s, at 160 of 200 half of that.
    assert saved_s(8e13, NEW, C) == pytest.approx(0.5)
    assert saved_s(8e13, OLD, C) == 0


def _choice(tp: int = 1) -> TrainChoice:
    return TrainChoice(tp, 1, 1, Precision.BF16, Master.FP32, Offload.NONE, 10_000)


BATCH = Batch(80, 1, 400, 600, 600, 1, 10_000)


@pytest.mark.parametrize("model", [FOR_TIME, EXPERTS_FOR_TIME], ids=["dense", "experts"])
def test_training_saves_three_passes_and_its_forward_pass_one(model: Model) -> None:
    plain, half = (Role(RoleName.ACTOR, model, Engine.FSDP, train=TrainMenu(fp8=fp8)) for fp8 in (False, True))
    saved = saved_s(80 * 1000 * linear_flops_per_token(model), NEW, C)
    assert saved > 0

    def gained(run: Callable[..., Timed], card: Hardware) -> float:
        return run(plain, model, _choice(), BATCH, card, C).seconds - run(half, model, _choice(), BATCH, card, C).seconds

    assert gained(stages.update, NEW) == pytest.approx(3 * saved)
    assert gained(stages.forward, NEW) == pytest.approx(saved)
    # Without such products nothing is gained, and nothing is lost.
    assert gained(stages.update, OLD) == 0


def test_a_reference_in_the_actors_engine_saves_as_much() -> None:
    role, choice = Role(RoleName.REF, FOR_TIME), FrozenChoice(1, 1, 1, Precision.BF16, Offload.NONE)
    plain, half = (stages.frozen_forward(role, FOR_TIME, choice, BATCH, NEW, C, fp8=fp8).seconds for fp8 in (False, True))
    assert plain - half == pytest.approx(saved_s(80 * 1000 * linear_flops_per_token(FOR_TIME), NEW, C))
