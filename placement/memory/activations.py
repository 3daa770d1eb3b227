"""
Activations of training and of forward passes on each GPU, bytes. Formulas and symbols: docs/model.md, docs/model-variants.md.

When to modify: an engine keeps, computes again or cuts its activations in another way.
"""

from __future__ import annotations

from typing import assert_never

from placement.choices.choices import FrozenChoice, TrainChoice
from placement.constants.table import Constants
from placement.models.model import Model
from placement.workloads.workload import Engine, Recompute


def working_set(model: Model, tokens: int, choice: TrainChoice | FrozenChoice, c: Constants) -> float:
    """Return the bytes of one layer's intermediate values; TP ranks, and ranks that share sequences, have a part each."""
    width = c.fsdp_activation_bytes_per_hidden_moe if model.experts else c.fsdp_activation_bytes_per_hidden
    return tokens * width * model.hidden / (choice.tp * choice.sp)


def kept_for_backward(
    engine: Engine,
    model: Model,
    choice: TrainChoice,
    tokens: int,
    micro_batches: int,
    c: Constants,
    recompute: Recompute,
) -> float:
    """Return the bytes of activations that the backward pass needs."""
    if engine is Engine.MEGATRON:
        # Sequence parallelism (Korthikanti et al. 2022, table 2). Selective recomputation leaves out the core of attention, of which
        # FlashAttention keeps nothing in any case; full recomputation keeps the input of every layer, and the rest of the one that is
        # worked on. The first pipeline stage holds a micro-batch for every stage behind it.
        in_flight = min(choice.pp, micro_batches)
        layers = model.layers / choice.pp * in_flight / choice.tp
        whole = tokens * kept_bytes_per_layer(model, Recompute.NONE)
        inputs = tokens * kept_bytes_per_layer(model, Recompute.FULL)
        return inputs * layers + (whole - inputs) / choice.tp if recompute is Recompute.FULL else whole * layers
    # A checkpoint or more per layer, and what a layer needs beside them while it is worked on.
    parts = choice.tp * choice.sp
    kept = tokens * kept_bytes_per_layer(model, recompute) / parts
    checkpoint = 2 * tokens * model.hidden / parts
    others = max(working_set(model, tokens, choice, c) - (kept - checkpoint), 0.0)
    # Plans have no pipeline here; published runs do, of which the first stage holds a micro-batch for every stage behind it.
    return kept * model.layers / choice.pp * min(choice.pp, micro_batches) + others


def kept_bytes_per_layer(model: Model, recompute: Recompute) -> float:
    """
    Return what FSDP keeps of a layer for the backward pass, bytes per token.

    ``full``: its input. ``selective``: also the attention's output and every other matrix product, that is query, value, gate and the
    FFN's output. ``none``: all intermediate values but those of attention (Korthikanti et al. 2022, table 2).
    """
    query, value = model.heads * model.head_dim, model.kv_heads * model.head_dim
    match recompute:
        case Recompute.FULL:
            return 2 * model.hidden
        case Recompute.SELECTIVE:
            return 2 * (2 * model.hidden + 2 * query + value + model.ffn)
        case Recompute.NONE:
            return 18 * model.hidden + 4 * model.ffn
    assert_never(recompute)
