"""
Target ``roll``: ROLL's RLVR pipeline takes a list of GPU ids per role and keeps its order.

Facts (alibaba/ROLL v0.3.0, ``roll/configs/worker_config.py``): ``device_mapping`` is a text that is evaluated to a list of ids; id = node
rank × GPUs per node + id on the node; rank i of a role gets the i-th entry, and an engine of several GPUs sees them sorted. The parent's
CUDA_VISIBLE_DEVICES is ignored: the node has to be fully visible. Nodes are numbered by NODE_RANK. Duplicates, ids beyond the cluster and
an engine on two nodes are not checked there: they are here.

When to modify: ROLL renames a key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from placement.maps.seats import Seat
from placement.plans import RolePlan
from placement.targets.ray_nodes import long_command, ray_start
from placement.targets.shell import asked, script
from placement.targets.sizes import (
    engine_blocks,
    generating,
    host_memory_notes,
    is_offloaded,
    longest_tokens,
    micro_tokens,
    update_sequences,
)
from placement.targets.start import Start
from placement.targets.target import Emitted, Entry, Files, Target
from placement.text import strict_yaml, yaml_writer
from placement.workloads.workload import Algorithm, Engine, RoleName

CONFIG = "rlvr_config.yaml"

ESTIMATORS = {Algorithm.PPO: "gae", Algorithm.GRPO: "grpo", Algorithm.DAPO: "grpo", Algorithm.REINFORCE_PP: "reinforce"}

KEYS = {RoleName.ACTOR: "actor_train", RoleName.ROLLOUT: "actor_infer", RoleName.CRITIC: "critic", RoleName.REF: "reference"}
"""Where a role stands; a reward model is one of ``rewards``."""


def _emit(start: Start, version: str) -> Emitted:
    batch = start.workload.batch
    document: dict[str, Any] = {
        "num_gpus_per_node": _per_node(start),
        "rollout_batch_size": batch.prompts,
        "num_return_sequences_in_group": batch.samples_per_prompt,
        "prompt_length": batch.prompt_tokens,
        "response_length": batch.response_max_tokens,
        "adv_estimator": ESTIMATORS[start.workload.algorithm],
        **({"async_generation_ratio": 1} if start.schedule.overlaps_generation else {}),
        "pretrain": start.roles["actor"].model,
        **({"reward_pretrain": start.roles["critic"].model} if "critic" in start.roles else {}),
    }
    for role in (RoleName.ACTOR, RoleName.CRITIC, RoleName.REF):
        if role in start.roles:
            document[KEYS[role]] = _worker(start, role)
    document["actor_infer"] = _engines(start)
    if RoleName.REWARD in start.roles:
        model = {"model_args": {"model_name_or_path": start.roles["reward"].model, "dtype": start.roles["reward"].precision}}
        document["rewards"] = {"model": {**_worker(start, RoleName.REWARD), **model}}
    head = "# Keys of ROLL's RLVR configuration that follow from the device map. Entry i of a device_mapping is rank i.\n"
    variables = {host: {"NODE_RANK": str(k), "WORLD_SIZE": str(len(start.hosts))} for k, host in enumerate(start.hosts)}
    launch = long_command(
        ["python", "examples/start_rlvr_pipeline.py"],
        [("--config_path", asked("CONFIG_DIR", "the folder of your full configuration")), ("--config_name", CONFIG.removesuffix(".yaml"))],
    )
    files = {
        CONFIG: head + yaml_writer.dump(document),
        **ray_start(start, dict.fromkeys(start.hosts, ()), variables),
        "launch.sh": script(
            "bash launch.sh, on the first node when all have joined: CONFIG_DIR is the folder of the full configuration.", [launch]
        ),
    }
    return Emitted(files, tuple(_notes(start)))


def _worker(start: Start, role: str) -> dict[str, Any]:
    """Return the section of a role that is no engine."""
    plan = start.roles[role]
    kind = "train" if plan.train is not None else "infer"
    found: dict[str, Any] = {"model_args": {"dtype": plan.precision}}
    tokens = micro_tokens(start) if plan.train is None else plan.train.micro_batch_tokens
    if plan.train is not None:
        found["training_args"] = {
            "per_device_train_batch_size": 1,
            "gradient_accumulation_steps": update_sequences(start) // plan.layout.dp,
        }
        found |= {"use_dynamic_batching_in_train": True, "max_tokens_per_microbatch_in_train": max(tokens, longest_tokens(start))}
    found |= {"use_dynamic_batching_in_infer": True, "max_tokens_per_microbatch_in_infer": max(tokens, longest_tokens(start))}
    if plan.engine == Engine.MEGATRON:
        strategy = {"strategy_name": f"megatron_{kind}", "strategy_config": _megatron(plan)}
    else:
        strategy = {"strategy_name": f"fsdp2_{kind}", "strategy_config": _fsdp(plan)}
    return {**found, "strategy_args": strategy, "device_mapping": _list(start, start.seats[role])}


def _megatron(plan: RolePlan) -> dict[str, Any]:
    sizes = {
        "tensor_model_parallel_size": plan.layout.tp,
        "pipeline_model_parallel_size": plan.layout.pp,
        "expert_model_parallel_size": plan.layout.ep_size,
    }
    return {**sizes, **({"use_distributed_optimizer": True, "recompute_granularity": "full"} if plan.train is not None else {})}


def _fsdp(plan: RolePlan) -> dict[str, Any]:
    return {"fsdp_size": plan.layout.gpus, "param_dtype": plan.precision, "offload_policy": is_offloaded(plan, always=True)}


def _engines(start: Start) -> dict[str, Any]:
    role, rollout = generating(start)
    if rollout.engine == Engine.VLLM:
        config: dict[str, Any] = {
            "tensor_parallel_size": rollout.tp,
            "gpu_memory_utilization": rollout.gpu_memory_utilization,
            "max_num_seqs": rollout.max_num_seqs,
            "max_model_len": longest_tokens(start),
        }
    else:
        config = {"mem_fraction_static": rollout.gpu_memory_utilization, "max_running_requests": rollout.max_num_seqs}
    return {
        "model_args": {"dtype": start.roles[role].precision},
        "generating_args": {
            "max_new_tokens": start.workload.batch.response_max_tokens,
            "num_return_sequences": start.workload.batch.samples_per_prompt,
        },
        "num_gpus_per_worker": rollout.tp,
        "strategy_args": {"strategy_name": rollout.engine, "strategy_config": config},
        "device_mapping": _list(start, start.seats[role]),
    }


def _list(start: Start, seats: tuple[Seat, ...]) -> str:
    """Return a list as text: it is evaluated there, so that nothing but numbers may stand in it."""
    per_node = _per_node(start)
    return str([start.hosts.index(seat.host) * per_node + seat.gpu for seat in seats])


def _per_node(start: Start) -> int:
    return start.sizes[start.hosts[0]]


def _notes(start: Start) -> Iterator[str]:
    yield "data, learning rates and rewards stay yours: merge the keys into your own rlvr_config.yaml"
    yield "launch.sh is run from ROLL's own folder, with CONFIG_DIR set to the folder of your configuration"
    yield "every GPU of a node must be visible: ROLL sets CUDA_VISIBLE_DEVICES for each worker itself"
    if RoleName.REWARD in start.roles:
        yield "rewards.model needs the worker_cls and tag_included of your reward worker"
    yield from host_memory_notes(start)


def _refuses(start: Start) -> Iterator[str]:
    counts = {start.sizes.get(host) for host in start.hosts}
    if None in counts:
        yield "the map does not record how many GPUs its hosts have, and ids count over all of them"
    elif len(counts) > 1:
        yield f"hosts have {' and '.join(map(str, sorted(filter(None, counts))))} GPUs, and it takes one number for all nodes"
    for role, seats in start.seats.items():
        for seat in seats:
            if seat.gpu >= (start.sizes.get(seat.host) or seat.gpu + 1):
                yield f"{role} has GPU {seat}, which the machine of the map does not have"
    for block in engine_blocks(start):
        if len({seat.host for seat in block}) > 1:
            yield f"an engine has GPUs {', '.join(map(str, block))} of two hosts, and a worker is on one"
        elif [seat.gpu for seat in block] != sorted(seat.gpu for seat in block):
            yield f"an engine has GPUs {', '.join(map(str, block))}, and it sorts those of one worker"


def read_back(files: Files) -> Mapping[str, tuple[Entry, ...]]:
    """Return role → GPUs from the configuration and the scripts that number the nodes."""
    data = strict_yaml.load(files[CONFIG], name=CONFIG).data
    per_node = data["num_gpus_per_node"]
    hosts = {}
    for name, text in files.items():
        if match := re.search(r"NODE_RANK=([0-9]+)", text):
            hosts[int(match[1])] = name.removeprefix("ray-start").removesuffix(".sh").removeprefix("-")
    sections = {role: data[key] for role, key in KEYS.items() if key in data}
    if "rewards" in data:
        sections[RoleName.REWARD] = data["rewards"]["model"]
    found: dict[str, tuple[Entry, ...]] = {}
    for role, section in sections.items():
        ids = [int(number) for number in re.findall(r"[0-9]+", section["device_mapping"])]
        found[role] = tuple(f"{hosts[n // per_node]}:{n % per_node}" if hosts[n // per_node] else n for n in ids)
    if found[RoleName.ROLLOUT] == found[RoleName.ACTOR]:
        del found[RoleName.ROLLOUT]
    return found


TARGET = Target(
    name="roll",
    title="ROLL (RLVR pipeline)",
    versions=("0.3.0",),
    pins="ids, by device_mapping",
    keeps="yes",
    writes={
        CONFIG: "the keys that follow from the map",
        "ray-start.sh": "NODE_RANK and `ray start`, for each host",
        "launch.sh": "starts the pipeline",
    },
    cannot=(
        "part of a node that is not visible: it counts all GPUs of the driver's host, and ids would name others",
        "an engine whose GPUs do not ascend: it sorts those of one worker, and ranks in the engine would differ",
        "state of Megatron in host memory during the update: it has no key",
    ),
    emit=_emit,
    reads=read_back,
    refuses=_refuses,
)
