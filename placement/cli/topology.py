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

from placement.cli import EXIT_INPUT
from placement.cli.say import note
from placement.cli.table import new_table, rendered
from placement.output import json_text, write_file, write_stdout
from placement.sources import machine
from topologies.document import error_document, to_document
from topologies.domains import islands
from topologies.errors import TopologyError
from topologies.model import Topology


def run(source: str, *, cards: str | None, as_json: bool, as_yaml: bool, svg: Path | None, force: bool) -> int:
    """Read and show; return the exit code."""
    try:
        topology = machine(source, cards=cards, say=note).topology
    except TopologyError as error:
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
        write_stdout(rendered(*_page(topology), stream=sys.stdout))
    return 0


def _page(topology: Topology) -> Iterator[RenderableType]:
    groups = islands(topology)
    names = ", ".join("{" + ",".join(map(str, island)) + "}" for island in groups)
    yield f"{len(topology.gpus)} GPUs, read as {topology.format}; islands: {names}"
    yield _matrix(topology, groups)
    yield _gpus(topology, groups)
    for nic, device in topology.nics.items():
        near = [f"GPU{g} {codes[nic]}" for g, codes in topology.gpu_nic.items() if codes.get(nic) in {"PIX", "PXB", "PHB"}]
        yield f"{nic} ({device or 'device not named'}): {'near ' + ', '.join(near) if near else 'near no GPU'}"
    for warning in topology.warnings:
        yield f"warning: {warning}"


def _matrix(topology: Topology, groups: tuple[tuple[int, ...], ...]) -> Table:
    """Return the matrix that people know; links inside an island stand out."""
    island = {g: k for k, members in enumerate(groups) for g in members}
    table = new_table(("", "left"), *((f"GPU{g.index}", "left") for g in topology.gpus))
    for row in topology.gpus:
        cells = []
        for column in topology.gpus:
            code = "X" if row is column else topology.link(row.index, column.index) or "?"
            joined = row is not column and island[row.index] == island[column.index]
            cells.append(f"[bold green]{code}[/]" if joined else code)
        table.add_row(f"GPU{row.index}", *cells)
    return table


def _gpus(topology: Topology, groups: tuple[tuple[int, ...], ...]) -> Table:
    island = {g: k for k, members in enumerate(groups) for g in members}
    table = new_table(
        ("GPU", "right"), ("card", "left"), ("memory", "right"), ("in use", "right"), ("island", "right"), ("NUMA", "left"),
        ("CPUs", "left"),
    )
    for gpu in topology.gpus:
        table.add_row(
            str(gpu.index),
            gpu.name or "?",
            f"{gpu.memory_mib} MiB" if gpu.memory_mib else "?",
            f"{gpu.memory_used_mib} MiB" if gpu.memory_used_mib is not None else "?",
            str(island[gpu.index]),
            gpu.numa or "?",
            gpu.cpu_affinity or "?",
        )
    return table
