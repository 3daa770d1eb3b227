"""
`placement explain`: what a plan rests on, and what fills its GPUs.

When to modify: another question is answered, or an answer is put into better words.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from placement import checking
from placement._version import __version__
from placement.cli import held, kinds
from placement.cli.table import counted, new_table, percent, rendered
from placement.cli.turns import given, turning
from placement.errors import InputError
from placement.explaining.memory_table import Moment, memory_table
from placement.explaining.quantities import Quantity
from placement.explaining.sensitivity import Change, Leverage, Sensitivity, Turn, sensitivity
from placement.maps.replay import MAX_BYTES, replay
from placement.planner import SolverName, load_solver
from placement.plans import Plan
from placement.program.instance import Instance
from placement.program.prices import seconds
from placement.text.output import json_text, write_stdout
from placement.text.text_files import name_of, read_source
from placement.timing.generation import NO_ROOM
from placement.workloads.workload import Schedule
from solvers.result import Options

SCHEMA = "placement/explanation/v1"
MORE_ROOM = (
    "generation waits for room in the KV cache: a larger gpu_memory_utilization or tp, kv_cache: fp8, state that is offloaded, or cards "
    "with more memory let more sequences run at a time"
)
MOST_SHOWN = 4


def run(source: str, *, moved_percent: float, time_limit_s: float, as_json: bool) -> int:
    """Explain the map *source* and return the exit code."""
    plan, instance = kinds.reading("device-map", source, lambda: _right(*replay(_text(source), name=name_of(source))))
    options = Options(time_limit_s=time_limit_s)
    rests = sensitivity(plan, instance, load_solver(SolverName.CPSAT), options, moved=moved_percent / 100)
    moments = memory_table(plan, instance)
    if as_json:
        write_stdout(json_text(document(plan, moments, rests, moved_percent=moved_percent, band_percent=instance.within_percent)))
    else:
        text = page(plan, moments, rests, moved_percent=moved_percent, band_percent=instance.within_percent)
        write_stdout(rendered(*text, stream=sys.stdout))
    return 0


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _text(source: str) -> str:
    return read_source(source, what="device map", most=MAX_BYTES, hint=": `placement plan -o FILE` writes one")


def _right(plan: Plan, instance: Instance) -> tuple[Plan, Instance]:
    """Return what was read if the plan is right for its question: nothing can be explained of figures that do not hold."""
    wrong = checking.problems(plan, instance)
    if wrong:
        written = plan.inputs.get("version")
        old = "" if written == __version__ else f" (it was written by version {written}, this is {__version__})"
        more = f", and {counted(len(wrong) - 1, 'more problem')}" if len(wrong) > 1 else ""
        raise InputError(
            f"the map is not right for the question that it records{old}: {wrong[0]}{more}; write it anew with `placement plan -o FILE`"
        )
    return plan, instance


# ── for people ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def page(
    plan: Plan, moments: Sequence[Moment], rests: Sensitivity, *, moved_percent: float, band_percent: float
) -> Iterator[RenderableType]:
    """Yield what the command prints; *moments* are those of `placement.explaining.memory_table.memory_table`."""
    yield Text(plan.verdict, style="bold")
    yield _stages(plan)
    if any(NO_ROOM in stage.because for stage in plan.estimate.stages):
        yield Text(MORE_ROOM)
    if Schedule(plan.estimate.schedule).overlaps_generation:
        yield Text(f"stages overlap (schedule {plan.estimate.schedule}): their shares can add up to more than the step")
    yield from held.memory(plan, moments)
    if rests.why_not:
        yield Text(f"what the choice rests on was not looked at: {rests.why_not}", style="bold")
        return
    inside = [turn for turn in rests.turns if turn.is_inside(band_percent / 100)]
    outside = [turn for turn in rests.turns if turn not in inside]
    yield Text(_headline(rests, moved_percent, holds=not outside), style="bold")
    yield from turning(outside, band_percent)
    if inside:
        yield Text(f"it turns inside the band of {band_percent:g} %, where either plan will do:", style="bold")
        yield from turning(inside, band_percent)
    if rests.ties:
        yield Text(f"a tie: another plan, no faster, when one of these moves: {_names(rests.ties)}")
    yield Text(
        f"{len(rests.holding)} numbers move the figures alone, on {len(rests.idle)} nothing here depends (--json names them)"
    )
    if rests.leverage:
        yield Text(f"the step moves most with {', '.join(map(_leverage, rests.leverage[:MOST_SHOWN]))}")
    yield from given([*(turn.quantity for turn in rests.turns), *(each.quantity for each in rests.leverage[:MOST_SHOWN])])
    if rests.not_looked_at:
        yield Text(f"not looked at for want of time (--time-limit): {_names(rests.not_looked_at)}")


def _headline(rests: Sensitivity, moved_percent: float, *, holds: bool) -> str:
    looked, missed = _looked_at(rests), len(rests.not_looked_at)
    each = f"by ±{moved_percent:g} %, each alone"
    if not missed:
        return f"the choice holds {'whatever moves' if holds else 'but for these'} ({counted(looked, 'number')} moved {each})"
    late = f"{missed} {'was' if missed == 1 else 'were'} not, for want of time"
    if not looked:
        return "whether the choice holds is not known: no number was looked at, for want of time"
    if holds:
        return f"the choice holds for the {counted(looked, 'number')} that {'was' if looked == 1 else 'were'} looked at ({each}); {late}"
    return f"the choice holds but for these ({counted(looked, 'number')} moved {each}; {late})"


def _stages(plan: Plan) -> Table:
    """Return what bounds every stage, and its share of the step; lanes that run side by side can add up to more than all of it."""
    table = new_table(
        ("stage", "left"), ("time", "right"), ("of the step", "right"), ("bound by", "left"), ("because of", "left"), prose=["because of"]
    )
    for stage in plan.estimate.stages:
        share = percent(stage.us / plan.estimate.step_us) if plan.estimate.step_us else "–"
        table.add_row(stage.name, seconds(stage.us), share, stage.bound_by, stage.because)
    return table


def _looked_at(rests: Sensitivity) -> int:
    turned = [turn.quantity for turn in rests.turns]
    return len({quantity.name for quantity in (*turned, *rests.ties, *rests.holding, *rests.idle)})


def _leverage(found: Leverage) -> str:
    return f"{found.quantity.name} ({100 * found.change:+.1f} % at {found.quantity.at(found.factor)})"


def _names(listed: tuple[Quantity, ...]) -> str:
    return ", ".join(quantity.name for quantity in listed)


# ── for machines ────────────────────────────────────────────────────────────────────────────────────────────────────────


def document(
    plan: Plan, moments: Sequence[Moment], rests: Sensitivity, *, moved_percent: float, band_percent: float
) -> dict[str, Any]:
    """Return the same as one JSON document."""
    return {
        "schema": SCHEMA,
        "verdict": plan.verdict,
        "step_us": plan.estimate.step_us,
        "stages": [
            {"name": s.name, "us": s.us, "bound_by": s.bound_by, "because": s.because} for s in plan.estimate.stages
        ],
        "memory": held.document(moments),
        "sensitivity": {
            "moved_percent": moved_percent,
            "band_percent": band_percent,
            "turns": [{**_turn_document(turn), "inside_band": turn.is_inside(band_percent / 100)} for turn in rests.turns],
            "ties": [q.name for q in rests.ties],
            "holding": [q.name for q in rests.holding],
            "leverage": [
                {"quantity": each.quantity.name, "factor": round(each.factor, 12), "step_percent": round(100 * each.change, 3)}
                for each in rests.leverage
            ],
            "idle": [q.name for q in rests.idle],
            "not_looked_at": [q.name for q in rests.not_looked_at],
            "why_not": rests.why_not or None,
        },
    }


def _turn_document(turn: Turn) -> dict[str, Any]:
    q = turn.quantity
    return {
        "quantity": q.name,
        "constant": q.is_constant,
        "unit": q.unit or None,
        "given_by": f"constant {q.name} (--constants FILE)" if q.given_by is None else q.given_by(),
        "now": list(dict.fromkeys(q.values)),
        "side": "below" if turn.is_below else "above",
        "holds_at": round(turn.holds_at, 12),
        "turned": _change_document(turn.turned),
        "costly": None if turn.costly is None else _change_document(turn.costly),
        "at_end": _change_document(turn.at_end),
    }


def _change_document(change: Change) -> dict[str, Any]:
    return {
        "factor": round(change.factor, 12),
        "becomes": list(change.becomes),
        "regret_percent": None if change.regret is None else round(100 * change.regret, 3),
        **({} if change.first_term is None else {"objective": {"stays": change.first_term[0], "goes": change.first_term[1]}}),
    }
