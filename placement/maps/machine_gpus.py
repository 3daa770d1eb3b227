"""
What a device map records of the GPUs of its machine: UUIDs by host.

When to modify: the document of a machine names its GPUs otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from placement.maps.seats import Seat


def recorded_uuids(data: Any, *, names_hosts: bool) -> Mapping[str | None, Sequence[str | None]]:
    """
    Return the UUIDs of each host's GPUs, in the order of their ids; None for those of which the source told none.

    Parameters
    ----------
    data
        A device map as plain data; of its keys ``inputs.topology.gpus`` alone is looked at. Nothing is returned where it is not there.
    names_hosts
        Whether entries of the map name hosts: a map of one host does not, although its machine may.
    """
    for key in ("inputs", "topology", "gpus"):
        data = data.get(key) if isinstance(data, Mapping) else None
    found: dict[str | None, list[str | None]] = {}
    for row in data if isinstance(data, list) else ():
        if not isinstance(row, Mapping):
            return {}
        host, uuid = row.get("host"), row.get("uuid")
        found.setdefault(host if names_hosts and isinstance(host, str) else None, []).append(uuid if isinstance(uuid, str) else None)
    return found


def by_seat(uuids: Mapping[str | None, Sequence[str | None]]) -> Mapping[Seat, str]:
    """Return the UUIDs that are known, by host and id."""
    return {Seat(host, k): uuid for host, found in uuids.items() for k, uuid in enumerate(found) if uuid is not None}
