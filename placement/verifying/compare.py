"""
What of a process, or of all processes of a pool, is not as the map has it: sentences that name the culprit and the remedy.

Each mistake is looked for on its own: the size of the job, the host, the rank's host, the local rank, and the GPUs that the process sees,
which are held against those of its *host* in the map; so that one mistake gives one sentence.

When to modify: another mistake is worth a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from placement.maps.seats import Seat
from placement.maps.variables import HOST, ORDER, VISIBLE
from placement.verifying.observed import Observed
from placement.verifying.wanted import Wanted

PCI_ORDER = "PCI_BUS_ID"
_UUID = re.compile(r"(?:GPU|MIG)-.+")
_ID = re.compile(r"0|[1-9][0-9]{0,5}")

Ids = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Sight:
    """
    The GPUs that CUDA will give to a process, in its order.

    Parameters
    ----------
    ids
        Physical ids; None for one that a UUID names which nothing explains.
    is_assumed
        CUDA_VISIBLE_DEVICES is not set and no driver tells how many GPUs there are: that GPU k is the k-th is all that can be said.
    """

    ids: Ids
    is_assumed: bool = False


# ── one process ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def findings(wanted: Wanted, seen: Observed) -> list[str]:
    """Return what of *seen* is not as *wanted* has it."""
    found = [*_size(wanted, seen)]
    if any(entry.startswith("MIG-") for entry in seen.visible or ()):
        found.append(f"{VISIBLE} names slices of GPUs (MIG): a map places whole GPUs")
        return found
    hosts = wanted.hosts
    host = map_host(seen.host, hosts)
    if host is None and hosts != (None,):
        listed = ", ".join(map(str, hosts))
        found.append(
            f"this host is {seen.host}, and the map has {wanted.title} on {listed}: start it there, or say which of them this host is "
            f"({HOST}={hosts[0]})"
        )
        return found
    if not found:    # in a job of another size, ranks have no place in the map
        found += _rank(wanted, seen, host)
        found += _local(wanted, seen, host)
    found += _visible(wanted, seen, host)
    return found


def map_host(name: str, hosts: Sequence[str | None]) -> str | None:
    """Return which of *hosts* the host *name* is: names are compared whole, then up to their first dots."""
    if name in hosts:
        return name
    short = [host for host in hosts if host is not None and host.split(".")[0] == name.split(".")[0]]
    return short[0] if len(short) == 1 else None


def _size(wanted: Wanted, seen: Observed) -> Iterator[str]:
    total, size, hosts = len(wanted.pool.seats), seen.world_size, wanted.hosts
    if size is None or size == total:
        return
    places = f" on {len(hosts)} hosts" if len(hosts) > 1 else ""
    said = f"the job has {size} rank{'s'[: size != 1]} (WORLD_SIZE), and the map gives {wanted.title} {total} GPUs{places}"
    if len(hosts) > 1 and size in {len(wanted.on_host(host)) for host in hosts}:
        yield f"{said}: each host started a job of its own; start one on all of them (torchrun --nnodes={len(hosts)} --node-rank=…)"
    else:
        yield f"{said}: start one process for each GPU of the map"


def _rank(wanted: Wanted, seen: Observed, host: str | None) -> Iterator[str]:
    seats = wanted.pool.seats
    if seen.rank is None or seen.rank >= len(seats):
        return
    seat = seats[seen.rank]
    if seat.host != host:
        order = ", ".join(map(str, wanted.hosts))
        yield (
            f"rank {seen.rank} runs on {host}, and the map has it on {seat.host}: start hosts in the order of the map ({order}: "
            f"{host} is --node-rank={wanted.hosts.index(host)})"
        )


def _local(wanted: Wanted, seen: Observed, host: str | None) -> Iterator[str]:
    gpus = wanted.on_host(host)
    if seen.local_world_size is not None and seen.local_world_size != len(gpus):
        place = f" on {host}" if host is not None else ""
        yield (
            f"{seen.local_world_size} processes run on this host (LOCAL_WORLD_SIZE), and the map gives {wanted.title} {len(gpus)} "
            f"GPUs{place} (--nproc-per-node={len(gpus)})"
        )
    elif seen.local_rank is not None and seen.local_rank >= len(gpus):
        yield f"this is local rank {seen.local_rank}, and the map gives {wanted.title} {len(gpus)} GPUs on this host"
    elif seen.local_rank is not None and seen.local_rank > 0 and _sees_one(seen):
        yield (
            f"this is local rank {seen.local_rank}, and it sees one GPU alone: there is no cuda:{seen.local_rank}; let all processes "
            f"of the host see its GPUs (export {VISIBLE}={_listed(gpus)}), or take cuda:0"
        )
    elif seen.rank is not None and seen.local_rank is not None and seen.rank < len(wanted.pool.seats):
        seat = wanted.pool.seats[seen.rank]
        if seat.host != host or gpus.index(seat.gpu) == seen.local_rank or _sees_one(seen):
            return
        yield (
            f"rank {seen.rank} is local rank {seen.local_rank}, and on its GPU {seat.gpu} the map has local rank {gpus.index(seat.gpu)}: "
            "ranks of a host are numbered in the order of its GPUs in the map"
        )


def _sees_one(seen: Observed) -> bool:
    """Whether the process was given its own GPU alone (Slurm, Ray): whatever its local rank, it takes that one."""
    return seen.visible is not None and len(seen.visible) == 1


# ── the GPUs that it sees ───────────────────────────────────────────────────────────────────────────────────────────────


def _visible(wanted: Wanted, seen: Observed, host: str | None) -> Iterator[str]:
    gpus = wanted.on_host(host)
    fix = f"export {VISIBLE}={','.join(map(str, gpus))}"
    by_number = seen.visible is None or any(_ID.fullmatch(entry) for entry in seen.visible)
    if by_number and seen.order != PCI_ORDER:
        is_set = f"is {seen.order}" if seen.order else "is not set"
        yield (
            f"{ORDER} {is_set}: CUDA then counts the fastest card first, and its GPU k need not be GPU k of the map: export "
            f"{ORDER}={PCI_ORDER}"
        )
    if (damage := _damage(seen)) is not None:
        yield f"{damage}; {fix}"
        return
    own = own_gpu(wanted, seen, host)
    sight = sees(wanted, seen, host)
    yield from _other_card(wanted, seen, host)
    ids = sight.ids
    if sight.is_assumed:
        if gpus != tuple(range(len(gpus))):
            yield f"{VISIBLE} is not set, so that local rank k takes GPU k, and the map has GPUs {_listed(gpus)}; {fix}"
        return
    if ids[: len(gpus)] == gpus and (seen.rank is not None or len(ids) == len(gpus)):
        return
    if seen.rank is not None and len(ids) == 1 and ids[0] in (gpus if own is None else (own,)):
        return
    if own is not None and len(ids) == 1 and ids[0] is not None and seen.local_rank is None:    # Ray gave it, and nobody can export it
        yield (
            f"it has GPU {ids[0]} alone, and the map has rank {seen.rank} on GPU {own}: start the nodes, and the job, with the files of "
            "this map"
        )
        return
    if None in ids:
        yield f"{VISIBLE} names GPUs by UUID, and neither a driver nor the map tells which GPUs {_unknown(seen, ids)} are; {fix}"
        return
    is_set = f"is {','.join(seen.visible)}" if seen.visible is not None else f"is not set: this process sees {_listed(ids)}"
    name = f"{VISIBLE} {is_set}"
    if set(ids) == set(gpus):
        yield f"{name}, and the map has the order {_listed(gpus)}: local rank k takes the k-th; {fix}"
    elif len(ids) < len(gpus):
        mine = f" (GPU {own} for this rank)" if own is not None else ""
        yield f"{name}, and the map gives {wanted.title} {len(gpus)} GPUs here{mine}: {_listed(gpus)}; {fix}"
    else:
        yield f"{name}, and the map gives {wanted.title} GPUs {_listed(gpus)} here; {fix}"


def _damage(seen: Observed) -> str | None:
    """Return what makes CUDA see fewer GPUs than CUDA_VISIBLE_DEVICES seems to name."""
    if seen.visible is None:
        return None
    if not seen.visible:
        return f"{VISIBLE} is empty: this process sees no GPU"
    for k, entry in enumerate(seen.visible):
        if entry in seen.visible[:k]:
            return f"{VISIBLE} names GPU {entry} twice ({','.join(seen.visible)}): each rank needs a GPU of its own"
        if not _ID.fullmatch(entry) and not _UUID.fullmatch(entry):
            return f"{VISIBLE} names {entry!r}, which is no GPU: CUDA stops reading there"
        if seen.devices is not None and _ID.fullmatch(entry) and int(entry) >= len(seen.devices):
            return f"{VISIBLE} names GPU {entry}, and this host has {len(seen.devices)} GPUs: CUDA stops reading there"
        if seen.devices is not None and entry.startswith("GPU-") and not [d for d in seen.devices if d.uuid.startswith(entry)]:
            return f"{VISIBLE} names {entry}, which is no GPU of this host: CUDA stops reading there"
    return None


def sees(wanted: Wanted, seen: Observed, host: str | None) -> Sight:
    """Return the GPUs that CUDA gives to the process, as physical ids of the map."""
    known = {uuid: seat.gpu for seat, uuid in wanted.uuids.items() if seat.host == host}
    devices = seen.devices
    if seen.visible is None:
        if devices is None:
            return Sight(wanted.on_host(host), is_assumed=True)
        return Sight(tuple(known.get(device.uuid, k) for k, device in enumerate(devices)))
    ids: list[int | None] = []
    for entry in seen.visible:
        if not _ID.fullmatch(entry):
            whole = [*known, *(device.uuid for device in devices or ())]
            uuid = next((one for one in whole if one.startswith(entry)), "")
            place = next((k for k, device in enumerate(devices or ()) if device.uuid == uuid), None)
            ids.append(known.get(uuid, place))
        elif devices is not None and int(entry) < len(devices):
            ids.append(known.get(devices[int(entry)].uuid, int(entry)))    # a container counts those alone that it was given
        else:
            ids.append(int(entry))
    return Sight(tuple(ids))


def own_gpu(wanted: Wanted, seen: Observed, host: str | None) -> int | None:
    """Return the GPU that the map has for this process: by its local rank on its host, else by its rank; None where neither tells."""
    gpus, seats = wanted.on_host(host), wanted.pool.seats
    if seen.rank is not None and seen.rank < len(seats) and seats[seen.rank].host == host:
        return seats[seen.rank].gpu
    if seen.local_rank is not None and seen.local_rank < len(gpus) and not _sees_one(seen):
        return gpus[seen.local_rank]
    return None


def taken_gpu(wanted: Wanted, seen: Observed, host: str | None) -> int | None:
    """Return the physical id of the GPU that the process takes: its local rank's, or the only one that it sees; None where unknown."""
    sight = sees(wanted, seen, host)
    if sight.is_assumed:
        return seen.local_rank
    place = 0 if len(sight.ids) == 1 else seen.local_rank
    return sight.ids[place] if place is not None and place < len(sight.ids) else None


def _other_card(wanted: Wanted, seen: Observed, host: str | None) -> Iterator[str]:
    """Yield the first GPU that the process sees and that is none of the cards for which the map was made."""
    known = {uuid: seat.gpu for seat, uuid in wanted.uuids.items() if seat.host == host}
    if seen.devices is None or not known:
        return
    entries = seen.visible if seen.visible is not None else tuple(map(str, range(len(seen.devices))))
    for entry in entries:
        device = seen.devices[int(entry)] if _ID.fullmatch(entry) else next(one for one in seen.devices if one.uuid.startswith(entry))
        if device.uuid not in known:
            recorded = wanted.uuids.get(Seat(host, int(entry))) if _ID.fullmatch(entry) else None
            was = f"{recorded} there" if recorded is not None else "other cards"
            yield (
                f"GPU {entry} of this host is {device.uuid} ({device.bus_id}), and the map was made for {was}: this is another host, or a "
                "card was changed; read the machine and plan anew"
            )
            return


def _unknown(seen: Observed, ids: Ids) -> str:
    return ", ".join(entry for entry, gpu in zip(seen.visible or (), ids, strict=False) if gpu is None)


def _listed(gpus: Sequence[int | None]) -> str:
    return ",".join(map(str, gpus))


# ── all processes of a pool ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Verdict:
    """
    What was found of a pool.

    Parameters
    ----------
    ranks
        By rank: what is wrong with it.
    missing
        Ranks that the map has and nobody reported.
    """

    wanted: Wanted
    seen: Mapping[int, Observed]
    ranks: Mapping[int, Sequence[str]]
    missing: tuple[int, ...]

    @property
    def is_right(self) -> bool:
        """Whether every rank is where the map has it."""
        return not self.missing and not any(self.ranks.values())


def compare(wanted: Wanted, seen: Mapping[int, Observed]) -> Verdict:
    """Return what of the processes *seen*, by rank, is not as *wanted* has it."""
    ranks = {rank: findings(wanted, one) for rank, one in sorted(seen.items())}
    first: dict[tuple[str, int], int] = {}
    for rank, one in sorted(seen.items()):
        host = map_host(one.host, wanted.hosts)
        gpu = taken_gpu(wanted, one, host) if host is not None or wanted.hosts == (None,) else None
        if gpu is None:
            continue
        other = first.setdefault((one.host, gpu), rank)
        if other != rank:
            ranks[rank].append(f"it takes GPU {gpu} of {one.host}, which rank {other} takes, too")
    expected = max((one.world_size or 0 for one in seen.values()), default=0) or len(wanted.pool.seats)
    missing = tuple(rank for rank in range(expected) if rank not in seen)
    return Verdict(wanted, seen, ranks, missing)
