"""
NVLink fabrics that span hosts, told from what each GPU says about its own.

When to modify: another fact tells which GPUs share a fabric.
"""

from __future__ import annotations

from collections.abc import Sequence

from topologies.model import Gpu
from topologies.networks.hosts import natural
from topologies.pages.reading import listing
from topologies.parts import Fabric, NetworkDomain

KIND = "nvlink"


def fabric_domains(gpus: Sequence[Gpu]) -> tuple[tuple[NetworkDomain, ...], tuple[str, ...]]:
    """
    Return the NVLink domains of several hosts that *gpus* state, and a warning for what cannot be one.

    A domain is called after its cluster and clique, as the GPU operator of Kubernetes calls it (``UUID.CLIQUE``).
    """
    of_host: dict[str, set[str | None]] = {}
    for gpu in gpus:
        if gpu.host is not None:
            of_host.setdefault(gpu.host, set()).add(_name(gpu.fabric))
    members: dict[str, list[str]] = {}
    for host, names in of_host.items():
        for name in names - {None}:
            members.setdefault(str(name), []).append(host)
    split = [host for host, names in of_host.items() if len(names) > 1 and any(len(members[n]) > 1 for n in names if n)]
    domains = tuple(
        NetworkDomain(name, KIND, tuple(kept))
        for name in sorted(members, key=natural)
        if len(kept := [host for host in members[name] if host not in split]) > 1
    )
    if not split:
        return domains, ()
    named = listing(sorted(split, key=natural))
    return domains, (f"not all GPUs of {named} are in one NVLink fabric: these hosts were put in no NVLink domain",)


def _name(fabric: Fabric | None) -> str | None:
    """Return the name of *fabric*; None when it is unknown, which is never "the same"."""
    if fabric is None or fabric.cluster_uuid is None or fabric.clique_id is None:
        return None
    is_zero = not fabric.cluster_uuid.replace("-", "").strip("0")
    return None if is_zero or (fabric.state or "").lower() != "completed" else f"{fabric.cluster_uuid.lower()}.{fabric.clique_id}"
