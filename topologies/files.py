"""
The bytes of a file, or of standard input: bounded, and refused with the reason.

When to modify: another place that bytes come from.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import BinaryIO

from topologies.errors import TopologyError
from topologies.pages.text import MAX_BYTES, too_large


def read_source(source: str, stdin: BinaryIO | None = None) -> bytes:
    """
    Return the bytes of a file, or of ``-``.

    Raises
    ------
    TopologyError
        If there are none, or too many.
    """
    if source != "-":
        return _file(source)
    if stdin is None:
        raise TopologyError("standard input is closed, so - cannot be read")
    return _limited(stdin.read, "<stdin>")


def _file(path: str) -> bytes:
    try:
        if stat.S_ISDIR(os.stat(path).st_mode):
            raise TopologyError(f"this is a folder; `placement collect {path}` makes one file of the hosts in it", where=path)
        with open(path, "rb") as file:
            return _limited(file.read, path)
    except OSError as error:
        raise TopologyError(f"cannot be read: {error.strerror}", where=path) from None


def _limited(read: Callable[[int], bytes], name: str) -> bytes:
    """Return everything that *read* gives, or refuse when it is too much; never holds more than the limit."""
    data = read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise too_large(name)
    return data
