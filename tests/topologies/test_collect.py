"""Many hosts as one machine: texts told apart, names in order, facts kept, twins refused, a cluster in a few words."""

from __future__ import annotations

import io
import itertools
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.machines.hosts import host_groups
from topologies.catalog import machine_names, machine_text
from topologies.clusters.by_host import by_host
from topologies.clusters.collect import collect, split
from topologies.clusters.host_files import read_hosts
from topologies.clusters.marks import prefixes_of_outputs
from topologies.documents.document import to_document
from topologies.documents.document_read import from_document
from topologies.domains import Level, domains, islands, nest
from topologies.errors import TopologyError
from topologies.model import Gpu, Topology
from topologies.networks.fabric import fabric_domains
from topologies.networks.hosts import expand, match_names, natural
from topologies.parts import Fabric, Host, Network, Nic
from topologies.read import read_text
from topologies.sources import load
from topologies.wiring import wiring

TOPO = (
    "\tGPU0\tGPU1\tNIC0\tCPU Affinity\n"
    "GPU0\t X \tNV4\tPIX\t0-3\nGPU1\tNV4\t X \tSYS\t0-3\nNIC0\tPIX\tSYS\t X \n\nNIC Legend:\n\n  NIC0: mlx5_0\n"
)
NAMES = "index, name, memory.total [MiB]\n0, NVIDIA L4, 23034 MiB\n1, NVIDIA L4, 23034 MiB\n"
LIST = "".join(f"GPU {k}: NVIDIA L4 (UUID: GPU-0000000{k}-77ac-ef63-88a5-b8c4d0c906dc)\n" for k in range(2))
HOSTS = ("node2", "node10", "gpu-a.example.com")

PREFIXES: dict[str, Callable[[str], str]] = {
    "pdsh": lambda host: f"{host}: ",
    "containers": lambda host: f"{host}  | ",
    "pods": lambda host: f"[pod/{host}/main] ",
}
HEADERS: dict[str, Callable[[str], str]] = {
    "clush -b": lambda host: f"---------------\n{host}\n---------------\n",
    "one line": lambda host: f"---- {host} ----\n",
    "ansible": lambda host: f"{host} | CHANGED | rc=0 >>\n",
    "head, folders": lambda host: f"==> {host}/topo.txt <==\n",
    "pssh": lambda host: f"[1] 10:11:12 [SUCCESS] {host}\n",
    "prompt": lambda host: f"root@{host}:~# nvidia-smi topo -m\n",
}


def interleaved(prefix: Callable[[str], str], hosts: tuple[str, ...] = HOSTS, text: str = TOPO) -> str:
    """Return the lines of all hosts as they arrive: one each in turn."""
    return "".join(f"{prefix(host)}{line}\n" for line in text.splitlines() for host in hosts)


@pytest.mark.parametrize("style", PREFIXES)
def test_lines_that_name_their_host_are_told_apart(style: str) -> None:
    assert by_host(interleaved(PREFIXES[style])) == dict.fromkeys(sorted(HOSTS, key=natural), TOPO)


TABLE = (
    "| NVIDIA-SMI 550.90.07     Driver Version: 550.90.07     CUDA Version: 12.4 |\n"
    "|   0  NVIDIA L4          On  |   00000000:1B:00.0 Off |                  0 |\n"
    "| N/A   33C    P0   12W / 72W |      1MiB /  23034MiB  |      0%    Default |\n"
)
DCGM = "gpuId 0:\n    Links U U\n"
ROWS = "0, NVIDIA L4, 23034 MiB\n1, Tesla T4, 15360 MiB\n"


@pytest.mark.parametrize("text", [TABLE, DCGM, ROWS], ids=["the table of nvidia-smi", "dcgmi", "rows of a query without a header"])
@pytest.mark.parametrize("style", [*PREFIXES, *HEADERS])
def test_every_output_is_told_apart(style: str, text: str) -> None:
    """No output is only known as one where its words stand in a matrix, too."""
    if style in PREFIXES:
        said = by_host(interleaved(PREFIXES[style], text=text))
    else:
        said = by_host("".join(HEADERS[style](host) + text for host in HOSTS))
    assert [*said] == sorted(HOSTS, key=natural)
    assert all(text.strip() in part for part in said.values())


MARKS: dict[str, Callable[[str], str]] = {
    "tab, as of parallel --tag": lambda host: f"{host}\t",
    "square": lambda host: f"[{host}] ",
    "square, colon": lambda host: f"[{host}]: ",
    "angle": lambda host: f"<{host}> ",
    "greater": lambda host: f"{host}> ",
    "semicolon": lambda host: f"{host}; ",
    "dash": lambda host: f"{host} - ",
    "time": lambda host: f"2024-01-02T03:04:0{len(host) % 10}Z {host}: ",
    "time, zone": lambda host: f"2024-01-02 03:04:05.123+0100 {host} ",
    "time in brackets": lambda host: f"[2024-01-02 03:04:05] [{host}] ",
    "syslog": lambda host: f"Jan  2 03:04:05 {host} nvidia-smi[123]: ",
    "journal": lambda host: f"Nov 30 13:05:36 {host} run.sh: ",
}
HEADINGS: dict[str, Callable[[str], str]] = {
    "alone": lambda host: f"{host}\n",
    "colon": lambda host: f"{host}:\n",
    "labelled": lambda host: f"Host: {host}\n",
    "hashes": lambda host: f"### {host}\n",
    "hash": lambda host: f"# {host}\n",
    "bold": lambda host: f"**{host}**\n",
    "ansible": lambda host: f"ok: [{host}] => {{\n",
}
ALIKE = ("node2", "node10", "gpu-a7.example.com")


@pytest.mark.parametrize("text", [TOPO, TABLE, DCGM, ROWS, NAMES], ids=["matrix", "table", "dcgmi", "rows", "query"])
@pytest.mark.parametrize("style", [*MARKS, *HEADINGS])
@pytest.mark.parametrize("is_collecting", [False, True])
def test_names_that_could_be_others_count_where_each_has_an_output(style: str, text: str, is_collecting: bool) -> None:
    if style in MARKS:
        given = interleaved(MARKS[style], ALIKE, text)
    else:
        given = "".join(HEADINGS[style](host) + text for host in ALIKE)
    said = by_host(given, is_collecting=is_collecting)
    assert {host: part.strip() for host, part in said.items()} == dict.fromkeys(sorted(ALIKE, key=natural), text.strip())


@pytest.mark.parametrize("name", ["gpu01", "gpu-01", "dgx-1", "host1", "machine1", "cpu01", "step1", "test1"])
@pytest.mark.parametrize("style", [*PREFIXES, *HEADERS, *HEADINGS])
def test_hosts_may_be_called_like_other_things(style: str, name: str) -> None:
    """What a launcher names is a host, and so is what stands before each line of a whole output; a heading that names a step is none."""
    hosts = tuple(f"{name[:-1]}{k}" for k in (1, 2, 3))
    if style in PREFIXES:
        given = interleaved(PREFIXES[style], hosts)
    else:
        given = "".join((HEADERS | HEADINGS)[style](host) + TOPO for host in hosts)
    is_weak = (style in HEADINGS and style != "ansible") or style == "one line"
    said = by_host(given, is_collecting=True)
    assert [*said] == ([] if is_weak and name in ("step1", "test1") else [*hosts])


@pytest.mark.parametrize("names", [("node1", "node2", "gpu01"), ("gpu01", "node1", "host3")])
@pytest.mark.parametrize("style", ["pdsh", "ansible", "clush -b", "prompt"])
def test_one_host_among_others_is_not_lost(style: str, names: tuple[str, ...]) -> None:
    given = interleaved(PREFIXES[style], names) if style in PREFIXES else "".join(HEADERS[style](host) + TOPO for host in names)
    assert {*by_host(given)} == {*names}


def test_a_file_called_by_an_address_is_of_that_host(tmp_path: Path) -> None:
    hosts = ("10.0.1.7", "10.0.2.7")
    for host in hosts:
        (tmp_path / f"{host}.txt").write_text(TOPO)
    machines, _ = read_hosts([str(tmp_path)])
    assert [*machines] == [*hosts]
    assert [*by_host("".join(f"==> {host}.txt <==\n{TOPO}" for host in hosts))] == [*hosts]


def test_labels_of_devices_are_no_hosts() -> None:
    given = "GPU0: 1b:00.0 3D controller: NVIDIA Corporation\nGPU1: 1c:00.0 3D controller: NVIDIA Corporation\nNIC0: mlx5_0\n"
    assert by_host(given, is_collecting=True) == {}


@pytest.mark.parametrize(
    "command", ["ssh {}", "ssh -p 22 -o X=y root@{}", "kubectl exec {} --", "kubectl -n rl exec -it {} -c main --", "oc exec {}"]
)
def test_a_command_that_runs_elsewhere_names_the_host(command: str) -> None:
    for before in ("me@login:~$ ", "$ ", "+ ", "++ ", "+ ./all.sh:12: ", "+ sudo ", ""):
        given = "".join(f"{before}{command.format(host)} nvidia-smi topo -m\n{TOPO}" for host in HOSTS)
        assert [*by_host(given)] == sorted(HOSTS, key=natural)


@pytest.mark.parametrize(
    "inner",
    [
        "me@gpu01:~$ docker exec vllm-0 nvidia-smi topo -m",
        "root@3f2a1b9c0d4e:/# nvidia-smi topo -m",
        "me@gpu01:~$ kubectl exec pod-0 -- nvidia-smi",
        "me@gpu01.example.com:~$ nvidia-smi topo -m",
    ],
)
def test_a_container_is_on_the_host_of_the_prompt_before(inner: str) -> None:
    """One machine, asked outside and inside, is one."""
    given = f"me@gpu01:~$ nvidia-smi -L\n{LIST}{inner}\n{TOPO}"
    assert by_host(given) == {}
    assert len(read_text(given).gpus) == 2


@pytest.mark.parametrize("inner", ["$ ssh other nvidia-smi topo -m", "me@login:~$ nvidia-smi topo -m", "$ docker exec vllm nvidia-smi"])
def test_a_launcher_says_whose_block_it_is(inner: str) -> None:
    given = "".join(HEADERS["clush -b"](host) + f"{inner}\n{TOPO}" for host in HOSTS)
    assert [*by_host(given)] == sorted(HOSTS, key=natural)


def test_two_matrices_of_two_commands_are_no_repetition() -> None:
    given = f"$ nvidia-smi topo -m\n{TOPO}$ nvidia-smi topo -mp\n{TOPO}"
    machines, _ = read_hosts(["-"], stdin=io.BytesIO(given.encode()))
    assert not [w for machine in machines.values() for w in machine.warnings if "times" in w]


@pytest.mark.parametrize(
    "said",
    [
        "clush: node7: exited with exit code 127\n", "clush: node[7-8] (2): command timeout\n", "node7: nvidia-smi: command not found\n",
        "----------------\npdsh@login\n----------------\nnode7: ssh exited with exit code 127\n",
    ],
)  # fmt: skip
def test_what_launchers_say_of_failed_hosts_beside_blocks_is_kept(said: str) -> None:
    blocks = "".join(HEADERS["clush -b"](host) + TOPO for host in HOSTS)
    found = by_host(said + blocks, is_collecting=True)
    assert found.keys() >= {*HOSTS, "node7"}
    assert all(TOPO.strip() in found[host] for host in HOSTS)
    with pytest.raises(TopologyError, match=r"node7"):
        read_hosts(["-"], stdin=io.BytesIO((said + blocks).encode()))


def test_all_hosts_that_failed_are_named_at_once() -> None:
    said = interleaved(PREFIXES["pdsh"]) + "node20: nvidia-smi: command not found\nnode21: nvidia-smi: command not found\n"
    with pytest.raises(TopologyError, match=r"node20.*not found.*; node21 failed, too \(--keep-going"):
        read_hosts(["-"], stdin=io.BytesIO(said.encode()))


def test_outputs_that_nobody_names_are_told_of() -> None:
    """Two hosts may have printed them, and as one machine half of the GPUs would be gone."""
    machines, _ = read_hosts(["-"], stdin=io.BytesIO(f"before\n{TOPO}after\n{TOPO}".encode()))
    assert [w for machine in machines.values() for w in machine.warnings if "the same output stands there 2 times" in w]
    machines, _ = read_hosts(["-"], stdin=io.BytesIO(TOPO.encode()))
    assert not [w for machine in machines.values() for w in machine.warnings]


def test_ray_names_the_address_of_a_task_that_it_does_not_name() -> None:
    hosts = ("10.0.0.1", "10.0.0.2")
    assert by_host(interleaved(lambda host: f"(pid=11, ip={host}) ", hosts)) == dict.fromkeys(hosts, TOPO)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"# topo-1\n{TOPO}# query-2\n{NAMES}", id="outputs of two kinds"),
        pytest.param(f"[n0] see GPU0\n[n1] see GPU1\n{TOPO}", id="marks in prose"),
        pytest.param(interleaved(lambda rank: f"[rank{rank}]: ", ("0", "1")), id="ranks, which may be of one host"),
        pytest.param(f"Figure1\n{TOPO}Figure2\n{TOPO}", id="figures"),
        pytest.param(interleaved(lambda time: f"[2024-01-02T03:04:{time}] ", ("01", "02")), id="times"),
        pytest.param(f"# try-1\n{TOPO}# try-2\n{TOPO}", id="tries"),
        pytest.param(f"[n0] {TOPO}", id="one"),
    ],
)
def test_names_of_other_things_are_no_hosts(text: str) -> None:
    assert by_host(text) == {}
    assert by_host(text, is_collecting=True) == {}


@pytest.mark.parametrize("text", [TOPO, NAMES], ids=["matrix", "query"])
@pytest.mark.parametrize("prefixes", [("[rank0]: ", "[rank1]: "), ("{a} ", "{b} "), ("10:00:01 a=1 ", "10:00:02 b=1 ")])
def test_whole_outputs_behind_prefixes_that_name_no_host_never_vanish(prefixes: tuple[str, ...], text: str) -> None:
    given = interleaved(str, prefixes, text)
    with pytest.raises(TopologyError, match="whole outputs stand behind different prefixes") as caught:
        read_hosts(["-"], stdin=io.BytesIO(given.encode()))
    assert all(repr(prefix.strip()) in str(caught.value) or prefix.strip(" :") in str(caught.value) for prefix in prefixes)
    assert any("are taken as those of one machine" in warning for warning in read_text(given).warnings)


@pytest.mark.parametrize("name", ["q.txt", "q.xml", "table.txt", "nccl.xml", "rocm-smi.txt", "lspci-vv.txt", "topo-m.txt"])
def test_long_outputs_behind_prefixes_that_name_no_host_never_vanish(name: str, tmp_path: Path) -> None:
    text = (Path(__file__).parent.parent / "data" / "sources" / name).read_text(encoding="utf-8")
    path = tmp_path / "all.txt"
    path.write_text("".join(f"{{{host}}} {line}\n" for host in ("a", "b") for line in text.splitlines()))
    with pytest.raises(TopologyError, match=r"whole outputs stand behind different prefixes.*\{a\}.*\{b\}.*name no host"):
        read_hosts([str(path)])
    assert any("are taken as those of one machine" in warning for warning in load(str(path)).warnings)
    path.write_text("".join(f"{number}: {line}\n" for number, line in enumerate(text.splitlines() * 2)))
    assert prefixes_of_outputs(path.read_text()) == []


def test_no_collected_text_has_outputs_behind_prefixes() -> None:
    folder = Path(__file__).parent.parent / "data"
    texts = [path.read_bytes().decode("utf-8", "replace") for path in folder.rglob("*") if path.is_file() and path.suffix != ".json"]
    assert len(texts) > 50
    assert [found for text in texts if (found := prefixes_of_outputs(text))] == []


def test_prefixes_that_differ_in_their_times_are_of_one_host() -> None:
    first, second = "2024-01-02T10:00:01.5Z INFO ", "2024-01-02T10:00:02.7Z INFO "
    given = "".join(f"{time}{line}\n" for time in (first, second) for line in TOPO.splitlines())
    assert not any("taken as" in warning for warning in read_text(given).warnings)


@pytest.mark.parametrize("blank", ["", " "])
def test_mpirun_puts_a_blank_before_all_lines_or_before_none(blank: str) -> None:
    tree = (Path(__file__).parent.parent / "data" / "sources" / "lspci-tv.txt").read_text("utf-8").partition("\n")[2]
    said = by_host("".join(f"[1,{k}]<stdout>:{blank}{line}\n" for k in (0, 1) for line in f"hostname: node{k}\n{tree}".splitlines()))
    assert said == {f"node{k}": f"hostname: node{k}\n{tree}" for k in (0, 1)}


def test_numbers_of_tasks_are_hosts_however_they_are_padded() -> None:
    assert [*by_host(interleaved(lambda task: f"{task:>3}: ", ("0", "2", "10")))] == ["0", "2", "10"]


@pytest.mark.parametrize("style", HEADERS)
def test_blocks_that_name_their_host_are_told_apart(style: str) -> None:
    said = by_host("".join(HEADERS[style](host) + TOPO for host in HOSTS))
    assert list(said) == sorted(HOSTS, key=natural)
    assert all(read_text(text).links == {(0, 1): "NV4"} for text in said.values())


def test_a_block_of_several_hosts_counts_for_each() -> None:
    said = by_host(f"----------------\nnode[08-10] (3)\n----------------\n{TOPO}")
    assert [*said] == ["node08", "node09", "node10"]
    assert len(set(said.values())) == 1


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(TOPO, id="one host"),
        pytest.param(interleaved(PREFIXES["pdsh"], ("node0",)), id="one host, named"),
        pytest.param("INFO: GPU0 found\nWARNING: GPU1 found\n" + TOPO, id="levels of a log"),
        pytest.param("GPU0: a GPU0\nGPU1: a GPU1\n", id="labels"),
        pytest.param(f"before: GPU0\nafter: GPU0\n{TOPO}\n{TOPO}", id="prose"),
        pytest.param(f"a1: see GPU0\nb1: see GPU1\n{TOPO}", id="most stands in other lines"),
    ],
)
def test_other_texts_are_not_told_apart(text: str) -> None:
    assert by_host(text) == {}


def test_no_collected_text_is_taken_for_several_hosts() -> None:
    folder = Path(__file__).parent.parent / "data" / "topology"
    texts = [path.read_bytes().decode("utf-8", "replace") for path in folder.iterdir() if path.suffix != ".json"]
    assert len(texts) > 50
    assert [by_host(text) for text in texts] == [{}] * len(texts)


@settings(deadline=None)
@given(st.text("GPU0 :|-=[]{}()ab1\n\t@$#,", max_size=200))
def test_any_text_is_told_apart_or_not(text: str) -> None:
    said = by_host(text)
    assert len(said) != 1
    assert all(isinstance(part, str) for part in said.values())


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("GPU0\n" + "-----\na[0-4095]\n-----\nGPU0\n" * 50_000, id="lists of hosts"),
        pytest.param("GPU0\n" + "-----\na[0-4095]\n-----\nGPU0\n----\na[0-4094]\n----\nGPU0\n" * 20_000, id="overlapping lists"),
        pytest.param("".join(f"node{k}: GPU0\n" for k in range(200_000)), id="many hosts"),
        pytest.param("GPU0\n" + "u@a" * 1_000_000, id="a long line"),
    ],
)
def test_a_text_made_to_be_slow_is_not(text: str) -> None:
    begun = time.process_time()
    try:
        by_host(text, is_collecting=True)
    except TopologyError as error:
        assert "host" in str(error)
    assert time.process_time() - begun < 20


@given(st.lists(st.integers(0, 10**6), unique=True, max_size=8))
def test_hosts_stand_in_natural_order(numbers: list[int]) -> None:
    names = [f"node{number}" for number in numbers]
    assert sorted(names, key=natural) == [f"node{number}" for number in sorted(numbers)]


@given(st.integers(0, 500), st.integers(0, 50), st.integers(1, 4))
def test_a_range_stands_for_its_names(first: int, size: int, width: int) -> None:
    written = f"a[{str(first).zfill(width)}-{first + size}]b"
    assert expand(written) == tuple(f"a{str(number).zfill(width)}b" for number in range(first, first + size + 1))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a[0-1", "bracket"), ("a]", "bracket"), ("a[1-0]", "backwards"), ("a[x]", "no range"), ("a[0-99999999]", "more than"),
        ("a[0-999][0-999]", "more than"), ("a[" + "9" * 5000 + "]", "no range"),
    ],
)  # fmt: skip
def test_a_list_that_cannot_be_read_is_refused(text: str, words: str) -> None:
    with pytest.raises(TopologyError, match=words):
        expand(text)


def test_a_host_is_known_by_its_short_name_where_that_is_clear() -> None:
    assert match_names(["node0", "b.x", "c"], ["node0.example.com", "b", "c.x", "c.y"]) == {"node0": "node0.example.com", "b.x": "b"}


def machine(name: str, **changes: object) -> Topology:
    return read_text(machine_text(name)).replace(**changes)


@settings(deadline=None)
@given(st.lists(st.sampled_from(machine_names()), min_size=1, max_size=4))
def test_collecting_keeps_every_host_as_it_is(names: list[str]) -> None:
    """Splitting what was collected gives back each machine; writing and reading it changes nothing."""
    hosts = {f"node{k}": machine(name, host_facts={None: Host(1024, 8)}) for k, name in enumerate(names)}
    found = collect(hosts)
    assert found.hosts == tuple(hosts)
    assert from_document(to_document(found)) == found
    for host, part in split(found).items():
        whole = hosts[str(host)]
        assert [gpu.replace(host=None) for gpu in part.gpus] == list(whole.gpus)
        assert part.links == whole.links
        assert part.host_facts == {host: Host(1024, 8)}
    assert collect({str(host): part for host, part in split(found).items()}) == found.replace(warnings=())


@given(sizes=st.lists(st.integers(1, 4), min_size=2, max_size=5), data=st.data())
def test_what_hosts_state_of_nvlinks_stands_at_the_numbers_of_all(sizes: list[int], data: st.DataObject) -> None:
    """So do the memory that PCIe reaches and tables of pairs; versions are facts of hosts. Each has all again where they are split."""
    rate = st.sampled_from([25.0, 26.562, "inactive"])
    cuda = data.draw(st.sampled_from(["12.4", None]))
    last = data.draw(st.sampled_from(["12.4", "12.8"]))
    machines = {}
    for k, size in enumerate(sizes):
        rates = {str(g): {"name": None, "links": {"0": data.draw(rate)}} for g in range(size) if data.draw(st.booleans())}
        stated = ({"gpu_links_GBps": rates} if rates else {}) | ({"cuda": last if k == len(sizes) - 1 else cuda} if cuda else {})
        if data.draw(st.booleans()):
            stated["bar1_mib"] = {str(g): {"total": 1024 * (k + 1)} for g in range(size)}
            stated["hops"] = {f"{i}-{j}": str(i + j + k) for j in range(size) for i in range(j)}
            stated = {word: facts for word, facts in stated.items() if facts}
        machines[f"n{k}"] = Topology(tuple(Gpu(g) for g in range(size)), stated=stated)
    whole = collect(machines)
    told = {
        str(sum(sizes[:k]) + int(g)): facts
        for k, machine in enumerate(machines.values())
        for g, facts in machine.stated.get("gpu_links_GBps", {}).items()
    }
    assert whole.stated.get("gpu_links_GBps", {}) == told
    first = dict(zip(machines, itertools.accumulate(sizes, initial=0), strict=False))
    bar1 = {str(first[n] + int(g)): facts for n, m in machines.items() for g, facts in m.stated.get("bar1_mib", {}).items()}
    assert whole.stated.get("bar1_mib", {}) == bar1
    assert len(whole.stated.get("hops", {})) == sum(len(machine.stated.get("hops", {})) for machine in machines.values())
    assert {name: facts.cuda for name, facts in whole.host_facts.items()} == {
        name: machine.stated["cuda"] for name, machine in machines.items() if cuda
    }
    assert from_document(to_document(whole)).stated == whole.stated
    for name, machine in split(whole).items():
        for word in ("gpu_links_GBps", "bar1_mib", "hops"):
            assert machine.stated.get(word) == machines[str(name)].stated.get(word)


def test_hosts_keep_their_versions_and_the_page_shows_which_has_which() -> None:
    """Two hosts alike but for CUDA, and a lone GPU whose memory has no index."""
    head = "Driver Version : 550.1\nCUDA Version : {}\nAttached GPUs : 1\nGPU 00000000:18:00.0\n"
    log = head + "    BAR1 Memory Usage\n        Total : 256 MiB\n"
    found = collect({f"n{k}": read_text(log.format(cuda)) for k, cuda in enumerate(("12.4", "12.4", "12.2"))})
    assert [(facts.driver, facts.cuda) for facts in found.host_facts.values()] == [("550.1", "12.4")] * 2 + [("550.1", "12.2")]
    assert found.stated == {"bar1_mib": {str(g): {"total": 256} for g in range(3)}}
    assert [group.hosts for group in host_groups(found)] == [("n0", "n1"), ("n2",)]
    assert collect({str(host): part for host, part in split(found).items()}) == found.replace(warnings=())


def test_nics_are_named_after_their_host_once() -> None:
    nic = machine("dgx-a100-80gb", nics={"NIC0": "mlx5_0"}, gpu_nic={0: {"NIC0": "PIX"}}, nic_details={"NIC0": Nic(gb_per_s=25.0)})
    found = collect({"a": nic, "b": nic})
    assert found.nics == {"a:NIC0": "mlx5_0", "b:NIC0": "mlx5_0"}
    assert found.gpu_nic == {0: {"a:NIC0": "PIX"}, 8: {"b:NIC0": "PIX"}}
    assert collect({"x": found}).nics == found.nics
    devices = {device for members in nest(found).clusters.values() for part in members for device in part if device[0] == "nic"}
    assert devices == {("nic", "a:NIC0"), ("nic", "b:NIC0")}


def test_the_same_host_twice_is_refused() -> None:
    gpu = Topology((Gpu(0, uuid="GPU-1"),))
    with pytest.raises(TopologyError, match="GPU 0 of a and GPU 0 of b have the same UUID"):
        collect({"a": gpu, "b": gpu.replace(gpus=(Gpu(0, uuid="gpu-1"),))})


def test_a_warning_stands_once_with_its_hosts() -> None:
    cut = machine("a100-1", warnings=("GPU1 is cut",))
    assert collect({f"node{k}": cut for k in range(3)}).warnings == ("node0 to node2: GPU1 is cut",)


@pytest.mark.parametrize(
    ("fabrics", "expected"),
    [
        pytest.param([("u", 1, "completed")] * 2, [("u.1", ("h0", "h1"))], id="one domain"),
        pytest.param([("u", 1, "completed"), ("u", 2, "completed")], [], id="two cliques"),
        pytest.param([("u", 1, "in progress")] * 2, [], id="not completed"),
        pytest.param([("00000000-0000-0000-0000-000000000000", 0, "completed")] * 2, [], id="zero is unknown"),
        pytest.param([("u", None, "completed")] * 2, [], id="no clique"),
    ],
)
def test_fabrics_that_span_hosts_are_domains(fabrics: list[tuple[str, int, str]], expected: list[object]) -> None:
    gpus = [Gpu(k, host=f"h{k // 2}", fabric=Fabric(*fabrics[k // 2])) for k in range(4)]
    found, warnings = fabric_domains(gpus)
    assert [(domain.name, domain.hosts) for domain in found] == expected
    assert warnings == ()


def test_a_host_half_in_a_fabric_is_in_none() -> None:
    gpus = [Gpu(k, host=f"h{k // 2}", fabric=Fabric("u", 1, "completed") if k else None) for k in range(6)]
    found, warnings = fabric_domains(gpus)
    assert [domain.hosts for domain in found] == [("h1", "h2")]
    assert "h0" in warnings[0]


PDSH_FAILURE = "node1: bash: nvidia-smi: command not found\npdsh@login: node1: ssh exited with exit code 127\n"
CLUSH = "---------------\n{}\n---------------\n"


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        pytest.param(interleaved(PREFIXES["pdsh"], ("node0",)) + PDSH_FAILURE, "node1", id="pdsh"),
        pytest.param(interleaved(PREFIXES["pdsh"], ("node0",)) + "pdsh@login: gpu-b: ssh exited with exit code 1\n", "gpu-b", id="message"),
        pytest.param("clush: node[1-1] (1): exited with exit code 9\n" + interleaved(PREFIXES["pdsh"], ("node0",)), "node1", id="clush"),
        pytest.param(interleaved(PREFIXES["pdsh"], ("node0",)) + "node1: something new\n", "node1", id="words nobody knows"),
        pytest.param(interleaved(PREFIXES["pdsh"], ("node0", "node2")) + "node1: something new\n", "node1", id="two that work"),
        pytest.param(interleaved(PREFIXES["pdsh"], ("node0",)) + "alpha: Connection closed\n", "alpha", id="a name without a number"),
        pytest.param(CLUSH.format("node0") + TOPO + CLUSH.format("node1") + "something new\n", "node1", id="clush -b"),
        pytest.param(f"node0 | CHANGED | rc=0 >>\n{TOPO}\nnode1 | FAILED | rc=127 >>\nno\n", "node1", id="ansible"),
    ],
)
def test_a_host_that_failed_never_vanishes(text: str, failed: str, tmp_path: Path) -> None:
    path = tmp_path / "all.txt"
    path.write_text(text)
    with pytest.raises(TopologyError, match=rf"{failed}.*--keep-going"):
        read_hosts([str(path)])
    machines, warnings = read_hosts([str(path)], keep_going=True)
    assert [*machines] == [host for host in ("node0", "node2") if f"{host}: " in text or f"{host}\n" in text or f"{host} |" in text]
    assert [warning.split(" was")[0] for warning in warnings] == [f"the host {failed}"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("node2: ssh: connect to host node2 port 22: Connection refused\n", "was not reached"),
        ("srun: error: node2: task 2: Exited with exit code 127\n", "the command failed there"),
        ("pdsh@login: node2: ssh exited with exit code 255\n", "the command failed there"),
        ("clush: node2: exited with exit code 1\n", "the command failed there"),
    ],
)
def test_a_failed_host_is_told_with_what_the_launcher_says(line: str, words: str) -> None:
    given = interleaved(PREFIXES["pdsh"], ("node0", "node1")) + line
    with pytest.raises(TopologyError, match=f"node2.*{words}"):
        read_hosts(["-"], stdin=io.BytesIO(given.encode()))


def test_a_host_that_ansible_did_not_reach_is_told_so() -> None:
    given = f"node1 | CHANGED | rc=0 >>\n{TOPO}node3 | UNREACHABLE! => {{\n  \"changed\": false,\n  \"msg\": \"Failed\"\n}}\n"
    with pytest.raises(TopologyError, match=r"node3.*UNREACHABLE.*was not reached"):
        read_hosts(["-"], stdin=io.BytesIO(given.encode()))
    with pytest.raises(TopologyError, match=r"node3.*the shell says.*not installed"):
        read_hosts(["-"], stdin=io.BytesIO(given.replace("UNREACHABLE! => {", "FAILED | rc=127 >>\nnvidia-smi: not found").encode()))


@pytest.mark.parametrize(
    ("text", "host"),
    [
        pytest.param(interleaved(PREFIXES["pdsh"], ("node0",)), "node0", id="pdsh"),
        pytest.param(CLUSH.format("node0") + TOPO, "node0", id="clush -b"),
        pytest.param("node0 | CHANGED | rc=0 >>\n" + TOPO, "node0", id="ansible"),
        pytest.param("hostname: node0\n" + TOPO, "node0", id="stated"),
        pytest.param(interleaved(lambda task: f"{task}: ", ("0",), "HOST=node0\n" + TOPO), "node0", id="a task that tells"),
        pytest.param(interleaved(lambda task: f"{task}: ", ("0",)), "stdin", id="a task that does not"),
        pytest.param("INFO: here\n" + TOPO, "stdin", id="nobody"),
    ],
)
def test_a_lone_host_has_the_name_that_its_output_gives(text: str, host: str) -> None:
    machines, _ = read_hosts(["-"], stdin=io.BytesIO(text.encode()))
    assert [*machines] == [host]
    assert machines[host].links == {(0, 1): "NV4"}


def test_two_files_whose_lines_begin_with_one_name_are_not_made_one_host(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt", "topo.txt", "gpus.txt"):
        (tmp_path / name).write_text(interleaved(PREFIXES["pdsh"], ("trainer-0",)))
    with pytest.raises(TopologyError, match="begin with the same name, 'trainer-0'"):
        read_hosts([str(tmp_path / "a.txt"), str(tmp_path / "b.txt")])
    assert [*read_hosts([str(tmp_path / "topo.txt"), str(tmp_path / "gpus.txt")])[0]] == ["trainer-0"]


@pytest.mark.parametrize("says", ["hostname: {}", "HOST={}", "SLURMD_NODENAME={}", "root@{}:~$ nvidia-smi topo -m", "[me@{} ~]$", "{}"])
def test_tasks_that_tell_their_host_are_called_after_it(says: str) -> None:
    lines = [f"{task}: {line}\n" for task, host in enumerate(HOSTS[:2]) for line in [says.format(host), *TOPO.splitlines()]]
    assert [*by_host("".join(lines))] == ["node2", "node10"]


def test_the_command_of_the_documentation_for_srun_names_hosts() -> None:
    """What its `sed` does to the outputs of two hosts, failures included, is told apart."""
    text = (Path(__file__).parents[2] / "docs" / "clusters.md").read_text(encoding="utf-8")
    assert """| sed "s/^/$(hostname): /\"""" in text
    said = by_host(interleaved(lambda host: f"{host}: ") + "srun: error: node3: task 3: Exited with exit code 127\n", is_collecting=True)
    assert [*said] == sorted((*HOSTS, "node3"), key=natural)


def test_two_tasks_of_one_host_are_refused() -> None:
    with pytest.raises(TopologyError, match=r"tasks 0 and 1 ran on the same host, node2: .*--ntasks-per-node=1"):
        by_host(interleaved(lambda task: f"{task}: ", ("0", "1"), "hostname: node2\n" + TOPO))


def test_files_of_a_folder_without_a_word_on_gpus_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "node0.txt").write_text(TOPO)
    (tmp_path / "README.md").write_text("# What was collected\n\nGPU 0 to 7 of each host\n")
    (tmp_path / "run.sh").write_text("pdsh nvidia-smi topo -m\n")
    (tmp_path / "node1.md").write_text(f"```\n{TOPO}```\n")
    said: list[str] = []
    machines, warnings = read_hosts([str(tmp_path)], say=said.append)
    assert (sorted(machines), warnings) == (["node0", "node1"], ())
    skipped = [f"{name} was skipped: it has no output about GPUs" for name in ("README.md", "run.sh")]
    assert [line.rpartition("/")[2] for line in said] == skipped
    with pytest.raises(TopologyError, match=r"run\.sh"):
        read_hosts([str(tmp_path / "run.sh")])


FILES = {
    "stems": (["node10.txt", "node2.txt"], ["node2", "node10"]),
    "several of one host": (["node2.topo.txt", "node2.gpus.csv", "node10.topo.txt"], ["node2", "node10"]),
    "folders": (["node10/topo.txt", "node10/gpus.csv", "node2/topo.txt"], ["node2", "node10"]),
    "folders, any name": (["node10/a.txt", "node2/a.txt"], ["node2", "node10"]),
    "one folder": (["node2/topo.txt", "node2/gpus.csv"], ["node2"]),
}


@pytest.mark.parametrize("case", FILES)
def test_files_are_about_hosts(case: str, tmp_path: Path) -> None:
    names, hosts = FILES[case]
    for name in names:
        path = tmp_path / "dumps" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(NAMES if path.suffix == ".csv" else TOPO)
    for sources in ([str(tmp_path / "dumps" / name) for name in names], [str(tmp_path / "dumps")]):
        machines, warnings = read_hosts(sources)
        assert sorted(machines, key=natural) == hosts
        assert warnings == ()
        assert all(found.links == {(0, 1): "NV4"} for found in machines.values())


def test_a_host_that_cannot_be_read_is_named_or_left_out(tmp_path: Path) -> None:
    for host, text in (("node0", TOPO), ("node1", "nothing here\n")):
        (tmp_path / f"{host}.txt").write_text(text)
    with pytest.raises(TopologyError, match=r"node1\.txt:1: no output"):
        read_hosts([str(tmp_path)])
    machines, warnings = read_hosts([str(tmp_path)], keep_going=True)
    assert [*machines] == ["node0"]
    assert warnings[0].startswith("the host node1 was left out: ")


def test_a_letter_among_names_of_hosts_is_a_name_and_no_output(tmp_path: Path) -> None:
    for name in ("a.txt", "b.log", "c.txt"):
        (tmp_path / name).write_text(TOPO)
    assert sorted(read_hosts([str(tmp_path)])[0]) == ["a", "b", "c"]
    (tmp_path / "c.txt").write_text("nothing here\n")
    with pytest.raises(TopologyError, match=r"host c: .*c\.txt:1: no output|c\.txt:1: no output"):
        read_hosts([str(tmp_path)])
    assert read_hosts([str(tmp_path)], keep_going=True)[1][0].startswith("the host c was left out")


def test_hosts_that_print_the_same_are_read_alike_and_named_apart(tmp_path: Path) -> None:
    for name in ("node0", "node1"):
        (tmp_path / f"{name}.txt").write_text(TOPO.replace("NV4\t X", "NV5\t X"))
        (tmp_path / f"bad-{name}.txt").write_text("GPU0\n")
    machines, warnings = read_hosts([str(tmp_path)], keep_going=True)
    assert machines["node0"] == machines["node1"] == read_text((tmp_path / "node0.txt").read_text())
    assert [f"bad-node{k}.txt:1" in warning for k, warning in enumerate(warnings)] == [True, True]


def test_a_text_of_several_hosts_is_read_as_a_cluster(tmp_path: Path) -> None:
    path = tmp_path / "all.txt"
    path.write_text(interleaved(PREFIXES["pdsh"]))
    found = load(str(path))
    assert found.hosts == tuple(sorted(HOSTS, key=natural))
    assert len(found.gpus) == 6
    assert found.links == {(0, 1): "NV4", (2, 3): "NV4", (4, 5): "NV4"}
    assert read_hosts([str(path)])[0].keys() == set(HOSTS)


@pytest.mark.parametrize(
    ("words", "hosts", "network"),
    [
        ("dgx-h100 x 16 @ 8x50GB/s", 16, Network(8, 50.0)),
        ("dgx-h100x2@8x400Gb/s", None, None),
        ("dgx-h100 x2@8x400Gb/s", 2, Network(8, 50.0)),
        ("dgx-h100 X 2 @ 8X50GB/s", 2, Network(8, 50.0)),
        ("dgx-h100 × 3 @ 4 x 100 Gbit/s", 3, Network(4, 12.5)),
        ("dgx-h100*2", 2, None),
        ("a100-1 x 1", 1, None),
    ],
)  # fmt: skip
def test_a_cluster_in_a_few_words(words: str, hosts: int | None, network: Network | None) -> None:
    if hosts is None:
        with pytest.raises(TopologyError, match="write it as"):
            load(words)
        return
    found = load(words)
    assert found.hosts == tuple(f"host{k}" for k in range(hosts))
    assert found.network == network
    assert bool(found.warnings) == (network is None and hosts > 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("dgx-h100 x 0", "1 to 4,096"), ("dgx-h100 x 99999", "1 to 4,096"), ("16 x dgx-h100", "write it as"),
        ("dgx-h10 x 2", "did you mean"),
        ("dgx-h100 x 2 @ 8x50", "write it as"), ("dgx-h100 x 2 @ 8x50TB/s", "write it as"), ("dgx-h100 x 2 @ 0x50GB/s", "carries nothing"),
        ("hosts/node0 x 4 @ 2x25GB/s", "'hosts/node0' is none; `placement collect` makes a cluster of files"),
        ("node0.txt x 4", "'node0.txt' is none; `placement collect`"),
    ],
)  # fmt: skip
def test_words_that_are_no_cluster_are_refused(words: str, said: str) -> None:
    with pytest.raises(TopologyError, match=said):
        load(words)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("dgx-h100", "is a shipped machine, and no output of a host: 'dgx-h100 x 4'"), ("dgx-h100 x 4", "is a cluster in a few words"),
        ("live", "placement topology live --yaml"), ("node0.txt", "there is no such file or folder; FILE is"),
    ],
)  # fmt: skip
def test_what_is_no_file_of_a_host_is_told_where_it_goes(source: str, said: str) -> None:
    with pytest.raises(TopologyError, match=said):
        read_hosts([source])


def test_a_path_that_is_mistyped_is_told_with_the_one_that_is_there(tmp_path: Path) -> None:
    """To go on without a host is an offer only where others are left."""
    (tmp_path / "node0.txt").write_text(TOPO)
    wrong = str(tmp_path / "nod0.txt")
    with pytest.raises(TopologyError) as caught:
        read_hosts([wrong])
    said = f"{wrong}: there is no such file or folder; did you mean '{tmp_path / 'node0.txt'}'? FILE is a file"
    assert str(caught.value).startswith(said)
    assert "--keep-going" not in str(caught.value)
    with pytest.raises(TopologyError, match=r"no such file or folder.*--keep-going"):
        read_hosts([str(tmp_path / "node0.txt"), wrong])
    machines, warnings = read_hosts([str(tmp_path / "node0.txt"), wrong], keep_going=True)
    assert [*machines] == ["node0"]
    assert warnings[0].startswith("the host nod0 was left out: ")


def test_a_host_that_is_called_after_its_folder_among_files_is_told(tmp_path: Path) -> None:
    for name in ("pci.txt", "node1.txt"):
        (tmp_path / name).write_text(machine_text("a100-1"))
    said: list[str] = []
    found, _ = read_hosts([str(tmp_path)], say=said.append)
    assert [*found] == ["node1", tmp_path.name]
    why = "its own name says only what output it is; the others keep theirs"
    assert said == [f"{tmp_path / 'pci.txt'} is taken as the host {tmp_path.name}, after its folder: {why}"]
    said.clear()
    (tmp_path / "node1.txt").rename(tmp_path / "topo.txt")
    read_hosts([str(tmp_path)], say=said.append)
    assert said == []


def test_the_shape_of_many_hosts_takes_time_in_proportion() -> None:
    """Four times the hosts take about four times as long; a square would take sixteen."""

    def seconds(hosts: int) -> float:
        found = load(f"dgx-h100 x {hosts} @ 8x50GB/s")
        begun = time.process_time()
        assert islands(found) == tuple(tuple(range(8 * k, 8 * k + 8)) for k in range(hosts))
        assert len(domains(found, Level.HOST)) == hosts
        wiring(found)
        assert found.links_complete
        return time.process_time() - begun

    seconds(8)
    small, large = min(seconds(64), seconds(64)), seconds(256)
    assert large < 10 * small + 0.2
