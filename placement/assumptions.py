"""
What a plan rests on, in sentences: printed with it, kept in the map.

When to modify: the cost model or the lowering takes something for granted that a user could dispute.
"""

from __future__ import annotations

from collections.abc import Iterator

from placement.dataflow import Work
from placement.instance import Instance
from placement.machine import id_ranges
from placement.menu import Menu
from placement.workload import Schedule, Workload
from solvers.result import Result
from topologies import peer


def assumptions(instance: Instance, menu: Menu, result: Result) -> tuple[str, ...]:
    """Return the assumptions behind the predictions and the proof of *result*."""
    said = [
        "times and memory are predictions from published constants (docs/model.md), not measurements of this machine",
        _schedule(instance),
    ]
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
    return (*said, *must_know(instance))


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
    return (*said, *_too_long(instance.workload))


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


def _schedule(instance: Instance) -> str:
    match instance.workload.schedule:
        case Schedule.FULL:
            return (
                "schedule full (no target named): inside a stage, roles on disjoint GPUs work at the same time, and do not "
                "slow each other down on shared uplinks"
            )
        case Schedule.NONE:
            return "schedule none: every piece of work waits for the one before it, also on disjoint GPUs"
        case Schedule.ASYNC:
            return "schedule async: generation overlaps preparation and updates, which lag by one step"
