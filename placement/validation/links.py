"""
Link classes against matrices of peer-to-peer bandwidth: `topologies.links` predicts.

A row is a matrix and a link code: the median of its pairs, one direction.

When to modify: tools print another kind of matrix.
"""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections.abc import Iterator

from placement.validation import naming
from placement.validation.reading import Folder, Record
from placement.validation.rows import Group, Part, Row, Unpredictable
from topologies.cards import Card
from topologies.links import LinkKind, link, parse_code
from topologies.parts import Pcie

MOST_GPUS = 1024
NOT_STATED = "?"
_RATES = (
    ("unidirectional_p2p_enabled", 1),
    ("unidirectional_p2p_read", 1),
    ("bidirectional_p2p_enabled", 2),
    ("unidirectional_p2p_disabled", 1),
)
"""The tables of a document, the best first, and how many directions they count."""

_LATENCY = "latency_us_p2p_enabled"


def group(folder: Folder) -> Group:
    """Return the rows of all matrices of *folder*."""
    rows: list[Row] = []
    for matrix in folder.matrices():
        try:
            rows += list(_rows(matrix))
        except Unpredictable as why:  # one document is one row then
            rows.append(matrix.unfit("GB/s", why))
    return Group("links", "links between two GPUs, GB/s in one direction (median of the pairs of a code)", tuple(rows))


def unpredicted(folder: Folder) -> tuple[str, ...]:
    """Return what the matrices hold and nothing predicts."""
    count = sum(matrix.has(_LATENCY) for matrix in folder.matrices())
    return (f"{count} latency matrices (p2p): no plan depends on the latency of a copy",) if count else ()


def _rows(matrix: Record) -> Iterator[Row]:
    stated = _square(matrix, "links")
    found = next(((table, directions) for key, directions in _RATES if (table := _square(matrix, key))), None)
    if found is None:
        return
    table, directions = found
    # Where the document states no links, all pairs are one row: of a link that nobody knows.
    codes = stated or [[NOT_STATED] * len(table) for _ in table]
    key = next(key for key, _ in _RATES if matrix.has(key))
    if len(table) != len(codes):
        raise Unpredictable(f"{key} has {len(table)} rows where links has {len(codes)}")
    by_code: dict[str, list[float]] = {}
    pairs: dict[str, tuple[int, int]] = {}
    for i, row in enumerate(codes):
        for j, code in enumerate(row):
            value = table[i][j]
            if i == j or value is None:
                continue
            code = NOT_STATED if code is None else code
            if not isinstance(code, str) or len(code) > 20:
                raise Unpredictable(f"links has {code!r} between GPU {i} and {j}, which is no link code")
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e6:
                raise Unpredictable(f"{key} has {value!r} between GPU {i} and {j}, which is no bandwidth")
            by_code.setdefault(code, []).append(value / directions)
            pairs.setdefault(code, (i, j))
    for code, values in sorted(by_code.items()):
        yield _row(matrix, code, values, pairs[code], is_off=key == "unidirectional_p2p_disabled", is_power9=_is_power9(codes))


def _row(matrix: Record, code: str, values: list[float], pair: tuple[int, int], *, is_off: bool, is_power9: bool) -> Row:
    name = f"{matrix.text('id') or '?'} {code}, {len(values)} pairs"
    measured = statistics.median(values)
    parts = (Part("slowest pair", min(values), None), Part("fastest pair", max(values), None))
    row = Row(name, "GB/s", measured, parts=parts, source=matrix.text("source"))
    words = matrix.words("hardware", "source", "notes", "tool")
    try:
        if code == NOT_STATED:
            raise Unpredictable("the links between these pairs are not stated")
        a, b = (_card(matrix, index) for index in pair)
        if parse_code(code)[0] is LinkKind.UNKNOWN:
            raise Unpredictable(f"no class is known for the link code {code!r}, which plans take as staged through the host")
        gen = _slot_generation(matrix.words("hardware", "source"))
        port = None if gen is None else Pcie(gen=gen, width=16)
        says_off = re.search(r"no p2p|p2p not supported|staged", matrix.words("hardware", "source")) is not None
        off = "the row says so" if (is_off or says_off) else None
        if off is None and re.search(r"patched|p2p (driver|kernel)", words) and not (a.p2p_over_pcie and b.p2p_over_pcie):
            a, b = _with_p2p(a), _with_p2p(b)
        found = link(code, a, b, is_power9=is_power9 or "power9" in words, ports=(port, port), blocked=off)
    except Unpredictable as why:
        return Row(name, "GB/s", measured, why=str(why), parts=parts, source=row.source)
    assumed = (found.source,) if found.derived else ()
    return Row(name, "GB/s", measured, found.gb_per_s, assumed=assumed, parts=parts, source=row.source)


def _with_p2p(card: Card) -> Card:
    """Return *card* under a driver with the peer-to-peer copies that its own has not."""
    return dataclasses.replace(card, p2p_over_pcie=True)


def _card(matrix: Record, index: int) -> Card:
    names = matrix.fields.get("gpus")
    if isinstance(names, str):
        return naming.card(names)
    if not isinstance(names, list) or not all(isinstance(name, str) and len(name) < 200 for name in names):
        raise matrix.fail("gpus", "a list of the names of GPUs")
    if index >= len(names):
        raise Unpredictable(f"gpus names {len(names)} GPUs where the matrix has more")
    return naming.card(names[index])


def _slot_generation(words: str) -> int | None:
    """Return the PCIe generation that a description names: a card can sit in an older slot."""
    found = re.search(r"pcie\s*(?:gen\s*)?([1-6])(?:\.0)?\b|\bgen\s*([1-6])\b", words)
    return int(found[1] or found[2]) if found else None


def _is_power9(codes: list[list[object]]) -> bool:
    """Three NVLinks between two GPUs: only POWER9 machines with two GPUs a socket are wired so (as planning says)."""
    return any("NV3" in row for row in codes)


def _square(matrix: Record, key: str) -> list[list[object]] | None:
    """Return a square table; None when the document has none."""
    if not matrix.has(key):
        return None
    found = matrix.fields[key]
    rows = found if isinstance(found, list) else []
    if not rows or len(rows) > MOST_GPUS or not all(isinstance(row, list) and len(row) == len(rows) for row in rows):
        raise Unpredictable(f"{key} is a square table of at most {MOST_GPUS} rows")
    return rows
