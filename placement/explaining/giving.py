"""
How a number of one's own takes the place of a fact of the machine that a plan rests on.

Constants, those of links among them, are given by name (``--constants``). Cards and their memory are facts of the topology's file: its
``measured:`` section, which `placement measure` writes, and ``memory_mib``. What is measured there is what real work reaches, so that a
peak is given as its share (`placement.machines.measured`).

When to modify: a fact can be given in another way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from placement.constants.table import Constants
from placement.machines.measured import matmul_share
from topologies.cards import Card


def link(names: Sequence[str]) -> str:
    """Return how the rate of a class of links is given, whose rate the constants *names* say."""
    if not names:
        return "in the topology's file (`placement topology SRC --yaml`): measured: copies, gb_per_s"
    return f"constant{'s' if len(names) > 1 else ''} {', '.join(names)} (--constants FILE)"


def flops(card: Card, c: Constants) -> Callable[[], str]:
    """Return what says how the FLOP/s of *card* are given."""
    share = matmul_share(card, c)
    return lambda: f"{_MEASURED}, matmul_tflops: {share:.3g} of the number here, what its best matrix products reach"


def bandwidth(c: Constants) -> Callable[[], str]:
    """Return what says how the bandwidth of a card's memory is given."""
    return lambda: f"{_MEASURED}, memory_gb_per_s: {c.memory_efficiency:.3g} of the number here, what large copies reach"


def memory() -> str:
    """Say how the memory of a card is given."""
    return "in the topology's file: gpus, memory_mib (here stands what torch sees of it, some hundred MiB less); or another card by --gpu"


_MEASURED = "in the topology's file: measured: gpus (`placement measure` writes it)"
