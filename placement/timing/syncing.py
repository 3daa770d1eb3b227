"""
Time in which data-parallel ranks that each hold all weights agree on an update, seconds. Formulas and symbols: docs/model-variants.md.

Fully sharded weights need none: gradients are scattered, and weights gathered, in every micro-batch (`placement.timing.passes`).

When to modify: an engine synchronises its gradients in another way.
"""

from __future__ import annotations

from placement.choices.choices import TrainChoice
from placement.choices.hardware import Hardware
from placement.constants.table import Constants
from placement.memory.states import bytes_per_parameter, trained_experts, trained_parameters
from placement.models.model import Model
from placement.timing.exchanges import side_by_side_s
from placement.workloads.workload import Engine, Role


def gradient_sync(role: Role, model: Model, choice: TrainChoice, hardware: Hardware, c: Constants) -> float:
    """
    Return the time of one update's sync.

    Bytes for each trained parameter that pass every rank's link, times (n-1)/n:

    * Megatron with the distributed optimizer: gradients reduced and scattered in fp32, weights gathered in 16 bits: 4 + 2;
    * without it: gradients all-reduced in fp32: 4 + 4;
    * ZeRO stage 1: 16-bit gradients scattered, weights gathered: 2 + 2; in stage 2 gradients are scattered before: 2.

    Experts are synchronised among the ``dp/ep`` ranks that hold the same ones.
    """
    assert role.train is not None
    if role.engine is Engine.FSDP:
        each = 2 + (bytes_per_parameter(role.engine, choice)[1] if choice.zero == 1 else 0)
    else:
        each = 6 if role.train.distributed_optimizer else 8
    experts = trained_experts(role, model) if choice.ep > 1 else 0
    others = trained_parameters(role, model) - experts
    blocks = choice.tp * choice.pp
    time = side_by_side_s(each * others, blocks, choice.shards, hardware, c)
    if experts:
        time += side_by_side_s(each * experts, blocks * choice.ep, choice.shards // choice.ep, hardware, c)
    return time
