"""
What was measured on a machine: copies between GPUs, all-reduces, matrix products, memory.

``placement measure`` writes it into the ``measured:`` section of a topology document; `topologies.measured` says what it is worth.
All of it is optional: what could not be measured is absent, and then the class of the link or card counts.

When to modify: something else is measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from topologies.errors import TopologyError


class Device(StrEnum):
    """What was measured: GPUs, or the CPU in their place, which rehearses and says nothing about any GPU."""

    CUDA = "cuda"
    CPU = "cpu"


@dataclass(frozen=True, slots=True)
class Spread:
    """
    Several runs of one measurement.

    Parameters
    ----------
    median, q1, q3
        Median and quartiles.
    runs
        How many there were.

    Raises
    ------
    TopologyError
        If a value is not above zero, or they do not ascend: q1, median, q3.
    """

    median: float
    q1: float
    q3: float
    runs: int

    def __post_init__(self) -> None:
        if min(self.q1, self.median, self.q3) <= 0:
            raise TopologyError(f"q1, median and q3 must be above 0, not {self.q1:g}, {self.median:g} and {self.q3:g}")
        if not self.q1 <= self.median <= self.q3:
            raise TopologyError(f"q1, median and q3 must ascend, not {self.q1:g}, {self.median:g} and {self.q3:g}")
        if self.runs < 1:
            raise TopologyError(f"runs must be 1 or more, not {self.runs}")


@dataclass(frozen=True, slots=True)
class OfGpu:
    """
    What one GPU does alone.

    Parameters
    ----------
    gpu
        Its index.
    matmul_tflops
        Large matrix products in 16 bits (bf16; fp16 before Ampere), 10**12 FLOP/s.
    memory_gb_per_s
        A large copy inside its memory, GB/s (10**9 bytes), read and written bytes together.
    """

    gpu: int
    matmul_tflops: Spread | None = None
    memory_gb_per_s: Spread | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """Large copies from GPU *source* to GPU *target*, nothing else running: GB/s."""

    source: int
    target: int
    gb_per_s: Spread

    def __post_init__(self) -> None:
        if self.source == self.target:
            raise TopologyError(f"source and target are both GPU {self.source}: what a GPU copies inside its memory is memory_gb_per_s")


@dataclass(frozen=True, slots=True)
class AtSize:
    """All-reduces of one size: *bytes* on each GPU, and bus bandwidth, 2(n-1)/n · bytes / time, GB/s."""

    bytes: int
    bus_gb_per_s: Spread


@dataclass(frozen=True, slots=True)
class AllReduce:
    """
    All-reduces of one group, nothing else running.

    Parameters
    ----------
    gpus
        The group, ascending.
    sizes
        What was measured, sizes ascending.
    """

    gpus: tuple[int, ...]
    sizes: tuple[AtSize, ...]

    def __post_init__(self) -> None:
        if len(self.gpus) < 2 or list(self.gpus) != sorted(set(self.gpus)):
            raise TopologyError(f"gpus must be two or more that ascend, not {list(self.gpus)[:16]}")
        found = [one.bytes for one in self.sizes]
        if not found or found != sorted(set(found)) or found[0] < 1:
            raise TopologyError(f"sizes must be there, above 0 and ascend, not {found[:16]}")


@dataclass(frozen=True, slots=True)
class Measured:
    """
    Everything that was measured on a machine.

    Parameters
    ----------
    device
        What was measured.
    by
        The versions of what measured it.
    gpus, copies, all_reduce
        The measurements; each GPU, direction and group at most once.
    """

    device: Device
    by: tuple[str, ...] = ()
    gpus: tuple[OfGpu, ...] = ()
    copies: tuple[Copy, ...] = ()
    all_reduce: tuple[AllReduce, ...] = ()

    def __post_init__(self) -> None:
        _refuse_twice("GPU", (str(of.gpu) for of in self.gpus))
        _refuse_twice("the copy from", (f"{c.source} to {c.target}" for c in self.copies))
        _refuse_twice("the all-reduce of", (str(list(r.gpus)) for r in self.all_reduce))

    def indices(self) -> frozenset[int]:
        """Return the GPUs that are named anywhere."""
        named = {of.gpu for of in self.gpus} | {g for c in self.copies for g in (c.source, c.target)}
        return frozenset(named | {g for r in self.all_reduce for g in r.gpus})

    def renumbered(self, new: Mapping[int, int]) -> Measured | None:
        """Return what is about the GPUs that *new* maps, under their new indices; None if nothing is."""
        groups = [replace(r, gpus=tuple(sorted(new[g] for g in r.gpus))) for r in self.all_reduce if all(g in new for g in r.gpus)]
        found = replace(
            self,
            gpus=tuple(sorted((replace(of, gpu=new[of.gpu]) for of in self.gpus if of.gpu in new), key=lambda of: of.gpu)),
            copies=tuple(
                sorted(
                    (replace(c, source=new[c.source], target=new[c.target]) for c in self.copies if c.source in new and c.target in new),
                    key=lambda c: (c.source, c.target),
                )
            ),
            all_reduce=tuple(sorted(groups, key=lambda r: r.gpus)),
        )
        return found if found.indices() else None


def together(parts: Iterable[Measured | None]) -> Measured | None:
    """Return *parts*, each of other GPUs of one machine, as one; where GPUs were measured anywhere, rehearsals are left out."""
    known = [part for part in parts if part is not None]
    device = Device.CUDA if any(part.device is Device.CUDA for part in known) else Device.CPU
    known = [part for part in known if part.device is device]
    if not known:
        return None
    return Measured(
        device,
        tuple(dict.fromkeys(words for part in known for words in part.by)),
        tuple(of for part in known for of in part.gpus),
        tuple(c for part in known for c in part.copies),
        tuple(r for part in known for r in part.all_reduce),
    )


def _refuse_twice(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise TopologyError(f"{what} {name} is there twice")
        seen.add(name)
