"""
Every number of the cost model that is not physics; ``data/constants.json`` has its unit, its source and how
it was obtained. A user can put a value of his own in place of each (`Override`).

What links carry is among them, and stands with `topologies.link_rates`, which must not know of `placement`.

When to modify: the cost model needs one more number. A better measurement changes the data file alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from topologies.link_rates import SHIPPED, Rates, known

FARTHEST = 200
"""
How many times larger or smaller than the shipped value an override may be: beyond, its unit is another. Units are a thousand apart, and
the number that was meant is not the shipped one, but within a factor of five of it.
"""


@dataclass(frozen=True, slots=True)
class Constants:
    """The values by name; units are in the names and, with sources, in the data file (see `sources`)."""

    train_overhead_mib: int
    frozen_overhead_mib: int
    nccl_mib_2: int
    nccl_mib_4: int
    engine_residual_mib: int
    fsdp_activation_bytes_per_hidden: float
    fsdp_activation_bytes_per_hidden_moe: float
    logit_bytes_per_token_and_vocab: float
    engine_sampler_bytes_per_sequence_and_vocab: float
    engine_batched_tokens: int
    engine_nccl_mib_tp1: int
    engine_nccl_mib_tp2: int
    engine_nccl_mib_tp4: int
    sync_bucket_mib: int
    host_process_mib: int
    host_frozen_bytes_per_parameter: float
    host_pinned_rounding: float
    ray_object_store_share: float
    ray_object_store_most_mib: int
    ray_memory_threshold: float
    matmul_efficiency: float
    fp8_rate: float
    memory_efficiency: float
    kv_read_efficiency: float
    train_mfu_dense: float
    train_mfu_moe: float
    forward_mfu_dense: float
    forward_mfu_moe: float
    mfu_flops_per_byte: float
    attention_weight: float
    decode_overhead_us: float
    decode_overhead_us_per_layer: float
    sampler_bytes_per_sequence_and_vocab: float
    ring_efficiency: float
    own_bytes_per_s: float
    own_memory_bytes_per_s: float
    switch_efficiency: float
    nvlink_alpha_us: float
    nvlink_alpha_us_per_gpu: float
    nvlink_alpha_bytes_per_s: float
    pcie_alpha_us: float
    pcie_alpha_us_per_gpu: float
    decode_alpha_us: float
    hybrid_sync_overhead_us: int
    separate_sync_overhead_us: int
    sync_tensor_us: float
    sync_bucket_us: float
    generate_time_factor: float
    reward_time_factor: float
    old_log_probs_time_factor: float
    ref_log_probs_time_factor: float
    values_time_factor: float
    update_critic_time_factor: float
    update_actor_time_factor: float
    sync_weights_time_factor: float
    stage_overhead_us: int
    hand_over_ns_per_token: float
    pageable_share: float
    host_adam_parameters_per_s: float
    host_fused_adam_parameters_per_s: float
    best_matmul_share: float
    unseen_memory_mib: int
    network_port_efficiency: float
    nf4_bytes_per_weight: float
    int4_bytes_per_weight: float
    nvlink_gen1_x2_gb_per_s: float
    nvlink_gen2_x1_gb_per_s: float
    nvlink_gen2_x2_gb_per_s: float
    nvlink_gen2_x3_gb_per_s: float
    nvlink_gen3_x12_gb_per_s: float
    nvlink_gen4_x12_gb_per_s: float
    nvlink_gen4_x18_gb_per_s: float
    nvlink_share: float
    nvlink_unknown_card_gb_per_s_per_link: float
    xgmi_mi300x_gb_per_s: float
    xgmi_share: float
    pcie_gen3_p2p_gb_per_s: float
    pcie_gen3_across_sockets_gb_per_s: float
    pcie_gen3_staged_gb_per_s: float
    pcie_gen4_p2p_gb_per_s: float
    pcie_gen4_across_sockets_gb_per_s: float
    pcie_gen4_staged_gb_per_s: float
    pcie_gen5_p2p_gb_per_s: float
    pcie_gen5_across_sockets_gb_per_s: float
    pcie_gen5_staged_gb_per_s: float
    pcie_p2p_share: float
    pcie_across_sockets_share: float
    pcie_staged_share: float
    power9_across_sockets_gb_per_s: float

    def time_factor(self, work: str) -> float:
        """Return by what the predicted time of a piece of work (`placement.workloads.dataflow.Work`) is multiplied."""
        factor: float = getattr(self, f"{work}{TIME_FACTOR}")
        return factor


TIME_FACTOR = "_time_factor"
"""How the names of the factors end that a calibration fits."""


@dataclass(frozen=True, slots=True)
class Source:
    """
    Where a constant comes from.

    Parameters
    ----------
    unit
        Its unit in words.
    obtained
        ``published``, ``derived`` (computed from published values, as *source* says), ``fitted`` (chosen for the smallest error on a
        published table, as *source* says) or ``measured``.
    source
        Who says so.
    least, most
        What it cannot be below or above, whoever measures it (a byte that is asked for takes a byte); None for no such thing.
    """

    unit: str
    obtained: str
    source: str
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True, slots=True)
class Override:
    """
    A value that a user puts in place of a shipped one.

    Parameters
    ----------
    name
        The constant.
    value
        In the unit of the constant; of its type, and inside `allowed`.
    source
        Where the user has it from; None if he does not say.
    """

    name: str
    value: int | float
    source: str | None = None


class Range(NamedTuple):
    """What a constant may be: *lowest* to *highest*, zero if *or_zero*, whole numbers only if *whole*; *text* says it."""

    lowest: float
    highest: float
    or_zero: bool
    whole: bool
    text: str

    def has(self, value: float) -> bool:
        """Whether *value*, a number, may be taken."""
        return (self.or_zero and value == 0) or self.lowest <= value <= self.highest


def overridden(overrides: Iterable[Override]) -> Constants:
    """Return the shipped constants with *overrides*, of which the last counts where two have one name."""
    values: dict[str, Any] = {each.name: each.value for each in overrides}
    return dataclasses.replace(constants(), **values)


def is_of_links(name: str) -> bool:
    """Whether constant *name* is about links: it is in their file, and works through the wiring of a machine (`link_rates`)."""
    return SHIPPED.has(name)


def link_rates(overrides: Iterable[Override]) -> Rates:
    """Return the numbers of links with *overrides*; those of other constants are left out."""
    own = {each.name: each for each in overrides if is_of_links(each.name)}
    return Rates(
        {name: float(each.value) for name, each in own.items()},
        {name: each.source for name, each in own.items() if each.source is not None},
    )


def allowed(name: str) -> Range:
    """
    Return what constant *name* may be.

    Shares end at 1, and what has a bound in nature there (`Source.least`). Amounts of memory and time, which are only ever added, may be
    0. Everything else stays within `FARTHEST` of the shipped value, so that no mistyped unit (and nothing that the solvers cannot add up)
    passes.
    """
    said, shipped = sources()[name], getattr(constants(), name)
    whole = Constants.__dataclass_fields__[name].type == "int"
    or_zero = said.unit.split()[0] in ("MiB", "us")
    most, least = 1 if said.unit.startswith("share") else said.most, said.least
    highest = shipped * FARTHEST if most is None else most
    lowest = least if least is not None else -(-shipped // FARTHEST) if whole else shipped / FARTHEST
    kind = "a whole number" if whole else "a number"
    text = f"{'0, or ' if or_zero else ''}{kind} from {lowest:g} to {highest:g} ({said.unit}; shipped: {shipped:g})"
    return Range(lowest, highest, or_zero, whole, text)


def constants() -> Constants:
    """Return the shipped constants; inside `instead` those that are tried."""
    return _tried.get() or _shipped()


@contextlib.contextmanager
def instead(tried: Constants) -> Iterator[None]:
    """Let `constants` return *tried* inside the block: for a look at what other values would predict (`placement.validation.fitted`)."""
    token = _tried.set(tried)
    try:
        yield
    finally:
        _tried.reset(token)


_tried: ContextVar[Constants | None] = ContextVar("_tried", default=None)


@functools.cache
def _shipped() -> Constants:
    return Constants(**{name: record["value"] for name, record in _records().items()})


def sources() -> dict[str, Source]:
    """Return unit and source of every constant, in the order of the data file."""
    return {
        name: Source(record["unit"], record["obtained"], record["source"], record.get("least"), record.get("most"))
        for name, record in _records().items()
    }


@functools.cache
def _records() -> dict[str, dict[str, Any]]:
    text = (Path(__file__).parents[1] / "data" / "constants.json").read_text(encoding="utf-8")
    records: dict[str, dict[str, Any]] = json.loads(text)
    return records | {name: dataclasses.asdict(found) for name, found in known().items()}
