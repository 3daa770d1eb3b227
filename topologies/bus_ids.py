"""
Bus ids: where a PCI function stands in its host.

Tools of NVIDIA print eight digits of the domain in capitals (``00000000:3B:00.0``), the kernel four in lower case (``0000:3b:00.0``),
and ``lspci`` none where there is one domain only.

When to modify: a tool prints a bus id in another form.
"""

from __future__ import annotations

import re

WITH_DOMAIN = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"
"""A bus id with its domain; a function has three bits."""

BUS_ID = r"(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"
"""A bus id, with its domain or without."""

_PARTS = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])")


def full_bus_id(text: str) -> str | None:
    """Return *text* (``3B:00.0``, ``00000000:3B:00.0``) as the kernel writes it, ``0000:3b:00.0``; None if it is no bus id."""
    match = _PARTS.fullmatch(text.strip())
    if match is None:
        return None
    return f"{int(match[1] or '0', 16):04x}:{match[2]}:{match[3]}.{match[4]}".lower()


def order(bus_id: str) -> tuple[int, ...]:
    """Return the place of *bus_id* in PCI order."""
    return tuple(int(part, 16) for part in re.split(r"[:.]", bus_id))
