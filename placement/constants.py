"""
Every number of the cost model that is not physics, with its unit, source and how it was obtained (``data/constants.json``).

When to modify: a better measurement. Then the data file changes, not this module.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True, slots=True)
class Constants:
    """The values by name; units are in the names and, with sources, in the data file (see `sources`)."""

    train_overhead_mib: int
    frozen_overhead_mib: int
    engine_residual_mib: int
    fsdp_activation_bytes_per_hidden: float
    fsdp_activation_bytes_per_hidden_moe: float
    logit_bytes_per_token_and_vocab: float
    engine_activation_mib_dense: int
    engine_activation_mib_moe: int
    engine_nccl_mib_tp1: int
    engine_nccl_mib_tp2: int
    engine_nccl_mib_tp4: int
    sync_bucket_mib: int
    matmul_efficiency: float
    memory_efficiency: float
    kv_read_efficiency: float
    train_mfu_dense: float
    train_mfu_moe: float
    forward_mfu_dense: float
    forward_mfu_moe: float
    decode_overhead_us: float
    decode_overhead_us_per_layer: float
    ring_efficiency: float
    nvlink_alpha_us: float
    nvlink_alpha_us_per_gpu: float
    pcie_alpha_us: float
    pcie_alpha_us_per_gpu: float
    decode_alpha_us: float
    hybrid_sync_overhead_us: int
    separate_sync_overhead_us: int
    stage_overhead_us: int


@dataclass(frozen=True, slots=True)
class Source:
    """Where a constant comes from."""

    unit: str
    obtained: str
    source: str


@functools.cache
def constants() -> Constants:
    """Return the shipped constants."""
    return Constants(**{f.name: _data()[f.name]["value"] for f in dataclasses.fields(Constants)})


def sources() -> dict[str, Source]:
    """Return unit and source of every constant."""
    return {name: Source(e["unit"], e["obtained"], e["source"]) for name, e in _data().items()}


@functools.cache
def _data() -> dict[str, dict[str, object]]:
    text = resources.files("placement").joinpath("data/constants.json").read_text(encoding="utf-8")
    data: dict[str, dict[str, object]] = json.loads(text)
    return data
