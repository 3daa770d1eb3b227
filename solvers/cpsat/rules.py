"""
What an answer must obey: one function per rule, `ALL` is the table of contents.

When to modify: `solvers.problem` gets a rule.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from solvers.cpsat.proto import FALSE, TRUE, Fixed, Linear, negated
from solvers.cpsat.variables import Variables
from solvers.problem import Sharing


def add_choices(x: Variables) -> None:
    """Each item takes one group and one option per slot, of the profile of the group."""
    problem, model = x.problem, x.model
    for item, groups, slots in zip(problem.items, x.group, x.option, strict=True):
        model.exactly_one(list(groups.values()))
        of_profile: dict[int, list[int]] = {}
        for g, literal in groups.items():
            of_profile.setdefault(problem.groups[g].profile, []).append(literal)
        for slot, options in zip(item.slots, slots, strict=True):
            model.exactly_one(list(options.values()))
            for profile, literals in of_profile.items():
                matching = [literal for o, literal in options.items() if slot[o].profile == profile]
                terms = dict.fromkeys(literals, 1) | dict.fromkeys(matching, -1)
                model.between(0, Linear(terms, 0, -1, 1), 0)


def add_holding(x: Variables) -> None:
    """An item holds the devices of its group, and no others; a device is used when an item holds it."""
    for groups, holds in zip(x.group, x.holds, strict=True):
        for d, held in holds.items():
            terms = {literal: 1 for g, literal in groups.items() if d in x.problem.groups[g].devices}
            x.model.between(0, Linear(terms | {held: -1}, 0, -1, 1), 0)
    for d, used in enumerate(x.used):
        holders = [holds[d] for holds in x.holds if d in holds]
        x.model.clause([negated(used), *holders])
        for held in holders:
            x.model.clause([negated(held), used])


def add_sharing(x: Variables) -> None:
    """Items of which ``share`` says so overlap, others do not; `Sharing.POOL`: they take the same group."""
    for (a, b), share in x.share.items():
        both = sorted(x.holds[a].keys() & x.holds[b].keys())
        for d in both:
            x.model.clause([share, negated(x.holds[a][d]), negated(x.holds[b][d])])
        if share == FALSE:
            continue
        if x.problem.sharing is Sharing.POOL:
            _same_group(x, a, b, share)
        else:
            _meet(x, a, b, share, both)


def _meet(x: Variables, a: int, b: int, share: Fixed, both: list[int]) -> None:
    """When *share* holds, the items really have one of the devices *both* in common."""
    meetings = []
    for d in both:
        meeting = x.model.boolean()
        x.model.clause([negated(meeting), x.holds[a][d]])
        x.model.clause([negated(meeting), x.holds[b][d]])
        meetings.append(meeting)
    x.model.clause([negated(share), *meetings])


def _same_group(x: Variables, a: int, b: int, only_if: Fixed) -> None:
    for first, second in ((x.group[a], x.group[b]), (x.group[b], x.group[a])):
        for g, literal in first.items():
            x.model.clause([negated(only_if), negated(literal), second.get(g, FALSE)])


def add_one_rank_order(x: Variables) -> None:
    """Items with the same devices have them in the same rank order."""
    twins: dict[frozenset[int], list[int]] = {}
    for g, group in enumerate(x.problem.groups):
        twins.setdefault(frozenset(group.devices), []).append(g)
    several = [groups for groups in twins.values() if len(groups) > 1]
    for (a, b), share in x.share.items():
        if share == FALSE:
            continue
        for groups in several:
            for g, h in itertools.permutations(groups, 2):
                if g in x.group[a] and h in x.group[b]:
                    x.model.clause([negated(x.group[a][g]), negated(x.group[b][h])])


def add_together(x: Variables) -> None:
    """Items of a *together* pair take the same group."""
    for a, b in x.problem.together:
        _same_group(x, a, b, TRUE)


def add_apart(x: Variables) -> None:
    """Items of an *apart* pair have no device in common."""
    for a, b in x.problem.apart:
        for d in x.holds[a].keys() & x.holds[b].keys():
            x.model.clause([negated(x.holds[a][d]), negated(x.holds[b][d])])


def add_memory(x: Variables) -> None:
    """In every phase the memory of the items on a device fits into its room."""
    for load, room, _, only_if in holdings(x):
        x.model.at_least(room, load, only_if)


def holdings(x: Variables) -> Iterator[tuple[Linear, Linear, Linear, list[Fixed]]]:
    """
    Yield (load, room, comfort − room, literals): whenever the literals hold, devices exist with that load and that room.

    Every set of items that can hold a device together is one case; a `SharedReserve` counts from two items on.
    """
    members = list(range(len(x.problem.items)))
    for items, pairs in x.pools(members):
        phases = _worst_phases(x, items)
        loads = [sum((x.memory(i, p) for i in items), Linear()) for p in phases]
        if x.problem.sharing is Sharing.POOL:
            only_if = [*pairs, *_nobody_else(x, items, lambda i, r: x.sharing(i, r))]
            room = x.by_group(items[0], lambda g, items=items: min(_room(x, items, d) for d in x.problem.groups[g].devices))
            wish = x.by_group(
                items[0],
                lambda g, items=items: max(
                    x.problem.devices[d].comfort - _room(x, items, d) for d in x.problem.groups[g].devices
                ),
            )
            yield from ((load, room, wish, only_if) for load in loads)
        else:
            for d in set.intersection(*(set(x.holds[i]) for i in items)):
                held: list[Fixed] = [x.holds[i][d] for i in items]
                only_if = [*held, *_nobody_else(x, items, lambda _, r, d=d: x.holds[r].get(d, FALSE))]
                here = _room(x, items, d)
                gap = x.problem.devices[d].comfort - here
                yield from ((load, Linear({}, here, here, here), Linear({}, gap, gap, gap), only_if) for load in loads)


def _room(x: Variables, items: tuple[int, ...], device: int) -> int:
    reserved = [r.capacity[device] for r in x.problem.shared_reserves if r.item in items and len(items) > 1]
    return min(reserved, default=x.problem.devices[device].capacity)


def _nobody_else(
    x: Variables, items: tuple[int, ...], present: Callable[[int, int], Fixed]
) -> Iterator[Fixed]:
    """
    Yield the literals under which no further item changes the room of a device that *items* hold.

    A reserve can be smaller than the device's own, so the room of fewer items is not always the larger one.
    """
    for reserve in x.problem.shared_reserves:
        others = range(len(x.problem.items)) if items == (reserve.item,) else [reserve.item]
        for other in others:
            if other not in items:
                yield negated(present(items[0], other))


def _worst_phases(x: Variables, items: tuple[int, ...]) -> list[int]:
    """Return the phases that no other phase dominates, whatever the items choose."""
    vectors = {}
    for p in range(x.problem.phases):
        key = tuple(
            slot[o].memory[p]
            for i in items
            for slot, literals in zip(x.problem.items[i].slots, x.option[i], strict=True)
            for o in literals
        )
        vectors.setdefault(key, p)
    return [
        p
        for key, p in vectors.items()
        if not any(other != key and all(a <= b for a, b in zip(key, other, strict=True)) for other in vectors)
    ]


ALL = (add_choices, add_holding, add_sharing, add_one_rank_order, add_together, add_apart, add_memory)
