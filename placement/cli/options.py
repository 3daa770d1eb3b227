"""
What options take, read here and not by typer: a refusal names the option, the value, and what is allowed.

When to modify: an option takes a new kind of value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from placement.errors import InputError
from placement.text.suggest import did_you_mean

_MEMORY = {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
"""Bytes of a unit."""

MOST_MEMORY_MIB = 2**27
"""128 TiB, more than any host has."""


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


def percentage(option: str, text: str, *, least: int = 0, most: int = 100) -> float:
    """
    Read a percentage, with or without its sign: ``2``, ``2%``.

    Raises
    ------
    InputError
        If *text* is none from *least* to *most*.
    """
    value = _number(text.strip().removesuffix("%"))
    if value is None or not least <= value <= most:
        raise InputError(f"{option} cannot be {text!r}: it takes a percentage from {least} to {most}, such as 2 or 2%")
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


def memory_mib(option: str, text: str) -> int:
    """
    Read an amount of memory with its unit, ``1TiB`` or ``512 GB``; return it in MiB, rounded down.

    Raises
    ------
    InputError
        If *text* is none, less than 1 GiB or more than any host has.
    """
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([kmgt]i?b)", text.strip().lower())
    mib = int(float(match[1]) * _MEMORY[match[2]] / 2**20) if match else 0
    if not 1024 <= mib <= MOST_MEMORY_MIB:
        raise InputError(f"{option} cannot be {text!r}: it takes the memory of each host, 1GiB to 128TiB, such as 1TiB or 512GiB")
    return mib


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _listed(words: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
