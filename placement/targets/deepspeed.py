"""
Target ``deepspeed``: a hostfile, and ``--include`` per pool, for DeepSpeed's launcher.

The order of hosts in the hostfile is the order of ranks; ids after ``--include`` are a set, which it sorts. Each host starts its own
processes (``--no_ssh``), so that no variable has to travel.

When to modify: options of its launcher change, or it keeps the order of ids.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from placement.maps.seats import Pool
from placement.maps.variables import ROLES
from placement.targets.blocks import blocks, entries, scattered
from placement.targets.shell import HERE, ORDER, assignments, beside, command, host_file, side_by_side
from placement.targets.start import Start
from placement.targets.target import Emitted, Entry, Files, Target
from placement.targets.torchrun import FIRST_PORT

LOCAL = "localhost"
HOSTFILE = "hostfile"
_LAUNCH = re.compile(r"PLACEMENT_ROLES=(?P<roles>\S+) deepspeed .* --include (?P<include>\S+) ")


def _emit(start: Start, version: str) -> Emitted:
    files = {HOSTFILE: _hostfile(start)}
    for host in start.hosts:
        lines = [HERE]
        for k, pool in enumerate(start.pools):
            hosts = list(blocks(pool))
            if host not in hosts:
                continue
            values = {**ORDER, ROLES: ",".join(pool.roles)}
            words = ["deepspeed", "--hostfile", beside(HOSTFILE), "--include", _include(pool)]
            words += ["--no_ssh", "--node_rank", str(hosts.index(host))]
            words += ["--master_addr", hosts[0] or "127.0.0.1", "--master_port", str(FIRST_PORT + k), '"$@"']
            lines.append(f"{assignments(values)} {command(words)} &")
        name = host_file("launch", host, ".sh")
        comment = f"bash {name} train.py ARGS: starts the processes of {host or 'this host'}, and ends all when one pool fails."
        files[name] = side_by_side(comment, lines)
    return Emitted(
        files, (f"each pool is a `deepspeed` of its own (ports {FIRST_PORT} and up); PLACEMENT_ROLES tells a process its roles",)
    )


def _hostfile(start: Start) -> str:
    """Return the hosts in rank order; a slot for each GPU up to the last one that the map uses, or that the machine has."""
    lines = []
    for host in start.hosts:
        used = max(seat.gpu for pool in start.pools for seat in pool.seats if seat.host == host) + 1
        lines.append(f"{host or LOCAL} slots={max(used, start.sizes.get(host, 0))}\n")
    return "".join(lines)


def _include(pool: Pool) -> str:
    return "@".join(f"{host or LOCAL}:{','.join(map(str, gpus))}" for host, gpus in blocks(pool).items())


def _refuses(start: Start) -> Iterator[str]:
    yield from scattered(start)
    for pool in start.pools:
        first = 0
        for host, gpus in blocks(pool).items():
            if first % len(gpus):
                yield (
                    f"{' and '.join(pool.roles)} has {len(gpus)} GPUs on {host} after {first} on other hosts, and it takes a rank modulo "
                    "the host's number of GPUs for the local rank: ranks would get other GPUs than the map says"
                )
            first += len(gpus)


def read_back(files: Files) -> dict[str, tuple[Entry, ...]]:
    """Return role → GPUs from the launch scripts."""
    found: dict[str, tuple[tuple[str | None, int], ...]] = {}
    for name, text in files.items():
        for launch in _LAUNCH.finditer(text) if name.endswith(".sh") else ():
            seats: list[tuple[str | None, int]] = []
            for part in shlex.split(launch["include"])[0].split("@"):
                host, ids = part.split(":")
                seats += [(None if host == LOCAL and name == "launch.sh" else host, int(gpu)) for gpu in ids.split(",")]
            for role in launch["roles"].split(","):
                found[role] = tuple(seats)
    return entries(found)


TARGET = Target(
    name="deepspeed",
    title="DeepSpeed",
    versions=("0.19",),
    pins="ids, by --include",
    keeps="no: it sorts them, and plans for it have ascending ids",
    writes={HOSTFILE: "the hosts in rank order", "launch.sh": "one deepspeed per pool, for each host"},
    parser="deepspeed 0.19.8 (launcher.runner, launcher.launch)",
    cannot=(
        "ids that do not ascend, or hosts in another order from pool to pool: it sorts both, and ranks would get other GPUs",
        "hosts with unequal numbers of a pool's GPUs, where a rank modulo that number is not its local rank",
        "ranks of a pool that change between hosts and come back: each host gets consecutive ranks",
    ),
    emit=_emit,
    reads=read_back,
    refuses=_refuses,
)
