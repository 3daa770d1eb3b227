"""Pairs without peer-to-peer copies, slots that are slower than cards, narrow uplinks: what they do to bandwidth and islands."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pcie_machines import code, hosts, lspci

from topologies import codes
from topologies.bandwidth import flows, host_gb_per_s, pair_gb_per_s, ring
from topologies.cards import find_card
from topologies.domains import Level, domains, islands
from topologies.links import LinkKind, link, pcie_port
from topologies.model import Gpu, Topology
from topologies.nics import nearest_nics
from topologies.parts import Bridge, BridgeKind, Nic, Pcie
from topologies.parts import Host as HostFacts
from topologies.peer import blocked, in_doubt, summary
from topologies.read import read_text
from topologies.wiring import wiring

A100 = find_card("a100-pcie-80gb")
STAGED = link(None, A100, A100).gb_per_s
STATES = ["OK", "NS", "CNS", "GNS", "TNS", "DR", "U", "??"]
OFF = {"NS", "CNS", "GNS", "TNS", "DR"}


def machine(draw, text="X NV12 SYS SYS\nNV12 X SYS SYS\nSYS SYS X NV12\nSYS SYS NV12 X", **facts) -> Topology:
    return draw(text, A100.slug).replace(**facts)


@pytest.mark.parametrize("kind", ["r", "w", "rw", "n", "a", "p", "unknown", None])
@pytest.mark.parametrize("state", STATES)
def test_a_state_counts_for_the_pairs_that_its_kind_is_about(draw, kind, state):
    topology = machine(draw, p2p={(0, 1): state, (0, 2): state}, p2p_kind=kind)
    about = {"n": {(0, 1)}, "a": set(), "p": set()}.get(kind, {(0, 1), (0, 2)})
    assert set(blocked(topology)) == (about if state in OFF else set())


@given(
    st.dictionaries(st.sampled_from(list(itertools.combinations(range(3), 2))), st.sampled_from(STATES)),
    st.sampled_from(["r", "w", "rw", "n", "a", "p", "unknown"]),
)
def test_a_pair_is_in_doubt_where_others_of_its_host_are_told(states, kind):
    gpus = (*(Gpu(i, host="a") for i in range(3)), Gpu(3, host="b"), Gpu(4, host="b"))
    topology = Topology(gpus, p2p=states, p2p_kind=kind)
    told = {pair for pair, state in states.items() if state in {"OK", *OFF}}
    is_about_all = bool(states) and kind not in {"n", "a", "p"}
    assert set(in_doubt(topology)) == (set(itertools.combinations(range(3), 2)) - told if is_about_all else set())


def test_states_that_turn_copies_off_are_words_of_the_tool():
    assert all(codes.is_peer_state(state) for state in OFF)


def test_a_blocked_pair_is_staged_and_an_nvlink_one_joins_no_island(draw):
    on = machine(draw)
    off = machine(draw, p2p={(0, 1): "NS"}, p2p_kind="r")
    assert islands(on) == ((0, 1), (2, 3))
    assert islands(off) == domains(off, Level.ISLAND) == ((0,), (1,), (2, 3))
    assert pair_gb_per_s(wiring(on), 0, 1) > 10 * STAGED
    assert pair_gb_per_s(wiring(off), 0, 1) == STAGED
    found = wiring(off).links[0, 1]
    assert (found.kind, found.nvlinks) == (LinkKind.UNKNOWN, 0)
    assert found.source.startswith("no P2P (NS: not supported), staged through the host; PCIe Gen4 x16")
    assert wiring(off).links[2, 3] == wiring(on).links[2, 3]


@pytest.mark.parametrize("pcie", ["PIX", "PXB", "PHB", "NODE", "SYS"])
def test_a_ring_over_blocked_pairs_is_slower(draw, pcie):
    rows = "\n".join(" ".join("X" if i == j else pcie for j in range(4)) for i in range(4))
    on = machine(draw, rows)
    off = on.replace(p2p=dict.fromkeys(itertools.combinations(range(4), 2), "CNS"), p2p_kind="r")
    assert ring(wiring(off), range(4)).gb_per_s < ring(wiring(on), range(4)).gb_per_s
    assert pair_gb_per_s(wiring(off), 0, 3) < pair_gb_per_s(wiring(on), 0, 3)


@given(st.dictionaries(st.sampled_from(list(itertools.combinations(range(4), 2))), st.sampled_from(STATES)))
def test_no_state_makes_anything_faster(states):
    rows = [["X", "NV12", "PIX", "NODE"], ["NV12", "X", "NODE", "NODE"], ["PIX", "NODE", "X", "NV12"], ["NODE", "NODE", "NV12", "X"]]
    links = {(i, j): rows[i][j] for i, j in itertools.combinations(range(4), 2)}
    on = Topology(tuple(Gpu(k, name=A100.name) for k in range(4)), links)
    off = on.replace(p2p=states, p2p_kind="r")
    for pair in links:
        fast, slow = pair_gb_per_s(wiring(on), *pair), pair_gb_per_s(wiring(off), *pair)
        assert slow == (min(fast, STAGED) if states.get(pair) in OFF else fast)
    assert ring(wiring(off), range(4)).gb_per_s <= ring(wiring(on), range(4)).gb_per_s


@settings(max_examples=60)
@given(hosts())
def test_acs_blocks_the_pairs_whose_traffic_turns_in_a_port_that_redirects(host):
    """Traffic turns in the lowest switch that two devices share; above the root ports it goes through the root complex anyway."""
    found = read_text(lspci(host))
    gpus = sorted(host.all("gpu"), key=lambda d: d.bus_id)
    expected = set()
    for (i, a), (j, b) in itertools.combinations(enumerate(gpus), 2):
        up_a, up_b = a.ways_up, b.ways_up
        turning = [d for d in (*up_a, *up_b) if (d in up_a) != (d in up_b) and d.above in up_a and d.above in up_b]
        if code(a, b) in ("PIX", "PXB") and any(d.acs for d in turning):
            expected.add((i, j))
    assert set(blocked(found)) == expected
    for pair, why in blocked(found).items():
        assert why.removeprefix("ACS on ") in found.host_facts[None].bridges, pair


def test_acs_and_iommu_do_not_concern_nvlink(draw):
    paths = [("r0", "u0", "d0"), ("r0", "u0", "d1"), ("r0", "u0", "d2"), ("r0", "u0", "d3")]
    base = machine(draw)
    gpus = tuple(g.replace(pcie=Pcie(path=paths[g.index], root="pci0000:00")) for g in base.gpus)
    bridges = {"d0": Bridge(BridgeKind.DOWNSTREAM, acs_redirect=True), "r0": Bridge(BridgeKind.ROOT_PORT, acs_redirect=True)}
    with_acs = base.replace(gpus=gpus, host_facts={None: HostFacts(bridges=bridges)})
    assert blocked(with_acs) == {(0, 2): "ACS on d0", (0, 3): "ACS on d0"}
    translated = base.replace(host_facts={None: HostFacts(iommu="translated")})
    assert set(blocked(translated)) == {(0, 2), (0, 3), (1, 2), (1, 3)}
    assert islands(with_acs) == islands(translated) == islands(base)
    for iommu in ("off", "passthrough", None):
        assert blocked(base.replace(host_facts={None: HostFacts(iommu=iommu)})) == {}


def test_hosts_are_looked_at_one_by_one(draw):
    pair = "X PIX ? ?\nPIX X ? ?\n? ? X PIX\n? ? PIX X"
    topology = draw(pair, A100.slug, hosts="a a b b").replace(host_facts={"b": HostFacts(iommu="translated")})
    assert set(blocked(topology)) == {(2, 3)}


ALL = dict.fromkeys(itertools.combinations(range(4), 2), "GNS: the GPUs do not support it")


@pytest.mark.parametrize(
    ("found", "gpus", "sentence"),
    [
        ({}, range(4), None),
        ({(0, 1): "ACS on 0000:3a:00.0"}, range(4),
         "peer-to-peer between GPU 0 and 1 is off (ACS on 0000:3a:00.0): copies go through host memory"),
        (ALL, range(4), "peer-to-peer between all GPUs is off (GNS: the GPUs do not support it): copies go through host memory"),
        (ALL, range(6), "peer-to-peer among GPUs 0, 1, 2 and 3 is off (GNS: the GPUs do not support it): copies go through host memory"),
        (ALL, (0, 9), None),
        ({(0, 1): "a", (0, 2): "b", (1, 3): "c"}, range(4),
         "peer-to-peer between 3 pairs of GPUs (0-1, 0-2, 1-3) is off (a; b; and 1 more like it): copies go through host memory"),
    ],
)  # fmt: skip
def test_one_sentence_says_it(found, gpus, sentence):
    assert summary(found, gpus) == sentence


# What slots and uplinks give.


def test_half_the_lanes_carry_half():
    whole, half = pcie_port(A100, Pcie(gen=4, width=16)), pcie_port(A100, Pcie(gen=4, width=8))
    assert whole == pcie_port(A100)
    assert half.gb_per_s == whole.gb_per_s / 2
    assert half.source == "the slot gives Gen4 x8 where the card has Gen4 x16; PCIe Gen4 x8, measured in p2p matrices 005, 010, 018, 011"
    assert link("PIX", A100, A100, ports=(Pcie(gen=4, width=8), None)).gb_per_s == link("PIX", A100, A100).gb_per_s / 2


def test_an_old_slot_makes_an_old_card_and_a_new_one_no_new_card():
    v100 = find_card("v100-32gb")
    assert pcie_port(A100, Pcie(gen=3, width=16)).gb_per_s == pcie_port(v100).gb_per_s
    assert pcie_port(v100, Pcie(gen=5, width=16)) == pcie_port(v100)
    assert pcie_port(A100, Pcie()) == pcie_port(A100, Pcie(path=("a",), root="b")) == pcie_port(A100)


def test_a_slot_tells_what_an_unknown_card_does_not():
    found = pcie_port(None, Pcie(gen=5, width=16))
    assert (found.gb_per_s, found.source) == (53.5, "PCIe Gen5 x16, measured in p2p matrices 002, 003, 025")


@given(
    st.sampled_from(["PIX", "PXB", "PHB", "NODE", "SYS", None, "NV4"]),
    st.tuples(st.integers(1, 6), st.sampled_from([1, 2, 4, 8, 12, 16, 32])),
    st.tuples(st.integers(1, 6), st.sampled_from([1, 2, 4, 8, 12, 16, 32])),
)
def test_a_slot_never_makes_a_card_faster_and_more_is_never_slower(what, one, other):
    slower = min(one[0], other[0]), min(one[1], other[1])
    rates = [link(what, A100, A100, ports=(Pcie(*port), Pcie(*port))).gb_per_s for port in (slower, one)]
    assert 0 < rates[0] <= rates[1] <= link(what, A100, A100).gb_per_s
    if what == "NV4":
        assert rates[0] == rates[1]


def switched(uplink: Bridge | None) -> Topology:
    """Return two GPUs and a NIC below one switch, and one GPU beside it on the same root complex."""
    inner = [("r0", "u0", f"d{k}") for k in range(3)]
    gpus = tuple(Gpu(k, name=A100.name, pcie=Pcie(4, 16, path=p, root="pci0000:00")) for k, p in enumerate((*inner[:2], ("r1",))))
    nic = Nic(pcie=Pcie(4, 8, path=inner[2], root="pci0000:00"))
    bridges = {"u0": Bridge(BridgeKind.UPSTREAM)} | ({} if uplink is None else {"r0": uplink})
    return Topology(
        gpus, nics={"NIC0": None}, gpu_nic={0: {"NIC0": "PIX"}, 1: {"NIC0": "PIX"}, 2: {"NIC0": "PHB"}},
        nic_details={"NIC0": nic}, host_facts={None: HostFacts(bridges=bridges)}, format="lspci",
    )  # fmt: skip


def test_the_uplink_of_a_switch_is_what_its_bridge_says():
    """Without a statement it is taken to be as wide as the cards."""
    unknown, narrow = wiring(switched(None)), wiring(switched(Bridge(BridgeKind.ROOT_PORT, 4, 8)))
    port = pcie_port(A100).gb_per_s
    assert host_gb_per_s(unknown, (0,)) == port
    assert host_gb_per_s(unknown, (0, 1)) == port / 2
    assert host_gb_per_s(narrow, (0,)) == port / 2
    assert host_gb_per_s(narrow, (0, 1)) == port / 4
    assert host_gb_per_s(narrow, (2,)) == port
    switches = [edge for (node, _), edge in narrow.edges.items() if node[0] == "switch"]
    assert [edge.source for edge in switches] == ["uplink of the switch: PCIe Gen4 x8, measured in p2p matrices 005, 010, 018, 011"]
    assert flows(narrow, [(0, 2)]) < flows(unknown, [(0, 2)])


def test_the_port_of_a_nic_is_its_own_where_it_is_stated():
    edges = wiring(switched(None)).edges
    (nic,) = [edge for (node, _), edge in edges.items() if node[0] == "nic"]
    assert (nic.gb_per_s, nic.source) == (12.5, "PCIe Gen4 x8, measured in p2p matrices 005, 010, 018, 011")


def test_places_known_from_paths_alone_are_domains():
    """`lspci` states no link codes; the GPUs still hang where they hang."""
    topology = switched(None)
    assert domains(topology, Level.SWITCH) == ((0, 1), (2,))
    assert domains(topology, Level.ROOT_COMPLEX) == ((0, 1, 2),)
    assert islands(topology) == ((0,), (1,), (2,))
    kinds = {pair: found.kind for pair, found in wiring(topology).links.items()}
    assert set(kinds.values()) == {LinkKind.UNKNOWN}  # NVLink may be there, so no link is claimed


# Which NIC serves which GPU.


@pytest.mark.parametrize(
    ("nics", "expected"),
    [
        pytest.param({"NIC0": "PIX PIX SYS SYS", "NIC1": "SYS SYS PIX PIX"},
                     {0: ("NIC0",), 1: ("NIC0",), 2: ("NIC1",), 3: ("NIC1",)}, id="one per switch, two GPUs each"),
        pytest.param({"NIC0": "PXB PXB SYS SYS", "NIC1": "PXB PXB SYS SYS", "NIC2": "SYS SYS PXB PXB", "NIC3": "SYS SYS PXB PXB"},
                     {0: ("NIC0",), 1: ("NIC1",), 2: ("NIC2",), 3: ("NIC3",)}, id="as many as GPUs: one each"),
        pytest.param({"NIC0": "NODE NODE NODE NODE", "NIC1": "PIX NODE NODE NODE"},
                     {0: ("NIC1",), 1: ("NIC0",), 2: ("NIC0",), 3: ("NIC1",)}, id="equally far ones are shared"),
        pytest.param({f"NIC{k}": "PHB PHB PHB PHB" for k in range(8)},
                     {g: (f"NIC{2 * g}", f"NIC{2 * g + 1}") for g in range(4)}, id="two each"),
        pytest.param({"NIC0": "SYS ? N/A SYS"}, {0: ("NIC0",), 3: ("NIC0",)}, id="unknown places serve nobody"),
        pytest.param({}, {}, id="no NIC"),
    ],
)  # fmt: skip
def test_the_nearest_nics_serve_a_gpu(draw, nics, expected):
    topology = draw("X SYS SYS SYS\nSYS X SYS SYS\nSYS SYS X SYS\nSYS SYS SYS X", nics=nics)
    assert nearest_nics(topology) == expected


@given(st.lists(st.lists(st.sampled_from(["PIX", "PXB", "PHB", "NODE", "SYS", "N/A"]), min_size=5, max_size=5), max_size=8))
def test_nics_are_shared_evenly_and_none_is_nearer(rows):
    nics = {f"NIC{k}": row for k, row in enumerate(rows)}
    topology = Topology(
        tuple(Gpu(k) for k in range(5)), nics=dict.fromkeys(nics), gpu_nic={g: {n: r[g] for n, r in nics.items()} for g in range(5)}
    )
    rank = ["PIX", "PXB", "PHB", "NODE", "SYS"].index
    found = nearest_nics(topology)
    groups: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for gpu in range(5):
        known = {nic: rank(codes_[gpu]) for nic, codes_ in nics.items() if codes_[gpu] != "N/A"}
        nearest = tuple(nic for nic in known if known[nic] == min(known.values()))
        assert (gpu in found) == bool(nearest)
        if nearest:
            assert set(found[gpu]) <= set(nearest)
            groups.setdefault(nearest, []).append(found[gpu])
    for nearest, served in groups.items():
        counts = [sum(nic in nics_of for nics_of in served) for nic in nearest]
        assert max(counts) - min(counts) <= 1
        assert {len(nics_of) for nics_of in served} <= {max(1, len(nearest) // len(served)), len(nearest) // len(served) + 1}


def test_a_matrix_of_states_that_contradict_each_other_is_one_of_states() -> None:
    topology = read_text("\tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tNS\tX\n")
    assert topology.format == "p2p"
    assert topology.conflict == ("0-1", "1-0")
    assert not topology.p2p
