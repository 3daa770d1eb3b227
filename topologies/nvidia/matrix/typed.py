"""
Matrices that people typed, as the driver prints them: tables of Markdown, of a wiki or of box drawing, the name of a card beside
a label, and another mark than X on the diagonal.

The labels tell where the diagonal is. A mark counts as an X only if it stands there in every row, and links everywhere else.

When to modify: people write a matrix down in another way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from topologies import codes
from topologies.nvidia.matrix.header import TITLE_WORDS, Column, Kind, is_gpu_label, parse_header
from topologies.pages.text import Line

_BOX = re.compile("[│┃║┆┇┊┋]")
_RULE = re.compile(r"\s*\|?(?:\s*:?-+:?\s*\|)+\s*(?::?-+:?)?\s*")
_SINGLE_BAR = re.compile(r"(?<!\|)\|(?!\|)")
_HAS_WORD = re.compile(r"\w")
_LABEL = rf"(?:GPU|NIC)[ _-]?[0-9]{{1,4}}|{codes.DEVICE}"
_SPACED = re.compile(r"(GPU|NIC)[ _-]([0-9]{1,4})")
_SPACED_LABEL = re.compile(r"\b(GPU|NIC)( )([0-9]{1,4})\b")
_SPACED_LINE = re.compile(rf"\s*(?:GPU|NIC) [0-9]{{1,4}}\s+(?:(?:GPU|NIC) [0-9]|(?:{codes.LINK}|[Xx]|-+|—|–)(?:\s|$))")
"""A header or row whose labels have a blank before their number."""

_NAMED = re.compile(rf"(?P<label>{_LABEL})(?: ?[(\[:,–—-] ?| )(?P<name>[^\s)\]][^|\t]{{0,60}}?)[)\]]?")
_NAMED_ROW = re.compile(rf"[ \t]*(?P<label>{_LABEL})(?P<beside> ?[(\[](?P<name>[^()\[\]\t|]{{1,60}})[)\]])(?=[ \t])")
_FRAMED = re.compile(rf"(?<!\S)\[({codes.LINK})\](?!\S)")
"""A code in brackets: that of GPUs that belong together."""

_MARK = re.compile(r"([-–—−.·•*\\/×✕✗✘■▪●○#~=])\1{0,3}|n/?a|0|\(?(?:self|same)\)?|itself", re.IGNORECASE)
"""What people write where a GPU meets itself."""


class _Cell(NamedTuple):
    text: str
    start: int
    end: int


class _Row(NamedTuple):
    line: Line
    label: str
    cells: Sequence[_Cell]
    is_tabbed: bool


def with_tabs(lines: tuple[Line, ...], text: str, notes: list[str]) -> tuple[Line, ...]:
    """Return *lines*, which are those of *text*, with tabs for the bars of tables, and with labels that are nothing but labels."""
    if not text.isascii() and _BOX.search(text):
        lines = tuple(Line(line.number, _BOX.sub("|", line.text)) for line in lines)
        text = "|"
    if "|" not in text and "(" not in text and "[" not in text and "GPU " not in text:
        return lines
    names: dict[str, None] = {}
    lines = tuple(Line(line.number, _plain_row(line.text, names)) for line in lines)
    if names:
        shown = ", ".join(map(repr, list(names)[:3])) + (" …" if len(names) > 3 else "")
        notes.append(f"what stands beside the labels of the matrix ({shown}) was not used")
    return lines


def _plain_row(text: str, names: dict[str, None]) -> str:
    """Return a row of a table with tabs for its bars; other lines as they are, but for what stands beside a label."""
    if "|" not in text or text.count("|") < 2 or ("GPU" not in text and "NIC" not in text and not text.lstrip().startswith("|")):
        if not codes.may_have_label(text):
            return text
        if "[" in text:
            text = _FRAMED.sub(r" \1 ", text)
        text = _without_name(text, names) if "(" in text or "[" in text else text
        return _SPACED_LABEL.sub(r"\1\3\2", text) if _SPACED_LINE.match(text) else text
    stripped = text.strip()
    if _RULE.fullmatch(stripped):
        return ""
    if stripped.startswith("||") and not _SINGLE_BAR.search(stripped):  # titles of a wiki
        stripped = stripped.replace("||", "|")
    inner = stripped.removeprefix("|").removesuffix("|")
    cells = [_plain_cell(cell.strip().strip("*`_").strip(), names) for cell in inner.split("|")]
    if not stripped.startswith("|") and not is_gpu_label(cells[0]):
        return text
    return "\t".join(cells) + ("\t" if stripped.endswith("|") else "")  # a title that a bar follows is whole


def _plain_cell(cell: str, names: dict[str, None]) -> str:
    if not codes.may_have_label(cell):
        return cell
    match = _NAMED.fullmatch(cell)
    if match is not None and not any(map(_is_of_matrix, match["name"].split())):
        names[match["name"]] = None
        cell = match["label"]
    return _SPACED.sub(r"\1\2", cell) if _SPACED.fullmatch(cell) else cell


def _is_of_matrix(word: str) -> bool:
    is_label = codes.may_have_label(word) and re.match(_LABEL, word) is not None
    return is_label or word in TITLE_WORDS or codes.is_link(word) or word in codes.SELF or codes.unglue(word) != []


def _without_name(text: str, names: dict[str, None]) -> str:
    """Return a row without what stands in parentheses after its label; its cells stay where they are."""
    match = _NAMED_ROW.match(text)
    rest = text[match.end() :].split() if match else []
    if match is None or any(_is_of_matrix(word) or word in codes.OF_AMD for word in match["name"].split()):
        return text
    if not any(codes.is_link(word) or word in codes.SELF for word in rest):
        return text
    names[match["name"]] = None
    gap = "" if text[match.end()] == "\t" else " " * len(match["beside"])
    return text[: match.end("label")] + gap + text[match.end() :]


def with_diagonal(lines: tuple[Line, ...]) -> tuple[Line, ...]:
    """Return *lines* with an X on the diagonal of every matrix that has another mark there, or nothing, and with both its halves."""
    found: dict[int, str] = {}
    for columns, rows in _tables(lines):
        names = {column.name for column in columns}
        if not any(_has_x(row, len(columns)) for row in rows):
            marked = _marked(columns, rows)
            found.update(marked)
            again = [_row(Line(row.line.number, marked.get(row.line.number, row.line.text)), names) for row in rows]
            rows = [row for row in again if row is not None]
        found.update(_mirrored([column.name for column in columns], rows))
    return tuple(Line(n.number, found.get(n.number, n.text)) for n in lines) if found else lines


def _tables(lines: Sequence[Line]) -> Iterator[tuple[Sequence[Column], list[_Row]]]:
    """Yield the link columns of each header, and the rows below it."""
    for position, line in enumerate(lines):
        if not codes.may_have_label(line.text) or codes.ROW_START.search(line.text):
            continue
        columns = parse_header(line.text)
        count = next((k for k, column in enumerate(columns) if column.kind is not Kind.DEVICE), len(columns))
        names = {column.name for column in columns[:count]}
        is_plain = len(names) == count and all(column.kind is not Kind.DEVICE for column in columns[count:])
        rows: list[_Row] = []
        whole = 0
        following = range(position + 1, len(lines)) if is_plain else range(0)  # else other columns are among them
        for number in following:
            row = _row(lines[number], names)
            if row is None and _HAS_WORD.search(lines[number].text):  # no blank line, and no border
                break
            if row is not None:
                whole += _has_x(row, count) and len(row.cells) >= count and not any(map(_is_blank, row.cells[:count]))
                if whole > 1 or len(rows) == count:  # as the driver prints it, or more rows than devices
                    rows = []
                    break
                rows.append(row)
        is_tabbed = "\t" in line.text
        if rows and all(row.is_tabbed == is_tabbed for row in rows):
            yield columns[:count], rows


def _row(line: Line, names: set[str]) -> _Row | None:
    """Return *line* in pieces if it is a row of one of the devices *names*."""
    text = line.text
    is_tabbed = "\t" in text
    pieces = re.finditer(r"(?:^|\t)([^\t]*)" if is_tabbed else r"(\S+)", text)
    found = [_Cell(m[1].strip(" *`") if is_tabbed else m[1], m.start(1), m.end(1)) for m in pieces]
    label = found[0].text.strip("*`") if found else ""
    return _Row(line, label, found[1:], is_tabbed) if label in names else None


def _has_x(row: _Row, count: int) -> bool:
    return any(cell.text in codes.SELF for cell in row.cells[:count])


def _is_blank(cell: _Cell) -> bool:
    return not cell.text or (_MARK.fullmatch(cell.text) is not None and not cell.text[-1].isalnum())


def _mirrored(names: Sequence[str], rows: Sequence[_Row]) -> dict[int, str]:
    """Return the lines of *rows*, of which one half of the matrix is blank, with the codes of the other half, by number."""
    every = range(len(names))
    of = {row.label: row for row in rows}
    if len(of) < len(names) or len(rows) > len(of) or len(of) < 2 or not all(row.is_tabbed for row in rows):
        return {}
    cells = [[*of[name].cells[: len(names)]] for name in names]
    table = [[("" if j >= len(row) or _is_blank(row[j]) else row[j].text) for j in every] for row in cells]
    upper = [(i, j) for i in every for j in every[i + 1 :]]
    lower = [(j, i) for i, j in upper]
    for full, blank in ((upper, lower), (lower, upper)):
        if all(codes.is_link(table[i][j]) for i, j in full) and not any(table[i][j] for i, j in blank):
            for i, j in blank:
                table[i][j] = table[j][i]
            width = len(names) + 1
            tails = [of[name].line.text.split("\t")[width:] for name in names]
            texts = ["\t".join((name, *own, *tail)) for name, own, tail in zip(names, table, tails, strict=True)]
            return {of[name].line.number: text for name, text in zip(names, texts, strict=True)}
    return {}


def _marked(columns: Sequence[Column], rows: Sequence[_Row]) -> dict[int, str]:
    """Return the lines of *rows* with an X on the diagonal, by number; none if what stands there is no mark."""
    names = [column.name for column in columns]
    places = [names.index(row.label) for row in rows]
    own = [_own(row, place, columns) for row, place in zip(rows, places, strict=True)]
    if None in own or (len(rows) < len(names) and len(rows) < 2):
        return {}
    cells = [cell for cell in own if cell is not None]
    are_blank = {not cell.text for cell in cells}
    if len(are_blank) > 1 or (True in are_blank and len(names) < 2):
        return {}
    others = [
        cell.text
        for row, mark in zip(rows, cells, strict=True)
        for cell in row.cells[: len(names)]
        if cell.start != mark.start and not (cell.text == "" or _MARK.fullmatch(cell.text))
    ]
    links = sum(codes.is_link(text) or codes.is_peer_state(text) for text in others)
    if links * 2 < len(others) or (links == 0 and len(names) > 1):
        return {}
    return {row.line.number: _with_x(row, cell) for row, cell in zip(rows, cells, strict=True)}


def _own(row: _Row, place: int, columns: Sequence[Column]) -> _Cell | None:
    """Return the cell of *row* on the diagonal, the link column *place*; None if something else stands there."""
    end = len(row.line.text)
    if row.is_tabbed and place < len(row.cells):
        cell = row.cells[place]
        return cell if not cell.text or _MARK.fullmatch(cell.text) else None
    if row.is_tabbed:
        return _Cell("", end + 1, end + 1) if place == len(row.cells) else None
    if place < len(row.cells) and _MARK.fullmatch(row.cells[place].text):
        return row.cells[place]
    others = [column for k, column in enumerate(columns) if k != place]
    is_blank = len(row.cells) >= len(others) and all(
        cell.start < column.start + len(column.name) and column.start < cell.end
        for cell, column in zip(row.cells, others, strict=False)
    )
    start = columns[place].start
    return _Cell("", start, start) if is_blank and all(c.end < start or c.start > start for c in row.cells) else None


def _with_x(row: _Row, cell: _Cell) -> str:
    text = row.line.text
    if row.is_tabbed:
        return text[: cell.start].ljust(cell.start, "\t") + " X " + text[cell.end :]
    return text[: cell.start].ljust(cell.start) + "X".ljust(cell.end - cell.start) + text[max(cell.end, cell.start + 1) :]
