"""
Target ``prime-rl``: engines take the first of the visible GPUs, the trainer the next.

Facts (PrimeIntellect-ai/prime-rl, ``prime_rl/configs/rl.py``, August 2026): ``deployment`` counts GPUs of one node; the launcher splits
CUDA_VISIBLE_DEVICES, which it reads as integers, engines first. Several nodes are whole nodes, and Slurm orders them. Unknown keys are
rejected. A trainer's micro-batch is packed to ``seq_len`` tokens.

When to modify: prime-rl renames a key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from placement.targets.ray_nodes import dealt, visible_of
from placement.targets.shell import HERE, assignments, beside, command, script, visible
from placement.targets.sizes import generating, is_offloaded, longest_tokens, several_hosts, train
from placement.targets.start import Start
from placement.targets.target import Emitted, Entry, Files, Target
from placement.workloads.workload import Master, RoleName

CONFIG = "rl.toml"


def _emit(start: Start, version: str) -> Emitted:
    actor, (_, rollout) = start.roles[RoleName.ACTOR], generating(start)
    trained = train(start, RoleName.ACTOR)
    gpus = tuple(seat.gpu for role in (RoleName.ROLLOUT, RoleName.ACTOR) for seat in start.seats[role])
    tables: dict[str, dict[str, Any]] = {
        "": {"seq_len": max(trained.micro_batch_tokens, longest_tokens(start))},
        "model": {"name": actor.model},
        "deployment": {
            "type": "single_node",
            "gpus_per_node": len(gpus),
            "num_train_gpus": len(start.seats[RoleName.ACTOR]),
            "num_infer_gpus": len(start.seats[RoleName.ROLLOUT]),
        },
        "trainer.model": {
            "cp": actor.layout.sp_size,
            "optimization_dtype": "bfloat16" if trained.master == Master.BF16 else "float32",
            "fsdp_cpu_offload": is_offloaded(actor, always=True),
            "optim_cpu_offload": False,
        },
        "trainer.model.ac": {},
        "inference": {"gpu_memory_utilization": rollout.gpu_memory_utilization},
        "inference.model": {"max_model_len": longest_tokens(start)},
        "inference.parallel": {"tp": rollout.tp, "dp": rollout.replicas},
    }
    words = ["uv", "run", "rl", "@", beside(CONFIG), '"$@"']
    files = {
        CONFIG: "# Keys of prime-rl that follow from the device map.\n" + _toml(tables),
        "launch.sh": script(
            "bash launch.sh @ yours.toml: engines take the first GPUs, the trainer the next ones.",
            [HERE, f"{assignments(visible(gpus))} {command(words)}"],
        ),
    }
    return Emitted(files, tuple(_notes(start)))


def _toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    blocks = []
    for name, values in tables.items():
        head = [f"[{name}]"] if name else []
        blocks.append("\n".join([*head, *(f"{key} = {_value(value)}" for key, value in values.items())]))
    return "\n\n".join(blocks) + "\n"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)


def _notes(start: Start) -> Iterator[str]:
    yield "environments, batch size and how far generation may run ahead stay yours: add them to rl.toml or beside it"
    yield f"micro-batches are packed to seq_len, {max(train(start, 'actor').micro_batch_tokens, longest_tokens(start))} tokens"
    yield f"max_num_seqs {generating(start)[1].max_num_seqs} has no key: vLLM's own default holds"


def _refuses(start: Start) -> Iterator[str]:
    yield from several_hosts(start, "several nodes are whole nodes there, which Slurm orders")
    if start.roles[RoleName.ACTOR].precision != "bf16":
        yield f"actor runs in {start.roles[RoleName.ACTOR].precision}, and its trainer in bf16"


def read_back(files: Files) -> Mapping[str, tuple[Entry, ...]]:
    """Return role → GPUs: counts, in the order in which they are taken of what is visible."""
    counts = {name: int(re.search(rf"^num_{name}_gpus = ([0-9]+)$", files[CONFIG], re.MULTILINE)[1]) for name in ("infer", "train")}  # type: ignore[index]
    return dealt(visible_of(files["launch.sh"]), [(["rollout"], counts["infer"]), (["actor"], counts["train"])])


TARGET = Target(
    name="prime-rl",
    title="prime-rl",
    versions=("2026-08",),
    pins="ids, by CUDA_VISIBLE_DEVICES",
    keeps="yes",
    writes={CONFIG: "the keys that follow from the map", "launch.sh": "the command, with GPUs in order"},
    cannot=(
        "a critic, a reference or a reward model on GPUs: there is none",
        "generation on the trainer's GPUs: engines have their own",
        "part of several hosts: several nodes are whole nodes, which Slurm orders",
        "state in host memory only between phases: it has no key",
    ),
    emit=_emit,
    reads=read_back,
    refuses=_refuses,
)
