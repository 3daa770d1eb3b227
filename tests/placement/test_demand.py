"""What a choice costs: the single entry to the models of memory and time."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.choices.choices import Choice, FrozenChoice, Part, RolloutChoice, TrainChoice, choices, parts
from placement.choices.hardware import Hardware
from placement.constants.table import constants
from placement.demand import Demand, Refusal, demand, transfer_us
from placement.models.model import find_model
from placement.workloads.dataflow import Work, dataflow
from placement.workloads.workload import (
    Algorithm,
    Batch,
    Engine,
    LayoutMenu,
    Master,
    Offload,
    Precision,
    Role,
    RoleName,
    RolloutMenu,
    Schedule,
    TrainMenu,
    Workload,
)

C = constants()
BF16 = Precision.BF16
MODEL = find_model("Qwen/Qwen2.5-1.5B")
ACTOR = Role(RoleName.ACTOR, MODEL, train=TrainMenu(), rollout=RolloutMenu())
REF = Role(RoleName.REF, MODEL)
REWARD = Role(RoleName.REWARD, MODEL)
CRITIC = Role(RoleName.CRITIC, MODEL, train=TrainMenu())
ROLLOUT = Role(RoleName.ROLLOUT, MODEL, engine=Engine.VLLM, rollout=RolloutMenu())

# 128 prompts, 8 samples each, of 512 tokens and 512 (longest 1024) more; 4 updates.
BATCH = Batch(128, 8, 512, 512, 1024, 4, 8192)
GRPO = Workload(Algorithm.GRPO, BATCH, (ACTOR, REF, Role(RoleName.REWARD, None)))
PPO = Workload(Algorithm.PPO, BATCH, (ACTOR, CRITIC, REF, REWARD))
APART = Workload(Algorithm.PPO, BATCH, (ACTOR.replace(rollout=None), ROLLOUT, CRITIC, REF, REWARD))


def a100(gpus: int, **changes: object) -> Hardware:
    """A100-SXM4-80GB behind an NVSwitch."""
    tps = tuple(tp for tp in (2, 4) if gpus % tp == 0)
    hardware = Hardware(
        gpus=gpus,
        flops=312e12,
        memory_bytes_per_s=2039e9,
        total_mib=81152,
        compute_capability=(8, 0),
        ring_bytes_per_s=275e9 if gpus > 1 else 0.0,
        ring_nvlink=True,
        block_bytes_per_s=tuple((tp, 275e9) for tp in tps),
        block_nvlink=tuple((tp, True) for tp in tps),
        host_bytes_per_s=24e9,
    )
    return dataclasses.replace(hardware, **changes)


def train_choice(dp: int, offload: Offload = Offload.NONE, micro_batch_tokens: int = 8192) -> TrainChoice:
    return TrainChoice(1, 1, dp, BF16, Master.FP32, offload, micro_batch_tokens)


def rollout_choice(replicas: int, share: float = 0.4) -> RolloutChoice:
    return RolloutChoice(Engine.VLLM, 1, replicas, BF16, share, 256)


def frozen_choice(dp: int) -> FrozenChoice:
    return FrozenChoice(1, 1, dp, BF16, Offload.NONE)


def cost(role: Role, part: Part, choice: Choice, workload: Workload, hardware: Hardware) -> Demand:
    found = demand(role, part, choice, workload, hardware, C, dataflow(workload))
    assert isinstance(found, Demand)
    return found


# ── which work, which model ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("role", "part", "choice", "workload", "expected"),
    [
        pytest.param(
            ACTOR,
            Part.TRAIN,
            train_choice(2),
            PPO,
            {Work.OLD_LOG_PROBS, Work.UPDATE_ACTOR, Work.SYNC_WEIGHTS},
            id="actor trains",
        ),
        pytest.param(ACTOR, Part.ROLLOUT, rollout_choice(2), PPO, {Work.GENERATE}, id="actor generates"),
        pytest.param(
            ROLLOUT, Part.ROLLOUT, rollout_choice(2), APART, {Work.GENERATE, Work.SYNC_WEIGHTS}, id="rollout"
        ),
        pytest.param(
            CRITIC, Part.TRAIN, train_choice(2), PPO, {Work.VALUES, Work.UPDATE_CRITIC}, id="critic"
        ),
        pytest.param(REF, Part.FROZEN, frozen_choice(2), PPO, {Work.REF_LOG_PROBS}, id="ref"),
        pytest.param(REWARD, Part.FROZEN, frozen_choice(2), PPO, {Work.REWARD}, id="reward"),
    ],
)
def test_each_part_does_its_own_work(
    role: Role, part: Part, choice: Choice, workload: Workload, expected: set[Work]
) -> None:
    found = cost(role, part, choice, workload, a100(2))
    assert set(found.times_us) == set(found.bound_by) == expected
    # An engine that sleeps holds memory in the weight sync without having to do anything in it.
    assert set(found.active_mib) - expected <= {Work.SYNC_WEIGHTS}


def test_work_that_the_dataflow_lacks_is_not_counted() -> None:
    stages = tuple(stage for stage in dataflow(GRPO) if stage.name == "update")
    found = demand(ACTOR, Part.TRAIN, train_choice(2), GRPO, a100(2), C, stages)
    assert isinstance(found, Demand)
    assert set(found.times_us) == set(found.active_mib) == {Work.UPDATE_ACTOR}


def test_critic_and_reward_have_a_scalar_head() -> None:
    # Untied embeddings: the head of 151,936 · 1536 goes, 1536 come.
    model = dataclasses.replace(
        MODEL, tie_embeddings=False, parameters=2 * 10**9, embedding_parameters=2 * 151_936 * 1536
    )
    saved = 151_936 * 1536 - 1536
    reward = cost(REWARD.replace(model=model), Part.FROZEN, frozen_choice(1), PPO, a100(1))
    ref = cost(REF.replace(model=model), Part.FROZEN, frozen_choice(1), PPO, a100(1))
    assert ref.resident_mib - reward.resident_mib == pytest.approx(2 * saved / 2**20, abs=1)
    actor = cost(ACTOR.replace(model=model), Part.TRAIN, train_choice(1), PPO, a100(1))
    critic = cost(CRITIC.replace(model=model), Part.TRAIN, train_choice(1), PPO, a100(1))
    assert actor.resident_mib - critic.resident_mib == pytest.approx(12 * saved / 2**20, abs=1)


def test_the_reference_stores_logits_when_the_actor_does() -> None:
    plain = GRPO.replace(roles=(ACTOR.replace(train=TrainMenu(fused_ce=False)), REF, GRPO.roles[2]))
    sizes = [
        cost(REF, Part.FROZEN, frozen_choice(2), job, a100(2)).active_mib[Work.REF_LOG_PROBS]
        for job in (plain, GRPO)
    ]
    assert sizes[0] - sizes[1] == pytest.approx(8192 * 4 * 151_936 / 2**20, abs=1)


def test_the_schedule_does_not_change_what_work_costs() -> None:
    slow = PPO.replace(schedule=Schedule.NONE)
    assert cost(CRITIC, Part.TRAIN, train_choice(2), slow, a100(2)) == cost(
        CRITIC, Part.TRAIN, train_choice(2), PPO, a100(2)
    )


def test_the_longest_answer_counts_unless_generation_waits_for_nobody() -> None:
    choice, group = rollout_choice(2, 0.9), a100(2)
    job = APART.replace(batch=dataclasses.replace(BATCH, response_max_tokens=8192))
    times = [
        cost(ROLLOUT, Part.ROLLOUT, choice, job.replace(schedule=schedule), group).times_us[Work.GENERATE]
        for schedule in (Schedule.FULL, Schedule.NONE, Schedule.ONE_STEP_OFF, Schedule.ASYNC)
    ]
    assert times[0] == times[1] == times[2] > times[3]


def test_stages_are_handed_padded_answers_engines_prompts_and_the_sync_nothing() -> None:
    # 1024 sequences, padded to 1536 tokens, 1000 ns each: 1.572864 s; 512 tokens of prompts alone are 0.524288 s.
    before, after = (dataclasses.replace(C, hand_over_ns_per_token=ns) for ns in (0.0, 1000.0))
    found = [
        demand(ACTOR, Part.TRAIN, train_choice(2), GRPO, a100(2), c, dataflow(GRPO)) for c in (before, after)
    ]
    first, second = (one.times_us for one in found if isinstance(one, Demand))
    assert {work: second[work] - first[work] for work in first} == {
        Work.OLD_LOG_PROBS: 1_572_864, Work.UPDATE_ACTOR: 1_572_864, Work.SYNC_WEIGHTS: 0,
    }  # fmt: skip
    engines = [demand(ROLLOUT, Part.ROLLOUT, rollout_choice(2, 0.9), APART, a100(2), c, dataflow(APART)) for c in (before, after)]
    first, second = (one.times_us for one in engines if isinstance(one, Demand))
    assert second[Work.GENERATE] - first[Work.GENERATE] == 524_288
    assert second[Work.SYNC_WEIGHTS] == first[Work.SYNC_WEIGHTS]


def test_a_transfer_is_the_weights_over_the_link_and_a_fixed_cost() -> None:
    # 3.087 GB at 10 GB/s: 308,742.9 µs, rounded up; 28 layers of twelve tensors and two beside.
    assert transfer_us(MODEL, 10.0, C) == 308_743 + C.separate_sync_overhead_us + 338 * C.sync_tensor_us + 2 * C.sync_bucket_us


# ── refusals ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("role", "part", "choice", "batch", "gpus", "expected"),
    [
        pytest.param(
            ACTOR,
            Part.ROLLOUT,
            rollout_choice(1, share=0.05),
            BATCH,
            1,
            "vllm at gpu_memory_utilization 0.05 claims 4.0 GiB, which does not hold 2.9 GiB of weights (tp 1), "
            "1.5 GiB of activations and the KV cache of the longest sequence",
            id="engine",
        ),
        pytest.param(
            ACTOR,
            Part.TRAIN,
            train_choice(8),
            Batch(16, 1, 100, 100, 100, 4, 8192),
            8,
            "actor has 8 data-parallel ranks for 4 sequences of a minibatch: some would have none",
            id="training",
        ),
        pytest.param(
            REF,
            Part.FROZEN,
            frozen_choice(8),
            Batch(4, 1, 100, 100, 100, 1, 8192),
            8,
            "ref has 8 data-parallel ranks for 4 sequences of a step: some would have none",
            id="frozen",
        ),
    ],
)
def test_what_cannot_run_is_refused_with_the_reason(
    role: Role, part: Part, choice: Choice, batch: Batch, gpus: int, expected: str
) -> None:
    job = GRPO.replace(batch=batch)
    assert demand(role, part, choice, job, a100(gpus), C, dataflow(job)) == Refusal(expected)


def test_one_sequence_for_every_rank_is_enough() -> None:
    job = GRPO.replace(batch=Batch(16, 1, 100, 100, 100, 4, 8192))
    assert cost(ACTOR, Part.TRAIN, train_choice(4), job, a100(4)).times_us[Work.UPDATE_ACTOR] > 0


def test_a_choice_of_another_part_is_an_error() -> None:
    with pytest.raises(ValueError, match="no choice for rollout of actor"):
        demand(ACTOR, Part.ROLLOUT, train_choice(1), GRPO, a100(1), C, dataflow(GRPO))


# ── properties over whole menus ─────────────────────────────────────────────────────────────────────────────


@given(
    job=st.sampled_from([GRPO, PPO, APART]),
    gpus=st.sampled_from([1, 2, 4, 8]),
    engine=st.sampled_from([Engine.FSDP, Engine.MEGATRON]),
    data=st.data(),
)
def test_every_choice_costs_whole_positive_numbers_and_no_less_at_work_than_idle(
    job: Workload, gpus: int, engine: Engine, data: st.DataObject
) -> None:
    role = data.draw(st.sampled_from(job.placed))
    if role.name is not RoleName.ROLLOUT:
        role = role.replace(engine=engine, layout=LayoutMenu((1, 2), (1, 2)))
    for part in parts(role):
        for choice, _ in choices(role, part, a100(gpus)):
            found = cost(role, part, choice, job, a100(gpus))
            numbers = [found.resident_mib, *found.active_mib.values(), *found.times_us.values()]
            assert all(isinstance(number, int) and number > 0 for number in numbers)
            assert all(mib >= found.resident_mib for mib in found.active_mib.values())
            assert all(us > C.stage_overhead_us for us in found.times_us.values())


@given(
    job=st.sampled_from([GRPO, PPO, APART]),
    gpus=st.sampled_from([2, 4, 8]),
    nvlink=st.booleans(),
    gb_per_s=st.tuples(st.floats(0.5, 800), st.floats(0.5, 800)),
    data=st.data(),
)
def test_slower_links_never_make_a_time_shorter_and_leave_memory_alone(
    job: Workload, gpus: int, nvlink: bool, gb_per_s: tuple[float, float], data: st.DataObject
) -> None:
    role = data.draw(st.sampled_from(job.placed))

    def group(width: float) -> Hardware:
        return a100(
            gpus,
            ring_bytes_per_s=width * 1e9,
            ring_nvlink=nvlink,
            block_bytes_per_s=((2, width * 1e9),),
            block_nvlink=((2, nvlink),),
            host_bytes_per_s=width * 1e9,
        )

    slow, fast = group(min(gb_per_s)), group(max(gb_per_s))
    for part in parts(role):
        for choice, _ in choices(role, part, slow):
            less, more = (cost(role, part, choice, job, hardware) for hardware in (fast, slow))
            assert less.active_mib == more.active_mib
            assert all(less.times_us[work] <= more.times_us[work] for work in more.times_us)
