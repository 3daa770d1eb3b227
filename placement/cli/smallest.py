"""
`placement plan --smallest`: the fewest GPUs, or the smallest card, on which the job fits.

When to modify: what is said of the sizes that were tried.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TextIO

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from placement.cli.say import Progress, note
from placement.cli.table import counted, new_table, rendered
from placement.errors import InputError
from placement.machines.machine import id_ranges
from placement.planner import Outcome, SolverName, load_solver, plan
from placement.program.instance import Instance
from placement.program.needs import gib_down
from placement.program.prices import seconds
from placement.smallest.cards import smallest_card
from placement.smallest.fewest import fewest_gpus
from placement.smallest.trial import Size, Smallest, Tried
from solvers.result import Options, Status
from topologies.model import Topology

_ON_GPUS = re.compile(r"\bon \d+ GPUs?\b")


ALL_SEEN = "(rule reserve has no part in this: what is free here is all that torch sees of a card)"


@dataclass(frozen=True)
class Looked:
    """What was asked for, what was found, and when the time is over."""

    size: Size
    found: Smallest
    deadline: float


def refuse(size: str, *, presets: bool, cards: str | None, solver: str, calibrates: bool) -> None:
    """
    Refuse options that contradict ``--smallest``.

    Raises
    ------
    InputError
        If one does.
    """
    if presets:
        raise InputError("--rules all compares presets, --smallest asks for one plan: name one preset")
    if calibrates:
        raise InputError(
            "--calibrate compares with a run on this machine, --smallest asks for others: calibrate a plan, write its map with -o, and "
            "give that map as --constants"
        )
    if solver == SolverName.GREEDY:
        raise InputError("--solver greedy proves nothing, and --smallest says that a smaller size does not do: leave --solver out")
    if size == Size.CARD and cards is not None:
        raise InputError("--smallest card tries every card of the catalogue (`placement catalog gpus`): leave --gpu out")


def look(size: str, topology: Topology, ask: Callable[[Topology], Instance], solver: SolverName, options: Options) -> Looked:
    """Try the sizes from the smallest up, and print them."""
    deadline = time.monotonic() + options.time_limit_s
    solve = load_solver(solver)
    if size == Size.GPUS:
        found = fewest_gpus(ask(topology), solve, options)
    else:
        found = smallest_card(topology, ask, solve, options)
    note(page(Size(size), found, stream=sys.stderr).rstrip())
    return Looked(Size(size), found, deadline)


def answer(looked: Looked, solver: SolverName, options: Options) -> tuple[Outcome, Instance]:
    """Return the plan of the smallest size that does, or why there is none, and the question."""
    found = looked.found
    if found.answer is None:
        last = found.tried[-1]
        assert last.question is not None
        if not found.is_proven:
            verdict = f"unknown: no plan found within {options.time_limit_s:g} s; try --time-limit"
            return Outcome(Status.UNKNOWN, None, verdict), last.question
        what = "any number of its GPUs" if looked.size is Size.GPUS else "any card of the catalogue"
        why = () if found.below is None else found.tried[found.below].why_not
        return Outcome(Status.INFEASIBLE, None, f"infeasible: no plan obeys all the rules on {what}", why), last.question
    question = found.tried[found.answer].question
    assert question is not None
    left = max(looked.deadline - time.monotonic(), 1.0)
    with Progress() as progress:
        return plan(question, solver=solver, options=replace(options, time_limit_s=left, on_incumbent=progress.update)), question


# ── for people ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def page(size: Size, found: Smallest, *, stream: TextIO | None) -> str:
    """Return what was tried as text for *stream*."""
    lines: list[RenderableType] = [Text(_heading(size, found), style="bold"), _table(size, found)]
    if found.below is not None and found.answer is not None:
        smaller = found.tried[found.below]
        do = "does" if smaller.gpus == 1 or size is Size.CARD else "do"
        lines.append(Text(f"{_what(size, smaller)} {do} not do because"))
        lines += [Padding(Text(why), (0, 0, 0, 2)) for why in smaller.why_not]
        if not any("reserve" in why for why in smaller.why_not) and any("GiB" in why for why in smaller.why_not):
            lines.append(Padding(Text(ALL_SEEN), (0, 0, 0, 2)))
    if size is Size.CARD:
        lines.append(
            Text("memory: what its driver counts; for plans: what torch sees of it, less rule reserve, which is what a role finds there")
        )
    if any("(rule supported)" in why for row in found.tried for why in row.why_not):
        lines.append(Text("rule supported: cards must run what the workload asks for; --rules supported=off takes them all the same"))
    lines += map(Text, found.notes)
    return rendered(*lines, stream=stream)


def _heading(size: Size, found: Smallest) -> str:
    if found.answer is None:
        return "the job fits on none of these:" if found.is_proven else "the time limit was reached before it was found out (--time-limit):"
    row = found.tried[found.answer]
    where = f"on {row.card} in place of every GPU" if size is Size.CARD else f"on {counted(row.gpus, 'GPU')} of this machine"
    if not found.is_proven:
        return f"the job fits {where}; not proven that nothing smaller does: some were not judged within the time limit (--time-limit)"
    if found.answer == 0:
        return f"the job fits {where}; nothing is smaller"
    return f"the job fits {where}, and on {'no smaller card' if size is Size.CARD else 'no fewer'}"


def _table(size: Size, found: Smallest) -> Table:
    columns = [("GPUs", "right")] if size is Size.GPUS else [("card", "left"), ("memory", "right"), ("for plans", "right")]
    table = new_table(*columns, ("fits", "left"), ("shortest step", "right"), ("why not", "left"), prose=["why not"])
    for those in _alike(size, found):
        k, row = those[0]
        first = _first(size, [each for _, each in those])
        why = _why(found, k, row)
        table.add_row(*first, _fits(row), _step(row), _of_any(why, f"on {first[0]} GPUs") if len(those) > 1 else why)
    return table


def _of_any(why: str, on: str = "") -> str:
    """Return *why* with *on* in place of the number of GPUs that it is said of: for numbers that do not do for one reason."""
    return _ON_GPUS.sub(on, why)


def _alike(size: Size, found: Smallest) -> list[list[tuple[int, Tried]]]:
    """Return the rows with their index: numbers of GPUs, one after the other, that do not do for the same reason stand together."""
    groups: list[list[tuple[int, Tried]]] = []
    for k, row in enumerate(found.tried):
        last = groups[-1][-1] if groups else None
        is_same = last is not None and row.fits is last[1].fits is False and row.gpus == last[1].gpus + 1
        if size is Size.GPUS and last is not None and is_same and _of_any(_why(found, k, row)) == _of_any(_why(found, *last)):
            groups[-1].append((k, row))
        else:
            groups.append([(k, row)])
    return groups


def _first(size: Size, rows: Sequence[Tried]) -> tuple[str, ...]:
    row = rows[0]
    if size is Size.CARD:
        room = "–" if row.question is None else gib_down(min(row.question.machine.room_mib))
        return row.card or "", f"{(row.memory_mib or 0) / 1024:.1f} GiB", room
    return (id_ranges(each.gpus for each in rows),)


def _what(size: Size, row: Tried) -> str:
    if size is Size.CARD:
        return row.card or ""
    others = f", the roomiest of {row.sets} sets that differ, of which none does" if row.sets > 1 else ""
    return f"{counted(row.gpus, 'GPU')} ({id_ranges(row.on)}{others})"


def _fits(row: Tried) -> str:
    return {True: "yes", False: "no", None: "?"}[row.fits]


def _step(row: Tried) -> str:
    if row.step_us is None:
        return "–"
    return seconds(row.step_us) if row.is_shortest else f"{seconds(row.step_us)} or less"


def _why(found: Smallest, k: int, row: Tried) -> str:
    return "see below" if k == found.below and found.answer is not None else "; ".join(row.why_not)


# ── for machines ────────────────────────────────────────────────────────────────────────────────────────────────────────


def document(looked: Looked) -> dict[str, Any]:
    """Return what stands beside the plan in the JSON document."""
    return {"smallest": list(_rows(looked))}


def _rows(looked: Looked) -> Iterator[dict[str, Any]]:
    for row in looked.found.tried:
        card = {} if row.card is None else {"card": row.card, "memory_mib": row.memory_mib}
        yield {**card, "gpus": row.gpus, "on": list(row.on), "fits": row.fits, "step_us": row.step_us, "why_not": list(row.why_not)}
