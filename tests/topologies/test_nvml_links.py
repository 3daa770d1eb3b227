"""The state, rate and far end of every NVLink, as the driver tells them through the stub library."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nvml_machines import (
    DGX1,
    NO_ARGUMENT,
    NO_PERMISSION,
    NOT_SUPPORTED,
    NOWHERE,
    SWITCHES,
    Answers,
    Driver,
    consumer,
    dgx1,
    joined,
    machine,
    nvlink_s,
    pairs_of_bridges,
    switched,
)

from topologies.read import read_text


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    driver = Driver(tmp_path_factory.mktemp("nvml"))
    yield driver
    driver.close()


def with_unused_links() -> Answers:
    """Return four A100, whose driver lists eighteen links, of which the card has twelve."""
    ends = {gpu: [*SWITCHES, *SWITCHES, *[None] * 6] for gpu in range(4)}
    return machine(4, nvlinks=ends)


def station() -> Answers:
    """Return four V100 of a workstation, whose board leaves two links of each unused."""
    edges = {(0, 1): 1, (0, 2): 1, (0, 3): 2, (1, 2): 2, (1, 3): 1, (2, 3): 1}
    return machine(4, nvlinks=joined(edges, 4, 6), name="Tesla V100-SXM2-32GB", capability="7.0")


def unbridged() -> Answers:
    """Return two cards under a bridge, and two that could have one."""
    return machine(4, nvlinks=joined({(0, 1): 12}, 4, 12), name="NVIDIA A100 80GB PCIe")


def grace() -> Answers:
    """Return four GH200 that are joined directly, each with links to its own CPU."""
    edges = {(i, j): 6 for i in range(4) for j in range(i + 1, 4)}
    answers = machine(4, nvlinks=joined(edges, 4, 18), name="NVIDIA GH200 120GB", capability="9.0")
    for gpu in range(4):
        answers[f"FieldValues {gpu} 170 0"] = "5"
        answers |= {f"FieldValues {gpu} 171 {link}": "1" for link in range(5)}
        answers |= {f"FieldValues {gpu} 172 {link}": "44712" for link in range(5)}
    return answers


HEALTHY: dict[str, Callable[[], Answers]] = {
    "mesh": dgx1, "station": station, "bridges": pairs_of_bridges, "unbridged": unbridged, "switches": switched,
    "field values": lambda: switched(4, 18, capability="9.0"), "unused links": with_unused_links, "no NVLink": consumer,
    "no bridge at all": lambda: machine(2, nvlinks={0: [None] * 12, 1: [None] * 12}, name="NVIDIA A100 80GB PCIe"),
    "Grace": grace, "fewer links than the card": lambda: machine(2, nvlinks=joined({(0, 1): 4}, 2, 4)),
    "two kinds of cards": lambda: machine(3, nvlinks={0: [1] * 4, 1: [0] * 4, 2: [None] * 4}) | {"Name 2": "NVIDIA A40"},
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_links_that_a_board_does_not_use_are_no_fault(driver: Driver, name: str) -> None:
    assert driver.read(HEALTHY[name]()).warnings == ()


@pytest.mark.parametrize("name", ["mesh", "bridges", "switches", "field values", "Grace", "station", "unbridged", "no bridge at all"])
def test_rates_are_those_that_are_printed(driver: Driver, name: str) -> None:
    """Stated in the form, and with the numbers, that are read from `nvlink -s` of the same machine."""
    answers = HEALTHY[name]()
    read = driver.read(answers).stated
    printed = read_text(nvlink_s(answers)).stated["gpu_links_GBps"]
    assert read["gpu_links_GBps"] == printed
    ups = {gpu: sum(rate != "inactive" for rate in facts["links"].values()) for gpu, facts in printed.items()}
    assert read["gpu_links_up"] == ups


def test_links_that_a_card_does_not_have_are_not_listed(driver: Driver) -> None:
    stated = driver.read(with_unused_links()).stated
    assert stated["gpu_links_up"] == {"0": 12, "1": 12, "2": 12, "3": 12}
    assert list(stated["gpu_links_GBps"]["2"]["links"]) == [str(link) for link in range(12)]
    assert driver.read(consumer()).stated == {}
    ends: dict[int, list[str | int | None]] = {gpu: ([1 - gpu] * 4 + [None] * 2) * 3 for gpu in (0, 1)}
    bridged = driver.read(machine(2, nvlinks=ends, name="NVIDIA H100 NVL", capability="9.0"))
    rates = dict.fromkeys([0, 1, 2, 3, 6, 7, 8, 9, 12, 13, 14, 15], 26.562)
    assert bridged.stated["gpu_links_GBps"]["0"]["links"] == {str(link): rate for link, rate in rates.items()}
    assert bridged.warnings == ()


def inactive(warnings: tuple[str, ...]) -> dict[int, set[int]]:
    """Return the links of each GPU that *warnings* call inactive, and check that they count them right."""
    found = {}
    for warning in warnings:
        match = re.fullmatch(r"(\d+) of the \d+ NVLinks of (?:each of )?(GPU .*) (?:is|are) inactive: links? (.*)", warning)
        assert match is not None, warning
        for gpu in numbers(match[2]):
            found[gpu] = set(numbers(match[3]))
            assert len(found[gpu]) == int(match[1])
    return found


def numbers(words: str) -> list[int]:
    found = []
    for first, last in re.findall(r"(\d+)(?: to (?:GPU )?(\d+))?", words):
        found += range(int(first), int(last or first) + 1)
    return found


@st.composite
def degraded(draw: st.DrawFn) -> tuple[Answers, dict[int, set[int]]]:
    """Return a machine some links of which are down, at both ends where two GPUs share them, and which these are."""
    answers = HEALTHY[draw(st.sampled_from(["mesh", "bridges", "switches", "field values", "unused links", "Grace"]))]()
    down: dict[int, set[int]] = {}
    field_first = float(answers["ComputeCapability"]) >= 9
    gpu_of = {answers[f"PciInfo {gpu}"]: gpu for gpu in range(int(answers["Count"]))}

    def fail(gpu: int, link: int) -> None:
        answers[f"FieldValues {gpu} 165 {link}" if field_first else f"NvLinkState {gpu} {link}"] = "0"
        down.setdefault(gpu, set()).add(link)

    for _ in range(draw(st.integers(1, 3))):
        gpu = draw(st.integers(0, len(gpu_of) - 1))
        ends = [key for key in answers if key.startswith(f"NvLinkRemotePciInfo {gpu} ")]
        key = draw(st.sampled_from(ends))
        link = int(key.split()[2])
        if link in down.get(gpu, ()):
            continue
        fail(gpu, link)
        if (peer := gpu_of.get(answers[key])) is not None:
            back = next(
                int(k.split()[2]) for k, end in answers.items()
                if k.startswith(f"NvLinkRemotePciInfo {peer} ") and gpu_of[end] == gpu and int(k.split()[2]) not in down.get(peer, ())
            )  # fmt: skip
            fail(peer, back)
    return answers, down


@settings(max_examples=60)
@given(degraded())
def test_links_that_should_be_up_and_are_not_are_named(driver: Driver, drawn: tuple[Answers, dict[int, set[int]]]) -> None:
    """Where a pair has lost all its links the driver may still call it joined, which is another warning."""
    answers, down = drawn
    topology = driver.read(answers)
    assert inactive(tuple(w for w in topology.warnings if "shows no NVLink between" not in w)) == down
    before = Counter(key.split()[1] for key in answers if key.startswith("NvLinkRemotePciInfo"))
    assert topology.stated["gpu_links_up"] == {
        str(gpu.index): before[str(gpu.index)] - len(down.get(gpu.index, ())) for gpu in topology.gpus
    }
    for gpu, links in down.items():
        rates = topology.stated["gpu_links_GBps"][str(gpu)]["links"]
        assert {int(link) for link, rate in rates.items() if rate == "inactive"} == links


def test_two_dead_links_of_one_gpu(driver: Driver) -> None:
    answers = switched(4, 18, capability="9.0") | {"FieldValues 1 165 3": "0", "FieldValues 1 165 4": "0"}
    topology = driver.read(answers)
    assert topology.warnings == ("2 of the 18 NVLinks of GPU 1 are inactive: links 3, 4",)
    assert topology.links[0, 1] == "NV16"
    everywhere = answers | {f"FieldValues {gpu} 165 3": "0" for gpu in range(4)}
    assert driver.read(everywhere | {"FieldValues 1 165 4": "1"}).warnings == (
        "1 of the 18 NVLinks of each of GPU 0 to GPU 3 is inactive: link 3",
    ), "the card tells what none of them shows"


def test_links_that_are_down_but_which_is_not_clear(driver: Driver) -> None:
    """One of twelve is down, and another of the slots that the card does not use is up instead."""
    ends = {0: [*SWITCHES[:5], None, *SWITCHES[:5], None, SWITCHES[0], *[None] * 5]}
    assert driver.read(machine(1, nvlinks=ends)).warnings == ("1 of the 12 NVLinks of GPU 0 is inactive",)


def test_a_gpu_without_any_link_among_others_that_have_some(driver: Driver) -> None:
    """Behind switches that is a fault, and not where it takes a bridge, nor in MIG mode."""
    ends: dict[int, list[str | int | None]] = {0: [*SWITCHES] * 2, 1: [*SWITCHES] * 2, 2: [None] * 12}
    answers = machine(3, nvlinks=ends)
    topology = driver.read(answers)
    assert topology.warnings == ("all NVLinks of GPU 2 are inactive, but those of others like it are not",)
    assert topology.stated["gpu_links_up"] == {"0": 12, "1": 12, "2": 0}
    assert topology.stated["gpu_links_GBps"]["2"]["state"] == "inactive"
    assert driver.read(answers | {"MigMode 2": "1 1", "MaxMigDeviceCount 2": "7"}).warnings == ()
    assert driver.read(answers | {"Name 2": "NVIDIA A100 80GB PCIe"}).warnings == ()


@pytest.mark.parametrize(
    ("answers", "gpus"),
    [
        pytest.param(switched(4, 18, capability="9.0"), "GPU 0 to GPU 3", id="no fabric manager"),
        pytest.param(switched(2), "GPU 0, GPU 1", id="a state by link"),
        pytest.param(dgx1(), "GPU 0 to GPU 7", id="mesh"),
    ],
)
def test_boards_all_of_whose_links_are_down(driver: Driver, answers: Answers, gpus: str) -> None:
    """As the printed state of the same machine says; one GPU alone may be all that a virtual machine has."""
    dead = {key: "0" if key.startswith("NvLinkState") or " 165 " in key else answer for key, answer in answers.items()}
    dead |= {key: "5" for key in answers if key.startswith("P2PStatus ") and key.endswith(" 2")}
    topology = driver.read(dead)
    assert topology.warnings == (f"all NVLinks of {gpus} are inactive, though their board joins them: the fabric manager may not run",)
    assert not any(code.startswith("NV") for code in topology.links.values())
    assert "all NVLinks of " in " ".join(read_text(nvlink_s(dead)).warnings)
    assert driver.read(dead | {"Count": "1"}).warnings == ()


def test_one_gpu_of_a_mesh_all_of_whose_links_are_down(driver: Driver) -> None:
    """No switch tells that there should be links, but the board does."""
    ends = joined({pair: count for pair, count in DGX1.items() if 3 not in pair}, 8, 6)
    answers = machine(8, nvlinks=ends, name="Tesla V100-SXM2-16GB", capability="7.0", memory_mib=16160)
    assert "all NVLinks of GPU 3 are inactive, but those of others like it are not" in driver.read(answers).warnings


def test_slow_links_are_named(driver: Driver) -> None:
    """Unless they sleep; and one rate for all is no comparison."""
    answers = switched(2, 18, capability="9.0")
    answers |= {"FieldValues 1 164 6": "1562", "FieldValues 1 164 12": "1000", "FieldValues 1 164 17": "1562"}
    answers["FieldValues 1 165 17"] = "2"
    topology = driver.read(answers)
    assert topology.warnings == ("NVLinks of GPU 1 are slow: links 6, 12 (1 to 1.562 GB/s against 26.562 GB/s)",)
    assert topology.stated["gpu_links_GBps"]["1"]["links"]["6"] == 1.562


def test_rates_that_are_not_told(driver: Driver) -> None:
    answers = {key: value for key, value in switched(2).items() if not key.startswith(("FieldValues 0 164", "FieldValues 0 90"))}
    answers["FieldValues 1 164 3"] = "0"
    topology = driver.read(answers)
    assert topology.warnings == ()
    assert list(topology.stated["gpu_links_GBps"]) == ["1"]
    assert "3" not in topology.stated["gpu_links_GBps"]["1"]["links"]
    assert topology.stated["gpu_links_up"] == {"0": 12, "1": 12}
    refused = driver.read(answers | {"FieldValuesCall 0": NO_PERMISSION})
    assert refused.warnings == ("the driver does not tell the NVLink rate of GPU 0 (Insufficient Permissions)",)


def test_where_links_lead(driver: Driver) -> None:
    """To GPUs by bus id, to switches, to a CPU, and to what the driver does not tell."""
    ends: dict[int, list[str | int | None]] = {0: [1, 1, SWITCHES[0], "00000000:E0:00.0", NOWHERE, NOWHERE, None], 1: [0, 0, *[None] * 5]}
    answers = machine(2, nvlinks=ends, name="a card of the future")
    answers |= {"NvLinkRemoteDeviceType 0 3": "0", "NvLinkRemoteDeviceType 0 4": "1", "NvLinkRemoteDeviceType 0 5": "255"}
    answers["NvLinkRemotePciInfo 1 0"] = answers["PciInfo 0"].lower().replace("00000000:", "0000:")
    stated = driver.read(answers).stated
    first, second = answers["PciInfo 0"], answers["PciInfo 1"]
    assert stated["nvlinks_seen"] == {
        first: {second: 2, "switch": 1, "00000000:E0:00.0": 1, "cpu": 1, "unknown": 1}, second: {first: 2},
    }  # fmt: skip
    assert stated["nvswitch_links"] == {first: 2}, "an unknown end is taken for a switch"
    untold = driver.read(switched(2) | {"NvLinkRemotePciInfo 0 3": NO_PERMISSION, "NvLinkRemoteDeviceType 0 3": NO_PERMISSION})
    assert untold.stated["nvlinks_seen"][first] == {"switch": 11, "unknown": 1}
    assert list(untold.stated["nvswitch_links"]) == [second]


def test_links_of_which_not_all_are_told_are_not_counted(driver: Driver) -> None:
    topology = driver.read(switched(2) | {"NvLinkState 0 5": NO_PERMISSION})
    assert topology.stated["gpu_links_up"] == {"1": 12}
    assert list(topology.stated["nvswitch_links"]) == ["00000000:0F:00.0"]
    assert all("inactive" not in warning for warning in topology.warnings)


def test_links_to_the_cpu_of_the_same_chip(driver: Driver) -> None:
    """They are stated of each GPU, and join no pair."""
    answers = grace()
    topology = driver.read(answers)
    assert topology.stated["c2c"] == {gpu.pci_bus_id: {"count": 5, "bw": 44712} for gpu in topology.gpus}
    assert set(topology.links.values()) == {"NV6"}
    assert topology.warnings == ()
    some = driver.read(answers | {"FieldValues 0 171 2": "0", "FieldValues 1 172": NOT_SUPPORTED, "FieldValues 2 170 0": "0"})
    assert [some.stated["c2c"].get(gpu.pci_bus_id, {}).get("count") for gpu in topology.gpus] == [4, 5, None, 5]
    none = {key: value for key, value in answers.items() if " 172 " not in key}
    assert driver.read(none).stated["c2c"]["00000000:07:00.0"] == {"count": 5}
    assert driver.read(none).warnings == ()


@pytest.mark.parametrize("error", [NOT_SUPPORTED, NO_ARGUMENT, NO_PERMISSION])
@pytest.mark.parametrize("is_by_field", [True, False])
@pytest.mark.parametrize("gpu", [0, 3])
@pytest.mark.parametrize("place", ["first", "second", "middle", "last"])
def test_a_link_that_cannot_be_read_makes_the_number_of_links_unknown(
    driver: Driver, error: str, is_by_field: bool, gpu: int, place: str
) -> None:
    answers = switched(4, 18, capability="9.0") if is_by_field else switched(4, 12)
    link = {"first": 0, "second": 1, "middle": 9, "last": 17 if is_by_field else 11}[place]
    hidden = f"FieldValues {gpu} 165 {link}" if is_by_field else f"NvLinkState {gpu} {link}"
    topology = driver.read(answers | {hidden: error})
    whole = driver.read(answers)
    assert topology.links == {pair: code for pair, code in whole.links.items() if gpu not in pair}
    assert "NVLink state" in " ".join(topology.warnings)
    assert f"GPU {gpu}" in " ".join(topology.warnings)
    assert str(gpu) not in topology.stated["gpu_links_up"]
