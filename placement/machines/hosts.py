"""
Hosts that are alike, so that a page or a picture of a cluster shows each kind of host once.

When to modify: what makes two hosts look different.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from topologies.model import Gpu, Pair, Topology
from topologies.parts import Host
from topologies.peer_kinds import all_kinds, fields_of

_NUMBER = re.compile(r"\d{1,9}")
_RATES = ("gpu_links_GBps", "gpu_links_up")
"""What a topology states of the NVLinks of each GPU."""


@dataclass(frozen=True, slots=True)
class HostGroup:
    """
    Hosts that are alike: the same cards, links, NICs, places and versions of the driver, whoever uses them.

    Parameters
    ----------
    hosts
        Their names, in order.
    gpus
        For each host its GPU indices, ascending.
    """

    hosts: tuple[str | None, ...]
    gpus: tuple[tuple[int, ...], ...]


def host_groups(topology: Topology, *, marks: Sequence[Hashable] | None = None) -> tuple[HostGroup, ...]:
    """
    Return the hosts of *topology*, those together that are alike.

    Parameters
    ----------
    marks
        Something for each GPU that alike hosts must have alike too, such as the roles on it.
    """
    gpus = _gpus_of(topology)
    rank = {g: k for members in gpus.values() for k, g in enumerate(members)}
    looks: dict[str | None, list[Hashable]] = {host: [] for host in gpus}
    bridges: dict[str | None, dict[str, int]] = {host: {} for host in gpus}
    rates = [facts for word in _RATES if isinstance(facts := topology.stated.get(word), Mapping)]
    for gpu in topology.gpus:
        look = (_look(gpu, bridges[gpu.host]), *(repr(facts.get(str(gpu.index))) for facts in rates))
        looks[gpu.host].append(look if marks is None else (look, marks[gpu.index]))
    peers = {f"p2p {kind}": states for kind, states in all_kinds(topology).items()}
    for kind, pairs in {"link": topology.links, "pcie": topology.pcie_links, **peers}.items():
        for (i, j), code in sorted(pairs.items()):
            if topology.gpus[i].host == topology.gpus[j].host:
                looks[topology.gpus[i].host].append((kind, rank[i], rank[j], code))
    for g, nics in sorted(topology.gpu_nic.items()):
        host = topology.gpus[g].host
        for nic, code in nics.items():
            details = topology.nic_details.get(nic)
            rate = (details.gb_per_s, details.is_down) if details is not None else None
            looks[host].append((rank[g], nic_name(nic, host), topology.nics[nic], rate, code))
    for host, known in topology.host_facts.items():
        looks[host].append((known.driver, known.cuda))
    groups: dict[tuple[Hashable, ...], list[str | None]] = {}
    for host, facts in looks.items():
        groups.setdefault(tuple(facts), []).append(host)
    return tuple(HostGroup(tuple(hosts), tuple(gpus[h] for h in hosts)) for hosts in groups.values())


def with_memory(topology: Topology, memory_mib: int, *, say: Callable[[str], None]) -> Topology:
    """Return *topology* with hosts of *memory_mib* each; *say* is told of those of which a source says otherwise."""
    known = {host: facts.memory_mib for host, facts in topology.host_facts.items() if facts.memory_mib is not None}
    others: dict[int, list[str | None]] = {}
    for host, mib in known.items():
        others.setdefault(mib, []).append(host)
    for mib, hosts in others.items():
        if mib != memory_mib:
            say(f"host memory: {memory_mib} MiB as stated, in place of the {mib} MiB that the source has for {name_list(hosts)}")
    facts = {host: topology.host_facts.get(host, Host()) for host in topology.hosts}
    return topology.replace(host_facts={host: replace(fact, memory_mib=memory_mib) for host, fact in facts.items()})


def only(topology: Topology, hosts: Collection[str | None]) -> tuple[Topology, tuple[int, ...]]:
    """Return the part of *topology* that *hosts* are, and the index that each of its GPUs has in the whole."""
    return _pieces(topology, dict.fromkeys(hosts, 0), 1)[0]


def alone(topology: Topology, hosts: Sequence[str | None]) -> dict[str | None, Topology]:
    """Return for each of *hosts* the part of *topology* that it is."""
    pieces = _pieces(topology, {host: k for k, host in enumerate(hosts)}, len(hosts))
    return {host: piece for host, (piece, _) in zip(hosts, pieces, strict=True)}


def _pieces(
    topology: Topology, home: Mapping[str | None, int], count: int
) -> list[tuple[Topology, tuple[int, ...]]]:
    """Return *count* parts of *topology*, of which *home* tells the hosts; whatever is stated is met once."""
    gpus: list[list[Gpu]] = [[] for _ in range(count)]
    place: dict[int, tuple[int, int]] = {}
    for gpu in topology.gpus:
        if (piece := home.get(gpu.host)) is not None:
            place[gpu.index] = piece, len(gpus[piece])
            gpus[piece].append(gpu)

    def pairs(stated: Mapping[Pair, str]) -> list[dict[Pair, str]]:
        found: list[dict[Pair, str]] = [{} for _ in range(count)]
        for (i, j), code in stated.items():
            if i in place and j in place and place[i][0] == place[j][0]:
                found[place[i][0]][place[i][1], place[j][1]] = code
        return found

    links, pcie_links = pairs(topology.links), pairs(topology.pcie_links)
    peers = {kind: pairs(states) for kind, states in all_kinds(topology).items()}
    gpu_nic: list[dict[int, Mapping[str, str]]] = [{} for _ in range(count)]
    for g, codes in topology.gpu_nic.items():
        if g in place:
            gpu_nic[place[g][0]][place[g][1]] = codes
    return [
        (
            Topology(
                tuple(gpu.replace(index=k) for k, gpu in enumerate(gpus[piece])),
                links[piece],
                nics := _nics(topology, gpu_nic[piece], len(gpus[piece])),
                gpu_nic[piece],
                format=topology.format,
                columns=topology.columns,
                **fields_of({kind: states[piece] for kind, states in peers.items()}),
                nic_details={nic: d for nic in nics if (d := topology.nic_details.get(nic)) is not None},
                host_facts={h: f for h, f in topology.host_facts.items() if home.get(h) == piece},
                pcie_links=pcie_links[piece],
                formats=topology.formats,
                measured=topology.measured and topology.measured.renumbered({gpu.index: k for k, gpu in enumerate(gpus[piece])}),
            ),
            tuple(gpu.index for gpu in gpus[piece]),
        )
        for piece in range(count)
    ]


def _nics(
    topology: Topology, gpu_nic: Mapping[int, Mapping[str, str]], gpus: int
) -> Mapping[str, str | None]:
    """Return the NICs that a part of *topology* with *gpus* GPUs has: all of the whole, else those that it names."""
    if gpus == len(topology.gpus):
        return topology.nics
    named = dict.fromkeys(nic for codes in gpu_nic.values() for nic in codes)
    return {nic: topology.nics[nic] for nic in named}


def nic_name(nic: str, host: str | None) -> str:
    """Return the name of the NIC column *nic* on its *host*, without the name of the host."""
    return nic.removeprefix(f"{host}:") or nic


def name_list(names: Iterable[str | None]) -> str:
    """Return names of hosts as administrators write them: ``node[0-127]``, ``gpu-a, gpu-b``."""
    found: dict[tuple[str, str, int], list[str]] = {}
    unique = dict.fromkeys(name or "host" for name in names)
    last = {name: numbers[-1] for name in unique if (numbers := list(_NUMBER.finditer(name)))}
    padded = {_around(name, number) for name, number in last.items() if re.match("0[0-9]", number[0])}
    for name in unique:
        if name in last:
            around, digits = _around(name, last[name]), last[name][0]
            found.setdefault((*around, len(digits) if around in padded else 0), []).append(digits)
        else:
            found[name, "", 0] = []
    return ", ".join(_run(*key, numbers) for key, numbers in found.items())


def _around(name: str, number: re.Match[str]) -> tuple[str, str]:
    return name[: number.start()], name[number.end() :]


def _run(before: str, after: str, width: int, numbers: Sequence[str]) -> str:
    """Return names that differ in a number only; *width* is that of numbers that zeros fill."""
    if len(numbers) < 2:
        return "".join((before, *numbers, after))
    spans: list[list[int]] = []
    for number in sorted(map(int, numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    inside = ",".join("-".join(f"{end:0{width}}" for end in dict.fromkeys(span)) for span in spans)
    return f"{before}[{inside}]{after}"


def _gpus_of(topology: Topology) -> dict[str | None, tuple[int, ...]]:
    found: dict[str | None, list[int]] = {}
    for gpu in topology.gpus:
        found.setdefault(gpu.host, []).append(gpu.index)
    return {host: tuple(members) for host, members in found.items()}


def _look(gpu: Gpu, bridges: dict[str, int]) -> Hashable:
    """
    Return what shows of *gpu* besides who uses it and what it is called.

    *bridges* numbers the bridges of its host in the order in which they are met: their ids are names only.
    """
    port = gpu.pcie
    way = port and (port.gen, port.width, tuple(bridges.setdefault(b, len(bridges)) for b in port.path))
    mig = gpu.mig and (gpu.mig.enabled, tuple(instance.profile for instance in gpu.mig.instances))
    place = (gpu.cpu_affinity, gpu.numa, gpu.gpu_numa_id)
    return (gpu.name, gpu.memory_mib, gpu.is_named, way, mig, *place)
