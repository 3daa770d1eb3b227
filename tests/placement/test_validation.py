"""Predictions against measurements: units, other machines and models, and what cannot be predicted."""

from __future__ import annotations

import json
from pathlib import Path

import measurements
import pytest

from placement.maps.assumptions import MEMORY_WITHIN_PERCENT, STEP_WITHIN_PERCENT
from placement.validation import naming, rl_mode, rl_run, rl_time, setting
from placement.validation.reading import Folder, Record
from placement.validation.report import report, to_document
from placement.validation.rows import Group, Row, Unpredictable, mape_percent
from placement.validation.scaling import after_scaling, best_factor, scaled
from placement.workloads.workload import Quantization, Schedule
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
        assert len(group.predicted) >= 0.9 * len(group.rows), group.name
        assert all(row.why for row in group.rows if row.predicted is None)
    assert any("openrlhf_vs_dschat" in said for said in found.unpredicted)


# Errors that the documents promise; a change of the model that loses accuracy has to say so here.
@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("rollout_memory", 5), ("training_memory", 10), ("links", 10), ("collectives", 20), ("training_throughput", 15),
        ("rl_step_dense", 12), ("rl_step_moe", 26), ("weight_sync", 40),
    ],
)  # fmt: skip
def test_errors_on_the_shipped_rows_stay_what_they_are(name: str, most: float) -> None:
    group = report(Folder.at(None)).groups[NAMES.index(name)]
    assert group.mape_percent is not None
    assert group.mape_percent <= most


def test_one_factor_per_framework_brings_dense_steps_within_a_tenth() -> None:
    dense = report(Folder.at(None)).groups[NAMES.index("rl_step_dense")]
    after = after_scaling(dense)
    assert after is not None
    assert after <= 10


def test_what_plans_say_of_their_accuracy_holds_for_the_shipped_rows() -> None:
    groups = {group.name: group for group in report(Folder.at(None)).groups}
    for name, within in (("rl_step_dense", STEP_WITHIN_PERCENT), ("training_memory", MEMORY_WITHIN_PERCENT)):
        errors = [abs(row.error_percent) for row in groups[name].predicted if row.error_percent is not None]
        assert sum(error <= within for error in errors) >= 0.8 * len(errors), name
    experts = groups["rl_step_moe"].mape_percent
    assert experts is not None
    assert round(experts / 25) == 1     # EXPERTS_OFF: a quarter


def test_the_document_has_what_is_promised(tmp_path: Path, predicted: list[float]) -> None:
    measurements.write(tmp_path / "same", predicted)
    document = to_document(report(Folder.at(tmp_path / "same")))
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert list(document["groups"]) == NAMES
    for group in document["groups"].values():
        assert group["rows"] == len(group["rows_detail"])
        assert group["predicted"] == group["rows"]
        assert set(group["worst"]) >= {"name", "measured", "predicted", "error_percent"}


def test_sizes_of_models_come_from_their_names_or_their_announcements() -> None:
    assert [naming.billions(name) for name in ("Qwen3.5-397B", "acme-7.5b", "Nemotron Ultra-v3", "acme")] == [397, 7.5, 500, None]


def test_racks_of_nvl72_are_one_domain() -> None:
    rack, node = (setting.hardware(find_card(card), 16) for card in ("gb200", "b200"))
    assert (rack.ring_nvlink, node.ring_nvlink) == (True, False)
    assert (rack.is_block_nvlink(16), node.is_block_nvlink(16)) == (True, False)
    assert not setting.hardware(find_card("gb200"), 144).ring_nvlink


def test_a_file_without_rows_is_eight_empty_groups(tmp_path: Path) -> None:
    (tmp_path / "memory.json").write_text('{"training": []}')
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


@pytest.mark.parametrize(
    ("mode", "schedule"),
    [
        ("on policy", Schedule.FULL),
        ("colocate sync", Schedule.FULL),
        ("1-step off", Schedule.ONE_STEP_OFF),
        ("one-step-off 4:12 vllm+fsdp2", Schedule.ONE_STEP_OFF),
        ("async 8-off", Schedule.ONE_STEP_OFF),
        ("fully async 64:64 stream off-policy (staleness 0)", Schedule.ONE_STEP_OFF),
        ("fully async 64:64 staleness 0.3", Schedule.ASYNC),
        ("fully async 8:8", Schedule.ASYNC),
        ("", Schedule.FULL),
    ],
)
def test_a_mode_names_its_schedule(mode: str, schedule: Schedule) -> None:
    record = Record({"model": "Qwen3-4B", "hardware": "H100", "n_gpus": 16, "mode": mode, "max_response": 4096}, "row")
    assert rl_mode.schedule_of(mode) is schedule
    if "64" not in mode and "8:8" not in mode and "4:12" not in mode:
        assert rl_run.read_run(record).schedule is schedule


def test_layouts_of_a_row_spread_experts_and_share_long_sequences() -> None:
    def run(**fields: object) -> rl_run.Run:
        row = {"model": "Qwen3-30B-A3B", "hardware": "H100", "n_gpus": 32, "max_response": 4096}
        return rl_run.read_run(Record(row | fields, "row"))

    # [TP, CP, EP, PP, VPP]; of 4 data parallel ranks no more than 4 can share experts.
    assert [(found.tp, found.ep, found.pp) for found in (run(train_layout="[2,1,8,1,n/a]"), run(train_layout="[4,1,16,2,n/a]"))] == [
        (2, 8, 1), (4, 4, 2),
    ]  # fmt: skip
    assert run(model="Qwen3-4B", train_layout="[2,1,8,1,n/a]").ep == 1
    assert [run(max_response=longest, engine="vLLM+FSDP2").sp for longest in (8192, 28_672)] == [1, 4]
    assert run(max_response=28_672, engine="vLLM+Megatron").sp == 1


def test_a_row_with_neither_lengths_nor_counts_is_not_guessed() -> None:
    bare = {"model": "Qwen3-4B", "hardware": "H100", "n_gpus": 16, "mode": "fully async 8:8"}
    with pytest.raises(Unpredictable, match="neither how long answers are nor how many"):
        rl_run.read_run(Record(bare, "row"))
    for stated in ({"max_response": 8192}, {"train_batch_prompts": 64}):
        assert rl_run.read_run(Record(bare | stated, "row")).assumed


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
        ("Qwen/Qwen2-7B-Instruct", "Qwen/Qwen2.5-7B"), ("qwen2-0.5b", "Qwen/Qwen2.5-0.5B"), ("Qwen2-72B", "Qwen/Qwen2.5-72B"),
        ("Qwen2.5-Coder-32B-Instruct", "Qwen/Qwen2.5-32B"), ("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen2.5-7B"),
        ("QwQ-32B", "Qwen/Qwen2.5-32B"), ("Qwen2.5-Math-1.5B", "Qwen/Qwen2.5-1.5B"), ("Qwen2.5-Math-7B", "Qwen/Qwen2.5-Math-7B"),
        ("deepseek-ai/DeepSeek-R1", "deepseek-ai/DeepSeek-V3"), ("DeepSeek-V3-0324", "deepseek-ai/DeepSeek-V3"),
        ("DeepSeek-V3.1", "deepseek-ai/DeepSeek-V3"), ("DeepSeek-R1-0528-Qwen3-8B", "Qwen/Qwen3-8B"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "Qwen/Qwen2.5-7B"), ("R1-Distill-Llama-8B", "meta-llama/Llama-3.1-8B"),
        ("DeepSeek-R1-Distill-Llama-70B", "meta-llama/Llama-3.1-70B"), ("DeepSeek-R1-Distill-Qwen-1.5B", "Qwen/Qwen2.5-1.5B"),
        ("Qwen3-4B-Instruct-2507", "Qwen/Qwen3-4B"), ("Qwen3-30B-A3B-Thinking-2507-FP8", "Qwen/Qwen3-30B-A3B"),
        ("mistralai/Mistral-7B-Instruct-v0.2", "mistralai/Mistral-7B-v0.1"), ("MISTRAL-7B", "mistralai/Mistral-7B-v0.1"),
        ("Mistral-7B-Instruct-v0.3", "mistralai/Mistral-7B-v0.3"), ("Mixtral-8x7B-Instruct-v0.1", "mistralai/Mixtral-8x7B-v0.1"),
        ("Mixtral 8x7B", "mistralai/Mixtral-8x7B-v0.1"), ("Qwen/Qwen2.5-14B-Instruct-AWQ", "Qwen/Qwen2.5-14B"),
        ("Qwen2.5-7B-Instruct-GPTQ-Int4", "Qwen/Qwen2.5-7B"), ("Llama-3.1-8B-Instruct-FP8-dynamic", "meta-llama/Llama-3.1-8B"),
        ("unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit", "meta-llama/Llama-3.1-8B"),
    ],
)  # fmt: skip
def test_models_are_known_by_all_their_names(text: str, name: str) -> None:
    assert naming.find(text).name == name


def test_names_say_how_weights_are_shipped() -> None:
    # 0.5 + (2 + 0.5) / 128 bytes for groups of 128; 16 bits where nothing is said.
    names = ("Qwen2.5-14B-AWQ", "Qwen2.5-7B-GPTQ-Int4", "Qwen3-4B-FP8", "Llama-3.1-8B-bnb-4bit", "Qwen3-4B", "gpt-oss-20b")
    assert [naming.linear_bytes(name)[0] for name in names] == [0.51953125, 0.51953125, 1, 0.516, 2, 0.579]
    assert [naming.linear_bytes(name)[0] for name in ("DeepSeek-R1", "DeepSeek-V3-0324", "DeepSeek-V3-BF16")] == [1, 1, 2]
    assert naming.linear_bytes("DeepSeek-V3") == (1, ("weights in 8 bits, as they are shipped",))
    assert naming.linear_bytes("Qwen3-8B", "awq")[0] == 0.51953125
    assert "language part" in naming.granted("Qwen/Qwen2.5-VL-7B-Instruct")[0]
    # The distilled 1.5B has a matrix for the logits of its own: 1.54 + 151936 * 1536 / 1e9 = 1.78 billion.
    assert naming.find("R1-Distill-Qwen-1.5B").parameters == pytest.approx(1.777e9, rel=0.001)


def test_models_are_found_in_words() -> None:
    assert naming.find_in("Mistral 7B full finetune 1x4090").name == "mistralai/Mistral-7B-v0.1"
    assert naming.find_in("Llama 3.3 70B LoRA 8xA100").name == "meta-llama/Llama-3.1-70B"
    with pytest.raises(Unpredictable):
        naming.find_in("Qwen2 57B LoRA")


def test_a_name_that_is_no_model_is_none() -> None:
    for name in ("", "7B", "34B", "Qwen", "acme", "Qwen2-61B", "Qwen2-14B", "Qwen2.5-Coder-72B", "R1-Distill-Qwen-3B"):
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
    setting.needs_fp8(h100)
    with pytest.raises(Unpredictable, match="8 bits"):
        setting.needs_fp8(find_card("a100-80gb"))


def test_boards_of_xgmi_are_meshed() -> None:
    # 47.7 GB/s a link, measured: one between two GPUs, and seven rings at once over eight.
    mi300x = setting.hardware(find_card("mi300x"), 8)
    assert setting.hardware(find_card("mi300x"), 2).ring_bytes_per_s == pytest.approx(47.7e9)
    assert mi300x.ring_bytes_per_s == pytest.approx(7 * 47.7e9)
    assert mi300x.ring_nvlink
    assert dict(mi300x.block_bytes_per_s) == pytest.approx({2: 47.7e9, 4: 3 * 47.7e9, 8: 7 * 47.7e9})
    # A GCD of MI250X has no link to all others: 75 % of one of 50 GB/s.
    assert setting.hardware(find_card("mi250x"), 8).ring_bytes_per_s == pytest.approx(37.5e9)


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
    seconds, pieces = rl_time.step_s(rl_run.read_run(record))
    trained = sum(value for name, value in pieces.items() if name not in ("generate", "sync_weights"))
    assert seconds == pytest.approx(max(pieces["generate"], trained) + pieces["sync_weights"])
    in_turns = Record(dict(measurements.STEPS[0]), "row")
    seconds, pieces = rl_time.step_s(rl_run.read_run(in_turns))
    assert seconds == pytest.approx(sum(pieces.values()))


def test_errors_have_a_sign_and_groups_a_worst_row() -> None:
    rows = (Row("a", "s", 10.0, 11.0), Row("b", "s", 10.0, 7.0), Row("c", "s", 1.0, None, why="unknown"))
    group = Group("g", "", rows)
    assert [row.error_percent for row in rows] == [pytest.approx(10), pytest.approx(-30), None]
    assert group.mape_percent == pytest.approx(20)
    assert group.worst is rows[1]


def test_runs_in_8_bits_hold_their_engines_weights_in_8_bits() -> None:
    row = {"model": "Qwen3-4B", "hardware": "H100", "n_gpus": 16, "mode": "1-step off", "max_response": 4096}
    whole, half = (rl_run.read_run(Record(row | {"precision": precision}, "row")) for precision in ("bf16", "fp8"))
    assert (whole.quantization, half.quantization) == (Quantization.NONE, Quantization.FP8)
    assert rl_time.step_s(half)[1]["generate"] < rl_time.step_s(whole)[1]["generate"]


def test_curves_over_nodes_need_the_rate_of_the_network(tmp_path: Path) -> None:
    pair = {"system": "h100_dgx", "op": "all_reduce", "n": 2, "max_bytes": 2**26}
    curves = [
        pair | {"devices_per_node": 1, "busbw_at_max_GBs": 400.0},
        pair | {"devices_per_node": 2, "busbw_at_max_GBs": 300.0},
        pair | {"n": 3, "devices_per_node": 1, "busbw_at_max_GBs": 40.0},
        pair | {"n": 4, "devices_per_node": 1, "busbw_at_max_GBs": 40.0, "network_gbit_per_s": 400},
        pair | {"n": 16, "busbw_at_max_GBs": 40.0},
        pair | {"n": 8, "busbw_at_max_GBs": 40.0},
        pair | {"n": 8, "busbw_at_max_GBs": 30.0},
    ]
    (tmp_path / "collectives.json").write_text(json.dumps(curves))
    joined, apart, stated, many, fastest = rows_of(tmp_path)
    # One row for a system, an operation and a size: the curve within a node, though one over nodes is said to be faster.
    assert (joined.why, joined.measured) == (None, pytest.approx(2**26 / 300e9 * 1e3))
    assert "curves over nodes left out: 1" in joined.assumed
    assert "does not state the rate of their network" in (apart.why or "")
    assert "16 GPUs on 2 nodes" in (many.why or "")
    # 2 * 3/4 of 64 MiB at 400 Gb/s = 50 GB/s: 2.01 ms, and start-up on top.
    assert 2.01 < (stated.predicted or 0) < 2.5
    assert "the fastest of 2 measured curves" in " ".join(fastest.assumed)
