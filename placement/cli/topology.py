"""
`placement topology SRC`: show what was read.

When to modify: what the command shows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from placement.cli import EXIT_INPUT, kinds
from placement.cli.facts import gpu_table, gpu_words, nic_codes, nic_table, process_table
from placement.cli.linkage import has_matrix, linkage
from placement.cli.matrix import label_of, meanings
from placement.cli.measured import measured_lines
from placement.cli.missing import missing
from placement.cli.say import note
from placement.cli.sentences import fabrics, host_facts, network
from placement.cli.stated import stated
from placement.cli.table import counted, rendered, width_of
from placement.cli.wrap import wrapped
from placement.drawing.shapes import printable
from placement.errors import InputError
from placement.machines.hosts import HostGroup, alone, host_groups, name_list
from placement.machines.sources import machine
from placement.text.output import json_text, write_file, write_stdout
from topologies.documents.document import error_document, to_document
from topologies.domains import islands
from topologies.model import Topology

STDOUT = Path("-")
_OTHER_FORMATS = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".pdf", ".ps", ".eps", ".svgz"})
"""Ends of the names of pictures that are no SVG."""

_MOST_KINDS = 24
"""Kinds of hosts that are shown; nobody reads more."""


def run(source: str, *, cards: str | None, as_json: bool, as_yaml: bool, svg: Path | None, force: bool) -> int:
    """Read and show; return the exit code."""
    if svg is not None:
        _refuse_no_place(svg, as_document=as_json or as_yaml)
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

        drawing = draw(topology)
        if svg == STDOUT:
            write_stdout(drawing)
        else:
            write_file(svg, drawing, force=force)
            note(f"drawn in {svg}")
    if as_json:
        write_stdout(json_text(to_document(topology, islands=islands(topology))))
    elif as_yaml:
        from placement.text.strict_yaml import dump

        write_stdout(dump(to_document(topology, islands=islands(topology))))
    elif svg is None:
        write_stdout(rendered(*page(topology, width_of(sys.stdout)), stream=sys.stdout))
    return 0


def _refuse_no_place(svg: Path, *, as_document: bool) -> None:
    """
    Refuse a place that is no place for a drawing.

    Raises
    ------
    InputError
        If the file is called like a picture of another format, or a document goes to standard output, too.
    """
    if svg.suffix.lower() in _OTHER_FORMATS:
        name = svg.with_suffix(".svg").name
        raise InputError(f"--svg {svg}: the drawing is SVG; name it {name}, browsers and Inkscape make other formats of it")
    if svg == STDOUT and as_document:
        raise InputError("--svg - and --json or --yaml all write to standard output: give one of them, or name a file for the drawing")


def page(topology: Topology, width: int) -> Iterator[RenderableType]:
    """Yield what is shown; hosts that are alike are shown once."""
    groups = host_groups(topology)
    groups, others = groups[:_MOST_KINDS], groups[_MOST_KINDS:]
    is_cluster = len(topology.hosts) > 1
    where = f" on {len(topology.hosts)} hosts" if is_cluster else ""
    yield Text(f"{counted(len(topology.gpus), label_of(topology))}{where}, {_read_from(topology)}", style="bold")
    yield from (wrapped(line, width) for line in network(topology))
    first = [group.hosts[0] for group in groups]
    parts = alone(topology, first) if is_cluster else dict.fromkeys(first, topology)
    for group in groups:
        if is_cluster:
            yield ""
            yield Text(wrapped(_heading(group), width), style="bold")
        yield from _host(topology, parts[group.hosts[0]], group, width)
    if others:
        yield ""
        names = name_list(host for group in others for host in group.hosts)
        yield wrapped(printable(f"{counted(len(others), 'further kind')} of hosts, which --json lists: {names}"), width)
    processes, told = process_table(topology)
    if processes is not None:
        yield ""
        yield processes
    sentences = [*([told] if told else []), *fabrics(topology), *stated(topology)]
    if sentences:
        yield ""
    yield from (wrapped(sentence, width) for sentence in sentences)
    if topology.measured is not None:
        yield ""
        yield from (wrapped(line, width) for line in measured_lines(topology))
    lacks = missing(topology)
    if lacks or topology.warnings:
        yield ""
    if lacks:
        yield Text(wrapped(lacks, width), style="yellow")
    for warning in topology.warnings:
        yield Text(wrapped(f"warning: {printable(warning)}", width), style="yellow")


def _read_from(topology: Topology) -> str:
    formats = list(dict.fromkeys(topology.formats))
    return f"read from {', '.join(formats)}" if len(formats) > 1 else f"read as {topology.format}"


def _heading(group: HostGroup) -> str:
    over_all = gpu_words([g for gpus in group.gpus for g in gpus])
    each = counted(len(group.gpus[0]), "GPU")
    who = name_list(group.hosts)
    if len(group.hosts) > 1:
        return printable(f"{who}: {len(group.hosts)} hosts alike, {each} each, here counted on each host ({over_all} over all hosts)")
    return printable(f"{who}: {each}, here counted on the host ({over_all} over all hosts)")


def _host(topology: Topology, part: Topology, group: HostGroup, width: int) -> Iterator[RenderableType]:
    """Yield what is known of the hosts of *group*, which are alike; *part* is the first of them."""
    if facts := host_facts(topology, group):
        yield wrapped(facts, width)
    yield from linkage(part, width)
    sentence, table = gpu_table(topology, part, group, width)
    if sentence or table:
        yield ""
    if sentence:
        yield wrapped(sentence, width)
    if table:
        yield table
    nics = nic_table(part)
    if nics is not None:
        yield ""
        yield nics
    if not has_matrix(part) and (further := list(meanings(nic_codes(part)))):
        yield ""
        yield wrapped(" · ".join(further), width)
