"""
`placement measure` with torch. No GPU is needed: the same code measures tensors in host memory over gloo.

Needs the extra `torch`; runs only when this folder is named.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from nvml_machines import Driver, switched

from placement.measuring import conduct
from placement.measuring.conduct import Conductor
from placement.measuring.crew import Crew
from placement.measuring.settings import QUICK_REHEARSAL
from topologies.catalog import machine_text
from topologies.documents.document import to_document
from topologies.measured import REHEARSAL
from topologies.measurements import Device
from topologies.model import Gpu, Topology
from topologies.sources import load

Placement = Callable[..., subprocess.CompletedProcess[str]]


def children(pid: int) -> list[int]:
    """Return the processes whose parent is *pid*."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            except OSError:
                continue
            if int(stat[1]) == pid:
                found.append(int(entry.name))
    return found


def test_a_rehearsal_measures_everything_and_reads_back(placement: Placement, tmp_path: Path) -> None:
    """Two pairs of GPUs: twelve directions, four GPUs, the two islands and all of them; the file says that it is no machine's."""
    (tmp_path / "topo.txt").write_text(machine_text("a100-pcie-mixed-4"), encoding="utf-8")
    process = placement("measure", "--device", "cpu", "--topology", "topo.txt", "--quick", "-o", "cpu.yaml")
    assert process.returncode == 0, process.stderr
    assert process.stdout == ""
    assert "written to cpu.yaml" in process.stderr
    assert f"warning: {REHEARSAL}" in process.stderr
    machine = load(str(tmp_path / "cpu.yaml"))
    found = machine.measured
    assert found is not None
    assert found.device is Device.CPU
    assert any(words.startswith("torch 2.") for words in found.by)
    assert [(c.source, c.target) for c in found.copies] == [(a, b) for a in range(4) for b in range(4) if a != b]
    assert [of.gpu for of in found.gpus if of.matmul_tflops and of.memory_gb_per_s] == [0, 1, 2, 3]
    assert [(r.gpus, [at.bytes for at in r.sizes]) for r in found.all_reduce] == [
        (gpus, list(QUICK_REHEARSAL.all_reduce_bytes)) for gpus in ((0, 1), (2, 3), (0, 1, 2, 3))
    ]
    assert {c.gb_per_s.runs for c in found.copies} == {QUICK_REHEARSAL.runs}
    again = placement("topology", "cpu.yaml", "--yaml")
    assert again.stdout == (tmp_path / "cpu.yaml").read_text(encoding="utf-8")
    assert to_document(machine)["links"] == to_document(load("a100-pcie-mixed-4"))["links"]


def test_one_process_has_nobody_to_talk_to(placement: Placement) -> None:
    document = json.loads(placement("measure", "--device", "cpu", "--processes", "1", "--quick", "--json").stdout)
    assert sorted(document["measured"]) == ["by", "device", "gpus"]


def test_other_counts_than_the_machine_has_are_refused(placement: Placement) -> None:
    process = placement("measure", "--device", "cpu", "--processes", "3", "--topology", "a100-pcie-mixed-4")
    assert process.returncode == 2
    assert process.stderr == "error: --processes is 3, but a100-pcie-mixed-4 has 4 GPUs: leave out --processes\n"


def test_ctrl_c_leaves_no_process_and_no_file(tmp_path: Path, environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "placement", "measure", "--device", "cpu", "--processes", "2", "-o", "cpu.yaml"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment)
    deadline = time.monotonic() + 60
    while len(found := children(process.pid)) < 2:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(0.3)     # they import torch now
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout, stderr) == (130, "", "interrupted\n")
    assert not any(Path(f"/proc/{pid}").exists() for pid in found)
    assert list(tmp_path.iterdir()) == []


def test_progress_is_for_terminals_and_the_document_for_pipes(tmp_path: Path, environment: dict[str, str]) -> None:
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "placement", "measure", "--device", "cpu", "--quick", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, cwd=tmp_path, env=environment) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                data = os.read(ours, 4096)
            except OSError:
                break
            if not data:
                break
            said += data
        assert process.stdout is not None
        document = json.loads(process.stdout.read())
    os.close(ours)
    assert process.returncode == 0
    for words in (b"starting 2 processes", b"matrix products", b"copies, 2 of 2", b"all-reduces of GPUs 0-1"):
        assert b"measuring: " + words in said
    assert b"\r\x1b[Kwarning:" in said
    assert document["measured"]["device"] == "cpu"
    assert [gpu["index"] for gpu in document["gpus"]] == [0, 1]
    assert [r["gpus"] for r in document["measured"]["all_reduce"]] == [[0, 1]]


# ── failures ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def conductor() -> Iterator[Conductor]:
    with Conductor(Topology((Gpu(0), Gpu(1))), (0, 1), Device.CPU, QUICK_REHEARSAL, say=lambda text: None) as found:
        yield found


def test_what_hangs_costs_one_figure(conductor: Conductor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Process 1 is stopped before matrix products: they stay unknown, and new processes measure the rest."""
    monkeypatch.setattr(conduct, "MEASURE_S", 5.0)
    real = Crew.ask

    def ask(crew: Crew, question: dict[str, object], **options: object) -> object:
        if question["do"] == "matmul":
            crew._processes[1].send_signal(signal.SIGSTOP)
        return real(crew, question, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Crew, "ask", ask)
    found = conductor.measure()
    assert conductor.warnings == ["matrix products could not be measured and stay unknown (no answer of process 1 within 5 s)"]
    assert [(of.matmul_tflops is None, of.memory_gb_per_s is None) for of in found.gpus] == [(True, False)] * 2
    assert len(found.copies) == 2
    assert len(found.all_reduce) == 1


def test_who_dies_inside_a_collective_takes_nobody_along(conductor: Conductor, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Crew.ask

    def ask(crew: Crew, question: dict[str, object], **options: object) -> object:
        if question["do"] == "all_reduce":
            crew._processes[1].kill()
        return real(crew, question, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Crew, "ask", ask)
    found = conductor.measure()
    (warning,) = conductor.warnings
    assert warning.startswith("all-reduces of GPUs 0-1 could not be measured and stay unknown (process ")
    assert len(found.copies) == 2
    assert found.all_reduce == ()


def test_copies_that_always_fail_are_given_up(conductor: Conductor, monkeypatch: pytest.MonkeyPatch) -> None:
    """More memory than any machine has: a copy fails with the words of torch, and the others are not tried."""
    monkeypatch.setattr(conduct, "MOST_FAILURES", 1)
    monkeypatch.setattr(conductor, "_chosen", dataclasses.replace(QUICK_REHEARSAL, copy_bytes=2**62))
    found = conductor.measure()
    assert found.copies == ()
    assert len(found.all_reduce) == 1
    assert [warning.partition(" (")[0] for warning in conductor.warnings] == [
        "copies from GPU 0 to GPU 1 could not be measured and stay unknown",
        "copies are not tried after that from GPU 0 to GPU 1: too many failed",
    ]


# ── a host with a driver, but without a torch that can use it ───────────────────────────────────────────────────────────


@pytest.fixture
def driver(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    """A driver library that tells of GPUs that are not there."""
    return Driver(tmp_path_factory.mktemp("driver"))


def test_busy_gpus_are_refused_by_name(placement: Placement, driver: Driver, tmp_path: Path) -> None:
    env = driver.environment | {"NVML_STUB_MACHINE": str(driver.write(switched(4)))}
    (tmp_path / "idle.yaml").write_text(placement("topology", "live", "--yaml", env=env).stdout, encoding="utf-8")
    driver.write(switched(4) | {"ComputeRunningProcesses 1": "4711:21474836480"})
    process = placement("measure", env=env)
    assert process.returncode == 2
    assert process.stderr.startswith("error: other processes use what should be measured: GPU 1 (")
    assert "pid 4711 holds 20480 MiB" in process.stderr
    assert "--busy" in process.stderr
    # What a file of yesterday says of processes does not count.
    assert placement("measure", "--topology", "idle.yaml", env=env).stderr == process.stderr
    # GPUs that are left out may be busy. What is wrong then is another thing: there are no GPUs here.
    hidden = placement("measure", "-o", "node0.yaml", env=env | {"CUDA_VISIBLE_DEVICES": "0"})
    assert hidden.returncode == 2
    assert "other processes" not in hidden.stderr
    assert hidden.stderr.startswith("error: torch 2.")
    assert "install a build for the driver of this host" in hidden.stderr
    assert not (tmp_path / "node0.yaml").exists()


def test_a_host_without_a_driver_says_what_can_be_done(placement: Placement) -> None:
    process = placement("measure")
    if process.returncode == 0:
        pytest.skip("this host has GPUs")
    assert process.returncode == 2
    assert process.stderr.startswith("error: ")
    assert "only GPUs of this host can be measured (--device cpu rehearses without any)" in process.stderr
    assert len(process.stderr.splitlines()) == 1
