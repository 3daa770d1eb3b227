"""Partitions into cliques, against trying every partition."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies import cliques
from topologies.cliques import Partition, clique_partition


def all_partitions(items: tuple[int, ...]) -> Iterator[list[tuple[int, ...]]]:
    """Yield every partition of *items*."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for size in range(len(rest) + 1):
        for others in itertools.combinations(rest, size):
            left = tuple(v for v in rest if v not in others)
            for partition in all_partitions(left):
                yield [(first, *others), *partition]


def value(
    partition: list[tuple[int, ...]], links: dict[tuple[int, int], int]
) -> tuple[int, int, tuple[int, ...], Partition]:
    inside = sum(links[pair] for clique in partition for pair in itertools.combinations(clique, 2))
    which = {v: k for k, clique in enumerate(sorted(partition)) for v in clique}
    return len(partition), -inside, tuple(which[v] for v in sorted(which)), tuple(sorted(partition))


def oracle(count: int, links: dict[tuple[int, int], int]) -> Partition:
    legal = (
        partition
        for partition in all_partitions(tuple(range(count)))
        if all(pair in links for clique in partition for pair in itertools.combinations(clique, 2))
    )
    return min(value(partition, links) for partition in legal)[-1]


@st.composite
def linked_graphs(draw: st.DrawFn) -> tuple[int, dict[tuple[int, int], int]]:
    count = draw(st.integers(1, 6))
    widths = draw(st.sampled_from([[0, 1], [0, 1, 2], [0, 1, 1, 1], [1, 4]]))
    links = {pair: draw(st.sampled_from(widths)) for pair in itertools.combinations(range(count), 2)}
    return count, {pair: width for pair, width in links.items() if width}


@given(linked_graphs())
def test_no_partition_is_better(graph):
    count, links = graph
    assert clique_partition(count, links) == oracle(count, links)


@given(linked_graphs())
def test_giving_up_still_cuts_into_cliques(graph):
    count, links = graph
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cliques, "_STEPS", 0)
        partition = clique_partition(count, links)
    assert sorted(itertools.chain(*partition)) == list(range(count))
    assert all(pair in links for clique in partition for pair in itertools.combinations(clique, 2))


def test_widths_decide_between_partitions_of_one_size():
    """A square has two partitions into two: the wide sides win, and where all are equal the smallest ids."""
    assert clique_partition(4, {(0, 1): 1, (1, 2): 2, (2, 3): 1, (0, 3): 2}) == ((0, 3), (1, 2))
    assert clique_partition(4, {(0, 1): 1, (1, 2): 1, (2, 3): 1, (0, 3): 1}) == ((0, 1), (2, 3))


def test_rests_that_come_up_twice_are_solved_once():
    """A square 0 1 2 3 whose corner 3 reaches 4 and 5: both ways to cut the square leave {4, 5} apart."""
    links = {(0, 1): 1, (1, 2): 1, (2, 3): 1, (0, 3): 1, (3, 4): 1, (3, 5): 2}
    assert clique_partition(6, links) == oracle(6, links)


def test_sixteen_behind_a_switch_with_a_cut_row_are_quick():
    """All pairs but one are known to be joined: thirteen of the rest are interchangeable and tried once."""
    links = {pair: 6 for pair in itertools.combinations(range(16), 2) if pair != (14, 15)}
    assert clique_partition(16, links) == (tuple(range(15)), (15,))


def test_many_vertices_are_cut_greedily():
    """A ring of 200 with chords is beyond the search; what comes out is still a partition into cliques."""
    count = 200
    links = {}
    for u in range(count):
        for step in range(1, 30):
            v = (u + step) % count
            links[min(u, v), max(u, v)] = 1 + (u * step) % 5
    partition = clique_partition(count, links)
    assert sorted(itertools.chain(*partition)) == list(range(count))
    assert all(pair in links for clique in partition for pair in itertools.combinations(clique, 2))
