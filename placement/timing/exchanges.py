"""
What ranks of a group exchange beside TP's all-reduces, seconds: activations of shared sequences (Ulysses) and experts, and what passes
along data-parallel rings. Formulas: docs/model-variants.md.

When to modify: another kind of parallelism passes activations between ranks.
"""

from __future__ import annotations

from placement.choices.choices import FrozenChoice, TrainChoice
from placement.choices.hardware import Hardware
from placement.constants.table import Constants
from placement.models.model import Model
from placement.timing.collectives import all_to_all_s, gather_s


def gb(bytes_per_s: float) -> str:
    """Return a bandwidth as people read it."""
    value = bytes_per_s / 1e9
    return f"{value:.0f} GB/s" if value >= 10 else f"{value:.2g} GB/s"


def sequence_exchange_s(
    model: Model, tokens: float, choice: TrainChoice | FrozenChoice, hardware: Hardware, c: Constants
) -> float:
    """
    Return the four all-to-alls by which sp ranks exchange tokens for heads in a layer: queries, keys, values, and what attention gives.

    Each rank has 1/sp of the *tokens* and 1/tp of the heads, 16 bits; KV heads are copied where they are fewer than sp (Ulysses, Jacobs et
    al. 2023). The block of tp·sp GPUs carries one exchange for each TP rank at a time: side by side over NVLink, sharing other links.
    """
    if choice.sp == 1:
        return 0.0
    size = choice.tp * choice.sp
    width, nvlink = hardware.block(size), hardware.is_block_nvlink(size)
    assert width is not None
    own = width if nvlink else width / choice.tp
    heads, kv_heads = model.heads / choice.tp, max(model.kv_heads / choice.tp, choice.sp)
    each = 2 * tokens / choice.sp * model.head_dim
    queries = all_to_all_s(each * heads, choice.sp, own, nvlink=nvlink, c=c)
    keys = all_to_all_s(each * kv_heads, choice.sp, own, nvlink=nvlink, c=c)
    return 2 * queries + 2 * keys


def expert_exchange_s(
    model: Model, tokens: float, choice: TrainChoice | FrozenChoice, hardware: Hardware, c: Constants
) -> float:
    """
    Return the two all-to-alls by which ep ranks bring the tokens of a layer to their experts and back.

    Each of its 1/tp of the *tokens* goes to ``experts_per_token`` experts, 16 bits of the model's width each; all experts are taken to
    get as many. All groups exchange at once over the links of the ring.
    """
    if choice.ep == 1:
        return 0.0
    size = 2 * model.experts_per_token * tokens * model.hidden / choice.tp
    groups = 1 if hardware.ring_nvlink else choice.tp
    width = hardware.ring_bytes_per_s / groups
    return 2 * all_to_all_s(size, choice.ep, width, nvlink=hardware.ring_nvlink, c=c)


def side_by_side_s(size: float, rings: int, ranks: int, hardware: Hardware, c: Constants) -> float:
    """
    Return an all-gather or reduce-scatter of *size* bytes in all, over *rings* rings of *ranks* GPUs each, all at once.

    NVLinks carry the rings side by side; other links are shared, and then all of it passes the bottleneck.
    """
    width = hardware.ring_bytes_per_s if hardware.ring_nvlink else hardware.ring_bytes_per_s / rings
    return gather_s(
        size / rings,
        ranks,
        width,
        nvlink=hardware.ring_nvlink,
        c=c,
        memory_bytes_per_s=hardware.memory_bytes_per_s,
        islands=min(hardware.islands, ranks),
    )


def over_sequences(hardware: Hardware, choice: TrainChoice | FrozenChoice) -> str:
    """Return what exchanges of sequences are called, with the bandwidth of their block."""
    return f"sequence exchange over {gb(hardware.block(choice.tp * choice.sp) or 0.0)}"


def over_experts(hardware: Hardware) -> str:
    """Return what exchanges between experts are called, with the bandwidth of the ring."""
    return f"expert exchange over {gb(hardware.ring_bytes_per_s)}"
