"""Damaged files are refused in one line that names them, unfit rows are listed; nothing in them can crash or hang the reader."""

from __future__ import annotations

import json
from pathlib import Path

import measurements
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.errors import InputError
from placement.validation.reading import MAX_BYTES, MAX_ROWS, Folder, Record
from placement.validation.report import report, to_document
from placement.validation.rows import Unpredictable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    measurements.write(tmp_path, [1.0] * measurements.COUNT)
    return tmp_path


@pytest.mark.parametrize("name", ["memory.json", "collectives.json", "rl_steps.json", "train_throughput.csv", "p2p"])
def test_files_may_be_missing(folder: Path, name: str) -> None:
    if name == "p2p":
        for file in (folder / name).iterdir():
            file.unlink()
        (folder / name).rmdir()
    else:
        (folder / name).unlink()
    counts = [group.rows for group in report(Folder.at(folder)).groups]
    assert () in counts
    assert any(counts)


DAMAGED = {
    "no JSON": ("memory.json", '{"training": [', "memory.json:1:15: no valid JSON"),
    "NaN": ("memory.json", '{"training": [{"measured_peak": NaN}]}', "memory.json: no JSON of measurements: NaN is no measurement"),
    "infinite": ("collectives.json", '[{"n": 1e999}]', "collectives.json: no JSON of measurements: 1e999 is no finite number"),
    "long number": ("collectives.json", f'[{{"n": {"9" * 50}}}]', "a number has more than 40 digits"),
    "deep": ("collectives.json", "[" * 200_000, "collectives.json"),
    "not UTF-8": ("memory.json", b"\xff\xfe\x00", "memory.json: this is no text (UTF-8)"),
    "wrong top": ("memory.json", "[]", "memory.json: this file holds a JSON object"),
    "wrong list": ("memory.json", '{"training": {}}', "memory.json: training: a list of at most 20000 rows is wanted here"),
    "quotes": ("train_throughput.csv", 'a,b\n"x,y\n', "train_throughput.csv: no comma-separated values"),
}  # fmt: skip

UNFIT = {
    "wrong row": ("memory.json", '{"training": [3]}', "a row is a JSON object"),
    "no measurement": ("memory.json", '{"training": [{"model": "x"}]}', "measured_peak is a measured value above zero"),
    "zero": ("memory.json", '{"training": [{"measured_peak": 0}]}', "measured_peak is a measured value above zero, not 0"),
    "negative": ("memory.json", '{"inference": [{"kv": -1}]}', "kv is a number from 0 to 1e+18, not -1"),
    "text": ("memory.json", '{"inference": [{"kv": "5"}]}', "kv is a number from 0 to 1e+18, not '5'"),
    "boolean": ("memory.json", '{"inference": [{"kv": true}]}', "kv is a number"),
    "name": ("memory.json", '{"inference": [{"kv": 1, "model": 5}]}', "model is a text"),
    "half a GPU": ("collectives.json", '[{"n": 2.5, "busbw_at_max_GBs": 1}]', "n is a whole number"),
    "no group size": ("collectives.json", '[{"busbw_at_max_GBs": 1}]', "n is the number of GPUs"),
    "no rate": ("collectives.json", '[{"n": 2}]', "busbw_at_max_GBs is a measured value above zero"),
    "no sync": ("rl_steps.json", '{"weight_sync": [{}]}', "sync_s is a measured value above zero"),
    "no step": ("rl_steps.json", '{"a": [{"step_s": 1}, {}]}', "step_s is a measured value above zero"),
    "cells": ("train_throughput.csv", "model,n_gpus\n7b\n", "this row has not as many cells"),
    "CSV NaN": ("train_throughput.csv", "tok_per_s_per_gpu\nnan\n", "tok_per_s_per_gpu is a number from 0 to 1e+18, not 'nan'"),
    "matrix": ("p2p/101.json", '{"links": [["X"], ["X"]]}', "links is a square table"),
    "matrix size": ("p2p/101.json", '{"links": [["X"]], "unidirectional_p2p_enabled": [[1, 1], [1, 1]]}',
                    "has 2 rows where links has 1"),
    "matrix code": ("p2p/101.json", '{"links": [["X", 3], [3, "X"]], "bidirectional_p2p_enabled": [[1, 1], [1, 1]]}',
                    "links has 3"),
    "matrix value": ("p2p/101.json", '{"links": [["X", "A"], ["A", "X"]], "bidirectional_p2p_enabled": [[1, -1], [1, 1]]}',
                     "has -1 between"),
    "matrix GPUs": (
        "p2p/101.json",
        '{"links": [["X", "A"], ["A", "X"]], "gpus": ["H100"], "bidirectional_p2p_enabled": [[1, 1], [1, 1]]}',
        "gpus names 1 GPUs where the matrix has more",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "text", "said"), DAMAGED.values(), ids=DAMAGED.keys())
def test_damage_is_told_with_its_place_and_the_other_files_are_read(folder: Path, name: str, text: str | bytes, said: str) -> None:
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    (damage,) = damages(folder)
    assert said in damage
    assert name in damage
    assert len(damage) < 1000
    assert any(row.predicted is not None for group in report(Folder.at(folder)).groups for row in group.rows)
    document = to_document(report(Folder.at(folder)))
    assert damage in [group.get("error") for group in document["groups"].values()]


def damages(folder: Path) -> list[str]:
    return list(dict.fromkeys(group.damage for group in report(Folder.at(folder)).groups if group.damage))


@pytest.mark.parametrize(("name", "text", "said"), DAMAGED.values(), ids=DAMAGED.keys())
def test_damage_alone_is_refused_with_its_place(tmp_path: Path, name: str, text: str | bytes, said: str) -> None:
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as caught:
        report(Folder.at(tmp_path))
    assert said in str(caught.value)


@pytest.mark.parametrize(("name", "text", "said"), UNFIT.values(), ids=UNFIT.keys())
def test_an_unfit_row_is_listed_with_the_reason_and_the_others_stay(folder: Path, name: str, text: str, said: str) -> None:
    (folder / name).write_text(text)
    rows = [row for group in report(Folder.at(folder)).groups for row in group.rows]
    unfit = [row for row in rows if row.why is not None and said in row.why]
    assert [row.predicted for row in unfit] == [None]
    assert unfit[0].measured is not None or name.rpartition("/")[2] in unfit[0].name
    assert any(row.predicted is not None for row in rows)


def test_files_and_lists_have_a_largest_size(folder: Path) -> None:
    (folder / "memory.json").write_bytes(b" " * (MAX_BYTES + 1))
    assert "larger than 8 MiB" in damages(folder)[0]
    (folder / "memory.json").write_text(json.dumps({"training": [{}] * (MAX_ROWS + 1)}))
    assert "at most 20000 rows" in damages(folder)[0]
    (folder / "memory.json").unlink()
    (folder / "train_throughput.csv").write_text("tok_per_s_per_gpu\n" + "1\n" * (MAX_ROWS + 1))
    assert "more than 20000 rows" in damages(folder)[0]


def test_a_folder_has_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        Folder.at(tmp_path / "missing")
    (tmp_path / "memory.json").mkdir()
    with pytest.raises(InputError, match=r"memory\.json: this is no file"):
        report(Folder.at(tmp_path))


VALUES = st.none() | st.booleans() | st.integers(-3, 10**12) | st.floats(allow_nan=False) | st.text(max_size=30) | st.sampled_from(
    ["H100", "DGX-H100", "Qwen3-4B", "Qwen3-30B3A", "[2,1,8,1,n/a]", "[0,0,0]", "fully async 4:4", "1-step Off", "TP2->TP4", "same",
     "SFT, unfused CE", "8B QLoRA 1x4090", "seq 8192, batch 9999", "amp_fp8", "True", "TP0->TP4", "Megatron TP2 PP64", "FSDP TP2 PP2 SP2",
     "ZeRO-1 LoRA r=70000", "PPO", "vLLM+Megatron TP4 PP3 EP8", "A100, util 5 %, pp 0, max-num-seqs 0, max-model-len 0", "fp8 rollout",
     "DDP", "separate 8+8", "rollout 0, trainer 3", "HSDP int8", "DPO", "7B", "1x RTX 4090, seq_len=4096, bs 2, AdamW 8bit", "0x H100",
     "9999x9999 H100, tp 9999 dp 9999, seq 0k, mbs 0", "8 H100 + 8 A100", "opt-1.3b", "Hermes-3-Llama-3.1-8B", "2407 0528"]
)  # fmt: skip
ROWS = {
    "memory.json": ("training", measurements.PEAKS[0] | {"measured_peak": 1.0, "mode": "", "source": "", "lora_rank": 8}),
    "memory.json ": ("inference", measurements.ENGINES[0] | {"kv": 1.0, "weights": 1.0, "kv_tokens": 5, "gpu_memory_utilization": 0.9,
                                                             "pp": 1, "kv_cache_dtype": "", "max_num_seqs": 9, "max_model_len": 99}),
    "rl_steps.json": ("runs", measurements.STEPS[0] | measurements.STEPS[2] | {
        "step_s": 1.0, "old_logprob_s": 1.0, "algorithm": "PPO", "critic": "Qwen3-4B", "reward_model": None, "engine": "vLLM+FSDP2",
        "gpu_memory_utilization": 0.5, "kv_cache_dtype": None, "lora_rank": None, "mean_response": None}),
    "rl_steps.json ": ("weight_sync", measurements.SYNCS[0] | {"mapping": "", "sync_s_min": 1.0, "precision": "",
                                                               "checkpoint_engine": False}),
}


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_row_does_anything_but_a_report_or_one_line(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    name, (listed, fields) = data.draw(st.sampled_from(list(ROWS.items())))
    changed = data.draw(st.dictionaries(st.sampled_from(sorted(fields)), VALUES, min_size=1, max_size=3))
    path = tmp_path_factory.mktemp("rows")
    (path / name.strip()).write_text(json.dumps({listed: [fields | changed]}, allow_nan=True))
    try:
        document = to_document(report(Folder.at(path)))
    except InputError as error:
        assert name.strip() in str(error)
    else:
        assert sum(group["rows"] for group in document["groups"].values()) == 1
        json.dumps(document, allow_nan=False)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(measurements.CSV_FIELDS), st.sampled_from(
    ["", "0", "-1", "1e30", "nan", "7b", "h100_80gb", "a100_40gb", "2048", "x", "amp_fp8", "1e999", "16777216"]
), max_size=4))  # fmt: skip
def test_no_line_of_a_table_does_either(tmp_path_factory: pytest.TempPathFactory, changed: dict[str, str]) -> None:
    line = {name: str(value) for name, value in measurements.RUNS[0].items()} | {"tok_per_s_per_gpu": "5"} | changed
    path = tmp_path_factory.mktemp("table")
    names = measurements.CSV_FIELDS
    (path / "train_throughput.csv").write_text(",".join(names) + "\n" + ",".join(line[name] for name in names) + "\n")
    assert len(report(Folder.at(path)).groups[4].rows) == 1


def test_numbers_of_a_table_are_text_and_empty_is_absent() -> None:
    row = Record({"a": "5", "b": "", "c": "x"}, "t", is_text=True)
    assert (row.count("a"), row.number("b"), row.text("b")) == (5, None, "")
    with pytest.raises(Unpredictable, match="c is a number"):
        row.number("c")
