"""
Target ``torchrun``: one command per pool and host, and the rank table.

``torchrun`` gives local rank k to the k-th process of a host, and a script takes GPU ``LOCAL_RANK`` of those that it sees: so the order of
CUDA_VISIBLE_DEVICES is the rank order.

When to modify: torchrun's flags change.
"""

from __future__ import annotations

from placement.maps.variables import ROLES
from placement.targets.blocks import entries, scattered
from placement.targets.shell import assignments, command, host_file, side_by_side, visible
from placement.targets.start import Start
from placement.targets.target import Emitted, Entry, Files, Target

FIRST_PORT = 29500
"""torchrun's own default; each pool takes the next."""


def _emit(start: Start, version: str) -> Emitted:
    files: dict[str, str] = {}
    for host in start.hosts:
        lines: list[str] = []
        for k, pool in enumerate(start.pools):
            gpus = start.on_host(pool, host)
            hosts = list(dict.fromkeys(seat.host for seat in pool.seats))
            if not gpus:
                continue
            words = [
                "torchrun",
                f"--nnodes={len(hosts)}",
                f"--node-rank={hosts.index(host)}",
                f"--nproc-per-node={len(gpus)}",
                f"--master-addr={hosts[0] or '127.0.0.1'}",
                f"--master-port={FIRST_PORT + k}",
                '"$@"',
            ]
            values = {**visible(gpus), ROLES: ",".join(pool.roles)}
            lines.append(f"{assignments(values)} {command(words)} &")
        name = host_file("launch", host, ".sh")
        comment = f"bash {name} train.py ARGS: starts the processes of {host or 'this host'}, and ends all when one pool fails."
        files[name] = side_by_side(comment, lines)
    files["ranks.tsv"] = rank_table(start)
    return Emitted(files, (f"each pool is a torchrun of its own (ports {FIRST_PORT} and up); PLACEMENT_ROLES tells a process its roles",))


def rank_table(start: Start) -> str:
    """Return a line for each rank: roles, rank, host, local rank, GPU."""
    rows = ["roles\trank\thost\tlocal_rank\tgpu"]
    for pool in start.pools:
        for rank, seat in enumerate(pool.seats):
            local = start.on_host(pool, seat.host).index(seat.gpu)
            rows.append(f"{','.join(pool.roles)}\t{rank}\t{seat.host or '-'}\t{local}\t{seat.gpu}")
    return "\n".join(rows) + "\n"


def read_back(files: Files) -> dict[str, tuple[Entry, ...]]:
    """Return role → GPUs from the rank table."""
    found: dict[str, tuple[tuple[str | None, int], ...]] = {}
    for line in files["ranks.tsv"].splitlines()[1:]:
        roles, _, host, _, gpu = line.split("\t")
        for role in roles.split(","):
            found[role] = (*found.get(role, ()), (None if host == "-" else host, int(gpu)))
    return entries(found)


TARGET = Target(
    name="torchrun",
    title="torchrun",
    pins="ids, by CUDA_VISIBLE_DEVICES",
    keeps="yes",
    writes={"launch.sh": "one torchrun per pool, for each host", "ranks.tsv": "who is which rank on which GPU"},
    parser="torchrun of torch 2.13.0",
    cannot=("ranks of a pool that change between hosts and come back: each host gets consecutive ranks",),
    emit=_emit,
    reads=read_back,
    refuses=scattered,
)
