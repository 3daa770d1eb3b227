"""
Machines that are drawn, for tests of the graph.

`draw` makes a `Topology` from a matrix as people sketch it; `MACHINES` are the sketches that several tests
use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from topologies.cards import find_card
from topologies.model import Gpu, Topology

Draw = Callable[..., Topology]

MACHINES: dict[str, tuple[str, str, str | None]] = {
    # 0 ══ 1   2 ══ 3      two bridged pairs, one per socket
    "two pairs": (
        """
        X    NV12 SYS  SYS
        NV12 X    SYS  SYS
        SYS  SYS  X    NV12
        SYS  SYS  NV12 X
        """,
        "a100-pcie-80gb",
        "0 0 1 1",
    ),
    # {0 1} {2 3}          two PCIe switches on one socket, an uplink each
    "two switches": (
        """
        X    PIX  NODE NODE
        PIX  X    NODE NODE
        NODE NODE X    PIX
        NODE NODE PIX  X
        """,
        "l40s",
        None,
    ),
    # {0 1 2 3} {4 5 6 7}  two sockets, each with one switch of four
    "two sockets": (
        """
        X   PIX PIX PIX SYS SYS SYS SYS
        PIX X   PIX PIX SYS SYS SYS SYS
        PIX PIX X   PIX SYS SYS SYS SYS
        PIX PIX PIX X   SYS SYS SYS SYS
        SYS SYS SYS SYS X   PIX PIX PIX
        SYS SYS SYS SYS PIX X   PIX PIX
        SYS SYS SYS SYS PIX PIX X   PIX
        SYS SYS SYS SYS PIX PIX PIX X
        """,
        "l40s",
        None,
    ),
    # (({0 1} {2 3}) 4) 5  a switch under a switch, one GPU on the host bridge, one on another
    "nested": (
        """
        X    PIX  PXB  PXB  PHB  NODE
        PIX  X    PXB  PXB  PHB  NODE
        PXB  PXB  X    PIX  PHB  NODE
        PXB  PXB  PIX  X    PHB  NODE
        PHB  PHB  PHB  PHB  X    NODE
        NODE NODE NODE NODE NODE X
        """,
        "l40s",
        None,
    ),
    # 0 ══ 1               a square of NVLinks, diagonals over PCIe
    # ║    ║
    # 3 ══ 2
    "square": (
        """
        X    NV2  NODE NV2
        NV2  X    NV2  NODE
        NODE NV2  X    NV2
        NV2  NODE NV2  X
        """,
        "v100-32gb",
        None,
    ),
    # 0 1 2 3              four GPUs behind one NVSwitch
    "nvswitch": (
        """
        X    NV12 NV12 NV12
        NV12 X    NV12 NV12
        NV12 NV12 X    NV12
        NV12 NV12 NV12 X
        """,
        "a100-80gb",
        None,
    ),
    # 0 1 2 3              consumer cards: no P2P, copies are staged through the host
    "consumer": (
        """
        X    NODE SYS  SYS
        NODE X    SYS  SYS
        SYS  SYS  X    NODE
        SYS  SYS  NODE X
        """,
        "rtx4090",
        None,
    ),
}


def draw_topology(
    text: str,
    cards: str | None = None,
    *,
    nics: Mapping[str, str] | None = None,
    numa: str | None = None,
    cpus: str | None = None,
    hosts: str | None = None,
) -> Topology:
    """
    Return the machine whose matrix is *text*; ``?`` is an unknown link.

    *cards* names one card for all GPUs or one each; *nics* maps a NIC to its codes; the others have one word
    per GPU, where ``?`` is None.
    """
    rows = [line.split() for line in text.strip().splitlines()]
    count = len(rows)
    slugs = (cards or "").split() * (count if cards and " " not in cards else 1) or [None] * count

    def words(line: str | None) -> list[str | None]:
        return [None if word == "?" else word for word in line.split()] if line else [None] * count

    gpus = []
    for index, (slug, host, node, cpu) in enumerate(
        zip(slugs, words(hosts), words(numa), words(cpus), strict=True)
    ):
        card = find_card(slug) if slug else None
        gpus.append(
            Gpu(
                index,
                host=host,
                name=card.name if card else None,
                memory_mib=card.total_mib if card else None,
                numa=node,
                cpu_affinity=cpu,
            )
        )
    links = {(i, j): rows[i][j] for i in range(count) for j in range(i + 1, count) if rows[i][j] != "?"}
    gpu_nic: dict[int, dict[str, str]] = {}
    for nic, codes in (nics or {}).items():
        for index, code in enumerate(codes.split()):
            if code != "?":
                gpu_nic.setdefault(index, {})[nic] = code
    return Topology(tuple(gpus), links, nics=dict.fromkeys(nics or {}), gpu_nic=gpu_nic)


@pytest.fixture(scope="session")
def draw() -> Draw:
    """How to draw a machine."""
    return draw_topology


@pytest.fixture(scope="session")
def drawn() -> Mapping[str, Topology]:
    """The sketches of `MACHINES`."""
    return {name: draw_topology(text, cards, numa=numa) for name, (text, cards, numa) in MACHINES.items()}
