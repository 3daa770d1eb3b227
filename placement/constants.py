"""
Every number of the cost model that is not physics; ``data/constants.json`` has its unit, its source and how
it was obtained.

When to modify: the cost model needs one more number. A better measurement changes the data file alone.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Constants:
    """The values by name; units are in the names and, with sources, in the data file (see `sources`)."""

    train_overhead_mib: int
    frozen_overhead_mib: int
    engine_residual_mib: int
    fsdp_activation_bytes_per_hidden: float
    fsdp_activation_bytes_per_hidden_moe: float
    logit_bytes_per_token_and_vocab: float
    engine_sampler_bytes_per_sequence_and_vocab: float
    engine_batched_tokens: int
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
    mfu_flops_per_byte: float
    attention_weight: float
    decode_overhead_us: float
    decode_overhead_us_per_layer: float
    ring_efficiency: float
    own_bytes_per_s: float
    switch_efficiency: float
    nvlink_alpha_us: float
    nvlink_alpha_us_per_gpu: float
    nvlink_alpha_bytes_per_s: float
    pcie_alpha_us: float
    pcie_alpha_us_per_gpu: float
    decode_alpha_us: float
    hybrid_sync_overhead_us: int
    separate_sync_overhead_us: int
    sync_tensor_us: float
    stage_overhead_us: int


@dataclass(frozen=True, slots=True)
class Source:
    """
    Where a constant comes from.

    Parameters
    ----------
    unit
        Its unit in words.
    obtained
        ``published``, ``derived`` (computed from published values, as *source* says) or ``measured``.
    source
        Who says so.
    """

    unit: str
    obtained: str
    source: str


@functools.cache
def constants() -> Constants:
    """Return the shipped constants."""
    return Constants(**{name: record["value"] for name, record in _records().items()})


def sources() -> dict[str, Source]:
    """Return unit and source of every constant, in the order of the data file."""
    return {
        name: Source(record["unit"], record["obtained"], record["source"])
        for name, record in _records().items()
    }


@functools.cache
def _records() -> dict[str, dict[str, Any]]:
    text = (Path(__file__).parent / "data" / "constants.json").read_text(encoding="utf-8")
    records: dict[str, dict[str, Any]] = json.loads(text)
    return records
