"""
Matrices of machines that nobody collected: plausible ones of all generations, printed by drivers of all ages, damaged in the ways
of logs, mails, web pages and terminals.

Unlike the machines of `test_read_damage`, whose codes are arbitrary, these have the structure, the NIC names and the layouts of real ones.
"""

from __future__ import annotations

import csv
import html
import io
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.errors import TopologyError
from topologies.model import Topology
from topologies.read import read_text

FEWER = settings(max_examples=max(1, settings().max_examples // 4))

Pair = tuple[int, int]

NIC_NAMES: tuple[Callable[[int], str], ...] = (
    lambda k: f"NIC{k}",
    lambda k: f"mlx5_{k}",
    lambda k: f"mlx5_bond_{k}",
    lambda k: f"bnxt_re{k}",
    lambda k: f"rocep{26 + 40 * k}s0f{k % 2}",
    lambda k: f"ibp{12 + 29 * k}s0",
    lambda k: f"mlx4_{k}",
    lambda k: f"irdma{k}",
)


@dataclass(frozen=True)
class Machine:
    """
    The truth about a machine: *codes* has the code of every pair of devices (GPUs first, then NICs); *affinity* has for each GPU its
    CPUs, NUMA node and GPU NUMA id; *columns* says how many of these the driver prints, *era* how it prints.
    """

    gpus: int
    nics: tuple[str, ...]
    codes: dict[Pair, str]
    affinity: tuple[tuple[str, str, str], ...]
    columns: int
    era: str

    @property
    def devices(self) -> tuple[str, ...]:
        return (*(f"GPU{g}" for g in range(self.gpus)), *self.nics)

    @property
    def links(self) -> dict[Pair, str]:
        return {pair: code for pair, code in self.codes.items() if pair[1] < self.gpus}

    @property
    def gpu_nic(self) -> dict[int, dict[str, str]]:
        nics = dict(enumerate(self.nics, start=self.gpus))
        return {g: {nic: self.codes[g, k] for k, nic in nics.items()} for g in range(self.gpus) if nics}

    def text(self) -> str:
        """Return what the driver prints."""
        titles = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")[: self.columns]
        pad = {"old": " ", "new": ""}[self.era]
        lines = ["\t" + "\t".join((*(pad * 1 + d for d in self.devices), *titles))]
        for i, device in enumerate(self.devices):
            cells = [" X " if i == j else self.codes[min(i, j), max(i, j)] for j in range(len(self.devices))]
            if i < self.gpus:
                values = list(self.affinity[i][: self.columns])
                cells += [*values[:2], "", *values[2:]] if self.columns == 3 else values
            lines.append("\t".join((device, *cells)) + ("\t" if self.era == "old" else ""))
        text = "\n".join(lines) + "\n\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n  NV#  = bonded set of # NVLinks\n"
        if self.nics and self.nics[0].startswith("NIC"):
            text += "\nNIC Legend:\n\n" + "".join(f"  {nic}: mlx5_{k}\n" for k, nic in enumerate(self.nics))
        return text


def _fabric(kind: str, gpus: int, dice: random.Random) -> dict[Pair, str]:
    """Return the NVLinks of a machine of *kind*."""
    pairs = [(i, j) for i in range(gpus) for j in range(i + 1, gpus)]
    match kind:
        case "switch":
            return dict.fromkeys(pairs, dice.choice(("NV6", "NV12", "NV18")))
        case "mesh":
            return {(i, j): dice.choice(("NV1", "NV2")) for i, j in pairs if (i ^ j).bit_count() == 1 or i // 4 == j // 4}
        case "bridges":
            return {(i, j): "NV4" for i, j in pairs if i // 2 == j // 2}
        case "power9":
            return {(i, j): "NV3" for i, j in pairs if i // 2 == j // 2}
        case "half switch":
            return {(i, j): "NV12" for i, j in pairs if i // 4 == j // 4}
        case _:
            return {}


def _place(kind: str, a: tuple[int, ...], b: tuple[int, ...], far: str) -> str:
    """Return the PCIe code of devices at *a* and *b*: socket, root complex, switch, port."""
    if a[0] != b[0]:
        return far
    if kind == "flat":
        return "PHB"
    if a[1] != b[1]:
        return "NODE"
    if a[2] != b[2]:
        return "PHB"
    return "PIX" if a[3] == b[3] else "PXB"


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    dice = random.Random(draw(st.integers(0, 2**32)))
    gpus = draw(st.sampled_from((1, 2, 3, 4, 6, 8, 8, 10, 16)))
    kind = draw(st.sampled_from(("switch", "mesh", "bridges", "power9", "half switch", "tree", "flat", "grace")))
    count = draw(st.sampled_from((0, 0, 1, 2, 4, 8, 10, 18)))
    name = draw(st.sampled_from(NIC_NAMES))
    era = draw(st.sampled_from(("old", "new")))
    far = "SOC" if era == "old" and draw(st.booleans()) else "SYS"
    size = gpus + count
    sockets = gpus if kind == "grace" else 2
    places = [(k * sockets // n, k * 2 * sockets // n, k * 2 // 3, k) for n in (gpus, count or 1) for k in range(n if n else 0)]
    places = places[:gpus] + [(k * sockets // count, k * 2 * sockets // count, k * 2 // 3, k % 2) for k in range(count)]
    codes = {(i, j): _place(kind, places[i], places[j], far) for i in range(size) for j in range(i + 1, size)}
    codes |= _fabric("switch" if kind == "grace" else kind, gpus, dice)
    affinity = []
    for g in range(gpus):
        socket = places[g][0]
        cpus = dice.choice((f"{socket * 48}-{socket * 48 + 47}", f"{socket * 32}-{socket * 32 + 31},{64 + socket * 32}-{95 + socket * 32}"))
        affinity.append((cpus, str(socket), "N/A" if kind != "grace" else str(4 + 8 * g)))
    columns = draw(st.integers(0, 2) if era == "old" else st.integers(1, 3))
    return Machine(gpus, tuple(name(k) for k in range(count)), codes, tuple(affinity), columns, era)


def prefix(word: str) -> Callable[[str], str]:
    return lambda text: "".join(f"{word}{line}\n" for line in text.rstrip("\n").split("\n"))


def numbered(form: str) -> Callable[[str], str]:
    """Put a prefix that counts before every line."""
    return lambda text: "".join(form.format(k % 60, k) + line + "\n" for k, line in enumerate(text.rstrip("\n").split("\n")))


def expand(text: str) -> str:
    return "\n".join(line.expandtabs(8) for line in text.split("\n"))


def collapse(text: str) -> str:
    return re.sub(r"[ \t]+", " ", re.sub(r"^[ \t]+", "", text, flags=re.MULTILINE))


def wrap(width: int) -> Callable[[str], str]:
    def damage(text: str) -> str:
        lines = [line[k : k + width] for line in expand(text).split("\n") for k in range(0, max(1, len(line)), width)]
        return "\n".join(lines)

    return damage


def _rows(text: str) -> list[list[str]]:
    rows = [[cell.strip() for cell in line.split("\t")] for line in text.split("\n") if "\t" in line]
    width = max(map(len, rows))
    return [row + [""] * (width - len(row)) for row in rows]


def markdown(text: str) -> str:
    first, *rest = ["| " + " | ".join(row) + " |" for row in _rows(text)]
    return "\n".join((first, "|" + "---|" * (first.count("|") - 1), *rest, ""))


def html_table(text: str) -> str:
    rows = _rows(text)
    cells = ["<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return "<table>\n" + "\n".join(cells) + "\n</table>\n"


def rst(text: str) -> str:
    """Make a simple table of reStructuredText."""
    rows = _rows(text)
    widths = [max(2, *(len(row[k]) for row in rows)) for k in range(len(rows[0]))]
    rule = "  ".join("=" * width for width in widths)
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join((rule, lines[0], rule, *lines[1:], rule, ""))


def box(text: str) -> str:
    """Make a grid table, as psql and rich print them."""
    rows = _rows(text)
    widths = [max(2, *(len(row[k]) for row in rows)) for k in range(len(rows[0]))]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows]
    return "\n".join((rule, lines[0], rule, *lines[1:], rule, ""))


def aligned(text: str) -> str:
    """Line the columns up, as ``column -t`` does."""
    rows = _rows(text)
    widths = [max(len(row[k]) for row in rows) + 2 for k in range(len(rows[0]))]
    return "\n".join("".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows) + "\n"


def saved(mark: str, quoting: Literal[0, 1]) -> Callable[[str], str]:
    """Return what saves the rows as a spreadsheet does, with *mark* between cells."""

    def damage(text: str) -> str:
        target = io.StringIO()
        csv.writer(target, delimiter=mark, quoting=quoting, lineterminator="\n").writerows(_rows(text))
        return target.getvalue()

    return damage


LOSSLESS: dict[str, Callable[[str], str]] = {
    "commas": saved(",", csv.QUOTE_MINIMAL),
    "semicolons": saved(";", csv.QUOTE_MINIMAL),
    "quotes and commas": saved(",", csv.QUOTE_ALL),
    "quotes and semicolons": saved(";", csv.QUOTE_ALL),
    "quotes and tabs": saved("\t", csv.QUOTE_ALL),
    "commas without quotes": lambda text: "\n".join(",".join(row) for row in _rows(text)) + "\n",
    "lower case, commas": lambda text: saved(",", csv.QUOTE_ALL)(text).lower(),
    "labels without their first letter": lambda text: "\n".join(line[1:] for line in text.partition("\n\n")[0].split("\n")),
    "labels without two letters": lambda text: "\n".join(line[2:] for line in expand(text.partition("\n\n")[0]).split("\n")),
    "as printed": lambda text: text,
    "tabs to spaces": expand,
    "single spaces": collapse,
    "no alignment": lambda text: re.sub(r"\t+", "   ", text),
    "one line": lambda text: " ".join(text.split()),
    "srun": prefix("3: "),
    "compose": prefix("worker-0-1  | "),
    "kubectl": prefix("[pod/trainer-0/main] "),
    "journald": numbered("Mar 01 10:00:{0:02} node7 srun[4242]: "),
    "syslog": numbered("<14>Mar  1 10:00:{0:02} node7 job: "),
    "times": numbered("2025-03-01T10:00:{0:02}.123Z "),
    "times in brackets": numbered("[2025-03-01 10:00:{0:02},123] "),
    "log level": numbered("2025-03-01 10:00:{0:02},123 - INFO - "),
    "python logging": prefix("INFO:root:"),
    "ray": prefix("(ActorGroup pid=4242, ip=10.0.0.7) "),
    "torchrun": prefix("[rank0]: "),
    "mail": prefix("> "),
    "mail of mails": prefix(">>> "),
    "spaced mail": prefix("> > "),
    "slashes": prefix("// "),
    "hashes": prefix("# "),
    "star": prefix(" * "),
    "line numbers": numbered("{1:4}\t"),
    "line numbers and bar": numbered("{1:3} | "),
    "wrapped at 80": wrap(80),
    "wrapped at 100": wrap(100),
    "wrapped at 120": wrap(120),
    "wrapped at 132": wrap(132),
    "wrapped, quoted": lambda text: prefix("> ")(wrap(100)(text)),
    "colours": lambda text: text.replace("PIX", "\x1b[32mPIX\x1b[0m").replace("GPU0", "\x1b[4mGPU0\x1b[0m"),
    "CR LF and mark": lambda text: "\ufeff" + text.replace("\n", "\r\n"),
    "no-break spaces": lambda text: expand(text).replace(" ", "\u00a0"),
    "fence": lambda text: f"Our machine:\n\n```text\n$ nvidia-smi topo -m\n{text}```\n\nThanks!\n",
    "details": lambda text: f"<details><summary>topo</summary>\n\n```\n{text}```\n</details>\n",
    "Markdown table": markdown,
    "grid table": box,
    "reStructuredText": rst,
    "aligned": aligned,
    "pre": lambda text: f"<html><body><pre>{html.escape(text)}</pre></body></html>\n",
    "breaks": lambda text: expand(text).replace(" ", "&nbsp;").replace("\n", "<br>\n"),
    "breaks on one line": lambda text: expand(text).replace("\n", "<br/>"),
    "HTML table": html_table,
    "JSON string": lambda text: json.dumps({"stdout": text, "rc": 0}),
    "JSON lines": lambda text: json.dumps({"stdout_lines": text.split("\n")}, indent=2),
    "twice": lambda text: f"{text}\nand again:\n{text}",
    "lower case": lambda text: "\n".join(line.lower() if "\t" in line else line for line in text.split("\n")),
    "labels in bold": lambda text: re.sub(r"^(GPU\d+)\t", r"**\1**\t", text, flags=re.MULTILINE),
    "code cells": lambda text: re.sub(r"\b(NV\d+|PIX|PXB|PHB|NODE|SYS)\b", r"`\1`", markdown(text)),
    "header lost": lambda text: text.partition("\n")[2],
    "header glued": lambda text: "\t" + text.partition("\n")[0].replace("\t", "") + "\n" + text.partition("\n")[2],
    "form feeds": lambda text: text.replace("\n", "\n\x0c", 1),
}


def wrong(machine: Machine, read: Topology) -> dict[object, str]:
    """Return the links that *read* states and the machine does not have."""
    found: dict[object, str] = {pair: code for pair, code in read.links.items() if machine.links.get(pair) != code}
    for gpu, codes in read.gpu_nic.items():
        found |= {(gpu, nic): code for nic, code in codes.items() if machine.gpu_nic.get(gpu, {}).get(nic) != code}
    return found


def wrong_values(machine: Machine, read: Topology) -> list[tuple[int, str]]:
    """Return the affinity values that *read* states and the machine does not have."""
    return [
        (gpu.index, now)
        for gpu, stated in zip(read.gpus, machine.affinity, strict=False)
        for was, now in zip(stated, (gpu.cpu_affinity, gpu.numa, gpu.gpu_numa_id), strict=True)
        if now not in (None, was)
    ]


@FEWER
@pytest.mark.parametrize("damage", LOSSLESS.values(), ids=LOSSLESS.keys())
@given(machine=machines())
def test_what_loses_nothing_reads_the_same(damage: Callable[[str], str], machine: Machine) -> None:
    read = read_text(damage(machine.text()))
    assert wrong(machine, read) == {}
    assert wrong_values(machine, read) == []
    assert len(read.gpus) == machine.gpus
    assert dict(read.links) == machine.links
    assert {gpu: dict(codes) for gpu, codes in read.gpu_nic.items()} == machine.gpu_nic


def _pick_row(text: str, dice: random.Random) -> tuple[list[str], int]:
    lines = text.split("\n")
    return lines, dice.choice([k for k, line in enumerate(lines) if "\t" in line])


def cut(text: str, dice: random.Random) -> str:
    return text[: dice.randrange(1, len(text))]


def lose_head(text: str, dice: random.Random) -> str:
    return text[dice.randrange(1, len(text) // 2) :]


def lose_rows(text: str, dice: random.Random) -> str:
    lines, row = _pick_row(text, dice)
    del lines[row : row + dice.randrange(1, 4)]
    return "\n".join(lines)


def lose_column(text: str, dice: random.Random) -> str:
    lines, row = _pick_row(text, dice)
    lost = dice.randrange(1, lines[row].count("\t") + 1)
    return "\n".join(
        "\t".join(cell for k, cell in enumerate(line.split("\t")) if k != lost) if "\t" in line else line for line in lines
    )


def _in_row(change: Callable[[list[str], int, random.Random], list[str]]) -> Callable[[str, random.Random], str]:
    def damage(text: str, dice: random.Random) -> str:
        lines, row = _pick_row(text, dice)
        cells = lines[row].split("\t")
        lines[row] = "\t".join(change(cells, dice.randrange(len(cells)), dice))
        return "\n".join(lines)

    return damage


def cut_right(text: str, dice: random.Random) -> str:
    """Lose what is right of a column of the screen, as a narrow pane does."""
    width = dice.randrange(10, 120)
    return "\n".join(line[:width] for line in expand(text).split("\n"))


def cut_left(text: str, dice: random.Random) -> str:
    width = dice.randrange(1, 40)
    return "\n".join(line[width:] for line in expand(text).split("\n"))


def mix_two(text: str, dice: random.Random) -> str:
    """Lines of another program come in between."""
    lines, row = _pick_row(text, dice)
    noise = ("step 7: loss 2.31 GPU0 81.2 GiB", "NCCL INFO Channel 00/08 : 0 1 2 3", "WARNING: GPU3 X is slow", "", "100%|####| 3/3")
    lines.insert(row, dice.choice(noise))
    return "\n".join(lines)


LOSSY: dict[str, Callable[[str, random.Random], str]] = {
    "cut": cut,
    "head lost": lose_head,
    "rows lost": lose_rows,
    "column lost": lose_column,
    "right side cut": cut_right,
    "left side cut": cut_left,
    "other lines between": mix_two,
    "cell lost": _in_row(lambda cells, at, dice: [*cells[:at], *cells[at + 1 :]]),
    "cell twice": _in_row(lambda cells, at, dice: [*cells[:at], cells[at], *cells[at:]]),
    "cell moved": _in_row(lambda cells, at, dice: [*cells[:at], *cells[at + 1 :], cells[at]]),
    "cell spoilt": _in_row(
        lambda cells, at, dice: [*cells[:at], dice.choice(("N/A", "", "?", "-", "NV", "P", "...", "ERR!", "0")), *cells[at + 1 :]]
    ),
    "cells glued": _in_row(lambda cells, at, dice: [*cells[:at], "".join(c.strip() for c in cells[at : at + 2]), *cells[at + 2 :]]),
    "row glued": _in_row(lambda cells, at, dice: ["".join(cell.strip() for cell in cells)]),
    "tab lost": _in_row(lambda cells, at, dice: [*cells[:at], " ".join(cells[at : at + 2]), *cells[at + 2 :]]),
}
KEEPS_VALUES = (cut, lose_rows, mix_two)
"""Damages after which a value that is there stands where it stood; elsewhere a number may be taken for one of another column."""

THEN: dict[str, Callable[[str], str]] = {
    "": lambda text: text,
    ", spaces": expand,
    ", single spaces": collapse,
    ", prefixed": prefix("node1: "),
    ", wrapped": wrap(100),
    ", lower case": lambda text: text.lower(),
}


@FEWER
@pytest.mark.parametrize("damage", LOSSY.values(), ids=LOSSY.keys())
@given(machine=machines(), then=st.sampled_from(sorted(THEN)), seed=st.integers(0, 2**32))
def test_what_loses_something_never_makes_a_wrong_link(
    damage: Callable[[str, random.Random], str], then: str, machine: Machine, seed: int
) -> None:
    """What is read is true; what is lost is unknown, and a warning or an error says so."""
    try:
        read = read_text(THEN[then](damage(machine.text(), random.Random(seed))))
    except TopologyError:
        return
    if damage is lose_column and (read.warnings or len(read.gpus) + len(read.nics) < len(machine.devices)):
        return  # a machine with a column less is another machine, told by the X of the rows
    assert wrong(machine, read) == {}
    if damage in KEEPS_VALUES and then != ", prefixed":  # a line end after the cut hides it
        assert wrong_values(machine, read) == []
    assert read.warnings or (len(read.gpus) == machine.gpus and dict(read.links) == machine.links)


def test_a_header_in_another_order_than_the_rows_makes_no_wrong_link() -> None:
    """The X of the rows say where the columns are; where a row is missing nobody can tell, and the columns are not used."""
    text = "GPU0 GPU2 GPU1\nGPU0 X NV4 SYS\nGPU1 NV4 X PIX\nGPU2 SYS PIX X\n"
    read = read_text(text)
    assert dict(read.links) == {(0, 1): "NV4", (0, 2): "SYS", (1, 2): "PIX"}
    assert "order of the header" in " ".join(read.warnings)
    read = read_text("GPU3 " + text.replace("\nGPU0 X", "\nGPU0 PHB X").replace("\nGPU1", "\nGPU1 NODE").replace("\nGPU2", "\nGPU2 NODE"))
    assert set(read.links.items()) <= {((0, 3), "PHB"), ((1, 3), "NODE"), ((2, 3), "NODE")}
    assert "contradicts the header" in " ".join(read.warnings)


@pytest.mark.parametrize("title", ["CPU Affin", "CPU A"])
def test_values_under_a_cut_title_may_be_cut_too(title: str) -> None:
    read = read_text(f"\tGPU0\tGPU1\t{title}\nGPU0\t X \tNV4\t0-31,6\nGPU1\tNV4\t X \t32-63,\n")
    assert [gpu.cpu_affinity for gpu in read.gpus] == [None, None]
    assert "the header ends within 'CPU Affinity'" in " ".join(read.warnings)


def test_a_page_of_html_is_no_matrix_if_it_shows_none() -> None:
    with pytest.raises(TopologyError):
        read_text("<html><td>GPU0</td><br></html>")


@pytest.mark.parametrize("code", ["nvl-4", "C2C_2", "SW+1", "NVLINK18", "Pix"])
@pytest.mark.parametrize("then", [lambda text: text, expand, collapse], ids=["tabs", "spaces", "single spaces"])
def test_a_code_of_another_form_loses_its_cell_only(code: str, then: Callable[[str], str]) -> None:
    """Whatever stands in the first column, the row is known by its label and its X."""
    read = read_text(then(f"\tGPU0\tGPU1\tGPU2\nGPU0\t X \t{code}\tSYS\nGPU1\t{code}\t X \tPIX\nGPU2\tSYS\tPIX\t X \n"))
    assert {pair: found for pair, found in read.links.items() if found != code} == {(0, 2): "SYS", (1, 2): "PIX"}
    assert "rows are missing" not in " ".join(read.warnings)
    assert read.warnings


def lose_several(text: str, dice: random.Random) -> str:
    """Lose the header, and then rows, a column or the order of the rows."""
    rows = [line.split("\t") for line in text.split("\n\n")[0].split("\n") if line][1:]
    for damage in dice.sample(("rows", "end", "twice", "right", "order", "cell"), 2):
        if damage == "rows":
            rows = [row for row in rows if dice.random() < 0.6] or rows[-1:]
        elif damage == "end":
            rows = rows[: dice.randrange(1, len(rows) + 1)]
        elif damage == "twice":
            rows.insert(0, dice.choice(rows))
        elif damage == "right":
            width = dice.randrange(2, max(map(len, rows)) + 1)
            rows = [row[:width] for row in rows]
        elif damage == "order":
            dice.shuffle(rows)
        else:
            row = dice.choice(rows)
            del row[dice.randrange(1, len(row))]
    return "\n".join("\t".join(row) for row in rows) + "\n"


@given(machine=machines(), then=st.sampled_from(sorted(THEN)), seed=st.integers(0, 2**32))
def test_rows_without_a_header_prove_their_columns_or_are_not_used(machine: Machine, then: str, seed: int) -> None:
    try:
        read = read_text(THEN[then](lose_several(machine.text(), random.Random(seed))))
    except TopologyError:
        return
    assert wrong(machine, read) == {}
    assert read.warnings


@pytest.mark.parametrize("kept", [(0, 3), (3,), (0, 2), (1, 2, 3), (0, 1), (2, 0)])
@pytest.mark.parametrize("nics", [0, 2])
def test_rows_that_a_search_found_keep_their_columns(kept: tuple[int, ...], nics: int) -> None:
    """GPUs 0 and 1, and 2 and 3 have NVLink; a search for some rows loses the header and the other rows."""
    rows = {g: ["SYS"] * 4 + ["PIX"] * nics for g in range(4)}
    for g, row in rows.items():
        row[g], row[g ^ 1] = " X ", "NV4"
    text = "".join("\t".join((f"GPU{g}", *rows[g])) + "\n" for g in kept)
    read = read_text(text)
    truth = {(i, j): "NV4" if j == i ^ 1 else "SYS" for i in range(4) for j in range(i + 1, 4)}
    known = max(kept) + 1
    assert dict(read.links) == {
        (i, j): code for (i, j), code in truth.items() if j < known and (i in kept or j in kept)
    }
    assert read.links_complete is (len(kept) == 3 and nics == 0)
    assert len(read.gpus) == (4 if 2 in kept or 3 in kept else 2)


def test_an_x_elsewhere_than_the_number_of_its_row_proves_no_column() -> None:
    for second in ("GPU2\tNV4\tSYS\t X \tSYS\n", "GPU2\tNV4\t X \tSYS\tSYS\n"):
        read = read_text("GPU1\t X \tNV4\tSYS\tSYS\n" + second)
        assert dict(read.links) == {}
        assert "nobody can tell the columns" in " ".join(read.warnings)


@pytest.mark.parametrize("gpus", [2, 8, 12])
@pytest.mark.parametrize("nic", ["NIC0", "mlx5_0"])
def test_lower_case_without_tabs_reads_like_upper_case_without_tabs(gpus: int, nic: str) -> None:
    rows = [["", *(f"GPU{g}" for g in range(gpus)), nic, "CPU Affinity"]]
    for g in range(gpus):
        codes = [" X " if g == other else "NV3" for other in range(gpus)]
        rows.append([f"GPU{g}", *codes, "NODE", "0-31"])
    rows.append([nic, *["NODE"] * gpus, " X "])
    glued = "\n".join("".join(row) for row in rows) + "\n"
    upper, lower = read_text(glued), read_text(glued.lower())
    assert len(upper.gpus) == len(lower.gpus) == gpus
    assert dict(upper.links) == dict(lower.links)
    assert set(upper.links.values()) == {"NV3"}
    assert upper.gpu_nic == lower.gpu_nic
    assert lower.links_complete


def test_a_lost_comma_glues_two_cells_only() -> None:
    read = read_text(",GPU0,GPU1,GPU2,CPU Affinity\nGPU0, X ,NV8,SYS,0-31\nGPU1NV8, X ,PIX,0-31\nGPU2,SYSPIX, X ,32-63\n")
    assert dict(read.links) == {(0, 1): "NV8", (0, 2): "SYS", (1, 2): "PIX"}
    assert [gpu.cpu_affinity for gpu in read.gpus] == ["0-31", "0-31", "32-63"]
    assert "between commas" in " ".join(read.warnings)


def test_a_list_of_cpus_without_quotes_between_commas_is_unknown() -> None:
    read = read_text(",GPU0,GPU1,CPU Affinity,NUMA Affinity\nGPU0,X,SYS,0-31,64-95,\nGPU1,SYS,X,32-63,1\n")
    assert [(gpu.cpu_affinity, gpu.numa) for gpu in read.gpus] == [(None, None), ("32-63", "1")]
    assert "lists of CPUs have commas" in " ".join(read.warnings)


@pytest.mark.parametrize(
    "rows",
    [
        "PU0 X NV4 SYS\nPU1 SYS NV4 X\nPU2 SYS PIX X\n",
        "PU0 X NV4 SYS\nPU1 NV4 SYS\nPU2 SYS PIX X\n",
        "PU0 X NV4 SYS\nU1 NV4 X SYS\nPU2 SYS PIX X\n",
    ],
    ids=["two rows with one X", "no X", "different cuts"],
)
def test_cut_labels_that_the_x_do_not_vouch_for_are_refused(rows: str) -> None:
    with pytest.raises(TopologyError, match="labels of the rows are cut at the left"):
        read_text("    GPU0 GPU1 GPU2\n" + rows)


@pytest.mark.parametrize("pattern", ["GPU{}", "NIC{}", "mlx5_{}"])
@pytest.mark.parametrize("lost", [1, 2])
def test_a_label_that_a_narrow_screen_cut_to_an_earlier_one_is_known_from_the_one_before(pattern: str, lost: int) -> None:
    """A screen that ends within ``GPU11`` shows ``GPU1`` a second time."""
    gpus = 12 if pattern == "GPU{}" else 1
    devices = [f"GPU{g}" for g in range(gpus)] + ([] if gpus > 1 else [pattern.format(k) for k in range(12)])
    last = 9 + lost if gpus > 1 else 10 + lost
    lines = ["\t" + "\t".join(devices)]
    for i, name in enumerate(devices):
        cells = [" X " if i == j else f"NV{1 + (i + j) % 8}" for j in range(len(devices))]
        lines.append("\t".join((name, *cells)))
    width = 8 * last + 8 + len(devices[last]) - 1
    read = read_text("\n".join(line.expandtabs(8)[:width] for line in lines) + "\n")
    truth = {(i, j): f"NV{1 + (i + j) % 8}" for i in range(gpus) for j in range(i + 1, gpus)}
    assert dict(read.links) == truth
    assert [*read.gpu_nic.get(0, {})] == devices[gpus : last + 1]
    assert f"{devices[last][:-1]} is the beginning of {devices[last]}" in " ".join(read.warnings)


def test_a_header_that_names_a_device_twice_is_refused() -> None:
    for names in ("GPU0 GPU1 GPU1", "GPU0 GPU0 GPU1", "GPU0 GPU1 GPU2 GPU1"):
        count = len(names.split())
        with pytest.raises(TopologyError, match="twice"):
            read_text(f"{names}\n" + "".join(f"GPU{g} {'SYS ' * g}X {'SYS ' * (count - g - 1)}\n" for g in range(2)))


def test_a_code_that_a_narrow_screen_cuts_is_unknown_where_the_header_is_cut_too() -> None:
    """The last column shows ``NV1`` of ``NV12``, under a header that ends within the label."""
    lines = ["\tGPU0\tGPU1\tGPU2\tGPU3"]
    lines += ["\t".join((f"GPU{g}", *(" X " if g == other else "NV12" for other in range(4)))) for g in range(4)]
    read = read_text("\n".join(line.expandtabs(8)[:27] for line in lines) + "\n")
    assert set(read.links.values()) == {"NV12"}
    assert (2, 3) not in read.links
