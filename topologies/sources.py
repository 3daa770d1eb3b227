"""
What ``--topology SRC`` may name: a file, ``-``, a shipped machine, ``live``, one of several matrices, or a join of several.

When to modify: a new way to name a machine.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from typing import BinaryIO

from topologies.errors import TopologyError
from topologies.merge import merge
from topologies.model import Topology
from topologies.read import read_bytes, read_text
from topologies.text import MAX_BYTES, too_large

LIVE = "live"
_PICK = re.compile(r"(?P<source>.+)#(?P<pick>[0-9]{1,4})", re.DOTALL)


def load(source: str, *, stdin: BinaryIO | None = None) -> Topology:
    """
    Return the machine that *source* names.

    Parameters
    ----------
    source
        A file, ``-``, the name of a shipped machine, or ``live``; ``#2`` behind it takes the second matrix of a text;
        ``a.txt+gpus.csv`` joins several sources of one machine. A file whose name contains ``+`` or ``#`` wins.
    stdin
        What ``-`` reads.

    Raises
    ------
    TopologyError
        If there is no such source, or it cannot be read, or joined sources contradict each other.
    """
    if not source:
        raise TopologyError(
            "no topology is named: give a file, - for standard input, live, or the name of a shipped machine"
        )
    parts = [source] if _exists(source) else source.split("+")
    if len(parts) == 1:
        return _load_one(source, stdin)
    if "" in parts:
        raise TopologyError(f"{source!r} joins nothing on one side of its +")
    if parts.count("-") > 1:
        raise TopologyError("standard input (-) can be read only once")
    return merge([_load_one(part, stdin) for part in parts], names=parts)


def _exists(path: str) -> bool:
    return "\0" not in path and os.path.exists(path)


def _load_one(source: str, stdin: BinaryIO | None) -> Topology:
    if _exists(source):
        return read_bytes(_file(source), name=source)
    match = _PICK.fullmatch(source)
    if match is not None:
        return _load_named(match["source"], stdin, int(match["pick"]))
    return _load_named(source, stdin, None)


def _load_named(source: str, stdin: BinaryIO | None, pick: int | None) -> Topology:
    if source == "-":
        if stdin is None:
            raise TopologyError("standard input is closed, so - cannot be read")
        return read_bytes(_limited(stdin.read, "<stdin>"), name="<stdin>", pick=pick)
    if source == LIVE:
        from topologies.nvml import read_live

        return read_live()
    if _exists(source):
        return read_bytes(_file(source), name=source, pick=pick)
    if os.sep in source or re.search(r"\.\w{1,5}$", source):
        raise TopologyError(
            "there is no such file; `placement catalog machines` lists the shipped machines", where=source
        )
    from topologies.catalog import machine_text

    return read_text(machine_text(source), name=source, pick=pick)


def _file(path: str) -> bytes:
    try:
        if stat.S_ISDIR(os.stat(path).st_mode):
            raise TopologyError("this is a folder; give a file", where=path)
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
