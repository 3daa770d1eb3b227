"""
What an answer must obey: one function per rule. `ALL` is the table of contents.

When to modify: `solvers.problem` gets a rule.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from solvers.cpsat.proto import FALSE, TRUE, Fixed, Linear, Lit, constant, negated, total
from solvers.cpsat.variables import Variables
from solvers.problem import Sharing


def add_groups(x: Variables) -> None:
    """Each item takes exactly one group, and with it the group's profile."""
    for groups, profiles in zip(x.group, x.profile, strict=True):
        x.model.exactly_one(groups.values())
        x.model.exactly_one(profiles.values())
        for profile, literal in profiles.items():
            offering = [taken for g, taken in groups.items() if x.problem.groups[g].profile == profile]
            x.model.exactly_one([*offering, negated(literal)])


def add_options(x: Variables) -> None:
    """Each slot takes exactly one option, of the profile of its item's group."""
    for item, slots, profiles in zip(x.problem.items, x.option, x.profile, strict=True):
        for slot, options in zip(item.slots, slots, strict=True):
            x.model.exactly_one(options.values())
            for profile, literal in profiles.items():
                matching = [chosen for o, chosen in options.items() if slot[o].profile == profile]
                x.model.exactly_one([*matching, negated(literal)])


def add_holding(x: Variables) -> None:
    """An item holds the devices of its group, and no others."""
    for groups, holds in zip(x.group, x.holds, strict=True):
        for d, held in holds.items():
            around = {g: d in x.problem.groups[g].devices for g in groups}
            x.model.exactly_one([*(groups[g] for g in groups if around[g]), negated(held)])
            x.model.exactly_one([*(groups[g] for g in groups if not around[g]), held])


def add_used(x: Variables) -> None:
    """A device is used when an item holds it."""
    for d, used in enumerate(x.used):
        holders = [holds[d] for holds in x.holds if d in holds]
        x.model.clause([negated(used), *holders])
        for held in holders:
            x.model.clause([negated(held), used])


def add_apart(x: Variables) -> None:
    """Items of an *apart* pair have no device in common."""
    for a, b in x.problem.apart:
        _add_disjoint(x, a, b, TRUE)


def add_together(x: Variables) -> None:
    """Items of a *together* pair take the same group."""
    for a, b in x.problem.together:
        _add_same_group(x, a, b, TRUE)


def add_patterns(x: Variables) -> None:
    """The pairs that overlap are exactly those of one pattern."""
    if not x.problem.patterns:
        return
    chosen = [x.model.boolean() for _ in x.problem.patterns]
    x.model.exactly_one(chosen)
    for pattern, taken in zip(x.problem.patterns, chosen, strict=True):
        for a, b, share in x.pairs:
            x.model.clause([negated(taken), share if (a, b) in pattern else negated(share)])


def add_overlap(x: Variables) -> None:
    """The literal of a pair says whether the two overlap (pairs that are apart or together have no choice)."""
    for a, b, share in x.pairs:
        if x.are_apart(a, b) or x.are_together(a, b):
            continue
        _add_disjoint(x, a, b, negated(share))
        # Pools that overlap take one group, which has a device: only partial overlap must be shown.
        if share is not FALSE and x.problem.sharing is Sharing.PARTIAL:
            _add_meeting(x, a, b, share)


def add_pools(x: Variables) -> None:
    """With `Sharing.POOL` items that overlap take the same group."""
    if x.problem.sharing is Sharing.POOL:
        for a, b, share in x.pairs:
            if share is not FALSE and not x.are_together(a, b):
                _add_same_group(x, a, b, share)


def add_alike(x: Variables) -> None:
    """Items of an *alike* pair that overlap take options of the same kind in their first slots."""
    for a, b in x.problem.alike:
        share = x.overlap((a, b))[0]
        for first, second in ((a, b), (b, a)):
            for o, taken in x.option[first][0].items():
                kind = x.problem.items[first].slots[0][o].kind
                same = [v for p, v in x.option[second][0].items() if x.problem.items[second].slots[0][p].kind == kind]
                x.model.clause([negated(share), negated(taken), *same])


def add_one_rank_order(x: Variables) -> None:
    """Items with the same devices have them in the same rank order (pools always do: they take one group)."""
    if x.problem.sharing is Sharing.POOL:
        return
    orders: dict[frozenset[int], list[int]] = {}
    for g, group in enumerate(x.problem.groups):
        orders.setdefault(frozenset(group.devices), []).append(g)
    for a, b, share in x.pairs:
        for groups in orders.values() if share is not FALSE else ():
            for g, h in itertools.permutations(groups, 2):
                if g in x.group[a] and h in x.group[b]:
                    x.model.clause([negated(x.group[a][g]), negated(x.group[b][h])])


def add_memory(x: Variables) -> None:
    """In every phase the memory of the items on a device fits into its room."""
    for holding in holdings(x):
        x.model.at_least(holding.room, holding.load, holding.only_if)


def add_hosts(x: Variables) -> None:
    """At every moment the host memory that the items need fits into each host."""
    for h, room in enumerate(x.problem.hosts):
        for m in _worst_moments(x) if room is not None else ():
            needs = total(_need_of_host(x, i, h, m) for i in range(len(x.problem.items)))
            x.model.at_least(constant(room or 0), needs)


ALL = (
    add_groups,
    add_options,
    add_holding,
    add_used,
    add_apart,
    add_together,
    add_patterns,
    add_overlap,
    add_pools,
    add_alike,
    add_one_rank_order,
    add_memory,
    add_hosts,
)


# ── cuts: they change no answer, only the time to the proof ─────────────────────────────────────────────────────────────


def add_area(x: Variables) -> None:
    """Items that do not overlap fit side by side: their sizes add up to no more than there are devices."""
    least: dict[int, int] = {}
    for group in x.problem.groups:
        least[group.profile] = min(len(group.devices), least.get(group.profile, len(group.devices)))
    sizes = [x.by_profile(i, lambda p: least[p]) for i in range(len(x.problem.items))]
    room = constant(len(x.problem.devices))
    for number in range(2, len(sizes) + 1):
        for items in itertools.combinations(range(len(sizes)), number):
            x.model.at_least(room, total(sizes[i] for i in items), map(negated, x.overlap(items)))


Needs = Mapping[tuple[int, int], tuple[tuple[int, frozenset[int]], ...]]


def add_smallest_ids(x: Variables, needs: Needs) -> None:
    """Of answers that differ by an exchange of equal devices, the one with the smallest ids (see `symmetry`)."""
    for (i, g), before in needs.items():
        for j, groups in before:
            x.model.clause([negated(x.group[i][g]), *(x.group[j][h] for h in sorted(groups))])


# ── parts ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Holding:
    """Whenever *only_if* hold, devices exist with this load and room, MiB; *gap* is comfort − room at its worst."""

    load: Linear
    room: Linear
    gap: Linear
    only_if: list[Fixed]


def holdings(x: Variables) -> Iterator[Holding]:
    """Yield every way in which items can hold a device together, in every phase that can be the worst."""
    for items, overlap in x.sets_that_may_overlap(range(len(x.problem.items))):
        loads = [total(x.memory(i, p) for i in items) for p in _worst_phases(x, items)]
        rooms = {d: _room(x, items, d) for d in range(len(x.problem.devices))}
        gaps = {d: x.problem.devices[d].comfort - room for d, room in rooms.items()}
        rivals = list(_who_makes_room(x, items))
        if x.problem.sharing is Sharing.POOL:
            devices = {g: x.problem.groups[g].devices for g in x.group[items[0]]}
            room = x.by_group(items[0], lambda g, d=devices, r=rooms: min(r[k] for k in d[g]))  # type: ignore[misc]
            gap = x.by_group(items[0], lambda g, d=devices, r=gaps: max(r[k] for k in d[g]))  # type: ignore[misc]
            absent = [negated(literal) for j in rivals for literal in x.overlap((items[0], j))]
            yield from (Holding(load, room, gap, [*overlap, *absent]) for load in loads)
        else:
            for d in sorted(set.intersection(*(set(x.holds[i]) for i in items))):
                only_if = [*(x.holds[i][d] for i in items), *(negated(x.holds[j].get(d, FALSE)) for j in rivals)]
                room, gap = constant(rooms[d]), constant(gaps[d])
                yield from (Holding(load, room, gap, only_if) for load in loads)


def _room(x: Variables, items: tuple[int, ...], device: int) -> int:
    reserved = [r.capacity[device] for r in x.problem.shared_reserves if r.item in items and len(items) > 1]
    return min(reserved, default=x.problem.devices[device].capacity)


def _who_makes_room(x: Variables, items: tuple[int, ...]) -> Iterator[int]:
    """
    Yield the items whose presence can give *items* more room.

    What holds for some items on a device holds for more of them, unless a reserve asks for less than the device itself.
    """
    reserves = [r for r in x.problem.shared_reserves if _asks_less(x, r.capacity)]
    if any(r.item in items for r in x.problem.shared_reserves) and len(items) > 1:
        return
    alone = items[0] in {r.item for r in reserves} and len(items) == 1
    for j in range(len(x.problem.items)):
        if j not in items and (alone or j in {r.item for r in reserves}):
            yield j


def _asks_less(x: Variables, capacity: tuple[int, ...]) -> bool:
    return any(room > device.capacity for room, device in zip(capacity, x.problem.devices, strict=True))


def _worst_phases(x: Variables, items: tuple[int, ...]) -> list[int]:
    """Return the phases that no other phase dominates, whatever the items choose."""
    needs: dict[tuple[int, ...], int] = {}
    for p in range(x.problem.phases):
        slots = ((slot, o) for i in items for slot, o in zip(x.problem.items[i].slots, x.option[i], strict=True))
        needs.setdefault(tuple(slot[o].memory[p] for slot, options in slots for o in options), p)
    return [
        p
        for need, p in needs.items()
        if not any(other != need and all(map(int.__le__, need, other)) for other in needs)
    ]


def _need_of_host(x: Variables, item: int, host: int, moment: int) -> Linear:
    """Return what *item* needs of *host* at *moment*, MiB: exactly, or where groups of a profile differ, at the least."""
    counts = {g: sum(x.problem.devices[d].host == host for d in x.problem.groups[g].devices) for g in x.group[item]}
    of_profile: dict[int, set[int]] = {}
    for g, count in counts.items():
        of_profile.setdefault(x.problem.groups[g].profile, set()).add(count)
    if all(len(found) == 1 for found in of_profile.values()):
        return x.host_memory(item, moment, lambda profile: min(of_profile.get(profile, {0})))
    each = x.host_memory(item, moment, lambda _: 1)
    need = x.model.integer(0, each.high * max(counts.values()))
    for count in sorted(set(counts.values())):
        here = x.model.boolean()
        x.model.exactly_one([*(x.group[item][g] for g, n in counts.items() if n == count), negated(here)])
        x.model.at_least(need, each.scaled(count), [here])
    return need


def _worst_moments(x: Variables) -> list[int]:
    """Return the moments that no other moment dominates, whatever the items choose."""
    options = [
        slot[o]
        for item, chosen in zip(x.problem.items, x.option, strict=True)
        for slot, left in zip(item.slots, chosen, strict=True)
        for o in left
    ]
    needs: dict[tuple[int, ...], int] = {}
    for m in range(x.problem.moments):
        needs.setdefault(tuple(option.host[m] for option in options), m)
    return [m for need, m in needs.items() if not any(other != need and all(map(int.__le__, need, other)) for other in needs)]


def _add_disjoint(x: Variables, a: int, b: int, only_if: Fixed) -> None:
    for d in sorted(x.holds[a].keys() & x.holds[b].keys()):
        x.model.clause([negated(only_if), negated(x.holds[a][d]), negated(x.holds[b][d])])


def _add_same_group(x: Variables, a: int, b: int, only_if: Fixed) -> None:
    for first, second in ((x.group[a], x.group[b]), (x.group[b], x.group[a])):
        for g, taken in first.items():
            x.model.clause([negated(only_if), negated(taken), second.get(g, FALSE)])


def _add_meeting(x: Variables, a: int, b: int, only_if: Fixed) -> None:
    meetings: list[Lit] = []
    for d in sorted(x.holds[a].keys() & x.holds[b].keys()):
        meetings.append(x.model.boolean())
        x.model.clause([negated(meetings[-1]), x.holds[a][d]])
        x.model.clause([negated(meetings[-1]), x.holds[b][d]])
    x.model.clause([negated(only_if), *meetings])
