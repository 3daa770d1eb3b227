"""
Memory of a host: what each GPU of a role needs of it, and what of it plans may use. Formulas: docs/model-variants.md.

State that is offloaded, weights that an engine keeps while it sleeps, buckets of the weight sync and every process live there. A step
needs all of it at once, since during generation everything else waits. Before the first step roles load one after the other.

When to modify: an engine keeps something else in host memory, or loads its weights in another way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from placement.choices.choices import Choice, FrozenChoice, RolloutChoice, TrainChoice
from placement.constants.table import Constants
from placement.memory.gpu_memory import MIB
from placement.memory.sending import sends_adapters
from placement.memory.states import bytes_per_parameter, frozen_weights, is_streamed, state
from placement.models.model import Model
from placement.workloads.workload import Engine, Offload, Role, RoleName, Workload

RUN = "run"
"""The moment in a step at which all that is offloaded waits; the others are ``load_actor`` and so on."""


@dataclass(frozen=True, slots=True)
class HostNeed:
    """
    MiB of host memory for each GPU of the group, rounded up.

    Parameters
    ----------
    runs_mib
        While the step runs.
    starts_mib
        Once it is loaded: the optimizer makes most of its state in the first update.
    loads_mib
        While its weights are loaded; not less than *starts_mib*.
    """

    runs_mib: int
    starts_mib: int
    loads_mib: int


def host_need(role: Role, model: Model, choice: Choice, workload: Workload, c: Constants) -> HostNeed:
    """
    Return what *choice* needs of the host for each of its GPUs.

    Parameters
    ----------
    model
        What *role* runs: critic and reward have a scalar head.
    """
    match choice:
        case TrainChoice():
            return _train(role, model, choice, c)
        case FrozenChoice():
            return _frozen(role, model, choice, c)
        case RolloutChoice():
            return _rollout(model, choice, workload, c)
    assert_never(choice)


def moments(roles: Sequence[RoleName]) -> tuple[str, ...]:
    """Return the moments at which host memory is counted: the step, and the loading of each of *roles*."""
    return (RUN, *(f"load_{role}" for role in roles))


def by_moment(need: HostNeed, role: RoleName, roles: Sequence[RoleName]) -> tuple[int, ...]:
    """Return *need* of *role* at each of the `moments` of *roles*, MiB."""
    return (need.runs_mib, *(need.loads_mib if role is loading else need.starts_mib for loading in roles))


def usable_mib(total_mib: int, c: Constants) -> int:
    """
    Return what plans may use of a host with *total_mib*, MiB, rounded down.

    Ray's object store, where the batches are, takes its default of 30 %, and Ray kills workers when the host is fuller than 95 %: the
    rest is for the system, its page cache and the driver.
    """
    store = min(c.ray_object_store_share * total_mib, c.ray_object_store_most_mib)
    return max(math.floor(c.ray_memory_threshold * total_mib - store), 0)


def _train(role: Role, model: Model, choice: TrainChoice, c: Constants) -> HostNeed:
    held = state(role, model, choice)
    weights_each, gradients_each, optimizer_each = bytes_per_parameter(role.engine, choice)
    # The weights that the optimizer updates, and their gradients, both of the optimizer's own shard. FSDP's are the weights themselves.
    gradients = held.optimizer * gradients_each / optimizer_each
    match choice.offload:
        case Offload.NONE:
            starts = later = 0.0
        case Offload.BETWEEN:
            starts, later = held.weights, held.optimizer
        case Offload.ALWAYS if is_streamed(role.engine, choice.offload, choice.zero):
            starts = c.host_pinned_rounding * held.weights
            later = c.host_pinned_rounding * gradients + held.optimizer
        case Offload.ALWAYS:
            # Megatron's optimizer on the host: two moments, and pinned copies of master weights (a third) and of gradients. The weights
            # wait beside it between their phases.
            starts = held.weights + held.optimizer * 2 / 3 + c.host_pinned_rounding * (held.optimizer / 3 + gradients)
            later = 0.0
    copy = _loading(role, weights_each * model.parameters, held.weights, gpus=choice.tp * choice.pp * choice.shards)
    bucket = c.sync_bucket_mib if role.name is RoleName.ACTOR else 0
    return _need(starts, later, copy, c.host_process_mib + bucket)


def _frozen(role: Role, model: Model, choice: FrozenChoice, c: Constants) -> HostNeed:
    share = frozen_weights(role, model, choice)
    each = 2.0
    if role.engine is Engine.FSDP:
        # On the host they wait in the type in which they were loaded.
        each = c.host_frozen_bytes_per_parameter
    waits = 0.0 if choice.offload is Offload.NONE else share * each / 2
    if is_streamed(role.engine, choice.offload):
        waits *= c.host_pinned_rounding
    copy = _loading(role, each * model.parameters, share, gpus=choice.tp * choice.pp * choice.shards)
    return _need(waits, 0.0, copy, c.host_process_mib)


def _rollout(model: Model, choice: RolloutChoice, workload: Workload, c: Constants) -> HostNeed:
    share = 2 * model.parameters / choice.tp
    actor = workload.role(RoleName.ACTOR)
    if not workload.is_hybrid:
        return _need(0.0, 0.0, share, c.host_process_mib + c.sync_bucket_mib)
    # It starts with empty weights, which the first sync fills. Asleep it drops them (level 2), but where adapters alone are synced it
    # keeps them on the host (level 1), in pinned memory.
    keeps = actor is not None and sends_adapters(actor, hybrid=True) and (actor.rollout is None or actor.rollout.sleep)
    return _need(c.host_pinned_rounding * share if keeps else 0.0, 0.0, 0.0, c.host_process_mib)


def _loading(role: Role, whole: float, share: float, *, gpus: int) -> float:
    """
    Return the bytes that each GPU's process has read at its worst moment of loading.

    FSDP: the first rank reads the whole checkpoint and sends every rank its share, here counted as evenly spread over the ranks. A model
    whose embeddings are tied cannot be built without its weights: there every rank reads the whole. Other engines read their share.
    """
    if role.engine is not Engine.FSDP:
        return share
    assert role.model is not None
    return whole if role.model.tie_embeddings else whole / gpus


def _need(starts: float, later: float, loading: float, beside_mib: float) -> HostNeed:
    """Return the need with *starts*, *later* (what the first update adds) and *loading* in bytes, *beside_mib* always."""
    return HostNeed(
        runs_mib=math.ceil((starts + later) / MIB + beside_mib),
        starts_mib=math.ceil(starts / MIB + beside_mib),
        loads_mib=math.ceil(max(starts, loading) / MIB + beside_mib),
    )
