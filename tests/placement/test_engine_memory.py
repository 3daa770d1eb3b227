"""Memory of generation engines; numbers in comments are worked by hand."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worked_models import BATCH_FOR_MEMORY as BATCH
from worked_models import FOR_MEMORY as MODEL

from placement.choices.choices import RolloutChoice
from placement.choices.hardware import Hardware
from placement.constants.table import constants
from placement.memory import engine_memory
from placement.models.model import Model, catalogue, find_model
from placement.workloads.dataflow import Work
from placement.workloads.workload import Engine, KvCache, Precision, Quantization

C = dataclasses.replace(
    constants(),
    engine_residual_mib=2000,
    engine_sampler_bytes_per_sequence_and_vocab=32,
    engine_batched_tokens=65_536,
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
    # Claim 40,000; weights 3200; 65,536 tokens of 2 · (3 · 4096 + 3 · 1024) B are 1920, as sampling takes 1 MiB a sequence
    # (32 · 32,768 B), and 100 beside; 34,780 for the cache. 1024 tokens of 24,576 B are 24 MiB: 1449 sequences fit,
    # max_num_seqs allows 256. Of 2000 sequences sampling takes more: 2000 and 34,700 for the cache.
    space = engine_memory.engine_space(MODEL, rollout_choice(), BATCH, gpu(), C)
    assert space == engine_memory.EngineSpace(40_000, 3200, 2020, 34_780, 256)
    assert engine_memory.engine_space(MODEL, rollout_choice(slots=2000), BATCH, gpu(), C).slots == 1445


def test_tp_cuts_weights_and_as_much_of_the_cache_as_there_are_kv_heads() -> None:
    # tp 2: 1600 of weights, 3000 for sampling and 600 beside: 34,800 MiB of cache at 12 MiB a sequence.
    two = engine_memory.engine_space(MODEL, rollout_choice(2, slots=3000), BATCH, gpu(gpus=2), C)
    assert (two.weights_mib, two.activation_mib, two.slots) == (1600, 3600, 2900)
    # tp 8 on 4 KV heads: a head on two GPUs each, 6 MiB a sequence; 400 of weights, 9999 + 1536 beside.
    eight = engine_memory.engine_space(MODEL, rollout_choice(8, slots=9999), BATCH, gpu(gpus=8), C)
    assert (eight.weights_mib, eight.slots) == (400, (40_000 - 400 - 9999 - 1536) // 6)


def test_sequences_are_counted_at_their_mean_length_but_the_longest_must_fit() -> None:
    # Mean 1024 tokens (24 MiB), longest 10,240 (240 MiB). 5220 MiB of weights and activations.
    batch = dataclasses.replace(BATCH, response_max_tokens=9728)
    barely = engine_memory.engine_space(MODEL, rollout_choice(share=1.0), batch, gpu(5460), C)
    assert barely.slots == 10
    too_small = engine_memory.engine_space(MODEL, rollout_choice(share=1.0), batch, gpu(5459), C)
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


# vLLM 0.11 on H100 (llm-d-planner), and a log of an A100: what the profile run sets aside, GiB.
@pytest.mark.parametrize(
    ("model", "tp", "sequences", "measured"),
    [
        ("Qwen/Qwen3-0.6B", 1, 1024, 5.56),
        ("Qwen/Qwen3-32B", 2, 1024, 5.64),
        ("meta-llama/Llama-3.1-70B", 2, 1024, 4.84),
        ("meta-llama/Meta-Llama-3-8B", 1, 256, 1.26),
    ],
)
def test_the_sampler_decides_what_an_engine_sets_aside(model: str, tp: int, sequences: int, measured: float) -> None:
    c = dataclasses.replace(constants(), engine_nccl_mib_tp1=0, engine_nccl_mib_tp2=0)
    space = engine_memory.engine_space(find_model(model), rollout_choice(tp, 0.9, sequences), BATCH, gpu(81_080, tp), c)
    assert space.activation_mib / 1024 == pytest.approx(measured, rel=0.08)


def test_weights_of_8_bits_leave_embeddings_alone() -> None:
    # Llama-3.3-70B in fp8 at tp 2 (llm-d-planner): 33.88 GiB a GPU.
    llama = find_model("meta-llama/Llama-3.1-70B")
    space = engine_memory.engine_space(llama, rollout_choice(2, 0.9), BATCH, gpu(81_080, 2), constants(), linear_bytes=1)
    assert space.weights_mib / 1024 == pytest.approx(33.88, rel=0.005)


def test_an_engine_samples_at_most_one_sequence_for_each_token_of_its_batch() -> None:
    # 65,536 sequences of 32,768 entries of 32 B: 64 GiB, however many more it is told to run.
    space = engine_memory.engine_space(MODEL, rollout_choice(slots=1 << 40), BATCH, gpu(), C)
    assert space.activation_mib == 65_536 + 100
    assert space.slots == 0


# ── numbers of 8 bits, and an engine that does not sleep ────────────────────────────────────────────────────


def test_eight_bit_weights_leave_embeddings_as_they_are() -> None:
    # 64 Mi of embeddings in 16 bits are 128 MiB, 1536 Mi of linear weights in 8 bits 1536; the cache gets the rest.
    plain = engine_memory.engine_space(MODEL, rollout_choice(), BATCH, gpu(), C)
    small = dataclasses.replace(rollout_choice(), quantization=Quantization.FP8)
    space = engine_memory.engine_space(MODEL, small, BATCH, gpu(), C)
    assert space.weights_mib == 128 + 1536
    assert space.kv_mib - plain.kv_mib == 1536
    # New weights arrive in 16 bits, in buckets that are no smaller.
    held = engine_memory.rollout(space, C, hybrid=True).active_mib
    assert held[Work.SYNC_WEIGHTS] == 2000 + 1664 + 2048


def test_an_eight_bit_cache_holds_twice_as_many_sequences() -> None:
    small = dataclasses.replace(rollout_choice(slots=2000), kv_cache=KvCache.FP8)
    # 34,700 MiB at 12 MiB a sequence.
    assert engine_memory.engine_space(MODEL, small, BATCH, gpu(), C).slots == 2000
    more = dataclasses.replace(small, max_num_seqs=9999)
    # Sampling 9999 sequences takes 9999 MiB and 100 beside; 26,701 MiB are left.
    assert engine_memory.engine_space(MODEL, more, BATCH, gpu(), C).slots == 26_701 // 12


def test_an_engine_that_does_not_sleep_keeps_its_claim() -> None:
    space = engine_memory.engine_space(MODEL, rollout_choice(), BATCH, gpu(), C)
    awake = engine_memory.rollout(space, C, hybrid=True, sleeps=False)
    assert awake.resident_mib == 2000 + 40_000
    # Between processes of the same GPUs one bucket is enough.
    assert awake.active_mib == {Work.GENERATE: 42_000, Work.SYNC_WEIGHTS: 42_000 + 2048}


@pytest.mark.parametrize(
    ("name", "tp", "per_token"),
    [
        # 2 · 28 layers · 4 KV heads · 128 · 2 B = 57,344; tp 4 cuts it into heads, tp 8 copies them.
        pytest.param("Qwen/Qwen2.5-7B", 1, 57_344, id="grouped heads"),
        pytest.param("Qwen/Qwen2.5-7B", 4, 14_336, id="a head each"),
        pytest.param("Qwen/Qwen2.5-7B", 8, 14_336, id="a head on two GPUs"),
        # Latent attention: 61 layers · (512 + 64) · 2 B, which TP cannot cut.
        pytest.param("deepseek-ai/DeepSeek-V3", 8, 70_272, id="latent attention"),
    ],
)
def test_the_cache_of_a_token(name: str, tp: int, per_token: int) -> None:
    assert engine_memory.kv_bytes_per_token(find_model(name), rollout_choice(tp)) == per_token
    halved = dataclasses.replace(rollout_choice(tp), kv_cache=KvCache.FP8)
    assert engine_memory.kv_bytes_per_token(find_model(name), halved) == per_token / 2


def test_a_tied_embedding_is_held_once() -> None:
    # Llama 3.2 1B: 1,235,814,400 parameters; its head is its embedding, 128,256 · 2048, in 16 bits whatever the others have.
    tied = find_model("meta-llama/Llama-3.2-1B")
    assert (tied.parameters, tied.embedding_parameters) == (1_235_814_400, 128_256 * 2048)
    space = engine_memory.engine_space(tied, rollout_choice(), BATCH, gpu(), C)
    assert space.weights_mib == pytest.approx(2 * 1_235_814_400 / 2**20)
    small = dataclasses.replace(rollout_choice(), quantization=Quantization.FP8)
    space = engine_memory.engine_space(tied, small, BATCH, gpu(), C)
    assert space.weights_mib == pytest.approx((1_235_814_400 + 128_256 * 2048) / 2**20)


@given(
    model=st.sampled_from(list(catalogue().values())),
    tp=st.sampled_from([1, 2, 4, 8]),
    share=st.floats(0.3, 0.95),
    slots=st.integers(1, 2000),
)
def test_eight_bits_never_leave_room_for_fewer_sequences(model: Model, tp: int, share: float, slots: int) -> None:
    plain = rollout_choice(tp, share, slots)
    weights = dataclasses.replace(plain, quantization=Quantization.FP8)
    both = dataclasses.replace(weights, kv_cache=KvCache.FP8)
    spaces = [engine_memory.engine_space(model, how, BATCH, gpu(gpus=tp), C) for how in (plain, weights, both)]
    assert spaces[0].slots <= spaces[1].slots <= spaces[2].slots
    assert spaces[0].weights_mib > spaces[1].weights_mib
