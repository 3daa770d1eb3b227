"""
Which GPU of one source is which GPU of another: by UUID, by bus id, else by index.

When to modify: another fact tells GPUs apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from topologies.errors import TopologyError
from topologies.merging.renumbering import renumbered, restated
from topologies.model import Gpu, Topology
from topologies.pages.reading import listing

UNNUMBERED = frozenset({"lspci", "nccl-topo-xml", "q-text", "q-xml"})
"""Formats that list GPUs by bus id: their indices are only the order of the list."""

NO_INDEX = "the query output has no index"
"""How a query output without header says that it numbers no GPUs; one with a header says so by its titles."""

SOME = frozenset({"query-apps"})
"""Formats that name only some GPUs, in no order: those that run processes."""

ONLY_SOME = "only the GPUs that run processes are named, in no order: links and further GPUs are unknown"
"""What such a source says of itself, unless another names the GPUs."""

UNPLACED = (
    "not all GPUs that are attached are shown, and which numbers they have is unknown: GPU 0, 1, 2 … are those that are shown, in the "
    "order of the text"
)
"""What a source says of itself whose GPUs are only told by UUID or bus id, never by their place."""

BY_MINOR = "GPU numbers were taken from minor numbers"
"""What a source says of itself that shows only some GPUs, and their minor numbers."""


def bus_key(bus_id: str) -> str:
    """
    Return *bus_id* without differences in writing: ``00000000:3B:00.0``, ``0000:3b:00.0`` and ``3b:00.0`` are one device.
    """
    found = bus_id.strip().lower()
    if re.fullmatch(r"[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?", found):
        found = "0:" + found
    domain, colon, rest = found.partition(":")
    if not colon:
        return found
    return f"{domain.lstrip('0') or '0'}:{rest if '.' in rest else rest + '.0'}"


def order_like(a: Topology, b: Topology, name_a: str, name_b: str) -> tuple[Topology, Topology]:
    """
    Return *a* and *b* so that the same index is the same GPU.

    UUIDs, else bus ids, say who is who. Numbers come from the source that states them: GPUs of a list that such a source does not have
    (hidden from a container, say) are left out with a warning. A list that states none and shows only some GPUs (``lspci | grep``, a
    block of ``nvidia-smi -q``) tells neither numbers nor how many there are: its GPUs are put where the other source has them.

    Where the two are not about the same GPUs they are returned as they are; but what one tells of GPUs that nothing places
    (`UNPLACED`) is left out.

    Raises
    ------
    TopologyError
        If both list GPUs by bus id, and each has some that the other does not have.
    """
    if b.format in SOME:
        return a, _placed(b, a, name_b, name_a)
    if a.format in SOME:
        return _placed(a, b, name_a, name_b), b
    if (UNPLACED in a.warnings) != (UNPLACED in b.warnings) and not _are_all(a, b):
        some, full = (b, a) if UNPLACED in b.warnings else (a, b)
        if _weight(full) or len(full.gpus) >= len(some.gpus):
            return (a, _found(b, a, name_b, name_a)) if some is b else (_found(a, b, name_a, name_b), b)
    for key in (_uuid, _bus):
        if (spread := _spread(b, a, key)) is not None:
            return a, spread
        if (spread := _spread(a, b, key)) is not None:
            return spread, b
        keys_a, keys_b = _keys(a, key), _keys(b, key)
        if keys_a is None or keys_b is None or keys_a == keys_b:
            continue
        if _weight(a) > _weight(b) and set(keys_a) <= set(keys_b):
            return a, _picked(b, keys_a, keys_b, name_b, name_a)
        if _weight(b) > _weight(a) and set(keys_b) <= set(keys_a):
            return _picked(a, keys_b, keys_a, name_a, name_b), b
        break
    if not is_numbered(a) and not is_numbered(b):
        return _together(a, b, name_a, name_b)
    return a, b


def is_numbered(topology: Topology) -> bool:
    """Whether *topology* states the numbers of its GPUs, so that they are no mere order of a list."""
    if topology.format != "query-csv":
        return topology.format not in UNNUMBERED | SOME
    header = topology.stated.get("header")
    if header is None:
        return not any(warning.startswith(NO_INDEX) for warning in topology.warnings)
    return any(str(title).strip().lower() == "index" for title in header)


def is_whole(topology: Topology) -> bool:
    """Whether *topology* says how many GPUs the driver has, and shows them all (``nvidia-smi -q``): what it lacks is hidden."""
    return topology.stated.get("attached_gpus") == len(topology.gpus) and all(gpu.is_named for gpu in topology.gpus)


def _weight(topology: Topology) -> int:
    """Return 2 if *topology* numbers its GPUs, 1 if it at least shows all that the driver has, 0 for any other list."""
    return 2 if is_numbered(topology) else int(is_whole(topology))


def is_part(topology: Topology) -> bool:
    """Whether *topology* is a list by bus id that shows only some of the GPUs that it counts."""
    return topology.format in UNNUMBERED and not all(gpu.is_named for gpu in topology.gpus)


def _together(a: Topology, b: Topology, name_a: str, name_b: str) -> tuple[Topology, Topology]:
    """Return two lists by bus id, each of which shows some of the GPUs of a machine, with all that they show in PCI order."""
    shown = [{_bus(gpu) for gpu in topology.gpus if gpu.is_named} for topology in (a, b)]
    union = shown[0] | shown[1]
    if None in union or shown[0] == shown[1]:
        return a, b
    order = sorted((key for key in union if key is not None), key=_place)
    size = max(len(a.gpus), len(b.gpus))
    if len(a.gpus) != len(b.gpus) or len(order) > size:
        only = [sorted(key for key in shown[k] - shown[1 - k] if key is not None) for k in (0, 1)]
        raise TopologyError(
            f"{name_a} and {name_b} do not show the same GPUs: {_some(only[0])} only the former, {_some(only[1])} only the latter; "
            "they are not the same machine, or one was cut"
        )
    taken = {gpu.index for topology in (a, b) for gpu in topology.gpus if gpu.is_named}
    if len(taken) == len(order) < size and UNPLACED not in a.warnings:
        return a, b  # each has a number of its own, between which others are missing
    place = {key: index for index, key in enumerate(order)}
    found: list[Topology] = []
    for topology in (a, b):
        gpus = [Gpu(index, is_named=False) for index in range(size)]
        new = {gpu.index: place[str(_bus(gpu))] for gpu in topology.gpus if gpu.is_named}
        for old, index in new.items():
            gpus[index] = topology.gpus[old].replace(index=index)
        is_settled = len(order) == size
        warnings = [w for w in topology.warnings if not (is_settled and (w == UNPLACED or BY_MINOR in w))]
        found.append(topology.replace(gpus=tuple(gpus), warnings=tuple(warnings), stated=restated(topology.stated, new)))
    return found[0], found[1]


def _are_all(a: Topology, b: Topology) -> bool:
    """Whether two lists by bus id show all GPUs of their machine together, so that their order tells the numbers."""
    shown = {_bus(gpu) for topology in (a, b) for gpu in topology.gpus if gpu.is_named}
    is_one = len(a.gpus) == len(b.gpus) == len(shown) and None not in shown
    return is_one and a.format in UNNUMBERED and b.format in UNNUMBERED


def _some(bus_ids: Sequence[str]) -> str:
    shown = ", ".join(bus_ids[:2])
    return f"{shown} and {len(bus_ids) - 2} more" if len(bus_ids) > 2 else shown or "none"


def _place(key: str) -> tuple[int, ...]:
    """Return the place of a `bus_key` in PCI order."""
    return tuple(int(part, 16) if re.fullmatch("[0-9a-f]+", part) else -1 for part in re.split(r"[:.]", key))


def _uuid(gpu: Gpu) -> str | None:
    return gpu.uuid.lower() if gpu.uuid else None


def _bus(gpu: Gpu) -> str | None:
    return bus_key(gpu.pci_bus_id) if gpu.pci_bus_id else None


def _keys(topology: Topology, key: Callable[[Gpu], str | None]) -> list[str] | None:
    """Return what tells each GPU apart; None unless all have it and no two share it."""
    found = [told for gpu in topology.gpus if (told := key(gpu)) is not None]
    return found if len(set(found)) == len(topology.gpus) else None


def _placed(some: Topology, full: Topology, name: str, other: str) -> Topology:
    """Return *some* with as many GPUs as *full*, each in the place that its UUID or bus id has there."""
    gpus = [Gpu(index, is_named=False, processes=()) for index in range(len(full.gpus))]
    unknown = len(some.gpus)
    for key in (_uuid, _bus):
        keys = _keys(full, key)
        if keys is None:
            continue
        place = {told: index for index, told in enumerate(keys)}
        for gpu in some.gpus:
            index = place.get(key(gpu) or "")
            if index is not None and gpus[index].is_named is False:
                gpus[index] = gpu.replace(index=index)
                unknown -= 1
    warnings = tuple(warning for warning in some.warnings if warning != ONLY_SOME)
    if unknown:
        gpus = [gpu if gpu.is_named else gpu.replace(processes=None) for gpu in gpus]
        warnings = (*warnings, f"{name} has {unknown} GPUs that {other} does not name: their processes were left out")
    return some.replace(gpus=tuple(gpus), warnings=warnings)


def _found(some: Topology, full: Topology, name: str, other: str) -> Topology:
    """Return *some*, whose numbers mean nothing, with its GPUs where *full* has those of the same UUID or bus id; others are left out."""
    places: dict[int, int] = {}
    for key in (_uuid, _bus):
        place = {told: gpu.index for gpu in full.gpus if (told := key(gpu)) is not None}
        free = [gpu for gpu in some.gpus if gpu.index not in places]
        places |= {gpu.index: index for gpu in free if (index := place.get(key(gpu) or "")) is not None}
    missing = [gpu.pci_bus_id or f"number {gpu.index + 1}" for gpu in some.gpus if _is_told(gpu) and gpu.index not in places]
    size = len(some.gpus) if missing and len(full.gpus) < len(some.gpus) else len(full.gpus)
    gpus = [Gpu(index, is_named=False) for index in range(size)]
    for old, new in places.items():
        gpus[new] = some.gpus[old].replace(index=new)
    warnings = [warning for warning in some.warnings if warning != UNPLACED]
    if missing:
        names = listing(missing)
        warnings.append(
            f"{name} does not tell the numbers of its GPUs, and {other} does not have those at {names} by UUID or bus id: what it says of "
            "them was left out"
        )
    return some.replace(gpus=tuple(gpus), warnings=tuple(warnings), stated=restated(some.stated, places))


def _is_told(gpu: Gpu) -> bool:
    """Whether something is known of *gpu* besides that it is there."""
    return gpu.is_named or gpu.pci_bus_id is not None


def _spread(some: Topology, full: Topology, key: Callable[[Gpu], str | None]) -> Topology | None:
    """
    Return *some*, a list that states no numbers, with each of its GPUs where *full* has it.

    None if it has others, if *full* tells no more of numbers and of how many there are, or if nothing is to be moved.
    """
    shown = {key(gpu): gpu.index for gpu in some.gpus if gpu.is_named}
    place = {told: gpu.index for gpu in full.gpus if (told := key(gpu)) is not None}
    if is_numbered(some) or _weight(some) > _weight(full) or None in shown or not shown.keys() <= place.keys():
        return None
    if len(shown) < sum(gpu.is_named for gpu in some.gpus) or len(place) < sum(key(gpu) is not None for gpu in full.gpus):
        return None  # two share one
    if len(full.gpus) < len(some.gpus) and not is_numbered(full):
        return None
    new = {index: place[str(told)] for told, index in shown.items()}
    if len(full.gpus) == len(some.gpus) and all(old == index for old, index in new.items()):
        return None
    warnings = tuple(warning for warning in some.warnings if BY_MINOR not in warning)
    found = renumbered(some, new, size=len(full.gpus))
    return found.replace(warnings=warnings, stated=restated(some.stated, new))


def _picked(
    topology: Topology, wanted: Sequence[str], have: Sequence[str], name: str, other: str
) -> Topology:
    """Return *topology* with the GPUs *wanted*, in that order."""
    old = {key: index for index, key in enumerate(have)}
    new = {old[key]: index for index, key in enumerate(wanted)}
    left_out = len(have) - len(wanted)
    warnings = topology.warnings
    if left_out:
        warnings = (*warnings, f"{name} has {left_out} GPUs that {other} does not have: they were left out")
    return renumbered(topology, new).replace(warnings=warnings, stated=restated(topology.stated, new))
