"""
What ``--topology SRC`` may name: a file, ``-``, a shipped machine, ``live``, one of several matrices, or a join of several.

When to modify: a new way to name a machine.
"""

from __future__ import annotations

import os
import re
from typing import BinaryIO

from topologies.clusters import short_form
from topologies.clusters.by_host import by_host
from topologies.clusters.collect import collect
from topologies.clusters.marks import prefixes_of_outputs
from topologies.clusters.outputs import repeated
from topologies.documents import document_read
from topologies.errors import TopologyError
from topologies.files import read_source
from topologies.merging.merge import merge
from topologies.merging.nic_identity import with_gpus
from topologies.model import Topology
from topologies.pages.text import TAKEN_AS_ONE, decode, one_machine
from topologies.read import read_text

LIVE = "live"
_PICK = re.compile(r"(?P<source>.+)#(?P<pick>[0-9]{1,4})", re.DOTALL)


def load(source: str, *, stdin: BinaryIO | None = None) -> Topology:
    """
    Return the machine that *source* names.

    Parameters
    ----------
    source
        A file, ``-``, the name of a shipped machine, or ``live``; ``#2`` behind it takes the second matrix of a text;
        ``a.txt+gpus.csv`` joins several sources of one machine; ``dgx-h100 x 16 @ 8x50GB/s`` is a cluster in a few words. A text in
        which several hosts talk (``pdsh``, ``srun -l``) is a cluster. A file whose name contains ``+`` or ``#`` wins.
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
        return with_gpus(_load_one(source, stdin), where=source)
    if "" in parts:
        raise TopologyError(f"{source!r} joins nothing on one side of its +")
    if parts.count("-") > 1:
        raise TopologyError("standard input (-) can be read only once")
    return merge([_load_one(part, stdin) for part in parts], names=parts)


def _exists(path: str) -> bool:
    return "\0" not in path and os.path.exists(path)


def _load_one(source: str, stdin: BinaryIO | None) -> Topology:
    if _exists(source):
        return _read(read_source(source), source)
    match = _PICK.fullmatch(source)
    if match is not None:
        return _load_named(match["source"], stdin, int(match["pick"]))
    return _load_named(source, stdin, None)


def _load_named(source: str, stdin: BinaryIO | None, pick: int | None) -> Topology:
    if source == "-":
        return _read(read_source(source, stdin), "<stdin>", pick)
    if source == LIVE:
        from topologies.nvml.live import read_live
        from topologies.pci.sysfs import add_host_facts

        return add_host_facts(read_live())
    if _exists(source):
        return _read(read_source(source), source, pick)
    if os.path.islink(source):
        raise TopologyError("this is a link that leads nowhere", where=source)
    short_form.refuse_file(source)
    if short_form.looks_like(source):
        if pick is not None:
            raise TopologyError(f"#{pick} picks one of several matrices in a text, and {source!r} is no text")
        return short_form.read(source)
    if os.sep in source or re.search(r"\.\w{1,5}$", source):
        raise TopologyError(
            "there is no such file; `placement catalog machines` lists the shipped machines", where=source
        )
    from topologies.catalog import machine_text

    try:
        text = machine_text(source)
    except TopologyError as error:
        raise TopologyError(f"there is no file {source!r}, and {error}") from None
    return read_text(text, name=source, pick=pick)


def _read(data: bytes, name: str, pick: int | None = None) -> Topology:
    """Return what *data* describes: one machine, or the several hosts that talk in it unless one of its matrices is picked."""
    text = decode(data, name=name)
    hosts = {} if pick is not None or document_read.looks_like(text) else by_host(text)
    if hosts:
        return collect({host: read_text(said, name=f"{name}[{host}]") for host, said in hosts.items()})
    machine = read_text(text, name=name, pick=pick)
    if pick is not None or document_read.looks_like(text):
        return machine
    is_told = any(TAKEN_AS_ONE in warning for warning in machine.warnings)
    doubts = [] if is_told else one_machine(prefixes_of_outputs(text))
    return machine.replace(warnings=(*machine.warnings, *doubts, *repeated([text])))
