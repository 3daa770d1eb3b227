"""Errors piece by piece, and one factor per framework: what cancels, and what is exact by construction, is seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from placement.cli.validate import factors
from placement.validation.reading import Folder
from placement.validation.report import report, to_document
from placement.validation.rows import Group, Part, Row
from placement.validation.scaling import after_scaling, scaled
from placement.validation.stages import stages

BASE = {"framework": "f", "model": "Qwen2.5-7B", "hardware": "H100", "n_gpus": 16, "max_response": 4096, "step_s": 100.0}


def dense(tmp_path: Path, *rows: dict[str, object]) -> tuple[Row, ...]:
    (tmp_path / "rl_steps.json").write_text(json.dumps({"runs": [BASE | row for row in rows]}))
    return report(Folder.at(tmp_path)).groups[5].rows


def parts(row: Row) -> dict[str, tuple[float | None, float | None]]:
    return {part.name: (part.measured, part.predicted) for part in row.parts}


def test_errors_that_cancel_in_a_step_are_seen_in_its_pieces() -> None:
    rows = (
        Row("a", "s", 100.0, 100.0, parts=(Part("x", 50.0, 75.0), Part("y", 50.0, 25.0), Part("z", None, 1.0))),
        Row("b", "s", 100.0, 100.0, parts=(Part("x", 100.0, 90.0), Part("y", 0.0, 1.0))),
        Row("c", "s", 100.0, None, why="unknown", parts=(Part("x", 1.0, 9.0),)),
    )
    x, y = stages(Group("g", "", rows))
    assert (x.name, x.rows, x.worst.name) == ("x", 2, "a")
    assert [x.mape_percent, x.bias_percent, x.worst_percent] == pytest.approx([30, 20, 50])
    assert (y.name, y.rows) == ("y", 1)
    assert y.bias_percent == pytest.approx(-50)


def test_generation_of_a_run_that_overlaps_is_logged_as_the_wait_for_it(tmp_path: Path) -> None:
    turns, beside, both = dense(
        tmp_path,
        {"mode": "colocate", "gen_s": 40.0, "old_logprob_s": 5.0, "sync_s": 1.0},
        {"mode": "fully async 8:8", "gen_s": 3.0},
        {"mode": "one-step-off 8:8", "generate_sequences_s": 40.0, "wait_prev_gen_s": 7.0},
    )
    assert [parts(turns)[name][0] for name in ("generate", "old_log_probs", "sync_weights", "update_actor")] == [40.0, 5.0, 1.0, None]
    assert "wait_for_generation" not in parts(turns)
    assert (parts(beside)["generate"][0], parts(beside)["wait_for_generation"][0]) == (None, 3.0)
    assert (parts(both)["generate"][0], parts(both)["wait_for_generation"][0]) == (40.0, 7.0)
    # What is waited for is what generation takes longer than training: then both are the step, but for the sync.
    found = {name: value for name, (_, value) in parts(both).items()}
    trained = sum(value or 0 for name, value in found.items() if name in ("old_log_probs", "update_actor", "ref_log_probs"))
    assert found["wait_for_generation"] == pytest.approx(max((found["generate"] or 0) - trained, 0))


def test_the_document_has_the_pieces_beside_the_groups() -> None:
    document = to_document(report(Folder.at(None)))
    assert list(document["stages"]) == ["rl_step_dense", "rl_step_moe"]
    assert {"generate", "old_log_probs", "update_actor", "wait_for_generation"} <= document["stages"]["rl_step_dense"].keys()
    for group in document["stages"].values():
        for stage in group.values():
            assert stage["rows"] > 0
            assert stage["mape_percent"] >= abs(stage["mean_error_percent"]) - 0.01
            assert stage["worst"]["name"]


def test_a_framework_of_one_row_does_not_count_after_its_factor() -> None:
    rows = tuple(
        Row(name, "s", measured, 1.0, framework=framework, model="m")
        for name, framework, measured in (("a", "many", 1.0), ("b", "many", 2.0), ("c", "single", 7.0))
    )
    many, single = scaled(Group("g", "", rows))
    assert (single.rows, single.factor, single.mape_percent, single.left_out_percent) == (1, 7.0, None, None)
    assert after_scaling(Group("g", "", rows)) == many.mape_percent
    assert after_scaling(Group("g", "", rows[2:])) is None
    said = list(factors(Group("g", "", rows)))
    assert "without 1 framework of one row" in said[0]
    assert "by construction" in said[2]
    assert list(factors(Group("g", "", ()))) == []
