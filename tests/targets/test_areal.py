"""AReaL's own grammar of allocations, and its own configuration classes."""

from __future__ import annotations

import importlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from installed import bare_packages, package_folder
from random_starts import starts

from placement.targets.areal import CONFIG, TARGET
from placement.targets.target import emit

omegaconf = pytest.importorskip("omegaconf")
bare_packages(
    package_folder("areal"), "areal", "areal.api", "areal.utils", "areal.engine", "areal.engine.fsdp_utils", "areal.infra"
)
alloc_mode = importlib.import_module("areal.api.alloc_mode")
cli_args = importlib.import_module("areal.api.cli_args")


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_its_classes_take_what_is_written(data):
    """Allocations have the sizes of the map; every key is one of PPOConfig, with a value of its type."""
    assert TARGET.rules is not None
    start = data.draw(starts(TARGET.rules))
    text = emit(TARGET, start).files[CONFIG]
    schema = omegaconf.OmegaConf.structured(cli_args.PPOConfig)
    config = omegaconf.OmegaConf.merge(schema, omegaconf.OmegaConf.create(text))
    for role in ("actor", "critic", "ref", "rollout"):
        if role not in start.seats:
            continue
        found = alloc_mode.ModelAllocation.from_str(config[role].backend, name=role)
        assert found.parallel.world_size == len(start.seats[role])
        layout = start.roles[role].layout
        assert (found.parallel.tp_size, found.parallel.dp_size) == (layout.tp, layout.dp)
        is_shared = role != "actor" and start.seats[role] == start.seats["actor"]
        assert config[role].scheduling_strategy.type == ("colocation" if is_shared else "separation")


def test_it_refuses_what_our_rules_refuse():
    """A pipeline under fsdp, and a size without a backend."""
    with pytest.raises(alloc_mode.AllocationValidationError):
        alloc_mode.ModelAllocation.from_str("fsdp:d2p2")
    assert TARGET.rules is not None
