"""
What the driver says of pairs of GPUs: the code of `topo -m`, and whether one can read the memory of the other.

When to modify: another fact of a pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topologies.model import Gpu, Pair
from topologies.nvml.calls import Driver, pairs_in_words
from topologies.nvml.links import Ends, disagreement, nvlinks

_LEVELS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""NVML's common ancestor to nvidia-smi's code; INTERNAL (0), two GPUs on one board, is printed as PIX."""

_PEER_STATES = {0: "OK", 1: "CNS", 2: "GNS", 3: "TNS", 4: "DR", 5: "NS"}
_READ, _WRITE, _NVLINK = 0, 1, 2
"""What peer-to-peer status is asked for; the package's own constant for the first is a tuple by mistake."""

_MOST_SHOWN = 12


class Pairs:
    """
    What was read of pairs so far.

    Parameters
    ----------
    driver, handles
        Whom to ask, and about what.
    ends
        The NVLinks of each GPU.
    gpus
        What else is known of each; instances of those in MIG mode have neither NVLink nor peer-to-peer.
    """

    def __init__(
        self, driver: Driver, handles: Mapping[int, Any], ends: Mapping[int, Ends], gpus: Mapping[int, Gpu]
    ) -> None:
        self.links: dict[Pair, str] = {}
        self.paths: dict[Pair, str] = {}
        self.peers: dict[str, dict[Pair, str]] = {"r": {}, "w": {}, "n": {}}
        self._driver = driver
        self._handles = handles
        self._ends = ends
        self._divided = {index for index, gpu in gpus.items() if gpu.mig is not None and gpu.mig.enabled}
        self._disagreeing: dict[Pair, str] = {}
        self._refused: dict[str, list[Pair]] = {}
        self._unknown: list[Pair] = []
        self._invisible: list[Pair] = []
        self._odd_levels: dict[int, list[Pair]] = {}

    def read(self, i: int, j: int) -> None:
        """
        Ask for the pair of GPUs *i* and *j*.

        Raises
        ------
        topologies.nvml.calls.Lost
            If one of them is.
        """
        count = nvlinks(i, j, self._ends)
        if count is None:
            self._unknown.append((i, j))
        elif count:
            self.links[i, j] = f"NV{count}"
            self._read_level((i, j), None, self.paths)
        else:
            self._read_level((i, j), "PCIe path", self.links)
        if odd := disagreement(i, j, self._ends):
            self._disagreeing[i, j] = odd
        state = self._peer((i, j), _READ, "peer-to-peer state")
        if state is not None:
            self.peers["r"][i, j] = state
        for letter, kind in (("w", _WRITE), ("n", _NVLINK)):
            if (other := self._peer((i, j), kind, None)) is not None:
                self.peers[letter][i, j] = other
        over_nvlink = self.peers["n"].get((i, j))
        if over_nvlink is None or count is None or self._divided.intersection((i, j)):
            return
        if count and over_nvlink != "OK":
            self._refused.setdefault(over_nvlink, []).append((i, j))
        if not count and over_nvlink == "OK":
            self._invisible.append((i, j))

    def _read_level(self, pair: Pair, what: str | None, into: dict[Pair, str]) -> None:
        """Put the code of the common ancestor *into* a table; *what* names the fact in warnings, None if it may be missing."""
        level = self._driver.of_pair(pair, self._handles, what, "DeviceGetTopologyCommonAncestor")
        if level in _LEVELS:
            into[pair] = _LEVELS[level]
        elif level is not None:
            self._odd_levels.setdefault(level, []).append(pair)

    def _peer(self, pair: Pair, kind: int, what: str | None) -> str | None:
        state = self._driver.of_pair(pair, self._handles, what, "DeviceGetP2PStatus", kind)
        return _PEER_STATES.get(state, "U") if state is not None else None

    def warnings(self, new: Mapping[int, int]) -> list[str]:
        """Return what is odd; *new* maps the driver's index of each GPU that was kept to its index here."""

        def named(pairs: list[Pair]) -> str:
            return pairs_in_words([(new[i], new[j]) for i, j in pairs if i in new and j in new])

        found = []
        if words := named(self._unknown):
            found.append(f"the links between GPUs {words} are unknown, because not all of their NVLinks could be read")
        if odd := [p for p in self._disagreeing if named([p])]:
            words = ", ".join(f"{named([pair])} ({self._disagreeing[pair]})" for pair in odd[:_MOST_SHOWN])
            found.append(
                f"the ends of NVLinks disagree about their number, of which the larger is taken: GPUs {words}"
            )
        for state, pairs in self._refused.items():
            if words := named(pairs):
                found.append(
                    f"NVLinks join GPUs {words}, but the driver says that peer-to-peer over NVLink does not work there ({state})"
                )
        if words := named(self._invisible):
            found.append(
                f"the driver says that peer-to-peer over NVLink works between GPUs {words}, but shows no NVLink between them"
            )
        for level, pairs in self._odd_levels.items():
            if words := named(pairs):
                found.append(f"the PCIe path between GPUs {words} is of a kind that is not known ({level})")
        return found
