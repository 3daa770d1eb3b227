"""
Whether a GPU is in MIG mode, and the instances that it is then divided into.

When to modify: another fact of an instance.
"""

from __future__ import annotations

from typing import Any

from topologies.nvml.calls import NOT_FOUND, Driver, Unanswered
from topologies.parts import Mig, MigInstance

_MOST_INSTANCES = 64


def read_mig(driver: Driver, index: int, handle: Any) -> Mig | None:
    """
    Return the MIG mode of GPU *index*; None for a card that cannot be divided, or whose mode is not told.

    Raises
    ------
    topologies.nvml.calls.Lost
        If the GPU is.
    """
    mode = driver.fact(index, "MIG mode", "DeviceGetMigMode", handle, is_rare=True)
    if mode is None:
        return None
    if mode[0] != mode[1]:
        state = "on" if mode[1] else "off"
        driver.note(index, f"MIG mode of {{gpus}} is to be switched {state} when it is reset: then CUDA sees other devices")
    if not mode[0]:
        return Mig(enabled=False)
    most = driver.fact(index, "number of MIG instances", "DeviceGetMaxMigDeviceCount", handle)
    return Mig(
        enabled=True,
        instances=tuple(
            instance
            for position in range(min(most or 0, _MOST_INSTANCES))
            if (instance := _instance(driver, index, handle, position)) is not None
        ),
    )


def _instance(driver: Driver, index: int, handle: Any, position: int) -> MigInstance | None:
    """Return the instance at *position*; None in a gap, of which there may be some before the last instance."""
    try:
        instance = driver.call("DeviceGetMigDeviceHandleByIndex", handle, position)
    except Unanswered as error:
        if error.code != NOT_FOUND:
            driver.failed(index, "MIG instances", error, is_rare=True)
        return None
    name = driver.fact(index, "profiles of the MIG instances", "DeviceGetName", instance)
    uuid = driver.fact(index, "UUIDs of the MIG instances", "DeviceGetUUID", instance)
    attributes = driver.fact(index, "memory of the MIG instances", "DeviceGetAttributes_v2", instance)
    return MigInstance(
        profile=(name.rpartition("MIG ")[2].strip() or None) if name and "MIG " in name else None,
        uuid=uuid or None,
        memory_mib=attributes.memorySizeMB or None if attributes is not None else None,
    )
