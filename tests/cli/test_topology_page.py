"""
The page of `placement topology`, as people see it.

``python tests/cli/test_topology_page.py`` writes the golden pages anew; read what changed before you commit it.
"""

from __future__ import annotations

import io
import itertools
import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import clusters, hosts, several

from placement.cli.matrix import legend, matrix, peer_access
from placement.cli.missing import missing
from placement.cli.table import rendered
from placement.cli.topology import page
from placement.cli.wrap import wrapped
from topologies import sources
from topologies.catalog import machine_names
from topologies.clusters.collect import collect
from topologies.documents.document import to_document
from topologies.domains import islands
from topologies.errors import TopologyError
from topologies.merging.merge import merge
from topologies.model import Gpu, Topology
from topologies.parts import (
    Bridge,
    Fabric,
    Host,
    Mig,
    MigInstance,
    Network,
    NetworkDomain,
    Nic,
    Pcie,
    Process,
)
from topologies.peer_kinds import fields_of
from topologies.read import read_text

GOLDEN = Path(__file__).with_name("golden")
SOURCES = Path(__file__).parents[1] / "data" / "sources"
CASES = sorted(
    path for path in (Path(__file__).parents[1] / "data" / "topology").iterdir() if path.suffix in {".txt", ".csv", ".xml"}
)


def busy_host() -> Topology:
    """Return a DGX H100 of which everything is known: two GPUs are in use, one is cut into instances."""
    machine = sources.load("dgx-h100")
    parts = Mig(True, (MigInstance("3g.40gb"), MigInstance("3g.40gb"), MigInstance("1g.10gb")))
    gpus = tuple(
        gpu.replace(
            memory_used_mib=20480 + gpu.index if gpu.index < 2 else 4,
            memory_reserved_mib=605,
            processes=(Process(4000 + gpu.index, "python3 -m verl.trainer.main_ppo", 20476),) if gpu.index < 2 else (),
            mig=parts if gpu.index == 5 else Mig(False),
            pcie=Pcie(5, 16, 1, 16),
            fabric=Fabric("8f7c0d3e-5f0b-4c8e-9a58-2f8f3c1d7e60", 1, "completed"),
        )
        for gpu in machine.gpus
    )
    return machine.replace(
        gpus=gpus,
        p2p={pair: "OK" if pair != (0, 5) else "GNS" for pair in itertools.combinations(range(8), 2)},
        p2p_kind="r",
        host_facts={
            None: Host(2063872, 224, "550.54.15", "translated", None, {"a": Bridge(acs_redirect=True), "b": Bridge(acs_redirect=False)})
        },
        nic_details={nic: Nic(gb_per_s=50.0, pcie=Pcie(5, 16)) for nic in machine.nics},
        warnings=("the title NIC8NIC9 holds two columns, and both were taken apart by the rows below",),
    )


def cluster() -> Topology:
    """Return 128 DGX H100 under a spine and eight leaves, some in use, and a host of another kind."""
    big, small = several(sources.load("dgx-h100"), 128), sources.load("h100-nvl-4")
    start = len(big.gpus)
    gpus = tuple(gpu.replace(memory_used_mib=4 + gpu.index % 3 * 900) for gpu in big.gpus)
    gpus += tuple(gpu.replace(index=start + gpu.index, host="login") for gpu in small.gpus)
    names = [f"node{k}" for k in range(128)]
    doubt = "the network does not say where login hangs: in no switch or block"
    leaves = (NetworkDomain(f"leaf{k}", "leaf", tuple(names[16 * k : 16 * k + 16]), "fat-tree", 400.0) for k in range(8))
    return big.replace(
        gpus=gpus,
        format="yaml",
        formats=("yaml",),
        links={**big.links, **{(i + start, j + start): code for (i, j), code in small.links.items()}},
        gpu_nic={**big.gpu_nic, **{g + start: codes for g, codes in small.gpu_nic.items()}},
        nics={**big.nics, **small.nics},
        network=Network(8, 50.0, (NetworkDomain("fat-tree", "spine", tuple(names)), *leaves)),
        host_facts={name: Host(2063872 + 512 * k, 224) for k, name in enumerate(names)},
        warnings=(doubt,),
    )


def unnamed() -> Topology:
    """Return what an error text tells: two GPUs, of which the second is GPU 4, and what links them."""
    gpus = tuple(Gpu(i, name="NVIDIA A100-SXM4-40GB" if i in (0, 4) else None, is_named=i in (0, 4)) for i in range(5))
    return Topology(gpus, {(0, 4): "NV4"}, warnings=("rows are missing: GPU1, GPU2, GPU3",))


def rates() -> Topology:
    """Return what `nvidia-smi nvlink --status` tells, and no more."""
    links = {str(g): {"name": "NVIDIA H200", "links": {str(k): 26.562 for k in range(18)}} for g in range(3)}
    links["2"]["links"] |= {"7": "inactive"}
    links["3"] = {"name": "NVIDIA H200", "state": "inactive"}
    gpus = tuple(Gpu(i, name="NVIDIA H200") for i in range(4))
    return Topology(gpus, format="nvlink-status", stated={"gpu_links_GBps": links, "driver": "570.86", "rows": [["1"]]})


PAGES = {
    "busy-host": busy_host,
    "cluster": cluster,
    "unnamed": unnamed,
    "rates": rates,
    "dgx-1-v100": lambda: sources.load("dgx-1-v100"),
    "16-gpus": lambda: Topology(
        tuple(Gpu(i, name="Tesla V100-SXM3-32GB", memory_mib=32768) for i in range(16)),
        dict.fromkeys(itertools.combinations(range(16), 2), "NV6"),
        nics={f"NIC{k}": f"mlx5_{k}" for k in range(18)},
        gpu_nic={g: {f"NIC{k}": "PIX" if k // 2 == g // 2 else "SYS" for k in range(18)} for g in range(16)},
    ),
}


def shown(topology: Topology, width: int, stream: io.StringIO | None = None) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        return rendered(*page(topology, width), stream=stream or io.StringIO())


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", PAGES)
def test_pages_look_as_they_looked(name, width):
    assert shown(PAGES[name](), width) == (GOLDEN / f"{name}-{width}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["busy-host", "cluster", "unnamed", "rates"])
def test_the_command_shows_the_page(placement, tmp_path, monkeypatch, name):
    topology = PAGES[name]()
    document = to_document(topology)
    (tmp_path / "machine.json").write_text(json.dumps(document))
    monkeypatch.setenv("COLUMNS", "80")
    process = placement("topology", "machine.json")
    golden = (GOLDEN / f"{name}-80.txt").read_text(encoding="utf-8")
    assert (process.returncode, process.stdout.splitlines()[1:]) == (0, golden.splitlines()[1:])


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", [*machine_names(), *PAGES])
def test_pages_keep_to_the_width(name, width):
    topology = PAGES[name]() if name in PAGES else sources.load(name)
    assert max(map(len, shown(topology, width).splitlines())) <= width


def test_one_gpu_is_not_many(placement):
    assert placement("topology", "a100-1").stdout.startswith("1 GPU, read from topo-m, query-csv\n\nGPU  card")


def test_a_nic_without_a_name_of_its_own_is_named_once(placement):
    text = placement("topology", "dgx-1-v100").stdout
    for nic in json.loads(placement("topology", "dgx-1-v100", "--json").stdout)["nics"]:
        assert re.search(rf"^{nic} +GPUs", text, re.MULTILINE)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_case_that_can_be_read_has_a_page(path):
    try:
        topology = read_text(path.read_bytes().decode("utf-8-sig", "replace"))
    except TopologyError:
        return  # a refusal has no page
    text = shown(topology, 80)
    assert text.startswith(f"{len(topology.gpus)} GPU")
    assert text.count("warning: ") >= len(topology.warnings)
    assert max(map(len, text.splitlines())) <= 80


def cells(text: str) -> dict[tuple[int, int], str]:
    """Return what stands in the matrix that *text* holds, by row and column."""
    found: dict[tuple[int, int], str] = {}
    columns: list[int] = []
    for line in text.splitlines():
        first, *others = line.split() or [""]
        if re.fullmatch(r"GPU\d+", first) and others and not others[0].startswith("GPU"):
            found |= {(int(first[3:]), j): cell for j, cell in zip(columns, others, strict=True)}
        elif line.strip():
            columns = [int(word.removeprefix("GPU")) for word in (first, *others)]
    return found


@given(hosts(), st.integers(30, 140))
def test_the_matrix_says_what_is_stated_at_every_width(topology, width):
    together = islands(topology)
    island = {g: k for k, members in enumerate(together) for g in members}
    found = cells(str(matrix(topology, together, width)))
    n = len(topology.gpus)
    assert len(found) == n * n
    for (i, j), cell in found.items():
        code = "X" if i == j else topology.link(i, j) or "?"
        assert cell == (f"[{code}]" if i != j and island[i] == island[j] else code)


@given(st.one_of(hosts(), clusters()), st.integers(40, 140))
def test_any_page_can_be_written_and_says_nothing_that_nobody_states(topology, width):
    text = shown(topology, width)
    assert "\x1b" not in text
    for column in ("in use", "reserved", "memory", "CPUs"):
        assert not re.search(rf"^GPU.* {column}\b", text, re.MULTILINE), column
    if all(gpu.pcie in (None, Pcie()) for gpu in topology.gpus):
        assert "PCIe  " not in text


@given(clusters())
def test_alike_hosts_have_one_matrix(topology):
    kinds = {
        tuple(
            (gpu.replace(index=0, host=None), tuple(topology.link(gpu.index, g.index) for g in topology.gpus if g.host == host))
            for gpu in topology.gpus
            if gpu.host == host
        )
        for host in topology.hosts
    }
    linked = sum(any(code is not None for _, row in kind for code in row) for kind in kinds)
    text = shown(topology, 100)
    assert text.count("\nGPU0 ") <= linked if topology.gpu_nic else text.count("\nGPU0 ") == linked


def test_a_cluster_of_1028_gpus_takes_little_time_and_few_lines():
    topology = cluster()
    start = time.perf_counter()
    lines = shown(topology, 80).splitlines()
    assert len(lines) <= 80
    assert time.perf_counter() - start < 2


def test_hosts_of_very_many_kinds_are_named_only():
    topology = several(sources.load("a100-1"), 30)
    topology = topology.replace(gpus=tuple(gpu.replace(memory_mib=1024 * (1 + gpu.index)) for gpu in topology.gpus))
    text = shown(topology, 80)
    assert text.count("over all hosts)") == 24
    assert "6 further kinds of hosts, which --json lists: node[24-29]" in text


def test_a_newcomer_is_told_what_the_codes_mean():
    matrix_of = sources.load("h100-nvl-4")
    assert legend(matrix_of, islands(matrix_of)) == (
        "[ ]: inside an island · NV#: # NVLinks · NODE: between PCIe roots of one NUMA node"
    )
    old = Topology((Gpu(0), Gpu(1), Gpu(2)), {(0, 1): "SOC", (0, 2): "SYS"})
    assert legend(old, islands(old)) == "SOC or SYS: between CPU sockets · ?: not stated"


def test_codes_of_nics_are_explained_once():
    gpus = (Gpu(0), Gpu(1))
    nics = {"NIC0": None, "NIC1": None}
    near = {0: {"NIC0": "PXB", "NIC1": "SOC"}, 1: {"NIC0": "SYS", "NIC1": "PXB"}}
    topology = Topology(gpus, {(0, 1): "SYS"}, nics=nics, gpu_nic=near)
    assert "\nPXB: over several PCIe switches · SYS: between CPU sockets\n" in shown(topology, 80)
    assert shown(topology.replace(links={(0, 1): "PXB"}), 80).count("PXB: ") == 1
    without = shown(topology.replace(links={}), 80)
    assert without.index("closest to") < without.index("\nPXB: over several PCIe switches\n")


def test_what_lies_under_nvlink_is_told_where_a_source_states_it():
    both = merge([read_text((SOURCES / f"{name}.txt").read_text()) for name in ("topo-m", "topo-mp")])
    text = shown(both, 100)
    assert "\nthe PCIe paths under NVLink: PIX between the GPUs 0 and 1, 2 and 3\n" in text
    assert "PIX: under one PCIe switch" in text
    assert "under NVLink" not in shown(sources.load("dgx-h100"), 100)


@pytest.mark.parametrize(
    ("states", "kind", "sentences"),
    [
        pytest.param({}, None, [], id="not stated"),
        pytest.param(
            {(0, 1): "OK", (0, 2): "OK", (1, 2): "OK"},
            "rw",
            ["peer-to-peer access (reading and writing): works between all pairs of the GPUs 0–2"],
            id="all",
        ),
        pytest.param(
            {(0, 1): "OK", (0, 2): "CNS", (1, 2): "U"},
            "unknown",
            [
                "peer-to-peer access is off between the GPUs 0 and 2 (CNS, the chipset does not support it)",
                "peer-to-peer access is unknown between the GPUs 1 and 2 (U)",
            ],
            id="some",
        ),
        pytest.param(
            {pair: "NS" if pair != (0, 1) else "OK" for pair in itertools.combinations(range(9), 2)},
            "n",
            ["peer-to-peer access (over NVLink) is off between 35 pairs of the GPUs 0–8, which --json lists (NS, not supported)"],
            id="many",
        ),
    ],
)
def test_pairs_without_peer_access_are_named(states, kind, sentences):
    count = 1 + max((j for _, j in states), default=0)
    topology = Topology(tuple(map(Gpu, range(count))), p2p=states, p2p_kind=kind)
    assert list(peer_access(topology)) == sentences


def test_kinds_of_peer_access_that_are_alike_share_a_sentence():
    everywhere = dict.fromkeys(itertools.combinations(range(3), 2), "OK")
    none = dict.fromkeys(everywhere, "NS")
    topology = Topology(tuple(map(Gpu, range(3))), **fields_of({"r": everywhere, "w": everywhere, "n": none}))
    assert list(peer_access(topology)) == [
        "peer-to-peer access (reading, writing): works between all pairs of the GPUs 0–2",
        "peer-to-peer access (over NVLink) is off between all pairs of the GPUs 0–2 (NS, not supported)",
    ]


def test_the_page_says_in_the_words_of_plans_that_peer_copies_are_off():
    host = Host(iommu="translated")
    topology = Topology((Gpu(0), Gpu(1)), {(0, 1): "PIX"}, host_facts={None: host})
    plain = " ".join(shown(topology, 80).split())
    assert "peer-to-peer between GPU 0 and 1 is off (the IOMMU translates addresses): copies go through host memory" in plain
    stated = shown(topology.replace(host_facts={}, p2p={(0, 1): "GNS"}, p2p_kind="r"), 80)
    assert stated.count("is off") == 1


def test_every_kind_of_peer_access_is_told():
    topology = Topology((Gpu(0), Gpu(1)), p2p={(0, 1): "OK"}, p2p_kind="r", p2p_kinds={"a": {(0, 1): "NS"}})
    text = shown(topology, 120)
    assert "peer-to-peer access (reading): works between the GPUs 0 and 1" in text
    assert "peer-to-peer access (atomics) is off between the GPUs 0 and 1 (NS, not supported)" in text


def test_what_a_summary_shortens_is_listed():
    pairs = [pair for pair in itertools.combinations(range(6), 2) if pair != (0, 1)]
    topology = Topology(tuple(map(Gpu, range(6))), dict.fromkeys(pairs, "PIX"), p2p=dict.fromkeys(pairs, "CNS"), p2p_kind="r")
    assert "4 and 5 (CNS, the chipset does not support it)" in " ".join(shown(topology, 80).split())


@pytest.mark.parametrize("code", ["CNS", "NS", "GNS"])
@pytest.mark.parametrize("count", [4, 8])
def test_peer_access_that_is_off_is_told_once(code, count):
    """Also where a summary would shorten it, and where an IOMMU turns off what the driver has no word about."""
    half = count // 2
    states = {pair: code if pair[0] < half <= pair[1] else "OK" for pair in itertools.combinations(range(count), 2)}
    links = {pair: "PIX" if state == code or pair == (0, 1) else "NV4" for pair, state in states.items()}
    topology = Topology(tuple(map(Gpu, range(count))), links, p2p=states, p2p_kind="r")
    text = " ".join(shown(topology, 100).split())
    assert text.count("is off") == text.count("copies go through host memory") == 1
    del states[0, 1]
    text = " ".join(shown(topology.replace(p2p=states, host_facts={None: Host(iommu="translated")}), 100).split())
    assert text.count("is off") == text.count("copies go through host memory") == 2
    assert text.count(f"({code}, ") == 1
    assert text.count("the IOMMU translates addresses") == 1


def test_an_instance_without_a_profile_is_told_by_its_memory():
    parts = (MigInstance(None, memory_mib=4864), MigInstance(None, memory_mib=4864), MigInstance("3g.40gb", memory_mib=40320))
    text = shown(Topology((Gpu(0, mig=Mig(True, parts)), Gpu(1, mig=Mig(True, (MigInstance(),))))), 80)
    assert "2 × 4864 MiB, 1 × 3g.40gb" in text
    assert "1 × ?" in text


def test_mig_that_is_on_claims_no_instances_that_nobody_counted():
    text = shown(Topology((Gpu(0, mig=Mig(True)), Gpu(1, mig=Mig(False)))), 80)
    assert re.search(r"^0 +on$", text, re.MULTILINE)
    assert re.search(r"^1 +off$", text, re.MULTILINE)


def test_what_the_page_shows_is_not_said_again_in_words_of_documents():
    for path in SOURCES.iterdir():
        if path.suffix in {".txt", ".csv", ".xml"} and path.stem != "README":
            text = shown(read_text(path.read_text()), 80)
            assert "also stated" not in text, path.name
    text = shown(read_text((SOURCES / "q.txt").read_text()), 80)
    assert "driver 550.90.07, CUDA 12.4" in text
    assert "memory that PCIe devices reach (BAR1): 131072 MiB on each GPU" in text


def test_what_rates_tell_of_nvlinks_is_not_said_again():
    rates = {str(k): {"links": dict.fromkeys("0123", 25.0) | {"4": "inactive"}} for k in range(3)} | {"3": {"links": {"0": "inactive"}}}
    stated = {"gpu_links_GBps": rates, "gpu_links_up": {"0": 4, "1": 4, "2": 5, "3": 0, "4": 2}}
    stated["nvswitch_links"] = {f"0000:{k + 1:02x}:00.0": 4 for k in range(3)}
    gpus = tuple(Gpu(k, pci_bus_id=f"00000000:{k + 1:02X}:00.0") for k in range(5))
    text = shown(Topology(gpus, stated=stated), 80)
    assert re.findall(r"(.*): (\d) NVLinks up", text) == [("GPU 2", "5"), ("GPU 4", "2")]
    assert "GPUs 0–2: 4 NVLinks to NVSwitches" in text
    assert "3 GPUs: 4 NVLinks to NVSwitches" in shown(Topology(tuple(map(Gpu, range(5))), stated=stated), 80)


def test_a_count_of_gpus_that_is_not_that_of_the_page_is_said():
    one = {"bar1_mib": {"total": 256}, "gpu_ids_seen": ["00000000:1F:00.0"]}
    gpus = tuple(Gpu(k, is_named=k == 0) for k in range(4))
    assert "(BAR1): 256 MiB on GPU 0\n" in shown(Topology(gpus, stated=one), 80)
    gpus = tuple(Gpu(k, pci_bus_id=f"0000:{k + 0x1D:x}:00.0") for k in range(4))
    assert "(BAR1): 256 MiB on GPU 2\n" in shown(Topology(gpus, stated=one), 80)
    assert "(BAR1): 256 MiB on one GPU\n" in shown(Topology(gpus, stated={"bar1_mib": {"total": 256}}), 80)
    two = {str(k): {"total": 256 if k < 3 else 128} for k in range(4)}
    assert "(BAR1): 256 MiB on GPUs 0–2, 128 MiB on GPU 3\n" in shown(Topology(gpus, stated={"bar1_mib": two}), 80)
    assert "the driver counts 8 attached GPUs" in shown(Topology((Gpu(0),), stated={"attached_gpus": 8}), 80)
    assert "attached" not in shown(Topology((Gpu(0),), stated={"attached_gpus": 1}), 80)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        pytest.param("topo-m", "not stated: cards, memory (join `nvidia-smi -q`, or say --gpu)", id="a matrix"),
        pytest.param("q", "not stated: links (join `nvidia-smi topo -m`)", id="cards"),
        pytest.param(
            "rocm-smi",
            "not stated: cards, memory (join `rocm-smi --showproductname --showmeminfo vram`, or say --gpu)",
            id="AMD",
        ),
        pytest.param(
            "topo-mp",
            "not stated: cards, memory (join `nvidia-smi -q`, or say --gpu); NVLinks (join `nvidia-smi topo -m`)",
            id="PCIe paths only",
        ),
    ],
)
def test_what_planning_needs_and_nobody_states_is_named(source, line):
    lines = shown(read_text((SOURCES / f"{source}.txt").read_text()), 300).splitlines()
    assert [found for found in lines if found.startswith("not stated")] == [line]


def test_of_a_part_only_the_rest_is_missing():
    gpus = (Gpu(0, name="NVIDIA L4"), Gpu(1, memory_mib=100), Gpu(2, is_named=False))
    assert missing(Topology(gpus, {(0, 1): "SYS"})) == (
        "not stated: cards of GPUs 1–2, memory of GPUs 0, 2 (join `nvidia-smi -q`, or say --gpu); "
        "links of 2 pairs of GPUs (join `nvidia-smi topo -m`)"
    )
    assert missing(sources.load("dgx-h100")) is None


def test_every_maker_has_its_remedies():
    """Also of hosts in one cluster; which host is whose, its links or its cards tell."""
    hosts = ("amd", "amd", "amd2", "amd2", "nv", "nv")
    names = (None, None, "AMD Instinct MI250X", None, None, None)
    gpus = tuple(Gpu(i, host=host, name=name) for i, (host, name) in enumerate(zip(hosts, names, strict=True)))
    assert missing(Topology(gpus, {(0, 1): "PCIE"})) == (
        "not stated: cards, memory of GPUs 4–5 (join `nvidia-smi -q`, or say --gpu); cards of GPUs 0–1, 3, memory of GPUs 0–3 "
        "(join `rocm-smi --showproductname --showmeminfo vram`, or say --gpu); links of 1 pair of GPUs on nv (join `nvidia-smi topo -m`); "
        "links of 1 pair of GPUs on amd2 (join `rocm-smi --showtopo`)"
    )


def test_where_the_pcie_levels_are_known_only_nvlink_is_missing():
    """Nothing is, where no card has NVLink."""
    lspci = read_text((SOURCES / "lspci-vv.txt").read_text())
    assert str(missing(lspci)).endswith("NVLinks (join `nvidia-smi topo -m`)")
    without = lspci.replace(gpus=tuple(gpu.replace(name="NVIDIA L40S", memory_mib=46068) for gpu in lspci.gpus))
    assert missing(without) is None
    bridged = lspci.replace(gpus=tuple(gpu.replace(name="NVIDIA H100 NVL") for gpu in lspci.gpus))
    hosts = {"a": bridged, "b": sources.load("h100-nvl-4")}
    assert missing(collect(hosts)) == "not stated: NVLinks of 6 pairs of GPUs on a (join `nvidia-smi topo -m`)"
    assert missing(collect({"a": bridged, "b": bridged})) == "not stated: NVLinks (join `nvidia-smi topo -m`)"


@pytest.mark.parametrize(("code", "link"), [("PCIE", "XGMI"), ("SYS", "NVLink"), ("PHB", "NVLink")])
@pytest.mark.parametrize("count", [2, 3, 8])
def test_a_machine_without_direct_links_is_denied_those_of_its_maker(code, link, count):
    gpus = tuple(Gpu(k) for k in range(count))
    text = shown(Topology(gpus, dict.fromkeys(itertools.combinations(range(count), 2), code)), 80)
    assert f"islands: none, no two GPUs are joined by {link}\n" in text


def test_a_cluster_says_that_its_network_is_not_stated():
    alone = shown(Topology((Gpu(0), Gpu(1))), 80)
    assert "network" not in alone
    assert "network: not stated" in shown(Topology((Gpu(0, host="a"), Gpu(1, host="b"))), 80)
    joined = Topology((Gpu(0, host="a"), Gpu(1, host="b")), network=Network(gb_per_s=50.0))
    assert "\nnetwork: 50 GB/s for each NIC, rails not stated\n" in shown(joined, 80)
    assert "\nnetwork: 2 rails on each host, speed not stated\n" in shown(joined.replace(network=Network(rails=2)), 80)
    switched = joined.replace(network=Network(domains=(NetworkDomain("leaf0", "leaf", ("a", "b")),)))
    assert "\nnetwork: rails and their speed are not stated\n  leaf0: 2 hosts, a, b\n" in shown(switched, 80)


def test_switches_of_nccl_tell_pcie_levels_where_root_complexes_are_not_told():
    paths = (("s0",), ("s0",), ("s0", "s1"), (), ("t0",), ("t1",))
    gpus = tuple(Gpu(k, numa="0" if k < 4 else "1", pcie=Pcie(gen=4, path=path)) for k, path in enumerate(paths))
    found = cells(matrix_of(shown(Topology(gpus, format="nccl-topo-xml"), 100)))
    near = {(0, 1): "PIX", (0, 2): "PXB", (1, 2): "PXB", (0, 3): "PHB", (1, 3): "PHB", (2, 3): "PHB", (4, 5): "PHB"}
    assert found == found | {pair: near.get(pair, "SYS") for pair in itertools.combinations(range(6), 2)}


def test_processes_of_a_cluster_stand_at_the_numbers_that_plans_use():
    gpus = (Gpu(0, host="a", processes=()), Gpu(1, host="b", processes=(Process(7, "python", 100),)))
    assert re.search(r"^ +1  b +7  100 MiB  python$", shown(Topology(gpus), 80), re.MULTILINE)


def test_every_output_that_was_read_is_named():
    text = "".join((SOURCES / f"{name}.txt").read_text() for name in ("topo-mp", "q", "topo-m"))
    assert shown(read_text(text), 100).splitlines()[0] == "4 GPUs, read from topo-mp, q-text, topo-m"
    paths = read_text((SOURCES / "topo-mp.txt").read_text())
    both = merge([paths, paths.replace(format="topo-m", formats=())])
    assert "no two GPUs are joined by NVLink" in shown(both, 100)


@pytest.mark.parametrize(
    ("links", "line"),
    [
        pytest.param(
            {pair: "NV18" for pair in itertools.combinations(range(8), 2) if pair[0] < 4},
            "islands, joined by NVLink: {0–4}; not known: GPUs 5–7",
            id="four rows of eight",
        ),
        pytest.param(
            {(0, 1): "NV4", **{(i, j): "SYS" for i in (0, 1) for j in (2, 3)}},
            "islands, joined by NVLink: {0–1}; not known: GPUs 2–3",
            id="one pair is cut",
        ),
        pytest.param({(0, 1): "SYS", (0, 2): "SYS"}, "islands: none that is stated; 1 pair is not stated", id="the first row of three"),
        pytest.param(
            {(0, 1): "NV4", (0, 2): "SYS", (1, 2): "SYS"}, "islands, joined by NVLink: {0–1}; alone: GPU 2", id="all is known"
        ),
        pytest.param(
            {(0, 1): "NV4", (0, 2): "SYS", (1, 2): "NV2"},
            "islands, joined by NVLink: {0–1}; in no island: GPU 2",
            id="NVLink to a part of an island",
        ),
        pytest.param(
            {(0, 1): "SYS", (0, 2): "SYS", (1, 2): "SYS"}, "islands: none, no two GPUs are joined by NVLink", id="no NVLink at all"
        ),
    ],
)
def test_what_a_cut_matrix_does_not_tell_is_no_island_and_no_lone_gpu(links, line):
    count = 1 + max(j for _, j in links)
    assert line in shown(Topology(tuple(map(Gpu, range(count))), links), 120).splitlines()


@given(hosts())
def test_only_a_gpu_of_which_all_links_are_known_is_alone(topology):
    text = shown(topology, 140)
    unknown = [pair for pair in itertools.combinations(range(len(topology.gpus)), 2) if topology.link(*pair) is None]
    if len(unknown) == len(topology.gpus) * (len(topology.gpus) - 1) // 2:
        return
    assert not unknown or "no two GPUs are joined" not in text
    if len({g for pair in unknown for g in pair}) == len(topology.gpus):
        assert "alone: " not in text


def test_islands_stand_out_on_a_terminal_and_without_colour(monkeypatch):
    topology = sources.load("h100-nvl-4")
    assert "\x1b[1;32m[NV12]" in shown(topology, 80, Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    plain = shown(topology, 80, Terminal())
    assert "32m" not in plain
    assert "[NV12]" in plain


def test_a_row_of_nics_that_is_cut_claims_no_closest():
    topology = Topology(
        (Gpu(0), Gpu(1)),
        nics={"NIC0": None, "NIC1": None},
        gpu_nic={0: {"NIC0": "NODE", "NIC1": "PIX"}, 1: {"NIC0": "NODE"}},
    )
    text = shown(topology, 80)
    assert re.search(r"^1 +\?$", text, re.MULTILINE)
    assert re.search(r"^NIC0 +no GPU that is known$", text, re.MULTILINE)
    assert re.search(r"^NIC1 +GPU 0 \(PIX\)$", text, re.MULTILINE)


def test_words_of_a_source_cannot_steer_the_terminal():
    evil = "a\x1b[31m\x07\nb"
    topology = Topology(
        (Gpu(0, name=evil, host=evil, processes=(Process(1, evil),), numa=evil), Gpu(1, host="c")),
        nics={evil: evil},
        gpu_nic={0: {evil: "PIX"}},
        warnings=(evil,),
        stated={evil: evil, "gpu_links_up": {evil: evil}, "gpu_links_GBps": {evil: {"links": {evil: evil}}}},
        network=Network(1, 1.0, (NetworkDomain(evil, evil, (evil,)),)),
    )
    text = shown(topology, 80)
    assert "\x1b" not in text
    assert "\x07" not in text


@pytest.mark.parametrize(
    ("source", "said"),
    [
        pytest.param(lambda text: text, "host: ACS off at all 8 PCIe bridges", id="read, and off"),
        pytest.param(
            lambda text: text.replace("ACSCtl", "", 2), "host: ACS off at 6 PCIe bridges of 8, not stated of the others", id="partly read"
        ),
        pytest.param(lambda text: text.replace("ACSCtl", ""), None, id="not in the text"),
        pytest.param(lambda text: text.replace("ReqRedir- ", "ReqRedir+ ", 1), "host: ACS redirects peer-to-peer traffic at 1 of", id="on"),
    ],
)
def test_acs_that_is_off_differs_from_what_is_not_in_the_text(source, said):
    """A switch's port up has no ACS, so that two of ten bridges cannot state it."""
    text = shown(read_text(source((SOURCES / "lspci-vv.txt").read_text(encoding="utf-8"))), 120)
    assert said in text if said else "ACS" not in text.partition("warning")[0]


def test_a_nic_that_is_down_is_shown_so():
    ports = (SOURCES / "more" / "ibstat.txt").read_text(encoding="utf-8")
    down = ports[::-1].replace("Active"[::-1], "Down"[::-1], 1)[::-1]
    text = shown(read_text((SOURCES / "topo-m.txt").read_text(encoding="utf-8") + down), 120)
    assert re.search(r"NIC0 +mlx5_0 +25 +up", text)
    assert re.search(r"NIC1 +mlx5_1 +down", text)


def test_where_a_log_was_read_that_does_not_show_all_the_whole_of_it_is_asked_for():
    log = (SOURCES / "q.txt").read_text(encoding="utf-8")
    assert missing(read_text(log[: log.index("GPU 00000000:B1")])).startswith(
        "not stated: cards, memory of GPUs 2–3 (join the whole of `nvidia-smi -q`, or say --gpu)"
    )


def test_many_processes_are_counted():
    topology = Topology((Gpu(0, processes=tuple(Process(k) for k in range(40))), Gpu(1, processes=())))
    text = shown(topology, 80)
    assert "8 more processes, which --json lists; no process on 1 GPU of 2" in text
    assert "no process holds memory of a GPU" in shown(Topology((Gpu(0, processes=()),)), 80)


def matrix_of(text: str) -> str:
    """Return the first matrix on the page *text*."""
    return re.search(r"^ +GPU0 .*\n(GPU\d.*\n)+", text, re.MULTILINE)[0]


def test_a_source_of_pcie_paths_only_does_not_deny_nvlink():
    paths = shown(read_text((SOURCES / "topo-mp.txt").read_text()), 80)
    assert "no two GPUs are joined" not in paths
    assert "NVLink is not stated (`topo -mp` shows PCIe paths only" in " ".join(paths.split())
    assert cells(matrix_of(paths))[0, 1] == "PIX"
    links = shown(read_text((SOURCES / "topo-mp.txt").read_text() + (SOURCES / "topo-m.txt").read_text()), 80)
    assert "islands, joined by NVLink: {0–1}, {2–3}" in links


@pytest.mark.parametrize(
    ("name", "far", "meaning"),
    [
        pytest.param("lspci-vv", "SYS", "SYS: between CPU sockets", id="NUMA nodes are stated"),
        pytest.param("lspci-tv", "?", "?: over the CPU, NODE or SYS is not stated", id="NUMA nodes are not stated"),
    ],
)
def test_bridges_tell_pcie_levels(name, far, meaning):
    text = shown(read_text((SOURCES / f"{name}.txt").read_text()), 80)
    found = cells(matrix_of(text))
    assert (found[0, 1], found[2, 3], found[0, 2]) == ("PIX", "PIX", far)
    assert meaning in " ".join(text.split())
    assert "NVLink is not stated" in text


def test_what_is_known_of_nics_near_gpus_is_shown_where_the_rest_is_not_stated():
    text = shown(read_text((SOURCES / "lspci-tv.txt").read_text()), 100)
    assert re.search(r"^0–1 .* 0000:3f:00\.0 \(PIX\)$", text, re.MULTILINE)
    assert re.search(r"^2–3 .* 0000:b3:00\.0 \(PIX\)$", text, re.MULTILINE)
    assert re.search(r"^0000:b3:00\.0 +GPUs 2–3 \(PIX\)$", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("code", "root", "near"),
    [
        pytest.param("PIX", None, "NIC0 (PIX)", id="nothing is closer than a switch in common"),
        pytest.param("PHB", "pci0000:ae", "NIC0 (PHB)", id="a root of its own is farther"),
        pytest.param("PHB", "pci0000:3a", "?", id="the same root"),
        pytest.param("PHB", None, "?", id="an unknown root"),
        pytest.param("SYS", "pci0000:ae", "?", id="another root may be on the NUMA node of the GPU"),
    ],
)
def test_a_nic_is_the_closest_where_no_other_can_be_closer(code, root, near):
    gpus = (Gpu(0, pcie=Pcie(root="pci0000:3a")), Gpu(1))
    topology = Topology(
        gpus,
        nics={"NIC0": None, "NIC1": None},
        gpu_nic={0: {"NIC0": code}, 1: {"NIC0": "SYS", "NIC1": "PIX"}},
        nic_details={"NIC1": Nic(pcie=Pcie(root=root))},
    )
    assert re.search(rf"^0 +{re.escape(near)}$", shown(topology, 80), re.MULTILINE)


def test_the_name_of_a_nic_is_cut_at_its_host_only():
    text = shown(read_text((SOURCES / "lspci-vv.txt").read_text()), 80)
    assert re.search(r"^0–1 .* 0000:3f:00\.0 \(PIX\)$", text, re.MULTILINE)
    nics = {"a:0000:3f:00.0": None, "b:0000:3f:00.0": None}
    there = {0: {"a:0000:3f:00.0": "PIX"}, 1: {"b:0000:3f:00.0": "PIX"}}
    both = shown(Topology((Gpu(0, host="a"), Gpu(1, host="b")), nics=nics, gpu_nic=there), 80)
    assert re.search(r"^0 +0000:3f:00\.0 \(PIX\)$", both, re.MULTILINE)


@given(st.text("ab ", max_size=60), st.integers(20, 60))
def test_wrapped_lines_keep_their_words_and_their_width(text, width):
    lines = wrapped(text, width).splitlines()
    assert " ".join(lines).split() == text.split()
    assert all(len(line) <= width or " " not in line.strip() for line in lines)


if __name__ == "__main__":
    for name, machine in PAGES.items():
        for width in (80, 120):
            (GOLDEN / f"{name}-{width}.txt").write_text(shown(machine(), width), encoding="utf-8")
