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
    "instruct", "base", "chat", "text", "hf", "it", "thinking", "2507", "1m", "0324", "0528", "bf16", "fp16", "fp8", "dynamic", "block",
    "int8", "8bit", "w8a8", "w8a16", "awq", "gptq", "int4", "4bit", "w4a16", "bnb", "nf4", "quantized",
)  # fmt: skip
"""Words of a name that leave the shape as it is: how it was trained on, when, and in which format it is shipped."""

_KIN = (
    ("qwen2", "qwen25", "05b 15b 7b 72b"),
    ("qwen2math", "qwen25", "15b 7b 72b"),
    ("qwen25math", "qwen25", "15b 7b 72b"),
    ("qwen25coder", "qwen25", "05b 15b 3b 7b 14b 32b"),
    ("qwen2vl", "qwen25", "7b 72b"),
    ("qwen25vl", "qwen25", "3b 7b 32b 72b"),
    ("qwq", "qwen25", "32b"),
    ("deepseekr1distillqwen", "qwen25", "15b 7b 14b 32b"),
    ("r1distillqwen", "qwen25", "15b 7b 14b 32b"),
    ("deepseekr1qwen3", "qwen3", "8b"),
    ("deepseekr1distillllama", "llama31", "8b 70b"),
    ("r1distillllama", "llama31", "8b 70b"),
    ("llama33", "llama31", "70b"),
)
"""How a relative is called, which family of the catalogue has its shapes, and in which sizes."""

_SINGLE = {
    "mistral7b": "mistral7bv01", "mistral7bv02": "mistral7bv01", "mixtral8x7b": "mixtral8x7bv01",
    "deepseekr1": "deepseekv3", "deepseekr1zero": "deepseekv3", "deepseekv31": "deepseekv3", "deepseekv31terminus": "deepseekv3",
}  # fmt: skip

_UNTIED = ("deepseekr1distillqwen15b", "r1distillqwen15b")
"""Relatives that keep the matrix of the logits apart from the embeddings where the model of the catalogue ties them."""

_SHIPPED_IN_8_BITS = ("deepseekv3", "kimik2")
"""Models that are published in FP8 alone, with a scale for each block of 128 x 128 weights (DeepSeek-V3, 2024, section 3.3)."""


def aliases(models: Mapping[str, Model]) -> Iterator[tuple[str, Model]]:
    """Yield the further plain names of *models*, which are by plain name."""
    pairs = [(kin + size, family + size) for kin, family, sizes in _KIN for size in sizes.split()]
    for name, known in (*pairs, *_SINGLE.items()):
        if known in models:
            yield name, _untied(models[known]) if name in _UNTIED else models[known]


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
