"""
What a job is started from: the groups of a map, their pools and hosts, how roles run, and the job itself.

When to modify: the device map gets a part that frameworks are told of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from placement.errors import InputError
from placement.maps import devicemap
from placement.maps.machine_gpus import by_seat, recorded_uuids
from placement.maps.seats import Pool, Seat, as_seat, planned_for, pools, read_seats
from placement.plans import RolePlan, RolloutPlan
from placement.text import strict_yaml
from placement.text.strict_yaml import Document
from placement.text.suggest import did_you_mean
from placement.workloads import workload_file
from placement.workloads.workload import Engine, Master, Offload, Precision, RoleName, Schedule, Workload

Gpus = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Start:
    """
    A map, as emitters see it.

    Parameters
    ----------
    seats
        The group of each role, in rank order.
    roles
        How each role runs.
    workload
        The job.
    schedule
        The schedule that the map was timed for.
    uuids
        By seat, where the machine's source tells.
    capacity_mib
        By seat, where the map tells: what torch can allocate.
    sizes
        How many GPUs each host has, whether the map uses them or not, where the machine's source tells.
    target
        What the map was planned for, if it was for one.
    """

    seats: Mapping[str, tuple[Seat, ...]]
    roles: Mapping[str, RolePlan]
    workload: Workload
    schedule: Schedule
    uuids: Mapping[Seat, str]
    capacity_mib: Mapping[Seat, int]
    sizes: Mapping[str | None, int]
    target: str | None = None

    @property
    def pools(self) -> tuple[Pool, ...]:
        """Roles that share a group, in the order of the map: actor, rollout, critic, ref, reward."""
        order = [role.value for role in RoleName]
        return pools({role: self.seats[role] for role in sorted(self.seats, key=order.index)})

    @property
    def hosts(self) -> tuple[str | None, ...]:
        """The hosts in rank order; None alone where the map is of one host and names none."""
        return tuple(dict.fromkeys(seat.host for pool in self.pools for seat in pool.seats))

    def pool_of(self, role: str) -> Pool:
        """Return the pool of *role*."""
        return next(pool for pool in self.pools if role in pool.roles)

    def visible(self, host: str | None, order: Sequence[Pool] | None = None) -> Gpus:
        """Return the GPUs of *host* in the order in which pools are created (that of the map, unless *order* says another)."""
        seats = (seat for pool in (self.pools if order is None else order) for seat in pool.seats)
        return tuple(dict.fromkeys(seat.gpu for seat in seats if seat.host == host))

    def least_capacity_mib(self, seats: Sequence[Seat]) -> int:
        """Return the capacity of the smallest GPU among *seats*, MiB; of the smallest in the map, where it does not tell of these."""
        known = [self.capacity_mib[seat] for seat in seats if seat in self.capacity_mib]
        return min(known or self.capacity_mib.values())

    def on_host(self, pool: Pool, host: str | None) -> Gpus:
        """Return the GPUs of *pool* on *host*, in rank order."""
        return tuple(seat.gpu for seat in pool.seats if seat.host == host)


def read_start(text: str, *, name: str = "<map>") -> Start:
    """
    Read the device map *text*.

    Raises
    ------
    InputError
        If it is no device map, holds no plan, or lacks what files are written from; the message has line and column.
    """
    document = strict_yaml.load(text, name=name)
    data = document.data
    if not isinstance(data, Mapping) or data.get("schema") != devicemap.SCHEMA:
        raise InputError(f"not a device map: it must start with `schema: {devicemap.SCHEMA}`", where=name)
    seats = read_seats(document)
    known = [role.value for role in RoleName]
    for role in seats:
        if role not in known:
            raise document.error(f"there is no role {role!r}: roles are {', '.join(known)}", ("device_map", role), key=True)
    roles = devicemap.read_roles(document)
    if set(roles) != set(seats):
        raise document.error(
            f"device_map names {', '.join(sorted(seats))}, and roles names {', '.join(sorted(roles))}: both name the same", ("roles",)
        )
    inputs = data.get("inputs")
    if not isinstance(inputs, Mapping) or "workload" not in inputs:
        raise document.error("the map does not record its job (inputs.workload): write it anew with `placement plan -o FILE`")
    workload = workload_file.read(document.part("inputs", "workload"))
    for role in seats:
        if len(seats[role]) != roles[role].layout.gpus:
            raise document.error(
                f"{role} has {len(seats[role])} GPUs, and its layout fills {roles[role].layout.gpus}", ("device_map", role)
            )
    for name, plan in roles.items():
        _agree(document, name, plan, workload)
    capacity_mib = _capacities(document)
    machine = recorded_uuids(data, names_hosts=any(seat.host is not None for group in seats.values() for seat in group))
    sizes = {host: len(found) for host, found in machine.items()}
    return Start(seats, roles, workload, workload.schedule, by_seat(machine), capacity_mib, sizes, planned_for(data))


def _agree(document: Document, name: str, role: RolePlan, workload: Workload) -> None:
    """Refuse a role that the job does not have, or of which the map does not say what the job asks."""
    asked = workload.role(RoleName(name))
    if asked is None:
        raise document.error(f"the map places {name}, and its job (inputs.workload) has none", ("roles", name), key=True)
    known = [engine.value for engine in Engine]
    if role.engine not in known:
        raise document.error(
            f"{role.engine!r} is no engine{did_you_mean(role.engine, known)}: there is {', '.join(known)}", ("roles", name, "engine")
        )
    if role.precision not in [precision.value for precision in Precision]:
        raise document.error(f"{role.precision!r} is no precision: bf16 or fp16", ("roles", name, "precision"))
    if role.rollout is not None:
        _fills(document, name, role.rollout, role.layout.gpus)
    if role.train is not None and (role.train.master not in list(Master) or role.train.offload not in list(Offload)):
        said = f"master {role.train.master!r} and offload {role.train.offload!r}"
        there_is = f"master {' or '.join(Master)}, offload {', '.join(Offload)}"
        raise document.error(f"{name} trains with {said}: there is {there_is}", ("roles", name))
    for key, lacks in (("train", asked.train and not role.train), ("rollout", asked.rollout and not role.rollout)):
        if lacks:
            raise document.error(f"{name} has no `{key}`, and its job (inputs.workload) asks for it", ("roles", name), key=True)


def _fills(document: Document, name: str, rollout: RolloutPlan, gpus: int) -> None:
    """Refuse engines that are not the size of their group, or that claim no share of its memory."""
    if rollout.tp < 1 or rollout.replicas < 1 or rollout.tp * rollout.replicas != gpus:
        said = f"{rollout.replicas} engines of tp {rollout.tp}"
        raise document.error(f"{name} has {said} on {gpus} GPUs: replicas times tp is the number of GPUs", ("roles", name, "rollout"))
    if not 0 < rollout.gpu_memory_utilization < 1:
        raise document.error(
            f"{name}: gpu_memory_utilization is a share between 0 and 1, not {rollout.gpu_memory_utilization}", ("roles", name, "rollout")
        )


def _capacities(document: Document) -> Mapping[Seat, int]:
    rows = document.data.get("memory_mib")
    found: dict[Seat, int] = {}
    for row in rows if isinstance(rows, list) else ():
        seat = as_seat(row.get("gpu")) if isinstance(row, Mapping) else None
        capacity = row.get("capacity") if isinstance(row, Mapping) else None
        if seat is None or not isinstance(capacity, int) or isinstance(capacity, bool) or capacity <= 0:
            raise document.error("memory_mib is a list of rows with gpu and capacity", ("memory_mib",))
        found[seat] = capacity
    if not found:
        raise document.error("the map does not say what memory its GPUs have (memory_mib): write it anew with `placement plan -o FILE`")
    return found
