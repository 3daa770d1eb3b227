"""
How pairs of GPUs are joined, as the driver says: NVLinks counted from both ends, else the closest common part of the PCIe tree.

A link ends at a GPU of this host, at a switch, or elsewhere (a CPU, a GPU that is not here). Two GPUs have as many NVLinks as lead
from one to the other, or to NVSwitches from the one that has fewer. What could not be asked may hide a link, so a pair is only
stated where no answer that is missing could change it.

When to modify: another way to read NVLinks, or another thing at their ends.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from topologies.codes import MOST_NVLINKS
from topologies.merging.identity import bus_key
from topologies.nvml.calls import (
    FUNCTION_NOT_FOUND,
    INVALID_ARGUMENT,
    NOT_FOUND,
    NOT_SUPPORTED,
    Driver,
    Unanswered,
    value_of,
)
from topologies.nvml.gpu import text

_NVLINK_STATE = 165
"""NVML_FI_DEV_NVLINK_GET_STATE."""

UP = frozenset({1, 2})
"""Active, and asleep to save power; not inactive (0), and not the state in which a link carries no data (3)."""

_FIRST_BY_FIELD = (9, 0)
_FIRST_WITH_NVLINK = (6, 0)
_GPU, _NPU, _SWITCH = 0, 1, 2
_NOWHERE = "ffffffff:ff:ff"
_STATE = "NVLink state"


@dataclass
class Ends:
    """
    Where the active NVLinks of a GPU lead.

    Parameters
    ----------
    named
        The GPUs whose bus id is known, so that a link to them is known for one.
    direct
        How many lead to each of those.
    switched
        How many lead to a switch.
    nameless
        How many lead to a GPU of which no bus id is known.
    unclear
        How many lead to such a GPU or to a switch.
    is_complete
        False when some could not be asked, so that there may be more of any kind.
    states, has_all_states
        What the driver says of each link, and whether it says it of all.
    targets
        How many lead where: to a GPU's bus id as the link tells it, to a ``switch``, to a ``cpu``, or ``unknown``.
    rates
        GB/s of the links that are up, as far as the driver tells it.
    c2c
        Number and MB/s of the links to the CPU of the same chip.
    """

    named: Set[int]
    direct: Counter[int] = field(default_factory=Counter)
    switched: int = 0
    nameless: int = 0
    unclear: int = 0
    is_complete: bool = True
    states: dict[int, int] = field(default_factory=dict)
    has_all_states: bool = True
    targets: Counter[str] = field(default_factory=Counter)
    rates: dict[int, float] = field(default_factory=dict)
    c2c: dict[str, int] = field(default_factory=dict)

    def counts_all_to(self, other: int) -> bool:
        """Whether `direct` has every link to the GPU *other*."""
        return self.is_complete and (other in self.named or not self.nameless + self.unclear)

    @property
    def up(self) -> list[int]:
        """The links that are up."""
        return [link for link, state in self.states.items() if state in UP]

    @property
    def most_switched(self) -> float:
        """How many may lead to a switch."""
        return self.switched + self.unclear if self.is_complete else math.inf


def read_ends(driver: Driver, index: int, handle: Any, capability: str | None, index_of: Mapping[str, int], *,
              has_hidden: bool) -> Ends:  # fmt: skip
    """
    Return where the active NVLinks of GPU *index* lead.

    Parameters
    ----------
    capability
        Its compute capability: newer cards tell the state of a link as a field value, older ones by a call of its own.
    index_of
        The GPUs by bus id.
    has_hidden
        Whether there is a GPU whose bus id is not known, so that an unknown end need not be a switch.

    Raises
    ------
    topologies.nvml.calls.Lost
        If the GPU is.
    """
    ends = Ends(named=frozenset(index_of.values()))
    if capability is not None and _version(capability) < _FIRST_WITH_NVLINK:
        return ends
    ends.states, error = _states(driver, handle, capability)
    if error is not None:
        ends.is_complete = ends.has_all_states = False
        driver.failed(index, _STATE, error)
    for link in ends.up:
        _add_end(driver, index, handle, link, index_of, ends, has_hidden=has_hidden)
    return ends


def _states(driver: Driver, handle: Any, capability: str | None) -> tuple[dict[int, int], Unanswered | None]:
    """Return the state of each link, and the error that hides further ones, if any."""
    by_field_first = capability is None or _version(capability) >= _FIRST_BY_FIELD
    ways = (_by_field, _by_call) if by_field_first else (_by_call, _by_field)
    error = Unanswered(FUNCTION_NOT_FOUND, "Function Not Found")
    for way in ways:
        states, failure = way(driver, handle)
        if failure is None:
            return states, None
        if UP.intersection(states.values()) or failure.code not in (NOT_SUPPORTED, FUNCTION_NOT_FOUND, INVALID_ARGUMENT):
            return states, failure
        if way is _by_call and failure.code == NOT_SUPPORTED:
            return {}, None  # a card without NVLink
        error = failure
    return {}, None if error.code == NOT_SUPPORTED else error


def _by_call(driver: Driver, handle: Any) -> tuple[dict[int, int], Unanswered | None]:
    found: list[int | Unanswered] = []
    for link in range(MOST_NVLINKS):
        try:
            found.append(int(bool(driver.call("DeviceGetNvLinkState", handle, link))))
        except Unanswered as error:
            found.append(error)
            if error.code not in (INVALID_ARGUMENT, NOT_SUPPORTED) or (link == 1 and isinstance(found[0], Unanswered)):
                break
    states, failure = _answered(found)
    is_without = not states and failure is not None and failure.code == INVALID_ARGUMENT  # no link has a number
    return states, None if is_without else failure


def _by_field(driver: Driver, handle: Any) -> tuple[dict[int, int], Unanswered | None]:
    """Ask for all links in one call; each value has an error of its own."""
    try:
        fields = [(_NVLINK_STATE, link) for link in range(MOST_NVLINKS)]
        values = driver.call("DeviceGetFieldValues", handle, fields)
    except Unanswered as error:
        return {}, error
    return _answered([driver.error(value.nvmlReturn) if value.nvmlReturn else value_of(value) for value in values])


def _answered(found: Sequence[int | Unanswered]) -> tuple[dict[int, int], Unanswered | None]:
    """
    Return the states in *found*, what is told of each link, and the error that hides some.

    Past the last link there are only errors, also that it is not supported; one before a link that answers hides a link.
    """
    states = {link: state for link, state in enumerate(found) if not isinstance(state, Unanswered)}
    errors = {link: state for link, state in enumerate(found) if isinstance(state, Unanswered)}
    past = max(states, default=-1) + 1
    hiding = [
        error
        for link, error in errors.items()
        if link < past or link == 0 or error.code not in (INVALID_ARGUMENT, NOT_SUPPORTED)
    ]
    return states, next((error for error in hiding if error.is_lost), hiding[0] if hiding else None)


def compare_alike(driver: Driver, ends: Mapping[int, Ends], names: Mapping[int, str | None]) -> None:
    """Mark those *ends* as incomplete that list fewer links than another GPU of the same name: the last ones may be hidden."""
    most: Counter[str] = Counter()
    for index, own in ends.items():
        if name := names.get(index):
            most[name] = max(most[name], len(own.states))
    for index, own in ends.items():
        if own.has_all_states and own.states and len(own.states) < most[names.get(index) or ""]:
            own.is_complete = own.has_all_states = False
            driver.failed(index, _STATE, Unanswered(NOT_FOUND, "it lists fewer links than for others of the same name"))


def _add_end(driver: Driver, index: int, handle: Any, link: int, index_of: Mapping[str, int], ends: Ends, *,
             has_hidden: bool) -> None:  # fmt: skip
    """Count the far end of one link; what it is called decides, and what kind of device it is where no GPU is called so."""
    error: Unanswered | None = None
    bus_id = ""
    try:
        bus_id = text(driver.call("DeviceGetNvLinkRemotePciInfo", handle, link).busId) or ""
    except Unanswered as failure:
        error = failure
    peer = index_of.get(bus_key(bus_id)) if bus_id else None
    if peer is not None and peer != index:
        ends.direct[peer] += 1
        ends.targets[bus_id] += 1
        return
    try:
        kind = driver.call("DeviceGetNvLinkRemoteDeviceType", handle, link)
    except Unanswered as failure:
        if failure.is_lost:
            driver.failed(index, "far ends of NVLinks", failure)
        kind = None
    is_nowhere = not bus_id or bus_id.lower().startswith(_NOWHERE)
    ends.targets[{_GPU: "unknown" if is_nowhere else bus_id, _NPU: "cpu", _SWITCH: "switch"}.get(kind, "unknown")] += 1
    if kind == _SWITCH:
        ends.switched += 1
    elif error is not None:
        ends.is_complete = False
        driver.failed(index, "far ends of NVLinks", error)
    elif kind == _GPU:
        ends.nameless += 1
    elif kind == _NPU:
        pass  # a CPU
    elif has_hidden and not is_nowhere:
        ends.unclear += 1
    else:
        ends.switched += 1


def nvlinks(i: int, j: int, ends: Mapping[int, Ends]) -> int | None:
    """Return the number of NVLinks between GPUs *i* and *j*, the larger where the two ends disagree; None when unknown."""
    a, b = ends[i], ends[j]
    if not a.counts_all_to(j) and not b.counts_all_to(i):
        return None
    if direct := max(a.direct[j], b.direct[i]):
        return direct
    least, most = min(a.switched, b.switched), min(a.most_switched, b.most_switched)
    return least if least == most else None


def disagreement(i: int, j: int, ends: Mapping[int, Ends]) -> str | None:
    """Return in words how the ends of the NVLinks between GPUs *i* and *j* disagree, if both were read and do."""
    a, b = ends[i], ends[j]
    there, back = a.direct[j], b.direct[i]
    is_odd = there != back and a.counts_all_to(j) and b.counts_all_to(i)
    return f"{there} there, {back} back" if is_odd else None


def _version(capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split("."))
