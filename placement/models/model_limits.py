"""
How large the numbers of a model may be, wherever they come from: a `config.json`, a workload, a caller.

Ten times what is published, and more: whatever lies beyond is a slip or an attack. Within them no product of
the cost model overflows, and no list of layers or heads takes long.

When to modify: a real model is larger, or `placement.models.model.Model` has another number.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping

WIDTH = 1 << 24
HEADS = 1 << 16
LAYERS = 10_000
EXPERTS = 100_000
PARAMETERS = 1 << 50
POSITIONS = 1 << 40
KV_BYTES = 1 << 40

MOST: Mapping[str, int] = {
    "hidden": WIDTH,
    "layers": LAYERS,
    "heads": HEADS,
    "kv_heads": HEADS,
    "head_dim": WIDTH,
    "ffn": WIDTH,
    "vocab": WIDTH,
    "parameters": PARAMETERS,
    "active_parameters": PARAMETERS,
    "embedding_parameters": PARAMETERS,
    "kv_bytes_per_token": KV_BYTES,
    "kv_shards": HEADS,
    "experts": EXPERTS,
    "experts_per_token": EXPERTS,
    "max_position": POSITIONS,
}
"""The largest value of each number of a `Model`."""

OPTIONAL = ("experts", "experts_per_token")
"""Numbers that are 0 where a model has no such thing; all others are at least 1."""


def allowed(least: int, most: int) -> str:
    """Return in words which whole numbers are allowed."""
    return f"a whole number from {least} to {most:,}"


def is_count(value: object, least: int, most: int) -> bool:
    """Whether *value* is a whole number within the bounds; ``true`` and ``8.0`` are none."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def shown(value: object) -> str:
    """Return *value* as a message shows it: in a few words, however long or deep it is."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    try:
        return reprlib.repr(value)
    except ValueError:  # Python writes no number of more than some thousand digits
        return "a number of too many digits"
