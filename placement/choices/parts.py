"""
The parts of a role that are chosen independently of each other, and the menus of each.

When to modify: a role gets another part.
"""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

from placement.workloads.workload import Engine, Role, RoleName, RolloutMenu, TrainMenu


class Part(StrEnum):
    """An independently chosen part of a role."""

    TRAIN = "train"
    ROLLOUT = "rollout"
    FROZEN = "frozen"


def parts(role: Role) -> tuple[Part, ...]:
    """Return the parts of *role*, in the order of their slots."""
    match role.name:
        case RoleName.ACTOR:
            return (Part.TRAIN, Part.ROLLOUT) if role.rollout is not None else (Part.TRAIN,)
        case RoleName.CRITIC:
            return (Part.TRAIN,)
        case RoleName.ROLLOUT:
            return (Part.ROLLOUT,)
        case RoleName.REF | RoleName.REWARD:
            return (Part.FROZEN,)
    assert_never(role.name)


def engine_of(role: Role, part: Part) -> Engine:
    """Return what runs *part* of *role*."""
    return rollout_menu(role).engine if part is Part.ROLLOUT else role.engine


def train_menu(role: Role) -> TrainMenu:
    """Return how *role*, which is trained, may be."""
    assert role.train is not None
    return role.train


def rollout_menu(role: Role) -> RolloutMenu:
    """Return how *role*, which generates, may."""
    assert role.rollout is not None
    return role.rollout
