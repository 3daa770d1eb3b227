"""Sharded and replicated state: ZeRO stages, the distributed optimizer, experts; numbers in comments are worked by hand."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worked_models import BATCH_FOR_MEMORY as BATCH
from worked_models import FOR_MEMORY as MODEL

from placement.choices.choices import FrozenChoice, TrainChoice
from placement.constants.table import Constants, constants
from placement.memory import gpu_memory
from placement.memory.states import State, frozen_weights, state
from placement.models.model import Model, catalogue, find_model
from placement.workloads.dataflow import Work
from placement.workloads.workload import (
    Batch,
    Engine,
    Master,
    Offload,
    Precision,
    Role,
    RoleName,
    RolloutMenu,
    TrainMenu,
)

FSDP, MEGATRON = Engine.FSDP, Engine.MEGATRON
FP32, MASTER_BF16 = Master
# Buffers of communicators are left out: more ranks have more of them (tests/placement/test_memory.py).
NO_BUFFERS = dataclasses.replace(constants(), nccl_mib_2=0, nccl_mib_4=0)
C = dataclasses.replace(NO_BUFFERS, train_overhead_mib=1000, fsdp_activation_bytes_per_hidden=100)
# A quarter of the parameters are active; of 16 experts a token passes 4: 1200 Mi unused are 12 of 16, all of them 1600 Mi less
# 64 Mi of embeddings at most. So that they fit, 600 Mi are unused and 800 Mi are of experts.
EXPERTS = dataclasses.replace(MODEL, active_parameters=1000 * 2**20, experts=16, experts_per_token=4)


def choice(tp: int = 1, pp: int = 1, dp: int = 1, master: Master = FP32, offload: Offload = Offload.NONE, **more: int) -> TrainChoice:
    return TrainChoice(tp, pp, dp, Precision.BF16, master, offload, 8192, **more)


def actor(engine: Engine = FSDP, **menu: object) -> Role:
    return Role(RoleName.ACTOR, MODEL, engine, train=TrainMenu(**menu), rollout=RolloutMenu())  # type: ignore[arg-type]


# ── ZeRO stages ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("zero", "master", "per_parameter"),
    [
        # 4 + 12/d, 2 + 14/d and 16/d bytes with an fp32 master, d = 4.
        pytest.param(1, FP32, (2, 2, 3), id="stage 1: 4 + 12/4"),
        pytest.param(2, FP32, (2, 0.5, 3), id="stage 2: 2 + 14/4"),
        pytest.param(3, FP32, (1, 1, 2), id="stage 3: 16/4"),
        pytest.param(1, MASTER_BF16, (2, 2, 1), id="stage 1, bf16 master: 4 + 4/4"),
        pytest.param(2, MASTER_BF16, (2, 0.5, 1), id="stage 2, bf16 master: 2 + 6/4"),
    ],
)
def test_zero_stages_in_bytes_per_parameter(zero: int, master: Master, per_parameter: tuple[float, float, float]) -> None:
    weights, gradients, optimizer = (MODEL.parameters * size for size in per_parameter)
    assert state(actor(), MODEL, choice(dp=4, master=master, zero=zero)) == State(weights, weights, gradients, optimizer)


def test_unsharded_weights_are_not_gathered() -> None:
    # Stage 2 on 4, MiB: 3200 weights, 800 gradients, 4800 optimizer; gradients of two layers and an embedding wait to be scattered:
    # 320; checkpoints 384, working set 800. Stage 1 keeps 3200 of gradients and no such buffer.
    for zero, gradients, waiting in ((2, 800, 320), (1, 3200, 0)):
        held = gpu_memory.train(actor(), MODEL, choice(dp=4, zero=zero), BATCH, C, hybrid=True)
        assert held.resident_mib == 1000 + 3200 + 4800
        assert held.active_mib[Work.OLD_LOG_PROBS] == 1000 + 3200 + 4800 + 800
        assert held.active_mib[Work.UPDATE_ACTOR] == 1000 + 3200 + gradients + 4800 + waiting + 384 + 800


def test_before_stage_3_offload_takes_the_optimizer_alone_from_the_update() -> None:
    # Always, stage 2: the 4800 MiB of the optimizer are on the host, weights and gradients of the update are not.
    stays = gpu_memory.train(actor(), MODEL, choice(dp=4, zero=2), BATCH, C, hybrid=True)
    away = gpu_memory.train(actor(), MODEL, choice(dp=4, zero=2, offload=Offload.ALWAYS), BATCH, C, hybrid=True)
    assert away.resident_mib == 1000
    assert stays.active_mib[Work.UPDATE_ACTOR] - away.active_mib[Work.UPDATE_ACTOR] == 4800


# ── sequence parallelism ────────────────────────────────────────────────────────────────────────────────────


def test_ranks_that_share_sequences_share_activations_and_hold_shards_like_all_others() -> None:
    # dp 2 · sp 2: shards as on 4 GPUs; of 8192 tokens each has a half: 192 of checkpoints, 400 of working set, 2048 of logits.
    role = actor(fused_ce=False)
    held = gpu_memory.train(role, MODEL, choice(dp=2, sp=2), BATCH, C, hybrid=True)
    assert held.resident_mib == 1000 + 1600 + 3200
    assert held.active_mib[Work.UPDATE_ACTOR] == 1000 + 6400 + 640 + 192 + 400 + 2048
    shared = FrozenChoice(1, 1, 2, Precision.BF16, Offload.NONE, sp=2)
    ref = gpu_memory.frozen(Role(RoleName.REF, MODEL), MODEL, shared, BATCH, C, fused_ce=False)
    assert ref.active_mib[Work.REF_LOG_PROBS] == 1040 + 800 + 320 + 400 + 512


# ── Megatron ────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_the_distributed_optimizer_every_rank_keeps_18_bytes() -> None:
    role = actor(MEGATRON, distributed_optimizer=False)
    p = MODEL.parameters
    assert state(role, MODEL, choice(dp=4)) == State(2 * p, 2 * p, 4 * p, 12 * p)
    assert state(role, MODEL, choice(2, 2, 4)) == State(p / 2, p / 2, p, 3 * p)


def test_expert_parameters_are_what_a_token_leaves_aside_and_their_share() -> None:
    assert EXPERTS.expert_parameters == 800 * 2**20
    assert MODEL.expert_parameters == 0
    # Qwen3-30B-A3B: 48 layers of 128 experts of three matrices 2048 × 768.
    assert find_model("Qwen/Qwen3-30B-A3B").expert_parameters == 48 * 128 * 3 * 2048 * 768
    # DeepSeek-V3: 58 layers with experts, 256 of three matrices 7168 × 2048; the shared expert is not among them.
    assert find_model("deepseek-ai/DeepSeek-V3").expert_parameters == 58 * 256 * 3 * 7168 * 2048
    # Where a token passes all of them, or says it uses all parameters, nothing tells their share.
    assert dataclasses.replace(EXPERTS, experts_per_token=16).expert_parameters == 0
    assert dataclasses.replace(EXPERTS, active_parameters=MODEL.parameters).expert_parameters == 0


def test_expert_parallelism_leaves_each_rank_its_experts() -> None:
    # dp 4, ep 4: 800 Mi of others and 200 Mi of experts: 1000 Mi · (2, 4) bytes; the optimizer's 12 bytes over all four as before.
    held = state(actor(MEGATRON), EXPERTS, choice(dp=4, ep=4))
    mib = 2**20
    assert held == State(2000 * mib, 2000 * mib, 4000 * mib, 1600 * mib * 12 / 4)
    alone = state(actor(MEGATRON, distributed_optimizer=False), EXPERTS, choice(dp=4, ep=4))
    assert alone.optimizer == 12 * 1000 * mib
    frozen = Role(RoleName.REF, EXPERTS, MEGATRON)
    assert frozen_weights(frozen, EXPERTS, FrozenChoice(1, 1, 4, Precision.BF16, Offload.NONE, ep=4)) == 2000 * mib
    # TP cuts experts too.
    assert state(actor(MEGATRON), EXPERTS, choice(2, 1, 4, ep=4)).weights == 1000 * mib


# ── properties ──────────────────────────────────────────────────────────────────────────────────────────────


@st.composite
def models(draw: st.DrawFn) -> Model:
    """Draw a transformer of any shape, dense or with experts, tied or not, with few KV heads or many."""
    shape = draw(st.sampled_from(list(catalogue().values())))
    if draw(st.booleans()):
        return shape
    heads = draw(st.sampled_from([8, 16, 32]))
    hidden, layers, ffn = 64 * draw(st.integers(8, 128)), draw(st.integers(2, 80)), 64 * draw(st.integers(8, 512))
    vocab, tied = draw(st.integers(1000, 260_000)), draw(st.booleans())
    embeddings = vocab * hidden * (1 if tied else 2)
    own = layers * (4 * hidden * hidden + 3 * hidden * ffn)
    return dataclasses.replace(
        find_model("Qwen/Qwen2.5-0.5B"), hidden=hidden, layers=layers, heads=heads, kv_heads=draw(st.sampled_from([1, 2, 8])),
        head_dim=64, ffn=ffn, vocab=vocab, tie_embeddings=tied, embedding_parameters=embeddings,
        parameters=embeddings + own, active_parameters=embeddings + own,
    )  # fmt: skip


BATCHES = st.builds(
    Batch, st.integers(8, 512), st.integers(1, 8), st.integers(1, 4000), st.just(200), st.integers(200, 20_000), st.integers(1, 8),
    st.integers(512, 40_000),
)  # fmt: skip
MENUS = st.builds(
    TrainMenu, fused_ce=st.booleans(), lora=st.sampled_from([0, 0, 16]), distributed_optimizer=st.booleans()
)


STAGES = st.sampled_from([1, 2, 3])
ENGINES = st.sampled_from([FSDP, MEGATRON])


def _all(role: Role, model: Model, how: TrainChoice, batch: Batch, c: Constants = NO_BUFFERS) -> list[float]:
    held = gpu_memory.train(role, model, how, batch, c, hybrid=True)
    return [held.resident_mib, *held.active_mib.values()]


def _no_more(less: list[float], more: list[float]) -> bool:
    return all(a <= b * (1 + 1e-12) for a, b in zip(less, more, strict=True))


@given(models(), BATCHES, MENUS, st.sampled_from(Master), st.sampled_from(Offload), STAGES, st.sampled_from([2, 4, 8]))
def test_memory_falls_with_more_shards_under_every_stage(
    model: Model, batch: Batch, menu: TrainMenu, master: Master, offload: Offload, zero: int, dp: int
) -> None:
    """More ranks, ranks that share sequences, and (in the state) later stages: none holds more."""
    role = actor().replace(model=model, train=dataclasses.replace(menu, distributed_optimizer=True))
    here = choice(dp=dp, master=master, offload=offload, zero=zero)
    assert _no_more(_all(role, model, dataclasses.replace(here, dp=2 * dp), batch), _all(role, model, here, batch))
    # The same ranks that share sequences: dp ranks have more sequences each, but tokens of a micro-batch are limited.
    assert _no_more(_all(role, model, dataclasses.replace(here, sp=2), batch), _all(role, model, here, batch))
    held = [state(role, model, dataclasses.replace(here, zero=stage)) for stage in (1, 2, 3)]
    sums = [s.weights + s.gradients + s.optimizer for s in held]
    if not menu.lora:
        # All sixteen (or eight) bytes are the same ones, spread over more.
        assert sums[0] >= sums[1] * (1 - 1e-12)
        assert sums[1] >= sums[2] * (1 - 1e-12)


@given(models(), BATCHES, MENUS, st.sampled_from(Master), st.sampled_from(Offload), STAGES, st.sampled_from([2, 4, 8]))
def test_with_buffers_more_ranks_hold_at_most_those_of_new_communicators_more(
    model: Model, batch: Batch, menu: TrainMenu, master: Master, offload: Offload, zero: int, dp: int
) -> None:
    role, c = actor().replace(model=model, train=menu), constants()
    here = choice(dp=dp, master=master, offload=offload, zero=zero)
    before, larger = _all(role, model, here, batch, c), c.nccl_mib_4 - gpu_memory.nccl_mib(dp, c)
    wider, shared = dataclasses.replace(here, dp=2 * dp), dataclasses.replace(here, sp=2)
    for how, buffers in ((wider, larger), (shared, larger + c.nccl_mib_2)):
        assert _no_more(_all(role, model, how, batch, c), [mib + buffers for mib in before])


@given(models(), BATCHES, MENUS, st.sampled_from(Master), STAGES, ENGINES, st.sampled_from([1, 2, 8]))
def test_offload_never_raises_memory_under_any_stage(
    model: Model, batch: Batch, menu: TrainMenu, master: Master, zero: int, engine: Engine, dp: int
) -> None:
    role = actor(engine).replace(model=model, train=menu)
    offloads = (Offload.NONE, Offload.BETWEEN, Offload.ALWAYS)
    held = [_all(role, model, choice(dp=dp, master=master, offload=offload, zero=zero), batch) for offload in offloads]
    assert _no_more(held[1], held[0])
    assert _no_more(held[2], held[1])


@given(models(), BATCHES, MENUS, st.sampled_from(Master), st.sampled_from(Offload), STAGES, ENGINES, st.booleans())
def test_weights_that_come_in_need_no_more_than_the_work_of_their_role(
    model: Model, batch: Batch, menu: TrainMenu, master: Master, offload: Offload, zero: int, engine: Engine, trains: bool
) -> None:
    """So the start of the job is no phase of the solver: others hold no more then than while they idle."""
    role = actor(engine).replace(model=model, train=menu, name=RoleName.CRITIC, rollout=None)
    held = gpu_memory.train(role, model, choice(dp=4, master=master, offload=offload, zero=zero), batch, constants(), hybrid=True)
    if not trains:
        frozen = FrozenChoice(1, 1, 4, Precision.BF16, Offload.NONE if offload is Offload.NONE else Offload.BETWEEN)
        held = gpu_memory.frozen(role.replace(name=RoleName.REF), model, frozen, batch, constants(), fused_ce=True)
    assert sum(held.load.values()) <= max(held.active_mib.values()) * (1 + 1e-12)


@given(st.sampled_from([m for m in catalogue().values() if m.experts]), BATCHES, MENUS, st.sampled_from(Master), st.sampled_from([1, 2, 4]))
def test_memory_falls_with_more_ranks_that_share_experts(model: Model, batch: Batch, menu: TrainMenu, master: Master, ep: int) -> None:
    role = actor(MEGATRON).replace(model=model, train=menu)
    here = choice(dp=8, master=master, ep=ep)
    assert _no_more(_all(role, model, dataclasses.replace(here, ep=2 * ep), batch), _all(role, model, here, batch))
    shared = dataclasses.replace(menu, distributed_optimizer=True)
    assert _no_more(_all(role.replace(train=shared), model, here, batch), _all(role, model, here, batch))
