"""
Time of training, forward passes and weight syncs, seconds. Formulas and symbols: docs/model.md, docs/model-variants.md.

Generation has a file of its own (`placement.timing.generation`).

When to modify: a term of the time model. Constants live in the data file.
"""

from __future__ import annotations

import dataclasses

from placement.choices.batches import cut, mean_tokens
from placement.choices.choices import FrozenChoice, TrainChoice
from placement.choices.eight_bits import linear_flops_per_token
from placement.choices.hardware import Hardware
from placement.constants.table import Constants
from placement.memory.sending import Sent, buckets, sent
from placement.memory.states import (
    FULL_SHARDING,
    bytes_per_parameter,
    frozen_weights,
    is_streamed,
    state,
    trained_parameters,
)
from placement.models.model import Model
from placement.timing.collectives import US, alpha_s, gather_s
from placement.timing.exchanges import gb
from placement.timing.host_optimizer import host_optimizer
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
    assert role.train is not None
    each = _forward(model, batch, c, streamed=streamed, gathers=1 if choice.zero >= FULL_SHARDING else 0, fp8=role.train.fp8)
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
    # All of the forward pass is computed again under full recomputation; selective forms leave the exchanges out.
    again = role.recompute is Recompute.FULL
    # Backward costs as much for the inputs and again for the weights: 6P; LoRA does without the latter: 4P.
    times = 2 if role.train.lora else 3
    each = MicroBatch(
        flops_per_token=times * flops_per_token(model, mean_tokens(batch), c),
        mfu=c.train_mfu_moe if model.experts else c.train_mfu_dense,
        reduces=6 if again else 4,
        gathers=2 if in_fp32 else 0,
        scattered=of_gradients * trained if choice.zero >= 2 else 0.0,
        streamed=2 * held.weights + held.gradients if streamed else 0.0,
        crossings=3 if again else 2,
        in_8_bits=times * linear_flops_per_token(model) if role.train.fp8 else 0.0,
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
    if choice.offload is Offload.ALWAYS:
        shares.extend((what, batch.minibatches * s) for what, s in host_optimizer(role, choice, held.optimizer, hardware, c))
        return timed([*shares, _waking(role, choice, held.weights, hardware, c)])
    # Gradients are read; moments, master and weights are read and written.
    moved = batch.minibatches * (held.gradients + 2 * (held.optimizer + held.trained))
    shares.append((OPTIMIZER, moved / (hardware.memory_bytes_per_s * c.memory_efficiency)))
    return timed([*shares, _waking(role, choice, held.weights + held.optimizer, hardware, c)])


def send(
    role: Role, model: Model, choice: TrainChoice, hardware: Hardware, c: Constants, *, hybrid: bool
) -> Timed:
    """
    Return the actor's time of handing over its new weights, put together from all shards.

    ``(n-1)/n`` of the 16-bit weights, or of the adapters, pass every link: the volume of DeepSpeed-Chat's gathering, an upper
    bound. What it takes to hand tensors over, in buckets, comes on top, and for each tensor the start of the gather that puts it together.
    """
    what = sent(role, model, hybrid=hybrid)
    ring, nvlink, memory = hardware.ring_bytes_per_s, hardware.ring_nvlink, hardware.memory_bytes_per_s
    weights = state(role, model, choice).weights
    gathered = gather_s(
        what.size, hardware.gpus, ring, nvlink=nvlink, c=c, memory_bytes_per_s=memory, islands=hardware.islands
    )
    handed = handing_us(what, c) * US + what.tensors * gather_start_s(role.engine, choice, hardware, c)
    shares = [
        (f"resharding over {gb(ring)}", gathered),
        _fixed(c.hybrid_sync_overhead_us if hybrid else c.separate_sync_overhead_us),
        ("handing over the tensors of the weight sync", handed),
        _waking(role, choice, weights, hardware, c),
    ]
    if is_streamed(role.engine, choice.offload, choice.zero):
        shares.append((OFFLOAD, weights / hardware.host_bytes_per_s))
    return timed(shares)


def gather_start_s(engine: Engine, choice: TrainChoice, hardware: Hardware, c: Constants) -> float:
    """
    Return how long the all-gather takes to start that puts one tensor together.

    FSDP gathers it from all that hold a shard of it, Megatron from the TP ranks: what its experts are spread over comes many at once.
    """
    if engine is Engine.FSDP:
        ranks, width, nvlink = choice.shards, hardware.ring_bytes_per_s, hardware.ring_nvlink
    else:
        ranks, width, nvlink = choice.tp, hardware.block(choice.tp) or 0.0, hardware.is_block_nvlink(choice.tp)
    return alpha_s(ranks, width, nvlink=nvlink, c=c, islands=min(hardware.islands, ranks)) if ranks > 1 else 0.0


def receive(what: Sent, hardware: Hardware, c: Constants) -> Timed:
    """Return the time in which new weights pass along the ring of a rollout on GPUs of its own."""
    ring = hardware.ring_bytes_per_s
    passing = what.size / (ring * c.ring_efficiency) if hardware.gpus > 1 else 0.0
    return timed(
        [(f"weights along the rollout's ring at {gb(ring)}", passing), _fixed(separate_sync_us(what, c))]
    )


def wake(weights: float, hardware: Hardware) -> Timed:
    """
    Return the time in which *weights* bytes of an engine go to host memory as it sleeps (level 1), and come back as it wakes.

    vLLM's allocator keeps them in pinned memory, and copies them at every sleep. At level 2 they are dropped, and come with the sync.
    """
    return timed([("the engine's weights to and from host memory (sleep level 1)", 2 * weights / hardware.host_bytes_per_s)])


def separate_sync_us(what: Sent, c: Constants) -> float:
    """Return the time of a sync between pools beside its bytes, µs."""
    return c.separate_sync_overhead_us + handing_us(what, c)


def handing_us(what: Sent, c: Constants) -> float:
    """
    Return how long trainer and engine take to hand *what* over beside its bytes, µs.

    Every tensor is packed and loaded, every bucket is a call; both constants come from syncs that were measured piece by piece.
    """
    return c.sync_tensor_us * what.tensors + c.sync_bucket_us * buckets(what, c)


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
    role: Role, model: Model, choice: FrozenChoice, batch: Batch, hardware: Hardware, c: Constants, *, fp8: bool = False
) -> Timed:
    """
    Return the time of a frozen role's forward pass; weights that wait on the host are fetched, then dropped.

    Parameters
    ----------
    fp8
        Whether its matrix products run in 8 bits, as those of the actor whose engine it shares.
    """
    weights = frozen_weights(role, model, choice)
    streamed = is_streamed(role.engine, choice.offload)
    whole = cut(batch, dp=choice.dp, micro_batch_tokens=batch.micro_batch_tokens, updates=1)
    each = _forward(model, batch, c, streamed=weights if streamed else 0.0, fp8=fp8)
    shares = passes(role.engine, model, choice, whole, each, hardware, c)
    fetched = 0.0 if streamed or choice.offload is Offload.NONE else weights
    return timed([*shares, (OFFLOAD, fetched / (hardware.host_bytes_per_s * c.pageable_share))])


def _forward(model: Model, batch: Batch, c: Constants, *, streamed: float, gathers: int = 1, fp8: bool = False) -> MicroBatch:
    return MicroBatch(
        flops_per_token=flops_per_token(model, mean_tokens(batch), c),
        mfu=c.forward_mfu_moe if model.experts else c.forward_mfu_dense,
        reduces=2,
        gathers=gathers,
        streamed=streamed,
        in_8_bits=linear_flops_per_token(model) if fp8 else 0.0,
    )
