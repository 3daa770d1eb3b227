"""Where `placement plan` writes what, and with which exit code it ends."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest

import placement
from placement.cli import EXIT_NO, EXIT_TIME, presets
from placement.cli import plan as command
from placement.cli.table import plan_table
from placement.errors import InputError
from placement.maps.devicemap import load
from placement.planner import Outcome
from solvers.result import Status

SMALL = ("--topology", "a100-1", "--workload", "grpo-1.5b")
MIXED = ("--topology", "a100-pcie-mixed-4", "--workload", "ppo-0.5b")


def run(**changes):
    """Run the command in this process."""
    options = {
        "topology": ["a100-1"],
        "workload": "grpo-1.5b",
        "cards": None,
        "visible": None,
        "host_memory_mib": None,
        "rules": [],
        "objective": "step",
        "within_percent": 2.0,
        "time_limit_s": 60.0,
        "solver": "cpsat",
        "workers": 1,
        "constants": None,
        "calibrate": None,
        "output": None,
        "force": False,
        "as_json": False,
    }
    return command.run(**{**options, **changes})


def on_terminal(arguments, cwd):
    """Run ``placement ARGUMENTS`` with output and errors on one terminal; return what it shows."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "placement", *arguments], cwd=cwd, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:     # Linux: the last writer has closed the terminal
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait(timeout=60) == 0
    return shown.decode().replace("\r\n", "\n")


def test_on_a_terminal_the_table_comes_last(tmp_path):
    shown = on_terminal(("plan", *SMALL), tmp_path)
    assert shown.startswith("schema: placement/device-map/v1\n")
    table = shown.rindex("GPUs in rank order")
    assert table > shown.index("inputs:")
    assert "rules: preset guide" in shown[table:]


def test_a_file_is_written_although_nobody_reads_what_is_said(tmp_path):
    line = f"{sys.executable} -m placement plan {' '.join(SMALL)} -o map.yaml 2>&1 | (exec 0<&-; sleep 3)"
    script = f"{line}; exit ${{PIPESTATUS[0]}}"
    process = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")
    assert load((tmp_path / "map.yaml").read_text()).device_map


@pytest.mark.parametrize(
    ("arguments", "code"), [(["plan", "--rules", "nope"], 2), (["plan", "--nope"], 2), (["plan", "--topology", "nope"], 2)]
)
def test_a_refusal_keeps_its_exit_code_although_nobody_reads_it(tmp_path, arguments, code):
    script = f"{sys.executable} -m placement {' '.join(arguments)} 2>&1 | (exec 0<&-; sleep 2); exit ${{PIPESTATUS[0]}}"
    process = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (process.returncode, process.stderr) == (code, "")


@pytest.mark.parametrize("target", ["no/such/folder/map.yaml", "/proc/map.yaml", "file/map.yaml", ".", "file"])
def test_what_cannot_be_written_is_said_before_anything_is_solved(tmp_path, monkeypatch, target):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    monkeypatch.setattr(command, "plan", lambda *_, **__: pytest.fail("solved"))
    from placement.errors import OutputError

    with pytest.raises(OutputError, match=r"cannot write|is a folder|exists"):
        run(output=tmp_path / target)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(("machine", "job", "costs"), [("a100-1", "grpo-1.5b", False), ("a100-pcie-mixed-4", "ppo-0.5b", True)])
def test_the_shortest_step_without_the_rules_is_said_where_they_cost_something(machine, job, costs):
    question = placement.make_instance(placement.read_machine(machine), placement.load_workload(job))
    found = placement.plan(question).plan
    assert found.comparison.lifted
    assert ("the rules cost nothing" in found.verdict) == (not costs)
    assert ("shortest step without the rules" in plan_table(found, stream=None)) == costs


def test_rules_all_takes_no_file_and_says_why(placement, tmp_path):
    process = placement("plan", *MIXED, "--rules", "all", "-o", "map.yaml")
    assert (process.returncode, process.stdout) == (2, "")
    assert "--rules all compares the presets and has no map to write" in process.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("spec", [["all,reserve=9%"], ["reserve=9%, all"], ["reserve=9%", "all"]])
def test_rules_all_takes_switches_for_every_preset(spec, capsys):
    assert run(rules=spec, as_json=True) == 0
    documents = json.loads(capsys.readouterr().out)
    names = ["guide", "minimal", "strict", "four", "colocate", "free"]
    planned = [d["rules"] for d in documents if d["device_map"]]
    assert all(rules["reserve"] == "9%" for rules in planned)
    assert [rules["preset"] for rules in planned] == [p for p in names if p in {r["preset"] for r in planned}]
    assert len(planned) >= 2


def test_rules_all_refuses_a_wrong_switch():
    with pytest.raises(InputError, match="did you mean 'contiguity'"):
        run(rules=["all,contiguty=off"])


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        (["unknown"] * 6, EXIT_TIME),
        (["infeasible"] * 6, EXIT_NO),
        (["infeasible", "unknown"] * 3, EXIT_TIME),
    ],
)
def test_rules_all_without_a_plan_is_no_only_if_none_can_exist(monkeypatch, ends, code):
    outcomes = iter(ends)
    monkeypatch.setattr(presets, "plan", lambda *_, **__: Outcome(Status(next(outcomes)), None, "nothing"))
    assert run(rules=["all"]) == code


def test_host_memory_is_said_and_may_leave_no_plan(capsys):
    # grpo-1.5b on one GPU: 2327 + 2048 + 4 · 1,543,714,304 / 2^20 MiB for the actor, 2327 each for its engine and ref.
    assert run() == 0
    assert "memory of the host: 14.6 GiB needed (load_actor); what it has is not known (--host-memory)" in capsys.readouterr().err
    assert run(host_memory_mib=32 * 1024) == 0
    said = capsys.readouterr()
    assert "memory of the host: 14.6 GiB needed (load_actor), 6.2 GiB free, 11.2 GiB of 32.0 GiB reserved" in said.err
    assert "host_memory_mib: [{capacity: 32768, reserved: 11469, planned: 14918, worst_phase: load_actor, free: 6381}]" in said.out
    assert load(said.out).inputs["topology"]["hosts"] == [{"name": None, "memory_mib": 32768}]
    assert run(host_memory_mib=16 * 1024) == EXIT_NO
    said = capsys.readouterr().err
    assert "because host memory: a plan takes about " in said
    assert "the host has 16.0 GiB, of which plans may use 10.3 GiB" in said


def test_an_amount_of_host_memory_without_a_unit_is_refused(placement):
    process = placement("plan", *SMALL, "--host-memory", "512")
    assert (process.returncode, process.stdout) == (2, "")
    assert "--host-memory cannot be '512': it takes the memory of each host, 1GiB to 128TiB, such as 1TiB or 512GiB" in process.stderr
