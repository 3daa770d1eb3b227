"""
The error tree. The command line catches `PlacementError` and `topologies.TopologyError` only.

::

    PlacementError
    ├─ InputError(ValueError)      the user's file, name or option is wrong; exit 2
    ├─ OutputError(OSError)        the result cannot be written; exit 2
    └─ SolverBug(RuntimeError)     the checker disagrees with a solver: our bug, reported loudly; exit 70

"No plan exists" is no error: it is an answer (`placement.planner.Outcome`).
"""

from __future__ import annotations


class PlacementError(Exception):
    """Anything that the user should read as one line instead of a traceback."""


class InputError(PlacementError, ValueError):
    """
    The user's input is wrong.

    Parameters
    ----------
    message
        The culprit, then the remedy.
    where
        ``file:line:column`` (or less) of the culprit.
    excerpt
        The offending line, shown below the message with a caret.
    """

    def __init__(self, message: str, *, where: str | None = None, excerpt: str | None = None) -> None:
        text = f"{where}: {message}" if where else message
        super().__init__(f"{text}\n{excerpt}" if excerpt else text)
        self.where = where


class OutputError(PlacementError, OSError):
    """The result cannot be written where the user wants it."""


class SolverBug(PlacementError, RuntimeError):
    """The checker disagrees with what a solver claims."""
