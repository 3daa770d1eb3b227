"""
Memory by GPU and phase, as `placement explain` shows it: GPUs that hold the same stand together.

When to modify: how the memory of a plan looks on a terminal or in JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from placement.cli.table import new_table
from placement.explaining.memory_table import Held, Moment
from placement.machines.machine import id_ranges
from placement.plans import Plan


@dataclass(frozen=True, slots=True)
class Alike:
    """GPUs that hold the same at every one of *moments*, those of the first of them."""

    gpus: tuple[int, ...]
    moments: tuple[Moment, ...]

    @property
    def name(self) -> str:
        """What they are called."""
        return f"GPU {id_ranges(self.gpus)}"


def alike(moments: Sequence[Moment]) -> tuple[Alike, ...]:
    """Return the GPUs of *moments* (`placement.explaining.memory_table.memory_table`), those that hold the same together."""
    by_gpu: dict[int, tuple[Moment, ...]] = {}
    for moment in moments:
        by_gpu[moment.gpu] = (*by_gpu.get(moment.gpu, ()), moment)
    found: list[Alike] = []
    for gpu, own in by_gpu.items():
        holds = [(moment.name, moment.held) for moment in own]
        for k, group in enumerate(found):
            if [(moment.name, moment.held) for moment in group.moments] == holds:
                found[k] = Alike((*group.gpus, gpu), group.moments)
                break
        else:
            found.append(Alike((gpu,), own))
    return tuple(found)


def memory(plan: Plan, moments: Sequence[Moment]) -> Iterator[RenderableType]:
    """Yield the table of what is needed when, and what the worst moment of each GPU is made of, MiB."""
    groups = alike(moments)
    table = new_table(("memory, MiB", "left"), *((group.name, "right") for group in groups))
    for row in zip(*(group.moments for group in groups), strict=True):
        table.add_row(row[0].name, *(str(moment.mib) for moment in row))
    yield table
    worst = {row.gpu: row.worst_phase for row in plan.memory_mib}
    for group in groups:
        moment = next(m for m in group.moments if m.name == worst[group.gpus[0]])
        held = "; ".join(_held(each) for each in moment.held if each.pieces)
        yield Padding(Text(f"{group.name} at worst in {moment.name}, {moment.mib}: {held}"), (0, 0, 0, 2))


def _held(each: Held) -> str:
    pieces = ", ".join(f"{piece} {mib}" for piece, mib in each.pieces.items())
    return f"{each.role} ({each.part}) {pieces}"


def document(moments: Sequence[Moment]) -> list[dict[str, Any]]:
    """Return the same for machines, all moments with their pieces, MiB."""
    return [
        {
            "gpus": list(group.gpus),
            "moments": [
                {
                    "name": moment.name,
                    "mib": moment.mib,
                    "held": [{"role": each.role.value, "part": each.part.value, "mib": dict(each.pieces)} for each in moment.held],
                }
                for moment in group.moments
            ],
        }
        for group in alike(moments)
    ]
