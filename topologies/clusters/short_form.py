"""
A cluster in a few words: ``dgx-h100 x 16 @ 8x50GB/s`` is sixteen of a shipped machine, eight NICs each, 50 GB/s a NIC.

When to modify: the words say more about a network.
"""

from __future__ import annotations

import re

from topologies.catalog import machine_names, machine_text
from topologies.clusters.collect import collect
from topologies.errors import TopologyError
from topologies.model import Topology
from topologies.networks.doubts import doubts
from topologies.networks.hosts import MOST_HOSTS
from topologies.networks.network import check_numbers
from topologies.parts import Network
from topologies.read import read_text

EXAMPLE = "dgx-h100 x 16 @ 8x50GB/s"

_FORM = re.compile(
    r"\s*(?P<machine>[A-Za-z0-9][\w.-]*?)\s*(?:\s[xX×*]|[×*])\s*(?P<count>[0-9]{1,9})\s*"
    r"(?:@\s*(?P<rails>[0-9]{1,4})\s*[xX×*]\s*(?P<rate>[0-9]{1,6}(?:\.[0-9]{1,6})?)\s*(?P<unit>[A-Za-z/]{1,12})\s*)?"
)
_ATTEMPT = re.compile(
    r"\s*(?:[A-Za-z0-9][\w.-]*\s*(?:\s[xX×*]\s*[0-9]|[×*]\s*[0-9]|@)|[0-9]{1,9}\s*(?:[xX×*]\s|[×*])\s*[A-Za-z]).*", re.DOTALL
)
_OF_A_FILE = re.compile(r"(?P<file>\S.*?)\s+[xX×*]\s*[0-9]{1,9}\s*(?:@.*)?", re.DOTALL)
_FILE = re.compile(r"/|\.(?:txt|ya?ml|json|csv|xml|log|out)$|^-$|^live$")
_LONGEST = 200
_UNITS = {"GB/s": 1.0, "GBps": 1.0, "Gb/s": 1 / 8, "Gbit/s": 1 / 8, "Gbps": 1 / 8, "Gbits/s": 1 / 8}
"""Units in GB/s; the case of the B tells bytes from bits."""


def looks_like(source: str) -> bool:
    """Whether *source* is meant as a cluster in a few words."""
    return len(source) < _LONGEST and _ATTEMPT.fullmatch(source) is not None


def refuse_file(source: str) -> None:
    """
    Refuse a cluster in a few words whose machine is a file: ``node0.txt x 4``.

    Raises
    ------
    TopologyError
        If *source* is one.
    """
    if len(source) < _LONGEST and (match := _OF_A_FILE.fullmatch(source)) is not None and _FILE.search(match["file"]):
        raise TopologyError(
            f"{source!r}: a cluster in a few words is of a shipped machine (`placement catalog machines`), and {match['file']!r} is none; "
            "`placement collect` makes a cluster of files"
        )


def no_file(source: str) -> str | None:
    """Return what *source*, which is no file, names instead, and how that is given; None if it names nothing."""
    if looks_like(source):
        return f"{source!r} is a cluster in a few words, and whole as it is: placement topology {source!r}"
    if source in machine_names():
        return f"{source!r} is a shipped machine, and no output of a host: '{source} x 4' is a cluster of four of them for --topology"
    if source == "live":
        return (
            "live is this host alone: save `placement topology live --yaml` on each host as HOST.yaml and give these, or ask a Ray cluster "
            "with --ray"
        )
    return None


def read(source: str) -> Topology:
    """
    Return the cluster that *source* describes: hosts ``host0``, ``host1`` …

    Raises
    ------
    TopologyError
        If the words cannot be read, the machine is not shipped, or there are no or too many hosts.
    """
    match = _FORM.fullmatch(source)
    if match is None or (match["unit"] is not None and match["unit"] not in _UNITS):
        raise TopologyError(
            f"{source!r} is no cluster in a few words: write it as '{EXAMPLE}' (machine x hosts @ NICs a host x speed of a NIC; 400Gb/s "
            "are 50GB/s)"
        )
    count = int(match["count"])
    if not 1 <= count <= MOST_HOSTS:
        raise TopologyError(f"{source!r} has {count:,} hosts: it takes 1 to {MOST_HOSTS:,}")
    machine = read_text(machine_text(match["machine"]), name=match["machine"])
    if match["rails"] is None:
        warning = f"nothing is known of the network between the hosts: add it as in '{EXAMPLE}'"
        return collect({f"host{k}": machine for k in range(count)}, warnings=[warning] if count > 1 else [])
    rails, gb_per_s = int(match["rails"]), float(match["rate"]) * _UNITS[str(match["unit"])]
    if not rails or not gb_per_s:
        raise TopologyError(f"{source!r} has a network that carries nothing: leave out what begins with @ if it is unknown")
    network = Network(rails, gb_per_s)
    check_numbers(network, repr(source))
    found = collect({f"host{k}": machine for k in range(count)}).replace(network=network)
    return found.replace(warnings=(*found.warnings, *doubts(found)))
