"""
What a device map has for one pool: its seats in rank order, by host, with UUIDs where the map knows them.

When to modify: a process is told its roles in another way.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from placement.errors import InputError
from placement.maps.machine_gpus import by_seat, recorded_uuids
from placement.maps.seats import Pool, Seat, planned_for, pools, read_seats
from placement.maps.variables import ROLES
from placement.plans import Plan
from placement.text import strict_yaml
from placement.text.suggest import did_you_mean
from placement.text.text_files import read_text

MAX_BYTES = 1 << 22
"""No map is larger: nothing bigger is read into memory."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """
    What the map has for a pool.

    Parameters
    ----------
    uuids
        Of its seats and of all others, where the machine's source told them.
    """

    pool: Pool
    uuids: Mapping[Seat, str]

    @property
    def title(self) -> str:
        """The roles for people: ``actor and ref``."""
        return " and ".join(self.pool.roles)

    @property
    def hosts(self) -> tuple[str | None, ...]:
        """The hosts in rank order; None alone where the map names none."""
        return tuple(dict.fromkeys(seat.host for seat in self.pool.seats))

    def on_host(self, host: str | None) -> tuple[int, ...]:
        """Return the GPUs on *host* in rank order."""
        return tuple(seat.gpu for seat in self.pool.seats if seat.host == host)


@dataclass(frozen=True, slots=True)
class WantedMap:
    """All pools of a map, what the map knows of its machine, and what it was planned for, if it was for a target."""

    pools: tuple[Pool, ...]
    uuids: Mapping[Seat, str]
    target: str | None = None

    def of_role(self, role: str | None, environment: Mapping[str, str]) -> Wanted:
        """
        Return the pool of *role*; where that is None, the pool that PLACEMENT_ROLES names, or the only one.

        Raises
        ------
        InputError
            If there is no such role, PLACEMENT_ROLES names roles of several pools, or nothing says which pool it is.
        """
        known = [name for pool in self.pools for name in pool.roles]
        told = environment.get(ROLES, "")
        names = [role] if role is not None else [name.strip() for name in told.split(",") if name.strip()]
        source = "" if role is not None else f"{ROLES}={told}: "
        for name in names:
            if name not in known:
                raise InputError(f"{source}the map has no role {name!r}{did_you_mean(name, known)}; it has {', '.join(known)}")
        found = list(dict.fromkeys(pool for pool in self.pools if set(names) & set(pool.roles))) if names else list(self.pools)
        if len(found) == 1:
            return Wanted(found[0], self.uuids)
        listed = " | ".join(", ".join(pool.roles) for pool in found)
        if names:
            raise InputError(f"{source}these roles do not share GPUs in the map ({listed}): a process is of one pool")
        raise InputError(
            f"the map has several pools ({listed}): say which one this process is of, by its role or by {ROLES} "
            "(launch scripts that `placement emit` wrote set it)"
        )


def read_wanted(source: str | os.PathLike[str] | Plan) -> WantedMap:
    """
    Return the pools of the map *source*: a file, or a plan.

    Raises
    ------
    InputError
        If it cannot be read, or is no device map.
    """
    if isinstance(source, Plan):
        groups = {role: tuple(_seat(entry) for entry in group) for role, group in source.device_map.items()}
        return _with_uuids(groups, {"inputs": source.inputs, "rules": source.rules})
    name = os.fspath(source)
    return parse_wanted(read_text(name, what="device map", most=MAX_BYTES, hint=": `placement plan -o FILE` writes one"), name=name)


def parse_wanted(text: str, *, name: str) -> WantedMap:
    """
    Return the pools of the map *text*, which is called *name* in messages.

    Raises
    ------
    InputError
        If it is no device map; the message has line and column.
    """
    document = strict_yaml.load(text, name=name)
    return _with_uuids(read_seats(document), document.data)


def _with_uuids(groups: Mapping[str, tuple[Seat, ...]], data: Any) -> WantedMap:
    names_hosts = any(seat.host is not None for group in groups.values() for seat in group)
    return WantedMap(pools(groups), by_seat(recorded_uuids(data, names_hosts=names_hosts)), planned_for(data))


def _seat(entry: int | str) -> Seat:
    if isinstance(entry, int):
        return Seat(None, entry)
    host, _, gpu = entry.rpartition(":")
    return Seat(host, int(gpu))
