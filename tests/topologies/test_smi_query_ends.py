"""`nvidia-smi -q` that begins or ends within a GPU: what is not known is not told."""

from __future__ import annotations

import dataclasses

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


@given(machine=machines(most=3))
@settings(max_examples=10, deadline=None)
def test_memory_of_mig_instances_above_the_uuid_is_not_that_of_a_gpu(machine: tuple[Card, ...]) -> None:
    card = dataclasses.replace(machine[-1], mig="Enabled", instances=(1000, 2000))
    lines = print_text((card,)).splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if "GPU 0" in line) + 1
    uuid = next(number for number, line in enumerate(lines) if card.uuid in line)
    for begin in range(first, uuid + 1):
        topology = read_text("".join(lines[begin:]))
        assert [(gpu.uuid, gpu.memory_mib) for gpu in topology.gpus] == [(card.uuid, card.gpu(0).memory_mib)], begin
        assert topology.stated["bar1_mib"]["total"] == card.bar1
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


def _kept(text: str, *starts: str, after: int = 0) -> str:
    """Return what ``grep -A`` keeps of *text*: lines whose words begin with one of *starts*, and *after* more below each."""
    lines, left = [], 0
    for line in text.splitlines():
        left = after if line.strip().startswith(starts) else left - 1
        if line.strip().startswith(starts) or left >= 0:
            lines.append(line)
    return "\n".join(lines) + "\n"


GREPS = {
    "bus ids": (("GPU 0", "FB Memory"), 4), "UUIDs": (("GPU UUID", "FB Memory"), 4), "one line each": (("GPU UUID", "FB Mem", "Total"), 0),
    "memory": (("FB Memory",), 4), "names": (("Product Name", "FB Memory", "Used", "Total"), 0), "BAR1": (("GPU 0", "BAR1", "FB"), 3),
}  # fmt: skip


@pytest.mark.parametrize("grep", GREPS.values(), ids=[*GREPS])
@pytest.mark.parametrize("prefix", ["", "> ", "node1: "])
@given(machine=machines(most=3), is_indented=st.booleans())
@settings(max_examples=8, deadline=None)
def test_memory_of_mig_instances_that_lost_their_titles_is_further_in(
    machine: tuple[Card, ...], is_indented: bool, grep: tuple[tuple[str, ...], int], prefix: str
) -> None:
    machine = tuple(dataclasses.replace(card, mig="Enabled", instances=(1000, 2000)) for card in machine)
    text = _kept(print_text(machine), *grep[0], after=grep[1])
    assert "MIG Device" not in text
    assert text.count("FB Memory") == 3 * len(machine)
    topology = read_text("".join(f"{prefix}{'  ' * is_indented}{line}\n" for line in text.splitlines()))
    assert [gpu.memory_mib for gpu in topology.gpus] == [card.gpu(0).memory_mib for card in machine]
    assert all(gpu.memory_used_mib in (card.gpu(0).memory_used_mib, None) for gpu, card in zip(topology.gpus, machine, strict=True))


INSTANCE = (
    "        Index : 0\n        GPU Instance ID : 2\n        Device Attributes\n            Shared\n"
    "                Multiprocessor count : 42\n"
    "        FB Memory Usage\n            Total : 20096 MiB\n            Used : 12 MiB\n"
)
GPU = "    GPU UUID : GPU-00000000-0000-4000-8000-000000000000\n    FB Memory Usage\n        Total : 40960 MiB\n        Used : 30 MiB\n"


@pytest.mark.parametrize("begin", range(5))
@pytest.mark.parametrize("is_stripped", [True, False])
def test_memory_below_what_only_an_instance_has_is_its_own(begin: int, is_stripped: bool) -> None:
    rest = "".join(INSTANCE.splitlines(keepends=True)[begin:])
    text = "".join(f"{line.strip() if is_stripped else line}\n" for line in (rest + GPU).splitlines())
    assert [(gpu.memory_mib, gpu.memory_used_mib) for gpu in read_text(text).gpus] == [(40960, 30)]
    with pytest.raises(TopologyError):    # whose instance it is nobody tells
        read_text(rest + "    MIG Device\n" + INSTANCE)
