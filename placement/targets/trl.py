"""
Target ``trl``: TRL's trainers under accelerate, with vLLM in the trainer's processes or as a server on GPUs of its own.

Facts (trl 1.16.0, accelerate 1.15.0): ``gpu_ids`` of an accelerate configuration becomes CUDA_VISIBLE_DEVICES in its order, and local
rank k gets the k-th; ``num_processes`` counts all hosts, and is not compared with ``gpu_ids``. Collocated engines take consecutive ranks.
The server is one process on one host. A step's completions are cut evenly: ranks × sequences per device × accumulation.

When to modify: TRL or accelerate rename a key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from placement.targets.shell import HERE, ORDER, assignments, beside, command, host_file, script, visible
from placement.targets.sizes import (
    generating,
    is_offloaded,
    longest_tokens,
    several_hosts,
    train,
    unequal,
    update_sequences,
)
from placement.targets.start import Start
from placement.targets.target import Emitted, Entry, Files, Target
from placement.text import strict_yaml, yaml_writer
from placement.workloads.workload import Algorithm, Master, RoleName

SERVER_PORT = 8000
"""vLLM's own default."""

MAIN_PORT = 29500
"""accelerate's own default."""

KL_BETA = 0.04
"""Weight of the KL term where there is a reference model: that of the paper on GRPO (arXiv:2402.03300, section 4.2)."""


def _trainer(start: Start) -> str:
    return "rloo" if start.workload.algorithm is Algorithm.RLOO else "grpo"


def _emit(start: Start, version: str) -> Emitted:
    files: dict[str, str] = {}
    trainer = start.pool_of(RoleName.ACTOR)
    hosts = tuple(dict.fromkeys(seat.host for seat in trainer.seats))
    config = f"{_trainer(start)}.yaml"
    files[config] = "# Keys of TRL that follow from the device map.\n" + yaml_writer.dump(_arguments(start))
    for rank, host in enumerate(hosts):
        gpus = start.on_host(trainer, host)
        name = host_file("accelerate", host, ".yaml")
        files[name] = yaml_writer.dump(_accelerate(start, gpus, rank, hosts))
        module = f"trl.scripts.{_trainer(start)}"
        words = ["accelerate", "launch", "--config_file", beside(name), "-m", module, "--config", beside(config), '"$@"']
        files[host_file("launch", host, ".sh")] = script(
            f"bash {host_file('launch', host, '.sh')} --dataset_name …: starts the trainer's processes of {host or 'this host'}.",
            [HERE, f"{assignments(ORDER)} {command(words)}"],
        )
    if not start.workload.is_hybrid:
        files["vllm-serve.sh"] = _server(start)
    return Emitted(files, tuple(_notes(start)))


def _accelerate(start: Start, gpus: tuple[int, ...], rank: int, hosts: tuple[str | None, ...]) -> dict[str, Any]:
    actor = start.roles[RoleName.ACTOR]
    return {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "FSDP",
        "num_machines": len(hosts),
        "machine_rank": rank,
        "num_processes": len(start.seats[RoleName.ACTOR]),
        "gpu_ids": ",".join(map(str, gpus)),
        **({"main_process_ip": hosts[0]} if len(hosts) > 1 else {}),
        "main_process_port": MAIN_PORT,
        "mixed_precision": "no" if train(start, RoleName.ACTOR).master == Master.BF16 else actor.precision,
        "fsdp_config": {
            "fsdp_version": 2,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_reshard_after_forward": True,
            "fsdp_offload_params": is_offloaded(actor, always=True),
            "fsdp_activation_checkpointing": True,
            "fsdp_state_dict_type": "SHARDED_STATE_DICT",
            "fsdp_cpu_ram_efficient_loading": True,
        },
    }


def _arguments(start: Start) -> dict[str, Any]:
    batch, actor = start.workload.batch, start.roles[RoleName.ACTOR]
    _, rollout = generating(start)
    per_device = _per_device(start)
    accumulated = update_sequences(start) // (actor.layout.gpus * per_device)
    is_bf16_master = train(start, RoleName.ACTOR).master == Master.BF16
    found: dict[str, Any] = {
        "model_name_or_path": actor.model,
        "dtype": "bfloat16" if is_bf16_master else "float32",
        "bf16": actor.precision == "bf16" and not is_bf16_master,
        "fp16": actor.precision == "fp16",
        "per_device_train_batch_size": per_device,
        "gradient_accumulation_steps": accumulated,
        "gradient_checkpointing": False,    # accelerate's activation checkpointing does it: with both the trainer raises an error
        "steps_per_generation": accumulated * batch.minibatches,
        "num_generations": batch.samples_per_prompt,
        "max_completion_length": batch.response_max_tokens,
        "beta": KL_BETA if RoleName.REF in start.roles else 0.0,
        **({"loss_type": start.workload.algorithm.value} if _trainer(start) == "grpo" else {}),
        **({"reward_model_name_or_path": start.roles["reward"].model} if RoleName.REWARD in start.roles else {}),
        "use_vllm": True,
    }
    if start.workload.is_hybrid:
        found |= {
            "vllm_mode": "colocate",
            "vllm_tensor_parallel_size": rollout.tp,
            "vllm_gpu_memory_utilization": rollout.gpu_memory_utilization,
            "vllm_max_model_length": longest_tokens(start),
            "vllm_enable_sleep_mode": True,
        }
    else:
        host = start.seats[RoleName.ROLLOUT][0].host
        found |= {"vllm_mode": "server", "vllm_server_host": host or "127.0.0.1", "vllm_server_port": SERVER_PORT}
    return found


def _per_device(start: Start) -> int:
    """
    Return the sequences of a micro-batch, which TRL counts and pads to the longest: as many of the longest as its tokens hold.

    At least one, and a divisor of a rank's share of an update.
    """
    share = update_sequences(start) // start.roles[RoleName.ACTOR].layout.gpus
    most = max(1, train(start, RoleName.ACTOR).micro_batch_tokens // longest_tokens(start))
    return max(count for count in range(1, min(most, share) + 1) if share % count == 0)


def _server(start: Start) -> str:
    _, rollout = generating(start)
    role = start.roles[RoleName.ROLLOUT]
    gpus = tuple(seat.gpu for seat in start.seats[RoleName.ROLLOUT])
    words = ["trl", "vllm-serve", "--model", start.roles[RoleName.ACTOR].model]
    words += ["--tensor_parallel_size", str(rollout.tp), "--data_parallel_size", str(rollout.replicas)]
    words += ["--gpu_memory_utilization", str(rollout.gpu_memory_utilization), "--max_model_len", str(longest_tokens(start))]
    words += ["--dtype", "float16" if role.precision == "fp16" else "bfloat16", "--port", str(SERVER_PORT)]
    host = start.seats[RoleName.ROLLOUT][0].host
    return script(
        f"bash vllm-serve.sh: starts the engines{f' on {host}' if host else ''}; before the trainer.",
        [f"{assignments(visible(gpus))} {command(words)}"],
    )


def _notes(start: Start) -> Iterator[str]:
    _, rollout = generating(start)
    yield "learning rates, data and reward functions stay yours: launch.sh passes on what it is given"
    yield (
        f"micro-batches are counted in sequences: {_per_device(start)} of at most {longest_tokens(start)} tokens, for "
        f"{train(start, RoleName.ACTOR).micro_batch_tokens} tokens of the map"
    )
    yield f"max_num_seqs {rollout.max_num_seqs} has no key: vLLM's own default holds"
    if RoleName.REF in start.roles:
        yield f"beta is {KL_BETA}: with 0 there would be no reference model; yours takes its place"


def _refuses(start: Start) -> Iterator[str]:
    yield from unequal(start)
    if RoleName.ROLLOUT in start.seats and len({seat.host for seat in start.seats[RoleName.ROLLOUT]}) > 1:
        yield "engines are on several hosts, and `trl vllm-serve` is one process on one host"
    if start.workload.is_hybrid and generating(start)[1].tp > 1:
        yield from several_hosts(start, "collocated engines that are cut would count ranks over all hosts") if _is_cut(start) else ()
    ref = start.roles.get(RoleName.REF)
    if ref is not None and ref.model != start.roles[RoleName.ACTOR].model:
        yield f"ref has the model {ref.model}, and it loads the actor's"


def _is_cut(start: Start) -> bool:
    """Whether an engine would lie on two hosts."""
    _, rollout = generating(start)
    seats = start.seats[RoleName.ACTOR]
    return any(len({seat.host for seat in seats[k : k + rollout.tp]}) > 1 for k in range(0, len(seats), rollout.tp))


def read_back(files: Files) -> Mapping[str, tuple[Entry, ...]]:
    """Return role → GPUs: those of accelerate, by machine rank, and those that the server sees."""
    config = next(name for name in ("grpo.yaml", "rloo.yaml") if name in files)
    arguments = strict_yaml.load(files[config], name=config).data
    ranked: dict[int, tuple[Entry, ...]] = {}
    for name, text in files.items():
        if match := re.fullmatch(r"accelerate(?:-(.+))?\.yaml", name):
            data = strict_yaml.load(text, name=name).data
            gpus = [int(gpu) for gpu in str(data["gpu_ids"]).split(",")]
            ranked[data["machine_rank"]] = tuple(f"{match[1]}:{gpu}" if match[1] else gpu for gpu in gpus)
    group = tuple(entry for rank in sorted(ranked) for entry in ranked[rank])
    found = {"actor": group}
    if arguments["beta"]:
        found["ref"] = group
    if "reward_model_name_or_path" in arguments:
        found["reward"] = group
    if arguments["vllm_mode"] == "server":
        text = files["vllm-serve.sh"]
        match = re.search(r"CUDA_VISIBLE_DEVICES=([0-9,]+)", text)
        on = re.search(r"starts the engines on (\S+);", text)
        assert match is not None
        found["rollout"] = tuple(f"{on[1]}:{gpu}" if on else int(gpu) for gpu in match[1].split(","))
    return found


TARGET = Target(
    name="trl",
    title="TRL with accelerate",
    versions=("1.16",),
    pins="ids, by gpu_ids and CUDA_VISIBLE_DEVICES",
    keeps="yes",
    writes={
        "accelerate.yaml": "processes and GPUs, for each host",
        "grpo.yaml": "the trainer's arguments (rloo.yaml for RLOO)",
        "launch.sh": "starts the trainer, for each host",
        "vllm-serve.sh": "starts the engines, where they have GPUs of their own",
    },
    parser="TrlParser and vllm-serve arguments of trl 1.16.0, ClusterConfig and launch environment of accelerate 1.15.0",
    cannot=(
        "a critic, and a reference or reward model on GPUs of its own: all models are in one process per GPU",
        "engines of their own on several hosts: its server is one process",
        "state in host memory only between phases: it has no key",
        "micro-batches in tokens: it counts sequences",
    ),
    emit=_emit,
    reads=read_back,
    refuses=_refuses,
)
