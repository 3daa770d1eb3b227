"""
GPUs of which ``nvidia-smi -q`` prints nothing but a message, and the numbers that the others keep.

The driver numbers all GPUs that are attached in the order of their bus ids, lost ones included.

When to modify: the tool says in other words that a GPU does not answer, or prints another fact that tells its number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from topologies.merging.identity import BY_MINOR, UNPLACED, bus_key
from topologies.nvidia.matrix.header import MOST_DEVICES
from topologies.pages.reading import listing

_LOST = re.compile(
    r"nable to de(?:termine|tect) the device handle for (?:GPU ?)?(?:[0-9]{1,3}: ?)?([0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7])",
    re.IGNORECASE,
)

_USUAL = 16
_MOST_IN_A_HOST = 64
"""Few hosts have more GPUs than the former, none more than the latter."""


class Shown(Protocol):
    """What is used here of a GPU that is shown, as printed."""

    bus_id: str | None
    minor: str | None

    @property
    def is_excerpt(self) -> bool:
        """Whether it is what somebody chose to show of a GPU."""


def find_lost(text: str) -> list[str]:
    """Return the bus ids of the GPUs that messages in *text* say do not answer, each once."""
    found: dict[str, str] = {}
    for match in _LOST.finditer(text) if "device handle" in text else ():
        found.setdefault(bus_key(match[1]), match[1])
        if len(found) > MOST_DEVICES:
            break
    return list(found.values())


def plausible(attached: int | None, shown: int, warnings: list[str]) -> int | None:
    """Return how many GPUs are said to be *attached*; None, with a warning, if more digits run into it than *shown* ones allow."""
    is_glued = attached is not None and attached > shown and attached > _USUAL and str(attached).startswith(str(shown))
    if attached is None or not (is_glued or (attached > shown and attached > _MOST_IN_A_HOST)):
        return attached
    warnings.append(f"{attached} GPUs are said to be attached, which no host has: the number of GPUs beside the {shown} shown is unknown")
    return None


def places_of(
    blocks: Sequence[Shown], lost: Sequence[str], attached: int | None, warnings: list[str], *, is_headless: bool = False
) -> tuple[list[int], dict[int, str]]:
    """
    Return the index of each of *blocks*, and those of the GPUs that are lost, to their bus ids.

    Parameters
    ----------
    blocks
        The GPUs that are shown, in the order of the text.
    lost
        Bus ids that messages name.
    attached
        How many GPUs there are; None when it is not said.
    warnings
        Gets what was concluded, and what is not known.
    is_headless
        Whether there is a further GPU before those.
    """
    in_order = list(range(len(blocks)))
    shown = [bus_key(block.bus_id) for block in blocks if block.bus_id]
    missing = [bus_id for bus_id in lost if bus_key(bus_id) not in shown]
    if missing and (attached is None or attached > len(blocks)):
        return _around(in_order, shown, missing, attached, warnings)
    if attached is None:
        return _without_count(blocks, warnings, is_headless=is_headless), {}
    if attached <= len(blocks):
        return in_order, {}
    numbers = _by_minor(blocks, attached)
    if numbers is None:
        warnings.append(UNPLACED)
        return in_order, {}
    names = listing([f"GPU{index}" for index in numbers])
    are = "is" if len(numbers) == 1 else "are"
    # An excerpt of the first stands for all. All of the first is what `-i 0` prints, and an output that is cut behind it.
    if numbers != [0] or not blocks[0].is_excerpt:
        warnings.append(f"{len(blocks)} of {attached} GPUs {are} shown: {BY_MINOR} ({names})")
    return numbers, {}


def _without_count(blocks: Sequence[Shown], warnings: list[str], *, is_headless: bool) -> list[int]:
    """Return the index of each of *blocks* where the header, which counts the GPUs, is not shown."""
    in_order = list(range(len(blocks)))
    numbers = _by_minor(blocks, MOST_DEVICES)
    if numbers is not None and sorted(numbers) != in_order:
        names = listing([f"GPU{index}" for index in numbers])
        warnings.append(f"the head of the output is missing, which counts the GPUs: {BY_MINOR} ({names}); further ones are unknown")
        return numbers
    if is_headless:
        warnings.append(UNPLACED)
    return in_order


def _by_minor(blocks: Sequence[Shown], attached: int) -> list[int] | None:
    """Return the minor numbers of *blocks*; None unless all have one that can be their index: they must go with the bus ids."""
    numbers = [int(block.minor) for block in blocks if block.minor and re.fullmatch(r"[0-9]{1,4}", block.minor.strip())]
    if len(numbers) < len(blocks) or len(set(numbers)) < len(numbers) or not all(number < attached for number in numbers):
        return None
    busses = [_order(bus_key(block.bus_id)) for block in blocks if block.bus_id]
    by_bus = [number for _, number in sorted(zip(busses, numbers, strict=False))]
    return numbers if by_bus == sorted(numbers) else None


def _around(
    in_order: list[int], shown: Sequence[str], missing: Sequence[str], attached: int | None, warnings: list[str]
) -> tuple[list[int], dict[int, str]]:
    """Return places as `places_of` does, with the GPUs *missing* where their bus ids belong among those *shown*."""
    whole = len(in_order) + len(missing)
    can_order = len(shown) == len(in_order) and list(shown) == sorted(shown, key=_order)
    if can_order and (attached is None or whole >= attached):
        keys = sorted([*shown, *map(bus_key, missing)], key=_order)
        named = {keys.index(bus_key(bus_id)): bus_id for bus_id in missing}
        places = [keys.index(key) for key in shown]
        numbers = listing([f"GPU{index}" for index in sorted(named)])
        warnings.append(
            f"{numbers} ({listing(list(named.values()))}) does not answer, so that nothing else is known of it; the others keep their "
            "numbers, which go by bus ids"
            if len(named) == 1
            else f"{numbers} ({listing(list(named.values()))}) do not answer, so that nothing else is known of them; the others keep "
            "their numbers, which go by bus ids"
        )
        return places, dict(sorted(named.items()))
    verb = "GPU at {} does" if len(missing) == 1 else "GPUs at {} do"
    warnings += [f"the {verb.format(listing(list(missing)))} not answer", UNPLACED]
    return in_order, {len(in_order) + k: bus_id for k, bus_id in enumerate(missing)}


def _order(key: str) -> tuple[int, ...]:
    """Return what sorts bus ids in PCI order."""
    return tuple(int(part, 16) for part in re.split("[:.]", key))
