"""Drivers that do not answer everything: one call that fails never fails the reading, and what is not known is never guessed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nvml_machines import (
    DGX1,
    LOST,
    NO_PERMISSION,
    NOT_SUPPORTED,
    NOWHERE,
    PHB,
    ROOT,
    SWITCHES,
    UNKNOWN,
    Answers,
    Driver,
    consumer,
    dgx1,
    joined,
    machine,
    pairs_of_bridges,
    switched,
    topo_m,
)

from topologies.errors import TopologyError
from topologies.model import Gpu
from topologies.parts import Pcie, Process
from topologies.read import read_text


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    driver = Driver(tmp_path_factory.mktemp("nvml"))
    yield driver
    driver.close()


def links_of(answers: Answers) -> dict[tuple[int, int], str]:
    return dict(read_text(topo_m(answers)).links)


FACTS = {
    "Name": ("name", "name"),
    "UUID": ("uuid", "UUID"),
    "MemoryInfo": ("memory_mib", "memory"),
    "PciInfo": ("pci_bus_id", "PCI bus id"),
    "ComputeCapability": ("compute_capability", "compute capability"),
    "ComputeRunningProcesses": ("processes", "processes"),
    "MigMode": ("mig", "MIG mode"),
    "FabricInfo": ("fabric", "NVLink fabric"),
    "CpuAffinity": ("cpu_affinity", "CPU affinity"),
    "MemoryAffinity": ("numa", "NUMA affinity"),
    "NumaNodeId": ("gpu_numa_id", "NUMA id"),
}
"""Call to the field that it fills, and what warnings call it."""


@pytest.mark.parametrize("code", [NO_PERMISSION, UNKNOWN])
@pytest.mark.parametrize("call", FACTS)
def test_a_call_that_fails_leaves_one_fact_unknown(driver: Driver, call: str, code: str) -> None:
    whole = machine(2) | {"FabricInfo": "0123456789abcdef0123456789abcdef 7 3 0 1", "NumaNodeId 0": "4", "NumaNodeId 1": "12"}
    topology = driver.read(whole | {f"{call} 0": code})
    expected = driver.read(whole)
    field, word = FACTS[call]
    changes = {field: None}
    if call == "MemoryInfo":
        changes |= {"memory_used_mib": None, "memory_reserved_mib": None}
    assert topology.gpus[0] == expected.gpus[0].replace(**changes)
    assert topology.gpus[1:] == expected.gpus[1:]
    assert topology.links == expected.links
    reason = {NO_PERMISSION: "Insufficient Permissions", UNKNOWN: "Unknown Error"}[code]
    assert topology.warnings == (f"the driver does not tell the {word} of GPU 0 ({reason})",)


@pytest.mark.parametrize("call", ["FabricInfo", "NumaNodeId", "MigMode", "GraphicsRunningProcesses", "NvLinkState"])
def test_what_many_machines_lack_is_no_warning(driver: Driver, call: str) -> None:
    assert driver.read(consumer() | {call: NOT_SUPPORTED}).warnings == ()


def test_what_only_one_of_some_like_cards_lacks_is_a_warning(driver: Driver) -> None:
    """Unless the card is another one, which need not have it."""
    answers = machine(3) | {"MigMode 2": NOT_SUPPORTED}
    assert driver.read(answers).warnings == ("the driver does not tell the MIG mode of GPU 2 (Not Supported)",)
    assert driver.read(answers | {"Name 2": "Tesla T4"}).warnings == ()


def test_failures_with_the_same_reason_are_one_sentence(driver: Driver) -> None:
    """A virtual machine: no affinity, and every path is the same."""
    answers = machine(8, levels=PHB) | dict.fromkeys(
        [f"{call} {gpu}" for call in ("CpuAffinity", "MemoryAffinity") for gpu in range(8)], NOT_SUPPORTED
    )
    topology = driver.read(answers)
    assert set(topology.links.values()) == {"PHB"}
    assert {(gpu.cpu_affinity, gpu.numa, gpu.gpu_numa_id) for gpu in topology.gpus} == {(None, None, "N/A")}
    assert topology.columns == {"links", "gpu_numa_id"}
    assert topology.warnings == (
        "the driver does not tell the NUMA affinity and CPU affinity of GPU 0 to GPU 7 (Not Supported)",
    )


def test_a_container_without_rights_still_shows_its_cards(driver: Driver) -> None:
    """Everything but names, ids and the list is refused."""
    kept = ("Count", "Name", "UUID", "PciInfo", "ComputeCapability")
    answers = {key: value if key.startswith(kept) else NO_PERMISSION for key, value in dgx1().items()}
    answers |= {"NvLinkState": NO_PERMISSION, "FieldValuesCall": NO_PERMISSION}
    answers = {key: value for key, value in answers.items() if not key.startswith(("NvLinkCount", "DriverVersion"))}
    topology = driver.read(answers)
    assert [gpu.name for gpu in topology.gpus] == ["Tesla V100-SXM2-16GB"] * 8
    assert (dict(topology.links), dict(topology.p2p), topology.p2p_kind) == ({}, {}, None)
    assert all("GPU" in warning for warning in topology.warnings)
    assert len(topology.warnings) == 3
    assert "between GPUs 0-1, 0-2, 0-3, 0-4, 0-5, 0-6, 0-7, 1-2, 1-3, 1-4, 1-5, 1-6 and 16 more pairs" in topology.warnings[-1]


def test_a_lost_gpu_is_left_out_with_its_number(driver: Driver) -> None:
    """GPU 3 of a mesh is lost when the list is read: its neighbours' links to it are no links to switches."""
    topology = driver.read(dgx1() | {"HandleByIndex 3": LOST})
    rest = [0, 1, 2, 4, 5, 6, 7]
    expected = links_of(dgx1())
    assert [gpu.uuid[-1] for gpu in topology.gpus if gpu.uuid] == list(map(str, rest))
    assert topology.links == {(i, j): expected[rest[i], rest[j]] for i in range(7) for j in range(i + 1, 7)}
    assert topology.warnings == (
        "GPU 3 of the driver's list does not answer (GPU is lost): it is left out",
        "GPU 4 to GPU 7 of the driver's list move up: here they are GPU 3 to GPU 6",
    )


def test_an_end_that_may_be_the_lost_gpu_or_a_switch_is_unknown(driver: Driver) -> None:
    """The driver tells no kinds of ends: a pair that shares no link may be joined by the switch that the end may be."""
    answers = dgx1() | {"HandleByIndex 3": LOST}
    for gpu in range(8):
        answers |= {f"NvLinkRemoteDeviceType {gpu} {link}": NOT_SUPPORTED for link in range(6)}
    topology = driver.read(answers)
    rest = [0, 1, 2, 4, 5, 6, 7]
    expected = links_of(dgx1())
    truth = {(i, j): expected[rest[i], rest[j]] for i in range(7) for j in range(i + 1, 7)}
    assert topology.links.items() <= truth.items()
    unknown = {(rest[i], rest[j]) for i, j in truth.keys() - topology.links.keys()}
    neighbours = {a if b == 3 else b for a, b in DGX1 if 3 in (a, b)}
    assert unknown == {
        (i, j) for i in neighbours for j in neighbours if i < j and (i, j) not in DGX1
    }
    assert any("because not all of their NVLinks could be read" in warning for warning in topology.warnings)


@settings(max_examples=50)
@given(st.integers(0, 7), st.integers(0, 90))
def test_a_gpu_may_be_lost_at_any_time(driver: Driver, gpu: int, after: int) -> None:
    """What is left is the same machine without it; nothing else is said to be wrong."""
    topology = driver.read(dgx1() | {f"Lost {gpu}": str(after)})
    if len(topology.gpus) == 8:
        assert topology.warnings == ()
        return
    rest = [other for other in range(8) if other != gpu]
    expected = links_of(dgx1())
    assert topology.links == {(i, j): expected[rest[i], rest[j]] for i in range(7) for j in range(i + 1, 7)}
    assert f"GPU {gpu}" in topology.warnings[0]
    assert "of the driver's list does not answer (GPU is lost): it is left out" in topology.warnings[0]
    assert len(topology.warnings) == 1 + (gpu < 7)


def test_the_last_call_about_a_pair_can_lose_a_gpu(driver: Driver) -> None:
    """So that the property above is known to reach the end: a GPU with many calls left is not lost."""
    assert len(driver.read(dgx1() | {"Lost 7": "45"}).gpus) == 7
    assert len(driver.read(dgx1() | {"Lost 7": "1000"}).gpus) == 8


KEYS = ("NvLinkState", "FieldValues", "NvLinkRemotePciInfo", "NvLinkRemoteDeviceType", "TopologyCommonAncestor", "P2PStatus",
        "PciInfo", "ComputeCapability", "HandleByIndex", "MemoryInfo", "Name", "MigMode")  # fmt: skip


@st.composite
def failing(draw: st.DrawFn) -> tuple[Answers, Answers]:
    """Return a machine, and the same one of which some calls fail."""
    whole = draw(
        st.sampled_from(
            [
                dgx1(), pairs_of_bridges(), switched(4), switched(3, 18, capability="9.0"), switched(2, end=NOWHERE),
                machine(3, nvlinks=joined({(0, 1): 3, (1, 2): 2}, 3, 6), capability="9.0"), consumer(),
            ]
        )
    )  # fmt: skip
    count = int(whole["Count"])
    whole |= {f"{call} {gpu}": whole[call] for call in KEYS if call in whole for gpu in range(count)}
    candidates = [key for key in whole if key.startswith(KEYS) and " " in key]
    candidates += [f"HandleByIndex {gpu}" for gpu in range(count)]
    broken = draw(st.lists(st.sampled_from(candidates), min_size=1, max_size=6))
    codes = st.sampled_from([NO_PERMISSION, UNKNOWN, LOST, "!13", "!27", "!16"])
    return whole, whole | {key: draw(codes) for key in broken}


@given(failing())
def test_no_failure_makes_a_link_wrong(driver: Driver, answers: tuple[Answers, Answers]) -> None:
    """Whatever fails, a link that is stated is the true one, and something that is not stated is warned of."""
    whole, broken = answers
    expected = links_of(whole)
    try:
        topology = driver.read(broken)
    except TopologyError as error:
        assert "no GPU that answers" in str(error)
        return
    index_of = {f"GPU-00000000-0000-0000-0000-{gpu:012}": gpu for gpu in range(int(whole["Count"]))}
    old = [index_of[gpu.uuid or ""] for gpu in topology.gpus]
    assert old == sorted(old)
    for (i, j), code in topology.links.items():
        assert code == expected[old[i], old[j]]
    if not topology.links_complete or len(old) < len(index_of):
        assert topology.warnings


CODES = [*range(1, 31), 999]
CALLS = (
    "HandleByIndex 0", "PciInfo 0", "Name 0", "UUID 0", "ComputeCapability 0", "MemoryInfo 0", "MemoryInfoV2 0", "MigMode 0",
    "ComputeRunningProcesses 0", "GraphicsRunningProcesses 0", "MaxPcieLinkGeneration 0",
    "CurrPcieLinkWidth 0", "CpuAffinity 0", "MemoryAffinity 0", "NumaNodeId 0", "FabricInfo 0",
    "NvLinkState 0 2", "FieldValuesCall 0", "FieldValues 0 164 2", "FieldValues 0 165 2", "FieldValues 0 170 0",
    "FieldValues 0 171 0", "FieldValues 0 172 0", "NvLinkRemotePciInfo 0 0", "NvLinkRemoteDeviceType 0 2",
    "TopologyCommonAncestor 0 2", "P2PStatus 0 1 0", "P2PStatus 0 1 1", "P2PStatus 0 1 2", "MaxMigDeviceCount 2", "MigUUID 2 0",
    "MigName 2 0", "MigMemory 2 0", "ProcessName 7", "DriverVersion",
)  # fmt: skip
UNASKED = {"8.0": (), "9.0": ("NvLinkState",)}
"""What a GPU of this capability is not asked."""


SILENT = ("ProcessName", "DriverVersion", "P2PStatus 0 1 1", "P2PStatus 0 1 2", "NvLinkRemoteDeviceType")
"""What is no warning: names of processes of other users, and what tells more of what is known without it."""


def with_everything(capability: str) -> Answers:
    """Return GPUs that have all facts: two joined by NVLink, the third in MIG mode."""
    ends: dict[int, list[str | int | None]] = {0: [1, 1, SWITCHES[0]], 1: [0, 0, SWITCHES[0]], 2: [None] * 3}
    answers = machine(3, nvlinks=ends, capability=capability, name="NVIDIA GH200 120GB")
    answers |= {
        "FabricInfo": "0123456789abcdef0123456789abcdef 7 3 0 1", "ComputeRunningProcesses": f"7:{1 << 30}", "ProcessName 7": "python",
        "FieldValues 0 170 0": "1", "FieldValues 0 171 0": "1", "FieldValues 0 172 0": "44712", "MigMode 2": "1 1",
        "MaxMigDeviceCount 2": "1", "MigUUID 2 0": "MIG-a", "MigName 2 0": "NVIDIA GH200 120GB MIG 1g.12gb", "MigMemory 2 0": "9000",
    }  # fmt: skip
    answers |= {f"P2PStatus {i} {j} 1": "0" for i, j in ((0, 1), (0, 2), (1, 2))}
    return answers | {f"NumaNodeId {gpu}": str(4 + gpu) for gpu in range(3)}


@pytest.mark.parametrize(
    ("call", "capability"), [(call, "9.0") for call in CALLS] + [(call, "8.0") for call in ("NvLinkState 0 2", "FieldValuesCall 0")]
)
def test_every_error_of_every_call(driver: Driver, call: str, capability: str) -> None:
    """
    One call fails at a time: the reading succeeds, only what was asked changes, and no link is wrong.

    An error that is no lack of the fact itself leaves a warning wherever a fact is missing.
    """
    whole = with_everything(capability)
    expected = driver.document(whole)
    assert expected["status"] == "ok"
    missed = 0
    for code in CODES:
        found = driver.document(whole | {call: f"!{code}"})
        assert found["status"] == ("warn" if found.get("warnings") else "ok")
        lost = 3 - len(found["gpus"])
        assert lost <= 1
        assert lost == 0 or code in (15, 16) or call.startswith("HandleByIndex")
        if len(found["gpus"]) < 3:
            assert any("GPU 0" in warning or "GPU 2" in warning for warning in found["warnings"])
            missed += 1
            continue
        assert found["links"].items() <= expected["links"].items()
        missed += found != expected
        about = 2 if call.startswith(("MaxMig", "Mig")) and call != "MigMode 0" else 0
        if call != "ProcessName 7":
            assert [g for g in found["gpus"] if g["index"] != about] == [g for g in expected["gpus"] if g["index"] != about]
        is_lack = code in (2, 3, 6, 13, 25)
        if found != expected and not is_lack and not call.startswith(SILENT):
            assert found["warnings"], (call, code)
    assert bool(missed) == (not call.startswith(UNASKED[capability]))


OLD = {
    "-DOLD_DRIVER": "the driver does not tell the NUMA affinity of GPU 0, GPU 1 (Function Not Found)",
    "-DANCIENT_DRIVER": "NVLink state",
}


@pytest.fixture(scope="module", params=OLD)
def old(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Driver, str]]:
    driver = Driver(tmp_path_factory.mktemp("old"), request.param)
    yield driver, request.param
    driver.close()


def test_an_old_driver_tells_what_it_can(old: tuple[Driver, str]) -> None:
    """Symbols that are not there: memory is taken from the older call, whose used part includes what is reserved."""
    driver, flag = old
    answers = machine(2, nvlinks=joined({(0, 1): 4}, 2, 4)) | {"ComputeRunningProcesses 0": f"7:{1 << 30}"}
    topology = driver.read(answers)
    gpu = topology.gpus[0]
    assert gpu == Gpu(
        0, name="NVIDIA A100-SXM4-80GB", uuid="GPU-00000000-0000-0000-0000-000000000000", pci_bus_id="00000000:07:00.0",
        memory_mib=81920, memory_used_mib=605, cpu_affinity="0-31", compute_capability="8.0", pcie=Pcie(4, 16, 1, 16),
        processes=(Process(7, None, 1024),) if flag == "-DOLD_DRIVER" else None,
    )  # fmt: skip
    assert dict(topology.links) == ({(0, 1): "NV4"} if flag == "-DOLD_DRIVER" else {})
    assert any(OLD[flag] in warning for warning in topology.warnings)
    assert all("Function Not Found" in w or "not all of their NVLinks" in w for w in topology.warnings)


def test_an_old_driver_reads_switches_too(old: tuple[Driver, str]) -> None:
    driver, flag = old
    expected = dict.fromkeys([(0, 1), (0, 2), (1, 2)], "NV12") if flag == "-DOLD_DRIVER" else {}
    assert dict(driver.read(switched(3)).links) == expected


def test_cards_older_than_nvlink_have_none_on_any_driver(old: tuple[Driver, str]) -> None:
    driver, _ = old
    assert dict(driver.read(machine(2, capability="5.2", levels=PHB)).links) == {(0, 1): "PHB"}


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"Count": "0"}, "the NVIDIA driver has no GPU that answers on this host"),
        ({"Count": UNKNOWN}, "the NVIDIA driver does not say how many GPUs this host has (Unknown Error)"),
        ({"Count": "4000000000"}, "the NVIDIA driver says that this host has 4,000,000,000 GPUs, which cannot be"),
        (machine(2) | {"Lost": "0", "Lost 0": "0", "Lost 1": "3"},
         "the NVIDIA driver has no GPU that answers on this host (GPU 0: GPU is lost; GPU 1: GPU is lost)"),
        (machine(2) | {"Init": "!18"},
         ("no NVIDIA driver answers on this host (RM has detected an NVML/RM version mismatch): its library and its kernel module "
         "are of different versions; reload the module, or reboot")),
        (machine(2) | {"Init": "!9"}, "no NVIDIA driver answers on this host (Driver Not Loaded)"),
        (machine(2) | {"Init": "!4"}, "no NVIDIA driver answers on this host (Insufficient Permissions)"),
    ],
    ids=["no GPU", "no count", "absurd count", "all lost", "mismatch", "not loaded", "no rights"],
)  # fmt: skip
def test_a_host_without_a_usable_driver_is_refused(driver: Driver, answers: Answers, message: str) -> None:
    with pytest.raises(TopologyError) as refused:
        driver.read(answers)
    assert str(refused.value) == message


def test_a_host_without_a_driver_is_refused_in_one_line(tmp_path: Path) -> None:
    """The loader finds an empty file where the library should be, whatever the host of this test has."""
    (tmp_path / "libnvidia-ml.so.1").touch()
    done = subprocess.run(
        [sys.executable, "-m", "placement", "topology", "live"],
        env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": str(ROOT)},
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: no NVIDIA driver answers on this host (NVML Shared Library Not Found); for another host,")
    assert done.stderr.count("\n") == 1


def test_odd_answers_are_no_facts(driver: Driver) -> None:
    """Numbers that no card has, a name that is no text, and a level of the future."""
    answers = machine(2) | {
        "MemoryInfo 0": "18446744073709551615 0 18446744073709551615", "MaxPcieLinkWidth 0": "4294967295", "NumaNodeId 0": "4294967295",
        "TopologyCommonAncestor 0 1": "60", "MaxPcieLinkGeneration 0": "0", "Name 0": "\ud800",
    }  # fmt: skip
    topology = driver.read(answers)
    gpu = topology.gpus[0]
    assert (gpu.memory_mib, gpu.memory_used_mib, gpu.gpu_numa_id, gpu.name) == (None, None, "N/A", None)
    assert gpu.pcie == Pcie(width=16, current_gen=1, current_width=16)
    assert topology.warnings == (
        "the PCIe path between GPUs 0-1 is of a kind that is not known (60)",
        "the driver does not tell the name of GPU 0 (its answer is no text)",
    )


def test_a_driver_that_does_not_know_the_memory_struct_is_asked_in_the_old_way(driver: Driver) -> None:
    topology = driver.read(machine(1) | {"MemoryInfoV2": "!25"})
    gpu = topology.gpus[0]
    assert (gpu.memory_mib, gpu.memory_used_mib, gpu.memory_reserved_mib) == (81920, 605, None)
    assert topology.warnings == ()


@pytest.mark.parametrize("end", [None, NOWHERE], ids=["direct", "switched"])
def test_links_that_neither_end_could_count_are_unknown(driver: Driver, end: str | None) -> None:
    """Three links join the two; each end tells of one or two, and then no more."""
    ends = {0: [end or 1] * 3, 1: [end or 0] * 3}
    for capability, call in (("8.0", "NvLinkState {} {}"), ("9.0", "FieldValues {} 165 {}")):
        answers = machine(2, nvlinks=ends, capability=capability)
        one = answers | {call.format(0, 1): UNKNOWN}
        assert dict(driver.read(one).links) == ({(0, 1): "NV3"} if end is None else {})
        both = driver.read(one | {call.format(1, 2): UNKNOWN})
        assert dict(both.links) == {}
        assert both.warnings[0] == "the links between GPUs 0-1 are unknown, because not all of their NVLinks could be read"
