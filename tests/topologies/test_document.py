"""The document of a topology: what it looks like, that it reads back, and what is refused."""

from __future__ import annotations

import codecs
import dataclasses
import functools
import json
import types
from enum import StrEnum
from random import Random
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.documents.document import SCHEMA, STATED, error_document, to_document
from topologies.documents.document_read import MOST_GPUS, from_document, from_text
from topologies.errors import TopologyError
from topologies.links import LinkKind, parse_code
from topologies.measured import doubts as measured_doubts
from topologies.measurements import AllReduce, AtSize, Copy, Device, Measured, OfGpu, Spread
from topologies.model import Gpu, Topology
from topologies.networks.doubts import doubts
from topologies.networks.network import KINDS, MOST_GB_PER_S, MOST_RAILS
from topologies.parts import Host, Network, NetworkDomain, Nic
from topologies.plain.parts import MOST
from topologies.plain.text import MOST_YAML_VALUES
from topologies.read import read_bytes, read_text

ODD = (
    "a", "NIC0", "ä一", "'\"", "[", "on", "no", "10:00.0", "0x10", "1e3", "2024-01-01",
    "null", "~", "0", "007", "true", "- a", "# b", "a: b",
)  # fmt: skip
"""Texts that YAML may take for something else, and plain ones."""

WORDS = st.sampled_from(ODD)
ANY_WORDS = WORDS | st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=8)
CODES = st.sampled_from(("NV4", "SYS", "PIX"))
TEXTS = st.sampled_from((None, *ODD))
SIZES = st.sampled_from((None, 1, 2, 81920, 10**6))
RATES = st.sampled_from((None, 0.001, 50.0, 1e-05, 1e6, 25.781))
FLAGS = st.sampled_from((None, False, True))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(0, 99) | st.floats(0, 99) | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=3,
)
LISTS = st.lists(WORDS, max_size=2).map(tuple)


def some(kind: Any, random: Random) -> Any:
    """Return any value of *kind*, a type of a field: parts with all the fields that they have today."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if random.random() < 0.4 else some(next(k for k in inner if k is not type(None)), random)
    if origin is tuple:
        return tuple(some(inner[0], random) for _ in range(random.randrange(3)))
    if origin is not None:  # a mapping
        return {some(inner[0], random): some(inner[1], random) for _ in range(random.randrange(3))}
    if dataclasses.is_dataclass(kind):
        return kind(**{name: some(hint, random) for name, hint in HINTS(kind).items()})  # type: ignore[operator]
    if issubclass(kind, StrEnum):
        return random.choice([*kind])
    values: dict[type, tuple[Any, ...]] = {
        str: ODD, bool: (False, True), int: (1, 2, 81920, 10**6), float: (0.001, 50.0, 1e-05, 1e6, 25.781),
    }  # fmt: skip
    return random.choice(values[kind])


HINTS = functools.cache(get_type_hints)


def parts(kind: Any) -> st.SearchStrategy[Any]:
    """Return values of *kind* as `some` makes them: one choice each, which is much quicker than one a field."""
    return st.integers(0, 2**32).map(lambda seed: some(kind, Random(seed)))


GPUS = st.builds(lambda gpu, host, name: gpu.replace(host=host, name=name), parts(Gpu), st.sampled_from((None, "a", "b")), TEXTS)


@st.composite
def networks(draw: st.DrawFn, hosts: list[str]) -> Network:
    """Return networks whose domains are each within one before, and have no host in common with others within that."""
    names = draw(st.lists(ANY_WORDS, max_size=3, unique=True))
    domains: list[NetworkDomain] = []
    for k, name in enumerate(names):
        within = draw(st.sampled_from((None, *names[:k])))
        taken = {host for other in domains if other.within == within for host in other.hosts}
        inside = [host for host in (hosts if within is None else domains[names.index(within)].hosts) if host not in taken]
        members = st.lists(st.sampled_from(inside), unique=True).map(tuple) if inside else st.just(())
        domains.append(NetworkDomain(name, draw(st.sampled_from(KINDS)), draw(members), within, draw(RATES)))
    rails, gb_per_s = st.none() | st.integers(1, MOST_RAILS), st.none() | st.floats(0.001, MOST_GB_PER_S)
    return Network(draw(rails), draw(gb_per_s), tuple(domains))


STATES = st.sampled_from(("OK", "NS", "GNS"))
MACHINES = st.lists(GPUS, min_size=1, max_size=3)
COLUMNS = st.dictionaries(ANY_WORDS, TEXTS, max_size=2)
COUNTS = st.dictionaries(WORDS, st.integers(0, 99), max_size=2)
STATEMENTS = st.dictionaries(st.sampled_from(sorted(STATED)), PLAIN, max_size=2)
FEW = st.integers(0, 5)
# Strategies that are made once: making them in every example takes longer than drawing from them.
# What depends on the number of GPUs or NICs is drawn for the most there may be, and cut.
PAIRS, PEERS = (st.dictionaries(st.sampled_from(((0, 1), (0, 2), (1, 2))), codes, max_size=3) for codes in (CODES, STATES))
OF_KINDS = st.dictionaries(WORDS, PEERS, max_size=2)
OF_GPUS = st.dictionaries(st.integers(0, 2), st.dictionaries(st.integers(0, 1), CODES, max_size=2), max_size=2)
NEAR = st.dictionaries(st.integers(0, 999), st.lists(st.integers(0, 2), max_size=2), max_size=2)
OF_NICS = st.dictionaries(st.integers(0, 1), parts(Nic), max_size=2)
OF_HOSTS = st.dictionaries(st.sampled_from((None, "a", "b")), parts(Host), max_size=2)


SPREADS = st.tuples(st.floats(1e-5, 1e6), st.floats(0, 1), st.integers(1, 99)).map(
    lambda drawn: Spread(drawn[0], drawn[0] * (1 - drawn[1] / 2), drawn[0] * (1 + drawn[1]), drawn[2])
)
OF_SIZES = st.lists(st.builds(AtSize, st.sampled_from((1, 2**20, 2**29)), SPREADS), min_size=1, max_size=3, unique_by=lambda at: at.bytes)
COPIES = st.dictionaries(st.sampled_from(((0, 1), (1, 0), (0, 2))), SPREADS, max_size=2)
REDUCED = st.dictionaries(st.sampled_from(((0, 1), (0, 1, 2))), OF_SIZES, max_size=2)
MEASURED = st.none() | st.builds(
    lambda device, by, gpus, copies, rings: Measured(
        device,
        by,
        tuple(OfGpu(g, *rates) for g, rates in gpus.items()),
        tuple(Copy(*ends, found) for ends, found in copies.items()),
        tuple(AllReduce(group, tuple(sorted(sizes, key=lambda at: at.bytes))) for group, sizes in rings.items()),
    ),
    st.sampled_from([*Device]), LISTS, st.dictionaries(st.integers(0, 2), st.tuples(st.none() | SPREADS, st.none() | SPREADS), max_size=2),
    COPIES, REDUCED,
)  # fmt: skip


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Return topologies in which any fact is known or not."""
    gpus = tuple(gpu.replace(index=k) for k, gpu in enumerate(draw(MACHINES)))
    nics = draw(COLUMNS)
    hosts = {gpu.host for gpu in gpus}
    kind, form = draw(TEXTS), draw(WORDS)

    def pairs(found: dict[tuple[int, int], str]) -> dict[tuple[int, int], str]:
        return {pair: code for pair, code in found.items() if pair[1] < len(gpus)}

    def of_machine(found: Measured | None) -> Measured | None:
        """Return what is about GPUs that are there; nobody copies from one host to another."""
        known = found and found.renumbered({gpu.index: gpu.index for gpu in gpus})
        copies = [copy for copy in known.copies if gpus[copy.source].host == gpus[copy.target].host] if known else []
        return known and dataclasses.replace(known, copies=tuple(copies))

    def of_nics(found: dict[int, Any]) -> dict[str, Any]:
        return {nic: found[k] for k, nic in enumerate(nics) if k in found}

    return Topology(
        gpus,
        links=pairs(draw(PAIRS)),
        pcie_links=pairs(draw(PAIRS)),
        nics=nics,
        gpu_nic={index: of_nics(codes) for index, codes in draw(OF_GPUS).items() if index < len(gpus)},
        format=form,
        formats=(form, *draw(LISTS)),
        warnings=draw(LISTS),
        columns=frozenset(draw(LISTS)),
        rows_missing=draw(LISTS),
        rows_partial_cells_seen=draw(COUNTS),
        conflict=draw(LISTS),
        extra_columns=draw(LISTS),
        other_columns=draw(FEW),
        p2p=pairs(draw(PEERS)),
        p2p_kind=kind,
        p2p_kinds={other: pairs(states) for other, states in draw(OF_KINDS).items() if other != kind},
        gpus_near_cpu={cpu: tuple(g for g in near if g < len(gpus)) for cpu, near in draw(NEAR).items()},
        nic_details=of_nics(draw(OF_NICS)),
        host_facts={host: facts for host, facts in draw(OF_HOSTS).items() if host in hosts},
        network=draw(st.none() | networks(sorted(host for host in hosts if host is not None))),
        stated=draw(STATEMENTS),
        measured=of_machine(draw(MEASURED)),
    )


DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def test_a_block_may_lie_in_a_leaf_of_a_block():
    """A host is in both blocks, of which one is around the other, though not next to it."""
    domains = (
        NetworkDomain("row", "block", ("a",), None, None), NetworkDomain("rack", "leaf", ("a",), "row", None),
        NetworkDomain("half", "block", ("a",), "rack", None),
    )  # fmt: skip
    topology = Topology((Gpu(0, host="a"),), network=Network(None, None, domains))
    assert from_document(to_document(topology)).network == topology.network


@given(topologies())
def test_what_is_written_reads_back_the_same(topology: Topology) -> None:
    further = (*doubts(topology), *measured_doubts(topology))
    topology = topology.replace(warnings=(*topology.warnings, *further))  # as every reader does
    document = to_document(topology, islands=[(0,)])
    assert from_document(document) == topology
    assert read_text(json.dumps(document, indent=1)) == topology
    written = yaml.dump(document, Dumper=DUMPER, sort_keys=False, allow_unicode=True)
    assert read_text("# a machine\n" + written) == topology


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | WORDS
    | st.sampled_from(("NV4", "0-1", "\ud800")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(("0", "00", "0-1", "00-1", "x", "\udfff")), inner)
    ),
    max_leaves=6,
)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Return documents that are nearly right: some fields are changed, lost or added."""
    document = to_document(draw(topologies()))
    for place in (document, *document["gpus"], document["links"]):
        keys = st.sampled_from((*place, "0-1", "00-1", "gpus_near_cpu1", "gpus_near_cpu01", "is_named"))
        for key in draw(st.lists(keys, max_size=2)):
            place[key] = draw(VALUES)
        for key in draw(st.lists(st.sampled_from((*place, "")), max_size=1)):
            place.pop(key, None)
    return document


@settings(max_examples=max(1, settings().max_examples // 2))
@given(documents())
def test_any_document_is_read_or_refused(document: dict[str, Any]) -> None:
    """Whatever its fields are; and what is read can be written, and reads back the same."""
    text = json.dumps(document)
    try:
        topology = from_document(document, name="x")
    except TopologyError as error:
        assert str(error).startswith("x: ")
        assert "\n" not in str(error)
        str(error).encode()
        with pytest.raises(TopologyError):
            from_text(text, name="x")
        return
    assert from_text(text, name="x") == topology
    written = json.dumps(to_document(topology), ensure_ascii=False)
    assert read_text(written.encode().decode()) == topology


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
    assert (document["format"], document["status"], len(document["gpus"])) == ("topo-c", "warn", 2)
    for nothing in (
        "GPUs with an affinity with CPU 48:\nnone\n",
        "GPUs with an affinity with CPU 48:\n4096\n",
    ):
        with pytest.raises(TopologyError):
            read_text(nothing)


def test_answers_about_several_cpus_are_one_reading() -> None:
    """Someone asks for every CPU in a loop; two answers about one CPU must agree."""
    text = "".join(f"GPUs with an affinity with CPU {cpu}:\n{cpu // 2}\n" for cpu in range(4))
    topology = read_text(text + text)
    assert topology.gpus_near_cpu == {0: (0,), 1: (0,), 2: (1,), 3: (1,)}
    assert [warning.partition(":")[0] for warning in topology.warnings] == [
        "`topo -c` names only the GPUs near CPU 0 to 3"
    ]
    with pytest.raises(TopologyError, match=r"^x:9: another line .* near CPU 3"):
        read_text(text + "GPUs with an affinity with CPU 3: 7\n", name="x")


HEAD = f"schema: {SCHEMA}\n"
TWO = HEAD + "gpus: [{index: 0}, {index: 1}]\n"
JSON = '{"schema": "' + SCHEMA + '", %s}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(HEAD, "gpus must be a list, not 'None'", id="no gpus"),
        pytest.param(HEAD + "gpus: []\n", "at least one GPU", id="0 gpus"),
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
        pytest.param(HEAD + 'gpus: [{index: !!int ""}]\n', "x:2:16: the topology document cannot be parsed: the tag", id="tag int"),
        pytest.param(HEAD + "gpus: !!bool foo\n", "x:2:7: the topology document cannot be parsed: the tag", id="tag bool"),
        pytest.param(HEAD + "a: !!timestamp foo\n", "x:2:4:", id="tag timestamp"),
        pytest.param(HEAD + 'a: !!float ""\n', "x:2:4:", id="tag float"),
        pytest.param(HEAD + "a: !!binary é\n", "x:2:4:", id="tag binary"),
        pytest.param(HEAD + "a: ! b\n", "the tag '!'", id="tag of nothing"),
        pytest.param(HEAD + "a: !x [b]\n", "the tag '!x'", id="tag of a list"),
        pytest.param(HEAD + "? {a: b}\n: c\n", "a key must be a text", id="key of a mapping"),
        pytest.param(HEAD + "gpus: [{index: 0}]\n---\na\n", "x:3:1: the topology document cannot be parsed: a second", id="two documents"),
        pytest.param(HEAD + "a: " + "[" * 33 + "]" * 33 + "\n", "nested deeper than 32", id="33 levels"),
        pytest.param(HEAD + "a: 'b\n" * 9, "x:", id="quote"),
        pytest.param(HEAD + 'a: "\\UFFFFFFFF"\n', "x:2", id="no character"),
        pytest.param(HEAD + 'gpus: [{index: 0, name: "\\uD800"}]\n', "topology document", id="half a character in YAML"),
        pytest.param(HEAD + "gpus:" + "\n- {}" * (MOST_YAML_VALUES // 3), "JSON may have more", id="long YAML"),
        pytest.param(JSON % '"gpus": [], "gpus": []', "the key 'gpus' is there twice", id="JSON key twice"),
        pytest.param(JSON % '"gpus": [{"index": 0, "index": 0}]', "the key 'index' is there twice", id="JSON inner key twice"),
        pytest.param(
            JSON % '"gpus": [{"index": 0, "memory_mib": 1%s}]' % ("0" * 400),
            f"gpus[0].memory_mib must be a number from 0 to {MOST}, not a number of many digits", id="memory of 400 digits",
        ),
        pytest.param(JSON % '"gpus": [{"index": 0, "memory_mib": 1%s}]' % ("0" * 5000), "gpus[0].memory_mib must be", id="5000 digits"),
        pytest.param(JSON % '"gpus": [{"index": 0, "memory_mib": 1e400}]', "gpus[0].memory_mib must be a whole number", id="infinite"),
        pytest.param(JSON % '"gpus": [{"index": 0, "memory_used_mib": %d}]' % (MOST + 1), "gpus[0].memory_used_mib", id="used"),
        pytest.param(JSON % '"gpus": [{"index": 0, "memory_mib": 0}]', "x: topology document: GPU 0 has 0 MiB", id="no memory"),
        pytest.param(JSON % '"gpus": [{"index": 131072}]', "gpus[0].index must be a number from 0 to 131071", id="index"),
        pytest.param(JSON % f'"gpus": [{", ".join(["{}"] * (MOST_GPUS + 1))}]', "gpus has 131,073 entries", id="many GPUs"),
        pytest.param(JSON % '"gpus": [{"index": 0}], "other_columns": -1', "other_columns must be a number from 0", id="count below 0"),
        pytest.param(JSON % '"gpus": [{"index": 0, "name": "\\ud800"}]', "gpus[0].name is no text", id="half a character"),
        pytest.param(JSON % '"gpus": [{"index": 0}], "warnings": ["\\ud800"]', "warnings is no text", id="half a character in a warning"),
        pytest.param(JSON % '"gpus": [{"index": 0}], "\\ud800": 1', "a key of the document is no text", id="half a character in a key"),
        pytest.param(TWO + "links: {0-1: NV12, 00-1: SYS}\n", "links.0-1 and links.00-1 are the same", id="pair twice"),
        pytest.param(TWO + "links: {1-0: NV12}\n", "'1-0' must name the smaller GPU first", id="pair turned"),
        pytest.param(TWO + "links: {0-١: NV12}\n", "is no pair", id="Arabic pair"),
        pytest.param(HEAD + "gpus: [{index: 0}]\ngpu_nic: {0: {}, 00: {}}\n", "gpu_nic.0 and gpu_nic.00 are the same", id="GPU twice"),
        pytest.param(HEAD + "gpus: [{index: 0}]\ngpus_near_cpu1: []\ngpus_near_cpu01: []\n", "are the same", id="CPU twice"),
        pytest.param(HEAD + "gpus: [{index: 0, is_named: 1}]\n", "gpus[0].is_named must be true or false", id="is_named"),
    ],
)  # fmt: skip
def test_refused(text: str, words: str) -> None:
    with pytest.raises(TopologyError) as caught:
        read_text(text, name="x")
    assert words in str(caught.value)
    assert str(caught.value).startswith("x")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(TWO + "links: {0-1: %s}\n", id="YAML"),
        pytest.param(JSON % '"gpus": [{"index": 0}, {"index": 1}], "links": {"0-1": "%s"}', id="JSON"),
    ],
)
@pytest.mark.parametrize("code", ["FOO", "NV0", "NVabc", "NV999999999", "NV١٢", ""])
def test_an_unknown_code_is_named_as_in_a_matrix(changes: str, code: str) -> None:
    """It is kept, no link of hardware, and named once however often it is written and read."""
    topology = read_text(changes.replace("%s", repr(code) if code == "" and "{0-1" in changes else code))
    assert topology.warnings == (
        f"unknown code {code}: no hardware has such a link, so nothing is known of its speed",
    )
    assert topology.links == {(0, 1): code}
    assert parse_code(code) == (LinkKind.UNKNOWN, 0)
    assert from_document(to_document(topology)) == topology


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        pytest.param(TWO, "GPU0, GPU1", id="no links"),
        pytest.param(HEAD + "format: topo-m\ngpus: [{index: 0}, {index: 1}]\n", "GPU0, GPU1", id="no links of a matrix"),
        pytest.param(TWO + "links: {}\n", "GPU0, GPU1", id="empty links"),
        pytest.param(
            HEAD + "gpus: [{index: 0}, {index: 1}, {index: 2}]\nlinks: {0-1: SYS, 0-2: SYS}\n", "GPU1, GPU2", id="some links"
        ),
        pytest.param(HEAD + "gpus: [{index: 0, host: a}, {index: 1, host: a}, {index: 2, host: b}]\n", "GPU0, GPU1", id="two hosts"),
    ],
)  # fmt: skip
def test_links_that_a_document_does_not_state_are_said_to_be_unknown(text: str, unknown: str) -> None:
    topology = read_text(text)
    assert topology.warnings == (f"links are unknown between some of {unknown}",)
    assert from_document(to_document(topology)) == topology


def test_a_document_that_says_all_has_no_warning() -> None:
    """One GPU has no links; those between hosts are a network."""
    assert read_text(HEAD + "gpus: [{index: 0}]\n").warnings == ()
    assert read_text(HEAD + "gpus: [{index: 0, host: a}, {index: 1, host: b}]\n").warnings == ()


@pytest.mark.parametrize(
    "text", [HEAD + "gpus: [{index: 0}]\n", JSON % '"gpus": [{"index": 0}]'], ids=["YAML", "JSON"]
)
def test_a_byte_order_mark_does_not_matter(text: str) -> None:
    for data in (
        text.encode("utf-8-sig"),
        text.encode("utf-16"),
        codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
    ):
        assert read_bytes(data, name="x") == read_text(text)
    assert read_text("\ufeff" + text) == read_text(text)


def test_both_parsers_of_yaml_refuse_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyYAML may come without libyaml."""
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert read_text(HEAD + "gpus: [{index: 0, name: '1', numa: null}]\n").gpus == (Gpu(0, name="1"),)
    for text in (
        'gpus: [{index: !!int ""}]',
        "gpus: !!bool foo",
        "gpus: &a []\nlinks: *a",
        "a: 1\na: 1",
        "a: [" * 40,
        "a: [",
        "\b",
    ):
        with pytest.raises(TopologyError, match=r"^x(:[23]:[0-9]+)?: the topology document cannot be parsed"):
            read_text(HEAD + text, name="x")


def test_another_schema_is_refused() -> None:
    with pytest.raises(TopologyError, match="'placement/device-map/v1' instead of"):
        from_document({"schema": "placement/device-map/v1"})


def test_a_field_of_a_newer_version_is_ignored_with_a_warning() -> None:
    topology = read_text(HEAD + "gpus: [{index: 0}]\nquantum: yes\n")
    assert "quantum" in topology.warnings[0]
