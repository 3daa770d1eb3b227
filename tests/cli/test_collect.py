"""`placement collect` as people run it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from topologies.catalog import machine_text


@pytest.fixture
def dumps(tmp_path):
    """Three hosts, a file each."""
    (tmp_path / "dumps").mkdir()
    for host in ("node0", "node2", "node10"):
        (tmp_path / "dumps" / f"{host}.txt").write_text(machine_text("dgx-h100"))
    return tmp_path / "dumps"


def test_a_folder_becomes_a_file_that_every_command_reads(placement, dumps, tmp_path):
    (dumps / "topology.conf").write_text("SwitchName=s0 Nodes=node[0,2]\nSwitchName=s1 Nodes=node10\nSwitchName=s2 Switches=s[0-1]\n")
    process = placement("collect", "dumps", "--network", "dumps/topology.conf", "-o", "cluster.yaml")
    assert (process.returncode, process.stdout) == (0, "")
    assert process.stderr == "3 hosts, 24 GPUs; rails not stated, 3 network domains\n"
    document = json.loads(placement("topology", "cluster.yaml", "--json").stdout)
    assert document["status"] == "ok"
    assert list(dict.fromkeys(gpu["host"] for gpu in document["gpus"])) == ["node0", "node2", "node10"]
    assert document["network"]["domains"][1] == {"name": "s0", "kind": "leaf", "hosts": ["node0", "node2"], "within": "s2"}
    assert document == json.loads(placement("collect", "dumps", "--network", "dumps/topology.conf", "--json").stdout)
    text = (tmp_path / "cluster.yaml").read_text()
    assert sum(line.startswith("  - {index: ") for line in text.splitlines()) == 24


def test_the_example_of_the_documentation_is_what_the_commands_say(placement, tmp_path):
    text = (Path(__file__).parents[2] / "docs" / "clusters.md").read_text(encoding="utf-8")
    example = text.partition("```\n$ placement collect")[2].partition("\n…\n```")[0].splitlines()
    (tmp_path / "hosts").mkdir()
    for k in range(4):
        (tmp_path / "hosts" / f"node{k}.txt").write_text(machine_text("dgx-h100"))
    domains = "".join(f'- {{name: leaf{k}, kind: leaf, hosts: "node[{2 * k}-{2 * k + 1}]"}}\n' for k in range(2))
    (tmp_path / "net.yaml").write_text(f"rails: 8\ngb_per_s: 50\ndomains:\n{domains}")
    said = placement("collect", "hosts/", "--network", "net.yaml", "-o", "cluster.yaml").stderr
    page = placement("topology", "cluster.yaml").stdout.splitlines()
    assert [said.strip(), "$ placement topology cluster.yaml", *page[:4]] == example[1:]


def test_numbers_and_tree_may_come_from_two_files(placement, dumps, tmp_path):
    (tmp_path / "net.yaml").write_text("rails: 8\ngb_per_s: 50\n")
    (tmp_path / "topology.conf").write_text("SwitchName=s0 Nodes=node[0-10]\n")
    process = placement("collect", "dumps", "--network", "net.yaml", "--network", "topology.conf", "--json")
    network = json.loads(process.stdout)["network"]
    assert (network["rails"], network["gb_per_s"], len(network["domains"])) == (8, 50, 1)


def test_networks_of_cluster_files_are_joined_knowingly(placement, tmp_path):
    """Two files that each have one need `--network`, which wins; one beside a host without any is taken for all, and that is said."""
    for name, machine in (("a", "dgx-h100 x 2 @ 8x50GB/s"), ("b", "dgx-h100 x 2 @ 4x25GB/s")):
        text = placement("topology", machine, "--yaml").stdout
        (tmp_path / f"{name}.yaml").write_text(re.sub(r"\bhost(?=[0-9])", name, text))
    (tmp_path / "c.txt").write_text(machine_text("dgx-h100"))
    (tmp_path / "net.yaml").write_text("rails: 2\ngb_per_s: 12.5\n")
    refused = placement("collect", "a.yaml", "b.yaml", "-o", "x.yaml")
    assert (refused.returncode, "a, b each state a network" in refused.stderr) == (2, True)
    process = placement("collect", "a.yaml", "b.yaml", "--network", "net.yaml", "--json")
    assert json.loads(process.stdout)["network"] == {"rails": 2, "gb_per_s": 12.5}
    warning = "warning: c states no network: the rails of a are taken for all hosts"
    assert warning in placement("collect", "a.yaml", "c.txt", "--json").stderr.splitlines()


def test_an_output_is_not_replaced_unless_told(placement, dumps, tmp_path):
    (tmp_path / "cluster.yaml").write_text("mine")
    assert placement("collect", "dumps", "-o", "cluster.yaml").returncode == 2
    assert (tmp_path / "cluster.yaml").read_text() == "mine"
    assert placement("collect", "dumps", "-o", "cluster.yaml", "--force").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give the hosts as files or folders, or --ray ADDRESS"),
        (("dumps", "--ray", "auto"), "one of the two"),
        (("missing.txt",), "missing.txt"),
        (("dumps", "--network", "missing.yaml"), "missing.yaml"),
        (("dumps", "dumps/node0.txt", "dumps/bad.txt"), "bad.txt"),
    ],
)  # fmt: skip
def test_what_cannot_be_collected_is_one_line(placement, dumps, arguments, words):
    if any("bad" in word for word in arguments):
        (dumps / "bad.txt").write_text("nothing\n")
    process = placement("collect", *arguments)
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith("error: ")
    assert words in process.stderr
    assert len(process.stderr.splitlines()) == 1


def test_a_plan_for_several_hosts_is_refused_in_one_line(placement):
    process = placement("plan", "--topology", "dgx-h100 x 2 @ 8x50GB/s", "--workload", "ppo-7b")
    assert process.returncode == 2
    assert process.stderr == (
        "error: the machine spans 2 hosts; this version plans a single host: give what one of them printed (a file that `placement "
        "collect` read), or a shipped machine alone\n"
    )


def test_ray_without_the_extra_says_how_to_install_it(placement):
    """The environment of these tests has no Ray; `tests/ray` runs in one that has."""
    process = placement("collect", "--ray", "auto")
    assert process.returncode == 2
    assert process.stderr == (
        "error: --ray needs the package ray, which is not installed: pip install 'ray>=2.44' (or, in a clone of the project, "
        "pip install -c constraints.txt '.[ray]')\n"
    )


def test_a_folder_where_one_machine_is_asked_for_says_how_to_collect_it(placement, dumps):
    process = placement("topology", "dumps")
    assert (process.returncode, process.stderr) == (
        2,
        "error: dumps: this is a folder; `placement collect dumps` makes one file of the hosts in it\n",
    )


@pytest.mark.parametrize(
    ("arguments", "text", "words"),
    [
        pytest.param((), "GPU0 GPU1\nGPU0 X XGMI\nGPU1 XGMI X\n", "rocm-smi --showproductname --showmeminfo vram", id="AMD"),
        pytest.param((), "GPU0 GPU1\nGPU0 X XGMI\nGPU1 XGMI X\n", "--gpu mi300x)", id="a card of AMD"),
        pytest.param((), "GPU0 GPU1\nGPU0 X NV4\nGPU1 NV4 X\n", "--gpu a100-80gb)", id="NVIDIA"),
        pytest.param(
            (),
            '<system version="1"><cpu numaid="0" arch="x86_64"><pci busid="0000:1b:00.0" class="0x030200" link_speed="32.0 GT/s" '
            'link_width="16"><gpu dev="0" sm="90" rank="0" gdr="1"/></pci></cpu></system>\n',
            "--gpu h100-80gb)", id="NCCL",
        ),
        pytest.param(
            ("--gpu", "a100-80gb"), "index, name, memory.total [MiB]\n0, NVIDIA A100 80GB PCIe, 81920 MiB\n",
            "that card is a100-pcie-80gb", id="another version",
        ),
    ],
)  # fmt: skip
def test_an_unknown_card_comes_with_the_way_to_name_it(placement, tmp_path, arguments, text, words):
    (tmp_path / "machine.txt").write_text(text)
    process = placement("plan", "--topology", "machine.txt", "--workload", "ppo-7b", *arguments)
    assert process.returncode == 2
    assert words in process.stderr


def test_without_a_driver_the_way_on_is_said(placement):
    """The machines that run these tests have no GPU; on one that has, there is nothing to say."""
    process = placement("topology", "live")
    if process.returncode:
        assert "save what `nvidia-smi topo -m; nvidia-smi -q` prints there" in process.stderr
    else:
        assert process.stderr == ""
