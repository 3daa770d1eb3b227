"""
A pasted text, made plain: decoded, without terminal escapes, source-code quoting and line prefixes.

Every reader gets a `Page`. What was undone and could matter to the reader is a sentence in `Page.warnings`; byte order marks,
line ends, colours and special spaces are undone silently.

When to modify: a new kind of damage that is not tied to one format.
"""

from __future__ import annotations

import codecs
import html
import re
from dataclasses import dataclass

from topologies import codes
from topologies.errors import TopologyError
from topologies.pages.excerpt import excerpt
from topologies.pages.quoted import unquoted

MAX_BYTES = 8 * 2**20
"""Largest text that is read; a log with a matrix in it mostly has less."""

_STRANGE = re.compile("[\x00-\x07\x0e-\x1a\x1c-\x1f\ufffd]")
"""Controls that no text has, and what stands for bytes that are none."""

_ESCAPES = re.compile(
    "\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # colours, underline, cursor
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)"  # window titles
    r"|[()][0-9A-Z]|[=>78])"
    r"|\^\[\[[0-9;]*[A-Za-z]"  # as `cat -v` shows them
    r"|\\(?:u001b|x1b|033|e)\[[0-9;]{0,16}[mK]"  # as source code has them
    r"|\[(?:(?<![\w\])]\[)[0-9]{1,2}(?:;[0-9]{1,3})*m|0m)"  # pasted without the escape byte
)
_SPACES = str.maketrans(
    {
        **dict.fromkeys(
            "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000",
            " ",
        ),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff"),
    }
)
_SPECIAL = re.compile(f"[{''.join(map(chr, _SPACES))}\u2010-\u2013\u2212]")
_DASHES = re.compile("(?<=[0-9])[\u2010-\u2013\u2212](?=[0-9])")
"""What word processors make of the minus in a range."""

_UNSIGNED = {
    sign: re.compile(rf"^(?!\{sign}|[ \t]*$|diff |index [0-9a-f]|@@ |new file |deleted file |\+\+\+ |--- )", re.MULTILINE) for sign in "+-"
}
"""Lines of a diff that do not begin with a sign, but for those that are about files."""

_LINE_ENDS = ("\r\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029")
_HTML = re.compile(r"<br ?/?>|<t[dh]\b|<pre\b|&nbsp;", re.IGNORECASE)
_HTML_PLAIN = (
    (re.compile(r"<br ?/?>\n?|<tr\b[^<>]{0,200}>", re.IGNORECASE), "\n"),
    (re.compile(r"</t[dh]>[ \n]{0,20}<t[dh]\b[^<>]{0,200}>", re.IGNORECASE), "\t"),
    (
        re.compile(
            r"</?(?:pre|code|table|tbody|thead|tr|td|th|span|div|p|b|strong|html|body)\b[^<>]{0,200}>", re.IGNORECASE
        ),
        "",
    ),
)
"""Tags that matter for where lines and cells end, and those that matter for nothing."""

_BEFORE_LABEL = re.compile(r"[|│┃║ \t]*[*_`]{0,3}$")
"""The border of a table, and what makes a label bold: no prefix."""

_LONGEST_PREFIX = 200
_MOST_PREFIXES = 64
_TIMES = re.compile(
    r"(?<!\w)(?:[A-Z][a-z]{2} {1,2}[0-9]{1,2} )?(?:[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[T ]?)?"
    r"(?:[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?)?(?:Z| ?[+-][0-9:]{4,6})?"
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line and its number in the source, from 1."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Page:
    """
    A text made plain.

    Parameters
    ----------
    name
        What the user calls the source.
    lines
        Its lines.
    is_cut
        The text does not end with a line end, so that its last word may be cut.
    warnings
        What was undone: one sentence each.
    text
        Everything, with plain spaces and line ends and without terminal escapes: for readers of outputs that are longer than what
        `lines` keeps. Prefixes of lines stand in it.
    left_out
        A warning if `lines` is not everything.
    """

    name: str
    lines: tuple[Line, ...]
    is_cut: bool
    warnings: tuple[str, ...]
    text: str = ""
    left_out: str | None = None

    def where(self, number: int) -> str:
        """Return the place of line *number* for a message."""
        return f"{self.name}:{number}"


def decode(data: bytes, *, name: str) -> str:
    """
    Return *data* as text: UTF-8, or UTF-16 with or without a byte order mark.

    Raises
    ------
    TopologyError
        If it is too large, or no text.
    """
    if len(data) > MAX_BYTES:
        raise too_large(name)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", errors="replace")
    sample = data[:4096]
    if sample[1::2].count(0) * 2 > len(sample) // 2 > sample[0::2].count(0) * 8:
        return data.decode("utf-16-le", errors="replace")
    if sample[0::2].count(0) * 2 > len(sample) // 2 > sample[1::2].count(0) * 8:
        return data.decode("utf-16-be", errors="replace")
    return data.decode("utf-8-sig", errors="replace")


def too_large(name: str) -> TopologyError:
    """Return the refusal of a source that is too large."""
    return TopologyError(f"larger than {MAX_BYTES // 2**20} MiB: this is no output of nvidia-smi", where=name)


def clean(text: str, *, name: str) -> Page:
    """
    Return *text* made plain.

    Raises
    ------
    TopologyError
        If it is empty, binary, or has more to look at than any machine prints.
    """
    if not text.strip():
        raise TopologyError("the text is empty; `nvidia-smi topo -m` prints what is needed", where=name)
    _refuse_binary(text, name)
    warnings = []
    if _HTML.search(text) and not text.lstrip().startswith("<?xml"):
        for pattern, plain in _HTML_PLAIN:
            text = pattern.sub(plain, text)
        text = html.unescape(text)
        warnings.append("the text is HTML: its tags were taken off")
    for line_end in _LINE_ENDS:
        text = text.replace(line_end, "\n")
    text, undone = unquoted(text, name=name)
    warnings += undone
    if (sign := _sign(text)) is not None:
        text = re.sub(rf"^\{sign}", "", text, flags=re.MULTILINE)
        warnings.append(f"the lines had a prefix, which was stripped: {sign!r}")
    numbered, left_out = excerpt(text, name=name)
    lines, stripped = _strip_prefixes([Line(number, _plain(line)) for number, line in numbered])
    is_cut = not text.endswith("\n") and numbered[-1][0] == text.count("\n") + 1
    return Page(name, tuple(lines), is_cut, (*warnings, *stripped), _plain(text), left_out)


def _plain(line: str) -> str:
    """Return *line* without terminal escapes and with plain spaces."""
    if not line.isascii() and _SPECIAL.search(line):
        line = _DASHES.sub("-", line.translate(_SPACES))
    return _ESCAPES.sub("", line) if "\x1b" in line or "[" in line else line


def _sign(text: str) -> str | None:
    """Return the sign before all lines of *text*, the outputs of which a diff added or removed; None if there is none."""
    for sign, unsigned in _UNSIGNED.items():
        if f"\n{sign}" in text and not unsigned.search(text):
            return sign
    return None


def _refuse_binary(text: str, name: str) -> None:
    sample = text[:65536]
    if "\0" in text or len(_STRANGE.findall(sample)) * 20 > len(sample):
        raise TopologyError(
            "binary data, not text; give the text that `nvidia-smi topo -m` prints", where=name
        )


TAKEN_AS_ONE = "whole outputs stand behind different prefixes"
"""How the warning of `one_machine` begins."""


def one_machine(prefixes: list[str]) -> list[str]:
    """Return the warning that what stands behind *prefixes*, each a whole output, is taken as one machine; none if only times differ."""
    named = list(dict.fromkeys(_TIMES.sub("", prefix).strip(" \t|[](){}:;,.") for prefix in prefixes))
    if len(named) < 2:
        return []
    shown = ", ".join(repr(prefix.strip()) for prefix in prefixes[:3]) + (" …" if len(prefixes) > 3 else "")
    said = "and are taken as those of one machine: if they are hosts, write the name before each line (node0: )"
    return [f"{TAKEN_AS_ONE} ({shown}), {said}"]


def prefix_shape(prefix: str) -> str:
    """Return a pattern of *prefix* and those that differ from it by numbers only: times go on."""
    return r"[0-9]+".join(map(re.escape, re.split(r"[0-9]+", prefix)))


def _strip_prefixes(lines: list[Line]) -> tuple[list[Line], list[str]]:
    """
    Return *lines* without what a log or a mail put before the rows of a matrix, and what was stripped.

    A prefix is what stands before the labels of rows, the same but for its digits (times). Where several hosts talk at once,
    each with a first row of its own, their lines are put one host after the other.
    """
    before: dict[str, bool] = {}  # prefix to whether it stands before a first row
    for line in lines:
        match = codes.ROW_START.search(line.text) if codes.may_have_label(line.text) else None
        if match is None or match.start() > _LONGEST_PREFIX or codes.ROW_START.search(line.text, match.end()):
            continue
        prefix = _BEFORE_LABEL.sub("", line.text[: match.start()])
        if prefix.strip():
            before[prefix] = before.get(prefix, False) or match["label"] == "GPU0"
    are_hosts = len(before) > 1 and all(before.values())
    shapes = {re.escape(p) if are_hosts else prefix_shape(p) for p in before}
    if not 0 < len(shapes) <= _MOST_PREFIXES:
        return lines, []
    pattern = re.compile(
        rf"(?P<prefix>{'|'.join(sorted(shapes, key=len, reverse=True))})(?: *\| ?(?![^|]*\|)| )?"
    )
    stripped = [(line, pattern.match(line.text)) for line in lines]
    bare = [
        line if match is None else Line(line.number, line.text[match.end() :]) for line, match in stripped
    ]
    if sum(match is not None for _, match in stripped) < 2:
        return lines, []
    shown = ", ".join(repr(prefix.strip()) for prefix in list(before)[:3]) + (" …" if len(before) > 3 else "")
    warnings = [f"the lines had a prefix, which was stripped: {shown}"]
    if not are_hosts:
        return bare, warnings
    warnings += one_machine([*before])
    groups: dict[str | None, list[Line]] = {}
    for line, (_, match) in zip(bare, stripped, strict=True):
        groups.setdefault(match["prefix"] if match else None, []).append(line)
    return [line for group in groups.values() for line in (*group, Line(group[-1].number, ""))], warnings
