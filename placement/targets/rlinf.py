"""
Target ``rlinf``: RLinf's reasoning tasks take ranges of GPU ids per component.

Facts (RLinf 0.3.0, ``rlinf/utils/placement.py`` and ``rlinf/scheduler/placement``): ids count over all GPUs of all nodes, nodes by
RLINF_NODE_RANK; ranges ascend and have no gap; actor, rollout and reward must be there. Collocated (actor and rollout on the same GPUs):
no component ``inference``. Otherwise actor, rollout, inference and critic are disjoint; ``inference`` is what computes log-probabilities
of the old and the reference policy. A collocated engine has every (actor TP ÷ rollout TP)-th GPU.

When to modify: RLinf renames a key or a component.
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
    is_offloaded,
    longest_tokens,
    micro_tokens,
)
from placement.targets.start import Start
from placement.targets.target import Emitted, Entry, Files, Target
from placement.text import strict_yaml, yaml_writer
from placement.workloads.workload import Algorithm, Engine, Master

CONFIG = "placement.yaml"

ADVANTAGES = {Algorithm.PPO: "gae", Algorithm.GRPO: "grpo", Algorithm.DAPO: "grpo", Algorithm.REINFORCE_PP: "reinpp"}

KL_BETA = 0.001
"""Weight of the KL term where there is a reference model; RLinf's examples comment it in (``kl_beta``). Users set their own."""


def _components(start: Start) -> dict[str, str]:
    """Return component → role whose GPUs it has."""
    found = {"actor": "actor", "rollout": generating(start)[0]}
    if "ref" in start.roles and not start.workload.is_hybrid:
        found["inference"] = "ref"
    if "critic" in start.roles:
        found["critic"] = "critic"
    found["reward"] = "reward" if "reward" in start.roles else "actor"
    return found


def _emit(start: Start, version: str) -> Emitted:
    batch = start.workload.batch
    placed: dict[tuple[Seat, ...], list[str]] = {}
    for component, role in _components(start).items():
        placed.setdefault(start.seats[role], []).append(component)
    role, rollout = generating(start)
    document: dict[str, Any] = {
        "cluster": {
            "num_nodes": len(start.hosts),
            "component_placement": {",".join(names): _range(start, seats) for seats, names in placed.items()},
        },
        "runner": {
            "task_type": "reasoning",
            "seq_length": longest_tokens(start),
            "enable_dynamic_batch_size": True,
            "max_tokens_per_mbs": max(micro_tokens(start), longest_tokens(start)),
        },
        "algorithm": {
            "group_size": batch.samples_per_prompt,
            "n_minibatches": batch.minibatches,
            "adv_type": ADVANTAGES[start.workload.algorithm],
            "kl_beta": KL_BETA if "ref" in start.roles else 0.0,
            "recompute_logprobs": start.workload.is_hybrid or "ref" in start.roles,
        },
        "data": {"rollout_batch_size": batch.prompts, "max_prompt_length": batch.prompt_tokens},
        "rollout": {
            "rollout_backend": rollout.engine,
            "tensor_parallel_size": rollout.tp,
            "pipeline_parallel_size": 1,
            "gpu_memory_utilization": rollout.gpu_memory_utilization,
            "max_running_requests": rollout.max_num_seqs,
            "model": {"model_path": start.roles[role].model, "precision": start.roles[role].precision},
        },
        "actor": _model(start.roles["actor"]),
    }
    if "ref" in start.roles and not start.workload.is_hybrid:
        document["inference"] = _model(start.roles["ref"])
    if "critic" in start.roles:
        document["critic"] = {"use_critic_model": True, **_model(start.roles["critic"])}
    if "reward" in start.roles:
        document["reward"] = {"use_reward_model": True, "model": {"model_path": start.roles["reward"].model}}
    head = "# Keys of an RLinf reasoning configuration that follow from the device map. Ids count over the GPUs of all nodes.\n"
    if len(start.hosts) > 1:
        first = _first(start)
        head += "".join(f"# ids from {first[host]}: {host}\n" for host in start.hosts)
    variables = {host: {"RLINF_NODE_RANK": str(k)} for k, host in enumerate(start.hosts)}
    launch = long_command(
        ["python", "examples/reasoning/main_grpo.py"],
        [
            ("--config-path", asked("CONFIG_DIR", "the folder of your full configuration")),
            ("--config-name", asked("CONFIG_NAME", "the name of your full configuration")),
        ],
    )
    files = {
        CONFIG: head + yaml_writer.dump(document),
        **ray_start(start, dict.fromkeys(start.hosts, ()), variables),
        "launch.sh": script(
            "bash launch.sh, on the first node when all have joined: CONFIG_DIR and CONFIG_NAME are those of the full configuration.",
            [launch],
        ),
    }
    return Emitted(files, tuple(_notes(start)))


def _model(plan: RolePlan) -> dict[str, Any]:
    """Return the section of a component that trains or passes forward."""
    sizes = {"tensor_model_parallel_size": plan.layout.tp, "pipeline_model_parallel_size": plan.layout.pp}
    if plan.engine == Engine.MEGATRON:
        precision = plan.precision
        if plan.layout.ep_size > 1:
            sizes["expert_model_parallel_size"] = plan.layout.ep_size
    else:
        precision = "fp32" if plan.train is not None and plan.train.master == Master.FP32 else plan.precision
    found: dict[str, Any] = {
        "training_backend": plan.engine,
        "enable_offload": is_offloaded(plan),
        "model": {"model_path": plan.model, "precision": precision, **sizes},
    }
    if plan.engine == Engine.FSDP:
        found["fsdp_config"] = {
            "strategy": "fsdp2",
            "sharding_strategy": "full_shard",
            "reshard_after_forward": True,
            "cpu_offload": is_offloaded(plan, always=True),
            "mixed_precision": {"param_dtype": plan.precision, "reduce_dtype": "fp32", "buffer_dtype": "fp32"},
            "amp_autocast": {"enabled": False},
        }
    return found


def _first(start: Start) -> Mapping[str | None, int]:
    """Return the id of the first GPU of each host."""
    found: dict[str | None, int] = {}
    count = 0
    for host in start.hosts:
        found[host] = count
        count += start.sizes.get(host, 0)
    return found


def _ids(start: Start, seats: tuple[Seat, ...]) -> list[int]:
    """Return ids that count over the hosts."""
    first = _first(start)
    return [first[seat.host] + seat.gpu for seat in seats]


def _range(start: Start, seats: tuple[Seat, ...]) -> str:
    ids = _ids(start, seats)
    return f"{ids[0]}-{ids[-1]}"


def _notes(start: Start) -> Iterator[str]:
    yield "data, learning rates and rewards stay yours: merge the keys into your own configuration"
    yield "launch.sh is run from RLinf's own folder, with CONFIG_DIR and CONFIG_NAME set to those of your configuration"
    yield "every GPU of a node must be visible: RLinf numbers those that it sees, and sets CUDA_VISIBLE_DEVICES itself"
    if "ref" in start.roles and start.workload.is_hybrid:
        yield "the actor itself computes the reference's log-probabilities, with weights that wait in host memory"
    if "ref" in start.roles:
        yield f"algorithm.kl_beta is {KL_BETA}: without a KL term there would be no reference model; yours takes its place"


def _refuses(start: Start) -> Iterator[str]:
    if len(start.hosts) > 1 and any(host not in start.sizes for host in start.hosts):
        yield "the map does not record how many GPUs its hosts have, and ids count over all of them"
        return
    for role, seats in start.seats.items():
        ids = _ids(start, seats)
        if ids != list(range(ids[0], ids[0] + len(ids))):
            yield f"{role} has GPUs {', '.join(map(str, seats))}, and it takes consecutive ids of all GPUs of its nodes"
    for block in engine_blocks(start):
        if len({seat.host for seat in block}) > 1:
            yield f"an engine has GPUs {', '.join(map(str, block))} of two hosts, and a process is on one"
    actor, (_, rollout) = start.roles["actor"], generating(start)
    if start.workload.is_hybrid and actor.layout.tp > rollout.tp:
        if rollout.tp > 1:
            yield (
                f"an engine would have every {actor.layout.tp // rollout.tp}. GPU, not consecutive ones as in the map, for the actor "
                f"cuts tensors over {actor.layout.tp} GPUs and engines over {rollout.tp}"
            )
        elif actor.layout.tp % rollout.tp:
            yield f"the actor's tp {actor.layout.tp} is no multiple of the engines' {rollout.tp}"


def read_back(files: Files) -> Mapping[str, tuple[Entry, ...]]:
    """Return role → GPUs from the configuration; its comments say where the ids of each host begin, if there are several."""
    data = strict_yaml.load(files[CONFIG], name=CONFIG).data
    hosts = [(int(first), host) for first, host in re.findall(r"^# ids from ([0-9]+): (\S+)$", files[CONFIG], re.MULTILINE)]
    found: dict[str, tuple[Entry, ...]] = {}
    for names, text in data["cluster"]["component_placement"].items():
        match = re.fullmatch(r"([0-9]+)-([0-9]+)", text)
        assert match is not None
        gpus: tuple[Entry, ...] = tuple(_entry(number, hosts) for number in range(int(match[1]), int(match[2]) + 1))
        found |= {"ref" if name == "inference" else name: gpus for name in names.split(",")}
    if "use_reward_model" not in data.get("reward", {}):
        del found["reward"]
    if found["rollout"] == found["actor"]:
        del found["rollout"]
        if data["algorithm"]["kl_beta"]:
            found["ref"] = found["actor"]
    return found


def _entry(number: int, hosts: list[tuple[int, str]]) -> Entry:
    """Return an id as maps write it; *hosts* with their first ids, none where the map names none."""
    if not hosts:
        return number
    first, host = max((first, host) for first, host in hosts if first <= number)
    return f"{host}:{number - first}"


TARGET = Target(
    name="rlinf",
    title="RLinf (reasoning)",
    versions=("0.3.0",),
    pins="ids, by component_placement",
    keeps="ranks follow ids",
    writes={
        CONFIG: "the keys that follow from the map",
        "ray-start.sh": "RLINF_NODE_RANK and `ray start`, for each host",
        "launch.sh": "starts the task",
    },
    parser="placement classes of rlinf 0.3.0, on a cluster of which only the numbers are there",
    cannot=(
        "roles that share GPUs in part, or two of four roles that share: it raises an error",
        "ids with a gap: it raises an error",
        "collocated engines cut over fewer GPUs than the actor, yet over several: it strides their GPUs",
        "part of a node that is not visible: ids would name others",
    ),
    emit=_emit,
    reads=read_back,
    refuses=_refuses,
)
