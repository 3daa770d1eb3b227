"""A folder of measurements of other machines and models than the shipped one; its values can be set (imported by name: see pyproject)."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path

CSV_FIELDS = (
    "section", "model", "seq_len", "n_gpus", "gpu", "microbatch", "grad_accum", "global_batch", "tok_per_s_per_gpu", "precision",
    "mp_mode", "sharding", "act_ckpt", "n_params",
)  # fmt: skip

ENGINES = (
    {"source": "log of an H200", "hardware": "H200", "model": "Qwen/Qwen2.5-14B-Instruct", "tp": 2},
    {"source": "L40S", "model": "Qwen/Qwen3-4B-FP8", "tp": 1},
    {"source": "A100-40GB", "model": "mistralai/Mistral-7B-v0.3", "tp": 1},
)
PEAKS = (
    {"source": "x", "model": "meta-llama/Llama-3.2-3B", "n_gpus": 4, "tokens_per_gpu": 8192, "setup": "full recompute, chunked loss"},
    {"source": "x", "model": "google/gemma-2-9b", "n_gpus": 16, "tokens_per_gpu": 4096, "setup": "unfused CE, selective AC",
     "mode": "compile"},
    {"source": "x", "model": "Qwen/Qwen3-14B", "n_gpus": 32, "tokens_per_gpu": 8192, "setup": "TP4, full AC, chunked loss"},
    {"source": "torchtune, batch 2, packed 2048", "setup": "Llama 3.1 8B LoRA 1xA6000"},
)  # fmt: skip
STEPS = (
    {
        "framework": "NeMo-RL v9", "system": "DGX-H200", "precision": "bf16", "model": "Qwen3-14B", "policy": "On policy", "max_seq": 4096,
        "avg_seq": 1500, "n_gpus": 16, "gen_gbs": 1024, "train_gbs_table": 512, "gen_tp_pp": "[2,1]", "train_layout": "[2,1,1,1,n/a]",
    },
    {
        "framework": "NeMo-RL v9", "system": "DGX-B200", "precision": "fp8", "model": "LLAMA3.1_70B", "policy": "1-step Off",
        "max_seq": 4096, "avg_seq": 900, "n_gpus": 64,
        "gen_gbs": 1024, "train_gbs_table": 512, "gen_tp_pp": "[4,1]", "train_layout": "[4,1,1,4,n/a]",
    },
    {
        "framework": "other", "hardware": "A100", "model": "Qwen2.5-7B", "mode": "fully async trainer:rollout 8:8", "n_gpus": 16,
        "max_response": 8192, "train_batch_prompts": 128, "n_samples": 8, "mini_batch": 32,
    },
    {
        "framework": "NeMo-RL v9", "system": "DGX-H200", "model": "Qwen3-235B", "policy": "On policy", "max_seq": 8192, "avg_seq": 5671,
        "n_gpus": 128, "gen_gbs": 512, "train_gbs_table": 512, "gen_tp_pp": "[16,1]", "train_layout": "[2,2,16,8,n/a]",
    },
)  # fmt: skip
SYNCS = (
    {"hardware": "A100", "model": "Qwen2.5-14B", "trainer_gpus": 8, "rollout_gpus": 4},
    {"hardware": "H200", "model": "Qwen3-235B", "mapping": "EP8xDP4->TP8xDP4"},
)
CURVES = (
    {"system": "h200_sxm_comm_nccl", "op": "all_reduce", "n": 8, "max_bytes": 2**30},
    {"system": "b200_sxm", "op": "all_gather", "n": 4, "max_bytes": 2**28},
    {"system": "a40_pcie", "op": "reduce_scatter", "n": 2, "max_bytes": 2**26},
)
RUNS = (
    {"section": "", "model": "7b", "seq_len": 4096, "n_gpus": 16, "gpu": "h200", "microbatch": 2, "grad_accum": 4, "global_batch": 128,
     "precision": "amp_bf16", "mp_mode": "DEFAULT", "sharding": "FULL_SHARD", "act_ckpt": "True", "n_params": 6_658_859_008},
    {"section": "x with 800 Gbps", "model": "5b", "seq_len": 2048, "n_gpus": 16, "gpu": "a100_80gb", "microbatch": 2, "grad_accum": 1,
     "global_batch": 32, "precision": "amp_bf16", "mp_mode": "DEFAULT", "sharding": "FULL_SHARD", "act_ckpt": "False",
     "n_params": 5_000_000_000},
)  # fmt: skip
MATRICES = (
    {"id": "101", "gpus": ["NVIDIA H200"] * 2, "links": [["X", "NV18"], ["NV18", "X"]], "hardware": "HGX"},
    {"id": "102", "gpus": ["Tesla T4"] * 2, "links": [["X", "PHB"], ["PHB", "X"]], "hardware": "PCIe Gen3"},
)
COUNT = len(ENGINES) + len(PEAKS) + len(STEPS) + len(SYNCS) + len(CURVES) + len(RUNS) + len(MATRICES)


def write(folder: Path, values: Iterable[float]) -> None:
    """Write the folder with *values* measured, in the order of the groups of a report."""
    left = iter(values)
    folder.mkdir(exist_ok=True)
    engines = [row | {"kv": next(left)} for row in ENGINES]
    peaks = [row | {"measured_peak": next(left)} for row in PEAKS]
    _json(folder / "memory.json", {"training": peaks, "inference": engines})
    (folder / "p2p").mkdir(exist_ok=True)
    for matrix in MATRICES:
        value = next(left)
        _json(folder / "p2p" / f"{matrix['id']}.json", matrix | {"unidirectional_p2p_enabled": [[None, value], [value, None]]})
    _json(folder / "collectives.json", [row | {"busbw_at_max_GBs": next(left)} for row in CURVES])
    with (folder / "train_throughput.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, CSV_FIELDS)
        table.writeheader()
        table.writerows(row | {"tok_per_s_per_gpu": next(left)} for row in RUNS)
    steps = [row | {"step_s": next(left)} for row in STEPS]
    _json(folder / "rl_steps.json", {"runs": steps, "weight_sync": [row | {"sync_s": next(left)} for row in SYNCS]})
    assert next(left, None) is None


def _json(file: Path, document: object) -> None:
    file.write_text(json.dumps(document))
