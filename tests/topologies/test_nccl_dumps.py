"""Whole topology files of NCCL as well-known machines write them, with every attribute, read to every field."""

from __future__ import annotations

import pytest

from topologies.model import Topology
from topologies.parts import Pcie
from topologies.read import read_text

SWITCH, NVSWITCH, GPU, NIC = "0x060400", "0x068000", "0x030200", "0x020700"


def pci(bus_id: str, inner: str = "", *, kind: str = GPU, speed: str = "16.0 GT/s PCIe", vendor: str = "0x10de") -> str:
    return (
        f'<pci busid="{bus_id}" class="{kind}" vendor="{vendor}" device="0x20b0" subsystem_vendor="{vendor}" subsystem_device="0x134f" '
        f'link_speed="{speed}" link_width="16">\n{inner}</pci>\n'
    )


def gpu(number: int, bus_id: str, links: str = "", *, sm: int = 80, speed: str = "16.0 GT/s PCIe") -> str:
    return pci(bus_id, f'<gpu dev="{number}" sm="{sm}" rank="{number}" gdr="1">\n{links}</gpu>\n', speed=speed)


def nic(number: int, bus_id: str, mbit: int = 200000) -> str:
    net = f'<net name="mlx5_{number}" dev="{number}" latency="0.000000" speed="{mbit}" port="1" guid="0x1" maxconn="131072" gdr="1"/>'
    return pci(bus_id, f"<nic>\n{net}\n</nic>\n", kind=NIC, vendor="0x15b3")


def link(target: str, count: int, tclass: str) -> str:
    return f'<nvlink target="{target}" count="{count}" tclass="{tclass}"/>\n'


def system(*cpus: str) -> str:
    """Return a file with NUMA nodes of eight CPUs each."""
    found = "".join(
        f'<cpu host_hash="0x1dae1d760ced39bb" numaid="{number}" affinity="{0xFF << 8 * number:08x}" arch="x86_64" '
        f'vendor="AuthenticAMD" familyid="143" modelid="49">\n{inner}</cpu>\n'
        for number, inner in enumerate(cpus)
    )
    return f'<system version="1">\n{found}</system>\n'


MESH = {
    0: {1: 1, 2: 1, 3: 2, 4: 2}, 1: {0: 1, 2: 2, 3: 1, 5: 2}, 2: {0: 1, 1: 2, 3: 2, 6: 1}, 3: {0: 2, 1: 1, 2: 2, 7: 1},
    4: {0: 2, 5: 1, 6: 1, 7: 2}, 5: {1: 2, 4: 1, 6: 2, 7: 1}, 6: {2: 1, 4: 1, 5: 2, 7: 2}, 7: {3: 1, 4: 2, 5: 1, 6: 2},
}  # fmt: skip
"""The hybrid cube mesh of eight V100: six links each, single and double ones."""


def tree(gpus: list[str], nics: list[str], *, speed: str = "16.0 GT/s PCIe") -> list[str]:
    """Return two NUMA nodes with two switches each, two GPUs and a NIC under a switch."""
    below = [gpus[2 * k] + gpus[2 * k + 1] + nics[k] for k in range(4)]
    switches = [
        pci(f"0000:{0x10 + 0x20 * k:02x}:00.0", inner, kind=SWITCH, vendor="0x1000", speed=speed) for k, inner in enumerate(below)
    ]
    return [switches[0] + switches[1], switches[2] + switches[3]]


BUS = [f"0000:{0x11 + 0x20 * (k // 2) + k % 2:02x}:00.0" for k in range(8)]
NICS = [nic(k, f"0000:{0x15 + 0x20 * k:02x}:00.0") for k in range(4)]


def of_pair(i: int, j: int) -> str:
    """Return the PCIe code of a pair in `tree`."""
    return "PIX" if i // 2 == j // 2 else "PHB" if i // 4 == j // 4 else "SYS"


def check_tree(topology: Topology, *, gen: int, capability: str) -> None:
    assert [gpu.pci_bus_id for gpu in topology.gpus] == BUS
    assert [gpu.numa for gpu in topology.gpus] == ["0"] * 4 + ["1"] * 4
    assert [gpu.cpu_affinity for gpu in topology.gpus] == ["0-7"] * 4 + ["8-15"] * 4
    assert {gpu.compute_capability for gpu in topology.gpus} == {capability}
    paths = [(f"0000:{0x10 + 0x20 * (k // 2):02x}:00.0",) for k in range(8)]
    assert [gpu.pcie for gpu in topology.gpus] == [Pcie(gen=gen, width=16, path=path) for path in paths]
    assert set(topology.nics) == {f"mlx5_{k}" for k in range(4)}
    assert {nic.gb_per_s for nic in topology.nic_details.values()} == {25.0}
    assert topology.gpu_nic == {k: {f"mlx5_{n}": of_pair(k, 2 * n) for n in range(4)} for k in range(8)}
    assert topology.stated["nic_count"] == 4
    assert topology.stated["numa_of_gpu_busid"] == {bus_id: str(k // 4) for k, bus_id in enumerate(BUS)}
    assert topology.links_complete
    assert topology.warnings == ()


def test_dgx_1_has_direct_links_of_mixed_counts() -> None:
    gpus = [
        gpu(k, BUS[k], "".join(link(BUS[j], n, GPU) for j, n in MESH[k].items()), sm=70, speed="8.0 GT/s PCIe") for k in range(8)
    ]
    topology = read_text(system(*tree(gpus, NICS, speed="8.0 GT/s PCIe")))
    check_tree(topology, gen=3, capability="7.0")
    expected = {(i, j): f"NV{MESH[i][j]}" if j in MESH[i] else of_pair(i, j) for i in range(8) for j in range(i + 1, 8)}
    assert topology.links == expected
    assert topology.stated["nvlinks_seen"] == {BUS[i]: {BUS[j]: n for j, n in MESH[i].items()} for i in range(8)}
    assert "nvswitch_links" not in topology.stated


@pytest.mark.parametrize(
    ("counts", "sm", "speed", "gen"),
    [
        pytest.param([2] * 6, 80, "16.0 GT/s PCIe", 4, id="DGX A100"),
        pytest.param([5, 4, 4, 5], 90, "32.0 GT/s PCIe", 5, id="DGX H100"),
        pytest.param([9, 9], 100, "32.0 GT/s PCIe", 5, id="DGX B200"),
    ],
)
def test_machines_with_switches_have_all_links_between_all(counts: list[int], sm: int, speed: str, gen: int) -> None:
    links = "".join(link(f"0000:c{k}:00.0", n, NVSWITCH) for k, n in enumerate(counts))
    topology = read_text(system(*tree([gpu(k, BUS[k], links, sm=sm, speed=speed) for k in range(8)], NICS)))
    check_tree(topology, gen=gen, capability=f"{sm // 10}.{sm % 10}")
    assert topology.links == {(i, j): f"NV{sum(counts)}" for i in range(8) for j in range(i + 1, 8)}
    assert topology.stated["nvswitch_links"] == dict.fromkeys(BUS, sum(counts))
    assert "nvlinks_seen" not in topology.stated


def test_a_machine_without_nvlink_has_the_ways_of_its_tree() -> None:
    topology = read_text(system(*tree([gpu(k, BUS[k]) for k in range(8)], NICS)))
    check_tree(topology, gen=4, capability="8.0")
    assert topology.links == {(i, j): of_pair(i, j) for i in range(8) for j in range(i + 1, 8)}
    assert not {"nvlinks_seen", "nvswitch_links", "c2c"} & topology.stated.keys()


def test_gh200_has_links_to_its_cpus_and_between_its_gpus() -> None:
    ids = ["0009:01:00.0", "0019:01:00.0", "0029:01:00.0", "0039:01:00.0"]
    cpus = []
    for k in range(4):
        others = "".join(link(ids[j], 6, GPU) for j in range(4) if j != k)
        cpus.append(gpu(k, ids[k], others + '<c2c bw="44712" count="5"/>\n', sm=90, speed="32.0 GT/s PCIe"))
    topology = read_text(system(*cpus))
    assert topology.links == {(i, j): "NV6" for i in range(4) for j in range(i + 1, 4)}
    assert topology.stated["c2c"] == {bus_id: {"count": 5, "bw": 44712} for bus_id in ids}
    assert topology.stated["nvlinks_seen"] == {a: {b: 6 for b in ids if b != a} for a in ids}
    assert [gpu.numa for gpu in topology.gpus] == ["0", "1", "2", "3"]
    assert topology.warnings == ()


def test_mi250_has_xgmi_where_the_file_says_so() -> None:
    """Four dies in two packages: each die reaches two others."""
    ids = [f"0000:{bus}:00.0" for bus in ("c1", "c6", "c9", "ce")]
    ring = {0: (1, 2), 1: (0, 3), 2: (0, 3), 3: (1, 2)}
    dies = "".join(
        pci(
            ids[k],
            f'<gpu dev="{k}" sm="90" gcn="gfx90a" arch="38911" rank="{k}" gdr="1">\n'
            + "".join(f'<xgmi target="{ids[j]}" count="2" tclass="0x038000"/>\n' for j in ring[k])
            + "</gpu>\n",
            kind="0x038000", vendor="0x1002",
        )
        for k in range(4)
    )  # fmt: skip
    topology = read_text(system(dies))
    assert topology.links == {(i, j): "XGMI" if j in ring[i] else "PHB" for i in range(4) for j in range(i + 1, 4)}
    assert {gpu.compute_capability for gpu in topology.gpus} == {None}
    assert topology.warnings == ()
