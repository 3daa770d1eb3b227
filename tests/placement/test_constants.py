"""The constants of the cost model: complete, sourced, and sane."""

from __future__ import annotations

import dataclasses

import pytest

from placement.constants import Constants, constants, sources

NAMES = [field.name for field in dataclasses.fields(Constants)]

UNITS = {
    "_mib": "MiB",
    "_us": "us",
    "_us_per_gpu": "us per GPU",
    "_us_per_layer": "us per layer",
    "_efficiency": "share",
    "mfu_dense": "share of peak",
    "mfu_moe": "share of peak",
}


def test_the_file_has_each_constant_once_and_nothing_else() -> None:
    assert list(sources()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_constant_says_its_unit_and_where_it_comes_from(name: str) -> None:
    said = sources()[name]
    assert said.unit
    assert said.obtained in {"published", "derived", "measured"}
    assert len(said.source) > 20


@pytest.mark.parametrize("name", NAMES)
def test_the_unit_in_the_name_is_the_unit_in_the_file(name: str) -> None:
    for ending, unit in UNITS.items():
        if name.endswith(ending):
            assert sources()[name].unit.startswith(unit)


@pytest.mark.parametrize("name", NAMES)
def test_constants_are_positive_and_shares_are_at_most_one(name: str) -> None:
    value = getattr(constants(), name)
    assert value > 0
    if sources()[name].unit.startswith("share"):
        assert value <= 1


@pytest.mark.parametrize("field", dataclasses.fields(Constants), ids=lambda field: field.name)
def test_values_have_the_type_that_is_declared(field: dataclasses.Field[object]) -> None:
    value = getattr(constants(), field.name)
    assert isinstance(value, int) or field.type == "float"


def test_the_shipped_constants_cannot_be_changed_in_place() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        constants().ring_efficiency = 1.0  # type: ignore[misc]
