"""
The tables of ``rocm-smi --showtopo`` and ``amd-smi topology``: weights, hops, link types and access between GPUs.

A table is a title, a header of labels and rows of cells. It is read as a stream of words, so that line breaks and blanks do not
matter; the zeros (``SELF``) of the diagonal and the symmetry vouch for the cells.

When to modify: the tools print another table, or tables get damaged in a new way.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from topologies.pages.text import Line


class Table(StrEnum):
    """What the cells of a table are."""

    WEIGHT = "weight"
    HOPS = "hops"
    TYPE = "link type"
    ACCESS = "access"
    OTHER = "other"


@dataclass(slots=True)
class Found:
    """
    A table as found.

    *labels* is its header, *rows* are labels with their cells; *line* is where it begins. *is_cut* says that nothing follows its
    last row.
    """

    kind: Table
    line: int
    labels: list[str] = field(default_factory=list)
    rows: list[tuple[str, list[str]]] = field(default_factory=list)
    is_cut: bool = False


_TITLE = re.compile(
    r"={3,}[ \t]*(?P<rule>[^=\n]{1,100}?)[ \t]*={3,}"
    r"|(?P<between>(?:link[ \t]+)?(?:weight|hops|type|access\w*)[ \t]+between[ \t]+(?:two[ \t]+)?GPUs)"
    r"|\b(?P<table>[A-Z][A-Z-]*(?: [A-Z-]+){0,3}) TABLE\b:?"
    r"|(?P<rest>={3,}|Legend:|```)",
    re.IGNORECASE,
)
_KINDS = (("weight", Table.WEIGHT), ("hops", Table.HOPS), ("type", Table.TYPE), ("access", Table.ACCESS))

_FACT = re.compile(r"GPU\s*\[?[0-9]{1,4}\]?\s*:.*", re.IGNORECASE)
"""A line about one GPU (see `topologies.amd.rocm_facts`): no part of a table."""

UNREADABLE = "?"
"""Stands for a word that is no cell."""

_LABEL = re.compile(r"GPU[0-9]{1,4}|(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
_FIRST_LABEL = re.compile(
    rf"(?<![\w:.,/-])(?<!BDF: )(?:GPU ?\[[0-9]{{1,4}}\]|(?:GPU [0-9]{{1,4}}|{_LABEL.pattern})(?![\w.\]>-]))(?!:)"
    r"(?! [A-Za-z_][\w./-]{0,63}(?:\[[0-9]{1,9}\])?:(?:\s|$))",
    re.IGNORECASE,
)
"""
The tools put no colon, dot, dash or bracket right behind a label: ``gpu01: ``, ``[gpu01] ``, ``gpu1.cluster: ``, ``gpu01> `` and
``gpu01 probe[12]: `` are what launchers and logs put before every line.
"""

_GLUED_LABELS = re.compile(rf"(?:{_LABEL.pattern}){{2,}}", re.IGNORECASE)
_GLUED_CELLS = re.compile(rf"({_LABEL.pattern})?((?:XGMI|PCIE|SELF|N/A)+)(0?)", re.IGNORECASE)
_CELL_PART = re.compile(r"XGMI|PCIE|SELF|N/A", re.IGNORECASE)
_CELLS = {
    Table.WEIGHT: re.compile(r"[0-9]{1,9}|N/A|X+|SELF|UNKNOWN", re.IGNORECASE),
    Table.HOPS: re.compile(r"[0-9]{1,9}|N/A|X+|SELF|UNKNOWN", re.IGNORECASE),
    Table.TYPE: re.compile(r"[A-Z][A-Z0-9_]{0,11}|0|N/A", re.IGNORECASE),
    Table.ACCESS: re.compile(r"TRUE|FALSE|ENABLED|DISABLED|N/A|SELF|X+|UNKNOWN", re.IGNORECASE),
    Table.OTHER: re.compile(r"\S{1,20}"),
}


def find_tables(lines: Sequence[Line]) -> list[Found]:
    """Return the tables in *lines*, which have no prefixes, in order; those without rows are left out."""
    found: list[Found] = []
    for kind, number, words in _sections(lines):
        if kind is Table.OTHER:
            found += _untitled(number, _mended(words))
        elif (table := _read_table(kind, number, _mended(words))) is not None:
            found.append(table)
    if found:
        last = max((line.number for line in lines if line.text.strip()), default=0)
        found[-1].is_cut = bool(words) and words[-1][1] == last
    return found


@functools.lru_cache(maxsize=256)
def title_kind(text: str) -> Table:
    """Return what the table under the title *text* is."""
    plain = text.lower()
    return next((kind for word, kind in _KINDS if word in plain), Table.OTHER)


def title_start(text: str) -> int | None:
    """Return where a title begins in *text*; None when there is none."""
    match = _TITLE.search(text) if "=" in text or "able" in text.lower() or "between" in text.lower() else None
    return None if match is None or match["rest"] else match.start()


def label_start(text: str) -> int | None:
    """Return where the first label begins in *text*; None when there is none."""
    match = _FIRST_LABEL.search(text)
    return None if match is None else match.start()


_Word = tuple[str, int]
"""A word and the number of its line."""


def _sections(lines: Sequence[Line]) -> Iterator[tuple[Table, int, list[_Word]]]:
    """Yield the words under each title, with its kind and line; what stands before the first is a section of unknown kind."""
    kind, start, words = Table.OTHER, lines[0].number if lines else 0, list[_Word]()
    for line in _rejoined(lines):
        position = 0
        for match in _TITLE.finditer(line.text):
            words += _words(line, position, match.start())
            yield kind, start, words
            title = match["rule"] or match["between"] or match["table"] or ""
            kind, start, words, position = title_kind(title), line.number, [], match.end()
        words += _words(line, position, len(line.text))
    yield kind, start, words


def _words(line: Line, start: int, end: int) -> list[_Word]:
    text = _FACT.sub("", line.text[start:end])
    found: list[_Word] = []
    for word in re.findall(r"[^\s|`*]+", text):
        if _GLUED_LABELS.fullmatch(word):
            found += [(label, line.number) for label in _LABEL.findall(word)]
        elif (glued := _GLUED_CELLS.fullmatch(word)) and (glued[1] or len(glued[2]) > 4 or glued[3]):
            parts = [glued[1] or "", *_CELL_PART.findall(glued[2]), glued[3]]
            found += [(part, line.number) for part in parts if part]
        else:
            found.append((word, line.number))
    return found


def _rejoined(lines: Sequence[Line]) -> Iterator[Line]:
    """Yield *lines* with those put back together that a terminal broke at its width, where their blanks are still there."""
    broken: list[list[Line]] = []
    for line in lines:
        is_start = not line.text.strip() or label_start(line.text) == 0 or title_start(line.text) is not None
        may_go_on = broken and broken[-1][-1].number == line.number - 1 and len(broken[-1][-1].text) > 40
        if is_start or not may_go_on or (line.text[:1].isspace() and _LABEL.search(line.text)):
            broken.append([line])
        else:
            broken[-1].append(line)
    widths = {len(part.text) for group in broken for part in group[:-1]}
    for group in broken:
        if len(group) > 1 and len(widths) == 1:
            yield Line(group[0].number, "".join(part.text for part in group))
        else:
            yield from group


def _untitled(number: int, words: list[_Word]) -> Iterator[Found]:
    """
    Yield the tables in *words* that have lost their titles: those of link types, which nothing else looks like, and those before them.

    Two tables of numbers before link types of the same GPUs are weights and hops, as the tools print them.
    """
    numbers: list[Found] = []
    for part in _parts(words):
        table = _read_table(Table.OTHER, part[0][1] if len(words) > len(part) else number, part)
        if table is None:
            continue
        cells = [cell for _, row in table.rows for cell in row]
        if _has_link_types(cells):
            table.kind = Table.TYPE
            if len(numbers) == 2 and all(_rows_of(other) == _rows_of(table) for other in numbers):
                numbers[0].kind, numbers[1].kind = Table.WEIGHT, Table.HOPS
                yield from numbers
            yield table
            numbers = []
        elif all(cell in ("ENABLED", "DISABLED", "TRUE", "FALSE") for cell in cells):
            table.kind = Table.ACCESS
            yield table
        elif all(_CELLS[Table.HOPS].fullmatch(cell) for cell in cells):
            numbers.append(table)


def _parts(words: list[_Word]) -> Iterator[list[_Word]]:
    """Yield the parts of *words*: a row of a GPU that has one already, or a header behind rows, begins another."""
    rows: set[str] = set()
    start = 0
    for position, (word, _) in enumerate(words):
        if not _LABEL.fullmatch(word):
            continue
        is_header = position + 1 < len(words) and _LABEL.fullmatch(words[position + 1][0]) is not None
        if (rows and is_header) or word.upper() in rows:
            yield words[start:position]
            start, rows = position, set()
        if not is_header:
            rows.add(word.upper())
    yield words[start:]


def _rows_of(table: Found) -> list[str]:
    return [label.upper() for label, _ in table.rows]


def _read_table(kind: Table, number: int, words: list[_Word]) -> Found | None:
    """Return the table of *words*: labels, then rows of a label and cells; None when there is no row."""
    table = Found(kind, number)
    row_line = 0
    for position, (word, line) in enumerate(words):
        if _LABEL.fullmatch(word):
            following = words[position + 1 : position + 2]
            if not table.rows and following and _LABEL.fullmatch(following[0][0]):
                table.labels.append(word)
            else:
                table.rows.append((word, []))
                row_line = line
            continue
        if not table.rows:
            continue
        cells = table.rows[-1][1]
        is_full = len(cells) >= len(table.labels) > 0
        if not is_full or line == row_line:  # words in further lines are prose
            cells.append(word.upper() if _CELLS[kind].fullmatch(word) else UNREADABLE)
            row_line = line
    table.rows = [(label, cells) for label, cells in table.rows if cells]
    return table if table.rows else None


def _has_link_types(cells: Sequence[str]) -> bool:
    """Whether nearly all *cells* are link types or the diagonal; the word PCIe stands in many other outputs."""
    types = sum(cell in ("XGMI", "PCIE") for cell in cells)
    others = sum(cell in ("0", "SELF", "N/A") for cell in cells)
    return types > 0 and (types + others) * 5 >= len(cells) * 4


def _mended(words: list[_Word]) -> list[_Word]:
    """Return *words* with the halves of codes and labels joined that a line break had cut apart."""
    found: list[_Word] = []
    for word, line in words:
        if found and found[-1][1] < line:
            before = found[-1][0]
            whole = before + word
            halves = (before, word)
            is_label = before.endswith(":") or not any(map(_LABEL.fullmatch, halves))
            if (_LABEL.fullmatch(whole) and is_label) or (
                _CELL_PART.fullmatch(whole) and not any(map(_CELL_PART.fullmatch, halves))
            ):
                found[-1] = (whole, line)
                continue
        found.append((word, line))
    return found
