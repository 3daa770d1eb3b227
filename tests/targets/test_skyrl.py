"""SkyRL's own configuration, read from overrides as its command reads them, and its own checks of it."""

from __future__ import annotations

import shlex
import sys
import typing

import pytest
import typing_extensions
from hypothesis import given, settings
from hypothesis import strategies as st
from installed import package_folder
from random_starts import starts

from placement.targets.skyrl import TARGET
from placement.targets.target import emit


@pytest.fixture(scope="module")
def skyrl():
    """Return its configuration class and its check. Its code is for Python 3.12: pydantic wants another TypedDict on 3.11."""
    sys.path.append(str(package_folder("skyrl").parent / "skyrl-gym"))
    typing.TypedDict = typing_extensions.TypedDict
    from skyrl.train.config import SkyRLTrainConfig
    from skyrl.train.utils.utils import validate_cfg

    return SkyRLTrainConfig, validate_cfg


def words_of(text: str) -> list[str]:
    joined = text.replace("\\\n", " ")
    line = next(line for line in joined.splitlines() if line.startswith("python -m skyrl"))
    return [word for word in shlex.split(line)[3:] if word != "$@"]


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_its_checks_pass(skyrl, data):
    """Every key is known, batches are cut evenly, engines and groups fit, and sizes are those of the map."""
    assert TARGET.rules is not None
    start = data.draw(starts(TARGET.rules))
    config_class, validate = skyrl
    config = config_class.from_cli_overrides([*words_of(emit(TARGET, start).files["launch.sh"]), "trainer.logger=console"])
    validate(config)
    placed = config.trainer.placement
    assert placed.colocate_all == start.workload.is_hybrid
    assert placed.policy_num_gpus_per_node == len(start.seats["actor"])
    engine = config.generator.inference_engine
    assert engine.num_engines * engine.tensor_parallel_size == len(start.seats["actor" if start.workload.is_hybrid else "rollout"])
    if "critic" in start.seats:
        assert placed.critic_num_gpus_per_node == len(start.seats["critic"])


def test_it_rejects_unknown_keys(skyrl):
    """So that a key that we misspell would be seen."""
    with pytest.raises(Exception, match="polici"):
        skyrl[0].from_cli_overrides(["trainer.placement.polici_num_nodes=1"])
