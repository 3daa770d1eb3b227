"""
Memory of one GPU, part by part of a role, MiB. The formulas and their symbols are explained in docs/model.md.

A part has three numbers per moment: what it holds while idle (*resident*), and what it holds while it works in a phase. GPUs that
roles share hold the sum of what stays plus what is active (`solvers.problem`).

When to modify: an engine keeps something else in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placement.choices import FrozenChoice, RolloutChoice, TrainChoice
from placement.constants import Constants
from placement.dataflow import Work
from placement.hardware import Hardware
from placement.models import Model
from placement.workload import Batch, Engine, Master, Offload, Role, RoleName

MIB = 2**20

BYTES_PER_PARAMETER = {
    # (weights, gradients, optimizer); Adam keeps two moments. fp32 master under FSDP: 16 bytes per parameter (verl's default);
    # Megatron keeps bf16 weights, fp32 gradients, and fp32 weights with the moments in the optimizer: 18.
    (Engine.FSDP, Master.FP32): (4, 4, 8),
    (Engine.FSDP, Master.BF16): (2, 2, 4),
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
    """Bytes of a trained role's state on each GPU."""

    weights: float
    gradients: float
    optimizer: float


def lora_parameters(model: Model, rank: int) -> float:
    """Return the parameters of adapters of *rank* on all linear layers: rank · (inputs + outputs) for each."""
    heads, kv = model.heads * model.head_dim, model.kv_heads * model.head_dim
    per_layer = 2 * (model.hidden + heads) + 2 * (model.hidden + kv) + 3 * (model.hidden + model.ffn)
    return rank * per_layer * model.layers


def state(role: Role, model: Model, choice: TrainChoice, gpus: int) -> State:
    """Return weights, gradients and optimizer state on each GPU, bytes."""
    weights, gradients, optimizer = BYTES_PER_PARAMETER[role.engine, choice.master]
    cut = choice.tp * choice.pp
    assert role.train is not None
    if role.train.lora:
        adapters = lora_parameters(model, role.train.lora) / gpus
        return State(2 * model.parameters / gpus + weights * adapters, gradients * adapters, optimizer * adapters)
    if role.engine is Engine.MEGATRON:
        # The distributed optimizer spreads over the data-parallel ranks; weights and gradients do not.
        share = model.parameters / cut
        return State(weights * share, gradients * share, optimizer * share / choice.dp)
    share = model.parameters / gpus
    return State(weights * share, gradients * share, optimizer * share)


def tokens_at_a_time(batch: Batch, choice: TrainChoice) -> int:
    """Return the tokens that one data-parallel rank passes through the model at a time."""
    per_update = batch.tokens // batch.minibatches // choice.dp
    return max(min(choice.micro_batch_tokens, per_update), 1)


def train(
    role: Role, model: Model, choice: TrainChoice, batch: Batch, hardware: Hardware, c: Constants, *, hybrid: bool
) -> Footprint:
    """Return what training *role* holds."""
    assert role.train is not None
    held = state(role, model, choice, hardware.gpus)
    tokens = tokens_at_a_time(batch, choice)
    streamed = choice.offload is Offload.ALWAYS
    idle = c.train_overhead_mib + (_mib(held.weights + held.optimizer) if choice.offload is Offload.NONE else 0)
    optimizer_waits = held.optimizer if choice.offload is Offload.NONE else 0
    weights = 0 if streamed else held.weights
    logits = 0.0 if role.train.fused_ce or role.name is RoleName.CRITIC else c.logit_bytes_per_token_and_vocab
    logits *= tokens * model.vocab / choice.tp
    gather = _gather(role.engine, model, hardware.gpus, choice.tp, bytes_per_parameter=4)
    forward = c.train_overhead_mib + _mib(
        weights + optimizer_waits + gather + _working_set(model, tokens, c) / choice.tp + logits / 4
    )
    update = c.train_overhead_mib + _mib(
        (0 if streamed else held.weights + held.gradients + held.optimizer)
        + 2 * gather
        + _activations(role.engine, model, choice, tokens, c)
        + logits
    )
    if role.name is RoleName.CRITIC:
        return Footprint(idle, {Work.VALUES: forward, Work.UPDATE_CRITIC: update})
    buckets = 0 if hybrid else 2 * c.sync_bucket_mib
    sync = c.train_overhead_mib + _mib(weights + optimizer_waits + gather) + buckets
    return Footprint(idle, {Work.OLD_LOG_PROBS: forward, Work.UPDATE_ACTOR: update, Work.SYNC_WEIGHTS: sync})


def frozen(
    role: Role, model: Model, choice: FrozenChoice, batch: Batch, hardware: Hardware, c: Constants
) -> Footprint:
    """Return what the forward passes of a frozen *role* hold."""
    cut = hardware.gpus if role.engine is Engine.FSDP else choice.tp * choice.pp
    weights = 2 * model.parameters / cut
    gather = _gather(role.engine, model, hardware.gpus, choice.tp, bytes_per_parameter=2)
    tokens = min(batch.micro_batch_tokens, max(batch.tokens // choice.dp, 1))
    work = Work.REF_LOG_PROBS if role.name is RoleName.REF else Work.REWARD
    active = c.frozen_overhead_mib + _mib(weights + gather + _working_set(model, tokens, c) / choice.tp)
    idle = c.frozen_overhead_mib + (_mib(weights) if choice.offload is Offload.NONE else 0)
    return Footprint(idle, {work: active})


@dataclass(frozen=True, slots=True)
class EngineSpace:
    """How a generation engine divides its claim, MiB per GPU; *slots* sequences fit into the KV cache."""

    claim_mib: float
    weights_mib: float
    activation_mib: float
    kv_mib: float
    slots: int


def engine_space(model: Model, choice: RolloutChoice, batch: Batch, hardware: Hardware, c: Constants) -> EngineSpace:
    """
    Return how the engine divides ``gpu_memory_utilization`` × total.

    ``slots`` is 0 when not even one sequence of the longest length finds room: then the engine would refuse to start.
    """
    claim = choice.gpu_memory_utilization * hardware.total_mib
    weights = _mib(2 * model.parameters / choice.tp)
    activation = c.engine_activation_mib_moe if model.experts else c.engine_activation_mib_dense
    nccl = {1: c.engine_nccl_mib_tp1, 2: c.engine_nccl_mib_tp2}.get(choice.tp, c.engine_nccl_mib_tp4)
    kv = claim - weights - activation - nccl
    per_token = _mib(model.kv_bytes_per_token / min(choice.tp, model.kv_shards))
    longest = per_token * (batch.prompt_tokens + batch.response_max_tokens)
    usual = per_token * (batch.prompt_tokens + batch.response_mean_tokens)
    slots = min(choice.max_num_seqs, int(kv // usual)) if kv >= longest else 0
    return EngineSpace(claim, weights, activation + nccl, kv, slots)


def rollout(space: EngineSpace, c: Constants, *, hybrid: bool) -> Footprint:
    """
    Return what a generation engine holds.

    The hybrid engine sleeps between its phases and wakes its weights first, to receive the new ones; a separate one keeps all.
    """
    awake = space.claim_mib + c.engine_residual_mib
    if hybrid:
        receiving = c.engine_residual_mib + space.weights_mib + c.sync_bucket_mib
        return Footprint(c.engine_residual_mib, {Work.GENERATE: awake, Work.SYNC_WEIGHTS: receiving})
    return Footprint(awake, {Work.GENERATE: awake, Work.SYNC_WEIGHTS: awake + 2 * c.sync_bucket_mib})


def _mib(size: float) -> float:
    return size / MIB


def _gather(engine: Engine, model: Model, gpus: int, tp: int, *, bytes_per_parameter: int) -> float:
    """Return the bytes of parameters that FSDP gathers at a time: the layer at work with its successor, and the embedding."""
    if engine is not Engine.FSDP or gpus == 1:
        return 0.0
    return (bytes_per_parameter * model.layer_parameters + 2 * model.vocab * model.hidden) / tp


def _working_set(model: Model, tokens: int, c: Constants) -> float:
    """Return the bytes of one layer's intermediate values."""
    width = c.fsdp_activation_bytes_per_hidden_moe if model.experts else c.fsdp_activation_bytes_per_hidden
    return tokens * width * model.hidden


def _activations(engine: Engine, model: Model, choice: TrainChoice, tokens: int, c: Constants) -> float:
    """Return the bytes of activations that the backward pass needs."""
    if engine is Engine.MEGATRON:
        # Sequence parallelism with selective recomputation; stage 0 holds pp micro-batches in flight.
        per_layer = tokens * model.hidden * (18 + 4 * model.ffn / model.hidden)
        return per_layer * model.layers / (choice.tp * choice.pp) * choice.pp
    # Full recomputation: one checkpoint per layer, and one layer's working set.
    checkpoints = 2 * tokens * model.hidden * model.layers
    return (checkpoints + _working_set(model, tokens, c)) / choice.tp
