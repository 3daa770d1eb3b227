"""
Target ``env``: shell lines per pool, for launchers of one's own.

When to modify: what a process is told of its place changes.
"""

from __future__ import annotations

import re
import shlex

from placement.maps.variables import ROLES
from placement.targets.blocks import entries, scattered
from placement.targets.shell import host_file, visible
from placement.targets.start import Start
from placement.targets.target import Emitted, Entry, Files, Target

_HEAD = re.compile(r"# [a-z, ]+?(?: on (?P<host>\S+))?: local rank k is rank (?P<first>[0-9]+) \+ k,")


def _emit(start: Start, version: str) -> Emitted:
    files: dict[str, str] = {}
    for pool in start.pools:
        for host in dict.fromkeys(seat.host for seat in pool.seats):
            gpus = start.on_host(pool, host)
            first = pool.seats.index(next(seat for seat in pool.seats if seat.host == host))
            values = {
                **visible(gpus),
                ROLES: ",".join(pool.roles),
                "WORLD_SIZE": str(len(pool.seats)),
                "LOCAL_WORLD_SIZE": str(len(gpus)),
            }
            place = f" on {host}" if host is not None else ""
            lines = [f"# {', '.join(pool.roles)}{place}: local rank k is rank {first} + k, on the k-th GPU of CUDA_VISIBLE_DEVICES"]
            lines += [f"export {name}={shlex.quote(value)}" for name, value in values.items()]
            files[host_file("-".join(pool.roles), host, ".env")] = "\n".join(lines) + "\n"
    return Emitted(files, ("source a pool's file before its processes start; each process takes the GPU of its local rank",))


def read_back(files: Files) -> dict[str, tuple[Entry, ...]]:
    """Return role → GPUs from the files."""
    found: dict[str, dict[int, tuple[tuple[str | None, int], ...]]] = {}
    for text in files.values():
        head = _HEAD.match(text)
        assert head is not None
        values = dict(line.removeprefix("export ").split("=", 1) for line in text.splitlines() if line.startswith("export "))
        gpus = tuple((head["host"], int(gpu)) for gpu in shlex.split(values["CUDA_VISIBLE_DEVICES"])[0].split(","))
        for role in shlex.split(values[ROLES])[0].split(","):
            found.setdefault(role, {})[int(head["first"])] = gpus
    return entries({role: tuple(seat for first in sorted(parts) for seat in parts[first]) for role, parts in found.items()})


TARGET = Target(
    name="env",
    title="environment variables",
    pins="ids, by CUDA_VISIBLE_DEVICES",
    keeps="yes",
    writes={"POOL.env": "lines to source before the processes of a pool start"},
    parser="bash",
    cannot=("ranks of a pool that change between hosts and come back: a file tells the first rank of its host, and others follow",),
    emit=_emit,
    reads=read_back,
    refuses=scattered,
)
