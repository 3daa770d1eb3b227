"""
A Hugging Face `config.json` as a `Model`: parameters counted from the shapes, exact to the digit.

What families differ in stands in `placement.models.model_families`; `placement.models.model_shapes` counts. The tests compare counts with
published ones, and with the modules of the `transformers` library.

When to modify: a family has a block of another kind. One that only differs in biases, norms or experts is a row of `model_families`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, assert_never

from placement.errors import InputError
from placement.models import model_limits
from placement.models.model import KV_BYTES, Model, checked, head_width
from placement.models.model_families import FAMILIES, Biases, Experts, Family, QkNorm
from placement.models.model_files import check_weights, read_object
from placement.models.model_limits import shown
from placement.models.model_shapes import Shape


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
        is_mla = self.family.is_latent
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
    def model_type(self) -> str:
        """The family's name."""
        name = self.config.get("model_type")
        if not isinstance(name, str) or name not in FAMILIES:
            raise InputError(
                f"the model family (model_type) {shown(name)} is not known; known are {', '.join(FAMILIES)}. "
                "Give the model as numbers instead"
            )
        return name

    @property
    def family(self) -> Family:
        return FAMILIES[self.model_type]

    def shape(self) -> Shape:
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
        if family.is_latent:
            head_dim = self.integer("qk_nope_head_dim") + self.integer("qk_rope_head_dim")
            attention = self.latent_attention(hidden, heads)
        else:
            head_dim = self.integer("head_dim", None) or head_width(hidden, heads)
            attention = self.grouped_attention(hidden, heads, kv_heads, head_dim)
        return Shape(
            hidden=hidden,
            layers=layers,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            vocab=self.integer("vocab_size"),
            tied=self.flag("tie_word_embeddings", family.is_tied),
            dense_ffn=self.integer("intermediate_size"),
            attention=attention,
            norm=hidden * (2 if family.has_norm_bias else 1),
            norms=family.norms,
            matrices=family.matrices,
            ffn_bias=self.flag("mlp_bias", False) if family.has_ffn_bias is None else family.has_ffn_bias,
            head_bias=self.flag("lm_head_bias", False) if family.has_head_bias is None else family.has_head_bias,
            **self.experts(layers),
        )

    def grouped_attention(self, hidden: int, heads: int, kv_heads: int, head_dim: int) -> int:
        """Count one layer's attention with grouped KV heads."""
        family, width = self.family, (heads + 2 * kv_heads) * head_dim
        count = hidden * width + heads * head_dim * hidden + family.has_sinks * heads
        count += self.attention_biases(width, hidden)
        match family.qk_norm:
            case QkNorm.NONE:
                return count
            case QkNorm.HEAD:
                return count + 2 * head_dim
            case QkNorm.WIDTH:
                return count + (heads + kv_heads) * head_dim
            case QkNorm.USE_QK_NORM:
                return count + 2 * head_dim * self.flag("use_qk_norm", False)
            case QkNorm.QK_LAYERNORM:
                return count + 4 * head_dim * self.flag("qk_layernorm", False)
        assert_never(family.qk_norm)

    def attention_biases(self, width: int, hidden: int) -> int:
        """Count the biases of one layer's attention, whose queries, keys and values are *width* numbers."""
        match self.family.biases:
            case Biases.NEVER:
                return 0
            case Biases.QKV:
                return width
            case Biases.QKV_BIAS:
                return width * self.flag("qkv_bias", True)
            case Biases.ALL:
                return width + hidden
            case Biases.SWITCH:
                return (width + hidden) * self.flag("attention_bias", False)
            case Biases.SWITCH_QKV:
                return width * self.flag("attention_bias", False)
        assert_never(self.family.biases)

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
        if self.flag("attention_bias", False):
            count += (query_rank or 0) + latent + rope + hidden
        return count

    def experts(self, layers: int) -> dict[str, Any]:
        """Read which layers have experts, and how many."""
        family = self.family
        biases = {"router_bias": family.has_router_bias, "expert_bias": family.has_expert_bias}
        match family.experts:
            case Experts.NONE:
                return {}
            case Experts.EVERY_LAYER:
                width = self.integer("intermediate_size")
                return {"moe_layers": layers, "expert_ffn": width, **biases, **self.routing("num_local_experts")}
            case Experts.DEEPSEEK:
                width = self.integer("moe_intermediate_size")
                shared = self.integer("n_shared_experts", 0, least=0, most=model_limits.EXPERTS)
                first = self.integer("first_k_dense_replace", least=0, most=layers)
                step = self.integer("moe_layer_freq", 1)
                return {
                    "moe_layers": sum(layer % step == 0 for layer in range(first, layers)),
                    "expert_ffn": width,
                    "shared_ffn": width * shared,
                    **biases,
                    **self.routing("n_routed_experts"),
                }
            case Experts.QWEN:
                has_shared = self.model_type == "qwen2_moe"
                dense = self.layer_numbers("mlp_only_layers", layers)
                step = self.integer("decoder_sparse_step", 1)
                return {
                    "moe_layers": sum(layer not in dense and (layer + 1) % step == 0 for layer in range(layers)),
                    "expert_ffn": self.integer("moe_intermediate_size"),
                    "shared_ffn": self.integer("shared_expert_intermediate_size", 0, least=0) if has_shared else 0,
                    "shared_gate": has_shared,
                    **self.routing("num_experts"),
                }
        assert_never(family.experts)

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
            value = self.family.unstated.get(key)
        if value is None and default is not ...:
            return default
        if value is None:
            raise InputError(f"the configuration of a {self.model_type} model needs {key!r}")
        if not model_limits.is_count(value, least, most):
            raise InputError(f"{key} must be {model_limits.allowed(least, most)}, not {shown(value)}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Return a switch, or *default* where the key is absent or null."""
        value = self.config.get(key)
        if value is None:
            return bool(self.family.unstated.get(key, default))
        if not isinstance(value, bool):
            raise InputError(f"{key} must be true or false, not {shown(value)}")
        return value
