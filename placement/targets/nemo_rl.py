"""
Target ``nemo-rl``: NeMo-RL takes counts, and sorts the GPUs of a cluster.

Facts (NVIDIA-NeMo/RL v0.7, ``nemo_rl/algorithms/grpo.py``, ``nemo_rl/distributed/virtual_cluster.py``): each of policy and generation is
a cluster of bundles of one GPU, sorted by node and GPU id. On one node generation takes ``resources.gpus_per_node``, a reward model its
own, training the rest; which cluster gets the first GPUs is whichever Ray creates first, and nothing says. On several nodes generation
takes whole nodes, and nodes are sorted by ``topo_rank`` or by Ray's node ids.

When to modify: NeMo-RL renames a key, or lets one pin GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from placement.targets.ray_nodes import long_command, ray_start, visible_of
from placement.targets.shell import asked, script
from placement.targets.sizes import (
    generating,
    host_memory_notes,
    is_offloaded,
    longest_tokens,
    micro_tokens,
    several_hosts,
    train,
    update_sequences,
)
from placement.targets.start import Start
from placement.targets.target import Emitted, Entry, Files, Target
from placement.text import strict_yaml, yaml_writer
from placement.workloads.workload import Algorithm, Engine, RoleName, Schedule

CONFIG = "placement.yaml"

KL_PENALTY = 0.01
"""Weight of the KL term where there is a reference model: that of NeMo-RL's own ``grpo_math_1B.yaml``; users set their own."""


def _emit(start: Start, version: str) -> Emitted:
    batch, actor = start.workload.batch, start.roles[RoleName.ACTOR]
    gpus = tuple(sorted({seat.gpu for pool in start.pools for seat in pool.seats}))
    tokens = max(micro_tokens(start), longest_tokens(start))
    document: dict[str, Any] = {
        "grpo": {
            "num_prompts_per_step": batch.prompts,
            "num_generations_per_prompt": batch.samples_per_prompt,
            "use_leave_one_out_baseline": start.workload.algorithm is Algorithm.RLOO,
            "async_grpo": {"enabled": start.schedule.overlaps_generation},
        },
        "loss_fn": {"reference_policy_kl_penalty": KL_PENALTY if RoleName.REF in start.roles else 0},
        "policy": {
            "model_name": actor.model,
            "precision": {"bf16": "bfloat16", "fp16": "float16"}[actor.precision],
            "train_global_batch_size": update_sequences(start),
            "train_micro_batch_size": 1,
            "logprob_batch_size": 1,
            "max_total_sequence_length": longest_tokens(start),
            **_engine(start),
            "sequence_packing": {"enabled": True, "train_mb_tokens": tokens, "logprob_mb_tokens": tokens},
            "dynamic_batching": {"enabled": False},
            "generation": _generation(start),
        },
        "cluster": {"gpus_per_node": len(gpus), "num_nodes": 1},
    }
    if RoleName.REWARD in start.roles:
        reward = start.roles[RoleName.REWARD]
        document["env"] = {
            "reward_model": {
                "enabled": True,
                "model_name": reward.model,
                "resources": {"gpus_per_node": len(start.seats[RoleName.REWARD]), "num_nodes": 1},
                "dtensor_cfg": {"tensor_parallel_size": reward.layout.tp},
            }
        }
    head = "# Keys of NeMo-RL that follow from the device map; it sorts the GPUs of each cluster.\n"
    launch = long_command(["uv", "run", "python", "examples/run_grpo_math.py"], [("--config", asked("CONFIG", "your full configuration"))])
    files = {
        CONFIG: head + yaml_writer.dump(document),
        **ray_start(start, {start.hosts[0]: gpus}),
        "launch.sh": script("bash launch.sh: after ray-start.sh; CONFIG is your configuration with the keys of placement.yaml.", [launch]),
    }
    return Emitted(files, tuple(_notes(start)))


def _engine(start: Start) -> dict[str, Any]:
    plan = start.roles[RoleName.ACTOR]
    if plan.engine == Engine.MEGATRON:
        always = is_offloaded(plan, always=True)
        return {
            "dtensor_cfg": {"enabled": False},
            "megatron_cfg": {
                "enabled": True,
                "activation_checkpointing": True,
                "tensor_model_parallel_size": plan.layout.tp,
                "pipeline_model_parallel_size": plan.layout.pp,
                "expert_model_parallel_size": plan.layout.ep_size,
                "context_parallel_size": plan.layout.sp_size,
                "optimizer": {"optimizer_cpu_offload": always, "optimizer_offload_fraction": 1.0 if always else 0.0},
            },
        }
    return {
        "megatron_cfg": {"enabled": False},
        "dtensor_cfg": {
            "enabled": True,
            "activation_checkpointing": True,
            "cpu_offload": is_offloaded(plan, always=True),
            "tensor_parallel_size": plan.layout.tp,
            "context_parallel_size": plan.layout.sp_size,
        },
    }


def _generation(start: Start) -> dict[str, Any]:
    role, rollout = generating(start)
    found: dict[str, Any] = {
        "backend": "vllm",
        "max_new_tokens": start.workload.batch.response_max_tokens,
        "vllm_cfg": {
            "tensor_parallel_size": rollout.tp,
            "pipeline_parallel_size": 1,
            "gpu_memory_utilization": rollout.gpu_memory_utilization,
            "max_model_len": longest_tokens(start),
            **({"async_engine": True} if start.schedule.overlaps_generation else {}),
        },
        "vllm_kwargs": {"max_num_seqs": rollout.max_num_seqs},
        "colocated": {"enabled": start.workload.is_hybrid},
    }
    if not start.workload.is_hybrid:
        found["colocated"]["resources"] = {"gpus_per_node": len(start.seats[role]), "num_nodes": 1}
    return found


def _notes(start: Start) -> Iterator[str]:
    yield "data, learning rates and rewards stay yours: merge the keys into your own configuration"
    yield "launch.sh is run from NeMo-RL's own folder, with CONFIG set to your configuration"
    yield "it sorts the GPUs of a cluster: ranks follow ids, as in the map"
    if len(start.pools) > 1:
        order = [pool for pool in start.pools if RoleName.ACTOR not in pool.roles]
        others = " and ".join(" + ".join(pool.roles) for pool in order)
        yield (
            f"which GPUs it gives to the policy and which to {others} follows from which cluster Ray creates first, and nothing says that: "
            f"the map has {_shown(start)}; see with `placement verify` what it became"
        )
    if RoleName.REWARD in start.roles:
        yield "a reward model is started only where the data's env_name is reward_model"
    if start.schedule is Schedule.ASYNC:
        yield "async_grpo.max_trajectory_age_steps stays yours"
    yield from host_memory_notes(start)


def _shown(start: Start) -> str:
    return "; ".join(f"{' + '.join(pool.roles)} on GPU {', '.join(map(str, pool.seats))}" for pool in start.pools)


def _refuses(start: Start) -> Iterator[str]:
    yield from several_hosts(start, "it sorts nodes itself, and gives whole nodes to generation")
    ref, actor = start.roles.get(RoleName.REF), start.roles[RoleName.ACTOR]
    if ref is not None and (ref.model != actor.model or ref.layout != actor.layout):
        yield "ref differs from actor in model or layout, and its policy is both: give ref one layout in the job, that of actor"
    trained = train(start, RoleName.ACTOR)
    if trained.zero_stage != 3 and actor.engine == Engine.FSDP:
        yield f"actor has ZeRO stage {trained.zero_stage}, and it has 3"


def read_back(files: Files) -> Mapping[str, tuple[Entry, ...]]:
    """Return role → GPUs where policy and generation are one; its files say no more of others than their sizes."""
    data = strict_yaml.load(files[CONFIG], name=CONFIG).data
    gpus = visible_of(files["ray-start.sh"])
    if not data["policy"]["generation"]["colocated"]["enabled"] or "env" in data:
        return {}
    roles = [RoleName.ACTOR, *([RoleName.REF] if data["loss_fn"]["reference_policy_kl_penalty"] else [])]
    return {role.value: gpus for role in roles}


TARGET = Target(
    name="nemo-rl",
    title="NeMo-RL",
    versions=("0.7",),
    pins="the set, by CUDA_VISIBLE_DEVICES of `ray start`; not which cluster gets which",
    keeps="no: it sorts; ranks follow ids",
    writes={
        CONFIG: "the keys that follow from the map",
        "ray-start.sh": "`ray start` with the GPUs of the map",
        "launch.sh": "starts the run",
    },
    cannot=(
        "which GPUs are the policy's and which generation's, where both have their own: the cluster that Ray creates first gets the first",
        "several hosts: it sorts nodes itself, and gives whole nodes to generation",
        "a reference model on GPUs of its own or of another layout: the policy is both",
    ),
    emit=_emit,
    reads=read_back,
    refuses=_refuses,
)
