"""
YAML without surprises: a reader that never guesses (the writer is `placement.text.yaml_writer`).

The reader knows mappings, lists, text, whole numbers, decimal numbers, ``true``, ``false`` and ``null`` (the
core schema of YAML 1.2, without octal, hexadecimal and infinity). Everything else is text: ``on``, ``no``,
``010``, ``10:00.0``, ``2024-01-01``. Keys are always text, each at most once. Tags, merge keys and several
documents are refused. Size, depth and number of values are bounded, with aliases counted for what they stand
for.

The text is read as a stream of events, so that bounds hold before anything is built.

When to modify: another kind of value must be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from placement.errors import InputError
from placement.text.yaml_writer import dump as dump

MAX_CHARACTERS = 1 << 20
MAX_DEPTH = 64
MAX_VALUES = 200_000
MAX_DIGITS = 40

Path = tuple[str | int, ...]
"""Keys and list positions from the top to a value."""

# libyaml where it is there: an order of magnitude faster, same events.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")
_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass(frozen=True, slots=True)
class Document:
    """
    What was read.

    Parameters
    ----------
    data
        Dictionaries, lists, str, int, float, bool, None.
    name
        What the text is called in messages.
    """

    data: Any
    name: str
    _lines: tuple[str, ...] = field(repr=False)
    _values: dict[Path, tuple[int, int]] = field(repr=False)
    _keys: dict[Path, tuple[int, int]] = field(repr=False)

    def position(self, path: Path, *, key: bool = False) -> tuple[int, int]:
        """
        Return line and column (from 1) of the value at *path*, or of its key; of what encloses it when it is
        absent.
        """
        for end in range(len(path), -1, -1):
            part = path[:end]
            if key and end == len(path) and part in self._keys:
                return self._keys[part]
            if part in self._values:
                return self._values[part]
        return (1, 1)

    def part(self, *path: str | int) -> Document:
        """Return the value at *path*, which exists, as a document whose errors point at the lines of this one."""
        data, depth = self.data, len(path)
        for step in path:
            data = data[step]

        def below(places: dict[Path, tuple[int, int]]) -> dict[Path, tuple[int, int]]:
            return {place[depth:]: position for place, position in places.items() if place[:depth] == path}

        return Document(data, self.name, self._lines, below(self._values), below(self._keys))

    def error(self, message: str, path: Path = (), *, key: bool = False) -> InputError:
        """Return *message* as an error that shows the line at *path*."""
        return _error(message, self.name, self._lines, *self.position(path, key=key))


def load(text: str, *, name: str = "<text>") -> Document:
    """
    Read *text*.

    Parameters
    ----------
    name
        What the text is called in messages: its file, mostly.

    Raises
    ------
    InputError
        If the text is too large, no YAML, or YAML that strict reading refuses; the message has line, column
        and excerpt.
    """
    if len(text) > MAX_CHARACTERS:
        raise InputError(
            f"the file has more than {MAX_CHARACTERS:,} characters: this is no file for people", where=name
        )
    return _Builder(text.removeprefix("\ufeff"), name).document()


def _error(message: str, name: str, lines: tuple[str, ...], line: int, column: int) -> InputError:
    while line > 1 and (line > len(lines) or not lines[line - 1].strip()):
        # The text ended too early: show where it ends.
        line -= 1
        column = len(lines[line - 1].rstrip()) + 1
    where = f"{name}:{line}:{column}"
    if not lines:
        return InputError(message, where=where)
    shown, caret = _window(lines[line - 1], column)
    return InputError(message, where=where, excerpt=f"  {shown}\n  {caret}")


def _window(line: str, column: int, width: int = 100) -> tuple[str, str]:
    """Return the part of *line* around *column* that fits a terminal, and a caret below it."""
    start = max(0, column - 1 - width // 2) if len(line) > width else 0
    shown = "".join(c if c.isprintable() else " " for c in line[start : start + width])
    return shown.rstrip(), " " * (column - 1 - start) + "^"


def _is_plain(event: yaml.ScalarEvent) -> bool:
    """Whether the scalar has no quotes and is no block (the two parsers say so with None and with "")."""
    return not event.style


def _start(event: yaml.Event) -> tuple[int, int]:
    """Return line and column, from 1."""
    assert event.start_mark is not None
    return event.start_mark.line + 1, event.start_mark.column + 1


@dataclass(slots=True)
class _Open:
    """A mapping or list that is being read."""

    value: dict[str, Any] | list[Any]
    path: Path
    anchor: str | None
    first_value: int
    key: str | None = None


@dataclass(frozen=True, slots=True)
class _Anchored:
    """A finished value that an alias may name, and how many values it holds."""

    value: Any
    values: int


class _Builder:
    """Builds the data from events, with a stack of its own: no recursion, every bound checked on the way."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.lines = tuple(text.splitlines())
        self.values: dict[Path, tuple[int, int]] = {}
        self.keys: dict[Path, tuple[int, int]] = {}
        self.stack: list[_Open] = []
        self.anchors: dict[str, _Anchored] = {}
        self.count = 0
        self.root: Any = None

    def document(self) -> Document:
        documents = 0
        for event in self._events():
            match event:
                case yaml.DocumentStartEvent():
                    documents += 1
                    if documents > 1:
                        raise self._fail(
                            "a second document begins here (`---`); one file holds one document", event
                        )
                case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                    self._open(event)
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    done = self.stack.pop()
                    self._remember(done.anchor, done.value, done.first_value)
                case yaml.ScalarEvent():
                    self._scalar(event)
                case yaml.AliasEvent():
                    self._alias(event)
        return Document(self.root, self.name, self.lines, self.values, self.keys)

    def _events(self) -> Iterator[yaml.Event]:
        try:
            yield from yaml.parse(self.text, Loader=_LOADER)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
            said = ", ".join(part for part in (error.context, error.problem) if part)
            raise _error(f"this is no valid YAML: {said}", self.name, self.lines, line, column) from None
        except (yaml.YAMLError, UnicodeError) as error:
            said = str(error).splitlines()[0]
            raise InputError(f"this is no text that YAML allows: {said}", where=self.name) from None

    def _fail(self, message: str, event: yaml.Event) -> InputError:
        return _error(message, self.name, self.lines, *_start(event))

    def _open(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        if len(self.stack) == MAX_DEPTH:
            raise self._fail(f"more than {MAX_DEPTH} levels deep", event)
        self._refuse_tag(event)
        value: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        first = self.count
        path = self._place(value, event)
        self.stack.append(_Open(value, path, event.anchor, first))

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        self._refuse_tag(event)
        top = self.stack[-1] if self.stack else None
        if top is not None and isinstance(top.value, dict) and top.key is None:
            self._key(top, event)
            return
        first = self.count
        value = self._typed(event) if _is_plain(event) else event.value
        self._place(value, event)
        self._remember(event.anchor, value, first)

    def _key(self, top: _Open, event: yaml.ScalarEvent) -> None:
        key = event.value
        path = (*top.path, key)
        if event.anchor is not None:
            raise self._fail("a key cannot be an anchor", event)
        if key == "<<" and _is_plain(event):
            raise self._fail("merge keys (`<<`) are not read: write the keys out", event)
        if key in top.value:
            line, column = self.keys[path]
            raise self._fail(f"the key {key!r} is there twice (first at line {line}, column {column})", event)
        self.keys[path] = _start(event)
        top.key = key

    def _alias(self, event: yaml.AliasEvent) -> None:
        anchored = self.anchors.get(event.anchor or "")
        if anchored is None:
            raise self._fail(f"the alias *{event.anchor} names no value that is complete above it", event)
        self.count += anchored.values - 1
        self._place(anchored.value, event)

    def _place(self, value: Any, event: yaml.Event) -> Path:
        """Put *value* where it belongs and return its path."""
        self.count += 1
        if self.count > MAX_VALUES:
            raise self._fail(f"more than {MAX_VALUES:,} values, counting what aliases stand for", event)
        top = self.stack[-1] if self.stack else None
        path: Path = ()
        if top is None:
            self.root = value
        elif isinstance(top.value, list):
            path = (*top.path, len(top.value))
            top.value.append(value)
        elif top.key is None:
            raise self._fail("a key must be plain text", event)
        else:
            path = (*top.path, top.key)
            top.value[top.key] = value
            top.key = None
        self.values[path] = _start(event)
        return path

    def _remember(self, anchor: str | None, value: Any, first: int) -> None:
        if anchor is not None:
            self.anchors[anchor] = _Anchored(value, self.count - first)

    def _refuse_tag(self, event: yaml.ScalarEvent | yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        if event.tag is not None:
            raise self._fail(f"the tag {event.tag} is not read: write the plain value", event)

    def _typed(self, event: yaml.ScalarEvent) -> Any:
        """Return what an unquoted scalar means."""
        text: str = event.value
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if _INTEGER.fullmatch(text):
            if len(text) > MAX_DIGITS:
                raise self._fail(f"a number of more than {MAX_DIGITS} digits", event)
            return int(text)
        if _DECIMAL.fullmatch(text) and not _LEADING_ZERO.fullmatch(text):
            number = float(text)
            if number in (float("inf"), float("-inf")):
                raise self._fail("this number is too large", event)
            return number
        return text
