"""
Reading damaged matrices: random machines, printed as the driver prints them, damaged mechanically, read back.

A damage that loses nothing must read the same links; one that loses something may leave links unknown and must say so.
No damage may make a wrong link.
"""

from __future__ import annotations

import codecs
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.errors import TopologyError
from topologies.model import Topology
from topologies.read import read_bytes, read_text

CODES = ("NV1", "NV2", "NV4", "NV12", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS")
LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


@dataclass(frozen=True)
class Machine:
    """
    The truth about a machine.

    *codes* has a code for every pair of devices (GPUs first, then NICs), *values* the affinity cells of each GPU, as many as
    there are columns.
    """

    gpus: int
    nics: tuple[str, ...]
    codes: dict[tuple[int, int], str]
    values: tuple[tuple[str, ...], ...]
    legend: bool

    @property
    def devices(self) -> tuple[str, ...]:
        return (*(f"GPU{g}" for g in range(self.gpus)), *self.nics)

    @property
    def links(self) -> dict[tuple[int, int], str]:
        return {pair: code for pair, code in self.codes.items() if pair[1] < self.gpus}

    @property
    def gpu_nic(self) -> dict[int, dict[str, str]]:
        return {
            g: {nic: self.codes[g, self.gpus + k] for k, nic in enumerate(self.nics)}
            for g in range(self.gpus)
            if self.nics
        }

    def text(self) -> str:
        """Return what the driver prints."""
        titles = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")[: len(self.values[0])]
        lines = ["\t" + "\t".join((*self.devices, *titles))]
        for i, device in enumerate(self.devices):
            cells = [" X " if i == j else self.codes[min(i, j), max(i, j)] for j in range(len(self.devices))]
            if i < self.gpus:
                values = list(self.values[i])
                cells += [*values[:2], "", *values[2:]] if len(values) == 3 else values
            lines.append("\t".join((device, *cells)))
        text = "\n".join(lines) + "\n" + (LEGEND if self.legend else "")
        if self.legend and self.nics and self.nics[0].startswith("NIC"):
            text += "\nNIC Legend:\n\n" + "".join(f"  {nic}: mlx5_{k}\n" for k, nic in enumerate(self.nics))
        return text


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    gpus = draw(st.integers(1, 12))
    count = draw(st.sampled_from((0, 0, 1, 2, 5, 12)))
    pattern = draw(st.sampled_from(("NIC{}", "mlx5_{}", "mlx5_bond_{}")))
    nics = tuple(pattern.format(k) for k in range(count))
    menu = draw(st.lists(st.sampled_from(CODES), min_size=1, max_size=4, unique=True))
    size = gpus + count
    codes = {(i, j): draw(st.sampled_from(menu)) for i in range(size) for j in range(i + 1, size)}
    columns = draw(st.integers(0, 3))
    cpus = st.sampled_from(("0-31,64-95", "32-63,96-127", "0", "8-15", ""))
    numa = st.sampled_from(("0", "1", "0-1", "N/A", ""))
    ids = st.sampled_from(("N/A", "4"))
    values = tuple(tuple(draw(s) for s in (cpus, numa, ids)[:columns]) for _ in range(gpus))
    return Machine(gpus, nics, codes, values, draw(st.booleans()))


def expand(text: str) -> str:
    """Turn tabs into spaces, as terminals do."""
    return "\n".join(line.expandtabs(8) for line in text.split("\n"))


def collapse(text: str) -> str:
    """Leave one space between words."""
    return re.sub(r"[ \t]+", " ", re.sub(r"^[ \t]+", "", text, flags=re.MULTILINE))


def prefix(word: str) -> Callable[[str], str]:
    """Put *word* before every line."""
    return lambda text: "".join(word + line + "\n" for line in text.rstrip("\n").split("\n"))


def count_lines(text: str) -> str:
    """Put a time that goes on before every line."""
    return "".join(
        f"[11:{n // 60:02}:{n % 60:02}] {line}\n" for n, line in enumerate(text.rstrip("\n").split("\n"))
    )


def wrap(width: int) -> Callable[[str], str]:
    """Break lines as a terminal of *width* columns does, tabs expanded."""

    def damage(text: str) -> str:
        lines = []
        for line in expand(text).split("\n"):
            lines += [line[k : k + width] for k in range(0, max(1, len(line)), width)]
        return "\n".join(lines)

    return damage


def one_line(text: str) -> str:
    """Put everything on one line."""
    return " ".join(text.split())


def literal(text: str) -> str:
    """Quote *text* as a C string."""
    return 'const char *s = "' + text.replace("\t", "\\t").replace("\n", "\\n") + '";\n'


def literal_lines(text: str) -> str:
    """Quote *text* as one Python string a line."""
    return "".join("    '" + line.replace("\t", "\\t") + "\\n'\n" for line in text.split("\n"))


def markdown(text: str) -> str:
    """Make a Markdown table of the matrix."""
    rows = [line.split("\t") for line in text.split("\n") if "\t" in line]
    width = len(rows[0])
    lines = [
        "| " + " | ".join(cell.strip() for cell in (row + [""] * width)[: max(width, len(row))]) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "---|" * width)
    return "\n".join(lines) + "\n"


def underline(text: str) -> str:
    """Underline the header, as the driver does on a terminal."""
    header, _, rest = text.partition("\n")
    return "\t\x1b[4m" + header[1:] + "\x1b[0m\n" + rest


def strip_lines(text: str) -> str:
    """Take blanks off both ends of all lines."""
    return "\n".join(line.strip() for line in text.split("\n"))


def twice(text: str) -> str:
    """Paste it twice."""
    return "$ nvidia-smi topo -m\n" + text + "\n$ nvidia-smi topo -m\n" + text


def trim_right(text: str) -> str:
    """Take blanks off the end of all lines, as copying does."""
    return "\n".join(line.rstrip() for line in text.split("\n"))


def lose_header(text: str) -> str:
    return text.partition("\n")[2]


def glue_header(text: str) -> str:
    header, _, rest = text.partition("\n")
    return "\t" + header.replace("\t", "") + "\n" + rest


def glue_labels(text: str) -> str:
    """Lose the tab after every row label."""
    return re.sub(r"^(GPU\d+|NIC\d+|mlx5_\w*\d)\t ?(?=[A-Z])", r"\1", text, flags=re.MULTILINE)


LOSSLESS: dict[str, Callable[[str], str | bytes]] = {
    "as printed": lambda text: text,
    "tabs to spaces": expand,
    "single spaces": collapse,
    "srun prefix": prefix("0: "),
    "compose prefix": prefix("gpu-1  | "),
    "mail quote": prefix(">>> "),
    "host prefix, spaces": lambda text: prefix("node0: ")(expand(text)),
    "mpirun prefix": prefix("[1,0]<stdout>:"),
    "container log": prefix("2024-05-01T10:00:00.123Z stdout F "),
    "times that go on": count_lines,
    "indented": prefix("    "),
    "commented with slashes": prefix("// "),
    "commented with hashes": prefix("# "),
    "wrapped at 80": wrap(80),
    "wrapped at 100": wrap(100),
    "wrapped at 79": wrap(79),
    "wrapped and prefixed": lambda text: prefix("0: ")(wrap(80)(text)),
    "one line": one_line,
    "C string": literal,
    "Python strings": literal_lines,
    "Markdown table": markdown,
    "quoted Markdown table": lambda text: prefix("> ")(markdown(text)),
    "underlined": underline,
    "escape byte lost": lambda text: underline(text).replace("\x1b", ""),
    "lines stripped": strip_lines,
    "pasted twice": twice,
    "CR LF": lambda text: text.replace("\n", "\r\n"),
    "no-break spaces": lambda text: expand(text).replace(" ", "\u00a0"),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16 without mark": lambda text: text.encode("utf-16-le"),
    "UTF-16 big-endian": lambda text: text.encode("utf-16-be"),
    "UTF-8 with mark": lambda text: codecs.BOM_UTF8 + text.encode(),
    "header lost": lose_header,
    "header glued": glue_header,
    "labels glued": glue_labels,
    "space before tabs": lambda text: text.replace("\t", " \t"),
    "blank lines between": lambda text: text.replace("\n", "\n\n"),
}


def read_any(text: str | bytes) -> Topology:
    return read_bytes(text, name="text") if isinstance(text, bytes) else read_text(text)


def wrong_links(machine: Machine, read: Topology) -> dict[object, str]:
    """Return what *read* states about links and the machine does not have."""
    wrong: dict[object, str] = {
        pair: code for pair, code in read.links.items() if machine.links.get(pair) != code
    }
    for gpu, codes in read.gpu_nic.items():
        of_gpu = machine.gpu_nic.get(gpu, {})
        wrong |= {(gpu, nic): code for nic, code in codes.items() if of_gpu.get(nic) != code}
    return wrong


FEWER = settings(max_examples=max(1, settings().max_examples // 5))
"""For tests that run for many damages."""


@FEWER
@pytest.mark.parametrize("damage", LOSSLESS.values(), ids=LOSSLESS.keys())
@given(machine=machines())
def test_a_damage_that_loses_nothing_reads_the_same_links(
    damage: Callable[[str], str | bytes], machine: Machine
) -> None:
    """All links, NICs and GPUs come back; an affinity value comes back or is left unknown with a warning."""
    read = read_any(damage(machine.text()))
    assert len(read.gpus) == machine.gpus
    assert dict(read.links) == machine.links
    assert {gpu: dict(codes) for gpu, codes in read.gpu_nic.items()} == machine.gpu_nic
    for gpu, values in zip(read.gpus, machine.values, strict=True):
        stated = (gpu.cpu_affinity, gpu.numa, gpu.gpu_numa_id)
        for was, is_now in zip(values, stated, strict=False):
            assert is_now in (was or None, None)
            assert is_now is not None or not was or read.warnings


@given(machine=machines())
def test_a_clean_text_needs_no_repair(machine: Machine) -> None:
    """Warnings about the text are for damaged texts; that bonds are narrow is a fact of the machine."""
    read = read_text(machine.text())
    assert [warning for warning in read.warnings if "narrower" not in warning] == []
    assert read.links_complete


@FEWER
@given(machine=machines().filter(lambda machine: len(machine.devices) > 1), place=st.integers(1, 99), blanks=st.integers(0, 2))
def test_a_header_that_comes_again_among_the_rows_is_no_damage(machine: Machine, place: int, blanks: int) -> None:
    """The rows before and after it are one matrix; a row that is in neither is missing."""
    header, *lines = machine.text().splitlines(keepends=True)
    count = len(machine.devices)
    place = 1 + place % (count - 1)
    lines.insert(place, "\n" * blanks + header)
    whole, parted = read_text(machine.text()), read_text(header + "".join(lines))
    assert parted.replace(warnings=()) == whole.replace(warnings=())
    assert parted.warnings == whole.warnings
    assert "rows are missing: GPU0" in " ".join(read_text(header + "".join(lines[1:])).warnings)


def test_halves_that_contradict_each_other_are_not_joined() -> None:
    header = "\tGPU0\tGPU1\n"
    with pytest.raises(TopologyError, match="there are 2 matrices, and they differ"):
        read_text(f"{header}GPU0\t X \tNV4\n{header}GPU1\tSYS\t X \n")


@given(machine=machines())
def test_lines_that_were_wrapped_and_trimmed_never_make_a_wrong_link(machine: Machine) -> None:
    for width in (80, 77):
        read = read_text(trim_right(wrap(width)(machine.text())))
        assert wrong_links(machine, read) == {}


def _lines(text: str) -> tuple[list[str], int]:
    lines = text.split("\n")
    return lines, sum("\t" in line for line in lines)


def cut(text: str, dice: random.Random) -> str:
    return text[: dice.randrange(1, len(text))]


def lose_line(text: str, dice: random.Random) -> str:
    lines, count = _lines(text)
    del lines[dice.randrange(count)]
    return "\n".join(lines)


def leave_out_rows(text: str, dice: random.Random) -> str:
    lines, count = _lines(text)
    first = dice.randrange(1, count)
    lines[first : min(count, first + dice.randrange(1, 4))] = [" ... "]
    return "\n".join(lines)


def _change_cell(
    change: Callable[[list[str], int, random.Random], None],
) -> Callable[[str, random.Random], str]:
    def damage(text: str, dice: random.Random) -> str:
        lines, count = _lines(text)
        number = dice.randrange(count)
        cells = lines[number].split("\t")
        change(cells, dice.randrange(len(cells)), dice)
        lines[number] = "\t".join(cells)
        return "\n".join(lines)

    return damage


@_change_cell
def lose_cell(cells: list[str], at: int, dice: random.Random) -> None:
    del cells[at]


@_change_cell
def blank_cell(cells: list[str], at: int, dice: random.Random) -> None:
    cells[at] = ""


@_change_cell
def glue_cells(cells: list[str], at: int, dice: random.Random) -> None:
    cells[at : at + 2] = ["".join(cells[at : at + 2]).replace(" ", "")]


@_change_cell
def lose_tab(cells: list[str], at: int, dice: random.Random) -> None:
    cells[at : at + 2] = [" ".join(cells[at : at + 2])]


@_change_cell
def spoil_cell(cells: list[str], at: int, dice: random.Random) -> None:
    cells[at] = dice.choice(("N", "SY", "NOD", "N/A", "0", "?", "...", ""))


def lose_column(text: str, dice: random.Random) -> str:
    lines, _ = _lines(text)
    width = max(line.count("\t") for line in lines)
    lost = dice.randrange(1, width + 1)
    return "\n".join(
        "\t".join(cell for k, cell in enumerate(line.split("\t")) if k != lost) if "\t" in line else line
        for line in lines
    )


def add_column(text: str, dice: random.Random) -> str:
    lines, count = _lines(text)
    at = dice.randrange(1, len(lines[0].split("\t")) + 1)
    for number in range(count):
        cells = lines[number].split("\t")
        cells.insert(at, "Fabric Id" if number == 0 else dice.choice(("PIX", "SYS", "7")))
        lines[number] = "\t".join(cells)
    return "\n".join(lines)


LOSSY = {
    "cut": cut,
    "line lost": lose_line,
    "rows left out": leave_out_rows,
    "cell lost": lose_cell,
    "cell blank": blank_cell,
    "cells glued": glue_cells,
    "tab lost": lose_tab,
    "cell spoilt": spoil_cell,
    "column lost": lose_column,
    "column nobody has seen": add_column,
}
THEN: dict[str, Callable[[str], str]] = {
    "": lambda text: text,
    ", spaces": expand,
    ", single spaces": collapse,
}


@FEWER
@pytest.mark.parametrize("then", THEN.values(), ids=[name or ", tabs" for name in THEN])
@pytest.mark.parametrize("damage", LOSSY.values(), ids=LOSSY.keys())
@given(machine=machines(), seed=st.integers(0, 2**32))
def test_a_damage_that_loses_something_never_makes_a_wrong_link(
    damage: Callable[[str, random.Random], str], then: Callable[[str], str], machine: Machine, seed: int
) -> None:
    """What is read is true; what is lost is unknown, and a warning or an error says so."""
    try:
        read = read_text(then(damage(machine.text(), random.Random(seed))))
    except TopologyError:
        return
    if damage is lose_column:  # a machine with a column less is another machine, told by the X of the rows
        assert read.warnings or wrong_links(machine, read) == {}
        return
    assert wrong_links(machine, read) == {}
    assert read.warnings or (len(read.gpus) == machine.gpus and dict(read.links) == machine.links)


@given(machine=machines(), other=machines())
def test_two_different_matrices_are_refused_and_either_can_be_picked(
    machine: Machine, other: Machine
) -> None:
    text = machine.text() + "\nafter the change:\n" + other.text()
    if machine.codes == other.codes and machine.nics == other.nics and machine.gpus == other.gpus:
        return
    for pick, truth in ((1, machine), (2, other)):
        assert dict(read_text(text, pick=pick).links) == truth.links
    try:
        read = read_text(text)
    except TopologyError as error:
        assert "#1" in str(error)
        assert "#2" in str(error)
    else:  # the same GPUs with other NICs: nothing contradicts
        assert dict(read.links) == machine.links == other.links


# ── codes that nobody has seen ──────────────────────────────────────────────────────────────────────────────────────────

UNSEEN = ("QQ7", "MXLK", "UB", "C2C")


@st.composite
def machines_with_unseen_codes(draw: st.DrawFn) -> Machine:
    """Draw a machine some of whose links, in any column, have a code that no driver prints today."""
    machine = draw(machines().filter(lambda m: len(m.codes) > 0))
    pairs = draw(st.sets(st.sampled_from(sorted(machine.codes)), min_size=1))
    return replace(machine, codes=machine.codes | {pair: draw(st.sampled_from(UNSEEN)) for pair in sorted(pairs)})


KEEPS_UNSEEN = {
    name: LOSSLESS[name]
    for name in (
        "as printed", "tabs to spaces", "single spaces", "srun prefix", "mail quote", "container log", "C string", "Markdown table",
        "one line", "lines stripped", "pasted twice", "CR LF", "space before tabs", "header glued", "blank lines between",
    )
}  # fmt: skip


@FEWER
@pytest.mark.parametrize("damage", KEEPS_UNSEEN.values(), ids=KEEPS_UNSEEN.keys())
@given(machine=machines_with_unseen_codes())
def test_an_unseen_code_is_a_link_that_is_named_and_its_row_stays(
    damage: Callable[[str], str | bytes], machine: Machine
) -> None:
    """Whatever the column, the first one too: no row is missing, no affinity is lost, and every such code is named."""
    read = read_any(damage(machine.text()))
    assert dict(read.links) == machine.links
    assert {gpu: dict(codes) for gpu, codes in read.gpu_nic.items()} == machine.gpu_nic
    said = " ".join(read.warnings)
    assert "rows are missing" not in said
    shown = {*read.links.values(), *(code for codes in read.gpu_nic.values() for code in codes.values())}
    assert all(code in said for code in shown if code in UNSEEN)
    known = read_any(damage(replace(machine, codes=dict.fromkeys(machine.codes, "SYS")).text()))
    assert [gpu.cpu_affinity for gpu in read.gpus] == [gpu.cpu_affinity for gpu in known.gpus]


@FEWER
@pytest.mark.parametrize("damage", LOSSLESS.values(), ids=LOSSLESS.keys())
@given(machine=machines_with_unseen_codes())
def test_an_unseen_code_never_makes_a_wrong_link(
    damage: Callable[[str], str | bytes], machine: Machine
) -> None:
    """Where nobody can tell what such a code is, it is left unknown and said."""
    try:
        read = read_any(damage(machine.text()))
    except TopologyError:
        return
    assert wrong_links(machine, read) == {}
    assert read.warnings or dict(read.links) == machine.links
