"""
``placement plan --constants`` and ``--calibrate``, ``placement catalog constants``: what is printed, written and refused.

``python tests/cli/test_calibrate.py`` writes the golden list of constants anew; read what changed before you commit it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from placement.constants.table import Constants, constants, sources
from placement.maps.devicemap import load

SMALL = ("plan", "--topology", "a100-1", "--workload", "grpo-1.5b")
GOLDEN = Path(__file__).with_name("golden") / "constants-100.txt"


def listed() -> str:
    """Return what ``placement catalog constants`` prints on 100 columns."""
    done = subprocess.run(
        [sys.executable, "-m", "placement", "catalog", "constants"],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "100"},
        check=True,
    )
    return done.stdout


def test_all_constants_are_listed():
    """After a change: ``python tests/cli/test_calibrate.py``."""
    assert listed() == GOLDEN.read_text(encoding="utf-8")


def test_all_constants_are_listed_with_unit_and_source(placement):
    rows = json.loads(placement("catalog", "constants", "--json").stdout)
    assert [row["name"] for row in rows] == list(Constants.__dataclass_fields__)
    for row in rows:
        said = sources()[row["name"]]
        assert row["value"] == getattr(constants(), row["name"])
        assert (row["unit"], row["obtained"], row["source"]) == (said.unit, said.obtained, said.source)


def test_a_calibrated_map_can_be_planned_again_from_itself(placement, tmp_path):
    (tmp_path / "timings.yaml").write_text("gen: 120\nupdate_actor: [250, 240, 260]\nfoo: 3\n")
    first = placement(*SMALL, "--calibrate", "timings.yaml", "-o", "map.yaml")
    assert first.returncode == 0
    assert "calibrated to the median of 2 steps; the first step is left out; predicted: the plan of the uncalibrated model" in first.stderr
    assert "not calibrated: old_log_probs, ref_log_probs, sync_weights" in first.stderr
    assert "unknown timers, not used: foo" in first.stderr
    again = placement(*SMALL, "--constants", "map.yaml")
    assert again.returncode == 0
    assert again.stdout == (tmp_path / "map.yaml").read_text()
    assert "update_actor takes " in again.stderr
    factors = load(again.stdout).inputs["constants"]
    assert set(factors) == {"generate_time_factor", "update_actor_time_factor"}


def test_a_calibration_wins_over_factors_of_a_file(placement, tmp_path):
    (tmp_path / "timings.yaml").write_text("gen: 120\n")
    (tmp_path / "c.yaml").write_text("generate_time_factor: 9\nsync_weights_time_factor: 3\ntrain_mfu_dense: 0.3\n")
    done = placement(*SMALL, "--constants", "c.yaml", "--calibrate", "timings.yaml")
    recorded = load(done.stdout).inputs["constants"]
    assert recorded["generate_time_factor"]["value"] < 9
    assert (recorded["sync_weights_time_factor"], recorded["train_mfu_dense"]) == (3, 0.3)
    assert "in place of --constants: generate_time_factor" in done.stderr
    assert "sync_weights (keeps its factor of 3)" in done.stderr


@pytest.mark.parametrize(
    ("options", "file", "says"),
    [
        (("--constants", "x"), "matmul_eficiency: 0.7", "error: x:1:1: there is no constant 'matmul_eficiency' (did you mean"),
        (("--constants", "nope"), "", "error: there is no constants file 'nope'"),
        (("--calibrate", "x"), "gne: 4", "error: x: no time in it is that of a stage of this job; unknown timers, not used: gne (did"),
        (("--calibrate", "x"), "gen: 1e8", "timers are in seconds"),
        (("--calibrate", "x", "--rules", "all"), "gen: 4", "error: --rules all compares the presets, each with another plan"),
    ],
)
def test_what_is_wrong_is_one_sentence(placement, tmp_path, options, file, says):
    (tmp_path / "x").write_text(file)
    done = placement(*SMALL, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_of_another_job_on_another_machine_calibrates_what_both_have(placement, tmp_path):
    placement("plan", "--topology", "dgx-h100", "--workload", "grpo-7b", "-o", "ran.yaml")
    (tmp_path / "x").write_text("run: {map: ran.yaml}\ngen: 30\n")
    done = placement(*SMALL, "--calibrate", "x")
    assert done.returncode == 0
    assert "predicted: the map ran.yaml of the timings, for another machine and job than this question has" in done.stderr
    assert "not calibrated: old_log_probs, ref_log_probs, update_actor, sync_weights" in done.stderr


def test_a_source_of_constants_that_replaces_none_is_said(placement, tmp_path):
    placement(*SMALL, "-o", "map.yaml")
    done = placement(*SMALL, "--constants", "map.yaml")
    assert (done.returncode, done.stdout) == (0, (tmp_path / "map.yaml").read_text())
    assert done.stderr.startswith("map.yaml was planned with the shipped constants: none is replaced\n")
    (tmp_path / "c.yaml").write_text("generate_time_factor: 1\n")
    done = placement(*SMALL, "--constants", "c.yaml")
    assert done.stderr.startswith("c.yaml replaces no constant: what it names has the shipped value\n")
    (tmp_path / "head.yaml").write_text((tmp_path / "map.yaml").read_text().partition("inputs:")[0])
    done = placement(*SMALL, "--constants", "head.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: head.yaml:1:1: the map does not record what it was planned from (inputs)")


BESIDE = """\
algorithm: grpo
schedule: one_step_off
batch: {prompts: 128, samples_per_prompt: 8, prompt_tokens: 300, response_tokens: {mean: 800, max: 4096}, minibatches: 2}
roles:
  actor: {model: Qwen/Qwen2.5-1.5B, gpus: [2]}
  rollout: {model: Qwen/Qwen2.5-1.5B, engine: vllm, gpus: [2]}
  reward: {function: true}
"""


def test_a_trainer_that_waited_is_planned_to_wait(placement, tmp_path):
    """120 s and 340 s of training, 200 s of waiting, 2 s of sync: generation took 660 s, and the step 662 s and what has no timer."""
    (tmp_path / "job.yaml").write_text(BESIDE)
    log = "timing_s/gen: 200\ntiming_s/old_log_prob: 120\ntiming_s/update_actor: 340\ntiming_s/sync_rollout_weights: 2\n"
    (tmp_path / "x").write_text(f"{log}timing_s/step: 670\n")
    done = placement("plan", "--topology", "hgx-a100-4", "--workload", "job.yaml", "--calibrate", "x")
    assert done.returncode == 0
    assert "660.0 s" in next(line for line in done.stderr.splitlines() if "prepare + update + wait (timing_s/gen)" in line)
    assert "662.0 s calibrated, 670.0 s measured" in done.stderr
    assert " s of the measured step are in none of these stages" in done.stderr
    assert load(done.stdout).estimate.step_us / 1e6 == pytest.approx(662, rel=0.001)
    assert "together" not in done.stderr
    (tmp_path / "x").write_text(f"{log}timing_s/step: 800\n")
    done = placement("plan", "--topology", "hgx-a100-4", "--workload", "job.yaml", "--calibrate", "x")
    assert "warning: under schedule one_step_off that placement is planned 17.2 % shorter than was measured" in done.stderr


def test_where_no_plan_exists_it_is_said_why(placement, tmp_path):
    (tmp_path / "x").write_text("gen: 4")
    done = placement(*SMALL, "--calibrate", "x", "--rules", "reserve=99%")
    assert (done.returncode, done.stdout) == (1, "")
    assert "not calibrated: there is no plan whose times could be compared; say with `run:` what ran where" in done.stderr
    assert "infeasible: no plan obeys all the rules on this machine\n  because " in done.stderr


def test_ctrl_c_while_the_measured_setting_is_looked_for_writes_nothing(tmp_path):
    """As in test_interrupts: the interrupt comes when the first search begins."""
    (tmp_path / "x").write_text("gen: 4")
    script = (
        "import os, signal, sys, placement.planner as p\n"
        "solve = p.load_solver\n"
        "def stopped(name):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return solve(name)\n"
        "p.load_solver = stopped\n"
        f"sys.argv = ['placement', *{SMALL!r}, '--calibrate', 'x', '-o', 'map.yaml']\n"
        "from placement.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "map.yaml").exists()


if __name__ == "__main__":
    GOLDEN.write_text(listed(), encoding="utf-8")
