"""
Ask the driver one thing at a time, and keep account of what it does not answer.

A call that fails leaves one fact unknown, never the whole reading. Facts that many machines lack (MIG, an NVLink fabric) are *rare*:
that the driver does not support them says nothing unusual, unless another card of the same name has them.

When to modify: another kind of answer, or another way to say what is not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from topologies.model import Pair
from topologies.pages.reading import listing

INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
FUNCTION_NOT_FOUND = 13
ARGUMENT_VERSION_MISMATCH = 25
UNKNOWN = 999

_DEAD = frozenset({15, 16})
"""GPU_IS_LOST and RESET_REQUIRED: nothing can run on such a GPU."""

ABSENT = frozenset({NOT_SUPPORTED, FUNCTION_NOT_FOUND})
"""What a driver, or a card, answers that does not have the fact at all."""

_MOST_PAIRS_SHOWN = 12
_UNSIGNED_INT = 1


class Unanswered(Exception):
    """A call without an answer: NVML's *code*, and the *reason* in words."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.is_lost = code in _DEAD


class Lost(Exception):
    """A GPU that has fallen off the bus."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index
        self.reason = reason


@dataclass
class Driver:
    """
    The driver, through nvidia-ml-py.

    Parameters
    ----------
    nvml
        The module, initialised.
    """

    nvml: Any
    _failures: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    _rare: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    _answered: dict[str, set[int]] = field(default_factory=dict)
    _pairs: dict[tuple[str, str], list[Pair]] = field(default_factory=dict)
    _notes: dict[str, list[int]] = field(default_factory=dict)

    def call(self, name: str, *arguments: Any) -> Any:
        """
        Return the answer to ``nvml{name}``.

        Raises
        ------
        Unanswered
            If there is none: an error, or a function that the driver or the package does not have.
        """
        function = getattr(self.nvml, f"nvml{name}", None)
        if function is None:
            raise Unanswered(FUNCTION_NOT_FOUND, "Function Not Found")
        try:
            return function(*arguments)
        except self.nvml.NVMLError as error:
            raise Unanswered(error.value, reason_of(error)) from None
        except UnicodeDecodeError:
            raise Unanswered(UNKNOWN, "its answer is no text") from None

    def error(self, code: int) -> Unanswered:
        """Return what *code*, which came with one of several values, means."""
        try:
            return Unanswered(code, reason_of(self.nvml.NVMLError(code)))
        except Exception:  # the text is the library's, and a library may have none
            return Unanswered(code, f"NVML error {code}")

    def fact(self, index: int, what: str, name: str, *arguments: Any, is_rare: bool = False) -> Any:
        """
        Return what ``nvml{name}`` says of GPU *index*; None, and a warning in the end, if it does not answer.

        Parameters
        ----------
        what
            What warnings call the fact.
        is_rare
            Whether many machines do not have it.

        Raises
        ------
        Lost
            If the GPU is.
        """
        try:
            answer = self.call(name, *arguments)
        except Unanswered as error:
            self.failed(index, what, error, is_rare=is_rare)
            return None
        self._answered.setdefault(what, set()).add(index)
        return answer

    def failed(self, index: int, what: str, error: Unanswered, *, is_rare: bool = False) -> None:
        """
        Note that *what* is unknown of GPU *index*.

        Raises
        ------
        Lost
            If the GPU is.
        """
        if error.is_lost:
            raise Lost(index, error.reason)
        kind = self._rare if is_rare and error.code in ABSENT else self._failures
        noted = kind.setdefault((what, error.reason), [])
        if index not in noted:
            noted.append(index)

    def note(self, index: int, sentence: str) -> None:
        """Warn in the end with *sentence*, in which ``{gpus}`` stands for every GPU of which it is noted."""
        self._notes.setdefault(sentence, []).append(index)

    def of_pair(
        self, pair: Pair, handles: Mapping[int, Any], what: str | None, name: str, *more: int
    ) -> Any:
        """
        Return what ``nvml{name}`` says of a pair of GPUs; None if it does not answer, and a warning in the end if *what* names it.

        Raises
        ------
        Lost
            If one of them is.
        """
        try:
            return self.call(name, handles[pair[0]], handles[pair[1]], *more)
        except Unanswered as error:
            if error.is_lost:
                self._find_lost(pair, handles)
            if what is not None:
                self._pairs.setdefault((what, error.reason), []).append(pair)
            return None

    def _find_lost(self, pair: Pair, handles: Mapping[int, Any]) -> None:
        """Ask both GPUs of *pair* for something that changes, which the driver cannot remember: one of them is lost."""
        for index in pair:
            try:
                self.call("DeviceGetMemoryInfo", handles[index])
            except Unanswered as error:
                if error.is_lost:
                    raise Lost(index, error.reason) from None

    def warnings(self, new: Mapping[int, int], names: Mapping[int, str | None]) -> list[str]:
        """
        Return one sentence for everything that some GPUs do not answer for the same reason.

        Parameters
        ----------
        new
            The driver's index of each GPU that was kept, and its index here.
        names
            The card of each.
        """
        failures = dict(self._failures)
        for (what, reason), indices in self._rare.items():
            has_it = {names.get(index) for index in self._answered.get(what, ())}
            if odd := [index for index in indices if names.get(index) in has_it]:
                failures[what, reason] = odd
        grouped: dict[tuple[tuple[int, ...], str], list[str]] = {}
        for (what, reason), indices in failures.items():
            if kept := tuple(sorted(new[index] for index in indices if index in new)):
                grouped.setdefault((kept, reason), []).append(what)
        sentences = [
            note.replace("{gpus}", gpus_in_words([new[index] for index in indices if index in new]))
            for note, indices in self._notes.items()
            if any(index in new for index in indices)
        ]
        sentences += [
            f"the driver does not tell the {in_words(facts)} of {gpus_in_words(kept)} ({reason})"
            for (kept, reason), facts in grouped.items()
        ]
        for (what, reason), pairs in self._pairs.items():
            if shown := [(new[i], new[j]) for i, j in pairs if i in new and j in new]:
                sentences.append(
                    f"the driver does not tell the {what} between GPUs {pairs_in_words(shown)} ({reason})"
                )
        return sentences


def value_of(field: Any) -> int:
    """Return the number in the answer to a question for *field*."""
    return int(field.value.uiVal if field.valueType == _UNSIGNED_INT else field.value.ullVal)


def reason_of(error: Exception) -> str:
    """Return what *error* says, as one line without the dot at its end."""
    try:
        words = " ".join(str(error).split()).rstrip(".")
    except Exception:  # the text is the library's, whose answer may be no text
        words = ""
    return words or f"NVML error {getattr(error, 'value', '?')}"


def gpus_in_words(indices: Sequence[int]) -> str:
    """Return *indices*, ascending, as ``GPU 0, GPU 4 to GPU 7``."""
    return listing([f"GPU {index}" for index in indices])


def pairs_in_words(pairs: Sequence[Pair]) -> str:
    """Return *pairs* as ``0-1, 2-3``, and how many more there are."""
    words = ", ".join(f"{i}-{j}" for i, j in pairs[:_MOST_PAIRS_SHOWN])
    more = len(pairs) - _MOST_PAIRS_SHOWN
    return f"{words} and {more} more pairs" if more > 0 else words


def in_words(facts: Sequence[str]) -> str:
    """Return *facts* as ``a, b and c``."""
    return " and ".join([", ".join(facts[:-1]), facts[-1]] if len(facts) > 1 else facts)
