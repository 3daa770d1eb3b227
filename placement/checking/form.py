"""
Can the map be read as a plan for this machine and job: roles, ids, ordinals, environment, and layouts that fill their groups?

When to modify: the device map gets a new part, or a GPU is left out for a new reason.
"""

from __future__ import annotations

from collections.abc import Iterator

from placement.choices.choices import Part, parts
from placement.plans import Layout, Plan, RolePlan
from placement.program.instance import Instance
from placement.workloads.workload import Role


def form_problems(plan: Plan, instance: Instance) -> Iterator[str]:
    """Say what keeps *plan* from being judged any further: rules ``busy`` and ``visible`` are here."""
    expected = {role.name.value for role in instance.workload.placed}
    for place, roles in (("map", plan.device_map), ("ordinals", plan.ordinals), ("roles", plan.roles)):
        if set(roles) != expected:
            yield f"the {place} of the plan names {sorted(roles)}, the job places {sorted(expected)}"
            return
    yield from _environment(plan, instance)
    for role in instance.workload.placed:
        yield from _ids(plan, instance, role)
        yield from _shape(plan.roles[role.name], role, len(plan.device_map[role.name]))


def usable_gpus(instance: Instance) -> tuple[int, ...]:
    """Return the GPUs that a plan may use, ascending."""
    return tuple(g.index for g in instance.machine.topology.gpus if why_unusable(instance, g.index) is None)


def why_unusable(instance: Instance, gpu: int) -> str | None:
    """Return why a plan may not use *gpu*, None if it may."""
    gpus, busy_mib = instance.machine.topology.gpus, instance.rules.busy_mib
    if not 0 <= gpu < len(gpus):
        return f"which does not exist: the machine has GPUs 0 to {len(gpus) - 1}"
    if not gpus[gpu].is_named:
        return "which no source names"
    if instance.visible is not None and gpu not in instance.visible:
        return "which CUDA_VISIBLE_DEVICES hides (rule visible)"
    if gpu in instance.not_needed:
        return "which is not needed (--smallest gpus)"
    mig = gpus[gpu].mig
    if mig is not None and mig.enabled:
        return "which is in MIG mode: jobs see its instances instead of it"
    held_mib = gpus[gpu].memory_used_mib or 0
    if busy_mib is not None and held_mib > busy_mib:
        return f"of which other processes hold {held_mib} MiB (rule busy: {busy_mib} MiB)"
    return None


def _environment(plan: Plan, instance: Instance) -> Iterator[str]:
    usable = ",".join(map(str, usable_gpus(instance)))
    expected = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": usable}
    if dict(plan.environment) != expected:
        yield f"the environment is {dict(plan.environment)}, the usable GPUs need {expected}"


def _ids(plan: Plan, instance: Instance, role: Role) -> Iterator[str]:
    gpus, usable = plan.device_map[role.name], usable_gpus(instance)
    if not gpus:
        yield f"{role.name} has no GPU"
    if len(set(gpus)) != len(gpus):
        yield f"{role.name} repeats a GPU: {list(gpus)}"
    wrong = [gpu for gpu in gpus if gpu not in usable]
    for gpu in wrong:
        yield f"{role.name} uses GPU {gpu}, {why_unusable(instance, gpu)}"
    if not wrong and [usable.index(gpu) for gpu in gpus] != list(plan.ordinals[role.name]):
        yield f"the ordinals of {role.name} are {list(plan.ordinals[role.name])}, which are not its GPUs {list(gpus)}"


def _shape(chosen: RolePlan, role: Role, gpus: int) -> Iterator[str]:
    """Say whether a role is described with all its parts and no others, each filling the group."""
    wanted = parts(role)
    described = {Part.TRAIN: chosen.train, Part.ROLLOUT: chosen.rollout, Part.FROZEN: chosen.offload}
    for part, description in described.items():
        if (description is not None) != (part in wanted):
            yield f"{role.name} is planned {'without' if part in wanted else 'with'} its part {part}"
    layout, rollout = chosen.layout, chosen.rollout
    if min(layout.tp, layout.pp, layout.dp, layout.sp_size, layout.ep_size) < 1 or layout.gpus != gpus:
        shared = "" if layout.sp is None else f", sp {layout.sp}"
        yield f"the layout tp {layout.tp}, pp {layout.pp}, dp {layout.dp}{shared} of {role.name} does not fill {gpus} GPUs"
    if rollout is None:
        return
    if min(rollout.tp, rollout.replicas) < 1 or rollout.tp * rollout.replicas != gpus:
        yield f"{rollout.replicas} engines of {rollout.tp} GPUs do not fill the {gpus} GPUs of {role.name}"
    if wanted == (Part.ROLLOUT,) and layout != Layout(rollout.tp, 1, rollout.replicas):
        yield f"the layout of {role.name} differs from its engines: {rollout.replicas} of {rollout.tp} GPUs"
