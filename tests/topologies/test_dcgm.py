"""``dcgmi nvlink -s``: other machines, printed as the tool prints them, damaged, and read back."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_read_damage import FEWER, cut, read_any
from test_smi_list import DAMAGES

from topologies.documents.document import to_document
from topologies.errors import TopologyError
from topologies.read import read_text

States = tuple[tuple[str, ...], tuple[str, ...]]
"""The letters of each GPU and each NVSwitch."""


@st.composite
def machines(draw: st.DrawFn) -> States:
    width = draw(st.sampled_from((1, 6, 12, 18)))
    letters = draw(st.sampled_from(("U", "UUUUD", "UDX_", "_")))
    row = st.text(letters, min_size=width, max_size=width)
    return (
        tuple(draw(st.lists(row, min_size=1, max_size=8))),
        tuple(draw(st.lists(st.text(letters, min_size=36, max_size=36), max_size=2))),
    )


def printed(machine: States) -> str:
    gpus, switches = machine
    text = "+----------------------+\n|  NvLink Link Status  |\n+----------------------+\nGPUs:\n"
    text += "".join(f"    gpuId {g}:\n        {' '.join(row)}\n" for g, row in enumerate(gpus))
    text += "NvSwitches:\n"
    text += "".join(f"    physicalId {8 + s}:\n        {' '.join(row)}\n" for s, row in enumerate(switches))
    text += "" if switches else "    No NvSwitches found.\n"
    return text + "\nKey: Up=U, Down=D, Disabled=X, Not Supported=_\n"


def ups(machine: States) -> dict[str, int]:
    return {str(g): row.count("U") for g, row in enumerate(machine[0])}


@given(machine=machines())
def test_links_up_are_counted_and_those_down_are_said(machine: States) -> None:
    topology = read_text(printed(machine))
    assert topology.format == "dcgmi-nvlink"
    assert to_document(topology)["gpu_links_up"] == ups(machine)
    assert [gpu.index for gpu in topology.gpus] == list(range(len(machine[0])))
    said = " ".join(topology.warnings)
    states = "".join((*machine[0], *machine[1]))
    unlike = len({row.count("X") for row in machine[1]}) > 1
    assert (re.search(" (is|are) down: ", said) is not None) == ("D" in states)
    assert (re.search(" (is|are) disabled: ", said) is not None) == ("X" in "".join(machine[0]))
    assert ("NVSwitches differ" in said) == unlike
    assert bool(topology.warnings) == ("D" in states or "X" in "".join(machine[0]) or unlike)
    for g, row in enumerate(machine[0]):
        if "D" in row:
            down = [k for k, letter in enumerate(row) if letter == "D"]
            assert f"{len(down)} of the {len(row)} NVLinks of GPU{g} {'is' if len(down) == 1 else 'are'} down: {down[0]}" in said


@FEWER
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
@given(machine=machines())
def test_a_damage_that_loses_nothing_reads_the_same(damage: Callable[[str], str | bytes], machine: States) -> None:
    topology = read_any(damage("$ dcgmi nvlink -s\n" + printed(machine)))
    assert to_document(topology)["gpu_links_up"] == ups(machine)


@given(machine=machines(), seed=st.integers(0, 2**32))
def test_a_cut_output_is_true_and_says_what_is_missing(machine: States, seed: int) -> None:
    text = cut(printed(machine), random.Random(seed))
    try:
        topology = read_text(text)
    except TopologyError:
        return
    found = to_document(topology)["gpu_links_up"]
    truth = ups(machine)
    assert found.keys() <= truth.keys()
    whole = [g for g in found if int(g) < len(found) - 1]
    assert [found[g] for g in whole] == [truth[g] for g in whole]
    assert all(found[g] <= truth[g] for g in found)
    assert topology.warnings or found == {g: truth[g] for g in found}


@pytest.mark.parametrize(
    ("text", "up", "words"),
    [
        pytest.param("gpuId 0:\nU U D\ngpuId 1:\nU U U\n", {"0": 2, "1": 3}, "1 of the 3 NVLinks of GPU0 is down: 2", id="down"),
        pytest.param("gpuId 0:\nUUX\ngpuId 1:\nU U\n", {"0": 2, "1": 2}, "fewer links of GPU1", id="glued and short"),
        pytest.param("gpuId 0:\nU U\ngpuId 2:\nU U\n", {"0": 2, "2": 2}, "does not name GPU1", id="GPU lost"),
        pytest.param("gpuId 0:\nU U\nphysicalId 8:\nU D\n", {"0": 2}, "1 of the 2 NVLinks of NvSwitch 8 is down: 1", id="switch"),
    ],
)
def test_what_is_odd(text: str, up: dict[str, int], words: str) -> None:
    topology = read_text(text)
    assert to_document(topology)["gpu_links_up"] == up
    assert words in " ".join(topology.warnings)


@pytest.mark.parametrize(
    ("disabled", "words"),
    [
        pytest.param((4, 4), None, id="ports that nothing is wired to"),
        pytest.param((0,), None, id="one switch"),
        pytest.param((36, 36, 36, 36, 36, 36), None, id="switches that nothing is wired to"),
        pytest.param((4, 4, 2, 2), None, id="wired alike in twos"),
        pytest.param((2, 3), "(2 of NvSwitch 8, 3 of NvSwitch 9)", id="two that differ"),
        pytest.param((4, 4, 4, 12, 4, 4), "12 of NvSwitch 11", id="one that differs"),
    ],
)
def test_disabled_ports_of_switches_are_a_fault_only_where_switches_differ(disabled: tuple[int, ...], words: str | None) -> None:
    rows = tuple("U" * (36 - count) + "X" * count for count in disabled)
    warnings = read_text(printed((("U" * 12,) * 4, rows))).warnings
    assert len(warnings) == (words is not None)
    assert words is None or words in warnings[0]


@pytest.mark.parametrize("end", ["g", "gpu", "gpuI", "gpuId", "gpuId 2"])
@pytest.mark.parametrize("lines", ["\n    ", " "])
def test_a_text_that_ends_where_a_gpu_begins_says_that_gpus_are_missing(end: str, lines: str) -> None:
    """Also where line breaks were lost."""
    text = lines.join(["GPUs:", "gpuId 0:", "U U", "gpuId 1:", "U U", end])
    assert read_text(text).warnings == ("the text ends where the next GPU begins: further GPUs are unknown",)


def test_an_output_on_one_line_is_whole() -> None:
    text = " ".join(printed((("UU", "UU"), ())).split())
    assert read_text(text).warnings == ()
    assert read_text(text[: text.index("NvSwitches")]).warnings == ("the text ends within the links of the last device",)


def test_a_matrix_behind_it_is_no_state() -> None:
    """Its X are none of the last GPU."""
    topology = read_text("gpuId 0:\nU U\ngpuId 1:\nU U\n\tGPU0\tGPU1\nGPU0\tX\tNV2\nGPU1\tNV2\tX\n")
    assert to_document(topology)["gpu_links_up"] == {"0": 2, "1": 2}
    assert topology.warnings == ()


def test_an_id_of_no_gpu_is_refused() -> None:
    with pytest.raises(TopologyError, match="99999 is no id of a GPU"):
        read_text("gpuId 99999:\nU U\n")
