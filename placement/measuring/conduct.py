"""
What is asked of the processes that measure, in which order, and what their answers say of the machine.

A measurement that fails or hangs leaves one figure unknown, with a warning: the processes are ended, and others take up what is
left.

When to modify: something else is measured.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from placement.errors import InputError, MachineError
from placement.machines.machine import id_ranges
from placement.measuring.crew import Crew, Failed, worker_command
from placement.measuring.settings import JOIN_S, MEASURE_S, Settings, spread
from topologies.domains import islands
from topologies.errors import TopologyError
from topologies.measurements import AllReduce, AtSize, Copy, Device, Measured, OfGpu, Spread
from topologies.model import Topology

MOST_FAILURES = 3
"""Copies that may fail before the others are not tried: each may have to wait for its end."""

_LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"

Answers = Mapping[int, Mapping[str, Any]]


class Conductor:
    """
    Measures the GPUs of one host.

    Parameters
    ----------
    topology
        The machine.
    gpus
        Its GPUs that are measured; process and device k are of the k-th.
    device
        What they are.
    chosen
        Sizes and repetitions.
    say
        Takes what is going on, again and again.
    """

    def __init__(
        self, topology: Topology, gpus: Sequence[int], device: Device, chosen: Settings, *, say: Callable[[str], None]
    ) -> None:
        self._topology, self._gpus, self._device, self._chosen, self._say = topology, tuple(gpus), device, chosen, say
        self._repeat = {"runs": chosen.runs, "least_s": chosen.least_s}
        self._crew: Crew | None = None
        self._is_joined = False
        self._by: tuple[str, ...] = ()
        self.warnings: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._crew is not None:
            self._crew.close()

    def measure(self) -> Measured:
        """
        Return what could be measured; `warnings` say what could not.

        Raises
        ------
        InputError
            If torch does not work here, or sees other GPUs than the driver.
        MachineError
            If nothing could be measured.
        """
        self._say(f"starting {len(self._gpus)} processes")
        try:
            self._open()
        except Failed as error:
            raise InputError(f"placement measure: torch does not start ({error})") from None
        gpus = tuple(self._of_gpus())
        copies = tuple(self._copies())
        all_reduce = tuple(self._all_reduces())
        if not any(of.matmul_tflops or of.memory_gb_per_s for of in gpus) and not copies and not all_reduce:
            raise MachineError(f"nothing could be measured: {'; '.join(self.warnings)}")
        return Measured(self._device, self._by, gpus, copies, all_reduce)

    def _open(self) -> Crew:
        """Return processes that answer, new ones where the last ones are gone."""
        if self._crew is not None and self._crew.is_open:
            return self._crew
        self._is_joined = False
        self._crew = Crew(worker_command(self._device.value, len(self._gpus)), len(self._gpus), _environment(self._topology, self._gpus))
        self._crew.__enter__()
        said = self._crew.ask({"do": "hello"}, within_s=JOIN_S)[0]
        self._by = tuple(said["by"])
        if self._device is Device.CUDA:
            self._check(said)
        return self._crew

    def _check(self, said: Mapping[str, Any]) -> None:
        """Refuse a torch that sees no GPUs, or others than ours."""
        if "refuses" in said:
            raise InputError(f"{said['refuses']}: install a build for the driver of this host (https://pytorch.org/get-started)")
        if len(said["gpus"]) != len(self._gpus):
            raise InputError(
                f"torch sees {len(said['gpus'])} GPUs where the driver has {len(self._gpus)} that may be used: a container or "
                "CUDA_VISIBLE_DEVICES hides some; name those that are there in CUDA_VISIBLE_DEVICES"
            )

    def _ask(self, question: Mapping[str, Any], *, ranks: Sequence[int] | None = None, is_joint: bool = False) -> Answers:
        try:
            crew = self._open()
        except InputError as error:     # it worked before: a GPU was lost
            raise Failed(str(error)) from None
        if is_joint and not self._is_joined:
            port = crew.ask({"do": "store"}, within_s=JOIN_S, ranks=[0])[0]["port"]
            crew.ask({"do": "join", "port": port}, within_s=JOIN_S)
            self._is_joined = True
        # The first collective of a group also connects its members.
        return crew.ask({**self._repeat, **question}, within_s=JOIN_S if is_joint else MEASURE_S, ranks=ranks)

    def _of_gpus(self) -> Iterator[OfGpu]:
        """Yield what each GPU does alone; all do it at once, as they do in a job, which heats them all."""
        n, size, steady = self._chosen.matmul_n, self._chosen.memory_bytes, {"least_s": self._chosen.steady_s}
        tflops = self._of_each("matrix products", {"do": "matmul", "n": n, **steady})
        memory = self._of_each("memory bandwidth", {"do": "memory", "bytes": size, **steady})
        for k, gpu in enumerate(self._gpus):
            if k in tflops or k in memory:
                yield OfGpu(gpu, tflops.get(k), memory.get(k))

    def _of_each(self, what: str, question: Mapping[str, Any]) -> dict[int, Spread]:
        self._say(what)
        try:
            return {rank: spread(answer["samples"]) for rank, answer in self._ask(question).items()}
        except (Failed, TopologyError, ValueError) as error:
            self._unknown(what, error)
            return {}

    def _copies(self) -> Iterator[Copy]:
        pairs = list(itertools.permutations(range(len(self._gpus)), 2))
        failed = 0
        for number, (a, b) in enumerate(pairs):
            self._say(f"copies, {number + 1} of {len(pairs)}")
            source, target = self._gpus[a], self._gpus[b]
            question = {"do": "copy", "source": a, "target": b, "bytes": self._chosen.copy_bytes}
            try:
                yield Copy(source, target, spread(self._ask(question, ranks=[0])[0]["samples"]))
            except (Failed, TopologyError, ValueError) as error:
                self._unknown(f"copies from GPU {source} to GPU {target}", error)
                failed += 1
                if failed == MOST_FAILURES:
                    self.warnings.append(f"copies are not tried after that from GPU {source} to GPU {target}: too many failed")
                    return

    def _all_reduces(self) -> Iterator[AllReduce]:
        for members in groups(self._topology, self._gpus):
            name = f"all-reduces of GPUs {id_ranges(members)}"
            self._say(name)
            ranks = [self._gpus.index(g) for g in members]
            sizes = self._chosen.all_reduce_bytes
            try:
                answers = self._ask({"do": "all_reduce", "group": ranks, "sizes": sizes}, is_joint=True)
                yield AllReduce(members, tuple(AtSize(size, _slowest(answers, ranks, k)) for k, size in enumerate(sizes)))
            except (Failed, TopologyError, ValueError) as error:
                self._unknown(name, error)

    def _unknown(self, what: str, error: Exception) -> None:
        self.warnings.append(f"{what} could not be measured and stay unknown ({error})")


def _slowest(answers: Answers, ranks: Sequence[int], size: int) -> Spread:
    """Return what the member saw that saw least: a collective is over when it is over for all."""
    return min((spread(answers[rank]["samples"][size]) for rank in ranks), key=lambda found: found.median)


def groups(topology: Topology, gpus: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return whose all-reduces are measured: of the *gpus* of each island, and of all of them, which goes across islands."""
    found = [tuple(g for g in island if g in gpus) for island in islands(topology)]
    return tuple(dict.fromkeys(members for members in (*found, tuple(sorted(gpus))) if len(members) > 1))


def _environment(topology: Topology, gpus: Sequence[int]) -> dict[str, str]:
    """Return the environment of the processes: device k of torch is the k-th of *gpus*, also where CUDA would count otherwise."""
    uuids = [topology.gpus[g].uuid for g in gpus]
    ids = [uuid for uuid in uuids if uuid is not None]
    ids = ids if len(ids) == len(uuids) else [str(g) for g in gpus]
    ours = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(ids), "GLOO_SOCKET_IFNAME": _LOOPBACK}
    return {**os.environ, **ours, "PYTHONPATH": os.pathsep.join(_paths())}


def _paths() -> list[str]:
    """Return where the processes find our code, wherever they are started."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return [root, *filter(None, [os.environ.get("PYTHONPATH")])]
