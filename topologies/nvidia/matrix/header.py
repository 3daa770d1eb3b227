"""
The header of a matrix: labels of devices and titles of columns, also where they are glued or one space apart.

When to modify: a driver prints a new column, or titles get damaged in a new way.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from topologies import codes

MOST_DEVICES = 1024
"""Most GPUs and NICs of one matrix; more is no machine."""


class Kind(StrEnum):
    """What a column is."""

    DEVICE = "device"
    CPU_AFFINITY = "cpu_affinity"
    NUMA = "numa"
    GPU_NUMA_ID = "gpu_numa_id"
    ELIDED = "..."
    OTHER = "other"


TITLES = {Kind.CPU_AFFINITY: "CPU Affinity", Kind.NUMA: "NUMA Affinity", Kind.GPU_NUMA_ID: "GPU NUMA ID"}
_TITLE_KIND = {"cpuaffinity": Kind.CPU_AFFINITY, "numaaffinity": Kind.NUMA, "gpunumaid": Kind.GPU_NUMA_ID}

TITLE_WORDS = frozenset({"CPU", "NUMA", "GPU", "ID", "Affinity"})
"""The words of the titles."""

_PIECE = re.compile(
    rf"(?P<title>CPU[ _]*Affinity|NUMA[ _]*Affinity|GPU[ _]*NUMA[ _]*ID)|(?P<device>{codes.DEVICE}|(?:[A-Z]{{1,3}}PU|GP)[0-9]+)"
    r"|(?P<elided>\.{3}|…)|(?P<other>[^\s|]+)"
)
_GPU_LABEL = re.compile(r"(?:GPU|[A-Z]{1,3}PU|GP)(?P<index>[0-9]+)")
FIRST_LABEL = re.compile(r"(?<![\w/-])(?:GPU|[A-Z]{1,3}PU|GP)[0-9]+")
"""A label of a GPU, or of another vendor's accelerator."""


_LONGEST_NIC_HEADER = 32 * MOST_DEVICES
"""Characters: a longer line is no header of NICs."""


@dataclass(frozen=True, slots=True)
class Column:
    """
    A column of a matrix.

    Parameters
    ----------
    name
        As printed.
    kind
        What it is.
    start
        Where its title begins, counted from the first character of the line.
    """

    name: str
    kind: Kind
    start: int


@functools.lru_cache(maxsize=2048)
def is_gpu_label(label: str) -> bool:
    """Whether *label* is that of a GPU or of another vendor's accelerator."""
    return _GPU_LABEL.fullmatch(label) is not None


@functools.lru_cache(maxsize=2048)
def gpu_index(label: str) -> int:
    """Return the number in a GPU label."""
    match = _GPU_LABEL.fullmatch(label)
    assert match is not None
    return int(match["index"][:7])  # longer ones are no index anyway, and Python refuses to read very long numbers


@functools.lru_cache(maxsize=64)
def parse_header(text: str) -> tuple[Column, ...]:
    """Return the columns that the header line *text* names; empty when it is no header."""
    first = FIRST_LABEL.search(text) if codes.may_have_label(text) else None
    if text.count("GPU") > 2 * MOST_DEVICES:
        return ()
    if first is None:
        return _nic_header(text)
    columns: list[Column] = []
    for start, title in _fields(text, first.start()):
        columns += _columns_of(title, start)
    devices = [c for c in columns if c.kind is Kind.DEVICE]
    titles = [c for c in columns if c.kind in TITLES]
    others = [c for c in columns if c.kind is Kind.OTHER]
    if len(devices) > MOST_DEVICES:
        return ()
    is_header = len(others) <= len(devices) + len(titles) and (
        len(devices) > 1 or bool(titles) or len(columns) == 1
    )
    return tuple(columns) if is_header else ()


def _nic_header(text: str) -> tuple[Column, ...]:
    """Return the columns of a header of which only NICs and the titles after them were kept; empty when it is none."""
    if text[:1] not in (" ", "\t") or ":" in text or not codes.NIC.match(text.lstrip()) or len(text) > _LONGEST_NIC_HEADER:
        return ()
    columns = [c for start, title in _fields(text, len(text) - len(text.lstrip())) for c in _columns_of(title, start)]
    nics = sum(c.kind is Kind.DEVICE for c in columns)
    is_header = all(c.kind is Kind.DEVICE for c in columns[:nics]) and all(c.kind in TITLES for c in columns[nics:])
    return tuple(columns) if is_header and 0 < nics <= MOST_DEVICES and len(columns) > 1 else ()


def _fields(text: str, start: int) -> Iterator[tuple[int, str]]:
    """Yield start and text of the fields from *start* on: between tabs or wide gaps if there are any, else the rest as one."""
    separator = r"\t+| {2,}" if re.search(r"\t| {2,}", text[start:].strip()) else r"\n"
    position = start
    for piece in re.split(f"({separator})", text[start:]):
        if piece.strip():
            yield position + len(piece) - len(piece.lstrip()), piece.strip()
        position += len(piece)


def _columns_of(title: str, start: int) -> list[Column]:
    """Return the columns in one field: usually one, several when titles are glued or one space apart."""
    matches = list(_PIECE.finditer(title))
    has_nics = len(matches) > 1 and any(codes.NIC.fullmatch(match[0]) for match in matches)
    if all(match["other"] for match in matches) and not has_nics:
        kind = next(
            (k for k, name in TITLES.items() if len(title) > 3 and name.startswith(title)), Kind.OTHER
        )
        return [Column(title, Kind.DEVICE if codes.NIC.fullmatch(title) else kind, start)]
    found: list[Column] = []
    for match in matches:
        name, begin = match[0], start + match.start()
        if match["title"]:
            found.append(Column(name, _TITLE_KIND[re.sub(r"[ _]", "", name).lower()], begin))
        elif match["elided"]:
            found.append(Column(name, Kind.ELIDED, begin))
        else:
            is_device = match["device"] or codes.NIC.fullmatch(name)
            previous = found[-1] if found else None
            if not is_device and previous and previous.kind is Kind.OTHER and not "0" <= previous.name[-1] <= "9":
                found[-1] = Column(
                    f"{previous.name} {name}", Kind.OTHER, previous.start
                )  # a title of several words
            else:
                found.append(Column(name, Kind.DEVICE if is_device else Kind.OTHER, begin))
    return found
