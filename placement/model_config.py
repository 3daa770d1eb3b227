"""
A Hugging Face `config.json` as a `Model`: parameters counted from the shapes, exact to the digit.

Families differ in few things: how attention is built (grouped heads, or DeepSeek's latent attention), which
projections have a bias, how many norms a layer has, and which layers have experts. `_Shape` holds these; a
family says only how its keys map to it. The formulas follow the module definitions of the `transformers`
library; the tests compare them with published counts.

When to modify: a new family (its `model_type`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placement import model_limits
from placement.errors import InputError
from placement.model_files import check_weights, read_object
from placement.model_limits import shown
from placement.models import KV_BYTES, Model, checked, head_width

_QKV_BIAS = ("qwen2", "qwen2_moe")
_QK_NORM = ("qwen3", "qwen3_moe", "gemma3_text")
_FOUR_NORMS = ("gemma2", "gemma3_text")
_TIED_UNLESS_SAID = ("gemma2", "gemma3_text")
_MLA = ("deepseek_v2", "deepseek_v3", "kimi_k2")
_MOE = ("qwen2_moe", "qwen3_moe", "mixtral", *_MLA)
_DENSE = ("llama", "qwen2", "qwen3", "mistral", "gemma2", "gemma3_text", "phi3")
_UNSTATED: Mapping[str, Mapping[str, int]] = {
    "gemma3_text": {
        "vocab_size": 262_208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131_072,
    },
}
"""What files of a family leave out because it is the default of the library."""

FAMILIES = (*_DENSE, *_MOE)
"""The values of `model_type` that are understood."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """What the count depends on; zeros where a family has no such thing."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool
    dense_ffn: int
    attention: int
    norms: int
    moe_layers: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0
    shared_gate: bool = False
    experts: int = 0
    experts_per_token: int = 0
    router_bias: bool = False

    @property
    def embeddings(self) -> int:
        return self.vocab * self.hidden * (1 if self.tied else 2)

    def parameters(self, experts: int) -> int:
        """Return the parameters when each expert layer counts *experts* of its routed experts."""
        always = (
            self.layers * (self.attention + self.norms) + self.embeddings + self.hidden
        )  # + the last norm
        dense = (self.layers - self.moe_layers) * 3 * self.hidden * self.dense_ffn
        router = self.experts * (self.hidden + self.router_bias) + self.shared_gate * self.hidden
        per_layer = router + 3 * self.hidden * (experts * self.expert_ffn + self.shared_ffn)
        return always + dense + self.moe_layers * per_layer


def read_config(path: Path, *, name: str) -> Model:
    """
    Read a `config.json`, or the one in a folder.

    Parameters
    ----------
    name
        The model's name: what the user wrote.

    Raises
    ------
    InputError
        If the file cannot be read, is no such configuration, is of a family that is not known, has numbers
        that no model has, or does not belong to the weights beside it.
    """
    file = path / "config.json" if path.is_dir() else path
    config = read_object(file)
    try:
        model = checked(_Reader(config).model(name))
    except InputError as error:
        raise InputError(str(error), where=str(file)) from None
    check_weights(config, file, model.parameters)
    return model


class _Reader:
    """Reads typed values from a configuration; says which key is wrong."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        # Models that also see pictures keep the language model under a key of its own.
        text = config.get("text_config")
        self.config: Mapping[str, Any] = (
            {"architectures": config.get("architectures"), **text} if isinstance(text, Mapping) else config
        )

    def model(self, name: str) -> Model:
        shape = self.shape()
        has_experts = shape.moe_layers > 0
        is_mla = self.family in _MLA
        latent = self.integer("kv_lora_rank") + self.integer("qk_rope_head_dim") if is_mla else 0
        kv_numbers = latent if is_mla else 2 * shape.kv_heads * shape.head_dim
        return Model(
            name=name,
            hidden=shape.hidden,
            layers=shape.layers,
            heads=shape.heads,
            kv_heads=shape.kv_heads,
            head_dim=shape.head_dim,
            ffn=shape.experts_per_token * shape.expert_ffn + shape.shared_ffn
            if has_experts
            else shape.dense_ffn,
            vocab=shape.vocab,
            parameters=shape.parameters(shape.experts),
            active_parameters=shape.parameters(shape.experts_per_token),
            embedding_parameters=shape.embeddings,
            kv_bytes_per_token=shape.layers * kv_numbers * KV_BYTES,
            kv_shards=1 if is_mla else shape.kv_heads,
            experts=shape.experts if has_experts else 0,
            experts_per_token=shape.experts_per_token if has_experts else 0,
            tie_embeddings=shape.tied,
            max_position=self.integer("max_position_embeddings", None, most=model_limits.POSITIONS),
        )

    @property
    def family(self) -> str:
        family = self.config.get("model_type")
        if family not in FAMILIES:
            raise InputError(
                f"the model family (model_type) {shown(family)} is not known; known are {', '.join(FAMILIES)}. "
                "Give the model as numbers instead"
            )
        return str(family)

    def shape(self) -> _Shape:
        family = self.family
        hidden = self.integer("hidden_size")
        layers = self.integer("num_hidden_layers", most=model_limits.LAYERS)
        heads = self.integer("num_attention_heads", most=model_limits.HEADS)
        kv_heads = self.integer("num_key_value_heads", heads, most=model_limits.HEADS)
        if heads % kv_heads:
            raise InputError(
                f"{heads} attention heads (num_attention_heads) cannot share {kv_heads} KV heads "
                "(num_key_value_heads) evenly"
            )
        norms = hidden * (4 if family in _FOUR_NORMS else 2)
        if family in _MLA:
            head_dim = self.integer("qk_nope_head_dim") + self.integer("qk_rope_head_dim")
            attention = self.latent_attention(hidden, heads)
        else:
            head_dim = self.integer("head_dim", None) or head_width(hidden, heads)
            bias = family in _QKV_BIAS or self.flag("attention_bias", False)
            attention = self.grouped_attention(hidden, heads, kv_heads, head_dim, qkv_bias=bias)
        return _Shape(
            hidden=hidden,
            layers=layers,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            vocab=self.integer("vocab_size"),
            tied=self.flag("tie_word_embeddings", family in _TIED_UNLESS_SAID),
            dense_ffn=self.integer("intermediate_size"),
            attention=attention,
            norms=norms,
            **(self.experts(layers) if family in _MOE else {}),
        )

    def grouped_attention(
        self, hidden: int, heads: int, kv_heads: int, head_dim: int, *, qkv_bias: bool
    ) -> int:
        """Count one layer's attention with grouped KV heads."""
        width = (heads + 2 * kv_heads) * head_dim
        count = hidden * width + heads * head_dim * hidden
        if qkv_bias:
            count += width
        if self.flag("attention_bias", False) and self.family == "llama":
            count += hidden  # Llama's switch gives the output projection a bias too
        if self.family in _QK_NORM:
            count += 2 * head_dim
        return count

    def latent_attention(self, hidden: int, heads: int) -> int:
        """Count one layer's multi-head latent attention (DeepSeek-V2 and later)."""
        nope, rope, value = (
            self.integer(key) for key in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        )
        latent: int = self.integer("kv_lora_rank")
        query_rank = self.integer("q_lora_rank", None)
        queries = heads * (nope + rope)
        count: int = hidden * queries
        if query_rank is not None:
            count = hidden * query_rank + query_rank + query_rank * queries
        count += hidden * (latent + rope) + latent + latent * heads * (nope + value) + heads * value * hidden
        return count

    def experts(self, layers: int) -> dict[str, Any]:
        """Read which layers have experts, and how many."""
        if self.family == "mixtral":
            return {
                "moe_layers": layers,
                "expert_ffn": self.integer("intermediate_size"),
                **self.routing("num_local_experts"),
            }
        width = self.integer("moe_intermediate_size")
        if self.family in _MLA:
            shared = self.integer("n_shared_experts", 0, least=0, most=model_limits.EXPERTS)
            first = self.integer("first_k_dense_replace", least=0, most=layers)
            step = self.integer("moe_layer_freq", 1)
            return {
                "moe_layers": sum(layer % step == 0 for layer in range(first, layers)),
                "expert_ffn": width,
                "shared_ffn": width * shared,
                # The correction that balances the load of the experts is stored with the weights since V3.
                "router_bias": self.family != "deepseek_v2",
                **self.routing("n_routed_experts"),
            }
        has_shared = self.family == "qwen2_moe"
        dense = self.layer_numbers("mlp_only_layers", layers)
        step = self.integer("decoder_sparse_step", 1)
        return {
            "moe_layers": sum(layer not in dense and (layer + 1) % step == 0 for layer in range(layers)),
            "expert_ffn": width,
            "shared_ffn": self.integer("shared_expert_intermediate_size", 0, least=0) if has_shared else 0,
            "shared_gate": has_shared,
            **self.routing("num_experts"),
        }

    def routing(self, key: str) -> dict[str, int]:
        """Read how many experts a layer has, under the family's *key*, and how many a token passes."""
        experts = self.integer(key, most=model_limits.EXPERTS)
        used = self.integer("num_experts_per_tok", most=model_limits.EXPERTS)
        if used > experts:
            raise InputError(
                f"num_experts_per_tok must be {model_limits.allowed(1, experts)}, the value of {key}, not {used:,}"
            )
        return {"experts": experts, "experts_per_token": used}

    def layer_numbers(self, key: str, layers: int) -> frozenset[int]:
        """Return the layers that *key* lists, counted from 0; none where it is absent or null."""
        value = self.config.get(key)
        if value is None:
            return frozenset()
        if not isinstance(value, list):
            raise InputError(f"{key} must be a list of layers, not {shown(value)}")
        for layer in value:
            if not model_limits.is_count(layer, 0, layers - 1):
                raise InputError(f"{key} lists {shown(layer)}: a layer is {model_limits.allowed(0, layers - 1)}")
        return frozenset(value)

    def integer(self, key: str, default: Any = ..., *, least: int = 1, most: int = model_limits.WIDTH) -> Any:
        """Return a whole number, or *default* where the key is absent or null."""
        value = self.config.get(key)
        if value is None:
            value = _UNSTATED.get(self.family, {}).get(key)
        if value is None and default is not ...:
            return default
        if value is None:
            raise InputError(f"the configuration of a {self.family} model needs {key!r}")
        if not model_limits.is_count(value, least, most):
            raise InputError(f"{key} must be {model_limits.allowed(least, most)}, not {shown(value)}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Return a switch, or *default* where the key is absent or null."""
        value = self.config.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise InputError(f"{key} must be true or false, not {shown(value)}")
        return value
