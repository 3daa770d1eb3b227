"""
Write ``docs/sources.md``: which source states which fact, read from the examples in ``tests/data/sources``.

    python docs/make_sources.py            write it
    python docs/make_sources.py --check    fail if it differs from what the readers say now
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from made import main

from topologies.links import LinkKind, parse_code
from topologies.model import Topology
from topologies.read import read_bytes

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "sources.md"
EXAMPLES = ROOT / "tests" / "data" / "sources"
SHOWN_LINES = 8
SHOWN_COLUMNS = 120


def some(fact: str) -> Callable[[Topology], bool]:
    """Return whether some GPU of a machine has *fact*."""
    return lambda topology: any(getattr(gpu, fact) is not None for gpu in topology.gpus)


def kinds(topology: Topology) -> set[LinkKind]:
    """Return the kinds of links that *topology* states."""
    return {parse_code(code)[0] for code in (*topology.links.values(), *topology.pcie_links.values())}


def is_placed(topology: Topology) -> bool:
    """Whether *topology* tells who shares a PCIe switch or a socket."""
    pcie = (LinkKind.PIX, LinkKind.PXB, LinkKind.PHB, LinkKind.NODE, LinkKind.SYS)
    return any(gpu.pcie and gpu.pcie.path for gpu in topology.gpus) or not kinds(topology).isdisjoint(pcie)


FACTS: dict[str, Callable[[Topology], bool]] = {
    "card": some("name"),
    "UUID": some("uuid"),
    "PCI bus id": some("pci_bus_id"),
    "memory": some("memory_mib"),
    "memory in use": some("memory_used_mib"),
    "processes": lambda t: any(gpu.processes for gpu in t.gpus),
    "NVLink or XGMI between GPUs": lambda t: any(str(kind) in {"NVLINK", "XGMI"} for kind in kinds(t)),
    "rate or state of each NVLink": lambda t: bool({"gpu_links_GBps", "gpu_links_up"} & t.stated.keys()),
    "PCIe level between GPUs": is_placed,
    "P2P works": lambda t: bool(t.p2p),
    "NUMA node": some("numa"),
    "CPU affinity": lambda t: some("cpu_affinity")(t) or bool(t.gpus_near_cpu),
    "NICs, and which GPU is near": lambda t: bool(t.gpu_nic),
    "speed of NICs": lambda t: any(nic.gb_per_s is not None for nic in t.nic_details.values()),
    "PCIe generation and lanes": lambda t: any(gpu.pcie and gpu.pcie.gen for gpu in t.gpus),
    "switches and root complexes": lambda t: any(gpu.pcie and gpu.pcie.path for gpu in t.gpus),
    "ACS": lambda t: any(b.acs_redirect is not None for h in t.host_facts.values() for b in h.bridges.values()),
    "MIG": some("mig"),
    "compute capability": some("compute_capability"),
    "NVLink fabric of several hosts": some("fabric"),
    "host memory, CPUs, IOMMU": lambda t: any(host.memory_mib or host.iommu for host in t.host_facts.values()),
    "rates that were measured": lambda t: t.measured is not None,
}
MATTERS = ("card", "memory", "memory in use", "NVLink or XGMI between GPUs", "PCIe level between GPUs", "NUMA node", "P2P works")
"""Facts that planning uses: those among them that a source lacks are said under it; the table has all."""

LIVE = frozenset(FACTS) - {"ACS", "rates that were measured"}
"""What ``live`` states on a machine that has everything; the tests of NVML and sysfs show it fact by fact."""


@dataclass(frozen=True)
class Source:
    """
    A source: its short name in the table, the command, an example (none where a driver is asked), and what to know about it.

    *format* is the word that `placement topology --json` says. *more* are examples of other machines or flags, which state what
    the first example does not.
    """

    name: str
    format: str
    command: str
    example: str | None
    note: str
    more: tuple[str, ...] = ()


SOURCES = (
    Source("topo -m", "topo-m", "nvidia-smi topo -m", "topo-m.txt",
        "The best single source for links. No cards and no memory: join a query, or say `--gpu`. Where NVLink joins a pair it "
        "hides how the two hang on PCIe; `topo -mp` tells."),
    Source("topo -mp", "topo-mp", "nvidia-smi topo -mp", "topo-mp.txt",
        "PCIe paths only, also where NVLink joins a pair: with `topo -m` in one text both are kept. It is known by its command "
        "line or the name of the file (`topo-mp.txt`); else it is taken for `topo -m`, and two that differ are refused."),
    Source("topo -p2p", "p2p", "nvidia-smi topo -p2p r", "topo-p2p.txt",
        "Whether peer-to-peer copies work: `r` read, `w` write, `n` NVLink, `a` atomics. Which one was asked for is taken from "
        "the command line in the text or from the name of the file (`p2p-n.txt`), else it is `unknown`. Several kinds in one "
        "text are all kept. Where reads or writes do not work, or the NVLinks of a pair, it is planned with copies through host memory."),
    Source("topo -c", "topo-c", "nvidia-smi topo -c 3", "topo-c.txt", "Only the GPUs near one CPU; further GPUs are unknown."),
    Source("nvidia-smi", "smi-table", "nvidia-smi", "table.txt",
        "The box that everybody pastes. Names are cut to its width: a cut one is stated only where memory leaves one card that is "
        "called so. In a container it hides processes: where memory is in use and none is listed, they stay unknown."),
    Source("query", "query-csv", "nvidia-smi --query-gpu=index,name,uuid,pci.bus_id,memory.total,memory.used … --format=csv", "query.csv",
        "Any columns in any order. Without a header, columns are guessed by what their cells prove, with a warning. The current "
        "PCIe generation is that of an idle link; the maximum counts."),
    Source("compute apps", "query-apps", "nvidia-smi --query-compute-apps=pid,process_name,gpu_uuid,used_memory --format=csv",
        "compute-apps.csv",
        "Who holds memory. It names GPUs by UUID, so join a source that states UUIDs."),
    Source("-L", "list", "nvidia-smi -L", "list.txt",
        "Cards and UUIDs; instances of GPUs in MIG mode. A card's name mostly tells its memory.", ("list-mig.txt",)),
    Source("nvlink -s", "nvlink-status", "nvidia-smi nvlink --status", "nvlink-s.txt",
        "The rate of every NVLink, so that links that are slow or down show. Not where they lead."),
    Source("nvlink -R", "nvlink-status", "nvidia-smi nvlink --remotelinkinfo", "nvlink-r.txt",
        "Where every NVLink leads, by bus id; links that lead to no GPU of the text lead to a switch."),
    Source("dcgmi", "dcgmi-nvlink", "dcgmi nvlink -s", "dcgmi.txt", "How many NVLinks of each GPU are up."),
    Source("-q", "q-text", "nvidia-smi -q", "q.txt",
        "Everything about each GPU alone: nothing about links. Memory is FB memory, never BAR1.", ("q-fabric.txt",)),
    Source("-q -x", "q-xml", "nvidia-smi -q -x", "q.xml", "The same as XML. One that is cut or not well-formed is refused.",
        ("q-fabric.xml",)),
    Source("NCCL", "nccl-topo-xml", "NCCL_TOPO_DUMP_FILE=topo.xml …", "nccl.xml",
        "What NCCL saw: the PCIe tree, NVLinks, NICs and their speed. NCCL takes a NUMA node for a CPU, so `NODE` and `PHB` are "
        "one class: `PHB` is stated. A graph file (`NCCL_GRAPH_DUMP_FILE`) is refused. Cards are not named."),
    Source("lspci -vv", "lspci", "sudo lspci -vv", "lspci-vv.txt",
        "The PCIe truth: what slot and card can both do under load (an idle link reports less), switches, and whether ACS sends "
        "peer-to-peer traffic up to the root complex. Without root the capabilities are missing, and bus numbers tell the switches."),
    Source("lspci -tv", "lspci", "lspci -tv", "lspci-tv.txt", "The PCIe tree alone."),
    Source("ibstat", "nic-ports", "ibstat", "more/ibstat.txt",
        "What the ports of NICs carry, and which are down; `ibstatus` tells the same, `ibdev2netdev` the state. It names no GPU, so "
        "join it: devices go by their names, with `ibdev2netdev -v` by bus id. A NIC that is down serves no GPU."),
    Source("live", "nvml", "placement topology live", None,
        "This host, asked through NVML and sysfs. Whatever the driver does not tell stays unknown; a GPU that is lost is left "
        "out by name. ACS needs root: join `lspci -vv`."),
    Source("measure", "nvml", "placement measure", None,
        "What `live` tells, and how fast copies, all-reduces, matrix products and memory really are: see [measure.md](measure.md). "
        "It needs torch and free GPUs, takes about a minute, and writes a topology file."),
    Source("rocm-smi", "rocm-showtopo", "rocm-smi --showtopo", "rocm-smi.txt",
        "AMD: link types, weights, hops, NUMA nodes. `XGMI` joins GPUs like NVLink does. `--showmeminfo vram --showproductname "
        "--showbus --showuniqueid` beside it tell the rest. `amd-smi topology`, `amd-smi list` and `amd-smi static` are read, too.",
        ("rocm-memory.txt",)),
)  # fmt: skip

HEAD = """\
# Sources: what an engineer has at hand, and what it tells

Made by `python docs/make_sources.py` from the examples in [tests/data/sources](../tests/data/sources), which are read anew whenever the
tests run: four A100 in two NVLink-bridged pairs, told by every tool.

## The short of it

```bash
{ nvidia-smi topo -m; nvidia-smi topo -p2p r; nvidia-smi -q; sudo lspci -vv; } > node0.txt   # on the machine; any of them will do
{ rocm-smi --showtopo; rocm-smi --showproductname --showmeminfo vram --showbus; } > node0.txt # on one with AMD cards
placement topology node0.txt                                                                 # here
```

One text may hold several outputs, with prompts, logs or Markdown around them: all are read and merged. Several files of one machine are
joined with `+` (`topo.txt+gpus.csv`). GPUs are matched by UUID or PCI bus id where both sources have them, else by index. Two sources that
contradict each other are refused, and the message names both; of two different matrices in one text pick one with `#2` (`log.txt#2`).
Several hosts make a cluster with `placement collect`.

What is damaged is repaired where its structure tells how (glued or wrapped lines, lost tabs, prefixes of logs, escapes, lists of strings as
Ansible and JSON have them, tables that people typed), and every repair that could matter
is a warning. What was cut stays unknown: no link is ever guessed. What cannot be trusted is refused with the reason.

## Which source tells what

● in the example below; ○ with other flags, or on machines that have it ([more examples](../tests/data/sources/more)).

"""


def stated_by(source: Source) -> tuple[frozenset[str], frozenset[str]]:
    """Return the facts that the example of *source* states, and those that only other machines or flags show."""
    if source.example is None:
        return LIVE | ({"rates that were measured"} if source.name == "measure" else set()), frozenset()
    first = facts_in(EXAMPLES / source.example)
    return first, frozenset().union(*(facts_in(EXAMPLES / "more" / name) for name in source.more)) - first


def facts_in(path: Path) -> frozenset[str]:
    """Return the facts that the text in *path* states."""
    topology = read_bytes(path.read_bytes(), name=str(path))
    return frozenset(name for name, is_there in FACTS.items() if is_there(topology))


def page() -> str:
    """Return the page."""
    stated = {source.name: stated_by(source) for source in SOURCES}
    lines = [HEAD + "| | " + " | ".join(f"`{source.name}`" for source in SOURCES) + " |", "|---|" + ":-:|" * len(SOURCES)]
    for fact in FACTS:
        marks = ["●" if fact in first else "○" if fact in others else "" for first, others in stated.values()]
        lines.append("| " + " | ".join([fact, *marks]) + " |")
    for source in SOURCES:
        lines += ["", f"## `{source.command}`", "", f"Format `{source.format}`. {source.note}"]
        if source.example is not None:
            lines += ["", "```text", *_excerpt((EXAMPLES / source.example).read_text(encoding="utf-8")), "```"]
        first, others = stated[source.name]
        missing = [fact for fact in MATTERS if fact not in first | others]
        lines += ["", f"Of what planning uses it lacks: {', '.join(missing)}." if missing else "It tells all that planning uses."]
    return "\n".join(lines) + "\n"


def _excerpt(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.strip()]
    shown = [line if len(line) <= SHOWN_COLUMNS else line[:SHOWN_COLUMNS] + " …" for line in lines[:SHOWN_LINES]]
    return [*shown, "…"] if len(lines) > SHOWN_LINES else shown


if __name__ == "__main__":
    sys.exit(main(__doc__, __file__, lambda: {PAGE: page()}))
