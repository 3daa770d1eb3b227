"""What was measured on a machine: how it is written, what is refused, and which numbers it takes the place of."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from measuring import copies, measured, spread

from topologies import bandwidth
from topologies.clusters.collect import collect, split
from topologies.documents.document import to_document
from topologies.documents.document_read import from_document, from_text
from topologies.errors import TopologyError
from topologies.measured import REHEARSAL, pair_rates, settled
from topologies.measurements import Device, Measured, Spread, together
from topologies.merging.merge import merge
from topologies.merging.renumbering import renumbered
from topologies.model import Gpu, Topology
from topologies.ways import ways
from topologies.wiring import MEASURED, wiring

Drawn = Mapping[str, Topology]

EVERYTHING = measured(
    pairs={(0, 1): 262.0, (2, 3): 263.0, (0, 2): 18.0}, tflops={0: 251.0, 1: 250.0}, memory={0: 1700.0, 3: 1710.0},
    rings={(0, 1): 190.0, (0, 1, 2, 3): 17.5},
)  # fmt: skip


# ── documents ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("write", [json.dumps, yaml.safe_dump], ids=["JSON", "YAML"])
def test_what_is_written_reads_back_the_same(drawn: Drawn, write: Callable[[Any], str]) -> None:
    machine = drawn["two pairs"].replace(measured=EVERYTHING)
    assert from_text(write(to_document(machine)), name="node0.yaml") == machine


def _document() -> dict[str, Any]:
    gpus = tuple(Gpu(k) for k in range(4))
    return to_document(Topology(gpus, {(i, j): "NV12" for j in range(4) for i in range(j)}, measured=EVERYTHING))


def _set(path: str, value: object) -> Callable[[dict[str, Any]], None]:
    def change(found: Any) -> None:
        *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        for part in way:
            found = found[part]
        found[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("copies.0.gb_per_s.median", 0), r"measured\.copies\[0\]\.gb_per_s: q1, median and q3 must be above 0, not 259\.38, 0 and"),
        (_set("copies.0.gb_per_s.q1", -1), r"measured\.copies\[0\]\.gb_per_s\.q1 must be a number from 0"),
        (_set("copies.0.gb_per_s.q1", 300.0), r"measured\.copies\[0\]\.gb_per_s: q1, median and q3 must ascend, not 300, 262 and 264\.62"),
        (_set("copies.0.gb_per_s.median", "fast"), r"measured\.copies\[0\]\.gb_per_s\.median must be a number, not 'fast'"),
        (_set("copies.0.gb_per_s.median", math.inf), r"gb_per_s\.median must be a number from 0"),
        (_set("copies.0.gb_per_s.runs", 0), r"measured\.copies\[0\]\.gb_per_s: runs must be 1 or more"),
        (_set("copies.0.gb_per_s.mean", 1.0), r"measured\.copies\[0\]\.gb_per_s has 'mean', which is none of median, q1, q3, runs"),
        (_set("copies.0.target", 0), r"measured\.copies\[0\]: source and target are both GPU 0"),
        (_set("copies.1", {"source": 0, "target": 1, "gb_per_s": {"median": 1, "q1": 1, "q3": 1, "runs": 1}}),
         r"measured: the copy from 0 to 1 is there twice"),
        (_set("gpus.1.gpu", 0), r"measured: GPU 0 is there twice"),
        (_set("gpus.1.gpu", 4), r"measured: it names GPU 4, which a machine of 4 GPUs does not have"),
        (_set("all_reduce.0.gpus", [0]), r"measured\.all_reduce\[0\]: gpus must be two or more that ascend"),
        (_set("all_reduce.0.gpus", [1, 0]), r"measured\.all_reduce\[0\]: gpus must be two or more that ascend"),
        (_set("all_reduce.0.sizes", []), r"measured\.all_reduce\[0\]: sizes must be there"),
        (_set("all_reduce.0.sizes.1.bytes", 1), r"measured\.all_reduce\[0\]: sizes must be there, above 0 and ascend"),
        (_set("device", "tpu"), r"measured\.device must be one of cuda, cpu, not 'tpu'"),
        (_set("by", "torch"), r"measured\.by must be a list"),
        (_set("when", "today"), r"measured has 'when', which is none of device, by, gpus, copies, all_reduce"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_with_its_place(change: Callable[[dict[str, Any]], None], message: str) -> None:
    document = json.loads(json.dumps(_document()))
    change(document["measured"])
    with pytest.raises(TopologyError, match=message):
        from_document(document, name="node0.yaml")


def test_copies_across_hosts_are_refused() -> None:
    gpus = (Gpu(0, host="a"), Gpu(1, host="b"))
    with pytest.raises(TopologyError, match="a copy goes from GPU 0 to GPU 1, which is on another host"):
        Topology(gpus, measured=measured(pairs={(0, 1): 20.0}))


def test_what_is_a_hundred_times_off_its_class_is_doubted(drawn: Drawn) -> None:
    """275 GB/s in MB/s is 275,000: more than 100 times the class; peaks are 312 TFLOP/s and 1,935 GB/s."""
    odd = measured(pairs={(0, 1): 275_000.0}, tflops={1: 2.5}, memory={2: 500_000.0}, rings={(2, 3): 0.2})
    found = from_document(to_document(drawn["two pairs"].replace(measured=odd)))
    (warning,) = found.warnings
    for part in (
        "GB/s from GPU 0 to GPU 1: 275000 where its class has 275", "matmul_tflops of GPU 1: 2.5 where its class has 312",
        "memory_gb_per_s of GPU 2: 500000 where its class has 1935", "bus GB/s of the all-reduce of GPUs 2, 3: 0.2 where",
    ):  # fmt: skip
        assert part in warning
    assert from_document(to_document(found)) == found
    fine = measured(pairs={(0, 1): 200.0}, tflops={1: 250.0}, memory={2: 1500.0}, rings={(2, 3): 150.0})
    assert from_document(to_document(drawn["two pairs"].replace(measured=fine))).warnings == ()


# ── which machine it is of ──────────────────────────────────────────────────────────────────────────────────────────────


def test_measurements_follow_their_gpus(drawn: Drawn) -> None:
    machine = drawn["two pairs"].replace(measured=EVERYTHING)
    assert renumbered(machine, {0: 0, 1: 1, 2: 2, 3: 3}) == machine
    swapped = renumbered(machine, {0: 2, 1: 3, 2: 0, 3: 1}).measured
    assert swapped is not None
    assert {(c.source, c.target): c.gb_per_s.median for c in swapped.copies} == {
        (2, 3): 262.0, (3, 2): 262.0, (0, 1): 263.0, (1, 0): 263.0, (2, 0): 18.0, (0, 2): 18.0,
    }  # fmt: skip
    assert [r.gpus for r in swapped.all_reduce] == [(0, 1, 2, 3), (2, 3)]
    assert [of.gpu for of in swapped.gpus] == [1, 2, 3]
    part = renumbered(machine, {2: 0, 3: 1}).measured
    assert part is not None
    assert {(c.source, c.target) for c in part.copies} == {(0, 1), (1, 0)}
    assert part.all_reduce == ()


def test_a_join_keeps_what_one_source_measured(drawn: Drawn) -> None:
    machine = drawn["two pairs"]
    assert merge([machine, machine.replace(measured=EVERYTHING)]).measured == EVERYTHING
    assert merge([machine.replace(measured=EVERYTHING), machine]).measured == EVERYTHING


def test_a_cluster_keeps_what_its_hosts_measured(drawn: Drawn) -> None:
    """GPUs 0–3 are those of node0, 4–7 those of node1; a rehearsal of one of them is left out."""
    one, other = drawn["two pairs"].replace(measured=EVERYTHING), drawn["nvswitch"].replace(measured=measured(rings={(0, 1, 2, 3): 210.0}))
    cluster = collect({"node0": one, "node1": other})
    assert cluster.measured is not None
    assert [r.gpus for r in cluster.measured.all_reduce] == [(0, 1), (0, 1, 2, 3), (4, 5, 6, 7)]
    assert cluster.measured.by == ("torch 2.13.0", "NCCL 2.27.3")
    assert {host: part.measured for host, part in split(cluster).items()} == {"node0": EVERYTHING, "node1": other.measured}
    rehearsed = drawn["nvswitch"].replace(measured=measured(tflops={0: 0.1}, device=Device.CPU))
    assert collect({"node0": one, "node1": rehearsed}).measured == EVERYTHING
    assert together([None, None]) is None


# ── what it is worth ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_noise_makes_no_difference_between_equals() -> None:
    """Medians of a: 10.0. 9.6 and 10.4 are within 5 % of it, 9.4 is not; b is a class of its own."""
    values = {"p": 10.0, "q": 9.6, "r": 10.4, "s": 9.4, "t": 10.1, "u": 3.0}
    classes = dict.fromkeys("pqrst", "a") | {"u": "b"}
    assert settled(values, classes) == {"p": 10.0, "q": 10.0, "r": 10.0, "s": 9.4, "t": 10.0, "u": 3.0}


@given(st.lists(st.floats(1, 100), min_size=1, max_size=7), st.integers(0, 6), st.floats(0.1, 1))
def test_what_gets_slower_never_counts_as_faster(values: list[float], which: int, factor: float) -> None:
    which %= len(values)
    before = dict(enumerate(values))
    after = before | {which: before[which] * factor}
    classes = dict.fromkeys(before, "all")
    assert settled(after, classes)[which] <= settled(before, classes)[which] * (1 + 1e-12)
    halved = settled({k: value / 2 for k, value in before.items()}, classes)    # without rounding
    assert halved == {k: value / 2 for k, value in settled(before, classes).items()}


def test_of_two_directions_the_slower_one_counts(drawn: Drawn) -> None:
    machine = drawn["two pairs"]
    both = Measured(Device.CUDA, copies=copies({(0, 1): 260.0, (1, 0): 130.0, (3, 2): 250.0}))
    rates = pair_rates(machine.replace(measured=both), wiring(machine).links)
    assert rates == {(0, 1): 130.0, (2, 3): 250.0}


def test_measured_copies_take_the_place_of_the_class(drawn: Drawn) -> None:
    """Class values: 275 GB/s of NV12 and 20 of SYS. Faster and slower ones count, and unmeasured pairs keep their class."""
    machine = drawn["two pairs"]
    plain = wiring(machine)
    found = wiring(machine.replace(measured=measured(pairs={(0, 1): 300.0, (2, 3): 150.0, (0, 2): 30.0, (1, 3): 9.0})))
    assert bandwidth.pair_gb_per_s(found, 0, 1) == 300.0
    assert bandwidth.pair_gb_per_s(found, 2, 3) == 150.0
    assert bandwidth.pair_gb_per_s(found, 2, 0) == 30.0
    assert bandwidth.pair_gb_per_s(found, 1, 3) == 9.0
    assert bandwidth.pair_gb_per_s(found, 1, 2) == bandwidth.pair_gb_per_s(plain, 1, 2)
    assert found.links[0, 1].source == MEASURED
    assert not found.links[0, 1].derived
    assert {edge.source for edge in found.edges.values() if edge.gb_per_s in (300.0, 150.0, 30.0)} == {MEASURED}


def test_a_switch_carries_what_was_measured_over_it(drawn: Drawn) -> None:
    """All pairs of an NVSwitch at 290 GB/s, above the class of 275: the ports of the GPUs must not cut that."""
    pairs = {(i, j): 290.0 for j in range(4) for i in range(j)}
    found = wiring(drawn["nvswitch"].replace(measured=measured(pairs=pairs)))
    assert bandwidth.ring(found, (0, 1, 2, 3)).gb_per_s == 290.0


def test_a_slow_pair_is_avoided_by_rings(drawn: Drawn) -> None:
    """0-1 at 100 GB/s on an NVSwitch: a ring of four goes 0-2-1-3, and one of two cannot."""
    pairs = {(i, j): 270.0 for j in range(4) for i in range(j)} | {(0, 1): 100.0}
    found = wiring(drawn["nvswitch"].replace(measured=measured(pairs=pairs)))
    assert bandwidth.ring(found, (0, 1, 2, 3)).gb_per_s == 270.0
    assert bandwidth.ring(found, (0, 1)).gb_per_s == 100.0
    assert not ways(found).are_twins(0, 2, range(4))
    assert ways(found).are_twins(0, 1, range(4))


def test_a_known_ring_wins_over_its_links(drawn: Drawn) -> None:
    import dataclasses

    plain = wiring(drawn["two switches"])
    known = dataclasses.replace(plain, rings={(0, 1): 40.0, (0, 1, 2, 3): 12.0})
    assert bandwidth.ring(known, (1, 0)).gb_per_s == 40.0
    assert bandwidth.ring(known, (3, 2, 1, 0)).gb_per_s == 12.0
    assert bandwidth.ring(known, (2, 3)) == bandwidth.ring(plain, (2, 3))
    assert bandwidth.blocks(known, [(0, 1), (2, 3)]).gb_per_s == bandwidth.ring(plain, (2, 3)).gb_per_s
    assert not ways(known).are_twins(1, 2, range(4))        # {0, 1} is known, {0, 2} is not


def test_shared_edges_slow_what_was_measured_alone(drawn: Drawn) -> None:
    """
    Two rings of two across the two switches share their uplinks, and each gets half of what it has alone, which was measured.

        0 1 ─ switch ─ node ─ switch ─ 2 3      rings {0, 2} and {1, 3}
    """
    import dataclasses

    plain = wiring(drawn["two switches"])
    alone = bandwidth.ring(plain, (0, 2)).gb_per_s
    together_ = bandwidth.blocks(plain, [(0, 2), (1, 3)]).gb_per_s
    known = dataclasses.replace(plain, rings={(0, 2): 0.8 * alone, (1, 3): 0.8 * alone})
    assert bandwidth.blocks(known, [(0, 2), (1, 3)]).gb_per_s == pytest.approx(0.8 * together_)


def test_a_rehearsal_changes_nothing_and_says_so(drawn: Drawn) -> None:
    machine = drawn["two pairs"].replace(measured=measured(pairs={(0, 1): 3.0}, device=Device.CPU))
    assert wiring(machine).links == wiring(drawn["two pairs"]).links
    assert from_document(to_document(machine)).warnings == (REHEARSAL,)


def test_a_spread_is_of_real_runs() -> None:
    for wrong in ((0.0, 0.0, 0.0, 1), (1.0, 2.0, 3.0, 1), (1.0, 1.0, 1.0, 0)):
        with pytest.raises(TopologyError):
            Spread(*wrong)
    assert spread(10.0).q1 <= 10.0 <= spread(10.0).q3
