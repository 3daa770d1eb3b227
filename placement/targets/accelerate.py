"""
Target ``accelerate``: a configuration file per pool and host for ``accelerate launch`` of Hugging Face.

Its `gpu_ids` become CUDA_VISIBLE_DEVICES in the order given, and its launcher is torchrun's: local rank k is the k-th of them. It starts
num_processes / num_machines processes on each machine, whatever the number of gpu_ids.

When to modify: a release of accelerate renames keys (it refuses those that it does not know).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement.maps.seats import Pool
from placement.maps.variables import ROLES
from placement.plans import RolePlan
from placement.targets.blocks import blocks, entries, scattered, stem, uneven
from placement.targets.shell import HERE, ORDER, assignments, beside, command, host_file, side_by_side
from placement.targets.start import Start
from placement.targets.target import Emitted, Entry, Files, Target
from placement.targets.torchrun import FIRST_PORT
from placement.text import strict_yaml, yaml_writer


def _emit(start: Start, version: str) -> Emitted:
    files: dict[str, str] = {}
    for host in start.hosts:
        lines = [HERE]
        for k, pool in enumerate(start.pools):
            if host not in blocks(pool):
                continue
            name = host_file(stem(pool), host, ".yaml")
            files[name] = f"# {', '.join(pool.roles)}\n" + yaml_writer.dump(_config(start, pool, host, FIRST_PORT + k))
            values = {**ORDER, ROLES: ",".join(pool.roles)}
            words = ["accelerate", "launch", "--config_file", beside(name), '"$@"']
            lines.append(f"{assignments(values)} {command(words)} &")
        name = host_file("launch", host, ".sh")
        comment = f"bash {name} train.py ARGS: starts the processes of {host or 'this host'}, and ends all when one pool fails."
        files[name] = side_by_side(comment, lines)
    return Emitted(
        files,
        (
            f"each pool is an `accelerate launch` of its own (ports {FIRST_PORT} and up); PLACEMENT_ROLES tells a process its roles",
            "FSDP and DeepSpeed are not configured: it is plain data parallel until a fsdp_config or deepspeed_config is added",
        ),
    )


def _config(start: Start, pool: Pool, host: str | None, port: int) -> dict[str, Any]:
    hosts = blocks(pool)
    several = len(pool.seats) > 1
    config: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "MULTI_GPU" if several else "NO",
        "num_machines": len(hosts),
        "num_processes": len(pool.seats),
        "machine_rank": list(hosts).index(host),
        "gpu_ids": ",".join(map(str, hosts[host])),
        "main_process_port": port,
        "mixed_precision": _mixed_precision([start.roles[role] for role in pool.roles]),
    }
    if len(hosts) > 1:
        config["main_process_ip"] = next(iter(hosts))
    return config


def _mixed_precision(roles: list[RolePlan]) -> str:
    """Return the precision in which a role of fp32 weights computes; ``no`` where none trains so: weights then have their own."""
    found = {role.precision for role in roles if role.train is not None and role.train.master == "fp32"}
    return found.pop() if len(found) == 1 else "no"


def _refuses(start: Start) -> Iterator[str]:
    yield from scattered(start)
    yield from uneven(start, "it gives each host num_processes / num_machines processes")


def read_back(files: Files) -> dict[str, tuple[Entry, ...]]:
    """Return role → GPUs from the configuration files."""
    found: dict[str, list[tuple[int, str | None, list[int]]]] = {}
    for name, text in files.items():
        if not name.endswith(".yaml"):
            continue
        roles = text.splitlines()[0].removeprefix("# ").split(", ")
        config = strict_yaml.load(text, name=name).data
        host = name.removeprefix("-".join(roles)).removesuffix(".yaml")[1:] or None
        ids = [int(gpu) for gpu in str(config["gpu_ids"]).split(",")]
        for role in roles:
            found.setdefault(role, []).append((config["machine_rank"], host, ids))
    parts = {role: sorted(of_hosts, key=lambda part: part[0]) for role, of_hosts in found.items()}
    return entries({role: tuple((host, gpu) for _, host, ids in of_hosts for gpu in ids) for role, of_hosts in parts.items()})


TARGET = Target(
    name="accelerate",
    title="Hugging Face accelerate",
    versions=("1.15",),
    pins="ids, by gpu_ids",
    keeps="yes",
    writes={
        "POOL.yaml": "the configuration of a pool's launcher, for each host",
        "launch.sh": "one accelerate launch per pool, for each host",
    },
    parser="accelerate 1.15.0 (ClusterConfig, launch)",
    cannot=(
        "unequal numbers of a pool's GPUs on its hosts: each host gets num_processes / num_machines processes",
        "ranks of a pool that change between hosts and come back: each host gets consecutive ranks",
    ),
    emit=_emit,
    reads=read_back,
    refuses=_refuses,
)
