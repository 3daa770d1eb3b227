"""Ctrl-C at any moment: exit 130 within a second, the best plan so far on stderr, no half file, no traceback."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

HARD = 11
"""GPUs of which no two are alike: no solver proves every term in a minute."""


@pytest.fixture
def hard(tmp_path):
    """Write a matrix that keeps the solver busy, and return its path."""
    rng = random.Random(7)
    codes = {(i, j): rng.choice(["NV1", "NV2", "NV4", "PIX", "PHB", "SYS", "NODE"]) for j in range(HARD) for i in range(j)}
    rows = ["\t" + "\t".join(f"GPU{i}" for i in range(HARD))]
    for i in range(HARD):
        cells = ("X" if i == j else codes[min(i, j), max(i, j)] for j in range(HARD))
        rows.append(f"GPU{i}\t" + "\t".join(cells))
    path = tmp_path / "topo.txt"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def start(script: str, *arguments: object, cwd: object) -> subprocess.Popen[str]:
    """Start the command line after *script*, which says `ready` at the moment at which it is to be interrupted."""
    words = ["placement", "plan", *map(str, arguments)]
    program = f"import sys\nsys.argv = {words}\n{script}\nfrom placement.cli import main; main()\n"
    return subprocess.Popen(
        [sys.executable, "-c", program], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def interrupted(process: subprocess.Popen[str], times: int = 1) -> str:
    """Send SIGINT when *process* is ready; return what it said, after everything that must hold at any moment."""
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    started = time.monotonic()
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    stdout, stderr = process.communicate(timeout=30)
    # At once, however busy the machine is: what is interrupted would go on for a minute.
    assert time.monotonic() - started < 10
    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert stdout == ""
    return stderr


AROUND = """
import time, {module}
real = {module}.{name}
def slow(*a, **k):
    {before}
    return real(*a, **k)
{module}.{name} = slow
"""


def test_before_a_plan(tmp_path):
    script = AROUND.format(
        module="placement.planner", name="menu", before="print('ready', flush=True); time.sleep(60)"
    )
    said = interrupted(start(script, "--topology", "dgx-h100", "-o", "map.yaml", cwd=tmp_path))
    assert "interrupted" in said
    assert os.listdir(tmp_path) == []


def test_in_the_middle_of_an_import(tmp_path):
    """ortools turns the interrupt into an ImportError."""
    script = """
import builtins, time
real = builtins.__import__
def slow(name, *a, **k):
    if name.startswith("ortools"):
        print("ready", flush=True)
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            raise ImportError("initialization failed") from None
    return real(name, *a, **k)
builtins.__import__ = slow
"""
    said = interrupted(start(script, "--topology", "dgx-h100", "-o", "map.yaml", cwd=tmp_path))
    assert said.strip() == "interrupted"
    assert os.listdir(tmp_path) == []


SOLVING = """
import solvers.cpsat.engine as engine
real = engine._run
def run(wrapper, model):
    if model.size > 500:
        print("ready", flush=True)
    return real(wrapper, model)
engine._run = run
"""


@pytest.mark.parametrize("times", [1, 2])
def test_during_solving_the_best_plan_so_far_is_shown(hard, tmp_path, times):
    """The real solver, in the middle of a search that it cannot end."""
    arguments = ("--topology", hard, "--gpu", "v100-32gb", "--workload", "ppo-1.5b", "--rules", "free,contiguity=off")
    said = interrupted(start(SOLVING, *arguments, "-o", "map.yaml", cwd=tmp_path), times)
    assert "schema: placement/device-map/v1" in said
    assert "feasible: " in said
    assert "not computed: interrupted" in said
    assert os.listdir(tmp_path) == ["topo.txt"]


def test_after_the_proof_the_plan_is_shown(tmp_path):
    """While what stands beside it is being computed."""
    script = AROUND.format(
        module="placement.planner", name="comparison", before="print('ready', flush=True); time.sleep(60)"
    )
    said = interrupted(start(script, "--topology", "dgx-h100", "-o", "map.yaml", cwd=tmp_path))
    assert "optimal: " in said
    assert "schema: placement/device-map/v1" in said
    assert os.listdir(tmp_path) == []


def test_one_more_when_all_is_said_does_not_change_the_exit_code(tmp_path):
    """While Python ends, it puts its own answer to SIGINT back: a death by signal."""
    script = """
import atexit, time, placement.planner as planner
def menu(*a, **k):
    print("ready", flush=True); time.sleep(60)
planner.menu = menu
atexit.register(time.sleep, 0.5)
"""
    process = start(script, "--topology", "dgx-h100", cwd=tmp_path)
    assert process.stdout.readline() == "ready\n"
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    process.communicate(timeout=30)
    assert process.returncode == 130


def test_three_times_is_at_once(tmp_path):
    """Even where nobody reacts to the first."""
    script = """
import time, placement.planner as planner
def deaf(*a, **k):
    print("ready", flush=True)
    while True:
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            pass
planner.menu = deaf
"""
    interrupted(start(script, "--topology", "dgx-h100", cwd=tmp_path), times=3)
