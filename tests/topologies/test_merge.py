"""Several sources of one machine: facts add up, contradictions are errors that name both."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from topologies.clusters.collect import collect, split
from topologies.documents.document import to_document
from topologies.domains import Level, domains
from topologies.errors import TopologyError
from topologies.merging.identity import bus_key
from topologies.merging.merge import merge
from topologies.model import Gpu, Topology
from topologies.parts import Bridge, Fabric, Host, Mig, MigInstance, Nic, Pcie, Process
from topologies.peer import blocked
from topologies.read import read_text

DATA = Path(__file__).parent.parent / "data"
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
    "compute_capability": ("8.0", "9.0"),
}

FIRST_COUNTS: dict[str, tuple[Any, Any]] = {
    "memory_used_mib": (5, 7),
    "memory_reserved_mib": (5, 7),
    "processes": ((), (Process(7),)),
    "mig": (Mig(enabled=False), Mig(enabled=True)),
    "fabric": (Fabric(state="completed"), Fabric(state="in progress")),
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
    assert FACTS.keys() | FIRST_COUNTS.keys() | {"index", "is_named", "pcie"} == {
        field.name for field in dataclasses.fields(Gpu)
    }


@pytest.mark.parametrize("fact", FIRST_COUNTS)
def test_of_what_changes_with_time_the_first_source_counts(fact: str) -> None:
    value, other = FIRST_COUNTS[fact]
    assert getattr(merge([one(**{fact: value}), one(**{fact: other})]).gpus[0], fact) == value
    assert getattr(merge([one(), one(**{fact: other})]).gpus[0], fact) == other


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_a_port_runs_at_the_least_that_any_source_states(order: tuple[int, ...]) -> None:
    """Each sees one of its ends, or the lanes that came up; who comes first is not asked."""
    ports = [
        Pcie(gen=4, width=16, current_gen=1),
        Pcie(gen=3, width=16, path=("0000:3a:00.0",)),
        Pcie(gen=5, width=12),
        Pcie(current_width=8),
    ]
    found = merge([one(pcie=ports[k]) for k in order]).gpus[0].pcie
    assert found == Pcie(gen=3, width=8, current_gen=1, current_width=8, path=("0000:3a:00.0",))
    bridges = [Bridge(gen=g, width=w) for g, w in ((4, 16), (3, None), (5, 8), (None, 16))]
    hosts = [one().replace(host_facts={None: Host(bridges={"0000:3a:00.0": bridges[k]})}) for k in order]
    assert merge(hosts).host_facts[None].bridges["0000:3a:00.0"] == Bridge(gen=3, width=8)
    nics = [one().replace(nics={"NIC0": None}, nic_details={"NIC0": Nic(pcie=ports[k])}) for k in order]
    assert merge(nics).nic_details["NIC0"].pcie == found


QUERY = """Attached GPUs                             : 1
GPU 00000000:18:00.0
    Product Name                          : NVIDIA A10
    GPU UUID                              : GPU-00000000-0000-0000-0000-000000000001
    PCI
        Bus Id                            : 00000000:18:00.0
        GPU Link Info
            PCIe Generation
                Max                       : 4
                Current                   : 1
            Link Width
                Max                       : 16x
                Current                   : 16x
"""
SLOT = """17:00.0 PCI bridge: Intel Corporation Root Port A (rev 04)
\tBus: primary=17, secondary=18, subordinate=18, sec-latency=0
\tCapabilities: [60] Express (v2) Root Port (Slot+), MSI 00
\t\tLnkCap:\tPort #0, Speed 8GT/s, Width x8, ASPM L1
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x8

18:00.0 3D controller: NVIDIA Corporation GA102GL [A10] (rev a1)
\tCapabilities: [60] Express (v2) Endpoint, MSI 00
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x8 (downgraded)
"""


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_slot_that_lspci_shows_counts_wherever_it_stands_in_a_text(order: tuple[int, ...]) -> None:
    matrix = "$ nvidia-smi topo -mp\n\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-3\t0\n"
    found = read_text("\n".join([matrix, QUERY, SLOT][k] for k in order)).gpus[0].pcie
    assert found is not None
    assert (found.gen, found.width) == (3, 8)


def test_lanes_that_did_not_come_up_are_no_lanes_under_load() -> None:
    """An idle link is slow, but not narrow."""
    titles = "index, name, pcie.link.gen.max, pcie.link.gen.current, pcie.link.width.max, pcie.link.width.current\n"
    found = read_text(titles + "0, NVIDIA L4, 4, 1, 16, 8\n1, NVIDIA L4, 4, 1, 16, 16\n2, NVIDIA L4, 4, 1, 16, 8\n")
    assert [(gpu.pcie.gen, gpu.pcie.width) for gpu in found.gpus if gpu.pcie] == [(4, 8), (4, 16), (4, 8)]
    assert found.warnings == (
        "only 8 of the 16 PCIe lanes of GPU 0, GPU 2 came up: the slot has no more, or card or riser sit badly",
    )
    alone = read_text("index, name, pcie.link.width.current\n0, NVIDIA L4, 8\n")
    assert (alone.gpus[0].pcie, alone.warnings) == (Pcie(width=8, current_width=8), ())


def peers(kind: str, state: str) -> str:
    command = f"$ nvidia-smi topo -p2p {kind}\n" if kind != "unknown" else ""
    return f"{command}\tGPU0\tGPU1\nGPU0\tX\t{state}\nGPU1\t{state}\tX\n\n"


@pytest.mark.parametrize("order", list(itertools.permutations(("r", "w", "n", "a"))))
def test_peer_states_of_every_kind_are_kept(order: tuple[str, ...]) -> None:
    """On a machine without NVLink, its kind says NS of every pair: that contradicts no reads."""
    states = {"r": "OK", "w": "OK", "n": "NS", "a": "NS"}
    found = read_text("".join(peers(kind, states[kind]) for kind in order))
    assert (found.p2p_kind, found.p2p) == ("r", {(0, 1): "OK"})
    assert found.p2p_kinds == {kind: {(0, 1): states[kind]} for kind in ("w", "n", "a")}
    assert list(found.p2p_kinds) == ["w", "n", "a"]
    assert blocked(found) == {}
    assert set(blocked(found.replace(links={(0, 1): "NV4"}))) == {(0, 1)}
    assert read_text(json.dumps(to_document(found))) == found
    sources = [read_text(peers(kind, states[kind])) for kind in order]
    assert merge(sources).p2p_kinds == found.p2p_kinds
    hosts = collect({"b": found, "a": read_text(peers("n", "OK"))})
    assert (hosts.p2p, hosts.p2p_kinds["n"]) == ({(2, 3): "OK"}, {(0, 1): "OK", (2, 3): "NS"})
    assert split(hosts)["b"].p2p_kinds == found.p2p_kinds


def test_one_kind_that_is_off_turns_copies_off() -> None:
    assert set(blocked(read_text(peers("r", "OK") + peers("w", "NS")))) == {(0, 1)}
    assert set(blocked(read_text(peers("r", "NS") + peers("w", "OK")))) == {(0, 1)}


def test_two_statements_of_one_kind_must_agree() -> None:
    with pytest.raises(TopologyError, match=r"the peer-to-peer state \(r\) is OK in .* but NS in"):
        read_text(peers("r", "OK") + peers("r", "NS"))
    with pytest.raises(TopologyError, match="put its command, such as `nvidia-smi topo -p2p r`, above each matrix"):
        read_text(peers("unknown", "OK") + peers("unknown", "NS"))
    with pytest.raises(TopologyError, match="of kind r are there twice"):
        Topology((Gpu(0), Gpu(1)), p2p={(0, 1): "OK"}, p2p_kind="r", p2p_kinds={"r": {(0, 1): "NS"}})
    with pytest.raises(TopologyError, match="link 0-2 names GPUs"):
        Topology((Gpu(0), Gpu(1)), p2p_kind="r", p2p_kinds={"w": {(0, 2): "NS"}})


def test_what_was_read_is_known_in_the_order_given() -> None:
    assert Topology((Gpu(0),), format="p2p").formats == ("p2p",)
    assert Topology((Gpu(0),), format="p2p").replace(format="x").formats == ("x",)
    found = read_text(SLOT + "\n" + QUERY + "\n$ nvidia-smi topo -m\n\tGPU0\tCPU Affinity\nGPU0\t X \t0-3\n")
    assert found.formats == ("lspci", "q-text", "topo-m")
    assert merge([found, one(), found]).formats == (*found.formats, "query-csv")
    assert to_document(found)["formats"] == ["lspci", "q-text", "topo-m"]
    assert read_text(json.dumps(to_document(found))).formats == found.formats
    assert "formats" not in to_document(one())


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_name_that_lspci_has_for_a_card_yields(order: tuple[int, ...]) -> None:
    """The list of PCI ids knows chips: one A10 stands for A10, A10G and A10M. That is no reason to refuse."""
    matrix = "\tGPU0\tCPU Affinity\nGPU0\t X \t0-3\n"
    texts = [matrix, QUERY.replace("NVIDIA A10", "NVIDIA A10G"), SLOT]
    found = read_text("\n".join(texts[k] for k in order))
    assert found.gpus[0].name == "NVIDIA A10G"
    assert type(found.gpus[0].name) is str
    assert found.warnings == ("lspci calls GPU 0 A10, but another source NVIDIA A10G, which was taken",)
    same = read_text("\n".join([*texts[:1], QUERY, SLOT][k] for k in order))
    assert (same.gpus[0].name, same.warnings) == ("NVIDIA A10", ())
    alone = merge([read_text(SLOT), read_text(matrix)])
    assert (alone.gpus[0].name, alone.warnings) == ("A10", ())
    twice = merge([one(name="A10").replace(format="lspci"), one(name="A100 SXM4 80GB").replace(format="lspci")])
    assert twice.gpus[0].name == "A10"
    assert twice.warnings == ("lspci calls GPU 0 A100 SXM4 80GB, but another source A10, which was taken",)


M = "\tGPU0\tGPU1\nGPU0\tX\tNV4\nGPU1\tNV4\tX\n"
MP = M.replace("NV4", "PIX")


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("topo-mp.txt", MP, "topo-mp"), ("logs/node0.topo_mp", MP, "topo-mp"), ("topo-mp.txt", M, "topo-m"),
        ("topo-mp/a.txt", MP, "topo-m"), ("topo-mpi.txt", MP, "topo-m"), ("topo-m.txt", MP, "topo-m"),
        ("topo-mp.txt", "$ nvidia-smi topo -m\n" + MP, "topo-m"), ("a.txt", "$ nvidia-smi topo -mp\n" + MP, "topo-mp"),
    ],
)  # fmt: skip
def test_a_file_may_tell_in_its_name_that_it_shows_pcie_paths_only(name: str, text: str, form: str) -> None:
    assert read_text(text, name=name).format == form


def test_a_matrix_of_pcie_paths_that_does_not_say_so_is_asked_for_its_command() -> None:
    hint = "if one is `topo -mp`, put that command line above it"
    with pytest.raises(TopologyError, match=hint):
        merge([read_text(M), read_text(MP)])
    with pytest.raises(TopologyError, match=f"GPUs 0-1: the link is NV4 in #1 but PIX in #2; {hint}\\); pick one with x#1 or x#2"):
        read_text(M + "\n" + MP, name="x")
    assert merge([read_text(M), read_text(MP, name="topo-mp.txt")]).pcie_links == {(0, 1): "PIX"}
    three = Topology(tuple(map(Gpu, range(3))), {(0, 1): "NV4", (0, 2): "SYS", (1, 2): "SYS"})
    with pytest.raises(TopologyError) as caught:
        merge([three, three.replace(links={(0, 1): "PIX", (0, 2): "PHB", (1, 2): "SYS"})])
    assert hint not in str(caught.value)


def test_facts_about_a_host_without_a_name_are_those_of_the_only_host() -> None:
    named = Topology((Gpu(0, host="a"), Gpu(1, host="a")), host_facts={"a": Host(cpus=8)})
    unnamed = Topology((Gpu(0), Gpu(1)), host_facts={None: Host(cpus=9, driver="550")})
    assert merge([named, unnamed]).host_facts == {"a": Host(cpus=8, driver="550")}
    assert merge([unnamed, named]).host_facts == {"a": Host(cpus=9, driver="550")}
    two = named.replace(gpus=(Gpu(0, host="a"), Gpu(1, host="b")))
    for sources in ([two, unnamed], [unnamed, two]):
        found = merge(sources)
        assert found.host_facts == {"a": Host(cpus=8)}
        assert found.warnings == ("facts about a host without a name were left out: it may be any of a, b",)


def by_bus(*bus_ids: str, **changes: Any) -> Topology:
    return Topology(tuple(Gpu(k, pci_bus_id=bus) for k, bus in enumerate(bus_ids)), **changes)


def test_a_list_by_bus_id_is_put_in_the_order_of_the_other_source() -> None:
    found = merge(
        [
            by_bus("00000000:0B:00.0", "00000000:0A:00.0"),
            by_bus("0a:00.0", "0b:00.0", "0c:00.0", format="lspci", links={(0, 2): "PIX"}),
        ]
    )
    assert [gpu.pci_bus_id for gpu in found.gpus] == ["00000000:0B:00.0", "00000000:0A:00.0"]
    assert found.links == {}
    assert found.warnings == (
        "source 2 (lspci) has 1 GPUs that source 1 (topo-m) does not have: they were left out",
    )
    turned = merge(
        [by_bus("0a:00.0", "0b:00.0", format="lspci", links={(0, 1): "PIX"}), by_bus("0b:00.0", "0a:00.0")]
    )
    assert [gpu.pci_bus_id for gpu in turned.gpus] == ["0b:00.0", "0a:00.0"]
    assert turned.links == {(0, 1): "PIX"}


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
        formats=("query-csv", "topo-m", "p2p"),
    )


def test_the_gpus_near_a_cpu_may_be_fewer_than_the_machine_has() -> None:
    near = Topology((Gpu(0),), format="topo-c", gpus_near_cpu={48: (0,)})
    assert merge([TWO, near]).gpus_near_cpu == merge([near, TWO]).gpus_near_cpu == {48: (0,)}
    with pytest.raises(TopologyError, match="has 2 GPUs"):
        merge([TWO, near.replace(gpus=tuple(Gpu(k) for k in range(3)))])


def test_what_topo_mp_prints_is_the_pcie_path_beside_nvlink() -> None:
    """In either order; where NVLink joins nothing the two must agree."""
    m = Topology((Gpu(0), Gpu(1), Gpu(2)), {(0, 1): "NV4", (0, 2): "SYS", (1, 2): "SYS"})
    mp = Topology(m.gpus, {(0, 1): "PIX", (0, 2): "SYS", (1, 2): "SYS"}, format="topo-mp")
    for sources in ([m, mp], [mp, m]):
        found = merge(sources)
        assert (found.links, found.pcie_links, found.format) == (m.links, {(0, 1): "PIX"}, "topo-m")
        assert domains(found, Level.SWITCH) == ((0, 1), (2,))
    with pytest.raises(TopologyError, match="GPUs 0-2: the link is"):
        merge([m, mp.replace(links={**mp.links, (0, 2): "PHB"})])
    assert merge([mp, mp]) == mp


def test_gpus_of_a_list_that_shows_only_some_are_put_in_their_places() -> None:
    """As ``nvidia-smi -q -i 1`` does, whose first GPU is no GPU 0."""
    shown = Topology((Gpu(0, pci_bus_id="00000000:0B:00.0", memory_mib=5), Gpu(1, is_named=False)), format="q-text")
    found = merge([by_bus("0a:00.0", "0b:00.0"), shown])
    assert [gpu.memory_mib for gpu in found.gpus] == [None, 5]
    other = Topology((Gpu(0, pci_bus_id="0c:00.0"), Gpu(1, is_named=False)), format="q-text")
    with pytest.raises(TopologyError, match="GPU 0: the PCI bus id"):
        merge([by_bus("0a:00.0", "0b:00.0"), other])


SOME = [Gpu(0, pci_bus_id=f"00000000:{bus}:00.0", memory_mib=mib) for bus, mib in (("0A", 5), ("0B", 6), ("0C", 7))]


def part(*indices: int, count: int = 3) -> Topology:
    """Return what ``nvidia-smi -q -i`` shows: those GPUs first, and how many there are."""
    gpus = [SOME[k].replace(index=place) for place, k in enumerate(indices)]
    gpus += [Gpu(place, is_named=False) for place in range(len(gpus), count)]
    return Topology(tuple(gpus), format="q-text")


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_gpus_that_were_asked_for_one_by_one_are_one_machine(order: tuple[int, ...]) -> None:
    """As a loop over ``nvidia-smi -q -i`` prints them, beside a matrix."""
    matrix = Topology(tuple(map(Gpu, range(3))), {(0, 1): "NV4", (0, 2): "SYS", (1, 2): "SYS"})
    sources = [matrix, part(2), part(0), part(1)]
    found = merge([sources[k] for k in order])
    assert [gpu.memory_mib for gpu in found.gpus] == [5, 6, 7]
    assert all(gpu.is_named for gpu in found.gpus)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_part_of_a_list_waits_for_the_list_that_says_where_it_belongs(order: tuple[int, ...]) -> None:
    tree = by_bus("0a:00.0", "0b:00.0", "0c:00.0", format="lspci")
    sources = [Topology(tuple(map(Gpu, range(3)))), part(1), tree]
    found = merge([sources[k] for k in order])
    assert [(gpu.pci_bus_id, gpu.memory_mib) for gpu in found.gpus] == [
        ("0a:00.0", None), (found.gpus[1].pci_bus_id, 6), ("0c:00.0", None),
    ]  # fmt: skip
    assert bus_key(str(found.gpus[1].pci_bus_id)) == "0:0b:00.0"


def test_two_lists_of_different_gpus_are_no_machine() -> None:
    a, b = by_bus("0a:00.0", "0b:00.0", format="lspci"), by_bus("0b:00.0", "0c:00.0", format="q-text")
    with pytest.raises(TopologyError) as caught:
        merge([a, b], names=["a", "b"])
    assert str(caught.value) == (
        "a and b do not show the same GPUs: 0:0a:00.0 only the former, 0:0c:00.0 only the latter; "
        "they are not the same machine, or one was cut"
    )
    with pytest.raises(TopologyError, match="do not show the same GPUs"):
        merge([part(0), part(1, count=4)])


FOUR = ("3d:00.0", "3e:00.0", "b1:00.0", "b2:00.0")
ROWS = [f"{bus} 3D controller: NVIDIA Corporation GA100 [A100 PCIe 80GB] (rev a1)" for bus in FOUR]


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize(
    "less",
    [
        pytest.param("uuid, memory.used [MiB]\nGPU-dddddddd-0000-4000-8000-000000000003, 14 MiB", id="query without index"),
        pytest.param("memory.used [MiB], pci.bus_id\n14 MiB, 00000000:3E:00.0\n14 MiB, 00000000:B2:00.0", id="bus ids"),
        pytest.param("$ lspci -s b2:00.0\n" + ROWS[3], id="one function"),
        pytest.param("\n".join([*ROWS[:2], ROWS[3]]), id="a card that lspci does not list"),
        pytest.param("the last block", id="the last block again"),
    ],
)
def test_a_smaller_list_without_numbers_decides_nothing(less: str, *, is_first: bool) -> None:
    """Neither how many GPUs there are nor which number each has: it is put where they are."""
    log = (DATA / "sources" / "q.txt").read_text("utf-8")
    if less == "the last block":
        less = log[log.rindex("GPU 00000000:") :]
    for whole in (log, log.replace("Attached GPUs", "Attached somethings")):
        alone = read_text(whole)
        found = read_text("\n".join([less, "", whole] if is_first else [whole, "", less]) + "\n")
        for gpu, of_log in zip(found.gpus, alone.gpus, strict=True):
            assert (gpu.uuid, gpu.memory_used_mib, gpu.is_named) == (of_log.uuid, of_log.memory_used_mib, True)
            assert bus_key(str(gpu.pci_bus_id)) == bus_key(str(of_log.pci_bus_id))
        assert not found.links_complete


def test_what_a_list_says_of_pairs_goes_with_its_gpus() -> None:
    full = by_bus(*FOUR, format="q-text")
    some = by_bus("b2:00.0", "3e:00.0", format="lspci", links={(0, 1): "SYS"}, nics={"NIC0": None}, gpu_nic={0: {"NIC0": "PIX"}})
    for sources in ([full, some], [some, full], [full.replace(format="topo-m"), some]):
        found = merge(sources)
        assert (found.links, found.gpu_nic) == ({(1, 3): "SYS"}, {3: {"NIC0": "PIX"}})
        assert tuple(gpu.pci_bus_id for gpu in found.gpus) == FOUR


def test_a_source_that_numbers_gpus_hides_those_that_it_lacks() -> None:
    tree = by_bus(*FOUR, format="lspci")
    titles = {"header": ["index", "pci.bus_id"]}
    driver = by_bus("b1:00.0", "b2:00.0", format="q-text", stated={"attached_gpus": 2})
    for less in (by_bus("b2:00.0", format="query-csv", stated=titles), driver):
        found = merge([tree, less])
        assert [gpu.pci_bus_id for gpu in found.gpus] == [gpu.pci_bus_id for gpu in less.gpus]
        assert any("they were left out" in warning for warning in found.warnings)


def test_graphics_of_another_maker_are_no_gpu_of_the_machine() -> None:
    """A server has the VGA of its management controller, a workstation that of its processor."""
    rows = ["02:00.0 VGA compatible controller: ASPEED Technology, Inc. ASPEED Graphics Family (rev 41)"]
    rows += [f"{bus:02x}:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)" for bus in range(0x18, 0x20)]
    rows += ["c5:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Raphael (rev c1)"]
    labels = [f"GPU{k}" for k in range(8)]
    matrix = "\n".join(
        ["\t" + "\t".join(labels), *(f"GPU{i}\t" + "\t".join("X" if i == j else "NV18" for j in range(8)) for i in range(8))]
    )
    for text in (matrix + "\n\n" + "\n".join(rows), "\n".join(rows) + "\n\n" + matrix):
        found = read_text(text + "\n")
        assert [gpu.pci_bus_id for gpu in found.gpus] == [f"0000:{bus:02x}:00.0" for bus in range(0x18, 0x20)]
        assert found.links_complete
        assert set(found.links.values()) == {"NV18"}


def test_instances_count_wherever_they_are_listed() -> None:
    """A query tells the mode, ``nvidia-smi -L`` the instances; a fabric's facts may stand in two sources, too."""
    mode, listed = one(mig=Mig(enabled=True)), one(mig=Mig(enabled=True, instances=(MigInstance("3g.40gb"),)))
    for sources in ([mode, listed], [listed, mode]):
        assert merge(sources).gpus[0].mig == listed.gpus[0].mig
    told = merge([one(fabric=Fabric(state="completed")), one(fabric=Fabric(clique_id=7))])
    assert told.gpus[0].fabric == Fabric(clique_id=7, state="completed")
