"""
Lines that a terminal wrapped, put back together.

A line that ends at the width of the terminal goes on in the next one, which then has nothing that begins a line. Whole lines are
joined as they are; where blanks got lost at their ends, words tell whether a cut went through one, and what they cannot tell is
left unreadable.

When to modify: lines are broken in another way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from topologies import codes
from topologies.nvidia.matrix.header import TITLE_WORDS, Column, gpu_index, is_gpu_label, parse_header


@dataclass(slots=True)
class Part:
    """
    A piece of text that is one thing: a header (*header* is not empty), a row (*label* is set; its cells begin at *body*), or a line
    of prose.

    It stands in the lines *number* to *last_number* of the source; *ends_line* says that nothing follows it there, *has_layout* that
    its words stand where they were printed, *notes* what was put back together.
    """

    text: str
    number: int
    header: tuple[Column, ...] = ()
    label: str | None = None
    body: int = 0
    last_number: int = 0
    ends_line: bool = True
    has_layout: bool = True
    notes: list[str] = field(default_factory=list)


def rejoin(parts: Iterable[Part]) -> Iterator[Part]:
    """Yield *parts* with wrapped headers and rows in one piece."""
    groups: list[list[Part]] = []
    for part in parts:
        last = groups[-1] if groups else None
        if last is not None and part.number == last[-1].last_number + 1 and _continues(last, part):
            last.append(part)
        else:
            groups.append([part])
    wrapped = [part.text for group in groups for part in group[:-1]]
    width = max(map(len, wrapped), default=0)
    is_whole = all(len(text) == width for text in wrapped) and any(text[-1:].isspace() for text in wrapped)
    for group in groups:
        yield group[0] if len(group) == 1 else _joined(group, width, is_whole)


def _continues(group: list[Part], part: Part) -> bool:
    """Whether *part* is the next line of what *group* began."""
    tokens = part.text.split()
    head = group[0]
    if not tokens or part.label is not None or (not head.header and head.label is None):
        return False
    if head.header:
        if any(is_gpu_label(c.name) for c in part.header):
            # a wrapped header may go on with GPU labels, but not from the first one again
            first = part.header[0]
            previous = [gpu_index(c.name) for c in head.header if is_gpu_label(c.name)]
            return is_gpu_label(first.name) and bool(previous) and gpu_index(first.name) > max(previous)
        fits = [
            t in TITLE_WORDS or bool(re.fullmatch(codes.DEVICE, t)) or bool(codes.NIC.fullmatch(t))
            for t in tokens
        ]
        whole = _touching(group[-1], part)
        joined = whole in TITLE_WORDS or re.fullmatch(codes.DEVICE, whole) is not None
    else:
        fits = [_is_cell(t) or codes.may_be_code(t) for t in tokens]
        whole = _touching(group[-1], part)
        joined = _is_cell(whole) or codes.may_be_code(whole)
        if not any(map(_is_cell, (*tokens, whole))):  # codes that nobody has seen alone are prose
            return False
    if len(fits) > 1 and len(part.text) >= len(group[-1].text):
        fits[-1] = True  # a full line may end within a word
    return all(fits[1:]) and (fits[0] or joined)


def _touching(left: Part, right: Part) -> str:
    """Return the word that the end of *left* and the beginning of *right* would make."""
    return (left.text.split() or [""])[-1] + right.text.split()[0]


def _is_cell(token: str) -> bool:
    return codes.is_link(token) or token in codes.SELF or codes.is_value(token)


def _joined(group: list[Part], width: int, is_whole: bool) -> Part:
    """Return the parts of *group* as one; *is_whole* says that the lines still have all their blanks, up to *width*."""
    head = group[0]
    text = head.text
    for left, part in pairwise(group):
        gap = "" if is_whole else " " * (width - len(left.text)) + _gap(left, part)
        text += gap + part.text
    return Part(
        text,
        head.number,
        header=parse_header(text) if head.header else (),
        label=head.label,
        body=head.body,
        last_number=group[-1].last_number,
        ends_line=group[-1].ends_line,
        has_layout=is_whole,
        notes=[*head.notes, "lines that a terminal had wrapped have been joined"],
    )


_EITHER = "~"
"""Stands where nobody can tell whether two halves are one word; no cell contains it, so that neither reading is used."""


def _gap(left: Part, right: Part) -> str:
    """Return what was between two lines: nothing when they are halves of one word, a space when each ends a word."""
    if left.text[-1:].isspace() or right.text[:1].isspace():
        return ""
    a, b = left.text.split()[-1], right.text.split()[0]
    whole = a + b
    if left.header:
        is_word = whole in TITLE_WORDS or re.fullmatch(codes.DEVICE, whole) is not None
        are_words = _is_title_part(a) and _is_title_part(b)
    else:
        is_word = _is_cell(whole)
        are_words = _is_cell(a) and _is_cell(b) and a[-1] not in ",-"
        if not is_word and not are_words and codes.may_be_code(whole):
            return _EITHER
    if is_word and are_words:
        return _EITHER
    return "" if is_word else " "


def _is_title_part(token: str) -> bool:
    return token in TITLE_WORDS or re.fullmatch(codes.DEVICE, token) is not None
