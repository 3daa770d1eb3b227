"""
The pools of a device map as verl builds them: on each host a Ray placement group of one bundle per GPU, taken in an order that we choose.

Ray gives the bundles of a placement group the first free GPUs of the node's list (CUDA_VISIBLE_DEVICES of ``ray start``), in its
order. So what a rank gets is decided by that list and by the order in which groups are made: here, on each host, that of their
smallest ids. A map whose pools lie side by side needs no list of its own then: a node started as usual offers 0, 1, 2 …

This module imports neither Ray nor verl: `placement.targets.verl_runtime` does.

When to modify: verl can express more pools, or Ray takes GPUs in another order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby

from placement.errors import InputError
from placement.maps.seats import Seat, pools
from placement.text.suggest import did_you_mean

ACTOR, CRITIC, REF, REWARD = "actor", "critic", "ref", "reward"

ROLES = (ACTOR, CRITIC, REF, REWARD)
"""What a map may place; the actor generates too (verl's hybrid engine)."""

TRIED = ("0.9.1",)
"""Versions of verl that tests/verl runs."""

MODULE = "placement.targets.verl_runtime"
"""What verl loads by ``VERL_USE_EXTERNAL_MODULES``."""

MAP_KEY = "trainer.v1.placed.map"
"""Key of verl's configuration that names the map."""

SHARE = 1e-4
"""The smallest share of a GPU that Ray counts."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a pool has on one host: its GPUs there, in rank order."""

    pool: str
    host: str | None
    gpus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class VerlPool:
    """
    One pool.

    Parameters
    ----------
    name
        What verl calls it: its roles, joined.
    roles
        In the order of the map.
    parts
        One for each of its hosts, in rank order; all of the same size.
    """

    name: str
    roles: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def per_host(self) -> int:
        """GPUs that it has on each of its hosts."""
        return len(self.parts[0].gpus)

    @property
    def seats(self) -> tuple[Seat, ...]:
        """All seats, in rank order."""
        return tuple(Seat(part.host, gpu) for part in self.parts for gpu in part.gpus)


@dataclass(frozen=True, slots=True)
class Node:
    """
    A node of the Ray cluster.

    Parameters
    ----------
    key
        Ray's node id.
    names
        What it may be called in a map: ``ray start --node-name``, host name, address.
    gpus, free_gpus
        What it offers to Ray, and what of that no other job holds.
    free_cpus
        CPUs that no job holds.
    """

    key: str
    names: tuple[str, ...]
    gpus: int
    free_gpus: float
    free_cpus: float


def verl_pools(seats: Mapping[str, Sequence[Seat]]) -> tuple[VerlPool, ...]:
    """
    Return the pools that verl must build for *seats*, in the order of the map.

    Raises
    ------
    InputError
        If verl cannot build them: a role that it does not have, pools that overlap, a pool with unequal parts, or ranks that go to
        and fro between hosts.
    """
    for role in seats:
        if role == "rollout":
            raise InputError(
                "the map gives the rollout GPUs of its own: in the trainer mode `placed` the actor generates (verl has "
                "`trainer.v1.trainer_mode=separate_async` for a separate rollout, which takes no map)"
            )
        if role not in ROLES:
            raise InputError(f"verl has no role {role!r}{did_you_mean(role, ROLES)}: the map may place {', '.join(ROLES)}")
    if ACTOR not in seats:
        raise InputError("the map has no actor: verl trains one in every job")
    found = tuple(_pool(pool.roles, pool.seats) for pool in pools(seats))
    for one, other in combinations(found, 2):
        shared = sorted(set(one.seats) & set(other.seats), key=lambda seat: (seat.host or "", seat.gpu))
        if shared:
            what = "all GPUs, in another order of ranks" if len(shared) == len(one.seats) == len(other.seats) else f"GPU {shared[0]}"
            raise InputError(
                f"{' and '.join(one.roles)} and {' and '.join(other.roles)} share {what}: verl's roles share a pool, rank by rank, or "
                "no GPU (rule sharing=pool)"
            )
    return found


def _pool(roles: tuple[str, ...], seats: Sequence[Seat]) -> VerlPool:
    name = "_".join(roles)
    parts = tuple(
        Part(name, host, tuple(seat.gpu for seat in group)) for host, group in groupby(seats, key=lambda seat: seat.host)
    )
    hosts = [part.host for part in parts]
    if len(set(hosts)) < len(hosts):
        again = next(host for host in hosts if hosts.count(host) > 1)
        raise InputError(
            f"{roles[0]}: its ranks leave {again} and come back to it; verl numbers the ranks host by host: list all GPUs of a host "
            "one after another"
        )
    sizes = {len(part.gpus) for part in parts}
    if len(sizes) > 1:
        counts = ", ".join(f"{part.host} {len(part.gpus)}" for part in parts)
        raise InputError(f"{roles[0]}: {counts} GPUs; verl's pools have equally many on each of their hosts")
    return VerlPool(name, roles, parts)


def hosts_of(found: Sequence[VerlPool]) -> tuple[str | None, ...]:
    """Return the hosts of the map, each once, in its order."""
    return tuple(dict.fromkeys(part.host for pool in found for part in pool.parts))


def creation_order(found: Sequence[VerlPool]) -> tuple[Part, ...]:
    """Return all parts in the order in which their placement groups must be made; between hosts the order is free."""
    return tuple(sorted((part for pool in found for part in pool.parts), key=lambda part: min(part.gpus)))


def node_list(found: Sequence[VerlPool], host: str | None) -> tuple[int, ...]:
    """Return the GPUs of *host* in the order in which its Ray node must offer them."""
    return tuple(gpu for part in creation_order(found) if part.host == host for gpu in part.gpus)


def start_line(found: Sequence[VerlPool], host: str | None) -> str:
    """Return how to start the Ray node of *host* so that ranks get what the map says."""
    gpus = node_list(found, host)
    visible = ",".join(map(str, gpus))
    return f"CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={visible} ray start … --num-gpus={len(gpus)}"


def find_nodes(found: Sequence[VerlPool], nodes: Collection[Node], *, cpus_per_gpu: int) -> Mapping[str | None, Node]:
    """
    Return the node of each host of the map.

    Parameters
    ----------
    cpus_per_gpu
        What verl asks for beside each GPU of a pool.

    Raises
    ------
    InputError
        If a host has none, or several; or a node has too few GPUs or CPUs, or another job holds some of its GPUs. All is said at once.
    """
    with_gpus = sorted((node for node in nodes if node.gpus), key=lambda node: node.names)
    matched: dict[str | None, Node] = {}
    wrong: list[str] = []
    for host in hosts_of(found):
        candidates = [node for node in with_gpus if host is None or host in node.names]
        if len(candidates) == 1:
            matched[host] = candidates[0]
            wrong += _lacks(found, host, candidates[0], cpus_per_gpu)
        elif host is None:
            wrong.append(
                "the map names no host, and no node of the Ray cluster has GPUs"
                if not candidates
                else f"the map names no host, and {len(candidates)} nodes of the Ray cluster have GPUs ({_names(candidates)}): "
                "write its entries as host:gpu"
            )
        elif candidates:
            wrong.append(f"{len(candidates)} nodes of the Ray cluster are called {host}: start each with a `--node-name` of its own")
        else:
            hint = did_you_mean(host, [name for node in with_gpus for name in node.names])
            wrong.append(
                f"no node of the Ray cluster with GPUs is called {host}{hint}; there is {_names(with_gpus) or 'none'}: start its node "
                f"with `--node-name={host}`"
            )
    if wrong:
        raise InputError("the Ray cluster is not the one of the map: " + "; ".join(wrong))
    return matched


def _names(nodes: Sequence[Node]) -> str:
    return ", ".join(node.names[0] for node in nodes[:16]) + (" …" if len(nodes) > 16 else "")


def _lacks(found: Sequence[VerlPool], host: str | None, node: Node, cpus_per_gpu: int) -> list[str]:
    """Return what *node* does not have of what the map wants of *host*."""
    gpus = len(node_list(found, host))
    name = host or node.names[0]
    if node.gpus < gpus:
        return [f"{name} offers {node.gpus} GPUs to Ray, and the map uses {gpus} of it: {start_line(found, host)}"]
    held = node.gpus - node.free_gpus
    if held >= SHARE:
        return [f"other jobs hold {held:g} of the {node.gpus} GPUs of {name}: pools get the GPUs of the map on an idle node only"]
    needed = cpus_per_gpu * gpus
    if node.free_cpus < needed:
        has = f"{name} has {node.free_cpus:g} CPUs free, and verl takes {cpus_per_gpu} for each of the {gpus} GPUs, {needed}"
        return [f"{has}: it would wait for ever; start the node with a larger `--num-cpus`"]
    return []
