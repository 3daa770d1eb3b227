"""Predictions against measurements: units, other machines and models, and what cannot be predicted."""

from __future__ import annotations

import json
from pathlib import Path

import measurements
import pytest

from placement.validation import naming, rl_run, setting
from placement.validation.reading import Folder, Record
from placement.validation.report import report, to_document
from placement.validation.rows import Group, Row, Unpredictable, mape_percent
from placement.validation.scaling import after_scaling, best_factor, scaled
from topologies.cards import find_card

NAMES = [
    "rollout_memory", "training_memory", "links", "collectives", "training_throughput", "rl_step_dense", "rl_step_moe", "weight_sync",
]  # fmt: skip


def rows_of(folder: Path) -> list[Row]:
    return [row for group in report(Folder.at(folder)).groups for row in group.rows]


@pytest.fixture
def predicted(tmp_path: Path) -> list[float]:
    """What would have to be measured for every prediction to be right; of a collective that is its bus bandwidth."""
    measurements.write(tmp_path / "first", [1.0] * measurements.COUNT)
    rows = rows_of(tmp_path / "first")
    assert [(row.name, row.why) for row in rows if row.predicted is None] == []
    return [
        next((part.predicted for part in row.parts if part.name.startswith("bus bandwidth")), row.predicted) or 0.0 for row in rows
    ]


def test_measurements_that_are_the_predictions_have_no_error(tmp_path: Path, predicted: list[float]) -> None:
    measurements.write(tmp_path / "same", predicted)
    for group in report(Folder.at(tmp_path / "same")).groups:
        assert group.mape_percent == pytest.approx(0, abs=1e-6), group.name


@pytest.mark.parametrize("shift", [1.1, 0.8])
def test_measurements_beside_the_predictions_have_a_known_error(tmp_path: Path, predicted: list[float], shift: float) -> None:
    measurements.write(tmp_path / "shifted", [shift * value for value in predicted])
    for group in report(Folder.at(tmp_path / "shifted")).groups:
        # A bandwidth that is a tenth larger is a time that is that much shorter.
        expected = shift - 1 if group.name == "collectives" else 1 / shift - 1
        assert group.mape_percent == pytest.approx(100 * abs(expected)), group.name
        assert {(row.error_percent or 0) > 0 for row in group.rows} == {expected > 0}


def test_one_factor_takes_away_what_a_whole_framework_is_off(tmp_path: Path, predicted: list[float]) -> None:
    measurements.write(tmp_path / "slow", [1.25 * value for value in predicted])
    dense = report(Folder.at(tmp_path / "slow")).groups[NAMES.index("rl_step_dense")]
    assert after_scaling(dense) == pytest.approx(0, abs=1e-6)
    by_name = {one.framework: one for one in scaled(dense)}
    assert {name: one.factor for name, one in by_name.items()} == pytest.approx({"NeMo-RL": 1.25, "other": 1.25})
    # A factor from the other models fits as well; of a framework with one model none is left.
    assert by_name["NeMo-RL"].left_out_percent == pytest.approx(0, abs=1e-6)
    assert by_name["other"].left_out_percent is None


def test_the_best_factor_is_the_weighted_median() -> None:
    rows = [Row("", "s", measured, 1.0, framework="f", model="m") for measured in (1.0, 2.0, 10.0)]
    # |f/1 - 1| + |f/2 - 1| + |f/10 - 1| is smallest at f = 1: it falls by 0.6 a unit below, and rises by 0.4 above.
    assert best_factor(rows) == 1.0
    found = best_factor(rows)
    assert all((mape_percent(rows, found) or 0) <= (mape_percent(rows, other / 100) or 0) for other in range(50, 1200))


def test_the_shipped_rows_are_all_counted_and_most_are_predicted() -> None:
    found = report(Folder.at(None))
    assert [group.name for group in found.groups] == NAMES
    shipped = Folder.at(None)
    counts = {group.name: len(group.rows) for group in found.groups}
    steps = shipped.parts("rl_steps.json")
    assert counts["rl_step_dense"] + counts["rl_step_moe"] == len(steps["nemo_rl"]) + len(steps["verl"])  # type: ignore[arg-type]
    assert counts["weight_sync"] == len(steps["weight_sync"])  # type: ignore[arg-type]
    assert counts["training_throughput"] == len(shipped.table("train_throughput.csv"))
    assert counts["rollout_memory"] == len(shipped.parts("memory.json")["inference"])  # type: ignore[arg-type]
    assert counts["training_memory"] == len(shipped.parts("memory.json")["training"])  # type: ignore[arg-type]
    for group in found.groups:
        assert len(group.predicted) >= 0.85 * len(group.rows), group.name
        assert all(row.why for row in group.rows if row.predicted is None)
    assert any("openrlhf_vs_dschat" in said for said in found.unpredicted)


# Errors that the documents promise; a change of the model that loses accuracy has to say so here.
@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("rollout_memory", 5), ("training_memory", 10), ("links", 10), ("collectives", 23), ("training_throughput", 16),
        ("rl_step_dense", 21), ("rl_step_moe", 40), ("weight_sync", 55),
    ],
)  # fmt: skip
def test_errors_on_the_shipped_rows_stay_what_they_are(name: str, most: float) -> None:
    group = report(Folder.at(None)).groups[NAMES.index(name)]
    assert group.mape_percent is not None
    assert group.mape_percent <= most


def test_the_document_has_what_is_promised(tmp_path: Path, predicted: list[float]) -> None:
    measurements.write(tmp_path / "same", predicted)
    document = to_document(report(Folder.at(tmp_path / "same")))
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert list(document["groups"]) == NAMES
    for group in document["groups"].values():
        assert group["rows"] == len(group["rows_detail"])
        assert group["predicted"] == group["rows"]
        assert set(group["worst"]) >= {"name", "measured", "predicted", "error_percent"}


def test_an_empty_folder_is_eight_empty_groups(tmp_path: Path) -> None:
    document = to_document(report(Folder.at(tmp_path)))
    found = {name: (group["rows"], group["mape_percent"], group["worst"]) for name, group in document["groups"].items()}
    assert found == dict.fromkeys(NAMES, (0, None, None))


def test_rows_of_what_nobody_knows_are_listed_with_the_reason(tmp_path: Path) -> None:
    memory = {"inference": [{"source": "H100", "model": "acme/New-9T", "kv": 5.0},
                            {"source": "Voodoo 2", "model": "Qwen/Qwen3-4B", "kv": 1.0}],
              "training": [{"model": "acme/New-9T", "n_gpus": 1, "tokens_per_gpu": 1, "measured_peak": 3.0},
                           {"model": "Qwen/Qwen3-4B", "measured_peak": 3.0}]}  # fmt: skip
    (tmp_path / "memory.json").write_text(json.dumps(memory))
    curves = [{"system": "h100_sxm", "op": "all_magic", "n": 2, "busbw_at_max_GBs": 1},
              {"system": "?", "op": "all_reduce", "n": 2, "busbw_at_max_GBs": 1}]  # fmt: skip
    (tmp_path / "collectives.json").write_text(json.dumps(curves))
    steps = [{"model": "acme/New-9T", "step_s": 3, "n_gpus": 8}, {"model": "acme/New-30B-A3B", "step_s": 3},
             {"model": "Qwen3-4B", "hardware": "H100", "n_gpus": 7, "mode": "fully async 4:4", "step_s": 1}]  # fmt: skip
    (tmp_path / "rl_steps.json").write_text(json.dumps({"mine": steps, "weight_sync": [{"model": "acme/New-9T", "sync_s": 1}]}))
    rows = rows_of(tmp_path)
    assert [row.predicted for row in rows] == [None] * 10
    said = " | ".join(row.why or "" for row in rows)
    for words in (
        "no model 'acme/New-9T'", "no card of the catalogue is named in 'Voodoo 2'", "does not state tokens_per_gpu", "'all_magic'",
        "4 and 4 GPUs are not the 7 of the row",
    ):  # fmt: skip
        assert words in said
    counts = {group.name: len(group.rows) for group in report(Folder.at(tmp_path)).groups}
    assert (counts["rl_step_dense"], counts["rl_step_moe"]) == (2, 1)


def test_a_run_that_would_not_fit_is_offloaded_where_its_source_speaks_of_that(tmp_path: Path) -> None:
    rows = [{"source": f"torchtune (batch 2, packed 2048{more})", "setup": "Llama 3.1 70B full finetune 8xA100", "measured_peak": 10.0}
            for more in ("", "; last one CPU offload")]  # fmt: skip
    (tmp_path / "memory.json").write_text(json.dumps({"training": rows}))
    held, offloaded = report(Folder.at(tmp_path)).groups[NAMES.index("training_memory")].rows
    # 8 bytes of 70.55 G parameters over 8 GPUs are 65.7 GiB and more than fit beside the rest on 79.25.
    assert held.predicted is not None
    assert offloaded.predicted is not None
    assert held.predicted > 79.25 > offloaded.predicted + 65.7 * 0.9
    assert [any("offloaded" in said for said in row.assumed) for row in (held, offloaded)] == [False, True]


def test_pairs_whose_links_are_not_stated_are_a_row_that_cannot_be_predicted(tmp_path: Path) -> None:
    (tmp_path / "p2p").mkdir()
    rates = {"gpus": ["H100"] * 3, "unidirectional_p2p_enabled": [[None, 1, 2], [3, None, 4], [5, 6, None]]}
    (tmp_path / "p2p" / "1.json").write_text(json.dumps(rates | {"id": "1", "links": None}))
    some = [["X", "NV18", None], ["NV18", "X", None], [None, None, "X"]]
    (tmp_path / "p2p" / "2.json").write_text(json.dumps(rates | {"id": "2", "links": some}))
    (tmp_path / "p2p" / "3.json").write_text(json.dumps({"id": "3", "latency_us_p2p_enabled": [[1, 2], [2, 1]]}))
    found = report(Folder.at(tmp_path))
    rows = found.groups[NAMES.index("links")].rows
    assert [(row.name, row.measured, row.predicted is None) for row in rows] == [
        ("1 ?, 6 pairs", 3.5, True), ("2 ?, 4 pairs", 4.5, True), ("2 NV18, 2 pairs", 2.0, False),
    ]  # fmt: skip
    assert any(said.startswith("1 latency matri") for said in found.unpredicted)


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("DGX-H100", "h100-80gb"), ("2 nodes, 16 H20", "h20"), ("a100_sxm_comm_nccl_2.27.3", "a100-80gb"), ("a100_40gb", "a100-40gb"),
        ("RTX PRO 6000 Blackwell Server", "rtx-pro-6000"), ("V100-DGXS-32GB", "v100-32gb"), ("A100-PCIE-40GB", "a100-pcie-40gb"),
        ("1x4090", "rtx4090"), ("8xA100", "a100-80gb"), ("GB200", "gb200"), ("16x A800-80GB", "a800-80gb"),
    ],
)  # fmt: skip
def test_cards_are_known_by_all_their_names(text: str, slug: str) -> None:
    assert naming.card(text).slug == slug


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("LLAMA3.1_8B", "meta-llama/Llama-3.1-8B"), ("Qwen3-30B3A", "Qwen/Qwen3-30B-A3B"), ("Qwen3-235B-FP8", "Qwen/Qwen3-235B-A22B"),
        ("Qwen2.5-7B-Instruct(ReTool SFT)", "Qwen/Qwen2.5-7B"), ("Llama-3.3-70B-FP8", "meta-llama/Llama-3.1-70B"),
        ("DeepSeek V3", "deepseek-ai/DeepSeek-V3"), ("meta-llama/Llama-2-7b-hf", "meta-llama/Llama-2-7b-hf"),
    ],
)  # fmt: skip
def test_models_are_known_by_all_their_names(text: str, name: str) -> None:
    assert naming.find(text).name == name


def test_a_name_that_is_no_model_is_none() -> None:
    for name in ("", "7B", "34B", "Qwen", "acme"):
        with pytest.raises(Unpredictable):
            naming.find(name)


def test_nodes_are_joined_by_their_ports() -> None:
    h100 = find_card("h100-80gb")
    # NVLink of 393 GB/s inside; eight ports of 400 Gb/s at 93 % between nodes: 372 GB/s.
    assert setting.hardware(h100, 8).ring_bytes_per_s == 393e9
    assert setting.hardware(h100, 16).ring_bytes_per_s == pytest.approx(372e9)
    assert setting.hardware(h100, 16, node_bytes_per_s=50e9).ring_bytes_per_s == 50e9
    assert (setting.hardware(h100, 8).ring_nvlink, setting.hardware(h100, 16).ring_nvlink) == (True, False)
    assert setting.hardware(h100, 1).ring_bytes_per_s == 0
    assert setting.in_8_bits(h100).dense_16bit_tflops == 2 * h100.dense_16bit_tflops
    with pytest.raises(Unpredictable, match="8 bits"):
        setting.in_8_bits(find_card("a100-80gb"))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("colocate sync", (16, 0)), ("on policy", (16, 0)), ("1-step off", (8, 8)), ("fully async trainer:rollout 12:4", (12, 4)),
        ("fully async rollout 12:trainer 4", (4, 12)), ("one-step-off 4:12 vllm+fsdp2", (12, 4)),
        ("fully async 10:6 staleness 0.3", (10, 6)),
    ],
)  # fmt: skip
def test_modes_say_who_has_which_gpus(mode: str, expected: tuple[int, int]) -> None:
    run = rl_run.read_run(Record({"model": "Qwen3-4B", "hardware": "H100", "n_gpus": 16, "mode": mode, "max_response": 4096}, "row"))
    assert (run.train_gpus, run.rollout_gpus) == expected


def test_a_step_that_overlaps_is_as_long_as_its_longer_side() -> None:
    record = Record(dict(measurements.STEPS[1]), "row")
    seconds, pieces = rl_run.step_s(rl_run.read_run(record))
    trained = sum(value for name, value in pieces.items() if name not in ("generate", "sync_weights"))
    assert seconds == pytest.approx(max(pieces["generate"], trained) + pieces["sync_weights"])
    in_turns = Record(dict(measurements.STEPS[0]), "row")
    seconds, pieces = rl_run.step_s(rl_run.read_run(in_turns))
    assert seconds == pytest.approx(sum(pieces.values()))


def test_errors_have_a_sign_and_groups_a_worst_row() -> None:
    rows = (Row("a", "s", 10.0, 11.0), Row("b", "s", 10.0, 7.0), Row("c", "s", 1.0, None, why="unknown"))
    group = Group("g", "", rows)
    assert [row.error_percent for row in rows] == [pytest.approx(10), pytest.approx(-30), None]
    assert group.mape_percent == pytest.approx(20)
    assert group.worst is rows[1]
