"""
Layouts of matrices that a driver prints in virtual machines, and that people type.

When to modify: a matrix is laid out in another way.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.errors import TopologyError
from topologies.model import Topology
from topologies.read import read_text

FEWER = settings(max_examples=max(1, settings().max_examples // 4))

TITLES = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")


def affinities(topology: Topology) -> list[tuple[str | None, str | None, str | None]]:
    return [(gpu.cpu_affinity, gpu.numa, gpu.gpu_numa_id) for gpu in topology.gpus]


def table(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join("\t".join(cells) for cells in (header, *rows)) + "\n"


def matrix(tails: list[str], titles: tuple[str, ...]) -> str:
    """Return what a driver prints of GPUs whose rows end in *tails*."""
    labels = [f"GPU{index}" for index in range(len(tails))]
    links = [[" X " if i == j else "PHB" for j in range(len(tails))] for i in range(len(tails))]
    rows = [[label, *cells, tail] for label, cells, tail in zip(labels, links, tails, strict=True)]
    return table(["", *labels, *titles], rows)


@given(
    st.lists(st.tuples(st.sampled_from(["0-7", "0-251", "8", "0-15,32-47"]), st.sampled_from(["N/A", "0", "3", "0-1"])), min_size=1),
    st.integers(2, 3),
    st.data(),
)
def test_tabs_more_than_titles_move_no_value(values: list[tuple[str, str]], columns: int, data: st.DataObject) -> None:
    """In virtual machines the driver prints a tab more before NUMA Affinity, also in some rows only."""
    tails = []
    for cpus, numa in values:
        gap = "\t\t" if data.draw(st.booleans()) else "\t"
        tails.append(f"{cpus}{gap}{numa}" + "\t\tN/A" * (columns - 2))
    read = read_text(matrix(tails, TITLES[:columns]))
    assert affinities(read) == [(cpus, numa, "N/A" if columns > 2 else None) for cpus, numa in values]
    assert not read.warnings


@pytest.mark.parametrize("tail", ["\t\tN/A\t\tN/A", "0-7\t\t\tN/A", "0-7\t\tN/A\t\t?", "0-7\t\tN/A\t\tN/A\tN/A"])
def test_a_blank_value_is_not_filled_with_that_of_the_next_column(tail: str) -> None:
    for numa in (gpu[1] for gpu in affinities(read_text(matrix([tail, tail], TITLES)))):
        assert numa is None or tail.startswith("0-7\t\tN/A\t\t?")


def test_two_blank_fields_under_two_titles_are_a_blank_value() -> None:
    """The title of the last column may be lost."""
    assert {gpu[1] for gpu in affinities(read_text(matrix(["0-7\t\t\tN/A"] * 2, TITLES[:2])))} == {None}


Machine = tuple[list[str], dict[tuple[int, int], str]]

CODES = ("NV4", "NV12", "PIX", "PXB", "PHB", "NODE", "SYS")


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Return the devices of a machine, GPUs before NICs, and the code of each pair."""
    gpus, nics = draw(st.integers(2, 8)), draw(st.integers(0, 3))
    name = draw(st.sampled_from(["NIC{}", "mlx5_{}"]))
    devices = [*(f"GPU{k}" for k in range(gpus)), *(name.format(k) for k in range(nics))]
    pairs = [(i, j) for i in range(len(devices)) for j in range(i + 1, len(devices))]
    return devices, {pair: draw(st.sampled_from(CODES if pair[1] < gpus else CODES[2:])) for pair in pairs}


def rows_of(devices: list[str], links: dict[tuple[int, int], str], mark: str) -> list[list[str]]:
    every = range(len(devices))
    return [[devices[i], *(mark if i == j else links[min(i, j), max(i, j)] for j in every)] for i in every]


def bars(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows)) + "\n"


def tight_bars(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"|{'|'.join(cells)}|" for cells in (header, [":-:"] * len(header), *rows)) + "\n"


def bold(header: list[str], rows: list[list[str]], mark: str = "**") -> str:
    return bars([f"{mark}{cell}{mark}" if cell else "" for cell in header], [[f"{mark}{row[0]}{mark}", *row[1:]] for row in rows])


def ticked(header: list[str], rows: list[list[str]]) -> str:
    return bold(header, rows, "`")


def box(header: list[str], rows: list[list[str]]) -> str:
    width = max(len(cell) for cells in (header, *rows) for cell in cells) + 2
    lines = [f"│{'│'.join(cell.center(width) for cell in cells)}│" for cells in (header, *rows)]
    return f"\n├{'┼'.join(['─' * width] * len(header))}┤\n".join(lines) + "\n"


def wiki(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join([f"|| {' || '.join(header)} ||", *(f"| {' | '.join(cells)} |" for cells in rows)]) + "\n"


def aligned(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join("".join(cell.ljust(20) for cell in cells).rstrip() for cells in (header, *rows)) + "\n"


def commas(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join(",".join(cells) for cells in (header, *rows)) + "\n"


def stated(devices: list[str], links: dict[tuple[int, int], str]) -> tuple[dict[tuple[int, int], str], dict[int, dict[str, str]]]:
    """Return what a topology states of *links*: those of pairs of GPUs, and those of GPUs and NICs."""
    gpus = sum(name.startswith("GPU") for name in devices)
    to_nics = {i: {devices[j]: links[i, j] for j in range(gpus, len(devices))} for i in range(gpus)}
    return {pair: code for pair, code in links.items() if pair[1] < gpus}, {i: of for i, of in to_nics.items() if of}


@pytest.mark.parametrize("form", [bars, tight_bars, bold, ticked, box, wiki, aligned, table, commas])
@FEWER
@given(machines(), st.sampled_from(["X", "-", "—", "–", "Self", "self", "\\", "*", ".", "N/A", "--", ""]))
def test_the_labels_tell_the_diagonal(form: Callable[..., str], machine: Machine, mark: str) -> None:
    """Whatever people write on the diagonal, no pair is lost, and no row missing."""
    devices, links = machine
    read = read_text(form(["", *devices], rows_of(devices, links, mark)))
    assert (dict(read.links), {i: dict(of) for i, of in read.gpu_nic.items()}) == stated(devices, links)
    assert not read.rows_missing
    assert [w for w in read.warnings if "between commas" not in w and "narrower" not in w] == []


@pytest.mark.parametrize("form", [bars, aligned, table])
@FEWER
@given(machines(), st.sampled_from(["-", "—", ""]), st.data())
def test_a_row_that_lost_its_cell_on_the_diagonal_makes_no_wrong_link(
    form: Callable[..., str], machine: Machine, mark: str, data: st.DataObject
) -> None:
    devices, links = machine
    rows = rows_of(devices, links, mark)
    row = data.draw(st.integers(0, len(rows) - 1))
    del rows[row][1 + row]
    try:
        read = read_text(form(["", *devices], rows))
    except TopologyError:
        return
    expected = stated(devices, links)[0]
    assert set(read.links.items()) <= set(expected.items())


@pytest.mark.parametrize("form", [bars, bold, box, table])
@pytest.mark.parametrize("beside", [" (RTX 3090)", " [H100 PCIe]", " (A)"])
@FEWER
@given(machines())
def test_what_stands_beside_a_label_is_named_and_no_row_is_lost(form: Callable[..., str], beside: str, machine: Machine) -> None:
    devices, links = machine
    rows = [[row[0] + beside, *row[1:]] for row in rows_of(devices, links, "X")]
    read = read_text(form(["", *devices], rows))
    assert (dict(read.links), {i: dict(of) for i, of in read.gpu_nic.items()}) == stated(devices, links)
    assert [beside.strip(" ()[]") in warning for warning in read.warnings if "narrower" not in warning] == [True]


@pytest.mark.parametrize(
    "text",
    [
        "GPU0 <-> GPU1: NV4\nGPU0 <-> GPU2: SYS\nGPU1 <-> GPU2: SYS\n",
        "| GPU Pair | Link |\n|---|---|\n| GPU0-GPU1 | NV4 |\n| GPU0-GPU2 | SYS |\n",
    ],
)
def test_lists_of_pairs_are_no_matrix(text: str) -> None:
    with pytest.raises(TopologyError):
        read_text(text)


SOME_VALUES = st.tuples(st.sampled_from(["0-7", "0-15,32-47", "16-31", "0-31,64-95,128-159"]), st.sampled_from(["0", "1", "N/A"]))


def with_values(
    form: Callable[..., str], machine: Machine, titles: tuple[str, ...], values: list[tuple[str, ...]]
) -> str:
    devices, links = machine
    gpus = sum(name.startswith("GPU") for name in devices)
    blank = ("",) * len(titles)
    rows = [[*row, *(values[k % len(values)] if k < gpus else blank)] for k, row in enumerate(rows_of(devices, links, "X"))]
    return form(["", *devices, *titles], rows)


@pytest.mark.parametrize("form", [bars, tight_bars, bold, box, aligned, table])
@pytest.mark.parametrize("titles", [("CPU Affinity", "NUMA"), ("CPU", "NUMA Affinity"), ("CPU", "NUMA"), ("CPUs", "NUMA Node")])
@pytest.mark.parametrize("is_turned", [False, True])
@FEWER
@given(machines(), st.lists(SOME_VALUES, min_size=1, max_size=4))
def test_a_title_of_one_word_is_that_of_its_column(
    form: Callable[..., str], titles: tuple[str, ...], is_turned: bool, machine: Machine, values: list[tuple[str, ...]]
) -> None:
    gpus = sum(name.startswith("GPU") for name in machine[0])
    turn = slice(None, None, -1 if is_turned else 1)
    values = [("0-7", "0"), *values]
    read = read_text(with_values(form, machine, titles[turn], [value[turn] for value in values]))
    assert [(gpu.cpu_affinity, gpu.numa) for gpu in read.gpus] == [values[k % len(values)] for k in range(gpus)]
    assert [w for w in read.warnings if "narrower" not in w] == []


@pytest.mark.parametrize("form", [bars, aligned, table])
def test_a_column_of_sockets_is_no_list_of_cpus(form: Callable[..., str]) -> None:
    read = read_text(with_values(form, (["GPU0", "GPU1"], {(0, 1): "NV4"}), ("CPU", "NUMA Affinity"), [("0", "0"), ("1", "1")]))
    assert affinities(read) == [(None, "0", None), (None, "1", None)]
    assert read.extra_columns == ("CPU",)


@pytest.mark.parametrize("cpus", ["0-31,64-95", "0-7", "0-3,8-11,16-19"])
@pytest.mark.parametrize("title", ["NUMA", "NUMA Aff", "NUMA Affinity\tGPU"])
def test_a_narrow_screen_that_ends_in_a_title_is_told(cpus: str, title: str) -> None:
    """The values are whole where the row ends before the title does; otherwise nobody knows them."""
    header = f"\tGPU0\tGPU1\tCPU Affinity\t{title}".expandtabs()
    rows = [f"GPU{k}\t{cells}\t{cpus}\t{k}\t\tN/A".expandtabs() for k, cells in enumerate((" X \tNV4", "NV4\t X "))]
    read = read_text("\n".join(row[: len(header)].rstrip() for row in (header, *rows)) + "\n")
    assert [gpu.numa for gpu in read.gpus] in (["0", "1"], [None, None])
    assert any("lines are cut there" in w or "columns after it" in w or "affinity" in w or "GPU" in w for w in read.warnings)


@pytest.mark.parametrize("form", [bars, tight_bars, bold, box, table])
@pytest.mark.parametrize("is_lower", [False, True])
@FEWER
@given(machines(), st.sampled_from(["X", "-", "—", "Self", ""]), st.sampled_from(["", "-", "—"]))
def test_half_a_matrix_is_all_of_it(
    form: Callable[..., str], is_lower: bool, machine: Machine, mark: str, blank: str
) -> None:
    devices, links = machine
    rows = rows_of(devices, links, mark)
    for i, row in enumerate(rows):
        for j in range(i + 1, len(devices)) if is_lower else range(i):
            row[1 + j] = blank
    read = read_text(form(["", *devices], rows))
    assert (dict(read.links), {i: dict(of) for i, of in read.gpu_nic.items()}) == stated(devices, links)
    assert [w for w in read.warnings if "narrower" not in w] == []


@given(st.integers(2, 8), st.sampled_from(["-", "—"]))
def test_a_mark_that_also_stands_where_no_link_is_makes_no_row_missing(pairs: int, mark: str) -> None:
    devices = [f"GPU{k}" for k in range(2 * pairs)]
    rows = [[name, *("NV4" if k ^ 1 == j else mark for j in range(len(devices)))] for k, name in enumerate(devices)]
    read = read_text(bars(["", *devices], rows))
    assert dict(read.links) == {(k, k + 1): "NV4" for k in range(0, len(devices), 2)}
    assert not read.rows_missing
    assert any("links are unknown" in warning for warning in read.warnings)


@pytest.mark.parametrize("form", [bars, tight_bars, box, table, aligned])
@FEWER
@given(machines(), st.sampled_from(["X", "-", "—"]))
def test_labels_may_have_a_blank_before_their_number(form: Callable[..., str], machine: Machine, mark: str) -> None:
    devices, links = machine
    named = [name.replace("GPU", "GPU ").replace("NIC", "NIC ") for name in devices]
    read = read_text(form(["", *named], rows_of(named, links, mark)))
    assert (dict(read.links), {i: dict(of) for i, of in read.gpu_nic.items()}) == stated(devices, links)


@pytest.mark.parametrize("tail", ["0-7\t\tN/A", "0-7\t\tN/", "0-7\t\t"])
def test_a_value_at_the_cut_end_of_a_virtual_machine_is_of_no_later_column(tail: str) -> None:
    text = matrix(["0-7\t\tN/A\t\tN/A", tail], TITLES).removesuffix("\n")
    read = read_text(text)
    assert affinities(read)[0] == ("0-7", "N/A", "N/A")
    assert affinities(read)[1][2] is None
    assert read.warnings


@FEWER
@given(machines())
def test_a_code_in_brackets_is_no_name(machine: Machine) -> None:
    devices, links = machine
    rows = [[row[0], *(f"[{code}]" if code.startswith("NV") else code for code in row[1:])] for row in rows_of(devices, links, "X")]
    read = read_text(aligned(["", *devices], rows))
    assert (dict(read.links), {i: dict(of) for i, of in read.gpu_nic.items()}) == stated(devices, links)
    assert not any("beside" in warning for warning in read.warnings)
