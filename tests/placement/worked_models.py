"""Small models with round numbers, by which memory and times are worked by hand (imported by name: see pyproject)."""

from __future__ import annotations

import dataclasses

from placement.memory.gpu_memory import MIB
from placement.models.model import from_numbers
from placement.workloads.workload import Batch

# 1,600 Mi parameters: 64 Mi of embeddings (two of 32 Mi), 24 layers of 64 Mi; KV 2·2·24·4·64 = 24,576 B a
# token.
FOR_MEMORY = from_numbers(
    {
        "parameters": 1600 * MIB,
        "hidden": 1024,
        "layers": 24,
        "heads": 16,
        "kv_heads": 4,
        "head_dim": 64,
        "vocab": 32 * 1024,
        "ffn": 4096,
    }
)
# 256 sequences of 1024 tokens; 64 in an update.
BATCH_FOR_MEMORY = Batch(256, 1, 512, 512, 512, 4, 8192)

# 10^9 parameters, 10 layers of width 1000; attention over s tokens costs 2 · 10 · 10 · 100 · s = 20,000 s
# FLOP a token; KV 2 · 2 · 10 layers · 2 heads · 100 = 8000 B a token.
FOR_TIME = from_numbers(
    {
        "parameters": 10**9,
        "hidden": 1000,
        "layers": 10,
        "heads": 10,
        "kv_heads": 2,
        "vocab": 20_000,
        "ffn": 4000,
    }
)
EXPERTS_FOR_TIME = dataclasses.replace(FOR_TIME, active_parameters=10**8, experts=64, experts_per_token=8)
