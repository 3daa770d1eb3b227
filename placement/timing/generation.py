"""
Time of generation with its tail, seconds. Formulas and symbols: docs/model.md.

When to modify: how engines batch, or a term of a decode step.
"""

from __future__ import annotations

import math

from placement.choices.choices import RolloutChoice
from placement.choices.hardware import Hardware
from placement.constants.table import Constants
from placement.memory.engine_memory import EngineSpace, bytes_of_linear_weights, kv_bytes_per_token
from placement.models.model import Model
from placement.timing.collectives import US, all_reduce_alpha_s, small_all_reduce_s
from placement.timing.lengths import fullest_answers, mean_context, thinning
from placement.timing.passes import Timed, flops_per_token, over_block, timed, tp_all_reduce_s
from placement.workloads.dataflow import generated_sequences
from placement.workloads.workload import Schedule, Workload

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
    Return the time of generating all sequences of a step.

    Lengths spread as `placement.timing.lengths.thinning` says. While prompts wait all slots are busy; then the batch thins out,
    to the end of the longest answer, and the slowest engine is the one that has both that answer and the most tokens.
    Fully asynchronous generation has no such tail: its slots are always busy, and at every weight sync the sequences under
    way are computed anew with the new weights. Each part of a step is constant, or linear in the sequences or their
    contexts, so that the sum over all steps needs their totals alone: the steps, the tokens, and their mean context.
    """
    batch = workload.batch
    mean = batch.response_mean_tokens
    sequences = -(-generated_sequences(workload) // choice.replicas)
    slots = min(space.slots, sequences)
    context = mean_context(batch)
    prompts = _prompts_per_engine(workload, choice.replicas) * batch.prompt_tokens
    if workload.schedule is Schedule.ASYNC:
        tokens, tail = float(sequences * mean), 0
        full = tokens / slots
        computed = prompts + slots * context
        computed_context = context
    else:
        fullest = fullest_answers(batch, sequences, choice.replicas)
        tokens, tail = sequences * mean * fullest, batch.response_max_tokens
        full = (sequences - slots) * mean * fullest / slots
        computed, computed_context = prompts, batch.prompt_tokens
    steps = full + tail

    memory = hardware.memory_bytes_per_s
    flops = hardware.flops * c.matmul_efficiency * choice.tp
    read = steps * model.active_parameters
    if model.experts:
        read += (model.parameters - model.active_parameters) * _steps_reading_experts(
            model, slots, full, tail, thinning(batch)
        )
    # Of 8 bits are linear weights alone; products still run at the 16-bit rate, as no other is known of the cards.
    weights = 2 * read - (2 - bytes_of_linear_weights(choice)) * (read - steps * model.embedding_parameters)
    kv_bytes = kv_bytes_per_token(model, choice)
    start, reducing = _decode_all_reduce_s(model, choice.tp, hardware, c)
    return timed(
        [
            ("decode: reading weights", weights / choice.tp / (memory * c.memory_efficiency)),
            ("decode: reading the KV cache", tokens * context * kv_bytes / (memory * c.kv_read_efficiency)),
            ("decode: sampling", tokens * model.vocab * c.sampler_bytes_per_sequence_and_vocab / (memory * c.memory_efficiency)),
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
                computed * flops_per_token(model, computed_context, c) / flops
                + 2 * model.layers * tp_all_reduce_s(model, computed, choice.tp, hardware, c),
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
    start = c.decode_alpha_us * US if nvlink else all_reduce_alpha_s(tp, 0.0, nvlink=False, c=c)
    width = hardware.block(tp)
    assert width is not None
    return start, small_all_reduce_s(2 * model.hidden, tp, width, c)


def _steps_reading_experts(model: Model, slots: int, full: float, tail: int, k: float) -> float:
    """
    Return the steps, each weighted with the share of experts that at least one of its sequences uses.

    With b sequences that is ``1 - (1 - active/all experts)^b``; the tail is summed by the midpoint rule.
    """
    unused = 1 - model.experts_per_token / model.experts
    left = ((TAIL_POINTS - point - 0.5) / TAIL_POINTS for point in range(TAIL_POINTS))
    reading = sum(1 - math.pow(unused, slots * math.pow(share, k)) for share in left)
    return full * (1 - math.pow(unused, slots)) + tail * reading / TAIL_POINTS
