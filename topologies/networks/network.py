"""
What joins hosts, as domains that nest: made of what any source says about switches, blocks and fabrics.

A source yields `Part` after `Part`, in any order; `build` checks that they make a tree and puts them in order.

When to modify: a source states something new about a switch.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from topologies.errors import TopologyError
from topologies.networks.hosts import match_names, natural
from topologies.pages.reading import listing
from topologies.parts import Network, NetworkDomain

KINDS_BY_HEIGHT = ("leaf", "spine", "core")
"""What a switch is that no source names a kind of: one with hosts, one above such, any above that."""

KINDS = (*KINDS_BY_HEIGHT, "block", "nvlink")

_ALSO = {"accelerator": "nvlink", "datacenter": "core"}
"""Words of topograph's labels for some of them."""

MOST_RAILS = 256
"""Most NICs of a host that carry traffic between GPUs: as many as a matrix has."""

MOST_GB_PER_S = 1000.0
"""Most that a NIC carries, GB/s: ten times what the fastest carry."""

_FAMILIES = {"leaf": "switch", "spine": "switch", "core": "switch", "block": "block", "nvlink": "NVLink domain"}
"""Kinds of which a host is in one only, unless one is within the other."""

MOST_DEPTH = 64
MOST_PARTS = 2**16


@dataclass(frozen=True, slots=True)
class Part:
    """
    A part of the network, as a source states it.

    Parameters
    ----------
    name
        What the source calls it.
    kind
        Its kind; None where its height in the tree tells.
    hosts
        Hosts that hang from it, those of parts inside it included or not.
    inside
        Names of parts inside it.
    within
        Name of the part that it is inside of.
    gb_per_s
        What its uplinks carry, GB/s.
    where
        Its place in the source.
    """

    name: str
    kind: str | None = None
    hosts: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    within: str | None = None
    gb_per_s: float | None = None
    where: str | None = None


def build(
    parts: Iterable[Part], known: Sequence[str], *, is_whole_site: bool = False
) -> tuple[tuple[NetworkDomain, ...], tuple[str, ...]]:
    """
    Return *parts* as domains of the hosts *known*, each before those inside it, and warnings.

    Parameters
    ----------
    is_whole_site
        The source may have hosts that are not part of the machine: they are left out with a warning, as are parts without a host.

    Raises
    ------
    TopologyError
        If two parts have one name, one is inside itself or inside two, or names a part or host that is not there.
    """
    found: dict[str, Part] = {}
    for part in parts:
        if (other := found.setdefault(part.name, part)) is not part:
            raise _error(part, f"{part.name!r} is there twice{_also(other)}")
        if len(found) > MOST_PARTS:
            raise _error(part, f"more than {MOST_PARTS:,} parts")
    above = _parents(found)
    order = _from_the_top(found, above)
    names = match_names(dict.fromkeys(h for part in found.values() for h in part.hosts), known)
    if not is_whole_site:
        _refuse_strangers(found, names, known)
    members, strangers = _members(found, order, above, names)
    if is_whole_site and found and not any(members.values()):
        first = next((part for part in found.values() if part.hosts), next(iter(found.values())))
        raise _error(first, f"none of its hosts ({listing(first.hosts[:8]) or 'none'}) is one of the machine ({here(known)})")
    kinds = _kinds(found, order, above)
    position = {host: k for k, host in enumerate(known)}

    def in_order(name: str) -> tuple[str, ...]:
        stated = tuple(dict.fromkeys(names[host] for host in found[name].hosts if host in names))
        return stated if len(stated) == len(members[name]) else tuple(sorted(members[name], key=position.__getitem__))

    domains = tuple(
        NetworkDomain(name, kinds[name], in_order(name), above.get(name), found[name].gb_per_s)
        for name in order
        if members[name] or not is_whole_site
    )
    _refuse_overlap(domains, found)
    warnings = []
    if strangers:
        warnings.append(f"the network has {len(strangers):,} hosts that were not collected: {listing(sorted(strangers, key=natural))}")
    return domains, tuple(warnings)


def join(networks: Sequence[Network]) -> Network:
    """Return one network of what *networks* state: numbers of the first that has them, the domains of all."""
    domains = tuple(domain for network in networks for domain in network.domains)
    return Network(
        rails=next((n.rails for n in networks if n.rails is not None), None),
        gb_per_s=next((n.gb_per_s for n in networks if n.gb_per_s is not None), None),
        domains=domains,
    )


def kind_of(word: str | None) -> str | None:
    """
    Return the kind of domain that people call *word*; None where the place in the tree is to tell.

    Raises
    ------
    TopologyError
        If it is no such kind.
    """
    if word is None:
        return None
    plain = word.strip().lower()
    kind = _ALSO.get(plain, plain)
    if kind not in KINDS:
        close = difflib.get_close_matches(plain[:40], KINDS, n=1, cutoff=0.5)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise TopologyError(f"kind must be one of {', '.join(KINDS)}, not {word[:60]!r}{hint}")
    return kind


def check_numbers(network: Network, what: str = "network") -> None:
    """
    Refuse numbers of *network* that no host has.

    Raises
    ------
    TopologyError
        If it has no rail or more than `MOST_RAILS`, or a NIC carries nothing or more than `MOST_GB_PER_S`.
    """
    if network.rails is not None and not 1 <= network.rails <= MOST_RAILS:
        raise TopologyError(f"{what}: rails are NICs of a host, 1 to {MOST_RAILS}, not {network.rails}; leave them out if they are unknown")
    if network.gb_per_s is not None and not 0 < network.gb_per_s <= MOST_GB_PER_S:
        raise TopologyError(
            f"{what}: gb_per_s is what one NIC carries, more than 0 and at most {MOST_GB_PER_S:g}, not {network.gb_per_s:g}: 400 Gbit/s "
            "are 50; leave it out if it is unknown"
        )


def here(known: Iterable[str | None]) -> str:
    """Return which hosts there are, for the message on one that is not."""
    names = [host for host in known if host is not None]
    if not names:
        return "the host here has no name"
    tasks = "; `srun -l` prints numbers of tasks: print the host's name instead" if all(map(str.isdecimal, names)) else ""
    return f"hosts here: {listing(names)}{tasks}"


def _error(part: Part, message: str) -> TopologyError:
    return TopologyError(f"network: {message}", where=part.where)


def _also(other: Part) -> str:
    return f", first at {other.where}" if other.where else ""


def _parents(parts: Mapping[str, Part]) -> dict[str, str]:
    """Return what each part is inside of."""
    above: dict[str, str] = {}
    for part in parts.values():
        stated = [(part.name, part.within)] if part.within is not None else []
        for child, parent in (*stated, *((child, part.name) for child in part.inside)):
            missing = next((name for name in (child, parent) if name not in parts), None)
            if missing is not None:
                verb = "is within" if missing == part.within else "has"
                raise _error(part, f"{part.name!r} {verb} {missing!r}, which is nowhere described")
            other = above.setdefault(child, parent)
            if other != parent:
                raise _error(
                    part,
                    f"{child!r} is within {parent!r} and within {other!r}{_also(parts[other])}: "
                    "in a tree it has one way up; several spines can stand as one",
                )
    return above


def _from_the_top(parts: Mapping[str, Part], above: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names, each after what it is inside of, else in the order of the source."""
    depth: dict[str, int] = {}
    for name in parts:
        path = [name]
        while (parent := above.get(path[-1])) is not None and parent not in depth:
            if parent in path or len(path) > MOST_DEPTH:
                circle = " in ".join(map(repr, [*path[path.index(parent) :], parent][:8] if parent in path else path[:8]))
                what = "is inside itself" if parent in path else "is nested too deeply"
                raise _error(parts[name], f"{parent!r} {what}: {circle}")
            path.append(parent)
        base = depth[above[path[-1]]] + 1 if path[-1] in above else 0
        for step, member in enumerate(reversed(path)):
            depth.setdefault(member, base + step)
    # Stable where the source is in order already, so that what we write reads back the same.
    placed: dict[str, None] = {}
    for name in parts:
        chain = [name]
        while (parent := above.get(chain[-1])) is not None and parent not in placed:
            chain.append(parent)
        placed.update(dict.fromkeys(reversed(chain)))
    return tuple(placed)


def _refuse_strangers(parts: Mapping[str, Part], names: Mapping[str, str], known: Sequence[str]) -> None:
    for part in parts.values():
        for host in part.hosts:
            if host not in names:
                raise _error(part, f"{part.name!r} has the host {host!r}, of which no GPU is known ({here(known)})")


def _members(
    parts: Mapping[str, Part], order: Sequence[str], above: Mapping[str, str], names: Mapping[str, str]
) -> tuple[dict[str, set[str]], set[str]]:
    """Return the hosts of each part, those of parts inside it included, and hosts that are not part of the machine."""
    members: dict[str, set[str]] = {}
    strangers: set[str] = set()
    for part in parts.values():
        strangers.update(host for host in part.hosts if host not in names)
        members[part.name] = {names[host] for host in part.hosts if host in names}
    for name in reversed(order):
        if name in above:
            members[above[name]] |= members[name]
    return members, strangers


def _kinds(parts: Mapping[str, Part], order: Sequence[str], above: Mapping[str, str]) -> dict[str, str]:
    height = dict.fromkeys(parts, 0)
    for name in reversed(order):
        if name in above:
            height[above[name]] = max(height[above[name]], height[name] + 1)
    return {name: part.kind or KINDS_BY_HEIGHT[min(height[name], 2)] for name, part in parts.items()}


def _refuse_overlap(domains: Sequence[NetworkDomain], parts: Mapping[str, Part]) -> None:
    """Refuse a host in two domains of one family of kinds, neither of which is within the other."""
    closest: dict[tuple[str, str], NetworkDomain] = {}
    outer: dict[str, frozenset[str]] = {}
    for domain in domains:
        outer[domain.name] = outer[domain.within] | {domain.within} if domain.within is not None else frozenset()
        family = _FAMILIES.get(domain.kind)
        for host in domain.hosts if family else ():
            other = closest.get((str(family), host))
            if other is not None and other.name not in outer[domain.name]:
                raise _error(
                    parts[domain.name],
                    f"the host {host!r} is in {other.name!r} and in {domain.name!r}{_also(parts[other.name])}: it can hang from one "
                    f"{family}",
                )
            closest[str(family), host] = domain


