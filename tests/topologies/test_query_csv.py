"""The query output of nvidia-smi: any columns, with and without header and units."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.model import Gpu
from topologies.read import read_text

TITLES = {
    "index": "index", "name": "name", "memory.total": "memory_mib", "memory.used": "memory_used_mib", "uuid": "uuid",
    "pci.bus_id": "pci_bus_id",
}  # fmt: skip


@st.composite
def gpus(draw: st.DrawFn) -> tuple[Gpu, ...]:
    names = st.sampled_from(
        ("NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-32GB", "NVIDIA L40S", "NVIDIA GeForce RTX 4090")
    )
    return tuple(
        Gpu(
            index,
            name=draw(names),
            memory_mib=(total := draw(st.integers(1000, 200_000))),
            memory_used_mib=draw(st.integers(0, total - 1)),
            uuid=f"GPU-{index:08x}-77ac-ef63-88a5-b8c4d0c906dc",
            pci_bus_id=f"00000000:{index + 7:02X}:00.0",
        )
        for index in range(draw(st.integers(1, 9)))
    )


def table(machine: tuple[Gpu, ...], titles: list[str], *, units: bool) -> str:
    def cell(gpu: Gpu, title: str) -> str:
        return f"{getattr(gpu, TITLES[title])}" + (" MiB" if units and title.startswith("memory") else "")

    heads = [title + (" [MiB]" if title.startswith("memory") else "") for title in titles]
    return (
        "\n".join(", ".join(row) for row in (heads, *([cell(gpu, t) for t in titles] for gpu in machine)))
        + "\n"
    )


@given(machine=gpus(), order=st.permutations(list(TITLES)), units=st.booleans(), shuffled=st.booleans())
def test_any_order_of_columns_and_rows_reads_the_same(
    machine: tuple[Gpu, ...], order: list[str], units: bool, shuffled: bool
) -> None:
    rows = random.Random(0).sample(machine, len(machine)) if shuffled else machine
    topology = read_text(table(tuple(rows), order, units=units))
    assert topology.gpus == machine
    assert topology.warnings == ()
    assert topology.format == "query-csv"


@given(machine=gpus(), order=st.permutations(list(TITLES)))
def test_without_a_header_only_what_the_cells_prove_is_taken(
    machine: tuple[Gpu, ...], order: list[str]
) -> None:
    """The larger of two memory columns is the total; of the other nobody can tell whether it is used or free."""
    topology = read_text(table(machine, order, units=True).partition("\n")[2])
    assert topology.gpus == tuple(gpu.replace(memory_used_mib=None) for gpu in machine)
    assert "no header" in topology.warnings[0]


@pytest.mark.parametrize(
    ("text", "expected", "words"),
    [
        pytest.param("name, memory.total [MiB]\nNVIDIA L4, 9 MiB\n", Gpu(0, name="NVIDIA L4", memory_mib=9), "no index", id="no index"),
        pytest.param("index, name, memory.total\n0, NVIDIA L4, [N/A]\n", Gpu(0, name="NVIDIA L4"), "[N/A] for memory.total", id="N/A"),
        pytest.param("index, name, memory.total\n0, NVIDIA L4, much\n", Gpu(0, name="NVIDIA L4"), "'much'", id="no number"),
        pytest.param("index, name, memory.total\n0, NVIDIA L4, 0\n", Gpu(0, name="NVIDIA L4"), "'0'", id="no memory"),
        pytest.param(
            "index, name, temperature.gpu\n0, NVIDIA L4, [Unknown Error]\n", Gpu(0, name="NVIDIA L4"), "[Unknown Error]", id="error",
        ),
        pytest.param("index, name\n1, NVIDIA L4\n", Gpu(0, is_named=False), "does not list GPU0", id="GPU absent"),
    ],
)  # fmt: skip
def test_what_is_odd_is_said(text: str, expected: Gpu, words: str) -> None:
    topology = read_text(text)
    assert topology.gpus[0] == expected
    assert words in " ".join(topology.warnings)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_several_outputs_in_one_text_are_merged(order: tuple[int, ...]) -> None:
    """Prompts, prose and blank lines between them do not matter, nor does the order."""
    matrix = "$ nvidia-smi topo -m\n\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n"
    names = "$ nvidia-smi --query-gpu=index,name --format=csv\nindex, name\n\n0, NVIDIA L4\n1, NVIDIA L4\n"
    memory = "index, memory.total [MiB]\n0, 23034 MiB\n1, 23034 MiB\n"
    parts = [matrix, names, memory]
    topology = read_text("\nand then\n".join(parts[k] for k in order))
    assert topology.gpus == tuple(Gpu(k, name="NVIDIA L4", memory_mib=23034) for k in range(2))
    assert dict(topology.links) == {(0, 1): "NV4"}
    assert topology.format == "topo-m"
    assert topology.warnings == ()
