"""
Outputs of AMD's tools: random machines, printed as ``rocm-smi`` and ``amd-smi`` print them, damaged, read back.

No damage may make a wrong link; what is lost is unknown and said.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.bandwidth import blocks, pair_gb_per_s, ring
from topologies.cards import assign_cards, cards, find_card
from topologies.domains import islands
from topologies.errors import TopologyError
from topologies.links import link
from topologies.model import Topology
from topologies.parts import Pcie
from topologies.read import read_text
from topologies.wiring import wiring

WIDTH = 90


@dataclass(frozen=True)
class Machine:
    """
    The truth about a machine of AMD GPUs.

    *types* has a code for every pair; *hops* and *weight* follow from it.
    """

    gpus: int
    types: dict[tuple[int, int], str]
    numa: tuple[int, ...]
    busses: tuple[str, ...]

    def hops(self, i: int, j: int) -> int:
        return 1 if self.code(i, j) == "XGMI" else 2

    def weight(self, i: int, j: int) -> int:
        return 15 if self.code(i, j) == "XGMI" else 40

    def code(self, i: int, j: int) -> str:
        return self.types[min(i, j), max(i, j)]

    @property
    def tables(self) -> list[tuple[str, str, Callable[[int, int], object]]]:
        """Titles of rocm-smi and amd-smi, and what the cell of a pair is."""
        return [
            ("Weight between two GPUs", "WEIGHT", self.weight),
            ("Hops between two GPUs", "HOPS", self.hops),
            ("Link Type between two GPUs", "LINK TYPE", self.code),
        ]

    def rocm_smi(self) -> str:
        """Return what ``rocm-smi --showtopo`` prints."""
        lines = ["", " ROCm System Management Interface ".center(WIDTH, "=")]
        for title, _, cell in self.tables:
            lines.append(f" {title} ".center(WIDTH, "="))
            lines.append("       " + "".join(f"GPU{j}".ljust(13) for j in range(self.gpus)))
            for i in range(self.gpus):
                cells = ["0" if i == j else str(cell(i, j)) for j in range(self.gpus)]
                lines.append(f"GPU{i}".ljust(7) + "".join(text.ljust(13) for text in cells))
            lines.append("")
        lines.append(" Numa Nodes ".center(WIDTH, "="))
        for i, node in enumerate(self.numa):
            lines += [f"GPU[{i}]\t\t: (Topology) Numa {word}: {node}" for word in ("Node", "Affinity")]
        return "\n".join((*lines, " End of ROCm SMI Log ".center(WIDTH, "="), ""))

    def amd_smi(self) -> str:
        """Return what ``amd-smi topology`` prints."""
        lines = []
        tables = [("", "ACCESS", lambda i, j: "ENABLED"), *self.tables, ("", "NUMA BW", lambda i, j: "50000-50000")]
        for _, title, cell in tables:
            own = {"ACCESS": "ENABLED", "LINK TYPE": "SELF", "NUMA BW": "N/A"}.get(title, "0")
            lines += [f"{title} TABLE:", " " * 13 + "".join(bus.ljust(13) for bus in self.busses)]
            for i, bus in enumerate(self.busses):
                cells = [own if i == j else str(cell(i, j)) for j in range(self.gpus)]
                lines.append(bus.ljust(13) + "".join(text.ljust(13) for text in cells))
            lines.append("")
        return "\n".join((*lines, "Legend:", "  SELF = Current GPU", "  ENABLED / DISABLED = Link is enabled or disabled", ""))

    def json(self) -> str:
        """Return what ``rocm-smi --showtopo --json`` prints."""
        system = {}
        for what, cell in (("Weight", self.weight), ("Hops", self.hops), ("Link type", self.code)):
            for i, j in self.types:
                system[f"(Topology) {what} between DRM devices {i} and {j}"] = str(cell(i, j))
        cards = {f"card{i}": {"(Topology) Numa Node": str(node)} for i, node in enumerate(self.numa)}
        return json.dumps({**cards, "system": system})


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    gpus = draw(st.integers(2, 16))
    shape = draw(st.sampled_from(("mesh", "PCIe", "hives", "any")))
    types = {}
    dice = random.Random(draw(st.integers(0, 2**32)))
    for i in range(gpus):
        for j in range(i + 1, gpus):
            is_near = {"mesh": True, "PCIe": False, "hives": i // 4 == j // 4, "any": dice.random() < 0.5}[shape]
            types[i, j] = "XGMI" if is_near else "PCIE"
    return Machine(
        gpus,
        types,
        tuple(draw(st.integers(0, 3)) for _ in range(gpus)),
        tuple(f"0000:{7 + 11 * i:02x}:00.0" for i in range(gpus)),
    )


def prefix(word: str) -> Callable[[str], str]:
    return lambda text: "".join(f"{word}{line}\n" for line in text.rstrip("\n").split("\n"))


def times(text: str) -> str:
    return "".join(f"2025-03-01T10:{k // 60:02}:{k % 60:02}Z {line}\n" for k, line in enumerate(text.rstrip("\n").split("\n")))


def wrap(width: int) -> Callable[[str], str]:
    def damage(text: str) -> str:
        lines = [line[k : k + width] for line in text.split("\n") for k in range(0, max(1, len(line)), width)]
        return "\n".join(lines)

    return damage


def trim(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n"))


def collapse(text: str) -> str:
    return re.sub(r"[ \t]+", " ", re.sub(r"^[ \t]+", "", text, flags=re.MULTILINE))


def glue_header(text: str) -> str:
    """Lose the blanks between the labels of headers."""
    lines = text.split("\n")
    return "\n".join(line.replace(" ", "") if re.fullmatch(r"\s+(?:GPU\d+\s*|[\da-f:.]+\s*)+", line) else line for line in lines)


def glue_types(text: str) -> str:
    return re.sub(r"(?<=XGMI|PCIE) +(?=XGMI|PCIE)", "", text)


LOSSLESS: dict[str, Callable[[str], str]] = {
    "as printed": lambda text: text,
    "single spaces": collapse,
    "trimmed": trim,
    "tabs": lambda text: re.sub(r" {2,}", "\t", text),
    "one line": lambda text: " ".join(text.split()),
    "srun prefix": prefix("0: "),
    "compose prefix": prefix("gpu-1  | "),
    "mail quote": prefix("> "),
    "comment": prefix("// "),
    "host": prefix("node0: "),
    "times": times,
    "indented": prefix("    "),
    "fenced": lambda text: f"see:\n```\n{text}```\nbye\n",
    "wrapped at 80": wrap(80),
    "wrapped at 100": wrap(100),
    "wrapped at 79": wrap(79),
    "wrapped at 60": wrap(60),
    "CR LF": lambda text: text.replace("\n", "\r\n"),
    "no-break spaces": lambda text: text.replace(" ", "\u00a0"),
    "blank lines": lambda text: text.replace("\n", "\n\n"),
    "lower case codes": lambda text: text.replace("XGMI", "xgmi").replace("PCIE", "pcie"),
    "header glued": glue_header,
    "types glued": glue_types,
    "twice": lambda text: f"$ rocm-smi --showtopo\n{text}\n$ rocm-smi --showtopo\n{text}",
    "in colour": lambda text: text.replace("XGMI", "\x1b[32mXGMI\x1b[0m"),
    "a table": lambda text: "\n".join(
        re.sub(r"\s+", " | ", f"| {line.strip()} |") if re.search(r"\bGPU\d|^[\da-f]+:", line) else line
        for line in text.split("\n")
    ),
}

FEWER = settings(max_examples=max(1, settings().max_examples // 5))


def pairs(stated: object) -> dict[tuple[int, int], str]:
    assert isinstance(stated, dict)
    return {(int(i), int(j)): value for key, value in stated.items() for i, j in (key.split("-"),)}


@FEWER
@pytest.mark.parametrize("tool", ["rocm_smi", "amd_smi"])
@pytest.mark.parametrize("damage", LOSSLESS.values(), ids=LOSSLESS.keys())
@given(machine=machines())
def test_a_damage_that_loses_nothing_reads_the_same_links(damage: Callable[[str], str], tool: str, machine: Machine) -> None:
    topology = read_text(damage(getattr(machine, tool)()))
    assert dict(topology.links) == machine.types
    assert len(topology.gpus) == machine.gpus
    assert topology.format == {"rocm_smi": "rocm-showtopo", "amd_smi": "amd-smi-topology"}[tool]
    if tool == "amd_smi":
        assert [gpu.pci_bus_id for gpu in topology.gpus] == list(machine.busses)
        assert set(topology.p2p.values()) == {"OK"}
    else:
        assert [gpu.numa for gpu in topology.gpus] == [str(node) for node in machine.numa]
    for name, value in (("weight", machine.weight), ("hops", machine.hops)):
        assert pairs(topology.stated[name]) == {pair: str(value(*pair)) for pair in machine.types}


@given(machine=machines())
def test_a_clean_text_needs_no_repair(machine: Machine) -> None:
    assert read_text(machine.rocm_smi()).warnings == ()
    assert read_text(machine.amd_smi()).warnings == ()


@pytest.mark.parametrize(
    "kept", [r"GPU\d+ .*\d|GPU\[|[\da-f]+:", r" +GPU|GPU\d+ .*\d|GPU\[|[\da-f]+:| +[\da-f]+:"], ids=["rows", "rows and headers"]
)
@pytest.mark.parametrize("tool", ["rocm_smi", "amd_smi"])
@given(machine=machines())
def test_tables_without_titles_are_told_by_their_cells(tool: str, kept: str, machine: Machine) -> None:
    """As `grep` leaves them."""
    whole = getattr(machine, tool)()
    topology = read_text("\n".join(line for line in whole.split("\n") if re.match(kept, line)))
    assert dict(topology.links) == machine.types
    assert topology.stated == read_text(whole).stated
    assert dict(topology.p2p) == dict(read_text(whole).p2p)
    assert (topology.warnings == ()) == kept.startswith(" ")


@given(machine=machines())
def test_json_says_the_same_as_text(machine: Machine) -> None:
    topology = read_text(machine.json())
    assert dict(topology.links) == machine.types
    assert topology == read_text(machine.rocm_smi())


def cut(text: str, dice: random.Random) -> str:
    return text[: dice.randrange(1, len(text))]


def lose_head(text: str, dice: random.Random) -> str:
    return text[dice.randrange(1, len(text)) :]


def lose_line(text: str, dice: random.Random) -> str:
    lines = text.split("\n")
    del lines[dice.randrange(len(lines))]
    return "\n".join(lines)


def change_word(new: Callable[[random.Random, str], str]) -> Callable[[str, random.Random], str]:
    def damage(text: str, dice: random.Random) -> str:
        words = list(re.finditer(r"\S+", text))
        word = words[dice.randrange(len(words))]
        return text[: word.start()] + new(dice, word[0]) + text[word.end() :]

    return damage


LOSSY: dict[str, Callable[[str, random.Random], str]] = {
    "cut": cut,
    "head lost": lose_head,
    "line lost": lose_line,
    "word lost": change_word(lambda dice, word: ""),
    "word cut": change_word(lambda dice, word: word[: dice.randrange(len(word))]),
    "word unknown": change_word(lambda dice, word: dice.choice(("N/A", "XXXX", "?", "...", "7", "UNKNOWN"))),
    "words glued": lambda text, dice: re.sub(r"(?<=\w)[ \t]+(?=\w)", "", text, count=dice.randrange(1, 4)),
}
THEN: dict[str, Callable[[str], str]] = {"": lambda text: text, ", single spaces": collapse, ", wrapped": wrap(80)}


@FEWER
@pytest.mark.parametrize("then", THEN.values(), ids=[name or ", as printed" for name in THEN])
@pytest.mark.parametrize("damage", LOSSY.values(), ids=LOSSY.keys())
@given(machine=machines(), tool=st.sampled_from(("rocm_smi", "amd_smi")), seed=st.integers(0, 2**32))
def test_a_damage_that_loses_something_never_makes_a_wrong_link(
    damage: Callable[[str, random.Random], str], then: Callable[[str], str], tool: str, machine: Machine, seed: int
) -> None:
    text = then(damage(getattr(machine, tool)(), random.Random(seed)))
    try:
        topology = read_text(text)
    except TopologyError:
        return
    # Labels of amd-smi are bus ids: a GPU that is not named any more shifts the indices of the others.
    by_bus = [gpu.pci_bus_id for gpu in topology.gpus]
    place = {
        k: machine.busses.index(bus) if bus in machine.busses else None for k, bus in enumerate(by_bus)
    } if tool == "amd_smi" else {k: k for k in range(machine.gpus)}
    for (i, j), code in topology.links.items():
        a, b = place.get(i), place.get(j)
        assert a is not None
        assert b is not None
        assert code == machine.code(a, b), text
    is_whole = dict(topology.links) == machine.types and len(topology.gpus) == machine.gpus
    assert topology.warnings or is_whole or topology.format == "rocm-smi"  # a single fact states no links


@given(machine=machines(), other=machines())
def test_two_different_machines_are_refused_and_either_can_be_picked(machine: Machine, other: Machine) -> None:
    text = machine.rocm_smi() + other.rocm_smi()
    if machine == other:
        return
    if (machine.types, machine.numa) != (other.types, other.numa) and machine.types != other.types:
        with pytest.raises(TopologyError, match="2 matrices, and they differ"):
            read_text(text)
        assert [dict(read_text(text, pick=k).links) for k in (1, 2)] == [machine.types, other.types]


@given(machine=machines())
def test_hosts_that_talk_at_once_are_told_apart(machine: Machine) -> None:
    lines = machine.rocm_smi().split("\n")
    text = "".join(f"{host}: {line}\n" for line in lines for host in (0, 1))
    assert dict(read_text(text).links) == machine.types


FACTS = """
========================= ROCm System Management Interface =========================
=================================== Product Info ===================================
GPU[0]\t\t: Card Series: \t\tAMD Instinct MI300X
GPU[0]\t\t: Card Model: \t\t0x74a1
GPU[0]\t\t: GFX Version: \t\tgfx942
GPU[1]\t\t: Card Series: \t\tAMD Instinct MI300X
================================ Memory Usage (Bytes) ==============================
GPU[0]\t\t: VRAM Total Memory (B): 206141652992
GPU[0]\t\t: VRAM Total Used Memory (B): 296218624
GPU[1]\t\t: VRAM Total Memory (B): 206141652992
GPU[1]\t\t: VRAM Total Used Memory (B): 296218624
===================================== PCI Bus ID ===================================
GPU[0]\t\t: PCI Bus: 0000:0C:00.0
GPU[1]\t\t: PCI Bus: 0000:22:00.0
===================================== Unique ID ====================================
GPU[0]\t\t: Unique ID: 0x9e31f5a7c24d8b06
GPU[1]\t\t: Unique ID: N/A
================================ End of ROCm SMI Log ===============================
"""

JSON_FACTS = json.dumps(
    {
        f"card{k}": {
            "Card Series": "AMD Instinct MI300X",
            "VRAM Total Memory (B)": "206141652992",
            "VRAM Total Used Memory (B)": "296218624",
            "PCI Bus": bus,
            "Unique ID": unique,
        }
        for k, (bus, unique) in enumerate((("0000:0C:00.0", "0x9e31f5a7c24d8b06"), ("0000:22:00.0", "N/A")))
    }
)

CSV_FACTS = (
    "device,Unique ID,PCI Bus,VRAM Total Memory (B),VRAM Total Used Memory (B),Card Series\n"
    "card0,0x9e31f5a7c24d8b06,0000:0C:00.0,206141652992,296218624,AMD Instinct MI300X\n"
    "card1,N/A,0000:22:00.0,206141652992,296218624,AMD Instinct MI300X\n"
)

AMD_SMI_FACTS = """\
GPU: 0
    BDF: 0000:0C:00.0
    UUID: 0x9e31f5a7c24d8b06
    ASIC:
        MARKET_NAME: AMD Instinct MI300X
    CACHE_INFO:
        CACHE_0:
            SIZE: 32 KB
    VRAM:
        TYPE: HBM
        SIZE: 196592 MB
    MEM_USAGE:
        TOTAL_VRAM: 196592 MB
        USED_VRAM: 282 MB

GPU: 1
    BDF: 0000:22:00.0
    UUID: N/A
    ASIC:
        MARKET_NAME: AMD Instinct MI300X
    MEM_USAGE:
        TOTAL_VRAM: 196592 MB
        USED_VRAM: 282 MB
"""


@pytest.mark.parametrize("text", [FACTS, JSON_FACTS, CSV_FACTS, AMD_SMI_FACTS], ids=["text", "json", "csv", "amd-smi"])
def test_facts_about_single_gpus(text: str) -> None:
    topology = read_text(text)
    assert (topology.format, topology.warnings, dict(topology.links)) == ("rocm-smi", (), {})
    assert [(g.name, g.memory_mib, g.memory_used_mib, g.pci_bus_id, g.uuid) for g in topology.gpus] == [
        ("AMD Instinct MI300X", 196592, 282, "0000:0C:00.0", "0x9e31f5a7c24d8b06"),
        ("AMD Instinct MI300X", 196592, 282, "0000:22:00.0", None),
    ]


@pytest.mark.parametrize(("speed", "gen"), [("16 GT/s", 4), ("32 GT/s", 5), ("16.0 GT/s", 4), ("8GT/s", 3), ("N/A", None)])
@pytest.mark.parametrize(("width", "lanes"), [("16", 16), ("x8", 8), ("N/A", None)])
@pytest.mark.parametrize("nodes", [("0", "1"), ("3", "N/A"), ("0", "0", "12")])
def test_amd_smi_static_tells_port_and_node(speed: str, gen: int | None, width: str, lanes: int | None, nodes: tuple[str, ...]) -> None:
    """A node of other sections is none of NUMA."""
    text = "".join(
        f"GPU: {g}\n    BUS:\n        BDF: 0000:{g + 12:02x}:00.0\n        MAX_PCIE_WIDTH: {width}\n        MAX_PCIE_SPEED: {speed}\n"
        f"    SOC:\n        NODE: 7\n    NUMA:\n        NODE: {node}\n        AFFINITY: {node}\n\n"
        for g, node in enumerate(nodes)
    )
    topology = read_text(text)
    assert topology.warnings == ()
    assert [gpu.numa for gpu in topology.gpus] == [None if node == "N/A" else node for node in nodes]
    port = None if gen is lanes is None else Pcie(gen=gen, width=lanes)
    assert [gpu.pcie for gpu in topology.gpus] == [port] * len(nodes)


@pytest.mark.parametrize("line", ["MAX_PCIE_WIDTH: 17", "MAX_PCIE_SPEED: 33 GT/s", "MAX_PCIE_SPEED: fast"])
def test_a_port_that_none_has_is_said(line: str) -> None:
    topology = read_text(f"GPU: 0\n    BUS:\n        BDF: 0000:0c:00.0\n        {line}\n        SLOT_TYPE: PCIE\n")
    assert topology.gpus[0].pcie is None
    assert "which no PCIe port has" in " ".join(topology.warnings)


def test_facts_beside_tables_join_them() -> None:
    machine = Machine(2, {(0, 1): "XGMI"}, (0, 1), ("0000:0c:00.0", "0000:22:00.0"))
    for table in (machine.rocm_smi(), machine.amd_smi()):
        topology = read_text(table + FACTS)
        assert [gpu.memory_mib for gpu in topology.gpus] == [196592, 196592]
        assert dict(topology.links) == {(0, 1): "XGMI"}


def test_a_gpu_with_two_names_is_said() -> None:
    text = FACTS + "GPU[1]\t\t: Card Series: \t\tAMD Instinct MI210\n"
    assert "two values of 'Card Series'" in " ".join(read_text(text).warnings)


def test_parts_of_the_output_say_what_is_missing() -> None:
    machine = Machine(2, {(0, 1): "XGMI"}, (0, 1), ("0000:0c:00.0", "0000:22:00.0"))
    whole = machine.rocm_smi()
    weight = whole[: whole.index("Hops")]
    topology = read_text(weight)
    assert dict(topology.links) == {}
    assert topology.stated["weight"] == {"0-1": "15"}
    assert "hops, link types, NUMA nodes are missing" in " ".join(topology.warnings)
    numa = read_text(whole[whole.index("= Numa") :])
    assert [gpu.numa for gpu in numa.gpus] == ["0", "1"]


@given(machine=machines(), data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_list_of_numa_nodes_that_is_cut_says_so(machine: Machine, data: st.DataObject) -> None:
    """Wherever it ends: nodes are those of the machine or unknown, and what is unknown is named."""
    text = machine.rocm_smi()
    start = text.index("= Numa")
    end = data.draw(st.integers(text.index("Numa Node:", start) + 12, len(text)))
    topology = read_text(text[:end])
    whole = read_text(text)
    unknown = [gpu.index for gpu in topology.gpus if gpu.numa is None and whole.gpus[gpu.index].numa is not None]
    assert all(gpu.numa in (None, whole.gpus[gpu.index].numa) for gpu in topology.gpus)
    said = " ".join(warning for warning in topology.warnings if "NUMA" in warning)
    assert bool(said) == bool(unknown)
    assert all(f"GPU{index}" in said or " to GPU" in said for index in unknown)


def test_no_numa_node_is_unknown() -> None:
    topology = read_text("GPU[0]\t\t: (Topology) Numa Node: -1\nGPU[0]\t\t: (Topology) Numa Affinity: -1\n")
    assert topology.gpus[0].numa is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("GPU0 0 XGMI\nGPU1 PCIE 0\n", "says XGMI", id="contradiction"),
        pytest.param("GPU0 0 FOO\nGPU1 FOO 0\n", "unknown code FOO", id="unknown code"),
        pytest.param("GPU0 0 XXXX\nGPU1 XXXX 0\n", "links are unknown", id="not stated"),
        pytest.param("GPU0 XGMI 0\nGPU1 XGMI 0\n", "own cell", id="shifted"),
        pytest.param("GPU0 0 XGMI XGMI\nGPU1 XGMI 0\n", "too many", id="too many"),
        pytest.param("GPU1 XGMI 0\n", "rows are missing: GPU0", id="row lost"),
        pytest.param("GPU0 0 None\nGPU1 None 0\n", "links are unknown", id="could not be read"),
    ],
)
def test_what_is_wrong_is_said(text: str, words: str) -> None:
    topology = read_text("=== Link Type between two GPUs ===\nGPU0 GPU1\n" + text)
    assert words in " ".join(topology.warnings)


def test_access_that_is_off_is_no_peer_access() -> None:
    text = "ACCESS TABLE:\n   0000:03:00.0 0000:0c:00.0\n0000:03:00.0 ENABLED DISABLED\n0000:0c:00.0 DISABLED ENABLED\n"
    topology: Topology = read_text(text)
    assert dict(topology.p2p) == {(0, 1): "NS"}


def test_too_many_gpus_are_refused() -> None:
    with pytest.raises(TopologyError, match="no GPU of one host"):
        read_text("GPU[5000]\t\t: PCI Bus: 0000:0C:00.0\n")


def drawn(machine: Machine, card: str) -> Topology:
    return assign_cards(read_text(machine.rocm_smi()), card)


@FEWER
@given(machine=machines(), card=st.sampled_from(("mi250x", "mi300x", "mi325x")))
def test_groups_of_amd_cards_are_as_fast_as_their_links(machine: Machine, card: str) -> None:
    """A mesh uses the links to all others at once, a pair the one that it has; islands are cliques of XGMI."""
    topology = drawn(machine, card)
    wired = wiring(topology)
    one = link("XGMI", *[find_card(card)] * 2)
    for island in islands(topology):
        assert all(machine.code(i, j) == "XGMI" for i in island for j in island if i < j)
        found = ring(wired, island)
        assert found.nvlink
        if len(island) > 1:
            assert found.gb_per_s == pytest.approx(one.gb_per_s * (len(island) - 1))
            assert blocks(wired, [island]).gb_per_s == found.gb_per_s
    several = [island for island in islands(topology) if len(island) > 1]
    if several:
        assert blocks(wired, several).gb_per_s == min(ring(wired, island).gb_per_s for island in several)
    for pair, code in machine.types.items():
        assert pair_gb_per_s(wired, *pair) == pytest.approx(link(code, *[find_card(card)] * 2).gb_per_s, rel=0.7)
        assert (ring(wired, pair).gb_per_s == one.gb_per_s) == (code == "XGMI")


def test_groups_that_overlap_share_their_links() -> None:
    machine = Machine(4, {(i, j): "XGMI" for i in range(4) for j in range(i + 1, 4)}, (0,) * 4, ("", "", "", ""))
    wired = wiring(drawn(machine, "mi300x"))
    apart, together = blocks(wired, [(0, 1), (2, 3)]), blocks(wired, [(0, 1, 2), (0, 1, 3)])
    assert apart.gb_per_s == ring(wired, (0, 1)).gb_per_s
    assert together.gb_per_s < ring(wired, (0, 1, 2)).gb_per_s


def test_every_amd_card_has_a_rate_and_an_unknown_one_the_lowest() -> None:
    rates = [link("XGMI", card, card).gb_per_s for card in cards() if card.arch.startswith("CDNA")]
    assert len(rates) == 3
    unknown = link("XGMI", None, None)
    assert unknown.gb_per_s <= min(rates)
    assert unknown.derived
    assert link("PCIE", None, None).gb_per_s == link("SYS", None, None).gb_per_s


BYTES = "".join(f"GPU[{gpu}]\t\t: VRAM Total Memory (B): 68702699520\n" for gpu in range(3))


@pytest.mark.parametrize("digits", range(1, 11))
def test_memory_whose_number_is_cut_is_unknown(digits: int) -> None:
    end = f"GPU[3]\t\t: VRAM Total Memory (B): {'68702699520'[:digits]}"
    for text in (BYTES + end, end, BYTES + end + "x\n", BYTES + end + "x"):
        topology = read_text(text)
        assert topology.gpus[-1].memory_mib is None
        assert all(gpu.memory_mib == 65520 for gpu in topology.gpus[:-1] if gpu.is_named)
        assert [w for w in topology.warnings if "GPU 3 is" in w and "unknown" in w]


def test_the_last_number_of_a_text_without_a_line_end_is_taken_if_others_have_it() -> None:
    topology = read_text(BYTES.rstrip("\n"))
    assert [gpu.memory_mib for gpu in topology.gpus] == [65520] * 3
    assert topology.warnings == ()
    table = "device,VRAM Total Memory (B),VRAM Total Used Memory (B)\ncard0,68702699520,10960896\ncard1,68702699520,1096089"
    assert [gpu.memory_used_mib for gpu in read_text(table).gpus] == [10, None]
    assert read_text(table + "6\n").gpus[1].memory_used_mib == 10


@pytest.mark.parametrize("host", ["gpu01", "gpu1", "GPU3", "gpu0", "gpu-01", "gpu1.cluster.local", "node1"])
@pytest.mark.parametrize(
    "prefix", ["{}: ", "{}:", "[{}] ", "{}> ", "Nov 30 10:00:00 {} probe[12]: ", "Nov 30 10:00:00 {} probe: ", "{}  | ", "{}\t"]
)
def test_a_host_may_be_called_like_a_gpu(host: str, prefix: str) -> None:
    text = (Path(__file__).parent.parent / "data" / "sources" / "rocm-smi.txt").read_text("utf-8")
    read = read_text("".join(f"{prefix.format(host)}{line}\n" for line in text.splitlines()))
    bare = read_text(text)
    assert (read.links, read.gpus) == (bare.links, bare.gpus)
    assert prefix[2:] in ("  | ", "\t") or any("prefix" in warning for warning in read.warnings)    # bars and tabs stand in tables, too
