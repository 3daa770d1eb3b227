"""
What a card must be able to run: engines, 16-bit types and numbers of 8 bits (rule ``supported``).

When to modify: an engine or a number format is added, or an engine drops old cards.
"""

from __future__ import annotations

from placement.workloads.workload import Engine, KvCache, Precision, Quantization

Feature = Engine | Precision | Quantization | KvCache
"""What a card must be able to run."""

_LEAST: dict[Engine | Precision | Quantization, tuple[int, int]] = {
    # bf16 arithmetic came with Ampere, fast fp16 with Pascal's P100 (CUDA C++ Programming Guide, arithmetic
    # throughput).
    Precision.BF16: (8, 0),
    Precision.FP16: (6, 0),
    # vLLM's installation page asks for 7.0; FlashInfer, on which SGLang rests, for 7.5.
    Engine.VLLM: (7, 0),
    Engine.SGLANG: (7, 5),
    # FSDP is PyTorch alone; Megatron's fused kernels are built for Volta and later.
    Engine.FSDP: (6, 0),
    Engine.MEGATRON: (7, 0),
    Quantization.NONE: (0, 0),
    # Tensor cores multiply 8-bit floats, and convert to them, from Ada on. Weights alone can have 8 bits from Turing on, which are
    # turned to 16 on their way (Marlin kernels; vLLM's page on FP8 W8A8): that is what the model counts on every card.
    Quantization.FP8: (7, 5),
}
"""Lowest compute capability that runs an engine, a 16-bit type, or weights of 8 bits."""

_LEAST_OF_CACHE = {KvCache.AUTO: (0, 0), KvCache.FP8: (8, 9)}
"""The same for what the KV cache is stored in; a table of its own, as ``fp8`` is a word of both."""

OF_AMD = (0, 0)
"""
What cards of AMD have for a compute capability. Those of the catalogue (gfx90a, gfx942) run all engines and both types: vLLM and SGLang
name them on their installation pages, PyTorch is built for ROCm, and Megatron has a port by AMD. Only gfx942 has 8-bit floats, and what
is known of a group does not tell it from gfx90a: they are not counted on.
"""


def runs(compute_capability: tuple[int, int], what: Feature) -> bool:
    """Whether a card of *compute_capability* runs *what*."""
    is_amd = compute_capability == OF_AMD and what not in (Quantization.FP8, KvCache.FP8)
    return is_amd or compute_capability >= least_capability(what)


def multiplies_fp8(compute_capability: tuple[int, int]) -> bool:
    """Whether tensor cores of a card of *compute_capability* multiply 8-bit floats: Ada and later. Of cards of AMD it is not known."""
    return compute_capability >= (8, 9)


def least_capability(what: Feature) -> tuple[int, int]:
    """Return the lowest compute capability that runs *what*."""
    return _LEAST_OF_CACHE[what] if isinstance(what, KvCache) else _LEAST[what]
