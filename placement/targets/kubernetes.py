"""
Target ``kubernetes``: a pod for each pool and host, with a ResourceClaim (dynamic resource allocation) for its GPUs.

The driver of NVIDIA publishes the UUID of each GPU, and a request selects one by it: ids of a map alone say nothing to Kubernetes. Inside
the container CUDA counts what the claim gave in PCI order, so that CUDA_VISIBLE_DEVICES names UUIDs in rank order. Where the map knows no
UUIDs, a claim asks for a number of GPUs, and nobody can choose which.

When to modify: resource.k8s.io gets another version, or NVIDIA's driver names its class or attributes otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from placement.maps.seats import Pool, Seat
from placement.maps.variables import ROLES
from placement.targets.blocks import blocks, overlapping, scattered, stem
from placement.targets.shell import ORDER, host_file
from placement.targets.start import Gpus, Start
from placement.targets.target import Emitted, Files, Target
from placement.targets.torchrun import FIRST_PORT
from placement.text import strict_yaml, yaml_writer

DEVICE_CLASS = "gpu.nvidia.com"
IMAGE = "IMAGE"
"""Stands where whoever starts the pods puts the image of the job."""

SCRIPT = "train.py"

_UUID = re.compile(r"GPU-[0-9a-fA-F-]{36}")


def _emit(start: Start, version: str) -> Emitted:
    files: dict[str, str] = {}
    for k, pool in enumerate(start.pools):
        for host, gpus in blocks(pool).items():
            name = host_file(stem(pool), host, ".yaml")
            items = [_claim(start, pool, host, gpus), _pod(start, pool, host, gpus, FIRST_PORT + k)]
            place = f" on {host}" if host is not None else ""
            said = f"# {', '.join(pool.roles)}{place}: kubectl apply -f {name}, once {IMAGE} is the job's image and {SCRIPT} its script\n"
            files[name] = said + yaml_writer.dump({"apiVersion": "v1", "kind": "List", "items": items})
    notes = [f"put the job's image in place of {IMAGE}, and its script in place of {SCRIPT}"]
    if not _knows_uuids(start):
        notes.insert(
            0,
            "the map knows no UUIDs, and Kubernetes knows GPUs by nothing else: claims ask for numbers of GPUs, and which ones a pod "
            "gets, and in which order, is not what the map says; plan from a topology with UUIDs (live, or `nvidia-smi -L`)",
        )
    return Emitted(files, tuple(notes))


def _knows_uuids(start: Start) -> bool:
    return all(_UUID.fullmatch(start.uuids.get(seat, "")) for pool in start.pools for seat in pool.seats)


def _name(pool: Pool, host: str | None) -> str:
    """Return the name of the pod: ``actor-ref-0`` is that of the first host of the pool."""
    return f"{stem(pool)}-{list(blocks(pool)).index(host)}"


def _claim(start: Start, pool: Pool, host: str | None, gpus: Gpus) -> dict[str, Any]:
    if _knows_uuids(start):
        requests = [
            {
                "name": f"gpu-{k}",
                "exactly": {
                    "deviceClassName": DEVICE_CLASS,
                    "selectors": [
                        {"cel": {"expression": f"device.attributes['{DEVICE_CLASS}'].uuid == '{start.uuids[Seat(host, gpu)]}'"}}
                    ],
                },
            }
            for k, gpu in enumerate(gpus)
        ]
    else:
        requests = [{"name": "gpus", "exactly": {"deviceClassName": DEVICE_CLASS, "count": len(gpus)}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": _name(pool, host)},
        "spec": {"devices": {"requests": requests}},
    }


def _pod(start: Start, pool: Pool, host: str | None, gpus: Gpus, port: int) -> dict[str, Any]:
    hosts = list(blocks(pool))
    env = {**ORDER, ROLES: ",".join(pool.roles)}
    if _knows_uuids(start):
        env["CUDA_VISIBLE_DEVICES"] = ",".join(start.uuids[Seat(host, gpu)] for gpu in gpus)
    if host is not None:
        env["PLACEMENT_HOST"] = host
    command = ["torchrun", f"--nnodes={len(hosts)}", f"--node-rank={hosts.index(host)}", f"--nproc-per-node={len(gpus)}"]
    command += [f"--master-addr={hosts[0] or '127.0.0.1'}", f"--master-port={port}", SCRIPT]
    container = {
        "name": "job",
        "image": IMAGE,
        "command": command,
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "resources": {"claims": [{"name": "gpus"}]},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],    # noqa: S108 - the container's
    }
    spec: dict[str, Any] = {"restartPolicy": "Never"}
    if host is not None:
        spec["nodeSelector"] = {"kubernetes.io/hostname": host}
    if len(hosts) > 1:
        spec["hostNetwork"] = True
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    spec["containers"] = [container]
    spec["resourceClaims"] = [{"name": "gpus", "resourceClaimName": _name(pool, host)}]
    spec["volumes"] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": _name(pool, host)}, "spec": spec}


def _refuses(start: Start) -> Iterator[str]:
    yield from scattered(start)
    yield from overlapping(start, "Kubernetes gives a GPU to one claim: the second pod would never start")
    if not _knows_uuids(start):
        return
    known = {start.uuids[seat] for pool in start.pools for seat in pool.seats}
    if len(known) < len({seat for pool in start.pools for seat in pool.seats}):
        yield "the machine states a UUID twice"


def read_uuids(files: Files) -> dict[str, tuple[str, ...]]:
    """Return role → UUIDs in rank order; nothing where the files ask for numbers of GPUs."""
    parts: dict[str, dict[int, tuple[str, ...]]] = {}
    for name, text in files.items():
        claim, pod = strict_yaml.load(text, name=name).data["items"]
        env = {entry["name"]: entry["value"] for entry in pod["spec"]["containers"][0]["env"]}
        if "CUDA_VISIBLE_DEVICES" not in env:
            continue
        uuids = tuple(env["CUDA_VISIBLE_DEVICES"].split(","))
        selected = [request["exactly"]["selectors"][0]["cel"]["expression"] for request in claim["spec"]["devices"]["requests"]]
        assert [uuid in expression for uuid, expression in zip(uuids, selected, strict=True)] == [True] * len(uuids)
        for role in env[ROLES].split(","):
            parts.setdefault(role, {})[int(pod["metadata"]["name"].rpartition("-")[2])] = uuids
    return {role: tuple(uuid for k in sorted(found) for uuid in found[k]) for role, found in parts.items()}


TARGET = Target(
    name="kubernetes",
    title="Kubernetes with dynamic resource allocation",
    versions=("1.34",),
    pins="hosts by label, GPUs by UUID where the map knows UUIDs; else numbers only",
    keeps="yes, where the map knows UUIDs; else no",
    writes={"POOL.yaml": "a ResourceClaim and a pod, for each host"},
    parser="kubernetes-validate 1.37.0 (the API's own schemas, to which a selector is text)",
    cannot=(
        "ids without UUIDs: a claim then asks for a number of GPUs, and which ones a pod gets is not what the map says",
        "pools that share some of their GPUs: a GPU is of one claim, and the second pod never starts",
        "ranks of a pool that change between hosts and come back: each pod gets consecutive ranks",
    ),
    emit=_emit,
    refuses=_refuses,
)
