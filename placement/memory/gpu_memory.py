"""
Memory of one GPU for training and for forward passes, MiB. Formulas and symbols: docs/model.md, docs/model-variants.md.

State and activations have files of their own (`placement.memory.states`, `placement.memory.activations`), as have generation engines
(`placement.memory.engine_memory`). GPUs that roles share hold the sum of what stays plus what is active (`solvers.problem`).

When to modify: a role holds something else in one of its phases.
"""

from __future__ import annotations

import functools

from placement.choices.batches import cut
from placement.choices.choices import FrozenChoice, TrainChoice
from placement.choices.footprints import Footprint, Piece, Pieces
from placement.constants.table import Constants
from placement.memory.activations import kept_bytes_per_layer as kept_bytes_per_layer
from placement.memory.activations import kept_for_backward, working_set
from placement.memory.sending import sends_adapters
from placement.memory.states import FULL_SHARDING, bytes_per_parameter
from placement.memory.states import State as State
from placement.memory.states import frozen_weights as frozen_weights
from placement.memory.states import is_streamed as is_streamed
from placement.memory.states import state as state
from placement.memory.states import trained_parameters as trained_parameters
from placement.models.model import Model
from placement.workloads.dataflow import Work
from placement.workloads.workload import Batch, Engine, Offload, Role, RoleName, TrainMenu

MIB = 2**20
PIECES = {piece.value: piece for piece in Piece}


def train(
    role: Role, model: Model, choice: TrainChoice, batch: Batch, c: Constants, *, hybrid: bool
) -> Footprint:
    """Return what training *role* holds."""
    assert role.train is not None
    held = state(role, model, choice)
    stays = choice.offload is Offload.NONE
    streamed = is_streamed(role.engine, choice.offload, choice.zero)
    weights = 0.0 if streamed else held.weights
    waiting_optimizer = held.optimizer if stays else 0.0
    # FSDP with CPU offload takes all state from the GPU; Megatron, and ZeRO stages that do not spread weights, the optimizer alone.
    gradients = 0.0 if streamed else held.gradients
    optimizer = 0.0 if choice.offload is Offload.ALWAYS else held.optimizer
    if role.train.in_backward:
        # One gradient at a time, at most the embedding's, in the precision of the weights; optimizer state is paged.
        weights, optimizer = held.weights, 0.0
        gradients = held.gradients * min(model.vocab * model.hidden / model.parameters, 1.0)
    updates = cut(
        batch, dp=choice.dp, micro_batch_tokens=choice.micro_batch_tokens, updates=batch.minibatches
    )
    whole = cut(batch, dp=choice.dp, micro_batch_tokens=choice.micro_batch_tokens, updates=1)
    has_logits = role.name is RoleName.ACTOR and not role.train.fused_ce
    # Compiled into one kernel, the loss writes no logarithm of its own: four bytes less.
    each_logit = c.logit_bytes_per_token_and_vocab - (4 if role.train.compiled else 0)
    per_token = each_logit * model.vocab / (choice.tp * choice.sp) if has_logits else 0.0
    gather = _gather(role.engine, model, choice, streamed=streamed)
    kept = role.recompute
    activations = kept_for_backward(role.engine, model, choice, updates.peak_tokens, updates.micro_batches, c, kept)
    pieces = functools.partial(_pieces, _context_mib(c.train_overhead_mib, choice, c))
    forward = pieces(
        weights=0.0 if streamed else held.weights,
        optimizer=waiting_optimizer,
        gathered=gather,
        activations=working_set(model, whole.peak_tokens, choice, c),
        # A quarter of what training keeps: the logits and one copy, no gradients.
        logits=whole.peak_tokens * per_token / 4,
    )
    update = pieces(
        weights=weights,
        gradients=gradients,
        optimizer=optimizer,
        gathered=gather + _unscattered(role, model, choice, streamed=streamed) + _dequantized(role.train, model, choice),
        activations=activations,
        logits=updates.peak_tokens * per_token,
    )
    idle = pieces(weights=held.weights if stays else 0.0, optimizer=waiting_optimizer)
    load = pieces(
        weights=0.0 if streamed else held.weights, gathered=_loading(role.engine, model, choice, streamed=streamed)
    )
    update = _at_least(update, load)
    if role.name is RoleName.CRITIC:
        return Footprint(idle, {Work.VALUES: forward, Work.UPDATE_CRITIC: update}, load)
    # New weights leave the shards tensor by tensor; the largest is the embedding. Adapters leave layer by layer, each put together with
    # its base (verl's layered_summon). Between pools two buckets are in flight; they have their size whatever passes.
    adapters = sends_adapters(role, hybrid=hybrid)
    sync = pieces(
        weights=0.0 if streamed else held.weights,
        optimizer=waiting_optimizer,
        gathered=_layer_to_send(role.engine, model, choice, streamed=streamed) if adapters else 4 * model.vocab * model.hidden,
        buckets=0 if hybrid else 2 * c.sync_bucket_mib * MIB,
    )
    working = {Work.OLD_LOG_PROBS: forward, Work.UPDATE_ACTOR: update, Work.SYNC_WEIGHTS: sync}
    return Footprint(idle, working, load)


def frozen(
    role: Role, model: Model, choice: FrozenChoice, batch: Batch, c: Constants, *, fused_ce: bool
) -> Footprint:
    """Return what the forward passes of a frozen *role* hold."""
    weights = frozen_weights(role, model, choice)
    streamed = is_streamed(role.engine, choice.offload)
    tokens = cut(batch, dp=choice.dp, micro_batch_tokens=batch.micro_batch_tokens, updates=1).peak_tokens
    has_logits = role.name is RoleName.REF and not fused_ce
    per_token = c.logit_bytes_per_token_and_vocab / 4 * model.vocab / (choice.tp * choice.sp) if has_logits else 0.0
    pieces = functools.partial(_pieces, _context_mib(c.frozen_overhead_mib, choice, c))
    forward = pieces(
        weights=0.0 if streamed else weights,
        gathered=_gather(role.engine, model, choice, streamed=streamed),
        activations=working_set(model, tokens, choice, c),
        logits=tokens * per_token,
    )
    idle = pieces(weights=weights if choice.offload is Offload.NONE else 0.0)
    load = pieces(
        weights=0.0 if streamed else weights, gathered=_loading(role.engine, model, choice, streamed=streamed)
    )
    work = Work.REF_LOG_PROBS if role.name is RoleName.REF else Work.REWARD
    return Footprint(idle, {work: forward}, load)


def _pieces(context_mib: float, **sizes: float) -> Pieces:
    """Return *sizes*, bytes by `Piece`, as MiB beside the context; those of nothing are left out."""
    return {Piece.CONTEXT: context_mib} | {PIECES[name]: size / MIB for name, size in sizes.items() if size}


def _at_least(update: Pieces, load: Pieces) -> Pieces:
    """
    Return *update*, raised to what *load* needs: then the start of the job needs no phase of its own.

    Adapters of a model with a large vocabulary need it: their update has hardly a gradient, while an embedding comes in whole.
    """
    missing = sum(load.values()) - sum(update.values())
    return {**update, Piece.GATHERED: update.get(Piece.GATHERED, 0.0) + missing} if missing > 0 else update


def _context_mib(overhead_mib: float, choice: TrainChoice | FrozenChoice, c: Constants) -> float:
    """
    Return CUDA context, NCCL's buffers and slack, MiB: *overhead_mib* counts one communicator of four or more GPUs.

    Ranks have a communicator for each kind of parallelism that joins them to others.
    """
    joined = (choice.tp, choice.pp, choice.sp, choice.ep, choice.shards)
    # A user's overhead may be less than the buffers that it is said to count.
    return max(overhead_mib - c.nccl_mib_4, 0.0) + sum(nccl_mib(gpus, c) for gpus in joined)


def nccl_mib(gpus: int, c: Constants) -> float:
    """Return the buffers of a communicator of *gpus* GPUs, MiB."""
    return {1: 0.0, 2: c.nccl_mib_2}.get(gpus, c.nccl_mib_4)


def _is_gathered(engine: Engine, choice: TrainChoice | FrozenChoice, *, streamed: bool) -> bool:
    """Whether FSDP puts weights together for use."""
    is_sharded = isinstance(choice, FrozenChoice) or choice.zero >= FULL_SHARDING
    return engine is Engine.FSDP and is_sharded and (choice.shards > 1 or streamed)


def _gather(engine: Engine, model: Model, choice: TrainChoice | FrozenChoice, *, streamed: bool) -> float:
    """
    Return the bytes of 16-bit weights that FSDP has put together at a time: a layer's, the next one's and an embedding.
    """
    return _two_layers(model, choice) if _is_gathered(engine, choice, streamed=streamed) else 0.0


def _unscattered(role: Role, model: Model, choice: TrainChoice, *, streamed: bool) -> float:
    """
    Return the bytes of gradients that wait to be scattered: of as many weights as are put together at a time.

    LoRA has gradients of its adapters alone.
    """
    waits = choice.zero == 2 and choice.shards > 1 and role.engine is Engine.FSDP
    if not waits and not _is_gathered(role.engine, choice, streamed=streamed):
        return 0.0
    return _two_layers(model, choice) * trained_parameters(role, model) / model.parameters


def _dequantized(train: TrainMenu, model: Model, choice: TrainChoice) -> float:
    """
    Return the bytes of the largest linear weight in 16 bits, where frozen ones are kept in fewer: it is multiplied with as such.

    QLoRA (Dettmers et al. 2023, section 3): weights are dequantized when they are used, in the forward pass and in the backward pass.
    """
    is_quantized = train.lora > 0 and train.frozen_bytes is not None and train.frozen_bytes < 2
    return 2 * model.hidden * model.ffn / choice.tp if is_quantized else 0.0


def _two_layers(model: Model, choice: TrainChoice | FrozenChoice) -> float:
    return (2 * min(model.layers, 2) * model.layer_parameters + 2 * model.vocab * model.hidden) / choice.tp


def _layer_to_send(engine: Engine, model: Model, choice: TrainChoice, *, streamed: bool) -> float:
    """Return the bytes of one layer, in the precision in which it is kept, that is put together to take adapters out."""
    each = bytes_per_parameter(engine, choice)[0]
    return each * model.layer_parameters / choice.tp if _is_gathered(engine, choice, streamed=streamed) else 0.0


def _loading(engine: Engine, model: Model, choice: TrainChoice | FrozenChoice, *, streamed: bool) -> float:
    """
    Return the bytes that loading weights needs beside the shards: the module that is spread at a time, a layer or an embedding.

    It comes in the precision in which it is kept. Where weights are not spread each GPU reads its own.
    """
    if not _is_gathered(engine, choice, streamed=streamed):
        return 0.0
    each = bytes_per_parameter(engine, choice)[0] if isinstance(choice, TrainChoice) else 2
    return each * max(model.layer_parameters, model.vocab * model.hidden) / choice.tp
