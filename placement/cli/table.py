"""
The plan as people read it: verdict first, then roles, memory, stages, and what ours is measured against.

When to modify: how a plan looks on a terminal.
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Collection, Iterable
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from placement.plans import Alternative, GpuMemory, HostMemory, Plan, RolePlan
from placement.program.prices import FREE, PROVEN, seconds, seconds_down

WIDTH = 100
"""Columns where nothing says how many there are, and the most that a terminal gets: longer lines read badly."""

BAR = 24
SHORTEST_BAR = 4
GAP = 2
"""Columns between two columns of a table."""

GPUS_IN_A_LINE = 8


def width_of(stream: TextIO | None) -> int:
    """Return the columns that a text for *stream* may take: an exported COLUMNS wins, as in other commands."""
    said = os.environ.get("COLUMNS", "")
    if stream is not None and said.isascii() and said.isdigit() and int(said):
        return int(said)
    if stream is not None and stream.isatty():
        return min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)
    return WIDTH


def rendered(*parts: RenderableType, stream: TextIO | None) -> str:
    """
    Return *parts* as text for *stream*, plain unless it is a terminal.

    Lines keep to `width_of` the stream where that breaks no word: a name that is cut in two can be neither read nor copied.
    """
    is_terminal = stream is not None and stream.isatty()
    width = width_of(stream)
    out = Console(
        file=io.StringIO(),
        width=1 << 16,      # the width is asked for part by part: the console itself must not cut
        force_terminal=is_terminal,
        highlight=False,
        markup=False,       # names come from files and may hold brackets
        emoji=False,
        no_color=not is_terminal or "NO_COLOR" in os.environ,
    )
    for part in parts:
        if isinstance(part, Table):
            out.print(part, width=max(width, _keep_words_whole(part)))
        else:
            longest = max((cell_len(word) for word in str(part).split()), default=0)
            out.print(part, width=max(width, longest))
    text = out.file.getvalue()  # type: ignore[attr-defined]
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def _keep_words_whole(table: Table) -> int:
    """Make each column as wide as its longest word, or line where it does not wrap; return what *table* then needs."""
    for column in table.columns:
        column.min_width = max(
            (
                cell_len(piece)
                for cell in (column.header, *column.cells)
                for piece in (str(cell).splitlines() if column.no_wrap else str(cell).split())
            ),
            default=0,
        )
    return sum((column.min_width or 0) + GAP for column in table.columns)


def plan_table(plan: Plan, *, stream: TextIO | None, notices: Iterable[str] = ()) -> str:
    """Return *plan* as text for *stream*; *notices* stand where nobody misses them."""
    rules = ", ".join(f"{name} {value}" for name, value in plan.rules.items())
    return rendered(
        Text(plan.verdict, style="bold"),
        _roles(plan),
        _memory(plan, width_of(stream)),
        *map(_host, plan.host_memory_mib),
        *(Text(notice, style="bold yellow") for notice in notices),
        _stages(plan),
        _against(plan),
        f"rules: {rules}; {_proof(plan)}",
        stream=stream,
    )


def new_table(*columns: tuple[str, str], prose: Collection[str] = ()) -> Table:
    """Return an empty table of (title, justification) columns; those named in *prose* wrap between words, others never."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True, header_style="bold")
    for name, justify in columns:
        table.add_column(name, justify=justify, no_wrap=name not in prose, overflow="fold")  # type: ignore[arg-type]
    return table


def percent(share: float) -> str:
    """Return a share for people: one decimal where it says something."""
    return f"{round(100 * share, 1):g} %"


def counted(number: int, what: str) -> str:
    """Return *number* things: ``1 GPU``, ``8 GPUs``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def _roles(plan: Plan) -> Table:
    table = new_table(
        ("role", "left"), ("GPUs in rank order", "left"), ("tp×pp×dp", "left"), ("runs as", "left"), prose=["runs as"]
    )
    for name, gpus in plan.device_map.items():
        role = plan.roles[name]
        layout = f"{role.layout.tp}×{role.layout.pp}×{role.layout.dp}"
        layout += "".join(f", {name} {size}" for name, size in (("sp", role.layout.sp), ("ep", role.layout.ep)) if size)
        lines = (gpus[k : k + GPUS_IN_A_LINE] for k in range(0, len(gpus), GPUS_IN_A_LINE))
        table.add_row(name, "\n".join(" ".join(map(str, line)) for line in lines), layout, _runs_as(role))
    return table


def _runs_as(role: RolePlan) -> str:
    words = [role.model, role.precision]
    if role.train:
        words += [f"{role.engine}, {role.train.master} master", f"offload {role.train.offload}"]
        words += [f"zero {role.train.zero}"] if role.train.zero else []
    elif not role.rollout:
        words += [role.engine, f"offload {role.offload}"]
    if role.rollout:
        r = role.rollout
        words.append(f"{r.engine} {r.replicas}×tp{r.tp} at {percent(r.gpu_memory_utilization)}")
        words += [f"{r.quantization} weights"] if r.quantization else []
        words += [f"{r.kv_cache} KV cache"] if r.kv_cache else []
    return ", ".join(words)


def _memory(plan: Plan, width: int) -> Table:
    """Return the memory of each GPU; the bar takes what the numbers leave of *width*."""
    titles = ("GPU", "memory", "█ need", "· free", "▒ reserved", "at worst in")
    rows = [
        (str(row.gpu), _gib(row.planned), _gib(row.free), _gib(row.reserved), row.worst_phase or "not used")
        for row in plan.memory_mib
    ]
    others = zip((titles[0], *titles[2:]), *rows, strict=True)
    left = width - sum(max(map(len, column)) + GAP for column in others)
    length = min(max(left, SHORTEST_BAR), BAR)
    table = new_table(*zip(titles, ("right", "left", "right", "right", "right", "left"), strict=True))
    for memory, (gpu, *numbers) in zip(plan.memory_mib, rows, strict=True):
        table.add_row(gpu, bar(memory, length), *numbers)
    return table


def _host(row: HostMemory) -> Text:
    need = f"memory of {row.host or 'the host'}: {_gib(row.planned)} needed ({row.worst_phase})"
    if row.capacity is None or row.reserved is None or row.free is None:
        return Text(f"{need}; what it has is not known (--host-memory)")
    return Text(f"{need}, {_gib(row.free)} free, {_gib(row.reserved)} of {_gib(row.capacity)} reserved")


def bar(row: GpuMemory, length: int = BAR) -> str:
    """Return the memory of one GPU as a bar: planned █, free ·, reserved ▒."""
    planned = round(length * row.planned / row.capacity)
    reserved = max(round(length * row.reserved / row.capacity), 1 if row.reserved else 0)
    free = length - planned - reserved
    return "█" * (planned + min(free, 0)) + "·" * max(free, 0) + "▒" * reserved


def _gib(mib: int) -> str:
    return f"{mib / 1024:.1f} GiB"


def _stages(plan: Plan) -> Table:
    table = new_table(
        ("stage", "left"), ("time", "right"), ("bound by", "left"), ("because of", "left"), prose=["because of"]
    )
    for stage in plan.estimate.stages:
        table.add_row(stage.name, seconds(stage.us), stage.bound_by, stage.because)
    return table


def _against(plan: Plan) -> Text:
    step, compare = plan.estimate.step_us, plan.comparison
    why = f": {compare.why_not_colocated}" if compare.why_not_colocated else ""
    lines = [f"trivial plan (every role on all GPUs, in turns): {_beside(step, compare.colocated)}{why}"]
    if compare.lifted and not plan.verdict.endswith(FREE):
        free, star = compare.free, plan.proof.objective
        says = free.note if free.step_us is None else f"{_said(free)}, against {seconds(star)} with them"
        lines.append(f"shortest step without the rules ({', '.join(compare.lifted)}): {says}")
    return Text("\n".join(lines))


def _beside(step: int, other: Alternative) -> str:
    if other.step_us is None:
        return other.note
    first = _said(other)
    ratio = other.step_us / step - 1
    if abs(ratio) < 0.0005:
        return f"{first}, as long as ours"
    return f"{first}, {100 * abs(ratio):.1f} % {'longer' if ratio > 0 else 'shorter'} than ours"


def _said(other: Alternative) -> str:
    assert other.step_us is not None
    return seconds(other.step_us) if other.note == PROVEN else f"{seconds(other.step_us)} ({other.note})"


def _proof(plan: Plan) -> str:
    proof = plan.proof
    first = proof.objective_terms[0]
    star = next(t for t in proof.objective_terms if t.name == "step_us")
    if star.bound == star.value:
        given = "" if first is star else f" with {first.name} at its optimum of {first.value}"
        known = f"no step{given} is shorter than {seconds_down(star.value)} (gap 0 %)"
    else:
        known = f"shortest step found {seconds(star.value)}, none is below {seconds_down(star.bound)} (gap {100 * proof.gap:.1f} %)"
    unproven = [t.name for t in proof.objective_terms if t.value != t.bound]
    if not unproven:
        return f"proven: {known}, and every term after it"
    return f"{known}; not proven: {', '.join(unproven)}"
