"""Overrides are composed with verl's own configuration tree, by hydra: every key exists, and has the value that the map says."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from verl_maps import JOBS, planned

from placement.targets import verl_keys
from placement.targets.start import read_start
from placement.targets.verl_overrides import config_name, overrides

ROOT = Path(next(iter(importlib.util.find_spec("verl").submodule_search_locations)))
HERE = importlib.metadata.version("verl")


@pytest.mark.parametrize("job", JOBS)
def test_verl_composes_them(job):
    """One line is one key of this version; the value is the one that the line says."""
    start = read_start(planned(job))
    lines = overrides(start, HERE)
    with initialize_config_dir(str(ROOT / "trainer" / "config"), version_base=None):
        config = compose(config_name(start), list(lines))
    for line in lines:
        key, _, value = line.removeprefix("+").partition("=")
        found = OmegaConf.select(config, key)
        assert str(found) == str(yaml.safe_load(value)), line
    assert len({line.partition("=")[0] for line in lines}) == len(lines)


def flat(tree: object, above: str = "") -> Iterator[str]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield f"{above}{key}"
            yield from flat(value, f"{above}{key}.")


@pytest.mark.parametrize("config", [verl_keys.FSDP_CONFIG, verl_keys.MEGATRON_CONFIG])
def test_the_table_is_that_of_the_wheel(config):
    """Keys of the version in the table are those of the installed one: none that it lacks, none missing that others have."""
    tree = yaml.safe_load((ROOT / "trainer" / "config" / f"_generated_{config}.yaml").read_text(encoding="utf-8"))
    table = verl_keys._table()
    known = {key for version in table.values() for keys in version.values() for key in keys}
    assert table[HERE][config] == known & set(flat(tree))
    assert verl_keys.keys(HERE, config) == frozenset(flat(tree))
    assert verl_keys.versions()[0] == HERE
