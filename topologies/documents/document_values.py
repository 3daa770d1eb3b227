"""
Values taken out of a document, each with the name of the field where one has the wrong type.

When to modify: documents get a new kind of value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeVar

from topologies.errors import TopologyError
from topologies.model import Pair
from topologies.plain.parts import check_text, shown

K = TypeVar("K")

MOST_GPUS = 2**17
"""Most GPUs of a document, all hosts together; it also bounds every count."""

_INDEX = re.compile(r"[0-9]{1,6}")
_PAIR = re.compile(r"([0-9]{1,6})-([0-9]{1,6})")


class Values:
    """Takes values out of a document and names the field where one has the wrong type."""

    def __init__(self, name: str) -> None:
        self._name = name

    def error(self, message: str) -> TopologyError:
        return TopologyError(f"topology document: {message}", where=self._name)

    def required(self, value: object, kind: type, path: str) -> Any:
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            expected = {
                int: "a whole number",
                str: "a text",
                dict: "a mapping",
                list: "a list",
                bool: "true or false",
            }[kind]
            raise self.error(f"{path} must be {expected}, not {shown(value)}")
        if isinstance(value, str):
            check_text(value, path)
        return value

    def number(self, value: object, path: str, most: int = MOST_GPUS) -> int:
        found: int = self.required(value, int, path)
        if not 0 <= found <= most:
            raise self.error(f"{path} must be a number from 0 to {most}, not {shown(found)}")
        return found

    def optional(self, value: object, kind: type, path: str) -> Any:
        return None if value is None else self.required(value, kind, path)

    def mapping(self, value: object, path: str) -> dict[str, Any]:
        found: dict[Any, Any] = self.required(value, dict, path)
        for key in found:
            self.required(key, str, f"a key of {path}")
        return found

    def sequence(self, value: object, path: str) -> list[Any]:
        found: list[Any] = self.required(value, list, path)
        return found

    def texts(self, value: object, path: str) -> tuple[str, ...]:
        return tuple(self.required(entry, str, path) for entry in self.sequence(value, path))

    def codes(self, value: object, path: str) -> dict[str, str]:
        return {
            nic: self.required(code, str, f"{path}.{nic}") for nic, code in self.mapping(value, path).items()
        }

    def indexed(self, value: object, path: str) -> dict[int, Any]:
        entries = self.mapping(value, path)
        for key in entries:
            if _INDEX.fullmatch(key) is None:
                raise self.error(f"{path}: {key[:60]!r} is no GPU index")
        numbers = self.unique([(int(key), f"{path}.{key}") for key in entries])
        return dict(zip(numbers, entries.values(), strict=True))

    def unique(self, keys: Iterable[tuple[K, str]]) -> dict[K, str]:
        """Return what each key means and how it is written; two that mean the same are an error."""
        found: dict[K, str] = {}
        for meaning, written in keys:
            if found.setdefault(meaning, written) is not written:
                raise self.error(f"{found[meaning]} and {written} are the same")
        return found

    def pairs(self, value: object, path: str) -> dict[Pair, str]:
        written: list[tuple[Pair, str]] = []
        entries = self.mapping(value, path)
        for key in entries:
            match = _PAIR.fullmatch(key)
            if match is None:
                raise self.error(f"{path}: {key[:60]!r} is no pair of GPUs such as '0-1'")
            i, j = int(match[1]), int(match[2])
            if i >= j:
                raise self.error(f"{path}: {key!r} must name the smaller GPU first, as in '0-1'")
            written.append(((i, j), f"{path}.{key}"))
        where = self.unique(written)
        return {
            pair: self.required(code, str, where[pair])
            for pair, code in zip(where, entries.values(), strict=True)
        }
