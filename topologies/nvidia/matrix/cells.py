"""
What the cells of one matrix row say, column by column.

A driver prints tabs, and people turn them into spaces or lose them. Link cells have no blanks, so they are counted; affinity
cells may be blank, so tabs, tab stops and titles decide whose cell a value is. Where nothing decides, nothing is said.

When to modify: another way to lay out a row.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import NamedTuple

from topologies import codes
from topologies.nvidia.matrix.blocks import Row
from topologies.nvidia.matrix.header import Column, Kind

_WORD = re.compile(r"\S+")
_OWN = re.compile(r" {1,2}[Xx](?: {1,2}|$)")
"""The cell X, which the driver prints with a blank on both sides."""

TAB = 8
"""Tab stops of every terminal, characters."""


@dataclass(frozen=True, slots=True)
class Cells:
    """
    The cells of a row.

    Parameters
    ----------
    row
        Where they stand.
    links
        Device cells from the first column on: a code, ``X``, ``N/A``, or None for a blank one.
    values
        Affinity and NUMA cells; None when blank or cut.
    unplaced
        Values that no column could be found for.
    glued
        Words that had to be split.
    cut
        What the last word was when it is a cut one.
    surplus
        Number of codes after the last device column.
    rest
        Whether words follow the link cells.
    fields
        The cells after the link cells, blank ones included that tabs or tab stops show; None where a title tells whose a value is.
    """

    row: Row
    links: tuple[str | None, ...]
    values: Mapping[Kind, str | None]
    unplaced: tuple[str, ...] = ()
    glued: tuple[str, ...] = ()
    cut: str | None = None
    surplus: int = 0
    rest: bool = False
    fields: tuple[str, ...] | None = None

    @property
    def self_position(self) -> int | None:
        """Position of the X among the link cells."""
        return min((self.links.index(code) for code in codes.SELF if code in self.links), default=None)


class _Word(NamedTuple):
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def count_codes(row: Row) -> int:
    """Return how many link cells *row* begins with."""
    links, _, _ = _take_links(row, None)
    return len(links)


def read_cells(row: Row, width: int, tail: Sequence[Column], titles: Sequence[Column] = ()) -> Cells:
    """
    Return the cells of *row*, which has *width* device columns, whose *titles* the header may show, and then those of *tail*.

    Links that may be cut are still among `Cells.links`: only the whole matrix can tell (see `topologies.nvidia.matrix.grid`).
    """
    words = _words(row)
    found, rest, glued = _take_links(row, width)
    links = list(found)
    surplus = 0
    while rest and (codes.is_link(rest[0].text) or rest[0].text in codes.SELF):
        surplus, rest = surplus + 1, rest[1:]
    while links and links[-1] is None:
        links.pop()
    cut = None
    if row.is_last and len(rest) == 1 and len(links) < width and codes.is_cut_code(rest[0].text):
        cut, rest = rest[0].text, ()
    fields: list[str] | None = [word.text for word in rest]
    if _has_tabs(row.body):
        values, unplaced = _by_position([word.text for word in rest], tail)
    else:
        values, unplaced, fields = _by_layout(row, words, rest, tail, titles)
    has_rest = any(word.text for word in rest)
    placed = None if fields is None else tuple(fields)
    return Cells(row, tuple(links), values, unplaced, glued, cut, surplus, has_rest, placed)


def fills_columns(fields: Sequence[str], width: int) -> bool:
    """
    Whether *fields* hold a value for each of *width* columns, with one blank field at most between two of them.

    A blank first one is a blank list of CPUs, and two blank ones together are a blank value.
    """
    if len(fields) - fields.count("") != width:
        return False
    return width > 0 and fields[0] != "" and all(left or right for left, right in pairwise(fields[: end_of(fields)]))


def end_of(fields: Sequence[str]) -> int:
    """Return where the blank ones at the end of *fields* begin."""
    return max((k for k, text in enumerate(fields, start=1) if text), default=0)


def shortness(cells: Cells, width: int) -> str:
    """Return what to say of a row that shows fewer than *width* link cells."""
    label, count = cells.row.label, len(cells.links)
    if cells.cut is not None:
        return f"row {label} is cut after {count} of {width} cells: its last word {cells.cut!r} is a cut one, no link"
    if cells.row.is_last:
        return f"row {label} is cut after {count} of {width} cells"
    return f"row {label} is short: it has {count} of {width} cells"


def _has_tabs(body: str) -> bool:
    """Whether tabs stand between the cells of *body*: one alone may be that after the label."""
    return "\t" in body.strip() or body.startswith("\t\t")


_MOST_KEPT = 512
"""Rows of which the words are kept: a row is read again for every question about its matrix."""


@functools.lru_cache(maxsize=_MOST_KEPT)
def _words(row: Row) -> tuple[_Word, ...]:
    """Return the words of *row* with their places; blank tab fields are empty words."""
    body = row.body
    if not _has_tabs(body):
        return tuple(_Word(m[0].strip("*`|"), row.offset + m.start()) for m in re.finditer(r"[^\s|]+", body))
    words: list[_Word] = []
    position = row.offset
    fields = body.split("\t")
    for number, field in enumerate(fields):
        if "*" in field or "`" in field:
            field = field.replace("*", " ").replace("`", " ")
        if field.split() == [field]:
            found = [_Word(field, position)]
        else:
            found = [_Word(m[0], position + m.start()) for m in _WORD.finditer(field)]
        if found or number:  # the label ends at the first tab
            words += found or [_Word("", position)]
        position += len(field) + 1
    return tuple(words)


@functools.lru_cache(maxsize=_MOST_KEPT)
def _take_links(
    row: Row, width: int | None
) -> tuple[tuple[str | None, ...], tuple[_Word, ...], tuple[str, ...]]:
    """Return the leading link cells of *row*, at most *width*, the other words, and what had to be split."""
    words = _words(row)
    links: list[str | None] = []
    glued: list[str] = []
    last_code = max(
        (k for k, word in enumerate(words) if codes.is_link(word.text) or word.text in codes.SELF), default=-1
    )
    for number, word in enumerate(words):
        if width is not None and len(links) >= width:
            return tuple(links), words[number:], tuple(glued)
        text = word.text.rstrip(".")
        if text in ("…", "") and word.text:  # an elided cell
            links.append(codes.LEFT_OUT)
        elif (
            codes.is_link(text)
            or text in codes.SELF
            or codes.is_peer_state(text)
            or (width is not None and text == codes.NOT_AVAILABLE)
        ):
            links.append(text)
        elif parts := codes.unglue(text):
            glued.append(text)
            room = len(parts) if width is None else width - len(links)
            links += parts[:room]
            if parts[room:]:
                return tuple(links), (_Word("".join(parts[room:]), word.start), *words[number + 1 :]), tuple(glued)
        elif split := codes.unglue_value(text):
            glued.append(text)
            links += split[0]
            return tuple(links), (_Word(split[1], word.end - len(split[1])), *words[number + 1 :]), tuple(glued)
        elif width is not None and not text:
            links.append(None)
        elif (
            (width is not None or number < last_code)
            and codes.may_be_code(text)
            and not codes.is_cut_code(text)
        ):
            links.append(text)
        elif (
            width is not None and number < last_code
        ):  # no code, but codes follow: a cell that cannot be read
            links.append(None)
        else:
            return tuple(links), words[number:], tuple(glued)
    return tuple(links), (), tuple(glued)


def _by_position(fields: list[str], tail: Sequence[Column]) -> tuple[dict[Kind, str | None], tuple[str, ...]]:
    """
    Return the values of *fields*, blank ones included, by column.

    The driver prints one tab too many before GPU NUMA ID, under the wide title NUMA Affinity, and in virtual machines before NUMA
    Affinity, too: as many values as columns are those of the columns.
    """
    fields = list(fields)
    del fields[end_of(fields) :]
    if fills_columns(fields, len(tail)):
        fields = [field for field in fields if field]
    for position, column in enumerate(tail):
        while column.kind is Kind.GPU_NUMA_ID and len(fields) > len(tail) and not fields[position]:
            del fields[position]
    found: dict[Kind, str | None] = {}
    unplaced = [field for field in fields[len(tail) :] if field]
    for position, column in enumerate(tail):
        text = fields[position] if position < len(fields) else ""
        if column.kind is Kind.OTHER:
            continue
        good = codes.is_value(text)
        found[column.kind] = text if good else None
        if text and not good:
            unplaced.append(text)
    return found, tuple(unplaced)


def _by_layout(
    row: Row, words: Sequence[_Word], rest: Sequence[_Word], tail: Sequence[Column], titles: Sequence[Column]
) -> tuple[dict[Kind, str | None], tuple[str, ...], list[str] | None]:
    """Return the values of *rest* by column, what is left, and the cells: blanks can only be seen from where the words stand."""
    blank: dict[Kind, str | None] = {column.kind: None for column in tail if column.kind is not Kind.OTHER}
    if all(column.kind is not Kind.OTHER for column in tail):  # words after the values are prose
        rest = list(takewhile(lambda word: codes.is_value(word.text), rest))
    if not rest or not tail:
        return blank, tuple(word.text for word in rest), None
    if len(rest) >= len(tail):
        fields = [word.text for word in rest]
        return *_by_position(fields, tail), fields
    if not row.has_layout or not re.search(r"\S  ", _OWN.sub(" X ", row.body).strip()):  # one space between all cells
        return blank, tuple(word.text for word in rest), None
    cells = [word for word in words if word.start < rest[0].start]
    if cells and all(word.start % TAB == (1 if word.text in codes.SELF else 0) for word in cells):
        if any(word.start % TAB for word in rest):  # a tab got lost
            return blank, tuple(word.text for word in rest), None
        fields = _tab_fields(cells[-1], rest)
        return *_by_position(fields, tail), fields
    under = [[c.kind for c in tail if c.start - 2 <= word.start <= c.start + len(c.name)] for word in rest]
    found = [kinds[0] for kinds in under if len(kinds) == 1]
    if not _stand_under(cells, titles) or len(set(found)) < len(found):  # the words do not stand under their titles
        return blank, tuple(word.text for word in rest), None
    unplaced = []
    for word, kinds in zip(rest, under, strict=True):
        if len(kinds) == 1 and codes.is_value(word.text):
            blank[kinds[0]] = word.text
        else:
            unplaced.append(word.text)
    return blank, tuple(unplaced), None


def _stand_under(cells: Sequence[_Word], titles: Sequence[Column]) -> bool:
    """Whether each of *cells* stands under its own one of *titles*."""
    return len(cells) == len(titles) and all(
        word.start < title.start + len(title.name) and title.start < word.end
        for word, title in zip(cells, titles, strict=True)
    )


def _tab_fields(before: _Word, rest: Sequence[_Word]) -> list[str]:
    """Return *rest*, whose words stand on tab stops, as the tab fields they were after *before*, blank ones included."""
    fields: list[str] = []
    stop = before.end // TAB
    for word in rest:
        fields += [""] * (word.start // TAB - stop - 1) + [word.text]
        stop = word.end // TAB
    return fields
