"""
Target ``ray``: nodes started with their GPUs in the order of the map, and a placement group per pool with a bundle per host.

Ray keeps the order of a node's CUDA_VISIBLE_DEVICES when it hands out single GPUs, but does not promise it, and gives an actor of several
GPUs an order of its own. So a group reserves GPUs by number on the hosts of its pool, which a label names, and each rank is told its
GPU by the environment of its process (num_gpus=0): that holds always.

When to modify: Ray names labels, selectors or the variables of its workers otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from placement.maps.seats import Pool
from placement.targets.blocks import blocks, entries, overlapping
from placement.targets.shell import assignments, command, host_file, script, visible
from placement.targets.start import Start
from placement.targets.target import Emitted, Entry, Files, Target

SCHEMA = "placement/ray-groups/v1"
LABEL = "placement.host"
"""The label by which a node of Ray is the host of the map."""

ONLY_HOST = "host"
"""Its value where the map is of one host and names none."""

PORT = 6379
"""Ray's own default."""


def _emit(start: Start, version: str) -> Emitted:
    files: dict[str, str] = {}
    for host in start.hosts:
        words = ["ray", "start", *_which(start, host), f"--num-gpus={len(start.visible(host))}", f"--labels={LABEL}={host or ONLY_HOST}"]
        name = host_file("ray", host, ".sh")
        comment = f"bash {name}: starts the node of Ray on {host or 'this host'}, with its GPUs in the order of the map."
        files[name] = script(comment, [f"{assignments(visible(start.visible(host)))} {command(words)}"])
    files["groups.json"] = _document(start)
    files["groups.py"] = GROUPS
    notes = [
        "`made = groups.create()` reserves the GPUs, and `Actor.options(**groups.options(made, ROLE, RANK)).remote()` is a rank"
    ]
    if len(start.hosts) > 1:
        notes.append(f"start ray-{start.hosts[0]}.sh first: it is the head")
    return Emitted(files, tuple(notes))


def _which(start: Start, host: str | None) -> list[str]:
    """Return what makes the first host the head, and the others join it."""
    first = start.hosts[0]
    return ["--head", f"--port={PORT}"] if host == first else [f"--address={first}:{PORT}"]


def _document(start: Start) -> str:
    """Return the groups as JSON, bundles and ranks in lines of their own."""
    lines = [f'{{"schema": {json.dumps(SCHEMA)}, "label": {json.dumps(LABEL)}, "groups": [']
    for pool in start.pools:
        comma = "," if pool != start.pools[-1] else ""
        parts = [f'"{key}": {json.dumps(value)}' for key, value in _group(pool).items()]
        lines.append("  {" + ",\n   ".join(parts) + "}" + comma)
    return "\n".join([*lines, "]}"]) + "\n"


def _group(pool: Pool) -> dict[str, Any]:
    hosts = blocks(pool)
    order = list(hosts)
    return {
        "roles": list(pool.roles),
        "bundles": [{"host": host or ONLY_HOST, "GPU": len(gpus)} for host, gpus in hosts.items()],
        "ranks": [{"bundle": order.index(seat.host), "gpu": seat.gpu} for seat in pool.seats],
    }


def _refuses(start: Start) -> Iterator[str]:
    yield from overlapping(start, "Ray gives a GPU to one placement group: the second would wait for ever")


def read_back(files: Files) -> dict[str, tuple[Entry, ...]]:
    """Return role → GPUs from the groups."""
    found: dict[str, tuple[tuple[str | None, int], ...]] = {}
    for group in json.loads(files["groups.json"])["groups"]:
        hosts = [bundle["host"] for bundle in group["bundles"]]
        named = [None if f"ray-{host}.sh" not in files else host for host in hosts]
        for role in group["roles"]:
            found[role] = tuple((named[rank["bundle"]], rank["gpu"]) for rank in group["ranks"])
    return entries(found)


GROUPS = '''\
"""Placement groups of a device map: `create` reserves the GPUs of all pools, `options` makes an actor a rank of a role."""

import json
import pathlib

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

MAP = json.loads(pathlib.Path(__file__).with_name("groups.json").read_text(encoding="utf-8"))


def create(timeout_s=60):
    """Return the placement group of each role, when all GPUs are reserved."""
    made = {}
    for group in MAP["groups"]:
        found = placement_group(
            [{"GPU": bundle["GPU"]} for bundle in group["bundles"]],
            bundle_label_selector=[{MAP["label"]: bundle["host"]} for bundle in group["bundles"]],
        )
        made |= dict.fromkeys(group["roles"], found)
        if not found.wait(timeout_s):
            for one in set(made.values()):
                remove_placement_group(one)
            wanted = ", ".join(f"{bundle['GPU']} GPUs of {MAP['label']}={bundle['host']}" for bundle in group["bundles"])
            raise RuntimeError(f"{' and '.join(group['roles'])}: no node of this Ray cluster has free {wanted}")
    return made


def ranks(role):
    """Return how many ranks the role has."""
    return len(_group(role)["ranks"])


def options(made, role, rank):
    """Return options of the actor that is this rank: it sees its GPU alone, as cuda:0."""
    group = _group(role)
    seat = group["ranks"][rank]
    env = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": str(seat["gpu"]),
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # older releases of Ray hide all GPUs of an actor that asks for none
        "PLACEMENT_ROLES": ",".join(group["roles"]),
        "RANK": str(rank),
        "WORLD_SIZE": str(len(group["ranks"])),
    }
    where = PlacementGroupSchedulingStrategy(made[role], placement_group_bundle_index=seat["bundle"])
    return {"num_cpus": 0, "num_gpus": 0, "scheduling_strategy": where, "runtime_env": {"env_vars": env}}


def _group(role):
    for group in MAP["groups"]:
        if role in group["roles"]:
            return group
    raise KeyError(f"the map has no role {role!r}")
'''
"""The file that makes the groups, the same for every map."""


TARGET = Target(
    name="ray",
    title="Ray placement groups",
    versions=("2.60",),
    pins="hosts by label, ids by CUDA_VISIBLE_DEVICES of each rank",
    keeps="yes",
    writes={
        "ray.sh": "`ray start` with the GPUs in the order of the map, for each host",
        "groups.json": "bundles and ranks",
        "groups.py": "makes the groups, and actors that are ranks",
    },
    parser="Ray 2.60.0 (a running cluster)",
    cannot=("pools that share some of their GPUs: Ray gives a GPU to one placement group, and the second waits for ever",),
    emit=_emit,
    reads=read_back,
    refuses=_refuses,
)
