"""``nvidia-smi nvlink``: other machines, printed as the tool prints them, damaged, and read back."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_read_damage import FEWER, cut, read_any
from test_smi_list import DAMAGES

from topologies.documents.document import to_document
from topologies.errors import TopologyError
from topologies.read import read_text

INACTIVE = "inactive"


@dataclass(frozen=True)
class Linked:
    """
    A machine: its card, where the links of each GPU end (a GPU and a link of it, or an NVSwitch), and the rate of each.

    *buses* are the bus ids of the GPUs, ascending, *switches* those of NVSwitches.
    """

    name: str
    ends: tuple[tuple[tuple[str, int], ...], ...]
    rates: tuple[tuple[str, ...], ...]
    buses: tuple[str, ...]
    uuids: tuple[str, ...]

    def head(self, gpu: int) -> str:
        return f"GPU {gpu}: {self.name} (UUID: {self.uuids[gpu]})\n"

    def status(self) -> str:
        return "".join(
            self.head(g) + "".join(f"\t Link {k}: {self._printed(rate)}\n" for k, rate in enumerate(rates))
            for g, rates in enumerate(self.rates)
        )

    @staticmethod
    def _printed(rate: str) -> str:
        return "<inactive>" if rate == INACTIVE else f"{rate} GB/s"

    def remote(self, *, far: bool) -> str:
        """Return what ``-R`` prints, or ``-p`` unless *far*: active links only."""
        text = ""
        for g, ends in enumerate(self.ends):
            text += self.head(g)
            for k, (bus, link) in enumerate(ends):
                if self.rates[g][k] != INACTIVE:
                    text += f"\t Link {k}: Remote Device {bus}: Link {link}\n" if far else f"\t Link {k}: {bus}\n"
        return text

    def capabilities(self) -> str:
        what = ("P2P is supported", "Access to system memory supported", "Link is supported")
        return "".join(
            self.head(g) + "".join(f"\t Link {k}, {word}: true\n" for k in range(len(rates)) for word in what)
            for g, rates in enumerate(self.rates)
        )

    def query(self) -> str:
        return "index, pci.bus_id\n" + "".join(f"{g}, {bus}\n" for g, bus in enumerate(self.buses))

    @property
    def stated(self) -> dict[str, dict[str, object]]:
        found: dict[str, dict[str, object]] = {}
        for g, rates in enumerate(self.rates):
            links = {str(k): rate if rate == INACTIVE else float(rate) for k, rate in enumerate(rates)}
            found[str(g)] = {"name": self.name, "links": links}
            if set(rates) == {INACTIVE}:
                found[str(g)]["state"] = INACTIVE
        return found

    @property
    def links(self) -> dict[tuple[int, int], str]:
        """Code of every pair that is joined directly."""
        counts: Counter[tuple[int, int]] = Counter()
        for g, ends in enumerate(self.ends):
            for k, (bus, _) in enumerate(ends):
                if bus in self.buses and self.rates[g][k] != INACTIVE and g < self.buses.index(bus):
                    counts[g, self.buses.index(bus)] += 1
        return {pair: f"NV{count}" for pair, count in sorted(counts.items())}


@st.composite
def machines(draw: st.DrawFn, *, direct: bool | None = None, healthy: bool = False) -> Linked:
    """
    Draw GPUs that NVLinks join directly, each link to a free one of another GPU, or all through NVSwitches.

    A direct link is inactive at both ends or at none.
    """
    dice = random.Random(draw(st.integers(0, 2**32)))
    count = draw(st.integers(1, 8))
    width = draw(st.integers(1, 12))
    name, rate = draw(st.sampled_from((("NVIDIA H100 80GB HBM3", "26.562"), ("Tesla V100-SXM2-16GB", "25.781"), ("NVIDIA B200", "53.125"))))
    buses = tuple(f"0000000{draw(st.sampled_from('01'))}:{7 + 13 * g:02X}:00.0" for g in range(count))
    buses = tuple(sorted(buses))
    ends: list[dict[int, tuple[str, int]]] = [{} for _ in range(count)]
    if draw(st.booleans()) if direct is None else direct:
        order = [g for g in range(count) for _ in range(width)]
        dice.shuffle(order)
        for a, b in zip(order[::2], order[1::2], strict=False):
            if a != b:
                link_a, link_b = len(ends[a]), len(ends[b])
                ends[a][link_a], ends[b][link_b] = (buses[b], link_b), (buses[a], link_a)
    else:
        switches = [f"00000000:C{s}:00.0" for s in range(draw(st.integers(1, 6)))]
        for g in range(count):
            ends[g] = {k: (switches[k % len(switches)], dice.randrange(36)) for k in range(width)}
    rates = [[rate] * len(own) for own in ends]
    if not healthy:
        for g in range(count):
            for k, (bus, far) in ends[g].items():
                state = dice.choice((rate, rate, rate, rate, INACTIVE, "1.562"))
                rates[g][k] = state
                if bus in buses and state == INACTIVE:
                    rates[buses.index(bus)][far] = state
                elif bus in buses and rates[buses.index(bus)][far] == INACTIVE:
                    rates[g][k] = INACTIVE
    uuids = tuple(f"GPU-{dice.getrandbits(32):08x}-77ac-ef63-88a5-b8c4d0c906dc" for _ in range(count))
    if not any(rates):
        return draw(machines(direct=False, healthy=healthy))
    return Linked(name, tuple(tuple(e.values()) for e in ends), tuple(map(tuple, rates)), buses, uuids)


@given(machine=machines(), after=st.booleans())
def test_a_status_is_read_and_what_is_down_or_slow_is_said(machine: Linked, after: bool) -> None:
    """Capabilities below it change nothing."""
    topology = read_text(machine.status() + (machine.capabilities() if after else ""))
    assert topology.format == "nvlink-status"
    assert to_document(topology)["gpu_links_GBps"] == machine.stated
    assert [(gpu.name, gpu.uuid) for gpu in topology.gpus] == [(machine.name, uuid) for uuid in machine.uuids]
    assert dict(topology.links) == {}
    said = " ".join(topology.warnings)
    some = [set(rates) for rates in machine.rates if rates]
    assert ("inactive" in said) == any(INACTIVE in rates for rates in some)
    fastest = max((float(r) for rates in some for r in rates if r != INACTIVE), default=0.0)
    fastest = 20.0 if fastest == 1.562 else fastest    # what any of the cards can do
    assert ("slow" in said) == any(r != INACTIVE and float(r) < fastest for rates in some for r in rates)


@given(machine=machines(healthy=True).filter(lambda machine: len({len(own) for own in machine.rates}) == 1))
def test_a_healthy_machine_needs_no_warning(machine: Linked) -> None:
    assert read_text(machine.status()).warnings == ()


@FEWER
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
@given(machine=machines())
def test_a_damage_that_loses_nothing_reads_the_same(damage: Callable[[str], str | bytes], machine: Linked) -> None:
    topology = read_any(damage(machine.status() + machine.remote(far=True)))
    assert to_document(topology)["gpu_links_GBps"] == machine.stated
    assert dict(topology.links) in (machine.links, {})


@given(machine=machines(), seed=st.integers(0, 2**32))
def test_a_cut_status_is_true_and_says_what_is_missing(machine: Linked, seed: int) -> None:
    text = cut(machine.status(), random.Random(seed))
    try:
        topology = read_text(text)
    except TopologyError:
        return
    document = to_document(topology)
    read = document.get("gpu_links_GBps", {})
    for gpu, truth in list(machine.stated.items())[: len(read)]:
        assert read[gpu]["name"] in (truth["name"], None)
        assert read[gpu]["links"].items() <= truth["links"].items()  # type: ignore[attr-defined]
    if not text.endswith(("\n", "GB/s", "GB", "G", "<inactive>", "inactive", ")", "\n\t", "\n\t ")):
        assert topology.warnings


@given(machine=machines(direct=True), far=st.booleans(), asked=st.booleans(), status=st.booleans())
def test_links_between_gpus_are_those_whose_ends_are_gpus_of_the_text(
    machine: Linked, far: bool, asked: bool, status: bool
) -> None:
    """With a query that tells the bus ids all of them; without one only where the order of the ids and both ends prove it."""
    topology = read_text(machine.remote(far=far) + machine.status() * status + machine.query() * asked)
    joined = {gpu for pair in machine.links for gpu in pair}
    whole = len(joined) == len(machine.buses)
    assert dict(topology.links) in ((machine.links,) if asked or (whole and far and status) else (machine.links, {}))
    if not status and machine.links:
        assert ("which GPUs they join is unknown" in " ".join(topology.warnings)) == (not topology.links)


@given(machine=machines(direct=False), far=st.booleans(), asked=st.booleans(), status=st.booleans())
def test_links_to_switches_are_no_links_between_gpus(machine: Linked, far: bool, asked: bool, status: bool) -> None:
    """What they join is not told, and that is said where nothing is told of their state, either."""
    topology = read_text(machine.remote(far=far) + machine.status() * status + machine.query() * asked)
    assert dict(topology.links) == {}
    are_up = any(rate != INACTIVE for rates in machine.rates for rate in rates)
    assert ("which GPUs they join is unknown" in " ".join(topology.warnings)) == (are_up and not status)


@given(machine=machines(direct=True, healthy=True).filter(lambda machine: bool(machine.links)), data=st.data())
def test_ends_that_disagree_leave_the_pair_unknown(machine: Linked, data: st.DataObject) -> None:
    """One link that only one of the two GPUs lists."""
    pair = data.draw(st.sampled_from(sorted(machine.links)))
    lines = machine.remote(far=True).splitlines(keepends=True)
    start = lines.index(machine.head(pair[0]))
    lost = next(k for k in range(start, len(lines)) if machine.buses[pair[1]] in lines[k])
    topology = read_text("".join(lines[:lost] + lines[lost + 1 :]) + machine.query())
    mine = sum(machine.buses[pair[1]] == bus for bus, _ in machine.ends[pair[0]])
    others = {other: code for other, code in machine.links.items() if other != pair}
    if mine > 1 or len(machine.ends[pair[0]]) > 1:
        assert dict(topology.links) == others
        assert f"GPU{pair[0]} and GPU{pair[1]} state different numbers" in " ".join(topology.warnings)


HEAD = "GPU 0: NVIDIA L4 (UUID: GPU-00000000-0000-4000-8000-000000000000)\n"
OTHER = "GPU 1: NVIDIA L4 (UUID: GPU-00000001-0000-4000-8000-000000000000)\n"


@pytest.mark.parametrize(
    ("text", "stated", "words"),
    [
        pytest.param(HEAD + "NVML: Unable to retrieve NVLink information as all links are inActive\n",
                     {"0": {"name": "NVIDIA L4", "links": {}, "state": "inactive"}},
                     (), id="all inactive, no bridge"),
        pytest.param(HEAD.replace("L4", "H200") + "Unable to retrieve NVLink information as all links are inActive\n",
                     {"0": {"name": "NVIDIA H200", "links": {}, "state": "inactive"}},
                     ("all NVLinks of GPU0 are inactive: the fabric manager does not run",), id="all inactive on a board"),
        pytest.param(HEAD + "NVLink not supported\n",
                     {"0": {"name": "NVIDIA L4", "links": {}, "state": "unsupported"}}, (), id="unsupported, no prefix"),
        pytest.param(HEAD + "Unable to retrieve NVLink information: Not Supported\n",
                     {"0": {"name": "NVIDIA L4", "links": {}, "state": "unsupported"}}, (), id="unsupported, longer"),
        pytest.param(HEAD.replace("L4", "H200") + "Link 0: 1.562 GB/s\nLink 1: 1.562 GB/s\n",
                     {"0": {"name": "NVIDIA H200", "links": {"0": 1.562, "1": 1.562}}}, ("slow: 0, 1 (1.562 GB/s against 25 GB/s)",),
                     id="all slow"),
        pytest.param(HEAD + "Link 0: <inactive>\nLink 1: 20 GB/s\n",
                     {"0": {"name": "NVIDIA L4", "links": {"0": "inactive", "1": 20.0}}},
                     ("1 of the 2 NVLinks of GPU0 is inactive: link 0",), id="one inactive"),
        pytest.param(HEAD + "\t NVML: Unable to retrieve NVLink information: Not Supported\n",
                     {"0": {"name": "NVIDIA L4", "links": {}, "state": "unsupported"}}, (), id="unsupported"),
        pytest.param(HEAD + "NVML: Unable to retrieve NVLink information as all links are inActive\n" + OTHER + "Link 0: 20 GB/s\n",
                     {"0": {"name": "NVIDIA L4", "links": {}, "state": "inactive"}, "1": {"name": "NVIDIA L4", "links": {"0": 20.0}}},
                     ("all NVLinks of GPU0 are inactive",), id="one GPU inactive"),
        pytest.param(HEAD + "Link 0: <inactive>\nLink 1: <inactive>\n",
                     {"0": {"name": "NVIDIA L4", "links": {"0": "inactive", "1": "inactive"}, "state": "inactive"}},
                     ("all NVLinks of GPU0 are inactive",), id="each inactive"),
        pytest.param(HEAD + "Link 0: N/A\nLink 1: 20 GB/s\n", {"0": {"name": "NVIDIA L4", "links": {"1": 20.0}}},
                     ("NVLink 0 of GPU0 is 'N/A'",), id="N/A"),
        pytest.param(HEAD + "Link 0: 20 GB/s\nLink 3: 20 GB/s\n", {"0": {"name": "NVIDIA L4", "links": {"0": 20.0, "3": 20.0}}},
                     ("does not show the NVLinks 1, 2 of GPU0",), id="lines lost"),
        pytest.param(HEAD + "Link 0: 20 GB/s\n" + OTHER,
                     {"0": {"name": "NVIDIA L4", "links": {"0": 20.0}}, "1": {"name": "NVIDIA L4", "links": {}}},
                     ("does not show the NVLinks 0 of GPU1",), id="no lines"),
        pytest.param(HEAD + "Link 0: 20 GB/s\nLink 1: 20 GB/s\nLink 0: 25 GB/s\nLink 1: 25 GB/s\n",
                     {"0": {"name": "NVIDIA L4", "links": {"0": 20.0, "1": 20.0}}}, ("below GPU0 stand the NVLinks of another GPU",),
                     id="head lost"),
        pytest.param(HEAD + "Link 77: 20 GB/s\nLink 0: 20 GB/s\n", {"0": {"name": "NVIDIA L4", "links": {"0": 20.0}}}, (),
                     id="no such link"),
    ],
)  # fmt: skip
def test_what_is_odd(text: str, stated: dict[str, object], words: tuple[str, ...]) -> None:
    topology = read_text(text)
    assert to_document(topology)["gpu_links_GBps"] == stated
    assert topology.format == "nvlink-status"
    assert "gpu_list" not in topology.stated
    assert bool(words) == bool(topology.warnings)
    for word in words:
        assert word in " ".join(topology.warnings)


@pytest.mark.parametrize("links", range(1, 19))
def test_a_text_that_is_cut_between_links_of_a_lone_gpu_shows_fewer_than_the_card_has(links: int) -> None:
    head = "GPU 0: NVIDIA H200 (UUID: GPU-11111111-0000-4000-8000-000000000000)\n"
    found = read_text(head + "\n".join(f"\t Link {k}: 26.562 GB/s" for k in range(links)))
    lost = "17" if links == 17 else "16, 17" if links == 16 else f"{links} to 17"
    assert found.warnings == (() if links == 18 else (f"the text does not show the NVLinks {lost} of GPU0",))


def test_capabilities_alone_say_what_is_missing() -> None:
    topology = read_text(HEAD + "\t Link 0, P2P is supported: true\n")
    assert topology.gpus[0].name == "NVIDIA L4"
    assert topology.warnings == ("the text says nothing about the state of NVLinks; `nvidia-smi nvlink --status` prints it",)


def test_ends_beside_a_matrix_need_no_words() -> None:
    matrix = "\tGPU0\tGPU1\nGPU0\t X \tNV1\nGPU1\tNV1\t X \n"
    ends = HEAD + "Link 0: Remote Device 00000000:C4:00.0: Link 3\n" + OTHER + "Link 0: Remote Device 00000000:C4:00.0: Link 5\n"
    assert "which GPUs they join is unknown" in " ".join(read_text(ends).warnings)
    assert read_text(matrix + ends).warnings == ()


def test_a_status_of_one_gpu_stands_beside_a_matrix_of_more() -> None:
    matrix = "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n"
    topology = read_text(matrix + HEAD + "Link 0: 20 GB/s\n")
    assert topology.format == "topo-m"
    assert [gpu.name for gpu in topology.gpus] == ["NVIDIA L4", None]
    assert topology.warnings == ()


def test_links_between_chips_of_one_board_are_no_nvlinks() -> None:
    topology = read_text(HEAD + "\t C2C Link 0: 44.712 GB/s\n")
    assert topology.format == "list"
    assert "gpu_links_GBps" not in topology.stated


@st.composite
def bridged(draw: st.DrawFn) -> tuple[Linked, random.Random]:
    """Draw GPUs of which some are joined, in any pattern, by several links each, and others have no links; buses in any domain."""
    dice = random.Random(draw(st.integers(0, 2**32)))
    count = draw(st.integers(2, 8))
    buses = tuple(f"00000000:{7 + 13 * g:02X}:00.0" for g in range(count))
    ends: list[list[tuple[str, int]]] = [[] for _ in range(count)]
    pairs = [(a, b) for b in range(count) for a in range(b)]
    for a, b in dice.sample(pairs, k=min(len(pairs), draw(st.integers(1, count)))):
        for _ in range(draw(st.integers(1, 4))):
            ends[a].append((buses[b], len(ends[b])))
            ends[b].append((buses[a], len(ends[a]) - 1))
    rates = tuple(("14.062",) * len(own) for own in ends)
    uuids = tuple(f"GPU-{dice.getrandbits(32):08x}-77ac-ef63-88a5-b8c4d0c906dc" for _ in range(count))
    return Linked("NVIDIA RTX A6000", tuple(map(tuple, ends)), rates, buses, uuids), dice


@given(drawn=bridged(), far=st.booleans())
def test_gpus_without_links_stand_beside_those_that_a_bridge_joins(drawn: tuple[Linked, random.Random], far: bool) -> None:
    machine, _ = drawn
    assert dict(read_text(machine.remote(far=far)).links) == machine.links


@given(drawn=bridged(), losses=st.integers(1, 6), is_end=st.booleans())
def test_lost_lines_make_no_link_that_is_not_there(drawn: tuple[Linked, random.Random], losses: int, is_end: bool) -> None:
    """A single lost one of several leaves all other pairs known."""
    machine, dice = drawn
    lines = machine.remote(far=True).splitlines(keepends=True)
    shown = [k for k, line in enumerate(lines) if "Link" in line]
    if is_end:
        lines = lines[: dice.choice(shown) + 1]
    lost = set(dice.sample(shown, k=min(losses, len(shown))))
    topology = read_text("".join(line for k, line in enumerate(lines) if is_end or k not in lost))
    for pair, code in topology.links.items():
        assert int(code[2:]) <= int(machine.links[pair][2:])
        assert not is_end or code == machine.links[pair]
    if len(lost) == 1 and not is_end and min(int(code[2:]) for code in machine.links.values()) > 1:
        assert len(topology.links) == len(machine.links) - 1
        assert "state different numbers" in " ".join(topology.warnings)
