"""Configurations of known models in the words of their families, for the tests (imported by name, see pyproject)."""

from __future__ import annotations

import json
from pathlib import Path

import placement

RECORDS = json.loads((Path(placement.__path__[0]) / "data" / "models.json").read_text(encoding="utf-8"))[
    "models"
]


SMALL = json.loads((Path(__file__).parents[1] / "data" / "model_families.json").read_text(encoding="utf-8"))["models"]
"""Small models of every family, with what the real modules have: id, config, parameters."""

QWEN2_MOE = {
    "model_type": "qwen2_moe",
    "hidden_size": 2048,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "intermediate_size": 5632,
    "moe_intermediate_size": 1408,
    "shared_expert_intermediate_size": 5632,
    "num_experts": 60,
    "num_experts_per_tok": 4,
    "vocab_size": 151936,
    "decoder_sparse_step": 1,
}
"""Qwen1.5-MoE-A2.7B: the catalogue has none of its family."""


def config_of(record):
    """Return a record of the catalogue in the words of its family's config.json."""
    name = record["model"].lower()
    config = {
        "hidden_size": record["hidden"],
        "num_hidden_layers": record["layers"],
        "num_attention_heads": record["heads"],
        "num_key_value_heads": record["kv_heads"],
        "intermediate_size": record["ffn"] or record["moe_ffn"],
        "vocab_size": record["vocab"],
        "tie_word_embeddings": record["tie_embeddings"],
        "max_position_embeddings": record["max_position"],
    }
    if "head_dim" in record:
        config["head_dim"] = record["head_dim"]
    if "mixtral" in name:
        config |= {"num_local_experts": record["experts"], "num_experts_per_tok": record["experts_per_token"]}
    elif record["family"] == "moe":
        if record["shared_experts"]:
            config["shared_expert_intermediate_size"] = record["shared_experts"] * record["moe_ffn"]
        config |= {"moe_intermediate_size": record["moe_ffn"], "num_experts": record["experts"]}
        config |= {
            "num_experts_per_tok": record["experts_per_token"],
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
        }
    elif record["family"] == "moe-mla":
        config |= {
            key: record[key]
            for key in ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        }
        config |= {"moe_intermediate_size": record["moe_ffn"], "n_routed_experts": record["experts"]}
        config |= {
            "n_shared_experts": record["shared_experts"],
            "first_k_dense_replace": record["dense_layers"],
        }
        config |= {"num_experts_per_tok": record["experts_per_token"]}
    families = {
        "qwen1.5-moe": "qwen2_moe",
        "qwen2-57b": "qwen2_moe",
        "qwen3-coder": "qwen3_moe",
        "qwen1.5": "qwen2",
        "mixtral": "mixtral",
        "mistral": "mistral",
        "qwen2.5": "qwen2",
        "qwen3-30b": "qwen3_moe",
        "qwen3-235b": "qwen3_moe",
        "qwen3": "qwen3",
        "gemma-2-": "gemma2",
        "gemma-3": "gemma3_text",
        "gemma": "gemma",
        "phi": "phi3",
        "deepseek-v2": "deepseek_v2",
        "deepseek-v3": "deepseek_v3",
        "kimi": "kimi_k2",
        "olmo-2": "olmo2",
        **dict.fromkeys(("llama", "yi-", "deepseek-coder", "deepseek-llm", "smollm"), "llama"),
    }
    config["model_type"] = next(family for part, family in families.items() if part in name)
    return config


def written(tmp_path, config):
    """Write *config* as a config.json and return its path."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return path
