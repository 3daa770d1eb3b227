"""Which NIC of one source is which of another, and two statements about one part as one."""

from __future__ import annotations

import pytest

from topologies.merging.merge import merge
from topologies.merging.merge_parts import joined
from topologies.merging.nic_identity import named_like
from topologies.model import Gpu, Topology
from topologies.parts import Bridge, BridgeKind, Host, Nic, Pcie

FOUR = tuple(Gpu(k) for k in range(4))
MATRIX = Topology(
    FOUR,
    nics={"NIC0": "mlx5_0", "NIC1": "mlx5_1"},
    gpu_nic={k: {"NIC0": "PIX" if k < 2 else "SYS", "NIC1": "NODE" if k < 2 else "PXB"} for k in range(4)},
)


def others(nics: dict[str, str | None], near: dict[str, set[int]], **buses: str) -> Topology:
    """Return what a PCIe tree says: NICs, the GPUs that share a switch with each, and bus ids."""
    gpu_nic = {k: {nic: "PIX" if k in near.get(nic, ()) else "SYS" for nic in nics} for k in range(4)}
    details = {nic: Nic(pci_bus_id=bus) for nic, bus in buses.items()}
    return Topology(FOUR, nics=nics, gpu_nic=gpu_nic, nic_details=details, format="lspci")


@pytest.mark.parametrize(
    ("found", "names"),
    [
        pytest.param(others({"mlx5_1": "mlx5_1", "mlx5_0": "mlx5_0"}, {}), ["NIC1", "NIC0"], id="device names"),
        pytest.param(
            others({"3f:00.0": None, "b3:00.0": None}, {"3f:00.0": {0, 1}, "b3:00.0": {2, 3}}), ["NIC0", "NIC1"], id="near the same GPUs"
        ),
        pytest.param(others({"3f:00.0": None}, {"3f:00.0": {0, 1, 2, 3}}), ["3f:00.0"], id="near other GPUs"),
        pytest.param(others({"a": None, "b": None}, {"a": {0, 1}, "b": {0, 1}}), ["a", "b"], id="two alike"),
        pytest.param(others({"a": None}, {}), ["a"], id="near none"),
    ],
)  # fmt: skip
def test_a_nic_gets_the_name_that_the_other_source_has_for_it(found: Topology, names: list[str]) -> None:
    assert list(named_like(found, MATRIX).nics) == names


def test_bus_ids_tell_nics_apart_however_they_are_written() -> None:
    known = MATRIX.replace(nic_details={"NIC1": Nic(pci_bus_id="00000000:B3:00.0")})
    assert list(named_like(others({"x": None}, {}, x="b3:00.0"), known).nics) == ["NIC1"]


def test_a_merged_machine_has_each_nic_once_with_all_that_is_known_of_it() -> None:
    tree = others({"3f:00.0": None, "b3:00.0": None}, {"3f:00.0": {0, 1}, "b3:00.0": {2, 3}})
    tree = tree.replace(nic_details={"3f:00.0": Nic(pci_bus_id="3f:00.0", numa="0")})
    found = merge([tree, MATRIX])
    assert found.nics == MATRIX.nics
    assert found.gpu_nic == MATRIX.gpu_nic    # a tree's own names of the levels yield
    assert found.nic_details == {"NIC0": Nic(pci_bus_id="3f:00.0", numa="0")}


def test_parts_are_joined_fact_by_fact() -> None:
    one = Host(cpus=8, bridges={"a": Bridge(acs_redirect=False), "b": Bridge(gen=4)})
    other = Host(cpus=9, iommu="off", bridges={"a": Bridge(BridgeKind.ROOT_PORT, acs_redirect=True), "c": Bridge(gen=5)})
    assert joined(one, other) == Host(
        cpus=8,
        iommu="off",
        bridges={"a": Bridge(BridgeKind.ROOT_PORT, acs_redirect=False), "b": Bridge(gen=4), "c": Bridge(gen=5)},
    )
    assert joined(Nic(numa="0"), Nic(numa="1", pcie=Pcie(gen=4))) == Nic(numa="0", pcie=Pcie(gen=4))


def test_the_longer_path_is_the_better_one() -> None:
    short, long = Pcie(path=("b",)), Pcie(gen=4, path=("a", "b"))
    assert joined(short, long) == joined(long, short) == long
