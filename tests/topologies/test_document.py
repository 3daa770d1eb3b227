"""The document of a topology: what it looks like, that it reads back, and what is refused."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from topologies.document import SCHEMA, error_document, from_document, to_document
from topologies.errors import TopologyError
from topologies.model import Gpu, Topology
from topologies.read import read_text

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=12)
TRICKY = st.sampled_from(
    ("on", "no", "10:00.0", "0x10", "1e3", "2024-01-01", "null", "~", "0", "007", "true", "- a", "# b")
)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    count = draw(st.integers(1, 5))
    text = st.none() | WORDS | TRICKY
    size = st.none() | st.integers(1, 10**6)
    gpus = tuple(
        Gpu(
            k,
            draw(text),
            draw(text),
            draw(text),
            draw(text),
            draw(size),
            draw(size),
            draw(text),
            draw(text),
            draw(text),
        )
        for k in range(count)
    )
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    some_pairs = st.dictionaries(st.sampled_from(pairs), WORDS | TRICKY) if pairs else st.just({})
    nics = draw(st.dictionaries(WORDS | TRICKY, text, max_size=3))
    codes = st.dictionaries(st.sampled_from(sorted(nics)), WORDS | TRICKY) if nics else st.just({})
    names = st.lists(WORDS | TRICKY, max_size=3).map(tuple)
    return Topology(
        gpus,
        draw(some_pairs),
        nics,
        draw(st.dictionaries(st.integers(0, count - 1), codes)),
        draw(WORDS | TRICKY),
        draw(names),
        frozenset(draw(names)),
        draw(names),
        draw(st.dictionaries(WORDS | TRICKY, st.integers(0, 99), max_size=2)),
        draw(names),
        draw(names),
        draw(st.integers(0, 5)),
        draw(some_pairs),
        draw(text),
        draw(
            st.dictionaries(st.integers(0, 999), st.lists(st.integers(0, count - 1)).map(tuple), max_size=2)
        ),
    )


@given(topologies())
def test_what_is_written_reads_back_the_same(topology: Topology) -> None:
    document = to_document(topology, islands=[(0,)])
    assert from_document(document) == topology
    assert read_text(json.dumps(document, indent=1)) == topology
    assert (
        read_text("# a machine\n" + yaml.safe_dump(document, sort_keys=False, allow_unicode=True)) == topology
    )


def test_the_minimum_is_there_even_if_nothing_is_known() -> None:
    gpu = dict.fromkeys(
        ("host", "name", "uuid", "pci_bus_id", "memory_mib", "cpu_affinity", "numa", "gpu_numa_id")
    )
    assert to_document(Topology((Gpu(0),)), islands=[[0]]) == {
        "schema": SCHEMA, "status": "ok", "format": "topo-m", "warnings": [], "gpus": [{"index": 0, **gpu}], "links": {},
        "links_complete": True, "nics": {}, "gpu_nic": {}, "islands": [[0]],
    }  # fmt: skip


def test_fields_follow_the_text() -> None:
    document = to_document(
        read_text("GPU0 GPU1 NIC0 CPU Affinity\nGPU0 X NV4 PIX 0-3\nGPU1 NV4 X SYS 4-7\n"), islands=[[0, 1]]
    )
    assert document["status"] == "warn"
    assert document["links"] == {"0-1": "NV4"}
    assert document["gpu_nic"] == {"0": {"NIC0": "PIX"}, "1": {"NIC0": "SYS"}}
    assert document["rows_missing"] == ["NIC0"]
    assert [gpu["cpu_affinity"] for gpu in document["gpus"]] == ["0-3", "4-7"]
    assert "p2p" not in document


def test_gpus_near_a_cpu_are_named_by_cpu() -> None:
    text = "The GPUs that have an affinity with CPU 48 are:\n4, 5\n"
    topology = read_text(text)
    document = to_document(topology)
    assert document["gpus_near_cpu48"] == [4, 5]
    assert (document["format"], document["status"], len(document["gpus"])) == ("topo-c", "warn", 6)
    for nothing in (
        "GPUs with an affinity with CPU 48:\nnone\n",
        "GPUs with an affinity with CPU 48:\n4096\n",
    ):
        with pytest.raises(TopologyError):
            read_text(nothing)


HEAD = f"schema: {SCHEMA}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(HEAD, "gpus must be a list, not 'None'", id="no gpus"),
        pytest.param(HEAD + "gpus: []\n", "at least one GPU", id="0 gpus"),
        pytest.param(HEAD + "gpus: [{index: 0}, {index: 2}]\n", "position 1 holds GPU 2", id="gap"),
        pytest.param(
            HEAD + "gpus: [{index: on}]\n", "gpus[0].index must be a whole number, not 'on'", id="index"
        ),
        pytest.param(HEAD + "gpus: [{index: true}]\n", "gpus[0].index must be a whole number", id="boolean"),
        pytest.param(HEAD + "gpus: [{}]\n", "gpus[0] has no index", id="no index"),
        pytest.param(HEAD + "gpus: [{index: 0}]\nlinks: {0-x: NV1}\n", "'0-x' is no pair", id="pair"),
        pytest.param(HEAD + "gpus: [{index: 0}]\nlinks: {0-1: NV1}\n", "link 0-1", id="link to no GPU"),
        pytest.param(HEAD + "gpus: [{index: 0}]\ngpu_nic: {a: {}}\n", "'a' is no GPU index", id="gpu_nic"),
        pytest.param(HEAD + "gpus: [{index: 0}]\ngpus: [{index: 0}]\n", "x:3:", id="key twice"),
        pytest.param(HEAD + "gpus: [{index: 0}\n", "cannot be parsed", id="syntax"),
        pytest.param(HEAD + "gpus: &a [{index: 0}]\nlinks: *a\n", "aliases are not allowed", id="alias"),
        pytest.param(HEAD + "gpus: !!python/object:os.system {}\n", "cannot be parsed", id="object"),
        pytest.param(HEAD + "gpus: " + "[" * 5000, "cannot be parsed", id="deep"),
        pytest.param(json.dumps(error_document("it burnt")), "it burnt", id="recorded error"),
    ],
)
def test_refused(text: str, words: str) -> None:
    with pytest.raises(TopologyError) as caught:
        read_text(text, name="x")
    assert words in str(caught.value)
    assert str(caught.value).startswith("x")


def test_another_schema_is_refused() -> None:
    with pytest.raises(TopologyError, match="'placement/device-map/v1' instead of"):
        from_document({"schema": "placement/device-map/v1"})


def test_a_field_of_a_newer_version_is_ignored_with_a_warning() -> None:
    topology = read_text(HEAD + "gpus: [{index: 0}]\nquantum: yes\n")
    assert "quantum" in topology.warnings[0]
