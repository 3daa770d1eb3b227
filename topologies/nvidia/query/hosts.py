"""
Queries of several hosts in one table, with the host as a column of every row: refused, for the rows of one would pass for those of another.

When to modify: the column of the host is told by something else.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from topologies.errors import TopologyError
from topologies.nvidia.query.forms import INDEX, NAME
from topologies.nvidia.query.rows import Table
from topologies.pages.reading import listing
from topologies.pages.text import Page

_TITLE = re.compile(r"(?:host|node|server|machine|instance|vm|pod)s?(?:[_.-]?(?:name|id|ip))?", re.IGNORECASE)
_HOST = re.compile(
    r"(?!(?:P[0-9]{1,2}|card[0-9]+|Enabled|Disabled|Default|Active|Not Active|On|Off|Yes|No|N/A)$)"
    r"(?:[A-Za-z][\w.-]{0,252}|[0-9]{1,3}(?:\.[0-9]{1,3}){3})",
    re.IGNORECASE,
)
"""A host or its address, and no word that a query answers with."""

_OF_GPU = re.compile(r"(?:gpu|cuda|device)[ _-]?[0-9]{1,4}", re.IGNORECASE)

_Row = tuple[str, ...]


def refuse_hosts(tables: Sequence[Table], page: Page) -> None:
    """
    Refuse *tables* whose rows are those of several hosts.

    Raises
    ------
    TopologyError
        If there is a column of hosts that names several.
    """
    for table in tables:
        for k, title in enumerate(table.header or ()):
            if _TITLE.fullmatch(title):
                _refuse((row[k] for row in table.rows), table, page)
    for width, alike in itertools.groupby(tables, key=lambda table: len(table.rows[0]) if table.header is None and table.rows else 0):
        group = list(alike)
        rows = [_parted(row) for table in group for row in table.rows]
        if width > 1 and _are_of_hosts(rows):
            _refuse((row[0] for row in rows), group[0], page)


def _parted(row: _Row) -> _Row:
    """Return *row* with a cell for the host, where a blank stands between that and the first cell."""
    host, blank, cell = row[0].replace("\t", " ").partition(" ")
    return (host, cell.strip(), *row[1:]) if blank and _HOST.fullmatch(host) and not NAME.fullmatch(row[0]) else row


def _are_of_hosts(rows: Sequence[_Row]) -> bool:
    """Whether *rows* without header have hosts in front: for each of them an index begins again."""
    of_host: dict[str, list[_Row]] = {}
    for row in rows:
        if len(row) != len(rows[0]) or not _HOST.fullmatch(row[0]) or NAME.fullmatch(row[0]):
            return False
        of_host.setdefault(row[0], []).append(row)
    if len(of_host) < 2 or (len(of_host) == len(rows) and any(map(_OF_GPU.fullmatch, of_host))):
        return False
    return any(_is_index_of_each(k, of_host.values()) for k in range(1, len(rows[0])))


def _is_index_of_each(column: int, hosts: Iterable[Sequence[_Row]]) -> bool:
    """Whether *column* counts the GPUs of each of *hosts* from the same number."""
    columns = [list(dict.fromkeys(row[column] for row in rows)) for rows in hosts]    # each once: they may be printed again
    return (
        all(INDEX.fullmatch(cell) for cells in columns for cell in cells)
        and all(int(a) < int(b) for cells in columns for a, b in itertools.pairwise(cells))
        and len({cells[0] for cells in columns}) == 1
    )


def _refuse(cells: Iterable[str], table: Table, page: Page) -> None:
    hosts = [cell for cell in dict.fromkeys(cells) if cell]
    if len(hosts) > 1:
        message = (
            f"the query output has rows of several hosts ({listing(hosts)}): give those of one host, "
            "or a file for each host to `placement collect`"
        )
        raise TopologyError(message, where=page.where(table.line))
