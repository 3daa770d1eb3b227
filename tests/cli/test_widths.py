"""Nothing that people read or copy is cut in two, however narrow the terminal."""

from __future__ import annotations

import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.cli.table import BAR, bar, counted, new_table, percent, rendered, width_of
from placement.plans import GpuMemory

WIDTHS = [60, 80, 100]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@given(
    st.lists(st.tuples(*[st.text("abc [/]:", max_size=30)] * 3), min_size=1, max_size=4),
    st.integers(1, 120),
    st.sets(st.sampled_from(["one", "two", "three"])),
)
def test_a_table_keeps_every_word_whole_at_every_width(rows, width, prose):
    table = new_table(("one", "left"), ("two", "right"), ("three", "left"), prose=prose)
    for row in rows:
        table.add_row(*row)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        text = rendered(table, stream=io.StringIO())
    for row in rows:
        for title, cell in zip(("one", "two", "three"), row, strict=True):
            pieces = cell.split() if title in prose else [cell.strip()]
            assert all(piece in text for piece in pieces)


def test_text_from_files_is_no_markup():
    assert rendered("a [/] b [red] :smile:", stream=None) == "a [/] b [red] :smile:\n"


def test_exported_columns_win_and_a_pipe_has_100(monkeypatch):
    monkeypatch.setenv("COLUMNS", "72")
    assert width_of(io.StringIO()) == width_of(Terminal()) == 72
    assert width_of(None) == 100
    monkeypatch.setenv("COLUMNS", "wide")
    assert width_of(io.StringIO()) == 100
    monkeypatch.delenv("COLUMNS")
    assert width_of(io.StringIO()) == 100


@pytest.mark.parametrize("width", WIDTHS)
def test_the_catalog_breaks_no_name(placement, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    listed = json.loads(placement("catalog", "--json").stdout)
    text = placement("catalog").stdout
    words = set(text.split())
    for rows in listed.values():
        for row in rows:
            assert {word for cell in row.values() for word in str(cell).split()} <= words


@pytest.mark.parametrize("width", WIDTHS)
def test_each_gpu_is_one_line_of_the_memory_table(placement, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    process = placement("plan", "--topology", "dgx-b200", "--workload", "ppo-1.5b")
    lines = process.stderr.splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("GPU  memory"))
    assert re.split(r"  +", lines[start].strip()) == ["GPU", "memory", "█ need", "· free", "▒ reserved", "at worst in"]
    for gpu, line in enumerate(lines[start + 2 : start + 10]):
        assert re.fullmatch(rf"  {gpu}  █+·+▒+ +\d+\.\d GiB +\d+\.\d GiB +\d+\.\d GiB  \w+", line)
        assert len(line) <= width


@given(st.integers(1, BAR), st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000))
def test_a_bar_has_its_length_and_shows_what_the_columns_say(length, planned, reserved, free):
    row = GpuMemory(0, max(planned + reserved + free, 1), reserved, planned, None, free)
    drawn = bar(row, length)
    assert len(drawn) <= length + 1     # a reserve of nearly nothing still shows
    assert re.fullmatch("█*·*▒*", drawn)
    assert ("▒" in drawn) == bool(reserved)


def test_amounts_have_one_form():
    assert [percent(share) for share in (0, 0.4, 0.165, 0.1654, 1)] == ["0 %", "40 %", "16.5 %", "16.5 %", "100 %"]
    assert [counted(n, "GPU") for n in (0, 1, 2)] == ["0 GPUs", "1 GPU", "2 GPUs"]


def test_rules_are_listed_with_the_presets(placement):
    text = placement("catalog", "rules").stdout
    for preset in json.loads(placement("catalog", "presets", "--json").stdout):
        assert f"\n{preset['preset']} " in text
