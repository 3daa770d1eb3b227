"""What the kernel says of this host: a made-up ``/sys`` of a host whose ``lspci`` and matrix are known too."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pcie_machines import Host, hosts, lspci, matrix, sysfs

from topologies.domains import Level, domains
from topologies.merging.identity import bus_key
from topologies.model import Gpu, Topology
from topologies.nics import nearest_nics
from topologies.parts import Host as HostFacts
from topologies.parts import Pcie
from topologies.pci.sysfs import add_host_facts
from topologies.read import read_text


@contextmanager
def kernel(host: Host, **how: object) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield sysfs(host, Path(folder).resolve(), **how)


def live(host: Host, folder: Path, **facts: object) -> Topology:
    """Return what NVML tells, bus ids as it writes them, with what stands below *folder*."""
    ids = sorted(d.bus_id for d in host.all("gpu"))
    gpus = tuple(Gpu(k, pci_bus_id=f"0000{bus_id.upper()}") for k, bus_id in enumerate(ids))
    return add_host_facts(Topology(gpus, format="nvml").replace(**facts), str(folder), str(folder))


@settings(max_examples=40, deadline=None)
@given(hosts(), st.booleans())
def test_the_kernel_lspci_and_the_matrix_agree(host, config):
    with kernel(host, config=config) as folder:
        found = live(host, folder)
    printed, read = read_text(matrix(host)), read_text(lspci(host))
    assert [gpu.pcie for gpu in found.gpus] == [gpu.pcie for gpu in read.gpus]
    assert [gpu.numa for gpu in found.gpus] == [gpu.numa for gpu in printed.gpus]
    assert [gpu.cpu_affinity for gpu in found.gpus] == [gpu.cpu_affinity for gpu in printed.gpus]
    for level in (Level.SWITCH, Level.ROOT_COMPLEX, Level.NUMA):
        assert domains(found, level) == domains(printed, level) == domains(read, level)
    assert found.warnings == read.warnings
    # The NICs are those of the matrix, under the same names, as near, and they serve the same GPUs.
    assert found.nics == printed.nics
    assert found.gpu_nic == printed.gpu_nic
    bus_ids = {nic: details.pci_bus_id for nic, details in found.nic_details.items()}
    of_kernel = {gpu: tuple(bus_ids[nic] for nic in nics) for gpu, nics in nearest_nics(found).items()}
    assert of_kernel == nearest_nics(read)
    assert nearest_nics(found) == nearest_nics(printed)
    assert all(nic.gb_per_s == 25 for nic in found.nic_details.values())
    bridges = dict(read.host_facts[None].bridges)
    if config:
        assert dict(found.host_facts[None].bridges) == {
            bus_id: bridge if bridge.acs_redirect is not None else found.host_facts[None].bridges[bus_id]
            for bus_id, bridge in bridges.items()
        }
    else:
        assert {b: (x.kind, x.gen, x.width) for b, x in found.host_facts[None].bridges.items()} == {
            b: (x.kind, x.gen, x.width) for b, x in bridges.items()
        }
        assert {x.acs_redirect for x in found.host_facts[None].bridges.values()} == {None}


@pytest.fixture(scope="module")
def some_host() -> Host:
    """A root port with a GPU, and a switch with a GPU and a NIC."""
    from pcie_machines import Device, Link

    root = Device("root", None, bus=0x17)
    host = Host([root])
    bus = 0x18
    for place in ("00.0", "02.0"):
        port = Device("root port", root, place, None, 0x17, 0, acs=True)
        root.below.append(port)
        if place == "00.0":
            port.below.append(Device("gpu", port, "00.0", Link((4, 16), (4, 16), 16, 1), bus, name="L40S"))
            continue
        up = Device("upstream", port, "00.0", Link((4, 16), (4, 16), 16, 4), 0x20)
        port.below.append(up)
        for number, kind in enumerate(("gpu", "nic")):
            down = Device("downstream", up, f"{number:02x}.0", None, 0x21)
            up.below.append(down)
            down.below.append(Device(kind, down, "00.0", Link((4, 16), (4, 16), 16, 1), 0x22 + number, name="L40S"))
    return host


@pytest.mark.parametrize(
    ("groups", "expected"),
    [("identity", "passthrough"), ("DMA", "translated"), ("DMA-FQ", "translated"), ("blocked", None), (None, "off")],
)
def test_the_kind_of_iommu_group_tells_what_the_iommu_does(some_host, groups, expected, tmp_path):
    assert live(some_host, sysfs(some_host, tmp_path, iommu=groups)).host_facts[None].iommu == expected


def test_a_kernel_without_iommu_groups_says_nothing_about_it(some_host, tmp_path):
    sysfs(some_host, tmp_path)
    shutil.rmtree(tmp_path / "kernel")
    assert live(some_host, tmp_path).host_facts[None].iommu is None


def test_memory_and_cpus_of_the_host(some_host, tmp_path):
    facts = live(some_host, sysfs(some_host, tmp_path)).host_facts[None]
    assert (facts.memory_mib, facts.cpus) == (1_031_250, 16)


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        pytest.param("memory.max", "68719476736\n", 65_536, id="64 GiB"),
        pytest.param("memory.max", "max\n", 1_031_250, id="no limit"),
        pytest.param("memory/memory.limit_in_bytes", "34359738368\n", 32_768, id="version 1"),
        pytest.param("memory/memory.limit_in_bytes", "9223372036854771712\n", 1_031_250, id="version 1, no limit"),
        pytest.param("memory.max", "9" * 400, 1_031_250, id="nonsense"),
    ],
)
def test_a_container_has_the_memory_that_it_may_use(some_host, tmp_path, file, text, expected):
    sysfs(some_host, tmp_path)
    path = tmp_path / "fs" / "cgroup" / file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert live(some_host, tmp_path).host_facts[None].memory_mib == expected


def test_what_a_source_states_already_is_kept(some_host, tmp_path):
    sysfs(some_host, tmp_path)
    bus_id = "00000000:18:00.0"
    stated = Gpu(0, pci_bus_id=bus_id, numa="5", cpu_affinity="0-3", pcie=Pcie(gen=3, width=16))
    topology = Topology((stated,), nics={"NIC0": "mlx5_7"}, gpu_nic={0: {"NIC0": "SYS"}}, host_facts={None: HostFacts(driver="550")})
    found = add_host_facts(topology, str(tmp_path), str(tmp_path))
    gpu = found.gpus[0]
    assert (gpu.numa, gpu.cpu_affinity, gpu.pcie.gen, gpu.pcie.path) == ("5", "0-3", 3, ("0000:17:00.0",))
    assert (found.nics, found.gpu_nic) == ({"NIC0": "mlx5_7"}, {0: {"NIC0": "SYS"}})
    assert (found.host_facts[None].driver, found.host_facts[None].cpus) == ("550", 16)


def test_a_slot_that_the_kernel_shows_counts_more_than_what_the_card_can(some_host, tmp_path):
    sysfs(some_host, tmp_path)
    stated = Gpu(0, pci_bus_id="00000000:18:00.0", pcie=Pcie(gen=5, width=32, current_gen=2))
    found = add_host_facts(Topology((stated,)), str(tmp_path), str(tmp_path)).gpus[0].pcie
    assert (found.gen, found.width, found.current_gen) == (4, 16, 2)


def test_a_gpu_that_the_kernel_does_not_show_is_left_as_it_is(some_host, tmp_path):
    sysfs(some_host, tmp_path)
    gpus = (Gpu(0, pci_bus_id="0000:99:00.0"), Gpu(1), Gpu(2, pci_bus_id="../../etc"), Gpu(3, pci_bus_id="0000:22:00.0"))
    found = add_host_facts(Topology(gpus), str(tmp_path), str(tmp_path))
    assert found.gpus[:3] == gpus[:3]
    assert found.gpus[3].pcie.path == ("0000:17:02.0", "0000:20:00.0", "0000:21:00.0")


def test_interfaces_without_rdma_keep_their_names_and_virtual_ones_are_none(some_host, tmp_path):
    sysfs(some_host, tmp_path)
    shutil.rmtree(tmp_path / "class" / "infiniband")
    net = tmp_path / "class" / "net"
    nic = "0000:23:00.0"
    for name, speed in (("eno10", "100000"), ("eno2", "-1")):
        (net / name).mkdir()
        (net / name / "speed").write_text(speed + "\n")
        (net / name / "device").symlink_to(tmp_path / "bus" / "pci" / "devices" / nic)
    (net / "lo").mkdir()
    found = live(some_host, tmp_path)
    assert list(found.nics) == ["eno2"]  # of two interfaces of one function, the first
    assert found.nic_details["eno2"].gb_per_s is None
    assert found.gpu_nic == {0: {"eno2": "PHB"}, 1: {"eno2": "PIX"}}


@pytest.mark.parametrize("damage", ["empty", "words", "binary", "gone", "folder"])
def test_files_that_say_nothing_leave_facts_unknown(some_host, tmp_path, damage):
    """A kernel of another age or a container without rights: no fact, no failure."""
    sysfs(some_host, tmp_path)
    for path in [p for p in (tmp_path / "devices").rglob("*") if p.is_file()]:
        match damage:
            case "empty":
                path.write_bytes(b"")
            case "words":
                path.write_text("Unknown\n")
            case "binary":
                path.write_bytes(bytes(range(256)) * 20)
            case "gone":
                path.unlink()
            case "folder":
                path.unlink()
                path.mkdir()
    found = live(some_host, tmp_path)
    for gpu, name in zip(found.gpus, ("0000:18:00.0", "0000:22:00.0"), strict=True):
        assert bus_key(gpu.pci_bus_id) == bus_key(name)
        assert (gpu.pcie.gen, gpu.pcie.width, gpu.numa) == (None, None, None)
    assert [len(gpu.pcie.path) for gpu in found.gpus] == [1, 3]  # where they hang is in the names of folders
    assert found.warnings == ()


def test_a_host_without_sys_is_as_nvml_tells(tmp_path):
    topology = Topology((Gpu(0, pci_bus_id="0000:18:00.0"),))
    assert add_host_facts(topology, str(tmp_path / "none"), str(tmp_path / "none")) == topology


def test_a_cluster_is_not_this_host(tmp_path, some_host):
    topology = Topology((Gpu(0, host="a", pci_bus_id="0000:18:00.0"), Gpu(1, host="b")))
    assert add_host_facts(topology, str(sysfs(some_host, tmp_path)), str(tmp_path)) == topology
