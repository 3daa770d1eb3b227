"""
Target ``areal``: AReaL's local scheduler hands out the visible GPUs one after the other.

Facts (areal 1.0.4, ``areal/api/alloc_mode.py``, ``areal/infra/scheduler/local.py``, ``areal/trainer/rl_trainer.py``):
CUDA_VISIBLE_DEVICES is read as integers in its order; workers take the next ones, roles in the order actor, critic, ref, rollout, and
start again from the first when there are no more, without a word. A role with strategy ``colocation`` takes those of its target. An
engine takes as many as its TP. Under Slurm and Ray it takes whole nodes.

When to modify: AReaL renames a key, or creates workers in another order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from placement.plans import Layout, RolePlan
from placement.targets.ray_nodes import dealt, visible_of
from placement.targets.shell import assignments, command, script, visible
from placement.targets.sizes import (
    generating,
    is_offloaded,
    longest_tokens,
    micro_tokens,
    several_hosts,
)
from placement.targets.start import Start
from placement.targets.target import Emitted, Entry, Files, Target
from placement.text import strict_yaml, yaml_writer
from placement.workloads.workload import Engine, Master, RoleName, Schedule

CONFIG = "placement.yaml"

CREATED = (RoleName.ACTOR, RoleName.CRITIC, RoleName.REF, RoleName.ROLLOUT)
"""The order in which roles take GPUs."""

STALE = {Schedule.ONE_STEP_OFF: 1, Schedule.ASYNC: 4}
"""Versions of the weights by which generation may be behind: 1 by definition; where nothing waits, 4 as in its paper (arXiv:2505.24298)."""

DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


def _emit(start: Start, version: str) -> Emitted:
    batch = start.workload.batch
    role, rollout = generating(start)
    gpus = _in_order(start)
    engine: dict[str, Any] = (
        {
            "vllm": {
                "gpu_memory_utilization": rollout.gpu_memory_utilization,
                "max_num_seqs": rollout.max_num_seqs,
                "max_model_len": longest_tokens(start),
                "dtype": DTYPES[start.roles[role].precision],
            }
        }
        if rollout.engine == Engine.VLLM
        else {
            "sglang": {
                "mem_fraction_static": rollout.gpu_memory_utilization,
                "max_running_requests": rollout.max_num_seqs,
                "context_length": longest_tokens(start),
                "dtype": DTYPES[start.roles[role].precision],
            }
        }
    )
    document: dict[str, Any] = {
        "cluster": {"n_nodes": 1, "n_gpus_per_node": len(gpus)},
        "scheduler": {"type": "local"},
        "enable_offload": any(_waits(plan) for plan in start.roles.values()),
        "train_dataset": {"batch_size": batch.prompts},
        "gconfig": {"n_samples": batch.samples_per_prompt, "max_new_tokens": batch.response_max_tokens},
        "rollout": {
            "backend": f"{rollout.engine}:d{rollout.replicas}{f't{rollout.tp}' if rollout.tp > 1 else ''}",
            "max_head_offpolicyness": STALE[start.schedule],
            "scheduling_spec": [_spec()],
        },
        **engine,
    }
    for name in (RoleName.ACTOR, RoleName.CRITIC, RoleName.REF):
        if name in start.roles:
            document[name.value] = _engine(start, name)
    head = "# Keys of AReaL that follow from the device map. GPUs are taken from CUDA_VISIBLE_DEVICES: actor, critic, ref, rollout.\n"
    words = ["python", '"$@"', "scheduler.type=local"]
    files = {
        CONFIG: head + yaml_writer.dump(document),
        "launch.sh": script(
            "bash launch.sh train.py --config yours.yaml: with the keys of placement.yaml in yours.yaml.",
            [f"{assignments(visible(gpus))} {command(words)}"],
        ),
    }
    return Emitted(files, tuple(_notes(start)))


def _spec() -> dict[str, Any]:
    return {"gpu": 1, "task_type": "worker"}


def _engine(start: Start, name: RoleName) -> dict[str, Any]:
    plan, actor = start.roles[name], start.seats[RoleName.ACTOR]
    found: dict[str, Any] = {
        "backend": f"{plan.engine}:{_dimensions(plan.layout)}",
        "path": plan.model,
        "dtype": DTYPES[plan.precision],
        "gradient_checkpointing": True,
        "mb_spec": {"max_tokens_per_mb": max(_tokens(start, plan), longest_tokens(start))},
        "offload": _waits(plan),
    }
    if plan.train is not None:
        found["ppo_n_minibatches"] = start.workload.batch.minibatches
        if plan.engine == Engine.FSDP:
            found["optimizer_dtype"] = "bfloat16" if plan.train.master == Master.BF16 else "float32"
            found["optimizer"] = {"type": "adam_bf16" if plan.train.master == Master.BF16 else "adam"}
    if plan.engine == Engine.FSDP:
        found["fsdp"] = {"offload_params": is_offloaded(plan, always=True)}
    if name is not RoleName.ACTOR and start.seats[name] == actor:
        found["scheduling_strategy"] = {"type": "colocation", "target": "actor", "fork": True}
    else:
        found["scheduling_strategy"] = {"type": "separation"}
    found["scheduling_spec"] = [_spec()]
    return found


def _dimensions(layout: Layout) -> str:
    """Return the sizes as AReaL writes them; experts of a layer are spread over data-parallel ranks."""
    if layout.ep_size > 1:
        dp, ep = layout.dp, layout.ep_size
        attention = f"d{dp}p{layout.pp}t{layout.tp}"
        return f"(attn:{attention}|ffn:d{dp // ep}p{layout.pp}t{layout.tp}e{ep})"
    sizes = {"d": layout.dp, "p": layout.pp, "t": layout.tp, "c": layout.sp_size}
    return "".join(f"{letter}{size}" for letter, size in sizes.items() if size > 1 or letter == "d")


def _waits(plan: RolePlan) -> bool:
    return is_offloaded(plan) and not is_offloaded(plan, always=True)


def _tokens(start: Start, plan: RolePlan) -> int:
    return micro_tokens(start) if plan.train is None else plan.train.micro_batch_tokens


def _in_order(start: Start) -> tuple[int, ...]:
    """Return the GPUs in the order in which they are taken."""
    return tuple(dict.fromkeys(seat.gpu for role in CREATED if role in start.seats for seat in start.seats[role]))


def _notes(start: Start) -> Iterator[str]:
    yield "data, rewards, learning rates and the estimator of advantages stay yours: merge the keys into your own configuration"
    if start.schedule is Schedule.ASYNC:
        yield f"rollout.max_head_offpolicyness is {STALE[Schedule.ASYNC]}, as in AReaL's paper; yours takes its place"


def _refuses(start: Start) -> Iterator[str]:
    yield from several_hosts(start, "under Slurm and Ray it takes whole nodes, in an order of their own")
    for role, plan in start.roles.items():
        if plan.engine == Engine.FSDP and plan.train is not None and plan.train.master == Master.BF16 and plan.precision != "bf16":
            yield f"{role} updates bf16 weights and computes in {plan.precision}"


def read_back(files: Files) -> Mapping[str, tuple[Entry, ...]]:
    """Return role → GPUs: sizes, in the order in which they are taken of what is visible."""
    data = strict_yaml.load(files[CONFIG], name=CONFIG).data
    groups: list[tuple[list[str], int]] = []
    for role in CREATED:
        if role not in data:
            continue
        if data[role].get("scheduling_strategy", {}).get("type") == "colocation":
            groups[0][0].append(role)
            continue
        dimensions = data[role]["backend"].split(":", 1)[1].removeprefix("(attn:").split("|")[0]
        size = 1
        for number in re.findall(r"[dptc]([0-9]+)", dimensions):
            size *= int(number)
        groups.append(([role], size))
    return dealt(visible_of(files["launch.sh"]), groups)


TARGET = Target(
    name="areal",
    title="AReaL (local scheduler)",
    versions=("1.0",),
    pins="ids, by CUDA_VISIBLE_DEVICES",
    keeps="yes, on one host",
    writes={CONFIG: "the keys that follow from the map", "launch.sh": "the command, with GPUs in order"},
    parser="ModelAllocation and PPOConfig of areal 1.0.4",
    cannot=(
        "generation on the actor's GPUs: engines have their own",
        "a reward model on GPUs: its rewards are functions",
        "several hosts: under Slurm and Ray it takes whole nodes in an order of their own",
    ),
    emit=_emit,
    reads=read_back,
    refuses=_refuses,
)
