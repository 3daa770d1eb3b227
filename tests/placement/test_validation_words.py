"""What the words and fields of published rows say, and what follows from them for the prediction."""

from __future__ import annotations

import json
import re
from pathlib import Path

import measurements
import pytest

from placement.models.model import find_model
from placement.validation import naming, rl_run, rl_time, rollout_memory, words
from placement.validation.reading import Folder, Record
from placement.validation.report import report
from placement.validation.rows import Row, Unpredictable
from placement.workloads.workload import Algorithm, KvCache, Quantization, Recompute, Schedule


@pytest.mark.parametrize(
    ("said", "kind", "size"),
    [
        ("TP4, full AC", "tp", 4), ("tp=8", "tp", 8), ("2D TP8xPP2", "pp", 2), ("tensor parallel 2", "tp", 2), ("EP64", "ep", 64),
        ("pipeline_model_parallel_size: 4", "pp", 4), ("context parallel size 2", "cp", 2), ("Ulysses SP 4", "sp", 4),
        ("FSDP8", "sp", None), ("http 4", "tp", None), ("steps 5", "sp", None), ("nothing", "tp", None), ("pp 7B", "pp", None),
    ],
)  # fmt: skip
def test_sizes_of_parallelism_stand_in_words(said: str, kind: str, size: int | None) -> None:
    assert words.parallel_size(said, kind) == size


@pytest.mark.parametrize(
    ("said", "stage"),
    [
        ("ZeRO-3", 3), ("DeepSpeed zero stage 2", 2), ("zero1", 1), ("FULL_SHARD", 3), ("SHARD_GRAD_OP", 2), ("DDP", 0), ("ZeRO-0", 0),
        ("FSDP8", None), ("zero loss", None),
    ],
)  # fmt: skip
def test_stages_of_zero_have_many_names(said: str, stage: int | None) -> None:
    assert words.zero_stage(said) == stage


@pytest.mark.parametrize(
    ("said", "rank"),
    [("QLoRA r=16", 16), ("LoRA rank 64", 64), ("lora_rank: 8", 8), ("LoRA-32", 32), ("8B LoRA 1x4090", 0), ("rank 3 of 8", None)],
)
def test_ranks_of_adapters(said: str, rank: int | None) -> None:
    assert words.lora_rank(said) == rank


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("full recompute", Recompute.FULL), ("gradient checkpointing", Recompute.FULL), ("full AC", Recompute.FULL),
        ("no recompute", Recompute.NONE), ("activation checkpointing off", Recompute.NONE),
        ("without gradient checkpointing", Recompute.NONE),
        ("selective AC", Recompute.SELECTIVE), ("SFT, unfused CE", None), ("accuracy", None),
    ],
)  # fmt: skip
def test_what_is_computed_again(said: str, kept: Recompute | None) -> None:
    assert words.recomputation(said) == kept


def test_what_an_engine_is_told() -> None:
    said = "H100 79.18 GiB visible, gpu_memory_utilization .85 unless named, max-model-len 16000, block 128, max-num-seqs 64"
    assert words.claimed_share(said) == 0.85
    assert words.longest_sequence(said) == 16_000
    assert words.running_sequences(said) == 64
    assert [words.claimed_share(text) for text in ("--gpu-memory-utilization=0.95", "util 80 %", "GPU utilization of 5", "")] == [
        0.95, 0.8, None, None,
    ]  # fmt: skip
    assert [words.has_8_bit_cache(text) for text in ("kv_cache_dtype fp8", "fp8 KV cache", "kv cache dtype fp8_e4m3", "fp8")] == [
        True, True, True, False,
    ]  # fmt: skip
    assert [words.is_only_generation(text) for text in ("fp8", "generation fp8", "bf16 training, fp8 rollout", "training fp8")] == [
        False, True, True, False,
    ]  # fmt: skip


def engine(tmp_path: Path, **fields: object) -> Row:
    row = {"source": "vLLM log, H100", "model": "meta-llama/Llama-3.1-70B", "tp": 4, "kv": 1.0} | fields
    (tmp_path / "memory.json").write_text(json.dumps({"inference": [row]}))
    return report(Folder.at(tmp_path)).groups[0].rows[0]


def test_engines_claim_what_their_rows_say(tmp_path: Path) -> None:
    usual, stated = engine(tmp_path), engine(tmp_path, gpu_memory_utilization=0.8)
    said = engine(tmp_path, source="H100, gpu_memory_utilization 0.8")
    assert said.predicted == stated.predicted
    # A tenth of 79.18 GiB less.
    assert (usual.predicted or 0) - (said.predicted or 0) == pytest.approx(7.918, rel=0.01)
    assert usual.assumed == ("0.9 of the memory is claimed",)
    assert said.assumed == ()
    by_words = engine(tmp_path, tp=None, source="H100, TP=4, gpu_memory_utilization 0.8")
    assert (by_words.predicted, by_words.assumed) == (said.predicted, ())
    small = engine(tmp_path, tp=None, model="Qwen3-4B", source="H100, util 0.8")
    assert small.assumed == ("one GPU holds the engine",)
    fewer = engine(tmp_path, max_num_seqs=64)
    assert (fewer.predicted or 0) > (usual.predicted or 0)


def test_a_stage_of_a_pipeline_holds_its_layers_and_an_embedding(tmp_path: Path) -> None:
    model = find_model("meta-llama/Llama-3.1-70B")
    half = rollout_memory.stage_of(model, 2)
    inside = model.parameters - model.embedding_parameters
    assert (half.layers, half.parameters) == (40, inside // 2 + model.vocab * model.hidden)
    assert rollout_memory.stage_of(model, 1) is model
    with pytest.raises(Unpredictable, match="80 layers"):
        rollout_memory.stage_of(model, 81)
    assert (engine(tmp_path, pp=2).predicted or 0) > (engine(tmp_path).predicted or 0) + 15
    assert engine(tmp_path, source="H100, PP 2").predicted == engine(tmp_path, pp=2).predicted
    assert "cannot cut the attention heads" in (engine(tmp_path, tp=3).why or "")


def test_tokens_of_a_cache_are_worth_its_bytes(tmp_path: Path) -> None:
    # 80 layers of 8 KV heads of 128, keys and values of 2 B: 320 KiB a token, a quarter of it on each of four GPUs; half of that in 8 bits.
    row = engine(tmp_path, kv=None, kv_tokens=2**17)
    assert row.measured == pytest.approx(80 * 8 * 128 * 2 * 2 / 4 * 2**17 / 2**30)
    eight = engine(tmp_path, kv=None, kv_tokens=2**17, kv_cache_dtype="fp8")
    assert eight.measured == pytest.approx((row.measured or 0) / 2)
    assert eight.predicted == row.predicted


def trained(tmp_path: Path, setup: str, **fields: object) -> Row:
    row = {"source": "x", "model": "Qwen/Qwen3-8B", "n_gpus": 16, "tokens_per_gpu": 4096, "setup": setup, "measured_peak": 1.0} | fields
    (tmp_path / "memory.json").write_text(json.dumps({"training": [row]}))
    return report(Folder.at(tmp_path)).groups[1].rows[0]


def test_states_are_cut_as_a_row_says(tmp_path: Path) -> None:
    def gib(setup: str, **fields: object) -> float:
        found = trained(tmp_path, f"{setup}, fused CE", **fields)
        assert found.predicted is not None, found.why
        return found.predicted

    # Bytes a parameter: 16/16 fully sharded; 2 + 14/16 in stage 2, 4 + 12/16 in stage 1.
    assert gib("ZeRO-1") > gib("ZeRO-2") > gib("ZeRO-3") == gib("FSDP16")
    parameters = find_model("Qwen/Qwen3-8B").parameters
    assert gib("Megatron TP4, no distributed optimizer") - gib("Megatron TP4") == pytest.approx(12 * parameters / 4 * 0.75 / 2**30)
    assert gib("Megatron TP4 PP2") < gib("Megatron TP4")
    assert gib("Megatron TP4, full recompute") < gib("Megatron TP4") == gib("Megatron TP4, no recompute")
    assert gib("LoRA r=256") > gib("LoRA r=8") == gib("LoRA") == gib("full", lora_rank=8)
    assert gib("pure bf16") < gib("full")


def test_the_throughput_of_a_training_stands_beside_its_peak(tmp_path: Path) -> None:
    row = trained(tmp_path, "full recompute, fused CE", source="8x H100", tok_per_s_per_gpu=5000, n_gpus=8)
    (speed,) = row.parts
    assert (speed.name, speed.measured) == ("tokens/s per GPU", 5000)
    assert speed.predicted is not None
    assert 3000 < speed.predicted < 12_000      # at 0.40 of 989 TFLOP/s and 6 FLOP a parameter: 8050, attention aside
    assert trained(tmp_path, "full recompute, fused CE", tok_per_s_per_gpu=5000).parts == ()
    assert trained(tmp_path, "full recompute, fused CE", source="H100").parts == ()


def test_what_no_plan_does_is_said(tmp_path: Path) -> None:
    alone = trained(tmp_path, "full", n_gpus=1)
    assert trained(tmp_path, "DDP").predicted == alone.predicted
    assert any("DDP" in said for said in trained(tmp_path, "DDP").assumed)
    assert trained(tmp_path, "HSDP").predicted == trained(tmp_path, "FSDP", n_gpus=8).predicted
    # Moments of 2 bytes a parameter in place of 8, over 16 GPUs.
    saved = (trained(tmp_path, "FSDP").predicted or 0) - (trained(tmp_path, "FSDP, AdamW 8bit").predicted or 0)
    assert saved == pytest.approx(6 * find_model("Qwen/Qwen3-8B").parameters / 16 / 2**30)
    assert "activations in 16 bits, where the row says fp32" in trained(tmp_path, "FSDP fp32").assumed
    assert "16 GPUs cannot be cut into groups of 3" in (trained(tmp_path, "TP3").why or "")
    assert "36 layers" in (trained(tmp_path, "Megatron PP64", n_gpus=64).why or "")
    assert "a pipeline under FSDP, which no plan has" in trained(tmp_path, "TP2 PP2").assumed
    compiled = trained(tmp_path, "unfused CE", mode="compile").assumed
    assert any("a workload cannot say it" in said for said in compiled)


def test_a_table_of_trainings_names_its_sharding(tmp_path: Path) -> None:
    def row(**fields: str) -> Row:
        usual = measurements.RUNS[0] | {"tok_per_s_per_gpu": 5, "act_cpu_offload": False}
        line = {name: str(value) for name, value in usual.items()} | fields
        (tmp_path / "train_throughput.csv").write_text("\n".join(",".join(part) for part in (line.keys(), line.values())) + "\n")
        return report(Folder.at(tmp_path)).groups[4].rows[0]

    assert row().assumed == ()
    assert row(sharding="").predicted == row().predicted
    assert row(sharding="SHARD_GRAD_OP").predicted != row().predicted
    assert "all-reduced" in row(sharding="NO_SHARD").assumed[0]
    assert row(act_cpu_offload="True").assumed == ("activations on the host cost no time",)


def run(**fields: object) -> rl_run.Run:
    row = {"model": "Qwen2.5-7B", "hardware": "H100", "n_gpus": 16, "mode": "colocate", "max_response": 2048, "train_batch_prompts": 128}
    return rl_run.read_run(Record(row | fields, "row"))


def test_ppo_has_a_critic_and_its_two_pieces_of_work() -> None:
    plain, critic = run(), run(algorithm="PPO")
    assert (plain.algorithm, critic.algorithm) == (Algorithm.GRPO, Algorithm.PPO)
    assert any("as large as the actor" in said for said in critic.assumed)
    seconds, pieces = rl_time.step_s(critic)
    assert {"values", "update_critic"} <= pieces.keys()
    assert seconds == pytest.approx(rl_time.step_s(plain)[0] + pieces["values"] + pieces["update_critic"])
    small = rl_time.step_s(run(algorithm="PPO", critic="Qwen2.5-1.5B"))[1]
    assert small["update_critic"] < pieces["update_critic"]
    assert "reward" in rl_time.step_s(run(reward_model="Qwen2.5-1.5B"))[1]
    with pytest.raises(Unpredictable, match="acme"):
        run(reward_model="acme")


def test_switches_of_a_run_are_read() -> None:
    mode, engine = "colocate LoRA r32, gradient checkpointing", "vLLM+FSDP ZeRO-2"
    found = run(mode=mode, engine=engine, gpu_memory_utilization=0.5, kv_cache_dtype="fp8")
    assert (found.train.lora, found.train.recompute, found.share, found.kv_cache, found.zero) == (32, Recompute.FULL, 0.5, KvCache.FP8, 2)
    plain = run()
    assert (plain.train.lora, plain.train.recompute, plain.share, plain.kv_cache, plain.zero) == (0, None, None, KvCache.AUTO, 3)
    layout = run(engine="vLLM+Megatron TP4 PP2")
    assert (layout.tp, layout.pp) == (4, 2)
    with pytest.raises(Unpredictable, match="DDP"):
        run(engine="vLLM+DDP")
    assert rl_time.step_s(found)[0] < rl_time.step_s(plain)[0]


def test_eight_bits_are_both_sides_unless_a_row_says_generation() -> None:
    both, one = run(precision="fp8"), run(precision="bf16 training, fp8 rollout")
    assert (both.quantization, both.train.fp8) == (Quantization.FP8, True)
    assert (one.quantization, one.train.fp8) == (Quantization.FP8, False)
    # Weights alone in 8 bits run on older cards; training in 8 bits does not.
    assert run(precision="fp8 rollout", hardware="A100").quantization is Quantization.FP8
    with pytest.raises(Unpredictable, match="8 bits"):
        run(precision="fp8", hardware="A100")
    assert rl_time.step_s(both)[1]["update_actor"] < rl_time.step_s(one)[1]["update_actor"]


def test_the_mean_answer_that_rows_leave_out_is_a_parameter() -> None:
    row = Record({"model": "Qwen2.5-7B", "hardware": "H100", "n_gpus": 16, "max_response": 4096}, "row")
    assert rl_run.read_run(row).batch.response_mean_tokens == rl_run.MEAN_RESPONSE_TOKENS
    assert rl_run.read_run(row, 700).batch.response_mean_tokens == 700
    assert rl_run.read_run(Record({**row.fields, "mean_response": 300}, "row"), 700).batch.response_mean_tokens == 300


CARDS = {
    "RTX 4090": "rtx4090", "Tesla V100 32GB": "v100-32gb", "H100": "h100-80gb", "H800": "h800", "A100-80GB-SXM4": "a100-80gb",
    "L40S": "l40s",
    "L20": "l20", "A100-40G": "a100-40gb", "MI300X": "mi300x", "NVIDIA A10G": "a10g", "RTX A6000": "a6000", "RTX 6000 Ada": "rtx6000-ada",
    "H20": "h20", "B200": "b200", "T4": "t4", "GH200": "gh200", "3090": "rtx3090",
}  # fmt: skip
COUNTS = {
    "1x {}": 1, "{} x8": 8, "8*{}": 8, "4×{}": 4, "2 {}": 2, "one {}": 1, "single {}": 1, "2 x {}": 2, "2x8 {}": 16, "4 nodes x 8 {}": 32,
    "32 nodes (8 GPUs each), {}": 256, "2 nodes, 16 {}": 16, "{}, 4 GPUs": 4, "Llama 3.1 8B full finetune 1x {}, batch 2": 1,
}  # fmt: skip


@pytest.mark.parametrize(("form", "count"), COUNTS.items())
@pytest.mark.parametrize(("card", "slug"), CARDS.items())
def test_cards_and_their_number_are_read_in_all_forms(card: str, slug: str, form: str, count: int) -> None:
    assert words.gpu_count(form.format(card)) == count
    assert naming.card(form.format(card)).slug == slug


@pytest.mark.parametrize("value", [("2048", 2048), ("4,096", 4096), ("8k", 8192), ("32K", 32_768)])
@pytest.mark.parametrize(
    "form",
    [
        "seq_len={}", "max_seq_len {}", "ctx {}", "context length {}", "seqlen {}", "seq {}", "packed {}", "max_length={}", "cutoff_len {}",
        "sequence length: {}", "{} context", "sequence of {}", "max_seq_length={}",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("batch", "size"),
    [
        ("bs 2", 2), ("batch_size=4", 4), ("mbs=1", 1), ("per-device batch 4", 4), ("micro batch size 1", 1), ("local batch 2", 2),
        ("global batch 512", None), ("per_device_train_batch_size 8", 8), ("", None),
        ("global_batch_size=64 micro_batch_size_per_gpu=2", 2),
    ],
)  # fmt: skip
def test_sequences_and_micro_batches_are_read(form: str, value: tuple[str, int], batch: str, size: int | None) -> None:
    text, tokens = value
    said = f"LoRA r=16, {form.format(text)}, {batch}"
    assert (words.sequence_tokens(said), words.micro_batch(said)) == (tokens, size)


def test_a_row_of_words_alone_is_predicted(tmp_path: Path) -> None:
    setup = "LoRA r=16, ZeRO-3, 8×A100-80GB-SXM4, seq_len=4096, bs 2"
    row = {"source": "a blog", "model": "Meta-Llama-3-70B", "setup": setup, "measured_peak": 50}
    (tmp_path / "memory.json").write_text(json.dumps({"training": [row]}))
    found = report(Folder.at(tmp_path)).groups[1].rows[0]
    assert "8 GPUs, 8192 tokens" in found.name
    assert found.predicted is not None
    # 141 GB of frozen weights over eight GPUs are 17.6 GB of it, or twice that with a 32-bit master.
    assert found.predicted > 16


@pytest.mark.parametrize(
    ("mode", "train", "rollout"),
    [
        ("colocated", 16, 0), ("hybrid engine", 16, 0),
        ("colocate sync, CPU offload", 16, 0), ("separate 8+8", 8, 8),
        ("split placement", 8, 8),
        ("disaggregated", 8, 8), ("trainer 4 + rollout 12", 4, 12), ("12 rollout, 4 train", 4, 12), ("rollout 12, trainer 4", 4, 12),
        ("fully async trainer:rollout 8:8", 8, 8), ("fully async rollout 12:trainer 4", 4, 12), ("1-step Off", 8, 8),
        ("separate: 4 GPUs for generation", 12, 4), ("standalone rollout", 8, 8),
        ("gradient checkpointing off", 16, 0), ("colocated, TP4 rollout", 16, 0), ("8 rollouts per prompt", 16, 0),
    ],
)  # fmt: skip
def test_modes_say_on_how_many_gpus_either_side_runs(mode: str, train: int, rollout: int) -> None:
    found = run(mode=mode)
    assert (found.train_gpus, found.rollout_gpus) == (train, rollout)


def test_sides_apart_take_turns_unless_a_row_says_otherwise() -> None:
    assert run(mode="separate 8+8").schedule is Schedule.FULL
    assert run(mode="colocate, optimizer offload").schedule is Schedule.FULL
    assert run(mode="disaggregated async").schedule is Schedule.ASYNC
    assert "half of the GPUs train, half of them generate" in run(mode="split placement").assumed


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"algorithm": "DPO"}, "dpo generates no answers"), ({"algorithm": "SFT"}, "sft generates no answers"),
        ({"hardware": "8 H100 + 8 A100"}, "cards of several kinds"), ({"mode": "separate 8+4"}, "8 and 4 GPUs are not the 16"),
    ],
)  # fmt: skip
def test_what_would_be_another_quantity_is_not_predicted(fields: dict[str, object], said: str) -> None:
    with pytest.raises(Unpredictable, match=re.escape(said)):
        run(**fields)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"precision": "int8"}, "16 bits, where the row says int8"), ({"engine": "vLLM+FSDP HSDP"}, "HSDP"),
        ({"algorithm": "OPO"}, "as GRPO"),
        ({}, "GRPO, as no algorithm is named"), ({}, "prompts of 200 tokens"), ({}, "a micro-batch is one sequence of the longest"),
        ({}, "full recomputation"), ({}, "engines of the fewest GPUs that start"), ({}, "training runs under FSDP"),
        ({}, "1000 tokens of response on average"), ({"engine": "vLLM+Megatron"}, "Megatron without tensor"),
        ({}, "a network port of its own"),
    ],
)  # fmt: skip
def test_what_a_run_takes_for_granted_is_said(fields: dict[str, object], said: str) -> None:
    assert any(said in one for one in run(**fields).assumed), run(**fields).assumed
    assert not any("full recomputation" in one for one in run(mode="gradient checkpointing").assumed)
