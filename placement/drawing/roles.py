"""
Which roles are on which GPU, and the colour of each role.

When to modify: a role that should always have the same colour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from placement.errors import InputError
from placement.workloads.workload import RoleName

COLOURS = 8
"""In the palette; a ninth role shares one with another, which its chips tell apart by name."""


class Tenant(NamedTuple):
    """
    A role on a GPU.

    Parameters
    ----------
    name
        Of the role.
    colour
        Its place in the palette.
    rank
        Of the role on this GPU; None where ranks ascend with the GPUs and need no saying.
    """

    name: str
    colour: int
    rank: int | None


def tenants(count: int, roles: Mapping[str, Sequence[int]]) -> tuple[tuple[Tenant, ...], ...]:
    """
    Return the roles on each of *count* GPUs, in the order of *roles*.

    Raises
    ------
    InputError
        If a role names a GPU that there is not, or one GPU twice.
    """
    found: list[list[Tenant]] = [[] for _ in range(count)]
    colour = colours(roles)
    for name, gpus in roles.items():
        for position, gpu in enumerate(gpus):
            if not 0 <= gpu < count:
                raise InputError(
                    f"role {name!r} names GPU {gpu}; this machine has the GPUs {spans(range(count))}"
                )
            if gpu in gpus[:position]:
                raise InputError(f"role {name!r} names GPU {gpu} twice; name each GPU once")
        ascend = list(gpus) == sorted(gpus)
        for rank, gpu in enumerate(gpus):
            found[gpu].append(Tenant(name, colour[name], None if ascend else rank))
    return tuple(map(tuple, found))


def colours(names: Mapping[str, object]) -> dict[str, int]:
    """Return the place in the palette of each of *names*: the usual roles have theirs, others the next free."""
    usual = {str(name): place for place, name in enumerate(RoleName)}
    others = [name for name in names if name not in usual]
    free = [place for place in range(COLOURS) if place >= len(usual)]
    return {name: usual[name] for name in names if name in usual} | {
        name: free[k % len(free)] for k, name in enumerate(others)
    }


def spans(gpus: Sequence[int]) -> str:
    """Return *gpus* as people write them: ``0–3, 6``."""
    runs: list[list[int]] = []
    for gpu in sorted(gpus):
        if runs and gpu == runs[-1][-1] + 1:
            runs[-1].append(gpu)
        else:
            runs.append([gpu])
    return ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}–{r[-1]}" for r in runs)
