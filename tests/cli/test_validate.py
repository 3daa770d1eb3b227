"""`placement validate` as people run it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from placement.cli.validate import number, percent

GROUPS = [
    "rollout_memory", "training_memory", "links", "collectives", "training_throughput", "rl_step_dense", "rl_step_moe", "weight_sync",
]  # fmt: skip


def test_without_a_folder_the_shipped_measurements_are_shown(placement):
    process = placement("validate")
    assert (process.returncode, process.stderr) == (0, "")
    lines = process.stdout.splitlines()
    assert lines[0] == "rollout_memory: weights or KV cache of a generation engine, GiB per GPU (the farther one)"
    assert lines[1].split() == ["row", "measured", "predicted", "error"]
    assert max(map(len, lines)) <= 100
    summary = lines[lines.index("summary") + 1 :]
    assert summary[0].split() == ["group", "rows", "predicted", "mean", "error", "worst"]
    assert [line.split()[0] for line in summary[2:]] == GROUPS
    for words in ("cannot be predicted: verl, Qwen2.5-7B-Instruct", "openrlhf_vs_dschat", "with one scale factor per framework"):
        assert words in process.stdout


def test_json_is_one_document_of_the_eight_groups(placement):
    process = placement("validate", "--json")
    document = json.loads(process.stdout, parse_constant=lambda word: pytest.fail(word))
    assert (process.returncode, list(document["groups"])) == (0, GROUPS)
    for group in document["groups"].values():
        assert 0 < group["predicted"] <= group["rows"]
        assert group["mape_percent"] >= 0
        assert group["worst"]["error_percent"] is not None
    assert document["groups"]["rl_step_dense"]["frameworks"]["NeMo-RL"]["leave_one_model_out_mape_percent"] > 0


def test_the_same_folder_gives_the_same_bytes(placement):
    assert placement("validate").stdout == placement("validate").stdout


def test_a_damaged_file_is_one_line_and_exit_2(placement, tmp_path: Path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "memory.json").write_text('{"inference": [{"kv": -3}')
    process = placement("validate", "mine")
    assert (process.returncode, process.stdout) == (2, "")
    assert " ".join(process.stderr.split()) == "error: mine/memory.json:1:26: no valid JSON: Expecting ',' delimiter"


def test_an_unfit_row_is_listed_and_the_others_are_compared(placement, tmp_path: Path):
    fit = {"source": "H100", "model": "Qwen/Qwen3-4B", "kv": 50.0}
    (tmp_path / "memory.json").write_text(json.dumps({"inference": [{"kv": None, "kv_tokens": 5}, fit]}))
    process = placement("validate", ".")
    assert process.returncode == 0
    assert "1 of 2 rows predicted" in process.stdout
    assert "memory.json: inference row 1: kv is a measured value above zero" in " ".join(process.stdout.split())


def test_a_folder_of_something_else_is_exit_2_and_names_what_is_looked_for(placement):
    process = placement("validate", ".")
    assert (process.returncode, process.stdout) == (2, "")
    for name in ("memory.json", "rl_steps.json", "collectives.json", "train_throughput.csv", "p2p/*.json"):
        assert name in process.stderr


def test_a_folder_that_is_none_is_exit_2(placement):
    process = placement("validate", "nowhere")
    assert process.returncode == 2
    assert "there is no folder nowhere" in process.stderr


def test_names_from_a_file_cannot_write_to_the_terminal(placement, tmp_path: Path):
    rows = [{"model": "\x1b[31mred[bold]\x07", "source": "H100", "kv": 1.0}]
    (tmp_path / "memory.json").write_text(json.dumps({"inference": rows}))
    process = placement("validate", ".")
    assert process.returncode == 0
    assert "\x1b" not in process.stdout
    assert "\x07" not in process.stdout
    assert "[bold]" in process.stdout


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "–"), (0.0123456, "0.0123"), (1.125, "1.12"), (99.96, "100"), (1234.5, "1,234"), (1e12, "1,000,000,000,000")],
)
def test_numbers_have_three_digits_that_count(value, shown):
    assert number(value) == shown


def test_errors_have_a_sign():
    assert (percent(None), percent(3.14159), percent(-20)) == ("–", "+3.1 %", "-20.0 %")


def test_a_damaged_file_is_an_error_and_the_others_are_compared(placement, tmp_path):
    (tmp_path / "memory.json").write_text("[]")
    row = {"source": "x", "hardware": "H800", "model": "Qwen2.5-72B", "trainer_gpus": 32, "rollout_gpus": 32, "sync_s": 3.2}
    (tmp_path / "rl_steps.json").write_text(json.dumps({"weight_sync": [row]}))
    process = placement("validate", str(tmp_path), "--json")
    groups = json.loads(process.stdout)["groups"]
    said = f"{tmp_path / 'memory.json'}: this file holds a JSON object"
    assert (process.returncode, process.stderr) == (2, f"error: {said}\n")
    assert [name for name, group in groups.items() if group.get("error") == said] == GROUPS[:2]
    assert groups["weight_sync"]["predicted"] == 1
