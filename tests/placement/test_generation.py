"""Time of generation; numbers in comments are worked by hand, and a step-by-step simulation is the oracle."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worked_models import EXPERTS_FOR_TIME as EXPERTS
from worked_models import FOR_TIME as MODEL

from placement.choices.choices import RolloutChoice
from placement.choices.hardware import Hardware
from placement.constants.table import Constants, constants
from placement.memory.engine_memory import EngineSpace
from placement.models.model import Model
from placement.timing.generation import generate
from placement.timing.passes import Timed
from placement.workloads.workload import (
    Algorithm,
    Batch,
    Engine,
    KvCache,
    Precision,
    Quantization,
    Role,
    RoleName,
    Schedule,
    Workload,
)

C = dataclasses.replace(
    constants(),
    matmul_efficiency=0.8,
    memory_efficiency=0.8,
    kv_read_efficiency=0.5,
    decode_overhead_us=2000.0,
    decode_overhead_us_per_layer=100.0,
    sampler_bytes_per_sequence_and_vocab=0.0,
    decode_alpha_us=5.0,
    ring_efficiency=0.5,
    own_bytes_per_s=1e30,
    attention_weight=1.0,
    nvlink_alpha_us=10.0,
    nvlink_alpha_us_per_gpu=1.0,
    nvlink_alpha_bytes_per_s=100e9,
    pcie_alpha_us=20.0,
    pcie_alpha_us_per_gpu=5.0,
)



def hardware(gpus: int = 1, *, block: float = 100e9, nvlink: bool = True) -> Hardware:
    """GPUs of 100 TFLOP/s and 1 TB/s."""
    tps = tuple(tp for tp in (2, 4, 8) if gpus % tp == 0)
    return Hardware(
        gpus=gpus,
        flops=100e12,
        memory_bytes_per_s=1e12,
        total_mib=80_000,
        compute_capability=(8, 0),
        ring_bytes_per_s=100e9 if gpus > 1 else 0.0,
        ring_nvlink=nvlink,
        block_bytes_per_s=tuple((tp, block) for tp in tps),
        block_nvlink=tuple((tp, nvlink) for tp in tps),
    )


def workload(
    prompts: int = 100,
    samples: int = 1,
    prompt: int = 100,
    mean: int = 200,
    longest: int = 200,
    algorithm: Algorithm = Algorithm.GRPO,
    schedule: Schedule = Schedule.FULL,
) -> Workload:
    batch = Batch(prompts, samples, prompt, mean, longest, 1, 8192)
    return Workload(algorithm, batch, (Role(RoleName.ACTOR, MODEL),), schedule)


def run(
    job: Workload,
    *,
    model: Model = MODEL,
    tp: int = 1,
    replicas: int = 1,
    slots: int = 1000,
    group: Hardware | None = None,
    c: Constants = C,
    **stored: Quantization | KvCache,
) -> Timed:
    choice = RolloutChoice(Engine.VLLM, tp, replicas, Precision.BF16, 0.5, slots, **stored)  # type: ignore[arg-type]
    space = EngineSpace(0.0, 0.0, 0.0, 0.0, slots)
    return generate(model, choice, space, job, group or hardware(tp * replicas), c)


# ── dense ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_equal_lengths_in_one_batch() -> None:
    # 200 steps: weights 2 GB / 800 GB/s = 2.5 ms and 3 ms of overhead: 1.1 s. 20,000 tokens: 25 µs of compute
    # each (2 GFLOP / 80 TFLOP/s): 0.5 s; KV of 100 + 100 tokens on average, 1.6 MB / 500 GB/s = 3.2 µs: 0.064
    # s. Prefill: 10,000 tokens of 2.002 GFLOP (attention over 100): 0.25025 s.
    assert run(workload()) == Timed(pytest.approx(1.1 + 0.5 + 0.064 + 0.25025), "decode: engine overhead")


def test_eight_bits_are_read_faster_and_computed_as_before() -> None:
    # 200 steps read 2 GB; of 10^9 parameters 4·10^7 are embeddings, which keep 16 bits: 1.04 GB. Of the cache a half is read.
    plain = run(workload()).seconds
    weights = run(workload(), quantization=Quantization.FP8).seconds
    assert plain - weights == pytest.approx(200 * 0.96e9 / 800e9)
    assert plain - run(workload(), kv_cache=KvCache.FP8).seconds == pytest.approx(0.064 / 2)


def test_products_of_eight_bits_run_at_the_rate_that_the_card_has_for_them() -> None:
    # Weights are read as on any card. Of 2 GFLOP a token 1.92 are linear layers: 24 µs at 80 TFLOP/s, 12 at 160; 20,000 tokens of answers
    # and 10,000 of prompts.
    ada = dataclasses.replace(hardware(1), compute_capability=(8, 9))
    weight_only, products = (run(workload(), quantization=Quantization.FP8, group=group).seconds for group in (hardware(1), ada))
    assert weight_only - products == pytest.approx(30_000 * 12e-6)
    assert run(workload(), group=ada) == run(workload())


def test_a_batch_that_does_not_fit_takes_turns() -> None:
    # 25 slots: 75 sequences more at 200 tokens / 25 slots: 600 steps before the last 200. The tokens cost the
    # same.
    long, short = run(workload(), slots=25), run(workload())
    assert long.seconds - short.seconds == pytest.approx(600 * 5.5e-3)


def test_the_longest_answer_sets_the_end() -> None:
    # Mean 200, longest 1000: k = 4, context 100 + 1000/6. 1000 steps instead of 200; tokens as before.
    time = run(workload(longest=1000))
    kv = 20_000 * (100 + 1000 / 6) * 8000 / 500e9
    assert time.seconds == pytest.approx(1000 * 5.5e-3 + 0.5 + kv + 0.25025)


def test_engines_share_the_sequences() -> None:
    # 3 engines: 34 sequences on the fullest.
    time = run(workload(), replicas=3)
    assert time.seconds == pytest.approx(1.1 + 0.34 * (0.5 + 0.064) + 0.25025 / 3)


def test_tensor_parallelism_cuts_reads_and_pays_all_reduces() -> None:
    # tp 2: weights 1.25 ms, compute and KV halved; 20 all-reduces a step start in 5 µs each, and move 2000 B
    # a sequence over a bus of 50 GB/s: 40 ns. Prefill: 20 all-reduces of 20 MB, 12 µs + 2 · √(10 µs · 0.4 ms) + 0.4 ms.
    time = run(workload(), tp=2)
    steps = 200 * (1.25e-3 + 3e-3 + 20 * 5e-6)
    tokens = 20_000 * (12.5e-6 + 1.6e-6 + 20 * 40e-9)
    assert time.seconds == pytest.approx(steps + tokens + 0.125125 + 20 * (12e-6 + 126.491e-6 + 0.4e-3))


def test_sampling_passes_over_the_vocabulary_for_every_token() -> None:
    # 20,000 tokens of 1000 entries (the vocabulary) of 40 B, at 800 GB/s: 1 ms.
    sampled = run(workload(), c=dataclasses.replace(C, sampler_bytes_per_sequence_and_vocab=40.0 * 1000 / MODEL.vocab))
    assert sampled.seconds - run(workload()).seconds == pytest.approx(1e-3)


def test_the_slowest_engine_has_more_than_its_share() -> None:
    # Mean 200, longest 1000: k = 4. The fuller of 2 engines with 50 sequences each has 1 + √(4/6) · 0.589456 / √50 times the
    # mean tokens; 1000 steps as before.
    job = workload(longest=1000)
    more = 1 + (4 / 6) ** 0.5 * 0.589456 / 50**0.5
    tokens = 10_000 * more * (25e-6 + (100 + 1000 / 6) * 8000 / 500e9)
    assert run(job, replicas=2).seconds == pytest.approx(1000 * 5.5e-3 + tokens + 0.25025 / 2)


# ── fully asynchronous ──────────────────────────────────────────────────────────────────────────────────────


def test_without_a_tail_slots_stay_busy_and_interrupted_answers_are_computed_again() -> None:
    # 100 sequences in 25 slots: 20,000 tokens in 800 steps of 5.5 ms, however long the longest is (1000). At the weight
    # sync 25 sequences are under way, of 100 + 1000/6 tokens on average. Prompts are computed once.
    time = run(workload(longest=1000, schedule=Schedule.ASYNC), slots=25)
    context = 100 + 1000 / 6
    tokens = 20_000 * (25e-6 + context * 8000 / 500e9)
    again = 25 * context * (2e9 + 2 * 10 * 10 * 100 * context) / 80e12
    assert time.seconds == pytest.approx(800 * 5.5e-3 + tokens + 0.25025 + again)


def test_no_more_answers_are_under_way_than_pay_for_being_computed_again() -> None:
    # Contexts of 10,100 tokens: computed again, each takes 10,100 · (2 + 0.202) GFLOP / 80 TFLOP/s = 0.278 s. 100 answers of 200
    # tokens take 20,000/b steps of 5.5 ms: 110/b s + 0.278 b s is least at b = √(110/0.278) = 19.9: at 20, 5.5 + 5.56 s. Of 100 slots
    # 20 are used; 10 are all used, and take 11 + 2.78 s.
    job = workload(prompt=10_000, schedule=Schedule.ASYNC)
    with_20, with_100, with_10 = (run(job, slots=slots).seconds for slots in (20, 100, 10))
    again = 10_100 * (2e9 + 2 * 10 * 10 * 100 * 10_100) / 80e12
    assert again == pytest.approx(0.278, abs=1e-3)
    assert with_100 == with_20
    assert with_10 - with_20 == pytest.approx(20_000 * 5.5e-3 * (1 / 10 - 1 / 20) - 10 * again)


def test_the_sequences_under_way_are_the_fastest_number_of_all() -> None:
    for model, prompt in itertools.product((MODEL, EXPERTS), (100, 1000, 5000)):
        job = workload(prompt=prompt, schedule=Schedule.ASYNC)
        each = [run(job, model=model, slots=slots).seconds for slots in range(1, 101)]
        assert each == sorted(each, reverse=True)


# With answers that end at about the same time computing interrupted ones anew (400 · 300 tokens of 25 µs, 3 s) would cost more
# than the tail (3 ms a step at the least).
@given(longest=st.integers(1400, 8000), slots=st.integers(1, 400), replicas=st.integers(1, 4))
def test_generation_that_waits_for_no_long_tail_is_never_slower(longest: int, slots: int, replicas: int) -> None:
    for model in (MODEL, EXPERTS):
        free, one_off, full = (
            run(workload(400, longest=longest, schedule=schedule), model=model, slots=slots, replicas=replicas).seconds
            for schedule in (Schedule.ASYNC, Schedule.ONE_STEP_OFF, Schedule.FULL)
        )
        assert one_off == full
        assert free <= full


# ── what binds ──────────────────────────────────────────────────────────────────────────────────────────────


def test_an_engine_runs_no_more_than_it_has() -> None:
    # 100 sequences are all under way at once, whether 100 or 1000 could be: no step but the longest answer's, and none is starved.
    with_100, with_1000 = (run(workload(longest=1000), slots=slots) for slots in (100, 1000))
    assert with_1000 == with_100
    assert run(workload(longest=1000), slots=99).seconds > with_100.seconds


def starved(slots: int, job: Workload) -> Timed:
    """Return the time of an engine that may run 256 sequences, and whose cache holds *slots*."""
    choice = RolloutChoice(Engine.VLLM, 1, 1, Precision.BF16, 0.5, 256)
    return generate(MODEL, choice, EngineSpace(0.0, 0.0, 0.0, 0.0, slots), job, hardware(), C)


def test_an_engine_whose_cache_is_too_small_is_bound_by_that() -> None:
    # 100 sequences of 200 tokens: 10 at a time take 2000 steps of 5.5 ms in place of 200, 9.9 s more than all at once, of 11.8 s.
    time = starved(10, workload())
    assert time.bound_by == "decode: only 10 of 100 sequences fit the KV cache"
    assert time.seconds == pytest.approx(11.81425)
    assert time.seconds == pytest.approx(run(workload(), slots=10).seconds)


def test_an_engine_that_loses_little_for_want_of_cache_is_bound_by_what_takes_longest() -> None:
    # 90 at a time: 22 steps more. What runs at a time by the engine's own limit is no want of cache.
    assert starved(90, workload()).bound_by == "decode: engine overhead"
    assert run(workload(), slots=10).bound_by == "decode: engine overhead"


def test_without_nvlink_all_reduces_start_as_nccls_do() -> None:
    fast = run(workload(), tp=2).seconds
    slow = run(workload(), tp=2, group=hardware(2, nvlink=False)).seconds
    # 30 instead of 5 µs in 20 all-reduces of 200 steps; 30 instead of 12 in the prefill.
    assert slow - fast == pytest.approx(20 * (200 * 25e-6 + 18e-6))


def test_more_gpus_than_kv_heads_hold_copies() -> None:
    # 2 KV heads: tp 4 reads as much of the cache as tp 2; weights and compute are cut in four.
    kv = 20_000 * 200 * 8000 / 500e9

    def free_of_the_rest(tp: int) -> float:
        fat = dataclasses.replace(MODEL, kv_bytes_per_token=8000 * 1000)
        return run(workload(), model=fat, tp=tp).seconds - run(workload(), tp=tp).seconds

    assert free_of_the_rest(1) == pytest.approx(999 * kv)
    assert free_of_the_rest(2) == pytest.approx(999 * kv / 2)
    assert free_of_the_rest(4) == pytest.approx(999 * kv / 2)


@pytest.mark.parametrize(
    ("job", "tp", "group", "expected"),
    [
        pytest.param(workload(prompts=10_000), 1, hardware(), "decode: compute", id="many short answers"),
        pytest.param(workload(prompts=1000, prompt=10_000), 1, hardware(), "prefill", id="long prompts"),
        pytest.param(
            workload(prompts=1000, mean=20_000, longest=20_000),
            1,
            hardware(),
            "decode: reading the KV cache",
            id="long answers",
        ),
        pytest.param(
            workload(), 2, hardware(2, block=0.1e9), "decode: TP all-reduce over 0.1 GB/s", id="slow block"
        ),
    ],
)
def test_it_says_what_bounds_it(job: Workload, tp: int, group: Hardware, expected: str) -> None:
    assert run(job, tp=tp, group=group, slots=10_000).bound_by == expected


# ── prompts ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_samples_of_a_prompt_on_one_engine_share_its_prefill() -> None:
    one, four = run(workload()).seconds, run(workload(samples=4)).seconds
    assert four - one == pytest.approx(3 * (0.5 + 0.064))


def test_samples_that_are_spread_prefill_on_every_engine_they_meet() -> None:
    # 2 engines, 2 samples: an engine sees 3 of 4 prompts. 0.75 · 0.25025 s.
    time = run(workload(samples=2), replicas=2)
    assert time.seconds == pytest.approx(1.1 + 0.5 + 0.064 + 0.75 * 0.25025)


def test_remax_generates_a_greedy_answer_beside_the_samples() -> None:
    remax = run(workload(samples=1, algorithm=Algorithm.REMAX))
    assert remax == run(workload(samples=2))


# ── mixtures of experts ─────────────────────────────────────────────────────────────────────────────────────


def test_a_lone_sequence_reads_its_own_experts() -> None:
    # 10^8 active parameters and 8/64 of the other 9 · 10^8: 212.5 M · 2 B / 800 GB/s, 200 times; equal
    # lengths.
    time = run(workload(prompts=1), model=EXPERTS)
    dense = run(workload(prompts=1), model=dataclasses.replace(EXPERTS, experts=0))
    assert time.seconds - dense.seconds == pytest.approx(200 * 2 * (9e8 * 8 / 64) / 800e9)


def test_sequences_in_turns_read_their_own_experts_each() -> None:
    # One slot: 99 sequences of 200 tokens, then the last: 20,000 steps that read an eighth.
    turns = run(workload(), model=EXPERTS, slots=1)
    dense = run(workload(), model=dataclasses.replace(EXPERTS, experts=0), slots=1)
    assert turns.seconds - dense.seconds == pytest.approx(20_000 * 2 * (9e8 * 8 / 64) / 800e9)


def test_a_large_batch_reads_all_experts() -> None:
    time = run(workload(prompts=1000), model=EXPERTS)
    dense = run(workload(prompts=1000), model=dataclasses.replace(EXPERTS, experts=0))
    assert time.seconds - dense.seconds == pytest.approx(200 * 2 * 9e8 / 800e9)


# ── the oracle ──────────────────────────────────────────────────────────────────────────────────────────────


@given(
    sequences=st.integers(1, 300),
    slots=st.integers(1, 300),
    prompt=st.integers(1, 500),
    mean=st.integers(20, 400),
    stretch=st.floats(1, 8),
    has_experts=st.booleans(),
)
def test_closed_forms_agree_with_summing_step_by_step(
    sequences: int, slots: int, prompt: int, mean: int, stretch: float, has_experts: bool
) -> None:
    model = EXPERTS if has_experts else MODEL
    longest = round(mean * stretch)
    job = workload(sequences, 1, prompt, mean, longest)
    expected = _simulated(model, sequences, min(slots, sequences), prompt, mean, longest)
    assert run(job, model=model, slots=slots).seconds == pytest.approx(expected, rel=0.01)


def _simulated(model: Model, sequences: int, slots: int, prompt: int, mean: int, longest: int) -> float:
    """Sum over the full batch's steps, then token by token over the tail, from the formula of one step."""
    k = longest / mean - 1

    def step(batch: float, context: float) -> float:
        read = float(model.active_parameters)
        if model.experts:
            read += (model.parameters - model.active_parameters) * (1 - (1 - 8 / 64) ** batch)
        compute = batch * 2 * model.active_parameters / 80e12
        return 2 * read / 800e9 + batch * context * 8000 / 500e9 + compute + 3e-3

    full = (sequences - slots) * mean / slots * step(slots, prompt + longest / (k + 2))
    grain = 4
    tail = sum(
        step(slots * (1 - x) ** k, prompt + x * longest) / grain
        for x in ((i + 0.5) / (grain * longest) for i in range(grain * longest))
    )
    prefill = sequences * prompt * (2 * model.active_parameters + 2 * 10 * 10 * 100 * prompt) / 80e12
    return full + tail + prefill


@given(
    slow=st.floats(0.1e9, 900e9),
    fast=st.floats(0.1e9, 900e9),
    nvlink=st.booleans(),
    sequences=st.integers(1, 500),
)
def test_generation_never_gets_faster_on_a_slower_block(
    slow: float, fast: float, nvlink: bool, sequences: int
) -> None:
    slow, fast = sorted((slow, fast))
    times = [
        run(workload(sequences), tp=4, group=hardware(4, block=width, nvlink=nvlink)).seconds
        for width in (slow, fast)
    ]
    assert times[0] >= times[1] * (1 - 1e-12)


@given(
    slots=st.integers(1, 400),
    more=st.integers(1, 400),
    prompt=st.integers(1, 20_000),
    longest=st.integers(200, 2000),
    tp=st.sampled_from([1, 2]),
    schedule=st.sampled_from(Schedule),
)
def test_generation_never_gets_slower_with_more_room(
    slots: int, more: int, prompt: int, longest: int, tp: int, schedule: Schedule
) -> None:
    job = workload(400, prompt=prompt, longest=longest, schedule=schedule)
    for model in (MODEL, EXPERTS):
        wide = run(job, model=model, slots=slots + more, tp=tp).seconds
        assert wide <= run(job, model=model, slots=slots, tp=tp).seconds * (1 + 1e-9)
