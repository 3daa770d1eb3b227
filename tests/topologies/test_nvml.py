"""This host through the real nvidia-ml-py, which loads a library of our own that answers like the driver of a machine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nvml_machines import (
    NO_PERMISSION,
    NODE,
    NOT_FOUND,
    NOT_SUPPORTED,
    NOWHERE,
    PHB,
    PIX,
    PXB,
    ROOT,
    SWITCHES,
    SYS,
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

from topologies.model import Topology
from topologies.parts import Fabric, Host, Mig, MigInstance, Pcie, Process
from topologies.read import read_text


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    driver = Driver(tmp_path_factory.mktemp("nvml"))
    yield driver
    driver.close()


def grace() -> Answers:
    """Four GPUs of a rack of GB200: each is a NUMA node of its own, all links lead to switches outside the host."""
    answers = switched(4, 18, capability="10.0", end=NOWHERE)
    for gpu in range(4):
        answers[f"NumaNodeId {gpu}"] = str(2 + 8 * gpu)
        answers[f"FabricInfo {gpu}"] = "0123456789abcdef0123456789abcdef 7 3 0 1"
    return answers


def odd_order() -> Answers:
    """Eight bridged cards whose numbers do not follow their bus ids."""
    edges = {(0, 4): 4, (1, 5): 4, (2, 6): 4, (3, 7): 4}
    levels = {(i, j): PIX if j == i + 4 else SYS for i in range(8) for j in range(i + 1, 8)}
    buses = [0x17, 0x31, 0xB1, 0xCA, 0x18, 0x32, 0xB2, 0xCB]
    return machine(8, levels=levels, nvlinks=joined(edges, 8, 4), buses=buses, numa=[0, 0, 1, 1, 0, 0, 1, 1])


OTHER_ORDER = (
    "GPU numbers do not follow bus ids: with CUDA_DEVICE_ORDER=PCI_BUS_ID, which plans set, CUDA counts differently; "
    "name the GPUs in CUDA_VISIBLE_DEVICES by their UUIDs"
)

MACHINES: dict[str, Callable[[], Answers]] = {
    "a hybrid mesh of eight": dgx1,
    "bridged pairs": pairs_of_bridges,
    "switches with bus ids": switched,
    "switches that are nowhere": lambda: switched(end=NOWHERE),
    "links told as field values": lambda: switched(8, 18, capability="9.0"),
    "field values, switches nowhere": lambda: switched(8, 18, capability="9.0", end=NOWHERE),
    "field values, bridged": lambda: machine(2, nvlinks=joined({(0, 1): 18}, 2, 18), capability="9.0"),
    "cards without NVLink": consumer,
    "a rack of Grace": grace,
    "sixteen behind switches": lambda: switched(16),
    "not in the order of bus ids": odd_order,
    "one GPU": lambda: machine(1),
    "every level": lambda: machine(
        5, levels={(0, 1): 0, (0, 2): PIX, (0, 3): PXB, (0, 4): PHB, (1, 2): NODE, (1, 3): SYS, (1, 4): SYS,
                   (2, 3): SYS, (2, 4): SYS, (3, 4): SYS}, numa=[0, 0, 3, 3, 5]),
    "a wide PCI domain": lambda: machine(2, nvlinks=joined({(0, 1): 6}, 2, 6), buses=[0x10207, 0x1020A]),
}  # fmt: skip


def same_matrix(read: Topology, printed: Topology) -> None:
    assert dict(printed.links) == dict(read.links)
    assert [(g.cpu_affinity, g.numa, g.gpu_numa_id) for g in printed.gpus] == [
        (g.cpu_affinity, g.numa, g.gpu_numa_id) for g in read.gpus
    ]
    assert printed.columns == read.columns


@pytest.mark.parametrize("draw", [pytest.param(draw, id=name) for name, draw in MACHINES.items()])
def test_the_matrix_is_the_one_that_is_printed(driver: Driver, draw: Callable[[], Answers]) -> None:
    """What a healthy machine answers is read like its `topo -m`, completely and without a warning."""
    answers = draw()
    topology = driver.read(answers)
    same_matrix(topology, read_text(topo_m(answers)))
    assert topology.links_complete
    assert topology.warnings == (() if draw is not odd_order else (OTHER_ORDER,))


def test_the_oracle_counts_as_people_do() -> None:
    """The printed text of three machines, worked out by hand, so that the oracle itself is tested."""
    assert "GPU0\t X \tNV1\tNV1\tNV2\tNV2\tSYS\tSYS\tSYS\t0-31\t0\t\tN/A" in topo_m(dgx1())
    assert "GPU2\tNODE\tNODE\t X \tNV12\t" not in topo_m(pairs_of_bridges())
    assert "GPU2\tSYS\tSYS\t X \tNV12\t32-63\t1\t\tN/A" in topo_m(pairs_of_bridges())
    assert "GPU3\tNV18\tNV18\tNV18\t X \t32-63\t1\t\t26" in topo_m(grace())


@st.composite
def machines(draw: st.DrawFn) -> Answers:
    """Healthy machines of all kinds of wiring; some links are down."""
    count = draw(st.integers(1, 6))
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    levels = {pair: draw(st.sampled_from([0, PIX, PXB, PHB, NODE, SYS])) for pair in pairs}
    kind = draw(st.sampled_from(["none", "direct", "switched"]))
    links = draw(st.sampled_from([4, 6, 12, 18]))
    ends: dict[int, list[str | int | None]] | None = None
    if kind == "direct":
        room = [links] * count
        ends = {gpu: [] for gpu in range(count)}
        for a, b in draw(st.permutations(pairs)):
            number = draw(st.integers(0, min(room[a], room[b], 4)))
            room[a], room[b] = room[a] - number, room[b] - number
            ends[a] += [b] * number
            ends[b] += [a] * number
        ends = {gpu: draw(st.permutations(found + [None] * room[gpu])) for gpu, found in ends.items()}
    elif kind == "switched":
        end = st.sampled_from([*SWITCHES[:2], NOWHERE] * 3 + [None])
        ends = {gpu: draw(st.lists(end, min_size=links, max_size=links)) for gpu in range(count)}
    return machine(
        count, levels=levels, nvlinks=ends, capability=draw(st.sampled_from(["7.0", "8.0", "8.9", "9.0", "10.0"])),
        numa=draw(st.lists(st.integers(0, 130), min_size=count, max_size=count)),
        buses=draw(st.lists(st.integers(1, 0xFFFFFF), min_size=count, max_size=count, unique=True)),
        peers={pair: draw(st.integers(0, 6)) for pair in pairs},
    )  # fmt: skip


@given(machines())
def test_any_machine_is_read_as_it_is_printed(driver: Driver, answers: Answers) -> None:
    topology = driver.read(answers)
    same_matrix(topology, read_text(topo_m(answers)))
    levels = read_text(topo_m(answers, is_pci=True)).links
    assert levels == {pair: topology.pcie_links.get(pair, code) for pair, code in topology.links.items()}
    words = ["OK", "CNS", "GNS", "TNS", "DR", "NS", "U"]
    assert dict(topology.p2p) == {
        (i, j): words[int(answers[f"P2PStatus {i} {j}"])] for i, j in topology.links
    }
    assert topology.p2p_kinds == ({} if len(topology.gpus) == 1 else {
        "w": topology.p2p,
        "n": {(i, j): words[int(answers[f"P2PStatus {i} {j} 2"])] for i, j in topology.links},
    })  # fmt: skip
    buses = [int(answers[f"PciInfo {gpu}"].replace(":", "").replace(".", ""), 16) for gpu in range(len(topology.gpus))]
    assert (OTHER_ORDER in topology.warnings) == (buses != sorted(buses))
    assert [w for w in topology.warnings if w != OTHER_ORDER and "inactive" not in w] == []


def test_each_kind_of_peer_to_peer_is_asked_for(driver: Driver) -> None:
    """Where reads are not told, writes stand in their place."""
    answers = machine(2) | {"P2PStatus 0 1 0": "2", "P2PStatus 0 1 1": "4", "P2PStatus 0 1 2": "5"}
    topology = driver.read(answers)
    assert (topology.p2p_kind, dict(topology.p2p)) == ("r", {(0, 1): "GNS"})
    assert topology.p2p_kinds == {"w": {(0, 1): "DR"}, "n": {(0, 1): "NS"}}
    writes = driver.read(answers | {"P2PStatus 0 1 0": NO_PERMISSION})
    assert (writes.p2p_kind, writes.p2p_kinds) == ("w", {"n": {(0, 1): "NS"}})
    assert len(writes.warnings) == 1


def test_sixteen_gpus_are_read_at_once(driver: Driver) -> None:
    driver.read(switched(16, 18, capability="9.0"))
    assert driver.seconds < 0.5


def test_everything_that_a_gpu_has(driver: Driver) -> None:
    """The facts of one card, each by its name."""
    answers = machine(2) | {
        "ComputeRunningProcesses 1": f"4242:{7 << 30},99:-1,5:-1", "GraphicsRunningProcesses 1": f"4242:{7 << 30},5:{1 << 20}",
        "ProcessName 4242": "python", "CpuAffinity 1": "ffffffff 0 0 0 ffffffff00000001", "MemoryAffinity 1": "3",
        "CurrPcieLinkWidth 1": "8",
    }  # fmt: skip
    topology = driver.read(answers)
    gpu = topology.gpus[1]
    assert (gpu.name, gpu.uuid, gpu.pci_bus_id) == (
        "NVIDIA A100-SXM4-80GB", "GPU-00000000-0000-0000-0000-000000000001", "00000000:0F:00.0",
    )  # fmt: skip
    assert (gpu.memory_mib, gpu.memory_used_mib, gpu.memory_reserved_mib) == (81920, 5, 600)
    assert gpu.processes == (Process(5, None, 1), Process(99, None, None), Process(4242, "python", 7168))
    assert topology.gpus[0].processes == ()
    assert gpu.compute_capability == "8.0"
    assert gpu.pcie == Pcie(gen=4, width=8, current_gen=1, current_width=8)  # lanes that did not come up stay away
    assert (gpu.cpu_affinity, gpu.numa, gpu.gpu_numa_id) == ("0-31,256,288-319", "0-1", "N/A")
    assert (gpu.mig, gpu.fabric) == (Mig(enabled=False), None)
    assert (topology.format, topology.p2p_kind, dict(topology.p2p)) == ("nvml", "r", {(0, 1): "OK"})
    assert dict(topology.host_facts) == {None: Host(driver="570.86.15")}
    assert topology.warnings == ("only 8 of the 16 PCIe lanes of GPU 1 came up: the slot has no more, or card or riser sit badly",)


@pytest.mark.parametrize("newest", [2, 3])
def test_the_place_in_a_fabric(driver: Driver, newest: int) -> None:
    topology = driver.read(grace() | {"FabricVersions": str(newest)})
    expected = Fabric("01234567-89ab-cdef-0123-456789abcdef", 7, "completed")
    assert [gpu.fabric for gpu in topology.gpus] == [expected] * 4
    assert [gpu.gpu_numa_id for gpu in topology.gpus] == ["2", "10", "18", "26"]
    assert topology.warnings == ()


@pytest.mark.parametrize(
    ("info", "fabric", "warning"),
    [
        ("00000000000000000000000000000000 0 3 0 1", Fabric(None, 0, "completed"), None),
        ("00000000000000000000000000000000 0 0 0 0", None, None),
        ("00000000000000000000000000000000 0 1 0 0", Fabric(None, 0, "not started"), "has not taken in GPU 0, GPU 1 yet (not started)"),
        ("000000000000000000000000000000a1 0 2 0 0", Fabric("00000000-0000-0000-0000-0000000000a1", 0, "in progress"), "(in progress)"),
        ("000000000000000000000000000000a1 3 3 999 0", Fabric("00000000-0000-0000-0000-0000000000a1", 3, "failed"), "refused GPU 0, GPU 1"),
        ("000000000000000000000000000000a1 3 3 0 2", Fabric("00000000-0000-0000-0000-0000000000a1", 3, "completed"), "is unhealthy"),
    ],
)  # fmt: skip
def test_a_fabric_that_is_not_ready(driver: Driver, info: str, fabric: Fabric | None, warning: str | None) -> None:
    topology = driver.read(machine(2) | {"FabricInfo": info})
    assert [gpu.fabric for gpu in topology.gpus] == [fabric] * 2
    assert len(topology.warnings) == (warning is not None)
    assert warning is None or warning in topology.warnings[0]


def test_instances_of_a_divided_gpu(driver: Driver) -> None:
    """Two instances, a gap between them; the other GPU is whole."""
    answers = switched(2) | {
        "MigMode 0": "1 1", "MaxMigDeviceCount 0": "7", "P2PStatus": "5", "P2PStatus 0 1 2": "5", "P2PStatus 1 0 2": "5",
        "MigUUID 0 0": "MIG-a", "MigName 0 0": "NVIDIA A100-SXM4-80GB MIG 3g.40gb", "MigMemory 0 0": "40192",
        "MigUUID 0 4": "MIG-b", "MigName 0 4": "NVIDIA A100-SXM4-80GB MIG 1c.2g.20gb", "MigMemory 0 4": "19968",
    }  # fmt: skip
    topology = driver.read(answers)
    assert topology.gpus[0].mig == Mig(
        True, (MigInstance("3g.40gb", "MIG-a", 40192), MigInstance("1c.2g.20gb", "MIG-b", 19968))
    )
    assert topology.gpus[1].mig == Mig(enabled=False)
    assert dict(topology.p2p) == {(0, 1): "NS"}
    assert topology.warnings == ()
    waiting = driver.read(answers | {"MigMode 0": "1 0", "MigMode 1": "0 1"})
    assert waiting.warnings == (
        "MIG mode of GPU 0 is to be switched off when it is reset: then CUDA sees other devices",
        "MIG mode of GPU 1 is to be switched on when it is reset: then CUDA sees other devices",
    )
    answers["MigUUID 0 4"] = NOT_FOUND
    instances = driver.read(answers).gpus[0].mig
    assert instances is not None
    assert [instance.uuid for instance in instances.instances] == ["MIG-a"]


def test_two_ends_that_disagree_are_reported(driver: Driver) -> None:
    ends = {0: [1, 1, 1, 1], 1: [0, 0, 0, None], 2: [None] * 4}
    topology = driver.read(machine(3, nvlinks=ends, name="NVIDIA A100 80GB PCIe"))  # type: ignore[arg-type]
    assert topology.links == {(0, 1): "NV4", (0, 2): "SYS", (1, 2): "SYS"}
    assert topology.warnings == (
        "1 of the 4 NVLinks of GPU 1 is inactive: link 3",
        "the ends of NVLinks disagree about their number, of which the larger is taken: GPUs 0-1 (4 there, 3 back)",
    )


def test_links_to_switches_count_for_the_narrower_end(driver: Driver) -> None:
    """0 and 2 have three links to switches, 1 has two: one is down."""
    end = SWITCHES[0]
    ends: dict[int, list[str | int | None]] = {0: [end] * 3, 1: [end, None, end], 2: [end] * 3}
    topology = driver.read(machine(3, nvlinks=ends))
    assert topology.links == {(0, 1): "NV2", (0, 2): "NV3", (1, 2): "NV2"}


def test_links_to_what_is_not_here_join_nothing(driver: Driver) -> None:
    """Two cards whose partners are another guest's, and links to a POWER9."""
    there = ["00000000:E0:00.0"] * 2
    answers = machine(2, nvlinks={0: [*there, NOWHERE], 1: [*there, NOWHERE]})
    for gpu in (0, 1):
        answers |= {f"NvLinkRemoteDeviceType {gpu} {link}": "0" for link in (0, 1)}
        answers[f"NvLinkRemoteDeviceType {gpu} 2"] = "1"
        answers |= {f"P2PStatus {gpu} {1 - gpu} 2": "5"}
    assert driver.read(answers).links == {(0, 1): "SYS"}
    for gpu in (0, 1):
        answers[f"NvLinkRemoteDeviceType {gpu}"] = "255"
        answers |= {f"NvLinkRemoteDeviceType {gpu} {link}": "255" for link in (0, 1, 2)}
        answers |= {f"P2PStatus {gpu} {1 - gpu} 2": "0"}
    assert driver.read(answers).links == {(0, 1): "NV3"}, "an unknown end is a switch"


def test_peer_to_peer_over_nvlink_is_compared_with_the_links(driver: Driver) -> None:
    answers = pairs_of_bridges(4)
    answers |= {"P2PStatus 0 1 2": "4", "P2PStatus 2 3 2": "4", "P2PStatus 0 3 2": "0"}
    topology = driver.read(answers)
    assert topology.links[0, 1] == "NV12"
    assert topology.warnings == (
        "NVLinks join GPUs 0-1, 2-3, but the driver says that peer-to-peer over NVLink does not work there (DR)",
        "the driver says that peer-to-peer over NVLink works between GPUs 0-3, but shows no NVLink between them",
    )


def test_links_that_sleep_are_up_and_those_without_traffic_are_not(driver: Driver) -> None:
    answers = machine(2, nvlinks=joined({(0, 1): 6}, 2, 6), capability="9.0")
    for gpu in (0, 1):
        answers |= {f"FieldValues {gpu} 165 0": "2", f"FieldValues {gpu} 165 1": "3"}
    assert driver.read(answers).links == {(0, 1): "NV5"}


@pytest.mark.parametrize("told", [NOT_SUPPORTED, "!2", "!13"])
def test_a_driver_that_does_not_know_the_field_is_asked_by_call(driver: Driver, told: str) -> None:
    answers = machine(2, nvlinks=joined({(0, 1): 18}, 2, 18), capability="9.0")
    for gpu in (0, 1):
        answers |= {f"FieldValues {gpu} 165 {link}": told for link in range(18)}
        answers |= {f"NvLinkState {gpu} {link}": "1" for link in range(18)}
    topology = driver.read(answers)
    assert topology.links == {(0, 1): "NV18"}
    assert topology.warnings == ()


def test_the_command_reads_this_host(driver: Driver) -> None:
    """The whole way, in a process whose loader finds the library."""
    command = [sys.executable, "-m", "placement", "topology", "live", "--json"]
    environment = driver.environment | {"NVML_STUB_MACHINE": str(driver.write(pairs_of_bridges()))}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert (document["status"], document["format"], document["islands"]) == ("ok", "nvml", [[0, 1], [2, 3]])
    printed = read_text(topo_m(pairs_of_bridges()))
    assert document["links"] == {f"{i}-{j}": code for (i, j), code in printed.links.items()}


@pytest.mark.parametrize(
    ("ids", "affinity", "expected"),
    [
        ([4, 12], "1", [("0", "4"), ("0", "12")]),
        ([1, 1], "1", [("1", "N/A"), ("1", "N/A")]),
        ([0, 1], "1", [("0", "N/A"), ("1", "N/A")]),
        ([0, 1], "3", [("0-1", "N/A"), ("0-1", "N/A")]),
        ([1, 1], NOT_SUPPORTED, [("1", "N/A"), ("1", "N/A")]),
        ([4, None], "1", [("0", "4"), ("0", "N/A")]),
    ],
    ids=["memory of the GPU", "shared", "node 0", "within the affinity", "no affinity", "one of two"],
)
def test_a_numa_id_that_no_gpu_can_have_is_that_of_its_cpu(
    driver: Driver, ids: list[int | None], affinity: str, expected: list[tuple[str, str]]
) -> None:
    answers = machine(2)
    for gpu, node in enumerate(ids):
        answers[f"NumaNodeId {gpu}"] = str(node) if node is not None else NOT_SUPPORTED
        answers[f"MemoryAffinity {gpu}"] = affinity
    assert [(gpu.numa, gpu.gpu_numa_id) for gpu in driver.read(answers).gpus] == expected
