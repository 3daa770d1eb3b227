"""Memory of training, frozen roles and engines; numbers in comments are worked by hand."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worked_models import BATCH_FOR_MEMORY as BATCH
from worked_models import FOR_MEMORY as MODEL

from placement.choices.choices import FrozenChoice, TrainChoice
from placement.choices.hardware import Hardware
from placement.constants.table import constants
from placement.memory import gpu_memory
from placement.memory.activations import kept_for_backward
from placement.memory.gpu_memory import State
from placement.models.model import catalogue, find_model
from placement.workloads.dataflow import Work
from placement.workloads.workload import (
    Batch,
    Engine,
    Master,
    Offload,
    Precision,
    Recompute,
    Role,
    RoleName,
    RolloutMenu,
    TrainMenu,
)

BF16 = Precision.BF16
FP32, MASTER_BF16 = Master
NONE, BETWEEN, ALWAYS = Offload
FSDP, MEGATRON, VLLM, SGLANG = Engine

# Round numbers; every activation of a layer adds 100 B per token and hidden unit.
C = dataclasses.replace(
    constants(),
    train_overhead_mib=1000,
    frozen_overhead_mib=500,
    nccl_mib_2=0,
    nccl_mib_4=0,
    engine_residual_mib=2000,
    fsdp_activation_bytes_per_hidden=100,
    engine_nccl_mib_tp1=100,
    engine_nccl_mib_tp2=600,
    sync_bucket_mib=2048,
)



def train_choice(
    tp: int = 1,
    pp: int = 1,
    dp: int = 4,
    master: Master = FP32,
    offload: Offload = NONE,
    micro_batch_tokens: int = 8192,
) -> TrainChoice:
    return TrainChoice(tp, pp, dp, BF16, master, offload, micro_batch_tokens)


def actor(engine: Engine = FSDP, *, fused_ce: bool = True, lora: int = 0) -> Role:
    train = TrainMenu(fused_ce=fused_ce, lora=lora)
    return Role(RoleName.ACTOR, MODEL, engine, train=train, rollout=RolloutMenu())


def gpu(total_mib: int = 80_000, gpus: int = 1) -> Hardware:
    return Hardware(gpus, 312e12, 2e12, total_mib, (8, 0), 0.0, True)


# ── state ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("engine", "choice", "per_parameter"),
    [
        pytest.param(FSDP, train_choice(dp=1), (4, 4, 8), id="fsdp, fp32 master: 16"),
        pytest.param(FSDP, train_choice(dp=1, master=MASTER_BF16), (2, 2, 4), id="fsdp, bf16 master: 8"),
        pytest.param(FSDP, train_choice(dp=4), (1, 1, 2), id="fsdp on 4: all is sharded"),
        pytest.param(MEGATRON, train_choice(dp=1), (2, 4, 12), id="megatron: 6 + 12/dp = 18"),
        pytest.param(MEGATRON, train_choice(dp=4), (2, 4, 3), id="megatron, dp 4: 6 + 12/4"),
        pytest.param(MEGATRON, train_choice(2, 2, 4), (0.5, 1, 0.75), id="megatron, tp 2, pp 2, dp 4: (6 + 12/4)/4"),
        pytest.param(MEGATRON, train_choice(dp=1, master=MASTER_BF16), (2, 2, 6), id="megatron in 16 bits: 10"),
    ],
)  # fmt: skip
def test_state_in_bytes_per_parameter(
    engine: Engine, choice: TrainChoice, per_parameter: tuple[float, float, float]
) -> None:
    weights, gradients, optimizer = (MODEL.parameters * size for size in per_parameter)
    assert gpu_memory.state(actor(engine), MODEL, choice) == State(weights, weights, gradients, optimizer)


def test_lora_trains_its_adapters_alone() -> None:
    # Rank 8: q and o 2·(1024 + 1024), k and v 2·(1024 + 256), FFN 3·(1024 + 4096): 22,016 · 8 · 24 layers.
    role = actor(lora=8)
    assert gpu_memory.trained_parameters(role, MODEL) == 22_016 * 8 * 24
    held = gpu_memory.state(role, MODEL, train_choice(dp=2, master=MASTER_BF16))
    assert held.weights == pytest.approx(MODEL.parameters + 22_016 * 8 * 24)
    assert held.optimizer == pytest.approx(4 * 22_016 * 8 * 24 / 2)
    full = gpu_memory.state(actor(MEGATRON), MODEL, train_choice(dp=2))
    lora = gpu_memory.state(actor(MEGATRON, lora=8), MODEL, train_choice(dp=2))
    assert full.weights < lora.weights < 1.01 * full.weights
    assert lora.gradients < 0.01 * full.gradients


def test_lora_scatters_the_gradients_of_its_adapters_alone() -> None:
    # MiB: 16-bit weights in four parts, and 8 bytes for each adapter; 320 gathered, and of gradients the adapters' share of that.
    choice = train_choice(master=MASTER_BF16)
    held = gpu_memory.train(actor(lora=8), MODEL, choice, BATCH, C, hybrid=True)
    adapters = 22_016 * 8 * 24 / MODEL.parameters
    state = (2 + (2 + 2 + 4) * adapters) * 1600 / 4
    assert held.active_mib[Work.UPDATE_ACTOR] == pytest.approx(1000 + state + 320 * (1 + adapters) + 384 + 800)


# ── training ────────────────────────────────────────────────────────────────────────────────────────────────


def test_fsdp_phase_by_phase() -> None:
    # dp 4: 16 sequences an update and rank = two micro-batches of 8192 tokens. MiB:   weights 1600, gradients
    # 1600, optimizer 3200; a gather: 2 layers of 64 in 2 B, an embedding of 32 in 2 B: 320   checkpoints
    # 2·8192·1024·24 B = 384, working set 8192·100·1024 B = 800; the largest tensor in fp32: 128
    held = gpu_memory.train(actor(), MODEL, train_choice(), BATCH, C, hybrid=True)
    assert held.resident_mib == 1000 + 1600 + 3200
    assert held.active_mib == {
        Work.OLD_LOG_PROBS: 1000 + 1600 + 3200 + 320 + 800,
        Work.UPDATE_ACTOR: 1000 + 6400 + 2 * 320 + 384 + 800,
        Work.SYNC_WEIGHTS: 1000 + 1600 + 3200 + 128,
    }


def test_megatron_phase_by_phase() -> None:
    # tp 2, pp 2, dp 1: a quarter of the model: 800 weights, 1600 gradients, 4800 optimizer.   a layer's
    # activations: 8192·1024·(18 + 16) B = 272; · 24 layers / 4 · 2 in flight = 3264; working set 800/2.
    held = gpu_memory.train(actor(MEGATRON), MODEL, train_choice(2, 2, 1), BATCH, C, hybrid=True)
    assert held.resident_mib == 1000 + 800 + 4800
    assert held.active_mib == {
        Work.OLD_LOG_PROBS: 1000 + 800 + 4800 + 400,
        Work.UPDATE_ACTOR: 1000 + 7200 + 3264,
        Work.SYNC_WEIGHTS: 1000 + 800 + 4800 + 128,
    }


def test_a_pipeline_holds_no_more_micro_batches_than_there_are() -> None:
    one = dataclasses.replace(BATCH, prompts=4)  # one sequence an update
    role = actor(MEGATRON)
    short = gpu_memory.train(role, MODEL, train_choice(1, 2, 1), one, C, hybrid=True)
    # 1024 tokens · 1024 · 34 B · 24 layers / 2 = 408 MiB, once.
    assert short.active_mib[Work.UPDATE_ACTOR] == 1000 + 800 * 18 + 408


@pytest.mark.parametrize(
    ("engine", "choice", "idle", "forward", "update"),
    [
        pytest.param(FSDP, train_choice(offload=BETWEEN), 0, 1600 + 320 + 800, 6400 + 640 + 1184, id="fsdp, between"),
        pytest.param(FSDP, train_choice(offload=ALWAYS), 0, 320 + 800, 640 + 1184, id="fsdp, always: layer by layer"),
        pytest.param(FSDP, train_choice(dp=1, offload=ALWAYS), 0, 320 + 800, 640 + 1184, id="fsdp, always, on one GPU"),
        pytest.param(MEGATRON, train_choice(offload=BETWEEN), 0, 3200 + 800, 9600 + 4800 + 6528, id="megatron, between"),
        pytest.param(MEGATRON, train_choice(offload=ALWAYS), 0, 3200 + 800, 9600 + 6528, id="megatron, always: the optimizer"),
    ],
)  # fmt: skip
def test_offload(engine: Engine, choice: TrainChoice, idle: int, forward: int, update: int) -> None:
    held = gpu_memory.train(actor(engine), MODEL, choice, BATCH, C, hybrid=True)
    assert held.resident_mib == 1000 + idle
    assert held.active_mib[Work.OLD_LOG_PROBS] == 1000 + forward
    assert held.active_mib[Work.UPDATE_ACTOR] == 1000 + update


def test_logits_are_stored_unless_the_loss_is_fused() -> None:
    # 8192 tokens · 16 B · 32 Ki = 4096 MiB in training, a quarter in a forward pass; the critic has none.
    fused = gpu_memory.train(actor(), MODEL, train_choice(), BATCH, C, hybrid=True).active_mib
    plain = gpu_memory.train(actor(fused_ce=False), MODEL, train_choice(), BATCH, C, hybrid=True).active_mib
    assert plain[Work.UPDATE_ACTOR] - fused[Work.UPDATE_ACTOR] == 4096
    assert plain[Work.OLD_LOG_PROBS] - fused[Work.OLD_LOG_PROBS] == 1024
    critic = actor(fused_ce=False).replace(name=RoleName.CRITIC, rollout=None)
    held = gpu_memory.train(critic, MODEL, train_choice(), BATCH, C, hybrid=True).active_mib
    assert set(held) == {Work.VALUES, Work.UPDATE_CRITIC}
    assert held[Work.UPDATE_CRITIC] == fused[Work.UPDATE_ACTOR]


def test_tensor_parallelism_cuts_state_and_activations() -> None:
    # tp 2, dp 2, MiB: state 6400 on 4 GPUs as before; of gathers, checkpoints, working set and logits a half.
    role = actor(fused_ce=False)
    held = gpu_memory.train(role, MODEL, train_choice(2, 1, 2), BATCH, C, hybrid=True).active_mib
    assert held[Work.UPDATE_ACTOR] == 1000 + 6400 + 320 + 192 + 400 + 2048
    assert held[Work.OLD_LOG_PROBS] == 1000 + 1600 + 3200 + 160 + 400 + 512


def test_a_short_batch_does_not_fill_a_micro_batch() -> None:
    # 16 sequences of 1024 tokens: a rank has 1 in an update (48 + 100 MiB), 4 in a forward pass (400 MiB).
    short = dataclasses.replace(BATCH, prompts=16)
    held = gpu_memory.train(actor(), MODEL, train_choice(), short, C, hybrid=True).active_mib
    assert held[Work.UPDATE_ACTOR] == 1000 + 6400 + 640 + 48 + 100
    assert held[Work.OLD_LOG_PROBS] == 1000 + 1600 + 3200 + 320 + 400
    choice = FrozenChoice(1, 1, 4, BF16, BETWEEN)
    ref = gpu_memory.frozen(Role(RoleName.REF, MODEL), MODEL, choice, short, C, fused_ce=True)
    assert ref.active_mib == {Work.REF_LOG_PROBS: 500 + 800 + 320 + 400}


def test_between_pools_two_buckets_are_in_flight() -> None:
    together = gpu_memory.train(actor(), MODEL, train_choice(), BATCH, C, hybrid=True).active_mib
    apart = gpu_memory.train(actor(), MODEL, train_choice(), BATCH, C, hybrid=False).active_mib
    assert apart[Work.SYNC_WEIGHTS] - together[Work.SYNC_WEIGHTS] == 2 * 2048


def test_each_communicator_has_buffers() -> None:
    # One group of four or more is in the overhead. Alone: 300 less; a pair: 100 less; TP pairs beside four data-parallel ranks: 200 more.
    c = dataclasses.replace(C, nccl_mib_2=200, nccl_mib_4=300)

    def idle(choice: TrainChoice) -> float:
        return gpu_memory.train(actor(), MODEL, dataclasses.replace(choice, offload=BETWEEN), BATCH, c, hybrid=True).resident_mib

    assert idle(train_choice(dp=4)) == idle(train_choice(dp=8)) == 1000
    assert idle(train_choice(dp=1)) == 700
    assert idle(train_choice(dp=2)) == 900
    assert idle(train_choice(tp=2, dp=4)) == 1200
    # Ranks that share sequences are joined twice: in their pair, and in the four that hold shards.
    assert idle(dataclasses.replace(train_choice(dp=2), sp=2)) == 1200
    alone = gpu_memory.frozen(Role(RoleName.REF, MODEL), MODEL, FrozenChoice(1, 1, 1, BF16, BETWEEN), BATCH, c, fused_ce=True)
    assert alone.resident_mib == 200


def test_an_overhead_below_the_buffers_that_it_counts_is_none_left() -> None:
    """A user may measure a context that is smaller than the shipped buffers of a communicator: then those are all there is."""
    small = dataclasses.replace(constants(), train_overhead_mib=100, frozen_overhead_mib=0, nccl_mib_4=374)
    alone, four = train_choice(dp=1, offload=BETWEEN), train_choice(dp=4, offload=BETWEEN)
    assert gpu_memory.train(actor(), MODEL, alone, BATCH, small, hybrid=True).resident_mib == 0
    assert gpu_memory.train(actor(), MODEL, four, BATCH, small, hybrid=True).resident_mib == 374



@given(
    engine=st.sampled_from([FSDP, MEGATRON]),
    master=st.sampled_from(Master),
    tp=st.sampled_from([1, 2, 4]),
    dp=st.sampled_from([1, 2, 4, 8]),
    tokens=st.integers(1024, 30_000),
    fused=st.booleans(),
    hybrid=st.booleans(),
    lora=st.sampled_from([0, 16]),
)
def test_offload_never_raises_memory(
    engine: Engine, master: Master, tp: int, dp: int, tokens: int, fused: bool, hybrid: bool, lora: int
) -> None:
    role = actor(engine, fused_ce=fused, lora=lora)
    held = [
        gpu_memory.train(role, MODEL, train_choice(tp, 1, dp, master, offload, tokens), BATCH, C, hybrid=hybrid)
        for offload in (NONE, BETWEEN, ALWAYS)
    ]
    for less, more in ((held[1], held[0]), (held[2], held[1])):
        assert less.resident_mib <= more.resident_mib
        assert all(less.active_mib[work] <= more.active_mib[work] for work in more.active_mib)


@given(
    engine=st.sampled_from([FSDP, MEGATRON]),
    master=st.sampled_from(Master),
    offload=st.sampled_from(Offload),
    tp=st.sampled_from([1, 2, 4]),
    dp=st.sampled_from([1, 2, 4, 8]),
    model=st.sampled_from([m for m in catalogue().values() if not m.experts]),
)
def test_memory_falls_with_more_shards(
    engine: Engine, master: Master, offload: Offload, tp: int, dp: int, model: object
) -> None:
    role = actor(engine)

    def footprint(tp: int, dp: int) -> tuple[float, ...]:
        choice = train_choice(tp, 1, dp, master, offload)
        held = gpu_memory.train(role, model, choice, BATCH, C, hybrid=True)  # type: ignore[arg-type]
        return (held.resident_mib, *held.active_mib.values())

    here = footprint(tp, dp)
    # From one shard to two FSDP starts to gather; with a 16-bit master a forward pass does not repay it.
    if dp > 1 or engine is MEGATRON:
        assert all(a <= b for a, b in zip(footprint(tp, 2 * dp), here, strict=True))
    assert all(a <= b for a, b in zip(footprint(2 * tp, dp), here, strict=True))


@given(
    engine=st.sampled_from([FSDP, MEGATRON]),
    offload=st.sampled_from(Offload),
    dp=st.sampled_from([1, 4]),
    tokens=st.integers(1024, 60_000),
)
def test_working_never_holds_less_than_idling(engine: Engine, offload: Offload, dp: int, tokens: int) -> None:
    choice = train_choice(1, 1, dp, FP32, offload, tokens)
    held = gpu_memory.train(actor(engine), MODEL, choice, BATCH, C, hybrid=True)
    assert all(active >= held.resident_mib for active in held.active_mib.values())


# Peaks that others measured, GiB: prime-rl's trainer tables, FSDP with full recomputation.
@pytest.mark.parametrize(
    ("name", "gpus", "tokens", "fused_ce", "measured_gib"),
    [
        pytest.param("Qwen/Qwen3-4B", 8, 16384, True, 17.1, id="4B on 8, chunked head"),
        pytest.param("Qwen/Qwen3-0.6B", 1, 16384, True, 12.53, id="0.6B on 1, chunked head"),
        pytest.param("Qwen/Qwen3-0.6B", 1, 8192, False, 31.74, id="0.6B on 1, full logits"),
        pytest.param("Qwen/Qwen3-4B", 8, 16384, False, 54.63, id="4B on 8, full logits"),
    ],
)
def test_dense_training_is_within_ten_percent_of_published_peaks(
    name: str, gpus: int, tokens: int, fused_ce: bool, measured_gib: float
) -> None:
    role, batch = actor(fused_ce=fused_ce), Batch(gpus, 1, tokens // 2, tokens // 2, tokens // 2, 1, tokens)
    choice = train_choice(dp=gpus, micro_batch_tokens=tokens)
    held = gpu_memory.train(role, find_model(name), choice, batch, constants(), hybrid=True)
    assert held.active_mib[Work.UPDATE_ACTOR] / 1024 == pytest.approx(measured_gib, rel=0.1)


# ── frozen roles ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("engine", "choice", "idle", "active"),
    [
        # 2 B · 1600 Mi = 3200 MiB of weights; gathers 320, working set 800.
        pytest.param(FSDP, FrozenChoice(1, 1, 4, BF16, NONE), 800, 800 + 320 + 800, id="fsdp"),
        pytest.param(FSDP, FrozenChoice(1, 1, 4, BF16, BETWEEN), 0, 800 + 320 + 800, id="fsdp, between"),
        pytest.param(FSDP, FrozenChoice(1, 1, 4, BF16, ALWAYS), 0, 320 + 800, id="fsdp, always"),
        pytest.param(FSDP, FrozenChoice(1, 1, 1, BF16, NONE), 3200, 3200 + 800, id="fsdp on one GPU gathers nothing"),
        pytest.param(MEGATRON, FrozenChoice(2, 2, 4, BF16, NONE), 800, 800 + 400, id="megatron: 2P/(tp·pp)"),
        pytest.param(VLLM, FrozenChoice(2, 1, 2, BF16, ALWAYS), 0, 1600 + 400, id="an engine wakes all its weights"),
    ],
)  # fmt: skip
def test_frozen_roles_hold_16_bit_weights(
    engine: Engine, choice: FrozenChoice, idle: int, active: int
) -> None:
    role = Role(RoleName.REF, MODEL, engine)
    held = gpu_memory.frozen(role, MODEL, choice, BATCH, C, fused_ce=True)
    assert held.resident_mib == 500 + idle
    assert held.active_mib == {Work.REF_LOG_PROBS: 500 + active}


def test_only_the_reference_has_logits() -> None:
    choice = FrozenChoice(1, 1, 4, BF16, NONE)
    sizes = {}
    for name, work in ((RoleName.REF, Work.REF_LOG_PROBS), (RoleName.REWARD, Work.REWARD)):
        for fused in (True, False):
            role = Role(name, MODEL)
            held = gpu_memory.frozen(role, MODEL, choice, BATCH, C, fused_ce=fused).active_mib[work]
            sizes[name, fused] = held
    assert sizes[RoleName.REF, False] - sizes[RoleName.REF, True] == 1024
    half = gpu_memory.frozen(
        Role(RoleName.REF, MODEL), MODEL, FrozenChoice(2, 1, 2, BF16, NONE), BATCH, C, fused_ce=False
    )
    assert half.active_mib[Work.REF_LOG_PROBS] == 500 + 800 + 160 + 400 + 512
    assert sizes[RoleName.REWARD, False] == sizes[RoleName.REWARD, True] == sizes[RoleName.REF, True]


def test_what_is_kept_of_a_layer_is_counted_tensor_by_tensor() -> None:
    # Llama-3.1-8B, 16 bits: input, FFN output (4096 each), query and attention's output (4096 each), value (1024), gate (14,336).
    llama = find_model("meta-llama/Llama-3.1-8B")
    assert gpu_memory.kept_bytes_per_layer(llama, Recompute.SELECTIVE) == 2 * (4 * 4096 + 1024 + 14_336)
    assert gpu_memory.kept_bytes_per_layer(llama, Recompute.FULL) == 2 * 4096
    assert gpu_memory.kept_bytes_per_layer(llama, Recompute.NONE) == 18 * 4096 + 4 * 14_336


def test_keeping_more_never_lowers_the_peak() -> None:
    peaks = []
    for kept in (Recompute.FULL, Recompute.SELECTIVE, Recompute.NONE):
        role = dataclasses.replace(actor(), train=TrainMenu(recompute=kept))
        peaks.append(gpu_memory.train(role, MODEL, train_choice(), BATCH, C, hybrid=True).active_mib[Work.UPDATE_ACTOR])
    assert peaks == sorted(peaks)


def test_megatron_that_computes_a_layer_again_keeps_its_input() -> None:
    # 8192 tokens of 1024 on tp 2, 24 layers, no pipeline: 18 h + 4 f = 34 h bytes a token and layer, 285,212,672 B; inputs are 2 h.
    def kept(recompute: Recompute | None, pp: int = 1) -> float:
        role = dataclasses.replace(actor(MEGATRON), train=TrainMenu(recompute=recompute))
        choice = train_choice(tp=2, pp=pp, dp=1)
        return kept_for_backward(MEGATRON, MODEL, choice, 8192, 4, C, role.recompute)

    layer = 8192 * 1024 * 34 / 2
    assert kept(Recompute.SELECTIVE) == kept(Recompute.NONE) == kept(None) == 24 * layer
    assert kept(Recompute.FULL) == 24 * 8192 * 1024 * 2 / 2 + layer - 8192 * 1024 * 2 / 2
    # The first of four stages holds six layers for each of four micro-batches, and works on one.
    assert kept(Recompute.FULL, pp=4) == kept(Recompute.FULL)


def test_keeping_more_never_lowers_megatrons_peak() -> None:
    for pp in (1, 2, 24):
        choice = train_choice(pp=pp, dp=1)
        full, selective = (kept_for_backward(MEGATRON, MODEL, choice, 8192, 1, C, kept) for kept in (Recompute.FULL, Recompute.SELECTIVE))
        assert full <= selective


def test_a_compiled_loss_writes_four_bytes_less_for_each_logit() -> None:
    def peak(*, compiled: bool) -> float:
        role = dataclasses.replace(actor(), train=TrainMenu(fused_ce=False, compiled=compiled))
        return gpu_memory.train(role, MODEL, train_choice(), BATCH, C, hybrid=True).active_mib[Work.UPDATE_ACTOR]

    # 8192 tokens of 32,768 entries: 4 bytes each are 1024 MiB.
    assert peak(compiled=False) - peak(compiled=True) == pytest.approx(1024)


def test_an_optimizer_within_the_backward_pass_leaves_one_gradient() -> None:
    role = dataclasses.replace(actor(), train=TrainMenu(in_backward=True))
    choice = train_choice(dp=1, master=Master.BF16)
    usual = gpu_memory.train(actor(), MODEL, choice, BATCH, C, hybrid=True).active_mib[Work.UPDATE_ACTOR]
    paged = gpu_memory.train(role, MODEL, choice, BATCH, C, hybrid=True).active_mib[Work.UPDATE_ACTOR]
    # bf16: gradients of 3200 MiB but the embedding's 64, and 6400 MiB of moments are gone.
    assert usual - paged == pytest.approx(3200 - 64 + 6400)


def test_frozen_weights_of_few_bits_leave_embeddings_alone() -> None:
    role = dataclasses.replace(actor(), train=TrainMenu(lora=8, frozen_bytes=0.5))
    held = gpu_memory.state(role, MODEL, train_choice(dp=1))
    # 64 Mi of embeddings at 2 bytes, 1536 Mi at half a byte; the adapters are trained in the master's four.
    assert held.weights - held.trained == (2 * 64 + 0.5 * 1536) * gpu_memory.MIB


def test_frozen_weights_of_few_bits_are_multiplied_with_in_sixteen() -> None:
    # The largest, 1024 × 4096, is 8 MiB. Adapters beside weights of 16 bits need no such room.
    def held(lora: int, each: float | None) -> gpu_memory.Pieces:
        role = dataclasses.replace(actor(), train=TrainMenu(lora=lora, frozen_bytes=each))
        return gpu_memory.train(role, MODEL, train_choice(dp=1), BATCH, C, hybrid=True).working[Work.UPDATE_ACTOR]

    assert held(8, 0.516)[gpu_memory.Piece.GATHERED] == 8
    assert gpu_memory.Piece.GATHERED not in held(8, None)
    assert gpu_memory.Piece.GATHERED not in held(8, 2.0)
