"""The device map survives writing and reading, and its text is the same every time."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from placement.errors import InputError
from placement.maps.devicemap import SCHEMA, dump, load, to_document
from placement.plans import (
    Alternative,
    Comparison,
    Estimate,
    GpuMemory,
    HostMemory,
    Layout,
    Plan,
    Proof,
    RolePlan,
    RolloutPlan,
    StageTime,
    TermValue,
    TrainPlan,
)

names = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)
words = (
    st.sampled_from(
        ["on", "no", "10:00.0", "010", "1e3", "~", "null", "a: b", "- x", "#", "0x1F", "2026-01-02"]
    )
    | names
)
counts = st.integers(0, 2**40)
ids = st.lists(st.integers(0, 63), min_size=1, max_size=8, unique=True).map(tuple)
plain = st.recursive(
    st.none() | st.booleans() | counts | words,
    lambda s: st.lists(s, max_size=3) | st.dictionaries(words, s, max_size=3),
    max_leaves=8,
)
layouts = st.builds(Layout, st.integers(1, 8), st.integers(1, 8), st.integers(1, 8))
roles = st.builds(
    RolePlan,
    model=words,
    engine=words,
    precision=words,
    layout=layouts,
    train=st.none() | st.builds(TrainPlan, words, words, counts),
    rollout=st.none()
    | st.builds(RolloutPlan, words, counts, counts, st.sampled_from([0.5, 0.6, 1.0]), counts),
    offload=st.none() | words,
)
others = st.builds(Alternative, st.none() | counts, words)
plans = st.builds(
    Plan,
    verdict=words,
    device_map=st.dictionaries(words, ids, max_size=3),
    ordinals=st.dictionaries(words, ids, max_size=3),
    environment=st.dictionaries(words, words, max_size=2),
    roles=st.dictionaries(words, roles, max_size=3),
    memory_mib=st.lists(
        st.builds(GpuMemory, counts, counts, counts, counts, st.none() | words, counts), max_size=3
    ).map(tuple),
    host_memory_mib=st.lists(
        st.builds(HostMemory, st.none() | words, st.none() | counts, st.none() | counts, counts, words, st.none() | counts),
        max_size=2,
    ).map(tuple),
    estimate=st.builds(
        Estimate,
        counts,
        words,
        st.lists(st.builds(StageTime, words, counts, words, words), max_size=2).map(tuple),
        st.lists(words, max_size=2).map(tuple),
    ),
    proof=st.builds(
        Proof,
        words,
        counts,
        counts,
        st.floats(0, 1),
        st.lists(st.builds(TermValue, words, counts, counts), max_size=3).map(tuple),
    ),
    comparison=st.builds(Comparison, others, others),
    rules=st.dictionaries(words, words, max_size=2),
    inputs=st.dictionaries(words, plain, max_size=3),
)


@given(plans)
def test_reading_back_gives_the_same_plan(plan):
    text = dump(plan)
    assert load(text) == plan
    assert dump(load(text)) == text


@given(plans)
def test_other_yaml_readers_see_the_same_document(plan):
    assert yaml.safe_load(dump(plan)) == to_document(plan)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("actor: [0, 1]\n", f"not a device map: it must start with `schema: {SCHEMA}`", id="another document"),
        pytest.param(f"schema: {SCHEMA}\nverdict: x\n", "1:1 the map lacks device_map", id="missing"),
        pytest.param(f"schema: {SCHEMA}\nverdct: x\n", "2:1 unknown key 'verdct' (did you mean", id="unknown"),
        pytest.param(f"schema: {SCHEMA}\ndevice_map: 3\n", "2:13 expected a mapping", id="wrong type"),
        pytest.param(f"schema: {SCHEMA}\nmemory_mib: {{a: 1}}\n", "2:13 expected a list", id="no list"),
        pytest.param(f"schema: {SCHEMA}\nestimate: [1]\n", "2:11 estimate must be a mapping", id="list"),
        pytest.param(f"schema: {SCHEMA}\nestimate: {{step_us: 1}}\n", "2:11 estimate lacks", id="lacks"),
        pytest.param(f"schema: {SCHEMA}\ndevice_map: {{actor: [x]}}\n", "2:22 expected a whole", id="word"),
    ],
)
def test_what_is_no_device_map_is_refused(text, says):
    with pytest.raises(InputError) as caught:
        load(text, name="map.yaml")
    place, _, words = says.partition(" ")
    head = f"map.yaml:{place}: the device map is damaged: {words}" if place[0].isdigit() else f"map.yaml: {says}"
    assert str(caught.value).startswith(head)
