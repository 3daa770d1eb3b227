"""
Memory of one GPU for a generation engine, MiB, and how many sequences it holds. Formulas: docs/model.md.

When to modify: an engine divides its memory in another way.
"""

from __future__ import annotations

from dataclasses import dataclass

from placement.batches import longest_tokens, mean_tokens
from placement.choices import RolloutChoice
from placement.constants import Constants
from placement.dataflow import Work
from placement.hardware import Hardware
from placement.memory import MIB, Footprint
from placement.models import Model
from placement.workload import Batch


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
    linear_bytes: float = 2.0,
) -> EngineSpace:
    """
    Return how the engine divides its claim.

    It starts only if the KV cache holds one sequence of the longest length. As many sequences run at a time
    as fit with their mean length: they have less on the way, and the rest is the room that saves engines from
    preempting sequences.

    Parameters
    ----------
    linear_bytes
        Bytes of a weight of the linear layers: 1 where they have 8 bits. Embeddings keep 16 bits.
    """
    claim = choice.gpu_memory_utilization * hardware.total_mib
    embeddings = model.embedding_parameters
    weights = (2 * embeddings + linear_bytes * (model.parameters - embeddings)) / choice.tp / MIB
    activation = _profiled(model, choice, c) / MIB
    nccl = {1: c.engine_nccl_mib_tp1, 2: c.engine_nccl_mib_tp2}.get(choice.tp, c.engine_nccl_mib_tp4)
    kv = claim - weights - activation - nccl
    per_token = model.kv_bytes_per_token / min(choice.tp, model.kv_shards) / MIB
    starts = kv >= per_token * longest_tokens(batch)
    slots = min(choice.max_num_seqs, int(kv / (per_token * mean_tokens(batch)))) if starts else 0
    return EngineSpace(claim, weights, activation + nccl, kv, slots)


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


def rollout(space: EngineSpace, c: Constants, *, hybrid: bool) -> Footprint:
    """
    Return what a generation engine holds.

    CUDA context and graphs lie outside the claim and always stay. The hybrid engine sleeps between its phases
    and wakes its weights first, to receive the new ones bucket by bucket; an engine with GPUs of its own
    keeps all.
    """
    awake = c.engine_residual_mib + space.claim_mib
    if hybrid:
        receiving = c.engine_residual_mib + space.weights_mib + c.sync_bucket_mib
        return Footprint(c.engine_residual_mib, {Work.GENERATE: awake, Work.SYNC_WEIGHTS: receiving})
    return Footprint(awake, {Work.GENERATE: awake, Work.SYNC_WEIGHTS: awake + 2 * c.sync_bucket_mib})
