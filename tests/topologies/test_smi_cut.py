"""Affinity of a matrix that is cut or has cells of another row: unknown rather than a part of the truth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.read import read_text

LISTS = st.lists(st.integers(0, 255), min_size=2, max_size=4, unique=True).map(lambda cpus: ",".join(map(str, sorted(cpus))))


def matrix(affinities: list[str]) -> str:
    """Return a matrix of GPUs between sockets, with *affinities* and the NUMA node of each."""
    names = [f"GPU{k}" for k in range(len(affinities))]
    rows = ["\t" + "\t".join([*names, "CPU Affinity", "NUMA Affinity"])]
    for k, cpus in enumerate(affinities):
        rows.append("\t".join([names[k], *(" X " if j == k else "SYS" for j in range(len(names))), cpus, str(k)]))
    return "\n".join(rows) + "\n"


@given(st.lists(LISTS, min_size=2, max_size=4), st.data())
def test_a_list_of_cpus_at_the_end_of_a_cut_text_is_no_fact(affinities: list[str], data: st.DataObject) -> None:
    """Other rows have a NUMA node behind it, so the text was cut, and nobody knows how much of the list is left."""
    text = matrix(affinities)
    begin = text.rindex("SYS\t") + 4
    whole = text[begin:].partition("\t")[0]
    left = data.draw(st.integers(1, len(whole) - 1))
    topology = read_text(text[: begin + left])
    found = topology.gpus[-1].cpu_affinity
    assert found is None or found in affinities[:-1]
    assert topology.gpus[-1].numa is None
    assert [gpu.cpu_affinity for gpu in topology.gpus[:-1]] == affinities[:-1]
    assert topology.warnings


@pytest.mark.parametrize("more", [1, 2])
def test_a_row_with_cells_of_another_gives_no_affinity(more: int) -> None:
    text = matrix(["0-31", "32-63", "64-95"])
    row = text.splitlines()[2]
    broken = row.replace("\t32-63", "\tSYS" * more + "\t64-95")
    topology = read_text(text.replace(row, broken))
    assert (topology.gpus[1].cpu_affinity, topology.gpus[0].cpu_affinity) == (None, "0-31")
    assert any("too many" in warning for warning in topology.warnings)


DRIVER = (
    "        GPU0    GPU1    CPU Affinity    NUMA Affinity\n"
    "GPU0     X      NV1     0-19,40-59      0\n"
    "GPU1    NV1      X      20-39,60-79     1\n"
)


@pytest.mark.parametrize("column", range(24, 44))
def test_lines_cut_within_the_affinity_give_no_part_of_a_list(column: int) -> None:
    """A title that is cut to its first word looks like one that somebody typed."""
    topology = read_text("".join(f"{line[:column]}\n" for line in DRIVER.splitlines()))
    whole = ("0-19,40-59", "20-39,60-79")
    if column > 35:    # the title is whole; where a list ends nobody can tell
        assert all(gpu.cpu_affinity in (None, value, value[: column - 24]) for gpu, value in zip(topology.gpus, whole, strict=True))
    else:
        assert all(gpu.cpu_affinity in (None, value) for gpu, value in zip(topology.gpus, whole, strict=True))
    assert topology.links == {(0, 1): "NV1"}


def driver_matrix(count: int, lists: tuple[str, str]) -> list[str]:
    """Return the lines of a matrix whose GPUs are near the first or the second of *lists*, tabs expanded."""
    names = [f"GPU{k}" for k in range(count)]
    rows = [["", *names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]]
    rows += [
        [name, *(" X " if j == k else "NV18" for j in range(count)), lists[k * 2 // count], str(k * 2 // count), "", "N/A"]
        for k, name in enumerate(names)
    ]
    return ["\t".join(row).expandtabs(8) for row in rows]


@pytest.mark.parametrize(
    "lists", [("0-31,64-95",) * 2, ("0-111",) * 2, ("0-47,96-143", "48-95,144-191"), ("0-7", "8-15"), ("0", "1")], ids=str
)
@pytest.mark.parametrize("column", range(41, 66))
@pytest.mark.parametrize("is_stripped", [True, False])
def test_lines_cut_at_a_window_give_no_part_of_a_list(lists: tuple[str, str], column: int, is_stripped: bool) -> None:
    """A cut header ends with ``CPU``, and, where the blanks at its end were stripped, rows end one column further."""
    cut = [line[:column].rstrip() if is_stripped else line[:column] for line in driver_matrix(4, lists)]
    topology = read_text("\n".join(cut) + "\n")
    assert all(gpu.cpu_affinity in (None, lists[k // 2]) for k, gpu in enumerate(topology.gpus))
    assert topology.warnings or column > 51    # where the title is whole
    assert set(topology.links.values()) == {"NV18"}


def test_a_blank_behind_the_first_word_of_a_title_shows_that_lines_are_cut() -> None:
    text = "\tGPU0\tGPU1\tNIC0\tCPU \nGPU0\t X \tPIX\tSYS\t0-2\nGPU1\tPIX\t X \tSYS\t0-2\n"
    topology = read_text(text)
    assert [gpu.cpu_affinity for gpu in topology.gpus] == [None, None]
    assert topology.warnings


def test_beside_a_list_that_is_cut_another_one_at_the_end_of_its_line_may_be_cut_too() -> None:
    text = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSYS\t0-31\nGPU1\tSYS\t X \t32-\n"
    topology = read_text(text)
    assert [gpu.cpu_affinity for gpu in topology.gpus] == [None, None]
    assert [gpu.cpu_affinity for gpu in read_text(text.removesuffix("\n")).gpus] == ["0-31", None]    # only the text ends there


@pytest.mark.parametrize("broken", ["20-3", "32-", "0-7,", "1-2-3"])
def test_what_is_no_list_of_cpus_is_no_fact(broken: str) -> None:
    topology = read_text(matrix(["0-31", broken]))
    assert [gpu.cpu_affinity for gpu in topology.gpus] == ["0-31", None]
    assert topology.warnings


def test_a_whole_last_row_with_a_blank_list_is_whole() -> None:
    text = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \tNV4\t0-15\t0\t\tN/A\nGPU1\tNV4\t X \t\t1\t\tN/A"
    topology = read_text(text)
    assert topology.warnings == ()
    assert [(gpu.cpu_affinity, gpu.numa, gpu.gpu_numa_id) for gpu in topology.gpus] == [("0-15", "0", "N/A"), (None, "1", "N/A")]
