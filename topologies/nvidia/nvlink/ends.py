"""
Which GPU has which bus id, told by nothing but what ``nvidia-smi nvlink -R`` says of the other ends of links.

When to modify: other devices than GPUs and NVSwitches stand at the ends of links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from topologies.bus_ids import order

Ends = Mapping[int, tuple[str, int | None]]
"""Link of a GPU to the bus id at its other end, and the link there."""


def gpus_by_ends(ends: Mapping[int, Ends]) -> dict[str, int]:
    """
    Return which GPU has which bus id if the other *ends* of all links prove it; nothing otherwise.

    As many ids as GPUs with links, in the same order: then both ends of every link must name each other, and no GPU itself. Ids of
    NVSwitches fail, for every GPU has links to all of them. Lines may be lost, but between two GPUs not all, and only few altogether:
    a GPU none of whose partners is shown makes all others look like their neighbours, which then do not name each other.
    """
    linked = [g for g, own in ends.items() if own]
    ids = sorted({bus for own in ends.values() for bus, _ in own.values()}, key=order)
    if len(ids) != len(linked) or [*ends] != list(range(len(ends))):
        return {}
    gpu_of = dict(zip(ids, linked, strict=True))
    both: Counter[tuple[int, int]] = Counter()
    one: Counter[tuple[int, int]] = Counter()
    unnumbered: Counter[tuple[int, int]] = Counter()
    for g, own in ends.items():
        for link, (bus, far) in own.items():
            other = gpu_of[bus]
            if other == g:
                return {}
            if far is None:
                unnumbered[g, other] += 1
            elif (back := ends[other].get(far)) is None:
                one[g, other] += 1
            elif gpu_of[back[0]] == g and back[1] in (None, link):
                both[g, other] += 1
            else:
                return {}
    is_proved = all(both[pair] for pair in one) and one.total() <= both.total() // 2
    return gpu_of if is_proved and all(unnumbered[b, a] == count for (a, b), count in unnumbered.items()) else {}
