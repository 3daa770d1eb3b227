"""What follows from the columns of a query: memory in use, and who is who."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_query_csv import UUIDS, cells_of, full_machines, full_table, orders, wrong_facts

from topologies.documents.document import to_document
from topologies.errors import TopologyError
from topologies.merging.merge import merge
from topologies.model import Gpu
from topologies.nvidia.query.titles import FIELDS
from topologies.read import read_text


@given(machine=full_machines(), titles=orders, reserved=st.booleans())
def test_what_is_free_and_reserved_tells_what_is_used(machine: tuple[Gpu, ...], titles: list[str], reserved: bool) -> None:
    """Drivers from 510 on reserve some hundred MiB, so without that column nobody can tell."""
    left_out = {"memory.used [MiB]"} | (set() if reserved else {"memory.reserved [MiB]"})
    topology = read_text(full_table(machine, [title for title in titles if title not in left_out]))
    assert [gpu.memory_used_mib for gpu in topology.gpus] == [gpu.memory_used_mib if reserved else None for gpu in machine]
    assert bool(topology.warnings) != reserved


TABLE = """\
|=========================================+========================+======================|
|   0  NVIDIA A100 80GB PCIe          On  |   00000000:3D:00.0 Off |                    0 |
| N/A   30C    P0             62W /  300W |    7820MiB /  81920MiB |     0%       Default |
+-----------------------------------------+------------------------+----------------------+
"""


@pytest.mark.parametrize("title", ["memory.free, memory.reserved", "memory.free"])
@pytest.mark.parametrize("is_first", [True, False])
def test_what_a_source_states_counts_more_than_what_another_lets_conclude(title: str, is_first: bool) -> None:
    """A process ended between the two commands; nvidia-smi states 7820 MiB, the query that 81920 - 81366 - 540 = 14 MiB are used."""
    query = f"index, name, memory.total, {title}\n0, NVIDIA A100 80GB PCIe, 81920, 81366{', 540' * (',' in title)}\n"
    texts = (query, TABLE) if is_first else (TABLE, query)
    assert read_text("\n".join(texts)).gpus[0].memory_used_mib == 7820
    assert merge([read_text(text) for text in texts]).gpus[0].memory_used_mib == 7820
    assert read_text(query).gpus[0].memory_used_mib == (14 if "," in title else None)


@pytest.mark.parametrize(
    ("text", "used", "words"),
    [
        pytest.param("index, memory.free [MiB]\n0, 3000 MiB\n1, 9 MiB\n", None, "free memory of GPU0, GPU1, but not", id="no total"),
        pytest.param("index, memory.total, memory.free\n0, [N/A], 3000 MiB\n", None, "[N/A] for memory.total", id="total N/A"),
        pytest.param("index, memory.total, memory.free\n0, 3000 MiB, [N/A]\n", None, "[N/A] for memory.free", id="free N/A"),
        pytest.param("index, memory.total, memory.free\n0, 3000 MiB, 3001 MiB\n", None, "more than its 3000 MiB", id="too much"),
        pytest.param("index, memory.total, memory.used, memory.free\n0, 3000, [N/A], 2990\n", None, "[N/A] for memory.used", id="used N/A"),
        pytest.param("index, memory.total, memory.free\n0, 3000, 2990\n", None, "not what the driver reserves", id="not reserved"),
        pytest.param("index, memory.total, memory.reserved, memory.free\n0, 80 GiB, 1 GiB, 80 GiB\n", 0, "", id="rounded"),
    ],
)  # fmt: skip
def test_what_is_free_alone_tells_nothing(text: str, used: int | None, words: str) -> None:
    topology = read_text(text)
    assert topology.gpus[0].memory_used_mib == used
    assert words in " ".join(topology.warnings)
    assert bool(words) == bool(topology.warnings)


# ── UUIDs that tell nothing ─────────────────────────────────────────────────────────────────────────────────────────────

WHOLE = UUIDS[0]
BROKEN = {
    "dots": ("GPU-...",), "stars": ("GPU-****",), "letters": ("GPU-xxx",), "numbered": ("GPU-{}",), "shortened": (WHOLE[:-5],),
    "an ellipsis": (WHOLE[:12] + "…",), "of the form": ("GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx",),
    "half": (WHOLE[:-12] + "xxxxxxxxxxxx",),
    "one for all": (WHOLE,), "two for all": (WHOLE, WHOLE.upper()),
}  # fmt: skip


def csv_of(uuids: list[str]) -> str:
    return "index, name, uuid, memory.total [MiB]\n" + "".join(f"{k}, NVIDIA L4, {u}, 23034 MiB\n" for k, u in enumerate(uuids))


def bare_csv_of(uuids: list[str]) -> str:
    return csv_of(uuids).partition("\n")[2]


def list_of(uuids: list[str]) -> str:
    return "".join(f"GPU {k}: NVIDIA L4 (UUID: {u})\n" for k, u in enumerate(uuids))


def status_of(uuids: list[str]) -> str:
    return "".join(f"GPU {k}: NVIDIA L4 (UUID: {u})\n\t Link 0: 25 GB/s\n" for k, u in enumerate(uuids))


def log_of(uuids: list[str]) -> str:
    gpus = "".join(
        f"\nGPU 00000000:{k + 1:02X}:00.0\n    Product Name                          : NVIDIA L4\n"
        f"    GPU UUID                              : {u}\n    FB Memory Usage\n"
        "        Total                             : 23034 MiB\n"
        for k, u in enumerate(uuids)
    )
    return f"\n==============NVSMI LOG==============\n\nAttached GPUs                             : {len(uuids)}{gpus}"


PRINTERS: dict[str, Callable[[list[str]], str]] = {
    "query": csv_of, "query without header": bare_csv_of, "list": list_of, "nvlink": status_of, "-q": log_of,
    "list and query": lambda uuids: list_of(uuids) + "\n" + csv_of(uuids),
    "query and list": lambda uuids: csv_of(uuids) + "\n" + list_of(uuids),
    "-q and query": lambda uuids: log_of(uuids) + "\n\n" + csv_of(uuids),
}  # fmt: skip


@pytest.mark.parametrize("print_as", PRINTERS.values(), ids=PRINTERS.keys())
@pytest.mark.parametrize("words", BROKEN.values(), ids=BROKEN.keys())
def test_a_redacted_uuid_is_no_fact_whatever_output_has_it(words: tuple[str, ...], print_as: Callable[[list[str]], str]) -> None:
    uuids = [words[k % len(words)].format(k) for k in range(4)]
    topology = read_text(print_as(uuids))
    assert [(gpu.name, gpu.uuid) for gpu in topology.gpus] == [("NVIDIA L4", None)] * 4
    said = [warning for warning in topology.warnings if "UUID" in warning]
    assert 1 <= len(said) <= 2
    # A log of -q whose UUIDs all end at one column may as well be one that a window cut there.
    assert all("GPU0 to GPU3" in warning or "GPU0, GPU1, GPU2, GPU3" in warning or "lines are cut" in warning for warning in said)


@pytest.mark.parametrize("print_as", PRINTERS.values(), ids=PRINTERS.keys())
def test_one_redacted_uuid_takes_no_other_away(print_as: Callable[[list[str]], str]) -> None:
    topology = read_text(print_as([*UUIDS[:2], "GPU-xxx", *UUIDS[3:5]]))
    assert [gpu.uuid for gpu in topology.gpus] == [*UUIDS[:2], None, *UUIDS[3:5]]
    assert all("GPU2" in warning for warning in topology.warnings if "UUID" in warning)


@pytest.mark.parametrize("print_as", [csv_of, list_of, status_of, log_of])
def test_whole_and_missing_uuids_need_no_word_about_them(print_as: Callable[[list[str]], str]) -> None:
    topology = read_text(print_as([uuid.upper() for uuid in UUIDS]))
    assert [gpu.uuid for gpu in topology.gpus] == [uuid.upper() for uuid in UUIDS]
    assert not any("UUID" in warning for warning in topology.warnings)


def test_processes_of_redacted_uuids_are_no_ones_and_that_is_said() -> None:
    apps = "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\nGPU-xxx, 77, python, 500 MiB\nGPU-xxx, 78, python, 500 MiB\n"
    topology = read_text(csv_of([*UUIDS[:2]]) + "\n" + apps)
    assert [gpu.processes for gpu in topology.gpus] == [None, None]
    assert any("2 rows of the list of processes" in warning for warning in topology.warnings)


@pytest.mark.parametrize("word", ["MIG-xxx", "MIG-...", f"MIG-{WHOLE[4:-3]}"])
def test_an_instance_keeps_no_redacted_uuid(word: str) -> None:
    whole = f"MIG-{WHOLE[4:]}"
    mode = "    MIG Mode\n        Current                           : Enabled\n"
    instances = "".join(f"    MIG Device\n        Index    : {k}\n        UUID     : {uuid}\n" for k, uuid in enumerate((word, whole)))
    topology = read_text(log_of([WHOLE]) + mode + instances)
    mig = topology.gpus[0].mig
    assert mig is not None
    assert [instance.uuid for instance in mig.instances] == [None, whole]
    assert "1 of its instances show no whole UUID" in " ".join(topology.warnings)


# ── the document of a query whose rows are put where another source has their GPUs ──────────────────────────────────────


@given(machine=full_machines(), data=st.data(), by=st.sampled_from(("uuid", "pci.bus_id")))
def test_a_document_tells_by_index_what_the_rows_say(machine: tuple[Gpu, ...], data: st.DataObject, by: str) -> None:
    """Rows without index stand in any order, and may be some of the GPUs."""
    rows = tuple(data.draw(st.permutations(machine))[: data.draw(st.integers(1, len(machine)))])
    numbered = full_table(machine, ["index", by])
    topology = read_text(full_table(rows, [by, "memory.total [MiB]"]))
    alone = to_document(topology)
    assert alone["indices"] == [*range(len(rows))]
    first = merge([read_text(numbered).replace(format="list", stated={}), topology])
    document = to_document(first)
    assert document["indices"] == sorted(gpu.index for gpu in rows)
    assert document["memory_total_mib"] == {str(gpu.index): gpu.memory_mib for gpu in rows}


# ── titles ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(machine=full_machines(), titles=orders, at=st.randoms(use_true_random=False), clips=st.booleans())
def test_a_header_cut_within_its_last_title_makes_no_wrong_fact(
    machine: tuple[Gpu, ...], titles: list[str], at: random.Random, clips: bool
) -> None:
    """As of a terminal that clips all lines, or a paste of its left half."""
    machine = tuple(gpu.replace(memory_reserved_mib=0) for gpu in machine)
    titles = ["index", "uuid", *(title for title in titles if title not in ("index", "uuid"))]
    last = at.randrange(2, len(titles))
    beginnings = [titles[last][:end] for end in range(1, len(titles[last]))]
    header = ", ".join((*titles[:last], at.choice([begin for begin in beginnings if begin.rstrip() not in FIELDS])))
    rows = [", ".join(row) if clips else ", ".join(row[: last + 1]) for row in cells_of(machine, titles)]
    text = "".join(f"{line[: len(header)] if clips else line}\n" for line in (header, *rows))
    try:
        topology = read_text(text)
    except TopologyError:
        assert clips
        return
    assert not wrong_facts(topology, machine)
    assert topology.warnings


@given(machine=full_machines(), titles=orders)
def test_titles_may_be_in_capitals(machine: tuple[Gpu, ...], titles: list[str]) -> None:
    text = full_table(machine, titles)
    header, _, rows = text.partition("\n")
    assert read_text(f"{header.upper()}\n{rows}").gpus == read_text(text).gpus
    prefixed = "".join(f"3: {line}\n" for line in f"{header.upper()}\n{rows}".splitlines())
    assert read_text(prefixed).gpus == read_text(text).gpus


@pytest.mark.parametrize("text", ["NAME\nfoo\n", "NAME, SIZE\nsda, 3\n", "UUID\nGPU\n", "NAME\tREADY\tSTATUS\nweb-1\t1/1\tRunning\n"])
def test_headings_of_other_tables_are_no_titles(text: str) -> None:
    with pytest.raises(TopologyError, match="recognised"):
        read_text(text)


@pytest.mark.parametrize("cut", ["p", "pcie", "pcie.link.gen", "memory", "compute", "pci.bus_i", "memory.total [", "memory.total [Mi"])
def test_a_cut_title_is_said(cut: str) -> None:
    topology = read_text(f"index, name, {cut}\n0, NVIDIA L4, 4\n1, NVIDIA L4, 4\n")
    assert topology.gpus == (Gpu(0, name="NVIDIA L4"), Gpu(1, name="NVIDIA L4"))
    assert [warning for warning in topology.warnings if "header of the query output ends" in warning]


# ── rows that come again ────────────────────────────────────────────────────────────────────────────────────────────────


@given(
    machine=full_machines(), titles=orders, count=st.integers(2, 4), has_times=st.booleans(), at=st.randoms(use_true_random=False),
    key=st.sampled_from(("index", "uuid", "pci.bus_id")),
)  # fmt: skip
def test_of_a_log_the_last_row_of_each_gpu_counts(
    machine: tuple[Gpu, ...], titles: list[str], count: int, has_times: bool, at: random.Random, key: str
) -> None:
    """`-l 1`, with time stamps or without, stopped within a sample or behind it."""
    titles = [title for title in titles if title == key or title not in ("index", "uuid", "pci.bus_id")]
    has_times |= len(machine) == 1
    last = {gpu.index: gpu for gpu in machine}
    first: dict[int, Gpu] = {}
    rows = []
    for sample in range(count):
        for gpu in machine if sample < count - 1 else machine[: at.randint(1, len(machine))]:
            last[gpu.index] = gpu.replace(memory_used_mib=at.randrange((gpu.memory_mib or 0) - (gpu.memory_reserved_mib or 0)))
            first.setdefault(gpu.index, last[gpu.index])
            rows.append([f"2024/05/01 10:00:0{sample}.12{gpu.index}"] * has_times + cells_of((last[gpu.index],), titles)[0])
    text = "".join(", ".join(row) + "\n" for row in (["timestamp"] * has_times + titles, *rows))
    topology = read_text(text)
    assert [(gpu.name, gpu.memory_mib, gpu.memory_used_mib) for gpu in topology.gpus] == [
        (gpu.name, gpu.memory_mib, gpu.memory_used_mib) for gpu in last.values()
    ]
    assert all("samples of the same GPUs" in warning for warning in topology.warnings)
    assert topology.warnings or last == first


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        pytest.param("0, NVIDIA L4, GPU-a, 5\n0, NVIDIA L40S, GPU-a, 5\n", "different names", id="name"),
        pytest.param(f"0, NVIDIA L4, {UUIDS[0]}, 5\n0, NVIDIA L4, {UUIDS[1]}, 5\n", "different UUIDs", id="UUID"),
        pytest.param("0, A40, a, 5\n1, A40, a, 5\n1, A40, a, 5\n2, A40, a, 5\n", "GPU 1 is there twice: give", id="typo"),
        pytest.param("0, NVIDIA L4, a, 5\n2, NVIDIA L4, a, 5\n2, NVIDIA L4, a, 5\n", "GPU 2 is there twice: give", id="last twice"),
    ],
)  # fmt: skip
def test_rows_that_contradict_each_other_are_no_log(rows: str, words: str) -> None:
    with pytest.raises(TopologyError, match=words):
        read_text("index, name, uuid, memory.used [MiB]\n" + rows)


def test_a_log_that_ends_within_a_cell_keeps_the_row_before() -> None:
    topology = read_text("index, name, memory.used\n0, NVIDIA L4, 2000\n1, NVIDIA L4, 2000\n0, NVIDIA L4, 2001\n1, NVIDIA L4, 20")
    assert [gpu.memory_used_mib for gpu in topology.gpus] == [2001, 2000]


@pytest.mark.parametrize(
    "between", ["", "\n", "Mon Nov 30 15:00:17 UTC 2026\n", "$ nvidia-smi --query-gpu=index,name,memory.used --format=csv\n"]
)
def test_a_loop_that_prints_its_titles_each_time_is_a_log(between: str) -> None:
    tables = [
        "index, name, memory.used [MiB]\n" + "".join(f"{k}, NVIDIA L4, {used + k} MiB\n" for k in range(3)) for used in (5, 7000, 90)
    ]
    topology = read_text(between.join(tables))
    assert [gpu.memory_used_mib for gpu in topology.gpus] == [90, 91, 92]
    assert "3 samples of the same GPUs" in " ".join(topology.warnings)
