"""
Whose the memory in ``nvidia-smi -q`` is: that of a GPU or, under the same titles but printed before it, that of its MIG instances.

Titles and keys of instances tell it and, where a grep took those away, how far in a title of memory stands beside the others.

When to modify: the tool prints the memory of instances in another place.
"""

from __future__ import annotations

import bisect
import re

from topologies.bus_ids import WITH_DOMAIN

_MEMORY = re.compile(r" Memory Usage[ \t]{0,200}$", re.MULTILINE)
_TITLES = ("FB", "BAR1")
_BEGINS = (re.compile("=NVSMI LOG"), re.compile("Attached GPUs"))
_GPU = re.compile(rf"\bGPU (?={WITH_DOMAIN}\b)")
_FARTHEST = 200
"""Columns that are looked at before a title: what is further in is no output."""

_LEAST = 2
"""Blanks by which the facts of an instance are further in; the tool prints 4."""

_INNER = {"GPU Instance ID": 0, "Multiprocessor count": 8, "Multiprocessor Count": 8}
"""Keys of an instance, above its memory, and by how many columns they are further in than that."""

INSTANCE_KEYS = tuple(_INNER)


def indentation(before: str) -> int:
    """Return by how many columns a word is further in, *before* which this stands in its line: a prefix is none."""
    return len(before[len(before.rstrip(" \t")) :].expandtabs())


def deeper_memory(text: str) -> frozenset[int]:
    """
    Return where in *text* titles of memory begin that stand further in than others of the same output: they are of instances.

    The block of a GPU may be pasted further in as a whole: what does not stand further from the title of its GPU than others do from
    theirs is that of the GPU.
    """
    if text.count("Memory Usage") < 2:
        return frozenset()
    first = len(text) - len(text.lstrip())    # its line may have lost blanks
    begins = sorted(match.start() for pattern in _BEGINS for match in pattern.finditer(text))
    gpus = [(match.start(), _column(text, match.start())) for match in _GPU.finditer(text)]
    outputs: dict[int, list[tuple[int, int, int]]] = {}
    for match in _MEMORY.finditer(text):
        end = match.start()
        word = next((title for title in _TITLES if text.endswith(title, 0, end)), None)
        if word is not None:
            start = end - len(word)
            column, above = _column(text, start), bisect.bisect(gpus, (start, 0))
            of_gpu = gpus[above - 1][1] if above else 0
            outputs.setdefault(bisect.bisect(begins, start), []).append((start, column, column - of_gpu))
    found: set[int] = set()
    for titles in outputs.values():
        others = [title for title in titles if title[0] != first]
        least = min((column for _, column, _ in others), default=0)
        least_from_gpu = min((distance for _, _, distance in others), default=0)
        found |= {start for start, column, distance in titles if column >= least + _LEAST and distance >= least_from_gpu + _LEAST}
    return frozenset(found)


def _column(text: str, start: int) -> int:
    """Return by how many columns the word that begins at *start* of *text* is further in."""
    return indentation(text[max(text.rfind("\n", 0, start) + 1, start - _FARTHEST) : start])


class InstanceMemory:
    """The MIG instance of a GPU that was read last, and which of the memory below it is its own."""

    def __init__(self) -> None:
        self._column: int | None = None
        self._inner: frozenset[int] = frozenset()
        self._seen: set[str] = set()

    def begin(self, column: int) -> None:
        """Begin an instance, whose title stands in *column*."""
        self._column, self._inner, self._seen = column, frozenset(), set()

    def show(self, key: str, column: int) -> None:
        """Take in one of `INSTANCE_KEYS` in *column*: the memory below is that of an instance, whether it has a title or not."""
        self._inner, self._seen = frozenset({column, column - _INNER[key]}), set()

    def owns(self, memory: str, column: int) -> bool:
        """Whether a title of *memory* in *column* is that of the instance: it is further in or, where lines lost that, the first."""
        is_own = self._column is not None and column >= self._column and (column > self._column or memory not in self._seen)
        if is_own or (column in self._inner and memory not in self._seen):
            self._seen.add(memory)
            return True
        return False
