"""
What a part of a role holds on each GPU of its group, piece by piece and moment by moment, MiB.

Models of memory (`placement.memory.gpu_memory`, `placement.memory.engine_memory`) say it; plans count the sums, rounded up.

When to modify: memory is held for another purpose, or at another kind of moment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from placement.workloads.dataflow import Work

LOAD = "load"
"""
The moment when a role's weights come in at the start of the job, or its engine starts.

Other roles hold at most what they hold while idle, so that no `load` needs more than the busiest phase of its role: it is said, but no
rule of its own (docs/model-variants.md has the reasons, the tests try it).
"""

A_BYTE_IN_MIB = 1e-6
"""Sums of pieces that are whole may miss it by rounding; nothing smaller than a byte is memory."""


class Piece(StrEnum):
    """What memory is held for; the order is that of stacked bars."""

    CONTEXT = "context"
    """CUDA context, CUDA graphs, NCCL's buffers, slack of the allocator."""
    WEIGHTS = "weights"
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer"
    ACTIVATIONS = "activations"
    LOGITS = "logits"
    GATHERED = "gathered"
    """Weights put together from their shards, and gradients that are not scattered yet."""
    ENGINE = "engine"
    """What a generation engine sets aside for intermediate values, with its NCCL buffers."""
    KV_CACHE = "kv_cache"
    BUCKETS = "buckets"
    """Buffers of the weight sync."""


Pieces = Mapping[Piece, float]
"""MiB by piece; what is absent is 0."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """
    What a part of a role holds on each GPU of its group.

    Parameters
    ----------
    idle
        While other roles work.
    working
        While it does a piece of work; what it holds while idle is among it.
    load
        While its weights come in (see `LOAD`).
    """

    idle: Pieces
    working: Mapping[Work, Pieces]
    load: Pieces

    @property
    def resident_mib(self) -> float:
        """MiB while idle."""
        return sum(self.idle.values())

    @property
    def active_mib(self) -> dict[Work, float]:
        """MiB while working."""
        return {work: sum(pieces.values()) for work, pieces in self.working.items()}

    def moment(self, name: str) -> Pieces:
        """Return what is held at *name*: `LOAD`, or a piece of work; it idles while others work."""
        if name == LOAD:
            return self.load
        return next((pieces for work, pieces in self.working.items() if work == name), self.idle)


def rounded_up(mib: float) -> int:
    """Return whole MiB that are not less than *mib*."""
    return math.ceil(mib - A_BYTE_IN_MIB)


def whole(pieces: Pieces) -> dict[str, int]:
    """
    Return *pieces* in whole MiB whose sum is the whole that is planned, `rounded_up`.

    Each is rounded down; what is missing then goes to those that lost most. Pieces of nothing are left out.
    """
    held = {piece: mib for piece in Piece if (mib := pieces.get(piece, 0.0)) > 0}
    found = {piece: math.floor(mib + A_BYTE_IN_MIB) for piece, mib in held.items()}
    missing = rounded_up(sum(held.values())) - sum(found.values())
    by_loss = sorted(held, key=lambda piece: found[piece] - held[piece])
    for piece in by_loss[: max(missing, 0)]:
        found[piece] += 1
    return {piece.value: mib for piece, mib in found.items()}
