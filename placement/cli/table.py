"""
The plan as people read it: verdict first, then roles, memory, stages, and what ours is measured against.

When to modify: how a plan looks on a terminal.
"""

from __future__ import annotations

import io
import os
import shutil
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from placement.plans import Alternative, GpuMemory, Plan, RolePlan
from placement.prices import PROVEN, seconds, seconds_down

WIDTH = 100
BAR = 24


def rendered(*parts: RenderableType, stream: TextIO | None) -> str:
    """Return *parts* as text for *stream*: at most `WIDTH` columns, plain unless it is a terminal."""
    is_terminal = stream is not None and stream.isatty()
    width = min(WIDTH, shutil.get_terminal_size().columns) if is_terminal else WIDTH
    out = Console(
        file=io.StringIO(),
        width=max(width, 60),
        force_terminal=is_terminal,
        highlight=False,
        no_color=not is_terminal or "NO_COLOR" in os.environ,
    )
    for part in parts:
        out.print(part)
    text = out.file.getvalue()  # type: ignore[attr-defined]
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def plan_table(plan: Plan, *, stream: TextIO | None) -> str:
    """Return *plan* as text for *stream*."""
    rules = ", ".join(f"{name} {value}" for name, value in plan.rules.items())
    return rendered(
        Text(plan.verdict, style="bold"),
        _roles(plan),
        _memory(plan),
        _stages(plan),
        _against(plan),
        f"rules: {rules}; {_proof(plan)}",
        stream=stream,
    )


def new_table(*columns: tuple[str, str]) -> Table:
    """Return an empty table of (title, justification) columns."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for name, justify in columns:
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    return table


def _roles(plan: Plan) -> Table:
    table = new_table(("role", "left"), ("GPUs in rank order", "left"), ("tp×pp×dp", "left"), ("runs as", "left"))
    for name, gpus in plan.device_map.items():
        role = plan.roles[name]
        layout = f"{role.layout.tp}×{role.layout.pp}×{role.layout.dp}"
        table.add_row(name, " ".join(map(str, gpus)), layout, _runs_as(role))
    return table


def _runs_as(role: RolePlan) -> str:
    words = [role.model, role.precision]
    if role.train:
        words += [f"{role.engine}, {role.train.master} master", f"offload {role.train.offload}"]
    elif not role.rollout:
        words += [role.engine, f"offload {role.offload}"]
    if role.rollout:
        r = role.rollout
        words.append(f"{r.engine} {r.replicas}×tp{r.tp} at {r.gpu_memory_utilization:.0%}")
    return ", ".join(words)


def _memory(plan: Plan) -> Table:
    table = new_table(
        ("GPU", "right"),
        ("memory", "left"),
        ("need", "right"),
        ("reserved", "right"),
        ("free", "right"),
        ("at worst in", "left"),
    )
    for row in plan.memory_mib:
        table.add_row(
            str(row.gpu), bar(row), _gib(row.planned), _gib(row.reserved), _gib(row.free), row.worst_phase or "not used"
        )
    return table


def bar(row: GpuMemory) -> str:
    """Return the memory of one GPU as a bar: planned █, reserved ▒, free ·."""
    planned = round(BAR * row.planned / row.capacity)
    reserved = max(round(BAR * row.reserved / row.capacity), 1 if row.reserved else 0)
    free = BAR - planned - reserved
    return "█" * (planned + min(free, 0)) + "·" * max(free, 0) + "▒" * reserved


def _gib(mib: int) -> str:
    return f"{mib / 1024:.1f} GiB"


def _stages(plan: Plan) -> Table:
    table = new_table(("stage", "left"), ("time", "right"), ("bound by", "left"), ("because of", "left"))
    for stage in plan.estimate.stages:
        table.add_row(stage.name, seconds(stage.us), stage.bound_by, stage.because)
    return table


def _against(plan: Plan) -> Text:
    step, compare = plan.estimate.step_us, plan.comparison
    why = f": {compare.why_not_colocated}" if compare.why_not_colocated else ""
    lines = [f"trivial plan (every role on all GPUs, in turns): {_beside(step, compare.colocated)}{why}"]
    if compare.lifted:
        lines.append(f"without the rules ({', '.join(compare.lifted)}): {_beside(step, compare.free)}")
    return Text("\n".join(lines))


def _beside(step: int, other: Alternative) -> str:
    if other.step_us is None:
        return other.note
    first = f"{seconds(other.step_us)} ({other.note})" if other.note != PROVEN else seconds(other.step_us)
    ratio = other.step_us / step - 1
    if abs(ratio) < 0.0005:
        return f"{first}, as long as ours"
    return f"{first}, {100 * abs(ratio):.1f} % {'longer' if ratio > 0 else 'shorter'} than ours"


def _proof(plan: Plan) -> str:
    proof = plan.proof
    star = next(t for t in proof.objective_terms if t.name == "step_us")
    if star.bound == star.value:
        known = f"no step is shorter than {seconds(star.value)} (gap 0 %)"
    else:
        known = f"shortest step found {seconds(star.value)}, none is below {seconds_down(star.bound)} (gap {100 * proof.gap:.1f} %)"
    unproven = [t.name for t in proof.objective_terms if t.value != t.bound]
    if not unproven:
        return f"proven: {known}, and every term after it"
    return f"{known}; not proven: {', '.join(unproven)}"
