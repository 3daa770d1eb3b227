"""
`placement measure`: what this host's GPUs do, measured, written into a topology file.

When to modify: what the command takes or says.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from placement.cli.measured import measured_lines
from placement.cli.say import Status, note
from placement.errors import InputError, MachineError
from placement.machines.sources import LIVE, Found, read_machine, visible_gpus
from placement.measuring.conduct import Conductor
from placement.measuring.occupied import occupied
from placement.measuring.settings import settings
from placement.text.output import json_text, refuse_unwritable, write_file, write_stdout
from placement.text.yaml_writer import dump
from topologies.documents.document import to_document
from topologies.domains import islands
from topologies.measured import doubts
from topologies.measurements import Device
from topologies.merging.merge import merge
from topologies.model import Gpu, Topology

INSTALL = "pip install 'torch>=2.6' (or, in a clone of the project, pip install -c constraints.txt '.[torch]')"

MOST_PROCESSES = 64
_DEFAULT_PROCESSES = 2


def run(
    source: str | None,
    *,
    device: str,
    processes: int | None,
    quick: bool,
    busy: bool,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> int:
    """Measure and write one document; return the exit code."""
    kind = Device(device)
    if processes is not None and kind is Device.CUDA:
        raise InputError("--processes is for --device cpu: on GPUs there is one for each")
    if output is not None:
        refuse_unwritable(output, force=force)
    if importlib.util.find_spec("torch") is None:
        raise InputError(f"placement measure needs the package torch, which is not installed: {INSTALL}")
    topology, gpus = _rehearsed(source, processes) if kind is Device.CPU else _live(source)
    if kind is Device.CUDA and not busy and (users := [*occupied(topology, gpus)]):
        raise MachineError(
            f"other processes use what should be measured: {'; '.join(users)}. Wait for them, leave those GPUs out "
            "(CUDA_VISIBLE_DEVICES), or measure all the same (--busy): the numbers will be too low, and the others slower meanwhile"
        )
    with Status("measuring: ") as status, Conductor(topology, gpus, kind, settings(kind, quick=quick), say=status.show) as conductor:
        measured = conductor.measure()
    found = topology.replace(measured=measured)
    warnings = (*conductor.warnings, *(warning for warning in doubts(found) if warning not in topology.warnings))
    found = found.replace(warnings=(*topology.warnings, *warnings))
    for warning in warnings:
        note(f"warning: {warning}")
    for line in measured_lines(found):
        note(line)
    document = to_document(found, islands=islands(found))
    text = json_text(document) if as_json else dump(document)
    if output is None:
        write_stdout(text)
    else:
        write_file(output, text, force=force)
        note(f"written to {output}")
    return 0


def _live(source: str | None) -> tuple[Topology, tuple[int, ...]]:
    """Return this host's machine, with what *source* knows of it, and those of its GPUs that can be measured."""
    try:
        topology = read_machine(LIVE)
    except MachineError as error:
        reason = str(error).partition("; for another host")[0]
        raise MachineError(f"{reason}: only GPUs of this host can be measured (--device cpu rehearses without any)") from None
    visible = visible_gpus(None, Found(topology, is_live=True))
    if source is not None and source != LIVE:
        # What was measured before is measured anew.
        topology = merge([topology, read_machine(source).replace(measured=None)], names=["this host", source])
    gpus = tuple(gpu.index for gpu in topology.gpus if _can_be_measured(gpu) and (visible is None or gpu.index in visible))
    if not gpus:
        raise MachineError("no GPU of this host can be measured: all are hidden, in MIG mode, or do not answer")
    return topology, gpus


def _can_be_measured(gpu: Gpu) -> bool:
    return gpu.is_named and not (gpu.mig is not None and gpu.mig.enabled)


def _rehearsed(source: str | None, processes: int | None) -> tuple[Topology, Sequence[int]]:
    """Return the machine that is rehearsed: that of *source*, or one of which only the number of GPUs is known."""
    if source is None:
        count = processes or _DEFAULT_PROCESSES
        return Topology(tuple(Gpu(k) for k in range(count)), format="cpu-rehearsal"), range(count)
    topology = read_machine(source).replace(measured=None)
    count = len(topology.gpus)
    if processes is not None and processes != count:
        raise InputError(f"--processes is {processes}, but {source} has {count} GPUs: leave out --processes")
    if count > MOST_PROCESSES or len(topology.hosts) > 1:
        raise InputError(f"{source} has {count} GPUs on {len(topology.hosts)} hosts; a rehearsal takes up to {MOST_PROCESSES} on one host")
    return topology, range(count)
