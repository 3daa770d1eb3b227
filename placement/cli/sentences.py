"""
What a topology states besides links, in sentences: hosts, network, fabric.

When to modify: a new fact that people should see and that is no column of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from placement.cli.facts import as_range, gpu_words
from placement.cli.table import counted
from placement.drawing.network import domain_title, rail_words
from placement.drawing.shapes import printable
from placement.machines.hosts import HostGroup, name_list
from topologies.model import Gpu, Topology
from topologies.parts import BridgeKind, Host, NetworkDomain

_MOST_DOMAINS = 24


def fabrics(topology: Topology) -> Iterator[str]:
    """Yield the NVLink fabrics that GPUs are in."""
    groups: dict[tuple[object, ...], list[Gpu]] = {}
    for gpu in topology.gpus:
        if gpu.fabric is not None:
            key = (gpu.fabric.cluster_uuid, gpu.fabric.clique_id, gpu.fabric.state)
            groups.setdefault(key, []).append(gpu)
    is_cluster = len(topology.hosts) > 1
    for (cluster, clique, state), gpus in groups.items():
        words = [f"cluster {printable(str(cluster))}"] if cluster else []
        words += [f"clique {clique}"] if clique is not None else []
        words += [f"state {printable(str(state))}"] if state else []
        hosts = dict.fromkeys(gpu.host for gpu in gpus)
        where = f"{counted(len(gpus), 'GPU')} of {printable(name_list(hosts))}" if is_cluster else ""
        yield f"NVLink fabric: {', '.join(words) or 'stated'}: {where or gpu_words([g.index for g in gpus])}"


def host_facts(topology: Topology, group: HostGroup) -> str | None:
    """Return what is known of the hosts of *group* beside their GPUs."""
    known = [topology.host_facts[host] for host in group.hosts if host in topology.host_facts]

    def each(words: Callable[[Host], str | None]) -> list[str]:
        return list(dict.fromkeys(found for host in known if (found := words(host))))

    memory = [round(host.memory_mib / 1024) for host in known if host.memory_mib is not None]
    facts = [f"{as_range(memory)} GiB of memory"] if memory else []
    cpus = [host.cpus for host in known if host.cpus is not None]
    facts += [f"{as_range(cpus)} CPUs"] if cpus else []
    facts += [f"driver {' or '.join(drivers)}"] if (drivers := each(lambda h: h.driver)) else []
    facts += [f"CUDA {' or '.join(versions)}"] if (versions := each(lambda h: h.cuda)) else []
    facts += [f"IOMMU {' or '.join(modes)}"] if (modes := each(lambda h: h.iommu)) else []
    facts += [acs] if (acs := _acs(known)) else []
    label = "each host" if len(group.hosts) > 1 else "host"
    return printable(f"{label}: {', '.join(facts)}") if facts else None


def _acs(hosts: Sequence[Host]) -> str | None:
    """Return at how many bridges ACS redirects; that it is off, too, where that was read. A port up to the processor has none."""
    bridges = [bridge for host in hosts for bridge in host.bridges.values()]
    count = sum(bridge.acs_redirect is True for bridge in bridges)
    if count:
        return f"ACS redirects peer-to-peer traffic at {count} of {len(bridges)} PCIe bridges"
    able = [bridge for bridge in bridges if bridge.kind is not BridgeKind.UPSTREAM or bridge.acs_redirect is not None]
    off = sum(bridge.acs_redirect is False for bridge in able)
    bridges_off = counted(off, "PCIe bridge")
    where = f"all {bridges_off}" if off == len(able) else f"{bridges_off} of {len(able)}, not stated of the others"
    return f"ACS off at {where}" if off else None


def network(topology: Topology) -> Iterator[str]:
    """Yield what joins the hosts: NICs first, then each domain below the one it is within."""
    net = topology.network
    if net is None:
        if len(topology.hosts) > 1:
            yield "network: not stated (`placement collect --network FILE` joins it)"
        return
    yield f"network: {rail_words(net) or 'rails and their speed are not stated'}"
    depth: dict[str, int] = {}
    for number, domain in enumerate(net.domains):
        depth[domain.name] = 1 + depth.get(domain.within or "", 0)
        if number < _MOST_DOMAINS:
            yield "  " * min(depth[domain.name], 8) + _domain(domain)
    if len(net.domains) > _MOST_DOMAINS:
        yield f"  and {len(net.domains) - _MOST_DOMAINS} more, which --json lists"


def _domain(domain: NetworkDomain) -> str:
    uplinks = f", uplinks {domain.gb_per_s:g} GB/s" if domain.gb_per_s is not None else ""
    hosts = f"{counted(len(domain.hosts), 'host')}, {name_list(domain.hosts)}" if domain.hosts else "no host"
    return printable(f"{domain_title(domain)}: {hosts}{uplinks}")
