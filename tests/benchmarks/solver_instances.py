"""
Random 8-GPU jobs of four and five roles: do CP-SAT and the oracle agree, and how long does a proof take?

Run it as a script; it writes docs/solver-agreement.md:

    python tests/benchmarks/solver_instances.py

Times follow a roofline, memory follows the usual counts of weights, gradients and optimizer state, each with random factors:
the numbers have the structure of real ones, not their values.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from solvers import check, cpsat, exhaustive
from solvers.problem import (
    Device,
    Group,
    Item,
    Operation,
    Option,
    Problem,
    SharedReserve,
    Sharing,
    SoftPair,
    Stage,
    Transfer,
    Want,
)
from solvers.result import Options, Result

PAGE = Path(__file__).parents[2] / "docs" / "solver-agreement.md"

COUNT = 40
GENERATE, INFER, UPDATE, SYNC = range(4)
PHASES = ("generate", "actor logp", "ref", "values", "reward", "update critic", "update actor")


@dataclass(frozen=True, slots=True)
class Machine:
    """
    Islands of devices with one link speed inside and one between, GB/s, and a capacity per device, MiB.

    *rails*: GB/s that each device reaches at most. *any_set*: groups may be torn between more islands than they must.
    """

    name: str
    islands: tuple[tuple[int, ...], ...]
    inside: int
    between: int
    capacity: tuple[int, ...]
    rails: tuple[int, ...] = (1000,) * 8
    any_set: bool = False


MACHINES = (
    # 0 ══ 1 ══ … ══ 7 behind one NVSwitch
    Machine("switch of 8", (tuple(range(8)),), 300, 300, (77_000,) * 8),
    # two meshes of four, PCIe between
    Machine("two islands of 4", (tuple(range(4)), tuple(range(4, 8))), 150, 12, (30_500,) * 8),
    # 0═1 2═3 4═5 6═7: bridged pairs
    Machine("four pairs", ((0, 1), (2, 3), (4, 5), (6, 7)), 200, 20, (45_000,) * 8),
    # four cards of 40 GB, then four of 80 GB, in bridged pairs
    Machine("mixed pairs", ((0, 1), (2, 3), (4, 5), (6, 7)), 200, 20, (38_000,) * 4 + (77_000,) * 4),
    # no two devices alike, all 255 sets, 26 profiles
    Machine(
        "irregular, any set", ((0, 1, 2), (3, 4, 5, 6), (7,)), 180, 24, tuple(range(44_000, 48_000, 500)),
        rails=(180, 90, 180, 60, 180, 90, 40, 24), any_set=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Role:
    """A role: billions of parameters, which phases it is active in, and whether it is trained or generates."""

    name: str
    billions: float
    works: tuple[tuple[int, int], ...]      # (stage, phase)
    trained: bool = False
    generates: bool = False


def instance(seed: int, machine: Machine, *, separate_rollout: bool = False) -> Problem:
    """Return a random job on *machine*."""
    rng = random.Random(seed)
    big, small = rng.choice(((7.6, 1.5), (1.5, 1.5), (7.6, 7.6), (14.8, 1.5), (3.1, 0.5)))
    roles = [
        Role("actor", big, ((INFER, 1), (UPDATE, 6)), trained=True, generates=not separate_rollout),
        Role("critic", rng.choice((big, small)), ((INFER, 3), (UPDATE, 5)), trained=True),
        Role("ref", big, ((INFER, 2),)),
        Role("reward", small, ((INFER, 4),)),
    ]
    if separate_rollout:
        roles.insert(1, Role("rollout", big, (), generates=True))
    groups, profiles = _groups(machine)
    operations = tuple(
        operation
        for i, role in enumerate(roles)
        for operation in [Operation(i, s) for s, _ in role.works] + [Operation(i, GENERATE)] * role.generates
    )
    speed = {role.name: rng.uniform(0.8, 1.25) for role in roles}
    items = []
    for i, role in enumerate(roles):
        slots: list[tuple[Option, ...]] = []
        if role.works:
            slots.append(tuple(_training_options(role, i, operations, profiles, speed[role.name], machine)))
        if role.generates:
            slots.append(tuple(_rollout_options(role, i, operations, profiles, speed[role.name], machine)))
        offered = set.intersection(*({o.profile for o in slot} for slot in slots))
        least = 2 if role.name == "critic" else 1
        allowed = tuple(
            g for g, group in enumerate(groups) if group.profile in offered and len(group.devices) >= least
        )
        items.append(Item(allowed, tuple(slots)))
    index = {role.name: i for i, role in enumerate(roles)}
    apart = {("actor", "critic"), ("actor", "reward"), ("critic", "ref")} if rng.random() < 0.7 else set()
    if separate_rollout:
        apart |= {("rollout", r.name) for r in roles if r.name != "rollout"}
    island_of = {d: k for k, island in enumerate(machine.islands) for d in island}
    labels = tuple(island_of[d] for d in range(8))
    transfers = ()
    if separate_rollout:
        us = tuple(
            tuple(0 if a == b else round(big * 2e6 / _speed(machine, labels, a, b)) for b in range(8)) for a in range(8)
        )
        transfers = (Transfer(index["actor"], index["rollout"], SYNC, us),)
    return Problem(
        devices=tuple(Device(c, c // 10, island_of[d]) for d, c in enumerate(machine.capacity)),
        groups=tuple(groups),
        items=tuple(items),
        operations=operations,
        stages=(Stage(), Stage(), Stage(), Stage()),
        phases=len(PHASES),
        apart=tuple(sorted((index[a], index[b]) for a, b in apart)),
        sharing=Sharing.POOL,
        transfers=transfers,
        soft_pairs=(
            SoftPair(index["actor"], index["ref"], labels, Want.MEET),
            SoftPair(index["critic"], index["reward"], labels, Want.AVOID),
        ),
        shared_reserves=(SharedReserve(index["reward"], tuple(c * 8 // 10 for c in machine.capacity)),),
    )


def _speed(machine: Machine, labels: tuple[int, ...], a: int, b: int) -> int:
    return machine.inside if labels[a] == labels[b] else machine.between


def _groups(machine: Machine) -> tuple[list[Group], list[tuple[int, int, int]]]:
    """Return the groups, and per profile (size, capacity, GB/s of the ring); capacities of a group within 10 %."""
    profiles: dict[tuple[int, int, int], int] = {}
    groups = []
    for size in range(1, 9):
        sets = [
            s for s in itertools.combinations(range(8), size)
            if max(machine.capacity[d] for d in s) <= 1.1 * min(machine.capacity[d] for d in s)
        ]
        touched = {s: sum(bool(set(s) & set(island)) for island in machine.islands) for s in sets}
        fewest = min(touched.values(), default=0)
        for s in sets:
            if machine.any_set or touched[s] == fewest:
                ring = min([machine.inside if touched[s] == 1 else machine.between, *(machine.rails[d] for d in s)])
                capacity = min(machine.capacity[d] for d in s) // 4000 * 4000
                profile = profiles.setdefault((size, capacity, ring if size > 1 else 0), len(profiles))
                groups.append(Group(s, profile, 0 if size == 1 else 10**9 // ring))
    order = sorted(range(len(groups)), key=lambda g: groups[g].devices)
    return [groups[g] for g in order], list(profiles)


def _training_options(
    role: Role, item: int, operations: tuple[Operation, ...], profiles: list[tuple[int, int, int]], speed: float,
    machine: Machine,
) -> Iterator[Option]:
    """Yield the ways to train a role, or to run it forward, on each profile."""
    for p, (size, capacity, ring) in enumerate(profiles):
        kept: list[Option] = []
        tps = [tp for tp in (1, 2, 4, 8) if size % tp == 0 and tp <= max(len(i) for i in machine.islands)]
        masters = (16, 12) if role.trained else (2,)
        for tp, (rank, per_parameter), (where, offload) in itertools.product(
            tps, enumerate(masters), enumerate(("none", "between", "always") if role.trained else ("none", "between"))
        ):
            weights = role.billions * 1000 * 2 / (tp if not role.trained else size)
            state = role.billions * 1000 * per_parameter / size if role.trained else weights
            active = {"none": state, "between": state, "always": state * 0.3}[offload] + 2500 + 3000 / tp
            resident = {"none": state, "between": 800.0, "always": 800.0}[offload]
            slow = {"none": 1.0, "between": 1.04, "always": 1.5}[offload] * (1 + 0.08 * math.log2(tp)) * speed
            memory = tuple(
                math.ceil(active if phase in {w for _, w in role.works} else resident) for phase in range(len(PHASES))
            )
            if max(memory) > capacity:
                continue
            times = tuple(
                math.ceil(role.billions * 4e6 * (3 if o.stage == UPDATE else 1) * slow / size
                          + (2e6 * role.billions / ring if ring else 0))
                if o.item == item and o.stage != GENERATE else 0
                for o in operations
            )
            kept.append(Option(p, times, memory, preference=rank + where + tps.index(tp)))
        yield from _unbeaten(kept)


def _rollout_options(
    role: Role, item: int, operations: tuple[Operation, ...], profiles: list[tuple[int, int, int]], speed: float,
    machine: Machine,
) -> Iterator[Option]:
    """Yield the ways to generate on each profile."""
    for p, (size, capacity, ring) in enumerate(profiles):
        kept = []
        tps = [tp for tp in (1, 2, 4, 8) if size % tp == 0 and tp <= max(len(i) for i in machine.islands)]
        for (rank, tp), (place, share) in itertools.product(enumerate(tps), enumerate((0.5, 0.6, 0.7, 0.8))):
            cache = capacity * share - role.billions * 2000 / tp - 3000
            if cache <= 0:
                continue
            memory = tuple(math.ceil(capacity * share if phase == 0 else 600) for phase in range(len(PHASES)))
            rounds = math.ceil(40_000 / cache / size)
            us = math.ceil(role.billions * 6e6 * speed * rounds / tp**0.8 / (size / tp) + (4e6 * tp / ring if ring else 0))
            times = tuple(us if o == Operation(item, GENERATE) else 0 for o in operations)
            kept.append(Option(p, times, memory, preference=rank + place))
        yield from _unbeaten(kept)


def _unbeaten(options: list[Option]) -> list[Option]:
    """Drop options that another matches or beats in time, memory and preference."""
    def beats(a: Option, b: Option) -> bool:
        pairs = zip((*a.times, *a.memory, a.preference), (*b.times, *b.memory, b.preference), strict=True)
        return all(x <= y for x, y in pairs)

    return [
        o for k, o in enumerate(options)
        if not any(beats(other, o) and (j < k or not beats(o, other)) for j, other in enumerate(options) if j != k)
    ]


def instances(count: int = COUNT) -> Iterator[tuple[str, Problem]]:
    """Yield named problems: every machine in turn, every third with a rollout role of its own."""
    for seed in range(count):
        machine = MACHINES[seed % len(MACHINES)]
        separate = seed % 3 == 2
        yield f"{seed:02d} {machine.name}, {5 if separate else 4} roles", instance(seed, machine, separate_rollout=separate)


# ── the comparison ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Row:
    """One instance: what both solvers say, and the CPU seconds of each."""

    name: str
    groups: int
    options: int
    proof: Result
    oracle: Result
    cpsat_s: float
    oracle_s: float

    @property
    def agrees(self) -> bool:
        """Whether status, answer, and value and bound of every term are the same."""
        return self.proof == self.oracle


def compare(name: str, problem: Problem, *, time_limit_s: float) -> Row:
    """Solve with both and time both."""
    start = time.process_time()
    proof = cpsat.solve(problem, Options(time_limit_s=time_limit_s))
    between = time.process_time()
    oracle = exhaustive.solve(problem, Options(time_limit_s=time_limit_s))
    end = time.process_time()
    if proof.answer is not None:
        assert not check.violations(problem, proof.answer)
    options = sum(len(slot) for item in problem.items for slot in item.slots)
    return Row(name, len(problem.groups), options, proof, oracle, between - start, end - between)


def page(rows: list[Row]) -> str:
    """Return the page."""
    same = sum(row.agrees for row in rows)
    seconds = sorted(row.cpsat_s for row in rows)
    lines = [
        "# Do the solvers agree?",
        "",
        "CP-SAT against the solver that tries everything, on random jobs of four and five roles on 8 GPUs",
        "(`tests/benchmarks/solver_instances.py`, fixed seeds). *Same* means: status, value and bound of every term, and the",
        "answer itself. Seconds are CPU time of the whole call (first answer, model, proof of every term).",
        "",
        f"{same} of {len(rows)} are the same. CP-SAT: median {statistics.median(seconds):.3f} s, worst {seconds[-1]:.3f} s.",
        f"Machine: {os.cpu_count()} CPUs ({_cpu()}), Python {platform.python_version()}, OR-Tools {version('ortools')}.",
        "",
        "| instance | groups | options | status | same | step, µs | CP-SAT, s | everything, s |",
        "|---|---:|---:|---|---|---:|---:|---:|",
    ]
    for row in rows:
        star = row.proof.step_star
        lines.append(
            f"| {row.name} | {row.groups} | {row.options} | {row.proof.status.value} | {'yes' if row.agrees else '**no**'} "
            f"| {star.value if star else ''} | {row.cpsat_s:.3f} | {row.oracle_s:.2f} |"
        )
    return "\n".join(lines) + "\n"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def main() -> int:
    """Compare, write the page, and say how it went."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--count", type=int, default=COUNT, help="instances (default %(default)s)")
    parser.add_argument("--time-limit", type=float, default=120.0, help="seconds for each solve (default %(default)s)")
    arguments = parser.parse_args()
    rows = []
    for name, problem in instances(arguments.count):
        row = compare(name, problem, time_limit_s=arguments.time_limit)
        print(f"{name}: {row.proof.status}, {'same' if row.agrees else 'DIFFERENT'}, {row.cpsat_s:.3f} s, {row.oracle_s:.2f} s")
        rows.append(row)
    PAGE.write_text(page(rows), encoding="utf-8")
    return 0 if all(row.agrees for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
