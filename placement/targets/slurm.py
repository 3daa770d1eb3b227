"""
Target ``slurm``: one batch job for ``sbatch``, with a step for each pool.

One job, because two jobs cannot both have a node for themselves, and only who has all GPUs of a node knows them by their ids. A step
names the host of each task (``--distribution=arbitrary`` keeps their order; a list of nodes is sorted by Slurm), and task k of a host is
bound to the k-th entry of its map. The map is one for all hosts of a step. Slurm 26.11 calls it ``map:``, which 22.05 refuses; both take
``map_gpu:``.

When to modify: options of ``srun`` change.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from placement.maps.seats import Pool
from placement.maps.variables import ROLES
from placement.targets.blocks import blocks, entries
from placement.targets.shell import ORDER, assignments, side_by_side
from placement.targets.start import Gpus, Start
from placement.targets.target import Emitted, Entry, Files, Target
from placement.targets.torchrun import FIRST_PORT

JOB = "job.sbatch"
SHARING = "--gres-flags=allow-task-sharing"
"""Without it a task that is bound to its GPU cannot reach those of its neighbours, and NCCL fails on hosts that constrain devices."""

_PROBE = (
    "sharing=",
    f"if srun {SHARING} --version > /dev/null 2>&1; then sharing={SHARING}; else",
    f'  echo "this Slurm has no {SHARING}: where it constrains devices, NCCL cannot reach the GPUs of other tasks" >&2',
    "fi",
)
"""Releases that do not know it (22.05) refuse the whole step."""

TASK = 'export RANK="$SLURM_PROCID" WORLD_SIZE="$SLURM_NTASKS" LOCAL_RANK=0; exec "$@"'
"""A task sees its GPU alone, as cuda:0."""

_STEP = re.compile(r"PLACEMENT_ROLES=(?P<roles>\S+) .* --gpu-bind=map_gpu:(?P<map>[0-9,]+) ")


def _emit(start: Start, version: str) -> Emitted:
    hosts = [host for host in start.hosts if host is not None]
    gpus = max(_gpus(start, host) for host in start.hosts)
    head = [
        f"#SBATCH --nodes={len(start.hosts)}",
        *([f"#SBATCH --nodelist={','.join(hosts)}"] if hosts else []),
        "#SBATCH --exclusive",
        f"#SBATCH --gpus-per-node={gpus}",
    ]
    lines = list(_PROBE)
    for k, pool in enumerate(start.pools):
        lines += _step(pool, k, gpus)
    comment = f"sbatch {JOB} COMMAND ARGS: starts COMMAND once for each rank of each pool, and ends all when one pool fails."
    text = side_by_side(comment, lines)
    first, _, rest = text.partition("\nset -euo pipefail\n")
    files = {JOB: "\n".join([first, *head, "set -euo pipefail", rest])}
    return Emitted(
        files,
        (
            f"ids are those of whole nodes: {gpus} GPUs of each are asked for, and the node for this job alone",
            "each task sees its own GPU alone, as cuda:0; RANK, WORLD_SIZE, MASTER_ADDR and PLACEMENT_ROLES tell it its place",
        ),
    )


def _gpus(start: Start, host: str | None) -> int:
    """Return how many GPUs *host* has; as many as the map needs where nothing tells."""
    return max(start.sizes.get(host, 0), max(seat.gpu for pool in start.pools for seat in pool.seats if seat.host == host) + 1)


def _step(pool: Pool, number: int, gpus: int) -> Iterator[str]:
    hosts = blocks(pool)
    named = [seat.host for seat in pool.seats if seat.host is not None]
    values = {**ORDER, ROLES: ",".join(pool.roles), "MASTER_PORT": str(FIRST_PORT + number)}
    words = ["srun", "--overlap", f"--nodes={len(hosts)}", f"--ntasks={len(pool.seats)}", f"--gpus-per-node={gpus}"]
    words.append(f"--gpu-bind=map_gpu:{','.join(map(str, _map(pool)))}")
    yield f"# {', '.join(pool.roles)}"
    if named:
        values = {"SLURM_HOSTFILE": f"$hosts{number}", "MASTER_ADDR": named[0], **values}
        words.append("--distribution=arbitrary")
        yield f"hosts{number}=$(mktemp)"
        yield f'printf \'%s\\n\' {" ".join(map(shlex.quote, named))} > "$hosts{number}"'
    else:
        values = {"MASTER_ADDR": "127.0.0.1", **values}
    told = assignments(values).replace(f"'$hosts{number}'", f'"$hosts{number}"')
    yield f"{told} {shlex.join(words)} $sharing bash -c {shlex.quote(TASK)} task \"$@\" &"


def _map(pool: Pool) -> Gpus:
    """Return the longest list of a host; the others are its beginnings, else `_refuses` speaks."""
    return max(blocks(pool).values(), key=len)


def _refuses(start: Start) -> Iterator[str]:
    for pool in start.pools:
        longest = _map(pool)
        for host, gpus in blocks(pool).items():
            if gpus != longest[: len(gpus)]:
                yield (
                    f"{' and '.join(pool.roles)} runs on GPUs {', '.join(map(str, gpus))} of {host}, and on {', '.join(map(str, longest))} "
                    "of another host: --gpu-bind has one map for all nodes of a step, and ranks would get the GPUs of that one"
                )


def read_back(files: Files) -> dict[str, tuple[Entry, ...]]:
    """Return role → GPUs from the steps of the job."""
    found: dict[str, tuple[tuple[str | None, int], ...]] = {}
    hosts: list[str] = []
    for line in files[JOB].splitlines():
        if line.startswith("printf "):
            hosts = shlex.split(line)[2:-2]
        step = _STEP.search(line)
        if step is None:
            continue
        gpus = [int(gpu) for gpu in step["map"].split(",")]
        seats = [(host, gpus[hosts[:k].count(host)]) for k, host in enumerate(hosts)] if hosts else [(None, gpu) for gpu in gpus]
        for role in step["roles"].split(","):
            found[role] = tuple(seats)
    return entries(found)


TARGET = Target(
    name="slurm",
    title="Slurm",
    pins="hosts by --nodelist, ids by --gpu-bind=map_gpu",
    keeps="yes",
    writes={JOB: "a batch job with a step for each pool"},
    cannot=(
        "a pool whose hosts have different GPUs, or the same in another order: a step has one map for all its nodes",
        "jobs that share a node: ids are those of a whole node, so all pools are steps of one job that has it alone",
    ),
    emit=_emit,
    reads=read_back,
    refuses=_refuses,
)
