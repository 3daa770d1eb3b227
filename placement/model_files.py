"""
Reading a model's files: bounded, and refused in one line that names the file.

When to modify: a model needs another file beside its `config.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from placement.errors import InputError

MAX_BYTES = 1 << 26
"""The largest index of weights has some 10 MB, a `config.json` a few KB."""

INDEX = "model.safetensors.index.json"

_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
_MOST_DISAGREEMENT = 1.5
"""Checkpoints may also hold towers for pictures, prediction heads, or an output head that the shape ties."""


def read_object(file: Path) -> Mapping[str, Any]:
    """
    Return the JSON object in *file*.

    Raises
    ------
    InputError
        If the file cannot be read or holds no JSON object.
    """
    try:
        with file.open("rb") as opened:
            raw = opened.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise InputError(f"cannot read the model's configuration: {reason}", where=str(file)) from None
    if len(raw) > MAX_BYTES:
        raise InputError(f"larger than {MAX_BYTES >> 20} MiB: this describes no model", where=str(file))
    try:
        found = json.loads(raw.decode("utf-8"))
    except json.JSONDecodeError as error:
        where = f"{file}:{error.lineno}:{error.colno}"
        raise InputError(f"no valid JSON: {error.msg}", where=where) from None
    except (UnicodeDecodeError, RecursionError):
        raise InputError("no JSON text", where=str(file)) from None
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
    width = _BYTES.get(str(config.get("torch_dtype") or config.get("dtype")))
    if width is None or "quantization_config" in config or not index.is_file():
        return
    metadata = read_object(index).get("metadata")
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
