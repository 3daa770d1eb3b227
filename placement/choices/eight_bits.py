"""
Matrix products of 8-bit floats: at which rate a card does them, and which FLOP of a model they are. Formulas: docs/model-variants.md.

When to modify: a card whose 8-bit rate is another multiple of its 16-bit one, or an engine that keeps other layers in 16 bits.
"""

from __future__ import annotations

from placement.choices.capabilities import multiplies_fp8
from placement.choices.hardware import Hardware
from placement.constants.table import Constants
from placement.models.model import Model


def fp8_flops(hardware: Hardware, c: Constants) -> float:
    """
    Return the peak rate of matrix products of 8-bit floats, FLOP/s.

    Cards without them turn weights of 8 bits into 16 on their way (weight-only kernels) and multiply at the 16-bit rate.
    """
    return hardware.flops * (c.fp8_rate if multiplies_fp8(hardware.compute_capability) else 1.0)


def linear_flops_per_token(model: Model) -> float:
    """
    Return the FLOP of a forward pass per token that can run in 8 bits: those of linear layers.

    Embeddings and the output head keep 16 bits in engines (vLLM's ``fp8``) and in training (Transformer Engine); so does attention.
    """
    return 2.0 * max(model.active_parameters - model.embedding_parameters, 0)


def saved_s(flops: float, hardware: Hardware, c: Constants) -> float:
    """
    Return what *flops* of linear layers take less in 8 bits than in 16 on one GPU, seconds.

    The products alone get faster, ``(1/F - 1/F_8) / e_f`` for each; the memory traffic beside them, which MFU holds too, stays.
    """
    return flops * (1 / hardware.flops - 1 / fp8_flops(hardware, c)) / c.matmul_efficiency
