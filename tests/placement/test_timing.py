"""Time of collectives, forward passes, training and weight syncs; numbers in comments are worked by hand."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worked_models import EXPERTS_FOR_TIME as EXPERTS
from worked_models import FOR_TIME as MODEL

from placement.choices.batches import Cut
from placement.choices.choices import FrozenChoice, TrainChoice
from placement.choices.hardware import Hardware
from placement.constants.table import constants
from placement.memory.sending import all_weights, buckets
from placement.timing import stages
from placement.timing.collectives import gather_s
from placement.timing.passes import (
    COMPUTE,
    OFFLOAD,
    MicroBatch,
    Timed,
    flops_per_token,
    gb,
    mfu,
    passes,
    timed,
)
from placement.workloads.workload import (
    Batch,
    Engine,
    Master,
    Offload,
    Precision,
    Role,
    RoleName,
    TrainMenu,
)

BF16 = Precision.BF16
FP32, MASTER_BF16 = Master
NONE, BETWEEN, ALWAYS = Offload
FSDP, MEGATRON, VLLM, SGLANG = Engine

C = dataclasses.replace(
    constants(),
    ring_efficiency=0.5,
    nvlink_alpha_us=10.0,
    nvlink_alpha_us_per_gpu=1.0,
    nvlink_alpha_bytes_per_s=100e9,
    pcie_alpha_us=20.0,
    pcie_alpha_us_per_gpu=5.0,
    train_mfu_dense=0.4,
    train_mfu_moe=0.2,
    forward_mfu_dense=0.5,
    forward_mfu_moe=0.25,
    mfu_flops_per_byte=100.0,
    host_adam_parameters_per_s=0.2e9,
    host_fused_adam_parameters_per_s=2e9,
    attention_weight=1.0,
    own_bytes_per_s=1e30,
    pageable_share=1.0,
    sync_tensor_us=0.0,
    sync_bucket_us=0.0,
    memory_efficiency=0.8,
    hybrid_sync_overhead_us=200_000,
    separate_sync_overhead_us=600_000,
)
FREE = dataclasses.replace(
    C, nvlink_alpha_us=0.0, nvlink_alpha_us_per_gpu=0.0, pcie_alpha_us=0.0, pcie_alpha_us_per_gpu=0.0
)
"""The same, but collectives start in no time."""

# 80 sequences of 1000 tokens in 2 updates.
BATCH = Batch(80, 1, 400, 600, 600, 2, 10_000)


def hardware(
    gpus: int,
    *,
    ring: float = 100e9,
    nvlink: bool = True,
    block: float = 100e9,
    host: float = 10e9,
) -> Hardware:
    """GPUs of 100 TFLOP/s and 1 TB/s."""
    tps = tuple(tp for tp in (2, 4, 8) if gpus % tp == 0)
    return Hardware(
        gpus=gpus,
        flops=100e12,
        memory_bytes_per_s=1e12,
        total_mib=80_000,
        compute_capability=(8, 0),
        ring_bytes_per_s=ring if gpus > 1 else 0.0,
        ring_nvlink=nvlink,
        block_bytes_per_s=tuple((tp, block) for tp in tps),
        block_nvlink=tuple((tp, nvlink) for tp in tps),
        host_bytes_per_s=host,
    )


def train_choice(
    tp: int = 1, pp: int = 1, dp: int = 1, master: Master = FP32, offload: Offload = NONE
) -> TrainChoice:
    return TrainChoice(tp, pp, dp, BF16, master, offload, 10_000)


def actor(engine: Engine = FSDP, lora: int = 0) -> Role:
    return Role(RoleName.ACTOR, MODEL, engine, train=TrainMenu(lora=lora))


# ── shares ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_time_is_bound_by_its_largest_share() -> None:
    assert timed([("a", 1.0), ("b", 3.0), ("c", 2.0)]) == Timed(6.0, "b")
    assert timed([("a", 1.0), ("b", 1.0)]).bound_by == "a"


@pytest.mark.parametrize(
    ("bytes_per_s", "text"),
    [
        pytest.param(275e9, "275 GB/s", id="NVLink"),
        pytest.param(10.34e9, "10 GB/s", id="PCIe"),
        pytest.param(2.67e9, "2.7 GB/s", id="a slow link keeps its decimal"),
    ],
)
def test_bandwidths_read_as_people_say_them(bytes_per_s: float, text: str) -> None:
    assert gb(bytes_per_s) == text


def test_a_token_costs_two_flop_a_parameter_and_half_its_attention() -> None:
    assert flops_per_token(MODEL, 1000, C) == 2e9 + 20e6
    assert flops_per_token(EXPERTS, 1000, C) == 2e8 + 20e6
    # Attention, which runs slower, counts for more.
    assert flops_per_token(MODEL, 1000, dataclasses.replace(C, attention_weight=1.5)) == 2e9 + 30e6


def test_a_card_with_fewer_flop_a_byte_reaches_a_larger_share_of_them() -> None:
    # 40 % at 100 FLOP/B and matrix products at 80 %: of 2.5 times the ideal time 1.25 is matrix products, and 1.25 traffic.
    # At 50 FLOP/B half of the latter is left: 1/1.875; at 200 it is doubled: 1/3.75.
    c = dataclasses.replace(C, matmul_efficiency=0.8)

    def at(flops: float) -> float:
        return mfu(0.4, dataclasses.replace(hardware(1), flops=flops), c)

    assert at(100e12) == pytest.approx(0.4)
    assert at(50e12) == pytest.approx(1 / 1.875)
    assert at(200e12) == pytest.approx(1 / 3.75)


def test_every_tensor_is_gathered_from_its_shards_before_it_is_sent() -> None:
    # FSDP over the ring of eight: 10 + 8 us over NVLink, 20 + 5 * 8 elsewhere; Megatron over its TP block of two: 10 + 2 us.
    start = stages.gather_start_s
    assert start(FSDP, train_choice(dp=8), hardware(8), C) == pytest.approx(18e-6)
    assert start(FSDP, train_choice(dp=8), hardware(8, nvlink=False), C) == pytest.approx(60e-6)
    assert start(MEGATRON, train_choice(tp=2, dp=4), hardware(8), C) == pytest.approx(12e-6)
    assert start(FSDP, train_choice(), hardware(1), C) == start(MEGATRON, train_choice(dp=8), hardware(8), C) == 0
    # A mixture of 1993 tensors, with 0.1 ms each for the engine that loads them.
    c = dataclasses.replace(C, sync_tensor_us=100.0)
    role, choice = Role(RoleName.ACTOR, EXPERTS, MEGATRON, train=TrainMenu()), train_choice(tp=2, dp=4)
    for hybrid in (True, False):
        plain, loaded = (stages.send(role, EXPERTS, choice, hardware(8), each, hybrid=hybrid).seconds for each in (C, c))
        assert loaded - plain == pytest.approx(1993 * 100e-6)


def test_a_sync_between_pools_pays_for_every_tensor_and_every_bucket() -> None:
    # 10 layers of 9 tensors and 3 beside, or of 6, a router and 3 for each of 64 experts, at 100 µs, and 600 ms.
    # 2 GB fill two buckets of 1 GiB.
    c = dataclasses.replace(C, sync_tensor_us=100.0)
    assert stages.separate_sync_us(all_weights(MODEL), c) == 600_000 + 93 * 100
    assert stages.separate_sync_us(all_weights(EXPERTS), c) == 600_000 + 1993 * 100
    c = dataclasses.replace(c, sync_bucket_us=5000.0, sync_bucket_mib=1024)
    assert stages.separate_sync_us(all_weights(MODEL), c) == 600_000 + 93 * 100 + 2 * 5000
    assert buckets(all_weights(MODEL), dataclasses.replace(c, sync_bucket_mib=0)) == 0


def test_a_gather_over_nodes_leaves_a_node_once_for_each() -> None:
    # FSDP over 16 GPUs of two nodes: two hops of 5 us, fourteen of 1 us inside, and 20 us; were all hops beyond, 20 + 16 * 5.
    apart = hardware(16, nvlink=False)
    start = stages.gather_start_s
    assert start(FSDP, train_choice(dp=16), dataclasses.replace(apart, islands=2), C) == pytest.approx(44e-6)
    assert start(FSDP, train_choice(dp=16), apart, C) == pytest.approx(100e-6)


# ── forward passes ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_forward_pass_on_one_gpu_is_compute() -> None:
    # 80,000 tokens · 2.02 GFLOP / (100 TFLOP/s · 0.5) = 3.232 s; experts: 80,000 · 0.22 / (100 · 0.25) =
    # 0.704 s.
    assert stages.forward(actor(), MODEL, train_choice(), BATCH, hardware(1), C) == Timed(
        pytest.approx(3.232), "compute"
    )
    assert stages.forward(actor(), EXPERTS, train_choice(), BATCH, hardware(1), C).seconds == pytest.approx(
        0.704
    )


def test_the_critic_and_the_reference_run_the_same_pass() -> None:
    choice = FrozenChoice(1, 1, 4, BF16, NONE)
    role = Role(RoleName.REF, MODEL)
    frozen = stages.frozen_forward(role, MODEL, choice, BATCH, hardware(4), C)
    assert frozen == stages.forward(actor(), MODEL, train_choice(dp=4), BATCH, hardware(4), C)


def test_fsdp_hides_its_gathers_behind_compute() -> None:
    # dp 4: 20,000 tokens a rank in two micro-batches; compute 0.808 s. A gather: 3/4 · 2 GB / 50 GB/s = 30
    # ms; two are 60 ms, hidden but for a tenth (the first of 10 layers): 6 ms.
    time = stages.forward(actor(), MODEL, train_choice(dp=4), BATCH, hardware(4), FREE)
    assert time == Timed(pytest.approx(0.814), "compute")


def test_fsdp_is_bound_by_a_slow_ring() -> None:
    # At 2 GB/s (bus 1 GB/s) a gather takes 1.5 s: two are 3 s, a tenth of them exposed: 3.3 s.
    time = stages.forward(actor(), MODEL, train_choice(dp=4), BATCH, hardware(4, ring=2e9), FREE)
    assert time == Timed(pytest.approx(3.3), "parameter all-gather over 2 GB/s")


def test_a_short_batch_is_one_micro_batch_of_a_frozen_role() -> None:
    # 8 sequences on 4 ranks: one gather of 1.5 s, and a tenth.
    short = dataclasses.replace(BATCH, prompts=8)
    choice = FrozenChoice(1, 1, 4, BF16, NONE)
    role = Role(RoleName.REF, MODEL)
    time = stages.frozen_forward(role, MODEL, choice, short, hardware(4, ring=2e9), FREE)
    assert time.seconds == pytest.approx(1.65)


def test_tensor_parallelism_pays_two_all_reduces_a_layer() -> None:
    # Megatron, tp 2: compute 1.616 s; 8 micro-batches of 10,000 tokens · 10 layers · 2 all-reduces of 20 MB
    # over a bus of 50 GB/s (2 · 1/2 · 0.4 ms): 64 ms.
    role = actor(MEGATRON)
    time = stages.forward(role, MODEL, train_choice(2), BATCH, hardware(2), FREE)
    assert time == Timed(pytest.approx(1.616 + 0.064), "compute")
    slow = stages.forward(role, MODEL, train_choice(2), BATCH, hardware(2, block=1e9), FREE)
    assert slow == Timed(pytest.approx(1.616 + 6.4), "TP all-reduce over 1 GB/s")


def test_a_pipeline_waits_for_its_first_micro_batch() -> None:
    # pp 2: 1.616 s of compute in 8 micro-batches, and 1/8 of it once more.
    time = stages.forward(actor(MEGATRON), MODEL, train_choice(1, 2), BATCH, hardware(2), FREE)
    assert time == Timed(pytest.approx(1.616 * 9 / 8), "compute")
    # pp 4 with one micro-batch: the three others idle.
    short = dataclasses.replace(BATCH, prompts=10)
    time = stages.forward(actor(MEGATRON), MODEL, train_choice(1, 4), short, hardware(4), FREE)
    assert time == Timed(pytest.approx(0.101 * 4), "pipeline bubble")


def test_stages_of_a_pipeline_reduce_their_own_layers_and_wait_for_it() -> None:
    # tp 2, pp 2: compute 0.808 s; 8 micro-batches · 5 layers · 2 all-reduces of 40 ms: 3.2 s; an eighth of
    # both.
    slow = hardware(4, block=1e9)
    time = stages.forward(actor(MEGATRON), MODEL, train_choice(2, 2), BATCH, slow, FREE)
    assert time == Timed(pytest.approx((0.808 + 3.2) * 9 / 8), "TP all-reduce over 1 GB/s")


# ── updates ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_update_is_compute_and_the_optimizer_on_one_gpu() -> None:
    # 80,000 tokens · 3 · 2.02 GFLOP / (100 TFLOP/s · 0.4) = 12.12 s.
    # Twice 4 GB of gradients, and 8 + 4 GB read and written: 2 · 28 GB / (1 TB/s · 0.8) = 70 ms.
    time = stages.update(actor(), MODEL, train_choice(), BATCH, hardware(1), C)
    assert time == Timed(pytest.approx(12.12 + 0.07), "compute")


def test_lora_needs_no_gradients_of_frozen_weights() -> None:
    # 4P instead of 6P: 8.08 s. Rank 1 has 10 · (2·2000 + 2·1200 + 3·5000) = 214,000 parameters: 15 µs.
    time = stages.update(actor(lora=1), MODEL, train_choice(), BATCH, hardware(1), C)
    assert time.seconds == pytest.approx(8.08 + 0.000015, rel=1e-6)


def test_fsdp_gathers_twice_and_scatters_in_every_micro_batch() -> None:
    # dp 4 over a bus of 1 GB/s: 2 updates of 1 micro-batch (10,000 tokens); 2 gathers of 1.5 s and a scatter
    # of 4 GB, 3 s: 12 s against 3.03 s of compute; a tenth of 2 · 1.5 s is exposed. The optimizer: a quarter
    # of 70 ms.
    time = stages.update(actor(), MODEL, train_choice(dp=4), BATCH, hardware(4, ring=2e9), FREE)
    assert time == Timed(pytest.approx(12 + 0.3 + 0.0175), "parameter all-gather over 2 GB/s")


def test_megatron_syncs_gradients_once_an_update() -> None:
    # dp 2, tp 2: two rings with 3 GB of the 6 GB each, bus 50 GB/s: 1/2 · 3 / 50 = 30 ms; over NVLink side by
    # side.
    role, choice = actor(MEGATRON), train_choice(2, 1, 2)

    def sync(ring: float, *, nvlink: bool) -> float:
        group = hardware(4, ring=ring, nvlink=nvlink)
        instant = hardware(4, ring=1e30, nvlink=nvlink)
        with_sync = stages.update(role, MODEL, choice, BATCH, group, FREE).seconds
        return with_sync - stages.update(role, MODEL, choice, BATCH, instant, FREE).seconds

    assert sync(100e9, nvlink=True) == pytest.approx(2 * 0.03)
    # Without NVLink the two rings share the bottleneck.
    assert sync(100e9, nvlink=False) == pytest.approx(2 * 0.06)
    # With pp 2 there are four rings with a quarter of the bytes each.
    deep = train_choice(2, 2, 2)
    with_sync = stages.update(role, MODEL, deep, BATCH, hardware(8), FREE).seconds
    instant = stages.update(role, MODEL, deep, BATCH, hardware(8, ring=1e30), FREE).seconds
    assert with_sync - instant == pytest.approx(2 * 0.015)
    slow = stages.update(role, MODEL, choice, BATCH, hardware(4, ring=0.1e9), FREE)
    assert slow.bound_by == "gradient sync over 0.1 GB/s"


def test_training_pays_four_all_reduces_a_layer() -> None:
    # tp 2: 6.06 s of compute; 8 micro-batches · 10 layers · 4 all-reduces of 0.4 ms: 128 ms; half of the
    # state's 80 ms.
    time = stages.update(actor(MEGATRON), MODEL, train_choice(2), BATCH, hardware(2), FREE)
    assert time.seconds == pytest.approx(6.06 + 0.128 + 0.04)


def test_every_update_fills_its_pipeline_anew() -> None:
    # 2 updates of 40,000 tokens: 4 micro-batches each. pp 2: 6.06 s of compute, and a quarter of it.
    time = stages.update(actor(MEGATRON), MODEL, train_choice(1, 2), BATCH, hardware(2), FREE)
    state = 2 * (4 + 2 * (12 + 2)) / 2 * 1e9 / 0.8e12
    assert time.seconds == pytest.approx(6.06 * 1.25 + state)


@pytest.mark.parametrize(
    ("engine", "offload", "extra"),
    [
        # Weights 4 and optimizer 8 GB come and go at 10 GB/s: 2.4 s.
        pytest.param(FSDP, BETWEEN, 2.4, id="fsdp, between"),
        # 2 · 1e9 parameters at 0.2e9/s of the host, in place of 2 · 28 GB at 800 GB/s: 10 - 0.07 s. Streaming 8 · 12 GB, 9.6 s,
        # hides.
        pytest.param(FSDP, ALWAYS, 10 - 0.07, id="fsdp, always"),
        # Weights 2 and optimizer 12 GB: 2.8 s.
        pytest.param(MEGATRON, BETWEEN, 2.8, id="megatron, between"),
        # 2 · 1e9 parameters at 2e9/s, their 2 · (4 + 2) GB of gradients and weights at 10 GB/s: 1 + 1.2 s in place of 64 GB at 800;
        # the weights come and go: 0.4 s.
        pytest.param(MEGATRON, ALWAYS, 1 + 1.2 - 0.08 + 0.4, id="megatron, always"),
    ],
)
def test_offload_costs_copies(engine: Engine, offload: Offload, extra: float) -> None:
    role, group = actor(engine), hardware(1)
    stays = stages.update(role, MODEL, train_choice(), BATCH, group, C).seconds
    moves = stages.update(role, MODEL, train_choice(offload=offload), BATCH, group, C).seconds
    assert moves - stays == pytest.approx(extra)


def test_the_gpus_of_a_host_share_its_cpus() -> None:
    # Each of 4 GPUs has a quarter of 1e9 parameters; together they take 1e9 / 0.2e9 = 5 s an update. On two hosts half of that.
    def seconds(hosts: int) -> float:
        group = dataclasses.replace(hardware(4, host=1e30), hosts=hosts)
        return stages.update(actor(), MODEL, train_choice(dp=4, offload=ALWAYS), BATCH, group, FREE).seconds

    assert seconds(1) - seconds(2) == pytest.approx(2 * 2.5)


def test_what_waits_between_phases_lies_in_pageable_memory_and_what_is_streamed_does_not() -> None:
    slower = dataclasses.replace(C, pageable_share=0.25)
    for engine, offload, factor in ((FSDP, BETWEEN, 4), (MEGATRON, BETWEEN, 4), (FSDP, ALWAYS, 1)):
        role, choice = actor(engine), train_choice(offload=offload)
        stays = stages.forward(role, MODEL, train_choice(), BATCH, hardware(1), C).seconds
        pinned, pageable = (stages.forward(role, MODEL, choice, BATCH, hardware(1), c).seconds - stays for c in (C, slower))
        assert pageable == pytest.approx(factor * pinned)


def test_an_update_waits_for_the_rank_with_the_most_tokens() -> None:
    # 80 sequences in 2 updates on 4 ranks: 10 each, of 400 + 600 tokens, the longest 400 + 3000: k = 4. The fullest of 4 has
    # 1 + 0.6 · √(4/6) · 1.0491 / √10 times the mean.
    uneven = dataclasses.replace(BATCH, response_max_tokens=3000)
    role, choice, group = actor(MEGATRON), train_choice(dp=4), hardware(4)
    even, waits = (stages.update(role, MODEL, choice, batch, group, FREE).seconds for batch in (BATCH, uneven))
    state = stages.update(role, MODEL, choice, dataclasses.replace(BATCH, prompts=8), group, FREE).seconds * 10 / 9 - even / 9
    factor = 1 + 0.6 * (4 / 6) ** 0.5 * 1.0491 / 10**0.5
    assert waits - state == pytest.approx((even - state) * factor, rel=1e-4)
    # The sequences of one update are shared by their length.
    one, whole = (dataclasses.replace(batch, minibatches=1) for batch in (BATCH, uneven))
    assert stages.update(role, MODEL, choice, one, group, FREE) == stages.update(role, MODEL, choice, whole, group, FREE)


def test_a_slow_host_binds_what_is_streamed() -> None:
    # 1 GB/s: a forward pass streams 4 GB in each of 8 micro-batches: 32 s against 3.2 s of compute.
    choice, group = train_choice(offload=ALWAYS), hardware(1, host=1e9)
    assert stages.forward(actor(), MODEL, choice, BATCH, group, C) == Timed(pytest.approx(32.0), OFFLOAD)
    # An update streams 2 · 4 + 4 GB in each of 8 micro-batches; its optimizer takes 5 s on the host.
    assert stages.update(actor(), MODEL, choice, BATCH, group, C) == Timed(pytest.approx(96 + 2 * 5.0), OFFLOAD)
    # Between uses alone it would be 4 GB there and back.
    between = stages.forward(actor(), MODEL, train_choice(offload=BETWEEN), BATCH, group, C)
    assert between == Timed(pytest.approx(3.232 + 8.0), OFFLOAD)


@pytest.mark.parametrize(
    ("engine", "offload", "extra"),
    [
        pytest.param(FSDP, NONE, 0.0, id="stays"),
        pytest.param(FSDP, BETWEEN, 2.0, id="fetched and dropped: 2 GB at 1 GB/s"),
        pytest.param(FSDP, ALWAYS, 16.0 - 3.232, id="streamed: 2 GB in each of 8 micro-batches"),
        pytest.param(MEGATRON, ALWAYS, 2.0, id="other engines fetch the whole"),
    ],
)
def test_frozen_weights_are_fetched_from_the_host(engine: Engine, offload: Offload, extra: float) -> None:
    role = Role(RoleName.REF, MODEL, engine)
    choice = FrozenChoice(1, 1, 1, BF16, offload)
    time = stages.frozen_forward(role, MODEL, choice, BATCH, hardware(1, host=1e9), C)
    assert time.seconds == pytest.approx(3.232 + extra)


# ── weight sync ─────────────────────────────────────────────────────────────────────────────────────────────


def test_sending_puts_the_weights_together() -> None:
    # A quarter of the weights stays: 3/4 · 2 GB / 50 GB/s = 30 ms, and the fixed 200 ms (600 between pools).
    send = stages.send(actor(), MODEL, train_choice(dp=4), hardware(4), FREE, hybrid=True)
    assert send == Timed(pytest.approx(0.23), "fixed cost of the weight sync")
    apart = stages.send(actor(), MODEL, train_choice(dp=4), hardware(4), FREE, hybrid=False)
    assert apart.seconds == pytest.approx(0.63)
    slow = stages.send(actor(), MODEL, train_choice(dp=4), hardware(4, ring=1e9), FREE, hybrid=True)
    assert slow.bound_by == "resharding over 1 GB/s"


@pytest.mark.parametrize(
    ("offload", "extra"),
    [
        pytest.param(BETWEEN, 0.2, id="1 GB there and back"),
        pytest.param(ALWAYS, 0.1, id="1 GB streamed once"),
    ],
)
def test_sending_fetches_offloaded_weights(offload: Offload, extra: float) -> None:
    send = stages.send(actor(), MODEL, train_choice(dp=4, offload=offload), hardware(4), FREE, hybrid=True)
    assert send.seconds == pytest.approx(0.23 + extra)


def test_receiving_passes_the_weights_along_the_ring() -> None:
    assert stages.receive(all_weights(MODEL), hardware(4), C).seconds == pytest.approx(2 / 50 + 0.6)
    assert stages.receive(all_weights(MODEL), hardware(2), C).seconds == pytest.approx(2 / 50 + 0.6)
    assert stages.receive(all_weights(MODEL), hardware(1), C) == Timed(0.6, "fixed cost of the weight sync")
    assert (
        stages.receive(all_weights(MODEL), hardware(4, ring=1e9), C).bound_by
        == "weights along the rollout's ring at 1 GB/s"
    )


# ── properties ──────────────────────────────────────────────────────────────────────────────────────────────

LAYOUTS = st.sampled_from([(1, 1, 8), (2, 1, 4), (4, 1, 2), (8, 1, 1), (1, 2, 4), (2, 2, 2), (1, 8, 1)])
WIDTHS = st.floats(0.1e9, 900e9)


@given(
    engine=st.sampled_from([FSDP, MEGATRON]),
    layout=LAYOUTS,
    offload=st.sampled_from(Offload),
    nvlink=st.booleans(),
    slow=st.fixed_dictionaries({"ring": WIDTHS, "block": WIDTHS, "host": WIDTHS}),
    faster=st.fixed_dictionaries({"ring": WIDTHS, "block": WIDTHS, "host": WIDTHS}),
)
def test_times_never_fall_when_links_get_slower(
    engine: Engine,
    layout: tuple[int, int, int],
    offload: Offload,
    nvlink: bool,
    slow: dict[str, float],
    faster: dict[str, float],
) -> None:
    if engine is FSDP:
        layout = (layout[0] * layout[1], 1, layout[2])
    choice, frozen = train_choice(*layout, offload=offload), FrozenChoice(*layout, BF16, offload)
    role = actor(engine)

    def times(group: Hardware) -> list[float]:
        return [
            stages.forward(role, MODEL, choice, BATCH, group, C).seconds,
            stages.update(role, MODEL, choice, BATCH, group, C).seconds,
            stages.frozen_forward(role, MODEL, frozen, BATCH, group, C).seconds,
            stages.send(role, MODEL, choice, group, C, hybrid=True).seconds,
            stages.receive(all_weights(MODEL), group, C).seconds,
        ]

    fast = {name: max(slow[name], faster[name]) for name in slow}
    before, after = times(hardware(8, nvlink=nvlink, **slow)), times(hardware(8, nvlink=nvlink, **fast))
    assert all(a <= b * (1 + 1e-12) for a, b in zip(after, before, strict=True))


@given(
    engine=st.sampled_from([FSDP, MEGATRON]),
    tokens=st.floats(1, 20_000),
    micro_batches=st.integers(1, 20),
    updates=st.integers(1, 8),
    layout=LAYOUTS,
    ring=WIDTHS,
)
def test_a_pass_takes_at_least_its_compute_and_at_least_its_traffic(
    engine: Engine,
    tokens: float,
    micro_batches: int,
    updates: int,
    layout: tuple[int, int, int],
    ring: float,
) -> None:
    share = Cut(updates, micro_batches, tokens, 20_000)
    each = MicroBatch(flops_per_token=2e9, mfu=0.5, reduces=2, gathers=1)
    group, choice = hardware(8, ring=ring), train_choice(*layout)
    spent = dict(passes(engine, MODEL, choice, share, each, group, C))
    total = sum(spent.values())
    tp, pp, dp = layout
    count = updates * micro_batches
    assert total >= 2e9 * tokens * count / (tp * pp * 50e12) * (1 - 1e-12)
    if engine is FSDP:
        assert total >= count * gather_s(2e9 / (tp * pp), dp, ring, nvlink=True, c=C) * (1 - 1e-12)
    assert COMPUTE in spent or "parameter all-gather" in next(iter(spent))
