"""
The map that verl's files were written from: `ray start` lists GPUs, and overrides say how many of them each pool takes, in which order.

When to modify: other overrides say which roles there are, or verl makes its pools in another order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from placement.targets.blocks import entries
from placement.targets.target import Entry, Files
from placement.targets.verl_overrides import A

_START = re.compile(r"CUDA_VISIBLE_DEVICES=(?P<gpus>\S+) ray start ", re.MULTILINE)
_NAME = re.compile(r"ray-start(?:-(?P<host>.+))?\.sh")


def read_back(files: Files) -> dict[str, tuple[Entry, ...]]:
    """
    Return role → GPUs from the files of stock verl.

    Nothing where a pool is on some of several hosts alone: which of them, Ray chooses.
    """
    said = dict(line.removeprefix("+").split("=", 1) for line in files["overrides.txt"].splitlines())
    offered: dict[str | None, list[int]] = {}
    for name, text in files.items():
        match, start = _NAME.fullmatch(name), _START.search(text)
        if match is not None and start is not None:
            offered[match["host"]] = [int(gpu) for gpu in start["gpus"].split(",")]
    groups: dict[str, tuple[tuple[str | None, int], ...]] = {}
    for roles, hosts, each in _pools(said):
        if hosts != len(offered):
            return {}
        seats = tuple((host, gpu) for host, gpus in offered.items() for gpu in gpus[:each])
        for gpus in offered.values():
            del gpus[:each]
        groups |= dict.fromkeys(roles, seats)
    return entries(groups)


def _pools(said: Mapping[str, str]) -> Iterator[tuple[tuple[str, ...], int, int]]:
    """Yield the pools as verl makes them: roles, hosts, GPUs on each."""
    is_on = {key: value == "True" for key, value in said.items()}
    has_ref = is_on["algorithm.use_kl_in_reward"] or is_on[f"{A}.actor.use_kl_loss"]
    has_reward = is_on["reward.reward_model.enable"]
    apart = has_reward and is_on["reward.reward_model.enable_resource_pool"]
    first = {"actor": True, "critic": is_on["critic.enable"], "ref": has_ref, "reward": has_reward and not apart}
    yield tuple(role for role, exists in first.items() if exists), *_size(said, "trainer")
    if apart:
        yield ("reward",), *_size(said, "reward.reward_model")
    if f"{A}.rollout.n_gpus_per_node" in said:
        yield ("rollout",), *_size(said, f"{A}.rollout")


def _size(said: Mapping[str, str], key: str) -> tuple[int, int]:
    return int(said[f"{key}.nnodes"]), int(said[f"{key}.n_gpus_per_node"])
