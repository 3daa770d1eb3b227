"""
`placement plan --smallest`: its table, its map, its exit codes, and the options that contradict it.

``python tests/cli/test_smallest.py`` writes the golden pages anew; read what changed before you commit them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from placement.catalog import load_workload
from placement.checking import problems
from placement.cli import EXIT_NO, EXIT_TIME
from placement.cli import plan as command
from placement.cli.smallest import Looked, answer, document, page
from placement.errors import InputError
from placement.machines.sources import read_machine
from placement.maps.devicemap import load
from placement.maps.replay import replay
from placement.planner import SolverName
from placement.program.instance import make_instance
from placement.smallest.cards import smallest_card
from placement.smallest.fewest import fewest_gpus
from placement.smallest.trial import Size, Smallest, Tried
from placement.workloads.rules import parse_rules
from solvers import cpsat
from solvers.result import Options

GOLDEN = Path(__file__).with_name("golden")
PAGES = (("gpus", "hgx-a100-4", "ppo-1.5b"), ("card", "hgx-a100-4", "ppo-7b"))
OPTIONS = Options(time_limit_s=300)


def found(size, machine, workload):
    topology, work = read_machine(machine), load_workload(workload)

    def ask(other):
        return make_instance(other, work, parse_rules("guide"))

    if size == "gpus":
        return fewest_gpus(ask(topology), cpsat.solve, OPTIONS)
    return smallest_card(topology, ask, cpsat.solve, OPTIONS)


def shown(size, machine, workload):
    return page(Size(size), found(size, machine, workload), stream=None)


@pytest.mark.parametrize(("size", "machine", "workload"), PAGES)
def test_the_page_is_what_it_was(size, machine, workload):
    assert shown(size, machine, workload) == (GOLDEN / f"smallest-{size}.txt").read_text(encoding="utf-8")


def test_numbers_of_gpus_that_do_not_do_for_one_reason_stand_together():
    def no(gpus, why):
        return Tried(gpus, tuple(range(gpus)), None, None, False, None, (why,), None)

    rows = (no(1, "ref on 1 GPU: too small"), no(2, "ref on 2 GPUs: too small"), no(3, "ref on 3 GPUs: too small"), no(4, "other"))
    assert page(Size.GPUS, Smallest(rows, None, None, ()), stream=None) == """\
the job fits on none of these:
GPUs  fits  shortest step  why not
─────────────────────────────────────────────────────
 1-3  no                –  ref on 1-3 GPUs: too small
   4  no                –  other
"""


def run(**changes):
    """Run the command in this process."""
    options = {
        "topology": ["a100-pcie-mixed-4"],
        "workload": "ppo-0.5b",
        "cards": None,
        "visible": None,
        "rules": [],
        "objective": "step",
        "smallest": "gpus",
        "within_percent": 2.0,
        "time_limit_s": 60.0,
        "solver": "cpsat",
        "workers": 1,
        "output": None,
        "force": False,
        "as_json": False,
    }
    return command.run(**{**options, **changes})


def test_the_map_of_the_fewest_gpus_is_on_standard_output_and_replays(placement):
    process = placement("plan", "--topology", "hgx-a100-4", "--workload", "grpo-1.5b", "--rules", "strict", "--smallest", "gpus")
    assert process.returncode == 0
    assert process.stderr.startswith("the job fits on 2 GPUs of this machine, and on no fewer\nGPUs  fits  ")
    plan, instance = replay(process.stdout)
    assert (plan.used_gpus, instance.visible, instance.not_needed) == ((0, 1), None, (2, 3))
    # Nobody hid the others: whoever replays the map is told what left them out.
    assert set(instance.machine.unusable.values()) == {"not needed (--smallest gpus)"}
    assert not problems(plan, instance)
    assert plan.environment["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_json_has_the_sizes_beside_the_plan_and_replays(capsys):
    assert run(smallest="card", topology=["a100-1"], workload="grpo-1.5b", as_json=True) == 0
    text = capsys.readouterr().out
    said = json.loads(text)
    rows = said["smallest"]
    assert [row["fits"] for row in rows] == [False] * (len(rows) - 1) + [True]
    assert set(rows[0]) == {"card", "memory_mib", "gpus", "on", "fits", "step_us", "why_not"}
    assert [row["memory_mib"] for row in rows] == sorted(row["memory_mib"] for row in rows)
    assert rows[-1]["step_us"] <= said["estimate"]["step_us"]
    plan, instance = replay(text)
    assert plan == load(text)
    assert instance.machine.cards[0].slug == rows[-1]["card"]
    assert f"every GPU is taken as {rows[-1]['card']}" in instance.machine.topology.warnings[-1]


def test_the_map_of_the_smallest_is_written_to_a_file(tmp_path, capsys):
    assert run(output=tmp_path / "map.yaml") == 0
    assert capsys.readouterr().out == ""
    assert len(load((tmp_path / "map.yaml").read_text()).used_gpus) >= 2


def test_cards_need_not_be_known_to_look_for_the_smallest(tmp_path, capsys):
    (tmp_path / "topo.txt").write_text("\tGPU0\tGPU1\nGPU0\t X \tNV12\nGPU1\tNV12\t X \n")
    source = {"topology": [str(tmp_path / "topo.txt")], "workload": "grpo-1.5b"}
    assert run(smallest="card", **source) == 0
    assert "in place of every GPU" in capsys.readouterr().err
    with pytest.raises(InputError, match="the card and memory of GPU 0 are unknown"):
        run(smallest="gpus", **source)


def test_where_nothing_is_enough_the_answer_is_no(capsys):
    assert run(topology=["a100-1"], as_json=True) == EXIT_NO
    out, err = capsys.readouterr()
    said = json.loads(out)
    assert (said["device_map"], said["proof"], [row["fits"] for row in said["smallest"]]) == (None, {"status": "infeasible"}, [False])
    assert said["clash"] == said["smallest"][0]["why_not"]
    assert "the job fits on none of these:" in err
    assert "infeasible: no plan obeys all the rules on any number of its GPUs\n  because " in err


def test_without_time_there_is_no_answer(capsys):
    assert run(time_limit_s=0.0) == EXIT_TIME
    out, err = capsys.readouterr()
    assert out == ""
    assert "unknown: no plan found within 0 s; try --time-limit" in err


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rules": ["all"]}, "--rules all compares presets, --smallest asks for one plan: name one preset"),
        ({"solver": "greedy"}, "--solver greedy proves nothing"),
        ({"calibrate": Path("times.yaml")}, "--smallest asks for others: calibrate a plan, write its map"),
        ({"smallest": "card", "cards": "a100-40gb"}, "--smallest card tries every card of the catalogue .*: leave --gpu out"),
    ],
)
def test_options_that_contradict_each_other_are_refused(changes, says):
    with pytest.raises(InputError, match=says):
        run(**changes)


def test_what_is_not_proven_is_said():
    question = make_instance(read_machine("a100-1"), load_workload("grpo-1.5b"), parse_rules("guide"))
    unknown = Tried(1, (0,), None, None, None, None, ("not found out within the time limit",), question)
    fits = Tried(2, (0, 1), None, None, True, 2_000_000, (), question, is_shortest=False)
    text = page(Size.GPUS, Smallest((unknown, fits), 1, None, ()), stream=None)
    assert text.startswith("the job fits on 2 GPUs of this machine; not proven that nothing smaller does")
    assert "2.000 s or less" in text
    nothing = Looked(Size.GPUS, Smallest((unknown,), None, None, ()), 0.0)
    assert answer(nothing, SolverName.CPSAT, OPTIONS)[0].verdict.startswith("unknown: ")
    assert document(nothing)["smallest"][0]["fits"] is None


if __name__ == "__main__":
    for size, machine, workload in PAGES:
        (GOLDEN / f"smallest-{size}.txt").write_text(shown(size, machine, workload), encoding="utf-8")
