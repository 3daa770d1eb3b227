"""
Sequence and expert parallelism, ZeRO stages and 8-bit engines, from the menu to the map and back.

The best of all plans is found by trying them (`brute_force`), in words of its own, as for every other menu.
"""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import pytest
from brute_force import optimum
from conftest_placement import TINY, actor, ask, bridged_pairs, job, machine, ref, rollout, train
from hypothesis import given, settings
from hypothesis import strategies as st
from random_questions import Asked, asked

from placement.checking import problems
from placement.maps import devicemap
from placement.planner import plan
from placement.plans import Plan
from placement.program.lift import TERM_NAMES
from placement.workloads.workload import (
    Engine,
    KvCache,
    LayoutMenu,
    Master,
    Offload,
    Quantization,
    Recompute,
    Role,
)

MIXTURE = dataclasses.replace(TINY, name="mixture", active_parameters=TINY.parameters * 3 // 4, experts=4, experts_per_token=2)


def other_menus(draw: st.DrawFn, role: Role) -> Role:
    """Give *role* a menu of what few jobs need."""
    if role.engine is Engine.MEGATRON:
        kept = draw(st.sampled_from([None, Recompute.FULL]))
        menu = role.train and replace(role.train, distributed_optimizer=draw(st.booleans()), recompute=kept, fp8=draw(st.booleans()))
        model = role.model
        assert model is not None
        mixture = replace(model, active_parameters=model.parameters * 3 // 4, experts=4, experts_per_token=2)
        return role.replace(model=mixture, train=menu, layout=replace(role.layout, ep=draw(st.sampled_from([(1,), (1, 2), (2,)]))))
    kept = draw(st.sampled_from([None, Recompute.SELECTIVE, Recompute.NONE]))
    menu = role.train and replace(role.train, zero=draw(st.sampled_from([(3,), (2,), (3, 1), (1, 2)])), recompute=kept)
    if role.engine is Engine.FSDP:
        sizes = [(2,), (2,), (2, 1), (1,)] if role.train is not None else [(1,), (1, 2)]
        role = role.replace(layout=replace(role.layout, sp=draw(st.sampled_from(sizes))))
    return role.replace(train=menu)


@st.composite
def questions(draw: st.DrawFn, *, gpus: int, roles: int) -> Asked:
    question = draw(asked(gpus=gpus, roles=roles, short=roles > 1))
    changed = []
    for role in question.workload.roles:
        if role.model is None:
            changed.append(role)
            continue
        role = other_menus(draw, role)
        if role.rollout is not None:
            stored = draw(st.sampled_from([(Quantization.NONE,), (Quantization.NONE, Quantization.FP8), (Quantization.FP8,)]))
            cached = draw(st.sampled_from([(KvCache.AUTO,), (KvCache.FP8,)]))
            role = role.replace(rollout=replace(role.rollout, quantization=stored, kv_cache=cached))
        changed.append(role)
    # Most cards that are drawn have no 8-bit floats, and two roles that must be apart leave few GPUs to share anything.
    rules = draw(st.sampled_from([question.rules, "free,supported=off", "free,supported=off", "minimal,supported=off"]))
    return replace(question, workload=question.workload.replace(roles=tuple(changed)), rules=rules)


@pytest.mark.parametrize(("gpus", "roles", "examples"), [(2, 1, 25), (2, 2, 20), (4, 1, 15)])
def test_no_better_plan_is_overlooked(gpus: int, roles: int, examples: int) -> None:
    """Terms are those of the best of all plans; the map reads back, and the checker finds nothing."""
    found: list[Plan] = []

    @settings(max_examples=examples)
    @given(questions(gpus=gpus, roles=roles))
    def agree(question: Asked) -> None:
        best = optimum(question)
        answer = plan(question.instance).plan
        assert (answer is None) is (best is None)
        if answer is None or best is None:
            return
        found.append(answer)
        assert [(t.name, t.value) for t in answer.proof.objective_terms if t.name in dict(best)] == best
        assert problems(answer, question.instance) == []
        assert devicemap.load(devicemap.dump(answer)) == answer

    agree()
    assert set(TERM_NAMES.values()) >= {t.name for answer in found for t in answer.proof.objective_terms}
    assert len(found) >= examples // 4
    if roles > 1:       # questions come in few kinds; one role asks about everything
        return
    chosen = [role for answer in found for role in answer.roles.values()]
    assert any(role.train and role.train.zero for role in chosen)
    assert any(role.layout.sp for role in chosen)
    assert any(role.rollout and (role.rollout.quantization or role.rollout.kv_cache) for role in chosen)


def test_ranks_that_share_sequences_lie_on_bridged_pairs() -> None:
    """Blocks of shared sequences obey the rules of TP blocks: two bridged pairs, not two halves."""
    question = ask(bridged_pairs(), job(actor(layout=LayoutMenu(sp=(2,)), gpu_menu=(4,))))
    found = plan(question).plan
    assert found is not None
    assert found.device_map["actor"] == (0, 2, 1, 3)
    assert found.roles["actor"].layout == dataclasses.replace(found.roles["actor"].layout, tp=1, pp=1, dp=2, sp=2, ep=None)
    assert problems(found, question) == []


def test_experts_are_shared_where_memory_is_short() -> None:
    """A mixture whose experts fit only when ranks share them; the first size of the menu would not."""
    role = actor(
        model=MIXTURE, engine=Engine.MEGATRON, layout=LayoutMenu(ep=(1, 2)), gpu_menu=(2,),
        train=train(master=(Master.FP32,), offload=(Offload.NONE,)),
    )  # fmt: skip
    question = ask(machine("NV12", 2), job(role))
    roomy = plan(question).plan
    assert roomy is not None
    assert roomy.roles["actor"].layout.ep is None
    alone, shared = (
        plan(ask(machine("NV12", 2), job(role.replace(layout=LayoutMenu(ep=(ep,)))))).plan for ep in (1, 2)
    )
    assert alone is not None
    assert shared is not None
    assert shared.memory_mib[0].planned <= alone.memory_mib[0].planned
    assert shared.roles["actor"].layout.ep == 2
    assert not any("every expert" in said for said in roomy.estimate.assumptions)     # on the menu, but not chosen
    assert any("every expert gets as many tokens" in said for said in shared.estimate.assumptions)
    assert not any("every expert" in said for said in alone.estimate.assumptions)


def test_a_map_says_what_is_not_the_default() -> None:
    role = actor(
        layout=LayoutMenu(sp=(2,)), gpu_menu=(4,), train=train(zero=(2,)),
        rollout=replace(rollout(), quantization=(Quantization.FP8,), kv_cache=(KvCache.FP8,)),
    )  # fmt: skip
    question = ask(machine("NV18", 4, "h100-80gb"), job(role, ref(layout=LayoutMenu(sp=(2,)), gpu_menu=(4,))), "free")
    found = plan(question).plan
    assert found is not None
    document = devicemap.to_document(found)["roles"]
    assert document["actor"]["layout"] == {"tp": 1, "pp": 1, "dp": 2, "sp": 2}
    assert document["actor"]["train"]["zero"] == 2
    assert (document["actor"]["rollout"]["quantization"], document["actor"]["rollout"]["kv_cache"]) == ("fp8", "fp8")
    assert document["ref"]["layout"]["sp"] == 2
    assert any("8-bit weights" in said for said in found.estimate.assumptions)
    assert devicemap.load(devicemap.dump(found)) == found
    assert problems(found, question) == []
    plain = plan(ask(machine("NV18", 4, "h100-80gb"), job(actor(gpu_menu=(4,))), "free")).plan
    assert plain is not None
    document = devicemap.to_document(plain)["roles"]["actor"]
    assert (set(document["layout"]), set(document["train"])) == ({"tp", "pp", "dp"}, {"master", "offload", "micro_batch_tokens"})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"layout": {"sp": 0}}, "sp 0 of actor does not fill 2 GPUs", id="sp 0"),
        pytest.param({"layout": {"sp": 2}}, "sp 2 of actor does not fill 2 GPUs", id="sp beside dp"),
        pytest.param({"layout": {"ep": 0}}, "of actor does not fill 2 GPUs", id="ep 0"),
        pytest.param({"layout": {"ep": 2}}, "actor has ep 2, its menu has 1", id="ep off the menu"),
        pytest.param({"train": {"zero": 0}}, "actor has zero 0, its menu has 3", id="zero 0"),
        pytest.param({"train": {"zero": 2}}, "actor has zero 2, its menu has 3", id="zero off the menu"),
        pytest.param({"rollout": {"quantization": "fp4"}}, "actor has quantization fp4, its menu has none", id="fp4"),
        pytest.param({"rollout": {"kv_cache": "fp8"}}, "actor has kv_cache fp8, its menu has auto", id="8-bit cache"),
    ],
)
def test_a_map_that_was_changed_by_hand_is_refused(changes: dict[str, dict[str, object]], says: str) -> None:
    question = ask(machine("NV12", 2), job(actor(gpu_menu=(2,))))
    found = plan(question).plan
    assert found is not None
    role = found.roles["actor"]
    parts = {part: replace(getattr(role, part), **fields) for part, fields in changes.items()}
    wrong = found.replace(roles={**found.roles, "actor": replace(role, **parts)})
    assert any(says in said for said in problems(wrong, question))
