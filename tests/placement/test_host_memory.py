"""Host memory: what choices need of it, what plans may use, and what comes of it in a plan; comments work the numbers by hand."""

from __future__ import annotations

import dataclasses
import re

import pytest
from conftest_placement import actor as tiny_actor
from conftest_placement import ask, job, machine, reward, rollout, train
from conftest_placement import critic as tiny_critic
from hypothesis import given
from hypothesis import strategies as st
from worked_models import BATCH_FOR_MEMORY as BATCH
from worked_models import FOR_MEMORY as MODEL

from placement.checking import problems
from placement.choices.choices import Choice, FrozenChoice, RolloutChoice, TrainChoice
from placement.constants.table import constants
from placement.machines.hosts import with_memory
from placement.maps.devicemap import dump, load
from placement.memory.host_memory import HostNeed, by_moment, host_need, moments, usable_mib
from placement.planner import SolverName, plan
from placement.workloads.workload import (
    Algorithm,
    Engine,
    Master,
    Offload,
    Precision,
    Role,
    RoleName,
    RolloutMenu,
    TrainMenu,
    Workload,
)
from solvers.result import Status
from topologies.model import Gpu, Topology
from topologies.parts import Host

BF16 = Precision.BF16
FP32 = Master.FP32
NONE, BETWEEN, ALWAYS = Offload
FSDP, MEGATRON, VLLM, SGLANG = Engine
ACTOR, ROLLOUT, CRITIC, REF, REWARD = RoleName

C = dataclasses.replace(
    constants(), host_process_mib=1000, sync_bucket_mib=2048, host_pinned_rounding=1.5, host_frozen_bytes_per_parameter=4
)

TIED = dataclasses.replace(MODEL, tie_embeddings=True)


def of(role: Role, choice: Choice, *beside: Role) -> HostNeed:
    assert role.model is not None
    return host_need(role, role.model, choice, Workload(Algorithm.GRPO, BATCH, (role, *beside)), C)


def trained(name: RoleName = ACTOR, engine: Engine = FSDP, *, lora: int = 0) -> Role:
    return Role(name, MODEL, engine, train=TrainMenu(lora=lora), rollout=RolloutMenu() if name is ACTOR else None)


def choice(tp: int = 1, pp: int = 1, dp: int = 4, master: Master = FP32, offload: Offload = NONE) -> TrainChoice:
    return TrainChoice(tp, pp, dp, BF16, master, offload, 8192)


# 1600 Mi parameters. FSDP on 4 GPUs, fp32 master: 1600 MiB of weights, 1600 of gradients, 3200 of optimizer each; the first rank reads
# 6400, which is 1600 for each. Megatron, dp 4: 3200 of weights, 1600 and 4800 for gradients and optimizer of the rank's own shard.
@pytest.mark.parametrize(
    ("engine", "taken", "runs", "starts", "loads"),
    [
        pytest.param(FSDP, choice(), 0, 0, 1600, id="fsdp"),
        pytest.param(FSDP, choice(offload=BETWEEN), 1600 + 3200, 1600, 1600, id="fsdp, between: the optimizer comes later"),
        pytest.param(
            FSDP, choice(offload=ALWAYS), 1.5 * (1600 + 1600) + 3200, 1.5 * 1600, 1.5 * 1600, id="fsdp, always: pinned"
        ),
        pytest.param(FSDP, choice(dp=8, offload=BETWEEN), 800 + 1600, 800, 800, id="fsdp on 8"),
        pytest.param(MEGATRON, choice(), 0, 0, 3200, id="megatron reads its share"),
        pytest.param(MEGATRON, choice(2, 2, 1, offload=BETWEEN), 800 + 4800, 800, 800, id="megatron, between"),
        pytest.param(
            MEGATRON, choice(offload=ALWAYS), 3200 + 3200 + 1.5 * (1600 + 1600), 11_200, 11_200,
            id="megatron, always: the optimizer at once",
        ),
    ],
)
def test_training(engine: Engine, taken: TrainChoice, runs: float, starts: float, loads: float) -> None:
    beside = 1000 + 2048      # its process and a bucket
    assert of(trained(engine=engine), taken) == HostNeed(runs + beside, starts + beside, loads + beside)
    critic = of(trained(CRITIC, engine), taken)
    assert critic == HostNeed(runs + 1000, starts + 1000, loads + 1000)


def test_tied_embeddings_make_every_rank_read_the_whole_model() -> None:
    # 4 B · 1600 Mi on each GPU; a ref in 4 B, too.
    assert of(trained().replace(model=TIED), choice()).loads_mib == 1000 + 2048 + 6400
    ref = Role(REF, TIED)
    assert of(ref, FrozenChoice(1, 1, 4, BF16, NONE)).loads_mib == 1000 + 6400
    assert of(ref.replace(engine=MEGATRON), FrozenChoice(1, 1, 4, BF16, NONE)).loads_mib == 1000 + 3200


@pytest.mark.parametrize(
    ("engine", "taken", "waits", "loads"),
    [
        pytest.param(FSDP, FrozenChoice(1, 1, 4, BF16, NONE), 0, 1600, id="on the GPU"),
        pytest.param(FSDP, FrozenChoice(1, 1, 4, BF16, BETWEEN), 1600, 1600, id="fsdp waits in 32 bits"),
        pytest.param(FSDP, FrozenChoice(1, 1, 4, BF16, ALWAYS), 2400, 2400, id="fsdp, always: pinned"),
        pytest.param(MEGATRON, FrozenChoice(2, 1, 2, BF16, BETWEEN), 1600, 1600, id="megatron waits in 16 bits"),
        pytest.param(VLLM, FrozenChoice(4, 1, 1, BF16, ALWAYS), 800, 800, id="an engine"),
    ],
)
def test_frozen_roles(engine: Engine, taken: FrozenChoice, waits: int, loads: int) -> None:
    for name in (REF, REWARD):
        assert of(Role(name, MODEL, engine), taken) == HostNeed(1000 + waits, 1000 + waits, 1000 + loads)


def test_a_sleeping_engine_keeps_its_weights_only_beside_adapters() -> None:
    taken = RolloutChoice(VLLM, 2, 2, BF16, 0.5, 256)
    # 2 B · 1600 Mi / 2 in pinned memory: 1.5 times 1600 MiB.
    assert of(trained(), taken) == HostNeed(1000, 1000, 1000)
    assert of(trained(lora=16), taken) == HostNeed(3400, 3400, 3400)
    # Merged adapters come with all weights, which it drops; one that does not sleep takes nothing to the host.
    merged = trained().replace(train=TrainMenu(lora=16, lora_merge=True))
    awake = trained(lora=16).replace(rollout=RolloutMenu(sleep=False))
    assert of(merged, taken) == of(awake, taken) == HostNeed(1000, 1000, 1000)
    alone = Role(ROLLOUT, MODEL, VLLM, rollout=RolloutMenu())
    apart = host_need(alone, MODEL, taken, Workload(Algorithm.GRPO, BATCH, (trained().replace(rollout=None), alone)), C)
    assert apart == HostNeed(3048, 3048, 3048 + 1600)


@pytest.mark.parametrize(
    ("total", "usable"),
    [
        # 1 TiB: 0.95 · 1,048,576 = 996,147.2, less 200 GB (190,734 MiB), which is less than 30 %
        pytest.param(1_048_576, 805_413, id="1 TiB"),
        # 0.95 − 0.3 of 102,400
        pytest.param(102_400, 66_560, id="100 GiB"),
        pytest.param(0, 0, id="none"),
    ],
)
def test_what_plans_may_use(total: int, usable: int) -> None:
    assert usable_mib(total, constants()) == usable


def test_each_moment_has_one_role_that_loads() -> None:
    assert moments((ACTOR, REF)) == ("run", "load_actor", "load_ref")
    assert by_moment(HostNeed(9, 4, 7), REF, (ACTOR, REF)) == (9, 4, 7)


@given(
    engine=st.sampled_from([FSDP, MEGATRON]),
    master=st.sampled_from(Master),
    name=st.sampled_from([ACTOR, CRITIC]),
    tp=st.sampled_from([1, 2, 4]),
    dp=st.sampled_from([1, 2, 4, 8]),
    lora=st.sampled_from([0, 16]),
    tied=st.booleans(),
)
def test_what_leaves_the_gpu_comes_to_the_host(
    engine: Engine, master: Master, name: RoleName, tp: int, dp: int, lora: int, tied: bool
) -> None:
    """No offload needs less of the host than none at all; and the more ranks share, the less each needs."""
    role = trained(name, engine, lora=lora).replace(model=TIED if tied else MODEL)
    for offload in Offload:
        need = of(role, choice(tp, 1, dp, master, offload))
        least = of(role, choice(tp, 1, dp, master, NONE))
        assert need.runs_mib >= need.starts_mib >= least.starts_mib
        assert need.loads_mib >= max(need.starts_mib, least.loads_mib)
        more = of(role, choice(tp, 1, 2 * dp, master, offload))
        assert all(a <= b for a, b in zip(dataclasses.astuple(more), dataclasses.astuple(need), strict=True))
    assert of(role, choice(tp, 1, dp, master, ALWAYS)).runs_mib >= of(role, choice(tp, 1, dp, master, BETWEEN)).runs_mib


@given(st.integers(0, 2**27), st.integers(0, 2**20))
def test_more_memory_never_leaves_less_to_plans(total: int, more: int) -> None:
    assert 0 <= usable_mib(total, constants()) <= usable_mib(total + more, constants()) <= total + more


# ── plans ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

OFFLOAD = job(
    tiny_actor(train=train(offload=(NONE, BETWEEN)), rollout=rollout(1, share=0.6)),
    tiny_critic(train=train(offload=(NONE, BETWEEN))),
)
"""A job of 1.2 billion parameters, which fits on two GPUs of 40 GB when the actor's state leaves them while it generates."""


def small(gib: int | None) -> Topology:
    """Return two GPUs of 40 GB on a host of so many GiB."""
    found = machine("NV12", 3, "a100-40gb")
    return found if gib is None else found.replace(host_facts={None: Host(gib * 1024)})


def test_without_a_known_amount_the_need_is_said_and_nothing_else_changes() -> None:
    unknown, plenty = (plan(ask(small(gib), OFFLOAD)).plan for gib in (None, 4096))
    assert unknown is not None
    assert plenty is not None
    row, known = unknown.host_memory_mib[0], plenty.host_memory_mib[0]
    assert (row.host, row.capacity, row.reserved, row.free) == (None, None, None, None)
    assert unknown.device_map == plenty.device_map
    assert unknown.roles == plenty.roles
    assert (row.planned, row.worst_phase) == (known.planned, known.worst_phase)
    # 4 TiB: all but 95 % less 200 GB
    assert known.reserved == 4096 * 1024 - (3_984_588 - 190_734)
    assert known.free == known.capacity - known.reserved - known.planned
    needs = f"host memory unknown: the plan needs {-(-row.planned // 1024)} GiB on the host"
    assert [said for said in unknown.estimate.assumptions if said.startswith(needs)] != []
    assert not [said for said in plenty.estimate.assumptions if said.startswith("host memory unknown")]
    for found in (unknown, plenty):
        assert load(dump(found)) == found


@pytest.mark.parametrize("solver", SolverName)
def test_the_least_that_a_plan_needs_is_the_least_with_which_there_is_one(solver: SolverName) -> None:
    """Room for exactly what the most frugal plan takes is enough, and a MiB less is not; whatever solves it."""
    feasible = [gib for gib in range(20, 60, 2) if plan(ask(small(gib), OFFLOAD), solver=solver).plan is not None]
    assert feasible == list(range(feasible[0], 60, 2))
    question = ask(small(feasible[0]), OFFLOAD)
    found = plan(question, solver=solver).plan
    assert found is not None
    assert problems(found, question) == []
    # On two GPUs and a third for the critic: three processes for training and engines of each.
    assert found.host_memory_mib[0].planned <= usable_mib(feasible[0] * 1024, constants())


def test_a_host_that_is_too_small_is_said_with_what_it_has_and_what_is_needed() -> None:
    outcome = plan(ask(small(20), OFFLOAD))
    assert outcome.status is Status.INFEASIBLE
    line = next(line for line in outcome.clash if line.startswith("host memory"))
    said = re.fullmatch(
        r"host memory: a plan takes about ([\d.]+) GiB at the least \((\w+)\), the host has 20.0 GiB, of which plans may use 13.0 GiB",
        line,
    )
    assert said
    # In the question of these lines: rules that had no part in the clash are lifted, which never needs more.
    gib = next(gib for gib in range(28, 80, 2) if plan(ask(small(gib), OFFLOAD)).plan is not None)
    assert 13.0 < float(said[1]) <= usable_mib(gib * 1024, constants()) / 1024 * 1.03


def test_two_hosts_are_named_where_memory_is_stated_for_all() -> None:
    gpus = tuple(Gpu(i, host=f"node{i // 2}") for i in range(4))
    said: list[str] = []
    read = Topology(gpus, host_facts={"node0": Host(1024, cpus=8), "node1": Host(2048)})
    stated = with_memory(read, 2048, say=said.append)
    assert stated.host_facts == {"node0": Host(2048, cpus=8), "node1": Host(2048)}
    assert said == ["host memory: 2048 MiB as stated, in place of the 1024 MiB that the source has for node0"]
    assert with_memory(machine("NV12", 2), 7, say=said.append).host_facts == {None: Host(7)}
    assert len(said) == 1


def test_a_reward_function_needs_nothing_of_the_host() -> None:
    one = plan(ask(small(None), job(tiny_actor()))).plan
    two = plan(ask(small(None), job(tiny_actor(), reward()), "free")).plan
    assert one is not None
    assert two is not None
    assert one.host_memory_mib[0].planned < two.host_memory_mib[0].planned
