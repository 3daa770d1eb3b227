"""
What a reader of machines raises.

::

    TopologyError(ValueError)     a text, file or option that describes no machine; the message says why and what to do
    └─ NotRecognised              … a text in which no output about GPUs was found at all
"""

from __future__ import annotations


class TopologyError(ValueError):
    """
    A machine that cannot be read or cannot exist.

    Parameters
    ----------
    message
        One line: the culprit, then the remedy.
    where
        ``file``, ``file:line`` or ``file:line:column`` of the culprit, if there is such a place.
    """

    def __init__(self, message: str, *, where: str | None = None) -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where


class NotRecognised(TopologyError):
    """A text that is no output about GPUs of any kind."""
