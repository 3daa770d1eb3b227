"""Rows of a query that are printed again and again, and numbers that only look as if they were."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from topologies.errors import TopologyError
from topologies.read import read_text

CARDS = ("NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-32GB", "NVIDIA L40S", "NVIDIA GeForce RTX 4090")


def uuid(index: int) -> str:
    return f"GPU-{index:08x}-77ac-ef63-88a5-b8c4d0c906dc"


def bus_id(index: int) -> str:
    return f"00000000:{index + 7:02X}:00.0"


def round_of(names: list[str], order: list[int], dice: random.Random) -> list[list[str]]:
    """Return rows with an index, a name and numbers without units (use, degrees, MiB), their columns in *order*."""
    rows = []
    for index, name in enumerate(names):
        cells = [str(index), name, dice.choice(("0", "1", "98")), str(dice.choice((29, 30, 31))), str(dice.choice((14, 7820)))]
        rows.append([cells[k] for k in order])
    return rows


def printed(rows: list[list[str]]) -> str:
    return "".join(", ".join(row) + "\n" for row in rows)


@given(names=st.lists(st.sampled_from(CARDS), min_size=3, max_size=9), order=st.permutations(range(5)), seed=st.integers(0, 2**32))
@example(names=[CARDS[0]] * 4, order=[0, 1, 2, 3, 4], seed=1)
def test_numbers_that_rise_and_fall_begin_no_other_table(names: list[str], order: list[int], seed: int) -> None:
    dice = random.Random(seed)
    once = read_text(printed(round_of(names, order, dice)))
    assert [gpu.name for gpu in once.gpus] == names
    again = read_text(printed(round_of(names, order, dice) + round_of(names, order, dice)))
    assert [gpu.name for gpu in again.gpus] == names


@given(degrees=st.lists(st.sampled_from((30, 31, 35)), min_size=3, max_size=8))
def test_a_number_in_front_begins_no_other_table_where_the_bus_ids_differ(degrees: list[int]) -> None:
    rows = [[str(number), CARDS[0], bus_id(k)] for k, number in enumerate(degrees)]
    if degrees == sorted(set(degrees)):
        return    # such a column may be the index
    assert [gpu.pci_bus_id for gpu in read_text(printed(rows)).gpus] == [bus_id(k) for k in range(len(degrees))]


@st.composite
def without_index(draw: st.DrawFn) -> tuple[list[str], list[list[str]]]:
    """
    Draw titles and rows of GPUs that a bus id or a UUID names, with what is in use as the last column.

    One UUID in all rows may also be what somebody wrote for all GPUs, so there are two GPUs at least.
    """
    names = draw(st.lists(st.sampled_from(CARDS), min_size=2, max_size=8))
    titles = draw(st.sampled_from((["name", "pci.bus_id"], ["uuid", "name"], ["pci.bus_id", "uuid", "name"])))
    cells = {"name": names, "uuid": [*map(uuid, range(8))], "pci.bus_id": [*map(bus_id, range(8))]}
    return [*titles, "memory.used [MiB]"], [[cells[title][k] for title in titles] for k in range(len(names))]


def in_use(rows: list[list[str]], mib: int) -> list[list[str]]:
    return [[*row, f"{mib + k} MiB"] for k, row in enumerate(rows)]


@given(machine=without_index(), rounds=st.integers(2, 4), headed=st.booleans(), data=st.data())
def test_a_machine_printed_again_and_again_is_one(
    machine: tuple[list[str], list[list[str]]], rounds: int, headed: bool, data: st.DataObject
) -> None:
    titles, rows = machine
    head = ", ".join(titles) + "\n" if headed else ""
    interrupted = data.draw(st.integers(0, len(rows) - 1))
    lines = [row for mib in range(1, rounds + 1) for row in in_use(rows, 100 * mib)] + in_use(rows, 900)[:interrupted]
    once, again = read_text(head + printed(in_use(rows, 100 * rounds))), read_text(head + printed(lines))
    assert [gpu.replace(memory_used_mib=None) for gpu in again.gpus] == [gpu.replace(memory_used_mib=None) for gpu in once.gpus]
    assert len(once.gpus) == len(rows)
    if headed:
        assert [gpu.memory_used_mib for gpu in again.gpus] == [(900 if k < interrupted else 100 * rounds) + k for k in range(len(rows))]
        assert [warning for warning in again.warnings if "samples of the same GPUs" in warning] == list(again.warnings)


@pytest.mark.parametrize("unreadable", ["GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "GPU-00000000-0000-0000-0000-000000000000"])
@pytest.mark.parametrize("count", [2, 5])
def test_an_unreadable_uuid_begins_no_round(unreadable: str, count: int) -> None:
    assert len(read_text("name, uuid, memory.total [MiB]\n" + f"NVIDIA L4, {unreadable}, 23034 MiB\n" * count).gpus) == count


@pytest.mark.parametrize("length", range(1, 70))
def test_a_loop_that_ends_within_a_row_is_one_machine(length: int) -> None:
    rows = [f"NVIDIA L4, {bus_id(k)}, 10{k} MiB\n" for k in range(2)]
    read = read_text("name, pci.bus_id, memory.used [MiB]\n" + "".join(rows) + "".join(rows)[:length])
    assert [(gpu.pci_bus_id, gpu.memory_used_mib) for gpu in read.gpus] == [(bus_id(0), 100), (bus_id(1), 101)]


def test_rounds_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(TopologyError, match=r"there twice, with different names.*one machine, taken once"):
        read_text(f"name, pci.bus_id\nNVIDIA L4, {bus_id(0)}\nNVIDIA L40S, {bus_id(0)}\n")


def test_a_round_that_lacks_a_gpu_is_refused() -> None:
    rows = [f"NVIDIA L4, {bus_id(k)}\n" for k in range(3)]
    with pytest.raises(TopologyError, match="there twice: give one output"):
        read_text("name, pci.bus_id\n" + "".join(rows) + rows[0] + rows[2] + rows[0])
