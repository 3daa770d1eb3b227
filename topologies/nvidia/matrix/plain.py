"""
Matrices that something else wrote down than the driver, as the driver prints them: lower case, cells between commas or in quotes,
labels that lost their beginning.

When to modify: a program saves matrices in another form.
"""

from __future__ import annotations

import csv
import dataclasses
import re
from collections.abc import Iterator, Sequence

from topologies import codes
from topologies.nvidia.matrix import typed
from topologies.nvidia.matrix.header import TITLES, Kind, parse_header
from topologies.pages.text import Line, Page

_CODE = r"(?:nv[0-9]{1,3}|pix|pxb|phb|node|sys|soc|x)"
_LOWER_ROW = re.compile(
    rf"(?<![\w/-])(?:gpu|nic|mlx[0-9]{{1,2}}_)[0-9]{{1,4}}[ \t|,;\"]*(?:{_CODE}[ \t|,;\"]*)*(?<![a-wyz]){_CODE}(?![a-wyz/]|x\w)"
)
_LOWER_HEADER = re.compile(r"(?<![\w/-])gpu[0-9]{1,4}[ \t|,;\"]*(?:gpu[0-9]|nic[0-9]|mlx[0-9]|cpu affinity)")
_LOWER_GLUED = re.compile(
    r"(?P<same>mlx[0-9]+_\w*?(?=\s|$|[,;|\"]))|gpu(?=[0-9])|nic(?=[0-9])|nv(?=[0-9])|pix|pxb|phb|node|sys|soc|n/a"
    r"|x(?![a-wyz])|x(?=nv[0-9]|pix|pxb|phb|node|sys|soc)|cpu affinity|numa affinity|gpu numa id"
)
_LOWER_WORD = re.compile(
    r"\b(?:(?:gpu|nic)[0-9]{1,4}|nv[0-9]{1,2}|pix|pxb|phb|node|sys|soc|x|n/a)(?![\w/])|\b(?:cpu|numa) affinity\b|\bgpu numa id\b"
)
_LOWER_TITLES = {title.lower(): title for title in TITLES.values()}

_DEVICE = re.compile(codes.DEVICE)
_QUOTED_BEGIN = re.compile(rf"[ \t]*\"?[ \t]*(?:(?:{codes.DEVICE})|\"?[ \t]*[,;\t])")
_SEPARATED = re.compile(rf"(?:GPU[0-9]{{1,4}})\"?[ ]?([,;\t])[ ]?\"?[ ]?(?:{codes.LINK}|X|GPU[0-9])")

_UNTOLD = "~"
"""Stands for affinity cells that nobody can tell apart; no cell contains it."""


def plain(page: Page) -> tuple[Page, list[str]]:
    """Return *page* with matrices as the driver prints them, and what was undone: one sentence each."""
    if "gpu" in page.text:
        page = _capitalised(page)
    notes: list[str] = []
    lines = typed.with_tabs(page.lines, page.text, notes)
    if any(mark in page.text for mark in ",;\""):
        lines = _with_tabs(lines, notes)
    lines = _with_whole_labels(typed.with_diagonal(lines), notes)
    return (page if lines is page.lines else dataclasses.replace(page, lines=lines)), notes


def labels_are_cut(page: Page) -> bool:
    """Whether *page* shows a header and rows of links whose labels have lost their beginning."""
    return any(_CUT_ROW.match(line.text) for _, rows in _headed(page.lines) for line in rows)


def _capitalised(page: Page) -> Page:
    """Return *page*, where rows are in lower case, with labels, codes and titles as the driver writes them."""
    kinds = [_LOWER_ROW.search(n.text) is not None or _LOWER_HEADER.search(n.text) is not None for n in page.lines]
    if not any(kinds):
        return page

    def capitals(match: re.Match[str]) -> str:
        if match.lastgroup == "same":
            return match[0]
        return _LOWER_TITLES.get(match[0]) or match[0].upper()

    lines = tuple(
        Line(line.number, (_LOWER_GLUED if is_matrix else _LOWER_WORD).sub(capitals, line.text))
        for line, is_matrix in zip(page.lines, kinds, strict=True)
    )
    return dataclasses.replace(page, lines=lines)


def _with_tabs(lines: tuple[Line, ...], notes: list[str]) -> tuple[Line, ...]:
    """Return *lines* with tabs between the cells of matrices that a spreadsheet or a program saved with other marks or in quotes."""
    first = next((m for n in lines if (m := _SEPARATED.search(n.text)) and (m[1] != "\t" or '"' in n.text)), None)
    if first is None:
        return lines
    mark, width, devices, untold = first[1], 0, 0, False
    found: list[Line] = []
    for line in lines:
        cells = _cells(line.text, mark) if mark in line.text and _QUOTED_BEGIN.match(line.text) else None
        if cells is None:
            found.append(line)
            continue
        labels = sum(_DEVICE.fullmatch(cell) is not None for cell in cells)
        if labels > 1 or cells[0] == "":
            width, devices = len(cells), 1 + sum(_is_device(cell) for cell in cells)
        elif devices and len(cells) > width:  # a list of CPUs has commas, too
            untold = True
            cells[devices:] = [_UNTOLD]
        found.append(Line(line.number, "\t".join(cells)))
    name = {",": "commas", ";": "semicolons"}.get(mark, "quotes")
    notes.append(f"the cells of the matrix stood between {name}, which were read as its columns")
    if untold:
        notes.append("lists of CPUs have commas like those between cells, so the affinity of those rows is left unknown")
    return tuple(found)


def _is_device(cell: str) -> bool:
    return _DEVICE.fullmatch(cell) is not None or codes.NIC.fullmatch(cell) is not None


def _cells(text: str, mark: str) -> list[str] | None:
    try:
        return [cell.strip() for cell in next(csv.reader([text.strip(" ")], delimiter=mark, skipinitialspace=True))]
    except (csv.Error, StopIteration):
        return None


_CUT_ROW = re.compile(rf"\s*(?P<rest>[A-Za-z_0-9][\w.-]{{0,40}})(?<=\w)[ \t]+(?:{codes.LINK}|X)(?!\w)")


def _headed(lines: Sequence[Line]) -> Iterator[tuple[tuple[str, ...], list[Line]]]:
    """Yield the devices of each header that has no row with a whole label, and the lines below it that show links."""
    for position, line in enumerate(lines):
        if not codes.may_have_label(line.text) or codes.ROW_START.search(line.text):
            continue
        devices = tuple(column.name for column in parse_header(line.text) if column.kind is Kind.DEVICE)
        rows: list[Line] = []
        for below in lines[position + 1 : position + 2 + len(devices)]:
            if not below.text.strip() or codes.ROW_START.search(below.text) or parse_header(below.text):
                break
            if any(codes.is_link(word) or word in codes.SELF for word in below.text.split()):
                rows.append(below)
        if devices and rows:
            yield devices, rows


def _with_whole_labels(lines: tuple[Line, ...], notes: list[str]) -> tuple[Line, ...]:
    """Return *lines* with the labels that lost their beginning, if the X of every row below a header says the same device as its rest."""
    whole: dict[int, str] = {}
    for devices, rows in _headed(lines):
        labels = [_label(line.text, devices) for line in rows]
        lost = {len(label) - len(rest) for label, rest in labels}
        if len(lost) == 1 and 0 not in lost and len({label for label, _ in labels}) == len(labels):
            for line, (label, rest) in zip(rows, labels, strict=True):
                whole[line.number] = line.text.replace(rest, label, 1)
    if not whole:
        return lines
    notes.append("the labels of the rows had lost their beginning: they were read by their numbers and the X of each row")
    return tuple(Line(line.number, whole.get(line.number, line.text)) for line in lines)


def _label(text: str, devices: Sequence[str]) -> tuple[str, str]:
    """Return the device in whose column the row *text* has its X, and the rest of its label; alike if they do not fit."""
    match = _CUT_ROW.match(text)
    if match is None:
        return "", ""
    words = text[match.end("rest") :].split()[: len(devices)]
    place = next((k for k, word in enumerate(words) if word in codes.SELF), None)
    if place is None or not devices[place].endswith(match["rest"]):
        return "", ""
    return devices[place], match["rest"]
