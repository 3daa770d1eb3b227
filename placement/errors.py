"""
The error tree: ``except placement.PlacementError`` catches whatever a user can cause.

::

    PlacementError
    ├─ InputError(ValueError)      the user's file, name or option is wrong; exit 2
    │  ├─ MachineError             … of a machine: also a `topologies.errors.TopologyError`
    │  └─ PreflightError           this process is not where the map has it
    ├─ OutputError(OSError)        the result cannot be written; exit 2
    └─ SolverBug(RuntimeError)     the checker disagrees with a solver: our bug, reported loudly; exit 70

`topologies` knows nothing of this package and raises its own error; `placement.machines.sources` makes it a `MachineError`.
"No plan exists" is no error: it is an answer (`placement.planner.Outcome`).
"""

from __future__ import annotations

from topologies.errors import TopologyError


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


class MachineError(InputError, TopologyError):
    """A description of a machine cannot be read, or describes none that can exist."""


class PreflightError(InputError):
    """A process of a job is not where the device map has it: what differs, and how to start it right."""


class OutputError(PlacementError, OSError):
    """The result cannot be written where the user wants it."""


class SolverBug(PlacementError, RuntimeError):
    """The checker disagrees with what a solver claims."""
