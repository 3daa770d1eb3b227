"""Long texts: what is looked at is bounded, whatever the text, and an output in a long log is found."""

from __future__ import annotations

import random
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.errors import TopologyError
from topologies.pages import excerpt as module
from topologies.pages.excerpt import LONGEST_LINE, MOST_CHARACTERS, MOST_LINES, excerpt
from topologies.read import read_text

MATRIX = "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n"
LOG = "2024-05-01 10:00:00,123 INFO worker.py:17 step 3, loss 0.123, GPU 0 at 45C\n"


def near(lines: list[str]) -> list[tuple[int, str]]:
    """Return what `_near_outputs` must: the first lines, and those around every telling one."""
    wanted = set(range(module._BEFORE))
    for number, line in enumerate(lines):
        if module._TELLING.search(line):
            wanted.update(range(number - module._BEFORE, number + module._AFTER + 1))
    return [(number + 1, line) for number, line in enumerate(lines) if number in wanted]


@given(st.lists(st.sampled_from((0, 1, 3, 5, 60, 66, 70, 200)), min_size=1, max_size=6), st.booleans())
def test_the_lines_around_telling_ones_are_taken_with_their_numbers(gaps: list[int], ends: bool) -> None:
    lines = [line for gap in gaps for line in (*["a"] * gap, "GPU0\tX")] + ["b"] * gaps[0]
    text = "\n".join(lines) + "\n" * ends
    assert list(module._near_outputs(text)) == near(lines)


@pytest.mark.parametrize("at", [0, 1, 5000, 12000])
def test_a_matrix_in_a_long_log_is_read(at: int) -> None:
    lines = [LOG] * 12000
    lines.insert(at, MATRIX)
    topology = read_text("".join(lines))
    assert dict(topology.links) == {(0, 1): "NV4"}
    assert "were looked at" in topology.warnings[0]


def test_a_short_text_is_looked_at_whole() -> None:
    text = "a\n" * (MOST_LINES - 1)
    assert excerpt(text, name="x") == (list(enumerate(text.split("\n"), start=1)), None)


HOSTILE = (
    "a\n", "\n", "GPU0\n", "#\n", "GPU0 ", "GPU0\t", "\\tGPU0", "0, NVIDIA L4, 100 MiB\n", "|", "| a |\n", "GPU0 X ",
    "GPU0\tX\tNV1\n",
    MATRIX, LOG, "index, name\n1023, NVIDIA L4\n", "a, ", "0: \n", "mlx5_", "GPU1 affinity with CPU ",
    "GPUs with affinity with CPU 1: 1000\n", "\x1b]", "[1;", "NIC0: a\n",
    "GPU0 GPU1\n", "x", "1", "index, name\n0, NVIDIA L4\n", "X ", " ", "\t", "GPU is lost\n", "\r",
    "GPU 0: NVIDIA L4 (UUID: GPU-0)\n", "GPU 1: NVIDIA L4 (UUID: ", "Link 0: 20 GB/s\n", "  MIG 1g.5gb Device 0: (UUID: ",
    "gpuId 0:\n U U\n",
    "index, ", "index, name, ", "| index ", "0, NVIDIA ", "U ", "pid, gpu_uuid\n1, GPU-a\n",
    "unable ", "(UUID:", "'GPU\\n'\n", "\u2028", "é",
)  # fmt: skip


def calls(text: str) -> int:
    """Return how many functions are called to read *text*: work that no other process can slow down."""
    count = 0

    def profile(*_: object) -> None:
        nonlocal count
        count += 1

    previous = sys.getprofile()
    sys.setprofile(profile)
    try:
        read_text("GPU0 " + text + "x")
    except TopologyError:
        pass
    finally:
        sys.setprofile(previous)
    return count


@pytest.mark.parametrize("unit", HOSTILE, ids=repr)
def test_the_work_on_a_large_text_is_bounded(unit: str) -> None:
    """It is no more than for a text of the size that is looked at, up to a few calls for each of its characters."""
    assert calls(unit * (2**20 // len(unit))) < 4 * MOST_CHARACTERS


@pytest.mark.parametrize("unit", HOSTILE, ids=repr)
def test_the_work_on_a_small_text_grows_like_its_size(unit: str) -> None:
    small, large = (calls(unit * (size // len(unit))) for size in (2**11, 2**13))
    assert large < 6 * small + 2**13


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(MATRIX * MOST_LINES, "x:2049: too much of this text", id="many outputs"),
        pytest.param(("GPU0\tX" + " NV1" * 1000 + "\n") * 100, "too much of this text", id="wide outputs"),
        pytest.param("\n" + "GPU0 X " * LONGEST_LINE, "x:2: a line of 229,376 characters", id="long line"),
        pytest.param("\\tGPU0" * 2**18, "the source-code string is too long", id="long string"),
        pytest.param("".join(f"GPU{k}\tX\n" for k in range(1100)), "x:1025: a matrix of more than 1024 rows", id="many rows"),
        pytest.param(MATRIX * 300, "x:770: more than 256 matrices", id="many matrices"),
        pytest.param(
            "index, name\n1023, NVIDIA L4\nindex, memory.total [MiB]\n1023, 23034 MiB\n" * 10, "x:33: 17 outputs with 17,408 GPUs",
            id="many GPUs",
        ),
        pytest.param("\n" * 5000 + "x", "begins with 'blanks'", id="blank first lines"),
        pytest.param("\x1b[0m\n", "begins with 'blanks'", id="escapes alone"),
    ],
)  # fmt: skip
def test_what_is_too_much_is_refused(text: str, words: str) -> None:
    with pytest.raises(TopologyError) as caught:
        read_text(text, name="x")
    assert words in str(caught.value)


def test_a_long_line_without_outputs_does_not_hide_a_matrix() -> None:
    assert dict(read_text("x" * 5 * LONGEST_LINE + "\n" + MATRIX).links) == {(0, 1): "NV4"}


def test_no_line_that_was_kept_is_changed() -> None:
    dice = random.Random(0)
    text = "".join(dice.choice(("a\n", "\n", "GPU0\tX\tNV1\n") if dice.random() < 0.01 else ("a\n", "b\n")) for _ in range(9000))
    lines = text.split("\n")
    found, _ = excerpt(text, name="x")
    assert len(found) < MOST_LINES
    assert all(lines[number - 1] == line for number, line in found)
