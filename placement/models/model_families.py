"""
In what families of models differ, as data: biases, norms, the feed-forward block, where experts are and what files leave out.

Each row follows the module definition of its family in the `transformers` library (release 5.24, `models/*/modeling_*.py`); the tests
compare all of them with those modules, built without memory.

When to modify: a new family (its `model_type`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto


class Biases(Enum):
    """Which projections of attention have a bias."""

    NEVER = auto()
    QKV = auto()
    ALL = auto()
    SWITCH = auto()
    """``attention_bias`` gives it to all four."""
    SWITCH_QKV = auto()
    """``attention_bias`` gives it to query, key and value."""
    QKV_BIAS = auto()
    """Query, key and value, unless ``qkv_bias`` takes it away."""


class QkNorm(Enum):
    """What norms of queries and keys are over."""

    NONE = auto()
    HEAD = auto()
    WIDTH = auto()
    USE_QK_NORM = auto()
    """``use_qk_norm`` turns norms over a head on."""
    QK_LAYERNORM = auto()
    """``qk_layernorm`` turns norms over a head on, which have a bias."""


class Experts(Enum):
    """How a configuration tells its experts."""

    NONE = auto()
    EVERY_LAYER = auto()
    """``num_local_experts``, of the width of ``intermediate_size``, in every layer."""
    QWEN = auto()
    """``num_experts``, but for ``mlp_only_layers`` and what ``decoder_sparse_step`` leaves out."""
    DEEPSEEK = auto()
    """``n_routed_experts`` beside ``n_shared_experts``, from layer ``first_k_dense_replace`` on."""


@dataclass(frozen=True, slots=True)
class Family:
    """
    What a family's module definition fixes.

    Parameters
    ----------
    norms
        Norms of a layer, over its width; the last norm comes beside them.
    has_norm_bias
        Whether they have a bias (LayerNorm) beside the weight.
    matrices
        Of the feed-forward block: three with a gate, else two.
    has_ffn_bias
        Whether each of them has a bias; None if ``mlp_bias`` says so.
    has_head_bias
        Whether the output head has one; None if ``lm_head_bias`` says so.
    has_sinks
        Whether each head has one number more, to which attention can go.
    has_router_bias, has_expert_bias
        Of experts.
    is_latent
        Multi-head latent attention (DeepSeek-V2).
    is_tied
        Whether input embedding and output head are one matrix unless the file says otherwise.
    unstated
        What files leave out because it is the default of the library.
    """

    biases: Biases = Biases.SWITCH
    qk_norm: QkNorm = QkNorm.NONE
    norms: int = 2
    has_norm_bias: bool = False
    matrices: int = 3
    has_ffn_bias: bool | None = False
    has_head_bias: bool | None = False
    has_sinks: bool = False
    experts: Experts = Experts.NONE
    has_router_bias: bool = False
    has_expert_bias: bool = False
    is_latent: bool = False
    is_tied: bool = False
    unstated: Mapping[str, int | bool] = field(default_factory=dict)


_GEMMA_3 = {
    "vocab_size": 262_208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 131_072,
}

FAMILIES: Mapping[str, Family] = {
    "llama": Family(has_ffn_bias=None),
    "qwen2": Family(Biases.QKV),
    "qwen3": Family(qk_norm=QkNorm.HEAD, unstated={"head_dim": 128}),
    "mistral": Family(Biases.NEVER),
    "gemma": Family(is_tied=True, unstated={"head_dim": 256}),
    "gemma2": Family(norms=4, is_tied=True, unstated={"head_dim": 256}),
    "gemma3_text": Family(qk_norm=QkNorm.HEAD, norms=4, is_tied=True, unstated=_GEMMA_3),
    "phi": Family(
        Biases.ALL, QkNorm.QK_LAYERNORM, norms=1, has_norm_bias=True, matrices=2, has_ffn_bias=True, has_head_bias=True,
    ),
    "phi3": Family(Biases.NEVER),
    "olmo2": Family(qk_norm=QkNorm.WIDTH),
    "granite": Family(has_ffn_bias=None),
    "glm4": Family(Biases.SWITCH_QKV, norms=4, unstated={"head_dim": 128, "attention_bias": True}),
    "qwen2_moe": Family(Biases.QKV_BIAS, experts=Experts.QWEN),
    "qwen3_moe": Family(qk_norm=QkNorm.HEAD, experts=Experts.QWEN),
    "mixtral": Family(Biases.NEVER, experts=Experts.EVERY_LAYER),
    "phimoe": Family(has_norm_bias=True, has_head_bias=None, experts=Experts.EVERY_LAYER),
    "gpt_oss": Family(
        has_sinks=True, experts=Experts.EVERY_LAYER, has_router_bias=True, has_expert_bias=True,
        unstated={"head_dim": 64, "attention_bias": True},
    ),
    "glm4_moe": Family(Biases.SWITCH_QKV, QkNorm.USE_QK_NORM, experts=Experts.DEEPSEEK, has_router_bias=True),
    "deepseek_v2": Family(experts=Experts.DEEPSEEK, is_latent=True),
    # The correction that balances the load of the experts is stored with the weights since V3.
    "deepseek_v3": Family(experts=Experts.DEEPSEEK, has_router_bias=True, is_latent=True),
    "kimi_k2": Family(experts=Experts.DEEPSEEK, has_router_bias=True, is_latent=True),
}
"""The values of ``model_type`` that are understood."""
