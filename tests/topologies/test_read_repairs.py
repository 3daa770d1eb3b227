"""Repairs that need more than one matrix or a machine with a story."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from topologies.documents.document import to_document
from topologies.errors import TopologyError
from topologies.links import LinkKind, parse_code
from topologies.nvidia.matrix.blocks import find_blocks
from topologies.pages.text import clean
from topologies.read import read_text

HEADER = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
PAIR = HEADER + "GPU0\t X \tNV4\t0-31\t0\t\tN/A\nGPU1\tNV4\t X \t32-63\t1\t\tN/A\n"


def interleaved(*texts: str) -> str:
    """Return the lines of all hosts as they arrive: one each in turn, named."""
    rows = [[f"node{host}: {line}" for line in text.splitlines()] for host, text in enumerate(texts)]
    return "".join("\n".join(lines) + "\n" for lines in zip(*rows, strict=True))


def test_hosts_that_talk_at_once_are_told_apart() -> None:
    """The same matrix is one machine; different ones are several, and either can be picked."""
    assert dict(read_text(interleaved(PAIR, PAIR)).links) == {(0, 1): "NV4"}
    mixed = interleaved(PAIR, PAIR.replace("NV4", "SYS"))
    with pytest.raises(TopologyError, match="2 matrices, and they differ"):
        read_text(mixed)
    assert [read_text(mixed, pick=k).links[0, 1] for k in (1, 2)] == ["NV4", "SYS"]


def test_a_log_with_two_matrices_is_not_two_hosts() -> None:
    """Times go on, so that each row has a prefix of its own."""
    lines = (PAIR + "again\n" + PAIR).splitlines()
    topology = read_text("".join(f"[10:00:{k:02}] {line}\n" for k, line in enumerate(lines)))
    assert dict(topology.links) == {(0, 1): "NV4"}
    assert "prefix" in " ".join(topology.warnings)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("GPU0 GPU1 GPU2\nGPU0 XNV4SYS\nGPU1 NV4XSYS\nGPU2 SYSSYSX\n", "XNV4SYS, NV4XSYS, SYSSYSX", id="all cells"),
        pytest.param("GPU0 GPU1 GPU2CPU Affinity\nGPU0 X NV4 SYS0-3\nGPU1 NV4 X SYS0-3\nGPU2 SYS SYS X0-3\n", "SYS0-3", id="and value"),
        pytest.param("GPU0 GPU1 GPU2\nGPU0 X NV4 SYS\nGPU1 NV4 X SYS\nGPU2 SYS SYSXPIX\n", "1 cells too many", id="too many"),
    ],
)  # fmt: skip
def test_glued_cells_are_split(text: str, words: str) -> None:
    topology = read_text(text)
    assert dict(topology.links) == {(0, 1): "NV4", (0, 2): "SYS", (1, 2): "SYS"}
    assert words in " ".join(topology.warnings)
    if topology.columns == {"links", "cpu_affinity"}:
        assert [gpu.cpu_affinity for gpu in topology.gpus] == ["0-3"] * 3


def test_a_number_glued_to_a_bond_is_not_guessed() -> None:
    """NV120-3 is NV12 and 0-3 or NV1 and 20-3."""
    topology = read_text("GPU0 GPU1 CPU Affinity\nGPU0 X NV120-3\nGPU1 NV12 X 0-3\n")
    assert dict(topology.links) == {(0, 1): "NV12"}
    assert topology.gpus[0].cpu_affinity is None
    assert "GPU0" in " ".join(topology.warnings)


def test_devices_of_an_unseen_name_are_known_from_the_header() -> None:
    """A NIC of a new kind is a NIC if it is called like one; anything else is ignored, with a warning."""
    text = "\tGPU0\tGPU1\tbnxt_re0\txyz\nGPU0\tX\tPIX\tPIX\tSYS\nGPU1\tPIX\tX\tSYS\tSYS\n{}\tPIX\tSYS\tX\tSYS\nxyz\tSYS\tSYS\tSYS\tX\n"
    topology = read_text(text.format("bnxt_re0"))
    assert topology.nics == {"bnxt_re0": "bnxt_re0"}
    assert topology.gpu_nic == {0: {"bnxt_re0": "PIX"}, 1: {"bnxt_re0": "SYS"}}
    assert topology.warnings == ("device xyz is no GPU and no NIC, so it was ignored",)


def test_a_column_that_nobody_has_seen_is_ignored_with_a_warning() -> None:
    text = (
        PAIR.replace("CPU Affinity", "Fabric Id\tCPU Affinity")
        .replace("0-31", "7\t0-31")
        .replace("32-63", "7\t32-63")
    )
    topology = read_text(text)
    assert topology.extra_columns == ("Fabric Id",)
    assert [(gpu.cpu_affinity, gpu.numa, gpu.gpu_numa_id) for gpu in topology.gpus] == [
        ("0-31", "0", "N/A"),
        ("32-63", "1", "N/A"),
    ]
    assert "'Fabric Id'" in topology.warnings[0] or "Fabric Id" in topology.warnings[0]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        pytest.param("GPU1  PIX   X     4-7     1", ("4-7", "1"), id="both"),
        pytest.param("GPU1  PIX   X     4-7", ("4-7", None), id="first"),
        pytest.param("GPU1  PIX   X                   1", (None, "1"), id="second"),
        pytest.param("GPU1  PIX   X            ?", (None, None), id="between"),
    ],
)
def test_a_retyped_table_is_read_by_its_titles(row: str, expected: tuple[str | None, str | None]) -> None:
    """Columns that do not stand on tab stops: a value belongs to the title above it."""
    text = f"      GPU0  GPU1  CPU Affinity  NUMA Affinity\nGPU0   X    PIX   0-3           0\n{row}\n"
    topology = read_text(text)
    assert (topology.gpus[1].cpu_affinity, topology.gpus[1].numa) == expected
    assert dict(topology.links) == {(0, 1): "PIX"}


def test_the_command_above_says_which_matrix_it_is() -> None:
    assert read_text("$ nvidia-smi topo -mp\n" + PAIR.replace("NV4", "SYS")).format == "topo-mp"
    assert read_text("$ nvidia-smi topo -mp\n$ nvidia-smi topo -m\n" + PAIR).format == "topo-m"


def test_a_peer_matrix_is_no_matrix_of_links() -> None:
    text = "$ nvidia-smi topo -p2p r\n \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tOK\tX\t\n"
    topology = read_text(text)
    assert (topology.format, dict(topology.p2p), topology.p2p_kind, dict(topology.links)) == (
        "p2p",
        {(0, 1): "OK"},
        "r",
        {},
    )
    cut = read_text("GPU0 GPU1 GPU2\nGPU0 X OK GNS\n")
    assert "peer-to-peer states are unknown between some of GPU1, GPU2" in " ".join(cut.warnings)


def test_the_affinity_of_a_text_that_ends_early_is_unknown() -> None:
    """The last value counts only if another row has it: others have more cells, so that the text may end within it."""
    for text, expected in (
        (PAIR.replace("\t1\t\tN/A\n", ""), None),
        (PAIR.replace("32-63\t1\t\tN/A\n", "32-"), None),
        (PAIR.replace("32-63\t1\t\tN/A\n", ""), None),
        (PAIR.replace("32-63\t1\t\tN/A\n", "0-3"), None),
        (PAIR.replace("32-63\t1\t\tN/A\n", "0-31"), "0-31"),
    ):
        assert read_text(text).gpus[1].cpu_affinity == expected


def test_a_bar_in_prose_makes_no_table() -> None:
    assert dict(read_text("run | grep | GPU0\n" + PAIR).links) == {(0, 1): "NV4"}


@pytest.mark.parametrize(("end", "name"), [("mlx5_bond_1", "mlx5_bond_1"), ("mlx5_bo", None)], ids=["whole", "cut"])
def test_the_name_of_a_nic_that_the_text_ends_in_is_whole_or_unknown(end: str, name: str | None) -> None:
    matrix = "GPU0 NIC0 NIC1\nGPU0 X PIX SYS\nNIC0 PIX X SYS\nNIC1 SYS SYS X\n"
    topology = read_text(f"{matrix}\nNIC Legend:\n\n  NIC0: mlx5_bond_0\n  NIC1: {end}")
    assert topology.nics == {"NIC0": "mlx5_bond_0", "NIC1": name}
    assert bool(topology.warnings) == (name is None)


@pytest.mark.parametrize("code", ["NV١٢", "NV１２", "NV¹"])
def test_only_ascii_digits_count_in_a_code(code: str) -> None:
    topology = read_text(f"\tGPU0\tGPU1\nGPU0\t X \t{code}\nGPU1\t{code}\t X \n")
    assert parse_code(topology.link(0, 1)) == (LinkKind.UNKNOWN, 0)
    assert topology.warnings


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\tGPU٠\tGPU١\nGPU٠\t X \tNV4\nGPU١\tNV4\t X \n", id="label"),
        pytest.param("index, name\n٠, NVIDIA L4\n", id="index"),
        pytest.param("GPUs with an affinity with CPU ٣: 0\n", id="CPU"),
        pytest.param("GPUs with an affinity with CPU 3: ٠\n", id="near"),
    ],
)
def test_only_ascii_digits_count_in_an_index(text: str) -> None:
    with pytest.raises(TopologyError):
        read_text(text)


def test_only_ascii_digits_count_in_a_memory_size_or_an_affinity() -> None:
    topology = read_text("index, name, memory.total [MiB]\n0, NVIDIA L4, ٩ MiB\n")
    assert topology.gpus[0].memory_mib is None
    assert "'٩ MiB'" in topology.warnings[0]
    assert read_text("\tGPU0\tCPU Affinity\nGPU0\t X \t٠-٣\n").gpus[0].cpu_affinity is None


def named(text: str) -> list[int]:
    return [gpu.index for gpu in read_text(text).gpus if gpu.is_named]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("GPU4 GPU5\nGPU4 X PIX\nGPU5 PIX X\n", [4, 5], id="high numbers"),
        pytest.param("GPU0 GPU1 GPU2\nGPU0 X PIX SYS\nGPU1 PIX X SYS\n", [0, 1, 2], id="row cut"),
        pytest.param("GPU0 X PIX\nGPU1 PIX X\n", [0, 1], id="header lost"),
        pytest.param("GPU0 ... GPU3\nGPU0 X ... SYS\nGPU3 SYS ... X\n", [0, 3], id="columns left out"),
        pytest.param("GPU1 GPU2\nGPU1 X OK\nGPU2 OK X\n", [1, 2], id="peer states"),
        pytest.param("index, name\n2, NVIDIA L4\n3, NVIDIA L4\n", [2, 3], id="query"),
        pytest.param("GPUs with an affinity with CPU 3: 1, 3\n", [1, 3], id="near a CPU"),
        pytest.param("GPU1 GPU2\nGPU1 X PIX\nGPU2 PIX X\nindex, name\n0, NVIDIA L4\n2, NVIDIA L4\n", [0, 1, 2], id="two outputs"),
        pytest.param("GPU0 GPU1\nGPU0 X PIX\nGPU1 PIX X\nGPUs with an affinity with CPU 3: 1\n", [0, 1], id="matrix and CPU"),
    ],
)  # fmt: skip
def test_gpus_that_no_source_names_are_marked(text: str, expected: list[int]) -> None:
    """They stay in the list, because indices have no gaps, and in the document."""
    assert named(text) == expected
    document = to_document(read_text(text))
    assert [gpu["index"] for gpu in document["gpus"] if gpu.get("is_named", True)] == expected
    assert named(json.dumps(document)) == expected


def affinities(*rows: str) -> tuple[list[tuple[str | None, str | None, str | None]], str]:
    """Return the affinity of the GPUs of a matrix whose rows end in *rows*, and what was said."""
    lines = ["\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"]
    for index, row in enumerate(rows):
        cells = [" X " if index == other else "SYS" for other in range(3)]
        lines.append("\t".join((f"GPU{index}", *cells)) + "\t" + row)
    read = read_text("\n".join(lines) + "\n")
    return [(gpu.cpu_affinity, gpu.numa, gpu.gpu_numa_id) for gpu in read.gpus], " ".join(read.warnings)


UNKNOWN = (None, None, None)


@pytest.mark.parametrize("row", ["1\tN/A", "32-63\t1", "32-631\tN/A", "32-631", "N/A", "", "32-63\t\tN/A"])
def test_a_row_with_fewer_affinity_cells_than_the_others_says_nothing(row: str) -> None:
    """A cell or a tab was lost, and any of them may be it; the driver prints one tab more before the last column."""
    extra = "\t" if "\t\t" in row else ""
    found, said = affinities(f"0-31\t0\t{extra}N/A", row, f"64-95\t2\t{extra}N/A")
    assert found == [("0-31", "0", "N/A"), UNKNOWN, ("64-95", "2", "N/A")]
    assert "row GPU1: affinity cells are missing or glued together" in said


def test_rows_that_all_lost_the_same_tab_say_nothing() -> None:
    found, said = affinities("0-310\tN/A", "32-631\tN/A", "64-952\tN/A")
    assert found == [UNKNOWN] * 3
    assert "row GPU0 to GPU2: affinity cells are missing or glued together" in said


def test_blank_affinity_cells_that_tabs_show_are_no_damage() -> None:
    found, said = affinities("0-31\t0\tN/A", "\t1\tN/A", "64-95\t\t")
    assert found == [("0-31", "0", "N/A"), (None, "1", "N/A"), ("64-95", None, None)]
    assert said == ""


NIC_COLUMNS = "\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\nGPU0\tSYS\tPXB\t0-31\t0\nGPU1\tPXB\tPIX\t0-31\t0\n"


@pytest.mark.parametrize("then", [lambda text: text, lambda text: text.expandtabs(8), lambda text: text.replace("\t", " ")])
def test_columns_of_nics_alone_are_no_columns_of_gpus(then: Callable[[str], str]) -> None:
    read = read_text(then(NIC_COLUMNS))
    assert (dict(read.links), read.links_complete) == ({}, False)
    assert {gpu: dict(found) for gpu, found in read.gpu_nic.items()} == {
        0: {"NIC0": "SYS", "NIC1": "PXB"},
        1: {"NIC0": "PXB", "NIC1": "PIX"},
    }
    read = read_text(then(NIC_COLUMNS.split("\n", 1)[1]))
    assert (dict(read.links), dict(read.gpu_nic), read.links_complete) == ({}, {}, False)


@pytest.mark.parametrize(
    "text",
    [
        "\tGPU0\tGPU1\tGPU2\tGPU3\nGPU0\tNODE\tSYS\nGPU1\tNODE\tSYS\nGPU2\tPXB\tPHB\nGPU3\tPHB\tPXB\n",
        "\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\tPXB\tSYS\t0-31\nGPU1\tPHB\tNODE\t32-63\n",
        "\tGPU0\tGPU1\tGPU2\tGPU3\nGPU2\tPXB\tPHB\nGPU3\tPHB\tPXB\n",
    ],
)
def test_rows_without_an_x_in_their_own_column_are_of_other_columns(text: str) -> None:
    read = read_text(text)
    assert (dict(read.links), dict(read.gpu_nic), read.links_complete) == ({}, {}, False)


def test_a_short_row_keeps_what_stands_before_its_x_where_other_rows_prove_the_columns() -> None:
    read = read_text("\tGPU0\tGPU1\tGPU2\nGPU0\t X \tNV4\tSYS\nGPU1\tNV4\t X \tPHB\nGPU2\tSYS\n")
    assert dict(read.links) == {(0, 1): "NV4", (0, 2): "SYS", (1, 2): "PHB"}


@pytest.mark.parametrize("values", ["0-31\t\t\tN/A", "0-31\t0", "0-31,64-95\t\t\tN/A", "\t1\t\tN/A"])
@pytest.mark.parametrize("gap", [" ", "  ", "   "])
@pytest.mark.parametrize("x", [" X ", "X"])
def test_fewer_affinity_cells_than_titles_say_nothing_where_blanks_are_gone(values: str, gap: str, x: str) -> None:
    """A number of a NUMA node or an N/A that moved to the left is no list of CPUs."""
    text = f"{HEADER}GPU0\t{x}\tNV4\t{values}\nGPU1\tNV4\t{x}\t{values}\n"
    for part in (text, text.split("\n", 1)[1]) if "N/A" in values else (text,):
        read = read_text(re.sub("\t+", gap, part))
        assert [(gpu.cpu_affinity, gpu.numa) for gpu in read.gpus] == [(None, None)] * 2
        assert any("cannot tell" in warning or "nobody can tell" in warning for warning in read.warnings)
        assert dict(read.links) == {(0, 1): "NV4"}


@pytest.mark.parametrize("lost", range(1, 5))
@pytest.mark.parametrize("nic", ["ibp99s0", "mlx5_10", "rocep9s0f1"])
def test_a_cut_label_at_the_end_of_the_header_is_that_of_the_only_row_that_can_be_its_own(nic: str, lost: int) -> None:
    rows = f"GPU0\tX\tPIX\tSYS\nibp12s0\tPIX\tX\tNODE\n{nic}\tSYS\tNODE\tX\n"
    read = read_text(f"\tGPU0\tibp12s0\t{nic[:-lost]}\n{rows}")
    assert dict(read.gpu_nic[0]) == {"ibp12s0": "PIX", nic: "SYS"}
    assert read.warnings


@pytest.mark.parametrize("cut", ["ibp99s", "rocep9s0f"])
def test_a_cut_label_that_begins_like_another_names_no_device(cut: str) -> None:
    read = read_text(f"\tGPU0\tibp12s0\t{cut}\nGPU0\tX\tPIX\tSYS\n")
    assert dict(read.gpu_nic[0]) == {"ibp12s0": "PIX"}
    assert any(cut in warning for warning in read.warnings)


@pytest.mark.parametrize("width", range(30, 140, 7))
def test_a_wrapped_table_of_amd_is_no_matrix_of_nvidia(width: int) -> None:
    gpus = range(12)
    rows = [f"GPU{i}   " + "".join(f"{'0' if i == j else 'XGMI':13}" for j in gpus) for i in gpus]
    title = "=" * 31 + " Link Type between two GPUs " + "=" * 31
    lines = [title, "       " + "".join(f"{f'GPU{j}':13}" for j in gpus), *rows]
    text = "\n".join(line[k : k + width] for line in lines for k in range(0, len(line), width))
    assert find_blocks(clean(text, name="<text>")) == []


@pytest.mark.parametrize("number", ["0", "1"])
def test_a_lone_number_without_a_header_is_no_list_of_cpus(number: str) -> None:
    read = read_text(f"GPU0 X NV4 {number}\nGPU1 NV4 X {number}\n")
    assert [(gpu.cpu_affinity, gpu.numa) for gpu in read.gpus] == [(None, None)] * 2


def test_a_column_that_all_rows_lost_makes_no_link_after_their_x() -> None:
    rows = "GPU0\t X \tNV1\tNODE\nGPU1\tNV1\t X \tNODE\nGPU2\tSYS\tSYS\tPXB\n"
    read = read_text("\tGPU0\tGPU1\tGPU2\tNIC0\n" + rows)
    assert (dict(read.links), read.links_complete) == ({(0, 1): "NV1"}, False)
