"""
What a target is: a framework or launcher, what it takes, and how its files are written.

When to modify: docs/targets.md gets a column, or emitters are asked something new.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from placement.errors import InputError
from placement.targets.start import Start
from placement.workloads.target_rules import TargetRules, target_rules
from placement.workloads.workload import Engine, RoleName

Files = Mapping[str, str]
"""Text by file name; names have no folders."""

Entry = int | str
"""A GPU as maps write it: a physical id, or ``host:gpu`` where there are several hosts."""

_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Emitted:
    """
    What was written for a target.

    Parameters
    ----------
    notes
        What whoever starts the job must know, a sentence each.
    """

    files: Files
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """
    A framework or a launcher.

    Parameters
    ----------
    title
        Its name for people.
    versions
        Those that files are written for, the usual one first; empty where it makes no difference.
    pins
        Whether and how it takes physical ids.
    keeps
        Whether it keeps the order of GPUs in a group.
    writes
        The files, and what each is for.
    parser
        Whose code reads them in the tests; empty where none can be installed, and our own statement of its rules is what is tested.
    cannot
        What it cannot express, a sentence each, with what would happen.
    emit
        Writes the files for one of *versions* (empty where there are none).
    reads
        Reads ids back from its files: role → GPUs in rank order, as the map writes them; None where the files hold none.
    refuses
        Yields what of a map it cannot express beyond its rules, a sentence each; None where it can express all.
    """

    name: str
    title: str
    pins: str
    keeps: str
    writes: Mapping[str, str]
    emit: Callable[[Start, str], Emitted]
    versions: tuple[str, ...] = ()
    parser: str = ""
    cannot: tuple[str, ...] = ()
    reads: Callable[[Files], Mapping[str, tuple[Entry, ...]]] | None = None
    refuses: Callable[[Start], Iterator[str]] | None = None
    rules: TargetRules | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", target_rules(self.name))


def emit(target: Target, start: Start, version: str | None = None) -> Emitted:
    """
    Return the files of *target* for the map *start*.

    Raises
    ------
    InputError
        If there is no such version, or the target cannot express the map: the message says what would happen.
    """
    if version is not None and version not in target.versions:
        known = ", ".join(target.versions) or "one form for all versions"
        raise InputError(f"target {target.name} is written for {known}, not for {version!r}")
    wrong = list(inexpressible(target, start))
    if wrong:
        raise InputError(f"target {target.name} cannot express this map: {'; '.join(wrong)}{_remedy(target, start)}")
    return target.emit(start, version or (target.versions[0] if target.versions else ""))


def _remedy(target: Target, start: Start) -> str:
    return "" if target.rules is None or start.target == target.name else f"; plan with --target {target.name}"


def inexpressible(target: Target, start: Start) -> Iterator[str]:
    """Yield what *target* cannot express of *start*."""
    for host in start.hosts:
        if host is not None and not _HOST.fullmatch(host):    # it becomes the name of a file
            yield f"{host!r} is no name of a host: letters, digits, dots and dashes"
    if target.refuses is not None:
        yield from target.refuses(start)
    rules = target.rules
    if rules is None:
        return
    for role in start.seats:
        if RoleName(role) not in rules.roles:
            yield f"it has no {role} on GPUs"
    if start.workload.algorithm not in rules.algorithms:
        yield f"it has no algorithm {start.workload.algorithm}"
    pooled = frozenset(frozenset(map(RoleName, pool.roles)) for pool in start.pools)
    if not rules.pools(pooled):
        shown = " | ".join(" + ".join(pool.roles) for pool in start.pools)
        yield f"roles are pooled as {shown}, and {rules.says}"
    yield from _overlapping(start, rules)
    for pool in start.pools:
        names = " and ".join(pool.roles)
        if rules.is_ascending and list(pool.seats) != sorted(pool.seats, key=lambda seat: (start.hosts.index(seat.host), seat.gpu)):
            yield f"it sorts GPUs, and {names} would get other ranks than the map says"
        allowed = rules.schedules[0 if start.workload.is_hybrid else 1]
        if allowed and start.schedule not in allowed and pool is start.pools[0]:
            yield f"the map is timed for schedule {start.schedule}, and it runs {' or '.join(allowed)}"
        for role in pool.roles:
            yield from _unknown(start, rules, role)


def _unknown(start: Start, rules: TargetRules, role: str) -> Iterator[str]:
    """Yield what a role does that the target has no words for."""
    plan = start.roles[role]
    served = role == RoleName.ROLLOUT or (role == RoleName.REWARD and rules.serves_reward)
    known = rules.generation if served else rules.training
    if plan.engine not in known:
        yield f"{role} runs on {plan.engine}, and it has {' or '.join(known)}"
    if plan.rollout is not None and plan.rollout.engine not in rules.generation:
        yield f"{role} generates with {plan.rollout.engine}, and it has {' or '.join(rules.generation)}"
    if plan.engine == Engine.FSDP and plan.layout.tp > 1 and not rules.tensor_parallel_fsdp:
        yield f"{role} cuts tensors under fsdp, and its fsdp does not"
    if plan.layout.sp_size > 1 and not rules.shares_sequences:
        yield f"{role} shares sequences between {plan.layout.sp_size} GPUs, and it does not"
    if plan.train is not None:
        offloads = rules.waits(Engine(plan.engine), is_hybrid=start.workload.is_hybrid)
        masters = rules.kept(Engine(plan.engine))
        if plan.train.master not in masters:
            yield f"{role} updates {plan.train.master} weights, and it {' or '.join(masters)} ones: more memory than the map counts"
        if plan.train.offload not in offloads:
            yield f"{role} has offload {plan.train.offload}, and it has {' or '.join(offloads)}"
        if plan.engine == Engine.FSDP and plan.train.zero_stage not in rules.zero:
            yield f"{role} has ZeRO stage {plan.train.zero_stage}, and it has {' or '.join(map(str, rules.zero))}"
        if rules.whole_batches and start.workload.batch.sequences % (start.workload.batch.minibatches * plan.layout.dp):
            yield (
                f"{role} has dp {plan.layout.dp}, and it cuts the {start.workload.batch.sequences} sequences of a step evenly into "
                f"{start.workload.batch.minibatches} minibatches for each"
            )
    if plan.rollout is not None and not rules.quantized and (plan.rollout.quantization or plan.rollout.kv_cache):
        yield f"{role} generates with 8-bit numbers, and its files ask for 16 bits"


def _overlapping(start: Start, rules: TargetRules) -> Iterator[str]:
    if rules.is_partial:
        return
    for k, pool in enumerate(start.pools):
        for other in start.pools[k + 1 :]:
            shared = sorted(set(pool.seats) & set(other.seats), key=str)
            if shared:
                yield (
                    f"{' and '.join(pool.roles)} and {' and '.join(other.roles)} share GPU {', '.join(map(str, shared))} "
                    "but not all of theirs"
                )
