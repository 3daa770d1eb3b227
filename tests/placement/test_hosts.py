"""Hosts that are alike: found whatever their names, cut out of a cluster without loss, named in short."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import clusters, several

from placement.machines.hosts import alone, host_groups, name_list, nic_name, only
from topologies import sources
from topologies.model import Gpu, Topology
from topologies.parts import Mig, MigInstance, Pcie, Process


@given(clusters())
def test_every_host_is_in_one_group_with_its_gpus(topology):
    groups = host_groups(topology)
    pairs = [pair for group in groups for pair in zip(group.hosts, group.gpus, strict=True)]
    assert sorted(host for host, _ in pairs) == sorted(topology.hosts)
    for host, gpus in pairs:
        assert gpus == tuple(gpu.index for gpu in topology.gpus if gpu.host == host)


@given(clusters())
def test_hosts_of_a_group_are_the_same_but_for_their_name(topology):
    for group in host_groups(topology):
        parts = [only(topology, {host})[0] for host in group.hosts]
        plain = [part.replace(gpus=tuple(g.replace(host=None) for g in part.gpus)) for part in parts]
        assert all((p.gpus, p.links, p.gpu_nic) == (plain[0].gpus, plain[0].links, plain[0].gpu_nic) for p in plain)


@given(clusters())
def test_all_hosts_together_are_the_whole(topology):
    part, index = only(topology, set(topology.hosts))
    assert index == tuple(range(len(topology.gpus)))
    whole = (topology.gpus, topology.links, topology.gpu_nic, topology.nics)
    assert (part.gpus, part.links, part.gpu_nic, part.nics) == whole


@given(clusters())
def test_a_host_alone_is_what_it_is_among_others(topology):
    for host, part in alone(topology, topology.hosts).items():
        assert (part, tuple(g.index for g in topology.gpus if g.host == host)) == only(topology, {host})
        start = next(g.index for g in topology.gpus if g.host == host)
        inside = {p: c for p, c in topology.links.items() if topology.gpus[p[0]].host == topology.gpus[p[1]].host == host}
        assert {(i + start, j + start): code for (i, j), code in part.links.items()} == inside


def one(host: str, **facts: object) -> tuple[Gpu, ...]:
    return (Gpu(0, host="a", name="NVIDIA A100-SXM4-80GB"), Gpu(1, host=host, name="NVIDIA A100-SXM4-80GB", **facts))


@pytest.mark.parametrize(
    ("facts", "kinds"),
    [
        pytest.param({"memory_used_mib": 500, "processes": (Process(1),)}, 1, id="who uses it"),
        pytest.param({"uuid": "GPU-1", "pci_bus_id": "0000:01:00.0"}, 1, id="what it is called"),
        pytest.param({"memory_mib": 40960}, 2, id="memory"),
        pytest.param({"numa": "0"}, 2, id="place"),
        pytest.param({"is_named": False}, 2, id="nobody names it"),
        pytest.param({"pcie": Pcie(4, 8)}, 2, id="port"),
        pytest.param({"mig": Mig(True, (MigInstance("1g.10gb", "MIG-1"),))}, 2, id="MIG"),
    ],
)
def test_what_makes_hosts_differ(facts, kinds):
    assert len(host_groups(Topology(one("b", **facts)))) == kinds


def test_names_of_bridges_and_instances_make_no_difference():
    def gpu(index: int, host: str, bridge: str) -> Gpu:
        mig = Mig(True, (MigInstance("1g.10gb", f"MIG-{bridge}"),))
        return Gpu(index, host=host, pcie=Pcie(5, 16, path=(f"{bridge}:00", f"{bridge}:01")), mig=mig)

    assert len(host_groups(Topology((gpu(0, "a", "3a"), gpu(1, "b", "4b"))))) == 1


def test_marks_tell_hosts_apart():
    topology = several(sources.load("a100-1"), 3)
    assert [group.hosts for group in host_groups(topology, marks=["x", "y", "x"])] == [("node0", "node2"), ("node1",)]


def test_a_nic_is_named_without_its_host():
    assert nic_name("node1:NIC0", "node1") == "NIC0"
    assert nic_name("node1:NIC0", "node2") == "node1:NIC0"
    assert nic_name("NIC0", None) == "NIC0"


@pytest.mark.parametrize(
    ("names", "short"),
    [
        pytest.param([None], "host", id="no name"),
        pytest.param(["node3"], "node3", id="one"),
        pytest.param([f"node{k}" for k in range(128)], "node[0-127]", id="a run"),
        pytest.param(["n0", "n1", "n3", "n10", "n11"], "n[0-1,3,10-11]", id="gaps"),
        pytest.param(["n08", "n09", "n10"], "n[08-10]", id="zeros in front"),
        pytest.param(["r1-gpu7.example", "r1-gpu8.example"], "r1-gpu[7-8].example", id="something behind"),
        pytest.param(["a", "n1", "b", "n2"], "a, n[1-2], b", id="names without numbers"),
    ],
)
def test_names_are_written_in_short(names, short):
    assert name_list(names) == short


@given(st.lists(st.from_regex(r"[a-z]{1,3}[0-9]{1,3}(-x)?", fullmatch=True), min_size=1, unique=True))
def test_short_names_stand_for_exactly_the_names(names):
    found = []
    for text in re.split(r", ", name_list(names)):
        run = re.fullmatch(r"(.*)\[(.*)\](.*)", text)
        if run is None:
            found.append(text)
            continue
        for span in run[2].split(","):
            first, last = span.split("-")[0], span.split("-")[-1]
            found += [f"{run[1]}{k:0{len(first)}}{run[3]}" for k in range(int(first), int(last) + 1)]
    assert sorted(found) == sorted(names)


@pytest.mark.parametrize(
    ("word", "first", "second"),
    [
        ("gpu_links_GBps", {"links": {"0": 25.0}}, {"links": {"0": "inactive"}}),
        ("gpu_links_GBps", {"links": {"0": 25.0}}, None),
        ("gpu_links_up", 12, 11),
    ],
)
def test_hosts_whose_nvlinks_differ_are_not_alike(word, first, second):
    def kinds(*facts):
        gpus = tuple(Gpu(k, host=f"h{k}") for k in range(2))
        stated = {word: {str(k): fact for k, fact in enumerate(facts) if fact is not None}}
        return len(host_groups(Topology(gpus, stated=stated)))

    assert kinds(first, second) == 2
    assert kinds(first, first) == kinds(second, second) == 1
