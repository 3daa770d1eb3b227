"""What is no machine is refused, with words that say what and where; whatever is given, nothing else happens."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.documents.document import to_document
from topologies.documents.document_read import from_document
from topologies.errors import TopologyError
from topologies.model import Topology
from topologies.pages.text import MAX_BYTES
from topologies.read import read_bytes, read_text
from topologies.sources import load

MATRIX = "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b"", ("empty",), id="empty"),
        pytest.param(b" \n\t\r\n", ("empty",), id="blank"),
        pytest.param(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0", ("binary",), id="program"),
        pytest.param(b"PK\x03\x04" + bytes(range(1, 256)) * 4, ("binary",), id="archive"),
        pytest.param(b"hello\nworld\n", ("text:1", "no output that describes GPUs", "'hello'"), id="prose"),
        pytest.param(b"x" * 500, ("begins with", "…"), id="one long word"),
        pytest.param(b"\tGPU0\tGPU1\tCPU Affinity\n", ("text:1", "header but no rows"), id="header alone"),
        pytest.param(b"\tNIC0\tNIC1\nNIC0\t X \tPIX\nNIC1\tPIX\t X \n", ("no GPU",), id="no GPUs"),
        pytest.param(b"No devices were found\n", ("text:1", "finds no GPU"), id="0 GPUs"),
        pytest.param(
            b"GPU0 GPU1\nGPU0 X PIX SYS\nGPU1 PIX X SYS\nGPU2 SYS SYS X SYS\n",
            ("4 link cells", "GPU0, GPU1"),
            id="wide",
        ),
        pytest.param(b"GPU0 GPU0\nGPU0 X PIX\nGPU0 PIX X\n", ("twice",), id="column twice"),
        pytest.param(
            b"GPU0 GPU1\nGPU0 X PIX\nGPU1 PIX X\nGPU1 SYS X\n",
            ("text:4", "GPU1", "lines 3 and 4"),
            id="row twice",
        ),
        pytest.param(b"GPU0 GPU9999\nGPU0 X PIX\nGPU9999 PIX X\n", ("GPU9999",), id="index of no GPU"),
        pytest.param(b"GPU0 GPU%s\nGPU0 X PIX\n" % (b"9" * 5000), ("is no GPU of one host",), id="endless index"),
        pytest.param(b"index, name\n0, NVIDIA L4\n0, NVIDIA L4\n", ("GPU 0", "twice"), id="query row twice"),
        pytest.param(b"index, name\nx, NVIDIA L4\n", ("'x'", "no GPU index"), id="query index"),
        pytest.param(
            MATRIX.encode() + b"\nindex, name\n0, NVIDIA L4\n", ("2 GPUs", "has 1"), id="counts differ"
        ),
    ],
)
def test_refused(data: bytes, words: tuple[str, ...]) -> None:
    with pytest.raises(TopologyError) as caught:
        read_bytes(data, name="text")
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words", "links"),
    [
        pytest.param("GPU0 GPU1\nGPU0 X FOO\nGPU1 FOO X\n", ("unknown code FOO",), {(0, 1): "FOO"}, id="code"),
        pytest.param("GPU0 GPU1\nGPU0 X NV0\nGPU1 NV0 X\n", ("unknown code NV0",), {(0, 1): "NV0"}, id="no links"),
        pytest.param("GPU0 GPU1\nGPU0 X NV4\nGPU1 PIX X\n", ("GPU0 says NV4", "GPU1 says PIX", "unknown"), {}, id="contradiction"),
        pytest.param("GPU0 GPU1\nGPU0 X PIX\nGPU1 PIX X\nGPU2 SYS SYS\n", (), {(0, 1): "PIX", (0, 2): "SYS", (1, 2): "SYS"}, id="tall"),
        pytest.param("GPU0 GPU1\nGPU0 X N/A\nGPU1 SYS X\n", (), {(0, 1): "SYS"}, id="one N/A"),
        pytest.param("GPU0 GPU2\nGPU0 X PIX\nGPU2 PIX X\n", ("does not name GPU1",), {(0, 2): "PIX"}, id="GPU left out"),
        pytest.param(
            "GPU0 GPU1 ... GPU3\nGPU0 X PIX ... SYS\nGPU1 PIX X ... SYS\nGPU3 SYS SYS ... X\n",
            ("left out", "GPU2"), {(0, 1): "PIX", (0, 3): "SYS", (1, 3): "SYS"}, id="columns left out",
        ),
        pytest.param("GPU0 X PIX PXB\nGPU1 PIX X SYS\n", ("header line is missing", "1 link columns"), {(0, 1): "PIX"}, id="unnamed"),
        pytest.param(
            "GPU0 GPU1 GPU2\nGPU0 X PIX SYS\nGPU1 PIX X SYS\nGPU2 SYS X SYS\n", ("X in column 2",),
            {(0, 1): "PIX", (0, 2): "SYS", (1, 2): "SYS"}, id="X elsewhere",
        ),
        pytest.param(
            "GPU0 GPU1 GPU2\nGPU0 X NV4\nGPU1 SYS X SYS\nGPU2 NV4 SYS X\n", ("GPU0 is short",),
            {(0, 1): "SYS", (0, 2): "NV4", (1, 2): "SYS"}, id="short row",
        ),
        pytest.param("GPU0 GPU1\nGPU0 X NV1", ("'NV1'", "may be a cut code", "GPU1"), {}, id="cut code"),
        pytest.param("GPU0 GPU1 GPU2\nGPU0 X NV4 NV2", (), {(0, 1): "NV4", (0, 2): "NV2"}, id="last code whole"),
    ],
)  # fmt: skip
def test_read_with_a_warning(text: str, words: tuple[str, ...], links: dict[tuple[int, int], str]) -> None:
    topology = read_text(text)
    assert dict(topology.links) == links
    said = " ".join(topology.warnings)
    assert said
    for word in words:
        assert word in said


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """200 MB: one byte more than the limit is read, no more."""
    huge = tmp_path / "huge.txt"
    with huge.open("wb") as file:
        file.truncate(200 * 10**6)
    asked = []
    real_open = open

    class Watched:
        def __init__(self, file):
            self._file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self._file.close()

        def read(self, size):
            asked.append(size)
            return self._file.read(size)

    monkeypatch.setattr("builtins.open", lambda *a, **k: Watched(real_open(*a, **k)))
    with pytest.raises(TopologyError, match=r"huge\.txt: larger than 8 MiB"):
        load(str(huge))
    assert asked == [MAX_BYTES + 1]


def test_too_large_data_and_texts_are_refused() -> None:
    with pytest.raises(TopologyError, match="larger than 8 MiB"):
        read_bytes(b" " * (MAX_BYTES + 1), name="x")
    with pytest.raises(TopologyError, match="larger than 8 MiB"):
        read_text(" " * (MAX_BYTES + 1))


def test_reading_takes_time_in_proportion_to_the_text() -> None:
    """Texts of 100 kB that invite backtracking are answered; a quadratic reader would not return."""
    for text in ("GPU0 " * 20_000, "\x1b]" * 50_000, "GPU0 X " * 14_000, "a, " * 30_000, "0: \n" * 25_000, "|" * 10**5,
                 "GPU0\n" * 20_000, "mlx5_" * 20_000, "GPU1 affinity with CPU " * 4_000, MATRIX * 3_000):  # fmt: skip
        try:
            read_text(text)
        except TopologyError:
            continue


ALPHABET = st.sampled_from(
    ["GPU0", "GPU1", "GPU2", "NIC0", "mlx5_0", "X", "NV4", "NV12", "SYS", "PIX", "NODE", "N/A", "OK", "GNS", "CPU Affinity", "NUMA",
     "GPU NUMA ID", "0-31", "0", "\t", " ", "  ", "\n", "|", "---", "...", "0: ", "\x1b[4m", "\\t", "\\n", "Legend:", "NIC0: mlx5_0",
     "index, name", "0, NVIDIA L4, 1 MiB", ",", "schema: placement/topology/v1\n", "gpus:", "[", "{", "}", "- ", "#", "\ufeff",
     "GPU99999999999", "affinity with CPU 0:", "\0", "é"]
)  # fmt: skip


@given(st.lists(ALPHABET, max_size=60).map("".join) | st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    """And what is read survives being written and read again."""
    try:
        topology = read_text(text)
    except TopologyError as error:
        assert "\n" not in str(error)
        return
    assert isinstance(topology, Topology)
    assert from_document(to_document(topology)) == topology


@given(
    st.binary(max_size=200)
    | st.lists(ALPHABET, max_size=30).map(lambda words: "".join(words).encode("utf-16"))
)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        assert isinstance(read_bytes(data, name="x"), Topology)
    except TopologyError as error:
        assert str(error).startswith("x")
