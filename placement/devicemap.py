"""
The device map: `Plan` ⇄ the YAML of schema ``placement/device-map/v1``.

Fields of the document are the fields of `placement.plans`, in their order; absent parts are left out. The same plan gives the
same bytes: no clock, no path, no random tie.

When to modify: the schema changes (then its version does).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, get_args, get_type_hints

from placement import plans
from placement.errors import InputError
from placement.plans import Plan

SCHEMA = "placement/device-map/v1"


def to_document(plan: Plan) -> dict[str, Any]:
    """Return *plan* as plain data, ready for YAML or JSON."""
    return {"schema": SCHEMA, **_plain(plan)}


def dump(plan: Plan) -> str:
    """Return *plan* as YAML text; ``load(dump(plan)) == plan``."""
    from placement.strict_yaml import dump as dump_yaml

    return dump_yaml(to_document(plan))


def load(text: str, *, name: str = "<map>") -> Plan:
    """
    Read a device map that `dump` wrote.

    Raises
    ------
    InputError
        If the text is no device map of this schema.
    """
    from placement.strict_yaml import load as load_yaml

    document = load_yaml(text, name=name).data
    if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
        raise InputError(f"not a device map: it must start with `schema: {SCHEMA}`", where=name)
    fields = {key: value for key, value in document.items() if key != "schema"}
    try:
        plan: Plan = _typed(Plan, fields)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the device map is damaged: {error}", where=name) from error
    return plan


def _plain(value: object) -> Any:
    """Return dataclasses as mappings, tuples as lists; parts that are None are left out."""
    if dataclasses.is_dataclass(value):
        items = ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
        return {name: _plain(v) for name, v in items if v is not None}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value


def _typed(kind: Any, data: Any) -> Any:
    """Build a value of type *kind* from plain data; the inverse of `_plain`."""
    if dataclasses.is_dataclass(kind):
        if not isinstance(data, Mapping):
            raise TypeError(f"{getattr(kind, '__name__', kind)} must be a mapping, not {data!r}")
        hints = get_type_hints(kind, vars(plans))
        fields = [f.name for f in dataclasses.fields(kind)]
        for key in data:
            if key not in fields:
                raise TypeError(f"unknown key {key!r}")
        absent = {name: None for name in fields if name not in data and type(None) in get_args(hints[name])}
        return kind(**absent, **{key: _typed(hints[key], value) for key, value in data.items()})  # type: ignore[operator]
    origin, arguments = getattr(kind, "__origin__", None), get_args(kind)
    if origin is tuple:
        if not isinstance(data, list):
            raise TypeError(f"expected a list, not {data!r}")
        return tuple(_typed(arguments[0], v) for v in data)
    if origin is Mapping:
        if not isinstance(data, Mapping):
            raise TypeError(f"expected a mapping, not {data!r}")
        return {k: _typed(arguments[1], v) for k, v in data.items()}
    if type(None) in arguments:
        return _typed(next(a for a in arguments if a is not type(None)), data)
    if kind is Any:
        return data
    if kind is float and isinstance(data, int):
        return float(data)
    if not isinstance(data, kind) or (kind is int and isinstance(data, bool)):
        raise TypeError(f"expected {kind.__name__}, not {data!r}")
    return data
