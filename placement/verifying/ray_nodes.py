"""
What the nodes of a running Ray cluster, and the workers on them, see.

Nothing of the job has to cooperate: a task on each node reads with which environment the node and its workers were started. A worker says
by RANK and PLACEMENT_ROLES which rank it is: actors that `groups.py` of target ``ray`` makes, and workers of verl's trainer mode
``placed``, are told both. Which GPU Ray gave a worker its node tells: the environment with which the process was started does not.

When to modify: Ray starts its workers otherwise, or a target names nodes by another label.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from placement.errors import InputError
from placement.machines.ray_probe import refuse_deaf, token_hint
from placement.maps.seats import Pool
from placement.maps.variables import HOST, NOSET, ORDER, ROLES, VISIBLE
from placement.verifying.compare import Verdict, compare, map_host
from placement.verifying.observed import Device, Observed, bus_key, observe
from placement.verifying.wanted import Wanted, WantedMap

ORDERED = (None, "ray")
"""Targets whose pools are created in the order of the roles; of others, which have orders of their own, the set of GPUs is compared."""

TELLING = ("ray", "verl")
"""Targets whose ranks say which they are."""

LABEL = "placement.host"
"""The label by which a node is a host of the map (`placement.targets.ray` starts nodes with it)."""

ONLY_HOST = "host"
"""Its value where the map names no host."""


_GPUS = re.compile(r"GPU(_group_.*)?")
"""Resources of Ray that are GPUs: of the node, or of a placement group on it."""

Slots = Mapping[int, tuple[int, ...]]
"""Process id → places in the node's list of GPUs."""


@dataclass(frozen=True, slots=True)
class Node:
    """
    A node of the cluster.

    Parameters
    ----------
    names
        What it may be called in a map: its label, its name in Ray, its host's name.
    gpus
        How many GPUs Ray hands out there.
    environment
        With which the node was started.
    workers
        The environments of its workers that say which rank they are, with the GPUs that Ray gave them.
    devices
        What the driver lists, where one answers.
    """

    names: tuple[str, ...]
    gpus: int
    environment: Mapping[str, str]
    workers: tuple[Mapping[str, str], ...]
    devices: tuple[Device, ...] | None


def ask(address: str, time_limit_s: float) -> tuple[Node, ...]:
    """
    Return the nodes of the cluster at *address* that offer GPUs.

    Raises
    ------
    InputError
        If Ray is not installed, no cluster answers, or a node does not answer in time.
    """
    try:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
    except ImportError:
        raise InputError("RAY_ADDRESS is set, and asking Ray needs it installed: pip install 'gpu-placement[ray]'") from None
    refuse_deaf(address, "RAY_ADDRESS")
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", configure_logging=False)
    except (Exception, SystemExit) as error:  # Ray raises many kinds, some of them plain
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"RAY_ADDRESS: no Ray cluster answers at {address} ({reason}){token_hint()}") from None
    try:
        nodes = [node for node in ray.nodes() if node.get("Alive") and node.get("Resources", {}).get("GPU", 0) > 0]
        task = ray.remote(num_cpus=0, num_gpus=0, max_retries=0)(_probe())
        asked = [task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote() for node in nodes]
        _, late = ray.wait(asked, num_returns=len(asked), timeout=time_limit_s) if asked else ([], [])
        if late:
            names = ", ".join(sorted(_names(node)[0] for node, one in zip(nodes, asked, strict=True) if one in late))
            raise InputError(f"no answer of Ray's node {names} within {time_limit_s:g} s")
        return tuple(_node(node, answer, _slots) for node, answer in zip(nodes, ray.get(asked), strict=True))
    finally:
        ray.shutdown()


def _probe() -> Callable[[], dict[str, Any]]:
    """Return what runs on each node; a function of its own, so that Ray brings it along and nodes need none of this package."""

    def probe() -> dict[str, Any]:
        import os

        def started_with(process: str) -> dict[str, str]:
            try:
                with open(f"/proc/{process}/environ", "rb") as file:
                    raw = file.read().decode(errors="replace")
            except OSError:
                return {}
            return dict(entry.split("=", 1) for entry in raw.split("\0") if "=" in entry)

        def is_worker(process: str) -> bool:
            try:
                with open(f"/proc/{process}/cmdline", "rb") as file:
                    return file.read(5) == b"ray::"
            except OSError:
                return False

        mine = started_with("self")
        workers = []
        for process in os.listdir("/proc"):
            if process.isdigit() and int(process) != os.getpid() and is_worker(process):
                environment = started_with(process)
                environment["PID"] = process
                if "RANK" in environment and environment.get("RAY_RAYLET_PID") == mine.get("RAY_RAYLET_PID"):
                    workers.append(environment)
        devices = None
        try:
            import pynvml

            pynvml.nvmlInit()
            handles = [pynvml.nvmlDeviceGetHandleByIndex(k) for k in range(pynvml.nvmlDeviceGetCount())]
            pairs = [(pynvml.nvmlDeviceGetPciInfo(one).busId, pynvml.nvmlDeviceGetUUID(one)) for one in handles]
            texts = [tuple(text.decode() if isinstance(text, bytes) else text for text in pair) for pair in pairs]
            devices = sorted(texts)
        except Exception:    # no driver here
            devices = None
        return {"environment": mine, "workers": workers, "devices": devices}

    return probe


def _names(node: Mapping[str, Any]) -> tuple[str, ...]:
    label = (node.get("Labels") or {}).get(LABEL)
    return tuple(dict.fromkeys(str(name) for name in (label, node.get("NodeName"), node.get("NodeManagerHostname")) if name))


def _node(node: Mapping[str, Any], answer: Mapping[str, Any], slots: Callable[[Mapping[str, Any]], Slots]) -> Node:
    devices = answer["devices"]
    gpus = int(node["Resources"]["GPU"])
    listed = answer["environment"].get(VISIBLE)
    workers = tuple(answer["workers"])
    if any(_is_given_in_process(worker, listed) for worker in workers):
        offered = listed.split(",") if listed else [str(k) for k in range(gpus)]
        given = slots(node)
        workers = tuple(
            {**worker, VISIBLE: ",".join(offered[k] for k in given.get(int(worker["PID"]), ()) if k < len(offered))}
            if _is_given_in_process(worker, listed)
            else worker
            for worker in workers
        )
    return Node(
        _names(node),
        gpus,
        answer["environment"],
        workers,
        None if devices is None else tuple(Device(uuid, bus_key(bus_id)) for bus_id, uuid in devices),
    )


def _is_given_in_process(worker: Mapping[str, str], listed: str | None) -> bool:
    """Whether Ray chooses the worker's GPUs when it runs already: it was started with the list of its node, which Ray may change."""
    return worker.get(VISIBLE) == listed and worker.get(NOSET, "").lower() not in ("1", "true", "yes")


def _slots(node: Mapping[str, Any]) -> Slots:
    """
    Return which entries of the node's list Ray gave to each of its processes.

    Raises
    ------
    InputError
        If this release of Ray does not tell.
    """
    import ray

    try:
        from ray._private.internal_api import node_stats  # Ray has no public call for it

        reply = node_stats(node["NodeManagerAddress"], node["NodeManagerPort"])
        found = {}
        for process in reply.core_workers_stats:
            entries = [used.resource_slots for name, used in process.used_resources.items() if _GPUS.fullmatch(name)]
            found[int(process.pid)] = tuple(sorted({int(slot.slot) for slots in entries for slot in slots}))
    except (ImportError, AttributeError, TypeError) as error:
        raise InputError(f"Ray {ray.__version__} does not tell which GPUs it gave its workers ({error}): 2.60 was tried") from None
    return found


# ── what is not as the map has it ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ClusterVerdict:
    """
    What was found.

    Parameters
    ----------
    nodes
        Sentences about nodes.
    pools
        A verdict for each pool of which workers run.
    idle
        The pools of which none does.
    is_unheard
        Whether none does of any pool, though workers of the map's target tell where they are.
    """

    nodes: tuple[str, ...]
    pools: tuple[Verdict, ...]
    idle: tuple[Pool, ...]
    is_unheard: bool = False

    @property
    def is_right(self) -> bool:
        """Whether nothing differs."""
        return not self.nodes and not self.is_unheard and all(pool.is_right for pool in self.pools)


def compare_nodes(wanted: WantedMap, nodes: Sequence[Node], role: str | None) -> ClusterVerdict:
    """Return what of *nodes* and their workers is not as *wanted* has it; of one pool where *role* is given."""
    chosen = [wanted.of_role(role, {})] if role is not None else [Wanted(pool, wanted.uuids) for pool in wanted.pools]
    hosts = tuple(dict.fromkeys(seat.host for one in chosen for seat in one.pool.seats))
    at = {host: _find(host, nodes) for host in hosts}
    where = {id(node): host for host, node in at.items() if node is not None}
    verdicts, idle = [], []
    for one in chosen:
        seen = _workers(one, nodes, where)
        if seen:
            verdicts.append(compare(one, seen))
        else:
            idle.append(one.pool)
    is_ordered = wanted.target in ORDERED and bool(idle)      # workers say themselves on which GPUs they are
    said: list[str] = []
    for host in hosts:
        said += _node_differs(wanted, host, at[host], nodes, is_ordered=is_ordered)
    return ClusterVerdict(tuple(said), tuple(verdicts), tuple(idle), is_unheard=wanted.target in TELLING and not verdicts)


def _find(host: str | None, nodes: Sequence[Node]) -> Node | None:
    if host is None:
        return next((node for node in nodes if ONLY_HOST in node.names), nodes[0] if len(nodes) == 1 else None)
    exact = [node for node in nodes if node.names[0] == host] or [node for node in nodes if host in node.names]
    loose = exact or [node for node in nodes if any(map_host(name, (host,)) for name in node.names)]
    return loose[0] if len(loose) == 1 else None


def _node_differs(
    wanted: WantedMap, host: str | None, node: Node | None, nodes: Sequence[Node], *, is_ordered: bool
) -> Iterator[str]:
    gpus = _in_order(wanted, host)
    listed = ",".join(map(str, gpus))
    name = host or ONLY_HOST
    if node is None:
        there = ", ".join(sorted(each.names[0] for each in nodes)) or "none with GPUs"
        yield f"no node of Ray, or more than one, is {name}; it has {there}: start it with --labels={LABEL}={name}"
        return
    if node.gpus < len(gpus):
        yield f"{name}: Ray hands out {node.gpus} GPUs, and the map uses {len(gpus)} ({listed}): start it with --num-gpus={len(gpus)}"
    visible = node.environment.get(VISIBLE)
    entries = visible.split(",") if visible is not None else list(map(str, range(node.gpus)))
    is_set = f"is {visible}" if visible is not None else "is not set"
    missing = [str(gpu) for gpu in gpus if str(gpu) not in entries]
    if missing and not is_ordered:
        yield f"{name}: the node was started where {VISIBLE} {is_set}, and the map uses GPU {', '.join(missing)} too"
    elif is_ordered and entries[: len(gpus)] != list(map(str, gpus)):
        yield (
            f"{name}: the node was started where {VISIBLE} {is_set}, and the map creates pools on GPUs {listed} in this order: Ray hands "
            f"out GPUs in the order of that variable; start it where {VISIBLE}={listed}"
        )
    if node.environment.get(ORDER) != "PCI_BUS_ID":
        yield f"{name}: the node was started without {ORDER}=PCI_BUS_ID: CUDA then counts the fastest card first"


def _in_order(wanted: WantedMap, host: str | None) -> tuple[int, ...]:
    """Return the GPUs of *host* in the order in which pools are created."""
    from placement.workloads.workload import RoleName

    order = [role.value for role in RoleName]
    pools = sorted(wanted.pools, key=lambda pool: min(order.index(role) if role in order else len(order) for role in pool.roles))
    return tuple(dict.fromkeys(seat.gpu for pool in pools for seat in pool.seats if seat.host == host))


def _workers(one: Wanted, nodes: Sequence[Node], where: Mapping[int, str | None]) -> dict[int, Observed]:
    """Return what the workers of the pool see, by rank; a rank that two workers say they are is that of the first."""
    found: dict[int, Observed] = {}
    for node in nodes:
        for environment in node.workers:
            roles = environment.get(ROLES, "").split(",")
            if not set(roles) & set(one.pool.roles):
                continue
            host = environment.get(HOST) or where.get(id(node)) or node.names[0]
            seen = observe(environment, host=host, devices=node.devices)
            if seen.rank is not None:
                found.setdefault(seen.rank, seen)
    return found
