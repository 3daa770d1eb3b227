"""
Where the matrices of a text are: header, rows and NIC names, as lines that were put back together.

Lines that a terminal wrapped are joined, a text that was squeezed onto one line is cut before its rows. What a row's cells
mean is the business of `topologies.nvidia.matrix.cells`.

When to modify: a new way in which lines get damaged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from topologies import codes
from topologies.errors import TopologyError
from topologies.nvidia.matrix.header import FIRST_LABEL, MOST_DEVICES, Column, Kind, parse_header
from topologies.nvidia.matrix.wrap import Part, rejoin
from topologies.pages.text import Page

MOST_MATRICES = 256
"""Most matrices of one text."""

MOST_ROWS = MOST_DEVICES
"""Most rows of one matrix."""

_NIC_NAME = re.compile(r"\b(NIC[0-9]+)\s*:\s*([\w.-]+)")


@dataclass(frozen=True, slots=True)
class Row:
    """
    A row of a matrix.

    Parameters
    ----------
    label
        Its device.
    body
        What follows the label.
    offset
        Length of the label: where `body` begins on the line.
    number
        Line number in the source.
    is_last
        Nothing but blanks follows it in the source.
    has_layout
        Its words stand where they stood when it was printed.
    """

    label: str
    body: str
    offset: int
    number: int
    is_last: bool
    has_layout: bool = True


@dataclass(slots=True)
class Block:
    """
    A matrix as found: columns (empty when the header is lost), rows in the order of the text, names of NICs.

    *first_line* is where it begins, *header_text* its header, *above* the lines between it and the matrix before it, *notes* what
    was put back together.
    """

    first_line: int
    columns: tuple[Column, ...] = ()
    header_text: str = ""
    above: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    nic_names: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def find_blocks(page: Page) -> list[Block]:
    """
    Return the matrices of *page* in order; headers without rows are left out.

    Raises
    ------
    TopologyError
        If there are more than anybody pastes.
    """
    last = max((line.number for line in page.lines if line.text.strip()), default=0)
    blocks: list[Block] = []
    block: Block | None = None
    above: list[str] = []
    for part in rejoin(_segments(page)):
        if part.label is None:
            above.append(part.text)
        if part.header:
            block = Block(part.number, part.header, part.text, above=above, notes=list(part.notes))
        elif part.label is not None:
            if block is None or _starts_again(block, part.label):
                block = Block(part.number, above=above)
            if not block.rows:
                blocks.append(block)
                above = []
                if len(blocks) > MOST_MATRICES:
                    message = f"more than {MOST_MATRICES} matrices: give those of one machine"
                    raise TopologyError(message, where=page.where(part.number))
            if len(block.rows) == MOST_ROWS:
                message = f"a matrix of more than {MOST_ROWS} rows: no machine has so many GPUs and NICs"
                raise TopologyError(message, where=page.where(part.number))
            is_last = part.last_number == last and part.ends_line
            block.rows.append(
                Row(part.label, part.text[part.body :], part.body, part.number, is_last, part.has_layout)
            )
            block.notes += [note for note in part.notes if note not in block.notes]
        elif block is not None:
            names = _NIC_NAME.findall(part.text)
            if names and page.is_cut and part.last_number == last and not _is_whole(names[-1][1], block):
                block.notes.append(
                    f"the text ends within the name of {names.pop()[0]}, so that is left unknown"
                )
            for nic, name in names:
                block.nic_names.setdefault(nic, name)
    return [block for block in blocks if not _is_foreign(block)]


def _is_foreign(block: Block) -> bool:
    """Whether *block* is a table of AMD's tools, which print a zero where nvidia-smi prints an X."""
    if not any(_FOREIGN_CELL.search(row.body) for row in block.rows):
        return False
    return sum(_SELF.search(row.body) is not None for row in block.rows) * 2 < len(block.rows)


def _is_whole(name: str, block: Block) -> bool:
    """Whether *name*, the last word of the text, is built like the NIC names before it."""
    shapes = {re.sub(r"[0-9]+", "#", other) for other in block.nic_names.values()}
    return not shapes or re.sub(r"[0-9]+", "#", name) in shapes


def _starts_again(block: Block, label: str) -> bool:
    """Whether a row *label* begins another matrix: all rows from the first one on come again."""
    return len(block.rows) > 2 and label == block.rows[0].label


def _segments(page: Page) -> Iterator[Part]:
    """Yield the lines, those cut apart that hold several rows."""
    names = _column_names(page)
    foreign = set(_foreign(page))
    for line in page.lines:
        if line.number in foreign:
            yield Part(line.text, line.number, last_number=line.number)
            continue
        text = line.text
        starts = list(codes.ROW_START.finditer(text)) if codes.may_have_label(text) else []
        own = _own_row(text, names)
        if own is not None and (not starts or starts[0].start() > own[0]):
            starts = []
        if not starts and own is None:
            header = parse_header(text)
            yield Part(text, line.number, header, last_number=line.number)
            continue
        if own is not None and not starts:
            start, label, body = own
            yield Part(text[start:], line.number, label=label, body=body - start, last_number=line.number)
            continue
        lead = text[: starts[0].start()]
        header = parse_header(lead)
        is_squeezed = len(starts) > 1 or bool(header)
        notes = ["rows stood on one line, which was cut before each row"] if is_squeezed else []
        if lead.strip():
            yield Part(lead, line.number, header, last_number=line.number, ends_line=False, notes=notes)
        for position, match in enumerate(starts):
            end = starts[position + 1].start() if position + 1 < len(starts) else len(text)
            segment = text[match.start() : end]
            label = match["label"]
            body = len(label) + (1 if segment[len(label) : len(label) + 1] == "." else 0)
            yield Part(
                segment,
                line.number,
                label=label,
                body=body,
                last_number=line.number,
                ends_line=end == len(text),
                notes=notes,
            )
            if end == len(text) and is_squeezed:
                yield Part(segment, line.number, last_number=line.number)


_LONGEST_CODE = 12

_FOREIGN = re.compile(r"between two GPUs|= Bandwidth =|[A-Z] TABLE:")
"""Titles of tables that other tools print, whose labels are the same."""


_FOREIGN_CELL = re.compile(r"\b(?:XGMI|PCIE)\b")
"""Links that only other tools print."""

_SELF = re.compile(r"(?<![\w/~])X(?![\w/~])")
"""An X that is no half of an XGMI that a terminal wrapped (see `topologies.nvidia.matrix.wrap`)."""


def _foreign(page: Page) -> Iterator[int]:
    """Yield the numbers of the lines that are tables of other tools: a title, a header right after it, and rows."""
    if not any("TABLE:" in line.text or "= Bandwidth" in line.text or "between two" in line.text for line in page.lines):
        return
    is_foreign, is_titled = False, False
    for line in page.lines:
        if _FOREIGN.search(line.text):
            is_foreign = is_titled = True
        elif is_foreign and ("nvidia-smi" in line.text or (not is_titled and parse_header(line.text))):
            is_foreign = False
        elif line.text.strip(" ="):  # a header that a terminal wrapped is one header
            is_titled = is_titled and bool(parse_header(line.text))
        if is_foreign:
            yield line.number


def _column_names(page: Page) -> dict[str, int]:
    """
    Return the names that stand beside GPU labels in headers, and where: rows of devices or codes that nobody has seen are known by
    them.
    """
    found: dict[str, int] = {}
    for line in page.lines:
        first = FIRST_LABEL.search(line.text) if codes.may_have_label(line.text) else None
        if first is not None and not codes.ROW_START.search(line.text):
            names = [column.name for column in parse_header(line.text) if column.kind in (Kind.DEVICE, Kind.OTHER)]
            found.update({name: place for place, name in enumerate(names)})
    return found


def _own_row(text: str, names: Mapping[str, int]) -> tuple[int, str, int] | None:
    """Return start, label and end of label when *text* is a row of a device that only the header knows, or begins with an odd cell."""
    if not names:
        return None
    stripped = text.lstrip()
    label, _, rest = stripped.partition("\t") if "\t" in stripped else stripped.partition(" ")
    if label not in names:
        return None
    words = rest.split(maxsplit=names[label] + 1)
    first = words[0] if words else ""
    if not codes.is_link(first) and first not in codes.SELF and not codes.unglue(first):
        own = words[names[label]] if len(words) > names[label] else ""
        if own not in codes.SELF or any(len(word) > _LONGEST_CODE for word in words[: names[label]]):
            return None
    start = len(text) - len(stripped)
    return start, label, start + len(label)
