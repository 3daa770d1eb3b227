"""Rows of a query whose ends a pager or a narrow window cut off are never put together, and cut cells are no facts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_query_csv import SIMPLE, full_machines, full_table, orders, wrong_facts

from topologies.errors import TopologyError
from topologies.model import Gpu
from topologies.read import read_text


def cut_at(text: str, column: int) -> str:
    return "".join(f"{line[:column]}\n" for line in text.splitlines())


@given(machine=full_machines(), titles=orders.map(lambda titles: sorted(titles, key="index".__ne__)), data=st.data())
def test_where_the_header_is_cut_nothing_is_wrong_and_no_gpu_lost(
    machine: tuple[Gpu, ...], titles: list[str], data: st.DataObject
) -> None:
    text = full_table(machine, titles)
    column = data.draw(st.integers(40, max(41, text.index("\n") - 1)))
    try:
        read = read_text(cut_at(text, column))
    except TopologyError:
        return
    assert wrong_facts(read, machine) == []
    if max(map(len, text.splitlines()[1:])) > column:
        assert read.warnings


@given(machine=full_machines(), column=st.sampled_from((79, 80, 100)), headed=st.booleans())
def test_where_rows_are_cut_at_the_width_of_a_terminal_nothing_is_wrong(machine: tuple[Gpu, ...], column: int, headed: bool) -> None:
    text = full_table(machine, SIMPLE)
    read = read_text(cut_at(text if headed else text.partition("\n")[2], column))
    assert wrong_facts(read, machine) == []
    assert len(read.gpus) == len(machine)


@pytest.mark.parametrize("columns", range(40, 62))
def test_cut_rows_are_told_and_named(columns: int) -> None:
    rows = [f"{k}, NVIDIA A100-SXM4-80GB, 81920 MiB, {used} MiB, 0 %, P0" for k, used in enumerate((14, 7820, 14, 78200))]
    text = "\n".join(("index, name, memory.total [MiB], memory.used [MiB], utilization.gpu [%], pstate", *rows)) + "\n"
    read = read_text(cut_at(text, columns))
    assert [gpu.name for gpu in read.gpus] == ["NVIDIA A100-SXM4-80GB"] * 4
    for gpu, used in zip(read.gpus, (14, 7820, 14, 78200), strict=True):
        assert gpu.memory_used_mib in (used, None)
    assert columns > max(map(len, rows)) or any("cut" in warning for warning in read.warnings)


@pytest.mark.parametrize("behind", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("has_others", [True, False])
def test_a_number_without_the_unit_that_others_have_is_cut(behind: int, has_others: bool) -> None:
    """``97887 MiB`` cut to ``978``, in a column where other rows are shorter, or where all are cut in the same place."""
    cards = ["NVIDIA H100 NVL" if has_others and k % 2 else "NVIDIA RTX PRO 6000 Blackwell Server Edition" for k in range(4)]
    rows = [f"{k}, {card}, 14 MiB, 97887 MiB" for k, card in enumerate(cards)]
    column = rows[0].index("97887") + behind
    topology = read_text(cut_at("\n".join(("index, name, memory.used [MiB], memory.total [MiB]", *rows)) + "\n", column))
    assert [gpu.memory_mib for gpu in topology.gpus] == [97887 if has_others and k % 2 else None for k in range(4)]
    assert [gpu.memory_used_mib for gpu in topology.gpus] == [14] * 4
    assert any(f"cut at column {column}" in warning for warning in topology.warnings)


COLUMNS = {
    "name": "", "driver_version": "", "memory.total [MiB]": "81920 MiB", "memory.used [MiB]": "14 MiB", "compute_cap": "9.0",
    "mig.mode.current": "Disabled", "persistence_mode": "Enabled", "pstate": "P0", "temperature.gpu": "31", "power.draw [W]": "61.22 W",
    "pcie.link.gen.current": "4",
}  # fmt: skip


@given(
    titles=st.lists(st.sampled_from([*COLUMNS]), min_size=1, max_size=7, unique=True),
    name=st.sampled_from(["NVIDIA A100-SXM4-80GB", "NVIDIA H100 NVL", "NVIDIA L40S", "NVIDIA GeForce RTX 4090", "Tesla V100-SXM2-32GB"]),
    driver=st.sampled_from(["535.183.01", "580.65.06", "470.57.02"]),
    count=st.sampled_from([1, 2, 4, 8]),
)
def test_equal_cards_have_rows_of_one_length_that_nobody_cut(titles: list[str], name: str, driver: str, count: int) -> None:
    cells = COLUMNS | {"name": name, "driver_version": driver}
    rows = [", ".join([str(k), f"00000000:{k + 7:02X}:00.0", *(cells[title] for title in titles)]) for k in range(count)]
    read = read_text("\n".join([", ".join(["index", "pci.bus_id", *titles]), *rows]) + "\n")
    assert read.warnings == ()
    assert read.stated.get("driver") == (driver if "driver_version" in titles else None)
    assert {gpu.name for gpu in read.gpus} == {name if "name" in titles else None}
