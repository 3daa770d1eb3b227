"""
How a step's sequences are cut: by data-parallel rank, by optimizer update, and into micro-batches.

When to modify: an engine cuts its batch in another way.
"""

from __future__ import annotations

from dataclasses import dataclass

from placement.workloads.workload import Batch


@dataclass(frozen=True, slots=True)
class Cut:
    """
    What one data-parallel rank passes through its model in a step.

    Parameters
    ----------
    updates
        How often the rank starts over: optimizer updates, 1 for a forward pass.
    micro_batches
        Micro-batches of each update.
    tokens
        Tokens of a micro-batch, on average.
    peak_tokens
        Tokens of the fullest micro-batch that can come: it decides the memory.
    """

    updates: int
    micro_batches: int
    tokens: float
    peak_tokens: int


def cut(batch: Batch, *, dp: int, micro_batch_tokens: int, updates: int) -> Cut:
    """
    Return how *dp* ranks share *batch*: whole sequences each, packed into micro-batches of at most
    *micro_batch_tokens*.

    The fullest rank counts. A micro-batch holds at least the longest sequence, whatever its limit says.
    """
    sequences = -(-batch.sequences // (updates * dp))
    limit = max(micro_batch_tokens, longest_tokens(batch))
    tokens = sequences * mean_tokens(batch)
    micro_batches = -(-tokens // limit)
    return Cut(updates, micro_batches, tokens / micro_batches, min(limit, sequences * longest_tokens(batch)))


def mean_tokens(batch: Batch) -> int:
    """Return the tokens of a sequence, on average."""
    return batch.prompt_tokens + batch.response_mean_tokens


def longest_tokens(batch: Batch) -> int:
    """Return the tokens of the longest sequence that can come."""
    return batch.prompt_tokens + batch.response_max_tokens
