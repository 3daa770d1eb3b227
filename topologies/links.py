"""
What a link between two GPUs is worth: kind × generation → GB/s, with its source.

A link code (``NV12``, ``PIX``) says how two GPUs reach each other; the cards at its ends say which generation
that is. The classes that were measured, and the shares by which others are derived, are `topologies.link_rates`.

When to modify: a new kind of link; a new or better measurement is an entry of ``data/links.json``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from topologies.cards import Card
from topologies.codes import MOST_NVLINKS
from topologies.link_rates import SHIPPED, Rates, pcie_peaks, usual_pcie_gen, xgmi_peaks
from topologies.parts import Pcie

_NVLINK = re.compile(r"NV([0-9]{1,2})")
_GENERATIONS = range(1, 7)
_LANES = 16
_POWER9 = "power9_across_sockets_gb_per_s"


class LinkKind(StrEnum):
    """How two GPUs reach each other, closest first."""

    NVLINK = "NVLINK"
    XGMI = "XGMI"
    PIX = "PIX"
    PXB = "PXB"
    PHB = "PHB"
    NODE = "NODE"
    SYS = "SYS"
    PCIE = "PCIE"  # of a level that the source does not tell
    UNKNOWN = "UNKNOWN"


DIRECT_KINDS = frozenset({LinkKind.NVLINK, LinkKind.XGMI})
"""Links from GPU to GPU, of NVIDIA and of AMD: they make islands."""

PCIE_KINDS = (LinkKind.PIX, LinkKind.PXB, LinkKind.PHB, LinkKind.NODE, LinkKind.SYS)

_PCIE_CODES = {
    "PIX": LinkKind.PIX,
    "PXB": LinkKind.PXB,
    "PHB": LinkKind.PHB,
    "NODE": LinkKind.NODE,
    "SYS": LinkKind.SYS,
    "PCIE": LinkKind.PCIE,
    "SOC": LinkKind.SYS,  # the word of old drivers
}


@dataclass(frozen=True, slots=True)
class Link:
    """
    What carries data between two GPUs.

    Parameters
    ----------
    kind
        The kind of its code.
    nvlinks
        Number of NVLinks; 1 for XGMI, whose tools do not tell how many there are; 0 for other kinds.
    gb_per_s
        What one large copy gets, one direction, GB/s (10**9 bytes).
    source
        Where the number comes from.
    derived
        True when it is a share of the peak instead of a measurement of this class.
    is_staged
        True when copies go through the memory of the host, for want of peer-to-peer.
    """

    kind: LinkKind
    nvlinks: int
    gb_per_s: float
    source: str
    derived: bool
    is_staged: bool = False

    @property
    def code(self) -> str:
        """What people call it: ``NV12``, ``XGMI``."""
        return f"NV{self.nvlinks}" if self.kind is LinkKind.NVLINK else self.kind.value


def parse_code(code: str | None) -> tuple[LinkKind, int]:
    """Return the kind of *code* and its number of NVLinks: 1 for XGMI, 0 for other kinds."""
    if code is None:
        return LinkKind.UNKNOWN, 0
    if match := _NVLINK.fullmatch(code):
        count = int(match[1])
        return (LinkKind.NVLINK, count) if 0 < count <= MOST_NVLINKS else (LinkKind.UNKNOWN, 0)
    if code == LinkKind.XGMI:
        return LinkKind.XGMI, 1
    return _PCIE_CODES.get(code, LinkKind.UNKNOWN), 0


def link(
    code: str | None,
    a: Card | None,
    b: Card | None,
    *,
    is_power9: bool = False,
    ports: tuple[Pcie | None, Pcie | None] = (None, None),
    blocked: str | None = None,
    rates: Rates = SHIPPED,
) -> Link:
    """
    Return what the link *code* between the cards *a* and *b* carries.

    Parameters
    ----------
    code
        As the source prints it; None when the pair is unknown, which counts as staged through the host.
    a, b
        The cards at its ends; None when unknown, which counts as PCIe Gen4 or 25 GB/s per NVLink.
    is_power9
        The CPUs are POWER9, which GPUs reach over NVLink instead of PCIe.
    ports
        Their PCIe ports: a slot may be slower than the card.
    blocked
        Why there are no peer-to-peer copies between them: then even NVLinks carry none, and what is left is the way through the
        host, of unknown closeness.
    rates
        The numbers of the classes.
    """
    kind, nvlinks = parse_code(code)
    if blocked is not None and kind is not LinkKind.UNKNOWN:
        remark = f"no P2P ({blocked}), staged through the host"
        return _pcie(LinkKind.UNKNOWN if kind in DIRECT_KINDS else kind, "staged", a, b, remark, ports, rates)
    match kind:
        case LinkKind.NVLINK:
            return nvlink(nvlinks, a, b, rates)
        case LinkKind.XGMI:
            return _xgmi(a, b, rates)
        case LinkKind.PCIE:
            return _pcie(kind, "across_sockets", a, b, "PCIe of unknown level: taken as across sockets", ports, rates)
        case LinkKind.UNKNOWN:
            why = "link unknown" if code is None else f"link code {code!r} not understood"
            return _pcie(kind, "staged", a, b, f"{why}: taken as staged through the host", ports, rates)
        case LinkKind.SYS if is_power9:
            return Link(kind, 0, rates.of(_POWER9), rates.source(_POWER9), derived=False)
    if not all(card is None or card.p2p_over_pcie for card in (a, b)):
        return _pcie(kind, "staged", a, b, "no P2P on this card, staged through the host", ports, rates)
    return _pcie(kind, "across_sockets" if kind is LinkKind.SYS else "p2p", a, b, "", ports, rates)


def nvlink(count: int, a: Card | None, b: Card | None, rates: Rates = SHIPPED) -> Link:
    """Return *count* NVLinks between the cards *a* and *b* (or a card and its NVSwitch: pass it twice)."""
    slowest = min(
        (card for card in (a, b) if card is not None), key=lambda card: card.nvlink_gen, default=None
    )
    name = f"nvlink_gen{slowest.nvlink_gen}_x{count}_gb_per_s" if slowest is not None else ""
    if rates.has(name):
        return Link(LinkKind.NVLINK, count, rates.of(name), rates.source(name), derived=False)
    if slowest is None or not slowest.nvlink_gb_per_s_per_link:
        peak = rates.of("nvlink_unknown_card_gb_per_s_per_link")
        whose = "card unknown" if slowest is None else f"{slowest.slug} has no NVLink in the catalogue"
    else:
        peak, whose = slowest.nvlink_gb_per_s_per_link, f"NVLink {slowest.nvlink_gen}"
    share = rates.of("nvlink_share")
    source = f"derived: {share:.0%} of {count} × {peak:g} GB/s ({whose})"
    return Link(LinkKind.NVLINK, count, round(share * count * peak, 1), source, derived=True)


def _xgmi(a: Card | None, b: Card | None, rates: Rates) -> Link:
    """Return one XGMI link between the cards *a* and *b*: the slower of what both have."""
    peaks = xgmi_peaks()
    found = [(*peaks[card.slug], card.slug) for card in (a, b) if card is not None and card.slug in peaks]
    peak, source, slug = min(found or [(*peaks[None], "")], key=lambda found: found[0])
    name = f"xgmi_{slug}_gb_per_s"
    if rates.has(name):
        return Link(LinkKind.XGMI, 1, rates.of(name), rates.source(name), derived=False)
    share = rates.of("xgmi_share")
    return Link(LinkKind.XGMI, 1, round(share * peak, 1), f"derived: {share:.0%} of {peak:g} GB/s ({source})", derived=True)


def pcie_port(card: Card | None, port: Pcie | None = None, rates: Rates = SHIPPED) -> Link:
    """
    Return what the PCIe port of *card* carries, one direction; a shared uplink is such a port too.

    *port* is what is known of the slot; without a card, it alone counts.
    """
    return _pcie(LinkKind.PIX, "p2p", card, card, "", (port, port), rates)


def _pcie(
    kind: LinkKind,
    way: str,
    a: Card | None,
    b: Card | None,
    remark: str,
    ports: tuple[Pcie | None, Pcie | None],
    rates: Rates,
) -> Link:
    """Return a link of the class of the slower end; *way* is how copies travel, as the names of `topologies.link_rates` have it."""
    cards = [(card.pcie_gen, card.pcie_lanes) for card in (a, b) if card is not None]
    slot_gens = [port.gen for port in ports if port is not None and port.gen is not None and port.gen in _GENERATIONS]
    slot_lanes = [min(port.width, _LANES) for port in ports if port is not None and port.width]
    ends = [*(g for g, _ in cards), *slot_gens]
    gen = min(ends, default=usual_pcie_gen())
    lanes = min((*(n for _, n in cards), *slot_lanes), default=_LANES)
    if cards and (gen, lanes) != (own := (min(g for g, _ in cards), min(n for _, n in cards))):
        narrower = f"the slot gives Gen{gen} x{lanes} where the card has Gen{own[0]} x{own[1]}"
        remark = f"{remark}; {narrower}" if remark else narrower
    name = f"pcie_gen{gen}_{way}_gb_per_s"
    is_known = rates.has(name)
    if is_known:
        rate = rates.of(name)
        said = rates.source(name)
        origin = f"PCIe Gen{gen} x{lanes}, {said if name in rates.own else f'measured in {said}'}"
    else:
        share = rates.of(f"pcie_{way}_share")
        rate, origin = round(share * pcie_peaks()[gen], 1), f"derived: {share:.0%} of PCIe Gen{gen} x{lanes}"
    if not ends:
        origin += " (card unknown)"
    derived = not is_known or not ends or lanes != _LANES
    source = f"{remark}; {origin}" if remark else origin
    return Link(kind, 0, rate * lanes / _LANES, source, derived, is_staged=way == "staged")
