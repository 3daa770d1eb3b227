"""
Memory of one GPU for training and for forward passes, MiB. Formulas and symbols: docs/model.md.

Generation engines have a file of their own (`placement.engine_memory`). GPUs that roles share
hold the sum of what stays plus what is active (`solvers.problem`).

When to modify: an engine keeps something else in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from placement.batches import cut
from placement.choices import FrozenChoice, TrainChoice
from placement.constants import Constants
from placement.dataflow import Work
from placement.models import Model
from placement.workload import Batch, Engine, Master, Offload, Recompute, Role, RoleName, TrainMenu

MIB = 2**20

BYTES_PER_PARAMETER = {
    # (weights, gradients, optimizer); Adam keeps two moments.
    # FSDP: all of it in the master's precision: 16 bytes in fp32 (verl's default), 8 in bf16.
    (Engine.FSDP, Master.FP32): (4, 4, 8),
    (Engine.FSDP, Master.BF16): (2, 2, 4),
    # Megatron: bf16 weights, fp32 gradients, the optimizer has fp32 weights and moments: 18 (Megatron-LM at
    # d98e8a64). Its precision-aware optimizer keeps gradients, master and moments in 16 bits.
    (Engine.MEGATRON, Master.FP32): (2, 4, 12),
    (Engine.MEGATRON, Master.BF16): (2, 2, 6),
}


@dataclass(frozen=True, slots=True)
class Footprint:
    """MiB on each GPU of the group: while idle, and while working (the idle share included)."""

    resident_mib: float
    active_mib: Mapping[Work, float]


@dataclass(frozen=True, slots=True)
class State:
    """
    Bytes of a trained role's state on each GPU.

    Parameters
    ----------
    weights
        All weights, frozen ones (LoRA) included.
    trained
        Those that the optimizer changes.
    gradients, optimizer
        Of the trained weights.
    """

    weights: float
    trained: float
    gradients: float
    optimizer: float


def trained_parameters(role: Role, model: Model) -> float:
    """Return how many parameters *role* trains: all, or those of its LoRA adapters on all linear layers."""
    assert role.train is not None
    rank = role.train.lora
    if rank == 0:
        return model.parameters
    query, key = model.heads * model.head_dim, model.kv_heads * model.head_dim
    # An adapter of rank r on a matrix (a, b) has r · (a + b) parameters: query and output, key and value,
    # three of the FFN.
    per_layer = 2 * (model.hidden + query) + 2 * (model.hidden + key) + 3 * (model.hidden + model.ffn)
    return rank * per_layer * model.layers


def state(role: Role, model: Model, choice: TrainChoice) -> State:
    """Return weights, gradients and optimizer state on each GPU."""
    weights, gradients, optimizer = BYTES_PER_PARAMETER[role.engine, choice.master]
    assert role.train is not None
    trained = trained_parameters(role, model)
    frozen = _frozen_bytes(role.train, model, weights) if role.train.lora else 0.0
    # FSDP spreads everything over the data-parallel ranks; Megatron's distributed optimizer only its own
    # state.
    blocks = choice.tp * choice.pp
    everywhere = blocks * choice.dp if role.engine is Engine.FSDP else blocks
    return State(
        weights=(frozen + weights * trained) / everywhere,
        trained=weights * trained / everywhere,
        gradients=gradients * trained / everywhere,
        optimizer=optimizer * trained / (blocks * choice.dp),
    )


def _frozen_bytes(train: TrainMenu, model: Model, weights: int) -> float:
    """Return the bytes of all weights that LoRA leaves as they are; embeddings keep 16 bits where others have fewer."""
    if train.frozen_bytes is None:
        return float(weights * model.parameters)
    return 2 * model.embedding_parameters + train.frozen_bytes * (model.parameters - model.embedding_parameters)


def frozen_weights(role: Role, model: Model, choice: FrozenChoice) -> float:
    """Return the bytes of a frozen role's 16-bit weights on each GPU."""
    shards = choice.tp * choice.pp * (choice.dp if role.engine is Engine.FSDP else 1)
    return 2 * model.parameters / shards


def is_streamed(engine: Engine, offload: Offload) -> bool:
    """Whether layers come from host memory one by one, as with FSDP's CPU offload."""
    return engine is Engine.FSDP and offload is Offload.ALWAYS


def train(
    role: Role, model: Model, choice: TrainChoice, batch: Batch, c: Constants, *, hybrid: bool
) -> Footprint:
    """Return what training *role* holds."""
    assert role.train is not None
    held = state(role, model, choice)
    stays = choice.offload is Offload.NONE
    streamed = is_streamed(role.engine, choice.offload)
    waiting_optimizer = held.optimizer if stays else 0.0
    weights = 0.0 if streamed else held.weights
    # FSDP with CPU offload takes all state from the GPU, Megatron the optimizer alone.
    updated = 0.0 if streamed else held.weights + held.gradients
    updated += 0.0 if choice.offload is Offload.ALWAYS else held.optimizer
    if role.train.in_backward:
        # One gradient at a time, at most the embedding's, in the precision of the weights.
        updated = held.weights + held.gradients * min(model.vocab * model.hidden / model.parameters, 1.0)
    updates = cut(
        batch, dp=choice.dp, micro_batch_tokens=choice.micro_batch_tokens, updates=batch.minibatches
    )
    whole = cut(batch, dp=choice.dp, micro_batch_tokens=choice.micro_batch_tokens, updates=1)
    has_logits = role.name is RoleName.ACTOR and not role.train.fused_ce
    # Compiled into one kernel, the loss writes no logarithm of its own: four bytes less.
    each_logit = c.logit_bytes_per_token_and_vocab - (4 if role.train.compiled else 0)
    per_token = each_logit * model.vocab / choice.tp if has_logits else 0.0
    gather = _gather(role.engine, model, choice, streamed=streamed)

    def mib(size: float) -> float:
        return c.train_overhead_mib + size / MIB

    idle = mib(held.weights + held.optimizer if stays else 0.0)
    forward = mib(
        weights
        + waiting_optimizer
        + gather
        + _working_set(model, whole.peak_tokens, choice.tp, c)
        # A quarter of what training keeps: the logits and one copy, no gradients.
        + whole.peak_tokens * per_token / 4
    )
    kept = role.train.recompute
    activations = _activations(role.engine, model, choice, updates.peak_tokens, updates.micro_batches, c, kept)
    update = mib(updated + 2 * gather + activations + updates.peak_tokens * per_token)
    if role.name is RoleName.CRITIC:
        return Footprint(idle, {Work.VALUES: forward, Work.UPDATE_CRITIC: update})
    # New weights leave the shards tensor by tensor; the largest is the embedding. Between pools two buckets
    # are in flight.
    largest = 4 * model.vocab * model.hidden
    sync = mib(weights + waiting_optimizer + largest) + (0 if hybrid else 2 * c.sync_bucket_mib)
    return Footprint(idle, {Work.OLD_LOG_PROBS: forward, Work.UPDATE_ACTOR: update, Work.SYNC_WEIGHTS: sync})


def frozen(
    role: Role, model: Model, choice: FrozenChoice, batch: Batch, c: Constants, *, fused_ce: bool
) -> Footprint:
    """Return what the forward passes of a frozen *role* hold."""
    weights = frozen_weights(role, model, choice)
    streamed = is_streamed(role.engine, choice.offload)
    tokens = cut(batch, dp=choice.dp, micro_batch_tokens=batch.micro_batch_tokens, updates=1).peak_tokens
    size = 0.0 if streamed else weights
    size += _gather(role.engine, model, choice, streamed=streamed)
    size += _working_set(model, tokens, choice.tp, c)
    if role.name is RoleName.REF and not fused_ce:
        size += tokens * c.logit_bytes_per_token_and_vocab / 4 * model.vocab / choice.tp
    idle = weights / MIB if choice.offload is Offload.NONE else 0.0
    work = Work.REF_LOG_PROBS if role.name is RoleName.REF else Work.REWARD
    return Footprint(c.frozen_overhead_mib + idle, {work: c.frozen_overhead_mib + size / MIB})


def _gather(engine: Engine, model: Model, choice: TrainChoice | FrozenChoice, *, streamed: bool) -> float:
    """
    Return the bytes of 16-bit weights that FSDP has put together at a time.

    They are a layer's, the next one's and an embedding; an update has as many gradients beside them.
    """
    if engine is not Engine.FSDP or (choice.dp == 1 and not streamed):
        return 0.0
    return (4 * model.layer_parameters + 2 * model.vocab * model.hidden) / choice.tp


def _working_set(model: Model, tokens: int, tp: int, c: Constants) -> float:
    """Return the bytes of one layer's intermediate values."""
    width = c.fsdp_activation_bytes_per_hidden_moe if model.experts else c.fsdp_activation_bytes_per_hidden
    return tokens * width * model.hidden / tp


def _activations(
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
        # Sequence parallelism with selective recomputation (Korthikanti et al. 2022, table 2). The first
        # pipeline stage holds a micro-batch for every stage behind it.
        in_flight = min(choice.pp, micro_batches)
        per_layer = tokens * model.hidden * (18 + 4 * model.ffn / model.hidden)
        return per_layer * model.layers / (choice.tp * choice.pp) * in_flight
    # A checkpoint or more per layer, and what a layer needs beside them while it is worked on.
    kept = tokens * kept_bytes_per_layer(model, recompute) / choice.tp
    checkpoint = 2 * tokens * model.hidden / choice.tp
    others = max(_working_set(model, tokens, choice.tp, c) - (kept - checkpoint), 0.0)
    return kept * model.layers / choice.pp + others


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
