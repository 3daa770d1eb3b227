"""
verl's resource pools on the nodes and GPUs of a device map: placement groups pinned by Ray's node labels, made in a fixed order.

verl's own manager lets Ray choose the nodes and sorts hosts by the text of their addresses; here both are the map's word.

When to modify: verl builds or uses resource pools in another way, or Ray pins placement groups in another way.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group
from verl.single_controller.ray import (
    RayClassWithInitArgs,
    RayResourcePool,
    RayWorkerGroup,
    ResourcePoolManager,
    SubRayResourcePool,
)

from placement.errors import InputError
from placement.targets.verl_pools import Node, Part, VerlPool, creation_order, find_nodes, start_line
from placement.targets.verl_ranks import Found, Placed, Reporter, table, why

GROUP_TIMEOUT_S = 60.0

LOOK_TIMEOUT_S = 300.0

SHOWN = 16
"""Ranks that an error lists."""


class PlacedPools(ResourcePoolManager):  # type: ignore[misc]
    """
    The pools of a map.

    Parameters
    ----------
    pools
        As the map has them.
    mapping
        verl's roles to the names of pools.
    insists
        Whether ranks on other GPUs than those of the map are an error at once, before minutes go into loading models.
    """

    def __init__(self, pools: Sequence[VerlPool], mapping: Mapping[Any, str], *, insists: bool) -> None:
        super().__init__({pool.name: [pool.per_host] * len(pool.parts) for pool in pools}, dict(mapping))
        self._pools = tuple(pools)
        self._insists = insists
        self._nodes: Mapping[str | None, Node] = {}

    def create_resource_pool(self) -> None:
        """
        Reserve the GPUs of the map.

        Raises
        ------
        InputError
            If the cluster is not the one of the map, or does not give what it offers; or a rank does not get its GPU, if it *insists*.
        """
        self._nodes = find_nodes(self._pools, _nodes(), cpus_per_gpu=self.max_colocate_count)
        groups = {part: self._group(part) for part in creation_order(self._pools)}
        for pool in self._pools:
            self.resource_pool_dict[pool.name] = self._resource_pool(pool, [groups[part] for part in pool.parts])
        reason = self.refusal(self.look()) if self._insists else None
        if reason:
            raise InputError(reason)

    def look(self) -> tuple[Placed, ...]:
        """Return where all ranks of all pools are: verl starts a small process for each, as it will start its workers."""
        found: list[Placed] = []
        names = {node.key: host or node.names[0] for host, node in self._nodes.items()}
        for pool in self._pools:
            for answer in sorted(self._ask(pool), key=lambda answer: answer.rank):
                planned = pool.seats[answer.rank]
                found.append(
                    Placed(
                        pool=pool.name,
                        rank=answer.rank,
                        planned=planned,
                        node=names[self._nodes[planned.host].key],
                        actual_node=names.get(answer.node, answer.host),
                        visible=answer.visible,
                        noset=answer.noset,
                    )
                )
        return tuple(found)

    def refusal(self, ranks: Sequence[Placed]) -> str | None:
        """Return what is wrong with *ranks* and what to do; None when each sees the GPU of the map and no other."""
        reason = why(ranks)
        if reason is None:
            return None
        wrong = [rank for rank in ranks if not rank.is_right]
        hosts = dict.fromkeys(rank.planned.host for rank in wrong)
        lines = [reason, "", table(wrong[:SHOWN]), ""]
        lines.append("start the Ray nodes so that they offer their GPUs in the order in which the pools take them:")
        lines += [f"  {host or self._nodes[host].names[0]}: {start_line(self._pools, host)}" for host in hosts]
        return "\n".join(lines)

    def _ask(self, pool: VerlPool) -> list[Found]:
        group = RayWorkerGroup(
            resource_pool=self.resource_pool_dict[pool.name],
            ray_cls_with_init=RayClassWithInitArgs(cls=ray.remote(Reporter)),
            name_prefix=f"placed_{pool.name}_",
        )
        try:
            return list(ray.get([worker.where.remote() for worker in group.workers], timeout=LOOK_TIMEOUT_S))
        except ray.exceptions.GetTimeoutError:
            raise InputError(f"the ranks of {pool.name} do not start within {LOOK_TIMEOUT_S:g} s: see `ray status`") from None
        finally:
            for worker in group.workers:
                ray.kill(worker)

    def _group(self, part: Part) -> PlacementGroup:
        node = self._nodes[part.host]
        count = len(part.gpus)
        group = placement_group(
            bundles=[{"CPU": self.max_colocate_count, "GPU": 1} for _ in part.gpus],
            strategy="STRICT_PACK",
            name=f"{part.pool}:{part.host or node.names[0]}",
            bundle_label_selector=[{_node_label(): node.key}] * count,
        )
        if not group.wait(GROUP_TIMEOUT_S):
            raise InputError(
                f"Ray does not reserve {count} GPUs and {self.max_colocate_count * count} CPUs for {part.pool} on "
                f"{part.host or node.names[0]} within {GROUP_TIMEOUT_S:g} s: something else took them meanwhile (`ray status`)"
            )
        return group

    def _resource_pool(self, pool: VerlPool, groups: list[PlacementGroup]) -> RayResourcePool:
        said = {
            "process_on_nodes": [pool.per_host] * len(pool.parts),
            "use_gpu": True,
            "name_prefix": pool.name,
            "max_colocate_count": self.max_colocate_count,
        }
        if len(groups) == 1:
            whole = RayResourcePool(**said)
            whole.pgs = groups
            return whole
        # verl sorts the hosts of a pool by address, as text; those of a part of a pool it takes as they come: ours is a part that is
        # the whole.
        return SubRayResourcePool(placement_groups=groups, start_bundle_index=0, subgroup_world_size=len(pool.seats), **said)


def check_ray() -> None:
    """
    Refuse a Ray that cannot pin placement groups.

    Raises
    ------
    InputError
        If it is too old.
    """
    if "bundle_label_selector" not in inspect.signature(placement_group).parameters or _node_label() is None:
        raise InputError(f"Ray {ray.__version__} cannot pin placement groups to nodes by label: install a newer one (2.60 was tried)")


def _node_label() -> str | None:
    """Return the label under which Ray itself writes the id of every node (``ray.io/node-id``)."""
    for node in ray.nodes():
        for label, value in (node.get("Labels") or {}).items():
            if value == node["NodeID"]:
                return str(label)
    return None


def _nodes() -> list[Node]:
    """Return the living nodes of the cluster."""
    free = ray._private.state.available_resources_per_node()  # as verl asks; Ray has no public call for it
    found = []
    for node in ray.nodes():
        if not node["Alive"]:
            continue
        left = free.get(node["NodeID"], {})
        host = str(node["NodeManagerHostname"])
        names = (str(node["NodeName"]), host, host.split(".")[0], str(node["NodeManagerAddress"]))
        found.append(
            Node(
                key=str(node["NodeID"]),
                names=tuple(dict.fromkeys(names)),
                gpus=int(node["Resources"].get("GPU", 0)),
                free_gpus=float(left.get("GPU", 0)),
                free_cpus=float(left.get("CPU", 0)),
            )
        )
    return found
