"""
The line ``GPU 0: NAME (UUID: …)`` that ``nvidia-smi -L`` and ``nvidia-smi nvlink`` print for every GPU, and what stands below it;
or ``GPU 0,1,2,3: NAME``, as reports of an environment (SGLang) print for all GPUs of a name.

Whatever a log, a mail or a source code put before and behind is skipped, lines that a terminal wrapped are put back together,
and where several hosts talk at once the lines of each belong to its own GPUs.

When to modify: the line is printed or damaged in a new way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from topologies.errors import TopologyError
from topologies.nvidia.matrix.header import MOST_DEVICES
from topologies.nvidia.uuids import whole
from topologies.pages.prefixes import without_prefixes
from topologies.pages.text import Line, Page

_WORD = r"\(\s*UUID\s*:\s*(?P<uuid>[^\s()]{1,80})\s*\)"
_MAKER = r"(?:NVIDIA|Tesla|Quadro|GeForce|GRID|TITAN)\b"
_BEGIN = r"(?<![\w(-])GPU\s{0,4}(?P<index>[0-9]{1,9})\s{0,4}:\s{0,4}"
_HEAD = re.compile(
    rf"{_BEGIN}(?P<name>(?:(?!\(\s?UUID|GPU\s?[0-9]|Link\s?[0-9]).){{1,100}}?)\s{{0,8}}"
    rf"(?:{_WORD}|(?P<cut>\(\s*UUID\s*:\s*(?P<open>[^\s()]*))(?!.{{0,200}}\))|$)"
)
_BARE = re.compile(rf"{_BEGIN}{_MAKER}")
_MANY = re.compile(
    rf"(?<![\w(-])GPUs?\s{{0,4}}(?P<index>[0-9]{{1,9}})(?P<more>(?:\s?[,-]\s?[0-9]{{1,9}}){{1,64}})\s{{0,4}}:\s{{0,4}}"
    rf"(?P<name>(?:{_MAKER}|AMD|Instinct).{{0,100}}?)\s{{0,20}}$"
)
"""GPUs of one name."""

_OPENER = re.compile(
    rf"{_BEGIN}(?={_MAKER})|(?<!\w)MIG\s{{1,8}}\w*[0-9]g\.[^()]{{1,60}}Device\b|\(\s*UUID\s*:", re.IGNORECASE
)
_BEGIN_AGAIN = re.compile(rf"{_BEGIN}{_MAKER}|(?<!\w)MIG\s{{1,8}}\w*[0-9]g\.")
_CLOSED = re.compile(r"UUID\s*:\s*[^\s()]{1,80}\s*\)")
_NAMED = re.compile(_MAKER)
_SERIAL = re.compile(r"\s{0,8}\(\s?S/N\s?:[^()]{0,80}\)?$")
"""The serial number that drivers of 2012 to 2016 print."""

_NO_NAME = re.compile(r"[^A-Za-z]*|N/A|Unknown.*", re.IGNORECASE)
_MOST_WRAPS = 3
_NARROWEST = 40
"""Terminals have more columns than this, so a shorter line was not wrapped."""


@dataclass(frozen=True, slots=True)
class Below:
    """A piece of text below the line of a GPU: until the line's end or the next GPU."""

    number: int
    text: str
    is_last: bool


@dataclass(slots=True)
class Section:
    """
    What a text shows of one GPU.

    *number* is its line, *is_cut* tells that the text ends within it, *says_uuid* that the line has the word, whatever follows,
    *says_serial* that it has a serial number, *is_one_of_many* that it names other GPUs, too.
    """

    number: int
    index: int
    name: str | None
    uuid: str | None
    is_cut: bool = False
    says_uuid: bool = True
    says_serial: bool = False
    is_one_of_many: bool = False
    below: list[Below] = field(default_factory=list)


def find_outputs(page: Page) -> tuple[list[list[Section]], list[str]]:
    """
    Return the outputs of *page* in order, each with its GPUs by index, and what was taken off its lines as a warning.

    An output ends where a GPU comes again.

    Raises
    ------
    TopologyError
        If an index is that of no GPU.
    """
    text = page.text
    has_links = text.count("Link") > text.count("# NVLinks")  # the legend of a matrix has the word, too
    if "GPU" not in text or ("UUID" not in text and not has_links and not any(map(_names, page.lines))):
        return [], []
    groups, warnings = without_prefixes(page.lines, _first_head, lambda head: int(head["index"]) == 0)
    last = max((line.number for line in page.lines if line.text.strip()), default=0)
    return [output for lines in groups for output in _outputs(lines, page, last)], warnings


def _outputs(lines: Sequence[Line], page: Page, last: int) -> Iterator[list[Section]]:
    output: dict[int, Section] = {}
    section: Section | None = None
    for number, text, is_last in _rows(lines, last):
        heads = _heads(text)
        before = text[: heads[0].start()] if heads else text
        for section in () if heads else _many(text, number, page, is_last):
            if section.index in output:
                yield sorted(output.values(), key=lambda s: s.index)
                output = {}
            output[section.index] = section
            before = ""
        if section is not None and before.strip():
            section.below.append(Below(number, before, is_last and not heads))
        for position, head in enumerate(heads):
            end = heads[position + 1].start() if position + 1 < len(heads) else len(text)
            ends_text = is_last and end == len(text)
            section = _section(head, number, page, ends_text)
            if section.index in output:
                yield sorted(output.values(), key=lambda s: s.index)
                output = {}
            output[section.index] = section
            if text[head.end() : end].strip():
                section.below.append(Below(number, text[head.end() : end], ends_text))
    if output:
        yield sorted(output.values(), key=lambda s: s.index)


def _section(head: re.Match[str], number: int, page: Page, is_last: bool) -> Section:
    index = int(head["index"])
    if index >= MOST_DEVICES:
        raise TopologyError(f"GPU {index} is no GPU of one host", where=page.where(number))
    uuid = head["uuid"] or head["open"] or ""
    is_cut = is_last and page.is_cut and not head["uuid"]
    name = _SERIAL.sub("", head["name"].strip())
    if _NO_NAME.fullmatch(name) or (is_cut and head["open"] is None):
        name = ""
    says_uuid = head["uuid"] is not None or head["open"] is not None
    return Section(number, index, name or None, whole(uuid), is_cut, says_uuid, _SERIAL.search(head["name"]) is not None)


def indices_of(text: str, where: str) -> list[int]:
    """
    Return the indices in *text*: ``0,1,4-7``.

    Raises
    ------
    TopologyError
        If one is that of no GPU.
    """
    found: list[int] = []
    for part in re.sub(r"\s", "", text).split(","):
        first, _, last = part.partition("-")
        if int(last or first) >= MOST_DEVICES:
            raise TopologyError(f"GPU {last or first} is no GPU of one host", where=where)
        found += range(int(first), int(last or first) + 1)
    return found


def _many(text: str, number: int, page: Page, is_last: bool) -> list[Section]:
    """Return the GPUs of one name that a line tells."""
    match = _MANY.search(text) if "GPU" in text else None
    if match is None:
        return []
    is_cut = is_last and page.is_cut
    return [
        Section(number, index, None if is_cut else match["name"], None, is_cut, says_uuid=False, is_one_of_many=True)
        for index in dict.fromkeys(indices_of(match["index"] + match["more"], page.where(number)))
    ]


def _names(line: Line) -> bool:
    """Whether *line* names a GPU, though without UUID."""
    return "GPU" in line.text and (_BARE.search(line.text) or _MANY.search(line.text)) is not None


def _rows(lines: Sequence[Line], last: int) -> Iterator[tuple[int, str, bool]]:
    """Yield number and text of every line, those put together that were wrapped, and whether it is the last of the text."""
    position = 0
    while position < len(lines):
        text, count = _joined([line.text for line in lines[position : position + _MOST_WRAPS + 1]])
        yield lines[position].number, text, lines[position + count - 1].number >= last
        position += count


def _first_head(text: str) -> re.Match[str] | None:
    return next(iter(_heads(text)), None) or (_MANY.search(text) if "GPU" in text else None)


def _heads(text: str) -> list[re.Match[str]]:
    if "GPU" not in text:
        return []
    return [
        match
        for match in _HEAD.finditer(text)
        if match["uuid"] or match["open"] is not None or _NAMED.match(match["name"])
    ]


def _joined(texts: Sequence[str]) -> tuple[str, int]:
    """Return the first of *texts* with those behind it that complete what it begins, and how many they are together."""
    text = texts[0]
    if len(text) < _NARROWEST or not _is_open(text):
        return text, 1
    for count, rest in enumerate(texts[1:], start=2):
        if not rest.strip() or _BEGIN_AGAIN.search(rest):
            break
        text += rest
        if not _is_open(text):
            return text, count
    return texts[0], 1


def _is_open(text: str) -> bool:
    """Whether *text* begins the entry of a GPU or an instance, and ends before its UUID does."""
    starts = [match.start() for match in _OPENER.finditer(text)] if "GPU" in text or "MIG" in text else []
    return bool(starts) and _CLOSED.search(text, starts[-1]) is None
