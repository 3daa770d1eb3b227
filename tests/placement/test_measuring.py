"""The processes that measure, without torch: what becomes of answers, failures and processes. tests/torch has the real ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest_placement import bridged_pairs, machine

from placement.errors import InputError, MachineError
from placement.measuring import conduct
from placement.measuring.conduct import Conductor, groups
from placement.measuring.crew import Crew, Failed
from placement.measuring.occupied import occupied
from placement.measuring.settings import FULL, QUICK, QUICK_REHEARSAL, REHEARSAL, settings, spread
from topologies.measurements import Device, Measured
from topologies.parts import Process

Start = Callable[[str], list[str]]


@pytest.fixture
def script(tmp_path: Path) -> Start:
    """Write a process that answers as its text says; ``question`` is the question, ``rank`` its number."""

    def write(answer: str) -> list[str]:
        path = tmp_path / "worker.py"
        path.write_text(
            "import json, os, sys, time\nrank = int(sys.argv[-1])\nfor line in sys.stdin:\n    question = json.loads(line)\n"
            + textwrap.indent(answer, "    ")
            + "\n    print(json.dumps(found), flush=True)\n",
            encoding="utf-8",
        )
        return [sys.executable, str(path)]

    return write


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_each_process_answers_for_itself(script: Start) -> None:
    with Crew(script("found = {'double': 2 * question['x'], 'rank': rank}"), 3, os.environ) as crew:
        assert crew.ask({"x": 4}, within_s=30) == {rank: {"double": 8, "rank": rank} for rank in range(3)}
        assert crew.ask({"x": 5}, within_s=30, ranks=[1]) == {1: {"double": 10, "rank": 1}}
        assert crew.ask({"x": 6}, within_s=30, ranks=[1, 2]) == {rank: {"double": 12, "rank": rank} for rank in (1, 2)}
    assert not crew.is_open


def test_long_answers_come_whole(script: Start) -> None:
    with Crew(script("found = {'samples': [question['x']] * 50000}"), 2, os.environ) as crew:
        assert all(len(answer["samples"]) == 50_000 for answer in crew.ask({"x": 1.25}, within_s=30).values())


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("found = {'error': 'CUDA out of memory'} if rank else {}", "process 1: CUDA out of memory"),
        ("sys.exit('driver is gone') if rank else None\nfound = {}", "process 1 ended with code 1: driver is gone"),
        ("time.sleep(60) if rank else None\nfound = {}", "no answer of process 1 within 1 s"),
        ("found = 7", "process 0 answers b'7'"),
        ("print('hello')\nfound = {}", "process 0 answers b'hello'"),
        ("os.kill(os.getpid(), 9)", "process 0 ended with code -9"),
    ],
)
def test_a_failure_ends_all_of_them(script: Start, answer: str, message: str) -> None:
    with Crew(script(answer), 1 + (" 1" in message), os.environ) as crew:
        pids = [process.pid for process in crew._processes]
        with pytest.raises(Failed, match=message):
            crew.ask({}, within_s=1 if "within" in message else 30)
        assert not crew.is_open
        assert all(is_gone(pid) for pid in pids)


def test_a_process_that_cannot_start_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"cannot start .*missing: No such file"), Crew([str(tmp_path / "missing")], 2, os.environ):
        pass


def test_nobody_is_left_when_we_are_killed(script: Start, tmp_path: Path) -> None:
    """The processes end at the end of their input, whoever ends it."""
    program = (
        "import os, sys, time\nfrom placement.measuring.crew import Crew\n"
        f"crew = Crew({script('found = {}')!r}, 2, os.environ).__enter__()\ncrew.ask({{}}, within_s=30)\n"
        "print(*(p.pid for p in crew._processes), flush=True)\ntime.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert parent.stdout is not None
    pids = [int(word) for word in parent.stdout.readline().split()]
    assert len(pids) == 2
    parent.send_signal(signal.SIGKILL)
    parent.communicate(timeout=30)
    deadline = time.monotonic() + 20
    while not all(map(_is_over, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _is_over(pid: int) -> bool:
    """Whether *pid* is gone, or ended and waits for an init that a container may not have."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return is_gone(pid)


# ── what is asked, and what answers are worth ───────────────────────────────────────────────────────────────────────────


def test_quartiles_to_four_digits() -> None:
    """Of 1, 2, 3, 4 and 10.00049: median 3, quartiles 2 and 4; one run is its own quartiles."""
    found = spread([10.00049, 1, 4, 2, 3])
    assert (found.q1, found.median, found.q3, found.runs) == (2, 3, 4, 5)
    assert spread([10.00049]).median == 10.0
    assert spread([123456.0, 123456.0]).q3 == 123500.0


@pytest.mark.parametrize("samples", [[], [0.0], [1.0, -1.0], [float("nan")], [float("inf")], ["fast"]])
def test_answers_that_are_no_rates_are_refused(samples: list[object]) -> None:
    with pytest.raises(ValueError):
        spread(samples)


def test_quick_is_less_of_the_same() -> None:
    assert (settings(Device.CUDA, quick=False), settings(Device.CUDA, quick=True)) == (FULL, QUICK)
    assert (settings(Device.CPU, quick=False), settings(Device.CPU, quick=True)) == (REHEARSAL, QUICK_REHEARSAL)
    for full, quick in ((FULL, QUICK), (REHEARSAL, QUICK_REHEARSAL)):
        assert quick.runs < full.runs
        assert quick.least_s < full.least_s


def test_whose_all_reduces_are_measured() -> None:
    """Every island of more than one GPU, and all GPUs together; each group once."""
    assert groups(bridged_pairs(), range(4)) == ((0, 2), (1, 3), (0, 1, 2, 3))
    assert groups(bridged_pairs(), (0, 1, 2)) == ((0, 2), (0, 1, 2))
    assert groups(machine("NV12", 4), range(4)) == ((0, 1, 2, 3),)
    assert groups(machine("SYS", 2), range(2)) == ((0, 1),)
    assert groups(machine("SYS", 2), (1,)) == ()


def test_who_uses_a_gpu_is_named() -> None:
    found = machine("NV12", 4)
    users = (Process(4711, "/usr/bin/python", 20_480), Process(12, None, None), *(Process(k, "x\x1b[2J", 1) for k in (20, 21)))
    gpus = [
        found.gpus[0].replace(processes=users, memory_used_mib=30_000),
        found.gpus[1].replace(processes=(), memory_used_mib=1500),
        found.gpus[2].replace(processes=(), memory_used_mib=600),
        found.gpus[3],
    ]
    said = list(occupied(found.replace(gpus=tuple(gpus)), range(4)))
    assert said == [
        "GPU 0 (python with pid 4711 holds 20480 MiB, x?[2J with pid 20 holds 1 MiB, x?[2J with pid 21 holds 1 MiB and 1 more)",
        "GPU 1 (1500 MiB in use, by whom the driver does not tell)",
    ]
    assert list(occupied(found.replace(gpus=tuple(gpus)), [2, 3])) == []


# ── the conductor, with processes that answer what a machine with GPUs would ────────────────────────────────────────────

GPU_HOST = """
def answer():
    if question["do"] == "hello":
        return {"by": ["torch 2.13.0", "NCCL 2.27.3"], "gpus": ["A100"] * SEEN, **REFUSES}
    if question["do"] in FAILS:
        return {"error": "CUDA error: an illegal memory access was encountered"}
    if question["do"] == "copy":
        rate = 20.0 if (question["source"] - question["target"]) % 2 else 270.0
        return {"samples": [rate] * question["runs"]}
    if question["do"] == "all_reduce":
        return {"samples": [[100.0 + rank] * question["runs"]] * len(question["sizes"])} if rank in question["group"] else {}
    return {"port": 1} if question["do"] in ("store", "join") else {"samples": [250.0 + rank] * question["runs"]}
found = answer()
"""


def conducted(
    script: Start,
    monkeypatch: pytest.MonkeyPatch,
    *,
    seen: int = 4,
    refuses: str | None = None,
    fails: tuple[str, ...] = (),
    visible: tuple[int, ...] = (0, 1, 2, 3),
) -> tuple[Measured, list[str]]:
    """Return what is measured of two bridged pairs, {0 2} and {1 3}, and the warnings."""
    facts = f"SEEN, FAILS, REFUSES = {seen}, {fails}, {({'refuses': refuses} if refuses else {})}\n"
    command = script(facts + GPU_HOST)
    monkeypatch.setattr(conduct, "worker_command", lambda device, size: command)
    with Conductor(bridged_pairs(), visible, Device.CUDA, QUICK, say=lambda text: None) as conductor:
        return conductor.measure(), conductor.warnings


def test_answers_become_measurements(script: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collective is over when it is over for all: of ranks 0, 2 at 100 and 102 GB/s the slower one counts."""
    found, warnings = conducted(script, monkeypatch)
    assert warnings == []
    assert found.by == ("torch 2.13.0", "NCCL 2.27.3")
    assert {(c.source, c.target): c.gb_per_s.median for c in found.copies} == {
        (a, b): 20.0 if (a - b) % 2 else 270.0 for a in range(4) for b in range(4) if a != b
    }
    assert [of.matmul_tflops.median for of in found.gpus if of.matmul_tflops] == [250.0, 251.0, 252.0, 253.0]
    assert [(r.gpus, {at.bus_gb_per_s.median for at in r.sizes}) for r in found.all_reduce] == [
        ((0, 2), {100.0}), ((1, 3), {101.0}), ((0, 1, 2, 3), {100.0}),
    ]  # fmt: skip


def test_gpus_that_are_left_out_keep_the_numbers_of_the_others(script: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Process 0 and 1 are of GPUs 1 and 3."""
    found, _ = conducted(script, monkeypatch, seen=2, visible=(1, 3))
    assert [(c.source, c.target) for c in found.copies] == [(1, 3), (3, 1)]
    assert [r.gpus for r in found.all_reduce] == [(1, 3)]
    assert [of.gpu for of in found.gpus] == [1, 3]


def test_each_failure_is_said_and_costs_its_own_figure(script: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    found, warnings = conducted(script, monkeypatch, fails=("memory", "copy"))
    why = "could not be measured and stay unknown (process 0: CUDA error: an illegal memory access was encountered)"
    assert warnings == [
        warnings[0],
        *(f"copies from GPU 0 to GPU {target} {why}" for target in (1, 2, 3)),
        "copies are not tried after that from GPU 0 to GPU 3: too many failed",
    ]
    assert warnings[0].startswith("memory bandwidth could not be measured and stay unknown (process ")
    assert found.copies == ()
    assert [of.memory_gb_per_s for of in found.gpus] == [None] * 4
    assert len(found.all_reduce) == 3


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"seen": 3}, InputError, "torch sees 3 GPUs where the driver has 4 that may be used: .* name those that are there"),
        ({"refuses": "torch 2.13.0 is built without CUDA"}, InputError, "built without CUDA: install a build for the driver"),
        ({"fails": ("matmul", "memory", "copy", "store")}, MachineError, "nothing could be measured: matrix products could not be"),
    ],
)
def test_a_host_on_which_nothing_works_is_one_error(
    script: Start, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        conducted(script, monkeypatch, **options)


def test_a_torch_that_does_not_start_is_one_error_with_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('ImportError: libcudart.so.13')"]
    monkeypatch.setattr(conduct, "worker_command", lambda device, size: command)
    with (
        Conductor(bridged_pairs(), range(2), Device.CUDA, QUICK, say=lambda text: None) as conductor,
        pytest.raises(InputError, match=r"torch does not start \(process \d ended with code 1: ImportError: libcudart.so.13\)"),
    ):
        conductor.measure()
