"""
Read the XML files of NCCL: the topology that ``NCCL_TOPO_DUMP_FILE`` writes and that virtual machines come with.

A GPU is whatever NCCL took for one (an element ``gpu``) or has the PCI class of one. Only the former states its NVLinks: between
GPUs without it nothing is known.

When to modify: NCCL writes another fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from topologies import codes
from topologies.errors import TopologyError
from topologies.model import Gpu, Topology
from topologies.nvidia.matrix.matrix import narrow_bonds
from topologies.nvidia.nccl.links import Nvlinks
from topologies.nvidia.nccl.tree import Device, Tree, bus_order, number, read_tree, way
from topologies.nvidia.report.report import seen
from topologies.pages.reading import Reading, listing, unknown_codes
from topologies.pages.text import Page
from topologies.pages.xml_text import Element, find_documents, parse, unescaped
from topologies.parts import Bridge, BridgeKind, Host, Nic

_WHAT = "the topology file of NCCL"
_REMEDY = "run any NCCL job with NCCL_TOPO_DUMP_FILE=topo.xml on that host and give the whole file"
_CONTENT = re.compile(r"<(?:cpu|pci|gpu|nic|net)\b|</system\s*>")
_PCI = re.compile(r"<pci\s[^<>]{0,400}?busid=[^<>]*>")
_INSIDE = re.compile(r"<(?:gpu\s[^<>]{0,200}?\b(?:sm|rank)|nvlink\s[^<>]{0,200}?\btarget|c2c\s[^<>]{0,200}?\bbw)=")
_GRAPHS = re.compile(r"<graphs[\s>][^<]*<graph[\s>]|<graph\s[^<>]*\bpattern=")
_SEEN = re.compile(r'busid=\\?["\']([^"\'\\<>]{1,20})\\?["\'][^<>]{0,400}>(?:\s*<(gpu)\b)?')
_GPU_CLASS = re.compile(r'class=\\?["\']0x030[02]')


def read(page: Page) -> Iterator[Reading]:
    """
    Yield a reading for every topology file on *page*.

    Raises
    ------
    TopologyError
        If one is cut or damaged, is a graph, or describes several hosts.
    """
    page = unescaped(page, "system")
    text = page.text
    if not any(words in text for words in ("<system", "busid=", "<graph", "<nvlink", "<gpu dev", "<c2c")):
        return
    documents = find_documents(text, "system", _CONTENT)
    if not documents:
        _refuse_others(page)
    hosts: dict[str, int] = {}
    for document in documents:
        where = page.where(document.line)
        shown = seen(_gpus_seen(document.raw), None)
        parsed = parse(document, page, what=_WHAT, seen=shown, remedy=_REMEDY)
        try:
            tree = read_tree_of(parsed.root)
            hosts |= {cpu.host: document.line for cpu in tree.cpus if cpu.host and cpu.host not in hosts}
            if len(hosts) > 1:
                lines = ", ".join(f"{host[:40]} in line {line}" for host, line in list(hosts.items())[:8])
                raise TopologyError(
                    f"{len(hosts)} hosts are described (host_hash {lines}): give one file for each host to `placement collect`; "
                    "NCCL_MNNVL_ENABLE=0 keeps NCCL from joining them"
                )
            topology = _topology(tree, parsed.warnings)
        except TopologyError as error:
            raise TopologyError(f"{_WHAT}: {error}", where=where) from None
        yield Reading(document.line, topology)


def read_tree_of(system: Element) -> Tree:
    """
    Return what the element *system* lists.

    Raises
    ------
    TopologyError
        If it lists no GPU, or see `read_tree`.
    """
    tree = read_tree(system)
    if not tree.gpus:
        raise TopologyError(f"it lists no GPU (no <gpu>, no PCI class 0x0300xx or 0x0302xx): {_REMEDY}")
    return tree


def _refuse_others(page: Page) -> None:
    """
    Refuse a fragment, or a graph.

    Raises
    ------
    TopologyError
        If there is one.
    """
    if match := _GRAPHS.search(page.text):
        message = (
            "this is a graph file of NCCL (NCCL_GRAPH_DUMP_FILE): the channels that one job uses, not a topology, which would say "
            f"how GPUs are linked; {_REMEDY}"
        )
        raise TopologyError(message, where=page.where(page.text.count("\n", 0, match.start()) + 1))
    if match := _PCI.search(page.text) or _INSIDE.search(page.text):
        message = f"{_WHAT} is a fragment: it begins inside the document; {seen(_gpus_seen(page.text), None)}; {_REMEDY}"
        raise TopologyError(message, where=page.where(page.text.count("\n", 0, match.start()) + 1))


def _gpus_seen(raw: str) -> list[str]:
    """Return the bus ids of what looks like GPUs in a text that may be damaged."""
    found = [m[1] for m in _SEEN.finditer(raw) if m[2] or _GPU_CLASS.search(m[0])]
    return list(dict.fromkeys(found))[:1024]


def _topology(tree: Tree, warnings: Sequence[str]) -> Topology:
    said = list(warnings)
    devices = _in_order(tree.gpus, said)
    gpus = tuple(_gpu(index, device) for index, device in enumerate(devices))
    nics = _named_nics(tree.nics)
    nvlinks = Nvlinks(devices, said)
    links = {pair: code for pair in nvlinks.pairs if (code := nvlinks.code(pair)) is not None}
    said += unknown_codes(links.values(), lambda code: code == "XGMI" or codes.is_known_link(code), said)
    said += narrow_bonds(links, len(gpus))
    gpu_nic = {
        index: near
        for index, gpu in enumerate(devices)
        if (near := {key: code for key, (device, _) in nics.items() if (code := way(gpu, device)) is not None})
    }
    bridges = {
        bus_id: Bridge(BridgeKind.UPSTREAM, port.gen, port.width) for bus_id, port in tree.switches.items()
    }
    numa = {gpu.pci_bus_id: gpu.numa for gpu in gpus if gpu.numa is not None}
    stated: dict[str, Any] = {
        "nic_count": len(nics),
        "numa_of_gpu_busid": numa,
        "nvlinks_seen": nvlinks.direct,
        "nvswitch_links": nvlinks.switched,
        "c2c": {str(gpu.pci_bus_id): c2c for gpu, device in zip(gpus, devices, strict=True) if (c2c := _c2c(device))},
    }
    return Topology(
        gpus,
        links,
        nics={key: None if net is None else net.attributes.get("name") for key, (_, net) in nics.items()},
        gpu_nic=gpu_nic,
        format="nccl-topo-xml",
        warnings=tuple(said),
        nic_details={key: _nic(device, net) for key, (device, net) in nics.items()},
        host_facts={None: Host(bridges=bridges)} if bridges else {},
        stated={name: value for name, value in stated.items() if value != {}},
    )


def _in_order(devices: Sequence[Device], warnings: list[str]) -> list[Device]:
    """Return the GPUs by the numbers that CUDA gave them if these are 0, 1, 2 …, else in PCI order."""
    numbers = [number(gpu.attributes.get("dev")) if (gpu := d.element.find("gpu")) is not None else None for d in devices]
    by_number = dict(zip(numbers, devices, strict=True))
    if set(by_number) == set(range(len(devices))):
        return [by_number[index] for index in range(len(devices))]
    if any(n is not None for n in numbers):
        given = listing([str(n) for n in numbers if n is not None])
        warnings.append(f"the GPUs are numbered {given} by the job that wrote the file: here they are GPU 0, 1, 2 … in order of bus ids")
    return sorted(devices, key=lambda device: bus_order(device.bus_id or "0"))


def _gpu(index: int, device: Device) -> Gpu:
    element = device.element.find("gpu")
    sm = element.attributes.get("sm", "") if element is not None and "gcn" not in element.attributes else ""
    return Gpu(
        index,
        pci_bus_id=device.bus_id,
        compute_capability=f"{sm[:-1]}.{sm[-1]}" if re.fullmatch(r"[1-9][0-9]{1,2}", sm) else None,
        pcie=device.pcie,
        numa=device.cpu.numa if device.cpu is not None else None,
        cpu_affinity=device.cpu.affinity if device.cpu is not None else None,
    )


def _c2c(device: Device) -> dict[str, int]:
    """Return number and speed of the links to the CPU of the same chip."""
    element = device.element.find("gpu", "c2c")
    found = {key: number(element.attributes.get(key)) for key in ("count", "bw")} if element is not None else {}
    return {key: value for key, value in found.items() if value}


def _named_nics(devices: Sequence[Device]) -> dict[str, tuple[Device, Element | None]]:
    """Return the network ports by name, or by bus id where the file has none, with the element that states their speed."""
    found: dict[str, tuple[Device, Element | None]] = {}
    for device in devices:
        nics = [device.element] if device.element.tag == "nic" else device.element.all("nic")
        nets = {net.attributes["name"][:100]: net for nic in nics for net in (*nic.all("net"), nic) if net.attributes.get("name")}
        for name, net in nets.items() if nets else [(device.bus_id or "nic", None)]:
            key = name if name not in found else f"{name}@{device.bus_id}"
            number_of_same = 2
            while key in found:
                key, number_of_same = f"{name}#{number_of_same}", number_of_same + 1
            found[key] = (device, net)
    return found


def _nic(device: Device, net: Element | None) -> Nic:
    mbit_per_s = number(net.attributes.get("speed")) if net is not None else None
    return Nic(
        pci_bus_id=device.bus_id,
        numa=device.cpu.numa if device.cpu is not None and device.bus_id is not None else None,
        gb_per_s=mbit_per_s / 8000 if mbit_per_s else None,
        pcie=device.pcie,
    )
