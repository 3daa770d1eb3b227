"""
Fuzz the readers of machines, guided by coverage.

    pip install atheris==3.0.0
    python tests/topologies/fuzz/readers.py -max_total_time=3600 CORPUS_FOLDER

The folder gets what covers something new; it begins with all collected texts when it is empty. An input that breaks a property
(see `reading_properties`), takes ten seconds, or takes the process beyond 260 MB (it has 60 before) stops the run and is written to
``crash-*``: put it into ``seeds.zip`` here, mend what it shows, and every run of the tests tries it again.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parent.parent))

with atheris.instrument_imports(include=["topologies"]):
    import reading_properties

WORDS = (
    "GPU0", "GPU1", "NIC0", "mlx5_0", "NV12", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC", " X ", "N/A", "OK", "CNS", "GNS", "\t",
    "CPU Affinity", "NUMA Affinity", "GPU NUMA ID", "Legend:", "nvidia-smi topo -m", "topo -p2p r", "index, name, memory.total [MiB]",
    "GPU 0: NVIDIA H100 (UUID: GPU-", "Link 0: 26.562 GB/s", "<inactive>", "MIG 1g.10gb Device 0: (UUID: MIG-", "gpuId 0:",
    "U U U D X _", "NvSwitches:", "<system version=", "<cpu numaid=", "<pci busid=", "<gpu dev=", "<nvlink target=", "</pci>",
    "<graphs version=", "<nvidia_smi_log>", "</nvidia_smi_log>", "<gpu id=", "<!DOCTYPE", "<!ENTITY", "Attached GPUs", "FB Memory Usage",
    "BAR1 Memory Usage", "MiB", "Bus Id", "==NVSMI LOG==", "Link Type between two GPUs", "Weight between two GPUs", "Hops between two GPUs",
    "XGMI", "PCIE", "Numa Node: 0", "3D controller: NVIDIA Corporation", "LnkCap:", "LnkSta: Speed 2.5GT/s (downgraded), Width x8",
    "ACSCtl: SrcValid+ ReqRedir+ CmpltRedir+", "NUMA node: 1", "-[0000:3a]-+-00.0", "-+-[0000:00]", "schema: placement/topology/v1",
    "BlockName=b0 Nodes=node[4-7]", "Switches=leaf[0-1]", "switches:", "network:", "rails: 8", "gb_per_s: 50", "domains:", "within:",
    "topology/tree:", "---------------", "node1 | CHANGED | rc=0 >>", "==> node2/topo.txt <==", "PCI bridge:", "Express (v2) Root Port",
    "IOMMU group: 3", "NVIDIA-SMI 550.90.07", "|   0  NVIDIA A100", "81920MiB", "C2C Link 0:", "Remote Device", "ACCESS TABLE:",
    "Failed to run topology matrix", "affinity with CPU 3: 4", "SwitchName=leaf0 Nodes=node[0-3]", "node0: ", "00000000:07:00.0",
)  # fmt: skip


def one_input(data: bytes) -> None:
    """Try *data* with every reader."""
    reading_properties.holds(data)
    reading_properties.holds_for_hosts(data)
    reading_properties.holds_for_networks(data)


def _escaped(word: str) -> str:
    return "".join(f"\\x{byte:02X}" for byte in word.encode())


def main() -> None:
    """Fill an empty corpus with the collected texts, and run."""
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    if not arguments:
        sys.exit("name a folder for the corpus")
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    if not any(folder.iterdir()):
        for number, text in enumerate([*reading_properties.seeds(), *reading_properties.found()]):
            (folder / f"seed-{number:03}").write_bytes(text)
    words = folder.parent / f"{folder.name}.dict"
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in WORDS), encoding="utf-8")
    bounds = [f"-dict={words}", "-timeout=10", "-rss_limit_mb=260", "-max_len=16384", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *bounds, *sys.argv[1:]], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
