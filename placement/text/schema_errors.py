"""
What is wrong with a document, in words, with its place: pydantic's findings for people.

When to modify: pydantic reports a kind of error that reads badly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, get_args

from placement.errors import InputError
from placement.text.strict_yaml import Document, Path
from placement.text.suggest import did_you_mean, nearest

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

_KINDS = {
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}
_UNKNOWN, _MISSING = "extra_forbidden", "missing"
_QUOTED = re.compile(r"'([^']*)'")
"""The words in what pydantic expects: ``'ppo', 'grpo' or 'rloo'``."""


def explain(
    error: ValidationError, document: Document, schema: type[BaseModel], *, other_names: Mapping[str, str]
) -> InputError:
    """
    Return the finding that the user should mend first: a misspelt key before what is missing, then the first
    in the file.

    Parameters
    ----------
    other_names
        What people call keys elsewhere, with our name.
    """
    found = error.errors(include_url=False)
    rank = {_UNKNOWN: 0, _MISSING: 2}
    paths = {id(e): _path(document.data, e["loc"]) for e in found}
    first = min(found, key=lambda e: (rank.get(e["type"], 1), document.position(paths[id(e)])))
    path = paths[id(first)]
    said = _sentence(first, path, schema, other_names)
    if len(found) > 1:
        said += f" ({len(found) - 1} more error{'s' if len(found) > 2 else ''} in this file)"
    return document.error(said, path, key=first["type"] in (_UNKNOWN, _MISSING))


def _path(data: Any, location: tuple[str | int, ...]) -> Path:
    """Return the part of *location* that is in the document: pydantic adds alternatives and absent keys."""
    path: list[str | int] = []
    for step in location:
        known = data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
        if step in known:
            data = data[step]
            path.append(step)
    return tuple(path)


def _sentence(
    error: ErrorDetails, path: Path, schema: type[BaseModel], other_names: Mapping[str, str]
) -> str:
    kind, value = error["type"], error["input"]
    context = error.get("ctx", {})
    name = _dotted(path)
    if kind == _UNKNOWN:
        return _unknown_key(str(path[-1]), path[:-1], tuple(_keys(schema, path[:-1])), other_names)
    if kind == _MISSING:
        return f"{name or 'the file'} needs the key {error['loc'][-1]!r}"
    if kind in _KINDS:
        return f"{name or 'the file'} must be {_KINDS[kind]}, not {_shown(value)}"
    match kind:
        case "literal_error":
            hint = did_you_mean(value, _QUOTED.findall(context["expected"])) if isinstance(value, str) else ""
            return f"{name} must be {context['expected']}, not {_shown(value)}{hint}"
        case "greater_than_equal":
            return f"{name} must be at least {_bound(context['ge'])}, not {_shown(value)}"
        case "greater_than":
            return f"{name} must be more than {_bound(context['gt'])}, not {_shown(value)}"
        case "less_than_equal":
            return f"{name} must be at most {_bound(context['le'])}, not {_shown(value)}"
        case "less_than":
            return f"{name} must be less than {_bound(context['lt'])}, not {_shown(value)}"
        case "too_short" | "string_too_short":
            return f"{name} is empty"
        case "union_tag_invalid":
            return f"{name} cannot be {_shown(value)}"
    return f"{name}: {error['msg']}"


def _unknown_key(key: str, parent: Path, known: tuple[str, ...], other_names: Mapping[str, str]) -> str:
    place = f" in {_dotted(parent)}" if parent else ""
    close = other_names[key] if other_names.get(key) in known else nearest(key, known)
    if close:
        return f"unknown key {key!r}{place}; did you mean {close!r}?"
    return f"unknown key {key!r}{place}: known are {', '.join(known)}"


def _keys(schema: type[BaseModel], path: Path) -> Iterator[str]:
    """Yield the keys that a mapping at *path* may have."""
    for step in path:
        field = next((f for key, f in schema.model_fields.items() if step in (f.alias, key)), None)
        inner = next(_models(field.annotation, *field.metadata), None) if field else None
        schema = inner or schema
    for key, field in schema.model_fields.items():
        yield field.alias or key


def _models(*annotations: Any) -> Iterator[type[BaseModel]]:
    """Yield the pydantic models that an annotation mentions."""
    for annotation in annotations:
        if hasattr(annotation, "model_fields"):
            yield annotation
        yield from _models(*get_args(annotation))


def _dotted(path: Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _bound(value: float) -> float:
    return int(value) if value == int(value) else value


def _shown(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case bool():
            return "true" if value else "false"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
