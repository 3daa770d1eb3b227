"""
How a step's sequences are cut: by data-parallel rank, by optimizer update, and into micro-batches.

When to modify: an engine cuts its batch in another way, or refuses another.
"""

from __future__ import annotations

from dataclasses import dataclass

from placement.workloads.workload import Batch, Engine, Role


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


def uneven(role: Role, dp: int, batch: Batch) -> str | None:
    """
    Return what *dp* data-parallel ranks of *role* cannot share evenly (rule ``even_batch``), in words; None if all get as much.

    Trainers cut a batch into equal parts and mostly refuse one that has none: verl 0.9.1 asserts that the ranks divide the sequences of a
    step (``utils/config.py``, ``validate_config``) and of a minibatch (``workers/engine_workers.py``). Engines that generate take
    requests one by one, and so do models that they run forward. Where minibatches are unequal themselves the step alone counts.
    """
    if role.engine not in (Engine.FSDP, Engine.MEGATRON):
        return None
    minibatch, rest = divmod(batch.sequences, batch.minibatches)
    parts = {"step": batch.sequences}
    if role.train is not None and rest == 0:
        parts["minibatch"] = minibatch
    for what, sequences in parts.items():
        if sequences % dp:
            return f"the {sequences} sequences of a {what}"
    return None


def mean_tokens(batch: Batch) -> int:
    """Return the tokens of a sequence, on average."""
    return batch.prompt_tokens + batch.response_mean_tokens


def longest_tokens(batch: Batch) -> int:
    """Return the tokens of the longest sequence that can come."""
    return batch.prompt_tokens + batch.response_max_tokens
