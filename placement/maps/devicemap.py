"""
The device map: `Plan` ⇄ the YAML of schema ``placement/device-map/v1``.

Fields of the document are the fields of `placement.plans`, in their order; absent parts are left out. The same plan gives the
same bytes: no clock, no path, no random tie.

When to modify: the schema changes (then its version does).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from placement import plans
from placement.errors import InputError
from placement.plans import Plan, RolePlan
from placement.text.suggest import did_you_mean

if TYPE_CHECKING:
    from placement.text.strict_yaml import Document

Path = tuple[str | int, ...]
"""Keys and list positions from the top of a map to a value."""

SCHEMA = "placement/device-map/v1"

BESIDE = frozenset({"schema", "smallest"})
"""Keys that are no field of the plan: ``plan --smallest --json`` says beside it what else was tried."""


def to_document(plan: Plan) -> dict[str, Any]:
    """Return *plan* as plain data, ready for YAML or JSON."""
    return {"schema": SCHEMA, **_plain(plan)}


def dump(plan: Plan) -> str:
    """Return *plan* as YAML text; ``load(dump(plan)) == plan``."""
    from placement.text.strict_yaml import dump as dump_yaml

    return dump_yaml(to_document(plan))


def load(text: str, *, name: str = "<map>") -> Plan:
    """
    Read a device map that `dump` wrote.

    Raises
    ------
    InputError
        If the text is no device map of this schema.
    """
    from placement.text.strict_yaml import load as load_yaml

    document = load_yaml(text, name=name)
    data = document.data
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        raise InputError(f"not a device map: it must start with `schema: {SCHEMA}`", where=name)
    fields = {key: value for key, value in data.items() if key not in BESIDE}
    try:
        plan: Plan = _typed(Plan, fields, ())
    except _Damaged as error:
        raise document.error(f"the device map is damaged: {error}", error.path, key=error.at_key) from None
    return plan


def read_roles(document: Document) -> Mapping[str, RolePlan]:
    """
    Return how roles run, as the key ``roles`` of a device map says.

    Raises
    ------
    InputError
        If the key is missing, or what it says is none; the message has line and column.
    """
    roles = document.data.get("roles")
    if not isinstance(roles, Mapping):
        raise document.error("the map does not say how roles run (roles): write it anew with `placement plan -o FILE`")
    try:
        return {str(name): _typed(RolePlan, role, ("roles", name)) for name, role in roles.items()}
    except _Damaged as error:
        raise document.error(f"the device map is damaged: {error}", error.path, key=error.at_key) from None


class _Damaged(ValueError):
    """A value of the map is not what the schema says."""

    def __init__(self, message: str, path: Path, *, at_key: bool = False) -> None:
        super().__init__(message)
        self.path = path
        self.at_key = at_key


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


def _typed(kind: Any, data: Any, path: Path) -> Any:
    """Build a value of type *kind* from the plain data at *path*; the inverse of `_plain`."""
    if dataclasses.is_dataclass(kind):
        return _built(kind, data, path)
    origin, arguments = getattr(kind, "__origin__", None), get_args(kind)
    if origin is tuple:
        if not isinstance(data, list):
            raise _Damaged(f"expected a list, not {data!r}", path)
        return tuple(_typed(arguments[0], v, (*path, k)) for k, v in enumerate(data))
    if origin is Mapping:
        if not isinstance(data, Mapping):
            raise _Damaged(f"expected a mapping, not {data!r}", path)
        return {k: _typed(arguments[1], v, (*path, k)) for k, v in data.items()}
    if type(None) in arguments:
        return _typed(next(a for a in arguments if a is not type(None)), data, path)
    if kind is Any:
        return data
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if not isinstance(data, kind) or (kind is int and isinstance(data, bool)):
        raise _Damaged(f"expected {_KINDS[kind]}, not {data!r}", path)
    return data


_KINDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def _built(kind: Any, data: Any, path: Path) -> Any:
    """Build the dataclass *kind* from the mapping at *path*."""
    name = ".".join(map(str, path)) or "the map"
    if not isinstance(data, Mapping):
        raise _Damaged(f"{name} must be a mapping, not {data!r}", path)
    hints = get_type_hints(kind, vars(plans))
    fields = {f.name: f for f in dataclasses.fields(kind)}
    for key in data:
        if key not in fields:
            raise _Damaged(f"unknown key {key!r}{did_you_mean(key, fields)}", (*path, key), at_key=True)
    given = {key: _typed(hints[key], value, (*path, key)) for key, value in data.items()}
    absent = {f: None for f in fields if f not in data and type(None) in get_args(hints[f])}
    missing = [f for f, field in fields.items() if f not in data and f not in absent and _is_needed(field)]
    if missing:
        raise _Damaged(f"{name} lacks {', '.join(missing)}", path)
    return kind(**absent, **given)


def _is_needed(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
