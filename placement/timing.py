"""
Time of one piece of work, part by part of a role, seconds. The formulas and their symbols are explained in docs/model.md.

When to modify: a term of the time model. Constants live in the data file.
"""

from __future__ import annotations

from dataclasses import dataclass

from placement.choices import FrozenChoice, RolloutChoice, TrainChoice
from placement.constants import Constants
from placement.dataflow import generated_sequences
from placement.hardware import Hardware
from placement.memory import EngineSpace, State, tokens_at_a_time
from placement.models import Model
from placement.workload import Batch, Engine, Offload, Role, Workload

US = 1e-6

# Gauss–Legendre nodes and weights on [0, 1], eight points: exact for polynomials to degree 15.
_QUADRATURE = (
    (0.01985507175123188, 0.05061426814518813),
    (0.10166676129318664, 0.11119051722668724),
    (0.2372337950418355, 0.15685332293894363),
    (0.4082826787521751, 0.18134189168918100),
    (0.5917173212478249, 0.18134189168918100),
    (0.7627662049581645, 0.15685332293894363),
    (0.8983332387068134, 0.11119051722668724),
    (0.9801449282487681, 0.05061426814518813),
)


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds, and what bounds them in words."""

    seconds: float
    bound_by: str


# ── collectives ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def all_reduce_s(size: float, gpus: int, bytes_per_s: float, *, nvlink: bool, c: Constants) -> float:
    """Return the time of an all-reduce of *size* bytes over a ring: ``alpha + 2 (n-1)/n · size / bus``."""
    if gpus == 1:
        return 0.0
    return _alpha_s(gpus, nvlink, c) + 2 * (gpus - 1) / gpus * size / (bytes_per_s * c.ring_efficiency)


def gather_s(size: float, gpus: int, bytes_per_s: float, *, nvlink: bool, c: Constants) -> float:
    """Return the time of an all-gather or reduce-scatter of *size* bytes in all: ``alpha + (n-1)/n · size / bus``."""
    if gpus == 1:
        return 0.0
    return _alpha_s(gpus, nvlink, c) + (gpus - 1) / gpus * size / (bytes_per_s * c.ring_efficiency)


def _alpha_s(gpus: int, nvlink: bool, c: Constants) -> float:
    if nvlink:
        return (c.nvlink_alpha_us + c.nvlink_alpha_us_per_gpu * gpus) * US
    return (c.pcie_alpha_us + c.pcie_alpha_us_per_gpu * gpus) * US


def _tp_all_reduce_s(model: Model, tokens: float, tp: int, hardware: Hardware, c: Constants) -> float:
    """Return one all-reduce of a layer's output over the TP blocks; 0 without tensor parallelism."""
    if tp == 1:
        return 0.0
    width = hardware.block(tp)
    assert width is not None
    return all_reduce_s(2 * tokens * model.hidden, tp, width, nvlink=hardware.is_block_nvlink(tp), c=c)


# ── forward passes and training ─────────────────────────────────────────────────────────────────────────────────────────


def forward(
    role: Role, model: Model, choice: TrainChoice | FrozenChoice, batch: Batch, hardware: Hardware, c: Constants
) -> Timed:
    """Return the time of one forward pass over all tokens of the step."""
    flops = _flops_per_token(model, batch, factor=2) * batch.tokens
    rate = c.forward_mfu_moe if model.experts else c.forward_mfu_dense
    size = choice.micro_batch_tokens if isinstance(choice, TrainChoice) else batch.micro_batch_tokens
    return _passes(role, model, choice, batch, hardware, c, flops_s=flops / hardware.flops / rate, size=size, gathers=1, reduces=2)


def train(role: Role, model: Model, choice: TrainChoice, batch: Batch, hardware: Hardware, c: Constants) -> Timed:
    """Return the time of all optimizer updates of the step: forward, backward, gradient sync, optimizer."""
    assert role.train is not None
    # Without gradients for the frozen base, LoRA skips a third of the work (2P forward + 2P for activations' gradients).
    factor = 4 if role.train.lora else 6
    flops = _flops_per_token(model, batch, factor=factor) * batch.tokens
    rate = c.train_mfu_moe if model.experts else c.train_mfu_dense
    work = _passes(
        role,
        model,
        choice,
        batch,
        hardware,
        c,
        flops_s=flops / hardware.flops / rate,
        size=tokens_at_a_time(batch, choice),
        gathers=2,
        reduces=4,
        is_training=True,
    )
    sync = _gradient_sync_s(role, model, choice, hardware, c) * batch.minibatches
    if sync > work.seconds:
        return Timed(work.seconds + sync, f"gradient sync over {hardware.ring_bytes_per_s / 1e9:.0f} GB/s")
    return Timed(work.seconds + sync, work.bound_by)


def optimizer_s(held: State, hardware: Hardware, choice: TrainChoice, batch: Batch, c: Constants) -> float:
    """
    Return the time of the optimizer's own reads and writes: state in and out of memory, once per update.

    With ``offload: always`` they go over the link to the host, and so do gradients and new weights.
    """
    moved = 2 * (held.optimizer + held.weights) + held.gradients
    rate = hardware.host_bytes_per_s if choice.offload is Offload.ALWAYS else hardware.memory_bytes_per_s * c.memory_efficiency
    return batch.minibatches * moved / rate


def offload_s(held: State, hardware: Hardware, choice: TrainChoice) -> float:
    """Return the time of fetching weights and optimizer state from the host before the update, and of taking them back."""
    if choice.offload is not Offload.BETWEEN:
        return 0.0
    return 2 * (held.weights + held.optimizer) / hardware.host_bytes_per_s


def fetch_s(size: float, hardware: Hardware) -> float:
    """Return the time of fetching *size* bytes per GPU from the host."""
    return size / hardware.host_bytes_per_s


def _flops_per_token(model: Model, batch: Batch, *, factor: int) -> float:
    """Return factor · P_act, and the attention over the (causal: half) sequence: factor · L · heads · head_dim · s."""
    sequence = batch.prompt_tokens + batch.response_mean_tokens
    return factor * (model.active_parameters + model.layers * model.heads * model.head_dim * sequence)


def _passes(
    role: Role,
    model: Model,
    choice: TrainChoice | FrozenChoice,
    batch: Batch,
    hardware: Hardware,
    c: Constants,
    *,
    flops_s: float,
    size: int,
    gathers: int,
    reduces: int,
    is_training: bool = False,
) -> Timed:
    """
    Return the time of passing the step's tokens through the model in micro-batches.

    FSDP gathers all parameters (*gathers* times) and scatters gradients per micro-batch, behind the compute as far as it lasts.
    """
    compute = flops_s / hardware.gpus
    micro_batches = max(-(-batch.tokens // (choice.dp * size)), 1)
    all_reduces = reduces * model.layers / choice.pp * micro_batches
    tp_s = all_reduces * _tp_all_reduce_s(model, batch.tokens / choice.dp / micro_batches, choice.tp, hardware, c)
    bubble = 1 + (choice.pp - 1) / micro_batches
    busy = (compute + tp_s) * bubble
    if role.engine is not Engine.FSDP or hardware.gpus == 1:
        return Timed(busy, "compute" if compute >= tp_s else f"TP all-reduce over {(hardware.block(choice.tp) or 0) / 1e9:.0f} GB/s")
    ring, nvlink = hardware.ring_bytes_per_s, hardware.ring_nvlink
    shards = hardware.gpus
    size_bytes = 2 * model.parameters / choice.tp
    one = gather_s(size_bytes, shards, ring, nvlink=nvlink, c=c)
    traffic = gathers * one + (gather_s(2 * size_bytes, shards, ring, nvlink=nvlink, c=c) if is_training else 0.0)
    traffic *= micro_batches
    # The first layer's gather has nothing to hide behind.
    exposed = one / model.layers * micro_batches
    seconds = max(busy, traffic) + exposed
    if traffic > busy:
        return Timed(seconds, f"parameter all-gather over {ring / 1e9:.0f} GB/s")
    return Timed(seconds, "compute" if compute >= tp_s else f"TP all-reduce over {(hardware.block(choice.tp) or 0) / 1e9:.0f} GB/s")


def _gradient_sync_s(role: Role, model: Model, choice: TrainChoice, hardware: Hardware, c: Constants) -> float:
    """Return Megatron's gradient reduce-scatter (fp32) and weight all-gather (bf16) of one update; FSDP has done its own."""
    if role.engine is not Engine.MEGATRON or choice.dp == 1:
        return 0.0
    size = 6 * model.parameters / (choice.tp * choice.pp)
    return gather_s(size, choice.dp, hardware.ring_bytes_per_s, nvlink=hardware.ring_nvlink, c=c)


# ── generation ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def generate(
    model: Model, choice: RolloutChoice, space: EngineSpace, workload: Workload, hardware: Hardware, c: Constants
) -> Timed:
    """
    Return the time of generating all sequences, to the end of the longest.

    Lengths are assumed to be spread as ``Pr(length > τ) = (1 - τ/max)^k`` with ``k = max/mean - 1``: mean and longest are the
    user's. While prompts wait, the batch is full; then it thins out with that probability.
    """
    batch = workload.batch
    mean, longest = batch.response_mean_tokens, batch.response_max_tokens
    k = longest / mean - 1
    sequences = -(-generated_sequences(workload) // choice.replicas)
    slots = max(min(space.slots, sequences), 1)
    step = _DecodeStep(model, choice, hardware, c)
    prefill = step.prefill_s(sequences * batch.prompt_tokens)
    full_steps = (sequences - slots) * mean / slots
    full = full_steps * step.seconds(slots, batch.prompt_tokens + longest / (k + 2))
    tail = 0.0
    for node, weight in _QUADRATURE:
        alive = max(slots * (1 - node) ** k, 1.0)
        tail += weight * longest * step.seconds(alive, batch.prompt_tokens + node * longest)
    bound = "prefill: compute" if prefill > full + tail else step.bound_by(slots, batch.prompt_tokens + longest / (k + 2))
    return Timed(prefill + full + tail, bound)


class _DecodeStep:
    """One decode step of an engine as a function of batch and context; linear in both but for MoE weights."""

    def __init__(self, model: Model, choice: RolloutChoice, hardware: Hardware, c: Constants) -> None:
        self.model, self.tp, self.hardware, self.c = model, choice.tp, hardware, c
        memory = hardware.memory_bytes_per_s
        self.per_weight_byte = 1 / (memory * c.memory_efficiency * choice.tp)
        self.per_kv_token = model.kv_bytes_per_token / min(choice.tp, model.kv_shards) / (memory * c.kv_read_efficiency)
        self.per_slot = 2 * model.active_parameters / choice.tp / (hardware.flops * c.matmul_efficiency)
        self.fixed = (c.decode_overhead_us + c.decode_overhead_us_per_layer * model.layers) * US

    def seconds(self, slots: float, context: float) -> float:
        """Return the time of one step of *slots* sequences with *context* tokens each."""
        weights, kv, compute, reduces = self._shares(slots, context)
        return weights + kv + compute + reduces + self.fixed

    def bound_by(self, slots: float, context: float) -> str:
        """Name the largest share of a step."""
        names = ("decode: reading weights", "decode: reading the KV cache", "decode: compute", "decode: TP all-reduce", "decode: engine overhead")
        shares = (*self._shares(slots, context), self.fixed)
        return names[shares.index(max(shares))]

    def prefill_s(self, tokens: float) -> float:
        """Return the time of passing *tokens* prompt tokens through the model."""
        reduces = 2 * self.model.layers * _tp_all_reduce_s(self.model, tokens, self.tp, self.hardware, self.c)
        return tokens * self.per_slot + reduces

    def _shares(self, slots: float, context: float) -> tuple[float, float, float, float]:
        model, c = self.model, self.c
        read = float(model.active_parameters)
        if model.experts:
            # Experts that at least one of the sequences uses have to be read.
            idle = (1 - model.experts_per_token / model.experts) ** slots
            read += (model.parameters - model.active_parameters) * (1 - idle)
        reduces = 0.0
        if self.tp > 1:
            bus = (self.hardware.block(self.tp) or 0.0) * c.ring_efficiency
            alpha = c.decode_alpha_us * US if self.hardware.is_block_nvlink(self.tp) else _alpha_s(self.tp, False, c)
            reduces = 2 * model.layers * (alpha + 2 * (self.tp - 1) / self.tp * 2 * slots * model.hidden / bus)
        return 2 * read * self.per_weight_byte, slots * context * self.per_kv_token, slots * self.per_slot, reduces
