"""
The answer, as plain values: what the device map says and nothing else.

`placement.maps.devicemap` writes these to YAML and reads them back; equal plans are equal files.

When to modify: the device map gets a new field.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Layout:
    """
    Tensor, pipeline and data parallel sizes.

    Their product, and *sp* where sequences are shared (None: they are not), is the number of GPUs. *ep* data-parallel ranks share the
    experts of a layer (None: each has all).
    """

    tp: int
    pp: int
    dp: int
    sp: int | None = None
    ep: int | None = None

    @property
    def gpus(self) -> int:
        """GPUs that it fills."""
        return self.tp * self.pp * self.dp * self.sp_size

    @property
    def sp_size(self) -> int:
        """GPUs that share each sequence."""
        return 1 if self.sp is None else self.sp

    @property
    def ep_size(self) -> int:
        """Data-parallel ranks that share the experts of a layer."""
        return 1 if self.ep is None else self.ep


@dataclass(frozen=True, slots=True)
class TrainPlan:
    """How a trained role keeps its state; *zero* is FSDP's ZeRO stage where it is not 3 (None)."""

    master: str
    offload: str
    micro_batch_tokens: int
    zero: int | None = None

    @property
    def zero_stage(self) -> int:
        """FSDP's ZeRO stage."""
        return 3 if self.zero is None else self.zero


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """How generation runs; *replicas* engines of *tp* GPUs each. *quantization* and *kv_cache* are None for 16 bits."""

    engine: str
    tp: int
    replicas: int
    gpu_memory_utilization: float
    max_num_seqs: int
    quantization: str | None = None
    kv_cache: str | None = None


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
class HostMemory:
    """
    One host's memory, MiB.

    Parameters
    ----------
    host
        Its name; None where the only host has none.
    capacity, reserved
        What it has, and what of it no plan may use; None where that is not known.
    planned
        What the plan needs at the worst moment.
    worst_phase
        ``run``, or whose weights are being loaded: ``load_actor`` …
    free
        ``capacity - reserved - planned``.
    """

    host: str | None
    capacity: int | None
    reserved: int | None
    planned: int
    worst_phase: str
    free: int | None


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
    host_memory_mib: tuple[HostMemory, ...]
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
