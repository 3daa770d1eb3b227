"""
Whole outputs of `nvidia-smi -q` and `-q -x` as drivers of several years print them, with everything around the facts that are read.

What surrounds them uses the same words (`Total`, `Current`, `State`, `Name` …) in other senses, which must not be taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from topologies.model import Gpu
from topologies.parts import Fabric, Mig, MigInstance, Pcie, Process
from topologies.read import read_text


@dataclass(frozen=True)
class Driver:
    """What a driver prints: *version*, *cuda*, and which sections it has by then."""

    version: str
    cuda: str | None
    mig: bool
    reserved: bool
    fabric: bool
    device_max: bool
    capability: bool


DRIVERS = {
    "390": Driver("390.157", None, mig=False, reserved=False, fabric=False, device_max=False, capability=False),
    "418": Driver("418.226.00", "10.1", mig=False, reserved=False, fabric=False, device_max=False, capability=False),
    "470": Driver("470.256.02", "11.4", mig=True, reserved=False, fabric=False, device_max=False, capability=False),
    "535": Driver("535.216.01", "12.2", mig=True, reserved=True, fabric=True, device_max=True, capability=False),
    "570": Driver("570.124.06", "12.8", mig=True, reserved=True, fabric=True, device_max=True, capability=True),
}
CLUSTER = "853d98f9-f9c4-4a0e-8a13-33d598ee082f"
GPUS = 8
BUS = ("1B", "43", "52", "61", "9D", "C3", "D1", "DF")


def uuid(index: int) -> str:
    return f"GPU-{index:08x}-f9c4-4a0e-8a13-33d598ee08{index:02x}"


def truth(driver: Driver, index: int) -> Gpu:
    """Return GPU *index*: GPU 5 has MIG on, GPU 6 holds no process, GPU 7 has no fabric yet."""
    mig = Mig(index == 5, (MigInstance(memory_mib=40448), MigInstance(memory_mib=19968)) if index == 5 else ()) if driver.mig else None
    state = None if not driver.fabric else "in progress" if index == 7 else "completed"
    used = 0 if index == 6 else 70_000 + index
    return Gpu(
        index,
        name="NVIDIA H100 80GB HBM3",
        uuid=uuid(index),
        pci_bus_id=f"00000000:{BUS[index]}:00.0",
        memory_mib=81559,
        memory_used_mib=used,
        memory_reserved_mib=330 if driver.reserved else None,
        processes=() if index == 6 else (Process(4000 + index, "/usr/bin/python3", 60_000), Process(5000 + index, "ray::Worker", 10_000)),
        mig=mig,
        fabric=None if state is None else Fabric(None if index == 7 else CLUSTER, None if index == 7 else 32766, state),
        compute_capability="9.0" if driver.capability else None,
        pcie=Pcie(5, 16, 1, 16),
    )


def clocks(title: str, indent: int = 4) -> str:
    rates = {"Graphics": 345, "SM": 345, "Memory": 2619, "Video": 765}
    inner = "".join(f"{' ' * indent}    {name} : {mhz} MHz\n" for name, mhz in rates.items())
    return f"{' ' * indent}{title}\n{inner}"


def errors(driver: Driver) -> str:
    """Return ECC errors and what comes after them."""
    if driver.mig:
        counts = "".join(f"            {name} : 0\n" for name in ("SRAM Correctable", "SRAM Uncorrectable", "DRAM Correctable", "Total"))
        return (
            f"    ECC Mode\n        Current : Enabled\n        Pending : Enabled\n    ECC Errors\n        Volatile\n{counts}"
            f"        Aggregate\n{counts}    Retired Pages\n        Single Bit ECC : N/A\n"
            "        Pending Page Blacklist : N/A\n"
            "    Remapped Rows\n        Correctable Error : 0\n        Uncorrectable Error : 0\n        Pending : No\n"
            "        Bank Remap Availability Histogram\n            Max : 2560 bank(s)\n"
            "            High : 0 bank(s)\n            None : 0 bank(s)\n"
        )
    cells = "".join(f"                {name} : 0\n" for name in ("Device Memory", "Register File", "L1 Cache", "L2 Cache", "Total"))
    bits = f"            Single Bit\n{cells}            Double Bit\n{cells}"
    return (
        "    Ecc Mode\n        Current : Enabled\n        Pending : Enabled\n    ECC Errors\n"
        f"        Volatile\n{bits}        Aggregate\n{bits}"
        "    Retired Pages\n        Single Bit ECC : 0\n        Double Bit ECC : 0\n        Pending : No\n"
    )


def instances(index: int) -> str:
    """Return the MIG devices of GPU *index* as they are printed."""
    found = ""
    for number, mib in enumerate((40448, 19968) if index == 5 else ()):
        found += (
            f"    MIG Device\n        Index : {number}\n        GPU Instance ID : {number + 1}\n"
            "        Compute Instance ID : 0\n"
            "        Device Attributes\n            Shared\n                Multiprocessor count : 60\n"
            "                Copy Engine count : 4\n"
            "        ECC Errors\n            Volatile\n                SRAM Uncorrectable : 0\n"
            f"        FB Memory Usage\n            Total : {mib} MiB\n            Reserved : 0 MiB\n"
            "            Used : 37 MiB\n"
            f"            Free : {mib - 37} MiB\n        BAR1 Memory Usage\n"
            "            Total : 65535 MiB\n            Used : 0 MiB\n"
            "            Free : 65535 MiB\n"
        )
    return found


def gpu_text(driver: Driver, gpu: Gpu) -> str:
    """Return the block of *gpu*, the way *driver* prints it; columns are aligned by `whole`."""
    mode = "Enabled" if gpu.mig is not None and gpu.mig.enabled else "Disabled"
    total, used = gpu.memory_mib or 0, gpu.memory_used_mib or 0
    fabric = ""
    if gpu.fabric is not None:
        is_done = gpu.fabric.state == "completed"
        state, status = ("Completed", "Success") if is_done else ("In Progress", "N/A")
        clique, cluster = (gpu.fabric.clique_id, gpu.fabric.cluster_uuid) if is_done else ("N/A", "N/A")
        fabric = f"    Fabric\n        State : {state}\n        Status : {status}\n"
        fabric += f"        CliqueId : {clique}\n        ClusterUUID : {cluster}\n"
        fabric += "        Health\n            Bandwidth : N/A\n            Route Recovery in progress : N/A\n"
    processes = "    Processes : None\n" if not gpu.processes else "    Processes\n" + "".join(
        ("        GPU instance ID : N/A\n        Compute instance ID : N/A\n" if driver.mig else "")
        + f"        Process ID : {p.pid}\n            Type : C\n            Name : {p.name}\n"
        f"            Used GPU Memory : {p.memory_mib} MiB\n"
        for p in gpu.processes
    )  # fmt: skip
    return (
        f"GPU {gpu.pci_bus_id}\n    Product Name : {gpu.name}\n    Product Brand : NVIDIA\n"
        "    Product Architecture : Hopper\n"
        "    Display Mode : Enabled\n    Persistence Mode : Enabled\n"
        + (f"    MIG Mode\n        Current : {mode}\n        Pending : {mode}\n{instances(gpu.index)}" if driver.mig else "")
        + "    Accounting Mode : Disabled\n    Accounting Mode Buffer Size : 4000\n    Driver Model\n"
        "        Current : N/A\n        Pending : N/A\n"
        f"    Serial Number : 1650123000000\n    GPU UUID : {gpu.uuid}\n    Minor Number : {gpu.index}\n"
        "    VBIOS Version : 96.00.74.00.01\n"
        "    MultiGPU Board : No\n    Board ID : 0x1b00\n    Inforom Version\n"
        "        Image Version : G520.0200.00.05\n        ECC Object : 7.16\n"
        + (f"    Compute Capability : {gpu.compute_capability}\n" if driver.capability else "")
        + "    GPU Operation Mode\n        Current : N/A\n        Pending : N/A\n"
        "    GPU Virtualization Mode\n        Virtualization Mode : None\n"
        "        Host VGPU Mode : N/A\n    IBMNPU\n        Relaxed Ordering Mode : N/A\n    PCI\n"
        f"        Bus : 0x{BUS[gpu.index]}\n        Device : 0x00\n"
        f"        Domain : 0x0000\n        Device Id : 0x233010DE\n        Bus Id : {gpu.pci_bus_id}\n"
        "        Sub System Id : 0x16C110DE\n"
        "        GPU Link Info\n            PCIe Generation\n                Max : 5\n                Current : 1\n"
        + ("                Device Current : 1\n                Device Max : 5\n"
            "                Host Max : 5\n" if driver.device_max else "")
        + "            Link Width\n                Max : 16x\n                Current : 16x\n"
        "        Bridge Chip\n            Type : N/A\n"
        "            Firmware : N/A\n        Replays Since Reset : 0\n        Tx Throughput : 0 KB/s\n"
        "        Rx Throughput : 0 KB/s\n"
        "    Fan Speed : N/A\n    Performance State : P0\n    Clocks Throttle Reasons\n"
        "        Idle : Active\n        SW Power Cap : Not Active\n"
        f"    FB Memory Usage\n        Total : {total} MiB\n"
        + (f"        Reserved : {gpu.memory_reserved_mib} MiB\n" if driver.reserved else "")
        + f"        Used : {used} MiB\n        Free : {total - used} MiB\n    BAR1 Memory Usage\n"
        "        Total : 131072 MiB\n        Used : 1 MiB\n"
        "        Free : 131071 MiB\n"
        + ("    Conf Compute Protected Memory Usage\n        Total : 0 MiB\n        Used : 0 MiB\n"
            "        Free : 0 MiB\n" if driver.device_max else "")
        + "    Compute Mode : Default\n    Utilization\n        Gpu : 0 %\n        Memory : 0 %\n"
        "        Encoder : 0 %\n    Encoder Stats\n"
        f"        Active Sessions : 0\n        Average FPS : 0\n    FBC Stats\n        Active Sessions : 0\n{errors(driver)}"
        "    Temperature\n        GPU Current Temp : 28 C\n        GPU Shutdown Temp : N/A\n"
        "        Memory Current Temp : 40 C\n"
        "    Power Readings\n        Power Management : Supported\n        Power Draw : 68.45 W\n"
        "        Power Limit : 700.00 W\n"
        "        Max Power Limit : 700.00 W\n"
        + clocks("Clocks") + clocks("Applications Clocks") + clocks("Max Clocks") + clocks("Max Customer Boost Clocks")
        + "    Clock Policy\n        Auto Boost : N/A\n    Voltage\n        Graphics : 670.000 mV\n"
        + fabric + processes
        + ("    Capabilities\n        EGM : disabled\n" if driver.capability else "") + "\n"
    )  # fmt: skip


def whole(driver: Driver) -> str:
    """Return the output of *driver* for the machine, in columns."""
    cuda = f"CUDA Version : {driver.cuda}\n" if driver.cuda else ""
    text = f"Timestamp : Tue Jan  2 03:04:05 2024\nDriver Version : {driver.version}\n{cuda}\nAttached GPUs : {GPUS}\n"
    text += "".join(gpu_text(driver, truth(driver, index)) for index in range(GPUS))
    aligned = re.sub(r"(?m)^( *[A-Z][^:\n]*?) : ", lambda match: match[1].ljust(50) + ": ", text)
    return "\n==============NVSMI LOG==============\n\n" + aligned


@pytest.mark.parametrize("name", DRIVERS)
def test_every_field_of_eight_gpus_is_read_whatever_the_driver(name: str) -> None:
    driver = DRIVERS[name]
    topology = read_text(whole(driver))
    assert topology.gpus == tuple(truth(driver, index) for index in range(GPUS))
    assert topology.warnings == ()
    stated = topology.stated
    assert (stated["attached_gpus"], stated["driver"], stated.get("cuda")) == (GPUS, driver.version, driver.cuda)
    assert stated["names"] == ["NVIDIA H100 80GB HBM3"]
    assert stated["bar1_mib"] == {str(k): {"total": 131072, "used": 1, "free": 131071} for k in range(GPUS)}
    assert stated["pcie"] == {str(k): {"gen": 5, "width": 16} for k in range(GPUS)}
    assert stated.get("mig_devices_seen") == ({"00000000:C3:00.0": [0, 1]} if driver.mig else None)


@pytest.mark.parametrize("columns", [2, 4, 8])
@pytest.mark.parametrize("moved", [(1,), (5,), (4, 5), (2, 6)], ids=str)
def test_blocks_pasted_further_in_keep_the_memory_of_their_gpu(moved: tuple[int, ...], columns: int) -> None:
    """That of instances, which GPU 5 has, stands under the same titles further in."""
    driver = DRIVERS["535"]
    head, *blocks = re.split(r"(?m)^(?=GPU 0)", whole(driver))
    further = [re.sub(r"(?m)^(?=.)", " " * columns * (index in moved), block) for index, block in enumerate(blocks)]
    topology = read_text(head + "".join(further))
    assert topology.gpus == tuple(truth(driver, index) for index in range(GPUS))
    assert topology.warnings == ()


def test_the_xml_of_the_same_machine_says_the_same() -> None:
    """Titles and keys of the text, in the spelling of the XML, about 2,000 lines."""
    driver = DRIVERS["570"]
    xml = whole_xml(driver)
    assert xml.count("\n") > 1500
    text, found = read_text(whole(driver)), read_text(xml)
    assert found.gpus == text.gpus
    assert found.stated == text.stated
    assert found.warnings == ()


def leaf(depth: int, **values: object) -> str:
    return "".join("\t" * depth + f"<{tag}>{value}</{tag}>\n" for tag, value in values.items())


def branch(depth: int, tag: str, inner: str) -> str:
    return "\t" * depth + f"<{tag}>\n{inner}" + "\t" * depth + f"</{tag}>\n"


def memory(depth: int, tag: str, total: int, used: int, reserved: int | None) -> str:
    parts = {"total": f"{total} MiB"} | ({} if reserved is None else {"reserved": f"{reserved} MiB"})
    return branch(depth, tag, leaf(depth + 1, **parts, used=f"{used} MiB", free=f"{total - used} MiB"))


def gpu_xml(gpu: Gpu) -> str:
    """Return the element of *gpu* with what surrounds its facts."""
    mode = "Enabled" if gpu.mig is not None and gpu.mig.enabled else "Disabled"
    devices = "".join(
        branch(3, "mig_device", leaf(4, index=k, gpu_instance_id=k + 1, compute_instance_id=0)
            + branch(4, "ecc_error_count", branch(5, "volatile_count", leaf(6, sram_uncorrectable=0)))
            + memory(4, "fb_memory_usage", instance.memory_mib or 0, 37, 0) + memory(4, "bar1_memory_usage", 65535, 0, None))
        for k, instance in enumerate(gpu.mig.instances if gpu.mig else ())
    )  # fmt: skip
    is_done = gpu.fabric is not None and gpu.fabric.state == "completed"
    fabric = leaf(
        3, state="Completed" if is_done else "In Progress", status="Success" if is_done else "N/A",
        cliqueId=gpu.fabric.clique_id if is_done and gpu.fabric else "N/A", clusterUuid=CLUSTER if is_done else "N/A",
    )  # fmt: skip
    processes = "".join(
        branch(3, "process_info", leaf(4, gpu_instance_id="N/A", compute_instance_id="N/A", pid=p.pid, type="C", process_name=p.name,
            used_memory=f"{p.memory_mib} MiB"))
        for p in gpu.processes or ()
    )  # fmt: skip
    counts = branch(3, "volatile", leaf(4, sram_correctable=0, total=0)) + branch(3, "aggregate", leaf(4, dram_correctable=0, total=0))
    clocks = "".join(leaf(4, supported_graphics_clock=f"{1980 - 15 * k} MHz") for k in range(110))
    gens = leaf(5, max_link_gen=5, current_link_gen=1, device_current_link_gen=1, max_device_link_gen=5, max_host_link_gen=5)
    link = branch(4, "pcie_gen", gens)
    link += branch(4, "link_widths", leaf(5, max_link_width="16x", current_link_width="16x"))
    inner = leaf(2, product_name=gpu.name, product_brand="NVIDIA", product_architecture="Hopper")
    inner += branch(2, "mig_mode", leaf(3, current_mig=mode, pending_mig=mode)) + branch(2, "mig_devices", devices or "\t\t\tNone\n")
    inner += leaf(2, serial=1650123000000, uuid=gpu.uuid, minor_number=gpu.index, compute_capability=gpu.compute_capability)
    inner += branch(2, "pci", leaf(3, pci_bus=BUS[gpu.index], pci_bus_id=gpu.pci_bus_id) + branch(3, "pci_gpu_link_info", link))
    inner += memory(2, "fb_memory_usage", gpu.memory_mib or 0, gpu.memory_used_mib or 0, gpu.memory_reserved_mib)
    inner += memory(2, "bar1_memory_usage", 131072, 1, None) + memory(2, "cc_protected_memory_usage", 0, 0, None)
    inner += branch(2, "ecc_mode", leaf(3, current_ecc="Enabled", pending_ecc="Enabled")) + branch(2, "ecc_errors", counts)
    histogram = branch(3, "row_remapper_histogram", leaf(4, row_remapper_histogram_max=2560))
    inner += branch(2, "remapped_rows", leaf(3, remapped_row_corr=0) + histogram)
    inner += branch(2, "supported_clocks", branch(3, "supported_mem_clock", leaf(4, value="2619 MHz") + clocks))
    inner += branch(2, "fabric", fabric + branch(3, "health", leaf(4, bandwidth="N/A"))) + branch(2, "processes", processes)
    return f'\t<gpu id="{gpu.pci_bus_id}">\n{inner}\t</gpu>\n'


def whole_xml(driver: Driver) -> str:
    head = leaf(1, timestamp="Tue Jan  2 03:04:05 2024", driver_version=driver.version, cuda_version=driver.cuda, attached_gpus=GPUS)
    gpus = "".join(gpu_xml(truth(driver, index)) for index in range(GPUS))
    declaration = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n'
    return f"{declaration}<nvidia_smi_log>\n{head}\n{gpus}</nvidia_smi_log>\n"
