"""
Read ``nvidia-smi -q -x``.

When to modify: the tool prints another fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from topologies.bus_ids import BUS_ID, WITH_DOMAIN
from topologies.errors import TopologyError
from topologies.nvidia.report.lost import find_lost
from topologies.nvidia.report.report import (
    MEMORY_PARTS,
    Block,
    Log,
    answer,
    count,
    seen,
    size_mib,
    topology,
)
from topologies.pages.reading import Reading
from topologies.pages.text import Page
from topologies.pages.xml_text import Document, Element, find_documents, parse, unescaped
from topologies.parts import MigInstance, Process

_ROOT = "nvidia_smi_log"
_WHAT = "the output of `nvidia-smi -q -x`"
_REMEDY = "write it to a file with `nvidia-smi -q -x -f gpus.xml` and give that"
_CONTENT = re.compile(r"<(?:gpu|attached_gpus|driver_version|timestamp)\b")
_FRAGMENT = re.compile(rf'<gpu id=\\?["\']{WITH_DOMAIN}')
_GPU_ID = re.compile(rf'<gpu id=\\?["\']({WITH_DOMAIN})')
_ATTACHED = re.compile(r"<attached_gpus>\s*([0-9]{1,6})\s*<")
_UNTOLD = re.compile(r"N/A|Not |Insufficient|Unknown")
_GENS = {
    "max": "max_link_gen", "current": "current_link_gen", "device max": "max_device_link_gen", "host max": "max_host_link_gen",
}  # fmt: skip


def read(page: Page) -> Iterator[Reading]:
    """
    Yield a reading for every output on *page*.

    Raises
    ------
    TopologyError
        If one is cut or damaged.
    """
    page = unescaped(page, _ROOT)
    if "<gpu" not in page.text and f"<{_ROOT}" not in page.text:
        return
    documents = find_documents(page.text, _ROOT, _CONTENT)
    if not documents and (match := _FRAGMENT.search(page.text)):
        line = page.text.count("\n", 0, match.start()) + 1
        message = f"{_WHAT} is a fragment, without <{_ROOT}> around it; {_seen(page.text)}; {_REMEDY}"
        raise TopologyError(message, where=page.where(line))
    for document in documents:
        yield Reading(document.line, topology(_log(document, page), format="q-xml", where=page.where(document.line)))


def _seen(raw: str) -> str:
    attached = _ATTACHED.search(raw)
    return seen(list(dict.fromkeys(_GPU_ID.findall(raw)))[:1024], attached[1] if attached else None)


def _log(document: Document, page: Page) -> Log:
    parsed = parse(document, page, what=_WHAT, seen=_seen(document.raw), remedy=_REMEDY)
    root = parsed.root
    blocks = [_block(gpu) for gpu in root.all("gpu")]
    unread = [
        f"the bus id of GPU {index} is {told[:40]!r}, which is not whole: left out"
        for index, (gpu, block) in enumerate(zip(root.all("gpu"), blocks, strict=True))
        if not block.bus_id and (told := gpu.attributes.get("id"))
    ]
    log = Log(
        attached=root.value("attached_gpus"),
        driver=root.value("driver_version"),
        cuda=root.value("cuda_version"),
        blocks=blocks,
        lost=find_lost(page.text),
        warnings=[*parsed.warnings, *unread],
    )
    if not log.blocks:
        attached = f"says that {log.attached} are attached" if log.attached else "does not say how many are attached"
        message = f"{_WHAT} shows no GPU and {attached}: the driver finds none, or the GPUs were left out; {_REMEDY}"
        raise TopologyError(message, where=page.where(document.line))
    return log


def _block(gpu: Element) -> Block:
    """Return what the element *gpu* states."""
    link = ("pci", "pci_gpu_link_info")
    gens = {part: gpu.value(*link, "pcie_gen", tag) for part, tag in _GENS.items()}
    widths = {part: gpu.value(*link, "link_widths", f"{part}_link_width") for part in ("max", "current")}
    fabric = {
        "state": gpu.value("fabric", "state"),
        "status": gpu.value("fabric", "status"),
        "clique": gpu.value("fabric", "cliqueId") or gpu.value("fabric", "clique_id"),
        "cluster": gpu.value("fabric", "clusterUuid") or gpu.value("fabric", "cluster_uuid"),
    }
    instances = [*(devices.all("mig_device") if (devices := gpu.find("mig_devices")) is not None else [])]
    return Block(
        bus_id=_whole(gpu.attributes.get("id")) or _whole(gpu.value("pci", "pci_bus_id")),
        minor=gpu.value("minor_number"),
        name=gpu.value("product_name"),
        uuid=gpu.value("uuid"),
        compute_capability=gpu.value("compute_capability") or gpu.value("cuda_compute_capability"),
        fb=_memory(gpu, "fb_memory_usage") or _memory(gpu, "memory_usage"),
        bar1=_memory(gpu, "bar1_memory_usage"),
        gens={part: value for part, value in gens.items() if value},
        widths={part: value for part, value in widths.items() if value},
        mig_mode=gpu.value("mig_mode", "current_mig"),
        mig_pending=gpu.value("mig_mode", "pending_mig"),
        mig_indices=[n for instance in instances if (n := count(instance.value("index"))) is not None],
        mig_instances=[_instance(instance) for instance in instances],
        fabric={part: value for part, value in fabric.items() if value},
        processes=(processes := _processes(gpu)),
        unread_processes=len(_process_infos(gpu)) - len(processes or ()),
    )


def _whole(bus_id: str | None) -> str | None:
    """Return *bus_id* unless it is only the beginning of one."""
    return bus_id.strip() if bus_id and re.fullmatch(BUS_ID, bus_id.strip()) else None


def _memory(gpu: Element, tag: str) -> dict[str, str]:
    return {part: value for part in MEMORY_PARTS if (value := gpu.value(tag, part))}


def _instance(device: Element) -> MigInstance:
    return MigInstance(uuid=answer(device.value("uuid")), memory_mib=size_mib(device.value("fb_memory_usage", "total")) or None)


def _processes(gpu: Element) -> list[Process] | None:
    """Return who holds memory; None where the driver does not tell, or was not asked."""
    found = _process_list(gpu)
    if found is None or (not found.children and _UNTOLD.search(found.text)):
        return None
    return [
        Process(pid, answer(info.value("process_name")), size_mib(info.value("used_memory")))
        for info in _process_infos(gpu)
        if (pid := count(info.value("pid"))) is not None
    ]


def _process_infos(gpu: Element) -> list[Element]:
    found = _process_list(gpu)
    return [*found.all("process_info")] if found is not None else []


def _process_list(gpu: Element) -> Element | None:
    return next((element for tag in ("processes", "compute_processes") if (element := gpu.find(tag)) is not None), None)
