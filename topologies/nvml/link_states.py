"""
The state of every NVLink and link to a CPU, as the driver tells it: what is stated of it, and what is out of order.

A link that is down is only a fault where it should be up: drivers also list links that a board does not use (an A100 has twelve, its
driver lists eighteen), and a card that needs a bridge may have none. What is in use tells: other GPUs of the same card, or the links
of the card in the catalogue where every board joins all of them. A GPU that is alone is no fault: a virtual machine may have one.

When to modify: another fact of a link.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from topologies.cards import card_of
from topologies.merging.identity import bus_key
from topologies.model import Gpu
from topologies.nvml.calls import ABSENT, INVALID_ARGUMENT, Driver, Unanswered, gpus_in_words, value_of
from topologies.nvml.links import UP, Ends
from topologies.pages.reading import listing

_COMMON_SPEED, _SPEED = 90, 164
_C2C_COUNT, _C2C_STATUS, _C2C_SPEED = 170, 171, 172
_MOST_C2C = 64
_MOST_MB_PER_S = 10**7
_ACTIVE = 1
_FIRST_WITH_ALL_LINKS_JOINED = 3
"""Generation of NVLink from which boards and bridges join every link of a card; those of V100 leave some out."""

_SLOW = 0.95
"""Below this share of the fastest link a link is slow; rates of healthy links are equal."""


def read_rates(driver: Driver, index: int, handle: Any, links: Sequence[int]) -> dict[int, float]:
    """
    Return GB/s of those *links* of GPU *index* of which the driver tells it; older drivers tell one rate for all.

    Raises
    ------
    topologies.nvml.calls.Lost
        If the GPU is.
    """
    if not links:
        return {}
    told = _fields(driver, index, handle, "NVLink rate", [(_SPEED, link) for link in links])
    if not any(told):
        told = _fields(driver, index, handle, "NVLink rate", [(_COMMON_SPEED, 0)]) * len(links)
    return {
        link: mb_per_s / 1000
        for link, mb_per_s in zip(links, told, strict=False)
        if mb_per_s and mb_per_s < _MOST_MB_PER_S
    }


def read_c2c(driver: Driver, index: int, handle: Any) -> dict[str, int]:
    """
    Return number and MB/s of the active links to the CPU of the same chip; empty for a GPU that has none.

    Raises
    ------
    topologies.nvml.calls.Lost
        If the GPU is.
    """
    what = "links to the CPU"
    count = min((_fields(driver, index, handle, what, [(_C2C_COUNT, 0)]) or [None])[0] or 0, _MOST_C2C)
    if not count:
        return {}
    asked = [(field, link) for field in (_C2C_STATUS, _C2C_SPEED) for link in range(count)]
    told = _fields(driver, index, handle, what, asked)
    active = [speed for status, speed in zip(told[:count], told[count:], strict=True) if status == _ACTIVE]
    speeds = [speed for speed in active if speed and speed < _MOST_MB_PER_S]
    return ({"count": len(active)} | ({"bw": min(speeds)} if speeds else {})) if active else {}


def _fields(
    driver: Driver, index: int, handle: Any, what: str, fields: Sequence[tuple[int, int]]
) -> list[int | None]:
    """Return the values of *fields*, None for each that is not told; that a driver does not know a field is no warning."""
    try:
        values = list(driver.call("DeviceGetFieldValues", handle, fields))
    except Unanswered as error:
        _note(driver, index, what, error)
        return []
    found: list[int | None] = []
    for value in values:
        if value.nvmlReturn:
            _note(driver, index, what, driver.error(value.nvmlReturn))
        found.append(None if value.nvmlReturn else value_of(value))
    return found


def _note(driver: Driver, index: int, what: str, error: Unanswered) -> None:
    if error.code not in ABSENT and error.code != INVALID_ARGUMENT:
        driver.failed(index, what, error)


def stated(gpus: Sequence[Gpu], ends: Mapping[int, Ends]) -> dict[str, Any]:
    """
    Return what is stated of the links of *gpus*, by the names and in the forms of the sources that state the same.

    *ends* are their links, by index.
    """
    found: dict[str, dict[str, Any]] = {name: {} for name in ("gpu_links_GBps", "gpu_links_up", "nvlinks_seen", "nvswitch_links", "c2c")}
    name_of = {bus_key(gpu.pci_bus_id): gpu.pci_bus_id for gpu in gpus if gpu.pci_bus_id is not None}
    for gpu in gpus:
        own, key = ends[gpu.index], str(gpu.index)
        card = card_of(gpu)
        up = own.up
        if own.has_all_states and own.states and (up or card is None or card.nvlink_links):
            found["gpu_links_up"][key] = len(up)
            if own.rates or not up:
                found["gpu_links_GBps"][key] = _rates(gpu, own, _alike(gpu, gpus, ends))
            if gpu.pci_bus_id is not None and up:
                found["nvlinks_seen"][gpu.pci_bus_id] = _by_name(own.targets, name_of)
                if own.is_complete and own.switched and not own.unclear:
                    found["nvswitch_links"][gpu.pci_bus_id] = own.switched
        if gpu.pci_bus_id is not None and own.c2c:
            found["c2c"][gpu.pci_bus_id] = dict(own.c2c)
    return {name: value for name, value in found.items() if value}


def _by_name(targets: Mapping[str, int], name_of: Mapping[str, str]) -> dict[str, int]:
    """Return *targets* with the bus ids of GPUs as the GPUs themselves tell them."""
    found: Counter[str] = Counter()
    for target, count in targets.items():
        found[name_of.get(bus_key(target), target)] += count
    return dict(found)


def _rates(gpu: Gpu, own: Ends, alike: Sequence[Ends]) -> dict[str, Any]:
    """Return the rate of each link as `nvidia-smi nvlink -s` prints it, without the links that no GPU of this card uses."""
    card = card_of(gpu)
    count = max((card.nvlink_links if card is not None else 0) or len(own.states), len(own.up))
    down = _which(own, alike, min(count, len(own.states)))
    links = {
        str(link): own.rates.get(link, "inactive") for link in own.states if link in own.rates or link in down
    }
    return {"name": gpu.name, "links": links} | ({} if own.rates else {"state": "inactive"})


def warnings(gpus: Sequence[Gpu], ends: Mapping[int, Ends]) -> list[str]:
    """Return a sentence for the links that are down but should be up, and those that are slower than others."""
    dead: dict[str, list[int]] = {}
    down: dict[tuple[int, int, tuple[int, ...]], list[int]] = {}
    slow: list[str] = []
    for gpu in gpus:
        own = ends[gpu.index]
        if not own.has_all_states or not own.states or (gpu.mig is not None and gpu.mig.enabled):
            continue
        alike = _alike(gpu, gpus, ends)
        up = own.up
        if not up:
            card = card_of(gpu)
            is_wired = card is not None and card.is_wired and len(alike) > 1
            if any(other.switched or (is_wired and other.up) for other in alike):
                dead.setdefault("but those of others like it are not", []).append(gpu.index)
            elif is_wired:
                dead.setdefault("though their board joins them: the fabric manager may not run", []).append(gpu.index)
            continue
        count = _expected(gpu, own, alike)
        if len(up) < count:
            down.setdefault((count - len(up), count, _which(own, alike, count)), []).append(gpu.index)
        fastest = max((rate for other in alike for rate in other.rates.values()), default=0.0)
        slower = {k: rate for k, rate in own.rates.items() if own.states[k] == _ACTIVE and rate < _SLOW * fastest}
        if slower:
            low, high = min(slower.values()), max(slower.values())
            rates = f"{low:g}" if low == high else f"{low:g} to {high:g}"
            slow.append(f"NVLinks of GPU {gpu.index} are slow: {_listed(list(slower))} ({rates} GB/s against {fastest:g} GB/s)")
    found = [f"all NVLinks of {gpus_in_words(indices)} are inactive, {why}" for why, indices in dead.items()]
    for (missing, count, links), indices in down.items():
        each = "each of " if len(indices) > 1 else ""
        found.append(
            f"{missing} of the {count} NVLinks of {each}{gpus_in_words(indices)} {'is' if missing == 1 else 'are'} inactive"
            + (f": {_listed(links)}" if links else "")
        )
    return found + slow


def _alike(gpu: Gpu, gpus: Sequence[Gpu], ends: Mapping[int, Ends]) -> list[Ends]:
    """Return the links of *gpu* and of the others of the same name."""
    return [ends[other.index] for other in gpus if other is gpu or (gpu.name is not None and other.name == gpu.name)]


def _expected(gpu: Gpu, own: Ends, alike: Sequence[Ends]) -> int:
    """Return how many links of *gpu* should be up: never more than the driver lists."""
    card = card_of(gpu)
    joins_all = card is not None and (own.switched > 0 or card.nvlink_gen >= _FIRST_WITH_ALL_LINKS_JOINED)
    of_card = card.nvlink_links if card is not None and joins_all else 0
    return min(max(of_card, *(len(other.up) for other in alike)), len(own.states))


def _which(own: Ends, alike: Sequence[Ends], count: int) -> tuple[int, ...]:
    """Return the links that are down of the *count* that should not be; empty when it is not clear which."""
    down = [link for link, state in own.states.items() if state not in UP]
    used = {link for other in alike for link in other.up}
    missing = count - (len(own.states) - len(down))
    for links in ([link for link in down if link in used], [link for link in down if link < count], down):
        if len(links) == missing:
            return tuple(links)
    return ()


def _listed(links: Sequence[int]) -> str:
    return ("link " if len(links) == 1 else "links ") + listing([str(link) for link in links])
