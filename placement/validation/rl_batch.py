"""
How many answers of which length a step of a published run has.

When to modify: tables state batches or lengths in other fields.
"""

from __future__ import annotations

from placement.validation.reading import Record
from placement.validation.rows import Unpredictable
from placement.workloads.workload import Batch

MOST_SEQUENCES = 1 << 24
MOST_TOKENS = 1 << 24

PROMPT_TOKENS = 200
"""Prompts of the maths questions that such runs train on (OpenMathInstruct-2, DAPO-Math-17k)."""

MAX_RESPONSE_TOKENS = 16_384
"""Longest response where a table names none."""

BATCH = (512, 16, 32)
"""Prompts, samples of each and prompts of an update where a table names none: those of verl's recipes for DAPO."""

SAMPLES = 32
"""Samples of each prompt in NeMo-RL's recipes."""

_LENGTHS = ("max_response", "max_seq", "avg_seq", "mean_response")
_COUNTS = ("train_batch_prompts", "gen_gbs")


def read_batch(record: Record, assumed: list[str], mean_tokens: int) -> Batch:
    if not any(map(record.has, _LENGTHS)) and not any(map(record.has, _COUNTS)):
        raise Unpredictable("the row states neither how long answers are nor how many a step has")
    mean, longest = _lengths(record, assumed, mean_tokens)
    whole = record.count("gen_gbs", most=MOST_SEQUENCES)
    if whole is not None:
        samples = SAMPLES if whole % SAMPLES == 0 else 1
        prompts, updates = whole // samples, max(whole // (record.count("train_gbs_table", most=MOST_SEQUENCES) or whole), 1)
    else:
        stated = (
            record.count("train_batch_prompts", most=MOST_SEQUENCES),
            record.count("n_samples", most=1 << 12),
            record.count("mini_batch", most=MOST_SEQUENCES),
        )
        prompts, samples, minibatch = (value or usual for value, usual in zip(stated, BATCH, strict=True))
        if None in stated:
            assumed.append(f"{prompts} prompts × {samples} samples, updates of {minibatch} prompts")
        updates = max(prompts // minibatch, 1)
    total = PROMPT_TOKENS + longest
    return Batch(prompts, samples, PROMPT_TOKENS, mean, longest, updates, total)


def _lengths(record: Record, assumed: list[str], mean_tokens: int) -> tuple[int, int]:
    """Return the mean and the longest response, tokens."""
    longest = record.count("max_response", most=MOST_TOKENS)
    whole = record.count("max_seq", most=MOST_TOKENS)
    if longest is None and whole is not None:
        longest = whole - PROMPT_TOKENS
    if longest is None:
        longest = MAX_RESPONSE_TOKENS
        assumed.append(f"{longest} tokens in the longest response")
    average = record.number("avg_seq", least=1, most=MOST_TOKENS)
    mean = record.count("mean_response", most=MOST_TOKENS)
    if average is not None:
        mean = round(average) - PROMPT_TOKENS
    elif mean is None:
        mean = min(mean_tokens, max(longest // 2, 1))
        assumed.append(f"{mean} tokens of response on average")
    if not 1 <= mean <= longest:
        raise Unpredictable(f"a mean response of {mean} tokens is not between 1 and {longest}")
    return mean, longest
