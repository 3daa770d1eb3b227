"""
GPU cards: the facts about each product that planning needs, and how to find a card by what a driver or a user
calls it.

When to modify: a new *fact* per card. A new card is a row in ``data/gpus.json``.
"""

from __future__ import annotations

import difflib
import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from topologies.errors import TopologyError
from topologies.model import Gpu, Topology

TORCH_OVERHEAD_MIB = 922
"""
NVML's total minus what torch sees, MiB, where no log of the card was found: 0.9 GiB, the upper end of the
0.4–0.9 GiB that public logs show, so that a plan is never promised memory that is not there.
"""

MEMORY_TOLERANCE = 0.05
"""Totals of one card differ by driver and ECC state; beyond this share they are different cards."""

_MAY_STAND_ALONE = re.compile(r"PCIE|NVL\b|GeForce|RTX|Quadro|TITAN|A[1-6]0\b|GH200", re.IGNORECASE)
"""Cards whose NVLinks need a bridge, and the superchip that is often the only one of its board."""


@dataclass(frozen=True, slots=True)
class Card:
    """
    A GPU product.

    Parameters
    ----------
    slug
        Our name for it: ``a100-80gb``.
    aliases
        Other names that users write; one that several cards share (``a100``) is decided by memory.
    name
        What NVML prints: ``NVIDIA A100-SXM4-80GB``.
    nvml_names
        Everything that drivers have printed for it, `name` first.
    arch, compute_capability
        Architecture; capability as (major, minor), (0, 0) for cards without one (AMD).
    total_mib
        Total memory as NVML counts it with current drivers, MiB.
    other_totals_mib
        What other drivers or ECC states print, MiB.
    torch_mib
        What torch sees, MiB: from a public log (`torch_source` names it), else `total_mib` −
        `TORCH_OVERHEAD_MIB`.
    torch_source, torch_is_logged
        Where `torch_mib` comes from, and whether that is a log of this card.
    memory_gb_per_s
        Peak memory bandwidth, GB/s.
    dense_16bit_tflops
        Peak dense 16-bit rate, 10**12 FLOP/s.
    best_matmul_tflops
        The most that 16-bit matrix products were seen to reach, 10**12 FLOP/s; None where nobody published it.
    nvlink_gen, nvlink_links, nvlink_gb_per_s_per_link
        Generation, number of links and peak per link and direction; all 0 without NVLink.
    pcie_gen, pcie_lanes
        Its PCIe port.
    p2p_over_pcie
        False for consumer cards: the stock driver stages copies between them through the host.
    source
        Where the numbers come from.
    verified
        Whether `total_mib` was seen in public output of nvidia-smi.
    """

    slug: str
    aliases: tuple[str, ...]
    name: str
    nvml_names: tuple[str, ...]
    arch: str
    compute_capability: tuple[int, int]
    total_mib: int
    other_totals_mib: tuple[int, ...]
    torch_mib: int
    torch_source: str
    memory_gb_per_s: float
    dense_16bit_tflops: float
    nvlink_gen: int
    nvlink_links: int
    nvlink_gb_per_s_per_link: float
    pcie_gen: int
    pcie_lanes: int
    p2p_over_pcie: bool
    source: str
    verified: bool
    best_matmul_tflops: float | None = None
    torch_is_logged: bool = True

    @property
    def chip(self) -> str:
        """The product without its memory size: the 40 and 80 GB versions of a card are one chip."""
        return re.sub(r"[ -]?[0-9]+ ?GB", "", self.name)

    @property
    def is_wired(self) -> bool:
        """Whether its NVLinks run across a board to other GPUs, so that they should be up."""
        return self.nvlink_links > 0 and not _MAY_STAND_ALONE.search(self.name)

    def holds(self, memory_mib: int) -> bool:
        """Whether *memory_mib* is a total that this card shows under some driver."""
        totals = (self.total_mib, *self.other_totals_mib)
        return any(abs(memory_mib - total) <= MEMORY_TOLERANCE * total for total in totals)


@functools.cache
def cards() -> tuple[Card, ...]:
    """Return the catalogue, oldest architecture first."""
    text = resources.files("topologies").joinpath("data", "gpus.json").read_text(encoding="utf-8")
    return tuple(_card(row) for row in json.loads(text)["gpus"])


def find_card(text: str, *, memory_mib: int | None = None) -> Card:
    """
    Return the card that *text* names.

    Parameters
    ----------
    text
        A slug, an alias or the name that a driver prints, in any case and spacing.
    memory_mib
        Total memory, MiB, which decides between cards of one name (``a100``).

    Raises
    ------
    TopologyError
        If no card is called so, or several are.
    """
    found = _called(text)
    if not found:
        raise TopologyError(
            f"there is no card {text!r} in the catalogue (`placement catalog gpus` lists them)"
            f"{_did_you_mean(text)}"
        )
    chosen = _decide(found, memory_mib)
    if chosen is None:
        raise TopologyError(
            f"{text!r} is the name of several cards: write {' or '.join(card.slug for card in found)}"
        )
    return chosen


def card_of(gpu: Gpu) -> Card | None:
    """
    Return the card of *gpu*; None when the catalogue has no card of its name.

    Memory decides between cards that share a name. Alone it names no card: several have the same.
    """
    return None if gpu.name is None else _decide(_called(gpu.name), gpu.memory_mib)


def assign_cards(topology: Topology, spec: str) -> Topology:
    """
    Return *topology* with the cards of *spec* where no source names one.

    A GPU whose name is not in the catalogue takes the card too (it is planned as that card, which a warning
    says), and keeps the memory that a source states.

    Parameters
    ----------
    spec
        One card for all GPUs (``a100-40gb``), or cards by index (``0-3=a100-40gb,4-7=a100-80gb``).

    Raises
    ------
    TopologyError
        If *spec* cannot be read, names a GPU twice or one that does not exist, or contradicts a source.
    """
    gpus = list(topology.gpus)
    warnings = list(topology.warnings)
    for index, text in _parse_spec(spec, len(gpus)):
        gpu = gpus[index]
        card = find_card(text, memory_mib=gpu.memory_mib)
        stated = card_of(gpu)
        if stated is not None and stated != card:
            raise TopologyError(
                f"--gpu says that GPU {index} is {card.slug}, but a source names it {gpu.name!r}: "
                f"drop --gpu or correct it (that card is {stated.slug})"
            )
        if (
            stated is None
            and gpu.name is None
            and gpu.memory_mib is not None
            and not card.holds(gpu.memory_mib)
        ):
            raise TopologyError(
                f"--gpu says that GPU {index} is {card.slug} ({card.total_mib} MiB), "
                f"but a source gives it {gpu.memory_mib} MiB: drop --gpu or correct it"
            )
        if stated is None and gpu.name is not None:
            warnings.append(
                f"GPU {index} is {gpu.name!r}, which is not in the catalogue; it is taken as {card.slug}"
            )
        gpus[index] = gpu.replace(
            name=gpu.name if stated is not None else card.name, memory_mib=gpu.memory_mib or card.total_mib
        )
    return topology.replace(gpus=tuple(gpus), warnings=tuple(warnings))


def _parse_spec(spec: str, count: int) -> list[tuple[int, str]]:
    """Return the card text of each GPU that *spec* names, in the order of the indices."""
    if "=" not in spec:
        return [(index, spec.strip()) for index in range(count)]
    chosen: dict[int, str] = {}
    for piece in spec.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})(?:\s*-\s*(\d{1,6}))?\s*=\s*([^=]*[^=\s])\s*", piece, re.ASCII)
        if match is None:
            raise TopologyError(f"--gpu {spec!r}: {piece!r} is not of the form 0-3=a100-40gb")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise TopologyError(f"--gpu {spec!r}: the range {first}-{last} runs backwards")
        if last >= count:
            raise TopologyError(f"--gpu {spec!r} names GPU {last}; this machine has GPUs 0 to {count - 1}")
        for index in range(first, last + 1):
            if index in chosen:
                raise TopologyError(f"--gpu {spec!r} names GPU {index} twice")
            chosen[index] = match[3]
    return sorted(chosen.items())


def product(name: str) -> str:
    """Return what is the same for all names of one product: nvidia-smi, lspci and people write them in different ways."""
    return " ".join(card.slug for card in _called(name)) or _plain(name)


def _plain(text: str) -> str:
    """Return what drivers of all ages and users agree on: lower case, no maker, letters and digits only."""
    return re.sub(r"\b(nvidia|tesla|geforce|quadro)\b|[^a-z0-9]", "", text.lower())


@functools.cache
def _by_plain() -> dict[str, tuple[Card, ...]]:
    names: dict[str, list[Card]] = {}
    for card in cards():
        for name in dict.fromkeys(_plain(text) for text in (card.slug, *card.aliases, *card.nvml_names)):
            names.setdefault(name, []).append(card)
    return {name: tuple(found) for name, found in names.items()}


def _called(text: str) -> tuple[Card, ...]:
    return _by_plain().get(_plain(text), ())


def _decide(found: Sequence[Card], memory_mib: int | None) -> Card | None:
    """Return the one card of *found*, by memory when there are several; None when it stays open."""
    if len(found) > 1:
        found = [card for card in found if memory_mib is not None and card.holds(memory_mib)]
    return found[0] if len(found) == 1 else None


def _did_you_mean(text: str) -> str:
    names: dict[str, str] = {}
    for card in cards():
        names |= dict.fromkeys(
            (card.slug, *card.aliases, *(name.lower() for name in card.nvml_names)), card.slug
        )
    close = dict.fromkeys(names[name] for name in difflib.get_close_matches(text[:80].lower(), names))
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _card(row: dict[str, Any]) -> Card:
    major, _, minor = row["compute_capability"].partition(".")
    torch_gib = row["torch_gib"]
    total_mib = row["total_mib"]
    return Card(
        slug=row["slug"],
        aliases=tuple(row["aliases"]),
        name=row["nvml_names"][0],
        nvml_names=tuple(row["nvml_names"]),
        arch=row["arch"],
        compute_capability=(int(major), int(minor)) if minor else (0, 0),
        total_mib=total_mib,
        other_totals_mib=tuple(row["other_totals_mib"]),
        torch_is_logged=torch_gib is not None,
        torch_mib=total_mib - TORCH_OVERHEAD_MIB if torch_gib is None else int(torch_gib * 1024),
        torch_source=row["torch_source"]
        or f"no log of this card was found: {TORCH_OVERHEAD_MIB} MiB below NVML's total",
        memory_gb_per_s=float(row["memory_gb_per_s"]),
        dense_16bit_tflops=float(row["dense_16bit_tflops"]),
        nvlink_gen=row["nvlink_gen"],
        nvlink_links=row["nvlink_links"],
        nvlink_gb_per_s_per_link=float(row["nvlink_gb_per_s_per_link"]),
        pcie_gen=row["pcie_gen"],
        pcie_lanes=row["pcie_lanes"],
        p2p_over_pcie=row["p2p_over_pcie"],
        source=row["source"],
        verified=row["total_mib_verified"],
        best_matmul_tflops=row.get("best_matmul_tflops"),
    )
