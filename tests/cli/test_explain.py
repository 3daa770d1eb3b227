"""
The page of `placement explain`, and what it refuses.

``python tests/cli/test_explain.py`` writes the golden page anew; read what changed before you commit it.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from pathlib import Path

import pytest

from placement.catalog import load_workload
from placement.choices.choices import Part
from placement.cli import explain as command
from placement.cli import held, options
from placement.cli.explain import document, page
from placement.cli.table import rendered
from placement.cli.turns import given, loss, turning
from placement.constants.table import is_of_links, sources
from placement.errors import InputError
from placement.explaining.memory_table import Held, Moment, memory_table
from placement.explaining.quantities import quantities
from placement.explaining.sensitivity import Change, Sensitivity, Turn, sensitivity
from placement.machines.sources import read_machine
from placement.maps.devicemap import dump
from placement.planner import plan
from placement.program.instance import make_instance
from placement.workloads.rules import parse_rules
from placement.workloads.workload import RoleName
from solvers import cpsat
from solvers.result import Options

GOLDEN = Path(__file__).with_name("golden") / "explain-mixed.txt"
FIGURES = {"moved_percent": 20.0, "band_percent": 2.0}


@functools.cache
def asked():
    """Return a question on a machine of two kinds of cards, on which roles could change places."""
    return make_instance(read_machine("a100-pcie-mixed-4"), load_workload("ppo-0.5b"), parse_rules("guide"))


@functools.cache
def moments():
    """Return what its plan holds when."""
    return memory_table(explained()[0], asked())


@functools.cache
def explained():
    """Return plan and sensitivity of that question."""
    question = asked()
    found = plan(question).plan
    return found, sensitivity(found, question, cpsat.solve, Options(time_limit_s=300))


def shown():
    found, rests = explained()
    return rendered(*page(found, moments(), rests, **FIGURES), stream=None)


def test_the_page_is_what_it_was():
    assert shown() == GOLDEN.read_text(encoding="utf-8")


def test_json_says_the_same_and_names_everything():
    found, rests = explained()
    said = json.loads(json.dumps(document(found, moments(), rests, **FIGURES)))
    part = said["sensitivity"]
    assert [stage["us"] for stage in said["stages"]] == [stage.us for stage in found.estimate.stages]
    names = [*dict.fromkeys(t["quantity"] for t in part["turns"]), *part["ties"], *part["holding"], *part["idle"]]
    assert len(names) == len(set(names))
    assert {name for name in sources() if not is_of_links(name)} <= set(names)
    assert (part["not_looked_at"], part["why_not"]) == ([], None)
    for turn in part["turns"]:
        assert (turn["side"] == "below") == (turn["turned"]["factor"] < turn["holds_at"])
        assert turn["inside_band"] == (max(turn[when]["regret_percent"] for when in ("turned", "at_end")) <= 2.0)
        assert (turn["costly"] is None) == (turn["at_end"]["regret_percent"] <= 2.0)
        if turn["costly"] is not None:
            assert turn["costly"]["regret_percent"] > 2.0
            assert abs(turn["turned"]["factor"] - 1) <= abs(turn["costly"]["factor"] - 1) <= abs(turn["at_end"]["factor"] - 1)
        assert turn["given_by"]


def test_memory_is_that_of_the_map_and_adds_up():
    found, rests = explained()
    groups = document(found, moments(), rests, **FIGURES)["memory"]
    assert sorted(gpu for group in groups for gpu in group["gpus"]) == list(found.used_gpus)
    planned = {row.gpu: (row.worst_phase, row.planned) for row in found.memory_mib}
    text = rendered(*held.memory(found, moments()), stream=None)
    for group in groups:
        needs = {moment["name"]: moment["mib"] for moment in group["moments"]}
        assert all(sum(sum(each["mib"].values()) for each in m["held"]) == m["mib"] for m in group["moments"])
        for gpu in group["gpus"]:
            worst, mib = planned[gpu]
            assert (needs[worst], max(needs.values())) == (mib, mib)
            assert f"at worst in {worst}, {mib}: " in text


def test_gpus_that_hold_the_same_stand_together():
    one, other = Held(RoleName.ACTOR, Part.TRAIN, {"weights": 5}), Held(RoleName.ACTOR, Part.TRAIN, {"weights": 6})
    found = held.alike([Moment(0, "load", (one,)), Moment(1, "load", (other,)), Moment(2, "load", (one,))])
    assert [(group.name, group.moments[0].mib) for group in found] == [("GPU 0,2", 5), ("GPU 1", 6)]


def explain(source, **changes):
    """Run the command in this process."""
    return command.run(source, **{"moved_percent": 20.0, "time_limit_s": 60.0, "as_json": False, **changes})


def test_a_map_from_a_file_and_from_standard_input_are_explained(placement, tmp_path):
    question = make_instance(read_machine("a100-1"), load_workload("grpo-1.5b"), parse_rules("guide"))
    text = dump(plan(question).plan)
    (tmp_path / "map.yaml").write_text(text)
    as_json = placement("explain", "map.yaml", "--json")
    assert (as_json.returncode, as_json.stderr) == (0, "")
    assert json.loads(as_json.stdout)["schema"] == "placement/explanation/v1"
    page_of = placement("explain", "-", "--move", "5", stdin=text)
    assert (page_of.returncode, page_of.stderr) == (0, "")
    assert "numbers moved by ±5 %, each alone" in page_of.stdout


@pytest.fixture(scope="module")
def text():
    return dump(explained()[0])


def test_a_refusal_has_its_exit_code(placement):
    process = placement("explain", "-", stdin="actor: [0, 1]\n")
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith("error: <stdin>: not a device map: it must start with `schema: placement/device-map/v1`")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("nope.yaml", "there is no device map 'nope.yaml'"),
        (".", "cannot read the device map: Is a directory"),
        ("ppo-7b", "ppo-7b is a workload, not a device map"),
        ("a100-1", "a100-1 is a topology, not a device map"),
        ("bytes", r"this is no text \(UTF-8\)"),
        ("nul\0byte", "cannot read the device map"),
        ("~nobody-of-that-name/map.yaml", "there is no device map"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path, monkeypatch, source, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=says):
        explain(source)


@pytest.mark.parametrize("moved", ["95", "0", "x", "-5"])
def test_how_far_numbers_move_has_its_limits(moved):
    with pytest.raises(InputError, match=r"--move cannot be '.*': it takes a percentage from 1 to 90"):
        options.percentage("--move", moved, least=1, most=90)


@pytest.mark.parametrize(
    ("version", "says"),
    [
        (None, r"the map is not right for the question that it records: .*, and \d more problems; write it anew with `placement plan"),
        ("0.0.0", r"the question that it records \(it was written by version 0\.0\.0, this is "),
    ],
)
def test_a_map_that_does_not_hold_is_refused(tmp_path, text, version, says):
    changed = re.sub(r"step_us: \d+", "step_us: 1", text, count=1)
    if version is not None:
        changed = re.sub(r'version: "[^"]*"', f'version: "{version}"', changed)
    (tmp_path / "map.yaml").write_text(changed)
    with pytest.raises(InputError, match=says):
        explain(str(tmp_path / "map.yaml"))


# ── words ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def uplink():
    """Return the PCIe class of a machine that has 25 GB/s of it."""
    question = make_instance(read_machine("dgx-a100-80gb"), load_workload("ppo-7b"), parse_rules("guide"))
    return next(q for q in quantities(question) if q.name == "PCIe")


def said(*turns, band_percent=2.0):
    return rendered(*turning(turns, band_percent), stream=None)


def test_turns_to_one_plan_stand_under_it():
    first, moved = Change(0.78, ("ref moves to GPUs 4-5",), -0.001), Change(0.75, ("ref moves to GPUs 4-7",), 0.024)
    costly = Turn(uplink(), 0.79, first, Change(0.5, ("ref moves to GPU 4",), 0.051), moved)
    plain = Turn(uplink(), 1.19, Change(1.2, ("ref moves to GPUs 4-7",), 0.004), Change(1.2, ("ref moves to GPUs 4-7",), 0.004))
    assert said(costly, plain) == """\
  ref moves to GPUs 4-7, when
number      now  holds to  turns at  loss over 2 % from  loss at the end
────────────────────────────────────────────────────────────────────────
PCIe, GB/s   25     19.75      19.5               18.75  5.1 % at 12.5
PCIe, GB/s   25     29.75        30                   –  0.4 % at 30
where staying loses no more than 2 % yet, another plan than the one named can come out (--json has
both)
"""
    assert not costly.is_inside(0.02)
    assert costly.is_inside(0.06)
    assert plain.is_inside(0.02)


def test_a_turn_that_leaves_no_room_or_no_plan_or_the_objective_says_so():
    gone = Change(1.2, (), None)
    assert said(Turn(uplink(), 1.19, gone, gone)) == """\
  there is no plan, when
number      now  holds to  turns at  loss at the end
────────────────────────────────────────────────────
PCIe, GB/s   25     29.75        30  no plan at 30
"""
    assert loss(Change(1.2, ("actor: offload between",), None)) == "no room to stay"
    more = Change(1.2, ("actor moves to GPU 0",), -0.1, (2, 1))
    assert loss(more) == "the objective (2 in place of 1), nothing of the step"
    assert loss(dataclasses.replace(more, first_term=None)) == "nothing"


def test_how_a_number_of_ones_own_is_given_is_said_with_its_name():
    question = make_instance(read_machine("dgx-a100-80gb"), load_workload("ppo-7b"), parse_rules("guide"))
    words = " ".join(rendered(*given(quantities(question)), stream=None).split())
    for how in (
        "numbers of your own: constants by name (--constants FILE); facts of the machine so:",
        "NVLink NV12: constant nvlink_gen3_x12_gb_per_s (--constants FILE)",
        "PCIe: constant pcie_gen4_p2p_gb_per_s (--constants FILE)",
        "FLOP/s of a100-80gb: in the topology's file: measured: gpus (`placement measure` writes it), matmul_tflops: 0.8",
        "memory bandwidth of a100-80gb: in the topology's file: measured: gpus (`placement measure` writes it), memory_gb_per_s: 0.9 of",
        "memory of a100-80gb: in the topology's file: gpus, memory_mib (",
    ):
        assert how in words
    assert not list(given(q for q in quantities(question) if q.is_constant))


@pytest.mark.parametrize(("schedule", "overlaps"), [("full", False), ("none", False), ("one_step_off", True), ("async", True)])
def test_shares_of_stages_that_overlap_say_so(schedule, overlaps):
    found, rests = explained()
    other = found.replace(estimate=dataclasses.replace(found.estimate, schedule=schedule))
    text = rendered(*page(other, moments(), rests, **FIGURES), stream=None)
    assert (f"stages overlap (schedule {schedule}): their shares can add up to more than the step" in text) == overlaps


def test_what_was_not_looked_at_is_named():
    found, _ = explained()
    late = rendered(*page(found, moments(), Sensitivity(not_looked_at=(uplink(),)), **FIGURES), stream=None)
    assert "not looked at for want of time (--time-limit): PCIe" in late
    assert "whether the choice holds is not known: no number was looked at, for want of time" in late
    link, *others = quantities(make_instance(read_machine("a100-1"), load_workload("ppo-0.5b")))
    some = Sensitivity(holding=tuple(others[:3]), not_looked_at=(link,), ties=(others[3],))
    words = " ".join(rendered(*page(found, moments(), some, **FIGURES), stream=None).split())
    assert "the choice holds for the 4 numbers that were looked at (by ±20 %, each alone); 1 was not, for want of time" in words
    assert f"a tie: another plan, no faster, when one of these moves: {others[3].name}" in words
    turn = Turn(uplink(), 1.19, Change(1.2, (), None), Change(1.2, (), None))
    turning = rendered(*page(found, moments(), Sensitivity(turns=(turn,), not_looked_at=(link, link)), **FIGURES), stream=None)
    assert "the choice holds but for these (1 number moved by ±20 %, each alone; 2 were not, for want of time)" in turning
    unproven = rendered(*page(found, moments(), Sensitivity(why_not="because"), **FIGURES), stream=None)
    assert unproven.rstrip().endswith("what the choice rests on was not looked at: because")


if __name__ == "__main__":
    GOLDEN.write_text(shown(), encoding="utf-8")
