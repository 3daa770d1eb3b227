"""
Ctrl-C: the first one stops the work, so that what is known can still be said; more of them change nothing, until the third ends us.

When to modify: another signal is worth an answer.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

from placement.cli import EXIT_INTERRUPTED

AT_ONCE = 3
"""Interrupts after which nothing more is said."""


class Interrupts:
    """How often the user has asked us to stop."""

    def __init__(self) -> None:
        self.count = 0

    def listen(self) -> None:
        """Take SIGINT from now on, unless whoever started us wants it ignored (``nohup``, a job in the background)."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._asked)

    def ignore(self) -> None:
        """From now on only the exit code is left to give, and one more SIGINT must not change it."""
        if self.count:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _asked(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count >= AT_ONCE:
            os._exit(EXIT_INTERRUPTED)
        if self.count == 1:
            raise KeyboardInterrupt
