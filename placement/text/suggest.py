"""
"Did you mean …?": the known word that is nearest to what a user wrote.

When to modify: suggestions miss what people mistype.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the one of *known* that *word* was probably meant to be, in whatever case; None when none is near."""
    names = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word[:80].lower(), names, n=1)
    return names[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `` (did you mean 'ppo'?)``, or nothing."""
    name = nearest(word, known)
    return f" (did you mean {name!r}?)" if name else ""
