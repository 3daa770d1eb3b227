"""Jobs that stock verl runs, from every corner of what overrides say."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping

from placement.machines.sources import read_machine
from placement.maps.devicemap import dump
from placement.planner import plan
from placement.program.instance import make_instance
from placement.text import strict_yaml
from placement.workloads import workload_file
from placement.workloads.rules import parse_rules

BIG, SMALL = {"model": "Qwen/Qwen2.5-7B"}, {"model": "Qwen/Qwen2.5-1.5B"}
FUNCTION = {"function": True}
ACTOR = {**BIG, "gpus": [8], "rollout": {"engine": "vllm", "tp": 2, "gpu_memory_utilization": 0.5}}
HALF = {**BIG, "precision": "fp16"}
IN_8_BITS = {"engine": "sglang", "tp": 1, "quantization": "fp8", "kv_cache": "fp8"}
STREAMED = {"layout": {"sp": 2}, "train": {"master": "fp32", "offload": "always"}}
MEGATRON = {**BIG, "engine": "megatron", "layout": {"tp": 2, "pp": 2}}

JOBS = {
    "ppo": ("ppo", "none", {"actor": ACTOR, "critic": {**BIG, "gpus": [8]}, "ref": BIG, "reward": FUNCTION}),
    "ppo, a reward model": ("ppo", "none", {"actor": ACTOR, "critic": {**BIG, "gpus": [8]}, "ref": BIG, "reward": SMALL}),
    "grpo": ("grpo", "none", {"actor": ACTOR, "ref": BIG, "reward": FUNCTION}),
    "rloo without a reference": ("rloo", "none", {"actor": ACTOR, "reward": FUNCTION}),
    "lora, sglang, 8 bits": (
        "grpo", "none", {"actor": {**BIG, "gpus": [4], "train": {"lora": 32}, "rollout": IN_8_BITS}, "reward": FUNCTION},
    ),
    "streamed state, shared sequences": ("grpo", "none", {"actor": {**ACTOR, **STREAMED}, "ref": BIG, "reward": FUNCTION}),
    "megatron": (
        "grpo", "none",
        {
            "actor": {**MEGATRON, "gpus": [8], "train": {"offload": "between"}, "rollout": {"engine": "vllm", "tp": 4}},
            "ref": MEGATRON,
            "reward": FUNCTION,
        },
    ),
    "fp16": (
        "ppo", "none",
        {
            "actor": {**ACTOR, "precision": "fp16"},
            "critic": {**HALF, "gpus": [8]},
            "ref": HALF,
            "reward": {**SMALL, "precision": "fp16"},
        },
    ),
    "megatron in fp16": (
        "grpo", "none",
        {
            "actor": {**MEGATRON, "gpus": [8], "precision": "fp16", "rollout": {"engine": "vllm", "tp": 4}},
            "ref": {**MEGATRON, "precision": "fp16"},
            "reward": FUNCTION,
        },
    ),
    "a rollout of its own": (
        "grpo", "async",
        {"actor": {**BIG, "gpus": [4]}, "rollout": {**BIG, "engine": "vllm", "tp": 2, "gpus": [2]}, "ref": BIG, "reward": FUNCTION},
    ),
}  # fmt: skip
"""Name → algorithm, schedule, roles."""


@functools.cache
def planned(job: str, machine: str = "dgx-h100") -> str:
    """Return the map of *job* for stock verl."""
    algorithm, schedule, roles = JOBS[job]
    preset = "guide" if "rollout" in roles else "colocate"
    return job_map(algorithm, schedule, roles, "verl-stock", preset, machine=machine)


def job_map(algorithm: str, schedule: str, roles: Mapping[str, object], target: str, preset: str, *, machine: str) -> str:
    """Return the map of a job for a target."""
    document = {
        "schema": "placement/workload/v1",
        "algorithm": algorithm,
        "schedule": schedule,
        "batch": {
            "prompts": 256,
            "samples_per_prompt": 1 if algorithm == "ppo" else 8,
            "prompt_tokens": 512,
            "response_tokens": {"mean": 600, "max": 2048},
            "minibatches": 4,
            "micro_batch_tokens": 8192,
        },
        "roles": roles,
    }
    workload = workload_file.read(strict_yaml.load(json.dumps(document), name="job.yaml"))
    outcome = plan(make_instance(read_machine(machine), workload, parse_rules(preset, f"target={target}")))
    assert outcome.plan is not None, (outcome.verdict, outcome.clash)
    return dump(outcome.plan)
