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
    model: Model, choice: RolloutChoice, batch: Batch, hardware: Hardware, c: Constants
) -> EngineSpace:
    """
    Return how the engine divides its claim.

    It starts only if the KV cache holds one sequence of the longest length. As many sequences run at a time
    as fit with their mean length: they have less on the way, and the rest is the room that saves engines from
    preempting sequences.
    """
    claim = choice.gpu_memory_utilization * hardware.total_mib
    weights = 2 * model.parameters / choice.tp / MIB
    activation = c.engine_activation_mib_moe if model.experts else c.engine_activation_mib_dense
    nccl = {1: c.engine_nccl_mib_tp1, 2: c.engine_nccl_mib_tp2}.get(choice.tp, c.engine_nccl_mib_tp4)
    kv = claim - weights - activation - nccl
    per_token = model.kv_bytes_per_token / min(choice.tp, model.kv_shards) / MIB
    starts = kv >= per_token * longest_tokens(batch)
    slots = min(choice.max_num_seqs, int(kv / (per_token * mean_tokens(batch)))) if starts else 0
    return EngineSpace(claim, weights, activation + nccl, kv, slots)


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
