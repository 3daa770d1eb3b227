"""
What frameworks call the stages whose times they log: names of verl and NeMo-RL (and our own) → pieces of work.

verl logs ``timing_s/NAME`` (seconds of a step on the clock of its driver), NeMo-RL ``timing/train/NAME``; both names are also known
without the prefix.

When to modify: a framework renames a timer or gets a new one.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from placement.workloads.dataflow import Work

PREFIX = re.compile(r"^.*?(?:timing_s/|timing/train/)")
"""What stands before a timer's name, with whatever a logger put before that."""

OTHER_UNITS = re.compile(r"timing_per_token_ms/|timing_ratio/|perf/|tokens_per_sec")
"""Derived figures of the same times: nothing is lost without them."""


@dataclass(frozen=True, slots=True)
class Timer:
    """
    What a framework measures.

    Parameters
    ----------
    works
        The pieces of work, one after the other; one factor fits all of them.
    rank
        Of several timers for the same work the lowest rank is taken.
    within
        The timer whose time has this one's in it, if that is measured beside it.
    """

    works: tuple[Work, ...]
    rank: int = 0
    within: str | None = None


STAGES: Mapping[str, Timer] = {
    # Our own names, for files that people write.
    **{work.value: Timer((work,)) for work in Work},
    # verl
    "gen": Timer((Work.GENERATE,), 1),
    "generate_sequences": Timer((Work.GENERATE,), 3),   # the mean over workers, without waking and waiting
    "old_log_prob": Timer((Work.OLD_LOG_PROBS,), 1),
    "ref": Timer((Work.REF_LOG_PROBS,), 1),
    "ref_log_prob": Timer((Work.REF_LOG_PROBS,), 2),
    "update_weights": Timer((Work.SYNC_WEIGHTS,), 1),
    "sync_rollout_weights": Timer((Work.SYNC_WEIGHTS,), 2),
    "param_sync": Timer((Work.SYNC_WEIGHTS,), 2),
    "reshard": Timer((Work.SYNC_WEIGHTS,), 4, within="gen"),
    # NeMo-RL
    "generation": Timer((Work.GENERATE,), 2),
    "policy_and_reference_logprobs": Timer((Work.OLD_LOG_PROBS, Work.REF_LOG_PROBS), 1),
    "policy_training": Timer((Work.UPDATE_ACTOR,), 1),
    "value_inference": Timer((Work.VALUES,), 1),
    "value_training": Timer((Work.UPDATE_CRITIC,), 1),
    "prepare_for_generation/transfer_and_update_weights": Timer((Work.SYNC_WEIGHTS,), 2),
    "weight_sync": Timer((Work.SYNC_WEIGHTS,), 2),
    "prepare_for_generation/total": Timer((Work.SYNC_WEIGHTS,), 3),
}
"""Timers of pieces of work."""

WHOLE = ("step", "total_step_time")
"""Timers of the whole step."""

ADDED: Mapping[str, str] = {
    "gen_max": "gen",   # ReMax's greedy answers
    "logprob_inference_prep": "policy_and_reference_logprobs",
    "training_prep": "policy_training",
    "value_training_prep": "value_training",
}
"""Timers of work that is a part of another's stage here, and the timer of that: copies of a model before its phase, mostly."""

OTHERS: Mapping[str, str] = {
    "adv": "work of the CPU, which is not modelled",
    "advantage_calculation": "work of the CPU, which is not modelled",
    "reward_calculation": "work of the CPU, which is not modelled",
    "data_processing": "work of the CPU, which is not modelled",
    "generation_finish": "moving the engine's state between phases, which is not modelled",
    "exposed_generation": "the wait for generation, not its time",
    "wait_prev_gen": "the wait for generation, not its time",
    "testing": "not in every step",
    "validation": "not in every step",
    "total_validation_time": "not in every step",
    "save_checkpoint": "not in every step",
    "checkpointing": "not in every step",
    "start_profile": "not in every step",
    "stop_profile": "not in every step",
}
"""Timers that no stage of ours has, and why."""

PARTS = {"generation_timing/": "a part of generation", "agent_loop/": "a part of generation"}
"""How timers begin that repeat parts of another."""


@functools.lru_cache(maxsize=4096)
def name_of(key: str) -> str:
    """Return the timer's name without what loggers put before it."""
    return PREFIX.sub("", key)


@functools.lru_cache(maxsize=4096)
def is_timer(key: str) -> bool:
    """Whether *key*, one of many metrics of a log, is a time: by its prefix, or by a name that is known."""
    if OTHER_UNITS.search(key):
        return False
    return PREFIX.match(key) is not None or is_known(key)


def is_known(name: str) -> bool:
    """Whether *name*, without prefix, is a timer that is known."""
    return name in STAGES or name in ADDED or name in WHOLE or why_not(name) is not None


def why_not(name: str) -> str | None:
    """Return why timer *name* stands for no stage; None if it does, or is unknown."""
    for start, why in PARTS.items():
        if name.startswith(start):
            return why
    return OTHERS.get(name)
