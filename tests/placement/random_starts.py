"""
Random maps that a framework can run, as emitters see them: any pools that it has, any GPUs and sizes, in any order that it keeps.

Made without a solver, so that hundreds of them take a second; whether a map is good is not asked here.

When to modify: a target is added, or can express something new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from placement.maps.seats import Seat
from placement.models.model import find_model
from placement.plans import Layout, RolePlan, RolloutPlan, TrainPlan
from placement.targets.start import Start
from placement.workloads.target_rules import Generates, TargetRules
from placement.workloads.workload import (
    Algorithm,
    Batch,
    Engine,
    Offload,
    Role,
    RoleName,
    RolloutMenu,
    Schedule,
    TrainMenu,
    Workload,
)

ACTOR, ROLLOUT, CRITIC, REF, REWARD = RoleName

PER_HOST = 8
HOSTS = ("node0", "node1")

PROMPTS, SAMPLES, MINIBATCHES = 3360, 4, 4
"""3360 · 4 / 4 sequences of an update are cut evenly by 1 … 8 ranks (3360 = 4 · 840), and by 16."""

SEVERAL_HOSTS = ("roll", "trl")
"""Targets whose files name hosts when the map does, and that keep any order of them (RLinf's ids have no gap: a test of its own)."""

CAPACITY_MIB = 81152
"""Of an A100 with 80 GB, which no target asks for but verl."""

MODEL = "Qwen/Qwen2.5-0.5B"
SMALL = "Qwen/Qwen2.5-1.5B"


def divisors(count: int) -> tuple[int, ...]:
    return tuple(size for size in range(1, count + 1) if count % size == 0)


@st.composite
def starts(draw: st.DrawFn, rules: TargetRules) -> Start:
    """Return a map that the target of *rules* can express."""
    is_hybrid = rules.generates is not Generates.APART and (rules.generates is Generates.HYBRID or draw(st.booleans()))
    placed = tuple(
        role
        for role in RoleName
        if role is ACTOR or (role in rules.roles and (not is_hybrid if role is ROLLOUT else draw(st.booleans())))
    )
    algorithm = _algorithm(draw, rules, placed)
    placed = tuple(role for role in placed if role is not CRITIC or algorithm is Algorithm.PPO)
    if algorithm is Algorithm.PPO and CRITIC not in placed:
        placed = tuple(role for role in RoleName if role in placed or role is CRITIC)
    shared = frozenset({ACTOR, ROLLOUT})    # ROLL can, and its files then say no more than for a hybrid engine
    ways = sorted(
        (pools for pools in rules.patterns(placed) if not any(shared <= pool for pool in pools)),
        key=lambda pools: sorted(sorted(pool) for pool in pools),
    )
    pools = sorted(draw(st.sampled_from(ways)), key=lambda pool: (ACTOR not in pool, sorted(pool)))
    engines = [engine for engine in rules.training if not (rules.name == "skyrl" and CRITIC in placed and engine is Engine.MEGATRON)]
    engine = draw(st.sampled_from(engines))
    hosts: Sequence[str | None] = HOSTS if rules.name in SEVERAL_HOSTS and draw(st.booleans()) else (None,)
    seats: dict[str, tuple[Seat, ...]] = {}
    roles: dict[str, RolePlan] = {}
    free = _free(draw, rules, hosts)
    most = PER_HOST // len(pools)
    for pool in pools:
        size = draw(st.integers(1, most))
        layout = _layout(draw, engine, size * len(hosts))
        rollout = _rollout(draw, rules, layout, size) if ROLLOUT in pool or (is_hybrid and ACTOR in pool) else None
        group = _group(draw, rules, free, size, rollout, spread=ROLLOUT not in pool)
        if rollout is not None:
            rollout = replace(rollout, replicas=len(group) // rollout.tp)
        if len(group) != layout.gpus:
            layout = Layout(1, 1, len(group))
        for role in sorted(pool):
            seats[role] = group
            roles[role] = _role(draw, rules, role, engine, layout, rollout if role in (ACTOR, ROLLOUT) else None, is_hybrid=is_hybrid)
    schedules = rules.schedules[0 if is_hybrid else 1] or (Schedule.FULL,)
    schedule = draw(st.sampled_from(schedules))
    job = _workload(algorithm, placed, schedule, engine, rules)
    installed = dict.fromkeys(hosts, PER_HOST)
    order = [role for role in RoleName if role in seats]
    capacity_mib = {seat: CAPACITY_MIB for group in seats.values() for seat in group}
    return Start({r.value: seats[r] for r in order}, {r.value: roles[r] for r in order}, job, schedule, {}, capacity_mib, installed)


def _algorithm(draw: st.DrawFn, rules: TargetRules, placed: Sequence[RoleName]) -> Algorithm:
    can = [known for known in Algorithm if known in rules.algorithms and (known is Algorithm.PPO) == (CRITIC in placed)]
    return draw(st.sampled_from(can))


def _free(draw: st.DrawFn, rules: TargetRules, hosts: Sequence[str | None]) -> dict[str | None, list[int]]:
    """Return the GPUs of each host in the order in which pools take them."""
    if rules.name in ("rlinf", "slime"):
        return {hosts[0]: list(range(PER_HOST))[draw(st.integers(0, 2)) if rules.name == "slime" else 0 :]}
    return {host: draw(st.permutations(range(PER_HOST))) for host in hosts}


def _group(
    draw: st.DrawFn, rules: TargetRules, free: dict[str | None, list[int]], size: int, rollout: RolloutPlan | None, *, spread: bool
) -> tuple[Seat, ...]:
    """Take *size* GPUs of each host (with *spread*; else of one)."""
    found: list[Seat] = []
    for host in free if spread else [draw(st.sampled_from(list(free)))]:
        gpus = [free[host].pop(0) for _ in range(min(size, len(free[host])))]
        if rules.is_ascending:
            gpus.sort()
        if rollout is not None and rules.name == "roll":
            gpus = [gpu for k in range(0, len(gpus), rollout.tp) for gpu in sorted(gpus[k : k + rollout.tp])]
        found += [Seat(host, gpu) for gpu in gpus]
    return tuple(found)


def _layout(draw: st.DrawFn, engine: Engine, size: int) -> Layout:
    tp = draw(st.sampled_from(divisors(size))) if engine is Engine.MEGATRON else 1
    return Layout(tp, 1, size // tp)


def _rollout(draw: st.DrawFn, rules: TargetRules, layout: Layout, size: int) -> RolloutPlan:
    tp = draw(st.sampled_from(divisors(size)))
    if rules.name == "rlinf" and layout.tp > tp:
        tp = 1
    share = draw(st.sampled_from((0.4, 0.55, 0.85)))
    return RolloutPlan(draw(st.sampled_from(rules.generation)), tp, size // tp, share, 256)


def _role(
    draw: st.DrawFn, rules: TargetRules, role: RoleName, engine: Engine, layout: Layout, rollout: RolloutPlan | None, *, is_hybrid: bool
) -> RolePlan:
    if role is ROLLOUT:
        assert rollout is not None
        return RolePlan(MODEL, rollout.engine, "bf16", Layout(rollout.tp, 1, rollout.replicas), rollout=rollout)
    model = SMALL if role is REWARD else MODEL
    if role in (ACTOR, CRITIC):
        offload = draw(st.sampled_from(rules.waits(engine, is_hybrid=is_hybrid)))
        master = draw(st.sampled_from(rules.kept(engine)))
        trained = TrainPlan(master, offload, draw(st.sampled_from((4096, 8192, 16384))))
        return RolePlan(model, engine, "bf16", layout, train=trained, rollout=rollout)
    return RolePlan(model, engine, "bf16", layout, offload=draw(st.sampled_from((Offload.NONE, Offload.ALWAYS))))


def _workload(algorithm: Algorithm, placed: Sequence[RoleName], schedule: Schedule, engine: Engine, rules: TargetRules) -> Workload:
    model = find_model(MODEL)
    roles = [
        Role(
            name,
            model,
            engine if name is not ROLLOUT else rules.generation[0],
            train=TrainMenu() if name in (ACTOR, CRITIC) else None,
            rollout=RolloutMenu() if name is ROLLOUT or (name is ACTOR and ROLLOUT not in placed) else None,
        )
        for name in placed
    ]
    if REWARD not in placed:
        roles.append(Role(REWARD, None))
    return Workload(algorithm, Batch(PROMPTS, SAMPLES, 512, 300, 1024, MINIBATCHES, 8192), tuple(roles), schedule)


def shared_start(rules: TargetRules) -> Start:
    """Return a map of one pool: a hybrid engine with tp 2 on four GPUs, the reference model beside it."""
    gpus = (0, 1, 2, 3) if rules.is_ascending else (2, 3, 0, 1)
    engine = rules.training[0]
    layout = Layout(2, 1, 2) if engine is Engine.MEGATRON else Layout(1, 1, 4)
    rollout = RolloutPlan(rules.generation[0], 2, 2, 0.6, 256)
    trained = TrainPlan("fp32", rules.waits(engine, is_hybrid=True)[-1], 8192)
    roles = {
        "actor": RolePlan(MODEL, engine, "bf16", layout, train=trained, rollout=rollout),
        "ref": RolePlan(MODEL, engine, "bf16", layout, offload="none"),
    }
    return _start(rules, roles, dict.fromkeys(roles, gpus), is_hybrid=True)


def apart_start(rules: TargetRules) -> Start:
    """Return a map of two pools or three: an actor on four GPUs, an engine with tp 2 on two, and a reference model, where there is one."""
    engine = rules.training[0]
    layout = Layout(2, 1, 2) if engine is Engine.MEGATRON else Layout(1, 1, 4)
    trained = TrainPlan("fp32", rules.waits(engine, is_hybrid=False)[-1], 8192)
    roles = {
        "actor": RolePlan(MODEL, engine, "bf16", layout, train=trained),
        "rollout": RolePlan(MODEL, rules.generation[0], "bf16", Layout(2, 1, 1), rollout=RolloutPlan(rules.generation[0], 2, 1, 0.8, 256)),
    }
    groups: dict[str, tuple[int, ...]] = {"actor": (4, 5, 2, 3), "rollout": (0, 1)}
    if rules.is_ascending:
        groups = {"actor": (0, 1, 2, 3), "rollout": (4, 5)}
    if REF in rules.roles:
        is_alone = rules.name == "rlinf"
        roles["ref"] = RolePlan(MODEL, engine, "bf16", Layout(1, 1, 2) if is_alone else layout, offload="none")
        groups["ref"] = (6, 7) if is_alone else groups["actor"]
    return _start(rules, roles, groups, is_hybrid=False)


def _start(rules: TargetRules, roles: dict[str, RolePlan], groups: dict[str, tuple[int, ...]], *, is_hybrid: bool) -> Start:
    placed = tuple(map(RoleName, roles))
    schedule = (rules.schedules[0 if is_hybrid else 1] or (Schedule.FULL,))[0]
    job = _workload(Algorithm.GRPO, placed, schedule, rules.training[0], rules)
    seats = {role: tuple(Seat(None, gpu) for gpu in gpus) for role, gpus in groups.items()}
    capacity_mib = {seat: CAPACITY_MIB for group in seats.values() for seat in group}
    return Start(seats, roles, job, schedule, {}, capacity_mib, {None: PER_HOST})
