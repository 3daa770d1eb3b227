"""
Memory of one GPU for a generation engine, MiB, and how many sequences it holds. Formulas: docs/model.md, docs/model-variants.md.

When to modify: an engine divides its memory in another way.
"""

from __future__ import annotations

from dataclasses import dataclass

from placement.choices.batches import longest_tokens, mean_tokens
from placement.choices.choices import RolloutChoice
from placement.choices.footprints import Footprint, Piece, Pieces
from placement.choices.hardware import Hardware
from placement.constants.table import Constants
from placement.memory.gpu_memory import MIB
from placement.models.model import Model
from placement.workloads.dataflow import Work
from placement.workloads.workload import Batch, KvCache, Quantization


@dataclass(frozen=True, slots=True)
class EngineSpace:
    """
    How an engine divides what it claims on each GPU.

    Parameters
    ----------
    claim_mib
        ``gpu_memory_utilization`` × the total that torch sees.
    weights_mib, activation_mib
        Of it, weights; and intermediate values with NCCL's buffers.
    kv_mib
        What is left for the KV cache; negative when the claim is too small.
    slots
        Sequences that the engine decodes at a time; 0 when it would refuse to start.
    """

    claim_mib: float
    weights_mib: float
    activation_mib: float
    kv_mib: float
    slots: int


def engine_space(
    model: Model,
    choice: RolloutChoice,
    batch: Batch,
    hardware: Hardware,
    c: Constants,
    *,
    linear_bytes: float | None = None,
    adapters: float = 0.0,
) -> EngineSpace:
    """
    Return how the engine divides its claim.

    It starts only if the KV cache holds one sequence of the longest length. As many sequences run at a time
    as fit with their mean length: they have less on the way, and the rest is the room that saves engines from
    preempting sequences.

    Parameters
    ----------
    linear_bytes
        Bytes of a weight of the linear layers where an engine has others than its choice says; embeddings keep 16 bits.
    adapters
        Bytes of LoRA's adapters that stand beside the base; engines copy the first factor of each to all of their GPUs, and both are
        counted so.
    """
    claim = choice.gpu_memory_utilization * hardware.total_mib
    embeddings = model.embedding_parameters
    each = bytes_of_linear_weights(choice) if linear_bytes is None else linear_bytes
    weights = ((2 * embeddings + each * (model.parameters - embeddings)) / choice.tp + adapters) / MIB
    activation = _profiled(model, choice, c) / MIB
    nccl = {1: c.engine_nccl_mib_tp1, 2: c.engine_nccl_mib_tp2}.get(choice.tp, c.engine_nccl_mib_tp4)
    kv = claim - weights - activation - nccl
    per_token = kv_bytes_per_token(model, choice) / MIB
    starts = kv >= per_token * longest_tokens(batch)
    slots = min(choice.max_num_seqs, int(kv / (per_token * mean_tokens(batch)))) if starts else 0
    return EngineSpace(claim, weights, activation + nccl, kv, slots)


def bytes_of_linear_weights(choice: RolloutChoice) -> int:
    """
    Return the bytes of a weight of the linear layers: 1 where they have 8 bits.

    Their scales, 4 bytes for each block of 128 × 128 weights (DeepSeek-V3's form of fp8), are a four-thousandth of that and not counted.
    """
    return 1 if choice.quantization is Quantization.FP8 else 2


def kv_bytes_per_token(model: Model, choice: RolloutChoice) -> float:
    """Return the bytes that a token keeps in the cache of each GPU: TP cuts it by KV heads, of which each GPU has at least one."""
    each = model.kv_bytes_per_token / min(choice.tp, model.kv_shards)
    return each / 2 if choice.kv_cache is KvCache.FP8 else each


def _profiled(model: Model, choice: RolloutChoice, c: Constants) -> float:
    """
    Return the bytes of intermediate values that the engine sets aside: the peak of its profile run.

    That passes `Constants.engine_batched_tokens` through a layer (16 bits: gate, up and their product; the layer's input, output and
    residual, with experts once for each), then samples as many sequences as it may run (at most one for each of those tokens), each over
    the whole vocabulary.
    """
    passing = 2 * c.engine_batched_tokens * (3 * model.ffn / choice.tp + 3 * model.hidden * max(model.experts_per_token, 1))
    sequences = min(choice.max_num_seqs, c.engine_batched_tokens)
    sampling = c.engine_sampler_bytes_per_sequence_and_vocab * sequences * model.vocab
    return max(passing, sampling)


def rollout(space: EngineSpace, c: Constants, *, hybrid: bool, sleeps: bool = True) -> Footprint:
    """
    Return what a generation engine holds.

    CUDA context and graphs lie outside the claim and always stay. All of the claim must be free when the engine starts. The hybrid engine
    sleeps between its phases and wakes its weights first, to receive the new ones bucket by bucket; whether they waited in host memory
    (level 1, with LoRA) or were dropped (level 2) is the same to the GPU. An engine with GPUs of its own, and one that does not sleep,
    keeps all.

    Parameters
    ----------
    hybrid
        Whether the engine stands on the actor's GPUs: then a bucket passes from process to process, else two are in flight.
    """
    asleep: Pieces = {Piece.CONTEXT: c.engine_residual_mib}
    awake: Pieces = {
        **asleep,
        Piece.WEIGHTS: space.weights_mib,
        Piece.ENGINE: space.activation_mib,
        Piece.KV_CACHE: space.kv_mib,
    }
    if hybrid and sleeps:
        receiving = {**asleep, Piece.WEIGHTS: space.weights_mib, Piece.BUCKETS: c.sync_bucket_mib}
        return Footprint(asleep, {Work.GENERATE: awake, Work.SYNC_WEIGHTS: receiving}, awake)
    receiving = {**awake, Piece.BUCKETS: c.sync_bucket_mib * (1 if hybrid else 2)}
    return Footprint(awake, {Work.GENERATE: awake, Work.SYNC_WEIGHTS: receiving}, awake)
