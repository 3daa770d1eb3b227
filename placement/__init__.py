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
    from placement.errors import InputError as InputError
    from placement.errors import OutputError as OutputError
    from placement.errors import PlacementError as PlacementError
    from placement.errors import PreflightError as PreflightError
    from placement.errors import SolverBug as SolverBug
    from placement.machines.sources import read_machine as read_machine
    from placement.maps.devicemap import dump as dump
    from placement.maps.devicemap import load as load
    from placement.planner import Outcome as Outcome
    from placement.planner import SolverName as SolverName
    from placement.planner import plan as plan
    from placement.plans import Plan as Plan
    from placement.program.instance import Instance as Instance
    from placement.program.instance import Objective as Objective
    from placement.program.instance import make_instance as make_instance
    from placement.verifying.preflight import preflight as preflight
    from placement.workloads.rules import parse_rules as parse_rules
    from solvers.result import Options as Options
    from topologies.errors import TopologyError as TopologyError

_HOME = {
    "InputError": "placement.errors",
    "Instance": "placement.program.instance",
    "Objective": "placement.program.instance",
    "Options": "solvers.result",
    "Outcome": "placement.planner",
    "OutputError": "placement.errors",
    "Plan": "placement.plans",
    "PlacementError": "placement.errors",
    "PreflightError": "placement.errors",
    "SolverBug": "placement.errors",
    "SolverName": "placement.planner",
    "TopologyError": "topologies.errors",
    "__version__": "placement._version",
    "dump": "placement.maps.devicemap",
    "load": "placement.maps.devicemap",
    "load_workload": "placement.catalog",
    "make_instance": "placement.program.instance",
    "parse_rules": "placement.workloads.rules",
    "plan": "placement.planner",
    "preflight": "placement.verifying.preflight",
    "read_machine": "placement.machines.sources",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'placement' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
