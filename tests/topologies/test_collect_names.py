"""Which lines name a host, and which are titles: every way to write a prompt, a command, a heading, and outputs of every maker."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from host_texts import COLUMNS, HOSTS, LIST, QUERY, TOPO, VERBOSE, blocks

from topologies.clusters.by_host import by_host
from topologies.clusters.host_files import read_hosts
from topologies.clusters.outputs import most_repeated
from topologies.errors import TopologyError
from topologies.read import read_text
from topologies.sources import load

BUSES = ("0000:0c:00.0", "0000:22:00.0")


def amd_table(title: str, same: str, other: str) -> str:
    cells = {a: " ".join(f"{same if a == b else other:<12}" for b in BUSES).rstrip() for a in BUSES}
    return f"{title}:\n             {' '.join(BUSES)}\n" + "".join(f"{bus} {cells[bus]}\n" for bus in BUSES) + "\n"


AMD_SMI = (
    amd_table("ACCESS TABLE", "ENABLED", "ENABLED")
    + amd_table("WEIGHT TABLE", "0", "15")
    + amd_table("HOPS TABLE", "0", "1")
    + amd_table("LINK TYPE TABLE", "SELF", "XGMI")
)
AMD_LIST = "".join(
    f"{bus}:00.0 Processing accelerators: Advanced Micro Devices, Inc. [AMD/ATI] Aqua Vanjaram [Instinct MI300X]\n" for bus in ("05", "26")
)
AMD_TREE = (
    "-+-[0000:60]---01.1-[61]----00.0  Advanced Micro Devices, Inc. [AMD/ATI] Aqua Vanjaram [Instinct MI300X]\n"
    " \\-[0000:00]---01.1-[01]----00.0  Advanced Micro Devices, Inc. [AMD/ATI] Aqua Vanjaram [Instinct MI300X]\n"
)
SMI = "nvidia-smi topo -m"


@pytest.mark.parametrize("text", [AMD_SMI, AMD_LIST, AMD_TREE], ids=["amd-smi topology", "lspci", "lspci -tv"])
@pytest.mark.parametrize(
    "style",
    [
        "----------------\n{h}\n----------------\n", "me@login:~$ ssh {h} amd-smi topology\n", "me@{h}:~$ amd-smi topology\n",
        "{h} | CHANGED | rc=0 >>\n", "==> {h}.txt <==\n", "## {h}\n", "each line",
    ],
)  # fmt: skip
def test_hosts_with_cards_of_amd_are_told_apart(style: str, text: str) -> None:
    each = "".join(f"{host}: {line}\n" for host in HOSTS for line in text.splitlines())
    said = by_host(each if style == "each line" else blocks(style, text))
    assert [*said] == [*HOSTS]
    assert [len(read_text(part).gpus) for part in said.values()] == [2, 2]


def test_a_cluster_may_have_cards_of_two_makers() -> None:
    given = f"=== node1 ===\n{TOPO}=== node2 ===\n{AMD_SMI}"
    assert [*by_host(given)] == [*by_host(given.replace("=== ", "## ").replace(" ===", ""))] == [*HOSTS]


@pytest.mark.parametrize(
    "prompt",
    [
        "(base) me@{h}:~$", "(base) [me@{h} ~]$", "(my-env) root@{h}:~#", "[10:01:02] me@{h}:~$", "me@{h} ~ %", "me@{h} ~>",
        "{h}:~ me$", "{h}:~ #", "me@{h}:~/x (main)$",
    ],
)  # fmt: skip
def test_every_prompt_names_its_host(prompt: str) -> None:
    assert [*by_host(blocks(prompt + f" {SMI}\n"))] == [*HOSTS]
    machines, _ = read_hosts(["-"], stdin=io.BytesIO(blocks(f"{prompt} {SMI}\n", hosts=("node7",)).encode()))
    assert [*machines] == ["node7"]


@pytest.mark.parametrize(
    "command",
    [
        "kubectl exec pod/{h} -- {c}", "kubectl exec --namespace=gpu {h} -- {c}", "kubectl exec --namespace gpu -it {h} -- {c}",
        "kubectl --context prod -n x exec {h} -- {c}", "kubectl debug node/{h} -it --image=x -- {c}",
        "oc debug node/{h} -- chroot /host {c}", "k exec -it {h} -- {c}", "srun -w {h} {c}", "srun -p gpu -N1 --nodelist={h} {c}",
        "ssh {h} sudo docker run --rm --gpus all nvidia/cuda:12.4.0-base {c}", "gcloud compute ssh {h} --zone us-a -- {c}",
    ],
)  # fmt: skip
def test_every_command_that_runs_elsewhere_names_the_host(command: str) -> None:
    assert [*by_host(blocks(f"$ {command.replace('{c}', SMI)}\n"))] == [*HOSTS]


@pytest.mark.parametrize(
    "heading",
    [
        "### {h} ###", "################ {h} ################", ">>> {h}", ">> ssh {h}", "[{h}]", "1. {h}", "- `{h}`:", "**{h}:**",
        "<details><summary>{h}</summary>", "<summary><b>{h}</b></summary>", "Output from {h}:", "On {h}:", "File: {h}.txt", "{h} :",
        "+---- {h} ----+", "::::::::::::::\n{h}.txt\n::::::::::::::",
    ],
)  # fmt: skip
@pytest.mark.parametrize("text", [TOPO, QUERY], ids=["matrix", "query"])
def test_every_heading_names_its_host(heading: str, text: str) -> None:
    assert [*by_host(blocks(heading + "\n", text))] == [*HOSTS]


@pytest.mark.parametrize("number", ["", "{n}:"], ids=["grep -H", "grep -Hn"])
@pytest.mark.parametrize("text", [TOPO, AMD_TREE], ids=["matrix", "lspci -tv"])
def test_grep_names_files_of_hosts(number: str, text: str) -> None:
    lines = [(host, n, line) for host in HOSTS for n, line in enumerate(text.splitlines())]
    said = by_host("".join(f"{host}.txt:{number.format(n=n)}{line}\n" for host, n, line in lines))
    assert said == dict.fromkeys(HOSTS, text)


@pytest.mark.parametrize("before", ["{h}:\n", "## {h}\n\n"], ids=["salt", "Markdown"])
def test_queries_may_be_indented(before: str) -> None:
    indented = "".join(f"    {line}\n" for line in QUERY.splitlines())
    said = by_host(blocks(before, indented))
    assert [len(read_text(part).gpus) for part in said.values()] == [2, 2]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("==> topo.txt <==", "==> list.txt <=="), ("==> /data/gpu/topo_m.txt <==", "==> /data/gpu/list_L.txt <=="),
        ("=== topo.txt ===", "=== list.txt ==="), ("=== 2.1 ===", "=== 2.2 ==="), ("--- 1 ---", "--- 2 ---"),
        ("--- cmd1 ---", "--- cmd2 ---"), ("--- section1 ---", "--- section2 ---"), ("--- 2026-11-30 ---", "--- 2026-12-01 ---"),
        ("=== topo-m1 ===", "=== list2 ==="), ("-----\nSummary\n-----", "-----\nDetails\n-----"),
        ("-----\ngpu-topo\n-----", "-----\ngpu-list\n-----"), (":" * 14 + "\ntopo.txt\n" + ":" * 14, ":" * 14 + "\nlist.txt\n" + ":" * 14),
        ("$ ssh 10.0.0.1 nvidia-smi topo -m", "root@node1:~# nvidia-smi -L"), ("me@NODE1:~$ x", "me@node1:~$ x"),
        ("me@node1.x.org:~$ x", "me@node1:~$ x"),
    ],
)  # fmt: skip
def test_outputs_of_one_machine_under_titles_are_of_one(first: str, second: str) -> None:
    """Each of a kind of its own; a host named twice, by its address or in capitals, is one."""
    given = f"{first}\n{TOPO}\n{second}\n{LIST}"
    assert by_host(given) == by_host(given, is_collecting=True) == {}
    machine = read_text(given)
    assert (len(machine.gpus), machine.links, [gpu.uuid is None for gpu in machine.gpus]) == (2, {(0, 1): "NV4"}, [False, False])


def test_three_outputs_of_one_machine_in_files_are_of_one() -> None:
    folder = Path(__file__).parent.parent / "data" / "sources"
    names = {"topo.txt": "topo-m.txt", "smi.txt": "table.txt", "q.txt": "q.txt"}
    names |= {"lspci.txt": "lspci-tv.txt", "lspci-vv.txt": "lspci-vv.txt"}
    given = "".join(f"==> {name} <==\n{(folder / source).read_text(encoding='utf-8')}\n" for name, source in names.items())
    assert by_host(given, is_collecting=True) == {}
    assert len(read_text(given).gpus) == 4


@pytest.mark.parametrize("hosts", [("alpha", "beta"), ("gpu-a", "gpu-b"), ("10.0.0.1", "10.0.0.2"), ("q1", "q2")])
@pytest.mark.parametrize("style", ["==> {h}.txt <==\n", "----\n{h}\n----\n"])
def test_names_that_could_be_titles_are_hosts_where_their_outputs_are_alike(hosts: tuple[str, ...], style: str) -> None:
    assert [*by_host(blocks(style, hosts=hosts))] == [*hosts]


@pytest.mark.parametrize("style", ["==> {h}.txt <==\n", "----\n{h}\n----\n", "me@{h}:~$ x\n", "{h} | CHANGED | rc=0 >>\n"])
def test_hosts_that_a_tool_names_may_say_different_things(style: str) -> None:
    assert [*by_host(style.format(h="node1") + TOPO + style.format(h="node2") + LIST)] == [*HOSTS]


def test_a_host_that_failed_is_not_the_one_with_an_address() -> None:
    given = f"10.0.0.1 | CHANGED | rc=0 >>\n{TOPO}\nnode1 | FAILED | rc=127 >>\nno\n"
    assert [*by_host(given, is_collecting=True)] == ["10.0.0.1", "node1"]
    assert [*by_host(given.replace("FAILED | rc=127", "CHANGED | rc=0").replace("\nno\n", f"\n{LIST}"))] == ["10.0.0.1", "node1"]


@pytest.mark.parametrize("name", ["h100", "node7", "gpu-a"])
def test_a_lone_host_that_a_tool_names_keeps_its_name(name: str) -> None:
    assert [*by_host(f"----\n{name}\n----\n{TOPO}", is_collecting=True)] == [name]


AMD_ROCM = (
    "==== Link Type between two GPUs ====\n       GPU0         GPU1\nGPU0   0            XGMI\nGPU1   XGMI         0\n"
    "GPU[0]\t\t: (Topology) Numa Node: 0\nGPU[1]\t\t: (Topology) Numa Node: 0\n"
)
FLAGS = re.sub(r"Control: .*\n\tStatus: .*", "Flags: bus master, fast devsel, latency 0, IRQ 321", VERBOSE)
SEARCHED = re.sub(r"\t(?:Control|Status): .*\n", "", VERBOSE)
LATER_LIST = AMD_LIST.replace("05:", "15:").replace("26:", "36:")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(text, again, id=name)
        for name, text, again in (
            ("matrix", TOPO, TOPO), ("amd-smi", AMD_SMI, AMD_SMI), ("rocm-smi", AMD_ROCM, AMD_ROCM), ("query", COLUMNS, COLUMNS),
            ("lspci", AMD_LIST, AMD_LIST), ("lspci of another machine", AMD_LIST, LATER_LIST),
            ("lspci -vv", VERBOSE, VERBOSE), ("lspci -v", FLAGS, FLAGS),
            ("lspci -vv, searched", SEARCHED, SEARCHED),
            ("lspci -vv of another machine", VERBOSE, VERBOSE.replace("26:", "25:")), ("lspci -tv", AMD_TREE, AMD_TREE),
            ("lspci -tv, indented", AMD_TREE, "".join(f"    {line}\n" for line in AMD_TREE.splitlines())),
        )
    ],
)  # fmt: skip
def test_the_same_output_twice_is_never_one_machine_in_silence(first: str, second: str, tmp_path: Path) -> None:
    path = tmp_path / "all.txt"
    path.write_text(f"$ x\n{first}\n$ x\n{second}")
    machines, _ = read_hosts([str(path)])
    for machine in (load(str(path)), *machines.values()):
        assert any("the same output stands there 2 times" in warning for warning in machine.warnings)
    path.write_text(first)
    assert not any("times" in warning for warning in load(str(path)).warnings)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(LIST + LIST, id="lists, which tell UUIDs"),
        pytest.param("$ nvidia-smi --query-gpu=index,name --format=csv\n" * 2 + COLUMNS, id="a command"),
        pytest.param(f"{AMD_LIST}05:00.0 Processing accelerators: [AMD/ATI] MI300X\n\tControl: I/O-\n", id="lspci, and -vv of one"),
        pytest.param(AMD_TREE + AMD_LIST, id="a tree and a list"),
        pytest.param(FLAGS + VERBOSE, id="lspci -v and lspci -vv"),
        pytest.param(SEARCHED + VERBOSE, id="lspci -vv, searched and whole"),
        pytest.param(VERBOSE + AMD_LIST, id="lspci -vv and a list"),
    ],
)
def test_other_texts_repeat_nothing(text: str) -> None:
    assert most_repeated(text) < 2


@pytest.mark.parametrize(
    ("second", "is_other"),
    [("NVIDIA H100 80GB", True), ("NVIDIA A100-SXM...", False), ("A100-SXM4-80GB", False), ("Unknown Error", False), ("ERR!", False)],
)
def test_tables_of_different_cards_are_not_one_machine(second: str, is_other: bool) -> None:
    def box(name: str) -> str:
        return (
            "| NVIDIA-SMI 550.90.07     Driver Version: 550.90.07     CUDA Version: 12.4 |\n"
            f"|   0  {name:<22}On  |   00000000:1B:00.0 Off |                  0 |\n"
            "| N/A   33C    P0   12W / 72W |      1MiB /  81920MiB  |      0%    Default |\n+---+\n"
        )

    given = f"$ nvidia-smi\n{box('NVIDIA A100-SXM4-80GB')}$ nvidia-smi\n{box(second)}"
    if is_other:
        with pytest.raises(TopologyError, match="<text>:7: two tables of nvidia-smi contradict: GPU 0 is NVIDIA A100-SXM4-80GB in one"):
            read_text(given)
    else:
        assert len(read_text(given).gpus) == 1
