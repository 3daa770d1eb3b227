"""
Memory per GPU and the times of the stages, put together anew from what each choice costs.

What one choice costs on one group comes from `placement.demand`, as in planning; how costs add up on shared GPUs and over the
stages is said here on its own: reserves (rules ``reserve`` and ``reward_reserve``), phases, pools that take turns, lanes.

When to modify: how costs of roles add up changes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from placement.checking.choices import tp_sizes
from placement.checking.form import usable_gpus
from placement.checking.groups import blocks
from placement.choices.choices import Choice, FrozenChoice, Part, RolloutChoice, TrainChoice, parts
from placement.choices.hardware import Hardware
from placement.demand import Demand, demand, transfer_us
from placement.memory.sending import sent
from placement.plans import GpuMemory, Plan, RolePlan
from placement.program.instance import Instance
from placement.workloads.dataflow import StagePlan, Work, dataflow
from placement.workloads.workload import Engine, KvCache, Master, Offload, Precision, Quantization, RoleName
from topologies import bandwidth

GB = 1e9

Demands = Mapping[RoleName, tuple[Demand, ...]]
"""What every role of a plan costs, part by part."""


def demands(plan: Plan, instance: Instance) -> tuple[Demands, list[str]]:
    """Return what each role of *plan* costs, and why some choices cannot run at all."""
    stages = dataflow(instance.workload)
    costs: dict[RoleName, tuple[Demand, ...]] = {}
    refused: list[str] = []
    for role in instance.workload.placed:
        chosen = plan.roles[role.name]
        hardware = offered(instance, plan.device_map[role.name], tp_sizes(chosen))
        found: list[Demand] = []
        for part in parts(role):
            cost = demand(role, part, recorded(chosen, part), instance.workload, hardware, instance.constants, stages)
            if isinstance(cost, Demand):
                found.append(cost)
            else:
                refused.append(f"{role.name} cannot run: {cost.why}")
        costs[role.name] = tuple(found)
    return costs, refused


def recorded(chosen: RolePlan, part: Part) -> Choice:
    """Return what a plan says of *part* of a role, as the cost model takes it."""
    precision, layout = Precision(chosen.precision), chosen.layout
    match part:
        case Part.TRAIN:
            t = chosen.train
            assert t is not None
            return TrainChoice(
                layout.tp,
                layout.pp,
                layout.dp,
                precision,
                Master(t.master),
                Offload(t.offload),
                t.micro_batch_tokens,
                zero=t.zero_stage,
                sp=layout.sp_size,
                ep=layout.ep_size,
            )
        case Part.ROLLOUT:
            r = chosen.rollout
            assert r is not None
            return RolloutChoice(
                Engine(r.engine),
                r.tp,
                r.replicas,
                precision,
                r.gpu_memory_utilization,
                r.max_num_seqs,
                Quantization(r.quantization or "none"),
                KvCache(r.kv_cache or "auto"),
            )
        case Part.FROZEN:
            assert chosen.offload is not None
            sp, ep = layout.sp_size, layout.ep_size
            return FrozenChoice(layout.tp, layout.pp, layout.dp, precision, Offload(chosen.offload), sp, ep)


def offered(instance: Instance, gpus: tuple[int, ...], tps: set[int]) -> Hardware:
    """Return what a group offers: its weakest card, its best ring, and its TP blocks all at once."""
    machine, wiring = instance.machine, instance.machine.wiring
    cards = [machine.cards[g] for g in gpus]
    ring = bandwidth.ring(wiring, tuple(sorted(gpus))) if len(gpus) > 1 else None
    offered = {tp: bandwidth.blocks(wiring, blocks(gpus, tp)) for tp in sorted(tps)}
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


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def memory_problems(plan: Plan, instance: Instance, costs: Demands) -> Iterator[str]:
    """Say where the memory table of *plan* is wrong, or a GPU holds more than it may."""
    listed = [row.gpu for row in plan.memory_mib]
    if listed != list(usable_gpus(instance)):
        yield f"the memory table has rows for GPUs {listed}, the usable ones are {list(usable_gpus(instance))}"
        return
    phases = list(dict.fromkeys(work for stage in dataflow(instance.workload) for _, work in stage.work))
    for row in plan.memory_mib:
        yield from _memory_of(row, plan, instance, costs, phases)


def _memory_of(
    row: GpuMemory, plan: Plan, instance: Instance, costs: Demands, phases: Sequence[Work]
) -> Iterator[str]:
    gpu, capacity = row.gpu, instance.machine.capacity_mib[row.gpu]
    holders = [role for role in costs if gpu in plan.device_map[role]]
    reserved, rule = _reserved(instance, gpu, holders)
    if row.capacity != capacity:
        yield f"GPU {gpu} has {capacity} MiB, the map says {row.capacity}"
    if row.reserved != reserved:
        yield f"GPU {gpu}: {reserved} MiB are not for plans (rule {rule}), the map says {row.reserved}"
    loads = {p: sum(d.active_mib.get(p, d.resident_mib) for role in holders for d in costs[role]) for p in phases}
    worst = max(loads.values(), default=0)
    if row.planned != worst:
        yield f"GPU {gpu}: the map plans {row.planned} MiB, the memory model says {worst} MiB"
    elif row.worst_phase not in ([p.value for p, mib in loads.items() if mib == worst] if worst else [None]):
        yield f"GPU {gpu}: the map says that {row.worst_phase} is its worst moment, which needs less than {worst} MiB"
    if worst > capacity - reserved:
        yield f"GPU {gpu} needs {worst} MiB, its {capacity} less the {reserved} that must stay free are fewer (rule {rule})"
    if row.free != row.capacity - row.reserved - row.planned:
        yield f"GPU {gpu}: {row.free} MiB free are not {row.capacity} less {row.reserved} less {row.planned}"


def _reserved(instance: Instance, gpu: int, holders: Sequence[RoleName]) -> tuple[int, str]:
    """Return what no plan may use on *gpu*, MiB, what other processes hold included, and the rule that says so."""
    rules, capacity = instance.rules, instance.machine.capacity_mib[gpu]
    held = instance.machine.topology.gpus[gpu].memory_used_mib or 0
    share = rules.reward_reserve_percent
    if share is not None and RoleName.REWARD in holders and len(holders) > 1:
        # What is left for plans is rounded down.
        return min(capacity - math.floor(capacity * (1 - share / 100)) + held, capacity), "reward_reserve"
    free = max(math.ceil(capacity * rules.reserve.percent / 100), rules.reserve.mib)
    return min(free + held, capacity), "reserve"


# ── times ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def time_problems(plan: Plan, instance: Instance, costs: Demands) -> Iterator[str]:
    """Say which times of *plan* the cost model does not give."""
    stages = dataflow(instance.workload)
    if [stage.name for stage in stages] != [row.name for row in plan.estimate.stages]:
        yield f"the map times {[row.name for row in plan.estimate.stages]}, a step has {[s.name for s in stages]}"
        return
    times = []
    for stage, row in zip(stages, plan.estimate.stages, strict=True):
        own = _own_us(stage, costs)
        turns = {turn: sum(own[role] for role in turn) for turn in _turns(plan, tuple(own))}
        transfer = _transfer_us(plan, instance, stage)
        times.append(max([transfer, *turns.values()]))
        if row.us != times[-1]:
            yield f"the map says that {row.name} takes {row.us} µs, the cost model says {times[-1]} µs"
        elif (row.bound_by, row.because) not in _bounds(stage, costs, turns, times[-1]):
            yield f"the map says that {row.name} is bound by {row.bound_by} ({row.because}), which it is not"
    step = _step_us(plan, stages, times)
    if plan.estimate.step_us != step:
        yield f"the map says a step of {plan.estimate.step_us} µs, the cost model says {step} µs"


def work_us(plan: Plan, instance: Instance) -> dict[Work, int]:
    """
    Return how long each piece of work of a step takes by itself in *plan*, µs: what a framework's timer around it would show.

    Pieces that *plan* cannot do at all are left out.
    """
    costs, _ = demands(plan, instance)
    times: dict[Work, int] = {}
    for stage in dataflow(instance.workload):
        for work in dict.fromkeys(work for _, work in stage.work):
            alone = StagePlan(work.value, tuple(piece for piece in stage.work if piece[1] is work))
            if us := _longest_us(plan, instance, alone, costs):
                times[work] = us
    return times


def step_us(plan: Plan, instance: Instance) -> int:
    """Return how long a step of *plan* takes by the cost model of *instance*, µs, whatever *plan* itself says."""
    costs, _ = demands(plan, instance)
    stages = dataflow(instance.workload)
    return _step_us(plan, stages, [_longest_us(plan, instance, stage, costs) for stage in stages])


def _longest_us(plan: Plan, instance: Instance, stage: StagePlan, costs: Demands) -> int:
    """Return the time of *stage*: of its longest turn, or of the transfer."""
    own = _own_us(stage, costs)
    turns = (sum(own[role] for role in turn) for turn in _turns(plan, tuple(own)))
    return max([_transfer_us(plan, instance, stage), *turns])


def _own_us(stage: StagePlan, costs: Demands) -> dict[RoleName, int]:
    """Return how long each role works in *stage*."""
    own: dict[RoleName, int] = {}
    for role, work in stage.work:
        own[role] = own.get(role, 0) + sum(d.times_us.get(work, 0) for d in costs[role])
    return own


def _turns(plan: Plan, roles: Sequence[RoleName]) -> Iterator[tuple[RoleName, ...]]:
    """Yield the sets of *roles* that take turns because each two of them share GPUs."""
    for count in range(1, len(roles) + 1):
        for turn in itertools.combinations(roles, count):
            if all(set(plan.device_map[a]) & set(plan.device_map[b]) for a, b in itertools.combinations(turn, 2)):
                yield turn


def _transfer_us(plan: Plan, instance: Instance, stage: StagePlan) -> int:
    """Return how long new weights travel to a rollout on other GPUs: over the best link between the two groups."""
    actor = instance.workload.role(RoleName.ACTOR)
    if (RoleName.ROLLOUT, Work.SYNC_WEIGHTS) not in stage.work or actor is None or actor.model is None:
        return 0
    sources, targets = plan.device_map[RoleName.ACTOR], plan.device_map[RoleName.ROLLOUT]
    if set(sources) & set(targets):
        return 0
    best = max(bandwidth.pair_gb_per_s(instance.machine.wiring, a, b) for a in sources for b in targets)
    return transfer_us(actor.model, best, instance.constants, sent(actor, actor.model, hybrid=False))


def _bounds(
    stage: StagePlan, costs: Demands, turns: Mapping[tuple[RoleName, ...], int], us: int
) -> set[tuple[str, str]]:
    """Return what may be said of a stage that takes *us*: who bounds it, and by what. Equals are equally right."""
    said = {("nobody", "transfer of the weights" if us else "no work")}
    longest = {turn for turn, needed in turns.items() if needed == us}
    if longest:
        said = set()
    for turn in longest:
        work = [(d.times_us[w], f"{w}: {d.bound_by[w]}") for r, w in stage.work if r in turn for d in costs[r] if w in d.times_us]
        slowest = max(spent for spent, _ in work)
        names = "+".join(role for role in RoleName if role in turn)
        said |= {(names, why) for spent, why in work if spent == slowest}
    return said


def _step_us(plan: Plan, stages: Sequence[StagePlan], times: Sequence[int]) -> int:
    """Return the step: stages outside lanes, and the longest lane, or all lanes where some GPU works in two of them."""
    lanes: dict[int, int] = {}
    members: dict[int, set[int]] = {}
    beside = 0
    for stage, us in zip(stages, times, strict=True):
        if stage.lane is None:
            beside += us
            continue
        lanes[stage.lane] = lanes.get(stage.lane, 0) + us
        for role, _ in stage.work:
            members.setdefault(stage.lane, set()).update(plan.device_map[role])
    collide = any(a & b for a, b in itertools.combinations(members.values(), 2))
    return beside + (sum(lanes.values()) if collide else max(lanes.values(), default=0))
