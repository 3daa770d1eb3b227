"""What holds for every choice from every menu: links, shards, offload and room, with adapters, sleep and all schedules."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from worked_models import EXPERTS_FOR_TIME as EXPERTS
from worked_models import FOR_MEMORY, FOR_TIME

from placement.choices.choices import Choice, FrozenChoice, Part, RolloutChoice, TrainChoice
from placement.choices.footprints import Footprint
from placement.choices.hardware import Hardware
from placement.constants.table import constants
from placement.demand import Demand, demand, footprint
from placement.memory.engine_memory import engine_space
from placement.workloads.dataflow import dataflow
from placement.workloads.workload import (
    Algorithm,
    Batch,
    Engine,
    KvCache,
    Master,
    Offload,
    Precision,
    Quantization,
    Role,
    RoleName,
    RolloutMenu,
    Schedule,
    TrainMenu,
    Workload,
)

BF16 = Precision.BF16
C = constants()
NO_BUFFERS = dataclasses.replace(C, nccl_mib_2=0, nccl_mib_4=0)
"""More ranks have more communicators, whose buffers are another matter."""

BATCH = Batch(512, 1, 400, 600, 1200, 2, 10_000)
WIDTHS = st.floats(0.1e9, 900e9)
LAYOUTS = [(1, 1, 8), (2, 1, 4), (4, 1, 2), (8, 1, 1), (1, 2, 4), (2, 2, 2)]


def group(ring: float, block: float, host: float, *, nvlink: bool, gpus: int = 8) -> Hardware:
    tps = tuple(tp for tp in (2, 4, 8) if gpus % tp == 0)
    return Hardware(
        gpus, 312e12, 2e12, 80_000, (8, 0), ring, nvlink, tuple((tp, block) for tp in tps), tuple((tp, nvlink) for tp in tps), host
    )


@st.composite
def trainings(draw: st.DrawFn) -> tuple[Role, TrainChoice]:
    """Draw a trained actor and a choice on eight GPUs."""
    engine = draw(st.sampled_from([Engine.FSDP, Engine.MEGATRON]))
    tp, pp, dp = draw(st.sampled_from(LAYOUTS))
    if engine is Engine.FSDP:
        tp, pp, dp = tp * pp, 1, dp
    model = draw(st.sampled_from([FOR_TIME, FOR_MEMORY, EXPERTS]))
    assume(model.can_share_heads(tp))
    menu = TrainMenu(
        lora=draw(st.sampled_from([0, 0, 8, 64])),
        lora_merge=draw(st.sampled_from([None, True, False])),
        fused_ce=draw(st.booleans()),
        distributed_optimizer=engine is Engine.FSDP or draw(st.booleans()),
    )
    zero = draw(st.sampled_from([1, 2, 3])) if engine is Engine.FSDP else 3
    choice = TrainChoice(
        tp, pp, dp, BF16, draw(st.sampled_from(Master)), draw(st.sampled_from(Offload)), draw(st.sampled_from([4096, 10_000])), zero
    )
    return Role(RoleName.ACTOR, model, engine, train=menu), choice


@st.composite
def engines(draw: st.DrawFn) -> RolloutChoice:
    """Draw a choice of an engine on eight GPUs."""
    tp = draw(st.sampled_from([1, 2]))
    return RolloutChoice(
        Engine.VLLM,
        tp,
        8 // tp,
        BF16,
        draw(st.sampled_from([0.2, 0.5, 0.8])),
        draw(st.sampled_from([1, 16, 256])),
        draw(st.sampled_from(Quantization)),
        draw(st.sampled_from(KvCache)),
    )


def asked(actor: Role, schedule: Schedule, *, sleep: bool, hybrid: bool) -> tuple[Workload, Role]:
    """Return a job of *actor*, and who generates in it."""
    menu = RolloutMenu(sleep=sleep)
    if hybrid:
        both = actor.replace(rollout=menu)
        return Workload(Algorithm.GRPO, BATCH, (both,), schedule), both
    engine = Role(RoleName.ROLLOUT, actor.model, Engine.VLLM, rollout=menu)
    return Workload(Algorithm.GRPO, BATCH, (actor, engine), schedule), engine


def cost(role: Role, part: Part, choice: Choice, job: Workload, where: Hardware) -> Demand | None:
    found = demand(role, part, choice, job, where, C, dataflow(job))
    return found if isinstance(found, Demand) else None


# ── links ───────────────────────────────────────────────────────────────────────────────────────────────────


@given(
    trained=trainings(),
    runs=engines(),
    schedule=st.sampled_from(Schedule),
    sleep=st.booleans(),
    hybrid=st.booleans(),
    nvlink=st.booleans(),
    one=st.tuples(WIDTHS, WIDTHS, WIDTHS),
    other=st.tuples(WIDTHS, WIDTHS, WIDTHS),
)
def test_no_work_gets_faster_on_slower_links(
    trained: tuple[Role, TrainChoice],
    runs: RolloutChoice,
    schedule: Schedule,
    sleep: bool,
    hybrid: bool,
    nvlink: bool,
    one: tuple[float, float, float],
    other: tuple[float, float, float],
) -> None:
    slow = group(*map(min, one, other), nvlink=nvlink)
    fast = group(*map(max, one, other), nvlink=nvlink)
    actor, choice = trained
    job, generator = asked(actor, schedule, sleep=sleep, hybrid=hybrid)
    frozen = FrozenChoice(choice.tp, choice.pp, choice.dp, BF16, choice.offload)
    ref = Role(RoleName.REF, actor.model, actor.engine)
    job = job.replace(roles=(*job.roles, ref))
    for role, part, what in ((job.roles[0], Part.TRAIN, choice), (generator, Part.ROLLOUT, runs), (ref, Part.FROZEN, frozen)):
        before, after = (cost(role, part, what, job, where) for where in (slow, fast))
        assert (before is None) == (after is None)
        if before is None or after is None:
            continue
        assert before.active_mib == after.active_mib
        # Rounded up from sums of floating point: one µs in a million million may go astray.
        assert all(us <= before.times_us[work] + 1 for work, us in after.times_us.items())


# ── shards and offload ──────────────────────────────────────────────────────────────────────────────────────


def held(role: Role, choice: TrainChoice, *, hybrid: bool) -> Footprint:
    job, _ = asked(role, Schedule.FULL, sleep=True, hybrid=hybrid)
    found = footprint(job.roles[0], Part.TRAIN, choice, job, group(1e9, 1e9, 1e9, nvlink=True), NO_BUFFERS)
    assert found is not None
    return found


def never_more(less: Footprint, more: Footprint) -> bool:
    return less.resident_mib <= more.resident_mib * (1 + 1e-9) and all(
        mib <= more.active_mib[work] * (1 + 1e-9) for work, mib in less.active_mib.items()
    )


@given(trained=trainings(), more=st.sampled_from([2, 4, 8]), hybrid=st.booleans())
def test_more_ranks_never_need_more_memory_each(trained: tuple[Role, TrainChoice], more: int, hybrid: bool) -> None:
    role, choice = trained
    few, many = (held(role, dataclasses.replace(choice, dp=choice.dp * times), hybrid=hybrid) for times in (1, more))
    assert never_more(many, few)


@given(trained=trainings(), hybrid=st.booleans())
def test_offload_never_needs_more_memory_on_the_gpu(trained: tuple[Role, TrainChoice], hybrid: bool) -> None:
    role, choice = trained
    none, between, always = (held(role, dataclasses.replace(choice, offload=offload), hybrid=hybrid) for offload in Offload)
    assert never_more(between, none)
    assert never_more(always, between)


@given(
    trained=trainings(),
    hybrid=st.booleans(),
    nvlink=st.booleans(),
    links=st.tuples(WIDTHS, WIDTHS, st.floats(0.1e9, 60e9)),
)
def test_offload_never_saves_time(
    trained: tuple[Role, TrainChoice], hybrid: bool, nvlink: bool, links: tuple[float, float, float]
) -> None:
    actor, choice = trained
    job, _ = asked(actor, Schedule.FULL, sleep=True, hybrid=hybrid)
    none, between, always = (
        cost(job.roles[0], Part.TRAIN, dataclasses.replace(choice, offload=offload), job, group(*links, nvlink=nvlink))
        for offload in Offload
    )
    if none is None or between is None or always is None:
        assert none is between is always is None
        return
    for work, us in none.times_us.items():
        assert us <= between.times_us[work] + 1
        assert us <= always.times_us[work] + 1
    # Eight ranks of FSDP2 share the CPUs for as many parameters as they train; what waits between phases is copied once. Over a host
    # link of a gigabyte a second copies are the slower way; Megatron's fused optimizer, and one of adapters alone, can be faster than they.
    assert actor.train is not None
    if actor.engine is Engine.FSDP and choice.zero == 3 and not actor.train.lora and links[2] >= 10e9:
        assert between.times_us["update_actor"] <= always.times_us["update_actor"] + 1


def test_adapters_need_less_of_everything_but_their_base() -> None:
    for engine, dp in itertools.product((Engine.FSDP, Engine.MEGATRON), (1, 8)):
        choice = TrainChoice(1, 1, dp, BF16, Master.FP32, Offload.NONE, 8192)
        whole, adapters = (
            held(Role(RoleName.ACTOR, FOR_MEMORY, engine, train=TrainMenu(lora=rank)), choice, hybrid=True) for rank in (0, 8)
        )
        assert adapters.active_mib["update_actor"] < whole.active_mib["update_actor"]


# ── room ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("schedule", Schedule)
@pytest.mark.parametrize("lora", [0, 8])
def test_a_larger_share_of_the_gpu_is_never_slower(schedule: Schedule, lora: int) -> None:
    batch = dataclasses.replace(BATCH, response_mean_tokens=6000, response_max_tokens=16_000)
    actor = Role(RoleName.ACTOR, FOR_MEMORY, train=TrainMenu(lora=lora, lora_merge=False if lora else None))
    job, engine = asked(actor, schedule, sleep=True, hybrid=False)
    job, where = job.replace(batch=batch), group(50e9, 50e9, 20e9, nvlink=True)
    us, slots = [], []
    for share in (0.12, 0.15, 0.2, 0.3, 0.5, 0.9):
        choice = RolloutChoice(Engine.VLLM, 1, 8, BF16, share, 256)
        found = cost(engine, Part.ROLLOUT, choice, job, where)
        slots.append(engine_space(FOR_MEMORY, choice, batch, where, C).slots)
        us.append(None if found is None else found.times_us["generate"])
    assert slots == sorted(slots)
    assert slots[0] < 64 <= slots[-1]
    done = [time for time in us if time is not None]
    assert len(done) >= 4
    assert done == sorted(done, reverse=True)
