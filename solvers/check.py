"""
The specification in code: is an answer right, and what is each of its terms?

Written for clarity and imports no solver; every solver is measured against it. `solvers.problem` states the same in words.

When to modify: with `solvers.problem`, before any solver.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from solvers.problem import Option, Problem, Sharing, SoftPair, Term, Transfer, Want
from solvers.result import Answer


def violations(problem: Problem, answer: Answer) -> list[str]:
    """Return one sentence per broken rule; empty when the answer is right."""
    malformed = list(_malformed(problem, answer))
    if malformed:
        return malformed      # the other rules could not even be evaluated
    return [
        *_broken_pairs(problem, answer),
        *_broken_sharing(problem, answer),
        *_broken_memory(problem, answer),
        *_broken_hosts(problem, answer),
    ]


def terms(problem: Problem, answer: Answer) -> dict[Term, int]:
    """Return the value of every term but `Term.IDS`, for which see `key_ids`."""
    chosen = [option for options in _chosen(problem, answer) for option in options]
    held, used = _held(problem, answer), _used(problem, answer)
    broken_pairs = sum(_is_broken(pair, held[pair.first], held[pair.second]) for pair in problem.soft_pairs)
    return {
        Term.STEP: step(problem, answer),
        Term.SOFT: sum(option.soft for option in chosen) + broken_pairs,
        Term.GPUS: len(used),
        Term.MEMORY: _shortfall(problem, answer),
        Term.ISLANDS: _islands_broken(problem, used),
        Term.BANDWIDTH: max((problem.groups[g].ns_per_gb for g in answer.groups), default=0),
        Term.PREFERENCE: sum(option.preference for option in chosen),
    }


def key_ids(answer: Answer) -> tuple[int, ...]:
    """Return what `Term.IDS` compares, lexicographically: the groups of all items, then their options."""
    return (*answer.groups, *itertools.chain.from_iterable(answer.options))


def step(problem: Problem, answer: Answer) -> int:
    """Return `Term.STEP`, µs."""
    outside, lanes = 0, dict[int, int]()
    for s, where in enumerate(problem.stages):
        us, _ = stage(problem, answer, s)
        if where.lane is None:
            outside += us
        else:
            lanes[where.lane] = lanes.get(where.lane, 0) + us
    if _lanes_collide(problem, _held(problem, answer)):
        return outside + sum(lanes.values())
    return outside + max(lanes.values(), default=0)


def stage(problem: Problem, answer: Answer, s: int) -> tuple[int, tuple[int, ...]]:
    """Return how long stage *s* takes, µs, and the items that make it so long; no items when a transfer does."""
    held, chosen = _held(problem, answer), _chosen(problem, answer)
    times = dict.fromkeys(sorted({o.item for o in problem.operations if o.stage == s}), 0)
    for o, operation in enumerate(problem.operations):
        if operation.stage == s:
            times[operation.item] += sum(option.times[o] for option in chosen[operation.item])
    us, members = _longest_overlapping(tuple(times), times, held)
    transfers = max((_transfer_us(t, held) for t in problem.transfers if t.stage == s), default=0)
    return (us, members) if us >= transfers else (transfers, ())


def room(problem: Problem, answer: Answer, device: int) -> int:
    """Return the room on *device*, MiB; where several shared reserves apply, the one that leaves least."""
    holders = _holders(problem, answer, device)
    reserved = [r.capacity[device] for r in problem.shared_reserves if r.item in holders and len(holders) > 1]
    return min(reserved, default=problem.devices[device].capacity)


def loads(problem: Problem, answer: Answer, device: int) -> list[int]:
    """Return what *device* holds in each phase, MiB."""
    chosen = _chosen(problem, answer)
    options = [option for i in _holders(problem, answer, device) for option in chosen[i]]
    return [sum(option.memory[p] for option in options) for p in range(problem.phases)]


def host_loads(problem: Problem, answer: Answer, host: int) -> list[int]:
    """Return what *host* holds at each moment, MiB."""
    chosen = _chosen(problem, answer)
    on_host = [sum(problem.devices[d].host == host for d in devices) for devices in _held(problem, answer)]
    return [
        sum(count * option.host[m] for count, options in zip(on_host, chosen, strict=True) for option in options)
        for m in range(problem.moments)
    ]


# ── what the answer says ────────────────────────────────────────────────────────────────────────────────────────────────


def _held(problem: Problem, answer: Answer) -> list[frozenset[int]]:
    """Return the devices of each item."""
    return [frozenset(problem.groups[g].devices) for g in answer.groups]


def _chosen(problem: Problem, answer: Answer) -> list[list[Option]]:
    """Return the options of each item, one per slot."""
    return [
        [slot[o] for slot, o in zip(item.slots, options, strict=True)]
        for item, options in zip(problem.items, answer.options, strict=True)
    ]


def _used(problem: Problem, answer: Answer) -> list[int]:
    """Return the devices that some item holds."""
    return sorted(frozenset().union(*_held(problem, answer)))


def _holders(problem: Problem, answer: Answer, device: int) -> list[int]:
    """Return the items that hold *device*."""
    return [i for i, devices in enumerate(_held(problem, answer)) if device in devices]


# ── rules ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _malformed(problem: Problem, answer: Answer) -> Iterator[str]:
    if len(answer.groups) != len(problem.items) or len(answer.options) != len(problem.items):
        yield f"the answer has {len(answer.groups)} groups and {len(answer.options)} choices for {len(problem.items)} items"
        return
    for i, (item, g, options) in enumerate(zip(problem.items, answer.groups, answer.options, strict=True)):
        if g not in item.groups:
            yield f"item {i} takes group {g}, which it may not"
            continue
        if len(options) != len(item.slots):
            yield f"item {i} chooses {len(options)} options for {len(item.slots)} slots"
            continue
        for s, (slot, o) in enumerate(zip(item.slots, options, strict=True)):
            if not 0 <= o < len(slot):
                yield f"item {i} takes option {o} of slot {s}, which has {len(slot)}"
            elif slot[o].profile != problem.groups[g].profile:
                yield (
                    f"item {i} takes option {o} of slot {s}, which is for profile {slot[o].profile}, "
                    f"on group {g} of profile {problem.groups[g].profile}"
                )


def _broken_pairs(problem: Problem, answer: Answer) -> Iterator[str]:
    held = _held(problem, answer)
    for a, b in problem.apart:
        if held[a] & held[b]:
            yield f"items {a} and {b} must be apart and share devices {sorted(held[a] & held[b])}"
    for a, b in problem.together:
        if answer.groups[a] != answer.groups[b]:
            yield f"items {a} and {b} must be together and take groups {answer.groups[a]} and {answer.groups[b]}"
    chosen = _chosen(problem, answer)
    for a, b in problem.alike:
        if held[a] & held[b] and chosen[a][0].kind != chosen[b][0].kind:
            yield f"items {a} and {b} share devices and take options of the kinds {chosen[a][0].kind} and {chosen[b][0].kind}"
    meeting = {(a, b) for a, b in itertools.combinations(range(len(held)), 2) if held[a] & held[b]}
    if problem.patterns and meeting not in problem.patterns:
        yield f"the pairs of items that overlap are {sorted(meeting)}, which is none of the patterns"


def _broken_sharing(problem: Problem, answer: Answer) -> Iterator[str]:
    held = _held(problem, answer)
    for a, b in itertools.combinations(range(len(held)), 2):
        if held[a] == held[b] and answer.groups[a] != answer.groups[b]:
            yield f"items {a} and {b} have the same devices in different rank orders"
        if problem.sharing is Sharing.POOL and held[a] & held[b] and held[a] != held[b]:
            yield f"items {a} and {b} share some of their devices, not all"


def _broken_memory(problem: Problem, answer: Answer) -> Iterator[str]:
    for d in _used(problem, answer):
        limit = room(problem, answer, d)
        for p, load in enumerate(loads(problem, answer, d)):
            if load > limit:
                yield f"device {d} has room for {limit} MiB and would hold {load} in phase {p}"


def _broken_hosts(problem: Problem, answer: Answer) -> Iterator[str]:
    for h, limit in enumerate(problem.hosts):
        for m, load in enumerate(host_loads(problem, answer, h)):
            if limit is not None and load > limit:
                yield f"host {h} has {limit} MiB for plans and would hold {load} at moment {m}"


# ── terms ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _longest_overlapping(
    items: tuple[int, ...], times: Mapping[int, int], held: Sequence[frozenset[int]]
) -> tuple[int, tuple[int, ...]]:
    """Return the mutually overlapping *items* of longest total time, and that time: the first is among them, or it is not."""
    if not items:
        return 0, ()
    first, rest = items[0], items[1:]
    us, members = _longest_overlapping(tuple(j for j in rest if held[first] & held[j]), times, held)
    return max((us + times[first], (first, *members)), _longest_overlapping(rest, times, held), key=lambda found: found[0])


def _transfer_us(transfer: Transfer, held: Sequence[frozenset[int]]) -> int:
    return min(transfer.us[a][b] for a in held[transfer.source] for b in held[transfer.target])


def _lanes_collide(problem: Problem, held: Sequence[frozenset[int]]) -> bool:
    """Whether two items of different lanes overlap, or one item works in two lanes."""
    return any(a == b or bool(held[a] & held[b]) for a, b in lane_rivals(problem))


def lane_rivals(problem: Problem) -> list[tuple[int, int]]:
    """Return the pairs of items (an item with itself, too) that work in different lanes."""
    works = {(o.item, lane) for o in problem.operations if (lane := problem.stages[o.stage].lane) is not None}
    return sorted({(min(a, b), max(a, b)) for (a, la), (b, lb) in itertools.combinations(sorted(works), 2) if la != lb})


def _is_broken(pair: SoftPair, first: frozenset[int], second: frozenset[int]) -> bool:
    if first & second:
        return False
    share_label = bool({pair.labels[d] for d in first} & {pair.labels[d] for d in second})
    return share_label if pair.want is Want.AVOID else not share_label


def _shortfall(problem: Problem, answer: Answer) -> int:
    shortfalls = [
        problem.devices[d].comfort - (room(problem, answer, d) - load)
        for d in _used(problem, answer)
        for load in loads(problem, answer, d)
    ]
    return max([0, *shortfalls])


def _islands_broken(problem: Problem, used: Sequence[int]) -> int:
    islands: dict[int, list[bool]] = {device.island: [] for device in problem.devices}
    for d, device in enumerate(problem.devices):
        islands[device.island].append(d in used)
    return sum(any(flags) and not all(flags) for flags in islands.values())
