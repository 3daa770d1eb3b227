"""
Files that were given to the wrong option: a device map as the machine, a machine as the job.

When to modify: an option takes a new kind of file, or there is a new kind of document.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from placement.catalog import workload_names
from placement.errors import InputError
from topologies.catalog import machine_names

_HEAD_BYTES = 1 << 16
_SCHEMA = re.compile(r"""^[ \t{]*["']?schema["']?:[ \t]*["']?placement/([a-z-]+)/v\d""", re.MULTILINE)
_DOCUMENT = re.compile(r"""(?:[ \t]*(?:#[^\n]*|---[ \t]*)?\r?\n)*+[ \t]*(?:\{|["']?\w+["']?[ \t]*:(?:\s|$))""")
"""How YAML and JSON begin; prose that shows some of it does not."""

_KINDS = {
    "device-map": ("a device map, which `placement plan` writes", None),
    "topology": ("a topology", "--topology"),
    "workload": ("a workload", "--workload"),
}
"""Kind of document → what it is, and the option that takes it."""

_MARKS = (
    ("device-map", re.compile(r"^device_map:", re.MULTILINE)),
    ("workload", re.compile(r"^algorithm:", re.MULTILINE)),
    ("topology", re.compile(r"^[^\S\n]*GPU0[ \t].*(GPU1|CPU Affinity)|^index, ?name", re.MULTILINE)),
)
"""How documents look that do not say their schema."""

Read = TypeVar("Read")


def reading(wanted: str, source: str, read: Callable[[], Read]) -> Read:
    """
    Return what *read* returns for *source*, which should be of the kind *wanted* (``topology`` or ``workload``).

    Raises
    ------
    InputError
        If it cannot be read because it is of another kind, which is said; what *read* raises otherwise.
    """
    try:
        return read()
    except InputError:
        kind = _kind(source)
        if kind is None or kind == wanted:
            raise
        what, option = _KINDS[kind]
        remedy = f"{option} takes it" if option else f"give {_KINDS[wanted][0]}"
        raise InputError(f"{source} is {what}, not {_KINDS[wanted][0]}: {remedy}") from None


def option_of(source: str) -> str | None:
    """Return the option that takes *source*, if that shows: ``--topology`` or ``--workload``."""
    kind = _kind(source)
    return _KINDS[kind][1] if kind is not None else None


def _kind(source: str) -> str | None:
    """Return what *source* is, if that shows."""
    if source in workload_names():
        return "workload"
    if source in machine_names():
        return "topology"
    try:
        with Path(source).open("rb") as file:
            text = file.read(_HEAD_BYTES).decode("utf-8-sig", "replace")
    except (OSError, ValueError):
        return None
    is_document = _DOCUMENT.match(text) is not None
    said = _SCHEMA.search(text) if is_document else None
    if said is not None:
        return said[1] if said[1] in _KINDS else None
    return next((kind for kind, mark in _MARKS if (is_document or kind == "topology") and mark.search(text)), None)
