"""
The machine of every node of a running Ray cluster: the probe runs once on each, and Ray's node ids are kept.

When to modify: Ray offers another way to run something on a given node, or a node tells more about itself.
"""

from __future__ import annotations

import dataclasses
import os
import re
import socket
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from placement.errors import InputError, MachineError
from topologies import sources
from topologies.documents import document_read
from topologies.documents.document import error_document, to_document
from topologies.errors import TopologyError
from topologies.model import Topology
from topologies.parts import Host

VARIABLE = "PLACEMENT_PROBE"
"""Names what a node reads in place of what the command says: set it where a node starts."""

INSTALL = "pip install 'ray>=2.44' (or, in a clone of the project, pip install -c constraints.txt '.[ray]')"

TIMEOUT_S = 120.0

CONNECT_S = 10.0

_ADDRESS = re.compile(r"(?:ray://)?(?P<host>[^/:]+|\[[0-9a-fA-F:]+\]):(?P<port>[0-9]{1,6})")

_PACKAGES = ("placement", "topologies")


def probe(source: str) -> dict[str, Any]:
    """Return the document of this node's machine, or of the error; runs on the node."""
    try:
        return to_document(sources.load(os.environ.get(VARIABLE) or source))
    except TopologyError as error:
        return error_document(str(error))


def probe_cluster(address: str, source: str = sources.LIVE) -> tuple[dict[str, Topology], tuple[str, ...]]:
    """
    Return the machine of each node of the Ray cluster at *address* by host name, and warnings about nodes that are left out.

    Parameters
    ----------
    address
        As Ray takes it: ``auto``, ``HOST:PORT``, ``ray://HOST:PORT``.
    source
        What each node reads: ``live``, or a file that it has.

    Raises
    ------
    InputError
        If Ray is not installed, the cluster does not answer, or no node has a GPU that can be read.
    """
    try:
        import ray
    except ImportError:
        raise InputError(f"--ray needs the package ray, which is not installed: {INSTALL}") from None
    refuse_deaf(address, "--ray")
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", configure_logging=False, runtime_env=_our_code())
    except (Exception, SystemExit) as error:  # Ray raises many kinds, some of them plain
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"--ray: no Ray cluster answers at {address} ({reason}){token_hint()}") from None
    try:
        nodes = [node for node in ray.nodes() if node.get("Alive")]
        answers = _answers(ray, nodes, source)
    finally:
        ray.shutdown()
    machines, warnings = _read(nodes, answers)
    if not machines:
        raise MachineError(f"no node of the Ray cluster at {address} has GPUs that can be read: {'; '.join(warnings) or 'it has no node'}")
    return machines, warnings


def token_hint() -> str:
    """Return what to do where a cluster asks for a token: Ray looks for one by itself only where it is not given an address."""
    if os.environ.get("RAY_AUTH_MODE") or not (Path.home() / ".ray" / "auth_token").exists():
        return ""
    return "; there is a token of Ray here (~/.ray/auth_token), and a cluster that asks for it needs RAY_AUTH_MODE=token"


def refuse_deaf(address: str, said_by: str) -> None:
    """
    Refuse an address at which nothing listens: Ray would try it for a minute, and then print a trace.

    Raises
    ------
    InputError
        If nothing listens there; *said_by* is what gave the address.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None:
        return
    try:
        socket.create_connection((match["host"].strip("[]"), int(match["port"])), timeout=CONNECT_S).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{said_by}: no Ray cluster answers at {address} ({reason})") from None


def _our_code() -> dict[str, Any]:
    """Return what Ray brings to each node so that the probe runs there as it is here."""
    root = Path(__file__).resolve().parents[2]
    return {"py_modules": [str(root / name) for name in _PACKAGES], "config": {"setup_timeout_seconds": int(TIMEOUT_S)}}


def _answers(ray: Any, nodes: Iterable[Mapping[str, Any]], source: str) -> dict[str, dict[str, Any]]:
    """Return what the probe answers on each node, by node id; all at once, and none waited for longer than `TIMEOUT_S`."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    # No CPU is asked for: a node that is busy answers all the same.
    task = ray.remote(num_cpus=0, num_gpus=0, max_retries=0)(probe)
    asked = {
        task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(source): node["NodeID"]
        for node in nodes
    }
    ready, late = ray.wait([*asked], num_returns=len(asked), timeout=TIMEOUT_S) if asked else ([], [])
    answers = {asked[reference]: error_document(f"no answer within {TIMEOUT_S:g} s") for reference in late}
    for reference in ready:
        try:
            answers[asked[reference]] = ray.get(reference)
        except Exception as error:  # whatever a node lacks or does: the others count
            reason = str(error).strip().splitlines()[-1:] or [type(error).__name__]
            answers[asked[reference]] = error_document(reason[0][:300])
    return answers


def _read(
    nodes: Iterable[Mapping[str, Any]], answers: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, Topology], tuple[str, ...]]:
    machines: dict[str, Topology] = {}
    warnings: list[str] = []
    for node, name in _names(nodes):
        answer = answers[node["NodeID"]]
        if answer.get("status") == "error":
            warnings.append(f"the node {name} was left out: {answer.get('error')}")
            continue
        machine = document_read.from_document(answer, name=f"node {name}")
        offered = int(node.get("Resources", {}).get("GPU", 0))
        if offered != len(machine.gpus):
            warnings.append(f"the node {name} has {len(machine.gpus)} GPUs, of which Ray offers {offered}")
        facts = machine.host_facts.get(None, Host())
        own = {None: dataclasses.replace(facts, ray_node_id=node["NodeID"])}
        machines[name] = machine.replace(host_facts=own) if machine.hosts == (None,) else machine
    return machines, tuple(warnings)


def _names(nodes: Iterable[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], str]]:
    """Return the nodes with what to call each: its host name, or where several share that, the name that it has in Ray."""
    listed = sorted(nodes, key=lambda node: (str(node.get("NodeName")), str(node["NodeID"])))
    shared = Counter(node["NodeManagerHostname"] for node in listed)
    names = [str(node["NodeName"] if shared[node["NodeManagerHostname"]] > 1 else node["NodeManagerHostname"]) for node in listed]
    again = Counter(names)
    return [
        (node, name if again[name] == 1 else f"{name}-{node['NodeID'][:8]}") for node, name in zip(listed, names, strict=True)
    ]
