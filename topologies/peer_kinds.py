"""
Peer-to-peer states of several kinds: ``nvidia-smi topo -p2p r`` asks for reads, ``n`` for NVLink, and one text may show both.

When to modify: another kind of state, or another order of what matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topologies.model import Pair, Topology

UNKNOWN = "unknown"
"""The kind of a matrix that does not say what was asked for."""

_FIRST = ("r", "rw", "access", UNKNOWN, "w", "n")
"""Kinds by how much they say about copies; others follow."""

Kinds = Mapping[str, Mapping[Pair, str]]


def all_kinds(topology: Topology) -> dict[str, Mapping[Pair, str]]:
    """Return the states of every kind that *topology* has, the one that matters most first."""
    main = {topology.p2p_kind or UNKNOWN: topology.p2p} if topology.p2p or topology.p2p_kind else {}
    return {**main, **topology.p2p_kinds}


def fields_of(kinds: Kinds) -> dict[str, Any]:
    """Return *kinds* as fields of `Topology`: the states of the kind that matters most, its name, and the others."""
    order = sorted(kinds, key=lambda kind: (not kinds[kind], _FIRST.index(kind) if kind in _FIRST else len(_FIRST), kind))
    states = {kind: dict(sorted(kinds[kind].items())) for kind in order}
    if not order:
        return {"p2p": {}, "p2p_kind": None, "p2p_kinds": {}}
    return {"p2p": states.pop(order[0]), "p2p_kind": order[0], "p2p_kinds": states}
