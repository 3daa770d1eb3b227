"""
Which pools a short step can have: all ways to cut the items into pools, and the devices into sizes.

What it takes of the problem is how many devices a pool has, not which: so it looks at a few thousand ways where there are
millions of answers, and what no way leaves short enough is no part of such an answer.

When to modify: `solvers.problem` says something new of items that share devices.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from solvers.greedy import is_pool_of_a_pattern
from solvers.problem import Problem

Us = tuple[int, ...]
"""µs per stage."""

MOST_WAYS = 20_000
"""Ways that are looked at; where there are more, nothing is dropped."""


class Pools:
    """
    The pools that are left when every item needs at least *fastest* µs per stage and *least* MiB per phase, by profile.

    Parameters
    ----------
    fastest
        Per item and profile: µs per stage, which no choice of options goes below.
    least
        Per item and profile: MiB per phase, likewise.
    room
        Per profile: MiB on the devices of its roomiest group.
    size
        Per profile: how many devices its groups have.
    """

    def __init__(
        self,
        problem: Problem,
        fastest: Sequence[Mapping[int, Us]],
        least: Sequence[Mapping[int, Sequence[int]]],
        room: Mapping[int, int],
        size: Mapping[int, int],
    ) -> None:
        self.problem = problem
        self.size = size
        self.items = range(len(problem.items))
        # pool → size → profile → µs per stage
        self.us: dict[tuple[int, ...], dict[int, dict[int, Us]]] = {}
        for pool in self._allowed():
            common = set.intersection(*(set(fastest[i]) for i in pool))
            for p in sorted(common):
                needs = (sum(phase) for phase in zip(*(least[i][p] for i in pool), strict=True))
                if all(need <= room[p] for need in needs):
                    us = tuple(map(sum, zip(*(fastest[i][p] for i in pool), strict=True)))
                    self.us.setdefault(pool, {}).setdefault(size[p], {})[p] = us
        self.best = {
            pool: {n: least_of(of_profile.values()) for n, of_profile in sizes.items()} for pool, sizes in self.us.items()
        }
        self.ways_left = MOST_WAYS

    def shorter_than(self, limit: int) -> list[set[int]] | None:
        """Return per item the profiles of which some way makes a step of at most *limit* µs, None if there are too many ways."""
        kept: list[set[int]] = [set() for _ in self.items]
        for way in self._ways(tuple(self.items), len(self.problem.devices), (0,) * len(self.problem.stages), (), limit):
            if self.ways_left < 0:
                return None
            for k, (pool, n) in enumerate(way):
                others = [self.best[q][m] for j, (q, m) in enumerate(way) if j != k]
                for profile, us in self.us[pool][n].items():
                    is_new = any(profile not in kept[i] for i in pool)
                    if is_new and shortest_step(self.problem, most_of([us, *others])) <= limit:
                        for i in pool:
                            kept[i].add(profile)
        return kept

    def _allowed(self) -> Iterator[tuple[int, ...]]:
        """Yield the sets of items that may stand on the same devices, all alone."""
        for count in range(1, len(self.items) + 1):
            for pool in itertools.combinations(self.items, count):
                apart = any(a in pool and b in pool for a, b in self.problem.apart)
                torn = any((a in pool) != (b in pool) for a, b in self.problem.together)
                if not apart and not torn and is_pool_of_a_pattern(self.problem, pool):
                    yield pool

    def _ways(
        self, waiting: tuple[int, ...], devices: int, us: Us, taken: tuple[tuple[tuple[int, ...], int], ...], limit: int
    ) -> Iterator[tuple[tuple[tuple[int, ...], int], ...]]:
        """Yield the ways to give the *waiting* items pools of at most *devices* devices in all."""
        if not waiting:
            yield taken
            return
        for pool, sizes in self.best.items():
            if pool[0] != waiting[0] or not set(pool) <= set(waiting):
                continue
            left = tuple(i for i in waiting if i not in pool)
            for n, more in sizes.items():
                self.ways_left -= 1
                if self.ways_left < 0:
                    yield taken
                    return
                if n + len(left[:1]) <= devices:
                    longest = tuple(map(max, us, more))
                    if shortest_step(self.problem, longest) <= limit:
                        yield from self._ways(left, devices - n, longest, (*taken, (pool, n)), limit)


def shortest_step(problem: Problem, us: Sequence[int]) -> int:
    """Return the step whose stages take *us*, if all lanes can run at the same time."""
    outside, lanes = 0, dict[int, int]()
    for length, stage in zip(us, problem.stages, strict=True):
        if stage.lane is None:
            outside += length
        else:
            lanes[stage.lane] = lanes.get(stage.lane, 0) + length
    return outside + max(lanes.values(), default=0)


def least_of(rows: Iterable[Us]) -> Us:
    """Return the smallest of each stage."""
    return tuple(map(min, zip(*rows, strict=True)))


def most_of(rows: Iterable[Sequence[int]]) -> Us:
    """Return the largest of each stage."""
    return tuple(map(max, zip(*rows, strict=True)))
