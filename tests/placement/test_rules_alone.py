"""Every rule alone: the smallest question in which it decides, asked with the rule and without it."""

from __future__ import annotations

import dataclasses

import pytest
from conftest_placement import (
    actor,
    ask,
    bridged_pairs,
    critic,
    job,
    machine,
    ref,
    reward,
    rollout,
    train,
    two_switches,
)

from placement.checking import problems
from placement.planner import plan
from placement.workloads.workload import LayoutMenu, Master, Offload, Precision
from solvers.result import Status
from topologies.model import Topology
from topologies.parts import Mig

HEADS_OF_THREE = dataclasses.replace(actor().model, heads=12, kv_heads=3, name="three")


def planned(topology: Topology, workload, rules: str):
    """Return the map of the plan, after the domain check; None when there is no plan."""
    question = ask(topology, workload, rules)
    outcome = plan(question)
    if outcome.plan is None:
        assert outcome.status is Status.INFEASIBLE
        return None
    assert problems(outcome.plan, question) == []
    return outcome.plan


def one_each(*roles):
    """Return a job whose roles take one GPU each."""
    return job(*(role.replace(max_gpus=1) for role in roles))


@pytest.mark.parametrize(
    ("preset", "apart"),
    [
        ("guide", [("actor", "critic"), ("actor", "reward"), ("critic", "ref")]),
        ("minimal", [("actor", "critic"), ("actor", "ref"), ("actor", "reward"), ("critic", "ref"), ("critic", "reward")]),
        ("four", [("actor", "critic"), ("actor", "ref"), ("actor", "reward")]),
    ],
)
def test_isolation_keeps_pairs_apart(preset, apart):
    plan_ = planned(machine("NV12", 8), job(actor(), critic(), ref(), reward()), preset)
    for a, b in apart:
        assert not set(plan_.device_map[a]) & set(plan_.device_map[b])


def test_isolation_strict_needs_a_gpu_for_every_role():
    work = one_each(actor(), critic(), ref(), reward())
    assert planned(machine("NV12", 3), work, "strict,min_gpus=off") is None
    assert len(planned(machine("NV12", 4), work, "strict,min_gpus=off").used_gpus) == 4


def test_isolation_colocate_puts_all_roles_on_the_same_gpus():
    maps = planned(machine("NV12", 4), job(actor(), critic(), ref()), "colocate").device_map
    assert maps["actor"] == maps["critic"] == maps["ref"]


def test_isolation_free_is_as_good_as_any_preset():
    work = job(actor(), critic(), ref(), reward())
    free = planned(machine("NV12", 8), work, "free").proof.objective
    assert all(free <= planned(machine("NV12", 8), work, p).proof.objective for p in ("guide", "minimal", "strict", "colocate"))


def test_contiguity_keeps_a_tp_block_on_nvlink():
    work = job(actor(gpu_menu=(2,), layout=LayoutMenu(tp=(2,)), rollout=rollout(2)))
    assert planned(bridged_pairs(), work, "guide").device_map["actor"] == (0, 2)
    four = job(actor(gpu_menu=(4,), layout=LayoutMenu(tp=(4,)), rollout=rollout(4)))
    assert planned(bridged_pairs(), four, "guide") is None
    assert planned(bridged_pairs(), four, "guide,contiguity=off") is not None


def test_contiguity_without_nvlink_keeps_a_tp_block_under_one_switch():
    work = one_each(ref(), reward())
    work = work.replace(roles=(*work.roles, actor(gpu_menu=(4,), layout=LayoutMenu(tp=(4,)), rollout=rollout(4))))
    for rank in planned(two_switches(), work, "strict").device_map["actor"]:
        assert rank // 4 == planned(two_switches(), work, "strict").device_map["actor"][0] // 4


def test_contiguity_takes_one_switch_where_one_suffices():
    sizes = job(actor(gpu_menu=(3,)), critic(gpu_menu=(3,)), ref(gpu_menu=(2,)))
    assert planned(two_switches(), sizes, "strict") is None      # 3 + 3 leave one GPU under each switch
    spread = planned(two_switches(), sizes, "strict,contiguity=off")
    assert len({g // 4 for g in spread.device_map["ref"]}) == 2


def test_sharing_pool_is_all_or_nothing_and_partial_is_not():
    work = job(actor(gpu_menu=(3,)), ref(gpu_menu=(2,)))
    assert planned(machine("NV12", 4), work, "guide") is None
    both = planned(machine("NV12", 4), work, "guide,sharing=partial").device_map
    assert set(both["ref"]) < set(both["actor"])


def test_reserve_keeps_memory_free():
    work = job(actor(gpu_menu=(1,)))
    need = max(row.planned for row in planned(machine("NV12", 1), work, "guide").memory_mib)
    capacity = planned(machine("NV12", 1), work, "guide").memory_mib[0].capacity
    assert planned(machine("NV12", 1), work, f"reserve={capacity - need}MiB") is not None
    assert planned(machine("NV12", 1), work, f"reserve={capacity - need + 1}MiB") is None


def test_reward_reserve_asks_for_more_only_where_the_reward_model_shares():
    work = job(actor(gpu_menu=(1,)), critic(gpu_menu=(1,)), reward(gpu_menu=(1,)))
    gpus = planned(machine("NV12", 2), work, "guide")
    shared = gpus.device_map["reward"]
    assert shared == gpus.device_map["critic"]
    for row in gpus.memory_mib:
        share = row.reserved / row.capacity
        assert share >= 0.2 if row.gpu in shared else share < 0.06
    assert planned(machine("NV12", 2), work, "guide,reward_reserve=90%") is None
    assert planned(machine("NV12", 2), work, "guide,reward_reserve=off") is not None


def test_same_card_does_not_mix_40_and_80_gb():
    mixed = machine("NV12", 4, "0-1=a100-40gb,2-3=a100-80gb")
    work = job(actor(gpu_menu=(3,)))
    assert planned(mixed, work, "guide") is None
    assert planned(mixed, work, "guide,same_card=off") is not None


def test_min_gpus_is_hard_from_six_gpus_on_and_a_wish_below():
    work = job(actor(gpu_menu=(4, 5)), critic(), ref())
    assert len(planned(machine("NV12", 6), work, "guide").device_map["critic"]) == 2
    below = planned(machine("NV12", 5), job(actor(gpu_menu=(4,)), critic(), ref()), "guide")
    assert len(below.device_map["critic"]) == 1
    assert next(t.value for t in below.proof.objective_terms if t.name == "soft_rules") == 1
    alone = planned(machine("NV12", 6), job(actor(gpu_menu=(5,)), critic(), ref()), "guide,min_gpus=off")
    assert len(alone.device_map["critic"]) == 1


def test_the_users_own_minimum_is_always_hard():
    work = job(actor(), critic(min_gpus=2), ref())
    assert len(planned(machine("NV12", 4), work, "guide").device_map["critic"]) >= 2


def test_busy_gpus_are_left_out():
    topology = machine("NV12", 2)
    held = topology.replace(gpus=(topology.gpus[0].replace(memory_used_mib=3000), topology.gpus[1]))
    work = job(actor(gpu_menu=(1,)))
    assert planned(held, work, "guide").used_gpus == (1,)
    assert planned(held, work, "guide,busy=4GiB").used_gpus in {(0,), (1,)}
    assert planned(held, job(actor(gpu_menu=(2,))), "guide") is None
    assert planned(held, job(actor(gpu_menu=(2,))), "guide,busy=off") is not None


def test_divided_gpus_are_left_out():
    """Planning, the checker and the clash agree: of two GPUs one is in MIG mode."""
    topology = machine("NV12", 2)
    divided = topology.replace(gpus=(topology.gpus[0].replace(mig=Mig(enabled=True)), topology.gpus[1]))
    found = planned(divided, job(actor(gpu_menu=(1,))), "guide")
    assert found.used_gpus == (1,)
    elsewhere = found.replace(device_map=dict.fromkeys(found.device_map, (0,)))
    assert any("MIG mode" in line for line in problems(elsewhere, ask(divided, job(actor(gpu_menu=(1,))), "guide")))
    outcome = plan(ask(divided, job(actor(gpu_menu=(2,))), "guide"))
    assert outcome.plan is None
    assert any("MIG mode" in line for line in outcome.clash)


def test_hidden_gpus_are_left_out_and_ordinals_count_what_is_visible():
    question = ask(machine("NV12", 4), job(actor(gpu_menu=(2,))), visible=[2, 3])
    outcome = plan(question).plan
    assert outcome.device_map["actor"] == (2, 3)
    assert outcome.ordinals["actor"] == (0, 1)
    assert outcome.environment["CUDA_VISIBLE_DEVICES"] == "2,3"


def test_supported_knows_what_a_card_runs():
    old = machine("NV1", 2, "p100-16gb")
    work = job(actor(rollout=rollout(share=0.65), train=train(master=(Master.BF16,), offload=(Offload.BETWEEN,))))
    assert planned(old, work, "guide") is None
    assert planned(old, work, "guide,supported=off") is not None
    volta = planned(machine("NV1", 2, "v100-32gb"), job(actor()), "guide")
    assert volta.roles["actor"].precision == "fp16"
    only_bf16 = job(actor(precision=(Precision.BF16,)))
    assert planned(machine("NV1", 2, "v100-32gb"), only_bf16, "guide") is None


def test_even_batch_gives_all_ranks_as_many_sequences():
    """64 sequences of a minibatch: two ranks share them, three do not; tensor parallelism leaves one rank, and generation does not mind."""
    three = job(actor(gpu_menu=(3,)))
    assert planned(machine("NV12", 3), three, "guide").roles["actor"].layout.dp == 3
    assert planned(machine("NV12", 3), three, "even_batch=on") is None
    assert len(planned(machine("NV12", 3), job(actor()), "even_batch=on").used_gpus) == 2
    alone = job(actor(gpu_menu=(3,), layout=LayoutMenu(sp=(1, 3)), rollout=rollout(1), model=HEADS_OF_THREE))
    assert planned(machine("NV12", 3), alone, "even_batch=on").roles["actor"].layout.sp == 3


def test_affinity_brings_actor_and_ref_into_one_domain():
    islands = machine({(0, 1): "NV4", (2, 3): "NV4"}, 4, "a100-pcie-80gb")
    work = job(actor(gpu_menu=(1,)), ref(gpu_menu=(1,)))
    assert planned(islands, work, "strict").used_gpus == (0, 1)
    broken = next(t.value for t in planned(islands, work, "strict").proof.objective_terms if t.name == "soft_rules")
    assert broken == 0


def test_root_complex_keeps_critic_and_reward_apart():
    work = job(actor(gpu_menu=(1,)), critic(gpu_menu=(1,)), reward(gpu_menu=(1,)))
    with_rule = planned(two_switches(), work, "strict").device_map
    assert with_rule["critic"][0] // 4 != with_rule["reward"][0] // 4
    without = planned(two_switches(), work, "strict,root_complex=off").device_map
    assert without["critic"][0] // 4 == without["reward"][0] // 4


def test_a_menu_of_masters_takes_the_second_only_where_the_first_does_not_fit():
    menu = train(master=(Master.FP32, Master.BF16), offload=(Offload.NONE, Offload.BETWEEN))
    work = job(actor(gpu_menu=(1,), train=menu, rollout=rollout(share=0.55)))
    assert planned(machine("NV12", 1, "a100-80gb"), work, "guide").roles["actor"].train.master == "fp32"
    assert planned(machine("NV12", 1, "rtx4090"), work, "guide").roles["actor"].train.master == "bf16"
