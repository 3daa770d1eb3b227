"""
What a plan rests on, in sentences: printed with it, kept in the map.

When to modify: the cost model or the lowering takes something for granted that a user could dispute.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from placement.choices.batches import uneven
from placement.choices.choices import Choice, FrozenChoice, RolloutChoice, TrainChoice, parts
from placement.constants.table import TIME_FACTOR, Override, constants, sources
from placement.machines.machine import id_ranges
from placement.machines.measured import rehearsals, what_was_measured
from placement.memory.sending import sends_adapters
from placement.plans import HostMemory
from placement.program.instance import Instance
from placement.program.menu import Menu
from placement.workloads.dataflow import Work
from placement.workloads.workload import Quantization, RoleName, Schedule, Workload
from solvers.result import Result
from topologies import peer

STEP_WITHIN_PERCENT = 20
"""What most published steps of dense models are predicted to (docs/validation.md, rl_step_dense; a test counts them)."""

MEMORY_WITHIN_PERCENT = 10
"""The same for the published peaks of training (docs/validation.md, training_memory)."""

EXPERTS_OFF = "a quarter"
"""Mean error of the published steps of mixtures of experts (docs/validation.md, rl_step_moe)."""


def assumptions(
    instance: Instance, menu: Menu, result: Result, chosen: Sequence[Choice], hosts: Sequence[HostMemory]
) -> tuple[str, ...]:
    """
    Return the assumptions behind the predictions and the proof of *result*.

    Parameters
    ----------
    chosen
        What its plan takes from the menus, of all roles.
    hosts
        The host memory that its plan needs.
    """
    said = [
        _predicted(instance),
        _accuracy(),
        *rough_times(instance),
        _schedule(instance),
    ]
    said += [overridden(each) for each in instance.overrides]
    if not menu.is_complete:
        said.append("too many groups to look at all of them: the plan is the best of those that were")
    if menu.has_rough_rings:
        said.append(
            "rings over more than 8 GPUs are the best of a bounded search: some group may be faster than it is taken to be"
        )
    machine = instance.machine
    unverified = sorted({machine.cards[g].name for g in machine.usable if not machine.cards[g].verified})
    if unverified:
        said.append(f"memory of {', '.join(unverified)} is from data sheets, not seen in a driver's output")
    if any(work is Work.SYNC_WEIGHTS for _, work, _ in menu.operations) and not instance.workload.is_hybrid:
        said.append("new weights reach the rollout GPUs over the best link between the two groups, then along its ring")
    ranks = {
        role.name: choice.dp
        for (role, _), choice in zip(((role, part) for role in menu.roles for part in parts(role)), chosen, strict=True)
        if not isinstance(choice, RolloutChoice)
    }
    of_job = (*_sent(instance.workload), *_menus(chosen), *uneven_batches(instance, ranks))
    return (*said, *of_job, *_host_memory(hosts), *must_know(instance))


def _host_memory(hosts: Sequence[HostMemory]) -> Iterator[str]:
    unknown = [row for row in hosts if row.capacity is None]
    if unknown:
        needs = ", ".join(f"{math.ceil(row.planned / 1024)} GiB on {row.host or 'the host'}" for row in unknown)
        yield f"host memory unknown: the plan needs {needs} (--host-memory AMOUNT states what there is)"
    if len(unknown) < len(hosts):
        yield "of host memory plans leave Ray's object store its default and use what is below the mark at which Ray kills workers"


def must_know(instance: Instance) -> tuple[str, ...]:
    """Return the assumptions that are about this machine and this job: who overlooks one plans something else than is meant."""
    machine, topology = instance.machine, instance.machine.topology
    said = []
    why: dict[str, list[int]] = {}
    for gpu, reason in machine.unusable.items():
        why.setdefault(reason, []).append(gpu)
    for reason, gpus in why.items():
        said.append(f"GPU {id_ranges(gpus)} {'is' if len(gpus) == 1 else 'are'} left out: {reason}")
    cut = len(topology.gpus) * (len(topology.gpus) - 1) // 2 - len(topology.links)
    if cut:
        said.append(f"{cut} GPU pair{'s' if cut > 1 else ''} with an unknown link: taken as host-staged, joined to no island")
    if off := peer.summary(machine.blocked, machine.usable):
        said.append(off)
    said += rehearsals(topology)
    return (*said, *_too_long(instance.workload))


def uneven_batches(instance: Instance, ranks: Mapping[RoleName, int]) -> Iterator[str]:
    """Yield what most trainers would refuse of a plan whose roles have so many data-parallel *ranks*."""
    roles: dict[tuple[int, str], list[str]] = {}
    for role in instance.workload.placed:
        if role.name in ranks and (what := uneven(role, ranks[role.name], instance.workload.batch)):
            roles.setdefault((ranks[role.name], what), []).append(role.name.value)
    for (dp, what), names in roles.items():
        yield (
            f"{', '.join(names)}: {dp} data-parallel ranks cannot share {what} evenly, which most trainers refuse: change the batch, or "
            "forbid it with --rules even_batch=on"
        )


def _accuracy() -> str:
    return (
        f"predictions like these (docs/validation.md): without calibration, step times of dense models are mostly within "
        f"{STEP_WITHIN_PERCENT} % of published runs, memory of training within {MEMORY_WITHIN_PERCENT} %"
    )


def rough_times(instance: Instance) -> Iterator[str]:
    """Yield that times are rough where a model has experts: nothing when its user has calibrated them."""
    has_experts = any(role.model is not None and role.model.experts for role in instance.workload.placed)
    if has_experts and not any(each.name.endswith(TIME_FACTOR) for each in instance.overrides):
        yield f"times of mixtures of experts are off by {EXPERTS_OFF} on average (docs/validation.md): calibrate before trusting them"


def overridden(each: Override) -> str:
    """Say what a user put in place of a shipped number, and where he has it from."""
    why = f"({each.source or 'no source given'})"
    if each.name.endswith(TIME_FACTOR):
        return f"{each.name.removesuffix(TIME_FACTOR)} takes {each.value:g} times the time that the model predicts {why}"
    shipped, unit = getattr(constants(), each.name), sources()[each.name].unit
    return f"constant {each.name} {each.value:g} in place of {shipped:g} ({unit}) {why}"


def _predicted(instance: Instance) -> str:
    told = what_was_measured(instance.machine.topology)
    if told is None:
        return "times and memory are predictions from published constants (docs/model.md), not measurements of this machine"
    return f"times and memory are predictions from published constants (docs/model.md), but for what was {told}"


def _too_long(workload: Workload) -> Iterator[str]:
    """Yield which models are asked for longer sequences than they take."""
    longest = workload.batch.prompt_tokens + workload.batch.response_max_tokens
    roles: dict[tuple[str, int], list[str]] = {}
    for role in workload.placed:
        if role.model is not None and role.model.max_position is not None and role.model.max_position < longest:
            roles.setdefault((role.model.name, role.model.max_position), []).append(role.name.value)
    for (model, most), names in roles.items():
        yield (
            f"{', '.join(names)}: sequences of {longest} tokens, {model} takes {most} (its config): raise the model's limit "
            "(rope scaling) or shorten the batch"
        )


def _sent(workload: Workload) -> Iterator[str]:
    """Yield what a weight sync sends where adapters are trained."""
    actor = workload.role(RoleName.ACTOR)
    if actor is None or actor.train is None or actor.train.lora == 0:
        return
    if sends_adapters(actor, hybrid=workload.is_hybrid):
        yield "LoRA: weight syncs send the adapters alone, to an engine that has their base (lora_merge: true sends all weights)"
    else:
        yield "LoRA: weight syncs send all weights, the adapters merged into them (lora_merge: false sends the adapters alone)"


def _menus(chosen: Sequence[Choice]) -> Iterator[str]:
    """Yield what is assumed of choices that few plans take."""
    if any(isinstance(choice, TrainChoice | FrozenChoice) and choice.ep > 1 for choice in chosen):
        yield "expert parallelism: every expert gets as many tokens as any other"
    if any(isinstance(choice, RolloutChoice) and choice.quantization is Quantization.FP8 for choice in chosen):
        yield "engines with 8-bit weights read them faster, and multiply in 8 bits on cards that can (compute capability 8.9), else in 16"


def _schedule(instance: Instance) -> str:
    match instance.workload.schedule:
        case Schedule.FULL:
            return (
                "schedule full (no target named): inside a stage, roles on disjoint GPUs work at the same time, and do not "
                "slow each other down on shared uplinks"
            )
        case Schedule.NONE:
            return "schedule none: every piece of work waits for the one before it, also on disjoint GPUs"
        case Schedule.ONE_STEP_OFF:
            return (
                "schedule one_step_off: generation of the next step, to the end of its longest answer, overlaps preparation and "
                "updates of this one"
            )
        case Schedule.ASYNC:
            return (
                "schedule async: generation never waits for long answers; weight syncs interrupt them, and they go on with new weights"
            )
