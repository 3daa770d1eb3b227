"""
The tables that ``nvidia-smi --query-gpu=… --format=csv`` and ``--query-compute-apps=…`` print: headers, rows and cells.

A table is told by titles that the query has, or, without a header, by rows whose cells prove what they are. A line that is no row
(a warning of the driver) does not end a table: later rows that fit it continue it. Cells may stand
between commas, the bars of Markdown, tabs or semicolons; prefixes are taken off, and rows that a terminal wrapped are put together.
What the cells mean is the business of `topologies.nvidia.query.csv_text`.

When to modify: a new way in which tables get damaged.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from topologies import codes
from topologies.nvidia.matrix.header import MOST_DEVICES
from topologies.nvidia.query.cut import NARROWEST, WIDTHS, are_two_rows, width_of, without_cut_cells
from topologies.nvidia.query.forms import (
    BRAND,
    INDEX,
    fits,
    has_form,
    is_row,
    is_row_without_index,
    is_whole,
    proves,
)
from topologies.nvidia.query.hosts import refuse_hosts
from topologies.nvidia.query.rows import Table, ascends, continues, is_of_another
from topologies.nvidia.query.titles import TELLING, title_of
from topologies.nvidia.table.box import lines_of_boxes
from topologies.pages.prefixes import without_prefixes
from topologies.pages.text import Line, Page

_HEAD = re.compile(
    r"(?<![\w.])(?P<title>[a-z][a-z0-9_]{2,30}(?:\.[a-z0-9_]{2,30}){0,3}|[A-Z][A-Z0-9_]{2,30}(?:\.[A-Z0-9_]{2,30}){0,3})\s{0,2}(?:\[[^\]]{1,12}\])?\s{0,4}[,|;\t]"
    r"|(?<![\w.-])(?<![0-9]:)(?P<index>[0-9]{1,4})\s{0,4}[,|;\t]\s{0,4}"
    rf"(?={BRAND}|GPU-|[0-9A-F]{{8}}:|[0-9]{{1,9}} ?MiB|\[)"
)
_LONE_TITLE = re.compile(
    r"^[ >]{0,20}(?:name|gpu_name|uuid|gpu_uuid|pci\.bus_id|gpu_bus_id|memory\.(?:total|used)(?: ?\[\w{1,5}\])?)[ ]{0,20}$", re.MULTILINE
)
"""A header of one column, which has no separator."""

_RULE = re.compile(r"\+[-=]{5,}|\|={5,}")
"""What is drawn between the rows of plain nvidia-smi."""

_BEGINS_WITH_INDEX = re.compile(r"[ \t]*[0-9]{1,4}[ \t]*[,;|\t]")
_MOST_TRIES = 4
_MOST_WAITING = 256
_MOST_WRAPS = 6
_LONGEST = 4096
_FOREIGN = "X"
"""Stands for the rows of a matrix and of plain nvidia-smi: no row of a table, whatever their cells."""


def find_tables(page: Page) -> Iterator[Table]:
    """
    Yield the tables of *page* that have rows.

    Raises
    ------
    TopologyError
        If rows that are there several times contradict each other, or are those of several hosts.
    """
    if not any(mark in page.text for mark in ",|;\t") and _LONE_TITLE.search(page.text) is None:
        return
    of_boxes = lines_of_boxes(page.lines)
    lines = [Line(n.number, _FOREIGN) if n.number in of_boxes or codes.is_row(n.text) else n for n in page.lines]
    heads = {line.text: _find_head(line.text) for line in lines}
    has_header = any(head is not None and head["index"] is None for head in heads.values())
    groups, notes = without_prefixes(lines, heads.__getitem__, _is_header_head if has_header else _is_first_row)
    last = max((line.number for line in page.lines if line.text.strip()), default=0)
    for group in groups:
        tables = list(_tables(group, page.is_cut, last))
        refuse_hosts(tables, page)
        for table in tables:
            table.notes += notes
            table.notes += [table.doubt] if table.doubt else []
            yield without_cut_cells(table)


def _tables(lines: Sequence[Line], is_cut: bool, last: int) -> Iterator[Table]:
    table: Table | None = None
    waiting: list[tuple[int, tuple[str, ...]]] = []    # lines that are rows if the row below them is
    position = 0
    follows = True    # no foreign line stands since the last row
    while position < len(lines):
        text, number = lines[position].text, lines[position].number
        cells = split(text)
        count = 1
        if not cells:
            position += 1
            continue
        if cells[0] and (found := _header(lines, position, cells)):
            header, count = found
            if table is not None and table.rows:
                yield table
            table = Table(number, header, header_width=width_of(text) if count == 1 else 0, wrapped_at=len(text) if count > 1 else None)
            waiting, follows = [], True
        else:
            row, count = _row(lines, position, cells, table, follows=follows)
            if row is None:
                if table is not None and is_cut and number == last and len(cells) > 1:
                    table.notes.append("the text ends within a row of the query output")
                waiting = [*waiting, (number, cells)] if _may_be_row(cells) and len(waiting) < _MOST_WAITING else []
                follows = False
            else:
                if table is None or is_of_another(row, table, follows=follows):
                    if table is not None and (table.rows or table.odd):
                        yield table
                    table = Table(number, None)
                    _take_waiting(table, waiting, row)
                width = len(table.header) if table.header is not None else len(row)
                (table.rows if len(row) == width else table.odd).append(row)
                table.printed.append(row)
                table.widths.append(width_of(text) if count == 1 else 0)
                table.is_cut = is_cut and lines[position + count - 1].number == last
                waiting, follows = [], True
                if count > 1 and _WRAPPED not in table.notes:
                    table.notes.append(_WRAPPED)
        position += count
    if table is not None and (table.rows or table.odd):
        yield table


def _may_be_row(cells: Sequence[str]) -> bool:
    return len(cells) > 2 and any(INDEX.fullmatch(cell) for cell in cells)


def _take_waiting(table: Table, waiting: Sequence[tuple[int, tuple[str, ...]]], first: tuple[str, ...]) -> None:
    """Put the lines above the *first* row that proves itself into *table*, as far as their indices descend from it."""
    below = first
    for number, cells in reversed(waiting):
        if not ascends(cells, below):
            break
        table.rows.insert(0, cells)
        table.printed.insert(0, cells)
        table.widths.insert(0, 0)
        table.line, below = number, cells


_WRAPPED = "rows of the query output were wrapped and put back together"


def split(text: str) -> tuple[str, ...]:
    """Return the cells of a line; nothing for an endless one, and for one without words: a rule of a table, a fence, a quote."""
    stripped = text.strip()
    if len(stripped) > _LONGEST or not any(map(str.isalnum, stripped)) or _RULE.search(stripped) is not None:
        return ()
    if stripped.startswith("|") or ("," not in stripped and stripped.count("|") > 0):
        separator = "|"
        stripped = stripped.strip("|")
    else:
        separator = next((mark for mark in ",;\t" if mark in stripped), ",")
    return tuple(cell.strip().strip('"`').strip() for cell in stripped.split(separator))


def _is_header(cells: Sequence[str]) -> bool:
    names = [title_of(cell) for cell in cells]
    if len(cells) == 1 and cells[0].isupper():
        return False    # a heading of anything
    telling = sum(name in TELLING for name in names)
    fields = sum("." in name or "_" in name for name in names)
    return all(names) and (telling >= min(2, len(cells)) or (telling > 0 and fields > 1))


def _header(lines: Sequence[Line], position: int, cells: tuple[str, ...]) -> tuple[tuple[str, ...], int] | None:
    """Return the header that begins in the line at *position*, and how many lines it has."""
    if not title_of(cells[0]):
        return None
    text = lines[position].text
    best = (cells, 1) if _is_header(cells) or (len(text) >= NARROWEST and cells[-1] == "" and _is_header(cells[:-1])) else None
    if len(text) < NARROWEST or not all(title_of(cell) for cell in cells[:-1]):
        return best
    for count, line in enumerate(lines[position + 1 : position + _MOST_WRAPS], start=2):
        more = split(line.text)
        if not more or (not text.rstrip().endswith(",") and title_of(more[0]) in TELLING):
            return best
        text += line.text
        joined = split(text)
        if not all(title_of(cell) for cell in joined[:-1]):
            return best
        if _is_header(joined):
            best = (joined, count)
    return best


def _row(
    lines: Sequence[Line], position: int, cells: tuple[str, ...], table: Table | None, *, follows: bool
) -> tuple[tuple[str, ...] | None, int]:
    """Return the cells of the row that begins in the line at *position* (None if there is none), and how many lines it has."""
    if table is None or table.header is None:
        return _bare_row(lines, position, cells, table)
    width = len(table.header)
    text = lines[position].text
    if len(cells) < width and not (len(cells) > 1 or width == 1):
        return None, 1
    if not follows and not (is_row(cells) if len(cells) == width else proves(cells)) and not continues(cells, table):
        return None, 1
    count = 1
    is_clipped = table.doubt is not None    # lines that are cut were not wrapped
    is_cut = table.header_width == width_of(text)    # as long as a header that was not wrapped
    while not is_clipped and len(text) >= NARROWEST and count < _MOST_WRAPS and position + count < len(lines):
        following = lines[position + count].text
        joined = split(text + following)
        ends_well = len(cells) == width and cells[-1] != "" and (is_whole(joined[-1:]) <= is_whole(cells[-1:]))
        if table.wrapped_at is not None:
            ends_well = len(lines[position + count - 1].text) < table.wrapped_at and len(cells) == width
        if not following.strip() or len(joined) > width or ends_well or is_cut or are_two_rows(joined, table.titles):
            break
        text, cells, count = text + following, joined, count + 1
    if len(cells) == width:
        # A warning of the driver may have as many commas as a row, and a column alone has none.
        is_foreign = not proves(cells) and "index" in table.titles and not INDEX.fullmatch(cells[table.titles.index("index")])
        is_foreign |= width == 1 and not fits(table.titles, cells, follows=follows)
        return (None if is_foreign else cells), count
    may_be_cut = width_of(lines[position].text) <= table.header_width >= NARROWEST
    has_titles_cut = may_be_cut and len(cells) > width and fits(table.titles, cells[:width], follows=follows)
    whole = len(cells) - 1
    is_short = is_cut and 1 < whole < width and fits(table.titles[:whole], cells[:whole], follows=follows)
    return (cells if has_titles_cut or is_short or proves(cells) else None), count


def _bare_row(
    lines: Sequence[Line], position: int, cells: tuple[str, ...], table: Table | None
) -> tuple[tuple[str, ...] | None, int]:
    if not is_row(cells):
        # A piece of a wrapped row may look like a row without index, so where rows have one all must.
        has_index = table is not None and is_row(table.rows[0])
        goes_on = table is not None and ascends(table.rows[-1], cells)
        return (cells if goes_on or (not has_index and is_row_without_index(cells)) else None), 1
    text = lines[position].text
    following = lines[position + 1].text if position + 1 < len(lines) else ""
    after = lines[position + 2].text if position + 2 < len(lines) else ""
    is_wrapped = (
        len(text) >= NARROWEST
        and split(following) != ()
        and len(following) < len(text)
        and not is_row(split(following))
        and not ascends(cells, split(following))
        and not (has_form(cells[-1]) and not has_form(split(text + following)[len(cells) - 1]))
        and (
            text.rstrip().endswith(",")
            or len(text) in WIDTHS
            or (is_row(split(after)) and len(after) == len(text))
            or _was_wrapped(lines, position)
        )
    )
    return (split(text + following), 2) if is_wrapped else (cells, 1)


def _was_wrapped(lines: Sequence[Line], position: int) -> bool:
    """Whether the row two lines above is as long, and the line between is no row: then that was wrapped, and this is too."""
    if position < 2:
        return False
    above, between = lines[position - 2].text, lines[position - 1].text
    return len(above) == len(lines[position].text) and is_row(split(above)) and not is_row(split(between))


def _find_head(text: str) -> re.Match[str] | None:
    """Return where a header or a row without header begins."""
    if len(text) > _LONGEST:
        return None
    for match in itertools.islice(_HEAD.finditer(text), _MOST_TRIES):
        before = text[: match.start()]
        if before.endswith("="):
            return None  # the command line: --query-gpu=index,name
        if match["index"] is not None and _BEGINS_WITH_INDEX.match(text, 0, match.start()):
            return None  # a row whose name ends with a number
        if match["index"] is not None and int(match["index"]) >= MOST_DEVICES and match.start() > 0:
            continue  # a list of names that end with numbers
        is_in_table = before.lstrip().startswith("|") or "|" in before.strip("| \t")
        if before.rstrip(" ").endswith((",", ";", "\t")) or (is_in_table and before.strip("| \t")):
            return None  # a cell stands before it
        rest = text[match.start() :]
        if is_row(split(rest)) if match["index"] is not None else _is_header_start(rest):
            return match
    return None


def _is_header_start(text: str) -> bool:
    """Whether *text* begins like a header; its last title may be cut by the end of a line."""
    cells = split(text)
    return all(title_of(cell) for cell in cells[:-1]) and any(title_of(cell) in TELLING for cell in cells)


def _is_header_head(head: re.Match[str]) -> bool:
    return head["index"] is None


def _is_first_row(head: re.Match[str]) -> bool:
    return int(head["index"]) == 0
