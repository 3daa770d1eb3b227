"""
A source with its GPUs under other numbers.

When to modify: `Topology` gets a field that tells GPUs by index, or what a source states is by index in another form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from topologies.model import Gpu, Topology


def restated(stated: Mapping[str, Any], new: Mapping[int, int]) -> dict[str, Any]:
    """Return *stated* with what it says by index under the indices *new*, old to new; what it says of others is left out."""
    names = {str(old): str(index) for old, index in new.items()}

    def moved(name: str, facts: Any) -> Any:
        if name == "indices" and isinstance(facts, Sequence):
            return sorted(new[index] for index in facts if index in new)
        if isinstance(facts, Mapping) and facts and all(str(key).isdecimal() for key in facts):
            return {names[key]: fact for key, fact in facts.items() if key in names}
        return facts

    return {name: moved(name, facts) for name, facts in stated.items()}


def renumbered(topology: Topology, new: Mapping[int, int], *, size: int | None = None) -> Topology:
    """
    Return *topology* with the GPUs that *new* maps, old index to new index; others are left out.

    The new indices run 0, 1, 2 …; where *size* is given, of so many GPUs those that *new* does not tell are there unnamed.
    """

    def pairs(old: Mapping[tuple[int, int], str]) -> dict[tuple[int, int], str]:
        found = {
            (min(new[i], new[j]), max(new[i], new[j])): code
            for (i, j), code in old.items()
            if i in new and j in new
        }
        return dict(sorted(found.items()))

    known = {index: topology.gpus[i].replace(index=index) for i, index in new.items()}
    return topology.replace(
        gpus=tuple(known.get(index, Gpu(index, is_named=False)) for index in range(len(new) if size is None else size)),
        links=pairs(topology.links),
        pcie_links=pairs(topology.pcie_links),
        p2p=pairs(topology.p2p),
        p2p_kinds={kind: pairs(states) for kind, states in topology.p2p_kinds.items()},
        gpu_nic=dict(sorted((new[i], nics) for i, nics in topology.gpu_nic.items() if i in new)),
        measured=None if topology.measured is None else topology.measured.renumbered(new),
        gpus_near_cpu={cpu: tuple(sorted(new[g] for g in near if g in new)) for cpu, near in topology.gpus_near_cpu.items()},
    )
