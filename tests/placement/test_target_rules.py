"""What targets can express: pools, orders, menus and schedules; the program obeys, and code without a solver sees that it does."""

from __future__ import annotations

import itertools

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
from placement.workloads.workload import Engine, Offload, RoleName, Schedule

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
        ("rlinf", ("actor critic ref reward", "actor | critic | ref"), ("actor ref | critic",)),
        ("openrlhf", ("actor critic ref reward", "actor ref | critic reward | rollout", "actor critic ref reward | rollout",
                      "actor | ref | critic | reward | rollout"),
         ("actor ref | critic reward", "actor critic | ref reward | rollout", "actor rollout | ref")),
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
