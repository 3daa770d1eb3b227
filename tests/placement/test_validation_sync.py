"""Rows of weight syncs: what their words change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from placement.constants.table import constants
from placement.memory.sending import all_weights, buckets
from placement.models.model import find_model
from placement.timing.collectives import alpha_s
from placement.validation import naming, weight_sync
from placement.validation.reading import Folder
from placement.validation.rows import Row
from placement.validation.setting import hardware

ROW = {"hardware": "H20", "model": "Qwen3-30B-A3B", "trainer_gpus": 16, "rollout_gpus": 16, "sync_s": 5.0}


def row(folder: Path, **fields: object) -> Row:
    (folder / "rl_steps.json").write_text(json.dumps({"weight_sync": [ROW | fields]}))
    (found,) = weight_sync.group(Folder.at(folder)).rows
    return found


def seconds(folder: Path, **fields: object) -> float:
    found = row(folder, **fields).predicted
    assert found is not None
    return found


def test_shards_that_go_straight_fill_no_buckets(tmp_path: Path) -> None:
    # 61 GB are 29 buckets of 2 GiB, each a call of 7.5 ms.
    whole = all_weights(find_model("Qwen/Qwen3-30B-A3B"))
    assert buckets(whole, constants()) == 29
    assert seconds(tmp_path) - seconds(tmp_path, method="shard-overlap p2p") == pytest.approx(29 * 7.5e-3)


def test_megatron_gathers_no_tensor_over_all_of_its_ranks(tmp_path: Path) -> None:
    # FSDP gathers each of 48 · (8 + 1 + 3 · 128) + 3 tensors over sixteen GPUs of two nodes: 10 + 14 · 1.96 + 2 · 10 µs before it starts.
    where, tensors = hardware(naming.card("H20"), 16), 48 * (8 + 1 + 3 * 128) + 3
    start = alpha_s(16, where.ring_bytes_per_s, nvlink=False, c=constants(), islands=2)
    assert where.islands == 2
    assert start == pytest.approx(57.44e-6)
    # Without those starts it is the bytes between the pools that take longest, by some milliseconds.
    assert seconds(tmp_path) - seconds(tmp_path, engine="Megatron") == pytest.approx(tensors * start, abs=0.02)


def test_without_a_checkpoint_engine_tensors_wait_for_each_other(tmp_path: Path) -> None:
    found = row(tmp_path, checkpoint_engine=False)
    assert found.assumed == ("tensor by tensor, where plans count buckets",)
    assert (found.predicted or 0) > 1.5 * seconds(tmp_path, checkpoint_engine=True)


def test_many_gpus_gather_in_seconds(tmp_path: Path) -> None:
    # A hop of 10 µs for each of 256 GPUs made it 101 s: 32 of them leave a node.
    assert seconds(tmp_path, model="Qwen3-235B-A22B", trainer_gpus=256, rollout_gpus=256) < 40


@pytest.mark.parametrize(
    ("fields", "framework"),
    [
        ({"source": "github:NVIDIA-NeMo/RL docs/x.md"}, "NVIDIA-NeMo/RL"),
        ({"source": "https://github.com/verl-project/verl.git"}, "verl-project/verl"),
        ({"source": "a talk"}, ""),
        ({"source": "github:a/b", "framework": "slime"}, "slime"),
    ],
)
def test_a_row_is_of_the_framework_that_it_or_its_source_names(tmp_path: Path, fields: dict[str, str], framework: str) -> None:
    assert row(tmp_path, **fields).framework == framework
