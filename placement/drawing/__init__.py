"""
A picture of a machine: boxes in boxes, NVLink above the GPUs, the roles of a job on them.

When to modify: what a caller can choose about a picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placement.drawing.layout import picture
from placement.drawing.svg import to_svg
from topologies.model import Topology


def draw(
    topology: Topology, *, roles: Mapping[str, Sequence[int]] | None = None, title: str | None = None
) -> str:
    """
    Return *topology* drawn as one self-contained SVG, light or dark as the viewer prefers.

    Parameters
    ----------
    roles
        GPU indices of each role in rank order; without it the machine alone is drawn.
    title
        A line above the machine.

    Raises
    ------
    InputError
        If a role names a GPU that there is not, or one GPU twice.
    """
    return to_svg(picture(topology, roles=roles, title=title))
