"""
Read what tells the ports of NICs and no GPU: ``ibstat``, ``ibstatus``, ``ibdev2netdev`` with or without ``-v``.

Alone it is no machine. It is read as one GPU that nobody names, and joined with a source that names GPUs it adds the facts of NICs.

When to modify: another tool lists ports, or one prints another fact of a port.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from topologies.bus_ids import WITH_DOMAIN
from topologies.merging.nic_identity import PORTS
from topologies.model import Gpu, Topology
from topologies.pages.reading import Reading
from topologies.pages.text import Page
from topologies.parts import Nic

_NAME = r"[A-Za-z][\w.-]{0,40}"
_NIC = re.compile(rf"(?:\bCA |\bInfiniband device )'(?P<name>{_NAME})'(?: port (?P<port>[0-9]{{1,3}}) status:)?")
_PORT = re.compile(r"(?<!\w)Port (?P<port>[0-9]{1,3}):\s*$")
_STATE = re.compile(
    r"(?<!\w)(?<!Physical )(?<!phys )[Ss]tate:[ \t]*(?:[0-9]: ?)?(?P<state>Active|ACTIVE|Down|DOWN|Init\w*|INIT\w*|Armed|ARMED)\s*$"
)
"""That of the logical port, not ``Physical state: LinkUp``; only an active one carries traffic."""

_RATE = re.compile(r"(?<!\w)[Rr]ate:[ \t]*(?P<rate>[0-9]{1,5}(?:\.[0-9])?)(?:[ \t]+Gb/sec\b.{0,40})?\s*$")
_LINE = re.compile(
    rf"(?:(?P<bus>{WITH_DOMAIN}) )?(?P<name>{_NAME}) (?:\(.{{1,300}} )?port (?P<port>[0-9]{{1,3}}) (?:\([A-Z]{{1,9}}\) )?==> \S{{1,40}}"
    r" \((?P<state>Up|Down)\)\s*$"
)
_WORDS = ("'", "==>", "Port ", "ate:")
"""Every line that is read has one of these."""

_LONGEST_LINE = 1000
_MOST_NICS = 256


@dataclass(slots=True)
class _Found:
    """What is told of a NIC: the state of each port, and the rate in Gb/s of those that have one."""

    bus_id: str | None = None
    states: dict[str, str] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)

    def nic(self) -> Nic:
        """Return it as a NIC, which carries what its active ports do together; a rate that a port has while it is down means nothing."""
        up = [port for port, state in self.states.items() if state.lower() in ("active", "up")]
        gb_per_s = sum(self.rates.get(port, 0.0) for port in up) / 8
        return Nic(self.bus_id, gb_per_s=gb_per_s or None, is_down=not up if self.states else None)


def read(page: Page) -> Iterator[Reading]:
    """Yield a reading if ports of NICs are listed on *page*."""
    if "CA '" not in page.text and "Infiniband device '" not in page.text and "==>" not in page.text:
        return
    nics: dict[str, _Found] = {}
    here: _Found | None = None
    port, first = "1", 0
    for number, line in enumerate(page.text.split("\n"), start=1):
        if len(line) > _LONGEST_LINE or not any(word in line for word in _WORDS):
            continue
        if (match := _NIC.search(line)) or (match := _LINE.search(line)):
            if match["name"] not in nics and len(nics) == _MOST_NICS:
                break
            first = first or number
            found = nics.setdefault(match["name"], _Found())
            port = match["port"] or "1"
            here = found if match.re is _NIC else None
            if match.re is _LINE:
                found.states.setdefault(port, match["state"])
                found.bus_id = found.bus_id or match["bus"]
        elif here is not None and (match := _PORT.search(line)):
            port = match["port"]
        elif here is not None and (match := _STATE.search(line)):
            here.states.setdefault(port, match["state"])
        elif here is not None and (match := _RATE.search(line)):
            here.rates.setdefault(port, float(match["rate"]))
    details = {name: nic for name, found in nics.items() if (nic := found.nic()) != Nic()}
    if details:
        named = {name: name for name in details}
        yield Reading(first, Topology((Gpu(0, is_named=False),), nics=named, nic_details=details, format=PORTS))
