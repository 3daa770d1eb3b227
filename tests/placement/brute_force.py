"""
What is the best plan of a tiny question? Every plan is listed and judged in the words of the rules.

Shared with planning: the cost model (`placement.demand` and what it rests on) and plain facts of the machine (cards,
capacities, wiring, domains). Written afresh: which groups, rank orders and choices exist, every rule, every term of the
objective. So a plan that planning never looks at, because a table lacks it, is found here.

When to modify: a rule, a menu or the objective changes; say it here in words of your own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from random_questions import Asked

from placement.choices.capabilities import Feature, least_capability
from placement.choices.choices import Choice, FrozenChoice, Part, RolloutChoice, TrainChoice
from placement.choices.hardware import Hardware
from placement.constants.table import constants
from placement.demand import Demand, demand, transfer_us
from placement.machines.machine import Machine, resolve
from placement.workloads.dataflow import StagePlan, Work, dataflow
from placement.workloads.rules import Rules
from placement.workloads.workload import Engine, KvCache, Master, Precision, Role, RoleName
from topologies import bandwidth
from topologies.domains import Level, domains

Gpus = tuple[int, ...]
Terms = dict[str, int]

ACTOR, ROLLOUT, CRITIC, REF, REWARD = RoleName
PAIRS = ((ACTOR, CRITIC), (ACTOR, REF), (ACTOR, REWARD), (CRITIC, REF), (CRITIC, REWARD), (REF, REWARD))
APART = {
    "guide": {PAIRS[0], PAIRS[2], PAIRS[3]},
    "minimal": {*PAIRS[:5]},
    "strict": {*PAIRS},
    "four": {*PAIRS[:3]},
    "colocate": set(),
    "free": set(),
}
BAND = ("soft_rules", "gpus_used", "memory_shortfall_mib", "islands_broken", "menu_preference", "step_us")
FIRST = {"step": (), "memory": ("memory_shortfall_mib",), "gpus": ("gpus_used",), "bandwidth": ("slowest_ring_ns_per_gb",)}


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run a role: its GPUs in rank order, what that costs, how far down the menus, how slow its ring is."""

    role: Role
    gpus: Gpus
    costs: tuple[Demand, ...]
    preference: int
    ring_ns_per_gb: int


def optimum(question: Asked) -> list[tuple[str, int]] | None:
    """Return the terms of the best plan in the order in which they are driven down; None when there is no plan."""
    tiny = _Tiny(question)
    left = [tiny.terms(plan) for plan in tiny.plans()]
    if not left:
        return None
    found = []
    for name in (*FIRST[question.objective], "step_us"):
        best = min(terms[name] for terms in left)
        found.append((name, best))
        limit = best + (best * round(question.within_percent * 10_000) // 1_000_000 if name == "step_us" else 0)
        left = [terms for terms in left if terms[name] <= limit]
    for name in BAND:
        best = min(terms[name] for terms in left)
        found.append((name, best))
        left = [terms for terms in left if terms[name] == best]
    return found


@dataclass
class _Tiny:
    """A question, its rule text taken apart."""

    question: Asked
    preset: str = field(init=False)
    switches: dict[str, str] = field(init=False)
    machine: Machine = field(init=False)
    usable: Gpus = field(init=False)
    levels: dict[Level, list[Gpus]] = field(init=False)
    stages: tuple[StagePlan, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.preset, *switches = self.question.rules.split(",")
        self.switches = dict(switch.split("=") for switch in switches)
        # Cards and capacities are facts; what the default rules make of them (room, usable GPUs) is not looked at.
        topology = self.question.topology
        self.machine = resolve(topology, Rules(busy_mib=None))
        seen = self.question.visible
        self.usable = tuple(
            gpu for gpu in range(len(topology.gpus))
            if (seen is None or gpu in seen) and (self.is_off("busy") or self.held_mib(gpu) <= 2048)
        )
        self.levels = {
            level: [kept for d in domains(topology, level) if (kept := tuple(g for g in d if g in self.usable))]
            for level in Level
        }
        self.stages = dataflow(self.question.workload)

    def is_off(self, rule: str) -> bool:
        return self.switches.get(rule) == "off"

    def held_mib(self, gpu: int) -> int:
        return self.machine.topology.gpus[gpu].memory_used_mib or 0

    # ── all plans ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def plans(self) -> Iterator[tuple[Way, ...]]:
        """Yield every plan that the rules allow."""
        ways = [list(self.ways(role)) for role in self.question.workload.placed]
        yield from self._join((), ways)

    def _join(self, taken: tuple[Way, ...], ways: list[list[Way]]) -> Iterator[tuple[Way, ...]]:
        if len(taken) == len(ways):
            if self.fits(taken):
                yield taken
            return
        for way in ways[len(taken)]:
            if all(self.may_stand_together(other, way) for other in taken):
                yield from self._join((*taken, way), ways)

    def may_stand_together(self, a: Way, b: Way) -> bool:
        """Isolation, sharing, and one rank order per pool."""
        common = set(a.gpus) & set(b.gpus)
        names = {a.role.name, b.role.name}
        if self.preset == "colocate":
            return a.gpus == b.gpus
        if ROLLOUT in names:
            are_apart = self.preset != "free"
        else:
            are_apart = any(names == set(pair) for pair in APART[self.preset])
        if not common:
            return True
        if are_apart:
            return False
        if set(a.gpus) == set(b.gpus):
            return a.gpus == b.gpus
        return self.switches.get("sharing") == "partial"

    # ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def fits(self, plan: Sequence[Way]) -> bool:
        return self.fits_on_host(plan) and all(self.room_mib(plan, gpu) >= self.load_mib(plan, gpu) for gpu in _used(plan))

    def fits_on_host(self, plan: Sequence[Way]) -> bool:
        """The object store has 30 %, at most 200 GB, and the host is never fuller than 95 %: in a step, and while any role loads."""
        total = self.question.host_memory_mib
        if total is None:
            return True
        moments = [
            sum(
                len(way.gpus) * (cost.host.loads_mib if way is loading else cost.host.starts_mib)
                for way in plan
                for cost in way.costs
            )
            for loading in plan
        ]
        moments.append(sum(len(way.gpus) * cost.host.runs_mib for way in plan for cost in way.costs))
        return max(moments) <= 0.95 * total - min(0.3 * total, 200e9 / 2**20)

    def room_mib(self, plan: Sequence[Way], gpu: int) -> int:
        """What roles may take: all but what others hold and the reserve, or beside a reward model its own reserve."""
        capacity = self.machine.capacity_mib[gpu]
        holders = [way.role.name for way in plan if gpu in way.gpus]
        percent = _percent(self.switches.get("reward_reserve", "20%"))
        if REWARD in holders and len(holders) > 1 and percent is not None:
            return capacity * (100 - percent) // 100 - self.held_mib(gpu)
        match self.switches.get("reserve"):
            case None:
                reserve = max(math.ceil(capacity * 5 / 100), 1024)
            case text:
                reserve = math.ceil(capacity * (_percent(text) or 0) / 100)
        return capacity - reserve - self.held_mib(gpu)

    def load_mib(self, plan: Sequence[Way], gpu: int) -> int:
        """What stays, and the most that is active beside it."""
        costs = [cost for way in plan if gpu in way.gpus for cost in way.costs]
        moments = {work for stage in self.stages for _, work in stage.work}
        return max(sum(cost.active_mib.get(work, cost.resident_mib) for cost in costs) for work in moments)

    # ── terms ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def terms(self, plan: Sequence[Way]) -> Terms:
        used = _used(plan)
        shortfalls = [
            self.machine.capacity_mib[gpu] // 10 - (self.room_mib(plan, gpu) - self.load_mib(plan, gpu)) for gpu in used
        ]
        return {
            "step_us": self.step_us(plan),
            "soft_rules": self.broken_wishes({way.role.name: way for way in plan}),
            "gpus_used": len(used),
            "memory_shortfall_mib": max(0, *shortfalls),
            "islands_broken": sum(bool(used & set(d)) and not set(d) <= used for d in self.levels[Level.ISLAND]),
            "menu_preference": sum(way.preference for way in plan),
            "slowest_ring_ns_per_gb": max(way.ring_ns_per_gb for way in plan),
        }

    def step_us(self, plan: Sequence[Way]) -> int:
        lanes: dict[int | None, int] = {None: 0}
        workers: dict[int, list[Way]] = {}
        for stage in self.stages:
            lanes[stage.lane] = lanes.get(stage.lane, 0) + self.stage_us(plan, stage)
            if stage.lane is not None:
                workers.setdefault(stage.lane, []).extend(w for w in plan if any(w.role.name is r for r, _ in stage.work))
        beside = [us for lane, us in lanes.items() if lane is not None]
        meet = any(
            set(a.gpus) & set(b.gpus) for one, two in itertools.combinations(workers.values(), 2) for a in one for b in two
        )
        return lanes[None] + (sum(beside) if meet else max(beside, default=0))

    def stage_us(self, plan: Sequence[Way], stage: StagePlan) -> int:
        """Roles that share GPUs take turns, others run side by side; a separate rollout waits for the new weights."""
        own = [sum(c.times_us.get(work, 0) for c in w.costs for r, work in stage.work if r is w.role.name) for w in plan]
        longest = 0
        for bits in range(1, 1 << len(plan)):
            turn = [k for k in range(len(plan)) if bits >> k & 1 and own[k]]
            if all(set(plan[a].gpus) & set(plan[b].gpus) for a, b in itertools.combinations(turn, 2)):
                longest = max(longest, sum(own[k] for k in turn))
        if (ROLLOUT, Work.SYNC_WEIGHTS) in stage.work:
            longest = max(longest, self.transfer_us(plan))
        return longest

    def transfer_us(self, plan: Sequence[Way]) -> int:
        gpus = {way.role.name: way.gpus for way in plan}
        actor = self.question.workload.role(ACTOR)
        assert actor is not None
        assert actor.model is not None
        if set(gpus[ACTOR]) & set(gpus[ROLLOUT]):
            return 0
        pairs = itertools.product(gpus[ACTOR], gpus[ROLLOUT])
        best = max(bandwidth.pair_gb_per_s(self.machine.wiring, a, b) for a, b in pairs)
        return transfer_us(actor.model, best, constants())

    def broken_wishes(self, ways: Mapping[RoleName, Way]) -> int:
        broken = 0
        if CRITIC in ways:
            role, wish = ways[CRITIC].role, "min_gpus" not in self.switches
            broken += wish and len(ways[CRITIC].gpus) < 2 and role.min_gpus is None and role.gpu_menu is None
        if not self.is_off("affinity") and {ACTOR, REF} <= ways.keys():
            shared = (found for found in self.levels.values() if any(len(domain) > 1 for domain in found))
            broken += self.are_apart(ways[ACTOR], ways[REF]) and not self.meet(
                ways[ACTOR], ways[REF], next(shared, self.levels[Level.HOST])
            )
        if not self.is_off("root_complex") and {CRITIC, REWARD} <= ways.keys():
            broken += self.are_apart(ways[CRITIC], ways[REWARD]) and self.meet(
                ways[CRITIC], ways[REWARD], self.levels[Level.ROOT_COMPLEX]
            )
        return broken

    def are_apart(self, a: Way, b: Way) -> bool:
        return not set(a.gpus) & set(b.gpus)

    def meet(self, a: Way, b: Way, partition: Sequence[Gpus]) -> bool:
        return any(set(a.gpus) & set(domain) and set(b.gpus) & set(domain) for domain in partition)

    # ── the ways of one role ────────────────────────────────────────────────────────────────────────────────────────────

    def ways(self, role: Role) -> Iterator[Way]:
        for size in self.sizes(role):
            for gpus in self.sets(size):
                for order in self.orders(gpus):
                    yield from self.ways_on(role, order)

    def sizes(self, role: Role) -> list[int]:
        written = self.switches.get("min_gpus", "off")
        said = role.min_gpus is not None or role.gpu_menu is not None
        least = int(written) if role.name is CRITIC and written != "off" and not said else 1
        return [
            n for n in range(least, len(self.usable) + 1)
            if (role.gpu_menu is None or n in role.gpu_menu)
            and n >= (role.min_gpus or 1)
            and n <= (role.max_gpus or n)
        ]

    def sets(self, size: int) -> list[Gpus]:
        """Rules ``same_card`` and ``contiguity`` (b)."""
        found: dict[Gpus, None] = {}
        for members in self.classes():
            kept = list(itertools.combinations(members, size))
            for partition in self.levels.values() if not self.is_off("contiguity") else ():
                inside = [set(domain) & set(members) for domain in partition]
                touched = {gpus: [d for d in inside if d & set(gpus)] for gpus in kept}
                fewest = min((len(d) for d in touched.values()), default=0)
                kept = [g for g, of in touched.items() if len(of) == fewest or set(g) == set().union(*of)]
            found |= dict.fromkeys(kept)
        return list(found)

    def classes(self) -> list[Gpus]:
        """The largest sets whose GPUs may all be of one role."""
        every = [s for n in range(1, len(self.usable) + 1) for s in itertools.combinations(self.usable, n)]
        alike = [s for s in every if self.is_off("same_card") or self.are_same_card(s)]
        return [s for s in alike if not any(set(s) < set(other) for other in alike)]

    def are_same_card(self, gpus: Gpus) -> bool:
        capacities = [self.machine.capacity_mib[g] for g in gpus]
        return len({self.machine.cards[g].chip for g in gpus}) == 1 and max(capacities) <= 1.05 * min(capacities)

    def orders(self, gpus: Gpus) -> list[Gpus]:
        """Ids ascend in a TP block and blocks follow their smallest id, for some TP size of the job."""
        tps = {tp for role in self.question.workload.placed for tp in (*_block_sizes(role), *(role.rollout.tp if role.rollout else ()))}
        return [
            order for order in itertools.permutations(gpus)
            if any(
                _blocks(order, tp) == sorted(map(tuple, map(sorted, _blocks(order, tp))))
                for tp in {1, *tps} if len(gpus) % tp == 0
            )
        ]

    def ways_on(self, role: Role, order: Gpus) -> Iterator[Way]:
        hardware = self.hardware(order)
        lists = [list(self.priced(role, part, order, hardware)) for part in self.parts(role)]
        ring = round(1e18 / hardware.ring_bytes_per_s) if len(order) > 1 else 0
        for chosen in itertools.product(*lists):
            yield Way(role, order, tuple(cost for cost, _ in chosen), sum(place for _, place in chosen), ring)

    def parts(self, role: Role) -> tuple[Part, ...]:
        if role.name in (REF, REWARD):
            return (Part.FROZEN,)
        if role.name is ROLLOUT:
            return (Part.ROLLOUT,)
        return (Part.TRAIN, Part.ROLLOUT) if role.rollout else (Part.TRAIN,)

    def priced(self, role: Role, part: Part, order: Gpus, hardware: Hardware) -> Iterator[tuple[Demand, int]]:
        for choice, place in self.choices(role, part, order):
            cost = demand(role, part, choice, self.question.workload, hardware, constants(), self.stages)
            if isinstance(cost, Demand):
                yield cost, place

    def choices(self, role: Role, part: Part, order: Gpus) -> Iterator[tuple[Choice, int]]:
        kinds = [p for p in role.precision if self.runs(order, p)]
        if not kinds:
            return
        kind, train, rollout = kinds[0], role.train, role.rollout
        if part is Part.ROLLOUT:
            assert rollout is not None
            menus = (rollout.tp, rollout.gpu_memory_utilization, rollout.quantization, rollout.kv_cache)
            for (a, tp), (b, share), (c, weights), (d, kv) in itertools.product(*map(enumerate, menus)):
                if not (self.runs(order, weights) and self.runs(order, kv)):
                    continue
                if self.runs(order, rollout.engine) and self.can_cut(role, order, tp):
                    engines = len(order) // tp
                    yield RolloutChoice(rollout.engine, tp, engines, kind, share, rollout.max_num_seqs, weights, kv), a + b + c + d
            return
        if role.train is not None and role.train.fp8 and not self.runs(order, KvCache.FP8):     # products and cache alike
            return
        if not self.runs(order, role.engine):
            return
        sizes = (role.layout.tp, role.layout.pp, role.layout.sp, role.layout.ep)
        for (a, tp), (b, pp), (c, sp), (d, ep) in itertools.product(*map(enumerate, sizes)):
            assert role.model is not None
            if len(order) % (tp * pp * sp) or pp > role.model.layers:
                continue
            if not self.can_cut(role, order, tp) or not self.can_cut(role, order, tp * sp):
                continue
            dp = len(order) // (tp * pp * sp)
            if ep > 1 and (not role.model.experts or role.model.experts % ep or dp % ep):
                continue
            place = a + b + c + d
            if not self.shares_evenly(role, dp):
                continue
            if train is None:
                for e, offload in enumerate(role.offload):
                    yield FrozenChoice(tp, pp, dp, kind, offload, sp, ep), place + e
                continue
            stages = train.zero if role.engine is Engine.FSDP else (3,)
            menus = (train.master, train.offload, train.micro_batch_tokens, stages)
            for (e, master), (f, offload), (g, tokens), (h, zero) in itertools.product(*map(enumerate, menus)):
                if master is Master.FP32 or self.runs(order, Precision.BF16):
                    yield TrainChoice(tp, pp, dp, kind, master, offload, tokens, zero, sp, ep), place + e + f + g + h

    def runs(self, gpus: Gpus, what: Feature) -> bool:
        """Rule ``supported``."""
        return self.is_off("supported") or all(
            self.machine.cards[g].compute_capability >= least_capability(what) for g in gpus
        )

    def shares_evenly(self, role: Role, dp: int) -> bool:
        """Rule ``even_batch``: no rank of a trainer has a sequence more than another, in a step or in a minibatch of equal ones."""
        batch = self.question.workload.batch
        if self.switches.get("even_batch") != "on" or role.engine not in (Engine.FSDP, Engine.MEGATRON):
            return True
        updates = batch.minibatches if role.train is not None and batch.sequences % batch.minibatches == 0 else 1
        return batch.sequences % (updates * dp) == 0

    def can_cut(self, role: Role, order: Gpus, tp: int) -> bool:
        """Whether the heads and the ranks can be cut into TP blocks of *tp*, by rule ``contiguity`` (a)."""
        assert role.model is not None
        return (
            len(order) % tp == 0
            and role.model.can_share_heads(tp)
            and all(list(block) == sorted(block) and self.is_close(block) for block in _blocks(order, tp))
        )

    def is_close(self, block: Gpus) -> bool:
        if len(block) == 1 or self.is_off("contiguity"):
            return True

        def nvlinked(gpus: Gpus, judge: Callable[[Iterator[bool]], bool]) -> bool:
            links = (self.machine.topology.link(a, b) or "" for a, b in itertools.combinations(gpus, 2))
            return judge(code.startswith("NV") for code in links)

        if nvlinked(self.usable, any):
            return nvlinked(block, all)
        for level, partition in self.levels.items():
            holding = [domain for domain in partition if len(domain) >= len(block)]
            if level is not Level.ISLAND and holding:
                return any(set(block) <= set(domain) for domain in holding)
        return False

    def hardware(self, order: Gpus) -> Hardware:
        """What a group offers to the cost model: its weakest card, its ring, and its blocks when all run at once."""
        cards, wiring = [self.machine.cards[g] for g in order], self.machine.wiring
        ring = bandwidth.ring(wiring, tuple(sorted(order)))
        offered = {tp: bandwidth.blocks(wiring, _blocks(order, tp)) for tp in range(2, len(order) + 1) if len(order) % tp == 0}
        return Hardware(
            gpus=len(order),
            flops=min(card.dense_16bit_tflops for card in cards) * 1e12,
            memory_bytes_per_s=min(card.memory_gb_per_s for card in cards) * 1e9,
            total_mib=min(self.machine.capacity_mib[g] for g in order),
            compute_capability=min(card.compute_capability for card in cards),
            ring_bytes_per_s=ring.gb_per_s * 1e9 if len(order) > 1 else 0.0,
            ring_nvlink=len(order) > 1 and ring.nvlink,
            block_bytes_per_s=tuple((tp, block.gb_per_s * 1e9) for tp, block in offered.items()),
            block_nvlink=tuple((tp, block.nvlink) for tp, block in offered.items()),
            host_bytes_per_s=bandwidth.host_gb_per_s(wiring, tuple(sorted(order))) * 1e9,
        )


def _used(plan: Sequence[Way]) -> set[int]:
    return {gpu for way in plan for gpu in way.gpus}


def _blocks(order: Gpus, tp: int) -> list[Gpus]:
    return [order[k : k + tp] for k in range(0, len(order), tp)]


def _block_sizes(role: Role) -> set[int]:
    return {tp * sp for tp in role.layout.tp for sp in (1, *role.layout.sp)}


def _percent(text: str) -> int | None:
    return None if text == "off" else int(text.removesuffix("%"))
