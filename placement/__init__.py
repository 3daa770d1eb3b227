"""
Which role of a reinforcement-learning job runs on which GPU.

Names are loaded when they are first used: ``import placement`` in a training script costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from placement._version import __version__ as __version__
    from placement.catalog import load_workload as load_workload
    from placement.devicemap import dump as dump
    from placement.devicemap import load as load
    from placement.errors import InputError as InputError
    from placement.errors import OutputError as OutputError
    from placement.errors import PlacementError as PlacementError
    from placement.errors import SolverBug as SolverBug
    from placement.instance import Instance as Instance
    from placement.instance import make_instance as make_instance
    from placement.planner import Outcome as Outcome
    from placement.planner import plan as plan
    from placement.plans import Plan as Plan
    from placement.rules import parse_rules as parse_rules
    from placement.sources import read_machine as read_machine

_HOME = {
    "InputError": "errors",
    "Instance": "instance",
    "Outcome": "planner",
    "OutputError": "errors",
    "Plan": "plans",
    "PlacementError": "errors",
    "SolverBug": "errors",
    "__version__": "_version",
    "dump": "devicemap",
    "load": "devicemap",
    "load_workload": "catalog",
    "make_instance": "instance",
    "parse_rules": "rules",
    "plan": "planner",
    "read_machine": "sources",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'placement' has no attribute {name!r}")
    return getattr(importlib.import_module(f"placement.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
