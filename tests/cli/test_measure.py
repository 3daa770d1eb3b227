"""`placement measure` as far as it goes without torch, and what other commands show of what was measured. tests/torch has the rest."""

from __future__ import annotations

import importlib.util
import json

import pytest
from measuring import measured

from placement.text.yaml_writer import dump
from topologies.documents.document import to_document
from topologies.domains import islands
from topologies.measured import REHEARSAL
from topologies.measurements import Device
from topologies.sources import load

INSTALLED = importlib.util.find_spec("torch") is not None


@pytest.fixture
def measured_file(tmp_path):
    """Write the shipped four A100 in two pairs with measurements, and return the path."""
    found = measured(
        pairs={(0, 1): 262.0, (2, 3): 262.5, (0, 2): 17.9, (0, 3): 18.0, (1, 2): 18.1, (1, 3): 18.2},
        tflops={g: 250.0 + g for g in range(4)}, memory={0: 1400.0, 1: 1401.0, 2: 1700.0}, rings={(0, 1): 190.0, (0, 1, 2, 3): 11.25},
    )  # fmt: skip
    path = tmp_path / "node0.yaml"
    machine = load("a100-pcie-mixed-4").replace(measured=found)
    path.write_text(dump(to_document(machine, islands=islands(machine))), encoding="utf-8")
    return path


@pytest.mark.skipif(INSTALLED, reason="torch is installed")
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_without_torch_it_says_how_to_install_it(placement, device, tmp_path):
    process = placement("measure", "--device", device, "-o", "node0.yaml")
    assert process.returncode == 2
    assert process.stderr == (
        "error: placement measure needs the package torch, which is not installed: pip install 'torch>=2.6' (or, in a clone of the "
        "project, pip install -c constraints.txt '.[torch]')\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device", "gpu"], "--device cannot be 'gpu'"),
        (["--processes", "0"], "--processes cannot be '0': it takes a whole number from 1 to 64"),
        (["--processes", "2"], "--processes is for --device cpu: on GPUs there is one for each"),
        (["-o", "there.yaml"], "there.yaml exists; --force replaces it"),
    ],
)
def test_wrong_options_are_refused_before_anything_starts(placement, tmp_path, arguments, message):
    (tmp_path / "there.yaml").write_text("mine", encoding="utf-8")
    process = placement("measure", *arguments)
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith(f"error: {message}")
    assert (tmp_path / "there.yaml").read_text(encoding="utf-8") == "mine"


def test_the_page_shows_what_was_measured_beside_the_classes(placement, measured_file):
    process = placement("topology", measured_file)
    assert process.returncode == 0, process.stderr
    shown = next(block for block in process.stdout.split("\n\n") if block.startswith("measured"))
    assert shown.splitlines() == [
        "measured by torch 2.13.0, NCCL 2.27.3; medians (quartiles of the widest spread):",
        "  4 directions over NV12: 262–262.5 (259.38–264.62) GB/s, class 275",
        "  8 directions over SYS: 17.9–18.2 (17.919–18.281) GB/s, class 19.6",
        "  GPUs 0–1: 16-bit matrix products 250–251 (247.5–252.5) TFLOP/s, peak 312; memory 1400–1401",
        "    (1386–1414) GB/s, peak 1555",
        "  GPUs 2–3: 16-bit matrix products 252–253 (249.48–254.52) TFLOP/s, peak 312; memory 1700",
        "    (1683–1717) GB/s, peak 1935",
        "  all-reduce over GPUs 0–1: bus 95 at 1 MiB, 190 at 512 MiB, GB/s",
        "  all-reduce over GPUs 0–3: bus 5.625 at 1 MiB, 11.25 at 512 MiB, GB/s",
    ]


def test_the_file_says_the_same_when_it_is_written_again(placement, measured_file):
    again = placement("topology", measured_file, "--yaml")
    assert again.stdout == measured_file.read_text(encoding="utf-8")
    assert json.loads(placement("topology", measured_file, "--json").stdout)["measured"]["device"] == "cuda"


def test_plans_rest_on_it(placement, measured_file):
    process = placement("plan", "--topology", measured_file, "--workload", "grpo-1.5b", "--json")
    assert process.returncode == 0, process.stderr
    said = json.loads(process.stdout)["estimate"]["assumptions"]
    assert said[0] == (
        "times and memory are predictions from published constants (docs/model.md), but for what was measured on this machine (by torch "
        "2.13.0, NCCL 2.27.3): copies of all 6 pairs of GPUs, matrix products of all 4 GPUs, memory bandwidth of 3 of 4 GPUs, all-reduces "
        "of 2 groups"
    )


def test_a_rehearsal_is_said_by_every_command(placement, tmp_path):
    rehearsed = load("a100-pcie-mixed-4").replace(measured=measured(pairs={(0, 1): 3.0}, device=Device.CPU))
    (tmp_path / "cpu.yaml").write_text(dump(to_document(rehearsed)), encoding="utf-8")
    page = placement("topology", "cpu.yaml")
    assert "measured on CPU tensors by torch 2.13.0, NCCL 2.27.3, a rehearsal that no plan uses; medians" in " ".join(page.stdout.split())
    assert f"warning: {REHEARSAL}" in " ".join(page.stdout.split())
    found = placement("plan", "--topology", "cpu.yaml", "--workload", "grpo-1.5b")
    assert f"warning: {REHEARSAL}" in found.stderr
    assert "not measurements of this machine" in found.stdout
