"""
This host's machine, asked of the driver through NVML.

Every fact is asked for once and on its own: what the driver does not answer stays unknown, and a GPU that does not answer at all, or
is lost while it is asked, is left out with its reason. Codes and values are those that ``nvidia-smi topo -m`` prints.

When to modify: another NVML call becomes a fact of `Topology`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from topologies.errors import TopologyError
from topologies.merging.identity import bus_key
from topologies.model import Gpu, Pair, Topology
from topologies.nvml import link_states
from topologies.nvml.calls import Driver, Lost, Unanswered, gpus_in_words, reason_of
from topologies.nvml.gpu import read_gpu, text, with_host_nodes
from topologies.nvml.link_states import read_c2c, read_rates
from topologies.nvml.links import Ends, compare_alike, read_ends
from topologies.nvml.pairs import Pairs
from topologies.parts import Host
from topologies.peer_kinds import fields_of

_VERSION_MISMATCH = 18
_MOST_GPUS = 1024
_FIRST_WITH_C2C = 9
_OTHER_ORDER = (
    "GPU numbers do not follow bus ids: with CUDA_DEVICE_ORDER=PCI_BUS_ID, which plans set, CUDA counts differently; "
    "name the GPUs in CUDA_VISIBLE_DEVICES by their UUIDs"
)
_BUS_ID = re.compile(r"([0-9A-Fa-f]{1,8}):([0-9A-Fa-f]{1,2}):([0-9A-Fa-f]{1,2})\.([0-7])")


def read_live() -> Topology:
    """
    Return the machine of this host.

    Raises
    ------
    TopologyError
        If no driver answers, or it has no GPU.
    """
    with _nvml() as nvml:
        return _Host(Driver(nvml)).topology()


@contextmanager
def _nvml() -> Iterator[Any]:
    """Give pynvml, initialised."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        remedy = ""
        if error.value == _VERSION_MISMATCH:
            remedy = ": its library and its kernel module are of different versions; reload the module, or reboot"
        raise TopologyError(f"no NVIDIA driver answers on this host ({reason_of(error)}){remedy}") from None
    try:
        yield pynvml
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


class _Host:
    """The GPUs of the driver's list that answer, by their index there, and what could not be read."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._lost: dict[int, str] = {}
        self._warnings: list[str] = []
        self._handles: dict[int, Any] = {}
        self._bus_ids: dict[int, str] = {}
        try:
            count = driver.call("DeviceGetCount")
        except Unanswered as error:
            raise TopologyError(
                f"the NVIDIA driver does not say how many GPUs this host has ({error.reason})"
            ) from None
        if count > _MOST_GPUS:
            raise TopologyError(f"the NVIDIA driver says that this host has {count:,} GPUs, which cannot be")
        for index in range(count):
            try:
                self._handles[index] = driver.call("DeviceGetHandleByIndex", index)
            except Unanswered as error:
                self._lost[index] = error.reason

    def topology(self) -> Topology:
        """Return everything that could be read."""
        gpus, ends = self._gpus()
        pairs = Pairs(self._driver, self._handles, ends, gpus)
        for i in gpus:
            for j in gpus:
                if i < j and i not in self._lost and j not in self._lost:
                    with self._noting_lost():
                        pairs.read(i, j)
        kept = [index for index in gpus if index not in self._lost]
        if not kept:
            reasons = "; ".join(f"GPU {index}: {reason}" for index, reason in sorted(self._lost.items()))
            raise TopologyError(
                "the NVIDIA driver has no GPU that answers on this host" + (f" ({reasons})" if reasons else "")
            )
        new = {old: index for index, old in enumerate(kept)}
        here = tuple(gpus[old].replace(index=index) for old, index in new.items())
        names = {old: gpus[old].name for old in kept}
        optional = ("cpu_affinity", "numa", "gpu_numa_id")
        links_here = {index: ends[old] for old, index in new.items()}
        peers = {kind: _renumbered(states, new) for kind, states in pairs.peers.items()}
        return Topology(
            here,
            links=_renumbered(pairs.links, new),
            pcie_links=_renumbered(pairs.paths, new),
            format="nvml",
            warnings=(
                *self._left_out(new), *_order_warning(here), *link_states.warnings(here, links_here),
                *pairs.warnings(new), *self._driver.warnings(new, names),
            ),
            columns=frozenset({"links", *(fact for fact in optional if any(getattr(gpu, fact) for gpu in here))}),
            **fields_of({kind: states for kind, states in peers.items() if states}),
            host_facts=self._host_facts(),
            stated=link_states.stated(here, links_here),
        )  # fmt: skip

    def _gpus(self) -> tuple[dict[int, Gpu], dict[int, Ends]]:
        """Return what is known of each GPU, and of its NVLinks, whose ends have names only when all bus ids are known."""
        for index, handle in self._handles.items():
            with self._noting_lost():
                pci = self._driver.fact(index, "PCI bus id", "DeviceGetPciInfo", handle)
                if pci is not None and (bus_id := text(pci.busId)):
                    self._bus_ids[index] = bus_id
        index_of = {bus_key(bus_id): index for index, bus_id in self._bus_ids.items()}
        has_hidden = len(index_of) < len(self._handles) + len(self._lost.keys() - self._handles.keys())
        gpus: dict[int, Gpu] = {}
        ends: dict[int, Ends] = {}
        for index, handle in self._handles.items():
            if index in self._lost:
                continue
            with self._noting_lost():
                gpu = read_gpu(self._driver, index, handle, self._bus_ids.get(index))
                ends[index] = read_ends(
                    self._driver, index, handle, gpu.compute_capability, index_of, has_hidden=has_hidden
                )
                ends[index].rates = read_rates(self._driver, index, handle, ends[index].up)
                if _may_share_chip(gpu):
                    ends[index].c2c = read_c2c(self._driver, index, handle)
                gpus[index] = gpu
        compare_alike(self._driver, ends, {index: gpu.name for index, gpu in gpus.items()})
        return with_host_nodes(gpus), ends

    @contextmanager
    def _noting_lost(self) -> Iterator[None]:
        try:
            yield
        except Lost as lost:
            self._lost[lost.index] = lost.reason

    def _left_out(self, new: Mapping[int, int]) -> list[str]:
        """Name the GPUs that are lost, and those whose number is therefore not that of the driver's list."""
        sentences = []
        for index, reason in sorted(self._lost.items()):
            place = f" ({self._bus_ids[index]})" if index in self._bus_ids else ""
            sentences.append(
                f"GPU {index}{place} of the driver's list does not answer ({reason}): it is left out"
            )
        moved = [old for old, index in new.items() if old != index]
        if moved:
            are = "moves up: here it is" if len(moved) == 1 else "move up: here they are"
            sentences.append(f"{gpus_in_words(moved)} of the driver's list {are} {gpus_in_words([new[old] for old in moved])}")
        return sentences

    def _host_facts(self) -> dict[str | None, Host]:
        try:
            version = text(self._driver.call("SystemGetDriverVersion"))
        except Unanswered:
            return {}
        return {None: Host(driver=version)} if version else {}


def _may_share_chip(gpu: Gpu) -> bool:
    """Whether *gpu* is new enough to be on one chip with a CPU."""
    return gpu.compute_capability is None or int(gpu.compute_capability.partition(".")[0]) >= _FIRST_WITH_C2C


def _order_warning(gpus: Sequence[Gpu]) -> list[str]:
    """Warn where the driver does not count in the order of bus ids, for CUDA can be told to, and plans tell it to."""
    found = [_BUS_ID.fullmatch(gpu.pci_bus_id) for gpu in gpus if gpu.pci_bus_id]
    ids = [tuple(int(part, 16) for part in match.groups()) for match in found if match is not None]
    if ids == sorted(ids):
        return []
    return [_OTHER_ORDER]


def _renumbered(pairs: Mapping[Pair, str], new: Mapping[int, int]) -> dict[Pair, str]:
    """Return the *pairs* of GPUs that were kept, whose order is that of the driver's list."""
    return {(new[i], new[j]): word for (i, j), word in pairs.items() if i in new and j in new}
