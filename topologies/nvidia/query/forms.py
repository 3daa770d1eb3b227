"""
Cells of a query that have forms of their own (bus ids, UUIDs, names of cards, sizes), and which cells make a row without header.

When to modify: a driver writes a cell in a new form, or another column is told by its cells.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from topologies import bus_ids
from topologies.cards import cards, product

INDEX = re.compile(r"[0-9]{1,4}")
BRAND = (
    r"(?:NVIDIA|Tesla|Quadro|GeForce|GRID|TITAN|RTX|GTX|Graphics Device|AMD|Instinct|Radeon|MI[0-9]{2,3}X?|GH200|GB[123]00|DGX"
    r"|A[0-9]{1,4}|B[123]00|H[12]00|H800|H20|L4|L20|L40S?|V100S?|T4G?|T1000|P100|P40|[KM][0-9]{2})\b"
)
"""What the name of a card begins with; `P4` is none, for it is a performance state too."""

NAME = re.compile(rf"(?!NVIDIA-SMI){BRAND}.{{0,80}}", re.IGNORECASE)
BUS_ID = re.compile(bus_ids.BUS_ID)
UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z]{8}(?:-[0-9A-Za-z]{4}){3}-[0-9A-Za-z]{12}")
LIKE_UUID = re.compile(r"(?:GPU|MIG)-\S{1,60}")
"""A UUID that may be shortened or redacted."""

WITH_UNIT = re.compile(r"[0-9.]{1,12} ?(?:KiB|MiB|GiB|MB|GB|W|MHz|%|C)|\[[^\]]*\]")
SIZE = re.compile(r"(?P<number>[0-9]{1,12}(?:\.[0-9]{1,6})?)\s*(?P<unit>KiB|MiB|GiB|TiB|KB|MB|GB|TB|B|bytes)?", re.IGNORECASE)
"""A size of memory. Tools of NVIDIA that print MB mean MiB."""

NO_ANSWER = re.compile(
    r"\[?(?:N/?A|Not Supported|Not Available|Unknown Error|Insufficient Permissions|GPU is lost|GPU requires reset|Unknown)\]?",
    re.I,
)
NOT_THERE = re.compile(r"\[?(?:N/?A|Not Supported|Not Available)\]?", re.IGNORECASE)
"""What a driver prints for what the card does not have; other words say that asking failed."""

_MIB = {"k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024, "b": 1 / 1024 / 1024}


def mib(cell: str, unit: str = "") -> int | None:
    """Return the MiB that *cell* states; *unit* is that of the title, for cells without one. None if it is no size."""
    match = SIZE.fullmatch(cell)
    if match is None:
        return None
    size = float(match["number"]) * _MIB[(match["unit"] or unit or "m")[0].lower()]
    return round(size) if size < 1e9 else None


def has_size(cell: str) -> bool:
    """Whether *cell* is a size of memory with its unit."""
    match = SIZE.fullmatch(cell)
    return match is not None and match["unit"] is not None


OF_AMD = re.compile(r"card[0-9]{1,4}")
"""How rocm-smi names GPUs in tables of its own."""


def is_row(cells: Sequence[str]) -> bool:
    """Whether *cells* are a row of a table without header: an index, and the name of a card or only cells that prove themselves."""
    if len(cells) < 2 or not any(INDEX.fullmatch(cell) for cell in cells):
        return False
    if any(NAME.fullmatch(cell) for cell in cells):
        return len(cells) > 2 or INDEX.fullmatch(cells[0]) is not None
    return INDEX.fullmatch(cells[0]) is not None and all(_is_proven(cell) for cell in cells[1:])


def is_row_without_index(cells: Sequence[str]) -> bool:
    """Whether *cells* are a row of a table without header and index: the name of a card, and another cell that proves itself."""
    if len(cells) < 2 or OF_AMD.fullmatch(cells[0]):
        return False
    return any(NAME.fullmatch(cell) for cell in cells) and any(_is_proven(cell) for cell in cells)


def proves(cells: Sequence[str]) -> bool:
    """Whether *cells* can only be those of a row: one of them has a form of its own."""
    return any(pattern.fullmatch(cell) for cell in cells for pattern in (NAME, BUS_ID, UUID))


def is_whole(cells: Sequence[str]) -> bool:
    """Whether one of *cells* has a form that shows its end."""
    return any(pattern.fullmatch(cell) for cell in cells for pattern in (WITH_UNIT, BUS_ID, UUID))


def has_form(cell: str) -> bool:
    """Whether *cell* may be whole: it has a form that shows its end, is a number, or the name of a card of the catalogue."""
    slugs = product(cell[:100]).split()
    return is_whole((cell,)) or SIZE.fullmatch(cell) is not None or any(card.slug in slugs for card in cards())


def _is_proven(cell: str) -> bool:
    return BUS_ID.fullmatch(cell) is not None or UUID.fullmatch(cell) is not None or has_size(cell)


_FORMS = {
    "index": INDEX, "uuid": LIKE_UUID, "gpu_uuid": LIKE_UUID, "pci.bus_id": BUS_ID, "gpu_bus_id": BUS_ID,
    "pid": re.compile(r"[0-9]{1,10}"), "memory.total": SIZE, "memory.used": SIZE, "memory.free": SIZE,
    "memory.reserved": SIZE, "compute_cap": re.compile(r"[0-9]{1,2}\.[0-9]"),
}  # fmt: skip
_PLAIN_NAME = re.compile(r"[A-Z][\w /()+.-]{1,60}")


def fits(titles: Sequence[str], row: Sequence[str], *, follows: bool) -> bool:
    """
    Whether the cells of *row* are such as *titles* have.

    Parameters
    ----------
    follows
        It stands directly below the header or another row, so that a name may be any.
    """
    if len(row) != len(titles):
        return False
    proofs = 0
    for title, cell in zip(titles, row, strict=True):
        form = _FORMS.get(title)
        if form is None:
            is_name = title in ("name", "gpu_name")
            proofs += is_name and any(form.fullmatch(cell) for form in ((NAME, _PLAIN_NAME) if follows else (NAME,)))
        elif form.fullmatch(cell):
            proofs += 1
        elif title == "index" or (cell and not NO_ANSWER.fullmatch(cell)):
            return False
    return proofs > 0 or (follows and any(NO_ANSWER.fullmatch(cell) for cell in row))
