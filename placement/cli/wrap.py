"""
Lines for people: no longer than the terminal is wide.

When to modify: how a sentence that is too long is broken.
"""

from __future__ import annotations

import textwrap

_NARROWEST = 20


def wrapped(text: str, width: int) -> str:
    """Return *text* in lines of at most *width* where that breaks no word; further lines are indented."""
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    lines = textwrap.wrap(
        text, max(width, _NARROWEST), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines)
