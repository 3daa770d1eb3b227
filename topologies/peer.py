"""
Which pairs of GPUs have no working peer-to-peer copies, and why: their copies go through host memory.

The driver's own word is the peer-to-peer matrix. What keeps traffic over PCIe from going straight across is Access Control Services
on the port where it would turn, and an IOMMU that translates. Neither of the two concerns NVLink and XGMI.

When to modify: another fact that turns peer-to-peer copies off.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from enum import StrEnum

from topologies.links import DIRECT_KINDS, LinkKind, parse_code
from topologies.model import Gpu, Pair, Topology
from topologies.parts import BridgeKind
from topologies.paths import shared
from topologies.peer_kinds import all_kinds

_OFF = {
    "NS": "not supported", "CNS": "the chipset does not support it", "GNS": "the GPUs do not support it",
    "TNS": "the topology does not support it", "DR": "disabled by the driver",
}  # fmt: skip
"""States in which there are no peer-to-peer copies; ``U`` is unknown, which is no statement."""

_ALL_PAIRS = frozenset({"r", "w", "rw", "access", "unknown"})
_NVLINK_PAIRS = frozenset({"n"})


class Iommu(StrEnum):
    """How the IOMMU treats the GPUs of a host (`Host.iommu`)."""

    OFF = "off"
    PASSTHROUGH = "passthrough"
    TRANSLATED = "translated"


def blocked(topology: Topology) -> Mapping[Pair, str]:
    """
    Return the pairs of GPUs of one host that have no working peer-to-peer copies, each with the reason.

    A state counts for the pairs that its kind is about: reads and writes for all, NVLink (``n``) for pairs with NVLinks, atomics
    and prop (``a``, ``p``) for none; of several kinds one that is off is enough. An unknown state, bridge or IOMMU blocks nothing.
    """
    redirecting = {
        host: frozenset(
            bus_id
            for bus_id, bridge in facts.bridges.items()
            if bridge.acs_redirect and bridge.kind is not BridgeKind.ROOT_PORT
        )
        for host, facts in topology.host_facts.items()
    }
    translated = {host for host, facts in topology.host_facts.items() if facts.iommu == Iommu.TRANSLATED}
    found: dict[Pair, str] = {}
    for kind, states in all_kinds(topology).items():
        for pair, state in states.items():
            if pair not in found and (reason := _by_state(topology, pair, state, kind)):
                found[pair] = reason
    if not translated and not any(redirecting.values()):
        return dict(sorted(found.items()))
    by_host: dict[str | None, list[Gpu]] = {}
    for gpu in topology.gpus:
        by_host.setdefault(gpu.host, []).append(gpu)
    for host, gpus in by_host.items():
        for a, b in itertools.combinations(gpus, 2) if host in translated or redirecting.get(host) else ():
            pair = (a.index, b.index)
            if pair in found or parse_code(topology.link(*pair))[0] in DIRECT_KINDS:
                continue
            ports = _turning(a, b) & redirecting.get(host, frozenset())
            if ports:
                found[pair] = f"ACS on {min(ports)}"
            elif host in translated:
                found[pair] = "the IOMMU translates addresses"
    return dict(sorted(found.items()))


def in_doubt(topology: Topology) -> tuple[Pair, ...]:
    """
    Return the pairs of which it is not known whether peer-to-peer copies work, though the state of another pair of their host is stated.

    Where no source tells of peer-to-peer at all, nothing is in doubt: copies work as between other cards of the kind.
    """
    states = [(pair, state) for kind, found in all_kinds(topology).items() if kind in _ALL_PAIRS for pair, state in found.items()]
    if not states:
        return ()
    told_of = {topology.gpus[pair[0]].host for pair, _ in states}
    known = {pair for pair, state in states if state == "OK"} | blocked(topology).keys()
    by_host: dict[str | None, list[int]] = {}
    for gpu in topology.gpus:
        if gpu.host in told_of:
            by_host.setdefault(gpu.host, []).append(gpu.index)
    return tuple(pair for gpus in by_host.values() for pair in itertools.combinations(gpus, 2) if pair not in known)


def _by_state(topology: Topology, pair: Pair, state: str, kind: str) -> str | None:
    """Return why the peer-to-peer *state*, of a *kind*, turns copies of *pair* off; None if it does not."""
    i, j = pair
    if state not in _OFF or topology.gpus[i].host != topology.gpus[j].host:
        return None
    is_nvlink = parse_code(topology.link(i, j))[0] is LinkKind.NVLINK
    if kind in _ALL_PAIRS or (kind in _NVLINK_PAIRS and is_nvlink):
        return f"{state}: {_OFF[state]}"
    return None


def _turning(a: Gpu, b: Gpu) -> frozenset[str]:
    """Return the ports of the switch in which traffic between *a* and *b* turns; none where it turns in the root complex."""
    if a.pcie is None or b.pcie is None or not (common := shared(a.pcie, b.pcie)):
        return frozenset()
    return frozenset((*a.pcie.path[common : common + 1], *b.pcie.path[common : common + 1]))


def summary(found: Mapping[Pair, str], gpus: Iterable[int]) -> str | None:
    """
    Return one sentence that says between which of *gpus* peer-to-peer copies are off, and why; None if they work everywhere.

    Parameters
    ----------
    found
        What `blocked` says.
    """
    wanted = sorted(gpus)
    pairs = {pair: why for pair, why in found.items() if pair[0] in wanted and pair[1] in wanted}
    if not pairs:
        return None
    reasons = list(dict.fromkeys(pairs.values()))
    more = f"; and {len(reasons) - 2} more like it" if len(reasons) > 2 else ""
    shown = "; ".join(reasons[:2]) + more
    return f"peer-to-peer {_between(pairs, wanted)} is off ({shown}): copies go through host memory"


def _between(pairs: Mapping[Pair, str], gpus: list[int]) -> str:
    """Return in words between which of *gpus* the *pairs* are."""
    ends = sorted({g for pair in pairs for g in pair})
    if len(pairs) == 1:
        return f"between GPU {ends[0]} and {ends[1]}"
    if len(pairs) == len(gpus) * (len(gpus) - 1) // 2:
        return "between all GPUs"
    if len(pairs) == len(ends) * (len(ends) - 1) // 2:
        return f"among GPUs {', '.join(map(str, ends[:-1]))} and {ends[-1]}"
    shown = ", ".join(f"{i}-{j}" for i, j in list(pairs)[:4])
    return f"between {len(pairs)} pairs of GPUs ({shown}{', …' if len(pairs) > 4 else ''})"
