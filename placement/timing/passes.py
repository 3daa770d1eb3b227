"""
Time in which a step's tokens pass through a model in micro-batches, seconds. Formulas and symbols:
docs/model.md, docs/model-variants.md.

Forward passes and training differ in what a micro-batch does (`MicroBatch`), not in how it is done.

When to modify: what FSDP, TP or PP cost in every micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter

from placement.choices.batches import Cut
from placement.choices.choices import FrozenChoice, TrainChoice
from placement.choices.eight_bits import saved_s
from placement.choices.hardware import Hardware
from placement.constants.table import Constants
from placement.models.model import Model
from placement.timing.collectives import all_reduce_s, reduces_in_switch
from placement.timing.exchanges import (
    expert_exchange_s,
    gb,
    over_experts,
    over_sequences,
    sequence_exchange_s,
    side_by_side_s,
)
from placement.workloads.workload import Engine

Share = tuple[str, float]
"""A part of a time: what it is spent on, and seconds."""

COMPUTE = "compute"
BUBBLE = "pipeline bubble"
OFFLOAD = "copies to and from host memory (offload)"


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds, and what bounds them in words."""

    seconds: float
    bound_by: str


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """
    What a micro-batch does.

    Parameters
    ----------
    flops_per_token
        Over the whole model.
    mfu
        Share of the peak rate at which they run; of a dense model on the card of `Constants.mfu_flops_per_byte`.
    reduces
        TP all-reduces in every layer.
    gathers, scattered
        FSDP: all-gathers of the parameters, and bytes of gradients (of the whole model) that are reduced and
        scattered.
    streamed
        FSDP: bytes that every GPU exchanges with host memory.
    crossings
        How often the activations of a layer pass between ranks that share sequences or experts: forward, backward, and where the forward
        pass is computed again.
    in_8_bits
        FLOP per token, of all, that are products of 8-bit floats.
    """

    flops_per_token: float
    mfu: float
    reduces: int
    gathers: int
    scattered: float = 0.0
    streamed: float = 0.0
    crossings: int = 1
    in_8_bits: float = 0.0


def timed(shares: Iterable[Share]) -> Timed:
    """Return the sum of *shares*, bound by the largest (the first of equals)."""
    listed = tuple(shares)
    return Timed(sum(seconds for _, seconds in listed), max(listed, key=itemgetter(1))[0])


def passes(
    engine: Engine,
    model: Model,
    choice: TrainChoice | FrozenChoice,
    cut: Cut,
    each: MicroBatch,
    hardware: Hardware,
    c: Constants,
) -> list[Share]:
    """
    Return what the time is spent on when a rank's share of the tokens passes through the model.

    FSDP gathers parameters, scatters gradients and fetches what is streamed in every micro-batch, behind the
    compute as far as that lasts; only the first layer's gather has nothing to hide behind. Pipelines of p
    stages and m micro-batches idle for (p - 1)/m of their work, in every update anew.
    """
    count = cut.updates * cut.micro_batches
    # What mixtures of experts lose is small products and exchanges between them, on every card alike.
    share = each.mfu if model.experts else mfu(each.mfu, hardware, c)
    rate = hardware.flops * share * choice.tp * choice.pp * choice.sp
    compute = each.flops_per_token * cut.tokens * count / rate
    if each.in_8_bits:
        compute -= saved_s(each.in_8_bits * cut.tokens * count / (choice.tp * choice.pp * choice.sp), hardware, c)
    layers = model.layers / choice.pp * count
    reducing = each.reduces * layers * tp_all_reduce_s(model, cut.tokens / choice.sp, choice.tp, hardware, c)
    sequences = each.crossings * layers * sequence_exchange_s(model, cut.tokens, choice, hardware, c)
    experts = each.crossings * layers * expert_exchange_s(model, cut.tokens, choice, hardware, c)
    bubble = (compute + reducing + sequences + experts) * (choice.pp - 1) / cut.micro_batches
    busy = compute + reducing + sequences + experts + bubble
    shares = [(COMPUTE, compute), (over_block(hardware, choice.tp), reducing), (BUBBLE, bubble)]
    if choice.sp > 1:
        shares.append((over_sequences(hardware, choice), sequences))
    if choice.ep > 1:
        shares.append((over_experts(hardware), experts))
    if engine is not Engine.FSDP:
        return shares
    gather = data_parallel_s(2 * model.parameters, choice, hardware, c) if each.gathers else 0.0
    scatter = data_parallel_s(each.scattered, choice, hardware, c) if each.scattered else 0.0
    network = count * (each.gathers * gather + scatter)
    host = count * each.streamed / hardware.host_bytes_per_s
    exposed = count * gather / model.layers
    passing = "parameter all-gather" if each.gathers else "gradient reduce-scatter"
    over_ring = f"{passing} over {gb(hardware.ring_bytes_per_s)}"
    if network + host <= busy:
        return [*shares, (over_ring, exposed)]
    return [(over_ring if network >= host else OFFLOAD, network + host + exposed)]


def mfu(reference: float, hardware: Hardware, c: Constants) -> float:
    """
    Return the share of peak on this card that is *reference* on the card of `Constants.mfu_flops_per_byte`.

    Matrix products take ``1/matmul_efficiency`` of the ideal time; the rest is memory traffic, which takes more of it the more
    FLOP a card has for each byte of its memory's bandwidth.
    """
    matmul = 1 / c.matmul_efficiency
    traffic = max(1 / reference - matmul, 0.0)
    return 1 / (matmul + traffic * hardware.flops / hardware.memory_bytes_per_s / c.mfu_flops_per_byte)


def flops_per_token(model: Model, context: float, c: Constants) -> float:
    """
    Return the FLOP of a forward pass per token: ``2 · P_act``, and attention over *context* tokens.

    Causal masking leaves half of them: ``2 · L · heads · head_dim · context``. They run slower than matrix products, for which
    they count `Constants.attention_weight` times.
    """
    attention = model.layers * model.heads * model.head_dim * context
    return 2 * (model.active_parameters + c.attention_weight * attention)


def tp_all_reduce_s(model: Model, tokens: float, tp: int, hardware: Hardware, c: Constants) -> float:
    """Return one all-reduce of a layer's 16-bit output over the TP blocks; 0 without tensor parallelism."""
    width = hardware.block(tp)
    assert width is not None
    size = 2 * tokens * model.hidden
    return all_reduce_s(
        size,
        tp,
        width,
        nvlink=hardware.is_block_nvlink(tp),
        c=c,
        in_switch=reduces_in_switch(hardware.compute_capability, tp),
        memory_bytes_per_s=hardware.memory_bytes_per_s,
    )


def over_block(hardware: Hardware, tp: int) -> str:
    """Return what TP all-reduces are called, with the bandwidth of their block."""
    return f"TP all-reduce over {gb(hardware.block(tp) or 0.0)}"


def data_parallel_s(
    size: float, choice: TrainChoice | FrozenChoice, hardware: Hardware, c: Constants
) -> float:
    """
    Return an all-gather or reduce-scatter over the data-parallel ranks, of a model of *size* bytes in all.

    Every position in the grid of TP and PP has a ring of its own with its share of the bytes, all at once.
    """
    return side_by_side_s(size, choice.tp * choice.pp, choice.shards, hardware, c)
