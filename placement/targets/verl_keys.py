"""
Which keys a version of verl has.

verl's keys move from version to version, and a key that it does not have is refused by Hydra, or with a plus sign silently ignored. So keys
are looked up: in the configuration of the verl that is installed here, else in a table that was made from the wheels.

When to modify: a version is released (tests/verl says what differs), or another key is emitted.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from placement.errors import InputError

FSDP_CONFIG, MEGATRON_CONFIG = "ppo_trainer", "ppo_megatron_trainer"


@functools.cache
def _table() -> Mapping[str, Mapping[str, frozenset[str]]]:
    text = (Path(__file__).parents[1] / "data" / "verl_keys.json").read_text(encoding="utf-8")
    return {
        version: {config: frozenset(keys) for config, keys in of_version.items()}
        for version, of_version in json.loads(text)["versions"].items()
    }


def installed() -> str | None:
    """Return the version of verl that is installed here, None where there is none."""
    try:
        return importlib.metadata.version("verl")
    except importlib.metadata.PackageNotFoundError:
        return None


def versions() -> tuple[str, ...]:
    """Return the versions whose keys are known, the usual one first: the one that is installed here, else the newest."""
    here = installed()
    return tuple(dict.fromkeys(([here] if here is not None else []) + list(_table())))


def keys(version: str, config: str) -> frozenset[str]:
    """
    Return the keys of *config* in *version*.

    Raises
    ------
    InputError
        If its configuration cannot be read where it is installed.
    """
    if version == installed():
        return frozenset(_installed_keys(config))
    return _table()[version][config]


def _installed_keys(config: str) -> Iterator[str]:
    import yaml

    found = importlib.util.find_spec("verl")      # does not import it
    if found is None or found.submodule_search_locations is None:
        raise InputError("verl is said to be installed here and cannot be found: install it again, or give --target-version")
    path = Path(next(iter(found.submodule_search_locations))) / "trainer" / "config" / f"_generated_{config}.yaml"
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"cannot read the configuration of the installed verl ({path.name}: {error}); give --target-version") from None
    yield from _flat(tree, "")


def _flat(tree: Any, above: str) -> Iterator[str]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            name = f"{above}.{key}" if above else str(key)
            yield name
            yield from _flat(value, name)
