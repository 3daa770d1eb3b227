"""``lspci``: where GPUs and NICs hang, and what their links give, against made-up hosts whose truth is known."""

from __future__ import annotations

import re
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pcie_machines import GPUS, Device, Host, code, hosts, lspci, lspci_tree, matrix
from reading_properties import MOST_CPU_S

from topologies.documents.document import to_document
from topologies.documents.document_read import from_document
from topologies.domains import Level, domains
from topologies.errors import TopologyError
from topologies.model import Topology
from topologies.parts import BridgeKind, Pcie
from topologies.read import read_text

LEVELS = (Level.SWITCH, Level.ROOT_COMPLEX, Level.NUMA, Level.HOST)


def gpus_of(host: Host) -> list[Device]:
    return sorted(host.all("gpu"), key=lambda d: d.bus_id)


def bridges_of(device: Device) -> tuple[str, ...]:
    return tuple(d.bus_id for d in device.ways_up[1:])


def ports(topology: Topology) -> list[tuple[str | None, Pcie | None]]:
    return [(gpu.pci_bus_id, gpu.pcie) for gpu in topology.gpus]


def places(topology: Topology) -> list[tuple[str | None, tuple[str, ...], str | None]]:
    return [(g.pci_bus_id, g.pcie.path, g.pcie.root) for g in topology.gpus if g.pcie is not None]


@settings(max_examples=40)
@given(hosts(), st.booleans(), st.booleans())
def test_blocks_give_place_link_and_numa_node_of_every_gpu(host, nn, with_domains):
    found = read_text(lspci(host, nn=nn, domains=with_domains))
    assert (found.format, found.links) == ("lspci", {})
    assert len(found.gpus) == len(gpus_of(host))
    for gpu, device in zip(found.gpus, gpus_of(host), strict=True):
        link = device.link
        assert gpu.pcie == Pcie(
            gen=min(link.port[0], link.device[0]),
            width=link.lanes,
            current_gen=link.idle_gen,
            current_width=link.lanes,
            path=bridges_of(device),
            root=f"pci0000:{device.ways_up[0].bus:02x}",
        )
        assert (gpu.pci_bus_id, gpu.numa, gpu.name) == (device.bus_id, str(device.numa), device.name)
    slow = [d.bus_id for d in gpus_of(host) if d.link.lanes < min(d.link.port[1], d.link.device[1])]
    assert [re.search(r"\((.*?)\)", warning)[1] for warning in found.warnings] == slow


@settings(max_examples=40)
@given(hosts())
def test_the_tree_gives_the_same_places_and_adds_nothing_to_the_blocks(host):
    tree, blocks = read_text(lspci_tree(host)), read_text(lspci(host))
    assert places(tree) == places(blocks)
    assert tree.warnings == ()
    for both in (lspci_tree(host) + lspci(host), lspci(host) + "$ lspci -tv\n" + lspci_tree(host)):
        assert read_text(both) == blocks
    plain = read_text(lspci_tree(host, names=False) + lspci(host, verbose=False))
    assert places(plain) == places(blocks)


@settings(max_examples=40)
@given(hosts())
def test_matrix_tree_and_blocks_agree_about_domains_and_nics(host):
    printed, read = read_text(matrix(host)), read_text(lspci(host))
    for level in LEVELS:
        assert domains(printed, level) == domains(read, level), level
    if len(host.roots) == 1:
        for level in (Level.SWITCH, Level.ROOT_COMPLEX):
            assert domains(read_text(lspci_tree(host)), level) == domains(printed, level)
    nics = sorted(host.all("nic"), key=lambda d: d.bus_id)
    for index, gpu in enumerate(gpus_of(host)):
        assert dict(read.gpu_nic.get(index, {})) == {nic.bus_id: code(gpu, nic) for nic in nics}
    # Joined, they say the same, and nobody is contradicted.
    joined = read_text(matrix(host) + "\n" + lspci(host))
    assert joined.links == printed.links
    assert ports(joined) == ports(read)
    assert joined.warnings == read.warnings
    assert joined.format == "topo-m" if printed.links else True


@settings(max_examples=40)
@given(hosts())
def test_bridges_are_kept_with_kind_link_and_acs(host):
    found = read_text(lspci(host))
    bridges = found.host_facts[None].bridges
    known = {d.bus_id: d for kind in ("root port", "upstream", "downstream") for d in host.all(kind)}
    wanted = {bus_id for d in (*host.all("gpu"), *host.all("nic")) for bus_id in bridges_of(d)}
    assert set(bridges) == wanted
    kinds = {"root port": BridgeKind.ROOT_PORT, "upstream": BridgeKind.UPSTREAM, "downstream": BridgeKind.DOWNSTREAM}
    for bus_id, bridge in bridges.items():
        device = known[bus_id]
        assert bridge.kind is kinds[device.kind]
        if device.kind == "upstream":
            assert (bridge.gen, bridge.width, bridge.acs_redirect) == (None, None, None)
        else:
            link = device.below[0].link
            assert (bridge.gen, bridge.width) == (min(link.port[0], link.device[0]), link.lanes)
            assert bridge.acs_redirect is device.acs


@settings(max_examples=40)
@given(hosts(), st.sampled_from(["Intel Corporation Device 347a", "Advanced Micro Devices, Inc. [AMD] Starship/Matisse GPP Bridge"]))
def test_bus_numbers_alone_give_the_tree_to_a_user_without_rights(host, port):
    """Nothing says what a bridge is, and the list begins with it: bridges of a maker of processors hang from the root complex."""
    denied = lspci(host, root=False).replace("Intel Corporation Sky Lake-E PCI Express Root Port A", port)
    blocks = [block for block in denied.split("\n\n") if "Host bridge" not in block and "Non-Volatile" not in block]
    found, whole = read_text("\n\n".join(blocks)), read_text(lspci(host))
    assert places(found) == places(whole)
    assert found.gpu_nic == whole.gpu_nic
    joined = read_text(matrix(host) + "\n" + "\n\n".join(blocks))
    assert joined.nics == read_text(matrix(host) + "\n" + lspci(host)).nics


@settings(max_examples=40)
@given(hosts())
def test_where_the_ports_of_the_processor_are_not_shown_nothing_is_placed(host):
    """A bridge of a switch stands at the top of the list: what is above it was left out."""
    denied = lspci(host, root=False)
    blocks = [block for block in denied.split("\n\n") if "Host bridge" not in block and "Root Port" not in block]
    found = read_text("\n\n".join(blocks))
    assert all(gpu.pcie is None or gpu.pcie.root is None for gpu in found.gpus)
    assert found.gpu_nic == {}


@settings(max_examples=40)
@given(hosts())
def test_a_document_keeps_everything(host):
    found = read_text(lspci(host))
    assert from_document(to_document(found)) == found


DAMAGES: dict[str, Callable[[str], str]] = {
    "tabs lost": lambda text: text.replace("\t", ""),
    "tabs as blanks": lambda text: text.expandtabs(4),
    "indented": lambda text: re.sub("^", "    ", text, flags=re.MULTILINE),
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "no-break spaces": lambda text: text.replace(" ", "\u00a0"),
    "colours": lambda text: re.sub(r"^(\S+)", "\x1b[1m\\1\x1b[0m", text, flags=re.MULTILINE),
    "mail": lambda text: re.sub("^", "> ", text, flags=re.MULTILINE),
    "srun -l": lambda text: re.sub("^", "0: ", text, flags=re.MULTILINE),
    "docker compose": lambda text: re.sub("^", "gpu-node-1  | ", text, flags=re.MULTILINE),
    "times": lambda text: "".join(
        f"2026-03-0{k % 9 + 1}T10:{k % 60:02d}:00.{k % 1000:03d}Z {line}\n" for k, line in enumerate(text.splitlines())
    ),
    "fence": lambda text: f"Our machine:\n\n```\n{text}```\nThanks!\n",
    "prompt": lambda text: f"root@node:~# lspci\n{text}root@node:~# \n",
    "wrapped": lambda text: re.sub(r"^(.{70}[^\n]*?) (?=[^\n])", "\\1\n", text, flags=re.MULTILINE),
}


PREFIXES = {"mail": "'>'", "srun -l": "'0:'", "docker compose": "'gpu-node-1  |'", "times": "'2026-03-0"}


def prefixes(topology: Topology) -> list[str]:
    """Return how the prefixes that *topology* says were stripped begin, shortened to that of `PREFIXES`."""
    said = [re.search(r"^the lines had a prefix, which was stripped: ('[^']*')", warning) for warning in topology.warnings]
    return ["'2026-03-0" if match[1].startswith("'2026-03-0") else match[1] for match in said if match]


@pytest.mark.parametrize("name", DAMAGES)
@settings(max_examples=15)
@given(host=hosts())
def test_damage_that_loses_nothing_changes_nothing(name, host):
    whole = read_text(lspci(host))
    found = read_text(DAMAGES[name](lspci(host)))
    assert ports(found) == ports(whole)
    assert prefixes(found) == ([] if name not in PREFIXES else [PREFIXES[name]])


@pytest.mark.parametrize("name", sorted(DAMAGES.keys() - {"tabs lost", "wrapped"}))
@settings(max_examples=15)
@given(host=hosts())
def test_a_damaged_tree_is_the_tree(name, host):
    found = read_text(DAMAGES[name](lspci_tree(host)))
    assert places(found) == places(read_text(lspci_tree(host)))
    assert len(found.warnings) == len(prefixes(found)) == (name in PREFIXES)


@pytest.mark.parametrize("mark", ["[1,0]<stdout>:", "[1,0]<stdout>: ", "node1:", "node1: ", "gpu.log:"])
@settings(max_examples=8)
@given(host=hosts())
def test_the_blanks_of_a_tree_are_not_those_of_a_prefix(mark, host):
    """Launchers put a blank behind their mark, or none; a row of a tree may begin with one."""
    found = read_text("".join(f"{mark}{line}\n" for line in lspci_tree(host).splitlines()))
    assert places(found) == places(read_text(lspci_tree(host)))
    assert len(found.warnings) == 1


@settings(max_examples=40)
@given(hosts(), st.sampled_from([40, 60, 80, 100]))
def test_a_tree_wrapped_by_a_terminal_is_never_read_wrongly(host, width):
    text = "".join(re.sub(rf"(.{{{width}}})(?=.)", "\\1\n", line) + "\n" for line in lspci_tree(host).splitlines())
    _never_wrong(host, text)


@settings(max_examples=40)
@given(hosts(), st.randoms())
def test_a_tree_without_its_columns_or_rows_is_never_read_wrongly(host, random):
    """Lost blanks, lost rows: a place is the true one, or unknown with a warning."""
    lines = lspci_tree(host).splitlines()
    collapsed = [re.sub(" +", " ", line) for line in lines]
    stripped = [line.strip() for line in lines]
    for damaged in (collapsed, stripped, [line if random.random() < 0.7 else line.lstrip() for line in lines]):
        _never_wrong(host, "\n".join(damaged) + "\n")


@settings(max_examples=40)
@given(hosts(), st.data())
def test_a_bus_whose_number_cannot_be_read_gives_no_device_another_bus_id(host, data):
    text = lspci_tree(host)
    spot = data.draw(st.sampled_from(list(re.finditer(r"\[(?:0000:)?[0-9a-f]{2}(-[0-9a-f]{2})?\]", text))))
    _never_wrong(host, text[: spot.start()] + data.draw(st.sampled_from(["[zz]", "[b]", "[]", "[b1x-zz]"])) + text[spot.end() :])


def test_a_gpu_on_a_bus_whose_number_cannot_be_read_is_there():
    tree = """-[0000:ae]---00.0-[af-b3]----00.0-[b0-b3]--+-04.0-[zz]----00.0  NVIDIA Corporation GA100 [A100 PCIe 80GB]
                                           +-08.0-[b2]----00.0  NVIDIA Corporation GA100 [A100 PCIe 80GB]
                                           \\-0c.0-[b]----00.0  Mellanox Technologies MT28908 Family [ConnectX-6]
"""
    found = read_text(tree)
    assert [gpu.pci_bus_id for gpu in found.gpus] == [None, "0000:b2:00.0"]
    assert found.gpus[0].name == found.gpus[1].name
    paths = [gpu.pcie.path for gpu in found.gpus]
    assert paths == [("0000:ae:00.0", "0000:af:00.0", "0000:b0:04.0"), ("0000:ae:00.0", "0000:af:00.0", "0000:b0:08.0")]
    assert [nic.pci_bus_id for nic in found.nic_details.values()] == [None]
    assert found.gpu_nic == {0: {"NIC below 0000:b0:0c.0": "PIX"}, 1: {"NIC below 0000:b0:0c.0": "PIX"}}
    start = "the number of a bus in the tree of lspci cannot be read"
    assert [warning for warning in found.warnings if warning.startswith(start)] == [
        f"{start} ({place}): the bus ids of what is on it are unknown" for place in ("[zz] below 0000:b0:04.0", "[b] below 0000:b0:0c.0")
    ]


def _never_wrong(host: Host, text: str) -> None:
    truth = {d.bus_id: (bridges_of(d), f"pci0000:{d.ways_up[0].bus:02x}") for d in gpus_of(host)}
    try:
        found = read_text(text)
    except TopologyError:
        return
    unknown = [bus_id for bus_id, path, root in places(found) if root is None]
    assert all(gpu.pci_bus_id for gpu in found.gpus) or found.warnings
    for bus_id, path, root in places(found):
        assert bus_id in truth or bus_id is None
        assert root is None or bus_id is None or (path, root) == truth[bus_id]
    assert not unknown or found.warnings
    assert len(found.gpus) == len(truth) or found.warnings


@settings(max_examples=40)
@given(hosts(), st.data())
def test_a_cut_text_gives_true_facts_or_none(host, data):
    text = lspci(host)
    found = None
    try:
        found = read_text(text[: data.draw(st.integers(1, len(text)))])
    except TopologyError:
        return
    whole = {gpu.pci_bus_id: gpu.pcie for gpu in read_text(text).gpus}
    for gpu in found.gpus:
        true = whole[gpu.pci_bus_id]
        assert gpu.pcie.path in ((), true.path)
        for fact in ("root", "gen", "width", "current_gen", "current_width"):
            assert getattr(gpu.pcie, fact) in (None, getattr(true, fact)), fact


@settings(max_examples=40)
@given(hosts())
def test_two_hosts_at_once_are_read_one_by_one(host):
    """`srun -l` mixes the lines of its tasks."""
    lines = lspci(host).splitlines()
    text = "".join(f"0: {line}\n1: {line}\n" for line in lines)
    assert ports(read_text(text)) == ports(read_text(lspci(host)))


def test_a_user_without_rights_is_told_how_to_get_them():
    """Without root, -vv shows bridges and no capabilities."""
    denied = re.sub(r"\tCapabilities: .*\n(\t\t.*\n)*", "\tCapabilities: <access denied>\n", SMALL)
    found = read_text(denied)
    (warning,) = found.warnings
    assert warning == (
        "lspci may not read the PCIe capabilities of GPU0, GPU1, so that speed, width and ACS are unknown: "
        "run it as root (`sudo lspci -vv`)"
    )
    assert [(gpu.pcie.gen, gpu.pcie.width, gpu.pcie.path) for gpu in found.gpus] == [
        (None, None, ("0000:17:00.0",)),
        (None, None, ("0000:17:02.0",)),
    ]


SMALL = """\
00:00.0 Host bridge: Intel Corporation Sky Lake-E DMI3 Registers (rev 07)
\tNUMA node: 0

17:00.0 PCI bridge: Intel Corporation Sky Lake-E PCI Express Root Port A (rev 07) (prog-if 00 [Normal decode])
\tBus: primary=17, secondary=18, subordinate=18, sec-latency=0
\tCapabilities: [90] Express (v2) Root Port (Slot+), MSI 00
\t\tLnkCap:\tPort #5, Speed 8GT/s, Width x16, ASPM L1, Exit Latency L1 <16us
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x16 (ok)

17:02.0 PCI bridge: Intel Corporation Sky Lake-E PCI Express Root Port C (rev 07) (prog-if 00 [Normal decode])
\tBus: primary=17, secondary=19, subordinate=19, sec-latency=0
\tCapabilities: [90] Express (v2) Root Port (Slot+), MSI 00
\t\tLnkCap:\tPort #9, Speed 8GT/s, Width x8, ASPM L1, Exit Latency L1 <16us
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x4 (downgraded)

18:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 40GB] (rev a1)
\tNUMA node: 0
\tCapabilities: [60] Express (v2) Endpoint, MSI 00
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x16 (ok)

19:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 40GB] (rev a1)
\tNUMA node: 0
\tCapabilities: [60] Express (v2) Endpoint, MSI 00
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x4 (downgraded)
"""


def test_an_idle_speed_is_no_speed_and_lost_lanes_are_lost():
    found = read_text(SMALL)
    assert [(gpu.pcie.gen, gpu.pcie.width, gpu.pcie.current_gen) for gpu in found.gpus] == [(3, 16, 1), (3, 4, 1)]
    assert found.warnings == (
        "GPU 1 (0000:19:00.0) runs on 4 of the 8 PCIe lanes that it and its slot have: reseat the card or its riser",
    )


def test_what_stands_behind_the_width_may_be_taken_off() -> None:
    """As `cut -d, -f1-3` does: lines of different lengths are not cut at a column."""
    text = (Path(__file__).parent.parent / "data" / "sources" / "lspci-vv.txt").read_text("utf-8")
    short = re.sub(r"(?m)(LnkCap:.*Width x[0-9]+),.*$", r"\1", text)
    assert short != text
    assert [gpu.pcie for gpu in read_text(short).gpus] == [gpu.pcie for gpu in read_text(text).gpus]


def test_one_gpu_alone_has_lanes_but_no_slot():
    """`lspci -vv -s 18:00.0`: what the slot can do is not there, so neither is the speed under load, nor the place."""
    block = SMALL.split("\n\n")[3] + "\n"
    assert read_text(block).gpus[0].pcie == Pcie(width=16, current_gen=1, current_width=16)
    busy = block.replace("Speed 2.5GT/s (downgraded)", "Speed 16GT/s (ok)")
    assert read_text(busy).gpus[0].pcie == Pcie(gen=4, width=16, current_gen=4, current_width=16)


def test_the_port_of_a_hypervisor_says_nothing_about_the_slot():
    """QEMU's ports claim one lane of the first generation."""
    text = SMALL.replace("Intel Corporation Sky Lake-E PCI Express Root Port A", "Red Hat, Inc. QEMU PCIe Root port")
    text = text.replace("Port #5, Speed 8GT/s, Width x16", "Port #5, Speed 2.5GT/s, Width x1")
    assert read_text(text).gpus[0].pcie == Pcie(None, 16, 1, 16, ("0000:17:00.0",), "pci0000:17")


def test_a_gpu_that_fell_off_the_bus_and_one_of_a_virtual_machine_are_named():
    text = SMALL.replace("19:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 40GB] (rev a1)\n\tNUMA node: 0",
                         "19:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 40GB] (rev ff)\n\t!!! Unknown header type 7f")
    text = text.replace("NUMA node: 0\n\tCapabilities: [60]", "NUMA node: 0\n\tKernel driver in use: vfio-pci\n\tCapabilities: [60]", 1)
    warnings = read_text(text).warnings
    assert "GPU 1 (0000:19:00.0) does not answer on the bus (it reads ff): it is lost until a reset" in warnings
    assert "GPU 0 (0000:18:00.0) is held by vfio-pci, that is by a virtual machine" in warnings


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("18:00.0 3D controller: NVIDIA Corporation GA100 [A100 SXM4 80GB] (rev a1)", "A100 SXM4 80GB"),
        ("18:00.0 3D controller [0302]: NVIDIA Corporation TU104GL [Tesla T4] [10de:1eb8] (rev a1)", "Tesla T4"),
        ("01:00.0 VGA compatible controller: NVIDIA Corporation AD102 [GeForce RTX 4090] (rev a1) (prog-if 00 [VGA controller])",
         "GeForce RTX 4090"),
        ("c1:00.0 Processing accelerators: Advanced Micro Devices, Inc. [AMD/ATI] Aqua Vanjaram [Instinct MI300X]", "Instinct MI300X"),
        ("18:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)", "H100 SXM5 80GB"),
        ("86:00.0 3D controller: NVIDIA Corporation GA102GL [A10] (rev a1)", "A10"),
        ("0000:86:00.0 3D controller [0302]: NVIDIA Corporation GA102GL [A10G] [10de:2237] (rev a1)", "A10G"),
        ("18:00.0 3D controller: NVIDIA Corporation Device 2901 (rev a1)", None),
        ("18:00.0 3D controller: NVIDIA Corporation GH100 [Some Board That Nobody Knows] (rev a1)", None),
        ("18:00.0 0302: 10de:20b2 (rev a1)", None),
        ("18:00.0 Class 0302: Device 10de:20b2 (rev a1)", None),
        ("c1:00.0 Display controller: Advanced Micro Devices, Inc. [AMD/ATI] Aldebaran/MI200 [Instinct MI210] (rev 02)", None),
        ("c1:00.0 Processing accelerators [1200]: Advanced Micro Devices, Inc. [AMD/ATI] Device [1002:74a1]", None),
    ],
)  # fmt: skip
def test_a_name_is_taken_where_the_catalogue_knows_it(line, name):
    assert [gpu.name for gpu in read_text(line + "\n").gpus] == [name]


@settings(max_examples=20)
@given(hosts())
def test_a_mere_list_of_devices_names_gpus_and_says_what_it_does_not_tell(host):
    """`lspci`, and what `lspci | grep -i nvidia` leaves of it."""
    text = lspci(host, verbose=False)
    told = read_text(lspci(host))
    grepped = "$ lspci | grep -i nvidia\n" + "".join(line for line in text.splitlines(keepends=True) if "nvidia" in line.lower())
    for part in (text, grepped):
        found = read_text(part)
        assert [(gpu.pci_bus_id, gpu.name) for gpu in found.gpus] == [(gpu.pci_bus_id, gpu.name) for gpu in told.gpus]
        assert found.links == {}
        assert ["only lists devices" in warning for warning in found.warnings] == [True]


def test_an_nvswitch_a_sound_function_and_a_bmc_are_no_gpus():
    text = (
        "02:00.0 VGA compatible controller: ASPEED Technology, Inc. ASPEED Graphics Family (rev 41)\n"
        "18:00.0 3D controller: NVIDIA Corporation GA100 [A100 SXM4 80GB] (rev a1)\n"
        "18:00.1 Audio device: NVIDIA Corporation GA102 High Definition Audio Controller (rev a1)\n"
        "1a:00.0 Bridge: NVIDIA Corporation GA100 [A100 NVSwitch] (rev a1)\n"
        "03:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Raphael (rev c1)\n"
    )
    found = read_text(text)
    assert [gpu.pci_bus_id for gpu in found.gpus] == ["0000:18:00.0"]
    assert found.warnings[:1] == ("the GPU at 0000:03:00.0 is AMD's beside those of NVIDIA: it was left out",)


def test_a_card_with_a_switch_of_its_own_has_the_slot_above_that():
    text = """\
40:01.1 PCI bridge: Advanced Micro Devices, Inc. [AMD] Starship/Matisse GPP Bridge
\tBus: primary=40, secondary=41, subordinate=43, sec-latency=0
\tCapabilities: [58] Express (v2) Root Port (Slot+), MSI 00
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x8, ASPM L1
\t\tLnkSta:\tSpeed 16GT/s, Width x8

41:00.0 PCI bridge: Advanced Micro Devices, Inc. [AMD/ATI] Vega 10 PCIe Bridge
\tBus: primary=41, secondary=42, subordinate=43, sec-latency=0
\tCapabilities: [58] Express (v2) Upstream Port, MSI 00
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1
\t\tLnkSta:\tSpeed 16GT/s, Width x8 (downgraded)

42:00.0 PCI bridge: Advanced Micro Devices, Inc. [AMD/ATI] Vega 10 PCIe Bridge
\tBus: primary=42, secondary=43, subordinate=43, sec-latency=0
\tCapabilities: [58] Express (v2) Downstream Port (Slot-), MSI 00
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM L1
\t\tLnkSta:\tSpeed 32GT/s, Width x16

43:00.0 Display controller: Advanced Micro Devices, Inc. [AMD/ATI] Vega 20 [Instinct MI60]
\tCapabilities: [64] Express (v2) Legacy Endpoint, MSI 00
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM L1
\t\tLnkSta:\tSpeed 32GT/s, Width x16
"""
    port = read_text(text).gpus[0].pcie
    assert (port.gen, port.width) == (4, 8)
    nvidia = text.replace("Advanced Micro Devices, Inc. [AMD/ATI] Vega 20 [Instinct MI60]", "NVIDIA Corporation Device 2901")
    port = read_text(nvidia).gpus[0].pcie
    assert (port.gen, port.width) == (5, 16)  # the switch is the machine's, and others may hang from it


def test_a_matrix_that_contradicts_the_paths_is_believed():
    topo = "\tGPU0\tGPU1\nGPU0\t X \tSYS\nGPU1\tSYS\t X \n"
    found = read_text(topo + "\n" + SMALL)
    assert found.links == {(0, 1): "SYS"}
    assert found.warnings[-1] == (
        "the matrix and the PCIe paths differ, and the matrix is taken: GPU 0 and 1 read SYS but are PHB by the bridges above them"
    )
    assert domains(found, Level.ROOT_COMPLEX) == ((0,), (1,))


def test_paths_place_gpus_whose_links_all_read_nvlink():
    topo = "\tGPU0\tGPU1\nGPU0\t X \tNV12\nGPU1\tNV12\t X \n"
    assert domains(read_text(topo), Level.ROOT_COMPLEX) == ((0,), (1,))
    assert domains(read_text(topo + "\n" + SMALL), Level.ROOT_COMPLEX) == ((0, 1),)


def test_names_of_one_card_agree_however_they_are_written():
    """nvidia-smi writes NVIDIA A100-PCIE-40GB, lspci A100 PCIe 40GB."""
    for theirs, ours in (("A100-PCIE-40GB", "A100 PCIe 40GB"), ("H100 80GB HBM3", "H100 SXM5 80GB")):
        names = f"index, name, pci.bus_id\n0, NVIDIA {theirs}, 00000000:19:00.0\n1, NVIDIA {theirs}, 00000000:18:00.0\n"
        found = read_text(names + "\n" + SMALL.replace("A100 PCIe 40GB", ours))
        assert [gpu.name for gpu in found.gpus] == [f"NVIDIA {theirs}"] * 2
        assert [gpu.pcie.width for gpu in found.gpus] == [4, 16]  # matched by bus id, not by position
    names = names.replace("H100 80GB HBM3", "L4")
    found = read_text(names + "\n" + SMALL)
    assert [gpu.name for gpu in found.gpus] == ["NVIDIA L4"] * 2
    assert "lspci calls GPU 0, GPU 1 A100 PCIe 40GB, but another source NVIDIA L4, which was taken" in found.warnings


@pytest.mark.parametrize("cell", ["N/A", "0-1", "0,1"])
def test_a_numa_node_that_a_matrix_tells_vaguely_is_the_kernels(cell):
    topo = f"\tGPU0\tGPU1\tNUMA Affinity\nGPU0\t X \tPHB\t{cell}\nGPU1\tPHB\t X \t{cell}\n"
    for text in (topo + "\n" + SMALL, SMALL + "\n" + topo):
        assert [gpu.numa for gpu in read_text(text).gpus] == ["0", "0"]


def test_functions_without_a_gpu_are_no_machine():
    with pytest.raises(TopologyError, match="no output that describes GPUs"):
        read_text("00:00.0 Host bridge: Advanced Micro Devices, Inc. [AMD] Starship/Matisse Root Complex\n")


def test_more_gpus_than_a_host_has_are_refused():
    lines = [f"{k // 32:04x}:{k % 32:02x}:00.0 3D controller: NVIDIA Corporation Device 2901" for k in range(300)]
    with pytest.raises(TopologyError, match="lspci lists 300 GPUs and 0 NICs"):
        read_text("\n".join(lines) + "\n")


def test_a_long_output_is_read_quickly_in_little_memory():
    """As much as the largest hosts print: 4,000 functions, 5 MB."""
    noise = "".join(f"\t\tCESta:\tRxErr- BadTLP- BadDLLP- Rollover- Timeout- AdvNonFatalErr+ {k}\n" for k in range(15))
    others = "".join(
        f"\n{0x20 + k // 256:02x}:{k // 8 % 32:02x}.{k % 8} Ethernet controller: "
        f"Intel Corporation Ethernet Virtual Function 700 Series\n{noise}"
        for k in range(4000)
    )
    text = SMALL + others
    assert len(text) > 4_000_000
    start = time.process_time()
    found = read_text(text)
    assert time.process_time() - start < MOST_CPU_S
    assert ports(found) == ports(read_text(SMALL))
    tracemalloc.start()
    read_text(text)
    assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    tracemalloc.stop()


PIECES = ["", "\t", "|", "+-", "[0000:00]-", "\n", "x16", "Bus: primary=00, secondary=00"]


@settings(max_examples=40)
@given(hosts(), st.lists(st.tuples(st.integers(0, 2**20), st.sampled_from(PIECES))))
def test_no_edit_makes_it_crash(host, edits):
    text = lspci_tree(host) + lspci(host)
    for position, piece in edits:
        at = position % (len(text) + 1)
        text = text[:at] + piece + text[at + 3 :]
    try:
        found = read_text(text)
    except TopologyError:
        return
    assert all(gpu.pcie is not None for gpu in found.gpus)


def test_the_generator_makes_what_the_tests_are_about():
    """Switches in switches, several roots, narrow links, cards of several kinds all occur."""
    seen = set()

    @settings(max_examples=200, database=None, derandomize=True)
    @given(hosts())
    def look(host: Host) -> None:
        for gpu in gpus_of(host):
            is_narrow = gpu.link.lanes < min(gpu.link.port[1], gpu.link.device[1])
            seen.update({f"{len(bridges_of(gpu))} bridges", gpu.name, "narrow" if is_narrow else "whole"})
        seen.add(f"{len(host.roots)} roots")

    look()
    assert seen >= {"1 bridges", "3 bridges", "5 bridges", *GPUS, "narrow", "1 roots", "2 roots"}


SOURCES = Path(__file__).parent.parent / "data" / "sources"


@pytest.mark.parametrize("blank", ["\n\n", "\n \n", "\n\n\n\n"])
def test_blank_lines_between_the_rows_of_a_tree_are_none(blank: str) -> None:
    text = (SOURCES / "lspci-tv.txt").read_text("utf-8")
    assert read_text(blank.join(text.split("\n"))) == read_text(text)


LISTED = (SOURCES / "lspci-vv.txt").read_text("utf-8").split("\n")


@pytest.mark.parametrize("is_double", [False, True])
@pytest.mark.parametrize("lost", [k for k, line in enumerate(LISTED) if line[:1].isalnum()])
def test_a_block_whose_first_line_is_lost_is_not_that_of_the_device_before_it(lost: int, *, is_double: bool) -> None:
    """No device hangs where it does not: where it hangs is right or unknown, and a warning tells that something is missing."""

    def places(lines: list[str]) -> dict[str | None, tuple[object, ...]]:
        found = read_text(("\n\n" if is_double else "\n").join(lines))
        ports = [*((gpu.pci_bus_id, gpu.pcie) for gpu in found.gpus), *((n.pci_bus_id, n.pcie) for n in found.nic_details.values())]
        assert found.warnings if len(lines) < len(LISTED) else not found.warnings
        return {bus_id: (port.gen, port.width, port.path) for bus_id, port in ports if port is not None}

    whole, found = places(LISTED), places(LISTED[:lost] + LISTED[lost + 1 :])
    assert len(found) >= len(whole) - 1
    for bus_id, (gen, width, path) in found.items():
        assert (gen or whole[bus_id][0], width) == whole[bus_id][:2]  # without its slot the generation may be unknown
        assert path in ((), whole[bus_id][2])


@settings(max_examples=30)
@given(hosts(), st.data())
def test_a_lost_line_break_of_a_tree_loses_no_device(host, data):
    whole = lspci_tree(host)
    breaks = [k for k, letter in enumerate(whole[:-1]) if letter == "\n" and whole[whole.rfind("\n", 0, k) + 1 : k].count("  ")]
    if not breaks or not host.all("gpu"):
        return
    position = data.draw(st.sampled_from(breaks))
    for between in ("", " "):
        found = read_text(whole[:position] + between + whole[position + 1 :])
        assert places(found) == places(read_text(whole)) or (found.warnings and len(found.gpus) == len(host.all("gpu")))


@settings(max_examples=30)
@given(hosts(), st.data(), st.sampled_from(["list", "tree"]))
def test_a_text_that_ends_within_the_line_of_a_gpu_says_so(host, data, form):
    text = lspci(host, verbose=False) if form == "list" else lspci_tree(host)
    ends = [match.end() for match in re.finditer(r"NVI(?=DIA)", text)][1:]
    if not ends:
        return
    end = data.draw(st.sampled_from(ends)) - data.draw(st.integers(0, 2))
    found = read_text(text[:end])
    assert len(found.gpus) == text[:end].count("NVIDIA")
    assert any("the text ends within" in warning for warning in found.warnings)


@settings(max_examples=20)
@given(hosts(), st.data(), st.booleans(), st.sampled_from(["LnkCap:", "LnkSta:"]))
def test_lanes_at_the_end_of_a_line_that_is_wrapped_or_cut_are_never_fewer(host, data, is_cut, word):
    """The window ends behind the first digit of a width."""
    lines = lspci(host).replace("\t", "        ").split("\n")
    widths = sorted({line.index("Width x") + len("Width x1") for line in lines if word in line and "Width x16" in line})
    if not widths:
        return
    width = data.draw(st.sampled_from(widths))
    wrapped = [line[k : k + width] for line in lines for k in range(0, max(len(line), 1), width)]
    pieces = [line[:width] for line in lines] if is_cut else wrapped
    try:
        found = read_text("\n".join(pieces) + "\n")
    except TopologyError:
        return
    truth = {device.bus_id: device.link for device in gpus_of(host)}
    for gpu in found.gpus:
        link = truth.get(gpu.pci_bus_id or "")
        if gpu.pcie is not None and link is not None:
            assert gpu.pcie.width in (None, link.lanes, min(link.port[1], link.device[1]), link.device[1])
            assert gpu.pcie.current_width in (None, link.lanes)


@pytest.mark.parametrize("word", ["LnkCap:", "LnkSta:"])
@pytest.mark.parametrize("is_cut", [True, False])
def test_the_first_digit_of_sixteen_lanes_is_not_one_lane(word, is_cut):
    lines = SMALL.replace("\t", "        ").split("\n")
    for width in {line.index("Width x") + len("Width x1") for line in lines if word in line and "Width x16" in line}:
        wrapped = [line[k : k + width] for line in lines for k in range(0, max(len(line), 1), width)]
        found = read_text("\n".join([line[:width] for line in lines] if is_cut else wrapped) + "\n")
        assert len(found.gpus) == 2
        assert all(gpu.pcie is None or 1 not in (gpu.pcie.width, gpu.pcie.current_width) for gpu in found.gpus)


CARD = """\
0000:17:00.0 VGA compatible controller: NVIDIA Corporation AD102 [GeForce RTX 4090] (rev a1) (prog-if 00 [VGA controller])
        Subsystem: Micro-Star International Co., Ltd. [MSI] Device 5110 (a board whose name is long enough to be cut)
        Control: I/O+ Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr- Stepping- SERR- FastB2B- DisINTx+
                LnkCap: Port #0, Speed 16GT/s, Width x16, ASPM L1, Exit Latency L1 <4us
                LnkSta: Speed 2.5GT/s (downgraded), Width x8 (downgraded)
                        TrErr- Train- SlotClk+ DLActive- BWMgmt- ABWMgmt-
"""


@pytest.mark.parametrize("width", range(50, 120))
@pytest.mark.parametrize("is_wrapped", [True, False])
def test_what_a_window_cuts_off_a_block_is_unknown_with_a_note(width: int, is_wrapped: bool) -> None:
    rows = [[line[k : k + width] for k in range(0, len(line), width)] for line in CARD.splitlines()]
    text = "".join(f"{part}\n" for row in rows for part in (row if is_wrapped else row[:1]))
    whole, read = read_text(CARD).gpus[0], read_text(text)
    gpu = read.gpus[0]
    assert (whole.name, whole.pcie) == ("GeForce RTX 4090", Pcie(width=8, current_gen=1, current_width=8))
    assert gpu.name in (whole.name, None)
    assert gpu.pcie in (whole.pcie, Pcie())
    assert gpu.name or "cut" in " ".join(read.warnings) or width < 66    # of a line without brackets nobody knows that it is cut
    assert gpu.pcie == whole.pcie or read.warnings


@pytest.mark.parametrize("width", [60, 64, 70, 75, 80])
def test_a_wrapped_block_keeps_what_it_says(width: int) -> None:
    """At 60 columns a line ends right behind ``Width x8``, at 70 and more within the name."""
    lines = [line[k : k + width] for line in CARD.splitlines() for k in range(0, len(line), width)]
    gpu = read_text("\n".join(lines) + "\n").gpus[0]
    assert gpu.pcie == Pcie(width=8, current_gen=1, current_width=8)
    assert gpu.name == ("GeForce RTX 4090" if width > 65 else None)
