"""Outputs of nvidia-smi that lost their line breaks are refused with the reason; nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from topologies.errors import TopologyError
from topologies.read import read_text

SOURCES = Path(__file__).parents[1] / "data" / "sources"
ROWS = ("0, NVIDIA A100-SXM4-80GB, 81920 MiB", "1, NVIDIA A100-SXM4-80GB, 81920 MiB", "2, NVIDIA H100 PCIe, 81559 MiB")
TABLES = {
    "header": ("index, name, memory.total [MiB]", *ROWS),
    "no header": ROWS,
    "no index": ("name, memory.total [MiB]", "NVIDIA A100-SXM4-80GB, 81920 MiB", "NVIDIA H100 PCIe, 81559 MiB"),
    "names last": ("index, name", "0, NVIDIA A100-SXM4-80GB", "1, NVIDIA H100 PCIe"),
    "all columns": tuple((SOURCES / "query.csv").read_text(encoding="utf-8").splitlines()),
    "all columns, no header": tuple((SOURCES / "query.csv").read_text(encoding="utf-8").splitlines()[1:]),
}


@pytest.mark.parametrize("between", [" ", "  ", ""])
@pytest.mark.parametrize("table", TABLES)
def test_rows_on_one_line_are_refused_and_on_lines_of_their_own_read(table: str, between: str) -> None:
    assert all(gpu.name for gpu in read_text("\n".join(TABLES[table]) + "\n").gpus)
    if between or table.startswith("all columns"):
        with pytest.raises(TopologyError, match=r"on one line.*paste it with its line breaks"):
            read_text(between.join(TABLES[table]))


@pytest.mark.parametrize("names", [("NVIDIA GeForce RTX 4090", "NVIDIA H100 80GB HBM3"), ("NVIDIA L4",) * 3, ("Tesla T4", "NVIDIA A2")])
@pytest.mark.parametrize("titles", ["index, pcie.link.gen.max, name", "pcie.link.gen.max, index, name", "index, name", ""])
@pytest.mark.parametrize("between", [" ", "\t"])
def test_rows_on_one_line_whose_names_stand_last_are_refused(names: tuple[str, ...], titles: str, between: str) -> None:
    rows = [f"{index}, {4 + index}, {name}" for index, name in enumerate(names)]
    if titles.startswith("pcie"):
        rows = [f"{4 + index}, {index}, {name}" for index, name in enumerate(names)]
    elif titles == "index, name":
        rows = [f"{index}, {name}" for index, name in enumerate(names)]
    with pytest.raises(TopologyError, match="on one line"):
        read_text(between.join([titles, *rows] if titles else rows) + "\n")


@pytest.mark.parametrize("between", ["", " "])
@pytest.mark.parametrize("titles", ["index, pcie.link.gen.max, uuid", "index, name", "index, memory.total [MiB]"])
def test_one_row_behind_its_header_is_refused(titles: str, between: str) -> None:
    cells = {"index": "0", "pcie.link.gen.max": "4", "uuid": "GPU-e0d922e0-caa0-4de4-6db5-fa032f3b5aa6", "name": "NVIDIA L4"}
    row = ", ".join(cells.get(title, "23034 MiB") for title in titles.split(", "))
    with pytest.raises(TopologyError, match="on one line"):
        read_text(titles + between + row + "\n")


@pytest.mark.parametrize(
    "row", ["0, NVIDIA GeForce GT 710, GPU-aaaaaaaa-0000-4000-8000-000000000000, 2048 MiB", "10:00:01 0, Tesla T4, 15360 MiB"]
)
def test_one_row_is_no_joined_line(row: str) -> None:
    assert read_text(row + "\n").gpus[0].name in ("NVIDIA GeForce GT 710", "Tesla T4")


@pytest.mark.parametrize("prose", ["GPUs: RTX 4090, RTX 4090", "We have an NVIDIA A100, an NVIDIA TITAN V 2, and a Tesla T4", "A100, H100"])
def test_prose_beside_an_output_is_no_joined_line(prose: str) -> None:
    assert read_text(f"{prose}\n\nindex, name\n0, NVIDIA L4\n1, NVIDIA L4\n").gpus[1].name == "NVIDIA L4"


@pytest.mark.parametrize("between", [" ", "   "])
def test_a_box_on_one_line_is_refused(between: str) -> None:
    text = (SOURCES / "table.txt").read_text(encoding="utf-8")
    with pytest.raises(TopologyError, match="table of nvidia-smi stands on one line: paste it with its line breaks"):
        read_text(between.join(text.split()) if between == " " else between.join(text.splitlines()))


def test_a_cell_of_memory_before_a_bus_id_is_no_line_of_the_box() -> None:
    text = "| index | memory.total [MiB] | pci.bus_id |\n|---|---|---|\n| 0 | 24564 MiB | 00000000:07:00.0 |\n"
    machine = read_text(text)
    assert (machine.format, machine.gpus[0].memory_mib) == ("query-csv", 24564)


@pytest.mark.parametrize(
    "text",
    [
        "0, NVIDIA H100 80GB HBM3, 512 MiB, 80000 MiB\n1, NVIDIA H100 80GB HBM3, 700 MiB, 79800 MiB\n",
        "0, NVIDIA H100 80GB HBM3, 78000 MiB\n",
    ],
)
def test_free_memory_without_header_is_not_taken_as_the_total(text: str) -> None:
    assert {gpu.memory_mib for gpu in read_text(text).gpus} == {None}


@pytest.mark.parametrize("size", [81559, 81251])
@pytest.mark.parametrize("count", [1, 3])
def test_a_total_without_header_is_taken(size: int, count: int) -> None:
    text = "".join(f"{index}, NVIDIA H100 80GB HBM3, {index + 5} MiB, {size} MiB\n" for index in range(count))
    assert {gpu.memory_mib for gpu in read_text(text).gpus} == {size}


@pytest.mark.parametrize("damaged", ["1, NVIDIA L4", "1, NVIDIA L4, 23034 MiB, 5"])
def test_rows_keep_the_order_of_the_text(damaged: str) -> None:
    machine = read_text(f"index, name, memory.total [MiB]\n0, NVIDIA L4, 23034 MiB\n{damaged}\n2, NVIDIA L4, 23034 MiB\n")
    assert [row[0] for row in machine.stated["rows"]] == ["0", "1", "2"]
    assert any("row of GPU1" in warning for warning in machine.warnings)


def test_a_damaged_row_without_index_does_not_renumber_those_below() -> None:
    machine = read_text("name, memory.total [MiB]\nNVIDIA L4, 23034 MiB\nNVIDIA L40S, 46068 MiB, 7\nNVIDIA A30, 24576 MiB\n")
    assert [gpu.name for gpu in machine.gpus] == ["NVIDIA L4", None, "NVIDIA A30"]
    assert any("GPU1" in warning for warning in machine.warnings)


def test_a_corrupted_info_rom_is_a_warning() -> None:
    warning = "WARNING: infoROM is corrupted at gpu 0000:3E:00.0"
    machine = read_text(f"index, name, memory.total [MiB]\n0, NVIDIA L4, 23034 MiB\n{warning}\n1, NVIDIA L4, 23034 MiB\n")
    assert [gpu.name for gpu in machine.gpus] == ["NVIDIA L4"] * 2
    assert any(warning in said for said in machine.warnings)
