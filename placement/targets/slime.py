"""
Target ``slime``: slime takes counts, and sorts all GPUs; the actor has the first ones.

Facts (THUDM/slime v0.3.1, ``slime/ray/placement_group.py``, ``slime/utils/arguments.py``): one group of bundles of one GPU, sorted by the
node's address and the physical GPU id; the actor takes the first, engines the next, or the same with ``--colocate``. The critic has the
actor's GPUs, the reference policy lives in its processes. An engine takes consecutive ids on its node.

When to modify: slime renames a flag.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from placement.maps.seats import Seat
from placement.targets.ray_nodes import dealt, long_command, options_of, ray_start, visible_of
from placement.targets.shell import script
from placement.targets.sizes import (
    engine_blocks,
    generating,
    is_offloaded,
    longest_tokens,
    micro_tokens,
    several_hosts,
    update_sequences,
)
from placement.targets.start import Start
from placement.targets.target import Emitted, Entry, Files, Target
from placement.workloads.workload import Algorithm, RoleName

ESTIMATORS = {Algorithm.PPO: "ppo", Algorithm.GRPO: "grpo", Algorithm.DAPO: "grpo", Algorithm.REINFORCE_PP: "reinforce_plus_plus"}


def _emit(start: Start, version: str) -> Emitted:
    gpus = tuple(sorted({seat.gpu for pool in start.pools for seat in pool.seats}))
    entry = "train_async.py" if start.schedule.overlaps_generation else "train.py"
    files = {
        **ray_start(start, {start.hosts[0]: gpus}),
        "launch.sh": script(
            "bash launch.sh --hf-checkpoint … --ref-load …: after ray-start.sh, with the model's Megatron flags.",
            [long_command(["python", entry], [(f"--{key}", *values) for key, *values in _flags(start, gpus)])],
        ),
    }
    return Emitted(files, tuple(_notes(start)))


def _flags(start: Start, gpus: tuple[int, ...]) -> Iterator[tuple[str, ...]]:
    batch, actor = start.workload.batch, start.roles[RoleName.ACTOR]
    role, rollout = generating(start)
    yield "actor-num-nodes", "1"
    yield "actor-num-gpus-per-node", str(len(start.seats[RoleName.ACTOR]))
    yield "rollout-num-gpus", str(len(start.seats[role]))
    yield "rollout-num-gpus-per-engine", str(rollout.tp)
    yield "num-gpus-per-node", str(len(gpus))
    if start.workload.is_hybrid:
        yield ("colocate",)
    elif any(is_offloaded(plan) and not is_offloaded(plan, always=True) for plan in start.roles.values()):
        yield ("offload-train",)
    yield "tensor-model-parallel-size", str(actor.layout.tp)
    yield "pipeline-model-parallel-size", str(actor.layout.pp)
    yield "expert-model-parallel-size", str(actor.layout.ep_size)
    yield "context-parallel-size", str(actor.layout.sp_size)
    if actor.layout.tp > 1:
        yield ("sequence-parallel",)
    yield "recompute-granularity", "full"
    yield "recompute-method", "uniform"
    yield "recompute-num-layers", "1"
    if is_offloaded(actor, always=True):
        yield ("optimizer-cpu-offload",)
        yield ("overlap-cpu-optimizer-d2h-h2d",)
        yield ("use-precision-aware-optimizer",)
    yield ("use-dynamic-batch-size",)
    yield "max-tokens-per-gpu", str(max(micro_tokens(start), longest_tokens(start)))
    yield "rollout-batch-size", str(batch.prompts)
    yield "n-samples-per-prompt", str(batch.samples_per_prompt)
    yield "global-batch-size", str(update_sequences(start))
    yield "rollout-max-response-len", str(batch.response_max_tokens)
    yield "advantage-estimator", ESTIMATORS[start.workload.algorithm]
    if start.workload.algorithm is Algorithm.REINFORCE_PP:
        yield ("normalize-advantages",)
    if RoleName.REF in start.roles:
        yield ("use-kl-loss",)
    yield "sglang-mem-fraction-static", str(rollout.gpu_memory_utilization)
    yield "sglang-max-running-requests", str(rollout.max_num_seqs)


def _notes(start: Start) -> Iterator[str]:
    yield "checkpoints, the model's own Megatron flags, data and rewards stay yours: launch.sh passes on what it is given"
    yield f"slime sorts GPUs by address and physical id, the actor first: it produces {_shown(_produced(start))}, which is the map"
    if RoleName.REF in start.roles:
        yield "the reference policy is loaded for --use-kl-loss; its weight --kl-loss-coef stays yours"


def _produced(start: Start) -> Mapping[str, tuple[Seat, ...]]:
    """Return the groups that slime makes of the counts of a map of one host."""
    role, _ = generating(start)
    seats = sorted({seat for pool in start.pools for seat in pool.seats}, key=lambda seat: seat.gpu)
    actor, engines = len(start.seats[RoleName.ACTOR]), len(start.seats[role])
    found = {name: tuple(seats[:actor]) for name in start.seats if name != RoleName.ROLLOUT}
    if role == RoleName.ROLLOUT:
        found[RoleName.ROLLOUT] = tuple(seats[actor : actor + engines])
    return found


def _shown(groups: Mapping[str, tuple[Seat, ...]]) -> str:
    return "; ".join(f"{role} on GPU {', '.join(map(str, seats))}" for role, seats in groups.items())


def _refuses(start: Start) -> Iterator[str]:
    if len(start.hosts) > 1:
        yield from several_hosts(start, "it sorts nodes by address: the first of them need not be the map's")
        return
    produced = _produced(start)
    if produced != dict(start.seats):
        yield f"it sorts all GPUs, gives the actor the first ones, and would produce {_shown(produced)}"
    for block in engine_blocks(start):
        gpus = [seat.gpu for seat in block]
        if gpus != list(range(gpus[0], gpus[0] + len(gpus))):
            yield f"an engine has GPUs {', '.join(map(str, gpus))}, and it takes consecutive ids from the first"
    actor = start.roles[RoleName.ACTOR]
    for role in (RoleName.CRITIC, RoleName.REF):
        if role in start.roles and start.roles[role].layout != actor.layout:
            yield f"{role} has another layout than actor, and it has one for all: give {role} one layout in the job, that of actor"


def read_back(files: Files) -> Mapping[str, tuple[Entry, ...]]:
    """Return role → GPUs: counts of the sorted GPUs that Ray sees, the actor's first."""
    options = options_of(files["launch.sh"])
    gpus = tuple(sorted(visible_of(files["ray-start.sh"])))
    roles: list[str] = [RoleName.ACTOR]
    if options["advantage-estimator"] == "ppo":
        roles.append(RoleName.CRITIC)
    if "use-kl-loss" in options:
        roles.append(RoleName.REF)
    groups: list[tuple[list[str], int]] = [(roles, int(options["actor-num-gpus-per-node"]))]
    if "colocate" not in options:
        groups.append(([RoleName.ROLLOUT], int(options["rollout-num-gpus"])))
    return dealt(gpus, groups)


TARGET = Target(
    name="slime",
    title="slime",
    versions=("0.3",),
    pins="the set, by CUDA_VISIBLE_DEVICES of `ray start`",
    keeps="no: it sorts by physical id, the actor first",
    writes={"ray-start.sh": "`ray start` with the GPUs of the map", "launch.sh": "the command with its flags"},
    cannot=(
        "engines on lower ids than the actor: it sorts all GPUs, and the two would change places",
        "an order of GPUs that does not ascend: ranks would be others",
        "a critic or a reference model on GPUs of its own or of another layout: they are with the actor",
        "several hosts: it sorts nodes by address",
    ),
    emit=_emit,
    reads=read_back,
    refuses=_refuses,
)
