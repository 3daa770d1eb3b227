"""
What only one format states (`Topology.stated`), in sentences; what the page shows elsewhere is not said again.

When to modify: a format states something new that people should see.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from placement.cli.facts import gpu_words
from placement.cli.table import counted
from placement.drawing.shapes import printable
from topologies.merging.identity import bus_key
from topologies.model import Topology

_SHOWN = frozenset(
    {
        "attached_gpus", "bar1_mib", "c2c", "cuda", "devices", "driver", "fb_mib", "gpu_ids_seen", "gpu_links_GBps", "gpu_links_up",
        "gpu_list", "gpus_seen", "header", "hops", "indices", "memory_total_mib", "mig_devices_seen", "name", "names", "nic_count",
        "numa_of_gpu_busid", "nvlinks_seen", "nvswitch_links", "pcie", "root", "rows", "weight",
    }
)  # fmt: skip
"""What has a sentence here, or a column or line elsewhere."""


def stated(topology: Topology) -> Iterator[str]:
    """Yield what only one format states: in words where there are some, the rest by its name."""
    links = topology.stated.get("gpu_links_GBps")
    if isinstance(links, Mapping):
        yield from _link_rates(links)
    up = topology.stated.get("gpu_links_up")
    if isinstance(up, Mapping):
        rated = {gpu: _rated(facts) for gpu, facts in links.items()} if isinstance(links, Mapping) else {}
        further = {gpu: count for gpu, count in up.items() if rated.get(gpu) != count}
        yield from (f"{_named(gpus)}: {count} NVLinks up" for count, gpus in _inverted(further).items())
    switched = topology.stated.get("nvswitch_links")
    if isinstance(switched, Mapping):
        of_bus = {bus_key(gpu.pci_bus_id): str(gpu.index) for gpu in topology.gpus if gpu.pci_bus_id is not None}
        for count, ids in _inverted(switched).items():
            found = [of_bus[key] for key in map(bus_key, ids) if key in of_bus]
            yield f"{_named(found) if len(found) == len(ids) else counted(len(ids), 'GPU')}: {count} NVLinks to NVSwitches"
    for word in ("weight", "hops"):
        pairs = topology.stated.get(word)
        if isinstance(pairs, Mapping):
            listed = (f"{value} ({counted(len(keys), 'pair')})" for value, keys in _inverted(pairs).items())
            yield f"{word} between GPUs: {', '.join(listed)}"
    for cpu, gpus in topology.gpus_near_cpu.items():
        yield f"near CPU {cpu}: {gpu_words(gpus) if gpus else 'no GPU'}"
    yield from _of_the_driver(topology)
    plain = {k: v for k, v in topology.stated.items() if k not in _SHOWN and isinstance(v, (str, int, float))}
    if plain:
        yield "also stated: " + ", ".join(f"{printable(k)} {printable(str(v))}" for k, v in plain.items())
    if others := [printable(k) for k in topology.stated if k not in _SHOWN and k not in plain]:
        yield f"also stated, see --json: {', '.join(others)}"


def _of_the_driver(topology: Topology) -> Iterator[str]:
    """Yield versions, the window of memory that PCIe shows, instances, and a count of GPUs that is not that of the page."""
    said = topology.stated
    has_driver = any(facts.driver for facts in topology.host_facts.values())
    versions = [] if has_driver or not said.get("driver") else [f"driver {said['driver']}"]
    has_cuda = any(facts.cuda for facts in topology.host_facts.values())
    versions += [f"CUDA {said['cuda']}"] if said.get("cuda") and not has_cuda else []
    if versions:
        yield printable(", ".join(versions))
    attached = said.get("attached_gpus")
    if isinstance(attached, int) and attached != len(topology.gpus):
        yield f"the driver counts {counted(attached, 'attached GPU')}"
    windows = _windows(topology)
    if windows:
        known = {gpu for gpus in windows.values() for gpu in gpus}
        is_each = len(windows) == 1 and known == {str(gpu.index) for gpu in topology.gpus}
        each = (f"{total} MiB on {'each GPU' if is_each else _named(gpus)}" for total, gpus in windows.items())
        yield printable(f"memory that PCIe devices reach (BAR1): {', '.join(each)}")
    instances = said.get("mig_devices_seen")
    if isinstance(instances, Mapping) and not any(gpu.mig and gpu.mig.instances for gpu in topology.gpus):
        for gpu, numbers in instances.items():
            listed = ", ".join(map(str, numbers)) if isinstance(numbers, Sequence) else str(numbers)
            yield printable(f"MIG devices of GPU {gpu}: {listed}")
    chips = said.get("c2c")
    if isinstance(chips, Mapping) and chips:
        yield f"{counted(len(chips), 'GPU')} linked to the CPU of the same chip (C2C)"


def _windows(topology: Topology) -> dict[str, list[str]]:
    """Return which GPUs show how many MiB over PCIe; where one GPU was asked for, it is the one whose bus id was seen."""
    windows, seen = topology.stated.get("bar1_mib"), topology.stated.get("gpu_ids_seen")
    if not isinstance(windows, Mapping):
        return {}
    if "total" in windows:
        ids = {bus_key(str(bus_id)) for bus_id in seen} if isinstance(seen, Sequence) else set()
        asked = [gpu for gpu in topology.gpus if gpu.pci_bus_id is not None and bus_key(gpu.pci_bus_id) in ids]
        asked = asked or [gpu for gpu in topology.gpus if gpu.is_named]
        windows = {str(asked[0].index) if len(asked) == 1 else "one GPU": windows}
    return _inverted({gpu: window["total"] for gpu, window in windows.items() if isinstance(window, Mapping) and "total" in window})


def _link_rates(links: Mapping[str, object]) -> Iterator[str]:
    looks: dict[str, str] = {}
    for gpu, facts in links.items():
        rates = facts.get("links") if isinstance(facts, Mapping) else None
        count: dict[str, int] = {}
        for rate in rates.values() if isinstance(rates, Mapping) else ():
            what = f"at {rate:g} GB/s" if isinstance(rate, (int, float)) else printable(str(rate))
            count[what] = count.get(what, 0) + 1
        state = facts.get("state") if isinstance(facts, Mapping) else None
        words = [f"{number} {what}" for what, number in count.items()]
        looks[gpu] = ", ".join(words) or printable(str(state or "none stated"))
    yield from (f"NVLinks of {_named(gpus)}: {look}" for look, gpus in _inverted(looks).items())


def _rated(facts: object) -> int | None:
    """Return how many NVLinks of one GPU have a rate; None if that is not stated."""
    rates = facts.get("links") if isinstance(facts, Mapping) else None
    return sum(isinstance(rate, (int, float)) for rate in rates.values()) if isinstance(rates, Mapping) else None


def _inverted(values: Mapping[str, object]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, value in values.items():
        found.setdefault(printable(str(value)), []).append(str(key))
    return found


def _named(gpus: Sequence[str]) -> str:
    if all(re.fullmatch(r"\d{1,6}", gpu) for gpu in gpus):
        return gpu_words([int(gpu) for gpu in gpus])
    return printable(", ".join(gpus))
