"""
Sizes that frameworks ask for, as a map and its job give them: GPUs per host, sequences of a step, tokens of a micro-batch.

When to modify: a framework asks for a size in a unit that is not here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from placement.maps.seats import Pool, Seat
from placement.plans import RolePlan, RolloutPlan, TrainPlan
from placement.targets.start import Start
from placement.workloads.workload import Offload, RoleName


def per_host(start: Start, pool: Pool) -> tuple[int, int] | None:
    """Return how many hosts *pool* has, and how many GPUs of each; None where hosts differ, or ranks do not go host by host."""
    hosts = tuple(dict.fromkeys(seat.host for seat in pool.seats))
    counts = {len(start.on_host(pool, host)) for host in hosts}
    in_order = [seat.host for seat in pool.seats] == [host for host in hosts for _ in start.on_host(pool, host)]
    return (len(hosts), counts.pop()) if len(counts) == 1 and in_order else None


def unequal(start: Start) -> Iterator[str]:
    """Yield the pools that are no rectangle of hosts and GPUs: most frameworks take two counts."""
    for pool in start.pools:
        if per_host(start, pool) is None:
            yield f"{' and '.join(pool.roles)} has unequal numbers of GPUs on its hosts, and it takes one number for all of them"


def several_hosts(start: Start, why: str) -> Iterator[str]:
    """Yield a refusal of a map of several hosts."""
    if len(start.hosts) > 1:
        yield f"the map has {len(start.hosts)} hosts, and {why}"


def longest_tokens(start: Start) -> int:
    """Return the tokens of the longest sequence that can come."""
    return start.workload.batch.prompt_tokens + start.workload.batch.response_max_tokens


def update_sequences(start: Start) -> int:
    """Return the sequences of one optimizer update."""
    return start.workload.batch.sequences // start.workload.batch.minibatches


def train(start: Start, role: str) -> TrainPlan:
    """Return how *role* is trained."""
    found = start.roles[role].train
    assert found is not None
    return found


def micro_tokens(start: Start) -> int:
    """Return the tokens of a micro-batch where the framework has one number for all roles: the smallest that the map says."""
    return min(plan.train.micro_batch_tokens for plan in start.roles.values() if plan.train is not None)


def generating(start: Start) -> tuple[str, RolloutPlan]:
    """Return who generates, and how."""
    role = RoleName.ROLLOUT if RoleName.ROLLOUT in start.roles else RoleName.ACTOR
    rollout = start.roles[role].rollout
    assert rollout is not None, "a map says how it generates"
    return role, rollout


def engine_blocks(start: Start) -> Iterator[tuple[Seat, ...]]:
    """Yield the GPUs of each generation engine, in rank order."""
    role, rollout = generating(start)
    seats = start.seats[role]
    for first in range(0, len(seats), rollout.tp):
        yield seats[first : first + rollout.tp]


def is_offloaded(plan: RolePlan, *, always: bool = False) -> bool:
    """Whether the state of a role waits in host memory between its phases; with *always*, also in the update."""
    offload = plan.train.offload if plan.train is not None else plan.offload
    return offload == Offload.ALWAYS or (offload == Offload.BETWEEN and not always)


def differing(what: str, values: Mapping[str, object]) -> Iterator[str]:
    """Yield a refusal where *values* by role are not all the same."""
    if len(set(map(str, values.values()))) > 1:
        shown = ", ".join(f"{role} {value}" for role, value in values.items())
        yield f"{what} differs ({shown}), and it has one for all models"


def host_memory_notes(start: Start) -> Iterator[str]:
    """Yield what a framework that always moves idle state to the host does beside what the map says."""
    kept = [role for role, plan in start.roles.items() if plan.train is not None and plan.train.offload == Offload.NONE]
    if kept and start.workload.is_hybrid:
        yield (
            f"the map keeps the state of {' and '.join(kept)} on the GPU, and it moves it to host memory while it generates: "
            "less GPU memory, a little more time"
        )
