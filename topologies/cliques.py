"""
Cut a graph into cliques: fewest, then with most links inside, then with the smallest ids together.

When to modify: what makes one partition better than another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

Partition = tuple[tuple[int, ...], ...]

_STEPS = 300_000
"""
Cliques that are looked at before the search gives up (under a second). Any machine of up to 16 GPUs whose
links have one width stays far below it, since interchangeable GPUs are tried once.
"""


def clique_partition(count: int, links: Mapping[tuple[int, int], int]) -> Partition:
    """
    Return the best partition of the vertices 0 … *count* − 1 into cliques.

    Best has the fewest cliques, then most links inside cliques, then the smallest ids: the clique of vertex 0
    takes the smallest others that it can, then that of the smallest vertex left, and so on. Exact, except in
    a connected part on which the search would need more than `_STEPS` steps (more than a dozen vertices,
    nearly complete, all widths different): there each clique grows greedily from the smallest vertex left.

    Parameters
    ----------
    links
        Number of links of the joined pairs i < j; other pairs are not joined.
    """
    # By vertex, not as a square: a cluster has thousands of GPUs, each joined to a few.
    width: list[dict[int, int]] = [{} for _ in range(count)]
    for (i, j), n in links.items():
        width[i][j] = width[j][i] = n
    cliques = [clique for part in _connected_parts(width) for clique in _partition(part, width)]
    return tuple(sorted(cliques))


def _connected_parts(width: Sequence[Mapping[int, int]]) -> Iterator[tuple[int, ...]]:
    seen: set[int] = set()
    for first in range(len(width)):
        if first in seen:
            continue
        part, edge = set(), {first}
        while edge:
            part |= edge
            edge = {v for u in edge for v, n in width[u].items() if n} - part
        seen |= part
        yield tuple(sorted(part))


def _partition(part: Sequence[int], width: Sequence[Mapping[int, int]]) -> Sequence[tuple[int, ...]]:
    square = [[width[u].get(v, 0) for v in part] for u in part]
    if all(square[u][v] for u in range(len(part)) for v in range(u + 1, len(part))):
        return (tuple(part),)
    found = _Search(range(len(part)), square).best() or _greedy(range(len(part)), square)
    return [tuple(part[v] for v in clique) for clique in found]


class _Search:
    """
    Dynamic programming over sets of vertices (as bit masks): the clique of the smallest vertex left, then the
    rest.

    The number of cliques is raised until a partition exists, so that all partitions that are compared have
    the same number. Vertices with equal links to all others are interchangeable: of those in a set, the
    smallest are taken first. This loses no partition that is best, for exchanging two such vertices keeps
    count and links, and the smaller ids come first.
    """

    def __init__(self, part: Sequence[int], width: Sequence[Sequence[int]]) -> None:
        self._part = part
        n = len(part)
        self._width = [[width[u][v] for v in part] for u in part]
        self._joined = [sum(1 << v for v in range(n) if self._width[u][v]) for u in range(n)]
        self._smaller_twins = [sum(1 << w for w in range(u) if self._are_twins(u, w)) for u in range(n)]
        self._memo: dict[tuple[int, int], tuple[int, Partition] | None] = {}
        self._steps = 0

    def best(self) -> Partition | None:
        """Return the best partition; None when the search was given up."""
        n = len(self._part)
        try:
            found = next(
                f for count in range(2, n + 1) if (f := self._solve((1 << n) - 1, count)) is not None
            )
        except _GiveUpError:
            return None
        return tuple(tuple(self._part[v] for v in clique[:-1]) for clique in found[1])

    def _are_twins(self, u: int, w: int) -> bool:
        return all(self._width[u][x] == self._width[w][x] for x in range(len(self._part)) if x not in (u, w))

    def _solve(self, left: int, count: int) -> tuple[int, Partition] | None:
        """Return the smallest (−links, partition) of *left* into at most *count* cliques, if any."""
        if self._must_be_apart(left) > count:
            return None
        if count == 1:
            whole = tuple(_bits(left))
            if not self._is_clique(left):
                return None
            return -self._links_inside(whole), ((*whole, len(self._part)),)
        if (left, count) not in self._memo:
            found = (self._after(clique, left, count) for clique in self._cliques(left))
            self._memo[left, count] = min((f for f in found if f is not None), default=None)
        return self._memo[left, count]

    def _after(self, clique: tuple[int, ...], left: int, count: int) -> tuple[int, Partition] | None:
        rest = self._solve(left & ~sum(1 << v for v in clique), count - 1)
        if rest is None:
            return None
        ended = (*clique, len(self._part))  # so that (0, 1) comes before (0)
        return rest[0] - self._links_inside(clique), (ended, *rest[1])

    def _must_be_apart(self, left: int) -> int:
        """Return the size of some set of unjoined vertices in *left*: it takes as many cliques at least."""
        apart = 0
        while left:
            bit = left & -left
            left &= ~(bit | self._joined[bit.bit_length() - 1])
            apart += 1
        return apart

    def _is_clique(self, left: int) -> bool:
        return all(not left & ~(self._joined[v] | 1 << v) for v in _bits(left))

    def _links_inside(self, clique: tuple[int, ...]) -> int:
        return sum(self._width[u][v] for i, u in enumerate(clique) for v in clique[i + 1 :])

    def _cliques(self, left: int) -> Iterator[tuple[int, ...]]:
        """Yield the cliques of the smallest vertex in *left*, taking smaller twins first."""
        first = next(_bits(left))
        start: tuple[int, ...] = (first,)
        stack = [(start, 1 << first, left & self._joined[first])]
        while stack:
            clique, taken, candidates = stack.pop()
            self._steps += 1
            if self._steps > _STEPS:
                raise _GiveUpError
            yield clique
            while candidates:
                bit = candidates & -candidates
                candidates ^= bit
                v = bit.bit_length() - 1
                if not self._smaller_twins[v] & left & ~taken:
                    stack.append(((*clique, v), taken | bit, candidates & self._joined[v]))


def _bits(mask: int) -> Iterator[int]:
    """Yield the vertices of *mask*, ascending."""
    while mask:
        bit = mask & -mask
        yield bit.bit_length() - 1
        mask ^= bit


class _GiveUpError(Exception):
    """The search needs more than `_STEPS` steps."""


def _greedy(part: Sequence[int], width: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    left = sorted(part)
    cliques = []
    while left:
        clique = [left[0]]
        while fitting := [v for v in left if v not in clique and all(width[u][v] for u in clique)]:
            clique.append(max(fitting, key=lambda v: (sum(width[u][v] for u in clique), -v)))
        cliques.append(tuple(sorted(clique)))
        left = [v for v in left if v not in clique]
    return cliques
