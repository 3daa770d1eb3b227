"""What targets can express: pools, orders, menus and schedules; the program obeys, and code without a solver sees that it does."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_questions import JOBS, Asked, asked

from placement.catalog import load_workload
from placement.checking.target import target_problems
from placement.errors import InputError
from placement.machines.sources import read_machine as load
from placement.planner import SolverName, plan
from placement.plans import Plan
from placement.program.instance import Instance, make_instance
from placement.workloads.rule_values import LAUNCHERS, TARGETS
from placement.workloads.rules import parse_rules
from placement.workloads.target_fit import fitted
from placement.workloads.target_rules import TARGET_RULES, Pools, TargetRules, partitions, target_rules
from placement.workloads.workload import (
    Algorithm,
    Engine,
    LayoutMenu,
    Master,
    Offload,
    Quantization,
    RoleName,
    Schedule,
    Workload,
)

ACTOR, ROLLOUT, CRITIC, REF, REWARD = RoleName


def pools(text: str) -> Pools:
    """Return pools as ``actor ref | critic`` writes them."""
    return frozenset(frozenset(map(RoleName, pool.split())) for pool in text.split("|"))


def test_partitions_are_counted_by_bell():
    """1, 1, 2, 5, 15, 52 (Bell numbers), none twice."""
    for count, bell in enumerate((1, 1, 2, 5, 15, 52)):
        found = list(partitions(tuple(RoleName)[:count]))
        assert len(found) == len(set(found)) == bell


@pytest.mark.parametrize(
    ("target", "allowed", "refused"),
    [
        ("verl-stock", ("actor critic ref reward", "actor critic ref | reward", "actor critic ref | rollout | reward"),
         ("actor ref | critic", "actor critic ref | rollout reward", "actor | ref")),
        ("verl", ("actor ref | critic reward", "actor critic ref", "actor | ref | critic | reward"), ()),
        ("roll", ("actor ref | critic reward", "actor | rollout ref"), ()),
        ("rlinf", ("actor critic ref reward", "actor | critic | ref | rollout"),
         ("actor ref | critic", "actor | ref", "actor ref | rollout")),
        ("openrlhf", ("actor critic ref reward", "actor ref | critic reward | rollout", "actor | ref | critic | reward | rollout"),
         ("actor ref | critic reward", "actor critic | ref reward | rollout", "actor rollout | ref",
          "actor critic ref reward | rollout")),
        ("trl", ("actor ref reward", "actor ref reward | rollout"), ("actor | ref", "actor rollout ref | reward")),
        ("prime-rl", ("actor | rollout",), ()),
        ("areal", ("actor ref | rollout", "actor | ref | rollout", "actor critic ref | rollout"), ("actor | critic ref | rollout",)),
        ("nemo-rl", ("actor ref", "actor ref | rollout | reward"), ("actor | ref", "actor ref reward")),
        ("skyrl", ("actor critic ref", "actor ref | critic | rollout"), ("actor ref | critic", "actor critic | ref | rollout")),
        ("slime", ("actor critic ref", "actor critic ref | rollout"), ("actor | critic", "actor | ref")),
    ],
)  # fmt: skip
def test_which_roles_share(target, allowed, refused):
    """As the page of the framework says."""
    rules = target_rules(target)
    assert rules is not None
    assert [text for text in allowed if not rules.pools(pools(text))] == []
    assert [text for text in refused if rules.pools(pools(text))] == []


def test_names_are_one_list():
    """The command line offers the targets that there are."""
    from placement.cli.app import TARGETS as OFFERED

    assert OFFERED == TARGETS
    assert {rules.name for rules in TARGET_RULES}.isdisjoint(LAUNCHERS)
    assert target_rules("torchrun") is None


def test_rules_keep_their_target():
    """A map that was planned for a target is replayed for it."""
    rules = parse_rules("guide,target=verl-stock")
    assert parse_rules(str(rules)) == rules
    assert rules.describe() == {"preset": "guide", "target": "verl-stock"}
    assert parse_rules("target=verl", "target=off").target is None
    with pytest.raises(InputError, match=r"rule target cannot be 'verl-9': it takes a target of"):
        parse_rules("target=verl-9")


# ── jobs ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def named(name: str) -> TargetRules:
    found = target_rules(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("trl", "target trl has no critic on GPUs: it places actor, rollout, ref, reward"),
        ("slime", "target slime has no reward on GPUs: it places actor, rollout, critic, ref; make the reward a function"),
        ("prime-rl", "target prime-rl has no critic on GPUs: it places actor, rollout"),
    ],
)
def test_a_role_that_it_does_not_have(target, words):
    """Named, with what to do."""
    with pytest.raises(InputError) as refused:
        fitted(load_workload("ppo-7b"), named(target))
    assert str(refused.value).startswith(words)


def test_menus_lose_what_it_does_not_have():
    """Stock verl: no overlap of pools, frozen roles under FSDP always offloaded."""
    job = load_workload("ppo-7b")
    for_verl = fitted(job, named("verl-stock"))
    assert (job.schedule, for_verl.schedule) == (Schedule.FULL, Schedule.NONE)
    ref, reward = for_verl.role(REF), for_verl.role(REWARD)
    assert ref is not None
    assert reward is not None
    assert (ref.offload, reward.engine, reward.offload) == ((Offload.ALWAYS,), Engine.VLLM, (Offload.NONE,))
    assert fitted(for_verl, named("verl-stock")) == for_verl
    assert fitted(job, None) is job


@pytest.mark.parametrize(
    ("target", "changes", "words"),
    [
        ("trl", {"algorithm": Algorithm.REINFORCE_PP}, "algorithm: target trl has grpo, rloo, dapo, not reinforce++"),
        ("openrlhf", {"master": (Master.BF16,)}, "roles.actor.train.master: target openrlhf takes fp32, not bf16"),
        ("openrlhf", {"offload": (Offload.ALWAYS,)}, "roles.actor.train.offload: target openrlhf takes none or between, not always"),
        ("trl", {"sp": (2,)}, "roles.actor.layout.sp: target trl takes 1, not 2: its GPUs share no sequences"),
        ("skyrl", {"dp": (3, 7)}, "roles.actor.layout.dp: target skyrl takes 640 or 320"),
        ("skyrl", {"minibatches": 3}, "batch: target skyrl cuts a step into equal minibatches, and 5120 sequences do not make 3"),
        ("roll", {"quantization": (Quantization.FP8,)}, "roles.actor.rollout.quantization: target roll takes none, not fp8"),
    ],
)
def test_a_menu_without_what_it_has(target, changes, words):
    """The key, what is there, and why; 5120 sequences in 4 minibatches are 1280, which 3 and 7 ranks do not share evenly."""
    job = load_workload("grpo-1.5b")
    actor = job.role(ACTOR)
    assert actor is not None
    assert actor.train is not None
    assert actor.rollout is not None
    parts = {
        "train": replace(actor.train, **{key: changes[key] for key in ("master", "offload") if key in changes}),
        "layout": replace(actor.layout, **{key: changes[key] for key in ("sp", "dp") if key in changes}),
        "rollout": replace(actor.rollout, **{key: changes[key] for key in ("quantization",) if key in changes}),
    }
    batch = replace(job.batch, **{key: changes[key] for key in ("minibatches",) if key in changes})
    algorithm = changes.get("algorithm", job.algorithm)
    roles = tuple(role.replace(**parts) if role.name is ACTOR else role for role in job.roles)
    with pytest.raises(InputError) as refused:
        fitted(job.replace(roles=roles, batch=batch, algorithm=algorithm), named(target))
    assert str(refused.value).startswith(words)


def test_one_layout_for_actor_and_ref():
    """NeMo-RL's policy is both: ref gets the actor's sizes, and menus of several are refused with the key."""
    job = load_workload("grpo-32b")
    with pytest.raises(InputError, match=r"roles.actor.layout.tp: target nemo-rl has one layout for actor and ref, and 2 and 4 and 8 are"):
        fitted(job, named("nemo-rl"))

    def sized(tp: int) -> Workload:
        """Return the job with one size for the actor."""
        layout = LayoutMenu(tp=(tp,), pp=(1,))
        return job.replace(roles=tuple(role.replace(layout=layout) if role.name is ACTOR else role for role in job.roles))

    found = fitted(sized(4), named("nemo-rl"))
    ref = found.role(REF)
    assert ref is not None
    assert (ref.layout.tp, ref.layout.pp) == ((4,), (1,))
    assert fitted(found, named("nemo-rl")) == found
    with pytest.raises(InputError, match=r"roles.ref.layout.tp: target nemo-rl gives ref that of actor: write 16"):
        fitted(sized(16), named("nemo-rl"))


def test_megatron_keeps_other_things_than_fsdp():
    """AReaL: 16-bit masters and streamed optimizers under FSDP alone."""
    areal = named("areal")
    assert areal.kept(Engine.FSDP) == (Master.FP32, Master.BF16)
    assert areal.kept(Engine.MEGATRON) == (Master.FP32,)
    assert areal.waits(Engine.MEGATRON, is_hybrid=False) == (Offload.NONE, Offload.BETWEEN)
    assert Offload.ALWAYS in areal.waits(Engine.FSDP, is_hybrid=False)


# ── plans ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def question(asked: Asked, target: str) -> Instance | None:
    """Return the question for *target*, None where the job needs what the target does not have."""
    try:
        return make_instance(asked.topology, asked.workload, parse_rules(asked.rules, f"target={target}"), visible=asked.visible)
    except InputError:
        return None


@settings(max_examples=60)
@given(st.data(), st.sampled_from(TARGET_RULES))
def test_solvers_agree_for_every_target(data, target):
    """CP-SAT and trying everything find the same optimum; the plan is judged by code without a solver (`plan` refuses others)."""
    beside = tuple(role for role in data.draw(st.sampled_from(JOBS[3])) if role in target.roles)
    one = data.draw(asked(gpus=data.draw(st.integers(2, 4)), roles=1 + len(beside), beside=beside, short=True))
    instance = question(one, target.name)
    assume(instance is not None)
    assert instance is not None
    found = plan(instance)
    oracle = plan(instance, solver=SolverName.EXHAUSTIVE)
    assert found.status == oracle.status
    assert (found.plan is None) == (oracle.plan is None)
    if found.plan is not None and oracle.plan is not None:
        assert found.plan.proof == oracle.plan.proof
        assert found.plan.device_map == oracle.plan.device_map
        assert_target_takes(found.plan, target)


def assert_target_takes(planned: Plan, target: TargetRules) -> None:
    """What the target cannot express is not there (said here once more, in other words than the checker's)."""
    for a, b in itertools.combinations(planned.device_map, 2):
        if target.name == "rlinf":
            same = {planned.device_map[x] == planned.device_map[y] for x, y in itertools.combinations(planned.device_map, 2)}
            assert len(same) == 1
        if target.name in ("verl-stock", "slime") and {a, b} <= {ACTOR, CRITIC, REF}:
            assert planned.device_map[a] == planned.device_map[b]
        if target.name == "trl" and ROLLOUT not in (a, b):
            assert planned.device_map[a] == planned.device_map[b]
    if target.is_ascending:
        assert all(list(gpus) == sorted(gpus) for gpus in planned.device_map.values())


@pytest.mark.parametrize(
    ("target", "rules", "device_map", "words"),
    [
        ("verl-stock", "free", {CRITIC: (4, 5, 6, 7)}, "target verl-stock cannot pool roles as"),
        ("nemo-rl", "free", {REF: (7, 6, 5, 4, 3, 2, 1, 0)}, "target nemo-rl sorts the GPUs of a role, and ref has"),
        ("rlinf", "free", dict.fromkeys((ACTOR, CRITIC, REF), (0, 1, 4, 5)), "target rlinf takes consecutive GPUs, and actor has"),
    ],
)
def test_the_checker_sees_what_the_target_cannot_express(target, rules, device_map, words):
    """A plan that was changed behind the solver's back."""
    job = load_workload("ppo-7b")
    job = job.replace(roles=tuple(role for role in job.roles if role.name in named(target).roles and role.name is not REWARD))
    if job.algorithm not in named(target).algorithms:
        job = job.replace(algorithm=Algorithm.GRPO)
    instance = make_instance(load("dgx-a100-80gb"), job, parse_rules(rules, f"target={target}"))
    found = plan(instance, solver=SolverName.GREEDY).plan
    assert found is not None
    assert list(target_problems(found, instance)) == []
    wrong = list(target_problems(found.replace(device_map={**found.device_map, **device_map}), instance))
    assert any(words in sentence for sentence in wrong), wrong


def test_a_clash_names_the_target():
    """What the target says stands among the statements that cannot hold together."""
    job = load_workload("ppo-7b")
    outcome = plan(make_instance(load("dgx-a100-80gb"), job, parse_rules("guide,target=verl-stock")))
    assert outcome.plan is None
    assert any(sentence.endswith("(rule target)") for sentence in outcome.clash), outcome.clash


def test_partial_sharing_is_for_those_that_have_it():
    """All of the GPUs or none, elsewhere."""
    job, machine = load_workload("ppo-7b"), load("dgx-a100-80gb")
    with pytest.raises(InputError, match="target verl shares all GPUs of two roles or none"):
        make_instance(machine, job, parse_rules("sharing=partial,target=verl"))
    assert make_instance(machine, job, parse_rules("sharing=partial,target=roll")).rules.target == "roll"
