"""`ibstat` and its like: rates and states of NICs, joined with a source that names GPUs; alone they are no machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.clusters.collect import collect
from topologies.clusters.host_files import read_hosts
from topologies.documents.document import to_document
from topologies.documents.document_read import from_document
from topologies.errors import TopologyError
from topologies.merging.merge import merge
from topologies.networks.rails import rail_nics
from topologies.read import read_text
from topologies.sources import load

SOURCES = Path(__file__).parent.parent / "data" / "sources"
MATRIX = (SOURCES / "topo-m.txt").read_text("utf-8")
LSPCI = (SOURCES / "lspci-vv.txt").read_text("utf-8")

IBSTAT = """$ ibstat
CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: {}
{}CA 'mlx5_1'
\tCA type: MT4129
\tNumber of ports: 1
\tPort 1:
\t\tState: Down
\t\tPhysical state: Disabled
\t\tRate: 10
\t\tLink layer: Ethernet
"""
PORT = "\tPort {}:\n\t\tState: {}\n\t\tPhysical state: LinkUp\n\t\tRate: {}\n\t\tBase lid: 12\n\t\tLink layer: InfiniBand\n"
IBSTATUS = """Infiniband device 'mlx5_0' port 1 status:
\tdefault gid:\t fe80:0000:0000:0000:a088:c203:00aa:bbcc
\tstate:\t\t 4: ACTIVE
\tphys state:\t 5: LinkUp
\trate:\t\t 400 Gb/sec (4X NDR)
\tlink_layer:\t InfiniBand

Infiniband device 'mlx5_1' port 1 status:
\tstate:\t\t 1: DOWN
\tphys state:\t 3: Disabled
\trate:\t\t 10 Gb/sec (4X SDR)
"""
NETDEV = "mlx5_0 port 1 ==> ib0 (Up)\nmlx5_1 port 1 ==> ens1 (Down)\n"
ONE = IBSTAT.format(1, PORT.format(1, "Active", 400))


def ports(text: str) -> dict[str, tuple[float | None, bool | None]]:
    return {nic: (details.gb_per_s, details.is_down) for nic, details in read_text(text).nic_details.items()}


@pytest.mark.parametrize("text", [ONE, IBSTATUS])
def test_a_port_carries_its_rate_and_one_that_is_down_nothing(text: str) -> None:
    """400 Gb/s are 50 GB/s; the rate of a port that is down means nothing."""
    assert ports(MATRIX + text) == ports(text + MATRIX) == {"NIC0": (50.0, False), "NIC1": (None, True)}
    found = read_text(MATRIX + text)
    assert (found.warnings, found.links, found.formats) == ((), read_text(MATRIX).links, ("topo-m", "nic-ports"))
    assert from_document(to_document(found)) == found


def test_devices_of_the_network_tell_the_state_only() -> None:
    assert ports(MATRIX + NETDEV) == {"NIC0": (None, False), "NIC1": (None, True)}
    assert ports(MATRIX + ONE + NETDEV) == ports(MATRIX + ONE)


@given(states=st.lists(st.tuples(st.sampled_from(["Active", "Down", "Initializing", "Armed"]), st.sampled_from([100, 200])), max_size=3))
def test_active_ports_carry_together(states: list[tuple[str, int]]) -> None:
    """Two of 100 Gb/s are 25 GB/s; an adapter without a port that is told has neither rate nor state."""
    shown = "".join(PORT.format(k + 1, state, rate) for k, (state, rate) in enumerate(states))
    together = sum(rate for state, rate in states if state == "Active") / 8
    found = ports(MATRIX + IBSTAT.format(len(states), shown))
    assert found.get("NIC0", (None, None)) == (together or None, not together if states else None)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda text: text.replace("\t", "    "), id="tabs as blanks"),
        pytest.param(lambda text: text.replace("\t", ""), id="tabs lost"),
        pytest.param(lambda text: text.replace("\n", "\r\n"), id="carriage returns"),
        pytest.param(lambda text: re.sub("^", "> ", text, flags=re.MULTILINE), id="mail"),
        pytest.param(lambda text: re.sub("^", "[10:11:12] ", text, flags=re.MULTILINE), id="times"),
        pytest.param(lambda text: text[: text.index("\t\tBase lid")] + text[text.index("CA 'mlx5_1'") :], id="lines left out"),
    ],
)
def test_damage_changes_nothing(damage: Callable[[str], str]) -> None:
    assert ports(MATRIX + damage(ONE)) == ports(MATRIX + ONE)


def test_bus_ids_join_ports_with_the_nics_of_lspci() -> None:
    verbose = (
        "0000:3f:00.0 mlx5_0 (MT4123 - MCX653106A-HDAT) ConnectX-6 VPI adapter card fw 20.31.1014 port 1 (ACTIVE) ==> ib0 (Up)\n"
        "0000:b3:00.0 mlx5_1 (MT4123 - MCX653106A-HDAT) ConnectX-6 VPI adapter card fw 20.31.1014 port 1 (DOWN  ) ==> ib1 (Down)\n"
    ).replace("DOWN  ", "DOWN")
    found = read_text(LSPCI + verbose)
    assert found.nics == {"0000:3f:00.0": "mlx5_0", "0000:b3:00.0": "mlx5_1"}
    assert [nic.is_down for nic in found.nic_details.values()] == [False, True]
    assert found.warnings == ()


def test_what_cannot_be_placed_is_left_out_and_said() -> None:
    """The NICs of lspci have bus ids, those of ibstat names: nothing says which is which."""
    found = read_text(LSPCI + ONE)
    assert found.nics == read_text(LSPCI).nics
    assert [warning for warning in found.warnings if "mlx5_0, mlx5_1 was left out" in warning]


def test_without_other_nics_those_with_ports_are_there() -> None:
    found = read_text((SOURCES / "q.txt").read_text("utf-8") + ONE)
    assert found.nics == {"mlx5_0": "mlx5_0", "mlx5_1": "mlx5_1"}


def test_a_nic_that_is_down_is_no_rail() -> None:
    assert rail_nics(read_text(MATRIX), None) == ("NIC0", "NIC1")
    assert rail_nics(read_text(MATRIX + ONE), None) == ("NIC0",)


def test_alone_it_is_no_machine(tmp_path: Path) -> None:
    (tmp_path / "node0.txt").write_text(MATRIX)
    (tmp_path / "node0.ibstat.txt").write_text(ONE)
    alone = str(tmp_path / "node0.ibstat.txt")
    with pytest.raises(TopologyError, match=r"node0\.ibstat\.txt: this lists the ports of NICs, and no GPU: join"):
        load(alone)
    with pytest.raises(TopologyError, match="and no GPU"):
        read_hosts([alone])
    joined = load(f"{alone}+{tmp_path / 'node0.txt'}")
    assert joined.nic_details == read_text(MATRIX + ONE).nic_details
    machines, warnings = read_hosts([str(tmp_path)])
    assert ([*machines], warnings) == (["node0"], ())
    assert collect(machines).nic_details["node0:NIC0"].gb_per_s == 50.0


def test_of_several_hosts_nothing_says_which_one_it_is_about() -> None:
    cluster = collect({host: read_text(MATRIX) for host in ("a", "b")})
    found = merge([cluster, read_text(ONE)])
    assert found.nics == cluster.nics
    assert len(found.warnings) == 1
    assert "left out" in found.warnings[0]


def test_a_rate_in_which_the_text_ends_is_unknown_rather_than_wrong() -> None:
    """Cut within 400 Gb/s it would be 40 or 4; with its unit behind it, or at the end of its line, it is whole."""
    begin = ONE.index("Rate: 400") + len("Rate: ")
    for end in range(begin + 1, begin + 4):
        found = read_text(MATRIX + ONE[:end])
        assert found.nic_details["NIC0"].gb_per_s is None
        assert found.nic_details["NIC0"].is_down is False
        assert found.warnings == (f"the text ends in {ONE[begin - 6 : end]!r}, which may be cut: it was left out",)
    assert ports(MATRIX + ONE[: begin + 4])["NIC0"] == (50.0, False)
    assert ports(MATRIX + IBSTATUS.partition(" (4X")[0])["NIC0"] == (50.0, False)


DOWN = IBSTAT.format(1, PORT.format(1, "Down", 10))


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (DOWN, ONE, "port 1 is Down at 10 Gb/s, then Active at 400 Gb/s"),
        (ONE, DOWN, "port 1 is Active at 400 Gb/s, then Down at 10 Gb/s"),
        (IBSTAT.format(1, PORT.format(1, "Active", 100)), IBSTATUS, "port 1 is Active at 100 Gb/s, then ACTIVE at 400 Gb/s"),
        (NETDEV, NETDEV.replace("(Up)", "(Down)"), "port 1 is Up, then Down"),
    ],
)  # fmt: skip
def test_of_a_nic_that_is_told_twice_the_last_counts_and_that_is_said(first: str, second: str, told: str) -> None:
    assert ports(MATRIX + first + second) == ports(MATRIX + second)
    assert read_text(MATRIX + first + second).warnings == (
        f"ports of NICs are told twice, and not alike (mlx5_0 {told}): what stands last counts",
    )


@pytest.mark.parametrize(("first", "second"), [(ONE, ONE), (ONE, IBSTATUS), (IBSTATUS, ONE), (ONE, NETDEV), (NETDEV, ONE)])
def test_what_is_told_twice_alike_is_told_once(first: str, second: str) -> None:
    found = read_text(MATRIX + first + second)
    assert found.nic_details == read_text(MATRIX + ONE).nic_details
    assert found.warnings == ()


def test_a_port_whose_network_device_is_down_carries_all_the_same() -> None:
    """Memory is written over a port that is active whether an address is set up on it or not."""
    down = NETDEV.replace("(Up)", "(Down)")
    assert ports(MATRIX + ONE + down) == ports(MATRIX + down + ONE) == ports(MATRIX + ONE)
