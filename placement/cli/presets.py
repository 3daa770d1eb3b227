"""
`placement plan --rules all`: the presets of rule ``isolation`` side by side.

When to modify: what is said of a preset.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from placement.cli import EXIT_INTERRUPTED, EXIT_NO, EXIT_TIME
from placement.cli.say import note
from placement.cli.table import counted, new_table, rendered
from placement.maps.devicemap import SCHEMA, to_document
from placement.planner import Outcome, SolverName, plan
from placement.program.instance import Instance
from placement.program.prices import seconds
from placement.text.output import json_text, write_stdout
from placement.workloads.rules import PRESETS, Rules, parse_rules
from solvers.result import Options, Status

LEAST_S = 0.1
"""Seconds for a preset when the time is over: what needs no search is found all the same."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A preset, what came of it, and whether it used up its share of the time limit before that was proven."""

    preset: str
    outcome: Outcome
    ran_out: bool


def compare(
    specs: Sequence[str], ask: Callable[[Rules], Instance], solver: SolverName, options: Options, *, as_json: bool
) -> int:
    """
    Print one line per preset, each with the same switches; the exit code says whether any of them has a plan.

    The time limit is that of all presets together: each gets an equal share of what those before it left.
    """
    switches = ",".join(word for spec in specs for word in spec.split(",") if word.strip() != "all")
    rules = parse_rules(switches)
    deadline = time.monotonic() + options.time_limit_s
    rows: list[_Row] = []
    for k, preset in enumerate(PRESETS):
        start = time.monotonic()
        share = max(round((deadline - start) / (len(PRESETS) - k), 1), LEAST_S)
        outcome = plan(ask(rules.with_preset(preset)), solver=solver, options=replace(options, time_limit_s=share))
        if outcome.interrupted:
            note(f"interrupted at preset {preset}, {counted(len(PRESETS) - k - 1, 'preset')} not looked at: nothing is compared")
            return EXIT_INTERRUPTED
        is_proven = outcome.status in (Status.OPTIMAL, Status.INFEASIBLE)
        rows.append(_Row(preset, outcome, not is_proven and time.monotonic() - start >= share))
    if as_json:
        write_stdout(json_text([to_document(r.outcome.plan) if r.outcome.plan else no_plan_document(r.outcome) for r in rows]))
    else:
        write_stdout(_table(rows))
    if late := [row.preset for row in rows if row.ran_out]:
        note(
            f"not proven within its share of the time: {', '.join(late)} (--time-limit, {options.time_limit_s:g} s, is shared by all "
            f"{len(PRESETS)} presets)"
        )
    if any(row.outcome.plan for row in rows):
        return 0
    return EXIT_NO if all(row.outcome.status is Status.INFEASIBLE for row in rows) else EXIT_TIME


def no_plan_document(outcome: Outcome) -> dict[str, object]:
    """Return what ``--json`` prints when there is no plan."""
    return {
        "schema": SCHEMA,
        "verdict": outcome.verdict,
        "device_map": None,
        "proof": {"status": outcome.status.value},
        "clash": list(outcome.clash),
    }


def _table(rows: Sequence[_Row]) -> str:
    table = new_table(
        ("preset", "left"), ("step", "right"), ("GPUs", "right"), ("status", "left"), ("map", "left"), prose=["map"]
    )
    for row in rows:
        table.add_row(row.preset, *_cells(row.outcome))
    return rendered(table, stream=sys.stdout)


def _cells(outcome: Outcome) -> tuple[str, str, str, str]:
    if outcome.plan is None:
        why = "; ".join(outcome.clash) or outcome.verdict.partition(": ")[2]
        return "–", "–", outcome.status.value, why
    pools: dict[tuple[int, ...], list[str]] = {}
    for role, gpus in outcome.plan.device_map.items():
        pools.setdefault(gpus, []).append(role)
    drawn = "  ".join(f"{'+'.join(roles)}: {','.join(map(str, gpus))}" for gpus, roles in pools.items())
    return seconds(outcome.plan.estimate.step_us), str(len(outcome.plan.used_gpus)), outcome.status.value, drawn
