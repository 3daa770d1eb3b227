"""
The numbers by which links are judged: what their classes were seen to carry, and the shares of a peak where nobody saw one.

They stand in ``data/links.json``, each with its unit, its source and how it was obtained. Whoever knows better passes `Rates` of his own
to `topologies.wiring.wiring`; every link then says that its number is his.

When to modify: a class of links gets a number. A new or better measurement is an entry of ``data/links.json``.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any


@dataclass(frozen=True, slots=True)
class Known:
    """
    A number and where it comes from.

    Parameters
    ----------
    value
        In *unit*.
    unit
        ``GB/s`` (10**9 bytes, one direction), or ``share of …``.
    obtained
        ``published`` (measured, by the source), or ``derived`` from published numbers.
    source
        Who says so.
    """

    value: float
    unit: str
    obtained: str
    source: str


@dataclass(frozen=True)
class Rates:
    """
    The numbers that count.

    Parameters
    ----------
    own
        Those that take the place of the shipped ones, by name.
    whence
        Where each of them comes from, if that was said.
    """

    own: Mapping[str, float] = field(default_factory=dict)
    whence: Mapping[str, str] = field(default_factory=dict)

    def of(self, name: str) -> float:
        """Return the number *name*."""
        return self.own[name] if name in self.own else known()[name].value

    def has(self, name: str) -> bool:
        """Whether there is a number *name*."""
        return name in known()

    def source(self, name: str) -> str:
        """Return where the number *name* comes from."""
        return f"given: {self.whence.get(name, 'no source stated')}" if name in self.own else known()[name].source


SHIPPED = Rates()
"""The numbers that are shipped."""


@functools.cache
def known() -> Mapping[str, Known]:
    """Return every number by name."""
    return {
        name: Known(float(record["value"]), record["unit"], record["obtained"], record["source"])
        for name, record in _data()["rates"].items()
    }


@functools.cache
def pcie_peaks() -> Mapping[int, float]:
    """Return what 16 lanes of PCIe carry by its definition, GB/s, by generation."""
    return {int(gen): float(rate) for gen, rate in _data()["pcie_peak_x16_gb_per_s"].items()}


@functools.cache
def xgmi_peaks() -> Mapping[str | None, tuple[float, str]]:
    """Return the peak of an XGMI link by card, GB/s, and who says so; None for a card that is not known."""
    return {row["card"]: (float(row["peak_gb_per_s"]), row["source"]) for row in _data()["xgmi_peak"]}


@functools.cache
def usual_pcie_gen() -> int:
    """Return the generation that a card of which nothing is known is taken to have."""
    return int(_data()["pcie_unknown_card_gen"])


@functools.cache
def _data() -> Mapping[str, Any]:
    text = resources.files("topologies").joinpath("data", "links.json").read_text(encoding="utf-8")
    data: Mapping[str, Any] = json.loads(text)
    return data
