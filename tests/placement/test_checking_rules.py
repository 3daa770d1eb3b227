"""Every rule: a plan that was made without it, judged with it, is refused in a sentence that names it."""

from __future__ import annotations

import dataclasses

import pytest
from conftest_placement import (
    BATCH,
    TINY,
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
from placement.plans import Layout
from placement.workloads.workload import (
    Engine,
    KvCache,
    LayoutMenu,
    Master,
    Offload,
    Precision,
    Quantization,
    Role,
    RoleName,
)


def one_each(*roles):
    """Return a job whose roles take one GPU each."""
    return job(*(role.replace(gpu_menu=(1,)) for role in roles))


def tp(size, **changes):
    """Return an actor that trains and generates with TP blocks of one size."""
    return actor(layout=LayoutMenu(tp=(size,)), rollout=rollout(size), **changes)


def held_machine():
    """Return two GPUs, the first of which other processes use."""
    topology = machine("NV12", 2)
    return topology.replace(gpus=(topology.gpus[0].replace(memory_used_mib=3000), topology.gpus[1]))


GENERATOR = Role(RoleName.ROLLOUT, TINY, engine=Engine.VLLM, gpu_menu=(2,), rollout=rollout(1))
MIXED = "0-1=a100-40gb,2-3=a100-80gb"
CASES = [
    ("isolation", "apart", machine("NV12", 2), job(actor(), critic(gpu_menu=(2,))), "free", "guide"),
    ("isolation", "rollout", machine("NV12", 2), job(actor(rollout=None, gpu_menu=(2,)), GENERATOR), "free", "guide"),
    ("isolation", "together", machine("NV12", 2), one_each(actor(), ref()), "strict", "colocate"),
    ("sharing", "some", machine("NV12", 4), job(actor(gpu_menu=(3,)), ref(gpu_menu=(2,))), "sharing=partial", "sharing=pool"),
    ("contiguity", "block off NVLink", bridged_pairs(), job(tp(4)), "contiguity=off", "guide"),
    ("contiguity", "spread group", two_switches(), job(actor(gpu_menu=(3,)), critic(gpu_menu=(3,)), ref(gpu_menu=(2,))),
     "strict,contiguity=off", "strict"),
    ("same_card", "capacity", machine("NV12", 4, MIXED), job(actor(gpu_menu=(3,))), "same_card=off", "guide"),
    ("same_card", "chip", machine("NV12", 2, "0=a100-80gb,1=h100-80gb"), job(actor(gpu_menu=(2,))), "same_card=off", "guide"),
    ("reserve", "share", machine("NV12", 1), job(actor()), "reserve=off", "reserve=60%"),
    ("reserve", "amount", machine("NV12", 1), job(actor()), "reserve=off", "reserve=60GiB"),
    ("reserve", "default", machine("NV12", 1), job(actor()), "reserve=off", "guide"),
    ("reward_reserve", "shared", machine("NV12", 2), one_each(actor(), reward()), "colocate,reward_reserve=off", "colocate"),
    ("min_gpus", "hard", machine("NV12", 6), job(actor(gpu_menu=(5,)), critic(), ref()), "min_gpus=off", "guide"),
    ("min_gpus", "soft", machine("NV12", 5), job(actor(gpu_menu=(4,)), critic(), ref()), "min_gpus=off", "guide"),
    ("min_gpus", "written", machine("NV12", 5), job(actor(gpu_menu=(4,)), critic(), ref()), "min_gpus=off", "min_gpus=3"),
    ("busy", "held", held_machine(), job(actor(gpu_menu=(2,))), "busy=off", "guide"),
    ("supported", "engine", machine("NV1", 1, "p100-16gb"),
     job(actor(rollout=rollout(share=0.65), train=train(master=(Master.BF16,), offload=(Offload.BETWEEN,)))), "supported=off", "guide"),
    ("supported", "precision", machine("NV1", 2, "v100-32gb"), job(actor()), "supported=off", "guide"),
    ("supported", "master", machine("NV1", 2, "v100-32gb"),
     job(actor(precision=(Precision.FP16,), train=train(master=(Master.BF16,)))), "supported=off", "guide"),
    ("supported", "8 bits", machine("NV12", 1), job(actor(rollout=dataclasses.replace(rollout(), kv_cache=(KvCache.FP8,)))),
     "supported=off", "guide"),
    ("supported", "8 bits of both", machine("NV12", 1),
     job(actor(rollout=dataclasses.replace(rollout(), quantization=(Quantization.FP8,), kv_cache=(KvCache.FP8,)))),
     "supported=off", "guide"),
    ("supported", "training in 8 bits", machine("NV12", 1), job(actor(train=dataclasses.replace(train(), fp8=True))),
     "supported=off", "guide"),
    ("even_batch", "trained", machine("NV12", 3), job(actor(gpu_menu=(3,))), "guide", "even_batch=on"),
    ("even_batch", "frozen", machine("NV12", 3), job(actor(gpu_menu=(2,)), ref(gpu_menu=(3,))), "sharing=partial",
     "sharing=partial,even_batch=on"),
    ("contiguity", "shared sequences", bridged_pairs(), job(actor(layout=LayoutMenu(sp=(4,)), gpu_menu=(4,))), "contiguity=off", "guide"),
    ("affinity", "domain", two_switches(), job(actor(gpu_menu=(1,)), critic(gpu_menu=(3,)), ref(gpu_menu=(1,))),
     "strict,affinity=off", "strict"),
    ("root_complex", "one switch", two_switches(), job(actor(gpu_menu=(1,)), critic(gpu_menu=(2,)), reward(gpu_menu=(1,))),
     "strict,root_complex=off", "strict"),
]


@pytest.mark.parametrize(
    ("rule", "topology", "workload", "off", "on"),
    [pytest.param(rule, *rest, id=f"{rule}: {what}") for rule, what, *rest in CASES],
)
def test_a_plan_made_without_a_rule_is_refused_by_it(rule, topology, workload, off, on):
    made = ask(topology, workload, off)
    plan_ = plan(made).plan
    assert problems(plan_, made) == []
    assert any(f"(rule {rule}" in said for said in problems(plan_, ask(topology, workload, on)))


def test_a_tp_block_leaves_no_switch_that_could_hold_it():
    # Three GPUs are left under each switch: one of three blocks of two lies across.
    seen = {"visible": [0, 1, 2, 4, 5, 6]}
    made = ask(two_switches(), job(tp(2, gpu_menu=(6,))), "contiguity=off", **seen)
    plan_ = plan(made).plan
    assert problems(plan_, made) == []
    found = problems(plan_, ask(two_switches(), job(tp(2, gpu_menu=(6,))), "guide", **seen))
    assert any("does not lie in one switch" in said and "(rule contiguity)" in said for said in found)


def test_a_tp_block_that_fits_no_switch_lies_in_the_next_level():
    seen = {"visible": [0, 1, 4, 5]}
    question = ask(two_switches(), job(tp(4)), "guide", **seen)
    assert problems(plan(question).plan, question) == []


def test_a_hidden_gpu_is_refused():
    made = ask(machine("NV12", 4), job(actor(gpu_menu=(2,))))
    found = problems(plan(made).plan, ask(machine("NV12", 4), job(actor(gpu_menu=(2,))), visible=[2, 3]))
    assert any("GPU 0" in said and "(rule visible)" in said for said in found)


@pytest.mark.parametrize(
    ("asked", "says"),
    [({"gpu_menu": (1, 3)}, "1 or 3"), ({"min_gpus": 3}, "3 or more"), ({"max_gpus": 1}, "1 or fewer")],
)
def test_the_users_own_sizes_are_always_hard(asked, says):
    made = ask(machine("NV12", 4), job(actor(gpu_menu=(2,)), ref()), "colocate")
    plan_ = plan(made).plan
    assert problems(plan_, made) == []
    found = problems(plan_, ask(machine("NV12", 4), job(actor(**asked), ref()), "colocate"))
    assert any(f"asks for {says}" in said for said in found)


@pytest.mark.parametrize(("asked", "replaces"), [({"min_gpus": 1}, True), ({"gpu_menu": (1, 2)}, True), ({"max_gpus": 2}, False)])
@pytest.mark.parametrize("gpus", [5, 6])
def test_a_least_number_of_the_workload_takes_the_place_of_min_gpus(gpus, asked, replaces):
    first = actor(gpu_menu=(gpus - 1,))
    plan_ = plan(ask(machine("NV12", gpus), job(first, critic(), ref()), "min_gpus=off")).plan
    assert len(plan_.device_map["critic"]) == 1
    found = problems(plan_, ask(machine("NV12", gpus), job(first, critic(**asked), ref())))
    assert replaces != any("rule min_gpus" in said for said in found)


@pytest.mark.parametrize(
    ("what", "other"),
    [
        ("tp", tp(2)),
        ("dp", actor(layout=LayoutMenu(dp=(2,)))),
        ("pp", actor(engine=Engine.MEGATRON, layout=LayoutMenu(pp=(2,)))),
        ("master", actor(train=train(master=(Master.BF16,)))),
        ("offload", actor(train=train(offload=(Offload.ALWAYS,)))),
        ("micro_batch_tokens", actor(train=train(micro_batch_tokens=(1024,)))),
        ("gpu_memory_utilization", actor(rollout=rollout(share=0.3))),
        ("rollout tp", actor(rollout=rollout(2))),
        ("precision", actor(precision=(Precision.FP16,))),
        ("zero", actor(train=train(zero=(2,)))),
        ("sp", actor(layout=LayoutMenu(sp=(2,)))),
        ("ep", actor(layout=LayoutMenu(ep=(2,)))),
        ("quantization", actor(rollout=dataclasses.replace(rollout(), quantization=(Quantization.FP8,)))),
        ("kv_cache", actor(rollout=dataclasses.replace(rollout(), kv_cache=(KvCache.FP8,)))),
        ("the engine", actor(engine=Engine.MEGATRON)),
    ],
)
def test_a_choice_that_is_on_no_menu_is_refused(what, other):
    made = ask(machine("NV12", 4), job(actor(gpu_menu=(4,))))
    plan_ = plan(made).plan
    assert problems(plan_, made) == []
    found = problems(plan_, ask(machine("NV12", 4), job(other)))
    assert any(f"actor has {what} " in said and "its menu has" in said for said in found)


def test_a_type_is_taken_in_the_users_order():
    made = ask(machine("NV12", 1), job(actor(precision=(Precision.FP16,))))
    found = problems(plan(made).plan, ask(machine("NV12", 1), job(actor())))
    assert any("although its cards run bf16" in said for said in found)


# ── what no rule switches off ───────────────────────────────────────────────────────────────────────────────────────────


def changed(plan_, role, **changes):
    """Return a plan in which one role is described otherwise."""
    return plan_.replace(roles={**plan_.roles, role: dataclasses.replace(plan_.roles[role], **changes)})


def ordered(plan_, **orders):
    """Return a plan in which roles have their GPUs in other orders."""
    maps = {**plan_.device_map, **orders}
    visible = plan_.environment["CUDA_VISIBLE_DEVICES"].split(",")
    ordinals = {role: tuple(visible.index(str(g)) for g in gpus) for role, gpus in maps.items()}
    return plan_.replace(device_map=maps, ordinals=ordinals)


def test_roles_of_a_pool_have_one_rank_order():
    question = ask(bridged_pairs(), job(tp(2, gpu_menu=(4,)), ref()), "colocate,contiguity=off")
    plan_ = ordered(plan(question).plan, actor=(0, 1, 2, 3), ref=(0, 1, 2, 3))
    assert not any("rank order" in said for said in problems(plan_, question))
    found = problems(ordered(plan_, ref=(0, 2, 1, 3)), question)
    assert any("different rank orders" in said for said in found)


def test_blocks_follow_their_smallest_id_and_ascend():
    question = ask(bridged_pairs(), job(tp(2, gpu_menu=(4,))))
    plan_ = plan(question).plan
    assert plan_.device_map["actor"] == (0, 2, 1, 3)
    assert problems(plan_, question) == []
    assert any("none that its TP blocks explain" in said for said in problems(ordered(plan_, actor=(1, 3, 0, 2)), question))
    assert any("[2, 0] of actor do not ascend" in said for said in problems(ordered(plan_, actor=(2, 0, 1, 3)), question))


def test_cards_of_one_chip_may_differ_by_five_percent():
    topology = machine("NV12", 2)

    def sized(mib):
        return topology.replace(gpus=(topology.gpus[0].replace(memory_mib=mib), topology.gpus[1].replace(memory_mib=60768)))

    work = job(actor(gpu_menu=(2,)))
    near = ask(sized(63768), work)
    assert near.machine.capacity_mib == (63000, 60000)
    assert problems(plan(near).plan, near) == []
    far = ask(sized(63769), work, "same_card=off")
    assert problems(plan(far).plan, far) == []
    assert any("more than 5 % apart (rule same_card)" in said for said in problems(plan(far).plan, ask(sized(63769), work)))


def test_a_model_that_cannot_be_cut_is_refused():
    question = ask(machine("NV12", 3), job(ref(gpu_menu=(3,), layout=LayoutMenu(tp=(1, 3)))))
    plan_ = changed(plan(question).plan, "ref", layout=Layout(3, 1, 1))
    assert any("cannot be cut by tp 3" in said for said in problems(plan_, question))


def test_no_pipeline_has_more_stages_than_layers():
    flat = ref(model=dataclasses.replace(TINY, layers=1), engine=Engine.MEGATRON, gpu_menu=(2,), layout=LayoutMenu(pp=(1, 2)))
    question = ask(machine("NV12", 2), job(flat))
    plan_ = changed(plan(question).plan, "ref", layout=Layout(1, 2, 1))
    assert any("fewer than its 2 pipeline stages" in said for said in problems(plan_, question))


def test_ranks_without_a_sequence_are_refused():
    made = ask(machine("NV12", 2), job(ref(gpu_menu=(2,))))
    few = dataclasses.replace(BATCH, prompts=1, minibatches=1)
    found = problems(plan(made).plan, ask(machine("NV12", 2), job(ref(gpu_menu=(2,)), batch=few)))
    assert any("ref cannot run" in said for said in found)


@pytest.mark.parametrize(
    ("role", "engine"),
    [
        (actor(precision=(Precision.FP16,), train=train(offload=(Offload.BETWEEN,)), rollout=rollout(share=0.65)), "vllm"),
        (ref(precision=(Precision.FP16,), engine=Engine.MEGATRON), "megatron"),
    ],
)
def test_each_engine_needs_a_card_that_runs_it(role, engine):
    topology = machine("NV1", 4, "p100-16gb")
    plan_ = plan(ask(topology, job(role), "supported=off")).plan
    found = problems(plan_, ask(topology, job(role)))
    assert any(f"uses {engine}, which needs" in said and "(rule supported)" in said for said in found)
    assert len(found) == 2      # and the rules that the map records
    assert any("rules" in said for said in found)


@pytest.mark.parametrize(("gpus", "says"), [((), "actor has no GPU"), ((1, 1), "actor repeats a GPU: [1, 1]")])
def test_a_role_has_gpus_and_each_once(gpus, says):
    question = ask(machine("NV12", 2), job(actor(gpu_menu=(2,))))
    assert says in problems(ordered(plan(question).plan, actor=gpus), question)


def test_a_gpu_that_no_source_names_is_not_used():
    question = ask(machine("NV12", 3), job(actor(gpu_menu=(2,))), "free")
    found = plan(question).plan
    gpus = tuple(gpu.replace(is_named=gpu.index != found.device_map["actor"][0]) for gpu in question.machine.topology.gpus)
    phantom = ask(question.machine.topology.replace(gpus=gpus), job(actor(gpu_menu=(2,))), "free")
    assert any("no source names" in said for said in problems(found, phantom))
