"""
Small problems, each of which needs one rule or one term: without it another answer would be better.

All stand on three devices, the third on an island of its own::

    0 ── 1    2
"""

from __future__ import annotations

import dataclasses
import random

from solvers.problem import (
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
    Term,
    Transfer,
    Want,
)
from solvers.result import Answer

GROUPS = (
    Group((0,), 0),
    Group((1,), 0),
    Group((0, 1), 1, 7),
    Group((1, 0), 1, 7),      # the other rank order
    Group((2,), 0),
    Group((1, 2), 1, 9),
)
EVERY = tuple(range(len(GROUPS)))
LANES = (Stage(0), Stage(1))
IN_LANES = (Operation(0, 0), Operation(1, 1))


def problem(k: int = 2, *, groups: tuple[tuple[int, ...], ...] = (), **changes: object) -> Problem:
    """Return *k* items that take 10 µs and 4 MiB wherever they are, on any of *groups* (default: all)."""
    items = tuple(
        Item(
            groups[i] if groups else EVERY,
            (tuple(Option(p, tuple(10 * (i == j) for j in range(k)), (4,), preference=p) for p in (0, 1)),),
        )
        for i in range(k)
    )
    whole = Problem(
        devices=(Device(10, 3, 0), Device(10, 3, 0), Device(10, 3, 1)),
        groups=GROUPS,
        items=items,
        operations=tuple(Operation(i, 0) for i in range(k)),
        stages=(Stage(),),
        phases=1,
    )
    return whole.replace(**changes)


def answer(*groups: int) -> Answer:
    """Return the answer in which the items take *groups*, and the option that goes with each."""
    return Answer(groups, tuple((GROUPS[g].profile,) for g in groups))


def _slack() -> Problem:
    """Item 1 has time to spare: its slow option comes first, its fast one changes no term."""
    slow, fast = Option(0, (0, 3), (4,)), Option(0, (0, 1), (4,))
    return problem().replace(items=(problem().items[0], Item(EVERY, ((slow, fast),))), apart=((0, 1),))


def _slow_on_one() -> Problem:
    """One device is enough, but slow: the fast option is for two."""
    slow, fast = Option(0, (30,), (4,)), Option(1, (10,), (4,))
    return problem(1).replace(items=(Item((0, 2), ((slow, fast),)),), **WORTH_SHARING)


def _of_two_kinds() -> Problem:
    """Both items do best on device 0; the fast options of the two are of different kinds."""
    first = (Option(0, (10, 0), (4,), kind=1), Option(0, (30, 0), (4,), kind=2))
    second = (Option(0, (0, 30), (4,), kind=1), Option(0, (0, 10), (4,), kind=2))
    return problem(alike=((0, 1),)).replace(items=(Item((0,), (first,)), Item((0,), (second,))))


def hosted(*, k: int = 2, hosts: tuple[int | None, ...] = (9,), on: tuple[int, ...] = (0, 0, 0), **changes: object) -> Problem:
    """Return *k* items on hosts of that memory that need 5 MiB of them for each of their devices; *on* has the host of each device."""
    plain = problem(k, **changes)
    return plain.replace(
        hosts=hosts,
        moments=2,
        devices=tuple(dataclasses.replace(device, host=h) for device, h in zip(plain.devices, on, strict=True)),
        items=tuple(
            Item(item.groups, tuple(tuple(dataclasses.replace(o, host=(1, 5)) for o in slot) for slot in item.slots))
            for item in plain.items
        ),
    )


UNEQUAL = (Device(10, 3, 0), Device(11, 3, 0), Device(10, 3, 1))
WORTH_SHARING: dict[str, object] = {"primary": Term.GPUS}

CASES = {
    "plain": problem(),
    "three pools": problem(3, within_ppm=0),
    "apart": problem(apart=((0, 1),), **WORTH_SHARING),
    "together": problem(groups=((0, 2), (1, 2)), together=((0, 1),), devices=UNEQUAL),
    "all together or all apart": problem(
        3, patterns=(frozenset(), frozenset({(0, 1), (0, 2), (1, 2)})), devices=(Device(11),) * 3, **WORTH_SHARING
    ),
    "two of three together": problem(3, patterns=(frozenset({(0, 2)}), frozenset({(1, 2)})), within_ppm=0),
    "alike where they share": _of_two_kinds(),
    "no partial overlap": problem(groups=((2,), (1, 2, 4)), **WORTH_SHARING),
    "option of the group's profile": _slow_on_one(),
    "one rank order": problem(groups=((2,), (3, 4)), sharing=Sharing.PARTIAL, **WORTH_SHARING),
    "partial overlap": problem(3, sharing=Sharing.PARTIAL, groups=((0,), (2,), (5,))),
    "memory": problem(devices=(Device(7, 0, 0), Device(7, 0, 0), Device(7, 0, 1)), **WORTH_SHARING),
    "memory, partial": problem(
        devices=(Device(7, 0, 0), Device(7, 0, 0), Device(7, 0, 1)), sharing=Sharing.PARTIAL, **WORTH_SHARING
    ),
    "reserve": problem(shared_reserves=(SharedReserve(1, (7, 7, 7)),), **WORTH_SHARING),
    "a reserve that asks for less": problem(
        devices=(Device(7, 0, 0), Device(7, 0, 0), Device(7, 0, 1)),
        shared_reserves=(SharedReserve(1, (8, 8, 8)),),
        **WORTH_SHARING,
    ),
    "take turns": problem(groups=((0,), (0,))),
    "transfer": problem(
        groups=((0, 4), (1, 4)),
        apart=((0, 1),),
        transfers=(Transfer(0, 1, 0, ((0, 50, 40), (60, 0, 30), (70, 80, 0))),),
    ),
    "lanes": problem(stages=LANES, operations=IN_LANES),
    "lanes collide": problem(stages=LANES, operations=IN_LANES, groups=((0,), (0,))),
    "do not meet": problem(groups=((0,), (4,)), soft_pairs=(SoftPair(0, 1, (1, 1, 2), Want.MEET),)),
    "do not avoid": problem(groups=((0,), (1,)), soft_pairs=(SoftPair(0, 1, (1, 1, 2), Want.AVOID),)),
    "shortfall": problem(groups=((0,), (0,))),
    "broken island": problem(groups=((0,), (4,))),
    "slow ring": problem(groups=((0,), (2, 5)), apart=((0, 1),), primary=Term.BANDWIDTH),
    "tight memory first": problem(primary=Term.MEMORY),
    "menus": problem(groups=((2,), (4,))),
    "ids": _slack(),
    "host memory": hosted(hosts=(10,), groups=((2,), (2,))),
    "host memory for two of three": hosted(k=3, hosts=(10,)),
    "the faster option needs more of the host": hosted(k=1, hosts=(9,), groups=((0, 2),)),
    "a host for each": hosted(hosts=(5, 5), on=(0, 0, 1)),
    "a group on two hosts": hosted(hosts=(5, 6), on=(0, 0, 1), groups=((0, 4), (5,))),
    "a host of unknown memory": hosted(hosts=(4, None), on=(0, 0, 1)),
    "infeasible": problem(groups=((2,), (5,))),
    "nothing fits": problem(devices=(Device(3),) * 3),
}
"""By what each is about."""


def hard(n: int = 12, *, sets: int = 600, seed: int = 1) -> Problem:
    """Return a problem whose proof takes long: unequal devices, many sets, items that may overlap in part."""
    rng = random.Random(seed)
    k, phases = 5, 3
    chosen = sorted({tuple(sorted(rng.sample(range(n), rng.randint(1, n // 2)))) for _ in range(sets)})
    groups = tuple(Group(s, len(s) * 3 + rng.randrange(3), rng.randint(1, 99)) for s in chosen)
    profiles = sorted({g.profile for g in groups})
    operations = tuple(Operation(i, s) for i in range(k) for s in range(3))

    def option(i: int, profile: int) -> Option:
        size = profile // 3
        times = tuple(rng.randint(10**6, 2 * 10**6) // size if o.item == i else 0 for o in operations)
        return Option(profile, times, tuple(rng.randint(5_000, 30_000) for _ in range(phases)), 0, rng.randrange(5))

    return Problem(
        devices=tuple(Device(rng.randint(60_000, 80_000), 6_000, d // 4) for d in range(n)),
        groups=groups,
        items=tuple(
            Item(tuple(range(len(groups))), (tuple(option(i, p) for p in profiles for _ in range(6)),)) for i in range(k)
        ),
        operations=operations,
        stages=(Stage(), Stage(), Stage()),
        phases=phases,
        sharing=Sharing.PARTIAL,
    )
