"""What a weight sync sends with LoRA, what that takes and holds; numbers in comments are worked by hand."""

from __future__ import annotations

import dataclasses

import pytest
from conftest_placement import TINY, actor, ask, job, machine, rollout, train
from worked_models import BATCH_FOR_MEMORY as BATCH
from worked_models import EXPERTS_FOR_TIME as EXPERTS
from worked_models import FOR_MEMORY as MODEL

from placement.checking import problems
from placement.choices.choices import Part, RolloutChoice, TrainChoice
from placement.choices.hardware import Hardware
from placement.constants.table import constants
from placement.demand import Demand, demand, transfer_us
from placement.memory import gpu_memory
from placement.memory.engine_memory import engine_space
from placement.memory.sending import Sent, all_weights, sent
from placement.planner import plan
from placement.text.yaml_writer import dump
from placement.timing import stages
from placement.timing.passes import Timed
from placement.workloads.dataflow import Work, dataflow
from placement.workloads.workload import (
    Algorithm,
    Engine,
    LayoutMenu,
    Master,
    Offload,
    Precision,
    Role,
    RoleName,
    RolloutMenu,
    TrainMenu,
    Workload,
)
from placement.workloads.workload_export import to_document
from placement.workloads.workload_file import load

C = constants()
ADAPTERS = 22_016 * 8 * 24
"""Parameters of rank 8: q and o 2·(1024 + 1024), k and v 2·(1024 + 256), FFN 3·(1024 + 4096), in 24 layers."""

TRAINED = TrainChoice(1, 1, 4, Precision.BF16, Master.FP32, Offload.NONE, 8192)
RUNS = RolloutChoice(Engine.VLLM, 1, 4, Precision.BF16, 0.5, 256)
FOUR = Hardware(4, 100e12, 1e12, 80_000, (8, 0), 100e9, True, ((2, 100e9), (4, 100e9)), ((2, True), (4, True)), 10e9)


def lora(rank: int = 8, merge: bool | None = None, sleep: bool = True, *, hybrid: bool = True) -> Role:
    return Role(
        RoleName.ACTOR,
        MODEL,
        train=TrainMenu(lora=rank, lora_merge=merge),
        rollout=RolloutMenu(sleep=sleep) if hybrid else None,
    )


def costs(role: Role, part: Part = Part.ROLLOUT) -> Demand:
    work = Workload(Algorithm.GRPO, BATCH, (role,))
    found = demand(role, part, RUNS if part is Part.ROLLOUT else TRAINED, work, FOUR, C, dataflow(work))
    assert isinstance(found, Demand)
    return found


# ── what is sent ────────────────────────────────────────────────────────────────────────────────────────────


def test_without_adapters_all_weights_are_sent() -> None:
    # 24 layers of nine tensors, two embeddings and a norm.
    assert sent(lora(0), MODEL, hybrid=True) == all_weights(MODEL) == Sent(2 * MODEL.parameters, 24 * 9 + 3)
    assert all_weights(EXPERTS).tensors == 10 * (6 + 3 * 64 + 1) + 3


@pytest.mark.parametrize(
    ("merge", "hybrid", "adapters"),
    [
        pytest.param(None, True, True, id="a hybrid engine has its base"),
        pytest.param(None, False, False, id="to other GPUs all weights go, merged"),
        pytest.param(True, True, False, id="merged by the user's wish"),
        pytest.param(False, False, True, id="not merged by the user's wish"),
    ],
)
def test_adapters_go_alone_to_an_engine_that_has_its_base(merge: bool | None, hybrid: bool, adapters: bool) -> None:
    # 16 bits of each parameter; two factors of seven matrices in 24 layers.
    alone = Sent(2 * ADAPTERS, 14 * 24, adapters=True)
    assert sent(lora(merge=merge), MODEL, hybrid=hybrid) == (alone if adapters else all_weights(MODEL))


def test_a_file_says_whether_adapters_are_merged() -> None:
    text = "algorithm: grpo\nbatch: {prompts: 64, samples_per_prompt: 2, prompt_tokens: 100, response_tokens: 200}\n"
    text += "roles: {actor: {model: Qwen2.5-7B, train: {lora: 8, lora_merge: true}}, reward: {function: true}}\n"
    found = load(text)
    assert found.roles[0].train == dataclasses.replace(found.roles[0].train, lora=8, lora_merge=True)
    assert load(dump(to_document(found))) == found


# ── what it takes ───────────────────────────────────────────────────────────────────────────────────────────


def test_adapters_pass_sooner_than_weights() -> None:
    # 3/4 of 8.45 MB in place of 3.36 GB over a bus of 88 GB/s: 72 µs in place of 28.6 ms. 336 tensors go one by one in place of 219.
    c = dataclasses.replace(C, own_bytes_per_s=1e30, nvlink_alpha_us=0.0, nvlink_alpha_us_per_gpu=0.0)
    c = dataclasses.replace(c, sync_tensor_us=10.0, sync_bucket_us=0.0)
    times = [stages.send(lora(rank), MODEL, TRAINED, FOUR, c, hybrid=True).seconds for rank in (0, 8)]
    assert times[0] - times[1] == pytest.approx(3 / 4 * 2 * (MODEL.parameters - ADAPTERS) / 88e9 - 117 * 10e-6)
    whole, adapters = all_weights(MODEL), sent(lora(merge=False), MODEL, hybrid=False)
    # Weights fill two buckets, adapters one.
    more = (336 - 219) * C.sync_tensor_us - C.sync_bucket_us
    assert stages.separate_sync_us(adapters, C) - stages.separate_sync_us(whole, C) == more
    assert stages.receive(adapters, FOUR, C).seconds < stages.receive(whole, FOUR, C).seconds
    assert transfer_us(MODEL, 1.0, C) - transfer_us(MODEL, 1.0, C, adapters) == pytest.approx(
        2e-3 * (MODEL.parameters - ADAPTERS) - more, abs=1
    )


def test_an_engine_that_sleeps_beside_adapters_copies_its_weights_twice() -> None:
    # 3.2 GiB there and back at 10 GB/s, and one call.
    assert stages.wake(5e9, FOUR) == Timed(1.0, "the engine's weights to and from host memory (sleep level 1)")
    whole = engine_space(MODEL, RUNS, BATCH, FOUR, C, adapters=2 * ADAPTERS)
    us = 2 * whole.weights_mib * 2**20 / 10e9 * 1e6 + C.stage_overhead_us
    assert costs(lora()).times_us[Work.SYNC_WEIGHTS] == pytest.approx(us, abs=1)


@pytest.mark.parametrize("role", [lora(0), lora(merge=True), lora(sleep=False)], ids=["no adapters", "merged", "never sleeps"])
def test_other_engines_copy_nothing(role: Role) -> None:
    # Level 2 drops the weights: they come with the sync, whose time is the trainer's.
    assert Work.SYNC_WEIGHTS not in costs(role).times_us


# ── what it holds ───────────────────────────────────────────────────────────────────────────────────────────


def test_adapters_are_taken_out_layer_by_layer() -> None:
    # A layer of 64 Mi parameters in fp32, 256 MiB, is put together in place of the embedding in fp32, 4 · 32 Mi: 128 MiB.
    base = {rank: gpu_memory.train(lora(rank), MODEL, TRAINED, BATCH, C, hybrid=True).working[Work.SYNC_WEIGHTS] for rank in (0, 8)}
    assert base[0][gpu_memory.Piece.GATHERED] == 4 * 32
    assert base[8][gpu_memory.Piece.GATHERED] == 4 * 64
    one = dataclasses.replace(TRAINED, dp=1)
    assert gpu_memory.Piece.GATHERED not in gpu_memory.train(lora(), MODEL, one, BATCH, C, hybrid=True).working[Work.SYNC_WEIGHTS]


def test_buckets_have_their_size_whatever_passes() -> None:
    held = [gpu_memory.train(lora(8, merge), MODEL, TRAINED, BATCH, C, hybrid=False) for merge in (True, False)]
    assert {each.working[Work.SYNC_WEIGHTS][gpu_memory.Piece.BUCKETS] for each in held} == {2 * C.sync_bucket_mib}


def test_adapters_stand_beside_the_base_in_an_engine() -> None:
    plain, beside = (engine_space(MODEL, RUNS, BATCH, FOUR, C, adapters=size) for size in (0.0, 2.0 * 2**20))
    assert beside.weights_mib - plain.weights_mib == plain.kv_mib - beside.kv_mib == 2


# ── in a plan ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_plan_counts_what_a_sleeping_engine_copies() -> None:
    # Both send within 0.25 s: 2.47 GB at 25 GB/s there and back, and a call, take the engine with adapters 0.25 s more.
    us = []
    for merge in (None, True):
        question = ask(machine("NV12", 2), job(actor(train=train(lora=16, lora_merge=merge), gpu_menu=(2,))))
        found = plan(question).plan
        assert found is not None
        assert problems(found, question) == []
        words = "all weights, the adapters merged" if merge else "the adapters alone, to an engine that has their base"
        assert any(said.startswith(f"LoRA: weight syncs send {words}") for said in found.estimate.assumptions)
        us.append(found.estimate.stages[-1].us)
    copies = 2 * 2 * (TINY.parameters + 22_020_096 / 2) / 25e9 * 1e6
    assert us[0] - us[1] == pytest.approx(copies + C.stage_overhead_us, rel=0.1)


def test_a_separate_rollout_is_sent_less_without_merging() -> None:
    steps = []
    for merge in (None, False):
        engine = Role(RoleName.ROLLOUT, TINY, engine=Engine.VLLM, layout=LayoutMenu(tp=(1,)), rollout=rollout())
        roles = (actor(rollout=None, train=train(lora=8, lora_merge=merge)), engine)
        question = ask(machine("SYS", 2), job(*roles), "strict")
        found = plan(question).plan
        assert found is not None
        assert problems(found, question) == []
        steps.append(found.estimate.stages[-1].us)
    # 2.47 GB over a link between sockets, of 19.6 GB/s: 126 ms more for all weights; 224 tensors in place of 147 take 23 ms more.
    assert steps[0] > steps[1]
