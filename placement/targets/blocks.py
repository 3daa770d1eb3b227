"""
Which hosts a pool spans and in which order, for launchers that give each host a run of consecutive ranks.

When to modify: another launcher's way to number ranks over hosts must be held against a map.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from placement.maps.seats import Pool
from placement.targets.start import Gpus, Start
from placement.targets.target import Entry


def blocks(pool: Pool) -> Mapping[str | None, Gpus]:
    """Return the GPUs of *pool* by host, hosts and GPUs in rank order."""
    found: dict[str | None, Gpus] = {}
    for seat in pool.seats:
        found[seat.host] = (*found.get(seat.host, ()), seat.gpu)
    return found


def stem(pool: Pool) -> str:
    """Return the name of files of *pool*: ``actor-ref``."""
    return "-".join(pool.roles)


def entries(groups: Mapping[str, tuple[tuple[str | None, int], ...]]) -> dict[str, tuple[Entry, ...]]:
    """Return groups as a map writes them."""
    return {role: tuple(gpu if host is None else f"{host}:{gpu}" for host, gpu in group) for role, group in groups.items()}


def scattered(start: Start) -> Iterator[str]:
    """Yield the pools of which ranks of one host do not follow each other: a launcher would number them otherwise."""
    for pool in start.pools:
        runs = [host for host, _ in itertools.groupby(pool.seats, lambda seat: seat.host)]
        if len(runs) != len(set(runs)):
            yield (
                f"ranks of {' and '.join(pool.roles)} change between hosts and come back, and it gives each host consecutive ranks: "
                "ranks would land on other GPUs than the map says"
            )


def uneven(start: Start, because: str) -> Iterator[str]:
    """Yield the pools with unequal numbers of GPUs on their hosts."""
    for pool in start.pools:
        sizes = {host: len(gpus) for host, gpus in blocks(pool).items()}
        if len(set(sizes.values())) > 1:
            counts = ", ".join(f"{size} on {host}" for host, size in sizes.items())
            yield f"{' and '.join(pool.roles)} has {counts}, and {because}"


def overlapping(start: Start, because: str) -> Iterator[str]:
    """Yield the pairs of pools that share some of their GPUs."""
    for one, other in itertools.combinations(start.pools, 2):
        shared = [str(seat) for seat in one.seats if seat in other.seats]
        if shared:
            yield f"{' and '.join(one.roles)} and {' and '.join(other.roles)} both have GPU {', '.join(shared)}, and {because}"
