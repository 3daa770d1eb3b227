"""
What the choice of a plan may rest on: every constant of the cost model, and every fact of the machine that the model counts with.

Facts are classes: all links of one kind move together, as one measurement or one data sheet would move them. What a card can hold is
counted by the driver, not estimated; it moves all the same, as one buys more or less of it, and as engines take a share of it. No plan of
one host crosses a network, so that uplinks of nodes are not there.

When to modify: the machine gets another fact that the cost model counts with. Constants come by themselves.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from placement.constants.table import Constants, is_of_links, sources
from placement.explaining import giving
from placement.machines.machine import Machine
from placement.program.instance import Instance
from topologies.link_rates import Rates, known
from topologies.links import Link, LinkKind
from topologies.measured import believed
from topologies.wiring import Edge

PCIE = "PCIe"
SOCKETS = "links between CPU sockets"
STAGED = "copies staged through the host"
GIB = 1024

UNSEEN = "unseen_memory_mib"
"""The constant by which the machine itself is another."""

FEW_DIGITS = 3
"""Digits that people read."""

ENOUGH_DIGITS = 4
"""Digits beyond which a fact of a machine is not known, and to which the ends of a range are rounded."""

MOST_DIGITS = 12
"""Digits that tell apart any two numbers that can be told apart in a plan: times are whole µs, the longest of 10¹² of them."""

SAME = 1e-12
"""Share of a number by which floating point may miss what was meant: 0.8 · 312 is 249.60000000000002."""

MOVED_A_LITTLE = 0.9
"""A factor that tells whether a class of links depends on a constant: no share passes its peak by it."""

BESIDE = 0.002
"""How far, as a share, a value may be moved so that it has few digits."""


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """
    Something that can be moved.

    Parameters
    ----------
    name
        What it is called: the name of a constant, or of a fact in words.
    is_constant
        Whether it is a constant of the cost model.
    values
        Its value now; least and most where a class of the machine has several.
    unit
        Of the values, as people read it; empty where the name says it, as those of constants do.
    most
        Factor at which it reaches what it cannot exceed (a share its peak); None for no such thing.
    move
        Returns a question with the quantity times a factor.
    is_whole
        Whether it is a whole number.
    least
        Factor at which it reaches what it cannot be below; None for no such thing.
    given_by
        Of a fact: returns how a value of one's own is given. Constants are given by their name (``--constants``).
    """

    name: str
    is_constant: bool
    values: tuple[float, ...]
    unit: str
    most: float | None
    move: Callable[[Instance, float], Instance]
    is_whole: bool = False
    least: float | None = None
    given_by: Callable[[], str] | None = None

    def at(self, factor: float) -> str:
        """Return the value times *factor* for people, and the unit."""
        return f"{self.amount(factor)} {self.unit}".rstrip()

    def amount(self, factor: float) -> str:
        """Return the value times *factor* for people: as few digits as say it, at least three; of a fact four at the most."""
        moved = (self.values[0] * factor, self.values[-1] * factor)
        low, high = (_shown(round(v) if self.is_whole else v, self._most_digits) for v in moved)
        return low if low == high else f"{low}–{high}"

    @property
    def _most_digits(self) -> int:
        """One more than the digits that are said at the most."""
        return MOST_DIGITS if self.is_constant else ENOUGH_DIGITS + 1

    def near(self, factor: float) -> float:
        """Return *factor*, or the one next to it at which the value has few digits, if it has many."""
        value = self.values[0] * factor
        rounded = float(f"{value:.{ENOUGH_DIGITS}g}")
        return factor if self.is_whole or math.isclose(value, rounded, rel_tol=SAME) else rounded / self.values[0]

    def beside(self, factor: float, *, up: bool) -> Iterator[float]:
        """
        Yield factors next to *factor*, not below it if *up*, else not above it, at which the value has few digits: `at` says those exactly.

        Those with fewest digits come first; *factor* itself comes last.
        """
        value = self.values[0] * factor
        if self.is_whole:
            yield round(value) / self.values[0]     # to which `move` rounds it, too
            return
        for digits in range(FEW_DIGITS, self._most_digits):
            grain = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
            # What floating point misses by is no digit: 0.4 · 1.1 is 0.44.
            steps = round(value / grain) if math.isclose(value, round(value / grain) * grain, rel_tol=SAME) else value / grain
            # Printed and read again, so that it is the number with so many digits.
            near = float(f"{(math.ceil(steps) if up else math.floor(steps)) * grain:.{digits}g}")
            if abs(near / value - 1) <= BESIDE:
                yield near / self.values[0]
        yield factor


def _shown(value: float, most: int) -> str:
    """Return *value* with as few digits as tell it from its neighbours, fewer than *most*."""
    for digits in range(FEW_DIGITS, most):
        text = f"{value:.{digits}g}"
        if math.isclose(float(text), value, rel_tol=SAME):
            break
    return f"{float(text):.0f}" if float(text) == int(float(text)) else text


def quantities(instance: Instance) -> tuple[Quantity, ...]:
    """Return what can be moved in *instance*: facts of its machine first, then the constants in the order of their file."""
    return (*_facts(instance.machine), *_constants(instance.constants))


# ── constants ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _constants(constants: Constants) -> Iterator[Quantity]:
    kinds = {field.name: field.type for field in dataclasses.fields(Constants)}
    for name, source in sources().items():
        if is_of_links(name):
            continue        # what they say of this machine's links is moved as a fact of it
        value = getattr(constants, name)
        is_rate = source.unit == "B/s"
        top = 1.0 if source.unit.startswith("share") else source.most
        most, least = (None if bound is None else bound / value for bound in (top, source.least))
        shown, unit = (value / 1e9, "GB/s") if is_rate else (float(value), "")
        is_whole = kinds[name] == "int"
        moves = _with_constant(name, is_whole=is_whole)
        yield Quantity(name, True, (shown,), unit, most, moves, is_whole and not is_rate, least)


def _with_constant(name: str, *, is_whole: bool) -> Callable[[Instance, float], Instance]:
    def move(instance: Instance, factor: float) -> Instance:
        moved = getattr(instance.constants, name) * factor
        value = round(moved) if is_whole else moved
        constants, machine = dataclasses.replace(instance.constants, **{name: value}), instance.machine
        # What was measured is turned into peaks by constants, and what torch sees is one.
        if believed(machine.topology) is not None or name == UNSEEN:
            machine = machine.again(
                instance.rules, visible=instance.visible, not_needed=instance.not_needed, constants=constants
            )
        return instance.replace(constants=constants, machine=machine)

    return move


# ── facts of the machine ────────────────────────────────────────────────────────────────────────────────────────────────


def _facts(machine: Machine) -> Iterator[Quantity]:
    for family, rates in sorted(_families(machine).items()):
        said = functools.partial(_link_is_given, machine, family)
        yield Quantity(family, False, (rates[0], rates[-1]), "GB/s", None, _with_links(family), given_by=said)
    used = {machine.cards[g].slug: machine.cards[g] for g in machine.usable}
    for slug, card in sorted(used.items()):
        rate, memory, flops = card.dense_16bit_tflops, card.memory_gb_per_s, giving.flops(card, machine.constants)
        yield Quantity(f"FLOP/s of {slug}", False, (rate,), "TFLOP/s", None, _with_card(slug, "dense_16bit_tflops"), given_by=flops)
        yield Quantity(
            f"memory bandwidth of {slug}",
            False,
            (memory,),
            "GB/s",
            None,
            _with_card(slug, "memory_gb_per_s"),
            given_by=giving.bandwidth(machine.constants),
        )
        held = sorted(machine.capacity_mib[g] / GIB for g in machine.usable if machine.cards[g].slug == slug)
        yield Quantity(f"memory of {slug}", False, (held[0], held[-1]), "GiB", None, _with_memory(slug), given_by=giving.memory)


def _link_is_given(machine: Machine, family: str) -> str:
    """Say which constants move the rates of *family*: those with which it carries something else."""
    now, rates = _families(machine)[family], machine.rates
    names = [
        name
        for name in known()
        if _families(dataclasses.replace(machine, rates=Rates({**rates.own, name: rates.of(name) * MOVED_A_LITTLE}, rates.whence)))
        .get(family) != now
    ]
    return giving.link(names)


def _families(machine: Machine) -> Mapping[str, list[float]]:
    """Return the rates of every class of links, ascending: those that GPUs, which a plan may use, have of their own."""
    found: dict[str, set[float]] = {}
    usable, wiring = set(machine.usable), machine.wiring
    for (a, b), link in wiring.links.items():
        if {a, b} <= usable:
            found.setdefault(_family_of_link(link), set()).add(link.gb_per_s)
    for (end, _), edge in wiring.edges.items():
        if end[0] == "gpu" and end[1] in usable and edge.kind == "pcie":
            found.setdefault(PCIE, set()).add(edge.gb_per_s)
    return {family: sorted(rates) for family, rates in found.items()}


def _family_of_link(link: Link) -> str:
    if link.is_staged:
        return STAGED
    match link.kind:
        case LinkKind.NVLINK:
            return f"NVLink {link.code}"
        case LinkKind.XGMI:
            return "XGMI"
        case LinkKind.SYS | LinkKind.PCIE:
            return SOCKETS
    return PCIE


def _family_of_edge(edge: Edge) -> str:
    match edge.kind:
        case "pcie" | "host bridge":
            return PCIE
        case "sockets":
            return SOCKETS
        case "XGMI":
            return "XGMI"
    return f"NVLink {edge.kind}"


def _with_links(family: str) -> Callable[[Instance, float], Instance]:
    def move(instance: Instance, factor: float) -> Instance:
        wiring = instance.machine.wiring
        edges = {
            ends: dataclasses.replace(edge, gb_per_s=edge.gb_per_s * factor) if _family_of_edge(edge) == family else edge
            for ends, edge in wiring.edges.items()
        }
        links = {
            pair: dataclasses.replace(link, gb_per_s=link.gb_per_s * factor) if _family_of_link(link) == family else link
            for pair, link in wiring.links.items()
        }
        return instance.replace(machine=instance.machine.wired(dataclasses.replace(wiring, edges=edges, links=links)))

    return move


def _with_card(slug: str, field: str) -> Callable[[Instance, float], Instance]:
    def move(instance: Instance, factor: float) -> Instance:
        machine = instance.machine
        cards = tuple(
            dataclasses.replace(card, **{field: getattr(card, field) * factor}) if card.slug == slug else card for card in machine.cards
        )
        # What a card's links carry is moved by itself.
        return instance.replace(machine=dataclasses.replace(machine, cards=cards).wired(machine.wiring))

    return move


def _with_memory(slug: str) -> Callable[[Instance, float], Instance]:
    def move(instance: Instance, factor: float) -> Instance:
        machine, reserve = instance.machine, instance.rules.reserve
        capacity = tuple(
            round(mib * factor) if card.slug == slug else mib for card, mib in zip(machine.cards, machine.capacity_mib, strict=True)
        )
        reserved = tuple(
            reserve.of_mib(mib) + (gpu.memory_used_mib or 0) for mib, gpu in zip(capacity, machine.topology.gpus, strict=True)
        )
        changed = dataclasses.replace(machine, capacity_mib=capacity, reserved_mib=reserved)
        return instance.replace(machine=changed.wired(machine.wiring))

    return move
