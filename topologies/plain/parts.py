"""
Parts of a machine (`topologies.parts`) as plain data, and back: fields that have nothing to say are left out.

When to modify: never for a new field, which is taken from the class; only for a new *type* of field.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar, Union, get_args, get_origin

from topologies.errors import TopologyError

T = TypeVar("T")

MOST = 2**40
"""Largest number that is believed; one without bound would overflow in whatever is computed from it."""


def to_plain(value: Any) -> Any:
    """Return *value* (a part, or a tuple or mapping of parts) as what JSON and YAML can write."""
    if dataclasses.is_dataclass(value):
        found = {f.name: (getattr(value, f.name), f) for f in dataclasses.fields(value)}
        return {name: to_plain(stated) for name, (stated, f) in found.items() if not _is_default(stated, f)}
    if isinstance(value, tuple):
        return [to_plain(entry) for entry in value]
    if isinstance(value, Mapping):
        return {key: to_plain(entry) for key, entry in value.items()}
    return str(value) if isinstance(value, StrEnum) else value


def _is_default(value: object, field: dataclasses.Field[Any]) -> bool:
    if field.default_factory is not dataclasses.MISSING:
        return bool(value == field.default_factory())
    return bool(field.default is not dataclasses.MISSING and value == field.default)


def from_plain(part: type[T], value: object, path: str) -> T:
    """
    Return the *part* that *value* describes: the inverse of `to_plain`.

    Parameters
    ----------
    path
        What messages call *value*.

    Raises
    ------
    TopologyError
        If a field is missing, unknown, or of the wrong type.
    """
    found: T = _read(part, value, path)
    return found


def _read(kind: Any, value: object, path: str) -> Any:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return (
            None
            if value is None
            else _read(next(k for k in get_args(kind) if k is not type(None)), value, path)
        )
    if origin is tuple:
        return tuple(
            _read(get_args(kind)[0], entry, f"{path}[{k}]")
            for k, entry in enumerate(_typed(list, value, path))
        )
    if origin is not None:  # a mapping
        entry_kind = get_args(kind)[1]
        entries = _typed(dict, value, path)
        return {
            _typed(str, key, f"a key of {path}"): _read(entry_kind, v, f"{path}.{key}")
            for key, v in entries.items()
        }
    if dataclasses.is_dataclass(kind):
        return _part(kind, value, path)
    if issubclass(kind, StrEnum):
        if value not in [*kind]:
            raise TopologyError(f"{path} must be one of {', '.join(kind)}, not {shown(value)}")
        return kind(value)
    return _typed(kind, value, path)


def _part(kind: Any, value: object, path: str) -> Any:
    entries = _typed(dict, value, path)
    hints = _hints(kind)
    for name in entries:
        if name not in hints:
            raise TopologyError(f"{path} has {shown(name)}, which is none of {', '.join(hints)}")
    for field in dataclasses.fields(kind):
        optional = (
            field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        )
        if not optional and field.name not in entries:
            raise TopologyError(f"{path} has no {field.name}")
    values = {name: _read(hints[name], entry, f"{path}.{name}") for name, entry in entries.items()}
    try:
        return kind(**values)
    except TopologyError as error:
        raise TopologyError(f"{path}: {error}") from None


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


_EXPECTED = {
    int: "a whole number", float: "a number", str: "a text", dict: "a mapping", list: "a list", bool: "true or false",
}  # fmt: skip


def _typed(kind: type, value: object, path: str) -> Any:
    """Return *value* if it is of *kind* and within bounds."""
    fits = isinstance(value, (int, float) if kind is float else kind)
    if not fits or (isinstance(value, bool) and kind is not bool):
        raise TopologyError(f"{path} must be {_EXPECTED[kind]}, not {shown(value)}")
    if isinstance(value, str):
        check_text(value, path)
    if isinstance(value, int | float) and not isinstance(value, bool) and not 0 <= value <= MOST:
        raise TopologyError(f"{path} must be a number from 0 to {MOST}, not {shown(value)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise TopologyError(f"{path} must be a number, not {shown(value)}")
    return value


def check_text(text: str, path: str) -> None:
    """
    Refuse a text that cannot be written.

    Raises
    ------
    TopologyError
        If it has half of a character.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise TopologyError(
            f"{path} is no text that can be written: {text[:60]!r} has half a character"
        ) from None


def shown(value: object) -> str:
    """Return *value* as a message shows it, whatever it is."""
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number of many digits"
    return repr(str(value)[:60])


def check_plain(value: object, path: str, depth: int = 8) -> Any:
    """
    Return *value* if it is made of texts, numbers, lists and mappings with texts as keys, nested at most *depth* deep.

    Raises
    ------
    TopologyError
        If it is anything else.
    """
    if depth == 0:
        raise TopologyError(f"{path} is nested too deeply")
    if isinstance(value, dict):
        return {
            _typed(str, key, f"a key of {path}"): check_plain(entry, f"{path}.{key}"[:200], depth - 1)
            for key, entry in value.items()
        }
    if isinstance(value, list):
        return [check_plain(entry, f"{path}[{k}]"[:200], depth - 1) for k, entry in enumerate(value)]
    if value is None or isinstance(value, bool):
        return value
    return _typed(type(value) if isinstance(value, int | float | str) else str, value, path)
