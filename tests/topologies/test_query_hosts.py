"""Queries of several hosts in one table are refused; a column that only looks like one of hosts is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.errors import TopologyError
from topologies.read import read_text

HOSTS = ("node0", "node1", "gpu-01.cluster", "alpha", "ip-10-0-1-7", "10.0.1.7", "gpu02")


@given(
    hosts=st.lists(st.sampled_from(HOSTS), min_size=2, max_size=4, unique=True),
    counts=st.lists(st.integers(2, 9), min_size=4, max_size=4),
    title=st.sampled_from((None, "hostname", "host", "node", "Host", "server_name")),
    between=st.sampled_from((", ", ",", "\t", ";")),
    is_sorted=st.booleans(),
    loops=st.integers(1, 2),
)
def test_rows_of_several_hosts_are_refused_with_their_names(
    hosts: list[str], counts: list[int], title: str | None, between: str, is_sorted: bool, loops: int
) -> None:
    rows = [(k, (host, str(k), "NVIDIA L4", "23034 MiB")) for host, count in zip(hosts, counts, strict=False) for k in range(count)]
    rows = rows if is_sorted or title is None else sorted(rows, key=lambda row: row[0])
    head = [] if title is None else [between.join((title, "index", "name", "memory.total [MiB]"))]
    with pytest.raises(TopologyError, match=r"rows of several hosts.*placement collect"):
        read_text("\n".join([*head, *(between.join(row) for _, row in rows * (loops if title else 1))]) + "\n")


@pytest.mark.parametrize("title", [True, False])
def test_hosts_with_the_same_bus_ids_are_no_rounds(title: bool) -> None:
    rows = [f"{host}, {k}, NVIDIA L4, 00000000:0{k}:00.0\n" for host in ("node0", "node1") for k in range(2)]
    with pytest.raises(TopologyError, match="rows of several hosts"):
        read_text("hostname, index, name, pci.bus_id\n" * title + "".join(rows))


@pytest.mark.parametrize("front", [("node0",) * 4, ("P0", "P8", "P0", "P0"), ("Enabled", "Disabled") * 2, ("GPU0", "GPU1", "GPU2", "GPU3")])
def test_other_words_in_front_are_no_hosts(front: tuple[str, ...]) -> None:
    read = read_text("".join(f"{word}, {k}, NVIDIA L4, 23034 MiB\n" for k, word in enumerate(front)))
    assert [(gpu.name, gpu.memory_mib) for gpu in read.gpus] == [("NVIDIA L4", 23034)] * 4


@pytest.mark.parametrize("title", ["hostname", "node"])
def test_one_host_is_read(title: str) -> None:
    read = read_text(f"{title}, index, name\nnode7, 0, NVIDIA L4\nnode7, 1, NVIDIA L40S\n")
    assert [gpu.name for gpu in read.gpus] == ["NVIDIA L4", "NVIDIA L40S"]
    assert read.warnings == ()
