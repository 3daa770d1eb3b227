"""
Hosts that were read one by one, as one machine.

When to modify: `Topology` gets a field.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from topologies.errors import TopologyError
from topologies.measurements import together
from topologies.merging.identity import bus_key
from topologies.model import Gpu, Pair, Topology
from topologies.networks.fabric import fabric_domains
from topologies.networks.hosts import MOST_HOSTS, natural
from topologies.pages.reading import listing
from topologies.parts import Host, Network
from topologies.peer_kinds import all_kinds, fields_of

FORMAT = "cluster"

_OF_GPUS = ("gpu_links_GBps", "gpu_links_up", "bar1_mib")
_OF_PAIRS = ("weight", "hops")
_OF_HOSTS = ("driver", "cuda")
"""What is kept of `Topology.stated`: facts of single GPUs, of pairs of them, and those that become facts of `Host`."""


def collect(machines: Mapping[str, Topology], *, warnings: Sequence[str] = ()) -> Topology:
    """
    Return *machines* as one machine of several hosts, in natural order of their names.

    Parameters
    ----------
    machines
        What was read of each host. One that has several hosts already keeps their names; a lone host without a name gets that of
        its key.
    warnings
        What else the reader must know, such as hosts that are left out.

    Raises
    ------
    TopologyError
        If two are the same host, or there are none or too many.
    """
    hosts = _named_hosts(machines)
    if not hosts:
        raise TopologyError("there is no host to collect")
    if len(hosts) > MOST_HOSTS:
        raise TopologyError(f"{len(hosts):,} hosts; at most {MOST_HOSTS:,} are read")
    _refuse_twins(hosts)
    ordered = {name: hosts[name] for name in sorted(hosts, key=natural)}
    start: dict[str, int] = {}
    gpus: list[Gpu] = []
    for name, machine in ordered.items():
        start[name] = len(gpus)
        gpus += (gpu.replace(index=start[name] + gpu.index, host=name) for gpu in machine.gpus)
    fabric, unclear = fabric_domains(gpus)
    network, unstated = _network(machines)
    if fabric and not any(domain.kind == "nvlink" for domain in (network.domains if network else ())):
        network = Network(domains=fabric) if network is None else Network(
            network.rails, network.gb_per_s, (*network.domains, *fabric)
        )  # fmt: skip
    peers: dict[str, dict[tuple[int, int], str]] = {}
    for h, machine in ordered.items():
        for kind, of_kind in all_kinds(machine).items():
            peers.setdefault(kind, {}).update({(i + start[h], j + start[h]): state for (i, j), state in of_kind.items()})
    return Topology(
        gpus=tuple(gpus),
        links={(i + start[h], j + start[h]): code for h, m in ordered.items() for (i, j), code in m.links.items()},
        nics={qualified(h, nic): device for h, m in ordered.items() for nic, device in m.nics.items()},
        gpu_nic={
            index + start[h]: {qualified(h, nic): code for nic, code in nics.items()}
            for h, m in ordered.items()
            for index, nics in sorted(m.gpu_nic.items())
        },
        format=FORMAT,
        warnings=(*_by_text(ordered), *warnings, *unclear, *unstated),
        columns=frozenset().union(*(m.columns for m in ordered.values())),
        rows_missing=tuple(qualified(h, row) for h, m in ordered.items() for row in m.rows_missing),
        rows_partial_cells_seen={
            qualified(h, row): cells for h, m in ordered.items() for row, cells in m.rows_partial_cells_seen.items()
        },
        conflict=tuple(qualified(h, cell) for h, m in ordered.items() for cell in m.conflict),
        extra_columns=tuple(dict.fromkeys(column for m in ordered.values() for column in m.extra_columns)),
        other_columns=sum(m.other_columns for m in ordered.values()),
        **fields_of(peers),
        gpus_near_cpu=_near(ordered, start),
        nic_details={qualified(h, nic): details for h, m in ordered.items() for nic, details in m.nic_details.items()},
        host_facts={h: facts for h, m in ordered.items() if (facts := _facts(m)) != Host()},
        network=network,
        stated=_stated(ordered, start),
        measured=together(
            m.measured.renumbered({gpu.index: gpu.index + start[h] for gpu in m.gpus}) for h, m in ordered.items() if m.measured
        ),
    )


def qualified(host: str, name: str) -> str:
    """Return the name that *name* of *host* has among those of other hosts: ``node0:NIC0``."""
    return name if name.startswith(f"{host}:") else f"{host}:{name}"


def split(machine: Topology) -> dict[str | None, Topology]:
    """Return each host of *machine* on its own: the inverse of `collect` but for what says nothing about one host."""
    if len(machine.hosts) == 1:
        return {machine.hosts[0]: machine}
    members: dict[str | None, list[int]] = {}
    for gpu in machine.gpus:
        members.setdefault(gpu.host, []).append(gpu.index)
    codes: dict[str | None, dict[tuple[int, int], str]] = {host: {} for host in members}
    states = {kind: {host: dict[tuple[int, int], str]() for host in members} for kind in all_kinds(machine)}
    for pairs, of_host in ((machine.links, codes), *((of_kind, states[kind]) for kind, of_kind in all_kinds(machine).items())):
        for (i, j), code in pairs.items():
            if machine.gpus[i].host == machine.gpus[j].host:
                of_host[machine.gpus[i].host][i, j] = code
    nics: dict[str | None, dict[str, str | None]] = {host: {} for host in members}
    owner = {qualified(str(host), ""): host for host in members}
    for nic, device in machine.nics.items():
        nics.get(owner.get(nic.partition(":")[0] + ":"), {})[nic] = device
    local = {g: k for indices in members.values() for k, g in enumerate(indices)}
    of_gpus = {word: _by_gpu(machine, word) for word in _OF_GPUS}
    of_pairs = {word: {host: dict[str, object]() for host in members} for word in _OF_PAIRS}
    for word, pairs_of in of_pairs.items():
        for (i, j), value in _by_pair(machine, word).items():
            if machine.gpus[i].host == machine.gpus[j].host:
                pairs_of[machine.gpus[i].host][f"{local[i]}-{local[j]}"] = value
    return {
        host: Topology(
            gpus=tuple(machine.gpus[g].replace(index=local[g]) for g in indices),
            links={(local[i], local[j]): code for (i, j), code in codes[host].items()},
            nics=nics[host],
            gpu_nic={
                local[g]: {nic: code for nic, code in machine.gpu_nic[g].items() if nic in nics[host]}
                for g in indices
                if g in machine.gpu_nic
            },
            format=machine.format,
            columns=machine.columns,
            **fields_of(
                {
                    kind: {(local[i], local[j]): state for (i, j), state in of_kind[host].items()}
                    for kind, of_kind in states.items()
                    if of_kind[host]
                }
            ),
            nic_details={nic: machine.nic_details[nic] for nic in nics[host] if nic in machine.nic_details},
            host_facts={host: machine.host_facts[host]} if host in machine.host_facts else {},
            stated=_filled(
                {word: {str(local[g]): facts[g] for g in indices if g in facts} for word, facts in of_gpus.items()}
                | {word: pairs_of[host] for word, pairs_of in of_pairs.items()}
                | {word: machine.stated[word] for word in _OF_HOSTS if word in machine.stated}
            ),
            measured=machine.measured and machine.measured.renumbered({g: local[g] for g in indices}),
        )
        for host, indices in members.items()
    }


def _named_hosts(machines: Mapping[str, Topology]) -> dict[str, Topology]:
    found: dict[str, Topology] = {}
    for key, machine in machines.items():
        for own, part in split(machine).items():
            name = key if own is None else own
            if name in found:
                raise TopologyError(f"the host {name!r} is there twice")
            found[name] = part
    return found


def _refuse_twins(hosts: Mapping[str, Topology]) -> None:
    """Refuse two hosts with a GPU in common: they are one, read twice."""
    seen: dict[str, tuple[str, int]] = {}
    for name, machine in hosts.items():
        for gpu in machine.gpus:
            if gpu.uuid is None:
                continue
            host, index = seen.setdefault(gpu.uuid.lower(), (name, gpu.index))
            if host != name:
                raise TopologyError(
                    f"GPU {index} of {host} and GPU {gpu.index} of {name} have the same UUID ({gpu.uuid}): this is the same host twice"
                )


def _network(machines: Mapping[str, Topology]) -> tuple[Network | None, list[str]]:
    """Return the network that one of *machines* states, and a warning if that says what the NICs of others carry, too."""
    stated = {name: machine.network for name, machine in machines.items() if machine.network is not None}
    if len(stated) > 1:
        raise TopologyError(f"{listing([*stated])} each state a network: keep it in one of them, or give --network FILE")
    network = next(iter(stated.values()), None)
    others = [name for name in machines if name not in stated]
    if network is None or not others or (network.rails is None and network.gb_per_s is None):
        return network, []
    state = "states" if len(others) == 1 else "state"
    return network, [f"{listing(others)} {state} no network: the rails of {listing([*stated])} are taken for all hosts"]


def _by_text(hosts: Mapping[str, Topology]) -> Iterator[str]:
    """Yield each warning once, with the hosts that it is about before it."""
    about: dict[str, list[str]] = {}
    for name, machine in hosts.items():
        for warning in machine.warnings:
            about.setdefault(warning, []).append(name)
    for warning, names in about.items():
        yield f"{listing(names)}: {warning}"


def _stated(hosts: Mapping[str, Topology], start: Mapping[str, int]) -> dict[str, Any]:
    """Return what only one format states of GPUs and pairs of them, under their new indices; `_facts` has what is of hosts."""
    found: dict[str, Any] = {
        word: {str(g + start[name]): facts for name, machine in hosts.items() for g, facts in _by_gpu(machine, word).items()}
        for word in _OF_GPUS
    }
    for word in _OF_PAIRS:
        found[word] = {
            f"{i + start[name]}-{j + start[name]}": value
            for name, machine in hosts.items()
            for (i, j), value in _by_pair(machine, word).items()
        }
    return _filled(found)


def _by_gpu(machine: Topology, word: str) -> dict[int, object]:
    """Return what *machine* states under *word*, by index of the GPU; what is stated of the only GPU that was shown has no index."""
    facts = machine.stated.get(word)
    if not isinstance(facts, Mapping):
        return {}
    if "total" in facts:
        seen = {bus_key(str(bus_id)) for bus_id in machine.stated.get("gpu_ids_seen", ())}
        shown = [gpu.index for gpu in machine.gpus if len(machine.gpus) == 1 or bus_key(gpu.pci_bus_id or "") in seen]
        return {shown[0]: facts} if len(shown) == 1 else {}
    indices = {str(gpu.index): gpu.index for gpu in machine.gpus}
    return {indices[key]: value for key, value in facts.items() if key in indices}


def _by_pair(machine: Topology, word: str) -> dict[Pair, object]:
    """Return what *machine* states under *word*, by pair of GPUs."""
    facts = machine.stated.get(word)
    if not isinstance(facts, Mapping):
        return {}
    ends = {key: key.partition("-") for key in facts}
    indices = {str(gpu.index): gpu.index for gpu in machine.gpus}
    return {(indices[i], indices[j]): facts[key] for key, (i, _, j) in ends.items() if i in indices and j in indices}


def _filled(stated: Mapping[str, Any]) -> dict[str, Any]:
    return {word: value for word, value in stated.items() if value not in (None, {})}


def _near(hosts: Mapping[str, Topology], start: Mapping[str, int]) -> dict[int, tuple[int, ...]]:
    """Return the GPUs near each CPU; hosts number their CPUs alike, so that each CPU stands for one of every host."""
    near: dict[int, tuple[int, ...]] = {}
    for name, machine in hosts.items():
        for cpu, gpus in machine.gpus_near_cpu.items():
            near[cpu] = (*near.get(cpu, ()), *(gpu + start[name] for gpu in gpus))
    return near


def _facts(machine: Topology) -> Host:
    """Return what is known of the lone host of *machine*; its versions may stand among what only one format states."""
    facts = next(iter(machine.host_facts.values()), Host())
    driver, cuda = (value if isinstance(value := machine.stated.get(word), str) else None for word in _OF_HOSTS)
    return dataclasses.replace(facts, driver=facts.driver or driver, cuda=facts.cuda or cuda)
