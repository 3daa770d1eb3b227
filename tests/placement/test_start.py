"""Maps that were edited by hand: what a job cannot be started from is refused with line and column, before any file is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml
from launcher_maps import ONE_HOST, TWO_HOSTS, map_text

from placement.errors import InputError
from placement.targets.catalog import MODULES, target
from placement.targets.start import read_start
from placement.targets.target import emit
from placement.targets.verl_overrides import hydra_value
from placement.text import strict_yaml


def edited(change: Callable[[dict[str, Any]], object]) -> str:
    data = yaml.safe_load(map_text(ONE_HOST))
    change(data)
    return strict_yaml.dump(data)


def put(role: str, *path: str, value: object) -> Callable[[dict[str, Any]], object]:
    def change(data: dict[str, Any]) -> None:
        at = data["roles"][role]
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put("actor", "engine", value="fsdp2"), "'fsdp2' is no engine (did you mean 'fsdp'?): there is"),
        (put("actor", "precision", value="bf61"), "'bf61' is no precision: bf16 or fp16"),
        (put("actor", "rollout", "tp", value=0), "actor has 4 engines of tp 0 on 4 GPUs"),
        (put("actor", "rollout", "replicas", value=3), "actor has 3 engines of tp 1 on 4 GPUs: replicas times tp is the number of GPUs"),
        (put("actor", "rollout", "gpu_memory_utilization", value=1.7), "gpu_memory_utilization is a share between 0 and 1, not 1.7"),
        (put("critic", "train", "offload", value="sometimes"), "critic trains with master 'fp32' and offload 'sometimes'"),
        (lambda data: data["roles"]["actor"].pop("rollout"), "actor has no `rollout`, and its job (inputs.workload) asks for it"),
        (lambda data: data["roles"]["critic"].pop("train"), "critic has no `train`, and its job (inputs.workload) asks for it"),
        (lambda data: data["inputs"]["workload"]["roles"].pop("ref"), "the map places ref, and its job (inputs.workload) has none"),
    ],
)
def test_what_no_job_can_be_started_from_is_refused(change: Callable[[dict[str, Any]], object], said: str) -> None:
    with pytest.raises(InputError) as error:
        read_start(edited(change))
    assert said in str(error.value)


@pytest.mark.parametrize("groups", [ONE_HOST, TWO_HOSTS])
@pytest.mark.parametrize("value", [None, [], {}, "x", "a b; `id` $HOME '\"", -1, 0, True, 10**30, ["node0:1"]])
def test_no_edit_is_a_traceback(groups: Mapping[str, Any], value: object) -> None:
    """Every node of the roles and of the groups is replaced in turn; the answer is files or one error."""
    whole = yaml.safe_load(map_text(groups))
    for part in ("roles", "device_map", "memory_mib"):
        for path in paths(whole[part]):
            data = yaml.safe_load(map_text(groups))
            at = data[part]
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = value
            try:
                start = read_start(strict_yaml.dump(data))
            except InputError:
                continue
            for name in ("verl", "verl-stock", "trl", "roll", "torchrun", "slurm", "deepspeed"):
                try:
                    emit(target(name), start)
                except InputError as error:
                    assert str(error)


def paths(node: object, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = list(node.items()) if isinstance(node, dict) else list(enumerate(node[:2])) if isinstance(node, list) else []
    return [path for key, below in inner for path in ((*above, key), *paths(below, (*above, key)))]


def test_all_targets_have_a_module() -> None:
    assert all(target(name).name == name for name in MODULES)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-7B"), ("~/models/Qwen", "'~/models/Qwen'"), ("1e5", "'1e5'"), ("123", "'123'"),
        ("a b", "'a b'"), ("it's", "'it\\'s'"), ("a,b=c", "'a,b=c'"), ("null", "'null'"), (True, "True"), (0.4, "0.4"),
    ],
)  # fmt: skip
def test_values_for_hydra_are_quoted(value: object, written: str) -> None:
    """Composed by Hydra itself in tests/verl."""
    assert hydra_value(value) == written


@pytest.mark.parametrize("value", ["a\\b", "a\nb", "/m/${USER}/x"])
def test_what_hydra_reads_otherwise_is_refused(value: str) -> None:
    with pytest.raises(InputError, match="holds a character that Hydra reads otherwise"):
        hydra_value(value)
