"""What a user can do wrong: one line that names the culprit and the remedy, exit 2, never a traceback."""

from __future__ import annotations

import json
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


@pytest.mark.parametrize(
    "command", [("topology", "topo.txt"), ("plan", "--topology", "topo.txt", "--gpu", "a100-80gb", "--workload", "ppo-0.5b")]
)
def test_a_matrix_that_is_not_square_is_used_as_far_as_it_goes(placement, tmp_path, command):
    """A matrix is symmetric, so one row tells of three GPUs; what it cannot tell is named and joins nothing."""
    (tmp_path / "topo.txt").write_text("\tGPU0\tGPU1\tGPU2\nGPU0\t X \tNV12\tNV12\n")
    process = placement(*command)
    assert process.returncode == 0, process.stderr
    said = process.stdout + process.stderr
    assert "rows are missing: GPU1, GPU2" in said
    assert "links are unknown between some of GPU1, GPU2" in said


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


def test_standard_input_cannot_be_machine_and_job(placement):
    process = placement("plan", "--topology", "-", "--workload", "-", stdin=MATRIX)
    assert refused(process, "--topology -", "--workload -", "only one")
    assert refused(placement("plan", "--topology", "-+gpus.csv", "--workload", "-", stdin=MATRIX), "only one")


def test_closed_standard_input(tmp_path):
    for option in ("--topology", "--workload"):
        process = subprocess.run(
            f"{sys.executable} -m placement plan {option} - <&-",
            shell=True,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert refused(process, "standard input is closed, so - cannot be read")


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """Return one file of each kind, with and without what says its kind."""
    from placement.catalog import load_workload, workload_text
    from placement.machines.sources import read_machine
    from placement.maps import devicemap
    from placement.planner import plan
    from placement.program.instance import make_instance
    from placement.workloads.rules import parse_rules
    from topologies.catalog import machine_text
    from topologies.documents.document import to_document

    machine = read_machine("a100-1")
    outcome = plan(make_instance(machine, load_workload("grpo-1.5b"), parse_rules("guide")))
    folder = tmp_path_factory.mktemp("documents")
    texts = {
        "map.yaml": devicemap.dump(outcome.plan),
        "map.json": json.dumps(devicemap.to_document(outcome.plan)),
        "machine.json": json.dumps(to_document(machine)),
        "machine.txt": machine_text("a100-1"),
        "job.yaml": workload_text("grpo-1.5b"),
        "plain-job.yaml": "\n".join(
            line for line in workload_text("grpo-1.5b").splitlines() if not line.startswith(("schema:", "#"))
        ),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("option", "file", "words"),
    [
        ("--topology", "map.yaml", ["a device map", "not a topology"]),
        ("--topology", "map.json", ["a device map", "not a topology"]),
        ("--topology", "job.yaml", ["a workload, not a topology", "--workload"]),
        ("--topology", "plain-job.yaml", ["a workload, not a topology", "--workload"]),
        ("--topology", "ppo-7b", ["a workload, not a topology", "--workload"]),
        ("--workload", "map.yaml", ["a device map", "not a workload"]),
        ("--workload", "machine.json", ["a topology, not a workload", "--topology"]),
        ("--workload", "machine.txt", ["a topology, not a workload", "--topology"]),
        ("--workload", "dgx-h100", ["a topology, not a workload", "--topology"]),
    ],
)
def test_a_file_for_another_option_is_recognised(placement, documents, option, file, words):
    source = file if file in ("ppo-7b", "dgx-h100") else documents / file
    assert refused(placement("plan", option, source), file, *words)


def test_the_machine_command_recognises_other_files_too(placement, documents):
    assert refused(placement("topology", documents / "job.yaml"), "job.yaml is a workload, not a topology")


def test_a_wrong_file_of_the_right_kind_keeps_its_own_message(placement, tmp_path):
    (tmp_path / "job.yaml").write_text("schema: placement/workload/v1\nalgorithm: ppo\nbatsh: 1\n")
    assert refused(placement("plan", "--workload", "job.yaml"), "job.yaml:3:1", "did you mean 'batch'")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["NVIDIA A100-SXM4-64GB"] * 4, ["GPU 0-3 are", "(--gpu 0-3=a100-80gb)"]),
        (["NVIDIA H100 81GB HBM3", "NVIDIA L4", "NVIDIA H100 81GB HBM3"], ["GPU 0,2 are", "(--gpu 0=h100-80gb,2=h100-80gb)"]),
        (["NVIDIA L4", "L40X"], ["GPU 1 is 'L40X'", "(--gpu 1=l40"]),
        (["Zzyzx 1"], ["GPU 0 is 'Zzyzx 1'", "(--gpu 0=CARD)"]),
    ],
)
def test_a_card_that_nobody_knows_is_named_with_all_its_gpus_and_the_nearest_card(placement, tmp_path, names, words):
    mib = {"NVIDIA L4": 23034, "L40X": 46068}
    rows = "".join(f"{i}, {name}, {mib.get(name, 81920 if 'H' in name else 65536)} MiB\n" for i, name in enumerate(names))
    (tmp_path / "gpus.csv").write_text("index, name, memory.total [MiB]\n" + rows)
    links = "\n".join(f"GPU{i}\t" + "\t".join("X" if i == j else "SYS" for j in range(len(names))) for i in range(len(names)))
    (tmp_path / "topo.txt").write_text("\t" + "\t".join(f"GPU{i}" for i in range(len(names))) + "\n" + links + "\n")
    assert refused(placement("plan", "--topology", "topo.txt+gpus.csv"), *words)


@pytest.mark.parametrize("command", ["topology", "plan --topology"])
def test_a_file_of_blank_lines_is_refused_fast(placement, tmp_path, command):
    """Looking at what kind of file it is must not start anew at every line."""
    (tmp_path / "blank.txt").write_text("hello\n" + "\n" * 60_000)
    assert placement(*command.split(), "blank.txt").returncode == 2


def test_help_to_a_full_disk(placement, tmp_path):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "placement", "--help"]
        process = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    assert process.returncode == 2
    assert "Traceback" not in process.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("status: ok\ngpus:\n- {index: 0}\nlinks: {}\n", ["must begin with the line 'schema: placement/topology/v1'"]),
        ('{"gpus": [{"index": 0}], "links": {}}', ["must begin with the line 'schema: placement/topology/v1'"]),
        ("network:\n  rails: 2\n", ["this seems to describe a network", "--network FILE"]),
        ("SwitchName=s0 Nodes=node[0-1]\n", ["this seems to describe a network", "--network FILE"]),
        ("# placement\n\nIt writes:\n\n```yaml\ndevice_map:\n  actor: [0]\n```\n", ["no output that describes GPUs"]),
        ("# Jobs\n\nWrite\n\nschema: placement/workload/v1\nalgorithm: ppo\n", ["no output that describes GPUs"]),
        ("# a job\n---\nschema: placement/workload/v1\n", ["is a workload, not a topology: --workload takes it"]),
    ],
)
def test_a_text_that_is_nearly_a_document_of_ours_is_told_from_prose(placement, tmp_path, text, words):
    (tmp_path / "text").write_text(text)
    assert refused(placement("topology", "text"), *words)


def test_without_a_driver_the_way_on_suits_every_command():
    from placement.machines.sources import OTHER_HOST

    assert OTHER_HOST.endswith("and name that file in place of live")
    assert "--topology" not in OTHER_HOST
