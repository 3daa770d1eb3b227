"""
Where the ranks of verl's pools really are, against where the map wants them.

`Reporter` runs as an actor where each rank will run, and only there imports Ray.

When to modify: a rank can tell more about where it is, or the table says more.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from placement.maps.seats import Seat
from placement.maps.variables import NOSET as NOSET
from placement.maps.variables import VISIBLE as VISIBLE


@dataclass(frozen=True, slots=True)
class Found:
    """What a rank finds where it runs; *noset*: Ray was told not to choose the GPUs that a process sees."""

    rank: int
    node: str
    host: str
    visible: str | None
    noset: bool


@dataclass(frozen=True, slots=True)
class Placed:
    """
    One rank of one pool.

    Parameters
    ----------
    planned
        Its seat in the map.
    node
        The node where it should be, and *actual_node* where it is (names).
    visible
        The GPUs that it sees, as ``CUDA_VISIBLE_DEVICES`` has them.
    """

    pool: str
    rank: int
    planned: Seat
    node: str
    actual_node: str
    visible: str | None
    noset: bool

    @property
    def is_right(self) -> bool:
        """Whether it is where the map wants it, and sees that GPU alone."""
        return not self.noset and self.node == self.actual_node and self.visible == str(self.planned.gpu)


class Reporter:
    """A process on a rank's share of a GPU, that tells what it sees."""

    def where(self) -> Found:
        """Return where it is; runs in the actor."""
        import ray

        return Found(
            rank=int(os.environ.get("RANK", "-1")),
            node=ray.get_runtime_context().get_node_id(),
            host=socket.gethostname(),
            visible=os.environ.get(VISIBLE),
            noset=os.environ.get(NOSET, "").lower() in ("1", "true", "yes"),
        )


def table(ranks: Sequence[Placed]) -> str:
    """Return planned against actual, a line per rank."""
    rows = [("pool", "rank", "planned", "actual", "")]
    for rank in ranks:
        planned = f"{rank.node}:{rank.planned.gpu}"
        actual = f"{rank.actual_node}:{'all' if rank.noset or rank.visible is None else rank.visible or 'none'}"
        rows.append((rank.pool, str(rank.rank), planned, actual, "ok" if rank.is_right else "DIFFERS"))
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    return "\n".join(
        f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:<{widths[2]}}  {row[3]:<{widths[3]}}  {row[4]}".rstrip() for row in rows
    )


def why(ranks: Sequence[Placed]) -> str | None:
    """Return in a sentence what is wrong with *ranks*; None when all are right."""
    wrong = [rank for rank in ranks if not rank.is_right]
    if not wrong:
        return None
    if any(rank.noset for rank in wrong):
        return (
            f"{NOSET} is set, so that every worker sees all GPUs and verl takes the wrong ones: unset it where the Ray nodes start and "
            "in `ray_kwargs.ray_init.runtime_env.env_vars`"
        )
    listed = [rank for rank in wrong if not (rank.visible or "").isdigit()]
    first = (listed or wrong)[0]
    who = f"{first.pool} rank {first.rank}"
    if listed:
        return (
            f"{who} sees {first.visible or 'no GPU'!r}, which is not the number of a GPU: start the Ray nodes with numbers in {VISIBLE} "
            "(SGLang fails on other ids, too)"
        )
    return (
        f"{len(wrong)} of {len(ranks)} ranks are not on their GPUs; {who} is on {first.actual_node}:{first.visible}, and the map wants "
        f"{first.node}:{first.planned.gpu}"
    )
