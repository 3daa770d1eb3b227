"""
Published relatives of the models of the catalogue: the same shapes under another name, or other bytes for the same weights.

Shapes are those of the ``config.json`` that each of them is published with.

When to modify: a family has another relative, or weights are shipped in another format.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping

from placement.constants.table import constants
from placement.models.model import Model

NF4_BYTES = constants().nf4_bytes_per_weight
INT4_BYTES = constants().int4_bytes_per_weight

ENDINGS = (
    "instruct", "base", "chat", "text", "hf", "it", "pt", "thinking", "preview", "python", "sft", "dpo", "1m", "4k", "8k", "32k", "128k",
    "bf16", "fp16", "fp8", "dynamic", "block", "int8", "8bit", "w8a8", "w8a16", "awq", "gptq", "int4", "4bit", "w4a16", "bnb", "nf4",
    "quantized", "gguf", "unsloth", "g128", "128g",
)  # fmt: skip
"""Words of a name that leave the shape as it is: how it was trained on, to which length, and in which format it is shipped."""

_KIN = (
    ("qwen", "qwen25", "05b 15b 3b 7b 14b 32b 72b"),
    ("qwen2", "qwen25", "05b 15b 7b 72b"),
    ("qwen2math", "qwen25", "15b 7b 72b"),
    ("qwen25math", "qwen25", "15b 7b 72b"),
    ("qwen25coder", "qwen25", "05b 15b 3b 7b 14b 32b"),
    ("qwen2vl", "qwen25", "7b 72b"),
    ("qwen25vl", "qwen25", "3b 7b 32b 72b"),
    ("qwen25omni", "qwen25", "3b 7b"),
    ("qwq", "qwen25", "32b"),
    ("qwen3coder", "qwen3", "30ba3b"),
    ("qwen3vl", "qwen3", "4b 8b 32b 30ba3b 235ba22b"),
    ("deepseekr1distillqwen", "qwen25", "15b 7b 14b 32b"),
    ("r1distillqwen", "qwen25", "15b 7b 14b 32b"),
    ("deepseekr1qwen3", "qwen3", "8b"),
    ("deepseekr1distillllama", "llama31", "8b 70b"),
    ("r1distillllama", "llama31", "8b 70b"),
    ("llama33", "llama31", "70b"),
    ("llama31nemotron", "llama31", "70b"),
    ("llama31tulu3", "llama31", "8b 70b 405b"),
    ("llama3", "llama31", "405b"),
    ("llama", "llama31", "8b 405b"),
    ("llama", "llama2", "7b 13b 70b"),
    ("tulu3", "llama31", "8b 70b 405b"),
    ("alpaca", "llama2", "7b 13b"),
    ("vicuna", "llama2", "7b 13b 7bv15 13bv15 7bv13 13bv13"),
    ("deepseekmath", "deepseekllm", "7b"),
    ("deepseek", "deepseekllm", "7b 67b"),
)
"""How a relative is called, which family of the catalogue has its shapes, and in which sizes (an ending beside the size is dropped)."""

_SINGLE = {
    "mistral7b": "mistral7bv01", "mistral7bv02": "mistral7bv01", "zephyr7bbeta": "mistral7bv01", "zephyr7b": "mistral7bv01",
    "mixtral8x7b": "mixtral8x7bv01", "mixtral8x22b": "mixtral8x22bv01", "mistralsmall22b": "mistralsmall2409",
    "codestral22bv01": "mistralsmall2409", "codestral22b": "mistralsmall2409", "mistralsmall": "mistralsmall24b",
    "mistralsmall2501": "mistralsmall24b", "mistralsmall3": "mistralsmall24b", "mistralsmall324b": "mistralsmall24b",
    "mistralsmall31": "mistralsmall24b", "mistralsmall3124b": "mistralsmall24b", "mistralsmall32": "mistralsmall24b",
    "mistralsmall3224b": "mistralsmall24b",
    "phi35mini": "phi3mini", "phi4reasoning": "phi4", "phi4reasoningplus": "phi4",
    "phi4minireasoning": "phi4mini", "llama33b": "llama30b", "tinyllama11b": "tinyllama11bv10", "tinyllama": "tinyllama11bv10",
    "deepseekcoderv2lite": "deepseekv2lite", "deepseekcoderv2": "deepseekv2",
    "deepseekv25": "deepseekv2", "deepseek671b": "deepseekv3", "deepseekr1": "deepseekv3", "deepseekr1zero": "deepseekv3",
    "deepseekv31": "deepseekv3", "deepseekv31terminus": "deepseekv3", "kimik2thinking": "kimik2", "qwen3coder480b": "qwen3coder480ba35b",
}  # fmt: skip

_OPT = {
    "125m": (768, 12, 12), "1.3b": (2048, 24, 32), "2.7b": (2560, 32, 32), "6.7b": (4096, 32, 32), "13b": (5120, 40, 40),
    "30b": (7168, 48, 56), "66b": (9216, 64, 72),
}  # fmt: skip
"""Width, layers and heads of OPT (Zhang et al., 2022, table 1) without 350M, whose embeddings are narrower than its layers."""

_OPT_VOCAB, _OPT_POSITIONS = 50_272, 2050

_UNTIED = ("deepseekr1distillqwen15b", "r1distillqwen15b")
"""Relatives that keep the matrix of the logits apart from the embeddings where the model of the catalogue ties them."""

_SHIPPED_IN_8_BITS = ("deepseekv3", "kimik2")
"""Models that are published in FP8 alone, with a scale for each block of 128 x 128 weights (DeepSeek-V3, 2024, section 3.3)."""


def aliases(models: Mapping[str, Model]) -> Iterator[tuple[str, Model]]:
    """Yield the further plain names of *models*, which are by plain name."""
    pairs = [(kin + size, family + re.sub(r"v1\d$", "", size)) for kin, family, sizes in _KIN for size in sizes.split()]
    for name, known in (*pairs, *_SINGLE.items()):
        if known in models:
            yield name, _untied(models[known]) if name in _UNTIED else models[known]


def opt(name: str) -> Mapping[str, int | bool | str] | None:
    """
    Return the numbers of an OPT by its name; None where *name* is that of another model.

    Layers of 12 width² weights and 13 width biases and norms, token and position embeddings, a last norm: OPT-1.3B has 1,315,758,080.
    """
    found = re.fullmatch(r"(?:.*/)?opt[-_ ]?([\d.]+[bm])(?:-hf)?", name.strip().lower())
    if found is None or found[1] not in _OPT:
        return None
    hidden, layers, heads = _OPT[found[1]]
    parameters = (_OPT_VOCAB + _OPT_POSITIONS) * hidden + layers * (12 * hidden * hidden + 13 * hidden) + 2 * hidden
    return {
        "name": f"facebook/opt-{found[1]}", "hidden": hidden, "layers": layers, "heads": heads, "kv_heads": heads, "vocab": _OPT_VOCAB,
        "ffn": 4 * hidden, "parameters": parameters, "tie_embeddings": True, "embedding_parameters": _OPT_VOCAB * hidden,
    }  # fmt: skip


def _untied(model: Model) -> Model:
    head = model.vocab * model.hidden if model.tie_embeddings else 0
    return dataclasses.replace(
        model,
        tie_embeddings=False,
        parameters=model.parameters + head,
        active_parameters=model.active_parameters + head,
        embedding_parameters=model.embedding_parameters + head,
    )


def shipped_bytes(words: str, plain: str = "") -> tuple[float, str]:
    """
    Return the bytes of a linear weight, and what was taken for granted for them.

    Parameters
    ----------
    words
        The name of the model as it is written, or the format that a row names.
    plain
        What all ways of writing the name have in common.
    """
    said = words.lower()
    if re.search(r"awq|gptq|int4|w4a16", said) and not re.search(r"int8|8bit", said):
        return INT4_BYTES, "weights in 4 bits, with scales for groups of 128"
    if re.search(r"bnb|nf4|4bit", said) and "8bit" not in said:
        return NF4_BYTES, "weights in 4 bits (NF4)"
    if re.search(r"fp8|int8|w8a|8bit", said):
        return 1.0, ""
    family = _SINGLE.get(plain, plain)
    if family in _SHIPPED_IN_8_BITS and not re.search(r"bf16|fp16|16bit", said):
        return 1.0, "weights in 8 bits, as they are shipped"
    return 2.0, ""
