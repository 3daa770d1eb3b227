"""
NICs: small boxes below the GPUs, in the box that they hang from.

When to modify: what the box of a NIC says, or how NICs stand side by side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from placement.drawing.gpu import port_name
from placement.drawing.shapes import (
    Anchor,
    Box,
    Panel,
    Shape,
    Text,
    TextStyle,
    fit_middle,
    printable,
    text_width,
)
from placement.machines.hosts import nic_name
from topologies.model import Topology

NIC = 19
NIC_STEP = 24
_PAD = 7
_MOST_LINES = 4
"""Lines of NICs in one box, before it gets wider instead."""

_WIDEST_LINE = 8


class NicFace(NamedTuple):
    """
    What the box of a NIC says.

    Parameters
    ----------
    name
        Its device, or its column where the device is not known.
    hint
        Everything, for hovering.
    """

    name: str
    hint: str


def nic_faces(topology: Topology) -> dict[str, NicFace]:
    """Return what the box of each NIC column of *topology* says."""
    hosts = topology.hosts
    home = {nic: topology.gpus[g].host for g, codes in topology.gpu_nic.items() for nic in codes}
    faces = {}
    for nic, device in topology.nics.items():
        column = printable(nic_name(nic, home.get(nic, hosts[0])))
        name = printable(device) if device else column
        details = topology.nic_details.get(nic)
        facts = [column] if column != name else []
        if details is not None:
            facts += [f"{details.gb_per_s:g} GB/s"] if details.gb_per_s is not None else []
            facts += [port] if (port := port_name(details.pcie)) else []
        faces[nic] = NicFace(name or "NIC", f"NIC {name}: {', '.join(facts)}" if facts else f"NIC {name}")
    return faces


def nic_note(topology: Topology) -> str:
    """Return what the small boxes are, and what the ports carry where that is stated."""
    rates = {d.gb_per_s for d in topology.nic_details.values() if d.gb_per_s is not None}
    if not rates:
        return "small pills: NICs"
    least, most = f"{min(rates):g}", f"{max(rates):g}"
    return f"small pills: NICs, {least if least == most else f'{least}–{most}'} GB/s in one direction"


def nic_width(faces: Iterable[NicFace]) -> float:
    """Return the width that the longest name of *faces* asks for, px."""
    return max((text_width(face.name, TextStyle.NIC) + 2 * _PAD for face in faces), default=0)


def columns(count: int, room: float, width: float, gap: float) -> int:
    """
    Return how many of *count* NICs stand in a line of a box that is *room* px wide inside; each takes *width* px at least.

    Lines are as even as they can be.
    """
    most = max(1, min(count, int((room + gap) / (width + gap))))
    return math.ceil(count / math.ceil(count / most)) if count else 1


def filling(in_a_line: int, room: float, gap: float) -> float:
    """Return the width of NICs that fill lines of *room* px: a lone NIC of two GPUs stands below both."""
    return (room + gap) / in_a_line - gap


def centred(in_a_line: int, room: float, width: float, gap: float) -> float:
    """Return how far a line of NICs begins inside *room* px when it stands in the middle: it is of all that is above it."""
    return (room - in_a_line * (width + gap) + gap) / 2


def least_room(count: int, width: float, gap: float) -> float:
    """Return how wide the inside of a box with *count* NICs is at least, px, so that they do not make a tower."""
    if not count:
        return 0
    in_a_line = min(math.ceil(count / _MOST_LINES), _WIDEST_LINE)
    return in_a_line * (width + gap) - gap


def height(count: int, in_a_line: int) -> float:
    """Return the height of *count* NICs with the space above them, px."""
    return NIC_STEP * math.ceil(count / in_a_line) if count else 0


def draw_nics(x: float, y: float, width: float, gap: float, in_a_line: int, faces: Sequence[NicFace]) -> list[Shape]:
    """Return *faces* in lines, with the upper left corner of what they take at (*x*, *y*)."""
    shapes: list[Shape] = []
    for k, face in enumerate(faces):
        left, top = x + (k % in_a_line) * (width + gap), y + NIC_STEP * (k // in_a_line) + NIC_STEP - NIC
        box = Box(left, top, width, NIC)
        name = fit_middle(face.name, TextStyle.NIC, width - 2 * _PAD)
        shapes.append(Panel(box, "nic", radius=NIC / 2, hint=face.hint))
        shapes.append(Text(box.middle, top + 13.5, name, TextStyle.NIC, Anchor.MIDDLE))
    return shapes
