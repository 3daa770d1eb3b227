"""
Which numbers turn a choice, as people read it: by the plan that comes out then, one line a number.

When to modify: turns are put into better words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from placement.cli.table import new_table
from placement.explaining.quantities import Quantity
from placement.explaining.turns import LEAST_REGRET, Change, Turn

INDENT = (0, 0, 0, 2)


def turning(turns: Sequence[Turn], band_percent: float) -> Iterator[RenderableType]:
    """Yield *turns*, those that turn to the same plan together, each group under what that plan does otherwise."""
    groups: dict[tuple[str, ...], list[Turn]] = {}
    for turn in turns:
        groups.setdefault(_instead(turn).becomes, []).append(turn)
    for becomes, those in groups.items():
        yield Padding(Text(f"{'; '.join(becomes)}, when" if becomes else "there is no plan, when"), INDENT)
        yield _table(those, band_percent)
    if any(turn.costly is not None and turn.costly.becomes != turn.turned.becomes for turn in turns):
        yield Text(
            f"where staying loses no more than {band_percent:g} % yet, another plan than the one named can come out (--json has both)"
        )


def given(quantities: Iterable[Quantity]) -> Iterator[RenderableType]:
    """Yield how numbers of one's own take the place of those *quantities* that are facts of the machine."""
    facts: dict[str, list[str]] = {}
    for quantity in {each.name: each for each in quantities}.values():
        if quantity.given_by is not None:
            facts.setdefault(quantity.given_by(), []).append(quantity.name)
    if facts:
        yield Text("numbers of your own: constants by name (--constants FILE); facts of the machine so:")
        yield from (Padding(Text(f"{', '.join(names)}: {how}"), INDENT) for how, names in facts.items())


def _instead(turn: Turn) -> Change:
    """Return the change that names the plan: where staying costs more than the band, if it does."""
    return turn.costly or turn.turned


def _table(turns: Sequence[Turn], band_percent: float) -> Table:
    band = [(f"loss over {band_percent:g} % from", "right")] if any(turn.costly is not None for turn in turns) else []
    columns = [("number", "left"), ("now", "right"), ("holds to", "right"), ("turns at", "right"), *band]
    table = new_table(*columns, ("loss at the end", "left"), prose=["number", "loss at the end"])
    for turn in turns:
        q = turn.quantity
        unit = f", {q.unit}" if q.unit else ""
        costly = "–" if turn.costly is None else q.amount(turn.costly.factor)
        table.add_row(
            f"{q.name}{unit}",
            q.amount(1),
            q.amount(turn.holds_at),
            q.amount(turn.turned.factor),
            *([costly] if band else []),
            f"{loss(turn.at_end)} at {q.amount(turn.at_end.factor)}",
        )
    return table


def loss(change: Change) -> str:
    """Return what staying costs where *change* happens."""
    if not change.becomes:
        return "no plan"
    if change.regret is None:
        return "no room to stay"
    step = "nothing" if change.regret < LEAST_REGRET else f"{100 * change.regret:.1f} %"
    if change.is_worse and change.first_term is not None:
        return f"the objective ({change.first_term[0]} in place of {change.first_term[1]}), {step} of the step"
    return step
