"""
Titles of a query: how they are written, and which were cut.

When to modify: nvidia-smi gets fields whose names begin like none that is here.
"""

from __future__ import annotations

import re

_WORDS = r"(?:[a-z][a-zA-Z0-9_]*(?:\.[a-zA-Z0-9_]+)*\.?|[A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*\.?)"
_TITLE = re.compile(rf"({_WORDS})\s?(?:\[[^\]]*(?P<end>\]?))?")
"""Scripts that save a query may write its titles in capitals; the end of a line may cut a title behind its dot, or its unit."""

TELLING = frozenset(
    {
        "index", "name", "gpu_name", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "memory.total", "memory.used", "memory.free",
        "memory.reserved", "compute_cap", "mig.mode.current", "pid",
    }
)  # fmt: skip
"""Titles by which a header is told: fields of the query that nothing else is called."""

FIELDS = frozenset(
    """
    timestamp driver_version count name gpu_name serial gpu_serial uuid gpu_uuid index vbios_version pstate pid process_name used_memory
    used_gpu_memory compute_cap compute_mode addressing_mode persistence_mode module_id gpu_recovery_action
    pci.bus_id gpu_bus_id pci.domain pci.bus pci.device pci.device_id pci.sub_device_id pci.baseClass pci.subClass
    pcie.link.gen.current pcie.link.gen.gpucurrent pcie.link.gen.max pcie.link.gen.gpumax pcie.link.gen.hostmax pcie.link.width.current
    pcie.link.width.max display_mode display_attached display_active accounting.mode accounting.buffer_size driver_model.current
    driver_model.pending inforom.img inforom.image inforom.oem inforom.ecc inforom.pwr inforom.power inforom.checksum_validation
    gom.current gom.pending fan.speed
    clocks_event_reasons.supported clocks_event_reasons.active clocks_event_reasons.gpu_idle
    clocks_event_reasons.applications_clocks_setting clocks_event_reasons.sw_power_cap clocks_event_reasons.hw_slowdown
    clocks_event_reasons.hw_thermal_slowdown clocks_event_reasons.hw_power_brake_slowdown clocks_event_reasons.sw_thermal_slowdown
    clocks_event_reasons.sync_boost clocks_throttle_reasons.supported clocks_throttle_reasons.active clocks_throttle_reasons.gpu_idle
    clocks_throttle_reasons.applications_clocks_setting clocks_throttle_reasons.sw_power_cap clocks_throttle_reasons.hw_slowdown
    clocks_throttle_reasons.hw_thermal_slowdown clocks_throttle_reasons.hw_power_brake_slowdown
    clocks_throttle_reasons.sw_thermal_slowdown clocks_throttle_reasons.sync_boost
    memory.total memory.reserved memory.used memory.free protected_memory.total protected_memory.used protected_memory.free
    utilization.gpu utilization.memory utilization.encoder utilization.decoder utilization.jpeg utilization.ofa
    encoder.stats.sessionCount encoder.stats.averageFps encoder.stats.averageLatency dram.encryption.mode.current
    dram.encryption.mode.pending ecc.mode.current ecc.mode.pending ecc.errors.corrected.volatile.total
    ecc.errors.corrected.aggregate.total ecc.errors.uncorrected.volatile.total ecc.errors.uncorrected.aggregate.total
    retired_pages.single_bit_ecc.count retired_pages.sbe retired_pages.double_bit.count retired_pages.dbe retired_pages.pending
    remapped_rows.correctable remapped_rows.uncorrectable remapped_rows.pending remapped_rows.failure
    temperature.gpu temperature.gpu.tlimit temperature.memory power.management power.draw power.draw.average power.draw.instant
    power.limit enforced.power.limit power.default_limit power.min_limit power.max_limit
    clocks.current.graphics clocks.gr clocks.current.sm clocks.sm clocks.current.memory clocks.mem clocks.current.video clocks.video
    clocks.applications.graphics clocks.applications.gr clocks.applications.memory clocks.applications.mem
    clocks.default_applications.graphics clocks.default_applications.gr clocks.default_applications.memory
    clocks.default_applications.mem clocks.max.graphics clocks.max.gr clocks.max.sm clocks.max.memory clocks.max.mem
    mig.mode.current mig.mode.pending gsp.mode.current gsp.mode.default c2c.mode fabric.state fabric.status fabric.cliqueId
    fabric.clusterUuid platform.chassis_serial_number platform.slot_number platform.tray_index platform.host_id platform.peer_type
    platform.module_id platform.gpu_fabric_guid
    """.lower().split()
)
"""Fields of the query that are printed as they are asked for, in lower case."""


def title_of(cell: str) -> str:
    """Return the title that *cell* may be, without unit and not in capitals; nothing if it is none."""
    match = _TITLE.fullmatch(cell)
    return "" if match is None else match[1].lower() if match[1].isupper() else match[1]


def has_cut_unit(cell: str) -> bool:
    """Whether the title *cell* ends within its unit."""
    match = _TITLE.fullmatch(cell)
    return match is not None and match["end"] == ""


def doubt(last: str) -> str | None:
    """Return the warning for a header whose *last* title is only the beginning of one; None if it may be whole."""
    title = title_of(last).lower()
    if has_cut_unit(last):
        return f"the header of the query output ends within the unit of {title}: lines may be cut, so of that column only whole cells count"
    if not title or title in FIELDS or not any(field.startswith(title) for field in FIELDS):
        return None
    return f"the header of the query output ends with {last!r}, the beginning of a title: lines may be cut, so that column is left unknown"
