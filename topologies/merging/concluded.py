"""
Numbers that a reader worked out of others that the source states: they yield to the same number where a source states it.

When to modify: another fact is concluded, or conclusions are of different worth.
"""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


class Concluded(int):
    """A number, MiB or other, that no source states."""

    __slots__ = ()


def stated_first(left: T, right: T) -> tuple[T, T]:
    """Return both with the one that is stated before the one that is only concluded."""
    is_concluded = isinstance(left, Concluded) and right is not None and not isinstance(right, Concluded)
    return (right, left) if is_concluded else (left, right)
