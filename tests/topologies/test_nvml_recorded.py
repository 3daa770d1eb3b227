"""What nvidia-ml-py got from two emulated machines, given to the reader again through the stub library."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from nvml_machines import NO_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, ROOT, Answers, Driver, both_ways

from topologies.model import Topology
from topologies.parts import Host, Mig, Pcie

LEVELS = {"INTERNAL": 0, "SINGLE": 10, "MULTIPLE": 20, "HOSTBRIDGE": 30, "NODE": 40, "SYSTEM": 50}
ERRORS = {"NVMLError_NotSupported": NOT_SUPPORTED, "NVMLError_NotFound": NOT_FOUND, "NVMLError_InvalidArgument": NO_ARGUMENT}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    driver = Driver(tmp_path_factory.mktemp("nvml"))
    yield driver
    driver.close()


def recorded(name: str) -> Answers:
    """Return the answers of the record *name*; where only the first GPU was asked, all answer like it."""
    record: dict[str, Any] = json.loads((ROOT / "tests" / "data" / "nvml" / name).read_text(encoding="utf-8"))

    def of(call: str) -> Any:
        outcome, value = record[call]
        return ERRORS[value] if outcome == "err" else value

    count = of("nvmlDeviceGetCount")
    memory = of("nvmlDeviceGetMemoryInfo_v2")
    answers: Answers = {
        "Count": str(count), "DriverVersion": of("nvmlSystemGetDriverVersion"), "Name": of("nvmlDeviceGetName"),
        "MemoryInfo": f"{memory['total']} {memory['reserved']} {memory['used']}",
        "ComputeCapability": ".".join(map(str, of("nvmlDeviceGetCudaComputeCapability"))),
        "ComputeRunningProcesses": "", "MigMode": " ".join(map(str, of("nvmlDeviceGetMigMode"))),
        "CpuAffinity": " ".join(word[2:] for word in of("nvmlDeviceGetCpuAffinity")),
        "MemoryAffinity": " ".join(word[2:] for word in of("nvmlDeviceGetMemoryAffinity")),
        "FabricInfo": of("nvmlDeviceGetGpuFabricInfoV(v3)"), "NvLinkCount": str(of("nvmlDeviceGetNvLinkState first failing link")[0]),
    }  # fmt: skip
    for call in ("CurrPcieLinkGeneration", "MaxPcieLinkGeneration", "CurrPcieLinkWidth", "MaxPcieLinkWidth"):
        answers[call] = str(of(f"nvmlDeviceGet{call}"))
    uuids = of("nvmlDeviceGetUUID")
    for gpu in range(count):
        answers[f"UUID {gpu}"] = uuids[0][:-1] + str(gpu)
        answers[f"PciInfo {gpu}"] = of("nvmlDeviceGetPciInfo")[gpu]
        answers[f"NumaNodeId {gpu}"] = str(of("nvmlDeviceGetNumaNodeId")[gpu])
        answers[f"NvLinkCount {gpu}"] = answers["NvLinkCount"]
        for field, word in ((90, "SPEED_MBPS_COMMON"), (164, "GET_SPEED"), (165, "GET_STATE")):
            answers[f"FieldValues {gpu} {field}"] = _field(of(f"FieldValue NVML_FI_DEV_NVLINK_{word}"))
        for link, state in enumerate(of("nvmlDeviceGetNvLinkState")):
            answers[f"NvLinkState {gpu} {link}"] = str(state)
        answers[f"NvLinkRemotePciInfo {gpu}"] = of("nvmlDeviceGetNvLinkRemotePciInfo_v2")[0]
        answers[f"NvLinkRemoteDeviceType {gpu}"] = str(of("nvmlDeviceGetNvLinkRemoteDeviceType")[0])
        for other in range(gpu + 1, count):
            level = of("nvmlDeviceGetTopologyCommonAncestor")[gpu][other]
            both_ways(answers, "TopologyCommonAncestor", gpu, other, str(LEVELS[level]))
            for kind, word in ((0, "READ"), (2, "NVLINK")):
                state = of(f"nvmlDeviceGetP2PStatus({word})")[other]
                both_ways(answers, "P2PStatus", gpu, other, str(state), more=f" {kind}")
    return answers


def _field(value: Any) -> str:
    return value if isinstance(value, str) else str(value["ui"])


def common(topology: Topology, *, name: str, memory: tuple[int, int, int], capability: str, nodes: str) -> None:
    assert len(topology.gpus) == 8
    for gpu in topology.gpus:
        assert (gpu.name, gpu.compute_capability) == (name, capability)
        assert (gpu.memory_mib, gpu.memory_used_mib, gpu.memory_reserved_mib) == memory
        assert (gpu.processes, gpu.mig, gpu.fabric) == ((), Mig(enabled=False), None)
        assert gpu.pcie == Pcie(gen=4, width=16, current_gen=4, current_width=16)
        assert (gpu.cpu_affinity, gpu.gpu_numa_id) == ("0-63", "N/A")
    assert "".join(gpu.numa or "?" for gpu in topology.gpus) == nodes
    assert topology.host_facts[None] == Host(driver="550.163.01")
    assert topology.links_complete


def test_the_record_of_eight_a100(driver: Driver) -> None:
    """Twelve of eighteen links are up, and lead to switches that have no bus id."""
    topology = driver.read(recorded("probe_a100.json"))
    common(topology, name="NVIDIA A100-SXM4-40GB", memory=(40960, 0, 583), capability="8.0", nodes="00001111")
    assert topology.warnings == ()
    assert set(topology.links.values()) == {"NV12"}
    assert topology.stated["gpu_links_up"] == {str(gpu): 12 for gpu in range(8)}
    rates = {str(link): 25.781 for link in range(12)}
    assert topology.stated["gpu_links_GBps"]["7"] == {"name": "NVIDIA A100-SXM4-40GB", "links": rates}
    assert topology.stated["nvswitch_links"] == {gpu.pci_bus_id: 12 for gpu in topology.gpus}
    assert set(topology.p2p.values()) == {"OK"}
    assert [gpu.pci_bus_id for gpu in topology.gpus][:2] == ["00000000:07:00.0", "00000000:0F:00.0"]


def test_the_record_of_eight_l40s(driver: Driver) -> None:
    """All links are down, the field of their state is not supported, and the numbers do not follow the bus ids."""
    topology = driver.read(recorded("probe_l40s.json"))
    common(topology, name="NVIDIA L40S", memory=(49152, 0, 512), capability="8.9", nodes="00110011")
    near = {frozenset({0, 1, 4, 5}), frozenset({2, 3, 6, 7})}
    assert topology.links == {
        (i, j): "PIX" if any({i, j} <= block for block in near) else "SYS" for i in range(8) for j in range(i + 1, 8)
    }
    assert set(topology.p2p.values()) == {"NS"}
    assert topology.stated == {}, "a card without NVLink"
    assert ["do not follow bus ids" in warning for warning in topology.warnings] == [True]
    assert [gpu.pci_bus_id for gpu in topology.gpus][3:5] == ["00000000:CA:00.0", "00000000:18:00.0"]
