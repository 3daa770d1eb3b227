"""
A role's ranks as a `torch.distributed.device_mesh.DeviceMesh`: the layout of a device map inside a job that torch runs.

Rank i of a role runs on its i-th GPU. TP blocks are runs of consecutive ranks, so that the mesh has the dimensions ``dp``, ``pp``
and ``tp``, the last one running fastest: what talks most is closest.

When to modify: a layout gets another dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from placement.errors import InputError
from placement.plans import Plan

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

DIMENSIONS = ("dp", "pp", "tp")


def mesh_ranks(plan: Plan, role: str, ranks: Sequence[int] | None = None) -> list[list[list[int]]]:
    """
    Return the ranks of *role*, shape (dp, pp, tp).

    Parameters
    ----------
    ranks
        The job's rank of each GPU of the role, in the order of the map; 0, 1, 2 … when the role is a job of its own.

    Raises
    ------
    InputError
        If the map has no such role, or *ranks* are not one for each of its GPUs.
    """
    if role not in plan.device_map:
        raise InputError(f"the map has no role {role!r}; it has {', '.join(plan.device_map)}")
    n = len(plan.device_map[role])
    found = list(range(n)) if ranks is None else list(ranks)
    if len(found) != n or len(set(found)) != n:
        raise InputError(f"{role} has {n} GPUs and takes as many ranks, each once, not {found[:16]}")
    layout = plan.roles[role].layout
    if layout.dp * layout.pp * layout.tp != n:
        raise InputError(f"the map is damaged: {role} has {n} GPUs, and tp {layout.tp}, pp {layout.pp}, dp {layout.dp}")
    block = layout.pp * layout.tp
    return [
        [found[first + p * layout.tp : first + (p + 1) * layout.tp] for p in range(layout.pp)] for first in range(0, n, block)
    ]


def device_mesh(plan: Plan, role: str, *, ranks: Sequence[int] | None = None, device: str = "cuda") -> DeviceMesh:
    """
    Return the mesh of *role*, with the dimensions `DIMENSIONS`. All processes of the job call it, in those of *ranks* or not.

    Needs torch and an initialised process group.

    Parameters
    ----------
    ranks
        See `mesh_ranks`.
    device
        ``cuda``, or ``cpu`` to rehearse.

    Raises
    ------
    InputError
        See `mesh_ranks`.
    """
    import torch
    from torch.distributed.device_mesh import DeviceMesh

    return DeviceMesh(device, torch.tensor(mesh_ranks(plan, role, ranks)), mesh_dim_names=DIMENSIONS)
