"""
What a reader finds in a text.

When to modify: readers have to report more than a topology and its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from topologies.model import Topology

_SHOWN = 24
_MORE = " more codes"
_LONGEST = 40
_UNKNOWN = "unknown code"


@dataclass(frozen=True, slots=True)
class Reading:
    """A topology and the number of the line where it begins."""

    line: int
    topology: Topology


def listing(names: Sequence[str]) -> str:
    """Return *names* in words, runs of numbers shortened: ``GPU3 to GPU7, mlx5_0``."""
    runs: list[tuple[str, str]] = []
    for name in names:
        if runs and _follows(runs[-1][1], name):
            runs[-1] = (runs[-1][0], name)
        else:
            runs.append((name, name))
    words = []
    for first, last in runs:
        if first == last:
            words.append(first)
        elif _follows(first, last):
            words += [first, last]
        else:
            words.append(f"{first} to {last}")
    return ", ".join(words[:_SHOWN]) + (f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else "")


def unknown_codes(
    codes: Iterable[str], is_known: Callable[[str], bool], said: Sequence[str] = ()
) -> list[str]:
    """
    Return a warning that names those of *codes* that are not known, unless *said* names them.

    They are never shortened to runs: what several matrices say of theirs names those of all together, too.
    """
    odd = sorted({code[:_LONGEST] for code in codes if not is_known(code)})
    named = [warning for warning in said if warning.startswith(_UNKNOWN)]
    if any(_MORE in warning for warning in named):
        return []
    more = f" and {len(odd) - _SHOWN}{_MORE}" if len(odd) > _SHOWN else ""
    warning = f"{_UNKNOWN} {', '.join(odd[:_SHOWN])}{more}: no hardware has such a link, so nothing is known of its speed"
    is_said = warning in said or all(code and any(code in other for other in named) for code in odd)
    return [] if is_said else [warning]


def _follows(a: str, b: str) -> bool:
    """Whether *b* is *a* with the next number."""
    left, right = re.fullmatch(r"(.*?)([0-9]{1,9})", a, re.DOTALL), re.fullmatch(r"(.*?)([0-9]{1,9})", b, re.DOTALL)
    return (
        left is not None and right is not None and left[1] == right[1] and int(right[2]) == int(left[2]) + 1
    )
