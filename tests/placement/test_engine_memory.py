"""Memory of generation engines; numbers in comments are worked by hand."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worked_models import BATCH_FOR_MEMORY as BATCH
from worked_models import FOR_MEMORY as MODEL

from placement import engine_memory
from placement.choices import RolloutChoice
from placement.constants import constants
from placement.dataflow import Work
from placement.hardware import Hardware
from placement.models import find_model
from placement.workload import Engine, Precision

C = dataclasses.replace(
    constants(),
    engine_residual_mib=2000,
    engine_activation_mib_dense=5000,
    engine_nccl_mib_tp1=100,
    engine_nccl_mib_tp2=600,
    engine_nccl_mib_tp4=1536,
    sync_bucket_mib=2048,
)



def gpu(total_mib: int = 80_000, gpus: int = 1) -> Hardware:
    return Hardware(gpus, 312e12, 2e12, total_mib, (8, 0), 0.0, True)


def rollout_choice(tp: int = 1, share: float = 0.5, slots: int = 256) -> RolloutChoice:
    return RolloutChoice(Engine.VLLM, tp, 1, Precision.BF16, share, slots)


def test_an_engine_divides_its_claim() -> None:
    # Claim 40,000; weights 3200, activations 5100; 31,700 for the cache. 1024 tokens of 24,576 B are 24 MiB:
    # 1320 sequences fit, max_num_seqs allows 256.
    space = engine_memory.engine_space(MODEL, rollout_choice(), BATCH, gpu(), C)
    assert space == engine_memory.EngineSpace(40_000, 3200, 5100, 31_700, 256)
    assert engine_memory.engine_space(MODEL, rollout_choice(slots=2000), BATCH, gpu(), C).slots == 1320


def test_tp_cuts_weights_and_as_much_of_the_cache_as_there_are_kv_heads() -> None:
    # tp 2: 1600 of weights, 5600 beside: 32,800 MiB of cache at 12 MiB a sequence.
    two = engine_memory.engine_space(MODEL, rollout_choice(2, slots=9999), BATCH, gpu(gpus=2), C)
    assert (two.weights_mib, two.activation_mib, two.slots) == (1600, 5600, 2733)
    # tp 8 on 4 KV heads: a head on two GPUs each, 6 MiB a sequence; 400 of weights, 5000 + 1536 beside.
    eight = engine_memory.engine_space(MODEL, rollout_choice(8, slots=9999), BATCH, gpu(gpus=8), C)
    assert (eight.weights_mib, eight.slots) == (400, (40_000 - 400 - 6536) // 6)


def test_sequences_are_counted_at_their_mean_length_but_the_longest_must_fit() -> None:
    # Mean 1024 tokens (24 MiB), longest 10,240 (240 MiB). 8300 MiB of weights and activations.
    batch = dataclasses.replace(BATCH, response_max_tokens=9728)
    barely = engine_memory.engine_space(MODEL, rollout_choice(share=1.0), batch, gpu(8540), C)
    assert barely.slots == 10
    too_small = engine_memory.engine_space(MODEL, rollout_choice(share=1.0), batch, gpu(8539), C)
    assert too_small.slots == 0


def test_a_hybrid_engine_sleeps_and_one_of_its_own_stays_awake() -> None:
    space = engine_memory.engine_space(MODEL, rollout_choice(), BATCH, gpu(), C)
    hybrid = engine_memory.rollout(space, C, hybrid=True)
    assert hybrid.resident_mib == 2000
    assert hybrid.active_mib == {Work.GENERATE: 42_000, Work.SYNC_WEIGHTS: 2000 + 3200 + 2048}
    alone = engine_memory.rollout(space, C, hybrid=False)
    assert alone.resident_mib == 42_000
    assert alone.active_mib == {Work.GENERATE: 42_000, Work.SYNC_WEIGHTS: 42_000 + 4096}


@given(
    share=st.floats(0.05, 0.9),
    total=st.integers(1000, 200_000),
    tp=st.sampled_from([1, 2, 4]),
    slots=st.integers(1, 1024),
)
def test_what_an_engine_runs_fits_into_its_claim(share: float, total: int, tp: int, slots: int) -> None:
    space = engine_memory.engine_space(MODEL, rollout_choice(tp, share, slots), BATCH, gpu(total, tp), C)
    used = space.weights_mib + space.activation_mib
    assert used + space.kv_mib == pytest.approx(space.claim_mib)
    assert 0 <= space.slots <= slots
    if space.slots:
        assert used + space.slots * 24 / tp <= space.claim_mib
    else:
        assert used + 24 / tp > space.claim_mib


def test_experts_need_more_room_for_activations() -> None:
    # H100 with 79.18 GiB at 0.9, vLLM 0.11 (llm-d-planner): weights and cache of Qwen3-32B at tp 2 in GiB.
    hardware = gpu(int(79.18 * 1024), 2)
    dense = engine_memory.engine_space(
        find_model("Qwen/Qwen3-32B"), rollout_choice(2, 0.9), BATCH, hardware, constants()
    )
    assert dense.weights_mib / 1024 == pytest.approx(30.59, rel=0.01)
    assert dense.kv_mib / 1024 == pytest.approx(34.49, rel=0.05)
    experts = engine_memory.engine_space(
        find_model("Qwen/Qwen3-30B-A3B"), rollout_choice(2, 0.9), BATCH, hardware, constants()
    )
    assert experts.activation_mib - dense.activation_mib == 7578 - 5325
