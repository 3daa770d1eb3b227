"""Several sources of one machine: facts add up, contradictions are errors that name both."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from topologies.errors import TopologyError
from topologies.merge import merge
from topologies.model import Gpu, Topology

TWO = Topology((Gpu(0), Gpu(1)), {(0, 1): "NV4"}, nics={"NIC0": None}, gpu_nic={0: {"NIC0": "PIX"}})
FACTS: dict[str, tuple[Any, Any]] = {
    "host": ("a", "b"),
    "name": ("NVIDIA L4", "NVIDIA L40S"),
    "uuid": ("GPU-1", "GPU-2"),
    "pci_bus_id": ("00000000:07:00.0", "00000000:08:00.0"),
    "memory_mib": (1000, 2000),
    "cpu_affinity": ("0-3", "4-7"),
    "numa": ("0", "1"),
    "gpu_numa_id": ("4", "12"),
}


def one(**facts: Any) -> Topology:
    return Topology((Gpu(0, **facts),), format="query-csv")


@pytest.mark.parametrize("fact", FACTS)
def test_a_fact_of_one_source_is_taken_and_two_that_differ_are_an_error(fact: str) -> None:
    value, other = FACTS[fact]
    for sources in ([one(), one(**{fact: value})], [one(**{fact: value}), one()], [one(**{fact: value})] * 2):
        assert merge(sources) == one(**{fact: value})
    with pytest.raises(TopologyError, match=r"^GPU 0: .* in a\.txt but .* in b\.csv$"):
        merge([one(**{fact: value}), one(**{fact: other})], names=["a.txt", "b.csv"])


def test_every_fact_of_a_gpu_is_merged() -> None:
    assert FACTS.keys() | {"index", "memory_used_mib", "is_named"} == {field.name for field in dataclasses.fields(Gpu)}


def test_used_memory_changes_with_time_so_the_first_source_counts() -> None:
    assert merge([one(memory_used_mib=5), one(memory_used_mib=7)]).gpus[0].memory_used_mib == 5


def test_bus_ids_may_be_written_in_two_ways() -> None:
    assert (
        merge([one(pci_bus_id="00000000:0A:00.0"), one(pci_bus_id="0000:0a:00.0")]).gpus[0].pci_bus_id
        == "00000000:0A:00.0"
    )


@pytest.mark.parametrize(
    ("other", "words"),
    [
        pytest.param(
            Topology((Gpu(0),)), "source 1 (topo-m) has 2 GPUs and source 2 (topo-m) has 1", id="GPU count"
        ),
        pytest.param(
            TWO.replace(links={(0, 1): "SYS"}),
            "GPUs 0-1: the link is NV4 in source 1 (topo-m) but SYS in",
            id="link",
        ),
        pytest.param(
            TWO.replace(gpu_nic={0: {"NIC0": "SYS"}}), "column NIC0: the link to GPU 0 is PIX", id="NIC link"
        ),
    ],
)
def test_contradictions_name_both_sources(other: Topology, words: str) -> None:
    with pytest.raises(TopologyError) as caught:
        merge([TWO, other])
    assert words in str(caught.value)


def test_three_sources_add_up() -> None:
    """A matrix, names, and the peer-to-peer states; the format is that of the links."""
    names = Topology((Gpu(0, name="NVIDIA L4"), Gpu(1)), format="query-csv", warnings=("odd",))
    peers = Topology((Gpu(0), Gpu(1)), format="p2p", p2p={(0, 1): "OK"}, p2p_kind="r", warnings=("odd",))
    merged = merge([names, TWO.replace(nics={"NIC0": "mlx5_0"}), peers])
    assert merged == TWO.replace(
        gpus=(Gpu(0, name="NVIDIA L4"), Gpu(1)),
        nics={"NIC0": "mlx5_0"},
        p2p={(0, 1): "OK"},
        p2p_kind="r",
        warnings=("odd",),
    )


def test_the_gpus_near_a_cpu_may_be_fewer_than_the_machine_has() -> None:
    near = Topology((Gpu(0),), format="topo-c", gpus_near_cpu={48: (0,)})
    assert merge([TWO, near]).gpus_near_cpu == merge([near, TWO]).gpus_near_cpu == {48: (0,)}
    with pytest.raises(TopologyError, match="has 2 GPUs"):
        merge([TWO, near.replace(gpus=tuple(Gpu(k) for k in range(3)))])
