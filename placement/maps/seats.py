"""
Who sits where: the groups of a device map as seats, for frameworks that start jobs from it.

Reads no more of the map than its groups, and needs no more than PyYAML: a job imports this on every node.

When to modify: entries of ``device_map`` get another form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from placement.text.strict_yaml import Document

_SEVERAL_HOSTS = re.compile(r"(?P<host>\S+):(?P<gpu>0|[1-9][0-9]{0,5})")
_MAX_GPU = 999_999


@dataclass(frozen=True, slots=True)
class Seat:
    """
    One GPU for one rank.

    Parameters
    ----------
    host
        The name of the host; None where the map is of a single host and its entries name none.
    gpu
        The physical id on its host.
    """

    host: str | None
    gpu: int

    def __str__(self) -> str:
        """Return the entry as maps write it."""
        return str(self.gpu) if self.host is None else f"{self.host}:{self.gpu}"


@dataclass(frozen=True, slots=True)
class Pool:
    """Roles that share one group, in the order of the map, and its seats in rank order."""

    roles: tuple[str, ...]
    seats: tuple[Seat, ...]


def read_seats(document: Document) -> Mapping[str, tuple[Seat, ...]]:
    """
    Return the group of each role, in rank order; entries are physical ids of one host, or ``host:gpu`` of several.

    Parameters
    ----------
    document
        A device map; of its keys ``device_map`` alone is looked at.

    Raises
    ------
    InputError
        If there is no ``device_map``, a group is empty, an entry is no GPU or stands in a group twice, or some entries name
        hosts and some do not; the message has line and column.
    """
    data = document.data
    if not isinstance(data, Mapping) or "device_map" not in data:
        raise document.error("this is no device map: it has no key `device_map`; `placement plan -o FILE` writes one")
    groups = data["device_map"]
    if groups is None:
        raise document.error(f"the map holds no plan: {data.get('verdict', 'its device_map is null')}", ("device_map",))
    if not isinstance(groups, Mapping) or not groups:
        raise document.error("device_map is a mapping from roles to lists of GPUs", ("device_map",))
    seats = {role: _group(document, role, groups[role]) for role in groups}
    _one_form(document, seats)
    return seats


def planned_for(data: Mapping[str, Any]) -> str | None:
    """Return the target for which the map *data* was planned; None where it was for none."""
    rules = data.get("rules")
    return rules.get("target") if isinstance(rules, Mapping) else None


def pools(seats: Mapping[str, Sequence[Seat]]) -> tuple[Pool, ...]:
    """Return the pools of *seats*: roles whose groups are the same, rank by rank, in the order of their first role."""
    shared: dict[tuple[Seat, ...], list[str]] = {}
    for role, group in seats.items():
        shared.setdefault(tuple(group), []).append(role)
    return tuple(Pool(tuple(roles), group) for group, roles in shared.items())


def _group(document: Document, role: str, entries: Any) -> tuple[Seat, ...]:
    path = ("device_map", role)
    if not isinstance(entries, list) or not entries:
        raise document.error(f"{role} is a list of at least one GPU, in rank order, not {entries!r}", path)
    found: list[Seat] = []
    for k, entry in enumerate(entries):
        seat = as_seat(entry)
        if seat is None:
            raise document.error(
                f"{role}: {entry!r} is no GPU: write a physical id (0), or host:gpu where there are several hosts (node0:0)",
                (*path, k),
            )
        if seat in found:
            raise document.error(
                f"{role}: GPU {seat} is there twice, as rank {found.index(seat)} and as rank {k}: each rank needs its own", (*path, k)
            )
        found.append(seat)
    return tuple(found)


def as_seat(entry: Any) -> Seat | None:
    """Return the seat that an entry of a map names, None where it is none."""
    if isinstance(entry, int) and not isinstance(entry, bool):
        return Seat(None, entry) if 0 <= entry <= _MAX_GPU else None
    match = _SEVERAL_HOSTS.fullmatch(entry) if isinstance(entry, str) else None
    return Seat(match["host"], int(match["gpu"])) if match else None


def _one_form(document: Document, seats: Mapping[str, Sequence[Seat]]) -> None:
    """Refuse a map of which some entries name hosts: GPU 0 and node0:0 might be the same one."""
    named = {seat.host is not None for group in seats.values() for seat in group}
    if len(named) < 2:
        return
    role, k = next((role, k) for role, group in seats.items() for k, seat in enumerate(group) if seat.host is None)
    raise document.error(
        f"{role}: the entry {seats[role][k]} names no host, and others do: write host:gpu everywhere", ("device_map", role, k)
    )
