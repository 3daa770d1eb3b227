"""The check of a plan: right plans pass, and every field of a map is judged."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_type_hints

import pytest
from conftest_placement import TINY, actor, ask, critic, job, machine, ref, reward, rollout, two_switches

from placement import plans
from placement.catalog import load_workload
from placement.checking import problems
from placement.planner import plan
from placement.plans import Plan
from placement.program.instance import Instance, Objective, make_instance
from placement.workloads.rules import PRESETS, parse_rules
from placement.workloads.workload import Engine, LayoutMenu, Role, RoleName, Schedule
from topologies import sources
from topologies.parts import Host

FREE_TEXT = ("verdict", "estimate.assumptions", "comparison", "inputs.version")
"""Fields that hold words, or what another plan takes; the verdict and the price have tests of their own."""


def test_it_knows_no_solver_and_none_of_the_tables_that_it_judges():
    code = "import placement.checking, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    tables = {f"placement.program.{name}" for name in ("lower", "candidates", "menu", "lift")} | {"placement.planner"}
    assert "placement.checking" in loaded
    assert not {name for name in loaded if name.split(".")[0] in ("solvers", "ortools") or name in tables}


def shipped(machine_name: str, workload_name: str, rules: str) -> Instance:
    """Return a shipped question."""
    return make_instance(sources.load(machine_name), load_workload(workload_name), parse_rules(rules))


@pytest.mark.parametrize(
    ("machine_name", "workload_name", "preset"),
    [
        *(("dgx-a100-80gb", "ppo-1.5b", preset) for preset in PRESETS),
        *(("a100-pcie-mixed-8", "ppo-0.5b", preset) for preset in PRESETS),
        ("a100-1", "grpo-1.5b", "guide"),
        ("a100-pcie-mixed-4", "ppo-7b", "four"),
        ("a6000-4", "ppo-1.5b", "guide"),
        ("ac922-v100-4", "ppo-0.5b", "guide"),
        ("dgx-1-v100", "grpo-7b", "guide"),
        ("dgx-a100-40gb", "grpo-32b", "guide"),
        ("dgx-b200", "ppo-70b", "guide"),
        ("dgx-h200", "ppo-13b", "minimal"),
        ("h100-nvl-4", "ppo-7b", "guide"),
        ("l40s-8", "ppo-1.5b", "strict"),
        ("rtx4090-8", "grpo-1.5b", "guide"),
    ],
)
def test_plans_of_what_is_shipped_have_no_problems(machine_name, workload_name, preset):
    question = shipped(machine_name, workload_name, preset)
    assert problems(plan(question).plan, question) == []


@pytest.mark.parametrize("objective", Objective)
def test_plans_of_any_objective_have_no_problems(objective):
    question = shipped("dgx-1-v100", "ppo-0.5b", "guide").replace(objective=objective)
    assert problems(plan(question).plan, question) == []


# ── every field is judged ───────────────────────────────────────────────────────────────────────────────────────────────


def hybrid() -> Instance:
    """Return a question of four roles on one pool and more, with TP blocks."""
    roles = (actor(layout=LayoutMenu(tp=(2,)), rollout=rollout(2)), critic(), ref(), reward())
    return ask(two_switches(), job(*roles))


def separate() -> Instance:
    """Return a question with a rollout of its own, lanes, other processes, hidden GPUs and a host of known memory."""
    topology = machine("NV12", 6)
    held = topology.replace(
        gpus=(topology.gpus[0].replace(memory_used_mib=1500), *topology.gpus[1:]), host_facts={None: Host(256 * 1024)}
    )
    tps = (2, 1)
    generator = Role(
        RoleName.ROLLOUT, TINY, engine=Engine.VLLM, gpu_menu=(2,), layout=LayoutMenu(tp=tps), rollout=rollout(*tps)
    )
    work = job(actor(rollout=None, max_gpus=2), generator, ref(), schedule=Schedule.ASYNC)
    return ask(held, work, "guide,busy=2GiB", visible=[0, 1, 2, 4, 5], objective=Objective.BANDWIDTH)


def mutants(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield *value* with one thing changed, and where: numbers by one, texts by a letter, entries left out."""
    if dataclasses.is_dataclass(value):
        hints = get_type_hints(type(value), vars(plans))
        for field in dataclasses.fields(value):
            own = getattr(value, field.name)
            changed = list(mutants(own, f"{path}.{field.name}".lstrip(".")))
            if own is not None and type(None) in get_args(hints[field.name]):
                changed.append((f"{path}.{field.name}=None".lstrip("."), None))
            yield from ((where, dataclasses.replace(value, **{field.name: new})) for where, new in changed)
    elif isinstance(value, Mapping):
        for key, own in value.items():
            for where, new in mutants(own, f"{path}.{key}"):
                yield where, {**value, key: new}
            yield f"{path} without {key}", {k: v for k, v in value.items() if k != key}
    elif isinstance(value, tuple | list):
        for k, own in enumerate(value):
            for where, new in mutants(own, f"{path}[{k}]"):
                yield where, type(value)([*value[:k], new, *value[k + 1 :]])
            yield f"{path} without [{k}]", type(value)([*value[:k], *value[k + 1 :]])
    elif isinstance(value, bool):
        yield path, not value
    elif isinstance(value, int):
        yield from ((f"{path}{by:+}", value + by) for by in (-1, 1, 7))
    elif isinstance(value, float):
        yield path, value + 0.05
    elif isinstance(value, str):
        yield path, value + "?"


@pytest.mark.parametrize("question", [hybrid(), separate()], ids=["hybrid", "separate"])
def test_every_field_of_a_map_is_judged(question):
    right = plan(question).plan
    assert problems(right, question) == []
    listed = [(where, wrong) for where, wrong in mutants(right) if not where.startswith(FREE_TEXT)]
    assert len(listed) > 300
    assert [where for where, wrong in listed if not problems(wrong, question)] == []


def right() -> tuple[Instance, Plan]:
    """Return a question and its plan."""
    question = hybrid()
    return question, plan(question).plan


@pytest.mark.parametrize(
    ("old", "new"),
    [("optimal:", "feasible:"), (" GPUs", " gpus"), (" s a step", "9 s a step"), ("on ", "on 1"), (": ", ": 1"), (": ", ": 0.")],
)
def test_a_verdict_that_differs_from_the_map_is_found(old, new):
    question, plan_ = right()
    assert old in plan_.verdict
    found = problems(plan_.replace(verdict=plan_.verdict.replace(old, new, 1)), question)
    assert len(found) == 1
    assert "verdict" in found[0]


@pytest.mark.parametrize("than", ["with them", "with all roles colocated"])
def test_lifting_rules_cannot_make_a_step_longer(than):
    question, plan_ = right()
    comparison = plan_.comparison
    if than == "with them":
        free = dataclasses.replace(comparison.free, step_us=plan_.proof.objective + 1)
        comparison = plans.Comparison(free, plans.Alternative(None, "does not fit"))
    else:
        less = comparison.free.step_us - 1
        comparison = plans.Comparison(comparison.free, plans.Alternative(less, "optimal"))
    found = problems(plan_.replace(comparison=comparison), question)
    assert len(found) == 1
    assert than in found[0]


def test_lifting_rules_cannot_worsen_what_comes_first():
    question = hybrid().replace(objective=Objective.GPUS)
    plan_ = plan(question).plan
    free = plan_.comparison.free
    assert free.note == "optimal"
    worse = dataclasses.replace(free, first_term=plan_.proof.objective_terms[0].value + 1)
    found = problems(plan_.replace(comparison=dataclasses.replace(plan_.comparison, free=worse)), question)
    assert len(found) == 1
    assert "worse than with them" in found[0]


def test_a_plan_outside_the_band_is_found():
    wide = shipped("dgx-a100-80gb", "ppo-7b", "guide")
    plan_ = plan(wide).plan
    assert plan_.estimate.step_us > plan_.proof.objective
    narrow = wide.replace(within_percent=0.0)
    assert any("0 % above the shortest" in said for said in problems(plan_, narrow))
    assert not any("above the shortest" in said for said in problems(plan_, wide))


def test_swapped_roles_are_found():
    question, plan_ = right()
    maps, ordinals = dict(plan_.device_map), dict(plan_.ordinals)
    maps["actor"], maps["critic"] = maps["critic"], maps["actor"]
    ordinals["actor"], ordinals["critic"] = ordinals["critic"], ordinals["actor"]
    assert maps != plan_.device_map
    assert problems(plan_.replace(device_map=maps, ordinals=ordinals), question)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"capacity": 9, "free": 9}, "the map says"),
        ({"reserved": -9, "free": 9}, "are not for plans (rule reward_reserve)"),
        ({"planned": -9, "free": 9}, "the memory model says"),
        ({"free": 9}, "MiB free are not"),
    ],
)
def test_a_memory_row_is_compared_with_the_machine_and_the_model_not_only_with_itself(changes, says):
    question = ask(machine("NV12", 2), job(actor(), reward()), "colocate")
    plan_ = plan(question).plan
    row = plan_.memory_mib[0]
    wrong = dataclasses.replace(row, **{name: getattr(row, name) + by for name, by in changes.items()})
    found = problems(plan_.replace(memory_mib=(wrong, *plan_.memory_mib[1:])), question)
    assert any("GPU 0" in said and says in said for said in found)


@pytest.mark.parametrize("rule", ["reserve", "reward_reserve"])
def test_a_gpu_that_holds_more_than_is_left_is_refused_by_the_rule_that_asks_for_room(rule):
    work = job(actor(), reward())
    made = ask(machine("NV12", 2), work, "colocate,reserve=off,reward_reserve=off")
    switch = "reserve=70%,reward_reserve=off" if rule == "reserve" else "reward_reserve=70%"
    found = problems(plan(made).plan, ask(machine("NV12", 2), work, f"colocate,{switch}"))
    assert any(f"must stay free are fewer (rule {rule})" in said for said in found)


def test_a_step_is_compared_with_the_cost_model_not_only_with_the_proof():
    question, plan_ = right()
    proof, step = plan_.proof, plan_.estimate.step_us - 1
    terms = (*proof.objective_terms[:-1], plans.TermValue("step_us", step, step))
    wrong = plan_.replace(
        estimate=dataclasses.replace(plan_.estimate, step_us=step),
        proof=dataclasses.replace(proof, objective_terms=terms),
    )
    assert any(f"the map says a step of {step}" in said for said in problems(wrong, question))


def test_a_step_shorter_than_its_bound_is_found():
    question, plan_ = right()
    proof, above = plan_.proof, plan_.estimate.step_us + 1
    terms = (plans.TermValue("step_us", above, above), *proof.objective_terms[1:])
    wrong = dataclasses.replace(proof, objective=above, bound=above, objective_terms=terms)
    found = problems(plan_.replace(proof=wrong), question)
    assert len(found) == 1
    assert "shorter than the proof says is possible" in found[0]


def test_the_layout_of_a_rollout_is_that_of_its_engines():
    question = separate()
    plan_ = plan(question).plan
    role = plan_.roles["rollout"]
    other = plans.Layout(role.layout.dp, 1, role.layout.tp)
    assert other != role.layout
    found = problems(plan_.replace(roles={**plan_.roles, "rollout": dataclasses.replace(role, layout=other)}), question)
    assert any("differs from its engines" in said for said in found)
