"""
`placement collect`: one topology file out of many hosts.

When to modify: what the command takes or says.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from placement.cli.say import note
from placement.cli.table import counted
from placement.drawing.network import rail_words
from placement.errors import InputError, MachineError
from placement.text.output import json_text, refuse_unwritable, write_file, write_stdout
from placement.text.yaml_writer import dump
from topologies.clusters.collect import collect
from topologies.clusters.host_files import read_hosts
from topologies.documents.document import to_document
from topologies.domains import islands
from topologies.errors import TopologyError
from topologies.files import read_source
from topologies.model import Topology
from topologies.networks.doubts import doubts
from topologies.networks.fabric import KIND
from topologies.networks.network import join
from topologies.networks.network_read import read_network
from topologies.pages.text import decode
from topologies.parts import Network

WIDE = ("gpus", "hosts")
"""Lists of the document with one entry a line, however long: a cluster has thousands."""


def run(
    sources: Sequence[str],
    *,
    networks: Sequence[str],
    ray: str | None,
    probe: str,
    keep_going: bool,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> int:
    """Read all hosts and write one document; return the exit code."""
    if bool(sources) == (ray is not None):
        raise InputError("give the hosts as files or folders, or --ray ADDRESS, one of the two: placement collect node0.txt node1.txt")
    if output is not None:
        refuse_unwritable(output, force=force)
    try:
        topology = _collected(sources, networks, ray, probe, keep_going=keep_going)
    except TopologyError as error:
        if isinstance(error, InputError):
            raise
        raise MachineError(str(error)) from None
    document = to_document(topology, islands=islands(topology))
    text = json_text(document) if as_json else dump(document, wide=WIDE)
    for warning in topology.warnings:
        note(f"warning: {warning}")
    note(summary(topology))
    if output is None:
        write_stdout(text)
    else:
        write_file(output, text, force=force)
    return 0


def _collected(sources: Sequence[str], networks: Sequence[str], ray: str | None, probe: str, *, keep_going: bool) -> Topology:
    if ray is not None:
        from placement.machines.ray_probe import probe_cluster

        machines, warnings = probe_cluster(ray, probe)
    else:
        stdin = sys.stdin.buffer if sys.stdin is not None else None
        machines, warnings = read_hosts(sources, leave_out=networks, keep_going=keep_going, stdin=stdin, say=note)
    if networks and sum(machine.network is not None for machine in machines.values()) > 1:
        machines = {name: machine.replace(network=None) for name, machine in machines.items()}
    topology = collect(machines, warnings=warnings)
    if not networks:
        return topology
    hosts = [host for host in topology.hosts if host is not None]
    stated = [read_network(decode(read_source(path), name=path), hosts, name=path) for path in networks]
    further = [] if topology.network is None else [topology.network]
    if any(domain.kind == KIND for network, _ in stated for domain in network.domains):
        # What somebody says of NVLink domains goes before what the GPUs say of their fabric.
        further = [Network(n.rails, n.gb_per_s, tuple(d for d in n.domains if d.kind != KIND)) for n in further]
    said = [warning for _, found in stated for warning in found]
    joined = topology.replace(network=join([*(network for network, _ in stated), *further]))
    # What somebody wrote into the files before may be right with the network as it is now, and the other way round.
    kept = [warning for warning in topology.warnings if warning not in doubts(topology)]
    return joined.replace(warnings=tuple(dict.fromkeys((*kept, *said, *doubts(joined)))))


def summary(topology: Topology) -> str:
    """Return what was collected, in one line."""
    network = topology.network
    if network is None:
        joined = "the network between them is unknown (--network FILE)" if len(topology.hosts) > 1 else "no network"
    else:
        rails = rail_words(network) or "rails not stated"
        joined = f"{rails}, {counted(len(network.domains), 'network domain')}"
    return f"{counted(len(topology.hosts), 'host')}, {counted(len(topology.gpus), 'GPU')}; {joined}"
