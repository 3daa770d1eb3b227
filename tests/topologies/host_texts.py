"""What hosts print, as short as it can be, and texts of several."""

from __future__ import annotations

TOPO = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-3\nGPU1\tNV4\t X \t0-3\n"
LIST = "".join(f"GPU {k}: NVIDIA L4 (UUID: GPU-0000000{k}-77ac-ef63-88a5-b8c4d0c906dc)\n" for k in range(2))
COLUMNS = "index, name, memory.total [MiB]\n0, NVIDIA L4, 23034 MiB\n1, NVIDIA L4, 23034 MiB\n"
QUERY = "".join(
    f"GPU 00000000:{bus}:00.0\n    Product Name                          : NVIDIA L4\n    FB Memory Usage\n"
    "        Total                             : 23034 MiB\n"
    for bus in ("1B", "1C")
)
VERBOSE = "".join(
    f"{bus}:00.0 3D controller: NVIDIA Corporation GH100 [H100 PCIe] (rev a1)\n\tSubsystem: NVIDIA Corporation Device 1839\n"
    "\tControl: I/O- Mem+ BusMaster+\n\tStatus: Cap+\n\tCapabilities: [60] Express (v2) Endpoint, MSI 00\n"
    "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n\t\tLnkSta:\tSpeed 32GT/s, Width x16\n\n"
    for bus in ("05", "26")
)
HOSTS = ("node1", "node2")


def blocks(before: str, text: str = TOPO, hosts: tuple[str, ...] = HOSTS) -> str:
    return "".join(before.format(h=host) + text for host in hosts)
