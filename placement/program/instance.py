"""
A question with everything that belongs to it: machine, job, rules, and what is optimised.

When to modify: the user can ask in a new way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from placement.constants import constants_file
from placement.constants.table import Constants, Override, link_rates, overridden
from placement.errors import InputError
from placement.machines.machine import Machine, resolve
from placement.workloads.rules import Rules, parse_rules
from placement.workloads.target_fit import fitted
from placement.workloads.workload import Workload
from topologies.model import Topology

WITHIN_PERCENT = 2.0
"""Predictions are not good to 2 %: inside that band other things count (DESIGN of the objective)."""


class Objective(StrEnum):
    """What comes first."""

    STEP = "step"
    MEMORY = "memory"
    GPUS = "gpus"
    BANDWIDTH = "bandwidth"


@dataclass(frozen=True, slots=True)
class Instance:
    """
    What `placement.plan` answers.

    Parameters
    ----------
    visible
        Physical ids left by CUDA_VISIBLE_DEVICES; None when nothing is hidden.
    objective
        The term that comes first.
    within_percent
        Width of the band around the shortest step in which the other terms count.
    constants
        The numbers of the cost model: the shipped ones with *overrides*.
    overrides
        What the user put in place of shipped numbers.
    not_needed
        Physical ids that the smallest set of GPUs leaves out (``--smallest gpus``), ascending.
    """

    machine: Machine
    workload: Workload
    rules: Rules
    visible: tuple[int, ...] | None
    objective: Objective
    within_percent: float
    constants: Constants
    overrides: tuple[Override, ...] = ()
    not_needed: tuple[int, ...] = ()

    def with_overrides(self, overrides: Sequence[Override]) -> Self:
        """Return the same question with *overrides* in place of those that it has."""
        kept = constants_file.normal(overrides)
        c, topology = overridden(kept), self.machine.topology
        machine = resolve(
            topology, self.rules, visible=self.visible, not_needed=self.not_needed, constants=c, rates=link_rates(kept)
        )
        return dataclasses.replace(self, machine=machine, constants=c, overrides=kept)

    def replace(self, **changes: object) -> Self:
        """Return a copy with *changes*."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


def make_instance(
    topology: Topology,
    workload: Workload,
    rules: Rules | None = None,
    *,
    visible: Sequence[int] | None = None,
    objective: Objective | str = Objective.STEP,
    within_percent: float = WITHIN_PERCENT,
    overrides: Sequence[Override] = (),
    not_needed: Sequence[int] = (),
) -> Instance:
    """
    Join the parts and check what no part can check alone.

    Parameters
    ----------
    rules
        None for those that the workload names, and the defaults.
    visible
        Physical ids left by CUDA_VISIBLE_DEVICES; None when nothing is hidden.
    objective
        What comes first, or its name.
    within_percent
        Width of the band around the shortest step in which the other terms count.
    overrides
        What the user puts in place of the shipped numbers of the cost model (see `placement.constants.constants_file`).
    not_needed
        Physical ids that the smallest set of GPUs leaves out.

    Raises
    ------
    InputError
        If a part is of another type (a name, mostly, that must be read first), the machine cannot be planned on, spans
        several hosts, or the job places no role.
    """
    if rules is None:
        rules = parse_rules(*filter(None, [workload.rules])) if isinstance(workload, Workload) else Rules()
    objective = _checked_types(topology, workload, rules, visible, objective, within_percent)
    if len(topology.hosts) > 1:
        raise InputError(
            f"the machine spans {len(topology.hosts)} hosts; this version plans a single host: give what one of them printed (a file that "
            "`placement collect` read), or a shipped machine alone"
        )
    if not workload.placed:
        raise InputError("no role of the workload needs a GPU: there is nothing to place")
    if not 0 <= within_percent <= 100:
        raise InputError(f"--within takes a percentage from 0 to 100, not {within_percent:g}")
    if (target := rules.expressible) is not None and rules.sharing == "partial" and not target.is_partial:
        raise InputError(f"target {target.name} shares all GPUs of two roles or none: leave out the rule sharing=partial")
    workload = fitted(workload, target)
    kept = constants_file.normal(overrides)
    c = overridden(kept)
    machine = resolve(topology, rules, visible=visible, not_needed=not_needed, constants=c, rates=link_rates(kept))
    return Instance(
        machine=machine,
        workload=workload,
        rules=rules,
        visible=tuple(sorted(set(visible))) if visible is not None else None,
        objective=objective,
        within_percent=within_percent,
        constants=c,
        overrides=kept,
        not_needed=tuple(sorted(set(not_needed))),
    )


def _checked_types(
    topology: object, workload: object, rules: object, visible: object, objective: object, within_percent: object
) -> Objective:
    """Refuse, before anything fails deep inside, what is no part; return the objective, which may be its name."""
    for value, kind, what, reader in (
        (topology, Topology, "a topology", "read_machine"),
        (workload, Workload, "a workload", "load_workload"),
        (rules, Rules, "rules", "parse_rules"),
    ):
        if not isinstance(value, kind):
            how = f"call placement.{reader}({value!r})" if isinstance(value, str) else f"placement.{reader} makes them"
            raise InputError(f"make_instance takes {what}, not {_shown(value)}: {how}")
    if visible is not None and not (
        isinstance(visible, Sequence)
        and not isinstance(visible, str)
        and all(isinstance(index, int) and not isinstance(index, bool) for index in visible)
    ):
        raise InputError(f"make_instance takes visible as physical ids such as [0, 1], or None, not {_shown(visible)}")
    if not isinstance(within_percent, int | float) or isinstance(within_percent, bool):
        raise InputError(f"make_instance takes within_percent as a number, not {_shown(within_percent)}")
    if not isinstance(objective, str) or objective not in tuple(Objective):
        words = ", ".join(Objective)
        raise InputError(f"make_instance takes as objective one of {words}, not {_shown(objective)}")
    return Objective(objective)


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, str | int | float) else f"a {type(value).__name__}"
