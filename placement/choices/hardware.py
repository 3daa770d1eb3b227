"""
What a group of GPUs offers to a role: the only view of the machine that the cost model has.

When to modify: the cost model needs one more fact about the hardware.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Hardware:
    """
    The slowest member's card and the group's bottlenecks. Equal values mean equal cost: groups are interned by it.

    Parameters
    ----------
    gpus
        Number of GPUs in the group.
    flops
        Peak dense 16-bit rate of the slowest member, FLOP/s.
    memory_bytes_per_s
        Memory bandwidth of the slowest member, B/s.
    total_mib
        Smallest total memory as torch sees it, MiB (before any reserve).
    compute_capability
        Lowest compute capability, as (major, minor).
    ring_bytes_per_s
        Bottleneck of the best ring over the group under shared uplinks, one direction, B/s; 0 for one GPU.
    ring_nvlink
        Whether that ring runs over NVLink only.
    block_bytes_per_s
        For each TP size that the group can be cut into: the slowest block's ring when all blocks run at once, B/s.
        A size that is absent cannot be used on this group (contiguity, or it does not divide the group).
    block_nvlink
        For the same sizes, whether all blocks run over NVLink only.
    islands
        How many islands of NVLink a ring joins that does not run over NVLink only; 0 where all of its hops count as hops beyond them, as
        on one host.
    host_bytes_per_s
        What each GPU gets to host memory when all of the group copy at once, B/s; inf where that does not matter.
    hosts
        How many hosts the group is spread over, evenly: their CPUs share work that is left to them.
    """

    gpus: int
    flops: float
    memory_bytes_per_s: float
    total_mib: int
    compute_capability: tuple[int, int]
    ring_bytes_per_s: float
    ring_nvlink: bool
    block_bytes_per_s: tuple[tuple[int, float], ...] = field(default=())
    block_nvlink: tuple[tuple[int, bool], ...] = field(default=())
    host_bytes_per_s: float = math.inf
    islands: int = 0
    hosts: int = 1

    def block(self, tp: int) -> float | None:
        """Return the bandwidth of the TP blocks of size *tp*, B/s; None when the group cannot be cut so; inf for 1."""
        if tp == 1:
            return float("inf")
        return dict(self.block_bytes_per_s).get(tp)

    def is_block_nvlink(self, tp: int) -> bool:
        """Whether the TP blocks of size *tp* run over NVLink only."""
        return tp == 1 or dict(self.block_nvlink).get(tp, False)


