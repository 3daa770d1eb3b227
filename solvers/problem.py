"""
The placement problem in integers.

Every *item* (a role) takes one *group* of devices and, for each of its *slots*, one *option*. Time is in µs, memory in MiB.

Let ``G(i)`` be the devices of item i's group, ``o(i, s)`` the option of its slot s, and say that two items *overlap* when they
have a device in common. Summed over its slots, item i needs ``time(i, op)`` for each of its operations and
``memory(i, phase)`` on each of its devices.

An answer is **right** when

* each item's group is one of those it may take, and each option has the profile of that group;
* items of an *apart* pair have no device in common, items of a *together* pair have the same group;
* where there are *patterns*, the pairs of items that overlap are exactly those of one of them;
* items of an *alike* pair that overlap take, in their first slots, options of the same kind;
* with `Sharing.POOL`, overlapping items have the same devices; items with the same devices have the same group
  (one rank order per pool), under either `Sharing`;
* on every device d, in every phase p, the memory of the items that hold d fits: ``Σ memory(i, p) ≤ room(d)``, where ``room(d)``
  is the device's capacity, or that of a `SharedReserve` whose item holds d together with another item;
* on every host h, at every moment m, the host memory of the items fits: ``Σ over items i, devices d of G(i) on h of host(i, m)``
  is at most `Problem.hosts` [h], where ``host(i, m)`` is summed over i's slots like memory.

Its **terms**, all to be minimised:

``step``
    ``stage(s) = max(longest set of mutually overlapping items, Σ over the set of time(i, op in s);  transfers of s)``.
    The step is the sum of the stages outside lanes, plus the longest lane (sum of its stages); when two items of different
    lanes overlap (or one item works in two lanes) the lanes cannot run at the same time and count their sum.
``soft``
    Broken soft rules: `Option.soft` of the chosen options + broken `SoftPair` entries.
``gpus``
    Devices that some item holds.
``memory``
    The worst shortfall from comfort, MiB: ``max over used d, all p of (comfort(d) − (room(d) − Σ memory))``, at least 0.
``islands``
    Islands broken into: some of their devices are used, but not all.
``bandwidth``
    The slowest group: ``max over items of Group.ns_per_gb``.
``preference``
    ``Σ Option.preference``: how far down the menus the chosen options stand.
``ids``
    The group indices of all items in order, then their option indices in order; compared lexicographically.

The **order**: first `Problem.primary` is driven to its optimum and kept there. Then ``step`` is driven to its optimum T*
(at that primary). Then, among answers with ``step ≤ T* + T*·within_ppm // 10**6``, the terms of `TERMS_IN_BAND` are minimised
one after the other, each kept at its optimum for the next.

When to modify: a new kind of *constraint or cost*; then `check`, `exhaustive` and `cpsat` follow, each on its own.
"""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class Sharing(StrEnum):
    """Whether items may share some of their devices, or all or none of them."""

    POOL = "pool"
    PARTIAL = "partial"


class Term(StrEnum):
    """What is minimised; see the module's docstring."""

    STEP = "step"
    SOFT = "soft"
    GPUS = "gpus"
    MEMORY = "memory"
    ISLANDS = "islands"
    BANDWIDTH = "bandwidth"
    PREFERENCE = "preference"
    IDS = "ids"


PRIMARIES = (Term.STEP, Term.GPUS, Term.MEMORY, Term.BANDWIDTH)
TERMS_IN_BAND = (Term.SOFT, Term.GPUS, Term.MEMORY, Term.ISLANDS, Term.PREFERENCE, Term.STEP, Term.IDS)
"""Inside the band a difference in time is noise, so what the user named first in a menu comes before it."""


class Want(StrEnum):
    """What a `SoftPair` wishes of two items that are apart."""

    MEET = "meet"
    AVOID = "avoid"


@dataclass(frozen=True, slots=True)
class Device:
    """
    A device.

    Parameters
    ----------
    capacity
        Memory that a plan may use, MiB.
    comfort
        Free memory, MiB, beyond which more is not worth having.
    island
        Label of its island.
    host
        Index of its host in `Problem.hosts`; nothing where there are none.
    """

    capacity: int
    comfort: int = 0
    island: int = 0
    host: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """
    A candidate set of devices with its rank order.

    Parameters
    ----------
    devices
        Device indices in rank order, no repeats.
    profile
        Label of what the set offers (size, card, bandwidths): options are stated per profile.
    ns_per_gb
        How slow its slowest ring is; 0 for one device.
    """

    devices: tuple[int, ...]
    profile: int
    ns_per_gb: int = 0


@dataclass(frozen=True, slots=True)
class Option:
    """
    One way of running (one part of) an item on a group of a given profile.

    Parameters
    ----------
    profile
        The profile of the groups on which it can be taken.
    times
        µs per operation of the problem; 0 for operations of other items.
    memory
        MiB on each device of the group, per phase of the problem.
    soft
        Soft rules that it breaks by itself.
    preference
        How far down the menus it stands; 0 is what the user named first.
    host
        MiB of host memory for each device of the group, per moment of the problem.
    kind
        Label that options of `Problem.alike` items must share.
    """

    profile: int
    times: tuple[int, ...]
    memory: tuple[int, ...]
    soft: int = 0
    preference: int = 0
    host: tuple[int, ...] = ()
    kind: int = 0


@dataclass(frozen=True, slots=True)
class Item:
    """
    Something to be placed.

    Parameters
    ----------
    groups
        Indices of the groups that it may take, ascending.
    slots
        For each independent choice, its options. Exactly one option of each slot is taken.
    """

    groups: tuple[int, ...]
    slots: tuple[tuple[Option, ...], ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """A piece of work of one item in one stage."""

    item: int
    stage: int


@dataclass(frozen=True, slots=True)
class Stage:
    """A step of the dataflow; *lane* is None, or the lane (0, 1 …) in which it may run beside other lanes."""

    lane: int | None = None


@dataclass(frozen=True, slots=True)
class Transfer:
    """
    Data that move between two items in a stage; they take the best pair of devices.

    The time is ``min over a in G(source), b in G(target) of us[a][b]``.

    Parameters
    ----------
    source, target
        Items.
    stage
        The stage that waits for it.
    us
        Shape (devices, devices), row sends, column receives, µs.
    """

    source: int
    target: int
    stage: int
    us: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class SoftPair:
    """
    A wish about two items that have no device in common; otherwise it is kept.

    `Want.MEET` is broken when no label occurs in both groups, `Want.AVOID` when some label does.
    *labels* has one label per device.
    """

    first: int
    second: int
    labels: tuple[int, ...]
    want: Want


@dataclass(frozen=True, slots=True)
class SharedReserve:
    """On a device that *item* shares with another item, room is *capacity*[device] instead of the device's own."""

    item: int
    capacity: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """
    Everything a solver knows. See the module's docstring for what the fields mean together.

    Parameters
    ----------
    phases
        Number of memory phases.
    within_ppm
        Width of the band, parts per million of T*.
    primary
        The term that comes first; one of `PRIMARIES`.
    patterns
        Which pairs of items may overlap together: sets of pairs (a, b), a < b; empty where any may.
    alike
        Pairs of items that must agree in the kind of their (first) options where they overlap.
    hosts
        Memory of each host that a plan may use, MiB, None where it is not known; empty where host memory is no matter.
    moments
        Number of moments at which host memory is counted.

    Raises
    ------
    ValueError
        If indices or lengths do not fit together.
    """

    devices: tuple[Device, ...]
    groups: tuple[Group, ...]
    items: tuple[Item, ...]
    operations: tuple[Operation, ...]
    stages: tuple[Stage, ...]
    phases: int
    apart: tuple[tuple[int, int], ...] = ()
    together: tuple[tuple[int, int], ...] = ()
    patterns: tuple[frozenset[tuple[int, int]], ...] = ()
    alike: tuple[tuple[int, int], ...] = ()
    sharing: Sharing = Sharing.POOL
    transfers: tuple[Transfer, ...] = ()
    soft_pairs: tuple[SoftPair, ...] = ()
    shared_reserves: tuple[SharedReserve, ...] = ()
    within_ppm: int = 20_000
    primary: Term = Term.STEP
    hosts: tuple[int | None, ...] = ()
    moments: int = 0

    def __post_init__(self) -> None:
        n, k = len(self.devices), len(self.items)
        for g, group in enumerate(self.groups):
            if not group.devices or len(set(group.devices)) != len(group.devices):
                raise ValueError(f"group {g} is empty or repeats a device: {group.devices}")
            if not all(0 <= d < n for d in group.devices):
                raise ValueError(f"group {g} names a device beyond {n - 1}: {group.devices}")
        for i, item in enumerate(self.items):
            if not item.slots:
                raise ValueError(f"item {i} has no slot")
            if list(item.groups) != sorted(set(item.groups)) or any(not 0 <= g < len(self.groups) for g in item.groups):
                raise ValueError(f"item {i} must list existing groups, ascending: {item.groups}")
            for slot in item.slots:
                for option in slot:
                    if len(option.times) != len(self.operations) or len(option.memory) != self.phases:
                        raise ValueError(f"item {i} has an option whose times or memory have the wrong length")
                    if any(t and self.operations[o].item != i for o, t in enumerate(option.times)):
                        raise ValueError(f"item {i} has an option with time for another item's operation")
                    if len(option.host) != self.moments:
                        raise ValueError(f"item {i} has an option whose host memory has the wrong length")
                    if min((*option.times, *option.memory, *option.host, option.soft, option.preference), default=0) < 0:
                        raise ValueError(f"item {i} has an option with a negative number")
        for operation in self.operations:
            if not (0 <= operation.item < k and 0 <= operation.stage < len(self.stages)):
                raise ValueError(f"{operation} names an item or a stage that does not exist")
        pairs = [*self.apart, *self.together, *self.alike, *((p.first, p.second) for p in self.soft_pairs)]
        pairs += [(t.source, t.target) for t in self.transfers]
        for a, b in itertools.chain.from_iterable(self.patterns):
            if not 0 <= a < b < k:
                raise ValueError(f"a pattern has the pair {a}, {b}, which does not name two items of {k} in order")
        for a, b in pairs:
            if not (0 <= a < k and 0 <= b < k) or a == b:
                raise ValueError(f"the pair {a}, {b} does not name two items of {k}")
        if self.hosts and not all(0 <= device.host < len(self.hosts) for device in self.devices):
            raise ValueError(f"a device is on a host beyond {len(self.hosts) - 1}")
        if self.primary not in PRIMARIES:
            raise ValueError(f"{self.primary} cannot come first; choose one of {', '.join(PRIMARIES)}")

    def replace(self, **changes: object) -> Self:
        """Return a copy with *changes*."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]
