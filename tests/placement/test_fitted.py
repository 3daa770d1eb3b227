"""Constants that were fitted: what each would predict of the models that had no part in its fit."""

from __future__ import annotations

import dataclasses

import pytest

from placement.cli.validate import fitted
from placement.constants.table import constants, instead, sources
from placement.validation.fitted import FITTED, GROUPS, LINKS, Refit, refits
from placement.validation.reading import Folder
from placement.validation.rows import Group, Row

NO_LINKS = Group("links", "", ())


def test_every_constant_that_says_it_is_fitted_has_a_group() -> None:
    assert {name for name, said in sources().items() if said.obtained == FITTED} == set(GROUPS)


def test_other_constants_hold_inside_the_block_alone() -> None:
    other = dataclasses.replace(constants(), train_mfu_dense=0.3)
    with instead(other):
        assert constants() is other
    assert constants().train_mfu_dense == 0.4


def test_a_class_of_links_is_the_median_of_the_other_matrices() -> None:
    # A class of 25 GB/s with 20, 25 and 30 measured: without each, 27.5, 25 and 22.5 are left: off by 37.5, 0 and 25 %. One alone is none.
    rows = [Row(f"{name} PIX, 2 pairs", "GB/s", value, 25.0) for name, value in (("1", 20.0), ("2", 25.0), ("3", 30.0))]
    alone = Row("4 NV2, 2 pairs", "GB/s", 50.0, 48.0)
    found = refits(Folder.at(None), Group("links", "", (*rows, alone)))[-1]
    assert (found.name, found.rows, found.models) == (LINKS, 3, 3)
    assert found.left_out_percent == pytest.approx((37.5 + 0 + 25) / 3)
    assert found.mape_percent == pytest.approx((25 + 0 + 100 / 6) / 3)


def test_a_fit_without_one_model_is_never_better_on_all_than_with_it() -> None:
    found = {one.name: one for one in refits(Folder.at(None), NO_LINKS)}
    assert list(found) == [*(name for name, said in sources().items() if said.obtained == FITTED), LINKS]
    for name in ("fsdp_activation_bytes_per_hidden", "train_mfu_dense", "ring_efficiency"):
        one = found[name]
        assert one.rows > 0
        assert one.models > 1
        assert one.left_out_percent is not None
        assert one.mape_percent is not None
        assert one.lowest is not None
        assert one.highest is not None
        assert one.left_out_percent > one.mape_percent - 1
        assert 0.7 * getattr(constants(), name) < one.lowest <= one.highest < 1.3 * getattr(constants(), name)
    assert found["fsdp_activation_bytes_per_hidden_moe"].left_out_percent is None


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (Refit("x", "collectives", 0, 0, None, None), "x (collectives): 0 rows depend on it"),
        (
            Refit("x", "training_memory", 1, 1, 3.0, None),
            "x (training_memory): 1 row depends on it, mean error 3.0 %; there is one model, so that none can be left out",
        ),
        (
            Refit("x", "collectives", 4, 2, 3.0, 5.0, 0.8, 0.9),
            (
                "x (collectives): 4 rows depend on it, mean error 3.0 %; 5.0 % when the value for each system comes from the others, "
                "with values from 0.8 to 0.9"
            ),
        ),
    ],
)
def test_what_was_fitted_is_said_in_a_sentence(one: Refit, said: str) -> None:
    assert fitted(one) == said
