"""
Time of generation with its tail, seconds. Formulas and symbols: docs/model.md, docs/model-variants.md.

When to modify: how engines batch, or a term of a decode step.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from placement.choices.choices import RolloutChoice
from placement.choices.eight_bits import linear_flops_per_token, saved_s
from placement.choices.hardware import Hardware
from placement.constants.table import Constants
from placement.memory.engine_memory import EngineSpace, bytes_of_linear_weights, kv_bytes_per_token
from placement.models.model import Model
from placement.timing.collectives import US, all_reduce_alpha_s, small_all_reduce_s
from placement.timing.lengths import fullest_answers, mean_context, thinning
from placement.timing.passes import Timed, flops_per_token, over_block, timed, tp_all_reduce_s
from placement.workloads.dataflow import generated_sequences
from placement.workloads.workload import Quantization, Schedule, Workload

NO_ROOM = "sequences fit the KV cache"
"""What a stage is bound by where the cache holds fewer sequences than the engine may run; in front of it stands how many of how many."""

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
    way are computed anew with the new weights. It keeps as many under way as are fastest (`_under_way`). Each part of a step is
    constant, or linear in the sequences or their contexts, so that the sum over all steps needs their totals alone: the steps, the
    tokens, and their mean context.

    Where the KV cache holds fewer sequences than the engine may run, the steps that this adds are a share of their own.
    """
    batch = workload.batch
    mean = batch.response_mean_tokens
    sequences = -(-generated_sequences(workload) // choice.replicas)
    allowed = min(choice.max_num_seqs, sequences)
    slots = min(space.slots, allowed)
    context = mean_context(batch)
    is_async = workload.schedule is Schedule.ASYNC
    fullest = 1.0 if is_async else fullest_answers(batch, sequences, choice.replicas)
    tokens = sequences * mean * fullest

    memory = hardware.memory_bytes_per_s
    flops = hardware.flops * c.matmul_efficiency * choice.tp
    saved = 0.0
    if choice.quantization is Quantization.FP8:
        saved = saved_s(linear_flops_per_token(model) / choice.tp, hardware, c)
    start, reducing = _decode_all_reduce_s(model, choice.tp, hardware, c)
    overhead = (c.decode_overhead_us + c.decode_overhead_us_per_layer * model.layers) * US

    def stepping(busy: int) -> tuple[float, float, float]:
        """Return what the steps take whatever is in them, with *busy* slots: reading weights, all-reduces' starts, overhead."""
        if is_async:
            full, tail = tokens / busy, 0
        else:
            full, tail = (sequences - busy) * mean * fullest / busy, batch.response_max_tokens
        steps = full + tail
        read = steps * model.active_parameters
        if model.experts:
            read += (model.parameters - model.active_parameters) * _steps_reading_experts(
                model, busy, full, tail, thinning(batch)
            )
        # Of 8 bits are linear weights alone, and, where the card multiplies them, the products with them.
        weights = 2 * read - (2 - bytes_of_linear_weights(choice)) * (read - steps * model.embedding_parameters)
        return weights / choice.tp / (memory * c.memory_efficiency), 2 * model.layers * steps * start, steps * overhead

    again = 0.0
    if is_async:
        # Contexts are put into the cache again in passes of `engine_batched_tokens`, each with its all-reduces.
        reduced = tp_all_reduce_s(model, c.engine_batched_tokens, choice.tp, hardware, c) / c.engine_batched_tokens
        again = context * (flops_per_token(model, context, c) / flops - saved + 2 * model.layers * reduced)
        slots, allowed = (_under_way(most, lambda busy: sum(stepping(busy)) + busy * again) for most in (slots, allowed))
    spent, (reading, starting, idling) = sum(stepping(slots)), stepping(allowed)
    computed = _prompts_per_engine(workload, choice.replicas) * batch.prompt_tokens
    return timed(
        [
            ("decode: reading weights", reading),
            ("decode: reading the KV cache", tokens * context * kv_bytes_per_token(model, choice) / (memory * c.kv_read_efficiency)),
            ("decode: sampling", tokens * model.vocab * c.sampler_bytes_per_sequence_and_vocab / (memory * c.memory_efficiency)),
            ("decode: compute", tokens * (2 * model.active_parameters / flops - saved)),
            (f"decode: {over_block(hardware, choice.tp)}", starting + 2 * model.layers * tokens * reducing),
            ("decode: engine overhead", idling),
            (f"decode: only {slots} of {allowed} {NO_ROOM}", spent - (reading + starting + idling)),
            (
                "prefill",
                computed * (flops_per_token(model, batch.prompt_tokens, c) / flops - saved)
                + 2 * model.layers * tp_all_reduce_s(model, computed, choice.tp, hardware, c),
            ),
            ("computing interrupted answers anew", slots * again),
        ]
    )


def _under_way(most: int, seconds: Callable[[int], float]) -> int:
    """
    Return how many sequences, at most *most*, fully asynchronous generation keeps under way: as many as are fastest.

    Those that run share the steps, and at the weight sync each is computed anew. Trainers bound how many they start (verl's
    ``max_concurrent_samples``, slime's pool of tasks in flight), so that an engine with more slots need not fill them.

    Parameters
    ----------
    seconds
        The time with so many under way. It is convex: the steps are ``tokens/b``, the share of experts that they read
        ``(1 - u^b)/b``, and what is computed anew is linear; so bisection finds the smallest of the best.
    """
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if seconds(middle) <= seconds(middle + 1) else (middle + 1, high)
    return low


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
