"""
Devices that are alike: of answers that differ only by an exchange of such devices, the one with the smallest ids is kept.

An *exchange* is a permutation of devices that leaves the whole problem as it is. `Term.IDS` compares the first item's group
first. So the best answer has, for the first item, the smallest group that exchanges can make of it; for the second item, the
smallest group that exchanges can make which leave the first item's group alone; and so on.

When to modify: `solvers.problem` says something new of devices.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from solvers.cpsat.reduce import Choices
from solvers.problem import Problem, Sharing

MAX_PREFIXES = 400
"""Ways to hand groups to the first items that are looked at; what comes later keeps all its groups."""

Exchange = Mapping[int, int]
"""The image of every group."""


@dataclass(frozen=True, slots=True)
class Canonical:
    """
    The choices that are left, and how they hang together.

    ``needs[i, g]``: for some items j before i, groups of which item j takes one whenever item i takes g.
    """

    choices: Choices
    needs: Mapping[tuple[int, int], tuple[tuple[int, frozenset[int]], ...]]


def canonical(problem: Problem, choices: Choices) -> Canonical:
    """Return *choices* without those that an exchange of equal devices turns into smaller ids."""
    exchanges = list(_exchanges(problem, choices))
    masks = [sum(1 << d for d in group.devices) for group in problem.groups]
    left: list[tuple[int, ...]] = []
    needs: dict[tuple[int, int], tuple[tuple[int, frozenset[int]], ...]] = {}
    prefixes: list[tuple[tuple[int, ...], list[Exchange]]] = [((), exchanges)]
    for i, groups in enumerate(choices.groups):
        if len(prefixes) > MAX_PREFIXES or not any(alive for _, alive in prefixes):
            break
        prefixes = [
            ((*taken, g), [exchange for exchange in alive if exchange[g] == g])
            for taken, alive in prefixes
            for g in _smallest(groups, alive)
            if all(_may_stand(problem, masks, (j, h), (i, g)) for j, h in enumerate(taken))
        ]
        left.append(tuple(sorted({taken[i] for taken, _ in prefixes})))
        for g in left[i]:
            before = [taken for taken, _ in prefixes if taken[i] == g]
            needs[i, g] = tuple(
                (j, frozenset(taken[j] for taken in before)) for j in range(i) if {t[j] for t in before} < set(left[j])
            )
    return Canonical(Choices((*left, *choices.groups[len(left) :]), choices.options), needs)


def _smallest(groups: Sequence[int], exchanges: Sequence[Exchange]) -> Iterator[int]:
    """Yield the *groups* (ascending) that *exchanges* cannot make smaller."""
    seen: set[int] = set()
    for g in groups:
        if g in seen:
            continue
        yield g
        reached = [g]
        seen.add(g)
        while reached:
            h = reached.pop()
            for exchange in exchanges:
                if (image := exchange[h]) not in seen:
                    seen.add(image)
                    reached.append(image)


def _may_stand(problem: Problem, masks: Sequence[int], one: tuple[int, int], other: tuple[int, int]) -> bool:
    (i, g), (j, h) = one, other
    overlap = bool(masks[g] & masks[h])
    if overlap and ((i, j) in problem.apart or (j, i) in problem.apart):
        return False
    if g != h and ((i, j) in problem.together or (j, i) in problem.together):
        return False
    return g == h or not overlap or problem.sharing is Sharing.PARTIAL


# ── exchanges ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _exchanges(problem: Problem, choices: Choices) -> Iterator[Exchange]:
    """Yield exchanges of neighbouring devices and of neighbouring islands."""
    facts: dict[tuple[Hashable, ...], list[int]] = {}
    for g in sorted(set().union(*choices.groups)):
        facts.setdefault(_facts(problem, choices, g, frozenset(problem.groups[g].devices)), []).append(g)
    for swapped in _candidates(problem):
        device_of = [swapped.get(d, d) for d in range(len(problem.devices))]
        if _leaves_devices(problem, device_of):
            exchange = _images(problem, choices, facts, device_of)
            if exchange is not None:
                yield exchange


def _candidates(problem: Problem) -> Iterator[dict[int, int]]:
    devices = range(len(problem.devices))
    for d in devices[1:]:
        yield {d - 1: d, d: d - 1}
    islands: dict[int, list[int]] = {}
    for d in devices:
        islands.setdefault(problem.devices[d].island, []).append(d)
    members = [island for island in islands.values() if len(island) > 1]
    for one, other in zip(members, members[1:], strict=False):
        if len(one) == len(other):
            yield dict(zip(one + other, other + one, strict=True))


def _leaves_devices(problem: Problem, image: Sequence[int]) -> bool:
    """Whether all that the problem says of single devices and of pairs of devices stays as it is."""
    devices = problem.devices
    moved = [d for d, e in enumerate(image) if d != e]
    return (
        all((devices[d].capacity, devices[d].comfort) == (devices[image[d]].capacity, devices[image[d]].comfort) for d in moved)
        and all(r.capacity[d] == r.capacity[image[d]] for r in problem.shared_reserves for d in moved)
        and _renames([device.island for device in devices], image)
        and (not problem.hosts or _exchanges_hosts(problem, image))
        and all(_renames(pair.labels, image) for pair in problem.soft_pairs)
        and all(
            us == t.us[image[a]][image[b]] for t in problem.transfers for a, row in enumerate(t.us) for b, us in enumerate(row)
        )
    )


def _exchanges_hosts(problem: Problem, image: Sequence[int]) -> bool:
    """Whether devices stay with those of their host, on a host with as much memory."""
    host = [device.host for device in problem.devices]
    return _renames(host, image) and all(problem.hosts[host[d]] == problem.hosts[host[e]] for d, e in enumerate(image))


def _renames(labels: Sequence[int], image: Sequence[int]) -> bool:
    """Whether devices with the same label have the same label afterwards."""
    pairs = {(labels[d], labels[image[d]]) for d in range(len(labels))}
    return len(pairs) == len(set(labels))


def _images(
    problem: Problem, choices: Choices, facts: Mapping[tuple[Hashable, ...], list[int]], image: Sequence[int]
) -> Exchange | None:
    """Return the image of every group, None when some group has none that offers the same to the same items."""
    exchange: dict[int, int] = {}
    for groups in facts.values():
        devices = frozenset(image[d] for d in problem.groups[groups[0]].devices)
        images = facts.get(_facts(problem, choices, groups[0], devices), [])
        if len(images) != len(groups):
            return None
        exchange.update(zip(groups, images, strict=True))
    return exchange


def _facts(problem: Problem, choices: Choices, g: int, devices: frozenset[int]) -> tuple[Hashable, ...]:
    group = problem.groups[g]
    return (devices, group.profile, group.ns_per_gb, tuple(g in groups for groups in choices.groups))
