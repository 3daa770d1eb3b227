"""
The text of a document, JSON or YAML, as plain values: dictionaries, lists, texts, numbers, booleans and None.

Nothing is guessed and nothing runs: in YAML, plain scalars are texts but for whole numbers, decimals, ``true``, ``false`` and
``null``; tags and aliases are refused. Keys are texts, each at most once. Size and depth are bounded.

When to modify: a document needs another kind of value.
"""

from __future__ import annotations

import json
import re
from typing import Any

from topologies.errors import TopologyError

MOST_YAML_CHARACTERS = 2**23
"""Longest YAML that is read: as long as any text; a cluster of 1,024 hosts of eight GPUs and ten NICs has half as many."""

MOST_YAML_VALUES = 2**20
"""Most keys and values of YAML together, a mapping or list counted as `_COLLECTION` of them: they bound the memory that it takes."""

_COLLECTION = 3

MOST_DEPTH = 32
"""Deepest nesting; a topology needs four levels."""

_MOST_DIGITS = 40
_WHOLE_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+(?:e[+-]?[0-9]{1,3})?")
_UNQUOTED = re.compile(r"(?<![\"'\w.-])[A-Za-z][\w.-]{0,63}\[[0-9][0-9,-]{0,63}\](?![\"'\w])")
_LONGEST_LINE = 4096
_CONSTANTS = {"": None, "~": None, "null": None, "true": True, "false": False}


def parse(text: str, *, name: str, lines: dict[int, int] | None = None) -> object:
    """
    Return what the document *text* says.

    Parameters
    ----------
    name
        What messages call it.
    lines
        Takes the line of each mapping and list, by its identity (``id``); a text of which it is wanted is read as YAML.

    Raises
    ------
    TopologyError
        If it is neither JSON nor YAML, or has what is refused; the message has line and column where they are known.
    """
    if lines is not None and len(text) <= MOST_YAML_CHARACTERS:
        return _parse_yaml(text, name, lines)
    try:
        return json.loads(text, object_pairs_hook=_Keys(name).mapping)
    except TopologyError:
        raise
    except (ValueError, RecursionError):
        return _parse_yaml(text, name, None)


class _Keys:
    """Makes mappings of JSON whose keys are unique."""

    def __init__(self, name: str) -> None:
        self._name = name

    def mapping(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Return *pairs* as a mapping."""
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise _error(f"the key {twice[:60]!r} is there twice", self._name)
        return found


def _error(problem: str, where: str) -> TopologyError:
    return TopologyError(f"the topology document cannot be parsed: {problem}", where=where)


def _parse_yaml(text: str, name: str, lines: dict[int, int] | None) -> object:
    import yaml

    if len(text) > MOST_YAML_CHARACTERS:
        raise _error(
            f"it is no JSON, and longer than YAML may be ({MOST_YAML_CHARACTERS:,} characters)", name
        )
    # libyaml where it is there: an order of magnitude faster, same events.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _Builder(name, lines)
    try:
        for event in yaml.parse(text, loader):
            builder.take(event)
    except TopologyError:
        raise
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0][:200]
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise _error(problem + _brackets(text, mark), where) from None
    return builder.root


def _brackets(text: str, mark: Any) -> str:
    """Return a way on if the line at *mark* has a name with brackets, which YAML takes for the beginning of a list."""
    # YAML counts more signs as line ends than this, so that its line can lie behind the last.
    lines = text.split("\n", mark.line + 1)[mark.line : mark.line + 1] if mark else []
    found = next((match for line in lines if (match := _UNQUOTED.search(line[:_LONGEST_LINE]))), None)
    return f"; a name with brackets must stand in quotes: \"{found[0]}\"" if found else ""


class _Builder:
    """Builds the value of a document from the events of its YAML."""

    def __init__(self, name: str, lines: dict[int, int] | None) -> None:
        self.root: object = None
        self._lines = lines
        self._name = name
        self._documents = 0
        self._left = MOST_YAML_VALUES
        self._open: list[dict[str, Any] | list[Any]] = []
        self._keys: list[str | None] = []  # of each open mapping, the key that waits for its value

    def take(self, event: Any) -> None:
        """Take the next event."""
        kind = type(event).__name__
        if kind == "AliasEvent":  # they can grow a small text without bound
            raise self._refusal("aliases are not allowed", event)
        if getattr(event, "tag", None) is not None:
            raise self._refusal(f"the tag {event.tag[:60]!r} is not allowed: write the value alone", event)
        match kind:
            case "DocumentStartEvent":
                self._documents += 1
                if self._documents > 1:
                    raise self._refusal("a second document begins here", event)
            case "MappingStartEvent":
                self._begin({}, event)
            case "SequenceStartEvent":
                self._begin([], event)
            case "MappingEndEvent" | "SequenceEndEvent":
                self._open.pop()
                self._keys.pop()
            case "ScalarEvent":
                self._scalar(event)

    def _refusal(self, problem: str, event: Any) -> TopologyError:
        mark = event.start_mark
        return _error(problem, f"{self._name}:{mark.line + 1}:{mark.column + 1}")

    def _count(self, values: int, event: Any) -> None:
        self._left -= values
        if self._left < 0:
            raise self._refusal(f"more than {MOST_YAML_VALUES:,} keys and values; JSON may have more", event)

    def _begin(self, value: dict[str, Any] | list[Any], event: Any) -> None:
        self._count(_COLLECTION, event)
        if len(self._open) == MOST_DEPTH:
            raise self._refusal(f"nested deeper than {MOST_DEPTH} levels", event)
        self._add(value, event)
        if self._lines is not None:
            self._lines[id(value)] = event.start_mark.line + 1
        self._open.append(value)
        self._keys.append(None)

    def _scalar(self, event: Any) -> None:
        self._count(1, event)
        if self._open and isinstance(self._open[-1], dict) and self._keys[-1] is None:
            if event.value in self._open[-1]:
                raise self._refusal(f"the key {event.value[:60]!r} is there twice", event)
            self._keys[-1] = event.value
        else:
            self._add(event.value if event.style else _plain(event.value), event)

    def _add(self, value: object, event: Any) -> None:
        if not self._open:
            self.root = value
        elif isinstance(parent := self._open[-1], list):
            parent.append(value)
        elif (key := self._keys[-1]) is None:
            raise self._refusal("a key must be a text", event)
        else:
            parent[key] = value
            self._keys[-1] = None


def _plain(text: str) -> object:
    """Return the value of a scalar without quotes."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if len(text) > _MOST_DIGITS:
        return text
    if _WHOLE_NUMBER.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text
