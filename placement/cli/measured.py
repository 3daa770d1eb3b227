"""
What was measured on a machine, in sentences.

When to modify: something else is measured, or people should see more of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from placement.cli.facts import gpu_words
from placement.cli.table import counted
from placement.drawing.shapes import printable
from topologies.cards import card_of
from topologies.links import link
from topologies.measurements import Copy, Device, Measured, OfGpu, Spread
from topologies.model import Topology

MIB = 2**20


def measured_lines(topology: Topology) -> Iterator[str]:
    """Yield what was measured on *topology*, each figure beside that of its class."""
    found = topology.measured
    if found is None:
        return
    by = f" by {', '.join(found.by)}" if found.by else ""
    is_real = found.device is Device.CUDA
    how = f"measured{by}" if is_real else f"measured on CPU tensors{by}, a rehearsal that no plan uses"
    yield printable(f"{how}; medians (quartiles of the widest spread):")
    yield from (f"  {line}" for line in (*_copies(topology, found), *_of_gpus(topology, found), *_all_reduces(found)))


def _copies(topology: Topology, found: Measured) -> Iterator[str]:
    """Yield the copies between GPUs, by link."""
    cards = [card_of(gpu) for gpu in topology.gpus]
    kinds: dict[tuple[str, float], list[Copy]] = {}
    for copy in found.copies:
        code = topology.link(copy.source, copy.target)
        usual = link(code, cards[copy.source], cards[copy.target]).gb_per_s
        kinds.setdefault((code or "a link that is not stated", usual), []).append(copy)
    for (code, usual), copies in kinds.items():
        beside = f", class {usual:g}" if found.device is Device.CUDA else ""
        yield printable(f"{counted(len(copies), 'direction')} over {code}: {_range([c.gb_per_s for c in copies])} GB/s{beside}")


def _of_gpus(topology: Topology, found: Measured) -> Iterator[str]:
    kinds: dict[str, list[OfGpu]] = {}
    for of in found.gpus:
        kinds.setdefault(topology.gpus[of.gpu].name or "", []).append(of)
    for gpus in kinds.values():
        card = card_of(topology.gpus[gpus[0].gpu]) if found.device is Device.CUDA else None
        tflops = [of.matmul_tflops for of in gpus if of.matmul_tflops is not None]
        memory = [of.memory_gb_per_s for of in gpus if of.memory_gb_per_s is not None]
        peaks = (f", peak {card.dense_16bit_tflops:g}", f", peak {card.memory_gb_per_s:g}") if card else ("", "")
        words = [f"16-bit matrix products {_range(tflops)} TFLOP/s{peaks[0]}"] if tflops else []
        words += [f"memory {_range(memory)} GB/s{peaks[1]}"] if memory else []
        yield f"{gpu_words([of.gpu for of in gpus])}: {'; '.join(words)}"


def _all_reduces(found: Measured) -> Iterator[str]:
    for one in found.all_reduce:
        sizes = ", ".join(f"{at.bus_gb_per_s.median:g} at {_size(at.bytes)}" for at in one.sizes)
        yield f"all-reduce over {gpu_words(one.gpus)}: bus {sizes}, GB/s"


def _size(count: int) -> str:
    return f"{count // MIB} MiB" if count % MIB == 0 else f"{count // 1024} KiB" if count % 1024 == 0 else f"{count} B"


def _range(spreads: Iterable[Spread]) -> str:
    """Return the medians from the least to the most, and the quartiles of the spread that is the widest for its median."""
    found = list(spreads)
    medians = sorted(spread.median for spread in found)
    widest = max(found, key=lambda spread: (spread.q3 - spread.q1) / spread.median)
    ends = dict.fromkeys(f"{median:g}" for median in (medians[0], medians[-1]))
    return f"{'–'.join(ends)} ({widest.q1:g}–{widest.q3:g})"
