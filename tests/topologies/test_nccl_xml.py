"""
Topology files of NCCL: machines made up, written as such a file and as `nvidia-smi topo -m`, read both ways.

The matrix is written by a walk of its own, over sets of switches, so that the two readings check each other.
"""

from __future__ import annotations

import html
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading_properties import MOST_CPU_S
from smi_query_machines import PREFIXES, framed, prefix_warnings, prefixed

from topologies.documents.document import to_document
from topologies.documents.document_read import from_document
from topologies.errors import TopologyError
from topologies.model import Topology
from topologies.parts import Bridge, BridgeKind
from topologies.read import read_text


@dataclass
class Node:
    """A place in the PCIe tree: a NUMA node, a switch, a GPU or a NIC."""

    kind: str
    bus_id: str = ""
    number: int = 0
    children: list[Node] = field(default_factory=list)


@dataclass
class Machine:
    """NUMA nodes, and the NVLinks of each GPU: target to count; a target that is no number is a switch."""

    cpus: list[Node]
    nvlinks: dict[int, list[tuple[int | str, int]]]
    masks: list[int]
    gpus: int
    nics: int

    def above(self) -> dict[tuple[str, int], tuple[int, list[Node]]]:
        """Return, for each GPU and NIC, the number of its NUMA node and the switches above it, the lowest first."""
        found = {}

        def visit(node: Node, cpu: int, switches: list[Node]) -> None:
            if node.kind in ("gpu", "nic"):
                found[node.kind, node.number] = (cpu, switches)
            for child in node.children:
                visit(child, cpu, [node, *switches] if node.kind == "switch" else switches)

        for number, cpu in enumerate(self.cpus):
            visit(cpu, number, [])
        return found

    @property
    def misses_links(self) -> bool:
        """Whether some GPUs are on NVSwitches and others have no NVLinks."""
        on_switches = [any(isinstance(target, str) for target, _ in links) for links in self.nvlinks.values()]
        return any(on_switches) and not all(on_switches)

    def gpu_ids(self) -> dict[int, str]:
        ids: dict[int, str] = {}
        waiting = list(self.cpus)
        while waiting:
            node = waiting.pop()
            waiting += node.children
            if node.kind == "gpu":
                ids[node.number] = node.bus_id
        return ids

    def code(self, a: tuple[str, int], b: tuple[str, int]) -> str:
        """Return what the driver prints between two devices."""
        if a[0] == b[0] == "gpu":
            direct = sum(count for target, count in self.nvlinks[a[1]] if target == b[1])
            switched = [sum(count for target, count in self.nvlinks[gpu] if isinstance(target, str)) for gpu in (a[1], b[1])]
            if direct or min(switched):
                return f"NV{direct or min(switched)}"
        (cpu_a, over_a), (cpu_b, over_b) = self.above()[a], self.above()[b]
        if cpu_a != cpu_b:
            return "SYS"
        shared = {id(s) for s in over_a} & {id(s) for s in over_b}
        if not shared:
            return "PHB"
        return "PIX" if over_a[0] is over_b[0] else "PXB"

    def matrix(self) -> str:
        """Return what `nvidia-smi topo -m` prints."""
        devices = [("gpu", k) for k in range(self.gpus)] + [("nic", k) for k in range(self.nics)]
        names = [f"GPU{k}" for k in range(self.gpus)] + [f"mlx5_{k}" for k in range(self.nics)]
        lines = ["\t".join(("", *names, "CPU Affinity", "NUMA Affinity"))]
        for device, name in zip(devices, names, strict=True):
            cells = [" X " if device == other else self.code(device, other) for other in devices]
            if device[0] == "gpu":
                cpu = self.above()[device][0]
                cells += [ranges(self.masks[cpu]), str(cpu)]
            lines.append("\t".join((name, *cells)))
        return "\n".join(lines) + "\n"

    def xml(self, **gpu_attributes: str) -> str:
        """Return what NCCL writes; *gpu_attributes* replace those of every GPU."""
        return (
            '<system version="1">\n'
            + "".join(
                f'  <cpu host_hash="0x1dae" numaid="{number}" affinity="{mask(self.masks[number])}" arch="x86_64">\n'
                + "".join(self._xml(child, "    ", gpu_attributes) for child in cpu.children)
                + "  </cpu>\n"
                for number, cpu in enumerate(self.cpus)
            )
            + "</system>\n"
        )

    def _xml(self, node: Node, indent: str, gpu_attributes: dict[str, str]) -> str:
        pci_class = {"switch": "0x060400", "gpu": "0x030200", "nic": "0x020700"}[node.kind]
        opening = f'{indent}<pci busid="{node.bus_id}" class="{pci_class}" link_speed="32.0 GT/s PCIe" link_width="16">\n'
        inner = "".join(self._xml(child, indent + "  ", gpu_attributes) for child in node.children)
        if node.kind == "gpu":
            attributes = {"dev": str(node.number), "sm": "90", "rank": str(node.number)} | gpu_attributes
            written = " ".join(f'{key}="{value}"' for key, value in attributes.items() if value)
            inner = f"{indent}  <gpu {written}>\n{self._nvlinks(node.number, indent)}{indent}  </gpu>\n"
        if node.kind == "nic":
            net = f'<net name="mlx5_{node.number}" dev="{node.number}" speed="400000" port="1"/>'
            inner = f"{indent}  <nic>\n{indent}    {net}\n{indent}  </nic>\n"
        return f"{opening}{inner}{indent}</pci>\n"

    def _nvlinks(self, gpu: int, indent: str) -> str:
        ids = self.gpu_ids()
        return "".join(
            f'{indent}    <nvlink target="{target if isinstance(target, str) else ids[target]}" count="{count}" '
            f'tclass="{"0x068000" if isinstance(target, str) else "0x030200"}"/>\n'
            for target, count in self.nvlinks[gpu]
        )


def ranges(bits: int) -> str:
    """Return the CPUs of a mask in words, one range after the other."""
    text = "".join(reversed(f"{bits:b}"))
    found = [(m.start(), m.end() - 1) for m in re.finditer("1+", text)]
    return ",".join(f"{a}-{b}" if a != b else str(a) for a, b in found)


def mask(bits: int) -> str:
    """Return a mask as the kernel prints it."""
    return ",".join(re.findall("[0-9a-f]{8}", f"{bits:024x}"))


def make(dice: random.Random, *, nvlink: str | None = None) -> Machine:
    """Return a random machine."""
    bus_ids = iter(f"{domain:04x}:{bus:02x}:00.0" for domain in range(2) for bus in sorted(dice.sample(range(1, 256), 120)))
    numbers = {"gpu": 0, "nic": 0}

    def grow(depth: int) -> list[Node]:
        children = []
        for _ in range(dice.randrange(1, 4)):
            kind = dice.choice(("gpu", "gpu", "nic") if depth == 3 else ("gpu", "nic", "switch", "switch"))
            node = Node(kind, next(bus_ids))
            if kind == "switch":
                node.children = grow(depth + 1)
            elif numbers[kind] < 12:
                node.number = numbers[kind]
                numbers[kind] += 1
            else:
                continue
            children.append(node)
        return children

    cpus = [Node("cpu", children=grow(0)) for _ in range(dice.randrange(1, 4))]
    cpus[0].children.append(Node("gpu", next(bus_ids), numbers["gpu"]))
    gpus = numbers["gpu"] + 1
    shuffled = dice.sample(range(gpus), gpus)
    waiting = list(cpus)
    while waiting:
        node = waiting.pop()
        waiting += node.children
        if node.kind == "gpu":
            node.number = shuffled[node.number]
    nvlinks: dict[int, list[tuple[int | str, int]]] = {gpu: [] for gpu in range(gpus)}
    kind = nvlink or dice.choice(("none", "pairs", "mesh", "switches", "all F"))
    for i in range(gpus):
        for j in range(i + 1, gpus):
            if (kind == "pairs" and i // 2 == j // 2) or (kind == "mesh" and dice.random() < 0.5):
                count = dice.choice((1, 2, 4))
                parts = [1] * count if dice.random() < 0.3 else [count]
                nvlinks[i] += [(j, part) for part in parts]
                nvlinks[j] += [(i, part) for part in parts]
    for gpu in range(gpus):
        if kind == "switches":
            nvlinks[gpu] += [(f"0000:{0xE0 + k:02x}:00.0", dice.randrange(1, 5)) for k in range(dice.randrange(4))]
        if kind == "all F":
            nvlinks[gpu].append(("fffffff:ff:ff.0", 18))
    masks = [((1 << 8) - 1) << (8 * number) | ((1 << 8) - 1) << (40 + 8 * number) for number in range(len(cpus))]
    return Machine(cpus, nvlinks, masks, gpus, numbers["nic"])


@given(seed=st.integers(0, 2**32))
@settings(max_examples=80, deadline=None)
def test_file_and_matrix_of_one_machine_say_the_same(seed: int) -> None:
    machine = make(random.Random(seed))
    file, matrix = read_text(machine.xml()), read_text(machine.matrix())
    assert [warning for warning in file.warnings if "on an NVSwitch" not in warning] == [*matrix.warnings]
    assert all("narrower" in warning for warning in matrix.warnings)
    assert (len(file.warnings) > len(matrix.warnings)) == machine.misses_links
    assert dict(file.links) == dict(matrix.links)
    assert [(gpu.numa, gpu.cpu_affinity) for gpu in file.gpus] == [(gpu.numa, gpu.cpu_affinity) for gpu in matrix.gpus]
    assert set(file.nics) == set(matrix.nics)
    assert {k: dict(v) for k, v in file.gpu_nic.items()} == {k: dict(v) for k, v in matrix.gpu_nic.items()}
    assert file.links_complete
    assert from_document(to_document(file)) == file
    both = read_text(machine.matrix() + "\n$ cat topo.xml\n" + machine.xml())
    assert dict(both.links) == dict(matrix.links)
    assert [gpu.pci_bus_id for gpu in both.gpus] == [gpu.pci_bus_id for gpu in file.gpus]


@given(seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_every_device_has_its_place(seed: int) -> None:
    machine = make(random.Random(seed))
    topology = read_text(machine.xml())
    ids = machine.gpu_ids()
    bridges = topology.host_facts[None].bridges if topology.host_facts else {}
    places = {gpu.index: gpu.pcie for gpu in topology.gpus}
    for (kind, number), (cpu, over) in machine.above().items():
        path = tuple(switch.bus_id for switch in reversed(over))
        nic = topology.nic_details[f"mlx5_{number}"] if kind == "nic" else None
        pcie = places[number] if nic is None else nic.pcie
        assert pcie is not None
        assert (pcie.gen, pcie.width, pcie.path, pcie.root) == (5, 16, path, None)
        assert all(bridges[bus_id] == Bridge(BridgeKind.UPSTREAM, 5, 16) for bus_id in path)
        if nic is None:
            assert topology.gpus[number].pci_bus_id == ids[number]
            assert topology.stated["numa_of_gpu_busid"][ids[number]] == str(cpu)
        else:
            assert (nic.gb_per_s, nic.numa) == (50.0, str(cpu))
    direct = {
        ids[gpu]: {ids[other]: sum(n for target, n in links if target == other) for other, _ in links if isinstance(other, int)}
        for gpu, links in machine.nvlinks.items()
    }
    assert topology.stated.get("nvlinks_seen", {}) == {bus_id: links for bus_id, links in direct.items() if links}
    assert topology.stated["nic_count"] == machine.nics
    assert {gpu.compute_capability for gpu in topology.gpus} == {"9.0"}


DAMAGES: dict[str, Callable[[str], str]] = {
    "no indentation": lambda text: re.sub(r"(?m)^[ \t]+", "", text),
    "one line": lambda text: text.replace("\n", " "),
    "CR LF": lambda text: text.replace("\n", "\r\n"),
    "in prose": framed,
    "wrapped between attributes": lambda text: text.replace(" link_", "\n      link_"),
    "log of 5000 lines around": lambda text: "step: <1> & 2\n" * 2500 + text + "step: <1> & 2\n" * 2500,
    "declared": lambda text: '<?xml version="1.0" encoding="UTF-8"?>\n<!-- made by hand -->\n' + text,
    "single quotes": lambda text: text.replace('"', "'"),
    **{f"prefix {p!r}": (lambda text, p=p: prefixed(text, p)) for p in PREFIXES},
}


@given(seed=st.integers(0, 2**32), damage=st.sampled_from(sorted(DAMAGES)))
@settings(max_examples=100, deadline=None)
def test_what_stands_around_it_does_not_matter(seed: int, damage: str) -> None:
    text = make(random.Random(seed)).xml()
    plain = read_text(text)
    assert read_text(DAMAGES[damage](text)) == plain.replace(warnings=(*prefix_warnings(damage), *plain.warnings))


@given(seed=st.integers(0, 2**32), data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_file_that_is_cut_is_refused(seed: int, data: st.DataObject) -> None:
    """At the end, at the beginning, or both."""
    text = make(random.Random(seed)).xml()
    end = data.draw(st.integers(text.index("<cpu") + 4, text.rindex("</system>") + 8))
    with pytest.raises(TopologyError, match=rf"cut, it ends in line {text[:end].rstrip().count(chr(10)) + 1}\b.*NCCL_TOPO_DUMP_FILE"):
        read_text(text[:end])
    with pytest.raises(TopologyError, match="fragment"):
        read_text(text[text.index("<pci") : end] if end > text.index(">", text.index("<pci")) else text[text.index("<pci") :])


@given(seed=st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_without_gpu_elements_nvlinks_are_unknown(seed: int) -> None:
    """The tree is known, and so is which NIC is near: but any two GPUs may have NVLinks."""
    machine = make(random.Random(seed))
    topology = read_text(re.sub(r"(?s)\s*<gpu .*?</gpu>", "", machine.xml()))
    assert topology.links == {}
    assert topology.links_complete == (machine.gpus == 1)
    assert topology.warnings == ()
    by_bus = {gpu.pci_bus_id: topology.gpu_nic.get(gpu.index, {}) for gpu in topology.gpus}
    expected = {
        bus_id: {f"mlx5_{k}": machine.code(("gpu", gpu), ("nic", k)) for k in range(machine.nics)}
        for gpu, bus_id in machine.gpu_ids().items()
    }
    assert by_bus == expected
    assert [gpu.pci_bus_id for gpu in topology.gpus] == sorted(expected)


@pytest.mark.parametrize("attributes", [{"dev": ""}, {"dev": "0"}], ids=["none", "all the same"])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_without_numbers_gpus_are_in_pci_order(attributes: dict[str, str], seed: int) -> None:
    machine = make(random.Random(seed))
    topology = read_text(machine.xml(**attributes))
    assert [gpu.pci_bus_id for gpu in topology.gpus] == sorted(machine.gpu_ids().values())
    said = [warning for warning in topology.warnings if "NVLink" not in warning]
    assert bool(said) == (attributes["dev"] == "0" and machine.gpus > 1)


def one(inner: str, cpu: str = 'numaid="0"') -> str:
    return f'<system version="1"><cpu {cpu}>{inner}</cpu></system>'


def pci(bus: int, inner: str = "", rest: str = 'class="0x030200"') -> str:
    return f'<pci busid="0000:{bus:02x}:00.0" {rest} link_speed="16 GT/s" link_width="8">{inner}</pci>'


def two(first: str, second: str) -> Topology:
    """Return two GPUs of one switch, with these NVLinks."""
    gpus = pci(1, f'<gpu dev="0">{first}</gpu>') + pci(2, f'<gpu dev="1">{second}</gpu>')
    return read_text(one(pci(9, gpus, 'class="0x060400"')))


def link(target: str, count: int | str, tclass: str = "") -> str:
    return f'<nvlink target="{target}" count="{count}" tclass="{tclass}"/>'


GPU, SWITCH, NPU = "0x030200", "0x068000", "0x068001"
GRAPH = '<graphs version="1"><graph id="0" pattern="4"><channel><gpu dev="0"/></channel></graph></graphs>'


@pytest.mark.parametrize(
    ("first", "second", "code", "words"),
    [
        pytest.param("", "", "PIX", "", id="none"),
        pytest.param(link("0000:02:00.0", 4, GPU), "", "NV4", "GPU 1 has 0 to GPU 0", id="told by one side only"),
        pytest.param(link("00000000:02:00.0", 4, GPU), link("01:00.0", 4), "NV4", "", id="bus ids written otherwise"),
        pytest.param(link("0000:02:00.0", 4), link("0000:01:00.0", 2), "NV4", "has 4 NVLinks to GPU 1", id="two sides differ"),
        pytest.param(link("0000:aa:00.0", 4), link("0000:bb:00.0", 2), "NV2", "", id="unknown targets are switches"),
        pytest.param(link("0000:aa:00.0", 4, SWITCH), "", "PIX", "GPU1 has no NVLink, but", id="only one behind switches"),
        pytest.param(link("0000:aa:00.0", 3, NPU), link("0000:aa:00.0", 3, NPU), "PIX", "", id="to a POWER9 CPU"),
        pytest.param(link("0000:aa:00.0", 2, GPU), link("0000:aa:00.0", 2, GPU), "PIX", "does not list", id="to a hidden GPU"),
        pytest.param('<xgmi target="0000:02:00.0" count="1" tclass="0x038000"/>', "", "XGMI", "", id="AMD"),
        pytest.param(link("0000:02:00.0", 77), "", "NV77", "unknown code NV77", id="more than hardware has"),
        pytest.param(link("0000:02:00.0", 0), link("0000:01:00.0", 0), "PIX", "", id="none at all"),
    ],
)  # fmt: skip
def test_nvlinks(first: str, second: str, code: str, words: str) -> None:
    topology = two(first, second)
    assert dict(topology.links) == {(0, 1): code}
    assert bool(topology.warnings) == bool(words)
    assert words in " ".join(topology.warnings)


@given(gpus=st.integers(2, 16), data=st.data())
@settings(deadline=None)
def test_gpus_that_miss_on_an_nvswitch_are_told(gpus: int, data: st.DataObject) -> None:
    """Not one of another kind: a GPU for a screen has no NVLinks."""
    off = data.draw(st.sets(st.integers(0, gpus - 1), max_size=gpus))
    screens = data.draw(st.sets(st.integers(0, gpus - 1), max_size=1)) - off
    inner = [
        f'<gpu dev="{g}" sm="{86 if g in screens else 90}">{"" if g in off | screens else link("0000:aa:00.0", 18, SWITCH)}</gpu>'
        for g in range(gpus)
    ]
    topology = read_text(one("".join(pci(1 + g, gpu) for g, gpu in enumerate(inner))))
    is_told = bool(off) and len(off | screens) < gpus
    assert [("on an NVSwitch" in said) for said in topology.warnings] == [True] * is_told
    named = re.findall(r"GPU(\d+)(?: to GPU(\d+))?", topology.warnings[0].split(" ha")[0]) if is_told else []
    assert not is_told or {g for first, last in named for g in range(int(first), int(last or first) + 1)} == off


@pytest.mark.parametrize("count", ["many", "x", "-4", "4.5", "", None, "9999999"])
def test_nvlinks_whose_number_cannot_be_read_are_unknown(count: str | None) -> None:
    """To the other GPU from one side or both, and to switches."""
    bad = "" if count is None else f' count="{count}"'
    for first, second in (
        (f'<nvlink target="0000:02:00.0"{bad} tclass="{GPU}"/>', ""),
        (f'<nvlink target="0000:02:00.0"{bad} tclass="{GPU}"/>', link("0000:01:00.0", 4, GPU)),
        (link("0000:02:00.0", 4, GPU), f'<nvlink target="0000:01:00.0"{bad} tclass="{GPU}"/>'),
        (f'<nvlink target="0000:aa:00.0"{bad} tclass="{SWITCH}"/>', link("0000:aa:00.0", 18, SWITCH)),
    ):
        topology = two(first, second)
        assert dict(topology.links) == {}
        odd = "GPU1" if 'count="4"' in first else "GPU0"
        assert topology.warnings[0] == f"the number of NVLinks of {odd} is missing or cannot be read: how many there are is unknown"
        assert "0000:01:00.0" not in topology.stated.get("nvswitch_links", {})
    topology = two(f'<nvlink target="0000:aa:00.0"{bad} tclass="{SWITCH}"/>', "")
    assert dict(topology.links) == {(0, 1): "PIX"}, "the other GPU has no NVLink, so that none joins them"


def test_links_to_switches_and_to_the_cpu_are_stated() -> None:
    topology = two(link("0000:aa:00.0", 12, SWITCH) + '<c2c bw="44712" count="5"/>', link("fffffff:ff:ff.0", 18, SWITCH))
    assert topology.stated["nvswitch_links"] == {"0000:01:00.0": 12, "0000:02:00.0": 18}
    assert topology.stated["c2c"] == {"0000:01:00.0": {"count": 5, "bw": 44712}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(one(pci(1) + pci(2, rest='class="0x030000" vendor="0x1a03"')), ["0000:01:00.0"], id="graphics of a server"),
        pytest.param(one(pci(1, rest='class="0x030000" vendor="0x10DE"')), ["0000:01:00.0"], id="VGA of NVIDIA"),
        pytest.param(one(pci(1, '<gpu dev="0"/>', 'class="0x038000"')), ["0000:01:00.0"], id="another class"),
        pytest.param(one(pci(1, '<gpu dev="0"/>', "")), ["0000:01:00.0"], id="no class"),
        pytest.param(one(pci(1) + pci(2, rest='class="0x068000"')), ["0000:01:00.0"], id="NVSwitch"),
        pytest.param(one(pci(1) + pci(3, rest='class="0x010802"')), ["0000:01:00.0"], id="disk"),
        pytest.param(one(pci(1, '<gpu dev="0" mlopart="0"/><gpu dev="0" mlopart="1"/>')), ["0000:01:00.0"], id="parts of one"),
    ],
)  # fmt: skip
def test_what_is_a_gpu(text: str, expected: list[str]) -> None:
    topology = read_text(text)
    assert [gpu.pci_bus_id for gpu in topology.gpus] == expected
    assert topology.warnings == ()


@pytest.mark.parametrize(
    ("nics", "expected"),
    [
        pytest.param(pci(3, rest='class="0x020000"'), {"0000:03:00.0": None}, id="by class"),
        pytest.param(pci(3, '<nic><net name="a"/><net name="b"/></nic>', ""), {"a": "a", "b": "b"}, id="two ports"),
        pytest.param(pci(3, '<nic><net name="a"/><net name="a" coll="1"/></nic>', ""), {"a": "a"}, id="a port twice"),
        pytest.param(pci(3, '<nic name="n"/>', ""), {"n": "n"}, id="name of the card"),
        pytest.param('<nic><net name="bond0" speed="1000"/></nic>', {"bond0": "bond0"}, id="virtual"),
        pytest.param(
            pci(3, '<nic><net name="a"/></nic>', "") + pci(4, '<nic><net name="a"/></nic>', ""),
            {"a": "a", "a@0000:04:00.0": "a"}, id="same name",
        ),
    ],
)  # fmt: skip
def test_what_is_a_nic(nics: str, expected: dict[str, str | None]) -> None:
    topology = read_text(one(pci(1) + nics))
    assert dict(topology.nics) == expected
    near = {} if "bond0" in nics else {0: dict.fromkeys(expected, "PHB")}
    assert {k: dict(v) for k, v in topology.gpu_nic.items()} == near, "where a virtual NIC leaves the host is unknown"
    assert topology.stated["nic_count"] == len(expected)


@pytest.mark.parametrize(
    ("cpus", "expected"),
    [
        pytest.param(['numaid="0" affinity="f"', 'numaid="1" affinity="f0"'], [("0", "0-3"), ("1", "4-7")], id="both known"),
        pytest.param(['numaid="0" affinity="f"', 'numaid="1" affinity="f"'], [("0", None), ("1", None)], id="masks alike tell nothing"),
        pytest.param(['numaid="-1"', 'numaid="-1"'], [(None, None), (None, None)], id="a virtual machine"),
        pytest.param(['numaid="0" affinity="x"', 'numaid="1" affinity="0,1"'], [("0", None), ("1", "0")], id="no mask"),
        pytest.param(['numaid="0" affinity="1,00000000"', 'numaid="1" affinity="5"'], [("0", "32"), ("1", "0,2")], id="words"),
        pytest.param(["", ""], [(None, None), (None, None)], id="nothing"),
    ],
)
def test_numa_nodes(cpus: list[str], expected: list[Any]) -> None:
    inner = "".join(f"<cpu {cpu}>{pci(k + 1)}</cpu>" for k, cpu in enumerate(cpus))
    topology = read_text(f"<system>{inner}</system>")
    assert [(gpu.numa, gpu.cpu_affinity) for gpu in topology.gpus] == expected
    assert topology.stated.get("numa_of_gpu_busid", {}) == {g.pci_bus_id: g.numa for g in topology.gpus if g.numa}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(GRAPH, "graph file", id="graph"),
        pytest.param(one(pci(3, rest='class="0x020000"')), "lists no GPU", id="no GPU"),
        pytest.param(one('<pci class="0x030200"/>'), "has no bus id", id="no bus id"),
        pytest.param(one('<pci busid="0000:1 8:00.0" class="0x030200"/>'), "'0000:1 8:00.0', which is none", id="odd bus id"),
        pytest.param(one(pci(1) + pci(1)), "stands there twice", id="twice"),
        pytest.param(
            "<system><cpu host_hash='0x1' numaid='0'>" + pci(1) + "</cpu><cpu host_hash='0x2' numaid='0'>" + pci(2) + "</cpu></system>",
            "2 hosts are described .*0x1 in line 1, 0x2", id="two hosts in one file",
        ),
        pytest.param(
            one(pci(1), "host_hash='0x1'") + "\n" + one(pci(1), "host_hash='0x2'"), "2 hosts are described .*0x2 in line 2",
            id="a file each",
        ),
        pytest.param(
            one("".join(pci(k) for k in range(256)) + "<pci busid='1:0:0.0' class='0x0302'/>"), "more than 256 GPUs", id="too many",
        ),
    ],
)  # fmt: skip
def test_what_is_no_topology_of_a_host_is_refused(text: str, words: str) -> None:
    with pytest.raises(TopologyError, match=words):
        read_text(text)


def test_a_graph_beside_the_topology_does_no_harm() -> None:
    assert len(read_text(one(pci(1)) + f"\n{GRAPH}\n").gpus) == 1


def test_one_file_twice_is_one_machine() -> None:
    text = make(random.Random(1)).xml()
    assert read_text(text + text) == read_text(text)


HOSTILE = {
    "nesting": "<system><cpu>" + '<pci busid="1:1:1.1">' * 380_000,
    "many devices": one("".join(f'<pci busid="{k // 65536:x}:{k // 256 % 256:x}:{k % 256 // 8:x}.{k % 8}"/>' for k in range(60_000))),
    "links without end": one(pci(1, '<gpu dev="0">' + link("0000:02:00.0", 1) * 110_000 + "</gpu>")),
    "NICs without end": one(pci(1) + "<nic><net name='a'/></nic>" * 20_000),
    "ports without end": one(pci(1) + "<nic>" + "<net name='a'/>" * 60_000 + "</nic>"),
    "a long mask": one(pci(1), 'affinity="' + "f" * 16_000 + '"') + "<system><cpu",
    "roots": "<system><cpu>" * 600_000,
    "fragments": '<pci busid="0000:01:00.0" ' * 300_000,
    "graphs": "<graph " * 1_100_000 + '<pci busid="1">',
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_a_file_that_means_harm_is_done_with_at_once(name: str) -> None:
    text = HOSTILE[name][:8_388_000]
    begin = time.process_time()
    try:
        topology = read_text(text)
    except TopologyError:
        topology = None
    assert time.process_time() - begin < MOST_CPU_S
    assert (topology is not None) == (name == "ports without end")


def test_the_largest_machine_is_read_in_a_second() -> None:
    """256 GPUs in a mesh of NVSwitches, and as many NICs."""
    gpus = "".join(pci(k, f'<gpu dev="{k}">{link("ffff:ff:ff.f", 18)}</gpu>') for k in range(256))
    nics = "".join(f'<pci busid="0001:{k:02x}:00.0"><nic><net name="mlx5_{k}"/></nic></pci>' for k in range(256))
    begin = time.process_time()
    topology = read_text(one(gpus + nics))
    assert time.process_time() - begin < MOST_CPU_S
    assert set(topology.links.values()) == {"NV18"}
    assert len(topology.links) == 256 * 255 // 2


def test_brackets_written_as_html_are_undone_and_said() -> None:
    text = make(random.Random(3)).xml()
    plain, read = read_text(text), read_text(html.escape(text))
    assert (read.gpus, read.links, read.stated) == (plain.gpus, plain.links, plain.stated)
    assert "HTML" in " ".join(read.warnings)


@pytest.mark.parametrize(
    "text",
    [
        '<gpu dev="0" sm="80" rank="0" gdr="1">\n  <nvlink target="0000:c7:00.0" count="2" tclass="0x068000"/>\n</gpu>\n',
        '  <nvlink target="0000:c7:00.0" count="2" tclass="0x068000"/>\n  <nvlink target="0000:c4:00.0" count="2" tclass="0x068000"/>\n',
        '<gpu dev="0" sm="90" rank="0">\n  <c2c bw="44712" count="5"/>\n',
    ],
    ids=["a GPU", "links alone", "a link to the CPU"],
)
def test_a_fragment_without_pci_devices_is_refused_as_one(text: str) -> None:
    with pytest.raises(TopologyError, match=r"is a fragment: .*no GPU was seen; run any NCCL job"):
        read_text(text)
