"""
Time of training, forward passes and weight syncs, seconds. Formulas and symbols: docs/model.md.

Generation has a file of its own (`placement.timing.generation`).

When to modify: a term of the time model. Constants live in the data file.
"""

from __future__ import annotations

import dataclasses

from placement.choices.batches import cut, mean_tokens
from placement.choices.choices import FrozenChoice, TrainChoice
from placement.choices.hardware import Hardware
from placement.constants.table import Constants
from placement.memory.states import (
    FULL_SHARDING,
    bytes_per_parameter,
    frozen_weights,
    is_streamed,
    state,
    trained_parameters,
)
from placement.models.model import Model
from placement.timing.collectives import US, gather_s
from placement.timing.exchanges import gb
from placement.timing.lengths import fullest_rank
from placement.timing.passes import (
    OFFLOAD,
    MicroBatch,
    Share,
    Timed,
    flops_per_token,
    passes,
    timed,
)
from placement.timing.syncing import gradient_sync
from placement.workloads.workload import Batch, Engine, Offload, Recompute, Role

OPTIMIZER = "optimizer"

# ── a role that is trained ──────────────────────────────────────────────────────────────────────────────────


def forward(
    role: Role, model: Model, choice: TrainChoice, batch: Batch, hardware: Hardware, c: Constants
) -> Timed:
    """Return the time of a trained role's forward pass over the step (old log-probabilities, values)."""
    weights = state(role, model, choice).weights
    streamed = weights if is_streamed(role.engine, choice.offload, choice.zero) else 0.0
    whole = cut(batch, dp=choice.dp, micro_batch_tokens=choice.micro_batch_tokens, updates=1)
    each = _forward(model, batch, c, streamed=streamed, gathers=1 if choice.zero >= FULL_SHARDING else 0)
    shares = passes(role.engine, model, choice, whole, each, hardware, c)
    return timed([*shares, _waking(role, choice, weights, hardware, c)])


def update(
    role: Role, model: Model, choice: TrainChoice, batch: Batch, hardware: Hardware, c: Constants
) -> Timed:
    """
    Return the time of all optimizer updates of the step.

    Forward and backward in micro-batches, the gradient sync of engines that do not shard weights, the optimizer, and copies of
    offloaded state.
    """
    assert role.train is not None
    held = state(role, model, choice)
    trained = trained_parameters(role, model)
    streamed = is_streamed(role.engine, choice.offload, choice.zero)
    # ZeRO stage 3 gathers weights for forward and backward, and scatters gradients in fp32; stage 2 scatters them as they are; stage 1
    # keeps them until the update.
    in_fp32 = choice.zero >= FULL_SHARDING
    of_gradients = 4 if in_fp32 else bytes_per_parameter(role.engine, choice)[1]
    # The forward pass is computed again under full recomputation; Megatron's selective one leaves the exchanges out.
    again = role.engine is Engine.FSDP and role.train.recompute is Recompute.FULL
    each = MicroBatch(
        # Backward costs as much for the inputs and again for the weights: 6P; LoRA does without the latter:
        # 4P.
        flops_per_token=(2 if role.train.lora else 3) * flops_per_token(model, mean_tokens(batch), c),
        mfu=c.train_mfu_moe if model.experts else c.train_mfu_dense,
        reduces=4,
        gathers=2 if in_fp32 else 0,
        scattered=of_gradients * trained if choice.zero >= 2 else 0.0,
        streamed=2 * held.weights + held.gradients if streamed else 0.0,
        crossings=3 if again else 2,
    )
    updates = cut(
        batch, dp=choice.dp, micro_batch_tokens=choice.micro_batch_tokens, updates=batch.minibatches
    )
    # Ranks share the sequences of an update by number: all wait for the one with the most tokens. Those of a whole step
    # are shared by length (verl's balance_batch).
    if batch.minibatches > 1:
        sequences = -(-batch.sequences // (batch.minibatches * choice.dp))
        updates = dataclasses.replace(updates, tokens=updates.tokens * fullest_rank(batch, sequences, choice.dp))
    shares = passes(role.engine, model, choice, updates, each, hardware, c)
    if role.engine is not Engine.FSDP or not in_fp32:
        sync = batch.minibatches * gradient_sync(role, model, choice, hardware, c)
        shares.append((f"gradient sync over {gb(hardware.ring_bytes_per_s)}", sync))
    # Gradients are read; moments, master and weights are read and written, where the optimizer state lies.
    moved = batch.minibatches * (held.gradients + 2 * (held.optimizer + held.trained))
    if choice.offload is Offload.ALWAYS:
        shares.append((OFFLOAD, moved / hardware.host_bytes_per_s))
        return timed([*shares, _waking(role, choice, held.weights, hardware, c)])
    shares.append((OPTIMIZER, moved / (hardware.memory_bytes_per_s * c.memory_efficiency)))
    return timed([*shares, _waking(role, choice, held.weights + held.optimizer, hardware, c)])


def send(
    role: Role, model: Model, choice: TrainChoice, hardware: Hardware, c: Constants, *, hybrid: bool
) -> Timed:
    """
    Return the actor's time of handing over its new weights, put together from all shards.

    ``(n-1)/n`` of the 16-bit weights pass every link: the volume of DeepSpeed-Chat's gathering, an upper
    bound.
    """
    size = 2 * model.parameters
    ring, nvlink, memory = hardware.ring_bytes_per_s, hardware.ring_nvlink, hardware.memory_bytes_per_s
    weights = state(role, model, choice).weights
    shares = [
        (f"resharding over {gb(ring)}", gather_s(size, hardware.gpus, ring, nvlink=nvlink, c=c, memory_bytes_per_s=memory)),
        _fixed(c.hybrid_sync_overhead_us if hybrid else separate_sync_us(model, c)),
        _waking(role, choice, weights, hardware, c),
    ]
    if is_streamed(role.engine, choice.offload, choice.zero):
        shares.append((OFFLOAD, weights / hardware.host_bytes_per_s))
    return timed(shares)


def receive(model: Model, hardware: Hardware, c: Constants) -> Timed:
    """Return the time in which new weights pass along the ring of a rollout on GPUs of its own."""
    ring = hardware.ring_bytes_per_s
    passing = 2 * model.parameters / (ring * c.ring_efficiency) if hardware.gpus > 1 else 0.0
    return timed(
        [(f"weights along the rollout's ring at {gb(ring)}", passing), _fixed(separate_sync_us(model, c))]
    )


def separate_sync_us(model: Model, c: Constants) -> float:
    """Return the time of a sync between pools beside its bytes, µs: tensors go one by one."""
    return c.separate_sync_overhead_us + c.sync_tensor_us * model.tensors


def _fixed(us: float) -> Share:
    return "fixed cost of the weight sync", us * US


def _waking(role: Role, choice: TrainChoice, size: float, hardware: Hardware, c: Constants) -> Share:
    """
    Return the time of fetching state that waits in host memory before a phase, and of taking it back.

    Frameworks keep it in pageable memory between phases; what is streamed layer by layer lies in pinned memory.
    """
    waits = choice.offload is not Offload.NONE and not is_streamed(role.engine, choice.offload, choice.zero)
    return OFFLOAD, 2 * size / (hardware.host_bytes_per_s * c.pageable_share) if waits else 0.0


# ── a role that is never trained ────────────────────────────────────────────────────────────────────────────


def frozen_forward(
    role: Role, model: Model, choice: FrozenChoice, batch: Batch, hardware: Hardware, c: Constants
) -> Timed:
    """
    Return the time of a frozen role's forward pass; weights that wait on the host are fetched, then dropped.
    """
    weights = frozen_weights(role, model, choice)
    streamed = is_streamed(role.engine, choice.offload)
    whole = cut(batch, dp=choice.dp, micro_batch_tokens=batch.micro_batch_tokens, updates=1)
    each = _forward(model, batch, c, streamed=weights if streamed else 0.0)
    shares = passes(role.engine, model, choice, whole, each, hardware, c)
    fetched = 0.0 if streamed or choice.offload is Offload.NONE else weights
    return timed([*shares, (OFFLOAD, fetched / (hardware.host_bytes_per_s * c.pageable_share))])


def _forward(model: Model, batch: Batch, c: Constants, *, streamed: float, gathers: int = 1) -> MicroBatch:
    return MicroBatch(
        flops_per_token=flops_per_token(model, mean_tokens(batch), c),
        mfu=c.forward_mfu_moe if model.experts else c.forward_mfu_dense,
        reduces=2,
        gathers=gathers,
        streamed=streamed,
    )
