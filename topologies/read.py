"""
Read a text that describes one machine: one output or several, as pasted.

Formats are told by content. Each has a reader, which yields what it finds on the page; what they find is merged.

When to modify: a new format gets a reader in a file of its own and a line in `_READERS` or `_LONG_READERS`.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable

from topologies import nic_ports
from topologies.amd import rocm
from topologies.documents import document_read, lookalikes
from topologies.errors import NotRecognised, TopologyError
from topologies.merging.merge import merge
from topologies.model import Gpu, Topology
from topologies.nvidia import smi_errors
from topologies.nvidia.matrix import cpu, matrix, plain
from topologies.nvidia.matrix.header import parse_header
from topologies.nvidia.nccl import xml_files
from topologies.nvidia.nvlink import dcgm, gpu_list, nvlink
from topologies.nvidia.query import csv_text
from topologies.nvidia.report import report_text, report_xml
from topologies.nvidia.table import table
from topologies.pages.reading import Reading
from topologies.pages.text import MAX_BYTES, Line, Page, clean, decode, too_large
from topologies.pci import lspci

MOST_GPUS = 2**14
"""Most GPUs of all outputs in one text together; 256 matrices of 64 GPUs have as many."""

Reader = Callable[[Page], Iterable[Reading]]

_READERS: tuple[Reader, ...] = (
    matrix.read, cpu.read, csv_text.read, table.read, gpu_list.read, nvlink.read, dcgm.read, rocm.read,
)  # fmt: skip

_LONG_READERS: tuple[Reader, ...] = (report_text.read, report_xml.read, xml_files.read, lspci.read)
"""Readers of outputs of any length: they take `Page.text`, the others `Page.lines`."""


_UNNAMED = (
    "if they are of several hosts, none is named: write its name before each line (node0: ), or give each a file of its own "
    "to `placement collect`"
)
"""What may be the reason where outputs of a kind differ."""

_MATRICES = ("topo-m", "rocm-showtopo", "amd-smi-topology")
"""Formats of which a text shows one for each machine."""


def read_bytes(data: bytes, *, name: str, pick: int | None = None) -> Topology:
    """
    Return the machine that *data* describes; see `read_text`.

    Raises
    ------
    TopologyError
        If it is no text, or see `read_text`.
    """
    return read_text(decode(data, name=name), name=name, pick=pick)


def read_text(text: str, *, name: str = "<text>", pick: int | None = None) -> Topology:
    """
    Return the machine that *text* describes.

    Parameters
    ----------
    text
        Whatever a user pasted; lines that begin with ``#`` are prose unless nothing else is there.
    name
        What messages call it.
    pick
        Which matrix to take, from 1, when there are several.

    Raises
    ------
    TopologyError
        If it describes no machine, or several, or one that contradicts itself.
    """
    if len(text) > MAX_BYTES:
        raise too_large(name)
    text = (
        text.removeprefix("\ufeff").encode("utf-8", errors="replace").decode("utf-8")
    )  # no half of a character
    if document_read.looks_like(text):
        return document_read.from_text(text, name=name)
    try:
        return _machine(clean(text, name=name), pick)
    except TopologyError as error:
        raise error if error.where else TopologyError(str(error), where=name) from None


def _machine(page: Page, pick: int | None) -> Topology:
    bare = _without_comments(page)
    long = _read(page, _LONG_READERS)
    short = _read(bare, _READERS) or (_read(page, _READERS) if bare is not page else [])
    ports = _read(page, (nic_ports.read,))
    readings = sorted((*long, *short), key=lambda reading: reading.line)
    if not readings and ports and smi_errors.find_message(page) is None:
        return ports[0].topology.replace(warnings=page.warnings)  # whoever joins it has the GPUs
    if not readings:
        raise smi_errors.find_message(page) or _unrecognised(page)
    if all(reading.topology.gpus == (Gpu(0, is_named=False),) for reading in readings):
        message = f"{readings[0].topology.warnings[0]}, and nothing else is there; give the whole output"
        raise TopologyError(message, where=page.where(readings[0].line))
    readings = [*_choose(readings, page, pick), *ports]
    try:
        merged = merge(
            [r.topology for r in readings], names=[f"the {r.topology.format} of line {r.line}" for r in readings]
        )
    except TopologyError as error:
        kinds = Counter(reading.topology.format for reading in readings)
        several = [kind for kind, count in kinds.items() if count > 1]
        raise (TopologyError(f"{error}; there are several of {', '.join(several)}: {_UNNAMED}") if several else error) from None
    left_out = [page.left_out] if page.left_out and not long else []
    return merged.replace(warnings=(*page.warnings, *left_out, *merged.warnings, *smi_errors.warnings(page)))


def _read(page: Page, readers: Iterable[Reader]) -> list[Reading]:
    found: list[Reading] = []
    gpus = 0
    for reading in (reading for reader in readers for reading in reader(page)):
        found.append(reading)
        gpus += len(reading.topology.gpus)
        if gpus > MOST_GPUS:
            message = f"{len(found)} outputs with {gpus:,} GPUs together: give those of one machine"
            raise TopologyError(message, where=page.where(reading.line))
    return found


def _without_comments(page: Page) -> Page:
    """Return *page* with blank lines for those that begin with ``#``; itself if there are none."""
    if not any(n.text.lstrip().startswith("#") for n in page.lines):
        return page
    lines = tuple(Line(n.number, "") if n.text.lstrip().startswith("#") else n for n in page.lines)
    return dataclasses.replace(page, lines=lines)


def _choose(readings: list[Reading], page: Page, pick: int | None) -> list[Reading]:
    """Return *readings* with one matrix of links: the picked one, or all if none contradicts another."""
    matrices = [r for r in readings if r.topology.format.startswith(_MATRICES)]
    if pick is not None:
        if not 1 <= pick <= len(matrices):
            raise TopologyError(
                f"matrix #{pick} was asked for, but the text has only {len(matrices)}", where=page.name
            )
        return [r for r in readings if r not in matrices or r is matrices[pick - 1]]
    for position, second in enumerate(matrices[1:], start=2):
        first = matrices[0]
        try:
            merge([first.topology, second.topology], names=["#1", f"#{position}"])
        except TopologyError as error:
            raise TopologyError(
                f"there are {len(matrices)} matrices, and they differ: #1 begins in line {first.line}, #{position} in line "
                f"{second.line} ({error}); pick one with {page.name}#1 or {page.name}#{position}; or {_UNNAMED}",
                where=page.where(second.line),
            ) from None
    return readings


def _unrecognised(page: Page) -> TopologyError:
    header = next((line.number for line in page.lines if parse_header(line.text)), None)
    if header is not None and plain.labels_are_cut(page):
        message = "the labels of the rows are cut at the left, and their X do not tell which is which; copy the lines from their beginning"
        return TopologyError(message, where=page.where(header))
    if header is not None:
        message = "the matrix has a header but no rows; paste the whole output of `nvidia-smi topo -m`"
        return TopologyError(message, where=page.where(header))
    first = next((line for line in page.lines if line.text.strip()), page.lines[0])
    if (told := lookalikes.look(page.text)) is not None:
        return NotRecognised(told, where=page.where(first.number))
    begin = first.text.strip() or "blanks"
    shown = begin if len(begin) <= 80 else begin[:80] + " …"
    return NotRecognised(
        f"no output that describes GPUs was recognised; the text begins with {shown!r}. "
        "Give the output of `nvidia-smi topo -m; nvidia-smi -q` (AMD: `rocm-smi --showtopo`); docs/sources.md lists all that is read",
        where=page.where(first.number),
    )
