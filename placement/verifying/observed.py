"""
What one process of a job sees: its host, its place among the ranks, and its GPUs.

Everything is read from the environment of the process and from the driver (NVML, which makes no CUDA context): no GPU is touched, so
that it can be asked before a model is loaded.

When to modify: a launcher tells its processes their place by other variables.
"""

from __future__ import annotations

import dataclasses
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from placement.errors import InputError
from placement.maps.variables import HOST, ORDER, VISIBLE

_BUS_ID = re.compile(r"(?:0000)?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU that the driver lists: its UUID and its PCI bus id, ``0000:3B:00.0``."""

    uuid: str
    bus_id: str


@dataclass(frozen=True, slots=True)
class Observed:
    """
    What a process sees.

    Parameters
    ----------
    host
        What its host is called.
    rank, world_size, local_rank, local_world_size
        Its place among the processes of the job and of its host; None where nothing says.
    visible
        The entries of CUDA_VISIBLE_DEVICES; None where it is not set.
    order
        CUDA_DEVICE_ORDER.
    devices
        The GPUs of the host in PCI order, which is how CUDA counts them with CUDA_DEVICE_ORDER=PCI_BUS_ID; None without a driver.
    """

    host: str
    rank: int | None
    world_size: int | None
    local_rank: int | None
    local_world_size: int | None
    visible: tuple[str, ...] | None
    order: str | None
    devices: tuple[Device, ...] | None

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data for another process."""
        return dataclasses.asdict(self)

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Observed:
        """Return what `to_plain` was made from."""
        devices = data["devices"]
        visible = data["visible"]
        return cls(
            **{
                **data,
                "visible": None if visible is None else tuple(visible),
                "devices": None if devices is None else tuple(Device(**device) for device in devices),
            }
        )


def observe(
    environment: Mapping[str, str], *, host: str | None = None, devices: tuple[Device, ...] | None = None
) -> Observed:
    """
    Return what the process with *environment* sees.

    Parameters
    ----------
    host
        What the host is called; by default what PLACEMENT_HOST says, else its own name.
    devices
        What `driver_devices` returned on its host.

    Raises
    ------
    InputError
        If a variable that tells its place is no number, or says where it is among how many and not both.
    """
    rank, world_size = _number(environment, "RANK"), _number(environment, "WORLD_SIZE")
    if (rank is None) != (world_size is None):
        there, missing = ("RANK", "WORLD_SIZE") if world_size is None else ("WORLD_SIZE", "RANK")
        raise InputError(f"{there} is set and {missing} is not: a launcher such as torchrun sets both")
    visible = environment.get(VISIBLE)
    return Observed(
        host=host or environment.get(HOST) or socket.gethostname(),
        rank=rank,
        world_size=world_size,
        local_rank=_number(environment, "LOCAL_RANK"),
        local_world_size=_number(environment, "LOCAL_WORLD_SIZE"),
        visible=None if visible is None else tuple(entry.strip() for entry in visible.split(",") if entry.strip()),
        order=environment.get(ORDER),
        devices=devices,
    )


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,7}", text):
        raise InputError(f"{name} is {text!r}, and a launcher sets it to a number")
    return int(text)


def driver_devices() -> tuple[Device, ...] | None:
    """Return the GPUs of this host in PCI order; None where no driver answers."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no library, no driver, no permission: there is nothing to ask
        return None
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(k) for k in range(pynvml.nvmlDeviceGetCount())]
        found = [Device(_text(pynvml.nvmlDeviceGetUUID(one)), bus_key(pynvml.nvmlDeviceGetPciInfo(one).busId)) for one in handles]
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()
    return tuple(sorted(found, key=lambda device: device.bus_id))


def _text(answer: str | bytes) -> str:
    return answer.decode() if isinstance(answer, bytes) else answer


def bus_key(answer: str | bytes) -> str:
    """Return a bus id with a domain of four digits where four are enough, in capitals."""
    match = _BUS_ID.fullmatch(_text(answer))
    return match[1].upper() if match else _text(answer)
