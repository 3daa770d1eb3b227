"""Repairs that need more than one matrix or a machine with a story."""

from __future__ import annotations

import json

import pytest

from topologies.document import to_document
from topologies.errors import TopologyError
from topologies.links import LinkKind, parse_code
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
    """The last value counts if another row has it or nothing is missing after it."""
    for text, expected in (
        (PAIR.replace("\t1\t\tN/A\n", ""), "32-63"),
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
