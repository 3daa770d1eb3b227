"""
`placement.preflight`: one process of a job holds what it sees against the map, before a model is loaded.

When to modify: what a training script is told before it starts.
"""

from __future__ import annotations

import os

from placement.errors import PreflightError
from placement.plans import Plan
from placement.verifying.compare import findings
from placement.verifying.observed import driver_devices, observe
from placement.verifying.wanted import read_wanted


def preflight(map: str | os.PathLike[str] | Plan, *, role: str | None = None) -> None:
    """
    Raise one readable error if this process is not where *map* has it; a job that is started wrong hangs, or runs slowly, later.

    Looks at RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER, the host's name and, where a driver
    answers, its GPUs: nothing is started on a GPU, and no other process is asked. A process without RANK is taken for one that uses
    all GPUs of the pool on its host.

    Parameters
    ----------
    map
        A device map: a file, or a plan.
    role
        The role of this process, or one of them; by default what PLACEMENT_ROLES says, else the map's only pool.

    Raises
    ------
    PreflightError
        If something is not as the map has it: each difference, and what to do.
    InputError
        If the map cannot be read, or does not tell which pool this process is of.
    """
    wanted = read_wanted(map).of_role(role, os.environ)
    seen = observe(os.environ, devices=driver_devices())
    found = findings(wanted, seen)
    if found:
        who = f"rank {seen.rank}" if seen.rank is not None else "this process"
        listed = "".join(f"\n  - {sentence}" for sentence in found)
        raise PreflightError(f"{who} of {wanted.title} on {seen.host} is not where the map has it:{listed}")
