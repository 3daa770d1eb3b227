"""Our formulas for parameters against the modules of transformers, built on the meta device: nothing is downloaded or allocated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from model_configs import QWEN2_MOE, RECORDS, SMALL, config_of

from placement.models.model_config import read_config
from placement.models.torch_models import parameter_count

pytest.importorskip("transformers")

SAME_AS = {"kimi_k2": "deepseek_v3"}
"""Families that transformers builds with the modules of another: the code of Kimi K2 is that of DeepSeek V3."""

# Modules of transformers still use names that their libraries would like to retire.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["model"])
def test_every_model_of_the_catalogue_has_as_many_parameters_as_its_modules(record: dict[str, Any], tmp_path: Path) -> None:
    config = config_of(record)
    built = {**config, "model_type": SAME_AS.get(config["model_type"], config["model_type"])}
    assert parameter_count(built) == _ours(config, tmp_path) == record["params_formula"]


@pytest.mark.parametrize("small", SMALL, ids=lambda small: small["id"])
def test_every_family_and_switch_is_recorded_with_the_parameters_of_its_modules(small: dict[str, Any]) -> None:
    assert parameter_count(small["config"]) == small["parameters"]


def test_a_family_that_is_not_in_the_catalogue(tmp_path: Path) -> None:
    assert parameter_count(QWEN2_MOE) == _ours(QWEN2_MOE, tmp_path)


def _ours(config: dict[str, Any], folder: Path) -> int:
    path = folder / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return read_config(path, name="it").parameters
