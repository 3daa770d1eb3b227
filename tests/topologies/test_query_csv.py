"""The query output of nvidia-smi: any columns, with and without header and units."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_read_damage import read_any
from test_smi_list import DAMAGES

from topologies.cards import find_card
from topologies.documents.document import to_document
from topologies.documents.document_read import from_document
from topologies.errors import TopologyError
from topologies.model import Gpu, Topology
from topologies.parts import Mig, Pcie, Process
from topologies.read import read_text

TITLES = {
    "index": "index", "name": "name", "memory.total": "memory_mib", "memory.used": "memory_used_mib", "uuid": "uuid",
    "pci.bus_id": "pci_bus_id",
}  # fmt: skip

UUIDS = tuple(f"GPU-{k:08x}-77ac-ef63-88a5-b8c4d0c906dc" for k in range(16))


@st.composite
def gpus(draw: st.DrawFn) -> tuple[Gpu, ...]:
    names = st.sampled_from(
        ("NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-32GB", "NVIDIA L40S", "NVIDIA GeForce RTX 4090")
    )
    return tuple(
        Gpu(
            index,
            name=(name := draw(names)),
            memory_mib=(total := draw(st.integers(1000, 200_000) | st.just(find_card(name).total_mib))),
            memory_used_mib=draw(st.integers(0, total - 1)),
            uuid=f"GPU-{index:08x}-77ac-ef63-88a5-b8c4d0c906dc",
            pci_bus_id=f"00000000:{index + 7:02X}:00.0",
        )
        for index in range(draw(st.integers(1, 9)))
    )


def holds(name: str | None, memory_mib: int | None) -> bool:
    return name is not None and memory_mib is not None and find_card(name).holds(memory_mib)


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
    """What the card has is the total; of other sizes nobody can tell whether they are used or free."""
    topology = read_text(table(machine, order, units=True).partition("\n")[2])
    whole = [gpu.name is not None and gpu.memory_mib == find_card(gpu.name).total_mib for gpu in machine]
    found = [gpu.memory_mib for gpu in topology.gpus]
    assert found == [gpu.memory_mib for gpu in machine] if all(whole) else all(
        total is None or holds(gpu.name, total) for gpu, total in zip(machine, found, strict=True)
    )
    assert [gpu.replace(memory_mib=None) for gpu in topology.gpus] == [
        gpu.replace(memory_mib=None, memory_used_mib=None) for gpu in machine
    ]
    assert "no header" in topology.warnings[0]


@pytest.mark.parametrize(
    ("text", "expected", "words"),
    [
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


# ── further facts ───────────────────────────────────────────────────────────────────────────────────────────────────────


@st.composite
def full_machines(draw: st.DrawFn) -> tuple[Gpu, ...]:
    """Draw GPUs with every fact that a query states."""
    card, capability = draw(st.sampled_from((("NVIDIA H100 80GB HBM3", "9.0"), ("NVIDIA L40S", "8.9"), ("NVIDIA GB10", "12.1"))))
    gen = draw(st.integers(3, 6))
    return tuple(
        gpu.replace(
            name=card,
            compute_capability=capability,
            memory_reserved_mib=draw(st.integers(0, min(999, (gpu.memory_mib or 0) - (gpu.memory_used_mib or 0)))),
            mig=Mig(enabled=draw(st.booleans())),
            pcie=Pcie(gen=gen, width=16, current_gen=draw(st.integers(1, gen)), current_width=16),
        )
        for gpu in draw(gpus())
    )


CELLS: dict[str, Callable[[Gpu], object]] = {
    "index": lambda gpu: gpu.index,
    "name": lambda gpu: gpu.name,
    "uuid": lambda gpu: gpu.uuid,
    "pci.bus_id": lambda gpu: gpu.pci_bus_id,
    "memory.total [MiB]": lambda gpu: f"{gpu.memory_mib} MiB",
    "memory.used [MiB]": lambda gpu: f"{gpu.memory_used_mib} MiB",
    "memory.free [MiB]": lambda gpu: f"{(gpu.memory_mib or 0) - (gpu.memory_used_mib or 0) - (gpu.memory_reserved_mib or 0)} MiB",
    "memory.reserved [MiB]": lambda gpu: f"{gpu.memory_reserved_mib} MiB",
    "compute_cap": lambda gpu: gpu.compute_capability,
    "mig.mode.current": lambda gpu: "Enabled" if gpu.mig and gpu.mig.enabled else "Disabled",
    "pcie.link.gen.max": lambda gpu: gpu.pcie and gpu.pcie.gen,
    "pcie.link.gen.current": lambda gpu: gpu.pcie and gpu.pcie.current_gen,
    "pcie.link.width.max": lambda gpu: gpu.pcie and gpu.pcie.width,
    "pcie.link.width.current": lambda gpu: gpu.pcie and gpu.pcie.current_width,
    "driver_version": lambda gpu: "580.126.18",
    "temperature.gpu": lambda gpu: 30 + gpu.index,
}


def cells_of(machine: tuple[Gpu, ...], titles: Sequence[str]) -> list[list[str]]:
    return [[str(CELLS[title](gpu)) for title in titles] for gpu in machine]


def full_table(machine: tuple[Gpu, ...], titles: Sequence[str], separator: str = ", ") -> str:
    return "".join(separator.join(row) + "\n" for row in (titles, *cells_of(machine, titles)))


orders = st.permutations(list(CELLS))


@given(machine=full_machines(), titles=orders)
def test_every_column_is_a_fact_or_none_and_the_document_shows_all(machine: tuple[Gpu, ...], titles: list[str]) -> None:
    """The speed of an idle link is no speed under load."""
    topology = read_text(full_table(machine, titles))
    assert topology.gpus == machine
    assert topology.warnings == ()
    document = to_document(topology)
    assert document["header"] == titles
    assert document["rows"] == cells_of(machine, titles)
    assert document["indices"] == [gpu.index for gpu in machine]
    assert document["memory_total_mib"] == {str(gpu.index): gpu.memory_mib for gpu in machine}
    assert document["driver"] == "580.126.18"
    assert from_document(document) == topology


FEWEST = settings(max_examples=max(1, settings().max_examples // 10))
"""For tests that run for many damages of many columns."""

TABLES: dict[str, Callable[[str], str | bytes]] = {
    name: DAMAGES[name]
    for name in (
        "as printed", "srun prefix", "compose prefix", "mail quote", "host prefix, spaces", "mpirun prefix", "container log",
        "times that go on", "indented", "commented with slashes", "commented with hashes", "C string", "Python strings", "lines stripped",
        "CR LF", "no-break spaces", "UTF-16", "UTF-16 without mark", "UTF-8 with mark", "blank lines between", "wrapped at 80",
        "wrapped at 100", "wrapped and prefixed", "pasted twice",
    )
} | {
    "quoted cells": lambda text: "".join(",".join(f'"{cell}"' for cell in line.split(", ")) + "\n" for line in text.splitlines()),
    "no blanks": lambda text: text.replace(", ", ","),
    "semicolons": lambda text: text.replace(", ", ";"),
    "tabs": lambda text: text.replace(", ", "\t"),
    "Markdown table": lambda text: "".join(
        f"| {line.replace(', ', ' | ')} |\n" + ("|---" * (line.count(",") + 1) + "|\n") * (k == 0)
        for k, line in enumerate(text.splitlines())
    ),
    "fenced": lambda text: f"Here:\n\n```csv\n{text}```\n",
    "prompt": lambda text: f"user@host:~$ nvidia-smi --query-gpu=index,name,memory.total --format=csv\n{text}user@host:~$ \n",
}  # fmt: skip


@FEWEST
@pytest.mark.parametrize("damage", TABLES.values(), ids=TABLES.keys())
@given(machine=full_machines(), titles=orders)
def test_a_damage_that_loses_nothing_reads_the_same(
    damage: Callable[[str], str | bytes], machine: tuple[Gpu, ...], titles: list[str]
) -> None:
    assert read_any(damage(full_table(machine, titles))).gpus == machine


SIMPLE = ["index", "name", "uuid", "pci.bus_id", "memory.total [MiB]", "compute_cap"]


@FEWEST
@pytest.mark.parametrize("damage", TABLES.values(), ids=TABLES.keys())
@given(machine=full_machines())
def test_a_table_without_a_header_is_found_behind_prefixes(
    damage: Callable[[str], str | bytes], machine: tuple[Gpu, ...]
) -> None:
    topology = read_any(damage(full_table(machine, SIMPLE).partition("\n")[2]))
    assert [(gpu.name, gpu.uuid, gpu.pci_bus_id) for gpu in topology.gpus] == [
        (gpu.name, gpu.uuid, gpu.pci_bus_id) for gpu in machine
    ]


FACTS = ("name", "uuid", "pci_bus_id", "memory_mib", "memory_used_mib", "memory_reserved_mib", "compute_capability", "mig")


def wrong_facts(read: Topology, machine: tuple[Gpu, ...]) -> list[object]:
    """Return what was read and is not so."""
    pairs = [
        (getattr(found, fact), getattr(truth, fact)) for found, truth in zip(read.gpus, machine, strict=False) for fact in FACTS
    ]
    return [(found, truth) for found, truth in pairs if found not in (truth, None)]


@given(machine=full_machines(), titles=orders.map(lambda titles: sorted(titles, key="index".__ne__)), seed=st.integers(0, 2**32))
def test_a_cut_table_is_true_and_says_what_is_missing(machine: tuple[Gpu, ...], titles: list[str], seed: int) -> None:
    text = full_table(machine, titles)
    begin = text.index("\n") + 1
    text = text[: random.Random(seed).randrange(begin, len(text))]
    try:
        topology = read_text(text)
    except TopologyError:
        return
    assert len(topology.gpus) <= len(machine)
    if titles[-1] not in ("temperature.gpu", "driver_version", "pcie.link.gen.max", "pcie.link.width.max"):
        assert wrong_facts(topology, machine) == []
    last = text.rpartition("\n")[2]
    lost = last.count(",") + 1 < len(titles) and last.strip() != ""
    assert topology.warnings or not lost or "," not in last


@given(machine=full_machines(), titles=orders, data=st.data())
def test_a_row_with_a_cell_less_or_more_makes_no_wrong_fact(machine: tuple[Gpu, ...], titles: list[str], data: st.DataObject) -> None:
    lines = full_table(machine, titles).splitlines()
    at = data.draw(st.integers(1, len(machine)))
    cells = lines[at].split(", ")
    place = data.draw(st.integers(1, len(cells) - 1))
    cells[place : place + data.draw(st.integers(0, 1))] = data.draw(st.sampled_from(([], ["x", "y"])))
    if len(cells) == len(titles):
        return
    lines[at] = ", ".join(cells)
    try:
        topology = read_text("\n".join(lines) + "\n")
    except TopologyError:
        return
    if titles[0] == "index":
        assert wrong_facts(topology, machine) == []
    assert topology.warnings


@pytest.mark.parametrize(
    ("text", "expected", "words"),
    [
        pytest.param("index, name, pcie.link.gen.max\n0, NVIDIA L4, [N/A]\n", Gpu(0, name="NVIDIA L4"), "", id="no PCIe"),
        pytest.param("index, name, mig.mode.current\n0, NVIDIA L4, [N/A]\n", Gpu(0, name="NVIDIA L4"), "", id="no MIG"),
        pytest.param("index, name, pci.bus_id\n0, NVIDIA L4, here\n", Gpu(0, name="NVIDIA L4"), "no bus id", id="bus id"),
        pytest.param("index, memory.total [MiB]\n0, 2303", Gpu(0), "may be a cut cell", id="cut number"),
        pytest.param("index, name, memory.total\n0, NVIDIA L4, 23034", Gpu(0, name="NVIDIA L4", memory_mib=23034), "", id="known total"),
        pytest.param("index, name\n0, NVIDIA L", Gpu(0), "may be a cut cell", id="cut name"),
        pytest.param("index, name\n0, NVIDIA L4", Gpu(0, name="NVIDIA L4"), "", id="known name"),
        pytest.param("index, name, uuid\n0, NVIDIA L4, GPU-00000000-77ac", Gpu(0, name="NVIDIA L4"), "may be a cut cell", id="cut UUID"),
    ],
)  # fmt: skip
def test_what_is_odd_in_further_columns(text: str, expected: Gpu, words: str) -> None:
    topology = read_text(text)
    assert topology.gpus == (expected,)
    assert words in " ".join(topology.warnings)
    assert bool(topology.warnings) == bool(words)


# ── processes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@st.composite
def with_processes(draw: st.DrawFn) -> tuple[Gpu, ...]:
    def process() -> Process:
        name = draw(st.sampled_from(("python3", "/usr/bin/python", None)))
        return Process(draw(st.integers(1, 4_000_000)), name, draw(st.integers(1, 80_000)))

    return tuple(gpu.replace(processes=tuple(process() for _ in range(draw(st.integers(0, 3))))) for gpu in draw(gpus()))


def processes_of(machine: tuple[Gpu, ...], key: str, dice: random.Random) -> str:
    rows = [
        f"{getattr(gpu, {'gpu_uuid': 'uuid', 'gpu_bus_id': 'pci_bus_id'}[key])}, {p.pid}, {p.name or ''}, {p.memory_mib} MiB\n"
        for gpu in machine
        for p in gpu.processes or ()
    ]
    dice.shuffle(rows)
    return f"{key}, pid, process_name, used_gpu_memory [MiB]\n" + "".join(rows)


@given(machine=with_processes(), key=st.sampled_from(("gpu_uuid", "gpu_bus_id")), first=st.booleans(), seed=st.integers(0, 2**32))
def test_processes_belong_to_the_gpu_that_their_row_names(machine: tuple[Gpu, ...], key: str, first: bool, seed: int) -> None:
    """By UUID or bus id, whatever the order; a GPU that no row names has none, and no rows say nothing."""
    apps = processes_of(machine, key, random.Random(seed))
    query = table(machine, list(TITLES), units=True)
    topology = read_text(f"{apps}\n\n{query}" if first else f"{query}\n\n{apps}")
    assert topology.warnings == ()
    for found, truth in zip(topology.gpus, machine, strict=True):
        if any(gpu.processes for gpu in machine):
            assert sorted(found.processes or (), key=repr) == sorted(truth.processes or (), key=repr)
        assert found.replace(processes=None) == truth.replace(processes=None)


def test_processes_alone_name_only_some_gpus() -> None:
    rows = f"77, python, [N/A], {UUIDS[0]}\n78, sh, 5 MiB, {UUIDS[0]}\n, sh, 1 MiB, {UUIDS[0]}\n"
    topology = read_text("pid, process_name, used_memory [MiB], gpu_uuid\n" + rows)
    assert topology.gpus == (Gpu(0, uuid=UUIDS[0], processes=(Process(77, "python", None), Process(78, "sh", 5))),)
    assert "name no process" in topology.warnings[0]
    assert "only the GPUs that run processes" in topology.warnings[1]


def test_processes_of_gpus_that_no_source_names_are_left_out() -> None:
    text = f"index, uuid\n0, {UUIDS[0]}\n\npid, gpu_uuid\n77, {UUIDS[0]}\n78, {UUIDS[1]}\n"
    topology = read_text(text)
    assert topology.gpus == (Gpu(0, uuid=UUIDS[0], processes=(Process(77),)),)
    assert "has 1 GPUs that" in topology.warnings[0]
    topology = read_text(f"index, name\n0, NVIDIA L4\n1, NVIDIA L4\n\npid, gpu_uuid\n77, {UUIDS[0]}\n")
    assert [gpu.processes for gpu in topology.gpus] == [None, None]
    assert "has 1 GPUs that" in topology.warnings[0]


# ── lines that are no rows, and rows that nothing but their neighbours proves ───────────────────────────────────────────

FOREIGN = (
    "Unable to determine the device handle for GPU 0000:B1:00.0: Unknown Error", "WARNING: infoROM is corrupted at gpu 0000:B1:00.0",
    "warning: a, b", "warning: a, b, c, d, e, f", "", "Unable to query, try again, later",
)  # fmt: skip


@given(machine=gpus().filter(lambda machine: len(machine) > 2), order=st.permutations(list(TITLES)), headed=st.booleans(), data=st.data())
def test_a_foreign_line_between_rows_loses_no_gpu_and_moves_no_fact(
    machine: tuple[Gpu, ...], order: list[str], headed: bool, data: st.DataObject
) -> None:
    """The driver says it where the row of the GPU should stand: that GPU alone is missing."""
    lost = data.draw(st.integers(1, len(machine) - 2))
    order = order if headed else ["index", *(title for title in order if title != "index")]
    lines = table(machine, order, units=True).splitlines(keepends=True)
    lines[lost + 1] = data.draw(st.sampled_from(FOREIGN)) + "\n"
    topology = read_text("".join(lines if headed else lines[1:]))
    assert to_document(topology)["indices"] == [index for index in range(len(machine)) if index != lost]
    assert wrong_facts(topology, machine) == []
    assert topology.gpus[lost] == Gpu(lost, is_named=False)
    assert f"does not list GPU{lost}," in " ".join(topology.warnings)
    assert [gpu.uuid for gpu in topology.gpus] == [None if gpu.index == lost else gpu.uuid for gpu in machine]


def test_a_tail_without_header_goes_by_its_index() -> None:
    topology = read_text("2, NVIDIA L4, 23034 MiB\n3, NVIDIA L4, 23034 MiB\n")
    assert to_document(topology)["indices"] == [2, 3]
    assert [gpu.name for gpu in topology.gpus] == [None, None, "NVIDIA L4", "NVIDIA L4"]


ODD_NAMES = ("Graphics Device", "[GPU is lost]", "[Unknown Error]", "RTX A6000", "A40", "AMD Instinct MI300X", "Some Card 9")


@given(machine=gpus(), data=st.data())
def test_without_a_header_a_neighbour_of_a_row_is_a_row_whatever_its_name(machine: tuple[Gpu, ...], data: st.DataObject) -> None:
    known = data.draw(st.integers(0, len(machine) - 1))
    machine = tuple(
        gpu if gpu.index == known else gpu.replace(name=data.draw(st.sampled_from((gpu.name, *ODD_NAMES)))) for gpu in machine
    )
    topology = read_text(table(machine, ["index", "name", "uuid", "pci.bus_id"], units=True).partition("\n")[2])
    assert [gpu.uuid for gpu in topology.gpus] == [gpu.uuid for gpu in machine]
    assert [gpu.name for gpu in topology.gpus] == [None if (gpu.name or "").startswith("[") else gpu.name for gpu in machine]


def test_two_samples_of_one_machine_are_one_machine() -> None:
    """`-l 1` prints the rows again and again."""
    rows = "".join(f"{k}, NVIDIA L4, 23034 MiB, {used} MiB\n" for used in (5, 9) for k in range(2))
    assert [gpu.name for gpu in read_text(rows).gpus] == ["NVIDIA L4"] * 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("0, NVIDIA H100 80GB HBM3, 512 MiB\n", (Gpu(0, name="NVIDIA H100 80GB HBM3"),), id="what is used"),
        pytest.param("NVIDIA L4, 23034 MiB\n" * 2, tuple(Gpu(k, name="NVIDIA L4", memory_mib=23034) for k in range(2)), id="name, memory"),
        pytest.param("0, 81920 MiB\n1, 81920 MiB\n", (Gpu(0, memory_mib=81920), Gpu(1, memory_mib=81920)), id="index, memory"),
        pytest.param("0, NVIDIA A40\n1, A40\n", (Gpu(0, name="NVIDIA A40"), Gpu(1, name="A40")), id="index, name"),
        pytest.param(
            "GPU-e0d922e0-caa0-4de4-6db5-fa032f3b5aa6, NVIDIA L4, 23034 MiB\n",
            (Gpu(0, name="NVIDIA L4", uuid="GPU-e0d922e0-caa0-4de4-6db5-fa032f3b5aa6", memory_mib=23034),), id="uuid, name, memory",
        ),
        pytest.param(
            "0, 00000000:1B:00.0, 46068 MiB\n", (Gpu(0, pci_bus_id="00000000:1B:00.0", memory_mib=46068),), id="index, bus id, memory",
        ),
    ],
)  # fmt: skip
def test_cells_without_header_prove_themselves(text: str, expected: tuple[Gpu, ...]) -> None:
    topology = read_text(text)
    assert topology.gpus == expected
    assert "no header" in topology.warnings[0]


@pytest.mark.parametrize("text", ["4711, 7806 MiB\n5, 6 MiB\n", "4711, python, 7806 MiB\n", "0\n1\n", "0, 1\n1, 2\n"])
def test_cells_that_prove_nothing_are_no_gpus(text: str) -> None:
    with pytest.raises(TopologyError, match="recognised"):
        read_text(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("memory.total [MiB]\n81920 MiB\n81920 MiB\n", (Gpu(0, memory_mib=81920), Gpu(1, memory_mib=81920)), id="memory"),
        pytest.param("name\nNVIDIA L4\nAMD Instinct MI300X\n", (Gpu(0, name="NVIDIA L4"), Gpu(1, name="AMD Instinct MI300X")), id="name"),
        pytest.param("name, memory.total [MiB]\nNVIDIA L4, 9 MiB\n", (Gpu(0, name="NVIDIA L4", memory_mib=9),), id="no index"),
        pytest.param("index, memory.total [GiB]\n0, 80\n", (Gpu(0, memory_mib=81920),), id="GiB in the title"),
        pytest.param("index, memory.total\n0, 80 GiB\n", (Gpu(0, memory_mib=81920),), id="GiB"),
        pytest.param("index, memory.total\n0, 79.5 GB\n", (Gpu(0, memory_mib=81408),), id="GB"),
        pytest.param("index, memory.total\n0, 40960 MB\n", (Gpu(0, memory_mib=40960),), id="MB"),
        pytest.param("index, name, ecc.mode.current\n0, NVIDIA L4, [Not Supported]\n", (Gpu(0, name="NVIDIA L4"),), id="no ECC"),
    ],
)  # fmt: skip
def test_what_needs_no_warning(text: str, expected: tuple[Gpu, ...]) -> None:
    topology = read_text(text)
    assert topology.gpus == expected
    assert topology.warnings == ()


def test_commands_above_tables_are_no_prefix() -> None:
    machine = (Gpu(0, name="NVIDIA L4", uuid=UUIDS[0]),)
    apps = f"gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n{UUIDS[0]}, 77, python, 500 MiB\n"
    topology = read_text(
        f"$ nvidia-smi --query-gpu=index,name,uuid --format=csv\nindex, name, uuid\n0, NVIDIA L4, {UUIDS[0]}\n"
        f"$ nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv\n{apps}"
    )
    assert topology.gpus == (machine[0].replace(processes=(Process(77, "python", 500),)),)
    assert topology.warnings == ()


def test_a_list_of_processes_without_any_is_refused_with_the_reason() -> None:
    with pytest.raises(TopologyError, match="it lists no process, and names GPUs only where they run processes"):
        read_text("pid, process_name, gpu_uuid, used_gpu_memory [MiB]\n")
