"""
What verl refuses, or waits for, that its own validation misses: said before the job starts.

Source: verl 0.9.1; each rule names the file in which verl fails (paths inside the package).

When to modify: verl checks more itself, or fails elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from placement.targets.start import Start
from placement.targets.verl_overrides import shape
from placement.workloads.workload import Engine

TRANSFER_QUEUE_CPUS = 9
"""Storage units (8) and the controller of verl's transfer queue, a CPU each."""

CPUS_PER_GPU = 3
CPUS_PER_ROLLOUT_GPU = 2
SPARE_CPUS = 2
"""For servers and loops that are made when the pools stand: keep them free on each node."""


def problems(start: Start) -> Iterator[str]:
    """Yield what verl cannot run of *start*, with what would happen."""
    batch = start.workload.batch
    if batch.prompts % batch.minibatches:
        yield (
            f"{batch.prompts} prompts do not divide into {batch.minibatches} minibatches: ppo_mini_batch_size would be cut down, and the "
            "last prompts of a step would make an update of their own"
        )
    owner = start.roles.get("rollout", start.roles["actor"])
    group = start.seats["rollout" if "rollout" in start.roles else "actor"]
    assert owner.rollout is not None
    if len(group) % owner.rollout.tp:
        yield f"{len(group)} GPUs do not divide into engines of tensor_model_parallel_size {owner.rollout.tp} (workers/engine_workers.py)"
    sequences = batch.prompts // batch.minibatches * batch.samples_per_prompt
    for name in ("actor", "critic"):
        role = start.roles.get(name)
        if role is not None and sequences % role.layout.dp:
            yield (
                f"an update of {sequences} sequences does not divide over the {role.layout.dp} data-parallel ranks of {name}: verl stops "
                "in its first update (workers/engine_workers.py)"
            )
        _, each = shape(start, start.seats[name]) if name in start.seats else (1, 1)
        if role is not None and role.layout.tp * role.layout.pp > 1 and each % role.layout.tp:
            yield f"{each} GPUs of {name} on a host do not divide into blocks of tp {role.layout.tp}"
    for pool in start.pools:
        layouts = {
            name: (role.layout.tp, role.layout.pp, role.layout.ep_size)
            for name, role in start.roles.items()
            if role.engine == Engine.MEGATRON and name in pool.roles
        }
        if len(set(layouts.values())) > 1:
            shown = ", ".join(f"{name} tp {tp} pp {pp} ep {ep}" for name, (tp, pp, ep) in layouts.items())
            yield f"Megatron roles of one pool have one layout, which the first of them sets for all: {shown}"


def cpus_per_node(start: Start) -> int:
    """
    Return the CPUs that verl asks Ray for on its fullest node; with fewer its pools wait for ever.

    Each bundle has `CPUS_PER_GPU` CPUs (`single_controller/ray/base.py`), a standalone rollout's `CPUS_PER_ROLLOUT_GPU`
    (`workers/rollout/replica.py`); the transfer queue and the task runner stand on the head node.
    """
    most = 0
    for host in start.hosts:
        cpus = 0
        for pool in start.pools:
            each = CPUS_PER_ROLLOUT_GPU if pool.roles == ("rollout",) else CPUS_PER_GPU
            cpus += each * len(start.on_host(pool, host))
        most = max(most, cpus)
    return most + TRANSFER_QUEUE_CPUS + 1 + SPARE_CPUS
