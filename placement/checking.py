"""
Is this plan right for this question, in the domain's words?

Written from the plan and the question alone: no solver, no lowered problem, no candidate table. What the plan says of memory and
times is recomputed from the cost model, so that a slip in lowering or lifting shows.

When to modify: a rule changes; then this says the same thing as `placement.lower` in other words.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from placement.choices import Choice, FrozenChoice, Part, RolloutChoice, TrainChoice, parts
from placement.dataflow import StagePlan, Work, dataflow
from placement.demand import Demand, demand, transfer_us
from placement.hardware import Hardware
from placement.instance import Instance
from placement.plans import Plan, RolePlan
from placement.rules import Relation
from placement.workload import Engine, Master, Offload, Precision, Role, RoleName
from topologies import bandwidth

GB = 1e9

Demands = Mapping[RoleName, tuple[Demand, ...]]


def problems(plan: Plan, instance: Instance) -> list[str]:
    """Return what is wrong with *plan*, one sentence each; empty when it is right."""
    demands = {role.name: tuple(_demands(plan, instance, role)) for role in instance.workload.placed}
    return [
        *_ids(plan, instance),
        *_isolation(plan, instance),
        *_blocks(plan, instance),
        *_memory(plan, instance, demands),
        *_step(plan, instance, demands),
    ]


def _ids(plan: Plan, instance: Instance) -> Iterator[str]:
    expected = {role.name.value for role in instance.workload.placed}
    if set(plan.device_map) != expected:
        yield f"the map places {sorted(plan.device_map)}, the job has {sorted(expected)}"
    visible = [int(gpu) for gpu in plan.environment["CUDA_VISIBLE_DEVICES"].split(",")]
    for role, gpus in plan.device_map.items():
        if len(set(gpus)) != len(gpus):
            yield f"{role} repeats a GPU: {gpus}"
        for gpu in gpus:
            if gpu not in instance.machine.usable:
                yield f"{role} uses GPU {gpu}, which is not usable"
        if [visible[k] for k in plan.ordinals[role]] != list(gpus):
            yield f"the ordinals of {role} do not name its GPUs"
        layout = plan.roles[role].layout
        if layout.tp * layout.pp * layout.dp != len(gpus):
            yield f"the layout of {role} does not fill its {len(gpus)} GPUs"


def _isolation(plan: Plan, instance: Instance) -> Iterator[str]:
    for a, b in itertools.combinations(instance.workload.placed, 2):
        first, second = set(plan.device_map[a.name]), set(plan.device_map[b.name])
        relation = instance.rules.relation(a.name, b.name)
        if relation is Relation.APART and first & second:
            yield f"{a.name} and {b.name} share GPUs {sorted(first & second)} but must be apart"
        if relation is Relation.TOGETHER and first != second:
            yield f"{a.name} and {b.name} must have the same GPUs"
        if instance.rules.sharing == "pool" and first & second and first != second:
            yield f"{a.name} and {b.name} share some of their GPUs, but not all (rule sharing)"


def tp_sizes(role: RolePlan) -> set[int]:
    """Return the TP sizes that a role uses."""
    return {role.layout.tp} | ({role.rollout.tp} if role.rollout else set())


def blocks(gpus: tuple[int, ...], tp: int) -> list[tuple[int, ...]]:
    """Return the TP blocks of a group: runs of *tp* consecutive ranks."""
    return [gpus[k : k + tp] for k in range(0, len(gpus), tp)]


def _blocks(plan: Plan, instance: Instance) -> Iterator[str]:
    machine = instance.machine
    for name, role in plan.roles.items():
        gpus = plan.device_map[name]
        for tp in tp_sizes(role) - {1}:
            for block in blocks(gpus, tp):
                if list(block) != sorted(block):
                    yield f"the ids of TP block {block} of {name} do not ascend"
                unlinked = [p for p in itertools.combinations(block, 2) if not machine.has_nvlink(*p)]
                if instance.rules.contiguity and machine.is_nvlinked and unlinked:
                    yield f"TP block {block} of {name}: GPUs {unlinked[0]} are not joined by NVLink"
        classes = {(machine.cards[g].chip, machine.cards[g].total_mib) for g in gpus}
        if instance.rules.same_card and len(classes) > 1:
            yield f"{name} mixes cards: {sorted(classes)}"


# ── memory and time, recomputed ─────────────────────────────────────────────────────────────────────────────────────────


def _demands(plan: Plan, instance: Instance, role: Role) -> Iterator[Demand]:
    stages = dataflow(instance.workload)
    chosen = plan.roles[role.name]
    hardware = _hardware(instance, plan.device_map[role.name], tp_sizes(chosen))
    for part in parts(role):
        choice = _choice(chosen, part)
        cost = demand(role, part, choice, instance.workload, hardware, instance.constants, stages)
        # A choice that cannot run has no cost; an empty one makes the sums below disagree with the map, which says so.
        yield cost if isinstance(cost, Demand) else Demand(0, {}, {}, {})


def _choice(role: RolePlan, part: Part) -> Choice:
    precision, layout = Precision(role.precision), role.layout
    match part:
        case Part.TRAIN:
            assert role.train is not None
            return TrainChoice(
                layout.tp,
                layout.pp,
                layout.dp,
                precision,
                Master(role.train.master),
                Offload(role.train.offload),
                role.train.micro_batch_tokens,
            )
        case Part.ROLLOUT:
            r = role.rollout
            assert r is not None
            return RolloutChoice(
                Engine(r.engine), r.tp, r.replicas, precision, r.gpu_memory_utilization, r.max_num_seqs
            )
        case Part.FROZEN:
            assert role.offload is not None
            return FrozenChoice(layout.tp, layout.pp, layout.dp, precision, Offload(role.offload))


def _hardware(instance: Instance, gpus: tuple[int, ...], tps: set[int]) -> Hardware:
    machine, wiring = instance.machine, instance.machine.wiring
    cards = [machine.cards[g] for g in gpus]
    ring = bandwidth.ring(wiring, tuple(sorted(gpus))) if len(gpus) > 1 else None
    offered = {tp: bandwidth.blocks(wiring, tuple(blocks(gpus, tp))) for tp in sorted(tps - {1})}
    return Hardware(
        gpus=len(gpus),
        flops=min(c.dense_16bit_tflops for c in cards) * 1e12,
        memory_bytes_per_s=min(c.memory_gb_per_s for c in cards) * GB,
        total_mib=min(machine.capacity_mib[g] for g in gpus),
        compute_capability=min(c.compute_capability for c in cards),
        ring_bytes_per_s=ring.gb_per_s * GB if ring else 0.0,
        ring_nvlink=ring.nvlink if ring else False,
        block_bytes_per_s=tuple((tp, b.gb_per_s * GB) for tp, b in offered.items()),
        block_nvlink=tuple((tp, b.nvlink) for tp, b in offered.items()),
        host_bytes_per_s=bandwidth.host_gb_per_s(wiring, tuple(sorted(gpus))) * GB,
    )


def _memory(plan: Plan, instance: Instance, demands: Demands) -> Iterator[str]:
    phases = {work for stage in dataflow(instance.workload) for _, work in stage.work}
    for row in plan.memory_mib:
        on_gpu = [d for role, ds in demands.items() if row.gpu in plan.device_map[role] for d in ds]
        worst = max((sum(d.active_mib.get(p, d.resident_mib) for d in on_gpu) for p in phases), default=0)
        if worst != row.planned:
            yield f"GPU {row.gpu}: the map plans {row.planned} MiB, the memory model says {worst} MiB"
        if row.free != row.capacity - row.reserved - row.planned or row.free < 0:
            yield f"GPU {row.gpu}: {row.free} MiB free of {row.capacity} do not add up"


def _step(plan: Plan, instance: Instance, demands: Demands) -> Iterator[str]:
    stages = dataflow(instance.workload)
    times = [_stage_us(plan, instance, demands, stage) for stage in stages]
    lanes: dict[int, int] = {}
    for stage, us in zip(stages, times, strict=True):
        if stage.lane is not None:
            lanes[stage.lane] = lanes.get(stage.lane, 0) + us
    beside = sum(us for stage, us in zip(stages, times, strict=True) if stage.lane is None)
    together = sum(lanes.values()) if _lanes_collide(plan, stages) else max(lanes.values(), default=0)
    if beside + together != plan.estimate.step_us:
        yield f"the map says a step of {plan.estimate.step_us} µs, the cost model says {beside + together} µs"


def _stage_us(plan: Plan, instance: Instance, demands: Demands, stage: StagePlan) -> int:
    """Return the longest set of roles that take turns because each two of them share GPUs."""
    own: dict[RoleName, int] = {}
    for role, work in stage.work:
        own[role] = own.get(role, 0) + sum(d.times_us.get(work, 0) for d in demands[role])
    longest = _transfer_us(plan, instance, stage)
    for count in range(1, len(own) + 1):
        for turn in itertools.combinations(own, count):
            if all(set(plan.device_map[a]) & set(plan.device_map[b]) for a, b in itertools.combinations(turn, 2)):
                longest = max(longest, sum(own[role] for role in turn))
    return longest


def _transfer_us(plan: Plan, instance: Instance, stage: StagePlan) -> int:
    actor = instance.workload.role(RoleName.ACTOR)
    if (RoleName.ROLLOUT, Work.SYNC_WEIGHTS) not in stage.work or actor is None or actor.model is None:
        return 0
    sources, targets = plan.device_map[RoleName.ACTOR], plan.device_map[RoleName.ROLLOUT]
    if set(sources) & set(targets):
        return 0
    best = max(bandwidth.pair_gb_per_s(instance.machine.wiring, a, b) for a in sources for b in targets)
    return transfer_us(actor.model, best, instance.constants)


def _lanes_collide(plan: Plan, stages: tuple[StagePlan, ...]) -> bool:
    members: dict[int, set[int]] = {}
    for stage in stages:
        if stage.lane is not None:
            for role, _ in stage.work:
                members.setdefault(stage.lane, set()).update(plan.device_map[role])
    return any(a & b for a, b in itertools.combinations(members.values(), 2))
