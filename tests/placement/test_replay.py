"""A map is replayed into the question that it answers; what it lacks or has too much is refused where it stands."""

from __future__ import annotations

import pytest
from conftest_placement import ask, machine, topologies
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.catalog import load_workload
from placement.errors import InputError
from placement.machines.machine import NOT_NEEDED
from placement.machines.sources import read_machine
from placement.maps.devicemap import dump
from placement.maps.replay import replay
from placement.planner import SolverName, plan
from placement.program.instance import Objective
from placement.smallest.fewest import fewest_gpus
from solvers import cpsat
from solvers.result import Options

SWITCHES = ["contiguity=off", "same_card=off", "min_gpus=3", "sharing=partial", "reserve=9%", "busy=off", "reward_reserve=12.5%"]


@settings(max_examples=25)
@given(
    topologies(most=3),
    st.sampled_from(["grpo-1.5b", "ppo-0.5b"]),
    st.lists(st.sampled_from(["strict", "free", *SWITCHES]), max_size=3),
    st.sampled_from(list(Objective)),
)
def test_the_question_of_a_map_is_the_one_that_was_asked(topology, job, rules, objective):
    visible = [g.index for g in topology.gpus if (g.memory_used_mib or 0) <= 2048] if objective is Objective.MEMORY else None
    question = ask(topology, load_workload(job), ",".join(["guide", *rules]), objective=objective, visible=visible, within_percent=2.5)
    found = plan(question, solver=SolverName.GREEDY).plan
    if found is not None:
        assert replay(dump(found)) == (found, question)


@pytest.mark.parametrize("name", ["a100-pcie-mixed-4", "ac922-v100-4", "hgx-a100-4", "a100-1", "dgx-h100"])
def test_shipped_machines_are_replayed(name):
    question = ask(read_machine(name), load_workload("grpo-1.5b"), "free")
    found = plan(question, solver=SolverName.GREEDY).plan
    assert replay(dump(found)) == (found, question)


@pytest.fixture(scope="module")
def text():
    return dump(plan(ask(machine("NV12", 2), load_workload("grpo-1.5b"), visible=[0, 1]), solver=SolverName.GREEDY).plan)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        pytest.param("  objective: step\n", "", "inputs lacks objective, so the map cannot be replayed", id="missing"),
        pytest.param("  objective: s", "  objectve: s", "does not know (did you mean 'objective'?)", id="unknown"),
        pytest.param("objective: step", "objective: stop", "objective cannot be 'stop' (did you mean 'step'?)", id="objective"),
        pytest.param("within_percent: 2.0", "within_percent: two", "within_percent is a number, not 'two'", id="band"),
        pytest.param("within_percent: 2.0", "within_percent: 200.0", "--within takes a percentage", id="wide band"),
        pytest.param("visible: [0, 1]", "visible: [0, x]", "visible is a list of physical GPU ids", id="visible"),
        pytest.param("visible: [0, 1]", "visible: [0, 9]", "names GPU 9; this machine has GPUs 0 to 1", id="no such GPU"),
        pytest.param("{preset: guide}", "{preset: gude}", "there is no preset 'gude' (did you mean 'guide'?)", id="preset"),
        pytest.param("{preset: guide}", "{preset: guide, reserv: 1%}", "there is no rule 'reserv'", id="rule"),
        pytest.param('"0-1": NV12', '"0-7": NV12', "inputs.topology: ", id="topology"),
        pytest.param("minibatches: 4", "minibatches: 0", "minibatches", id="workload"),
    ],
)
def test_what_cannot_be_replayed_is_refused_with_its_place(text, old, new, says):
    assert text.count(old) == 1
    with pytest.raises(InputError) as caught:
        replay(text.replace(old, new), name="map.yaml")
    assert says in str(caught.value)
    line = int(caught.value.where.split(":")[1])
    assert caught.value.where.startswith("map.yaml:")
    changed, inputs = text[: text.index(old)].count("\n"), text[: text.index("\ninputs:")].count("\n") + 1
    # What is missing, or makes no question together, is wrong where the inputs begin; a topology where it begins.
    assert line - 1 in {changed, inputs, inputs + 1, inputs + 3}


def test_gpus_that_the_smallest_set_leaves_out_are_replayed_as_such():
    question = fewest_gpus(ask(machine("NV12", 4), load_workload("grpo-1.5b"), "free"), cpsat.solve, Options()).tried[0].question
    found = plan(question, solver=SolverName.GREEDY).plan
    assert replay(dump(found)) == (found, question)
    assert question.machine.unusable == dict.fromkeys((1, 2, 3), NOT_NEEDED)
    with pytest.raises(InputError, match="not_needed is a list of physical GPU ids"):
        replay(dump(found).replace("not_needed: [1, 2, 3]", "not_needed: [1, x]"))
    with pytest.raises(InputError, match="not_needed names GPU 9; this machine has GPUs 0 to 3"):
        replay(dump(found).replace("not_needed: [1, 2, 3]", "not_needed: [1, 9]"))


def test_a_map_without_its_question_is_refused(text):
    with pytest.raises(InputError, match=r"map.yaml:1:1: the map does not record the question that it answers \(inputs\)"):
        replay(text[: text.index("inputs:")], name="map.yaml")


def test_what_stands_beside_the_plan_of_the_smallest_is_passed_over(text):
    assert replay(f"{text}smallest: [{{gpus: 1}}]\n") == replay(text)
