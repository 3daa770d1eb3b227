"""
What holds for whatever bytes are read as a machine: for tests with examples, with hypothesis, and for the fuzzer.

`holds` raises AssertionError, or whatever the reader raised that it must not raise.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

from topologies.clusters.by_host import by_host
from topologies.documents.document import to_document
from topologies.documents.document_read import from_document
from topologies.domains import Level, domains, islands
from topologies.errors import TopologyError
from topologies.model import Topology
from topologies.networks.network_read import read_network
from topologies.parts import Network
from topologies.plain.parts import from_plain, to_plain
from topologies.read import read_bytes
from topologies.wiring import wiring

DATA = Path(__file__).parent.parent / "data"
HOSTS = tuple(f"node{number}" for number in range(8))
"""Those of the networks."""

MOST_CPU_S = 30
"""No test of speed (the benchmarks are): what takes longer hangs."""

MOST_DERIVED = 64
"""GPUs up to which everything that is derived from a machine is derived, too."""


def seeds() -> list[bytes]:
    """Return the collected texts of all formats."""
    return [
        path.read_bytes()
        for folder in (DATA / "topology", DATA / "sources")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix not in {".json", ".md"}
    ]


def found() -> list[bytes]:
    """Return inputs that the fuzzer kept because each reached something new."""
    with zipfile.ZipFile(Path(__file__).parent / "fuzz" / "seeds.zip") as archive:
        return [archive.read(name) for name in sorted(archive.namelist())]


def holds(data: bytes) -> bool:
    """Return whether *data* is read; check that a refusal is one line that names the source, and a reading survives writing."""
    try:
        topology = read_bytes(data, name="x")
    except TopologyError as error:
        message = str(error)
        assert message.startswith("x"), message
        assert "\n" not in message, message
        assert len(message) < 2000, message
        message.encode()
        return False
    same_when_written(topology)
    if len(topology.gpus) <= MOST_DERIVED:
        wiring(topology)
        for level in Level:
            assert sorted(g for members in domains(topology, level) for g in members) == list(range(len(topology.gpus)))
    return True


def holds_for_networks(data: bytes) -> bool:
    """Return whether *data* is read as a network of some hosts; check refusals."""
    text = data.decode("utf-8", errors="replace")
    try:
        network, warnings = read_network(text, HOSTS, name="x")
    except TopologyError as error:
        assert "\n" not in str(error), str(error)
        str(error).encode()
        return False
    assert from_plain(Network, to_plain(network), "x") == network
    assert all(host in HOSTS for domain in network.domains for host in domain.hosts)
    assert all(warning.strip() and "\n" not in warning for warning in warnings)
    return True


def holds_for_hosts(data: bytes) -> bool:
    """Return whether *data* is a text of several hosts; check that cutting it apart adds nothing."""
    text = data.decode("utf-8", errors="replace")
    parts = by_host(text)
    for name, part in parts.items():
        assert name.strip()
        assert len(part) <= len(text) + 1
    return bool(parts)


def same_when_written(topology: Topology) -> None:
    """Check that the document of *topology* reads back as the same, in memory and as text."""
    document = to_document(topology, islands=islands(topology) if len(topology.gpus) <= MOST_DERIVED else None)
    assert from_document(document) == topology
    assert read_bytes(json.dumps(document, ensure_ascii=False).encode(), name="y") == topology
    for warning in topology.warnings:
        assert warning.strip(), "an empty warning"
        assert "\n" not in warning, warning
