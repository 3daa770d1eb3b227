"""
How long answers are, and what their spread costs where ranks or engines wait for the fullest. Formulas: docs/model.md.

When to modify: lengths spread in another way, or engines share sequences by their length.
"""

from __future__ import annotations

import functools
import math
from statistics import NormalDist

from placement.choices.batches import longest_tokens, mean_tokens
from placement.workloads.workload import Batch


def thinning(batch: Batch) -> float:
    """
    Return k of ``Pr(length > τ) = (1 - τ/max)^k``, the spread of answers that is assumed: ``k = max/mean - 1``.

    Mean and longest are the user's, and the longest does occur.
    """
    return batch.response_max_tokens / batch.response_mean_tokens - 1


def mean_context(batch: Batch) -> float:
    """
    Return the mean context of a generated token: ``prompt + max/(k + 2)``.

    Where all slots are always busy it is also the mean context of the sequences that are under way at any moment.
    """
    return batch.prompt_tokens + batch.response_max_tokens / (thinning(batch) + 2)


def fullest_answers(batch: Batch, sequences: int, engines: int) -> float:
    """
    Return how many times the mean tokens the fullest of *engines* generates when each has *sequences*.

    Sums of n independent lengths have the deviation ``cv · √n`` of their mean, ``cv² = k/(k + 2)``; the largest of m such
    sums lies `largest_deviation` deviations above it.
    """
    k = thinning(batch)
    mean, longest = batch.response_mean_tokens, batch.response_max_tokens
    return _fullest(math.sqrt(k / (k + 2)), longest / mean, sequences, engines)


def fullest_rank(batch: Batch, sequences: int, ranks: int) -> float:
    """Return the same for tokens, prompts included, of *ranks* data-parallel ranks."""
    k = thinning(batch)
    whole = mean_tokens(batch)
    spread = math.sqrt(k / (k + 2)) * batch.response_mean_tokens / whole
    return _fullest(spread, longest_tokens(batch) / whole, sequences, ranks)


def _fullest(spread: float, most: float, sequences: int, groups: int) -> float:
    return min(1 + spread * largest_deviation(groups) / math.sqrt(sequences), most)


@functools.lru_cache(maxsize=1024)
def largest_deviation(groups: int) -> float:
    """Return the expected largest of *groups* standard normal values: ``Φ⁻¹((m - 0.375)/(m + 0.25))`` (Blom 1958)."""
    return NormalDist().inv_cdf((groups - 0.375) / (groups + 0.25))
