"""This host through the real nvidia-ml-py, whose calls are answered by a drawn machine."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from topologies import nvml
from topologies.errors import TopologyError
from topologies.model import Topology

SWITCH = "00000000:C5:00.0"
NOWHERE = "FFFFFFFF:FF:FF.0"


class Driver:
    """
    A driver with *levels* (common ancestor by pair) and *nvlinks* (for each GPU the bus id at the end of each link; None: down).

    Calls in *broken* (name without prefix, GPU) raise the error given.
    """

    def __init__(
        self,
        count: int,
        levels: dict[tuple[int, int], int],
        nvlinks: dict[int, list[str | None]] | None = None,
    ) -> None:
        self.count, self.levels, self.nvlinks = count, levels, nvlinks
        self.broken: dict[tuple[str, int], int] = {}

    def install(self, patch: pytest.MonkeyPatch) -> None:
        def answer(name: str, call: Callable[..., Any]) -> None:
            def checked(*arguments: Any) -> Any:
                code = self.broken.get((name, arguments[0] if arguments else -1))
                if code is not None:
                    raise pynvml.NVMLError(code)
                return call(*arguments)

            patch.setattr(pynvml, f"nvml{name}", checked)

        answer("Init", lambda: None)
        answer("Shutdown", lambda: None)
        answer("DeviceGetCount", lambda: self.count)
        answer("DeviceGetHandleByIndex", lambda index: index)
        answer("DeviceGetName", lambda gpu: b"NVIDIA A100-SXM4-80GB" if gpu == 0 else "NVIDIA A100-SXM4-80GB")
        answer("DeviceGetUUID", lambda gpu: f"GPU-{gpu}")
        answer("DeviceGetPciInfo", lambda gpu: SimpleNamespace(busId=bus(gpu)))
        answer("DeviceGetMemoryInfo", lambda gpu: SimpleNamespace(total=81920 * 2**20, used=5 * 2**20))
        answer("DeviceGetTopologyCommonAncestor", lambda a, b: self.levels[min(a, b), max(a, b)])
        answer("DeviceGetNvLinkState", self._state)
        answer(
            "DeviceGetNvLinkRemotePciInfo",
            lambda gpu, link: SimpleNamespace(busId=(self.nvlinks or {})[gpu][link]),
        )

    def _state(self, gpu: int, link: int) -> int:
        if self.nvlinks is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        if link >= len(self.nvlinks[gpu]):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return int(self.nvlinks[gpu][link] is not None)


def bus(gpu: int) -> str:
    return f"00000000:{gpu + 7:02X}:00.0"


def pairs(count: int, level: int) -> dict[tuple[int, int], int]:
    return {(i, j): level for i in range(count) for j in range(i + 1, count)}


def read(driver: Driver, patch: pytest.MonkeyPatch) -> Topology:
    driver.install(patch)
    return nvml.read_live()


def test_pcie_levels_have_the_names_of_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four GPUs without NVLink: 0 and 1 on a switch, 2 behind two, 3 on the other socket."""
    levels = {(0, 1): 10, (0, 2): 20, (1, 2): 30, (0, 3): 40, (1, 3): 50, (2, 3): 0}
    topology = read(Driver(4, levels), monkeypatch)
    assert topology.links == {
        (0, 1): "PIX",
        (0, 2): "PXB",
        (0, 3): "NODE",
        (1, 2): "PHB",
        (1, 3): "SYS",
        (2, 3): "PIX",
    }
    assert topology.warnings == ()
    gpu = topology.gpus[0]
    assert (gpu.name, gpu.uuid, gpu.pci_bus_id) == ("NVIDIA A100-SXM4-80GB", "GPU-0", "00000000:07:00.0")
    assert (gpu.memory_mib, gpu.memory_used_mib) == (81920, 5)


@pytest.mark.parametrize("end", [SWITCH, NOWHERE])
def test_links_to_switches_count_for_the_narrower_end(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """0 and 2 have three links to switches, 1 has two: one is down."""
    driver = Driver(3, pairs(3, 50), {0: [end] * 3, 1: [end, None, end], 2: [end] * 3})
    assert read(driver, monkeypatch).links == {(0, 1): "NV2", (0, 2): "NV3", (1, 2): "NV2"}


def test_direct_links_join_only_their_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """0 ══ 1   2: a bridged pair, written with a short PCI domain, and one alone."""
    driver = Driver(3, pairs(3, 40), {0: ["0000:08:00.0"] * 4, 1: [bus(0)] * 4, 2: []})
    assert read(driver, monkeypatch).links == {(0, 1): "NV4", (0, 2): "NODE", (1, 2): "NODE"}


def test_two_ends_that_disagree_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = read(Driver(2, pairs(2, 40), {0: [bus(1)] * 4, 1: [bus(0)] * 3}), monkeypatch)
    assert topology.links == {(0, 1): "NV4"}
    assert "GPU 0 has 4 NVLinks to GPU 1, but GPU 1 has 3 to GPU 0" in topology.warnings[0]


CALLS = ("Name", "UUID", "PciInfo", "MemoryInfo", "TopologyCommonAncestor")


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_fails_leaves_one_fact_unknown(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(2, pairs(2, 40))
    driver.broken[f"DeviceGet{call}", 0] = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
    topology = read(driver, monkeypatch)
    known = {"Name": topology.gpus[0].name, "UUID": topology.gpus[0].uuid, "PciInfo": topology.gpus[0].pci_bus_id,
             "MemoryInfo": topology.gpus[0].memory_mib, "TopologyCommonAncestor": topology.links.get((0, 1))}  # fmt: skip
    assert [name for name, value in known.items() if value is None] == [call]
    assert topology.gpus[1].name is not None
    assert len(topology.warnings) == 1
    assert "of GPU 0 (Function Not Found)" in topology.warnings[0]


def test_nvlink_that_cannot_be_asked_is_unknown_not_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other end still tells about direct links."""
    driver = Driver(2, pairs(2, 40), {0: [bus(1)] * 4, 1: [bus(0)] * 4})
    driver.broken["DeviceGetNvLinkState", 0] = pynvml.NVML_ERROR_UNKNOWN
    topology = read(driver, monkeypatch)
    assert topology.links == {(0, 1): "NV4"}
    assert "NVLink state of GPU 0" in topology.warnings[0]
    driver.broken["DeviceGetNvLinkState", 1] = pynvml.NVML_ERROR_UNKNOWN
    assert read(driver, monkeypatch).links == {}


def test_an_end_that_cannot_be_asked_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(2, pairs(2, 40), {0: [bus(1)] * 2, 1: [bus(0)] * 2})
    driver.broken["DeviceGetNvLinkRemotePciInfo", 0] = pynvml.NVML_ERROR_UNKNOWN
    assert read(driver, monkeypatch).links == {(0, 1): "NV2"}


def test_a_lost_gpu_is_left_out_with_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(3, pairs(3, 40))
    driver.broken["DeviceGetHandleByIndex", 1] = pynvml.NVML_ERROR_GPU_IS_LOST
    topology = read(driver, monkeypatch)
    assert [gpu.uuid for gpu in topology.gpus] == ["GPU-0", "GPU-2"]
    assert "GPU 1 of the driver's list does not answer" in topology.warnings[0]


def test_without_a_driver_or_a_gpu_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(1, {})
    driver.broken["DeviceGetHandleByIndex", 0] = pynvml.NVML_ERROR_GPU_IS_LOST
    with pytest.raises(TopologyError, match="no GPU that answers"):
        read(driver, monkeypatch)
    driver.broken["DeviceGetCount", -1] = pynvml.NVML_ERROR_UNKNOWN
    with pytest.raises(TopologyError, match="does not say how many"):
        nvml.read_live()
    driver.broken["Init", -1] = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
    with pytest.raises(TopologyError, match="no NVIDIA driver answers on this host"):
        nvml.read_live()
