"""Device maps of any groups, for tests of what is written from a map (imported by name: pytest puts this folder on the path)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from placement.catalog import load_workload
from placement.text.strict_yaml import dump
from placement.workloads.workload_export import to_document

Groups = Mapping[str, Sequence[int | str]]

ROLES = ("actor", "rollout", "critic", "ref", "reward")

ONE_HOST: Groups = {"actor": [5, 2, 7, 0], "critic": [1, 3], "ref": [5, 2, 7, 0], "reward": [1, 3]}
"""Two pools on one host, in an order that nobody has by chance."""

TWO_HOSTS: Groups = {
    "actor": ["node1:0", "node1:2", "node0:4", "node0:6"],
    "rollout": ["node0:1", "node1:1"],
    "ref": ["node1:0", "node1:2", "node0:4", "node0:6"],
    "reward": ["node0:0"],
}
"""Three pools on two hosts, of which the first in rank order is the second by name."""


def uuid(host: str | None, gpu: int) -> str:
    """Return a UUID that tells its place: ``GPU-00000001-…-000000000007`` is GPU 7 of node0."""
    number = 0 if host is None else 1 + int(host.removeprefix("node"))
    return f"GPU-{number:08x}-0000-0000-0000-{gpu:012x}"


@functools.cache
def _job(*, apart: bool) -> dict[str, Any]:
    """Return a job; *apart*: its rollout is a role of its own."""
    job = to_document(load_workload("ppo-7b"))
    if apart:
        menu = job["roles"]["actor"].pop("rollout")
        job["roles"]["rollout"] = {"model": job["roles"]["actor"]["model"], **{key: menu[key] for key in ("engine", "tp")}}
    return job


def map_text(groups: Groups, *, sizes: Mapping[str | None, int] | None = None) -> str:
    """
    Return a device map with *groups*; roles are data parallel.

    Parameters
    ----------
    sizes
        How many GPUs each host has: then the map knows their UUIDs.
    """
    roles = {}
    for role, seats in groups.items():
        layout = {"tp": 1, "pp": 1, "dp": len(seats)}
        roles[role] = {"model": "Qwen/Qwen2.5-7B", "engine": "vllm" if role == "rollout" else "fsdp", "precision": "bf16", "layout": layout}
        if role == ("rollout" if "rollout" in groups else "actor"):
            engines = {"engine": "vllm", "tp": 1, "replicas": len(seats), "gpu_memory_utilization": 0.4, "max_num_seqs": 256}
            roles[role]["rollout"] = engines
        if role in ("actor", "critic"):
            roles[role]["train"] = {"master": "fp32", "offload": "none", "micro_batch_tokens": 8192}
    inputs: dict[str, object] = {"workload": _job(apart="rollout" in groups)}
    if sizes is not None:
        places = [(host, gpu) for host, size in sizes.items() for gpu in range(size)]
        gpus = [{"index": k, "host": host, "uuid": uuid(host, gpu)} for k, (host, gpu) in enumerate(places)]
        inputs["topology"] = {"schema": "placement/topology/v1", "gpus": gpus}
    document = {
        "schema": "placement/device-map/v1",
        "device_map": {role: list(seats) for role, seats in groups.items()},
        "roles": roles,
        "memory_mib": [{"gpu": seat, "capacity": 81152} for seat in dict.fromkeys(seat for group in groups.values() for seat in group)],
        "inputs": inputs,
    }
    return dump(document)


@st.composite
def any_groups(draw: st.DrawFn) -> Groups:
    """Draw pools that share nothing, on one host or several; ranks are drawn in any order, by blocks of hosts, or ascending."""
    hosts = draw(st.sampled_from([(None,), ("node0",), ("node0", "node1"), ("node2", "node10", "node0")]))
    seats = [(host, gpu) for host in hosts for gpu in range(draw(st.integers(1, 12)))]
    order = draw(st.sampled_from(["any", "blocks", "ascending"]))
    mixed = draw(st.permutations(seats))
    roles = draw(st.permutations(ROLES))[: draw(st.integers(1, len(ROLES)))]
    count = draw(st.integers(1, min(len(roles), len(seats))))
    groups: dict[str, Sequence[int | str]] = {}
    for k in range(count):
        group = mixed[k::count]
        if order != "any":
            group = sorted(group, key=lambda seat: hosts.index(seat[0]))
        if order == "ascending":
            group = sorted(group, key=lambda seat: (hosts.index(seat[0]), seat[1]))
        for role in roles[k::count]:
            groups[role] = [gpu if host is None else f"{host}:{gpu}" for host, gpu in group]
    return groups
