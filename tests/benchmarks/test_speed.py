"""
Speed of whole commands and of their parts, as ratios within one run.

The yardstick is the CPU time of ``python -c 'from ortools.sat.python import cp_model'`` on the same machine. Run with

    python -m pytest tests/benchmarks --benchmark-enable

Figures and the machine are recorded in docs/performance.md. Nothing here asserts a time.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from typing import Any

import pytest

from placement.catalog import load_workload, workload_names
from placement.choices.choices import choices, parts
from placement.cli.collect import WIDE
from placement.constants.table import constants
from placement.demand import Demand, demand
from placement.program.candidates import ideal_hardware
from placement.program.instance import make_instance
from placement.program.lower import lower
from placement.program.menu import menu
from placement.text.yaml_writer import dump
from placement.workloads.dataflow import dataflow
from placement.workloads.rules import parse_rules
from solvers import cpsat
from solvers.result import Options, Status
from topologies import sources
from topologies.catalog import machine_names, machine_text
from topologies.documents.document import to_document
from topologies.errors import TopologyError
from topologies.read import read_bytes, read_text

pytestmark = pytest.mark.bench

ROUNDS = 5
EIGHT = [name for name in machine_names() if len(sources.load(name).gpus) == 8]


@functools.cache
def compiled() -> dict[str, str]:
    """Return an environment in which bytecode is kept, as it is for any installed package."""
    kept = tempfile.mkdtemp(prefix="bytecode-")
    atexit.register(shutil.rmtree, kept, ignore_errors=True)
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return plain | {"PYTHONPYCACHEPREFIX": kept}


def cpu_s(*arguments: str) -> tuple[float, int]:
    """Return (CPU seconds, peak resident MiB) of one Python process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=compiled())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, after.ru_maxrss // 1024


def median_cpu_s(*arguments: str) -> float:
    """Return the median CPU time of several runs, after one that compiles."""
    cpu_s(*arguments)
    return statistics.median(cpu_s(*arguments)[0] for _ in range(ROUNDS))


@functools.cache
def yardstick_s() -> float:
    """Return the CPU time of importing CP-SAT's modelling layer."""
    return median_cpu_s("-c", "from ortools.sat.python import cp_model")


COMMANDS = {
    "plan": ("-m", "placement", "plan", "--topology", "dgx-a100-80gb"),
    "plan on a mesh": ("-m", "placement", "plan", "--topology", "dgx-1-v100", "--workload", "ppo-1.5b"),
    "plan 7B on a mesh": ("-m", "placement", "plan", "--topology", "dgx-1-v100", "--workload", "ppo-7b"),
    "plan without NVLink": ("-m", "placement", "plan", "--topology", "l40s-8", "--workload", "ppo-7b"),
    "plan on mixed cards": ("-m", "placement", "plan", "--topology", "a100-pcie-mixed-8", "--workload", "grpo-1.5b"),
    "help": ("-m", "placement", "--help"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_cold_command(benchmark, command):
    """A whole command, from a cold start, against the yardstick."""
    benchmark.pedantic(lambda: cpu_s(*COMMANDS[command]), rounds=1)
    if not benchmark.disabled:
        benchmark.extra_info["ratio"] = round(median_cpu_s(*COMMANDS[command]) / yardstick_s(), 2)
        benchmark.extra_info["peak_mib"] = cpu_s(*COMMANDS[command])[1]


@pytest.mark.parametrize("workload", workload_names())
@pytest.mark.parametrize("machine", EIGHT)
def test_solve_to_a_proof(benchmark, machine, workload):
    """The solve alone, every term proven, against the yardstick."""
    job = load_workload(workload)
    question = make_instance(sources.load(machine), job, parse_rules(*filter(None, [job.rules])))
    problem = lower(question, menu(question)).problem
    result = benchmark.pedantic(lambda: cpsat.solve(problem, Options()), rounds=3, warmup_rounds=1)
    assert result.status in (Status.OPTIMAL, Status.INFEASIBLE)
    if not benchmark.disabled:
        benchmark.extra_info["ratio"] = round(benchmark.stats.stats.median / yardstick_s(), 3)


def priced() -> list[tuple[Any, ...]]:
    """Return what every role of the shipped jobs may choose on groups of four machines: the arguments of `demand`."""
    found: list[tuple[Any, ...]] = []
    for machine, workload in itertools.product(("dgx-a100-80gb", "dgx-h100", "l40s-8", "dgx-1-v100"), workload_names()):
        job = load_workload(workload)
        question = make_instance(sources.load(machine), job, parse_rules(*filter(None, [job.rules])))
        for role, size in itertools.product(job.placed, (1, 2, 4, 8)):
            group = ideal_hardware(question.machine, size)
            found += [
                (role, part, choice, job, group, constants(), dataflow(job))
                for part in parts(role)
                for choice, _ in choices(role, part, group)
            ]
    return found


def test_memory_and_time(benchmark):
    """10,000 evaluations of memory and time, over all kinds of roles, choices, jobs and four machines, on one core."""
    todo = list(itertools.islice(itertools.cycle(priced()), 10_000))

    def evaluate() -> int:
        return sum(isinstance(demand(*one), Demand) for one in todo)

    assert benchmark.pedantic(evaluate, rounds=3, warmup_rounds=1) > 5000


@pytest.mark.parametrize("machine", ["dgx-a100-80gb", "dgx-1-v100"])
def test_read_a_matrix(benchmark, machine):
    """Reading one machine's text."""
    text = machine_text(machine)
    assert len(benchmark(lambda: read_text(text)).gpus) == 8


def test_read_all_collected_texts(benchmark):
    """All 97 cases of every format in one process, refusals included."""
    folder = pathlib.Path(__file__).parent.parent / "data" / "topology"
    texts = [path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in {".txt", ".csv", ".xml"}]

    def read_all() -> int:
        count = 0
        for text in texts:
            with contextlib.suppress(TopologyError):
                read_bytes(text, name="x")
            count += 1
        return count

    assert benchmark.pedantic(read_all, rounds=3, warmup_rounds=1) == 97


def test_read_a_cluster_file(benchmark, tmp_path):
    """`placement topology cluster.yaml --json` of 128 hosts of 8 GPUs with their NICs, from a cold start."""
    path = tmp_path / "cluster.yaml"
    path.write_text(dump(to_document(sources.load("dgx-h100 x 128 @ 8x50GB/s")), wide=WIDE), encoding="utf-8")
    command = ("-m", "placement", "topology", str(path), "--json")
    benchmark.pedantic(lambda: cpu_s(*command), rounds=1)
    if not benchmark.disabled:
        benchmark.extra_info["cpu_s"] = round(median_cpu_s(*command), 2)
        benchmark.extra_info["peak_mib"] = cpu_s(*command)[1]
