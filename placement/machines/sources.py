"""
Which machine the user means: sources, cards, and what is visible.

When to modify: a new way to name a machine on the command line.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from placement.errors import InputError, MachineError
from topologies import sources
from topologies.cards import assign_cards
from topologies.errors import TopologyError
from topologies.model import Topology

LIVE = "live"
DEFAULT_MACHINE = "dgx-a100-80gb"

OTHER_HOST = (
    "for another host, save what `nvidia-smi topo -m; nvidia-smi -q` prints there (AMD: `rocm-smi --showtopo --showproductname "
    "--showmeminfo vram`) and name that file in place of live"
)
"""The way on where no driver answers here."""

ID = re.compile(r"[0-9]{1,4}")


@dataclass(frozen=True, slots=True)
class Found:
    """A machine, and whether it is this host (then CUDA_VISIBLE_DEVICES applies)."""

    topology: Topology
    is_live: bool


def read_machine(source: str | os.PathLike[str], *, cards: str | None = None) -> Topology:
    """
    Return the machine that *source* names: a file, a shipped name, ``live``, or several joined by ``+``.

    *cards* names the cards where no source does (``a100-40gb``, ``0-3=a100-40gb,4-7=a100-80gb``).

    Raises
    ------
    InputError
        If the source cannot be read; it is a `topologies.errors.TopologyError`, too.
    """
    return _load(os.fspath(source), cards=cards)


def machine(source: str | None, *, cards: str | None, say: Callable[[str], None]) -> Found:
    """
    Return the machine that *source* names.

    Parameters
    ----------
    source
        None means: this host if a driver answers, else a shipped machine, which *say* then announces.
    cards
        What ``--gpu`` says; None when it was not given.

    Raises
    ------
    InputError
        If the source cannot be read; it is a `topologies.errors.TopologyError`, too.
    """
    if source is None:
        try:
            topology = sources.load(LIVE)
        except TopologyError as error:
            say(f"{error}; planning for the shipped machine {DEFAULT_MACHINE} (--topology SRC names another)")
            return Found(_load(DEFAULT_MACHINE, cards=cards), is_live=False)
        return Found(_with_cards(topology, cards), is_live=True)
    stdin = sys.stdin.buffer if sys.stdin is not None else None
    return Found(_load(source, cards=cards, stdin=stdin), is_live=source == LIVE)


def _load(source: str, *, cards: str | None, stdin: BinaryIO | None = None) -> Topology:
    try:
        topology = sources.load(source, stdin=stdin)
    except TopologyError as error:
        if source == LIVE:
            raise MachineError(f"{error}; {OTHER_HOST}") from None
        raise _as_ours(error) from None
    return _with_cards(topology, cards)


def _with_cards(topology: Topology, cards: str | None) -> Topology:
    try:
        return topology if cards is None else assign_cards(topology, cards)
    except TopologyError as error:
        raise _as_ours(error) from None


def _as_ours(error: TopologyError) -> MachineError:
    ours = MachineError(str(error))
    ours.where = error.where
    return ours


def visible_gpus(text: str | None, found: Found) -> tuple[int, ...] | None:
    """
    Return the physical ids that the job may see; None when nothing is hidden.

    *text* is what ``--visible`` says; without it the environment counts, but only on this host.

    Raises
    ------
    InputError
        If an entry is no id, names no GPU of the machine, or is given twice.
    """
    option = "--visible"
    if text is None and found.is_live:
        text, option = os.environ.get("CUDA_VISIBLE_DEVICES"), "CUDA_VISIBLE_DEVICES"
    if text is None:
        return None
    if not text.strip():
        raise InputError(f"{option} is empty, which hides every GPU: name those that the job may see")
    ids: list[int] = []
    for entry in text.replace(" ", "").split(","):
        for index in _ids(entry, found.topology, option):
            if index in ids:
                raise InputError(f"{option} names GPU {index} twice: {text!r}")
            ids.append(index)
    return tuple(sorted(ids))


def _ids(entry: str, topology: Topology, option: str) -> range | tuple[int, ...]:
    last = len(topology.gpus) - 1
    first, dash, second = entry.partition("-")
    if ID.fullmatch(entry):
        chosen = range(int(entry), int(entry) + 1)
    elif dash and ID.fullmatch(first) and ID.fullmatch(second):
        chosen = range(int(first), int(second) + 1)
    elif entry.upper().startswith(("GPU-", "MIG-")):
        matches = tuple(g.index for g in topology.gpus if g.uuid and g.uuid.lower().startswith(entry.lower()))
        if len(matches) != 1:
            raise InputError(f"{option}: {entry} is the UUID of {len(matches)} GPUs of this machine; see `placement topology`")
        return matches
    else:
        raise InputError(f"{option}: {entry!r} is no GPU id; write ids and ranges such as 0,1,4-7, or UUIDs")
    if not chosen or chosen[-1] > last:
        raise InputError(f"{option}: {entry} is not within GPUs 0 to {last} of this machine")
    return chosen
