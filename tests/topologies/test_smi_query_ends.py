"""`nvidia-smi -q` that begins or ends within a GPU: what is not known is not told."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from smi_query_machines import Card, machines, print_text

from topologies.errors import TopologyError
from topologies.merging.identity import UNPLACED
from topologies.read import read_text

HEADLESS = "begins within a GPU, and which one is unknown"


@given(machine=machines(most=2))
@settings(max_examples=4, deadline=None)
def test_who_holds_a_gpu_is_known_only_where_all_of_it_is_shown(machine: tuple[Card, ...]) -> None:
    lines = print_text(machine).splitlines(keepends=True)
    begin = max(number for number, line in enumerate(lines) if line.startswith("    Processes"))
    truth = machine[-1].gpu(0).processes or ()
    for end in range(begin + 1, len(lines) + 1):
        shown = "".join(lines[begin:end])
        whole = shown.count("Used GPU Memory")
        is_known = (whole == shown.count("GPU instance ID") > 0) or "None" in lines[begin]
        topology = read_text("".join(lines[:end]))
        assert topology.gpus[-1].processes == (truth[:whole] if is_known else None)
        assert any("ends within the processes" in warning for warning in topology.warnings) == (not is_known)


@given(machine=machines(most=3), data=st.data())
@settings(max_examples=40, deadline=None)
def test_the_rest_of_the_last_gpu_is_not_the_first_gpu(machine: tuple[Card, ...], data: st.DataObject) -> None:
    lines = print_text(machine).splitlines(keepends=True)
    begin = max(number for number, line in enumerate(lines) if line.startswith("GPU 0")) + 1
    tail = "".join(lines[data.draw(st.integers(begin, len(lines) - 1)) :])
    card = machine[-1]
    try:
        topology = read_text(tail + "\n")
    except TopologyError as error:
        assert HEADLESS in str(error) or "recognised" in str(error)
        assert card.uuid not in tail
        return
    gpu = topology.gpus[0]
    assert (gpu.uuid or gpu.pci_bus_id) in (card.uuid, card.bus_id)
    assert UNPLACED in topology.warnings


@pytest.mark.parametrize("begin", ["    BAR1 Memory Usage", "            Link Width", "    FB Memory Usage"])
def test_the_rest_of_a_gpu_beside_a_matrix_is_left_out_with_a_warning(begin: str) -> None:
    matrix = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-7\nGPU1\tNV4\t X \t0-7\n\n"
    blocks = [
        f"GPU 00000000:0{k}:00.0\n    GPU UUID : GPU-0000000{k}-0000-4000-8000-000000000000\n            Link Width\n"
        f"                Max : 16x\n    FB Memory Usage\n        Total : 81920 MiB\n        Used : 1 MiB\n        Free : 81919 MiB\n"
        "    BAR1 Memory Usage\n        Total : 256 MiB\n    Compute Mode : Default\n    Processes : None\n"
        for k in range(2)
    ]
    rest = blocks[1][blocks[1].index(begin) :]
    alone, both = read_text(matrix), read_text(matrix + rest)
    assert both.gpus == alone.gpus
    assert both.links == alone.links
    assert any(HEADLESS in warning for warning in both.warnings)
    with pytest.raises(TopologyError, match=HEADLESS):
        read_text(rest)
