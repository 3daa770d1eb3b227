"""
Read ``nvidia-smi nvlink``: the state and rate of every NVLink (``--status``), and what is at its other end (``-R``, ``-p``).

Other answers of the command (``--capabilities``, error counters) name the GPUs and are no more than that. Links between GPUs are
stated only where the other ends are GPUs of the text; which bus id is which GPU is told by a query output beside it, or by the
order of the GPUs, which is that of their bus ids, if both ends of every link then agree.

When to modify: the command words its answer differently.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from topologies.bus_ids import BUS_ID
from topologies.cards import card_of
from topologies.codes import MOST_NVLINKS
from topologies.merging.identity import bus_key
from topologies.model import Gpu, Pair, Topology
from topologies.nvidia.nvlink.ends import gpus_by_ends
from topologies.nvidia.nvlink.gpu_lines import Below, Section, find_outputs
from topologies.nvidia.nvlink.gpu_list import gpus_of
from topologies.nvidia.query import csv_text
from topologies.pages.reading import Reading, listing
from topologies.pages.text import Page

_LINK = re.compile(
    rf"(?<!\w)(?<!C2C )Link\s{{0,4}}(?P<link>[0-9]{{1,3}})"
    rf"\s?(?::\s{{0,8}}(?:(?P<rate>[0-9]{{1,6}}(?:\.[0-9]{{1,6}})?)\s{{0,4}}GB?(?P<unit>/s)?"
    rf"|(?P<inactive><?\s?inactive\s?>?)|(?:Remote\b[\w ]{{0,24}}?:?\s)?(?P<bus>{BUS_ID})"
    r"(?:\s?:\s{0,4}Link\s{0,4}(?P<far>[0-9]{1,3}))?"
    r"|(?P<other>[\w ]{1,40}:)|(?P<odd>[^\s,].{0,40})?)|(?P<capability>\s?,))",
    re.IGNORECASE,
)
_ALL_INACTIVE = re.compile(r"NVLink.{0,40}all links are inactive", re.IGNORECASE)
_UNSUPPORTED = re.compile(r"NVLink.{0,40}not supported", re.IGNORECASE)
_CUT = re.compile(r"\s*(?:L|Li|Lin|Link|Link [0-9]{1,3})\Z")
_MATRIX = re.compile(r"\bGPU0\b[ \t|]{1,40}X(?:\s|\|)")
_MOST_SHOWN = 4

Ends = Mapping[int, tuple[str, int | None]]
"""Links of a GPU to the bus id at their other end, and the link there."""

_SLOW = 0.95
"""Below this share of the fastest link a link is slow; rates of healthy links are equal but for how drivers round."""

_FAR_BELOW = 0.5
"""Below this share of what the card can do all links are slow: drivers state the rate with and without overhead."""


@dataclass(slots=True)
class _Links:
    """What an output states of the links of one GPU: rate (None when inactive), other ends, and how each was odd.

    *is_last* tells that the text ends below it, *is_mixed* that links come again: those of another GPU, whose own line is missing.
    """

    rates: dict[int, float | None] = field(default_factory=dict)
    ends: dict[int, tuple[str, int | None]] = field(default_factory=dict)
    odd: dict[int, str] = field(default_factory=dict)
    state: str | None = None
    is_cut: bool = False
    is_last: bool = False
    is_mixed: bool = False
    is_other: bool = False

    @property
    def is_status(self) -> bool:
        """Whether it answers the question for the state."""
        return bool(self.rates or self.odd or self.state)


def read(page: Page) -> Iterator[Reading]:
    """
    Yield a reading for every output on *page*.

    Raises
    ------
    TopologyError
        If an index is that of no GPU.
    """
    if "Link" not in page.text:
        return
    outputs = []
    found, notes = find_outputs(page)
    for output in found:
        links = {section.index: _links(section.below) for section in output}
        if any(of_gpu.is_status or of_gpu.ends or of_gpu.is_other for of_gpu in links.values()):
            outputs.append((output, links))
    inactive = {(g, k) for _, links in outputs for g, own in links.items() for k, rate in own.rates.items() if rate is None}
    has_status = any(own.is_status for _, links in outputs for own in links.values())
    for output, links in outputs:
        warnings = [*notes]
        gpus = gpus_of(output, "the NVLink status", warnings)
        stated = {}
        if mixed := [f"GPU{g}" for g, own in links.items() if own.is_mixed]:
            warnings.append(f"below {listing(mixed)} stand the NVLinks of another GPU, whose own line is missing: they are left out")
        if any(own.is_status for own in links.values()):
            warnings += _warnings(output, links, page)
            stated["gpu_links_GBps"] = {str(section.index): _stated(section, links[section.index]) for section in output}
        elif not has_status and not any(own.ends for own in links.values()):
            warnings.append("the text says nothing about the state of NVLinks; `nvidia-smi nvlink --status` prints it")
        pairs = {}
        if any(own.ends for own in links.values()):
            ends = {g: {k: end for k, end in own.ends.items() if (g, k) not in inactive} for g, own in links.items()}
            gpu_of = _gpus_by_bus(page) or _gpus_by_order(ends)
            pairs = _pairs(ends, gpu_of, warnings)
            warnings += [] if has_status or _MATRIX.search(page.text) else _elsewhere(ends, gpu_of)
        yield Reading(
            output[0].number,
            Topology(
                tuple(gpus), links=pairs, format="nvlink-status", warnings=tuple(dict.fromkeys(warnings)), stated=stated,
            ),
        )  # fmt: skip


def _links(below: Sequence[Below]) -> _Links:
    found = _Links()
    for piece in below:
        found.is_last |= piece.is_last
        if "NVL" in piece.text.upper():
            if _ALL_INACTIVE.search(piece.text):
                found.state = "inactive"
            elif _UNSUPPORTED.search(piece.text):
                found.state = "unsupported"
        for match in _LINK.finditer(piece.text):
            link = int(match["link"])
            if link >= MOST_NVLINKS:
                continue
            ends_text = piece.is_last and not piece.text[match.end() :].strip()
            if match["capability"] or match["other"]:
                found.is_other = True
            elif match["rate"] or match["inactive"]:
                found.is_mixed |= link in found.rates
                if not found.is_mixed:
                    found.rates[link] = float(match["rate"]) if match["rate"] else None
            elif match["bus"]:
                found.is_mixed |= link in found.ends
                if not found.is_mixed:
                    found.ends[link] = (bus_key(match["bus"]), None if match["far"] is None else int(match["far"]))
            elif link not in found.rates and link not in found.ends:
                found.odd[link] = (match["odd"] or "").strip()
                found.is_cut |= ends_text
        if piece.is_last and _CUT.match(piece.text):
            found.is_cut = True
    return found


def _stated(section: Section, links: _Links) -> dict[str, object]:
    found: dict[str, object] = {
        "name": section.name,
        "links": {str(k): "inactive" if rate is None else rate for k, rate in sorted(links.rates.items())},
    }
    state = links.state or ("inactive" if links.rates and not any(links.rates.values()) else None)
    return found | ({"state": state} if state else {})


def _warnings(output: Sequence[Section], links: Mapping[int, _Links], page: Page) -> list[str]:
    """Return what is wrong with the links of a status output."""
    found: list[str] = []
    joined = [index for index, own in links.items() if any(own.rates.values())]
    counts: dict[str | None, int] = {}
    fastest: dict[str | None, float] = {}
    for section in output:
        own = links[section.index]
        counts[section.name] = max(counts.get(section.name, 0), len(own.rates | own.odd))
        fastest[section.name] = max((fastest.get(section.name, 0.0), *(rate or 0.0 for rate in own.rates.values())))
    cards = {section.index: card_of(Gpu(0, name=section.name)) for section in output}
    wired = {g for g, card in cards.items() if card is not None and card.is_wired}
    dead = [f"GPU{g}" for g, own in links.items() if own.rates and g not in joined]
    dead += [f"GPU{g}" for g, own in links.items() if own.state == "inactive" and not own.rates and (joined or g in wired)]
    if dead:
        remedy = "" if joined else ": the fabric manager does not run, or there is no bridge"
        found.append(f"all NVLinks of {listing(sorted(dead, key=lambda gpu: int(gpu[3:])))} are inactive{remedy}")
    for section in output:
        own, gpu = links[section.index], f"GPU{section.index}"
        off = [k for k, rate in sorted(own.rates.items()) if rate is None]
        if off and section.index in joined:
            are = f"is inactive: link {off[0]}" if len(off) == 1 else f"are inactive: links {_listed(off)}"
            found.append(f"{len(off)} of the {len(own.rates)} NVLinks of {gpu} {are}")
        card = cards[section.index]
        rated = card.nvlink_gb_per_s_per_link if card is not None else 0.0
        if fastest[section.name] < _FAR_BELOW * rated:
            fastest[section.name] = rated
        slow = {k: rate for k, rate in sorted(own.rates.items()) if rate is not None and rate < _SLOW * fastest[section.name]}
        if slow:
            low, high = min(slow.values()), max(slow.values())
            rates = f"{low:g}" if low == high else f"{low:g} to {high:g}"
            found.append(f"NVLinks of {gpu} are slow: {_listed(list(slow))} ({rates} GB/s against {fastest[section.name]:g} GB/s)")
        for link, word in sorted(own.odd.items()):
            found.append(f"the state of NVLink {link} of {gpu} is {word!r}, which is not understood; it is left unknown")
        seen = own.rates | own.odd
        count = max(counts[section.name], card.nvlink_links if card is not None and page.is_cut and own.is_last else 0)
        lost = [k for k in range(max((count, *(k + 1 for k in seen)))) if k not in seen]
        if lost and own.state is None:
            found.append(f"the text does not show the NVLinks {_listed(lost)} of {gpu}")
        elif not seen and own.state is None:
            found.append(f"the text shows no NVLinks of {gpu}")
        if own.is_cut and page.is_cut:
            found.append(f"the text ends within the NVLinks of {gpu}")
    return found


def _listed(links: Sequence[int]) -> str:
    return listing([str(link) for link in links])


def _pairs(ends: Mapping[int, Ends], gpu_of: Mapping[str, int], warnings: list[str]) -> dict[Pair, str]:
    """Return the links between GPUs that the other *ends* prove; *gpu_of* tells which GPU has which bus id."""
    counts: Counter[Pair] = Counter()
    for g, own in ends.items():
        for bus, _ in own.values():
            other = gpu_of.get(bus)
            if other is not None and other != g and other <= max(ends):
                counts[g, other] += 1
    found: dict[Pair, str] = {}
    for (g, other), count in sorted(counts.items()):
        pair = (min(g, other), max(g, other))
        if ends.get(other) and counts[other, g] != count:
            text = f"GPU{pair[0]} and GPU{pair[1]} state different numbers of NVLinks between them, so their link is left unknown"
            warnings += [text] if text not in warnings else []
        else:
            found[pair] = f"NV{count}"
    return dict(sorted(found.items()))


def _elsewhere(ends: Mapping[int, Ends], gpu_of: Mapping[str, int]) -> list[str]:
    """Return a warning if the text does not show which GPUs the NVLinks lead to."""
    lead = {g: {bus for bus, _ in own.values() if gpu_of.get(bus, g) == g} for g, own in ends.items()}
    which = [f"GPU{g}" for g, buses in lead.items() if buses]
    if not which:
        return []
    shown = sorted(set().union(*lead.values()), key=_order)
    more = f" and {len(shown) - _MOST_SHOWN} more" if len(shown) > _MOST_SHOWN else ""
    said = (
        f"NVLinks of {listing(which)} end at {', '.join(shown[:_MOST_SHOWN])}{more}, which the text shows to be no other of its GPUs "
        "(NVSwitches, or GPUs whose bus ids are not known): which GPUs they join is unknown; `nvidia-smi topo -m` prints it"
    )
    return [said]


def _gpus_by_bus(page: Page) -> dict[str, int]:
    """Return which GPU has which bus id, as query outputs on *page* tell."""
    found: dict[str, int] = {}
    if "," not in page.text:
        return found
    for reading in csv_text.read(page):
        for gpu in reading.topology.gpus:
            if gpu.pci_bus_id is not None:
                found[bus_key(gpu.pci_bus_id)] = gpu.index
    return found


def _gpus_by_order(ends: Mapping[int, Ends]) -> dict[str, int]:
    """
    Return which GPU has which bus id if the other ends prove it; nothing otherwise.

    See `topologies.nvidia.nvlink.ends`.
    """
    return gpus_by_ends(ends)


def _order(bus: str) -> tuple[int, str]:
    domain, _, rest = bus.partition(":")
    return int(domain, 16), rest
