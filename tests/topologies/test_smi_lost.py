"""`nvidia-smi -q` of machines of which a GPU is lost, or not shown: the others keep their numbers."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from smi_query_machines import Card, machines, print_text, print_xml

from topologies.documents.document import to_document
from topologies.documents.document_read import from_document
from topologies.merging.identity import BY_MINOR, UNPLACED, bus_key
from topologies.model import Gpu
from topologies.pages.reading import listing
from topologies.read import read_text

MESSAGES = (
    "Unable to determine the device handle for GPU {}: Unknown Error",
    "Unable to determine the device handle for GPU {}",
    "Unable to determine the device handle for GPU2: {}: GPU is lost.  Reboot the system to recover this GPU",
    "Unable to determine the device handle for gpu {}: Unknown Error",
)


def in_order(machine: tuple[Card, ...]) -> tuple[Card, ...]:
    """Return the GPUs as the driver numbers them."""
    return tuple(sorted(machine, key=lambda card: int(re.sub("[:.]", "", card.bus_id), 16)))


def numbered(text: str) -> str:
    """Return *text* with the minor numbers 0, 1, 2 …."""
    numbers = itertools.count()
    return re.sub(r"(Minor Number +: )3", lambda match: match[1] + str(next(numbers)), text)


def parts(machine: tuple[Card, ...]) -> tuple[str, list[str]]:
    """Return the header of the output, and what it prints of each GPU."""
    head, *blocks = re.split(r"(?m)^(?=GPU [0-9A-F]{8}:)", numbered(print_text(machine)))
    return head, blocks


@given(machine=machines(), data=st.data(), message=st.sampled_from(MESSAGES))
@settings(max_examples=40, deadline=None)
def test_a_message_in_place_of_a_gpu_leaves_the_others_their_numbers(
    machine: tuple[Card, ...], data: st.DataObject, message: str
) -> None:
    machine = in_order(machine)
    head, blocks = parts(machine)
    lost = data.draw(st.integers(0, len(machine) - 1))
    if len(machine) == 1:
        return
    said = message.format(machine[lost].bus_id) + "\n"
    in_place = head + "".join(said if index == lost else block for index, block in enumerate(blocks))
    before = said + head + "".join(block for index, block in enumerate(blocks) if index != lost)
    for text in (in_place, before):
        topology = read_text(text + "\n")
        expected = [card.gpu(index) for index, card in enumerate(machine)]
        expected[lost] = Gpu(lost, pci_bus_id=machine[lost].bus_id, is_named=False)
        assert topology.gpus == tuple(expected)
        assert f"GPU{lost} ({machine[lost].bus_id}) does not answer" in topology.warnings[0]
        assert from_document(to_document(topology)) == topology
        if len(machine) > 2:
            assert set(topology.stated["fb_mib"]) == {str(index) for index in range(len(machine)) if index != lost}


@given(machine=machines(), data=st.data())
@settings(max_examples=20, deadline=None)
def test_a_message_before_the_xml_says_the_same(machine: tuple[Card, ...], data: st.DataObject) -> None:
    machine = in_order(machine)
    lost = data.draw(st.integers(0, len(machine) - 1))
    shown = tuple(card for index, card in enumerate(machine) if index != lost)
    if not shown:
        return
    topology = read_text(MESSAGES[0].format(machine[lost].bus_id) + "\n" + print_xml(shown, attached=len(machine)))
    assert topology.gpus[lost] == Gpu(lost, pci_bus_id=machine[lost].bus_id, is_named=False)
    assert [gpu.pci_bus_id for gpu in topology.gpus] == [card.bus_id for card in machine]


def test_a_message_about_a_gpu_that_answers_now_changes_nothing() -> None:
    text = "Attached GPUs : 2\nGPU 00000000:18:00.0\n    Minor Number : 0\nGPU 00000000:2A:00.0\n    Minor Number : 1\n"
    for bus_id in ("00000000:18:00.0", "00000000:3E:00.0"):
        topology = read_text(MESSAGES[0].format(bus_id) + "\n" + text)
        assert [bus_key(gpu.pci_bus_id or "") for gpu in topology.gpus] == ["0:18:00.0", "0:2a:00.0"]
        assert not any("keep" in warning for warning in topology.warnings)


def test_where_the_place_cannot_be_known_the_lost_one_comes_last() -> None:
    """Of eight GPUs two are shown and one is lost: five more may stand before or between them."""
    text = "Attached GPUs : 8\nGPU 00000000:18:00.0\n    Minor Number : 0\nGPU 00000000:4A:00.0\n    Minor Number : 5\n"
    topology = read_text(text + MESSAGES[0].format("00000000:3E:00.0") + "\n")
    assert [gpu.pci_bus_id for gpu in topology.gpus[:3]] == ["00000000:18:00.0", "00000000:4A:00.0", "00000000:3E:00.0"]
    assert len(topology.gpus) == 8
    assert topology.warnings[:2] == ("the GPU at 00000000:3E:00.0 does not answer", UNPLACED)


@pytest.mark.parametrize(
    ("minors", "attached", "places"),
    [
        pytest.param([0, 1, 3], 4, [0, 1, 3], id="one left out in the middle"),
        pytest.param([0, 3], 8, [0, 3], id="more left out"),
        pytest.param([0, 1, 2], 4, [0, 1, 2], id="the last left out"),
        pytest.param([2, 3], 8, [2, 3], id="the first left out"),
        pytest.param([3], 4, [3], id="all but the last left out"),
        pytest.param([0], 4, [0], id="only the first"),
        pytest.param([0, 3, 1], 4, [0, 1, 2], id="numbers that go another way than bus ids"),
        pytest.param([0, 9], 4, [0, 1], id="numbers beyond those attached"),
        pytest.param([0, 0], 4, [0, 1], id="one number twice"),
    ],
)
def test_minor_numbers_tell_who_is_left_out_where_they_go_with_bus_ids(minors: list[int], attached: int, places: list[int]) -> None:
    blocks = "".join(f"GPU 00000000:{k + 16:02X}:00.0\n    Minor Number : {minor}\n" for k, minor in enumerate(minors))
    topology = read_text(f"Attached GPUs : {attached}\n{blocks}")
    assert [gpu.index for gpu in topology.gpus if gpu.is_named] == places
    assert len(topology.gpus) == attached
    if minors != places:
        assert topology.warnings == (UNPLACED,)
    else:
        names = listing([f"GPU{index}" for index in places])
        are = "is" if len(places) == 1 else "are"
        expected = f"{len(places)} of {attached} GPUs {are} shown: {BY_MINOR} ({names})"
        assert topology.warnings == (expected,)


MATRIX = """
\tGPU0\tGPU1\tGPU2\tGPU3\tNUMA Affinity
GPU0\t X \tPIX\tSYS\tSYS\t0
GPU1\tPIX\t X \tSYS\tSYS\t0
GPU2\tSYS\tSYS\t X \tPIX\t1
GPU3\tSYS\tSYS\tPIX\t X \t1

"""
NAMES = "".join(f"GPU {index}: NVIDIA A100-SXM4-40GB (UUID: GPU-{index:08x}-5c73-41e9-953e-613a7f8d0000)\n" for index in (0, 1, 2, 3))


def alone(uuid: int, minor: int | None, *, is_xml: bool) -> str:
    """Return what `-q -i 3` prints of one GPU of four."""
    name, told = "NVIDIA A100-SXM4-40GB", f"GPU-{uuid:08x}-5c73-41e9-953e-613a7f8d0000"
    if is_xml:
        number = "" if minor is None else f"<minor_number>{minor}</minor_number>"
        return (
            f'<?xml version="1.0" ?><nvidia_smi_log><attached_gpus>4</attached_gpus><gpu id="00000000:04:00.0"><product_name>{name}'
            f"</product_name>{number}<uuid>{told}</uuid></gpu></nvidia_smi_log>\n"
        )
    number = "" if minor is None else f"    Minor Number : {minor}\n"
    return f"Attached GPUs : 4\nGPU 00000000:04:00.0\n    Product Name : {name}\n{number}    GPU UUID : {told}\n\n"


@pytest.mark.parametrize("is_xml", [True, False])
def test_a_gpu_that_is_shown_alone_has_its_own_number(is_xml: bool) -> None:
    for text in (alone(3, 3, is_xml=is_xml), MATRIX + alone(3, 3, is_xml=is_xml), alone(3, 3, is_xml=is_xml) + MATRIX):
        topology = read_text(text)
        assert [gpu.index for gpu in topology.gpus if gpu.pci_bus_id or gpu.uuid or gpu.name] == [3]
        assert topology.warnings == (f"1 of 4 GPUs is shown: {BY_MINOR} (GPU3)",)


@pytest.mark.parametrize("is_xml", [True, False])
@pytest.mark.parametrize("minor", [None, 3])
def test_a_uuid_tells_better_than_a_number_which_gpu_is_shown(is_xml: bool, minor: int | None) -> None:
    for text in (NAMES + MATRIX + alone(2, minor, is_xml=is_xml), alone(2, minor, is_xml=is_xml) + NAMES):
        topology = read_text(text)
        assert [gpu.index for gpu in topology.gpus if gpu.pci_bus_id] == [2]
        assert topology.warnings == ()


@pytest.mark.parametrize("is_xml", [True, False])
def test_what_is_said_of_a_gpu_that_nothing_places_is_left_out(is_xml: bool) -> None:
    text = alone(3, None, is_xml=is_xml)
    assert read_text(text).warnings == (UNPLACED,)
    for both in (MATRIX + text, text + MATRIX):
        topology = read_text(both)
        assert not [gpu for gpu in topology.gpus if gpu.pci_bus_id or gpu.uuid or gpu.name]
        assert topology.links == read_text(MATRIX).links
        assert len(topology.warnings) == 1
        assert "00000000:04:00.0" in topology.warnings[0]
        assert topology.warnings[0].endswith("was left out")


def lone(number: int, minor: int | None) -> str:
    told = "" if minor is None else f"    Minor Number : {minor}\n"
    return f"$ nvidia-smi -q -i {number}\nAttached GPUs : 4\nGPU 00000000:0{number + 1}:00.0\n    Product Name : NVIDIA A40\n{told}\n"


@pytest.mark.parametrize("has_minor", [True, False])
def test_gpus_shown_one_by_one_make_the_machine(has_minor: bool) -> None:
    """All four in any order have the numbers of their bus ids, and nothing is left to say."""
    topology = read_text("".join(lone(k, k if has_minor else None) for k in (2, 0, 3, 1)))
    assert [gpu.pci_bus_id for gpu in topology.gpus] == [f"00000000:0{k + 1}:00.0" for k in range(4)]
    assert topology.warnings == ()


def test_gpus_shown_one_by_one_keep_their_numbers_where_others_are_missing() -> None:
    some = read_text("".join(lone(k, k) for k in (3, 1)))
    assert [gpu.index for gpu in some.gpus if gpu.pci_bus_id] == [1, 3]
    assert all(BY_MINOR in warning for warning in some.warnings)
    unplaced = read_text("".join(lone(k, None) for k in (3, 1)))
    assert UNPLACED in unplaced.warnings


def test_facts_by_index_go_with_the_gpus_that_are_placed() -> None:
    """Two GPUs of four, without minor numbers, shown in an order of their own."""
    blocks = [
        f"GPU 00000000:0{k}:00.0\n    FB Memory Usage\n        Total : {k}000 MiB\n        Used : 0 MiB\n        Free : {k}000 MiB\n"
        for k in (4, 2)
    ]
    text = "Attached GPUs : 4\n" + "".join(blocks)
    others = "index, pci.bus_id\n" + "".join(f"{k}, 00000000:0{k + 1}:00.0\n" for k in range(4))
    topology = read_text(others + "\n" + text)
    assert [gpu.memory_mib for gpu in topology.gpus] == [None, 2000, None, 4000]
    assert topology.stated["fb_mib"] == {"1": {"total": 2000, "used": 0, "free": 2000}, "3": {"total": 4000, "used": 0, "free": 4000}}
    assert topology.warnings == ()


@given(machine=machines(), data=st.data())
@settings(max_examples=30, deadline=None)
def test_lanes_that_did_not_come_up_stay_away(machine: tuple[Card, ...], data: st.DataObject) -> None:
    """Of all GPUs in turn, in text and XML: an idle link gets slower, not narrower."""
    index = data.draw(st.integers(0, len(machine) - 1))
    width = machine[index].width
    for text, old, new in (
        (print_text(machine), r"(Link Width\s+Max +: \d+x\s+Current +: )\d+", rf"\g<1>{width // 2}"),
        (print_xml(machine), r"(<current_link_width>)\d+", rf"\g<1>{width // 2}"),
    ):
        spot = list(re.finditer(old, text))[index]
        topology = read_text(text[: spot.start()] + re.sub(old, new, spot[0]) + text[spot.end() :])
        pcie = topology.gpus[index].pcie
        assert pcie is not None
        assert (pcie.width, pcie.current_width) == (width // 2, width // 2)
        assert [w for w in topology.warnings if w.startswith(f"only {width // 2} of the {width} PCIe lanes of GPU {index} came up")]


SOURCES = Path(__file__).parent.parent / "data" / "sources"
WHOLE_LOG = (SOURCES / "q.txt").read_text("utf-8")
HEADLESS = "the output of `nvidia-smi -q` begins within a GPU, and which one is unknown: it was left out"


@pytest.mark.parametrize("first", range(4))
@pytest.mark.parametrize("begin", ["GPU 00000000:", "Product Name", "PCI\n", "GPU Link Info", "BAR1 Memory Usage", "Processes"])
def test_without_its_head_a_log_keeps_the_numbers_that_it_tells(begin: str, first: int) -> None:
    """Copied from the middle of a terminal: GPUs keep their minor numbers, and half a block is no GPU of its own."""
    starts = [match.start() for match in re.finditer("^GPU 0000", WHOLE_LOG, re.MULTILINE)]
    alone = read_text(WHOLE_LOG)
    cut = WHOLE_LOG[WHOLE_LOG.index(begin, starts[first]) :]
    whole_from = first + (begin != "GPU 00000000:")
    if whole_from == len(starts):
        return
    found = read_text(cut)
    assert [gpu.uuid for gpu in found.gpus] == [None] * whole_from + [gpu.uuid for gpu in alone.gpus[whole_from:]]
    assert [gpu.is_named for gpu in found.gpus] == [index >= whole_from for index in range(4)]
    assert (HEADLESS in found.warnings) == (begin != "GPU 00000000:")
    assert any("minor numbers" in warning for warning in found.warnings) == (whole_from > 0)
    unnumbered = read_text(cut.replace("Minor Number", "Other Number"))
    assert [gpu.uuid for gpu in unnumbered.gpus if gpu.is_named] == [gpu.uuid for gpu in alone.gpus[whole_from:]]
    assert any(warning.startswith("not all GPUs") for warning in unnumbered.warnings) == (begin != "GPU 00000000:")


@given(machine=machines(), data=st.data())
@settings(max_examples=30, deadline=None)
def test_a_log_whose_end_is_missing_says_how_many_gpus_it_shows(machine: tuple[Card, ...], data: st.DataObject) -> None:
    machine = in_order(machine)
    lines = numbered(print_text(machine)).splitlines(keepends=True)
    begins = [number for number, line in enumerate(lines) if line.startswith("GPU 0")]
    if len(machine) == 1:
        return
    count = data.draw(st.integers(begins[0] + 2, begins[-1] - 1))
    shown = sum(begin < count - 1 for begin in begins)
    found = read_text("".join(lines[:count]))
    assert len(found.gpus) == len(machine)
    told = [warning for warning in found.warnings if warning.startswith(f"{shown} of {len(machine)} GPUs ")]
    is_excerpt = shown == 1 and found.gpus[0].processes is None and "free" in found.stated.get("bar1_mib", ())
    assert is_excerpt or told or UNPLACED in found.warnings


@pytest.mark.parametrize("is_xml", [True, False])
@pytest.mark.parametrize("shown", [1, 2, 3])
def test_a_log_that_ends_after_a_whole_gpu_says_how_many_it_shows(shown: int, is_xml: bool) -> None:
    """After the first one, too, though `-i 0` prints the same: there, as well, the others are not shown."""
    source = (SOURCES / ("q.xml" if is_xml else "q.txt")).read_text("utf-8")
    starts = [match.start() for match in re.finditer(r"^\s*<gpu id|^GPU 0000", source, re.MULTILINE)]
    found = read_text(source[: starts[shown]] + "</nvidia_smi_log>\n" * is_xml)
    names = listing([f"GPU{index}" for index in range(shown)])
    assert found.warnings == (f"{shown} of 4 GPUs {'is' if shown == 1 else 'are'} shown: {BY_MINOR} ({names})",)
    assert [gpu.is_named for gpu in found.gpus] == [index < shown for index in range(4)]


def test_a_log_cut_within_the_processes_of_the_first_gpu_says_that_the_others_are_not_shown() -> None:
    first = WHOLE_LOG[: WHOLE_LOG.index("GPU 0000", WHOLE_LOG.index("Processes"))]
    found = read_text(first[: first.index("Processes")] + "Processes\n        GPU instance ID : N/A\n")
    assert any(warning.startswith("1 of 4 GPUs is shown") for warning in found.warnings)
    assert any("ends within the processes" in warning for warning in found.warnings)


def test_an_excerpt_of_one_gpu_stands_for_all() -> None:
    """Somebody left out the processes, with which each GPU ends, and so the other GPUs."""
    excerpt = re.sub(r"(?ms)^ +Processes.*", "", WHOLE_LOG[: WHOLE_LOG.index("GPU 0000", WHOLE_LOG.index("Processes"))])
    assert read_text(excerpt).warnings == ()


@given(machine=machines(), more=st.integers(0, 999), is_xml=st.booleans())
@settings(max_examples=30, deadline=None)
def test_a_number_of_gpus_that_more_digits_ran_into_adds_no_gpu(machine: tuple[Card, ...], more: int, is_xml: bool) -> None:
    said = int(f"{len(machine)}{more}")
    found = read_text(numbered((print_xml if is_xml else print_text)(machine, attached=said)) + "\n")
    if said > 16:
        assert [gpu.uuid for gpu in found.gpus] == [card.uuid for card in machine]
        assert any(warning.startswith(f"{said} GPUs are said to be attached, which no host has") for warning in found.warnings)
    else:
        assert len(found.gpus) == said
