"""The commands as people run them."""

from __future__ import annotations

import io
import json
import os
import sys

import pytest
import yaml

from placement.cli.say import note
from placement.maps.devicemap import load
from placement.plans import Plan
from topologies.catalog import machine_text


def test_plan_prints_yaml_on_standard_output_and_the_table_on_standard_error(placement):
    process = placement("plan", "--topology", "dgx-a100-80gb", "--workload", "ppo-1.5b")
    assert process.returncode == 0
    plan = load(process.stdout)
    assert isinstance(plan, Plan)
    assert plan.proof.status == "optimal"
    assert " ".join(process.stderr.split()).startswith(plan.verdict)
    for word in ("GPUs in rank order", "trivial plan", "proven", "actor", "update"):
        assert word in process.stderr
    assert max(map(len, process.stderr.splitlines())) <= 100


def test_the_same_question_gives_the_same_bytes(placement):
    arguments = ("plan", "--topology", "dgx-1-v100", "--workload", "ppo-1.5b")
    first = placement(*arguments).stdout
    assert first == placement(*arguments, "--workers", "2").stdout
    assert first == placement(*arguments, env={**os.environ, "PYTHONHASHSEED": "7"}).stdout


def test_json_is_the_same_document(placement):
    arguments = ("plan", "--topology", "a100-pcie-mixed-4", "--workload", "ppo-0.5b")
    assert json.loads(placement(*arguments, "--json").stdout) == yaml.safe_load(placement(*arguments).stdout)


def test_no_plan_is_an_answer_with_reasons(placement):
    process = placement("plan", "--topology", "a100-1", "--workload", "ppo-1.5b", "--json")
    assert process.returncode == 1
    document = json.loads(process.stdout)
    assert document["device_map"] is None
    assert document["proof"]["status"] == "infeasible"
    assert "critic and ref share no GPU (isolation, preset guide)" in document["clash"]
    assert "because critic and ref share no GPU" in process.stderr


def test_no_plan_prints_no_yaml(placement):
    process = placement("plan", "--topology", "a100-1", "--workload", "ppo-1.5b")
    assert (process.returncode, process.stdout) == (1, "")


def test_out_of_time_without_a_plan_is_exit_3(placement):
    process = placement("plan", "--topology", "dgx-a100-80gb", "--time-limit", "0")
    assert process.returncode in (0, 3)
    if process.returncode == 3:
        assert "--time-limit" in process.stderr
    else:
        assert load(process.stdout).proof.status in ("feasible", "optimal")


def test_output_file(placement, tmp_path):
    arguments = ("plan", "--topology", "a100-pcie-mixed-4", "--workload", "ppo-0.5b")
    process = placement(*arguments, "-o", "map.yaml")
    assert (process.returncode, process.stdout) == (0, "")
    assert (tmp_path / "map.yaml").read_text() == placement(*arguments).stdout


def test_rules_all_has_one_line_per_preset(placement):
    process = placement("plan", "--topology", "a100-pcie-mixed-4", "--workload", "ppo-0.5b", "--rules", "all")
    assert process.returncode == 0
    firsts = [line.split()[0] for line in process.stdout.splitlines() if line[:1].isalpha()]
    assert firsts == ["preset", "guide", "minimal", "strict", "four", "colocate", "free"]


def test_the_command_line_wins_over_the_workload_file(placement, tmp_path):
    from placement.catalog import workload_text

    lines = [line for line in workload_text("ppo-0.5b").splitlines() if not line.startswith("rules:")]
    (tmp_path / "job.yaml").write_text("\n".join([*lines, "rules: strict,reserve=9%", ""]))
    plan = load(placement("plan", "--topology", "dgx-h100", "--workload", "job.yaml", "--rules", "free").stdout)
    assert plan.rules == {"preset": "free", "reserve": "9%"}


def test_objective_and_visible_reach_the_map(placement):
    process = placement("plan", "--topology", "dgx-h100", "--workload", "grpo-1.5b", "--objective", "gpus", "--visible", "4-7")
    plan = load(process.stdout)
    assert len(plan.used_gpus) == 1
    assert plan.environment["CUDA_VISIBLE_DEVICES"] == "4,5,6,7"
    assert plan.proof.objective_terms[0].name == "gpus_used"


def test_standard_input_is_a_source(placement):
    from topologies.catalog import machine_text

    process = placement("topology", "-", "--json", stdin=machine_text("dgx-1-v100"))
    assert json.loads(process.stdout)["islands"] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_joined_sources_and_named_cards_are_one_machine(placement, tmp_path):
    matrix = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV12\t0-31\nGPU1\tNV12\t X \t0-31\n"
    (tmp_path / "topo.txt").write_text(matrix)
    (tmp_path / "gpus.csv").write_text(
        "name, index, memory.total [MiB]\nNVIDIA A100-SXM4-80GB, 1, 81920 MiB\nNVIDIA A100-SXM4-80GB, 0, 81920 MiB\n"
    )
    joined = placement("plan", "--topology", "topo.txt+gpus.csv", "--workload", "grpo-1.5b")
    named = placement("plan", "--topology", "topo.txt", "--gpu", "a100-80gb", "--workload", "grpo-1.5b")
    assert joined.returncode == named.returncode == 0, joined.stderr + named.stderr
    assert load(joined.stdout).device_map == load(named.stdout).device_map


@pytest.mark.parametrize("kind", ["gpus", "models", "machines", "workloads", "rules", "constants"])
def test_catalog(placement, kind):
    assert len(json.loads(placement("catalog", kind, "--json").stdout)) >= 8
    assert placement("catalog", kind).returncode == 0


def test_the_whole_catalog_and_the_schema(placement):
    kinds = {"gpus", "models", "machines", "workloads", "rules", "presets", "constants", "targets"}
    assert set(json.loads(placement("catalog", "--json").stdout)) == kinds
    assert json.loads(placement("schema", "workload").stdout)["type"] == "object"


def test_topology_forms(placement, tmp_path):
    text = placement("topology", "dgx-a100-80gb").stdout
    assert "NV12" in text
    assert "islands, joined by NVLink: {0–7}" in text
    (tmp_path / "machine.yaml").write_text(placement("topology", "dgx-a100-80gb", "--yaml").stdout)
    again = placement("topology", "machine.yaml", "--json")
    first = json.loads(placement("topology", "dgx-a100-80gb", "--json").stdout)
    second = json.loads(again.stdout)
    assert second["links"] == first["links"]
    assert second["gpus"] == first["gpus"]
    assert placement("topology", "dgx-a100-80gb", "--svg", "machine.svg").returncode == 0
    assert (tmp_path / "machine.svg").read_text().startswith("<svg")


def test_an_error_in_json_is_a_document_too(placement, tmp_path):
    (tmp_path / "topo.txt").write_text("Failed to run topology matrix\n")
    process = placement("topology", "topo.txt", "--json")
    assert process.returncode == 2
    document = json.loads(process.stdout)
    assert document["status"] == "error"
    assert document["schema"] == "placement/topology/v1"
    assert "topology matrix" in document["error"]


def test_version_and_help(placement):
    assert placement("--version").stdout.startswith("placement ")
    assert "--rules" in placement("plan", "--help").stdout
    assert placement().returncode in (0, 2)


def test_a_wrong_command_says_so(placement):
    process = placement("paln")
    assert process.returncode == 2
    assert "No such command" in process.stderr


def test_a_topology_is_json_or_yaml(placement):
    process = placement("topology", "a100-1", "--json", "--yaml")
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr == "error: --json and --yaml both write to standard output: give one of them\n"


@pytest.mark.parametrize("command", ["topology", "collect", "catalog", "schema"])
def test_help_names_arguments_without_types_of_python(placement, command):
    text = placement(command, "--help").stdout
    assert "Arguments:" in text
    assert "<str>" not in text
    assert "<list" not in text
    assert "..." not in text.replace("]...", "")


@pytest.mark.parametrize("command", ["topology", "plan"])
def test_help_says_what_a_source_may_be(placement, command):
    text = " ".join(placement(command, "--help").stdout.split())
    for word in ("topo.txt+gpus.csv", "topo.txt#2"):
        assert word in text
    # What `plan` refuses, which plans a single host, it does not offer.
    for word in ("srun -l", "'dgx-h100 x 16 @ 8x50GB/s'"):
        assert (word in text) == (command == "topology")


def test_notes_wrap_on_a_terminal_only(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("COLUMNS", "40")
    text = "warning: " + " ".join(["word"] * 30)
    for stream, longest in ((Terminal(), 40), (io.StringIO(), len(text))):
        monkeypatch.setattr(sys, "stderr", stream)
        note(text)
        lines = stream.getvalue().splitlines()
        assert " ".join(lines).split() == text.split()
        assert max(map(len, lines)) <= longest
        assert (len(lines) == 1) == (longest > 40)
    monkeypatch.setattr(sys, "stderr", Terminal())
    note(table := text + "\n" + text)
    assert sys.stderr.getvalue() == table + "\n"


def test_a_dash_is_standard_output_wherever_a_file_is_written(placement, tmp_path):
    for arguments in (["plan", "--topology", "a100-pcie-mixed-4", "--workload", "ppo-0.5b", "--json"], ["collect", "node0.txt"]):
        (tmp_path / "node0.txt").write_text(machine_text("a100-1"))
        plain, dashed = placement(*arguments), placement(*arguments, "-o", "-")
        assert (plain.returncode, dashed.returncode) == (0, 0)
        assert dashed.stdout == plain.stdout != ""
    drawn = placement("topology", "a100-1", "--svg", "-")
    assert (drawn.returncode, drawn.stderr) == (0, "")
    assert drawn.stdout.startswith("<svg")
    assert [path.name for path in tmp_path.iterdir()] == ["node0.txt"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--svg", "a.png"], "error: --svg a.png: the drawing is SVG; name it a.svg, browsers and Inkscape make other formats of it\n"),
        (
            ["--svg", "-", "--yaml"],
            "error: --svg - and --json or --yaml all write to standard output: give one of them, or name a file for the drawing\n",
        ),
    ],
)
def test_what_is_no_place_for_a_drawing_is_refused(placement, tmp_path, arguments, said):
    process = placement("topology", "a100-1", *arguments)
    assert (process.returncode, process.stdout, process.stderr) == (2, "", said)
    assert not list(tmp_path.iterdir())
