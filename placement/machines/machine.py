"""
The machine as planning sees it: every GPU's card and memory known, the usable ones named, the others with the reason.

When to modify: a new reason why a GPU cannot be used, or a new fact about it that planning needs.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from placement.constants.table import Constants
from placement.constants.table import constants as shipped
from placement.errors import InputError
from placement.machines.measured import measured_cards, measured_wiring
from placement.text.suggest import nearest
from placement.workloads.rules import Rules
from topologies.cards import Card, card_of
from topologies.cards import cards as catalogue
from topologies.domains import Level, domains
from topologies.link_rates import SHIPPED, Rates
from topologies.links import DIRECT_KINDS, parse_code
from topologies.model import Gpu, Topology
from topologies.peer import blocked
from topologies.wiring import Wiring, wiring

QUERY = "nvidia-smi --query-gpu=index,name,memory.total,memory.used,uuid,pci.bus_id --format=csv"
"""The command that tells what a matrix does not."""

AMD_QUERY = "rocm-smi --showproductname --showmeminfo vram"
"""The same for AMD."""

MIG = "it is in MIG mode, in which jobs see its instances instead of it (`nvidia-smi -i {ids} -mig 0` ends that)"
"""Why a GPU that is divided into instances is not used: they have neither NVLink nor peer-to-peer."""

NOT_NEEDED = "not needed (--smallest gpus)"
"""Why a GPU that the user did not hide is none of those of a smaller set."""

_MOST_PROCESSES = 3
_LONGEST_COMMAND = 40


@dataclass(frozen=True)
class Machine:
    """
    A machine that can be planned on.

    Parameters
    ----------
    topology
        What was read.
    cards
        The card of each GPU, with the peaks that were measured on it; of one that no source names, and no plan may use, that of another.
    capacity_mib
        Memory of each GPU as torch sees it, MiB.
    reserved_mib
        Of it, what no plan may use: the reserve, and what other processes hold.
    usable
        GPUs that a plan may use, ascending.
    unusable
        The others, each with the reason.
    rates
        What classes of links carry.
    constants
        By which what was measured on it is turned into peaks.
    """

    topology: Topology
    cards: tuple[Card, ...]
    capacity_mib: tuple[int, ...]
    reserved_mib: tuple[int, ...]
    usable: tuple[int, ...]
    unusable: Mapping[int, str]
    rates: Rates = SHIPPED
    constants: Constants = field(default_factory=shipped)

    @functools.cached_property
    def wiring(self) -> Wiring:
        """What carries data in it; `topologies.graph.machine_graph` shows it as a graph."""
        return measured_wiring(wiring(self.topology, self.rates), self.cards, self.constants)

    def wired(self, wiring: Wiring) -> Self:
        """Return the same machine with *wiring* in place of its own: the same parts, which carry other amounts."""
        other = replace(self)
        other.__dict__["wiring"] = wiring   # where `cached_property` looks before it computes
        return other

    def again(
        self,
        rules: Rules,
        *,
        visible: Sequence[int] | None,
        not_needed: Sequence[int] = (),
        topology: Topology | None = None,
        constants: Constants | None = None,
    ) -> Machine:
        """Return what `resolve` makes of *topology* by other rules and ids; topology and *constants* are its own where they are None."""
        return resolve(
            topology or self.topology,
            rules,
            visible=visible,
            not_needed=not_needed,
            constants=constants or self.constants,
            rates=self.rates,
        )

    @functools.cached_property
    def levels(self) -> tuple[tuple[Level, tuple[tuple[int, ...], ...]], ...]:
        """The domains of every level, closest first, restricted to usable GPUs."""
        wanted = set(self.usable)
        return tuple(
            (level, tuple(kept for d in domains(self.topology, level) if (kept := tuple(g for g in d if g in wanted))))
            for level in Level
        )

    @property
    def room_mib(self) -> tuple[int, ...]:
        """What a plan may use of each usable GPU, MiB."""
        return tuple(max(self.capacity_mib[g] - self.reserved_mib[g], 0) for g in self.usable)

    def room_beside_reward_mib(self, percent: float) -> tuple[int, ...]:
        """What roles may use of each usable GPU that they share with a reward model, of which *percent* stays free, MiB."""
        return tuple(
            max(int(self.capacity_mib[g] * (1 - percent / 100)) - (self.topology.gpus[g].memory_used_mib or 0), 0)
            for g in self.usable
        )

    @property
    def host_memory_mib(self) -> tuple[int | None, ...]:
        """Memory of each host of the topology, MiB; None where no source tells."""
        facts = self.topology.host_facts
        return tuple(facts[host].memory_mib if host in facts else None for host in self.topology.hosts)

    @property
    def knows_host_memory(self) -> bool:
        """Whether the memory of any host is known."""
        return any(mib is not None for mib in self.host_memory_mib)

    def has_nvlink(self, a: int, b: int) -> bool:
        """Whether GPUs *a* and *b* are joined by NVLink, or by XGMI, which is AMD's, that carries peer-to-peer copies."""
        return (min(a, b), max(a, b)) not in self.blocked and parse_code(self.topology.link(a, b))[0] in DIRECT_KINDS

    @functools.cached_property
    def blocked(self) -> Mapping[tuple[int, int], str]:
        """The pairs of GPUs whose peer-to-peer copies are off, with the reason."""
        return blocked(self.topology)

    @functools.cached_property
    def is_nvlinked(self) -> bool:
        """Whether any two usable GPUs are joined by NVLink."""
        return any(self.has_nvlink(a, b) for i, a in enumerate(self.usable) for b in self.usable[i + 1 :])


def resolve(
    topology: Topology,
    rules: Rules,
    *,
    visible: Sequence[int] | None = None,
    not_needed: Sequence[int] = (),
    constants: Constants | None = None,
    rates: Rates = SHIPPED,
) -> Machine:
    """
    Return *topology* as a machine to plan on.

    Parameters
    ----------
    visible
        Physical ids that CUDA_VISIBLE_DEVICES leaves; None when it hides nothing.
    not_needed
        Physical ids that the smallest set of GPUs leaves out.
    constants
        By which what was measured on it is turned into peaks, and what cards keep for themselves; None for the shipped ones.
    rates
        What classes of links carry.

    Raises
    ------
    InputError
        If a GPU's card or memory is unknown, a visible id does not exist, or no GPU is left.
    """
    c = shipped() if constants is None else constants
    some = next((gpu.index for gpu in topology.gpus if gpu.is_named), 0)
    cards = tuple(_card(topology, gpu.index if gpu.is_named else some) for gpu in topology.gpus)
    capacity = tuple(_capacity_mib(topology, index, card, c) for index, card in enumerate(cards))
    unusable = _unusable(topology, rules, visible, not_needed)
    usable = tuple(g.index for g in topology.gpus if g.index not in unusable)
    if not usable:
        reasons = "; ".join(f"GPU {index}: {why}" for index, why in unusable.items())
        raise InputError(f"no GPU is left to plan on ({reasons})")
    reserved = tuple(
        rules.reserve.of_mib(mib) + (gpu.memory_used_mib or 0)
        for mib, gpu in zip(capacity, topology.gpus, strict=True)
    )
    return Machine(topology, measured_cards(topology, cards, c), capacity, reserved, usable, unusable, rates, c)


def _card(topology: Topology, index: int) -> Card:
    gpu = topology.gpus[index]
    if gpu.name is None and gpu.memory_mib is None:
        raise InputError(
            f"the card and memory of GPU {index} are unknown: run `{_query(topology)}` on the machine and join its output "
            f"(--topology topo.txt+gpus.{'txt' if _is_amd(topology) else 'csv'}), or name the cards (--gpu {_example(topology, gpu)})"
        )
    if gpu.name is None:
        raise InputError(
            f"GPU {index} has {gpu.memory_mib} MiB, but no source names its card: {_ask_name(topology)}, "
            f"or name it (--gpu {_example(topology, gpu)})"
        )
    card = card_of(gpu)
    if card is None:
        raise _not_catalogued(topology, gpu)
    return card


def _is_amd(topology: Topology) -> bool:
    return topology.format.startswith(("rocm", "amd-smi")) or "XGMI" in topology.links.values()


def _query(topology: Topology) -> str:
    return AMD_QUERY if _is_amd(topology) else QUERY


def _ask_name(topology: Topology) -> str:
    return f"join the output of `{AMD_QUERY}`" if _is_amd(topology) else f"add `name` to the query (`{QUERY}`)"


def _example(topology: Topology, gpu: Gpu) -> str:
    """Return a card that *gpu* may be, as an example: by what is known of its maker, compute capability and memory."""
    stated = re.fullmatch(r"([0-9]{1,2})\.([0-9])", gpu.compute_capability or "")
    capability = (0, 0) if _is_amd(topology) else (int(stated[1]), int(stated[2])) if stated else None
    alike = [card for card in catalogue() if card.compute_capability == capability]
    if gpu.memory_mib is not None:
        mib = gpu.memory_mib
        makers = alike or [card for card in catalogue() if card.compute_capability != (0, 0)]
        return min(makers, key=lambda card: abs(card.total_mib - mib)).slug
    usual = {"a100-80gb", "h100-80gb", "mi300x"}
    return next((card.slug for card in alike if card.slug in usual), alike[0].slug if alike else "a100-80gb")


def _not_catalogued(topology: Topology, gpu: Gpu) -> InputError:
    """Say which GPUs are the same unknown card as *gpu*, and which card is called most like it."""
    ids = id_ranges(other.index for other in topology.gpus if other.name == gpu.name)
    called = {_bare(name): card for card in catalogue() for name in (card.slug, *card.aliases, *card.nvml_names)}
    close = nearest(_bare(gpu.name or ""), called)
    slug = "CARD" if close is None else _closest_version(called[close], gpu).slug
    example = ",".join(f"{part}={slug}" for part in ids.split(","))
    verb = "is" if ids.isdigit() else "are"
    return InputError(
        f"GPU {ids} {verb} {gpu.name!r}, which is not in the catalogue (`placement catalog gpus`): "
        f"name the card that is nearest to it (--gpu {example})"
    )


def _closest_version(card: Card, gpu: Gpu) -> Card:
    """Return the version of *card* whose memory is closest to that of *gpu*."""
    if gpu.memory_mib is None:
        return card
    mib = gpu.memory_mib
    return min((c for c in catalogue() if c.chip == card.chip), key=lambda c: abs(c.total_mib - mib))


def _bare(name: str) -> str:
    """Return *name* without the words that most cards have in common."""
    return re.sub(r"\b(nvidia|geforce|tesla|quadro|amd|instinct)\b|[^a-z0-9]+", " ", name.lower()).strip()


def id_ranges(ids: Iterable[int]) -> str:
    """Return ascending ids as people write them: ``0-3,6``."""
    runs: list[list[int]] = []
    for index in ids:
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _capacity_mib(topology: Topology, index: int, card: Card, c: Constants) -> int:
    """Return what torch sees: the total less what logs of the card show that it does not see, or what it sees less of most cards."""
    stated = topology.gpus[index].memory_mib
    unseen = card.total_mib - card.torch_mib if card.torch_is_logged else c.unseen_memory_mib
    return max((card.total_mib if stated is None else stated) - unseen, 1)


def _unusable(
    topology: Topology, rules: Rules, visible: Sequence[int] | None, not_needed: Sequence[int]
) -> dict[int, str]:
    n = len(topology.gpus)
    for what, ids in (("--visible", visible or ()), ("not_needed", not_needed)):
        for index in ids:
            if not 0 <= index < n:
                raise InputError(f"{what} names GPU {index}; this machine has GPUs 0 to {n - 1}")
    reasons = {}
    divided = _divided(topology)
    for gpu in topology.gpus:
        used = gpu.memory_used_mib or 0
        if not gpu.is_named:
            reasons[gpu.index] = "no source names it"
        elif visible is not None and gpu.index not in visible:
            reasons[gpu.index] = "hidden by --visible or CUDA_VISIBLE_DEVICES"
        elif gpu.index in not_needed:
            reasons[gpu.index] = NOT_NEEDED
        elif gpu.mig is not None and gpu.mig.enabled:
            reasons[gpu.index] = MIG.format(ids=divided[gpu.host])
        elif rules.busy_mib is not None and used > rules.busy_mib:
            reasons[gpu.index] = f"other processes{_who(gpu)} hold {used} MiB of it (rule busy: {rules.busy_mib} MiB)"
    return reasons


def _divided(topology: Topology) -> dict[str | None, str]:
    """Return for each host its GPUs in MIG mode by their numbers there: ``0,3``."""
    count: Counter[str | None] = Counter()
    found: dict[str | None, list[str]] = {}
    for gpu in topology.gpus:
        if gpu.mig is not None and gpu.mig.enabled:
            found.setdefault(gpu.host, []).append(str(count[gpu.host]))
        count[gpu.host] += 1
    return {host: ",".join(numbers) for host, numbers in found.items()}


def _who(gpu: Gpu) -> str:
    """Return who holds most memory of *gpu*, in brackets; nothing where no source tells."""
    largest = sorted(gpu.processes or (), key=lambda process: (-(process.memory_mib or 0), process.pid))
    words = []
    for process in largest[:_MOST_PROCESSES]:
        command = (process.name or "").rpartition("/")[2]
        command = "".join(c if c.isprintable() else "?" for c in command[:_LONGEST_COMMAND])
        words.append(f"{command} with pid {process.pid}" if command else f"pid {process.pid}")
    more = len(largest) - len(words)
    return f" ({', '.join(words)}{f' and {more} more' if more else ''})" if words else ""
