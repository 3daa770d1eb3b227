"""
Time of generation with its tail, seconds. Formulas and symbols: docs/model.md.

When to modify: how engines batch, or a term of a decode step.
"""

from __future__ import annotations

import math

from placement.choices import RolloutChoice
from placement.collectives import US, alpha_s, small_all_reduce_s
from placement.constants import Constants
from placement.dataflow import generated_sequences
from placement.engine_memory import EngineSpace
from placement.hardware import Hardware
from placement.models import Model
from placement.passes import Timed, flops_per_token, over_block, timed, tp_all_reduce_s
from placement.workload import Workload

TAIL_POINTS = 32
"""Points of the midpoint rule for the tail of a mixture of experts; all else has a closed form."""


def generate(
    model: Model,
    choice: RolloutChoice,
    space: EngineSpace,
    workload: Workload,
    hardware: Hardware,
    c: Constants,
) -> Timed:
    """
    Return the time of generating all sequences, to the end of the longest.

    Lengths are assumed to spread as ``Pr(length > τ) = (1 - τ/max)^k`` with ``k = max/mean - 1``: mean and
    longest are the user's, and the longest does occur. While prompts wait all slots are busy; then the batch
    thins out with that probability. Each part of a step is constant, or linear in the sequences or their
    contexts, so that the sum over all steps needs their totals alone: the steps, the tokens, and ``prompt +
    max/(k + 2)``, the mean context of a token.
    """
    batch = workload.batch
    mean, longest = batch.response_mean_tokens, batch.response_max_tokens
    k = longest / mean - 1
    sequences = -(-generated_sequences(workload) // choice.replicas)
    slots = min(space.slots, sequences)
    full = (sequences - slots) * mean / slots
    steps, tokens = full + longest, sequences * mean
    context = batch.prompt_tokens + longest / (k + 2)

    memory = hardware.memory_bytes_per_s
    flops = hardware.flops * c.matmul_efficiency * choice.tp
    read = steps * model.active_parameters
    if model.experts:
        read += (model.parameters - model.active_parameters) * _steps_reading_experts(
            model, slots, full, longest, k
        )
    kv_bytes = model.kv_bytes_per_token / min(choice.tp, model.kv_shards)
    prompts = _prompts_per_engine(workload, choice.replicas) * batch.prompt_tokens
    start, reducing = _decode_all_reduce_s(model, choice.tp, hardware, c)
    return timed(
        [
            ("decode: reading weights", 2 * read / choice.tp / (memory * c.memory_efficiency)),
            ("decode: reading the KV cache", tokens * context * kv_bytes / (memory * c.kv_read_efficiency)),
            ("decode: compute", tokens * 2 * model.active_parameters / flops),
            (
                f"decode: {over_block(hardware, choice.tp)}",
                2 * model.layers * (steps * start + tokens * reducing),
            ),
            (
                "decode: engine overhead",
                steps * (c.decode_overhead_us + c.decode_overhead_us_per_layer * model.layers) * US,
            ),
            (
                "prefill",
                prompts * flops_per_token(model, batch.prompt_tokens, c) / flops
                + 2 * model.layers * tp_all_reduce_s(model, prompts, choice.tp, hardware, c),
            ),
        ]
    )


def _prompts_per_engine(workload: Workload, replicas: int) -> float:
    """
    Return how many different prompts an engine sees: those it has in its prefix cache are not computed again.

    Samples of a prompt go to engines regardless of each other, as the load balancers of engines send them.
    """
    samples = generated_sequences(workload) // workload.batch.prompts
    return workload.batch.prompts * (1 - (1 - 1 / replicas) ** samples)


def _decode_all_reduce_s(model: Model, tp: int, hardware: Hardware, c: Constants) -> tuple[float, float]:
    """
    Return one all-reduce of a decode step: its start, and what each sequence adds.

    Over NVLink engines use an all-reduce of their own for such small messages, which starts faster than
    NCCL's.
    """
    if tp == 1:
        return 0.0, 0.0
    nvlink = hardware.is_block_nvlink(tp)
    start = c.decode_alpha_us * US if nvlink else alpha_s(tp, 0.0, nvlink=False, c=c)
    width = hardware.block(tp)
    assert width is not None
    return start, small_all_reduce_s(2 * model.hidden, tp, width, c)


def _steps_reading_experts(model: Model, slots: int, full: float, longest: int, k: float) -> float:
    """
    Return the steps, each weighted with the share of experts that at least one of its sequences uses.

    With b sequences that is ``1 - (1 - active/all experts)^b``; the tail is summed by the midpoint rule.
    """
    unused = 1 - model.experts_per_token / model.experts
    left = ((TAIL_POINTS - point - 0.5) / TAIL_POINTS for point in range(TAIL_POINTS))
    tail = sum(1 - math.pow(unused, slots * math.pow(share, k)) for share in left)
    return full * (1 - math.pow(unused, slots)) + longest * tail / TAIL_POINTS
