"""
What fills each GPU of a plan: for every moment, who holds how much for what.

The figures add up to those of the map: at the worst moment of a GPU their sum is what is planned there.

When to modify: memory is looked at in another way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from placement.checking.choices import tp_sizes
from placement.checking.costs import offered, recorded
from placement.choices.choices import Part, parts
from placement.choices.footprints import LOAD, Footprint, whole
from placement.demand import footprint
from placement.plans import Plan
from placement.program.instance import Instance
from placement.workloads.dataflow import dataflow
from placement.workloads.workload import RoleName


@dataclass(frozen=True, slots=True)
class Held:
    """What one part of a role holds on a GPU at a moment, in whole MiB by `placement.choices.footprints.Piece`; none is 0."""

    role: RoleName
    part: Part
    pieces: Mapping[str, int]

    @property
    def mib(self) -> int:
        """All of it."""
        return sum(self.pieces.values())


@dataclass(frozen=True, slots=True)
class Moment:
    """
    A moment on a GPU.

    Parameters
    ----------
    name
        A phase of the step, or `placement.choices.footprints.LOAD`: the worst of the moments in which a role's weights come in,
        or its engine starts, while the others idle.
    held
        By role and part, in the order of roles.
    """

    gpu: int
    name: str
    held: tuple[Held, ...]

    @property
    def mib(self) -> int:
        """What all roles hold, MiB."""
        return sum(held.mib for held in self.held)


def memory_table(plan: Plan, instance: Instance) -> tuple[Moment, ...]:
    """
    Return all moments of all GPUs that *plan* uses: by GPU, `LOAD` first, then the phases in the order of the step.

    *plan* is one that answers *instance* (`placement.checking.problems` finds none).
    """
    holders = tuple(_footprints(plan, instance))
    phases = [LOAD, *dict.fromkeys(work.value for stage in dataflow(instance.workload) for _, work in stage.work)]
    return tuple(
        _moment(gpu, phase, [(role, part, of) for role, part, of in holders if gpu in plan.device_map[role]])
        for gpu in plan.used_gpus
        for phase in phases
    )


Holder = tuple[RoleName, Part, Footprint]


def _footprints(plan: Plan, instance: Instance) -> Iterator[Holder]:
    for role in instance.workload.placed:
        chosen = plan.roles[role.name]
        hardware = offered(instance, plan.device_map[role.name], tp_sizes(chosen))
        for part in parts(role):
            of = footprint(role, part, recorded(chosen, part), instance.workload, hardware, instance.constants)
            if of is not None:
                yield role.name, part, of


def _moment(gpu: int, name: str, holders: Sequence[Holder]) -> Moment:
    if name != LOAD:
        return Moment(gpu, name, tuple(Held(role, part, whole(of.moment(name))) for role, part, of in holders))
    # One comes in at a time, while the others idle.
    moments = [
        Moment(
            gpu,
            LOAD,
            tuple(Held(r, p, whole(of.load if (r, p) == (role, part) else of.idle)) for r, p, of in holders),
        )
        for role, part, _ in holders
    ]
    return max(moments, key=lambda moment: moment.mib)
