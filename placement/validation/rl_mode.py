"""
What the mode of a published run says: whether generation and training share GPUs, and whether they run at the same time.

When to modify: tables call modes in other words.
"""

from __future__ import annotations

import re

from placement.validation.rows import Unpredictable
from placement.workloads.workload import Schedule

_OVERLAPS = r"(?<![a-z])off(?:[- ]?policy|[- ]by)|steps?[- ]?off|(?<![a-z])off$|async"
_APART = r"(?<![a-z])(?:separate\w*|split|disaggregat\w*|stand-?alone|non-?colocat\w*|not colocat\w*|decoupled|dedicated)"
_SIDES = {
    side: rf"(?<![a-z])(?:{words})[ :=]{{1,3}}(\d+)(?!\d)(?! ?[:+] ?\d)"
    rf"|(?<![\w.:+=])(\d+) ?(?:x ?)?(?:gpus? )?(?:for )?(?:{words})(?![a-z])"
    for side, words in (("rollout", "rollouts?|generation|generators?|inference|generate"), ("train", "train(?:er|ing)?s?"))
}
"""How tables say that generation runs beside training, on GPUs of its own, and on how many either side runs."""


def schedule_of(mode: str) -> Schedule:
    """
    Return the schedule that a table calls *mode*.

    ``fully async`` goes on with long answers after each weight sync (partial rollouts); at staleness 0 it may not: answers
    stream to the trainer, and both sides wait for each other before the sync, as they do one step off. Separate sides without either
    word take turns.
    """
    if re.search(r"staleness 0(?![.\d])", mode) or re.search(r"(one|1|\d)[- ]?steps? ?-?off|\d ?-?off(?!load)", mode):
        return Schedule.ONE_STEP_OFF
    if re.search(_OVERLAPS, mode):
        return Schedule.ASYNC if "async" in mode else Schedule.ONE_STEP_OFF
    return Schedule.FULL


def split(mode: str, gpus: int, assumed: list[str]) -> tuple[int, int]:
    """Return the GPUs of trainer and rollout; no rollout when all do both in turns."""
    sides = {side: int(found[1] or found[2]) for side, words in _SIDES.items() if (found := re.search(words, mode)) is not None}
    if "rollout" in sides and "train" in sides:
        parts = sides["train"], sides["rollout"]
    elif (pair := re.search(r"(?<![\d.])(\d+) ?[:+] ?(\d+)(?![\d.])", mode)) is not None:
        first, second = int(pair[1]), int(pair[2])
        is_rollout_first = "one-step" in mode or "one step" in mode or re.search(r"(rollout|generat\w*|inference) ?[:+/]", mode)
        parts = (second, first) if is_rollout_first else (first, second)
        if "train" not in mode and not is_rollout_first and first != second:
            assumed.append(f"{first} GPUs train and {second} generate")
    elif sides and max(sides.values()) < gpus and re.search(rf"{_OVERLAPS}|{_APART}|gpus?\b", mode):  # not: 8 rollouts of a prompt
        alone = next(iter(sides.values()))
        parts = (alone, gpus - alone) if "train" in sides else (gpus - alone, alone)
    elif re.search(rf"{_OVERLAPS}|{_APART}", mode):
        parts = gpus // 2, gpus - gpus // 2
        assumed.append("half of the GPUs train, half of them generate")
    else:
        return gpus, 0
    if min(parts) < 1 or sum(parts) != gpus:
        raise Unpredictable(f"{parts[0]} and {parts[1]} GPUs are not the {gpus} of the row")
    return parts
