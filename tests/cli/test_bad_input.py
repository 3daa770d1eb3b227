"""What a user can do wrong: one line that names the culprit and the remedy, exit 2, never a traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest

MATRIX = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV12\t0-31\nGPU1\tNV12\t X \t0-31\n"


def refused(process, *words):
    """Assert that *process* ended as a refusal whose message has all *words*."""
    assert process.returncode == 2, process.stderr
    assert "Traceback" not in process.stderr
    assert process.stdout == ""
    for word in words:
        assert word in process.stderr
    return True


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(b"", ["empty"], id="empty file"),
        pytest.param(bytes(range(256)) * 40, ["binary"], id="binary"),
        pytest.param(b"CPU Affinity\tNUMA Affinity\n", ["GPU"], id="no GPU"),
        pytest.param(b"hello, world\nthis is no matrix\n", ["nvidia-smi topo -m"], id="prose"),
    ],
)
def test_a_file_that_is_no_machine(placement, tmp_path, content, words):
    (tmp_path / "topo.txt").write_bytes(content)
    assert refused(placement("plan", "--topology", "topo.txt"), "topo.txt", *words)


def test_a_file_of_200_mb_is_refused_fast_and_in_little_memory(placement, tmp_path):
    with open(tmp_path / "big.txt", "wb") as file:
        file.truncate(200 * 2**20)
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)); "
        "sys.argv = ['placement', 'topology', 'big.txt']; from placement.cli import main; main()"
    )
    process = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )
    assert refused(process, "big.txt", "MiB")


def test_a_matrix_that_is_not_square(placement, tmp_path):
    (tmp_path / "topo.txt").write_text("\tGPU0\tGPU1\tGPU2\nGPU0\t X \tNV12\tNV12\n")
    process = placement("plan", "--topology", "topo.txt", "--gpu", "a100-80gb")
    assert "warning" in process.stderr
    assert "GPU1" in process.stderr


def test_an_unknown_link_code_is_said(placement, tmp_path):
    (tmp_path / "topo.txt").write_text(MATRIX.replace("NV12", "QQ7"))
    process = placement("topology", "topo.txt")
    assert "QQ7" in process.stdout + process.stderr
    assert "Traceback" not in process.stderr


def test_sources_that_count_differently(placement, tmp_path):
    (tmp_path / "topo.txt").write_text(MATRIX)
    rows = "".join(f"{i}, NVIDIA A100-SXM4-80GB, 81920 MiB\n" for i in range(3))
    (tmp_path / "gpus.csv").write_text("index, name, memory.total [MiB]\n" + rows)
    assert refused(placement("plan", "--topology", "topo.txt+gpus.csv"), "topo.txt", "gpus.csv", "2", "3")


def test_memory_that_no_source_states(placement, tmp_path):
    (tmp_path / "topo.txt").write_text(MATRIX)
    assert refused(placement("plan", "--topology", "topo.txt"), "nvidia-smi --query-gpu=index,name,memory.total", "--gpu")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["--topology", "dgx-a100-80gbb"], ["dgx-a100-80gb"], id="machine that is not shipped"),
        pytest.param(["--topology", "dgx-h100", "--topology", "dgx-h200"], ["one machine"], id="two machines"),
        pytest.param(["--topology", "dgx-h100", "--workload", "ppo-8b"], ["ppo-7b"], id="workload that is not shipped"),
        pytest.param(["--topology", "dgx-h100", "--rules", "contiguty=off"], ["contiguity"], id="rule that does not exist"),
        pytest.param(["--topology", "dgx-h100", "--rules", "reserve=lots"], ["reserve"], id="amount that is none"),
        pytest.param(["--topology", "dgx-h100", "--gpu", "a100-40gb"], ["H100"], id="card that contradicts the source"),
        pytest.param(["--topology", "dgx-h100", "--visible", "0,9"], ["9", "0 to 7"], id="GPU that is not there"),
        pytest.param(["--topology", "dgx-h100", "--visible", "0,0"], ["twice"], id="GPU named twice"),
        pytest.param(["--topology", "dgx-h100", "--visible", "all"], ["'all'"], id="no id"),
        pytest.param(["--topology", "dgx-h100", "--within", "-1"], ["--within"], id="negative band"),
        pytest.param(["--topology", "dgx-h100", "--workers", "0"], ["--workers"], id="no worker"),
        pytest.param(["--topology", "no/such/file.txt"], ["no/such/file.txt"], id="missing file"),
        pytest.param(["--topology", "."], ["folder"], id="folder"),
    ],
)
def test_options(placement, arguments, words):
    assert refused(placement("plan", *arguments), *words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("roles: {actor: {}}", ["job.yaml:1"], id="role without a model"),
        pytest.param("algorithm: ppo\nalgorithm: grpo\n", ["job.yaml:2:1", "twice", "algorithm"], id="duplicate key"),
        pytest.param("algoritm: ppo\n", ["job.yaml:1:1", "algorithm"], id="unknown key"),
        pytest.param("algorithm: [ppo\n", ["job.yaml"], id="syntax"),
        pytest.param("", ["job.yaml"], id="empty"),
    ],
)
def test_workload_file(placement, tmp_path, text, words):
    (tmp_path / "job.yaml").write_text(text)
    assert refused(placement("plan", "--topology", "dgx-h100", "--workload", "job.yaml"), *words)


def test_a_workload_for_a_different_algorithm(placement, tmp_path):
    from placement.catalog import workload_text

    text = workload_text("ppo-7b").replace("algorithm: ppo", "algorithm: grpo")
    (tmp_path / "job.yaml").write_text(text)
    assert refused(placement("plan", "--topology", "dgx-h100", "--workload", "job.yaml"), "critic", "grpo")


def test_an_existing_file_is_not_replaced_and_nothing_is_solved(placement, tmp_path):
    (tmp_path / "map.yaml").write_text("mine")
    process = placement("plan", "--topology", "a100-1", "--workload", "grpo-1.5b", "-o", "map.yaml")
    assert refused(process, "map.yaml exists", "--force")
    assert (tmp_path / "map.yaml").read_text() == "mine"


def test_a_folder_that_cannot_be_written(placement):
    target = "/proc/map.yaml"
    assert refused(placement("plan", "--topology", "dgx-a100-80gb", "--workload", "ppo-0.5b", "-o", target), target)


def test_closed_standard_output(placement, tmp_path):
    process = subprocess.run(
        f"{sys.executable} -m placement topology dgx-h100 --json >&-",
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == 2
    assert "standard output is closed" in process.stderr
    assert "Traceback" not in process.stderr


def test_a_reader_that_leaves(placement, tmp_path):
    process = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {sys.executable} -m placement catalog models | (exec 0<&-; sleep 2)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (process.stderr, process.returncode) == ("", 141)
