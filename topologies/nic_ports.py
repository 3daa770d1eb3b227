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

_RATE = re.compile(r"(?<!\w)[Rr]ate:[ \t]*(?P<rate>[0-9]{1,5}(?:\.[0-9])?)(?P<unit>[ \t]+Gb/sec\b.{0,40})?\s*$")
_LINE = re.compile(
    rf"(?:(?P<bus>{WITH_DOMAIN}) )?(?P<name>{_NAME}) (?:\(.{{1,300}} )?port (?P<port>[0-9]{{1,3}}) (?:\([A-Z]{{1,9}}\) )?==> \S{{1,40}}"
    r" \((?P<state>Up|Down)\)\s*$"
)
_WORDS = ("'", "==>", "Port ", "ate:")
"""Every line that is read has one of these."""

_LONGEST_LINE = 1000
_MOST_NICS = 256
_SHOWN = 3
"""Ports that a warning names."""


@dataclass(slots=True)
class _Told:
    """What an output tells of a port: its state, and its rate in Gb/s."""

    port: str = "1"
    state: str | None = None
    rate: float | None = None

    def __str__(self) -> str:
        rate = f"{self.rate:g} Gb/s" if self.rate is not None else None
        return " at ".join(filter(None, (self.state, rate))) or "nothing"

    @property
    def is_up(self) -> bool:
        return self.state is not None and self.state.lower() in ("active", "up")

    def contradicts(self, other: _Told) -> bool:
        """Whether both cannot be true at once: a rate that a port has while it is down means nothing."""
        if None not in (self.state, other.state) and self.is_up is not other.is_up:
            return True
        return self.is_up and other.is_up and None not in (self.rate, other.rate) and self.rate != other.rate


@dataclass(slots=True)
class _Found:
    """What is told of the ports of a NIC. The state of the network device of a port counts only where nothing tells its own."""

    bus_id: str | None = None
    ports: dict[str, _Told] = field(default_factory=dict)
    devices: dict[str, _Told] = field(default_factory=dict)
    changes: dict[str, str] = field(default_factory=dict)

    def take(self, told: _Told, *, is_device: bool = False) -> None:
        """Take in what is *told* of a port; what comes last counts, since a port may have come up meanwhile."""
        known = self.devices if is_device else self.ports
        if told.state is None and told.rate is None:
            return
        old = known.get(told.port, _Told())
        if old.contradicts(told):
            self.changes[told.port] = f"port {told.port} is {old}, then {told}"
        rate = told.rate if told.rate is not None or old.contradicts(told) else old.rate
        known[told.port] = _Told(told.port, told.state or old.state, rate)

    def nic(self) -> Nic:
        """Return it as a NIC, which carries what its active ports do together."""
        ports = {**self.devices, **{port: told for port, told in self.ports.items() if told.state is not None}}
        up = [port for port, told in ports.items() if told.is_up]
        gb_per_s = sum(self.ports[port].rate or 0.0 for port in up if port in self.ports) / 8
        return Nic(self.bus_id, gb_per_s=gb_per_s or None, is_down=not up if ports else None)


def read(page: Page) -> Iterator[Reading]:
    """Yield a reading if ports of NICs are listed on *page*."""
    if "CA '" not in page.text and "Infiniband device '" not in page.text and "==>" not in page.text:
        return
    nics: dict[str, _Found] = {}
    warnings: list[str] = []
    here: _Found | None = None
    told, first = _Told(), 0
    lines = page.text.split("\n")
    for number, line in enumerate(lines, start=1):
        if len(line) > _LONGEST_LINE or not any(word in line for word in _WORDS):
            continue
        if (match := _NIC.search(line)) or (match := _LINE.search(line)):
            if match["name"] not in nics and len(nics) == _MOST_NICS:
                break
            first = first or number
            if here is not None:
                here.take(told)
            found = nics.setdefault(match["name"], _Found())
            here, told = found if match.re is _NIC else None, _Told(match["port"] or "1")
            if match.re is _LINE:
                found.take(_Told(told.port, match["state"]), is_device=True)
                found.bus_id = found.bus_id or match["bus"]
        elif here is not None and (match := _PORT.search(line)):
            here.take(told)
            told = _Told(match["port"])
        elif here is not None and (match := _STATE.search(line)):
            told.state = told.state or match["state"]
        elif here is not None and (match := _RATE.search(line)):
            if page.is_cut and number == len(lines) and match["unit"] is None:
                warnings.append(f"the text ends in {match[0].strip()!r}, which may be cut: it was left out")
            elif told.rate is None:
                told.rate = float(match["rate"])
    if here is not None:
        here.take(told)
    changed = [f"{name} {change}" for name, found in nics.items() for change in found.changes.values()]
    if changed:
        more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        warnings.append(f"ports of NICs are told twice, and not alike ({'; '.join(changed[:_SHOWN])}{more}): what stands last counts")
    details = {name: nic for name, found in nics.items() if (nic := found.nic()) != Nic()}
    if details:
        named = {name: name for name in details}
        machine = Topology((Gpu(0, is_named=False),), nics=named, nic_details=details, format=PORTS, warnings=tuple(warnings))
        yield Reading(first, machine)
