"""Words that name hosts, and those that only look like it: titles, labels, levels of a log."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from host_texts import COLUMNS, HOSTS, QUERY, TOPO, VERBOSE, blocks

from topologies.clusters.by_host import by_host
from topologies.clusters.host_files import read_hosts
from topologies.errors import TopologyError
from topologies.read import read_text

WORDS = (
    "rocm0", "gpu-c0", "gpu-m0", "gpu-x0", "gpu_l0", "gpuq", "nccl", "nvlink", "smi0", "system", "graph", "pci-", "topo", "q", "gpus",
    "GPU0", "GPU-C0", "CPU-0", "a", "b", "L0", "node-a", "x1000c0s0b0n",
    "DGX-", "10.0.0.",
)  # fmt: skip
"""What outputs, cards and devices are called, too."""

STYLES = {
    "dshbak": "----------------\n{h}\n----------------\n", "one line": "=== {h} ===\n", "head": "==> {h}.txt <==\n",
    "more": ":" * 14 + "\n{h}.txt\n" + ":" * 14 + "\n", "ansible": "{h} | CHANGED | rc=0 >>\n", "prompt": "me@{h}:~$ x\n",
    "ssh": "$ ssh {h} nvidia-smi\n", "srun": "$ srun -w {h} nvidia-smi\n",
    "kubectl": "$ kubectl exec {h} -- nvidia-smi\n",
}  # fmt: skip


def assert_all_say(text: str, hosts: tuple[str, ...], given: str) -> None:
    """Check that the machine of each of *hosts* in *given* is the one that *text* alone is."""
    alone = read_text(text)
    read = {host: read_text(part) for host, part in by_host(given).items()}
    assert {host: (machine.gpus, machine.links, machine.warnings) for host, machine in read.items()} == dict.fromkeys(
        hosts, (alone.gpus, alone.links, alone.warnings)
    )


@pytest.mark.parametrize("text", [TOPO, VERBOSE], ids=["matrix", "lspci -vv"])
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("word", WORDS)
def test_names_that_are_counted_are_hosts_whatever_the_word(word: str, style: str, text: str) -> None:
    hosts = tuple(f"{word}{number}" for number in (8, 9, 10)[: 2 if word.endswith("0") else 3])
    assert_all_say(text, hosts, blocks(STYLES[style], text, hosts))


def test_pods_may_be_called_by_an_address() -> None:
    """What begins with one is no version."""
    hosts = ("10.0.0.7-pod", "10.0.0.8-pod")
    assert_all_say(TOPO, hosts, blocks(STYLES["kubectl"], TOPO, hosts))
    assert_all_say(TOPO, hosts, "".join(f"{host}: {line}\n" for host in hosts for line in TOPO.splitlines()))


TITLES = (
    ("2026-11-29", "2026-11-30"), ("2026-11-30_10-11", "2026-11-30_12-13"), ("30.11.2026", "01.12.2026"), ("535.129.03", "550.54.15"),
    ("5.15.0-105-generic", "6.8.0-40-generic"), ("4.18.0-553.el8_10.x86_64", "5.14.0-427.13.1.el9_4.x86_64"), ("12.4", "12.6"),
    ("v1.2", "v1.3"), ("r535.2", "r550.4"), ("attempt1", "attempt2"), ("iter-1", "iter-2"), ("boot1", "boot2"),
    ("container1", "container2"),
)  # fmt: skip
"""What nobody calls a host."""

ONE_LINE = (("A100", "H100"), ("1", "2"), ("v1", "v2"), ("rank0", "rank1"), ("step1", "step2"), ("cuda12", "cuda11"))
"""What nobody calls a host in a line that people write."""


@pytest.mark.parametrize(
    ("style", "titles"),
    [(style, titles) for style in ("dshbak", "one line", "head", "more") for titles in TITLES]
    + [(style, ("before", "after")) for style in ("dshbak", "head", "more")] + [("one line", titles) for titles in ONE_LINE],
)  # fmt: skip
def test_titles_that_nobody_calls_a_host_make_no_cluster_of_one_machine(style: str, titles: tuple[str, ...], tmp_path: Path) -> None:
    given = blocks(STYLES[style], hosts=titles)
    assert by_host(given) == by_host(given, is_collecting=True) == {}
    path = tmp_path / "node7.txt"
    path.write_text(given)
    machines, _ = read_hosts([str(path)])
    assert [*machines] == ["node7"]
    assert any("the same output stands there 2 times" in warning for warning in machines["node7"].warnings)


@pytest.mark.parametrize("style", ["dshbak", "one line", "head", "more"])
def test_a_date_beside_hosts_is_none_of_them(style: str) -> None:
    given = "".join(STYLES[style].format(h=host) + STYLES[style].format(h="2026-11-30") + TOPO for host in HOSTS)
    assert [*by_host(given)] == [*HOSTS]


LABELS = [("gpu", "gpu2"), ("gpu", "gpu2", "gpu3"), ("test", "node1"), ("machine", "alpha"), ("GPU1", "GPU2"), ("GPU09", "GPU10")]


@pytest.mark.parametrize("text", [TOPO, VERBOSE, QUERY, COLUMNS], ids=["matrix", "lspci -vv", "query", "rows"])
@pytest.mark.parametrize("hosts", LABELS, ids=str)
def test_a_host_called_like_a_label_is_not_lost(hosts: tuple[str, ...], text: str) -> None:
    each = "".join(f"{host}: {line}\n" for host in hosts for line in text.splitlines())
    is_of_devices = hosts == ("GPU1", "GPU2") and text in (VERBOSE, QUERY)
    assert (by_host(each) == {}) is is_of_devices    # which scripts print GPU by GPU
    named = [blocks(style, text, hosts) for style in ("{h} | CHANGED | rc=0 >>\n", "me@{h}:~$ x\n")]
    for given in named if is_of_devices else [each, *named]:
        assert_all_say(text, hosts, given)


@pytest.mark.parametrize("level", ["INFO", "stdout", "WARNING"])
def test_an_output_behind_a_level_of_a_log_beside_a_host_never_vanishes(level: str) -> None:
    given = "".join(f"{name}: {line}\n" for name in (level, "node1") for line in TOPO.splitlines())
    with pytest.raises(TopologyError, match="whole outputs stand behind different prefixes"):
        read_hosts(["-"], stdin=io.BytesIO(given.encode()))


@pytest.mark.parametrize("text", [TOPO, VERBOSE, QUERY, COLUMNS], ids=["matrix", "lspci -vv", "query", "rows"])
@pytest.mark.parametrize("hosts", [HOSTS, ("trainer-0", "trainer-1"), ("gpu-a.lab", "gpu-b.lab")])
@pytest.mark.parametrize("prefix", ["{h} main ", "[{h}] out: ", "{h} -> ", "{h} => "], ids=["stern", "fabric", "mpssh", "mpssh, errors"])
def test_lines_of_more_launchers_name_their_host(prefix: str, hosts: tuple[str, ...], text: str) -> None:
    pairs = [(host, line) for line in text.splitlines() for host in hosts]
    given = "".join(f"{prefix.format(h=host)}{line}\n" for host, line in pairs)
    followed = "".join(f"+ {host} \u203a main\n" for host in hosts) if "main" in prefix else ""
    assert_all_say(text, hosts, followed + given)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"on node-0 {TOPO}and node-1 too\n{TOPO}", id="prose"),
        pytest.param(f"node-0 main {TOPO}node-1 main {TOPO}", id="the first lines only"),
        pytest.param(f"GPU0 -> GPU1\nGPU1 -> GPU0\n{TOPO}", id="arrows between devices"),
        pytest.param(VERBOSE, id="lspci -vv"),
    ],
)
def test_words_before_a_line_are_no_pods(text: str) -> None:
    assert by_host(text) == by_host(text, is_collecting=True) == {}
