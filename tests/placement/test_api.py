"""What a caller of the Python interface meets when a part is wrong: one kind of error, one sentence, no surprise later."""

from __future__ import annotations

import pathlib

import pytest

import placement
from placement.errors import InputError, MachineError

MACHINE, JOB, RULES = "dgx-a100-80gb", "ppo-7b", "guide"


def parts():
    return placement.read_machine(MACHINE), placement.load_workload(JOB), placement.parse_rules(RULES)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda: placement.read_machine("nope"), id="no such machine"),
        pytest.param(lambda: placement.read_machine("no/such/file.txt"), id="no such file"),
        pytest.param(lambda: placement.read_machine("a.txt++"), id="joins nothing"),
        pytest.param(lambda: placement.read_machine(MACHINE, cards="a100-41gb"), id="no such card"),
        pytest.param(lambda: placement.load_workload("nope"), id="no such workload"),
        pytest.param(lambda: placement.parse_rules("nope"), id="no such rule"),
        pytest.param(lambda: placement.load("nope: 1"), id="no map"),
    ],
)
def test_one_except_clause_catches_every_error_of_reading(wrong):
    with pytest.raises(placement.PlacementError):
        wrong()


def test_an_error_of_a_machine_is_also_the_readers_own_and_keeps_its_place(tmp_path):
    (tmp_path / "topo.txt").write_text("hello\nworld\n")
    with pytest.raises(placement.TopologyError) as error:
        placement.read_machine(str(tmp_path / "topo.txt"))
    assert isinstance(error.value, InputError)
    assert isinstance(error.value, MachineError)
    assert error.value.where == f"{tmp_path}/topo.txt:1"
    assert str(error.value).count("topo.txt:1") == 1


def test_a_path_is_a_source(tmp_path):
    from topologies.catalog import machine_text

    path = pathlib.Path(tmp_path / "machine.txt")
    path.write_text(machine_text("a100-1"))
    assert placement.read_machine(path) == placement.read_machine(str(path))


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("value", [b"", 7, {}, "x"])
def test_a_part_that_is_none_is_refused_with_what_makes_one(position, value):
    arguments = list(parts())
    arguments[position] = value
    with pytest.raises(InputError, match=r"^make_instance takes .*placement\.\w+") as refusal:
        placement.make_instance(*arguments)
    assert f"placement.{('read_machine', 'load_workload', 'parse_rules')[position]}" in str(refusal.value)


def test_names_in_place_of_parts_are_answered_with_the_call_that_reads_them():
    with pytest.raises(InputError, match=r"not 'dgx-a100-80gb': call placement\.read_machine\('dgx-a100-80gb'\)"):
        placement.make_instance(MACHINE, JOB, RULES)


def test_an_objective_may_be_its_name():
    named = placement.make_instance(*parts(), objective="gpus")
    assert named == placement.make_instance(*parts(), objective=placement.Objective.GPUS)
    assert named.objective is placement.Objective.GPUS


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("objective", "gpu"), ("objective", None), ("objective", 1), ("visible", "0,1"), ("visible", ["0"]), ("visible", [True]),
        ("visible", 3), ("within_percent", "2"), ("within_percent", None), ("within_percent", True),
    ],
)
def test_a_wrong_option_is_named_at_once(option, value):
    with pytest.raises(InputError, match=option):
        placement.make_instance(*parts(), **{option: value})


def test_the_options_of_planning_are_public():
    outcome = placement.plan(
        placement.make_instance(placement.read_machine("a100-1"), placement.load_workload("grpo-1.5b"), parts()[2]),
        solver=placement.SolverName.GREEDY,
        options=placement.Options(time_limit_s=20.0),
    )
    assert outcome.plan is not None


def test_without_rules_those_of_the_workload_hold():
    topology, job = placement.read_machine("hgx-a100-4"), placement.load_workload("grpo-1.5b")
    asked = placement.make_instance(topology, job.replace(rules="colocate,reserve=8%"))
    assert asked.rules == placement.parse_rules("colocate,reserve=8%")
    assert placement.make_instance(topology, job.replace(rules=None)).rules == placement.parse_rules("guide")
