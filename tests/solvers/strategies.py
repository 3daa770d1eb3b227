"""Random problems with everything that `solvers.problem` can say, small enough for the oracle."""

from __future__ import annotations

import itertools

from hypothesis import strategies as st

from solvers.problem import (
    PRIMARIES,
    Device,
    Group,
    Item,
    Operation,
    Option,
    Problem,
    SharedReserve,
    Sharing,
    SoftPair,
    Stage,
    Transfer,
    Want,
)

MAX_COMBINATIONS = 40_000
"""Groups × options of all items: what the oracle goes through without a bound."""


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Draw a problem: irregular groups and profiles, mixed memory, all rules, both sharings, every primary."""
    n = draw(st.integers(2, 6))
    alike = draw(st.booleans())     # equal devices are where exchanges are broken, unequal ones where they must not be
    hosts, moments = draw(_hosts()), 0
    if hosts:
        moments = draw(st.integers(1, 2))
    devices = tuple(draw(_device(alike, max(len(hosts), 1))) for _ in range(n))
    groups = draw(_groups(n))
    k, phases = draw(st.integers(2, 4)), draw(st.integers(1, 3))
    stages = tuple(Stage(draw(st.sampled_from((None, None, 0, 1)))) for _ in range(draw(st.integers(1, 3))))
    operations = tuple(
        Operation(i, s) for i in range(k) for s in range(len(stages)) if draw(st.integers(0, 2))
    )
    items = tuple(draw(_item(i, groups, operations, phases, moments)) for i in range(k))
    pairs = list(itertools.combinations(range(k), 2))
    some_pairs = st.lists(st.sampled_from(pairs), max_size=2, unique=True).map(tuple)
    labels = st.lists(st.integers(0, 2), min_size=n, max_size=n).map(tuple)
    return Problem(
        devices=devices,
        groups=groups,
        items=items,
        operations=operations,
        stages=stages,
        phases=phases,
        apart=draw(some_pairs),
        together=draw(some_pairs) if draw(st.integers(0, 3)) == 0 else (),
        patterns=draw(st.lists(st.frozensets(st.sampled_from(pairs)), max_size=3, unique=True).map(tuple)) if draw(st.booleans()) else (),
        alike=draw(some_pairs) if draw(st.integers(0, 2)) == 0 else (),
        sharing=draw(st.sampled_from(tuple(Sharing))),
        transfers=tuple(draw(_transfer(n, pairs, len(stages))) for _ in range(draw(st.integers(0, 2)))),
        soft_pairs=tuple(
            SoftPair(*draw(st.sampled_from(pairs)), draw(labels), draw(st.sampled_from(tuple(Want))))
            for _ in range(draw(st.integers(0, 2)))
        ),
        shared_reserves=tuple(
            SharedReserve(i, tuple(draw(st.integers(2, 14)) for _ in range(n)) if not alike else (draw(st.integers(2, 14)),) * n)
            for i in range(draw(st.integers(0, 2)))
        ),
        within_ppm=draw(st.sampled_from((0, 100_000, 400_000))),
        primary=draw(st.sampled_from(PRIMARIES)),
        hosts=hosts,
        moments=moments,
    )


@st.composite
def _hosts(draw: st.DrawFn) -> tuple[int | None, ...]:
    """Draw no host, one, or two: of equal ones devices may be exchanged; None where it is not known what a host has."""
    match draw(st.sampled_from(("none", "none", "one", "equal", "unequal"))):
        case "none":
            return ()
        case "one":
            return (draw(st.integers(2, 40)),)
        case "equal":
            return (draw(st.integers(2, 25)),) * 2
        case _:
            return draw(st.integers(2, 25)), draw(st.one_of(st.none(), st.integers(2, 25)))


def _device(alike: bool, hosts: int) -> st.SearchStrategy[Device]:
    host = st.integers(0, hosts - 1)
    if alike:
        return st.builds(Device, capacity=st.just(12), comfort=st.just(4), island=st.integers(0, 1), host=host)
    return st.builds(Device, capacity=st.integers(3, 14), comfort=st.integers(0, 5), island=st.integers(0, 2), host=host)


@st.composite
def _groups(draw: st.DrawFn, n: int) -> tuple[Group, ...]:
    """Draw groups: all sets by size (profile = size), or some sets in any rank order with any profile."""
    if draw(st.booleans()):
        most = draw(st.integers(1, min(n, 3)))
        sets = [s for size in range(1, most + 1) for s in itertools.combinations(range(n), size)]
        return tuple(Group(s, len(s) - 1, 10 * (len(s) - 1)) for s in sets)
    orders = st.lists(st.integers(0, n - 1), min_size=1, max_size=min(n, 4), unique=True)
    one = st.builds(Group, orders.map(tuple), st.integers(0, 2), st.sampled_from((0, 5, 9)))
    return tuple(draw(st.lists(one, min_size=1, max_size=9, unique=True)))


@st.composite
def _item(
    draw: st.DrawFn, i: int, groups: tuple[Group, ...], operations: tuple[Operation, ...], phases: int, moments: int
) -> Item:
    if draw(st.integers(0, 2)):
        taken = tuple(range(len(groups)))
    else:
        taken = tuple(sorted(draw(st.sets(st.integers(0, len(groups) - 1), min_size=1))))
    profiles = sorted({groups[g].profile for g in taken})
    slots = tuple(
        tuple(
            draw(_option(i, profile, operations, phases, moments))
            for profile in profiles
            for _ in range(draw(st.sampled_from((0, 1, 1, 2, 2, 3))))
        )
        for _ in range(draw(st.sampled_from((1, 1, 2))))
    )
    return Item(taken, slots)


@st.composite
def _option(
    draw: st.DrawFn, i: int, profile: int, operations: tuple[Operation, ...], phases: int, moments: int
) -> Option:
    return Option(
        profile,
        tuple(draw(st.integers(0, 9)) if o.item == i else 0 for o in operations),
        tuple(draw(st.integers(0, 6)) for _ in range(phases)),
        soft=draw(st.sampled_from((0, 0, 1))),
        preference=draw(st.integers(0, 2)),
        host=tuple(draw(st.integers(0, 6)) for _ in range(moments)),
        kind=draw(st.integers(0, 1)),
    )


@st.composite
def _transfer(draw: st.DrawFn, n: int, pairs: list[tuple[int, int]], stages: int) -> Transfer:
    a, b = draw(st.permutations(draw(st.sampled_from(pairs))))
    us = tuple(tuple(0 if d == e else draw(st.integers(1, 9)) for e in range(n)) for d in range(n))
    return Transfer(a, b, draw(st.integers(0, stages - 1)), us)


def is_small(problem: Problem) -> bool:
    """Whether the oracle can go through all of it in a moment."""
    combinations = 1
    for item in problem.items:
        combinations *= max(1, len(item.groups))
        for slot in item.slots:
            combinations *= max(1, len(slot) // max(1, len({o.profile for o in slot})))
    return combinations <= MAX_COMBINATIONS
