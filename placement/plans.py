"""
The answer, as plain values: what the device map says and nothing else.

`placement.devicemap` writes these to YAML and reads them back; equal plans are equal files.

When to modify: the device map gets a new field.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Layout:
    """Tensor, pipeline and data parallel sizes; their product is the number of GPUs."""

    tp: int
    pp: int
    dp: int


@dataclass(frozen=True, slots=True)
class TrainPlan:
    """How a trained role keeps its state."""

    master: str
    offload: str
    micro_batch_tokens: int


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """How generation runs; *replicas* engines of *tp* GPUs each."""

    engine: str
    tp: int
    replicas: int
    gpu_memory_utilization: float
    max_num_seqs: int


@dataclass(frozen=True, slots=True)
class RolePlan:
    """
    One role.

    Parameters
    ----------
    train
        For actor and critic.
    rollout
        For the hybrid engine and for a rollout role.
    offload
        For frozen roles.
    """

    model: str
    engine: str
    precision: str
    layout: Layout
    train: TrainPlan | None = None
    rollout: RolloutPlan | None = None
    offload: str | None = None


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """
    One GPU's memory, MiB.

    ``free = capacity - reserved - planned``, where *planned* is the need at the worst moment, *worst_phase*
    (None on a GPU that the plan leaves alone).
    """

    gpu: int
    capacity: int
    reserved: int
    planned: int
    worst_phase: str | None
    free: int


@dataclass(frozen=True, slots=True)
class StageTime:
    """One stage: its time, µs, the roles that bound it (``actor``, or ``actor+ref`` taking turns), and by what."""

    name: str
    us: int
    bound_by: str
    because: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """Predicted times, µs, and what they rest on."""

    step_us: int
    schedule: str
    stages: tuple[StageTime, ...]
    assumptions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TermValue:
    """One term of the objective: the value of the plan, and what is proven about it."""

    name: str
    value: int
    bound: int


@dataclass(frozen=True, slots=True)
class Proof:
    """
    What is proven.

    Parameters
    ----------
    status
        ``optimal`` when every term is proven, else ``feasible``.
    objective, bound
        The shortest step T* (where another objective was put first: at the optimum of that) and its bound, µs.
    gap
        ``(objective - bound) / objective``.
    objective_terms
        All terms in the order in which they were optimised.
    """

    status: str
    objective: int
    bound: int
    gap: float
    objective_terms: tuple[TermValue, ...]


@dataclass(frozen=True, slots=True)
class Alternative:
    """
    Another plan beside ours.

    Parameters
    ----------
    step_us
        Its step, µs; None, with the reason as *note*, when there is none.
    note
        ``optimal``, or how far it is proven.
    first_term
        The optimum of the objective that was put before the step, if there was one.
    """

    step_us: int | None
    note: str
    first_term: int | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """
    What ours has to beat.

    Parameters
    ----------
    free
        The optimum with the rules *lifted* out of the way; their price is the difference.
    colocated
        The trivial plan: every role on all usable GPUs, taking turns.
    lifted
        The rules of choice that are on.
    why_not_colocated
        Why the trivial plan is not taken although it is shorter; empty when it is not.
    """

    free: Alternative
    colocated: Alternative
    lifted: tuple[str, ...] = ()
    why_not_colocated: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """
    A device map with its proof and everything that is needed to replay it.

    Parameters
    ----------
    device_map
        Role → physical ids in rank order.
    ordinals
        The same as positions in CUDA_VISIBLE_DEVICES.
    environment
        Variables to start with.
    rules
        The preset and the switches that differ from it.
    inputs
        Resolved topology and workload documents, options, and the version that planned.
    """

    verdict: str
    device_map: Mapping[str, tuple[int, ...]]
    ordinals: Mapping[str, tuple[int, ...]]
    environment: Mapping[str, str]
    roles: Mapping[str, RolePlan]
    memory_mib: tuple[GpuMemory, ...]
    estimate: Estimate
    proof: Proof
    comparison: Comparison
    rules: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def used_gpus(self) -> tuple[int, ...]:
        """GPUs on which some role runs, ascending."""
        return tuple(sorted({gpu for gpus in self.device_map.values() for gpu in gpus}))

    def replace(self, **changes: object) -> Self:
        """Return a copy with *changes*."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]
