"""How lengths spread; a simulation is the oracle."""

from __future__ import annotations

import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.timing.lengths import fullest_answers, fullest_rank, largest_deviation, mean_context, thinning
from placement.workloads.workload import Batch


def batch(mean: int = 200, longest: int = 1000, prompt: int = 100) -> Batch:
    return Batch(64, 1, prompt, mean, longest, 1, 8192)


def drawn(of: Batch, source: random.Random) -> float:
    """Draw a length: ``Pr(length > τ) = (1 - τ/max)^k``."""
    return of.response_max_tokens * (1 - source.random() ** (1 / thinning(of)))


def test_the_mean_context_is_that_of_all_tokens() -> None:
    # k = 4: 100 + 1000/6.
    assert mean_context(batch()) == pytest.approx(100 + 1000 / 6)
    # Equal lengths: half of the answer stands before a token on average.
    assert mean_context(batch(200, 200)) == 200
    source = random.Random(1)
    lengths = [drawn(batch(), source) for _ in range(20_000)]
    assert fmean(lengths) == pytest.approx(200, rel=0.02)
    assert sum(x * x / 2 for x in lengths) / sum(lengths) == pytest.approx(1000 / 6, rel=0.03)


def test_the_fullest_of_several_has_more_than_the_mean() -> None:
    # k = 4: deviation √(4/6) of a mean; the largest of 8 normal values is 1.434 by the formula (1.4236 exactly); 16 sequences.
    assert largest_deviation(8) == pytest.approx(1.4236, rel=0.01)
    assert fullest_answers(batch(), 16, 8) == pytest.approx(1 + (4 / 6) ** 0.5 * 1.4342 / 4, abs=0.002)
    # Prompts of 100 tokens do not spread: two thirds of 300 tokens do.
    assert fullest_rank(batch(), 16, 8) == pytest.approx(1 + 2 / 3 * (4 / 6) ** 0.5 * 1.4342 / 4, abs=0.002)


@pytest.mark.parametrize(("sequences", "groups"), [(4, 8), (16, 8), (64, 32)])
def test_simulated_groups_are_as_full_as_the_formula_says(sequences: int, groups: int) -> None:
    source, of = random.Random(2), batch()
    fullest = fmean(
        max(sum(drawn(of, source) for _ in range(sequences)) for _ in range(groups)) / (sequences * 200) for _ in range(150)
    )
    assert fullest_answers(of, sequences, groups) == pytest.approx(fullest, rel=0.08)


def test_nobody_waits_for_equal_lengths_or_alone() -> None:
    assert fullest_answers(batch(200, 200), 16, 8) == 1
    assert fullest_rank(batch(), 16, 1) == 1


@given(
    mean=st.integers(1, 5000), more=st.integers(0, 50_000), prompt=st.integers(1, 5000),
    sequences=st.integers(1, 10_000), groups=st.integers(1, 10_000),
)  # fmt: skip
def test_the_fullest_lies_between_the_mean_and_the_longest(mean: int, more: int, prompt: int, sequences: int, groups: int) -> None:
    of = batch(mean, mean + more, prompt)
    for share, most in ((fullest_answers, (mean + more) / mean), (fullest_rank, (prompt + mean + more) / (prompt + mean))):
        assert 1 <= share(of, sequences, groups) <= most
        # More sequences for each even out, more groups do the opposite.
        assert share(of, sequences + 1, groups) <= share(of, sequences, groups) <= share(of, sequences, groups + 1)
