"""
On how small a card does the job fit, if every GPU of the machine were that card?

When to modify: cards are tried in another order, or a card cannot run a job for another reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from placement.choices.card_lacks import card_lacks
from placement.choices.parts import parts
from placement.program.instance import Instance
from placement.smallest.trial import Smallest, Trial, Tried
from placement.workloads.workload import Workload
from solvers.result import Options, Solve
from topologies.cards import Card, cards
from topologies.links import DIRECT_KINDS, parse_code
from topologies.model import Gpu, Topology


def smallest_card(topology: Topology, ask: Callable[[Topology], Instance], solve: Solve, options: Options) -> Smallest:
    """
    Return on how small a card the job fits, if every GPU of *topology* were that card: less memory is smaller, then less bandwidth.

    Parameters
    ----------
    ask
        Returns the question for a machine.

    Raises
    ------
    KeyboardInterrupt
        If the user stops it.
    SolverBug
        If a solver's answer breaks a rule.
    """
    trial = Trial(solve, options)
    tried: list[Tried] = []
    listed = sorted(cards(), key=lambda card: (card.total_mib, card.memory_gb_per_s, card.slug))
    for card in listed:
        question = ask(with_card(topology, card))
        on = question.machine.usable
        cannot = cannot_run(card, question.workload) if question.rules.supported else None
        row = Tried(len(on), on, None, None, False, None, (cannot,), question) if cannot else trial.run(question, on)
        tried.append(replace(row, card=card.slug, memory_mib=card.total_mib))
        if row.fits:
            break
    answer = len(tried) - 1 if tried[-1].fits else None
    notes = [_links(topology)]
    if more := len(listed) - len(tried):
        notes.append(f"the {more} larger cards of the catalogue were not looked at")
    return trial.explained(tried, answer, notes)


def with_card(topology: Topology, card: Card) -> Topology:
    """Return *topology* with every GPU the same *card*, on which nothing runs: its links and places stay."""

    def other(gpu: Gpu) -> Gpu:
        return gpu.replace(
            name=card.name,
            memory_mib=card.total_mib,
            memory_used_mib=None,
            memory_reserved_mib=None,
            processes=None,
            mig=None,
            compute_capability=None,
            uuid=None,
        )

    said = f"the cards are assumed: every GPU is taken as {card.slug} (plan --smallest card)"
    # What was measured was measured on the cards that are there.
    return topology.replace(gpus=tuple(map(other, topology.gpus)), measured=None, warnings=(*topology.warnings, said))


def cannot_run(card: Card, workload: Workload) -> str | None:
    """Return why *card* cannot run the job, whatever its memory; None when it can."""
    whys = (
        why for role in workload.placed for part in parts(role) for why in card_lacks(role, part, card.compute_capability, "the card")
    )
    return next(whys, None)


def _links(topology: Topology) -> str:
    """Say what was taken for the links of other cards."""
    codes = sorted({code for code in topology.links.values() if parse_code(code)[0] in DIRECT_KINDS})
    if not codes:
        return "links stay as the machine has them, at the PCIe generation of each card"
    return (
        f"links stay as the machine has them ({', '.join(codes)}), each at the rate of the card's own generation: "
        "a card that is sold without NVLink is taken as if it had it"
    )
