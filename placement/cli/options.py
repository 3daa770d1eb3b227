"""
What options take, read here and not by typer: a refusal names the option, the value, and what is allowed.

When to modify: an option takes a new kind of value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from placement.errors import InputError
from placement.suggest import did_you_mean


def choice(option: str, text: str, allowed: Sequence[str]) -> str:
    """
    Read one of the words *allowed*.

    Raises
    ------
    InputError
        If *text* is another word.
    """
    if text in allowed:
        return text
    raise InputError(f"{option} cannot be {text!r}{did_you_mean(text, allowed)}: it takes {_listed(allowed)}")


def percentage(option: str, text: str) -> float:
    """
    Read a percentage, with or without its sign: ``2``, ``2%``.

    Raises
    ------
    InputError
        If *text* is none from 0 to 100.
    """
    value = _number(text.strip().removesuffix("%"))
    if value is None or not 0 <= value <= 100:
        raise InputError(f"{option} cannot be {text!r}: it takes a percentage from 0 to 100, such as 2 or 2%")
    return value


def seconds(option: str, text: str) -> float:
    """
    Read a time in seconds.

    Raises
    ------
    InputError
        If *text* is no finite number, or a negative one.
    """
    value = _number(text)
    if value is None or value < 0:
        raise InputError(f"{option} cannot be {text!r}: it takes seconds, 0 or more, such as 60")
    return value


def count(option: str, text: str, *, most: int) -> int:
    """
    Read a count.

    Raises
    ------
    InputError
        If *text* is no whole number from 1 to *most*.
    """
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= len(str(most)) and 1 <= int(digits) <= most):
        raise InputError(f"{option} cannot be {text!r}: it takes a whole number from 1 to {most}")
    return int(digits)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _listed(words: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
