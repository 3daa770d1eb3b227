"""
Talk to the person at the terminal: standard error only, standard output is for results.

When to modify: how progress or warnings look.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from types import TracebackType
from typing import Self

from placement.cli.wrap import wrapped

FIRST_WORD_AFTER_S = 1.0


def note(text: str) -> None:
    """
    Write a line to standard error, for whoever still reads it: a plan is not lost because nobody listens.

    On a terminal a sentence that is too long is wrapped; in a pipe it stays one line, and what has lines of its own keeps them.
    """
    if "\n" not in text and sys.stderr is not None and sys.stderr.isatty():
        text = wrapped(text, shutil.get_terminal_size().columns)
    _write(text + "\n")


def _write(text: str) -> None:
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        _fall_silent()


def _fall_silent() -> None:
    """Send what is still to be said, also by Python when it ends, to nowhere."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    except (OSError, ValueError):
        sys.stderr = None


class Status:
    """
    One line that is rewritten while something long goes on. Only on a terminal.

    Parameters
    ----------
    title
        What every line begins with.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._shown = False
        self._enabled = sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._shown:
            _write("\r\x1b[K")

    def show(self, text: str) -> None:
        """Show *text* in place of what was shown before."""
        if self._enabled:
            width = shutil.get_terminal_size().columns
            _write(f"\r\x1b[K{(self._title + text)[: width - 1]}")
            self._shown = True


class Progress:
    """
    One line that is rewritten while the solver works: incumbent, bound and gap. Only on a terminal, and only after a second:
    most plans are done before.
    """

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._shown = False
        self._enabled = sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._shown:
            _write("\r\x1b[K")

    def update(self, value_us: int, bound_us: int) -> None:
        """Show that a plan of *value_us* is known and none below *bound_us* exists."""
        if not self._enabled or time.monotonic() - self._started < FIRST_WORD_AFTER_S:
            return
        gap = 100 * (value_us - bound_us) / value_us if value_us else 0.0
        _write(f"\r\x1b[Ksolving: best {value_us / 1e6:.1f} s, bound {bound_us / 1e6:.1f} s, gap {gap:.1f} %")
        self._shown = True
