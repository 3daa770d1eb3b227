"""
`placement topology SRC`: show what was read.

When to modify: what the command shows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from placement.cli import EXIT_INPUT, kinds
from placement.cli.say import note
from placement.cli.table import GAP, counted, new_table, rendered, width_of
from placement.errors import InputError
from placement.output import json_text, write_file, write_stdout
from placement.sources import machine
from topologies.document import error_document, to_document
from topologies.domains import islands
from topologies.model import Topology


def run(source: str, *, cards: str | None, as_json: bool, as_yaml: bool, svg: Path | None, force: bool) -> int:
    """Read and show; return the exit code."""
    try:
        topology = kinds.reading("topology", source, lambda: machine(source, cards=cards, say=note)).topology
    except InputError as error:
        if not as_json:
            raise
        write_stdout(json_text(error_document(str(error))))
        note(f"error: {error}")
        return EXIT_INPUT
    if svg is not None:
        from placement.drawing import draw

        write_file(svg, draw(topology), force=force)
        note(f"drawn in {svg}")
    if as_json:
        write_stdout(json_text(to_document(topology, islands=islands(topology))))
    elif as_yaml:
        from placement.strict_yaml import dump

        write_stdout(dump(to_document(topology, islands=islands(topology))))
    elif svg is None:
        write_stdout(rendered(*_page(topology, width_of(sys.stdout)), stream=sys.stdout))
    return 0


def _page(topology: Topology, width: int) -> Iterator[RenderableType]:
    groups = islands(topology)
    names = ", ".join("{" + ",".join(map(str, island)) + "}" for island in groups)
    yield f"{counted(len(topology.gpus), 'GPU')}, read as {topology.format}; islands: {names}"
    yield _matrix(topology, groups, width)
    yield _gpus(topology, groups)
    for nic, device in topology.nics.items():
        near = [f"GPU{g} {codes[nic]}" for g, codes in topology.gpu_nic.items() if codes.get(nic) in {"PIX", "PXB", "PHB"}]
        name = nic if device == nic else f"{nic} ({device or 'device not named'})"
        yield f"{name}: {'near ' + ', '.join(near) if near else 'near no GPU'}"
    for warning in topology.warnings:
        yield f"warning: {warning}"


def _matrix(topology: Topology, groups: tuple[tuple[int, ...], ...], width: int) -> Text:
    """
    Return the matrix that people know; links inside an island stand out.

    A matrix that is too wide drops the word GPU above its columns; one that is still too wide is cut into blocks of columns.
    """
    island = {g: k for k, members in enumerate(groups) for g in members}
    n = len(topology.gpus)
    codes = [[topology.link(i, j) or "?" if i != j else "X" for j in range(n)] for i in range(n)]
    longest = max((len(code) for row in codes for code in row), default=0)
    first = len(f"GPU{n - 1}") + GAP
    for word, gap in (("GPU", GAP), ("", 1)):
        cell = max(longest, len(f"{word}{n - 1}")) + gap
        if first + n * cell - gap <= width:
            break
    in_a_block = max((width - first + gap) // cell, 1)
    blocks = -(-n // in_a_block)
    in_a_block = -(-n // blocks)    # blocks of one size read better than a narrow last one
    text = Text(no_wrap=True, overflow="ignore", end="")
    for start in range(0, n, in_a_block):
        columns = range(start, min(start + in_a_block, n))
        text.append("\n" if start else "")
        text.append(" " * first + "".join(f"{word}{j}".ljust(cell) for j in columns) + "\n", style="bold")
        for i in range(n):
            text.append(f"GPU{i}".ljust(first))
            for j in columns:
                text.append(codes[i][j].ljust(cell), style="bold green" if i != j and island[i] == island[j] else "")
            text.append("\n")
    return text


def _gpus(topology: Topology, groups: tuple[tuple[int, ...], ...]) -> Table:
    island = {g: k for k, members in enumerate(groups) for g in members}
    table = new_table(
        ("GPU", "right"), ("card", "left"), ("memory", "right"), ("in use", "right"), ("island", "right"), ("NUMA", "left"),
        ("CPUs", "left"), prose=["card", "CPUs"],
    )
    for gpu in topology.gpus:
        table.add_row(
            str(gpu.index),
            gpu.name or "?",
            f"{gpu.memory_mib} MiB" if gpu.memory_mib else "?",
            f"{gpu.memory_used_mib} MiB" if gpu.memory_used_mib is not None else "?",
            str(island[gpu.index]),
            gpu.numa or "?",
            (gpu.cpu_affinity or "?").replace(",", ", "),   # a list of many CPUs must be able to wrap
        )
    return table
