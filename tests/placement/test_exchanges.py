"""What ranks exchange beside TP: shared sequences, experts, and gradients of weights that are not sharded; worked by hand."""

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
from placement.timing import stages
from placement.timing.collectives import all_to_all_s, gather_s
from placement.timing.exchanges import expert_exchange_s, sequence_exchange_s
from placement.timing.passes import COMPUTE, MicroBatch, passes
from placement.timing.syncing import gradient_sync
from placement.workloads.workload import Batch, Engine, Master, Offload, Precision, Role, RoleName, TrainMenu

FSDP, MEGATRON = Engine.FSDP, Engine.MEGATRON
# No start-up and no own share: times are bytes over width.
C = dataclasses.replace(
    constants(), ring_efficiency=1.0, nvlink_alpha_us=0.0, nvlink_alpha_us_per_gpu=0.0, pcie_alpha_us=0.0, pcie_alpha_us_per_gpu=0.0,
    own_bytes_per_s=1e30, stage_overhead_us=0,
)  # fmt: skip
BATCH = Batch(80, 1, 400, 600, 600, 2, 10_000)


def hardware(gpus: int = 8, *, ring: float = 100e9, nvlink: bool = True, block: float = 100e9, host: float = 10e9) -> Hardware:
    sizes = [n for n in range(2, gpus + 1) if gpus % n == 0]
    return Hardware(
        gpus, 100e12, 1e12, 80_000, (8, 0), ring if gpus > 1 else 0.0, nvlink,
        tuple((n, block) for n in sizes), tuple((n, nvlink) for n in sizes), host,
    )  # fmt: skip


def choice(tp: int = 1, pp: int = 1, dp: int = 1, **more: int) -> TrainChoice:
    return TrainChoice(tp, pp, dp, Precision.BF16, Master.FP32, Offload.NONE, 10_000, **more)


def actor(engine: Engine = FSDP, **menu: object) -> Role:
    return Role(RoleName.ACTOR, MODEL, engine, train=TrainMenu(**menu))  # type: ignore[arg-type]


# ── all-to-all ──────────────────────────────────────────────────────────────────────────────────────────────


def test_an_all_to_all_sends_all_but_its_own_share() -> None:
    # 8 GPUs, 8 GB each at 100 GB/s: 7 of 8 shares over NVLink, 0.07 s; over one shared link half of 8 send half across: 16 GB, 0.16 s.
    assert all_to_all_s(8e9, 8, 100e9, nvlink=True, c=C) == pytest.approx(0.07)
    assert all_to_all_s(8e9, 8, 100e9, nvlink=False, c=C) == pytest.approx(0.16)
    # Two GPUs: a half each, on any link; one has nobody to send to.
    assert all_to_all_s(8e9, 2, 100e9, nvlink=False, c=C) == all_to_all_s(8e9, 2, 100e9, nvlink=True, c=C) == pytest.approx(0.04)
    assert all_to_all_s(8e9, 1, 100e9, nvlink=True, c=C) == 0


# ── sequences ───────────────────────────────────────────────────────────────────────────────────────────────


def test_shared_sequences_are_exchanged_for_heads_four_times_a_layer() -> None:
    # 10,000 tokens on 2 ranks: 5000 of 100 numbers of 2 B for each head: 1 MB. Queries and output have 10 heads, keys and values 2:
    # a half passes, (2·10 + 2·2)/2 = 12 MB at 100 GB/s.
    assert sequence_exchange_s(MODEL, 10_000, choice(dp=2, sp=2), hardware(4), C) == pytest.approx(12e6 / 100e9)
    # On 5 ranks the two KV heads are copied to five: 0.4 MB a head, (2·10 + 2·5)·4/5 = 9.6 MB.
    five = hardware(5)
    assert sequence_exchange_s(MODEL, 10_000, choice(sp=5), five, C) == pytest.approx(9.6e6 / 100e9)
    # TP 2: half of the heads, one KV head, which two ranks share: (2·5 + 2·2)/2 MB; without NVLink the two exchanges share the block.
    pair = choice(tp=2, sp=2)
    assert sequence_exchange_s(MODEL, 10_000, pair, hardware(4), C) == pytest.approx(7e6 / 100e9)
    assert sequence_exchange_s(MODEL, 10_000, pair, hardware(4, nvlink=False), C) == pytest.approx(14e6 / 100e9)
    assert sequence_exchange_s(MODEL, 10_000, choice(dp=4), hardware(4), C) == 0


def test_ranks_that_share_sequences_share_the_compute_and_pay_for_the_exchange() -> None:
    cut = Cut(1, 1, 10_000, 10_000)
    each = MicroBatch(flops_per_token=2e9, mfu=0.5, reduces=2, gathers=1, crossings=3)
    spent = dict(passes(FSDP, MODEL, choice(dp=1, sp=2), cut, each, hardware(2), C))
    alone = dict(passes(FSDP, MODEL, choice(dp=1), cut, each, hardware(1), C))
    assert spent[COMPUTE] == pytest.approx(alone[COMPUTE] / 2)
    # 10 layers, three times 12 MB.
    assert spent["sequence exchange over 100 GB/s"] == pytest.approx(10 * 3 * 12e6 / 100e9)


# ── experts ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_tokens_pass_to_their_experts_and_back() -> None:
    # 10,000 tokens of 1000 numbers, 8 experts each: 160 MB; 3 of 4 shares leave, twice: 240 MB at 100 GB/s.
    assert expert_exchange_s(EXPERTS, 10_000, choice(dp=4, ep=4), hardware(4), C) == pytest.approx(240e6 / 100e9)
    # TP 2: each has half of the tokens.
    assert expert_exchange_s(EXPERTS, 10_000, choice(2, 1, 4, ep=4), hardware(8), C) == pytest.approx(120e6 / 100e9)
    assert expert_exchange_s(EXPERTS, 10_000, choice(dp=4), hardware(4), C) == 0
    cut, each = Cut(1, 1, 10_000, 10_000), MicroBatch(flops_per_token=2e8, mfu=0.2, reduces=4, gathers=0, crossings=2)
    spent = dict(passes(MEGATRON, EXPERTS, choice(dp=4, ep=4), cut, each, hardware(4), C))
    assert spent["expert exchange over 100 GB/s"] == pytest.approx(10 * 2 * 240e6 / 100e9)


# ── gradients ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("role", "how", "gathered"),
    [
        pytest.param(actor(MEGATRON), choice(dp=4), 6e9, id="distributed: 4 + 2"),
        pytest.param(actor(MEGATRON, distributed_optimizer=False), choice(dp=4), 8e9, id="all-reduced in fp32: 4 + 4"),
        pytest.param(actor(), choice(dp=4, zero=1), 4e9, id="stage 1: 16-bit gradients and weights"),
        pytest.param(actor(), choice(dp=4, zero=2), 2e9, id="stage 2: weights"),
    ],
)
def test_bytes_of_the_gradient_sync(role: Role, how: TrainChoice, gathered: float) -> None:
    # 10^9 parameters; each rank passes 3/4 of the bytes; the pipeline of chunks takes no time to fill here.
    group = hardware(4)
    assert gradient_sync(role, MODEL, how, group, C) == gather_s(gathered, 4, 100e9, nvlink=True, c=C)
    assert gradient_sync(role, MODEL, how, group, C) == pytest.approx(0.75 * gathered / 100e9)


def test_experts_are_synchronised_among_those_that_hold_the_same() -> None:
    # 9·10^8 unused are 56 of 64: all experts would be more than all but the embeddings, 9.6·10^8. 4·10^7 others over 4 ranks, and the
    # experts, a half on each, over 2: 6 B · (4·10^7 · 3/4 + 9.6·10^8/2 · 1/2).
    assert EXPERTS.expert_parameters == 960_000_000
    assert gradient_sync(actor(MEGATRON), EXPERTS, choice(dp=4, ep=2), hardware(4), C) == pytest.approx(
        6 * (4e7 * 0.75 + 9.6e8 / 2 / 2) / 100e9
    )
    # Where each expert has one holder, there is none to agree with.
    assert gradient_sync(actor(MEGATRON), EXPERTS, choice(dp=4, ep=4), hardware(4), C) == pytest.approx(6 * 4e7 * 0.75 / 100e9)


def test_stages_that_keep_weights_gather_none_in_a_pass() -> None:
    # 40 tokens: hardly any compute, so that what passes the ring is what a pass takes.
    role, tiny = actor(), Batch(8, 1, 2, 3, 3, 1, 10_000)
    slow = hardware(4, ring=1e9)
    forward = {z: stages.forward(role, MODEL, choice(dp=4, zero=z), tiny, slow, C) for z in (1, 2, 3)}
    assert forward[3].bound_by == "parameter all-gather over 1 GB/s"
    assert forward[1] == forward[2]
    assert forward[1].bound_by == COMPUTE
    update = {z: stages.update(role, MODEL, choice(dp=4, zero=z), tiny, slow, C) for z in (1, 2, 3)}
    # One micro-batch: stage 3 passes 2·2 + 4 bytes a parameter (and a layer's gather), 2 and 1 both 2 + 2; at 3/4 and 1 GB/s.
    assert update[2].seconds == pytest.approx(0.75 * 4, rel=0.01)
    assert update[1].seconds == pytest.approx(0.75 * 4, rel=0.02)
    assert update[3].seconds == pytest.approx(0.75 * (8 + 0.2), rel=0.02)
    # With many micro-batches stage 2 scatters in each, stage 1 once.
    many = Batch(8000, 1, 500, 500, 500, 1, 10_000)
    update = {z: stages.update(role, MODEL, choice(dp=4, zero=z), many, slow, C) for z in (1, 2)}
    assert update[2].bound_by.startswith("gradient reduce-scatter")
    assert update[1].seconds < update[2].seconds


@given(
    engine=st.sampled_from([FSDP, MEGATRON]),
    layout=st.sampled_from([(1, 8, 1), (1, 4, 2), (2, 2, 2), (1, 2, 4), (2, 1, 4), (1, 1, 8)]),
    zero=st.sampled_from([1, 2, 3]),
    shared=st.booleans(),
    nvlink=st.booleans(),
    widths=st.tuples(*[st.tuples(st.floats(1e9, 900e9), st.floats(1e9, 900e9))] * 3),
)
def test_times_never_fall_when_a_link_gets_slower(
    engine: Engine,
    layout: tuple[int, int, int],
    zero: int,
    shared: bool,
    nvlink: bool,
    widths: tuple[tuple[float, float], ...],
) -> None:
    tp, dp, split = layout
    if engine is FSDP:
        how = choice(tp, 1, dp, zero=zero, sp=split)
        frozen = FrozenChoice(tp, 1, dp, Precision.BF16, Offload.NONE, sp=split)
    else:
        how = choice(tp, 1, dp * split, ep=split)
        frozen = FrozenChoice(tp, 1, dp * split, Precision.BF16, Offload.NONE, ep=split)
    model = EXPERTS if engine is MEGATRON else MODEL
    role = actor(engine, distributed_optimizer=shared) if engine is MEGATRON else actor()

    def times(pick: int) -> list[float]:
        ring, block, host = (sorted(pair)[pick] for pair in widths)
        group = hardware(8, nvlink=nvlink, ring=ring, block=block, host=host)
        return [
            stages.forward(role, model, how, BATCH, group, constants()).seconds,
            stages.update(role, model, how, BATCH, group, constants()).seconds,
            stages.frozen_forward(role, model, frozen, BATCH, group, constants()).seconds,
        ]

    assert all(fast <= slow * (1 + 1e-12) for slow, fast in zip(times(0), times(1), strict=True))
