"""
Which targets there are.

When to modify: a target is added (its facts stand in `placement.workloads.target_rules`, where it limits what a plan may be).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from placement.targets.target import Target

MODULES: Mapping[str, str] = {
    "verl-stock": "verl_stock",
    "verl": "verl",
    "roll": "roll",
    "rlinf": "rlinf",
    "openrlhf": "openrlhf",
    "trl": "trl",
    "prime-rl": "prime_rl",
    "areal": "areal",
    "nemo-rl": "nemo_rl",
    "skyrl": "skyrl",
    "slime": "slime",
    "env": "env",
    "torchrun": "torchrun",
    "accelerate": "accelerate",
    "deepspeed": "deepspeed",
    "ray": "ray",
    "slurm": "slurm",
    "kubernetes": "kubernetes",
}
"""Name → its module in `placement.targets`, imported when the target is asked for; each has one `TARGET`."""


def target(name: str) -> Target:
    """
    Return the target *name*.

    Raises
    ------
    KeyError
        If there is none.
    """
    found = importlib.import_module(f"placement.targets.{MODULES[name]}").TARGET
    assert isinstance(found, Target)
    return found


def targets() -> tuple[Target, ...]:
    """Return all targets."""
    return tuple(map(target, MODULES))
