"""
Weights, gradients and optimizer state of a role on each GPU, bytes. Formulas and symbols: docs/model.md, docs/model-variants.md.

When to modify: an engine keeps its state in another precision, or spreads it in another way.
"""

from __future__ import annotations

from dataclasses import dataclass

from placement.choices.choices import FrozenChoice, TrainChoice
from placement.models.model import Model
from placement.workloads.workload import Engine, Master, Offload, Role, TrainMenu

BYTES_PER_PARAMETER = {
    # (weights, gradients, optimizer); Adam keeps two moments.
    # FSDP: all of it in the master's precision: 16 bytes in fp32 (verl's default), 8 in bf16.
    (Engine.FSDP, Master.FP32): (4, 4, 8),
    (Engine.FSDP, Master.BF16): (2, 2, 4),
    # Megatron: bf16 weights, fp32 gradients, the optimizer has fp32 weights and moments: 18 (Megatron-LM at
    # d98e8a64). Its precision-aware optimizer keeps gradients, master and moments in 16 bits.
    (Engine.MEGATRON, Master.FP32): (2, 4, 12),
    (Engine.MEGATRON, Master.BF16): (2, 2, 6),
}

BYTES_BEFORE_FULL_SHARDING = {
    # ZeRO stages 1 and 2 (Rajbhandari et al. 2020, section 5): 16-bit weights and gradients; the optimizer has the fp32 weights
    # beside its moments. With a 16-bit master the weights are the master.
    Master.FP32: (2, 2, 12),
    Master.BF16: (2, 2, 4),
}

FULL_SHARDING = 3
"""The ZeRO stage that spreads weights too."""


@dataclass(frozen=True, slots=True)
class State:
    """
    Bytes of a trained role's state on each GPU.

    Parameters
    ----------
    weights
        All weights, frozen ones (LoRA) included.
    trained
        Those that the optimizer changes.
    gradients, optimizer
        Of the trained weights.
    """

    weights: float
    trained: float
    gradients: float
    optimizer: float


def trained_parameters(role: Role, model: Model) -> float:
    """Return how many parameters *role* trains: all, or those of its LoRA adapters on all linear layers."""
    assert role.train is not None
    return adapter_parameters(model, role.train.lora) if role.train.lora else model.parameters


def adapter_parameters(model: Model, rank: int) -> int:
    """Return the parameters of LoRA adapters of *rank* on all linear layers."""
    query, key = model.heads * model.head_dim, model.kv_heads * model.head_dim
    # An adapter of rank r on a matrix (a, b) has r · (a + b) parameters: query and output, key and value,
    # three of the FFN.
    per_layer = 2 * (model.hidden + query) + 2 * (model.hidden + key) + 3 * (model.hidden + model.ffn)
    return rank * per_layer * model.layers


def trained_experts(role: Role, model: Model) -> int:
    """Return how many of the trained parameters are of experts; adapters of LoRA are not spread with them."""
    assert role.train is not None
    return 0 if role.train.lora else model.expert_parameters


def bytes_per_parameter(engine: Engine, choice: TrainChoice) -> tuple[int, int, int]:
    """Return the bytes of weights, gradients and optimizer state for each parameter, before they are spread."""
    if engine is Engine.FSDP and choice.zero < FULL_SHARDING:
        return BYTES_BEFORE_FULL_SHARDING[choice.master]
    return BYTES_PER_PARAMETER[engine, choice.master]


def state(role: Role, model: Model, choice: TrainChoice) -> State:
    """
    Return weights, gradients and optimizer state on each GPU.

    FSDP spreads over all ranks of a TP position what its ZeRO stage says. Megatron's distributed optimizer spreads its own state alone,
    over data-parallel ranks; expert parallelism leaves each rank ``1/ep`` of the experts.
    """
    assert role.train is not None
    weights, gradients, optimizer = bytes_per_parameter(role.engine, choice)
    trained = trained_parameters(role, model)
    blocks = choice.tp * choice.pp
    # Frozen weights (LoRA) stand beside the trained ones; both are cut alike.
    frozen = _frozen_bytes(role.train, model, weights) if role.train.lora else 0.0
    if role.engine is Engine.FSDP:
        over = blocks * choice.shards
        of_weights = over if choice.zero >= FULL_SHARDING else blocks
        of_gradients = over if choice.zero >= 2 else blocks
        return State(
            weights=(frozen + weights * trained) / of_weights,
            trained=weights * trained / of_weights,
            gradients=gradients * trained / of_gradients,
            optimizer=optimizer * trained / over,
        )
    own = _without_others_experts(trained, trained_experts(role, model), choice.ep)
    frozen = frozen * _without_others_experts(model.parameters, model.expert_parameters, choice.ep) / model.parameters
    spread = trained / (blocks * choice.dp) if role.train.distributed_optimizer else own / blocks
    return State(
        weights=(frozen + weights * own) / blocks,
        trained=weights * own / blocks,
        gradients=gradients * own / blocks,
        optimizer=optimizer * spread,
    )


def frozen_weights(role: Role, model: Model, choice: FrozenChoice) -> float:
    """Return the bytes of a frozen role's 16-bit weights on each GPU."""
    blocks = choice.tp * choice.pp
    if role.engine is Engine.FSDP:
        return 2 * model.parameters / (blocks * choice.shards)
    return 2 * _without_others_experts(model.parameters, model.expert_parameters, choice.ep) / blocks


def is_streamed(engine: Engine, offload: Offload, zero: int = FULL_SHARDING) -> bool:
    """Whether layers come from host memory one by one, as with FSDP's CPU offload of fully sharded weights."""
    return engine is Engine.FSDP and offload is Offload.ALWAYS and zero >= FULL_SHARDING


def _without_others_experts(parameters: float, experts: int, ep: int) -> float:
    """Return the parameters that a rank keeps where *ep* of them share the experts."""
    return parameters - experts + experts / ep


def _frozen_bytes(train: TrainMenu, model: Model, weights: int) -> float:
    """Return the bytes of all weights that LoRA leaves as they are; embeddings keep 16 bits where others have fewer."""
    if train.frozen_bytes is None:
        return float(weights * model.parameters)
    return 2 * model.embedding_parameters + train.frozen_bytes * (model.parameters - model.embedding_parameters)
