"""
XML that stands in a pasted text: found, cut out and parsed, within bounds.

A document is taken from the tag of its root to the end of it, so that prompts, prose, fences and declarations around it do not
matter. What a log put before the tags of a line is character data to a parser, and so does no harm; where it does, it is
stripped. Nothing that a document declares is ever expanded or fetched.

When to modify: documents are damaged in a new way that can be undone, or real ones have more than the bounds allow.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from topologies.errors import TopologyError
from topologies.pages.prefixes import before_lines, is_before_every_line, stripped
from topologies.pages.text import Page

MOST_ELEMENTS = 2**16
"""Most elements of all documents of a text; `nvidia-smi -q -x` of 16 GPUs has about 25,000."""

MOST_DOCUMENTS = 64
"""Most documents of a text."""

DEEPEST = 64
"""Deepest nesting; PCIe trees have less than 20 levels."""

LONGEST_TAG = 2**14
"""Longest way from one tag to the next, characters."""

_TOO_LONG = re.compile(rf"<[^<]{{{LONGEST_TAG},}}")
_MOST_TEXT = 4096
_MOST_MIXED_LINES = 2**18
_CHUNK = 2**16
_LONGEST_PREFIX = 200
_ESCAPED = "the XML was written as HTML (&lt;): that was undone"
_ELIDED = re.compile(r"\.\.\.|…")


@dataclass(slots=True)
class Element:
    """An element: its tag, attributes, own text without white space around it, and children in order."""

    tag: str
    attributes: dict[str, str]
    text: str = ""
    children: list[Element] = field(default_factory=list)

    def all(self, tag: str) -> list[Element]:
        """Return the children called *tag*."""
        return [child for child in self.children if child.tag == tag]

    def find(self, *path: str) -> Element | None:
        """Return the first descendant on *path*."""
        found: Element | None = self
        for tag in path:
            found = next((child for child in found.children if child.tag == tag), None) if found is not None else None
        return found

    def value(self, *path: str) -> str | None:
        """Return the text of the first descendant on *path*; None if there is none."""
        found = self.find(*path)
        return found.text.strip() or None if found is not None else None

    def walk(self) -> Iterator[Element]:
        """Yield the element and all below it in the order of the document."""
        waiting = [self]
        while waiting:
            element = waiting.pop()
            yield element
            waiting += reversed(element.children)


@dataclass(frozen=True, slots=True)
class Document:
    """
    A document as it stands in a text.

    Parameters
    ----------
    line
        Number of the line of its root.
    raw
        What it is, from the tag of its root to the end of it or, where that is lost, as far as it may go.
    prefix
        What stands before it in its first line.
    is_closed
        Whether its end is there.
    declares
        Whether it declares entities or elements of its own.
    """

    line: int
    raw: str
    prefix: str
    is_closed: bool
    declares: bool

    @property
    def last_line(self) -> int:
        """Number of the last line of it that is not blank."""
        return self.line + self.raw.rstrip().count("\n")


@dataclass(frozen=True, slots=True)
class Parsed:
    """The root of a document and what had to be repaired or is left out, one sentence each."""

    root: Element
    warnings: tuple[str, ...]


def unescaped(page: Page, root: str) -> Page:
    """Return *page* with the brackets of its XML, if they were written as HTML (``&lt;system``); `parse` says that."""
    if "&lt;" not in page.text or f"<{root}" in page.text or not re.search(rf"&lt;(?:{root}|gpu|pci)\b", page.text):
        return page
    return replace(page, text=html.unescape(page.text), warnings=(*page.warnings, _ESCAPED))


def find_documents(text: str, root: str, content: re.Pattern[str]) -> list[Document]:
    """
    Return the documents in *text*.

    Parameters
    ----------
    root
        Tag of their root.
    content
        What each of them has; a mere mention of the tag has it not.

    Raises
    ------
    TopologyError
        If there are too many.
    """
    found = _documents(text, root)
    prefixes = {document.prefix for document in found}
    if len(prefixes) > 1 and all(p.strip() for p in prefixes) and not all(d.is_closed for d in found):
        found = [d for part, lines in _by_prefix(text, prefixes) for d in _documents(part, root, lines)]
    return [document for document in found if content.search(document.raw)]


def _documents(text: str, root: str, lines: list[int] | None = None) -> list[Document]:
    """Return all that begins with *root*; *lines* are the numbers of the lines of *text* if not 1, 2, 3 …."""
    starts: list[int] = []
    for match in re.finditer(rf"<{root}(?=[\s>])", text):
        starts.append(match.start())
        if len(starts) > MOST_DOCUMENTS:
            raise TopologyError(f"more than {MOST_DOCUMENTS} documents <{root}>: give those of one machine")
    found = []
    number, counted = 1, 0
    for start, following in zip(starts, [*starts, len(text)][1:], strict=True):
        number, counted = number + text.count("\n", counted, start), start
        begin = text.rfind("\n", 0, start) + 1
        close = text.find(f"</{root}", start, following)
        end = text.find(">", close, following) + 1 if close >= 0 else 0
        before = text[max(0, start - _CHUNK) : start]
        declaration = before.rfind("<!DOCTYPE")
        found.append(
            Document(
                lines[number - 1] if lines else number,
                text[start : end or following],
                text[max(begin, start - _LONGEST_PREFIX) : start],
                end > 0,
                declaration >= 0 and re.match(r"[^<>\[]*\[", before[declaration + 9 :]) is not None,
            )
        )
    return found


def _by_prefix(text: str, prefixes: set[str]) -> Iterator[tuple[str, list[int]]]:
    """Yield the lines with each of *prefixes* as a text, and their numbers: several hosts wrote at once."""
    pattern = re.compile(f"({'|'.join(re.escape(p) for p in sorted(prefixes, key=len, reverse=True))})[^\n]*", re.M)
    parts: dict[str, list[str]] = {prefix: [] for prefix in prefixes}
    numbers: dict[str, list[int]] = {prefix: [] for prefix in prefixes}
    number, position = 1, 0
    for position_in_all, match in enumerate(pattern.finditer(text)):
        if position_in_all > _MOST_MIXED_LINES:
            raise TopologyError("the lines of several hosts are mixed, and there are too many: give the output of one host")
        if match.start() and text[match.start() - 1] != "\n":
            continue
        number, position = number + text.count("\n", position, match.start()), match.start()
        parts[match[1]].append(match[0])
        numbers[match[1]].append(number)
    for prefix, part in parts.items():
        yield "\n".join(part), numbers[prefix]


def parse(document: Document, page: Page, *, what: str, seen: str, remedy: str) -> Parsed:
    """
    Return the root of *document*.

    Parameters
    ----------
    page
        Where it stands.
    what, seen, remedy
        What messages call it, what of it was seen although it could not be read, and how to get a whole one.

    Raises
    ------
    TopologyError
        If it is cut, not well-formed, too large, or declares entities.
    """
    if document.declares:
        message = f"{what} declares entities or elements of its own, which is refused: {remedy}"
        raise TopologyError(message, where=page.where(document.line))
    raw = document.raw
    warnings = [_ESCAPED] if _ESCAPED in page.warnings else []
    if '=\\"' in raw:
        raw = raw.replace('\\"', '"')
        warnings.append(f'the quotes of {what} are escaped (\\"): that was undone')
    root, fault = _feed(raw, document, page, what)
    prefix = document.prefix.strip()
    if prefix and is_before_every_line(prefix, raw) and (said := stripped([prefix[:_LONGEST_PREFIX]])) not in page.warnings:
        warnings.append(said)
    if fault is not None and document.is_closed and prefix:
        root, still = _feed(before_lines(prefix).sub("", raw), document, page, what)
        fault = fault if still is not None else None
    if root is None or fault is not None:
        odd = [f"every line starts with {prefix!r}"] if prefix and "<" not in prefix else []
        odd += ["its quotes are escaped"] if '=\\"' in document.raw else []
        said = "; ".join([f"{what} {fault}", *odd, seen, remedy])
        raise TopologyError(said, where=page.where(document.line))
    if any(element.children and _ELIDED.search(element.text) for element in root.walk()):
        warnings.append(f"parts of {what} are left out ('...'): what they would state is unknown")
    return Parsed(root, tuple(warnings))


class _Builder:
    """Builds elements out of what a parser sees, within bounds."""

    def __init__(self, document: Document, page: Page, what: str) -> None:
        self._where = page.where(document.line)
        self._what = what
        self.open: list[Element] = []
        self._count = 0
        self.root: Element | None = None

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if self._count > MOST_ELEMENTS or len(self.open) >= DEEPEST:
            too_many = f"has more than {MOST_ELEMENTS:,} elements"
            problem = too_many if self._count > MOST_ELEMENTS else f"is nested more than {DEEPEST} deep"
            raise TopologyError(f"{self._what} {problem}, which no machine needs", where=self._where)
        element = Element(tag, attributes)
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)

    def end(self, _tag: str) -> None:
        self.open.pop()

    def data(self, text: str) -> None:
        if self.open and not text.isspace() and len(self.open[-1].text) < _MOST_TEXT:
            self.open[-1].text += text[:_MOST_TEXT]

    def close(self) -> Element | None:
        return self.root


def _feed(raw: str, document: Document, page: Page, what: str) -> tuple[Element | None, str | None]:
    """Return the root of *raw* and what is wrong with it, as the rest of a sentence."""
    from defusedxml import DefusedXmlException  # type: ignore[import-untyped]
    from defusedxml.ElementTree import ParseError, XMLParser  # type: ignore[import-untyped]

    if not document.is_closed:  # whatever follows its last tag is none of it
        raw = raw[: raw.rindex("<") + LONGEST_TAG]
    if long := _TOO_LONG.search(raw):
        number = document.line + raw.count("\n", 0, long.start())
        message = f"{what} has a tag or text of more than {LONGEST_TAG:,} characters, which no machine needs"
        raise TopologyError(message, where=page.where(number))
    builder = _Builder(document, page, what)
    parser = XMLParser(target=builder)
    try:
        for start in range(0, len(raw), _CHUNK):
            parser.feed(raw[start : start + _CHUNK])
        if document.is_closed:
            parser.close()
            return builder.root, None
    except ParseError as error:
        if document.is_closed:
            line, column = error.position
            reason = str(error).partition(":")[0]
            number = document.line + line - 1
            return builder.root, f"is not well-formed in line {number}, column {column + 1} ({reason})"
    except DefusedXmlException:
        return builder.root, "declares entities, which is refused"
    inside = f", inside <{builder.open[-1].tag}>" if builder.open else ""
    return builder.root, f"is not well-formed: it is cut, it ends in line {document.last_line}{inside}"
