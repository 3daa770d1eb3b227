"""
YAML that people read: blocks, with short lists and small mappings on one line. The same data give the same
bytes.

Text is quoted whenever some reader could take it for something else (``on``, ``1e3``, ``0x10``, ``12:30``,
dates), and decimal numbers are written so that readers of YAML 1.1 take them for numbers too (``1.0e-06``,
not ``1e-06``).

When to modify: the look of the device map.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

WIDTH = 120
SHORT_ENTRY = 32
"""Entries up to this long are set side by side, also over several lines."""

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./+()%=-]*( [A-Za-z0-9_./+()%=-]+)*")
# Words to which YAML 1.1 or 1.2 gives a meaning of their own, in any spelling.
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
# What readers refuse inside quotes unless it is escaped: control characters, line breaks beyond ASCII,
# byte order marks, surrogates.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def dump(document: object, *, wide: Sequence[str] = ()) -> str:
    """
    Return plain data as YAML text that ends with a newline.

    Parameters
    ----------
    document
        Mappings with str keys, lists or tuples, str, int, float, bool, None.
    wide
        Keys at the top under which each entry of the list stands on one line, however long.

    Raises
    ------
    TypeError
        If it holds anything else.
    ValueError
        If it holds a number that is not finite.
    """
    if wide and isinstance(document, Mapping) and any(document.get(key) for key in wide):
        return "".join(_wide(key, entry) if key in wide and entry else dump({key: entry}) for key, entry in document.items())
    if (isinstance(document, Mapping) and document) or (_is_list(document) and document):
        return "".join(f"{line}\n" for line in _block(document, 0))
    return _scalar(document) + "\n"


def _wide(key: object, entries: Sequence[Any]) -> str:
    """Return a list with each entry on one line."""
    return "".join([f"{_key(key)}:\n", *(f"  - {_flow(entry)}\n" for entry in entries)])


def _block(value: Any, indent: int) -> Iterator[str]:
    """Yield the lines of a mapping or list that is not empty, one entry after the other."""
    pad = " " * indent
    if isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _entry(f"{pad}{_key(key)}:", entry, indent)
    else:
        for entry in value:
            yield from _item(entry, indent)


def _entry(head: str, value: Any, indent: int) -> Iterator[str]:
    """Yield ``head value``, on one line if it fits."""
    if not _is_open(value):
        yield f"{head} {_scalar(value)}"
    elif _is_leafy(value) and len(line := f"{head} {_flow(value)}") <= WIDTH:
        yield line
    elif (entries := _short_entries(value)) is not None:
        yield from _wrapped(f"{head} ", entries, value, indent + 2)
    else:
        yield head
        yield from _block(value, indent + 2)


def _item(value: Any, indent: int) -> Iterator[str]:
    """Yield an entry of a list that stands in a block."""
    pad = " " * indent
    if not _is_open(value):
        yield f"{pad}- {_scalar(value)}"
    elif _is_leafy(value) and len(line := f"{pad}- {_flow(value)}") <= WIDTH:
        yield line
    else:
        lines = list(_block(value, indent + 2))
        yield f"{pad}- {lines[0].lstrip()}"
        yield from lines[1:]


def _wrapped(head: str, entries: list[str], value: Any, indent: int) -> Iterator[str]:
    """Yield many short entries side by side over several lines."""
    opening, closing = "{}" if isinstance(value, Mapping) else "[]"
    line = head + opening
    for number, entry in enumerate(entries):
        piece = entry + ("," if number + 1 < len(entries) else closing)
        if number and len(line) + 1 + len(piece) > WIDTH:
            yield line
            line = " " * indent + piece
        else:
            line += (" " if number else "") + piece
    yield line


def _flow(value: Any) -> str:
    """Return *value* on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if _is_list(value):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value)


def _is_open(value: Any) -> bool:
    """Whether *value* is a mapping or list with something in it."""
    return bool(value) and (isinstance(value, Mapping) or _is_list(value))


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_leafy(value: Any, depth: int = 2) -> bool:
    """Whether *value* is small enough in kind to stand on one line: at most *depth* levels below it."""
    children: Sequence[Any] = list(value.values()) if isinstance(value, Mapping) else value
    return all(not _is_open(child) or (depth > 0 and _is_leafy(child, depth - 1)) for child in children)


def _short_entries(value: Any) -> list[str] | None:
    """Return the entries of *value* if all are scalars that read well side by side."""
    if any(_is_open(child) for child in (value.values() if isinstance(value, Mapping) else value)):
        return None
    if isinstance(value, Mapping):
        entries = [f"{_key(k)}: {_scalar(v)}" for k, v in value.items()]
    else:
        entries = [_scalar(v) for v in value]
    return entries if max(map(len, entries)) <= SHORT_ENTRY else None


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"keys must be text, not {key!r}")
    return _text(key)


def _scalar(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case int():
            return str(value)
        case float():
            return _decimal(value)
        case Mapping() if not value:
            return "{}"
        case list() | tuple() if not value:
            return "[]"
    raise TypeError(f"YAML text is made of plain data, not {type(value).__name__}")


def _decimal(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError(f"{value} cannot be written: readers disagree about it")
    mantissa, e, exponent = repr(value).partition("e")
    return mantissa + ("" if not e or "." in mantissa else ".0") + e + exponent


@functools.lru_cache(maxsize=4096)    # the same words stand in a file of a cluster thousands of times
def _text(value: str) -> str:
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return str(value)
    return _UNPRINTABLE.sub(lambda m: f"\\u{ord(m[0]):04x}", json.dumps(value, ensure_ascii=False))
