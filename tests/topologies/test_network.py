"""What joins hosts: typed, or read from Slurm, topograph and Kubernetes; always one tree, or an error that names its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from topologies.documents.document import to_document
from topologies.documents.document_read import from_document
from topologies.errors import TopologyError
from topologies.model import Gpu, Topology
from topologies.networks.doubts import doubts
from topologies.networks.network_read import from_section, read_network
from topologies.networks.rails import rail_nics
from topologies.parts import Network, NetworkDomain
from topologies.sources import load

HOSTS = tuple(f"node{k}" for k in range(8))
TREE = (
    NetworkDomain("s2", "spine", HOSTS),
    NetworkDomain("s0", "leaf", HOSTS[:4], "s2"),
    NetworkDomain("s1", "leaf", HOSTS[4:], "s2"),
)  # fmt: skip
CONF = (
    "# tree\nSwitchName=s0 Nodes=node[0-3] LinkSpeed=100\n"
    "switchname=s1 \\\n  Nodes=node4,node[5-7]  # end\nSwitchName=s2 Switches=s[0-1]\n"
)
SCONTROL = (
    "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=node[0-3]\nSwitchName=s1 Level=0 LinkSpeed=1 Nodes=node[4-7]\n"
    "SwitchName=s2 Level=1 LinkSpeed=1 Nodes=node[0-7] Switches=s[0-1]\n"
)
SLURM_YAML = """---
- topology: one
  cluster_default: true
  tree:
    switches:
      - {switch: s2, children: "s[0-1]"}
      - {switch: s0, nodes: "node[0-3]"}
      - {switch: s1, nodes: "node[4-7]"}
- topology: two
  flat: true
"""
MODEL = 'switches:\n  s2: {switches: [s0, s1]}\n  s0: {nodes: ["node[0-3]"]}\n  s1: {nodes: ["node[4-7]"]}\n'
NESTED = 'switches: {s2: {switches: {s0: {nodes: ["node[0-3]"]}, s1: {nodes: "node[4-7]"}}}}\n'
LISTED = 'switches:\n- name: s2\n  switches:\n  - {name: s0, nodes: ["node[0-3]"]}\n  - {name: s1, hosts: ["node[4-7]"]}\n'
BLOCKS = 'switches:\n  s2: {switches: [s0, s1]}\nblocks:\n- {switch: s0, nodes: ["node[0-3]"]}\n- {switch: s1, nodes: ["node[4-7]"]}\n'
INSTANCES = json.dumps({"instances": [{"id": h, "network_layers": ["s0" if k < 4 else "s1", "s2"]} for k, h in enumerate(HOSTS)]})
LABEL = "network.topology.nvidia.com/"
NODES = json.dumps(
    {
        "kind": "List",
        "items": [
            {"kind": "Node", "metadata": {"name": h, "labels": {LABEL + "leaf": "s0" if k < 4 else "s1", LABEL + "spine": "s2"}}}
            for k, h in enumerate(HOSTS)
        ],
    }
)
TYPED = (
    'rails: 8\ngb_per_s: 50\ndomains:\n'
    '- {name: s0, hosts: "node[0-3]", within: s2}\n- {name: s1, hosts: ["node[4-7]"], within: s2}\n- {name: s2}\n'
)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(CONF, id="topology.conf"),
        pytest.param(CONF.replace("\n", "\r\n"), id="CR LF"),
        pytest.param(SCONTROL, id="scontrol"),
        pytest.param(SLURM_YAML, id="topology.yaml"),
        pytest.param(MODEL, id="topograph model"),
        pytest.param(NESTED, id="nested"),
        pytest.param(LISTED, id="nested lists"),
        pytest.param(BLOCKS, id="blocks"),
        pytest.param(INSTANCES, id="instances"),
        pytest.param(NODES, id="Kubernetes labels"),
        pytest.param(TYPED, id="typed"),
        pytest.param("network:\n" + "".join(f"  {line}\n" for line in TYPED.splitlines()), id="typed, section"),
    ],
)
def test_every_source_tells_the_same_tree(text: str) -> None:
    network, warnings = read_network(text, HOSTS, name="net")
    assert sorted(network.domains, key=lambda d: d.name) == sorted(TREE, key=lambda d: d.name)
    assert [d.name for d in network.domains].index("s2") == 0
    assert warnings == ()
    if "rails" in text:
        assert (network.rails, network.gb_per_s) == (8, 50)


def test_nvlink_domains_of_labels_stand_beside_the_tree() -> None:
    labels = {LABEL + "leaf": "s0", LABEL + "accelerator": "s0"}
    text = json.dumps({"items": [{"metadata": {"name": h, "labels": labels}} for h in HOSTS]})
    network, _ = read_network(text, HOSTS, name="net")
    assert {(d.name, d.kind) for d in network.domains} == {("s0", "leaf"), ("s0 (nvlink)", "nvlink")}


def test_switches_that_hosts_name_stand_in_natural_order() -> None:
    text = json.dumps({"instances": [{"id": h, "network_layers": [f"leaf{10 - k}", "spine"]} for k, h in enumerate(HOSTS)]})
    network, _ = read_network(text, HOSTS, name="net")
    assert [domain.name for domain in network.domains] == ["spine", *(f"leaf{k}" for k in range(3, 11))]


def test_blocks_of_slurm() -> None:
    text = "BlockName=b1 BlockIndex=0 Nodes=node[0-3] BlockSize=4\nBlockName=b2 Nodes=node[4-7]\nBlockSizes=4\n"
    network, _ = read_network(text, HOSTS, name="net")
    assert network.domains == (NetworkDomain("b1", "block", HOSTS[:4]), NetworkDomain("b2", "block", HOSTS[4:]))


def test_hosts_of_a_site_that_were_not_collected_are_left_out() -> None:
    network, warnings = read_network(CONF, ("node1", "node9"), name="net")
    assert [d.hosts for d in network.domains] == [("node1",), ("node1",)]
    assert len(warnings) == 1
    assert "7 hosts that were not collected: node0, node2 to node7" in warnings[0]


ERRORS = {
    "unknown host": ('domains:\n- {name: a, hosts: node0}\n- {name: b, hosts: "node[1-9]"}\n', r"net:3: network: 'b' has the host 'node8'"),
    "tasks for hosts": ("domains:\n- {name: a, hosts: x}\n", r"net:2: .*'x', of which no GPU is known \(hosts here: node0 to node7\)"),
    "typing error": ("domains:\n- {name: a, kind: leave}\n", r"net:2: .*'leave'; did you mean leaf\?"),
    "another kind": ("domains:\n- {name: a, kind: rack}\n", "net:2: .*one of leaf, spine, core, block, nvlink"),
    "no rails": ("network:\n  rails: 0\n", "net:2: network: rails are NICs of a host, 1 to 256, not 0"),
    "rails below none": ("network:\n  rails: -1\n", "net:2: "),
    "too many rails": ("rails: 1000\n", "net:1: network: rails"),
    "no speed": ("gb_per_s: 0\n", "net:1: network: gb_per_s"),
    "bits": ("gb_per_s: 400000\n", r"at most 1000, not 400000: 400 Gbit/s are 50; leave"),
    "no uplink": ("domains:\n- {name: a, gb_per_s: 0}\n", "net:2: .*leave it out"),
    "unknown key": ("domains:\n- {name: a, host: node0}\n", r"net:2: .*'host', which is none of"),
    "bad list": ('domains:\n- {name: a, hosts: "node[1-0]"}\n', "net:2: .*backwards"),
    "brackets without quotes": (
        "domains:\n- {name: a, hosts: [node[0-1]]}\n", r'net:2:.*; a name with brackets must stand in quotes: "node\[0-1\]"',
    ),
    "typed twice": ("domains:\n- {name: a}\n- {name: a}\n", r"net:3: network: 'a' is there twice, first at net:2"),
    "typed cycle": ("domains:\n- {name: a, within: b}\n- {name: b, within: a}\n", r"net:2: .*'a' is inside itself"),
    "typed overlap": (
        "domains:\n- {name: a, kind: leaf, hosts: node0}\n- {name: b, kind: leaf, hosts: node0}\n",
        r"net:3: .*'node0' is in 'a' and in 'b', first at net:2",
    ),
    "within nothing": ("domains:\n- {name: a, within: b}\n", r"net:2: .*'a' is within 'b', which is nowhere described"),
    "cycle": ("SwitchName=a Switches=b\nSwitchName=b Switches=a\n", r"net:1: .*inside itself"),
    "two leaves": ("SwitchName=a Nodes=node0\nSwitchName=b Nodes=node[0-1]\n", r"net:2: .*'node0' is in 'a' and in 'b', first at net:1"),
    "two parents": (
        "SwitchName=a Nodes=node0\nSwitchName=b Switches=a\nSwitchName=c Switches=a\n",
        r"net:3: .*'a' is within 'c' and within 'b', first at net:2",
    ),
    "no switch": ("SwitchName=a Switches=b\n", r"net:1: .*'a' has 'b', which is nowhere described"),
    "twice": ("SwitchName=a Nodes=node0\nSwitchName=a Nodes=node1\n", r"net:2: .*'a' is there twice, first at net:1"),
    "strangers only": ("SwitchName=a Nodes=x[0-3]\n", r"net:1: .*none of its hosts \(x0 to x3\) is one of the machine"),
    "no line": ("SwitchName=a Nodes=node0\nrubbish\n", r"net:2: .*'rubbish' is no line of topology.conf"),
    "no network": ("a: 1\n", "describes no network"),
    "no YAML": ("a: [\n", "net:2:1: the network cannot be parsed"),
    "no text": ("", "describes no network"),
    "two layers": (
        json.dumps({"instances": [{"id": "node0", "network_layers": ["a", "b"]}, {"id": "node1", "network_layers": ["a", "c"]}]}),
        "'a' is within 'c' and within 'b'",
    ),
    "no name": ("items:\n- metadata: {}\n", "net:2: .*name of a node must be a text"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_is_no_tree_is_refused_with_its_place(case: str) -> None:
    text, words = ERRORS[case]
    with pytest.raises(TopologyError, match=words):
        read_network(text, HOSTS, name="net")


def test_a_section_of_a_document_is_the_same() -> None:
    """Hosts may be written as ranges there, too; a host whose name looks like a range is itself."""
    section = {"domains": [{"name": "a", "kind": "leaf", "hosts": ["x[0-1]", "node[0-1]"]}]}
    assert from_section(section, ["x[0-1]", "node0", "node1"]).domains[0].hosts == ("x[0-1]", "node0", "node1")


def test_numbers_of_tasks_in_place_of_hosts_are_told() -> None:
    for text in ("domains:\n- {name: a, hosts: node0}\n", "SwitchName=a Nodes=node0\n"):
        with pytest.raises(TopologyError, match=r"hosts here: 0 to 2; `srun -l` prints numbers of tasks"):
            read_network(text, ("0", "1", "2"), name="net")


def test_words_of_topograph_are_kinds() -> None:
    network, _ = read_network("domains:\n- {name: a, kind: Accelerator, hosts: node0}\n- {name: b, kind: leaf}\n", HOSTS, name="net")
    assert [domain.kind for domain in network.domains] == ["nvlink", "leaf"]


def test_an_error_in_the_network_of_a_cluster_file_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    head = "schema: placement/topology/v1\ngpus:\n  - {index: 0, host: a}\n  - {index: 1, host: b}\nnetwork:\n"
    for section, words in (
        ("  domains:\n    - {name: x, hosts: [a]}\n    - {name: y, hosts: [c]}\n", r"cluster.yaml:8: .*'c'.*\(hosts here: a, b\)"),
        ("  domains:\n    - {name: x, kind: leave}\n", r"cluster.yaml:7: .*leaf"),
        ("  rails: 0\n", r"cluster.yaml:6: "),
    ):
        path.write_text(head + section)
        with pytest.raises(TopologyError, match=words):
            load(str(path))
    path.write_text(head + "  rails: 8\n")
    assert load(str(path)).network == Network(8)


def test_rails_are_the_nics_that_serve_gpus() -> None:
    """A DGX H100 has twelve NICs, of which eight share a switch with a GPU each."""
    found = load("dgx-h100 x 2 @ 8x50GB/s")
    assert [nic.partition("NIC")[2] for nic in rail_nics(found, "host1")] == ["0", "3", "4", "5", "6", "9", "10", "11"]
    assert all(nic.startswith("host1:") for nic in rail_nics(found, "host1"))
    assert found.warnings == ()
    assert rail_nics(load("rtx4090-8"), None) == ()
    many = load("dgx-h100 x 2 @ 9x50GB/s")
    warning = "the network has 9 rails a host, but on each of host0, host1 only 8 NICs are the closest to some GPU"
    assert many.warnings == (warning,)
    assert from_document(to_document(many)) == many
    assert from_document(to_document(many.replace(warnings=()))).warnings == (warning,)
    leaf = NetworkDomain("leaf0", "leaf", ("host1",))
    on_a_leaf = many.replace(network=Network(9, 50.0, (leaf,)))
    assert doubts(on_a_leaf) == (
        warning.replace("each of host0, host1", "host1"), "the network does not say where host0 hangs: in no switch or block",
    )


DOUBTS = {
    "rails: 8\ngb_per_s: 400\n": ["gb_per_s is what one NIC carries; none carries 400 GB/s: if 400 Gbit/s were meant, write 50"],
    "gb_per_s: 100\n": [],
    "domains:\n- {name: a, hosts: 'node[0-7]'}\n": [],
    "domains:\n- {name: a, hosts: 'node[0-5]'}\n": ["the network does not say where node6, node7 hang: in no switch or block"],
    "domains:\n- {name: a, kind: nvlink, hosts: 'node[0-5]'}\n": [],
    "domains:\n- {name: s, kind: spine, hosts: 'node[0-7]'}\n- {name: a, hosts: 'node[0-4,6-7]', within: s}\n": [
        "the network does not say in which leaf node5 hangs: in 's', but in none of those within it"
    ],
    "domains:\n- {name: s, kind: spine}\n- {name: a, hosts: 'node[0-7]', within: s}\n": [],
    "domains:\n- {name: a, hosts: 'node[0-7]'}\n- {name: b}\n": ["no host hangs from the leaf 'b' of the network"],
    "domains:\n- {name: a, kind: leaf, hosts: 'node[0-7]'}\n- {name: b, kind: spine, hosts: node1, within: a}\n": [
        "the network has the spine 'b' within the leaf 'a': that is the wrong way round"
    ],
}
"""What people type, and what is said of it."""


@pytest.mark.parametrize("typed", DOUBTS)
def test_slips_in_a_typed_network_are_told(typed: str) -> None:
    network, _ = read_network(typed, HOSTS, name="net")
    machine = Topology(tuple(Gpu(k, host=host) for k, host in enumerate(HOSTS)), network=network)
    assert [*doubts(machine)] == DOUBTS[typed]
    assert from_document(to_document(machine)).warnings == tuple(DOUBTS[typed])    # one GPU a host has no links to miss


@pytest.mark.parametrize("words", ["a100-1 x 2 @ 257x50GB/s", "a100-1 x 2 @ 8x1001GB/s"])
def test_a_cluster_in_a_few_words_has_the_same_bounds(words: str) -> None:
    with pytest.raises(TopologyError, match=r"a100-1 x 2.*(?:rails are NICs|gb_per_s is what)"):
        load(words)
