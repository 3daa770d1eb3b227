"""
Query outputs that lost their line breaks: header and rows, or several rows, on one line.

Such a line looks like a long row whose cells belong to several GPUs, so nothing in it may be believed.

When to modify: rows that stand on one line are told by something else.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from topologies import codes
from topologies.bus_ids import WITH_DOMAIN
from topologies.errors import TopologyError
from topologies.nvidia.matrix.header import MOST_DEVICES
from topologies.nvidia.query.forms import BRAND, BUS_ID, INDEX, SIZE, UUID
from topologies.nvidia.query.titles import TELLING, title_of
from topologies.pages.text import Page

_LONGEST = 400
_PROOFS = (
    re.compile(rf"(?!NVIDIA-SMI){BRAND}"), re.compile(r"GPU-[0-9A-Za-z]{8}-"),
    re.compile(rf"{WITH_DOMAIN}(?!\w)"),
)  # fmt: skip
"""How names, UUIDs and bus ids begin."""

_ENDS_WITH_INDEX = re.compile(r".{0,200}(?:[^\s0-9]\s{0,8}(?<![\w.-])|\w\s{1,8}|MiB|\])[0-9]{1,4}")
_GLUED = re.compile(
    rf"(?:[KMG]iB|MHz|[0-9] ?[W%]|\]|:[0-9A-F]{{2}}\.[0-9A-F]|-[0-9A-Za-z]{{12}})\s{{0,8}}(?:{'|'.join(p.pattern for p in _PROOFS)})"
)
"""The end of a row or a header and the begin of a row, without a comma between."""

_TITLE = re.compile(
    r"(?<![\w.=,-])(?<![=,] )(?:index|name|gpu_name|uuid|gpu_uuid|pci\.bus_id|memory\.(?:total|used|free))(?: ?\[\w{1,5}\])?"
    r"\s{0,4}[,;]\s{0,4}[a-z][a-z0-9_.]{2,60}(?![\w(])"
)


_LAST_TITLE = re.compile(r"(?P<title>[a-z][a-z_]*(?:\.[a-z_]+)*)(?: ?\[\w{1,5}\])?(?:\s{1,8}[0-9A-Z\[]|\s{0,8}[0-9]{1,4}$).{0,200}")
"""The last title of a header, and the first cell of the row behind it."""

_NAME_AND_INDEX = re.compile(rf"(?!NVIDIA-SMI){BRAND}.{{0,80}}\s(?P<index>[0-9]{{1,4}})")


def refuse_joined(page: Page) -> None:
    """
    Refuse a *page* on which rows of a query stand on one line.

    Raises
    ------
    TopologyError
        If there is such a line.
    """
    for line in page.lines:
        text = line.text
        if ("," in text or ";" in text) and "|" not in text and not codes.is_row(text) and _is_joined(text):
            message = "the query output stands on one line, so that its rows run together: paste it with its line breaks"
            raise TopologyError(message, where=page.where(line.number))


def _is_joined(text: str) -> bool:
    cells = [cell.strip().strip('"').strip() for cell in re.split("[,;]", text)]
    alike = [len({cell for cell in cells if form.fullmatch(cell)}) for form in (UUID, BUS_ID)]
    named = sum(1 for cell in cells if _PROOFS[0].search(cell))
    if sum(count > 1 for count in (*alike, named)) > 1:
        return True    # a row names one GPU
    if _begins_behind_header(cells) or _begins_behind_name(cells):
        return True
    title = _TITLE.search(text)
    if title is None and named < 2 and all(sum(1 for _ in proof.finditer(text)) < 2 for proof in _PROOFS[1:]):
        return False
    has_index = title is not None or any(map(INDEX.fullmatch, cells))
    for cell, after in itertools.pairwise(cells):
        is_size = SIZE.fullmatch(after) is not None and not after.isdigit() and title is not None and "]" in cell
        begins = [proof.match(after) is not None for proof in _PROOFS]
        # A name may end with a number, but in a row no name follows it, and a list of names has no index.
        may_end = _PROOFS[0].search(cell) is None or (begins[0] and has_index)
        if may_end and (any(begins) or is_size) and not INDEX.fullmatch(cell) and _ENDS_WITH_INDEX.fullmatch(cell[-200:]):
            return True
    return any(len(cell) <= _LONGEST and _GLUED.search(cell) for cell in cells)


def _begins_behind_header(cells: Sequence[str]) -> bool:
    """Whether *cells* begin with titles of a query, and the last of these has the first cell of a row behind it."""
    titles = list(itertools.takewhile(lambda cell: title_of(cell) and not _ends_with_index(cell), cells))
    if not 0 < len(titles) < len(cells) - 1 or (last := _LAST_TITLE.fullmatch(cells[len(titles)])) is None:
        return False
    return sum(title in TELLING for title in (*map(title_of, titles), last["title"])) > 1


def _ends_with_index(title: str) -> bool:
    """Whether *title* is one with the index of a row glued to it."""
    return title[-1].isdigit() and title.rstrip("0123456789") in TELLING


def _begins_behind_name(cells: Sequence[str]) -> bool:
    """Whether *cells* begin with an index, and a higher one stands behind a name, below which another name follows."""
    if not INDEX.fullmatch(cells[0]):
        return False
    named = [cell for cell in cells if _PROOFS[0].match(cell)]
    ends = [_NAME_AND_INDEX.fullmatch(cell) for cell in named[:-1]]
    return bool(ends) and all(end is not None and int(cells[0]) < int(end["index"]) < MOST_DEVICES for end in ends)
