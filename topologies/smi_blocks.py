"""
Where the matrices of a text are: header, rows and NIC names, as lines that were put back together.

Lines that a terminal wrapped are joined, a text that was squeezed onto one line is cut before its rows, Markdown tables become
tabs. What a row's cells mean is the business of `topologies.smi_cells`.

When to modify: a new way in which lines get damaged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from topologies import codes
from topologies.errors import TopologyError
from topologies.text import Page

MOST_DEVICES = 1024
"""Most GPUs and NICs of one matrix; more is no machine."""

MOST_MATRICES = 256
"""Most matrices of one text."""


class Kind(StrEnum):
    """What a column is."""

    DEVICE = "device"
    CPU_AFFINITY = "cpu_affinity"
    NUMA = "numa"
    GPU_NUMA_ID = "gpu_numa_id"
    ELIDED = "..."
    OTHER = "other"


TITLES = {Kind.CPU_AFFINITY: "CPU Affinity", Kind.NUMA: "NUMA Affinity", Kind.GPU_NUMA_ID: "GPU NUMA ID"}
_TITLE_WORDS = frozenset({"CPU", "NUMA", "GPU", "ID", "Affinity"})
_TITLE_KIND = {"cpuaffinity": Kind.CPU_AFFINITY, "numaaffinity": Kind.NUMA, "gpunumaid": Kind.GPU_NUMA_ID}

_PIECE = re.compile(
    rf"(?P<title>CPU[ _]*Affinity|NUMA[ _]*Affinity|GPU[ _]*NUMA[ _]*ID)|(?P<device>{codes.DEVICE}|(?:[A-Z]{{1,3}}PU|GP)\d+)"
    r"|(?P<elided>\.{3}|…)|(?P<other>[^\s|]+)"
)
_GPU_LABEL = re.compile(r"(?P<vendor>GPU|[A-Z]{1,3}PU|GP)(?P<index>\d+)")
_FIRST_LABEL = re.compile(r"(?<![\w/-])(?:GPU|[A-Z]{1,3}PU|GP)\d+")
_NIC_NAME = re.compile(r"\b(NIC\d+)\s*:\s*([\w.-]+)")
_RULE = re.compile(r"\s*\|?(?:\s*:?-+:?\s*\|)+\s*(?::?-+:?)?\s*")


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


def is_gpu_label(label: str) -> bool:
    """Whether *label* is that of a GPU or of another vendor's accelerator."""
    return _GPU_LABEL.fullmatch(label) is not None


def gpu_index(label: str) -> int:
    """Return the number in a GPU label."""
    match = _GPU_LABEL.fullmatch(label)
    assert match is not None
    return int(match["index"])


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
    for part in _rejoin(_segments(page)):
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
            is_last = part.last_number == last and part.ends_line
            block.rows.append(Row(part.label, part.text[part.body :], part.body, part.number, is_last, part.has_layout))
            block.notes += [note for note in part.notes if note not in block.notes]
        elif block is not None:
            for nic, name in _NIC_NAME.findall(part.text):
                block.nic_names.setdefault(nic, name)
    if len(blocks) > MOST_MATRICES:
        raise TopologyError(f"{len(blocks)} matrices: give those of one machine", where=page.where(blocks[0].first_line))
    return blocks


def _starts_again(block: Block, label: str) -> bool:
    """Whether a row *label* begins another matrix: all rows from the first one on come again."""
    return len(block.rows) > 2 and label == block.rows[0].label


@dataclass(slots=True)
class _Part:
    """A header (*header* is not empty), a row (*label* is set; its cells begin at *body*), or another line."""

    text: str
    number: int
    header: tuple[Column, ...] = ()
    label: str | None = None
    body: int = 0
    last_number: int = 0
    ends_line: bool = True
    has_layout: bool = True
    notes: list[str] = field(default_factory=list)


def _segments(page: Page) -> Iterator[_Part]:
    """Yield the lines, those cut apart that hold several rows."""
    names = _column_names(page)
    for line in page.lines:
        text = _plain_table_row(line.text)
        starts = list(codes.ROW_START.finditer(text))
        own = _own_row(text, names)
        if own is not None and (not starts or starts[0].start() > own[0]):
            starts = []
        if not starts and own is None:
            header = parse_header(text)
            yield _Part(text, line.number, header, last_number=line.number)
            continue
        if own is not None and not starts:
            start, label, body = own
            yield _Part(text[start:], line.number, label=label, body=body - start, last_number=line.number)
            continue
        lead = text[: starts[0].start()]
        header = parse_header(lead)
        is_squeezed = len(starts) > 1 or bool(header)
        notes = ["rows stood on one line, which was cut before each row"] if is_squeezed else []
        if lead.strip():
            yield _Part(lead, line.number, header, last_number=line.number, ends_line=False, notes=notes)
        for position, match in enumerate(starts):
            end = starts[position + 1].start() if position + 1 < len(starts) else len(text)
            segment = text[match.start() : end]
            label = match["label"]
            body = len(label) + (1 if segment[len(label) : len(label) + 1] == "." else 0)
            yield _Part(
                segment, line.number, label=label, body=body, last_number=line.number, ends_line=end == len(text), notes=notes
            )
            if end == len(text) and is_squeezed:
                yield _Part(segment, line.number, last_number=line.number)


def _column_names(page: Page) -> frozenset[str]:
    """Return the names that stand beside GPU labels in headers: rows of devices that nobody has seen are known by them."""
    found: set[str] = set()
    for line in page.lines:
        first = _FIRST_LABEL.search(line.text)
        if first is not None and not codes.ROW_START.search(line.text):
            found.update(column.name for column in parse_header(line.text) if column.kind in (Kind.DEVICE, Kind.OTHER))
    return frozenset(found)


def _own_row(text: str, names: frozenset[str]) -> tuple[int, str, int] | None:
    """Return start, label and end of label when *text* is a row of a device that only the header knows."""
    stripped = text.lstrip()
    label, _, rest = stripped.partition("\t") if "\t" in stripped else stripped.partition(" ")
    if label not in names:
        return None
    first = next(iter(rest.split(maxsplit=1)), "")
    if not codes.is_link(first) and first not in codes.SELF and not codes.unglue(first):
        return None
    start = len(text) - len(stripped)
    return start, label, start + len(label)


def _plain_table_row(text: str) -> str:
    """Return a row of a Markdown table with tabs for its bars; other lines as they are."""
    if text.count("|") < 2 or ("GPU" not in text and "NIC" not in text and not text.lstrip().startswith("|")):
        return text
    stripped = text.strip()
    if _RULE.fullmatch(stripped):
        return ""
    cells = [cell.strip().strip("*`_").strip() for cell in stripped.strip("|").split("|")]
    if not stripped.startswith("|") and not is_gpu_label(cells[0]):
        return text
    return "\t".join(re.sub(r"^(GPU|NIC)[ _-](\d+)$", r"\1\2", cell) for cell in cells)


def parse_header(text: str) -> tuple[Column, ...]:
    """Return the columns that the header line *text* names; empty when it is no header."""
    first = _FIRST_LABEL.search(text)
    if first is None:
        return ()
    columns: list[Column] = []
    for start, title in _fields(text, first.start()):
        columns += _columns_of(title, start)
    devices = [c for c in columns if c.kind is Kind.DEVICE]
    titles = [c for c in columns if c.kind in TITLES]
    others = [c for c in columns if c.kind is Kind.OTHER]
    if len(devices) > MOST_DEVICES:
        return ()
    is_header = len(others) <= len(devices) + len(titles) and (len(devices) > 1 or bool(titles) or len(columns) == 1)
    return tuple(columns) if is_header else ()


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
    if all(match["other"] for match in matches):
        kind = next((k for k, name in TITLES.items() if len(title) > 3 and name.startswith(title)), Kind.OTHER)
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
            if not is_device and previous and previous.kind is Kind.OTHER and not previous.name[-1].isdigit():
                found[-1] = Column(f"{previous.name} {name}", Kind.OTHER, previous.start)  # a title of several words
            else:
                found.append(Column(name, Kind.DEVICE if is_device else Kind.OTHER, begin))
    return found


def _rejoin(parts: Iterable[_Part]) -> Iterator[_Part]:
    """Yield *parts* with wrapped headers and rows in one piece."""
    groups: list[list[_Part]] = []
    for part in parts:
        last = groups[-1] if groups else None
        if last is not None and part.number == last[-1].last_number + 1 and _continues(last, part):
            last.append(part)
        else:
            groups.append([part])
    wrapped = [part.text for group in groups for part in group[:-1]]
    width = max(map(len, wrapped), default=0)
    is_whole = all(len(text) == width for text in wrapped) and any(text[-1:].isspace() for text in wrapped)
    for group in groups:
        yield group[0] if len(group) == 1 else _joined(group, width, is_whole)


def _continues(group: list[_Part], part: _Part) -> bool:
    """Whether *part* is the next line of what *group* began."""
    tokens = part.text.split()
    head = group[0]
    if not tokens or part.label is not None or (not head.header and head.label is None):
        return False
    if head.header:
        if part.header:  # a wrapped header may go on with GPU labels, but not from the first one again
            first = part.header[0]
            previous = [gpu_index(c.name) for c in head.header if is_gpu_label(c.name)]
            return is_gpu_label(first.name) and bool(previous) and gpu_index(first.name) > max(previous)
        fits = [t in _TITLE_WORDS or bool(re.fullmatch(codes.DEVICE, t)) or bool(codes.NIC.fullmatch(t)) for t in tokens]
        whole = _touching(group[-1], part)
        joined = whole in _TITLE_WORDS or re.fullmatch(codes.DEVICE, whole) is not None
    else:
        fits = [_is_cell(t) for t in tokens]
        joined = _is_cell(_touching(group[-1], part))
    if len(fits) > 1 and len(part.text) >= len(group[-1].text):
        fits[-1] = True  # a full line may end within a word
    return all(fits[1:]) and (fits[0] or joined)


def _touching(left: _Part, right: _Part) -> str:
    """Return the word that the end of *left* and the beginning of *right* would make."""
    return (left.text.split() or [""])[-1] + right.text.split()[0]


def _is_cell(token: str) -> bool:
    return codes.is_link(token) or token in codes.SELF or codes.is_value(token)


def _joined(group: list[_Part], width: int, is_whole: bool) -> _Part:
    """Return the parts of *group* as one; *is_whole* says that the lines still have all their blanks, up to *width*."""
    head = group[0]
    text = head.text
    for left, part in pairwise(group):
        gap = "" if is_whole else " " * (width - len(left.text)) + _gap(left, part)
        text += gap + part.text
    return _Part(
        text,
        head.number,
        header=parse_header(text) if head.header else (),
        label=head.label,
        body=head.body,
        last_number=group[-1].last_number,
        ends_line=group[-1].ends_line,
        has_layout=is_whole,
        notes=[*head.notes, "lines that a terminal had wrapped have been joined"],
    )


_EITHER = "~"
"""Stands where nobody can tell whether two halves are one word; no cell contains it, so that neither reading is used."""


def _gap(left: _Part, right: _Part) -> str:
    """Return what was between two lines: nothing when they are halves of one word, a space when each ends a word."""
    if left.text[-1:].isspace() or right.text[:1].isspace():
        return " "
    a, b = left.text.split()[-1], right.text.split()[0]
    whole = a + b
    if left.header:
        is_word = whole in _TITLE_WORDS or re.fullmatch(codes.DEVICE, whole) is not None
        are_words = _is_title_part(a) and _is_title_part(b)
    else:
        is_word = _is_cell(whole)
        are_words = _is_cell(a) and _is_cell(b) and a[-1] not in ",-"
    if is_word and are_words:
        return _EITHER
    return "" if is_word else " "


def _is_title_part(token: str) -> bool:
    return token in _TITLE_WORDS or re.fullmatch(codes.DEVICE, token) is not None
