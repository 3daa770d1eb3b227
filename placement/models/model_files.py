"""
Reading a model's files: bounded, and refused in one line that names the file.

When to modify: a model needs another file beside its `config.json`.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from placement.errors import InputError
from placement.models.model_limits import shown
from placement.text.text_files import read_bytes

MAX_CONFIG_BYTES = 1 << 22
"""A `config.json` has a few KB; with a thousand names of classes or quantised layers some hundred."""
MAX_INDEX_BYTES = 1 << 26
"""The largest index of weights has some 10 MB."""
MAX_DIGITS = 40

INDEX = "model.safetensors.index.json"

_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
_MOST_DISAGREEMENT = 1.5
"""Checkpoints may also hold towers for pictures, prediction heads, or an output head that the shape ties."""


class _Wrong(Exception):
    """What JSON allows and a model's file may not hold."""


def read_object(file: Path, *, most_bytes: int = MAX_CONFIG_BYTES) -> Mapping[str, Any]:
    """
    Return the JSON object in *file*.

    Raises
    ------
    InputError
        If the file cannot be read, holds no JSON object, a key twice, or a number that no model has.
    """
    raw = _bytes(file, most_bytes)
    try:
        found = json.loads(raw.decode("utf-8-sig"), object_pairs_hook=_object, parse_int=_integer)
    except json.JSONDecodeError as error:
        where = f"{file}:{error.lineno}:{error.colno}"
        raise InputError(f"no valid JSON: {error.msg}", where=where) from None
    except (UnicodeDecodeError, RecursionError):
        raise InputError("no JSON text", where=str(file)) from None
    except _Wrong as error:
        raise InputError(str(error), where=str(file)) from None
    if not isinstance(found, Mapping):
        raise InputError("a model's configuration is a JSON object", where=str(file))
    return found


def check_weights(config: Mapping[str, Any], file: Path, parameters: int) -> None:
    """
    Compare *parameters*, counted from the shapes in *file*, with the index of weights beside it, if any.

    Raises
    ------
    InputError
        If the two cannot be of one model.
    """
    index = file.parent / INDEX
    stated = config.get("torch_dtype") or config.get("dtype")
    width = _BYTES.get(stated) if isinstance(stated, str) else None
    if width is None or "quantization_config" in config or not index.is_file():
        return
    metadata = read_object(index, most_bytes=MAX_INDEX_BYTES).get("metadata")
    size = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    if not isinstance(size, int) or size <= 0:
        return
    stored = size // width
    if not 1 / _MOST_DISAGREEMENT < stored / parameters < _MOST_DISAGREEMENT:
        raise InputError(
            f"the weights beside it ({INDEX}) hold {stored:,} parameters, but its shapes give "
            f"{parameters:,}: they are of different models",
            where=str(file),
        )


def _bytes(file: Path, most: int) -> bytes:
    try:
        is_file = stat.S_ISREG(file.stat().st_mode)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise InputError(f"cannot read the model's configuration: {reason}", where=str(file)) from None
    if not is_file:  # a pipe would let us wait for ever
        raise InputError("cannot read the model's configuration: this is no file", where=str(file))
    raw = read_bytes(file, what="model's configuration", most=most)
    if len(raw) > most:
        raise InputError(f"larger than {most >> 20} MiB: this describes no model", where=str(file))
    return raw


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of *pairs*; JSON lets a key come twice, and readers differ in which they believe."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Wrong(f"the key {shown(key)} is there twice: remove one")
        found[key] = value
    return found


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise _Wrong(f"a number of {len(digits):,} digits ({digits[:10]}…): no model has more than {MAX_DIGITS}")
    return int(digits)
