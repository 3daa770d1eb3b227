"""
`placement verify`: whether the processes of a running job are where the map has them.

When to modify: another way to start jobs must be asked, or what the command prints.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from placement.cli import EXIT_NO
from placement.cli.say import note
from placement.errors import InputError
from placement.maps.variables import VISIBLE
from placement.text.output import write_stdout
from placement.text.text_files import name_of, read_source
from placement.verifying.compare import Verdict, compare, findings, map_host, taken_gpu
from placement.verifying.observed import Observed, driver_devices, observe
from placement.verifying.wanted import MAX_BYTES, Wanted, WantedMap, parse_wanted

RAY = "RAY_ADDRESS"


def run(source: str, *, role: str | None, host: str | None, time_limit_s: float) -> int:
    """Compare and return the exit code: the same on every rank of a job."""
    text = read_source(source, what="device map", most=MAX_BYTES, hint=": `placement plan -o FILE` writes one")
    wanted = parse_wanted(text, name=name_of(source))
    if "RANK" not in os.environ and os.environ.get(RAY):
        if host is not None:
            raise InputError(f"--host says which host of the map a process is on, and Ray ({RAY} is set) asks its nodes: leave it out")
        return _ray(wanted, role, os.environ[RAY], time_limit_s)
    chosen = wanted.of_role(role, os.environ)
    seen = observe(os.environ, host=host, devices=driver_devices())
    if seen.rank is None:
        return _alone(chosen, seen)
    return _ranks(chosen, seen, time_limit_s)


def _alone(wanted: Wanted, seen: Observed) -> int:
    found = findings(wanted, seen)
    lines = [_title(wanted), f"this process: {seen.host}", *(f"  {one}" for one in found), *([] if found else ["right"])]
    write_stdout("\n".join(lines) + "\n")
    return EXIT_NO if found else 0


def _ranks(wanted: Wanted, seen: Observed, time_limit_s: float) -> int:
    from placement.verifying.gather import Ranks

    ranks = Ranks(seen, time_limit_s)
    reported = ranks.report()
    verdict = None if reported is None else compare(wanted, reported)
    if verdict is not None:
        write_stdout("\n".join(_lines(verdict, f"within {time_limit_s:g} s")) + "\n")
    return 0 if ranks.agree(None if verdict is None else verdict.is_right) else EXIT_NO


def _ray(wanted: WantedMap, role: str | None, address: str, time_limit_s: float) -> int:
    from placement.verifying.ray_nodes import ask, compare_nodes

    verdict = compare_nodes(wanted, ask(address, time_limit_s), role)
    lines = ["nodes of Ray", *(f"  {one}" for one in verdict.nodes), *([] if verdict.nodes else ["right"])]
    if verdict.is_unheard:
        lines.append("no rank of the job was found, and ranks of this target tell where they are: does the job run?")
    for pool in verdict.pools:
        lines += ["", *_lines(pool, "by any worker of Ray")]
    write_stdout("\n".join(lines) + "\n")
    for idle in verdict.idle:
        roles = " and ".join(idle.roles)
        note(f"no worker of Ray says that it is a rank of {roles} (RANK, PLACEMENT_ROLES): its nodes alone were compared")
    return 0 if verdict.is_right else EXIT_NO


def _title(wanted: Wanted) -> str:
    hosts = [host for host in wanted.hosts if host is not None]
    place = f" on {', '.join(hosts)}" if hosts else ""
    count = len(wanted.pool.seats)
    return f"{', '.join(wanted.pool.roles)}: {count} GPU{'s'[: count != 1]}{place}"


def _lines(verdict: Verdict, how: str) -> Iterator[str]:
    yield _title(verdict.wanted)
    for rank, one in sorted(verdict.seen.items()):
        yield f"rank {rank}: {_place(verdict.wanted, one)}"
        for sentence in verdict.ranks[rank]:
            yield f"  {sentence}"
    for rank in verdict.missing:
        yield f"rank {rank}: not reported {how}"
    wrong = sum(1 for sentences in verdict.ranks.values() if sentences) + len(verdict.missing)
    yield "right" if verdict.is_right else f"{wrong} rank{'s'[: wrong != 1]} not as the map has {'it' if wrong == 1 else 'them'}"


def _place(wanted: Wanted, seen: Observed) -> str:
    host = map_host(seen.host, wanted.hosts)
    gpu = taken_gpu(wanted, seen, host)
    local = f", local rank {seen.local_rank}" if seen.local_rank is not None else ""
    if gpu is None:
        return f"{seen.host}{local}, GPU unknown"
    if seen.devices is None:
        return f"{seen.host}{local}, GPU {gpu} (no driver answers: by {VISIBLE} and its local rank)"
    device = seen.devices[gpu] if gpu < len(seen.devices) else None
    return f"{seen.host}{local}, GPU {gpu}" + (f" ({device.uuid}, {device.bus_id})" if device is not None else "")
