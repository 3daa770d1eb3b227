"""
The hardware of a published row: so many GPUs of a card in nodes of the usual kind.

Planning reads a machine; a table names a card and a number of GPUs. What it leaves open is that of NVIDIA's reference systems:
eight GPUs a node, one network port for each GPU.

When to modify: a new generation of nodes, or tables that say more about theirs.
"""

from __future__ import annotations

from placement.choices.capabilities import multiplies_fp8
from placement.choices.hardware import Hardware
from placement.constants.table import constants
from placement.models.model import Model
from placement.validation import naming
from placement.validation.rows import Unpredictable
from topologies.cards import Card
from topologies.links import LinkKind, link, nvlink, pcie_port

GB = 1e9
GPUS_PER_NODE = 8
MOST_BILLIONS = 10_000

_NVLINK_DOMAIN = {"gb200": 72, "gb300": 72}
"""GPUs that NVLinks join where that is more than a node: the racks GB200 NVL72 and GB300 NVL72."""

_XGMI_MESH = {"mi300x": True, "mi325x": True, "mi250x": False}
"""
Cards on boards of XGMI, and whether each has a link to each of the seven others (AMD's data sheets of the platforms); a GCD of MI250X
has fewer links than that, but a ring of them.
"""

LAYER_WIDTHS = 128
"""Width over layers of a decoder of the usual form, where a table names no model that is known."""

_PORT_GBIT_PER_S = {3: 100, 4: 200, 5: 400, 6: 800}
"""A port beside each GPU by the card's PCIe generation: DGX-1 (EDR), DGX A100 (HDR), DGX H100 (NDR), DGX B300 (XDR)."""

def port_bytes_per_s(card: Card) -> float:
    """Return what the network port beside a GPU of *card* carries, one direction, B/s."""
    return _PORT_GBIT_PER_S.get(card.pcie_gen, 100) / 8 * GB * constants().network_port_efficiency


def needs_fp8(card: Card) -> None:
    """
    Refuse training in 8 bits on a card without matrix products of 8-bit floats, as planning does.

    Raises
    ------
    Unpredictable
        If *card* is one.
    """
    if not multiplies_fp8(card.compute_capability):
        raise Unpredictable(f"{card.slug} has no matrix products in 8 bits")


def hardware(card: Card, gpus: int, *, node_bytes_per_s: float | None = None) -> Hardware:
    """
    Return *gpus* GPUs of *card* as a group.

    Parameters
    ----------
    node_bytes_per_s
        What joins a node (or all that NVLinks join) to others, B/s; None for a port beside each GPU.
    """
    joined = nvlink_domain(card)
    width, over_nvlink = inside(card, min(gpus, joined))
    beyond = min(width, node_bytes_per_s or joined * port_bytes_per_s(card))
    ring = width if gpus <= joined else beyond
    sizes = tuple(tp for tp in (2, 4, 8, 16, 32) if gpus % tp == 0)
    # Fewer GPUs of a mesh have fewer links between them.
    among = {tp: inside(card, tp)[0] if card.slug in _XGMI_MESH and tp <= joined else width for tp in sizes}
    blocks = tuple((tp, among[tp] if tp <= joined else beyond) for tp in sizes)
    return Hardware(
        gpus=gpus,
        flops=card.dense_16bit_tflops * 1e12,
        memory_bytes_per_s=card.memory_gb_per_s * GB,
        total_mib=card.torch_mib,
        compute_capability=card.compute_capability,
        ring_bytes_per_s=ring if gpus > 1 else 0.0,
        ring_nvlink=over_nvlink and 1 < gpus <= joined,
        block_bytes_per_s=blocks,
        block_nvlink=tuple((tp, over_nvlink and tp <= joined) for tp in sizes),
        host_bytes_per_s=pcie_port(card).gb_per_s * GB,
        islands=-(-gpus // joined) if over_nvlink and gpus > joined else 0,
        hosts=-(-gpus // GPUS_PER_NODE),
    )


def nvlink_domain(card: Card) -> int:
    """Return how many GPUs of *card* one node, or one rack of NVLinks, holds."""
    return _NVLINK_DOMAIN.get(card.slug, GPUS_PER_NODE)


def inside(card: Card, gpus: int) -> tuple[float, bool]:
    """
    Return what the ring over *gpus* GPUs of one node carries, B/s, and whether it runs over NVLink or XGMI.

    GPUs that all have a link to each other run a ring over each (`topologies.bandwidth.Ring`).
    """
    if (is_mesh := _XGMI_MESH.get(card.slug)) is not None:
        return (max(gpus - 1, 1) if is_mesh else 1) * link(LinkKind.XGMI.value, card, card).gb_per_s * GB, True
    if card.is_wired:
        return nvlink(card.nvlink_links, card, card).gb_per_s * GB, True
    return link("PIX" if gpus <= GPUS_PER_NODE // 2 else "SYS", card, card).gb_per_s * GB, False


def usual_shape(parameters: int) -> tuple[int, int, int]:
    """Return width, layers and heads of 128 that hold *parameters*: 12 · layers · width²."""
    heads = max(round((parameters * LAYER_WIDTHS / 12) ** (1 / 3) / 128), 1)
    hidden = 128 * heads
    return hidden, max(round(parameters / (12 * hidden * hidden)), 1), heads


def model_or_usual(name: str) -> tuple[Model, tuple[str, ...]]:
    """
    Return the model that a table calls *name*, and what was taken for granted for it.

    A dense one of the usual form stands for a model that the catalogue does not know, where its name says how large it is.

    Raises
    ------
    Unpredictable
        If it does not.
    """
    try:
        return naming.find(name), naming.granted(name)
    except Unpredictable:
        size = naming.billions(name)
        if size is None or not 0 < size < MOST_BILLIONS:
            raise
    parameters = int(size * 1e9)
    hidden, layers, heads = usual_shape(parameters)
    numbers = {
        "name": name, "hidden": hidden, "layers": layers, "heads": heads, "kv_heads": heads, "vocab": 1000, "ffn": 4 * hidden,
        "parameters": parameters,
    }  # fmt: skip
    return naming.described(numbers), ("a dense model of the usual form with as many parameters",)
