"""
Reading a folder of measurements: bounded and strict.

A file that is damaged as a whole is refused in one line that names it. A row that states what cannot be is `Unpredictable`: it is listed
with the reason and counted, as tables of publications have gaps, and the other rows are still worth their comparison.

A folder is laid out like the shipped ``placement/data/validation``: same file names and fields. Files may be missing, and rows
may have further fields, which are left alone.

When to modify: a new file, or a new type of field.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from placement.errors import InputError
from placement.validation.rows import Row, Unpredictable

SHIPPED = Path(__file__).parent.parent / "data" / "validation"
"""The measurements that come with the package."""

MAX_BYTES = 1 << 23
MAX_ROWS = 20_000
MAX_MATRICES = 1000
MOST = 1e18
"""No measured value in any of the units is larger."""

MOST_COUNT = 1 << 50
LONGEST_TEXT = 2000
LONGEST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Record:
    """
    One row of a file.

    Parameters
    ----------
    fields
        By name, as the file has them.
    where
        The file and the row in it, for messages.
    is_text
        Whether numbers are written as text, as in a table of comma-separated values; empty is then absent.
    broken
        Why there are no fields; empty when there are.
    """

    fields: Mapping[str, object]
    where: str
    is_text: bool = False
    broken: str = ""

    def fail(self, key: str, wanted: str) -> Unpredictable:
        """Return the reason that says what *key* has to be."""
        if self.broken:
            return Unpredictable(self.broken)
        if self.fields.get(key) in (None, ""):
            return Unpredictable(f"{key} is {wanted}, and the row states none")
        shown = repr(self.fields[key])
        return Unpredictable(f"{key} is {wanted}, not {shown if len(shown) <= 60 else shown[:57] + '…'}")

    def or_unfit(self, unit: str, make: Callable[[Record], Row]) -> Row:
        """Return the row that *make* makes of this record; one without values that says why, when it states what cannot be."""
        try:
            return make(self)
        except Unpredictable as why:
            return self.unfit(unit, why)

    def unfit(self, unit: str, why: Unpredictable) -> Row:
        """Return a row without values that says *why*, by its place in the file."""
        place = self.where.rpartition("/")[2]
        model = self.fields.get("model")
        shown = f"{place}, {model[:LONGEST_SHOWN]}" if isinstance(model, str) and model else place
        return Row(shown, unit, None, why=str(why))

    def has(self, key: str) -> bool:
        """Whether the row states *key*."""
        if self.broken:
            raise Unpredictable(self.broken)
        value = self.fields.get(key)
        return value is not None and not (self.is_text and value == "")

    def text(self, key: str) -> str:
        """Return a text; empty when the row has none."""
        if not self.has(key):
            return ""
        value = self.fields[key]
        if not isinstance(value, str) or len(value) > LONGEST_TEXT:
            raise self.fail(key, f"a text of at most {LONGEST_TEXT} characters")
        return value

    def number(self, key: str, *, least: float = 0.0, most: float = MOST) -> float | None:
        """Return a number from *least* to *most*; None when the row has none."""
        if not self.has(key):
            return None
        value = self.fields[key]
        if self.is_text:
            value = _parsed(str(value))
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise self.fail(key, f"a number from {least:g} to {most:g}")
        return float(value)

    def measured(self, key: str) -> float | None:
        """Return a measured value, which is above zero; None when the row has none."""
        value = self.number(key)
        if value == 0:
            raise self.fail(key, "a measured value above zero")
        return value

    def count(self, key: str, *, most: int = MOST_COUNT) -> int | None:
        """Return a whole number above zero; None when the row has none."""
        value = self.number(key)
        if value is None:
            return None
        if value != int(value) or not 1 <= value <= most:
            raise self.fail(key, f"a whole number from 1 to {most}")
        return int(value)

    def needed(self, key: str, *, most: int = MOST_COUNT) -> int:
        """Return a whole number above zero without which the row cannot be predicted."""
        value = self.count(key, most=most)
        if value is None:
            raise Unpredictable(f"the row does not state {key}")
        return value

    def words(self, *keys: str) -> str:
        """Return the texts of *keys* in one, lower case."""
        return " ".join(self.text(key) for key in keys).lower()


def _parsed(text: str) -> float | None:
    """Return the number that *text* is; None when it is none, or no finite one."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of measurements."""

    path: Path

    @classmethod
    def at(cls, path: Path | None) -> Folder:
        """
        Return the folder at *path*, or the shipped one.

        Raises
        ------
        InputError
            If *path* is no folder.
        """
        path = SHIPPED if path is None else path
        try:
            if path.is_dir():
                return cls(path)
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read: {error}") from None
        raise InputError(f"there is no folder {path}: name one with files such as memory.json or p2p/002.json")

    def document(self, name: str) -> object | None:
        """Return the JSON document *name*; None when the folder has none."""
        text = self._text(name)
        if text is None:
            return None
        where = str(self.path / name)
        try:
            return json.loads(text, parse_constant=_refuse, parse_int=_integer, parse_float=_decimal)  # type: ignore[no-any-return]
        except json.JSONDecodeError as error:
            raise InputError(f"no valid JSON: {error.msg}", where=f"{where}:{error.lineno}:{error.colno}") from None
        except (ValueError, RecursionError) as error:
            said = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise InputError(f"no JSON of measurements: {said}", where=where) from None

    def parts(self, name: str) -> Mapping[str, object]:
        """Return the JSON object *name*; empty when the folder has none."""
        found = self.document(name)
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise InputError("this file holds a JSON object", where=str(self.path / name))
        return found

    def records(self, found: object, where: str) -> tuple[Record, ...]:
        """
        Return the JSON list *found* as rows.

        Parameters
        ----------
        where
            The file, and the key of the list in it if it has one.
        """
        place = str(self.path / where)
        if found is None:
            return ()
        if not isinstance(found, list) or len(found) > MAX_ROWS:
            raise InputError(f"a list of at most {MAX_ROWS} rows is wanted here", where=place)
        return tuple(
            Record(row, f"{place} row {index + 1}")
            if isinstance(row, dict)
            else Record({}, f"{place} row {index + 1}", broken=f"a row is a JSON object, not {type(row).__name__}")
            for index, row in enumerate(found)
        )

    def table(self, name: str) -> tuple[Record, ...]:
        """Return the rows of the comma-separated values *name*; none when the folder has no such file."""
        text = self._text(name)
        if text is None:
            return ()
        place = str(self.path / name)
        rows: list[Record] = []
        try:
            for row in csv.DictReader(io.StringIO(text), strict=True):
                if len(rows) == MAX_ROWS:
                    raise InputError(f"more than {MAX_ROWS} rows", where=place)
                where = f"{place} row {len(rows) + 1}"
                if None in row or None in row.values():
                    rows.append(Record({}, where, is_text=True, broken="this row has not as many cells as the first line names"))
                else:
                    rows.append(Record(row, where, is_text=True))
        except csv.Error as error:
            raise InputError(f"no comma-separated values: {error}", where=place) from None
        return tuple(rows)

    def matrices(self) -> tuple[Record, ...]:
        """Return the documents in ``p2p``, by name."""
        folder = self.path / "p2p"
        try:
            names = sorted(file.name for file in folder.iterdir() if file.suffix == ".json") if folder.is_dir() else []
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", where=str(folder)) from None
        if len(names) > MAX_MATRICES:
            raise InputError(f"more than {MAX_MATRICES} matrices", where=str(folder))
        return tuple(Record(self.parts(f"p2p/{name}"), str(folder / name)) for name in names)

    def _text(self, name: str) -> str | None:
        file = self.path / name
        try:
            if not file.exists():
                return None
            if not file.is_file():
                raise InputError("this is no file", where=str(file))
            with file.open("rb") as stream:
                raw = stream.read(MAX_BYTES + 1)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", where=str(file)) from None
        if len(raw) > MAX_BYTES:
            raise InputError(f"larger than {MAX_BYTES >> 20} MiB", where=str(file))
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise InputError("this is no text (UTF-8)", where=str(file)) from None


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is no measurement")


def _integer(digits: str) -> int:
    if len(digits) > 40:
        raise ValueError("a number has more than 40 digits")
    return int(digits)


def _decimal(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:40]} is no finite number")
    return value
