"""
Affinity values that a cut or damaged text does not show whole, or not for certain in their column: they are left unknown.

When to modify: a text gets cut in another way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from topologies import codes
from topologies.nvidia.matrix.blocks import Block
from topologies.nvidia.matrix.cells import TAB, Cells, end_of, fills_columns
from topologies.nvidia.matrix.columns import Columns
from topologies.nvidia.matrix.header import TITLES, Kind, is_gpu_label
from topologies.pages.reading import listing
from topologies.pages.text import Page

Values = Mapping[str, dict[Kind, str | None]]
"""Label of a row to its affinity values."""


def drop_cut_values(
    page: Page, rows: Sequence[Cells], block: Block, columns: Columns, values: Values, partial: Mapping[str, int]
) -> list[str]:
    """Take the values out of *values* that are cut, and return what to say of them; rows in *partial* have none."""
    return [
        *_cut_in_blanks(page, rows, columns, values),
        *_cut_value(page, block, columns, values, partial),
        *_cut_column(rows, block, columns, values),
        *_no_lists(page, rows, columns, values),
    ]


def _no_lists(page: Page, rows: Sequence[Cells], columns: Columns, values: Values) -> Iterator[str]:
    """
    Drop lists of CPUs that are none: ``20-3``, ``32-``.

    Where lists end the lines and more than the end of the text is lacking, lines are cut there, and a list that looks whole may be
    the beginning of one, too.
    """
    ends = {cells.row.label for cells in rows if cells.row.is_last and page.is_cut}
    are_cut = False
    for label, own in values.items():
        cpus = own.get(Kind.CPU_AFFINITY)
        if cpus is not None and not codes.is_whole_list(cpus):
            own[Kind.CPU_AFFINITY] = None
            are_cut |= label not in ends
            yield f"row {label} has {cpus!r}, which is no list of CPUs: it may be cut, so it is left unknown"
    others = [own for own in values.values() if own.get(Kind.CPU_AFFINITY) is not None]
    if are_cut and others and columns.tail and columns.tail[-1].kind is Kind.CPU_AFFINITY:
        for own in others:
            own[Kind.CPU_AFFINITY] = None
        yield "the lists of CPUs end the lines, which may be cut there: those of the other rows are left unknown, too"


def drop_shifted_values(page: Page, rows: Sequence[Cells], columns: Columns, values: Values) -> Iterator[str]:
    """
    Take the values of rows that lack cells out of *values*, and yield what to say of them.

    A row with fewer cells than titles, or than most rows have, lost one or has two that are glued: nobody can tell which.
    """
    if not columns.tail:
        return
    usual = Counter(end_of(cells.fields) for cells in rows if cells.fields and cells.row.label in values)
    most = max(usual.values(), default=0)
    width = max(len(columns.tail), *(number for number, times in usual.items() if times == most), 0)
    given = max((len(cells.fields) - cells.fields.count("") for cells in rows if cells.fields), default=0)
    lacking = []
    for cells in rows:
        own = values.get(cells.row.label, {})
        if cells.fields is None or len(cells.fields) >= width or not usual or (cells.row.is_last and page.is_cut):
            continue
        if given == len(columns.tail) and fills_columns(cells.fields, given):
            continue
        if any(value is not None for value in own.values()) or (own and max(usual) and not end_of(cells.fields)):
            values[cells.row.label].update(dict.fromkeys(own))
            lacking.append(cells.row.label)
    if lacking:
        yield (
            f"row {listing(lacking)}: affinity cells are missing or glued together, and nobody can tell which, "
            "so they are left unknown"
        )


def _cut_value(
    page: Page, block: Block, columns: Columns, values: Values, partial: Mapping[str, int]
) -> Iterator[str]:
    """Drop the last value of a text that ends within it."""
    last = block.rows[-1]
    rows = {row.label for row in block.rows}
    rows_follow = any(device not in rows for device in columns.devices)
    kinds = [column.kind for column in columns.tail if column.kind in TITLES]
    is_cut = last.is_last and (page.is_cut or rows_follow)
    if not is_cut or last.label not in values or last.label in partial or not kinds:
        return
    own = values[last.label]
    others = [v for label, v in values.items() if label != last.label]
    given = [kind for kind in kinds if own.get(kind) is not None]
    if not given:
        if any(value is not None for v in others for value in v.values()):
            yield f"row {last.label} is cut: its affinity is missing"
        return
    kind, text = given[-1], str(own[given[-1]])
    known = {v[kind] for v in others if v.get(kind) is not None}
    is_beginning = any(str(value).startswith(text) for value in known)
    # Other rows have more cells, so the text ends here, though maybe between two.
    is_short = page.is_cut and any(v.get(later) is not None for v in others for later in kinds[kinds.index(kind) + 1 :])
    if text not in known and (is_short or (rows_follow and page.is_cut) or is_beginning or text[-1] in ",-"):
        yield f"the text ends within row {last.label}: its {TITLES[kind]} {text!r} is cut"
        own[kind] = None


def _cut_in_blanks(page: Page, rows: Sequence[Cells], columns: Columns, values: Values) -> Iterator[str]:
    """Drop what follows a blank field of a text's cut last row, where the others show that blank fields are no columns."""
    count, last = len(columns.tail), rows[-1]
    label, fields = last.row.label, last.fields or ()
    given = len(fields) - fields.count("")
    if not (page.is_cut and last.row.is_last and label in values and "" in fields and given < count):
        return
    if len(fields) >= max((len(cells.fields) for cells in rows[:-1] if cells.fields), default=count):
        return    # as many fields as the others have
    if any(cells.fields and len(cells.fields) > count and fills_columns(cells.fields, count) for cells in rows[:-1]):
        known = {column.kind for column in columns.tail[: fields.index("")]}
        values[label].update({kind: None for kind in values[label] if kind not in known})
        yield f"row {label} is cut: of its affinity only what stands before a blank is known"


def _cut_column(rows: Sequence[Cells], block: Block, columns: Columns, values: Values) -> Iterator[str]:
    """Drop the values under a title that is cut: all lines may be cut there."""
    column = columns.tail[-1] if columns.tail else None
    if column is None or column.kind not in TITLES or not block.columns:
        return
    title = TITLES[column.kind]
    if title == column.name or not title.startswith(column.name):
        return
    if column.name == title.split()[0]:
        if block.columns[-1].start > column.start or _is_whole_word(rows, block, columns):
            return
        width = len(block.header_text.rstrip())
        if all(_length(cells) < width for cells in rows if cells.row.label in values):
            yield f"the header ends with {column.name!r}: if lines are cut there, columns after it are missing"
            return
    yield f"the header ends within {title!r}: lines are cut there, so that column is left unknown"
    for own in values.values():
        own[column.kind] = None


def _end_at_one_column(rows: Sequence[Cells], block: Block) -> bool:
    """Whether the header, with its blanks, ends where the last word of the longest row of a GPU does: then lines may be cut there."""
    return len(block.header_text) == max((_length(cells) for cells in rows if is_gpu_label(cells.row.label)), default=0)


def _is_whole_word(rows: Sequence[Cells], block: Block, columns: Columns) -> bool:
    """
    Whether the last title, one word, is all of it.

    A bar or tab follows it, other titles are no driver's either, a row goes on further right or ends before with a value for each
    title, or the values stand where no tab of the driver leads to. Where rows go on by one column only, a blank between the words
    of the title may have been stripped.
    """
    kinds = [column.kind for column in columns.tail]
    is_typed = any(c.name != TITLES.get(c.kind, c.name) for c in columns.tail[:-1])
    if is_typed or kinds != [kind for kind in TITLES if kind in kinds] or "\t" in block.header_text[columns.tail[-1].start :]:
        return True
    is_drawn = "\t" not in block.header_text.strip() or block.header_text.endswith(" ")
    if is_drawn and _end_at_one_column(rows, block):
        return False
    header = block.header_text.rstrip()
    rows = [cells for cells in rows if is_gpu_label(cells.row.label)]
    has_tabs = "\t" in header.strip()
    if any(_length(cells) > len(header) + (not has_tabs) for cells in rows):
        return True
    given = [[text for text in cells.fields or () if text] for cells in rows]
    if any(len(texts) != len(columns.tail) for texts in given):
        return False
    if has_tabs:
        return any(_length(cells) < len(header) for cells in rows)
    return any(not _is_tabbed(cells, texts) for cells, texts in zip(rows, given, strict=True))


def _length(cells: Cells) -> int:
    return cells.row.offset + len(cells.row.body.rstrip())


def _is_tabbed(cells: Cells, texts: Sequence[str]) -> bool:
    """Whether the last of the values *texts*, which end the row, stands where the tab after the word before it led to."""
    text = " " * cells.row.offset + cells.row.body.rstrip()
    before = text[: len(text) - len(texts[-1])]
    return not len(before) % TAB and len(before) - len(before.rstrip()) <= TAB
