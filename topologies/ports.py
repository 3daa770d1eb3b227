"""
The PCI functions of a host, as the kernel or ``lspci`` lists them, and what follows for GPUs and NICs.

Who is below whom comes from the bus numbers of bridges, or is stated. A link runs under load at what both of its ends can do; that
it runs slower when it is read only saves power, but lanes that did not come up stay away.

When to modify: a new fact about a function, or a new rule for what a link gives.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from topologies.model import Gpu
from topologies.pages.reading import listing
from topologies.parts import Bridge, BridgeKind, Pcie

GPU_CLASSES = frozenset({0x0300, 0x0302, 0x0380, 0x1200})
"""VGA, 3D and display controllers, processing accelerators."""

NIC_CLASSES = frozenset({0x0200, 0x0207, 0x0208})
"""Ethernet, InfiniBand and fabric controllers."""

BRIDGE_CLASS = 0x0604

MOST_GPUS = 256
MOST_NICS = 256
"""Most of one host that are believed; every one of them may be compared with every other."""

MOST_FUNCTIONS = 2**15
"""Most functions of one host; a machine with many virtual ones has thousands."""

_DEEPEST = 32
"""Most bridges above a device; there are 256 buses, and real machines have up to seven."""

_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_WIDTHS = frozenset({1, 2, 4, 8, 12, 16, 32})


@dataclass(slots=True)
class Function:
    """
    One PCI function.

    Parameters
    ----------
    bus_id
        ``0000:3b:00.0``.
    code
        Class and subclass (0x0302), None when unknown.
    vendor
        ``nvidia``, ``amd``, ``virtual`` (a hypervisor's), else None.
    name
        Product name, as the source puts it into brackets.
    numa
        NUMA node as printed.
    can, now
        Generation and lanes that its link can have, and has; None each when unknown.
    port
        What kind of bridge it is.
    bus_below
        Of a bridge: the bus below it (``0000:3b``).
    is_below
        Whether what is described hangs below it, alone on a bus whose number cannot be read.
    acs_redirect
        Whether it sends peer-to-peer requests upwards.
    above, root
        The bridge that it hangs from, and its root complex, where the source states them; ``is_placed`` then.
    is_denied, is_lost, driver
        Its capabilities could not be read; it does not answer; the kernel driver that holds it.
    """

    bus_id: str
    code: int | None = None
    vendor: str | None = None
    name: str | None = None
    numa: str | None = None
    can: tuple[int | None, int | None] = (None, None)
    now: tuple[int | None, int | None] = (None, None)
    port: BridgeKind | None = None
    bus_below: str | None = None
    is_below: bool = False
    acs_redirect: bool | None = None
    above: str | None = None
    root: str | None = None
    is_placed: bool = False
    is_denied: bool = False
    is_lost: bool = False
    driver: str | None = None

    @property
    def bus(self) -> str:
        """The bus that it is on: ``0000:3b``."""
        return self.bus_id.rpartition(":")[0]

    @property
    def is_gpu(self) -> bool:
        return self.code in GPU_CLASSES and self.vendor in ("nvidia", "amd")

    @property
    def is_nic(self) -> bool:
        return self.code in NIC_CLASSES

    @property
    def is_bridge(self) -> bool:
        return self.code == BRIDGE_CLASS or self.bus_below is not None


def generation(gt_per_s: str) -> int | None:
    """Return the PCIe generation that runs at *gt_per_s*, GT/s; None for a speed that none has."""
    try:
        return _GENERATIONS.get(float(gt_per_s))
    except ValueError:
        return None


def lanes(width: str) -> int | None:
    """Return *width* as a number of lanes; None if no link has so many (a link that is down has 0)."""
    return int(width) if width.isdecimal() and len(width) < 4 and int(width) in _WIDTHS else None


@dataclass(slots=True)
class Tree:
    """
    The functions of a host by bus id, and what follows from where they are.

    Parameters
    ----------
    functions
        All that the source lists.
    roots
        Buses that are root buses for sure.
    """

    functions: Mapping[str, Function]
    roots: frozenset[str] = frozenset()
    _bridge_above: dict[str, str] = field(default_factory=dict)
    _first_on: dict[str, Function] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for function in self.functions.values():
            self._first_on.setdefault(function.bus, function)
            if function.bus_below is not None and function.bus_below != function.bus:
                self._bridge_above.setdefault(function.bus_below, function.bus_id)

    def place(self, function: Function) -> tuple[tuple[str, ...], str | None]:
        """Return the bridges above *function* from the root port down, and its root complex; the latter None if that is unknown."""
        path: list[str] = []
        here = function
        while len(path) <= _DEEPEST:
            above = here.above if here.is_placed else self._bridge_above.get(here.bus)
            if above is None:
                root = here.root if here.is_placed else self._root(here)
                return (tuple(reversed(path)), root) if root is not None else ((), None)
            path.append(above)
            if above not in self.functions:
                break
            here = self.functions[above]
        return (), None

    def _root(self, function: Function) -> str | None:
        is_root = function.port is BridgeKind.ROOT_PORT or function.bus in self.roots
        return f"pci{function.bus}" if is_root else None

    def bridge(self, function: Function) -> Bridge:
        """Return what is known of the bridge *function* and of its link to the device below."""
        first = self._first_on.get(function.bus_below) if function.bus_below else None
        gen, width = (None, None)
        if first is not None and function.port is not BridgeKind.UPSTREAM:
            gen, width = under_load(first, function)
        return Bridge(function.port or BridgeKind.OTHER, gen, width, function.acs_redirect)

    def pcie(self, function: Function) -> Pcie:
        """
        Return the port of *function*.

        Some cards bring a switch of their own, with nothing else below it: their slot is the one above that switch.
        """
        path, root = self.place(function)
        ends = [function, *(self.functions[bus_id] for bus_id in reversed(path))]
        gen, width = under_load(function, self.slot(function))
        for bridge, port in pairwise(ends[1:]):
            if function.vendor != "amd" or bridge.vendor != "amd" or not _is_switch(bridge):
                break
            if bridge.port is BridgeKind.UPSTREAM:
                outer = under_load(bridge, port)
                gen, width = _both(gen, outer[0]), _both(width, outer[1])
        return Pcie(gen, width, function.now[0], function.now[1], path, root)

    def slot(self, function: Function) -> Function | None:
        """Return the bridge right above *function*, if it is known, wherever that hangs from."""
        above = function.above if function.is_placed else self._bridge_above.get(function.bus)
        return self.functions.get(above) if above is not None else None


def under_load(device: Function, port: Function | None) -> tuple[int | None, int | None]:
    """
    Return generation and lanes that the link between *device* and the *port* above it runs at under load.

    A hypervisor's port says nothing about the slot, and one that can do less than the link does right now is no port of it.
    """
    now_gen, now_width = device.now
    if port is None or port.vendor == "virtual" or _exceeds(device.now, port.can):
        # Without the other end the lanes are those that came up, and the speed is known only where it is the highest already.
        gen = now_gen if now_gen is not None and now_gen == device.can[0] else None
        return gen, now_width
    gen = _both(device.can[0], port.can[0])
    width = _both(device.can[1], port.can[1])
    seen = now_width if now_width is not None else port.now[1]
    return gen, seen if width is None or (seen is not None and seen < width) else width


def narrow(device: Function, port: Function | None) -> tuple[int, int] | None:
    """Return the lanes that came up between *device* and *port* and those that both can have, if that is more."""
    can = _both(device.can[1], port.can[1]) if port is not None and port.vendor != "virtual" else None
    now = device.now[1]
    return (now, can) if can is not None and now is not None and now < can else None


def settled(port: Pcie) -> Pcie:
    """
    Return *port*, of which the ends are not known, with the lanes that came up where those are fewer than it can have, or alone known.

    An idle link lowers its speed, never its lanes.
    """
    now = port.current_width
    return port if now is None or (port.width is not None and port.width <= now) else dataclasses.replace(port, width=now)


def too_narrow(port: Pcie, gpus: str) -> str | None:
    """Return a warning that names *gpus* if fewer lanes of their *port* came up than it can have."""
    if port.width is None or port.current_width is None or port.width <= port.current_width:
        return None
    return (
        f"only {port.current_width} of the {port.width} PCIe lanes of {gpus} came up: the slot has no more, or card or riser sit badly"
    )


def settled_gpus(gpus: Iterable[Gpu]) -> tuple[tuple[Gpu, ...], list[str]]:
    """Return *gpus* with `settled` ports, and a warning for those of which lanes did not come up."""
    found: list[Gpu] = []
    few: dict[Pcie, list[int]] = {}
    for gpu in gpus:
        found.append(gpu if gpu.pcie is None else gpu.replace(pcie=settled(gpu.pcie)))
        if gpu.pcie is not None:
            few.setdefault(Pcie(width=gpu.pcie.width, current_width=gpu.pcie.current_width), []).append(gpu.index)
    names = {port: listing([f"GPU {index}" for index in indices]) for port, indices in few.items()}
    return tuple(found), [said for port, shown in names.items() if (said := too_narrow(port, shown)) is not None]


def _is_switch(function: Function) -> bool:
    return function.port in (BridgeKind.UPSTREAM, BridgeKind.DOWNSTREAM)


def _exceeds(now: tuple[int | None, int | None], can: tuple[int | None, int | None]) -> bool:
    return any(a is not None and b is not None and a > b for a, b in zip(now, can, strict=True))


def _both(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else min(a, b)
