"""
Constants of a user's own: a YAML mapping from name to value, or to value and source.

::

    matmul_efficiency: 0.70
    train_mfu_dense: {value: 0.35, source: profile of our own H100}

The same form stands in a device map under ``inputs: constants:``, and a map can be given in place of a file: what was put in
place of the shipped values when it was planned is then taken again (`placement.maps.replay.constants_of`, which wants a whole map).

When to modify: a constant can be given in another form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from placement.constants.table import Override, allowed, constants, sources
from placement.errors import InputError
from placement.text.strict_yaml import Document, dump, load
from placement.text.suggest import did_you_mean

_KEYS = ("value", "source")
_MAP = "placement/device-map/v1"


def read(text: str, *, name: str = "<constants>") -> tuple[Override, ...]:
    """
    Read constants.

    Parameters
    ----------
    name
        What the text is called in messages: its file, mostly.

    Returns
    -------
    Those that differ from the shipped ones, in the order of the data file.

    Raises
    ------
    InputError
        If the text is no file of constants; the message has line, column and excerpt, and says what to do.
    """
    document = load(text, name=name)
    place: tuple[str, ...] = ()
    data = document.data
    if is_map(document):
        place = ("inputs", "constants")
        inputs = data.get("inputs")
        if not isinstance(inputs, Mapping) or not inputs:
            raise document.error(
                "the map does not record what it was planned from (inputs), so not with which constants either: "
                "write it anew with `placement plan -o FILE`",
                ("inputs",) if "inputs" in data else (),
            )
        data = inputs.get("constants", {})
    elif isinstance(data, Mapping) and "schema" in data:
        raise document.error("this is a document of another kind: constants have no `schema`", ("schema",), key=True)
    if not isinstance(data, Mapping):
        raise document.error(
            "constants are a mapping from name to value, such as `matmul_efficiency: 0.70`; `placement catalog constants` lists them",
            place,
        )
    given = {key: _override(document, place, key, value) for key, value in data.items()}
    return normal(given.values())


def is_map(document: Document) -> bool:
    """Whether *document* is a device map."""
    return isinstance(document.data, Mapping) and document.data.get("schema") == _MAP


def normal(overrides: Iterable[Override]) -> tuple[Override, ...]:
    """
    Return *overrides* in the order of the data file, the last of each name, without those that change nothing.

    Raises
    ------
    InputError
        If there is no such constant, or it may not be so.
    """
    last = {each.name: each for each in overrides}
    for each in last.values():
        if each.name not in sources():
            raise InputError(f"there is no constant {each.name!r}{did_you_mean(each.name, sources())}")
        if not allowed(each.name).has(each.value):
            raise InputError(f"{each.name} cannot be {each.value!r}: it takes {allowed(each.name).text}")
    shipped = constants()
    return tuple(last[name] for name in sources() if name in last and last[name].value != getattr(shipped, name))


def recorded(document: Mapping[str, Any]) -> tuple[Override, ...]:
    """
    Return the constants that a device map recorded under ``inputs: constants:``; the inverse of `to_document`.

    Raises
    ------
    InputError
        If the record is damaged.
    """
    return read(dump(dict(document)), name="<constants of the map>")


def to_document(overrides: Iterable[Override]) -> dict[str, Any]:
    """Return *overrides* as plain data that `read` takes."""
    return {
        each.name: each.value if each.source is None else {"value": each.value, "source": each.source} for each in overrides
    }


def _override(document: Document, place: tuple[str, ...], name: str, given: Any) -> Override:
    here = (*place, name)
    known = sources()
    if name not in known:
        hint = did_you_mean(name, known)
        raise document.error(
            f"there is no constant {name!r}{hint}: `placement catalog constants` lists them", here, key=True
        )
    source = None
    value, at = given, here
    if isinstance(given, Mapping):
        for key in given:
            if key not in _KEYS:
                raise document.error(
                    f"{name} takes `value` and `source`, not {key!r}{did_you_mean(key, _KEYS)}", (*here, key), key=True
                )
        if "value" not in given:
            raise document.error(f"{name} has no `value`", here)
        value, at, source = given["value"], (*here, "value"), given.get("source")
        if source is not None and not (isinstance(source, str) and source.strip()):
            raise document.error(f"the source of {name} is a text, not {source!r}", (*here, "source"))
    may = allowed(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not may.has(value) or (may.whole and value != int(value)):
        raise document.error(f"{name} cannot be {_shown(value)}: it takes {may.text}", at)
    return Override(name, int(value) if may.whole else float(value), " ".join(source.split()) if source else None)


def _shown(value: Any) -> str:
    if isinstance(value, Mapping | list):
        return "a mapping" if isinstance(value, Mapping) else "a list"
    return "empty" if value is None else repr(value)
