"""
This host's machine, asked of the driver through NVML.

Every fact is asked for on its own: what the driver does not answer stays unknown with a warning, and a GPU that does not answer
at all is left out with its reason.

When to modify: another NVML call becomes a fact of `Topology`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from topologies.errors import TopologyError
from topologies.model import Gpu, Pair, Topology

T = TypeVar("T")

_LEVELS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""NVML's common ancestor to nvidia-smi's code; INTERNAL (0), two GPUs on one board, is printed as PIX."""

_MIB = 2**20


def read_live() -> Topology:
    """
    Return the machine of this host.

    Raises
    ------
    TopologyError
        If no driver answers, or it has no GPU.
    """
    with _nvml() as nvml:
        return _Host(nvml).topology()


@contextmanager
def _nvml() -> Iterator[Any]:
    """Give pynvml, initialised."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise TopologyError(f"no NVIDIA driver answers on this host ({error})") from None
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


class _Host:
    """The GPUs that answer: their handles by position, and what could not be read."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._failures: dict[tuple[str, str], list[int]] = {}
        self._warnings: list[str] = []
        self._nvlink_unknown: set[int] = set()
        self._handles: list[Any] = []
        try:
            count = nvml.nvmlDeviceGetCount()
        except nvml.NVMLError as error:
            raise TopologyError(
                f"the NVIDIA driver does not say how many GPUs this host has ({error})"
            ) from None
        for index in range(count):
            try:
                self._handles.append(nvml.nvmlDeviceGetHandleByIndex(index))
            except nvml.NVMLError as error:
                self._warnings.append(
                    f"GPU {index} of the driver's list does not answer ({error}): it is left out, so later ones move up"
                )
        if not self._handles:
            raise TopologyError("the NVIDIA driver has no GPU that answers on this host")

    def topology(self) -> Topology:
        """Return everything that could be read."""
        gpus = tuple(self._gpu(index, handle) for index, handle in enumerate(self._handles))
        links = self._links(gpus)
        failed = [
            f"the driver does not tell the {what} of GPU {', '.join(map(str, indices))} ({reason})"
            for (what, reason), indices in self._failures.items()
        ]
        return Topology(
            gpus, links, format="nvml", warnings=(*self._warnings, *failed), columns=frozenset({"links"})
        )

    def _ask(self, index: int, what: str, call: Callable[[], T]) -> T | None:
        """Return the answer of *call*; None, and a warning in the end, if there is none."""
        try:
            return call()
        except self._nvml.NVMLError as error:
            self._failures.setdefault((what, str(error)), []).append(index)
            return None

    def _gpu(self, index: int, handle: Any) -> Gpu:
        nvml = self._nvml
        memory = self._ask(index, "memory", lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        pci = self._ask(index, "PCI bus id", lambda: nvml.nvmlDeviceGetPciInfo(handle))
        return Gpu(
            index,
            name=_text(self._ask(index, "name", lambda: nvml.nvmlDeviceGetName(handle))),
            uuid=_text(self._ask(index, "UUID", lambda: nvml.nvmlDeviceGetUUID(handle))),
            pci_bus_id=_text(pci.busId) if pci is not None else None,
            memory_mib=memory.total // _MIB if memory is not None and memory.total >= _MIB else None,
            memory_used_mib=memory.used // _MIB if memory is not None else None,
        )

    def _links(self, gpus: tuple[Gpu, ...]) -> dict[Pair, str]:
        """
        Return the code of every pair: NVLinks if there are any, else the common ancestor.

        Two GPUs have as many NVLinks as lead from one to the other, or to NVSwitches from the one that has fewer. Where NVLink
        could not be asked, a pair without NVLinks is unknown.
        """
        index_of = {_bus(gpu.pci_bus_id): gpu.index for gpu in gpus if gpu.pci_bus_id}
        ends = [self._nvlink_ends(index, index_of) for index in range(len(gpus))]
        links: dict[Pair, str] = {}
        for i in range(len(gpus)):
            for j in range(i + 1, len(gpus)):
                there, back = ends[i][j], ends[j][i]
                if there and back and there != back:
                    self._warnings.append(
                        f"GPU {i} has {there} NVLinks to GPU {j}, but GPU {j} has {back} to GPU {i}"
                    )
                count = max(there, back) or min(ends[i][None], ends[j][None])
                if count:
                    links[i, j] = f"NV{count}"
                elif (
                    not self._nvlink_unknown.intersection((i, j))
                    and (code := self._ancestor(i, j)) is not None
                ):
                    links[i, j] = code
        return links

    def _nvlink_ends(self, index: int, index_of: dict[str, int]) -> Counter[int | None]:
        """Return how many active NVLinks of a GPU lead to each GPU; None is a switch: any other device, also an unknown one."""
        nvml, handle = self._nvml, self._handles[index]
        ends: Counter[int | None] = Counter()
        for link in range(nvml.NVML_NVLINK_MAX_LINKS):
            try:
                if not nvml.nvmlDeviceGetNvLinkState(handle, link):
                    continue
            except (nvml.NVMLError_InvalidArgument, nvml.NVMLError_NotSupported):
                break  # after the last link; no NVLink
            except nvml.NVMLError as error:
                self._failures.setdefault(("NVLink state", str(error)), []).append(index)
                self._nvlink_unknown.add(index)
                break
            ask = partial(nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
            remote = self._ask(index, f"remote end of NVLink {link}", ask)
            if remote is not None:
                ends[index_of.get(_bus(_text(remote.busId)))] += 1
        return ends

    def _ancestor(self, i: int, j: int) -> str | None:
        ask = partial(self._nvml.nvmlDeviceGetTopologyCommonAncestor, self._handles[i], self._handles[j])
        level = self._ask(i, f"PCIe path to GPU {j}", ask)
        return _LEVELS.get(level) if level is not None else None


def _text(value: Any) -> str | None:
    """Return *value* as text; older versions of the package give bytes."""
    return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else value


def _bus(bus_id: str | None) -> str:
    """Return *bus_id* without differences in writing: the PCI domain has four or eight digits, in either case."""
    domain, _, rest = (bus_id or "").lower().partition(":")
    return f"{domain[-4:]}:{rest}"
