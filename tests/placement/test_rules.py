"""Rules: presets, switches, and the texts that name them."""

from __future__ import annotations

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.errors import InputError
from placement.workloads.rule_texts import PRESET_TEXTS
from placement.workloads.rule_values import TARGETS, Reserve
from placement.workloads.rules import PRESETS, RULES, Relation, Rules, parse_rules
from placement.workloads.workload import RoleName

ACTOR, ROLLOUT, CRITIC, REF, REWARD = RoleName

APART, TOGETHER, MAY = Relation

percents = st.integers(1, 9999).map(lambda n: n / 100)
rules = st.builds(
    Rules,
    preset=st.sampled_from(PRESETS),
    contiguity=st.booleans(),
    sharing=st.sampled_from(["pool", "partial"]),
    reserve=st.just(Rules().reserve)
    | st.builds(Reserve, percent=percents)
    | st.builds(Reserve, mib=st.integers(0, 10**6)),
    reward_reserve_percent=st.none() | percents | st.just(0.0),
    same_card=st.booleans(),
    critic_min_gpus=st.none() | st.integers(1, 64),
    busy_mib=st.none() | st.integers(0, 10**6),
    supported=st.booleans(),
    even_batch=st.booleans(),
    affinity=st.booleans(),
    root_complex=st.booleans(),
    target=st.sampled_from([None, *TARGETS]),
)


@given(rules)
def test_a_rule_text_says_all_of_its_rules(rules):
    assert rules == parse_rules(str(rules))
    assert rules == parse_rules(*(f"{name}={value}" for name, value in rules.describe().items()))


@given(rules, rules)
def test_the_later_text_wins(first, second):
    named = second.describe()
    merged = parse_rules(str(first), str(second)).describe()
    assert named == {name: merged.get(name) for name in named}
    assert set(merged) <= set(first.describe()) | set(named)


@pytest.mark.parametrize(
    ("preset", "relations"),
    [
        ("guide", (APART, MAY, APART, APART, MAY, MAY)),
        ("minimal", (APART, APART, APART, APART, APART, MAY)),
        ("strict", (APART,) * 6),
        ("four", (APART, APART, APART, MAY, MAY, MAY)),
        ("colocate", (TOGETHER,) * 6),
        ("free", (MAY,) * 6),
    ],
)
def test_presets_are_the_published_table(preset, relations):
    pairs = [(ACTOR, CRITIC), (ACTOR, REF), (ACTOR, REWARD), (CRITIC, REF), (CRITIC, REWARD), (REF, REWARD)]
    assert relations == tuple(parse_rules(preset).relation(a, b) for a, b in pairs)
    rollout = {"colocate": TOGETHER, "free": MAY}.get(preset, APART)
    assert {rollout} == {parse_rules(preset).relation(ROLLOUT, b) for b in RoleName if b is not ROLLOUT}


@pytest.mark.parametrize("preset", PRESETS)
def test_relations_have_no_direction(preset):
    rules = parse_rules(preset)
    for a, b in itertools.combinations(RoleName, 2):
        assert rules.relation(a, b) is rules.relation(b, a)


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("contiguity=off", "contiguity", False),
        ("contiguity = FALSE", "contiguity", False),
        ("contiguity=off,contiguity=on", "contiguity", True),
        ("sharing=partial", "sharing", "partial"),
        ("reserve=8%", "reserve", Reserve(percent=8.0)),
        ("reserve=2GiB", "reserve", Reserve(mib=2048)),
        ("reserve=512 MiB", "reserve", Reserve(mib=512)),
        ("reserve=1.5gib", "reserve", Reserve(mib=1536)),
        ("reserve=off", "reserve", Reserve()),
        ("reserve=0%", "reserve", Reserve()),
        ("reward_reserve=12.5%", "reward_reserve_percent", 12.5),
        ("reward_reserve=off", "reward_reserve_percent", None),
        ("min_gpus=4", "min_gpus", {CRITIC: 4}),
        ("min_gpus=off", "min_gpus", {}),
        ("busy=off", "busy_mib", None),
        ("busy=1GiB", "busy_mib", 1024),
        ("isolation=strict", "preset", "strict"),
        ("isolation=off", "preset", "free"),
        ("guide,strict", "preset", "strict"),
        ("contiguity=off,free", "contiguity", False),
        ("", "preset", "guide"),
    ],
)
def test_a_switch_sets_its_rule(text, field, value):
    assert value == getattr(parse_rules(text), field)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "guid",
            (
                "there is no preset or rule 'guid' (did you mean 'guide'?): "
                "presets are guide, minimal, strict, four, colocate, free; "
                "switches are contiguity, sharing, reserve, reward_reserve, same_card, min_gpus, busy, "
                "supported, even_batch, affinity, root_complex, target"
            ),
        ),
        ("contiguity", "rule contiguity needs a value: contiguity=… takes on, off"),
        ("contiguity=maybe", "rule contiguity cannot be 'maybe': it takes on, off"),
        ("sharing=on", "rule sharing cannot be 'on': it takes pool, partial"),
        ("reserve=5", "rule reserve cannot be '5': it takes 8%, 2GiB, 512MiB, off"),
        ("reserve=100%", "rule reserve cannot be '100%': it takes 8%, 2GiB, 512MiB, off"),
        ("reserve=-1GiB", "rule reserve cannot be '-1GiB': it takes 8%, 2GiB, 512MiB, off"),
        ("reward_reserve=2GiB", "rule reward_reserve cannot be '2GiB': it takes 25%, off"),
        ("min_gpus=0", "rule min_gpus cannot be '0': it takes a count, off"),
        ("busy=1e3MiB", "rule busy cannot be '1e3MiB': it takes 4GiB, 512MiB, off"),
        (
            "visible=0,1",
            "rule visible is set by the option --visible or by CUDA_VISIBLE_DEVICES, not by a switch",
        ),
        (
            "isolation=stric",
            (
                "there is no preset 'stric' (did you mean 'strict'?): "
                "rule isolation takes guide, minimal, strict, four, colocate, free"
            ),
        ),
        (
            "contigity=off",
            (
                "there is no rule 'contigity' (did you mean 'contiguity'?): "
                "the rules are isolation, contiguity, sharing, reserve, reward_reserve, same_card, "
                "min_gpus, busy, visible, supported, even_batch, affinity, root_complex, target"
            ),
        ),
    ],
)
def test_a_wrong_rule_text_is_refused_with_a_remedy(text, message):
    with pytest.raises(InputError) as raised:
        parse_rules(text)
    assert message == str(raised.value)


def test_nothing_near_is_not_suggested():
    with pytest.raises(InputError, match="no preset or rule 'zzz': presets are"):
        parse_rules("zzz")


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(InputError):
        assert isinstance(parse_rules(text), Rules)


@pytest.mark.parametrize(
    ("capacity", "reserve"),
    [
        pytest.param(81_152, 4058, id="5 % of 80 GB, rounded up"),
        pytest.param(16_000, 1024, id="1 GiB on a small card"),
    ],
)
def test_the_default_reserve_is_the_larger_of_share_and_amount(capacity, reserve):
    assert reserve == Rules().reserve.of_mib(capacity)


def test_only_what_differs_from_the_default_is_described():
    assert Rules().describe() == {"preset": "guide"}
    assert parse_rules(
        "strict,contiguity=off,reserve=8%,busy=3000MiB,min_gpus=off,reward_reserve=off"
    ).describe() == {
        "preset": "strict",
        "contiguity": "off",
        "reserve": "8%",
        "reward_reserve": "off",
        "min_gpus": "off",
        "busy": "3000MiB",
    }


def test_rules_can_be_keys():
    assert len({Rules(), parse_rules("guide"), parse_rules("free")}) == 2


def test_every_preset_and_switch_is_explained():
    assert tuple(preset.name for preset in PRESET_TEXTS) == PRESETS
    explained = {rule.name for rule in RULES}
    for rule in RULES:
        if rule.name != "visible":
            with pytest.raises(InputError):
                parse_rules(f"{rule.name}=#")
    assert {"isolation", "visible"} <= explained
