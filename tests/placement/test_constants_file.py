"""Constants that a user puts in place of the shipped ones: what is read, what is refused, and what a plan says of them."""

from __future__ import annotations

import dataclasses

import pytest
from conftest_placement import actor, ask, critic, job, machine, ref, reward
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.checking import problems
from placement.constants.constants_file import normal, read, recorded, to_document
from placement.constants.table import Constants, Override, allowed, constants, overridden, sources
from placement.errors import InputError
from placement.maps.devicemap import dump, load
from placement.maps.replay import constants_of
from placement.planner import plan

NAMES = tuple(sources())


@st.composite
def overrides(draw: st.DrawFn) -> tuple[Override, ...]:
    """Draw some constants with values that they may have."""
    found = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=6)):
        may = allowed(name)
        numbers = (
            st.integers(int(may.lowest), int(may.highest))
            if may.whole
            else st.floats(may.lowest, may.highest, allow_nan=False, allow_subnormal=False)
        )
        value = draw(numbers | st.just(0 if may.whole else 0.0) if may.or_zero else numbers)
        source = draw(st.none() | st.sampled_from(["profile of our own", "a: b # c", "on", "1e3"]))
        found.append(Override(name, value, source))
    return normal(found)


def test_a_value_alone_or_with_its_source():
    text = "train_mfu_dense: {value: 0.35, source: profile}\nmatmul_efficiency: 0.7\n"
    assert read(text) == (Override("matmul_efficiency", 0.7), Override("train_mfu_dense", 0.35, "profile"))


def test_what_equals_the_shipped_value_is_no_override():
    assert read("matmul_efficiency: 0.78\ngenerate_time_factor: 1\nsync_bucket_mib: 2048\n") == ()


def test_an_empty_mapping_overrides_nothing():
    assert read("{}") == ()


@given(overrides())
def test_what_is_recorded_reads_back(given):
    assert recorded(to_document(given)) == given
    values = overridden(given)
    assert [each for each in NAMES if getattr(values, each) != getattr(constants(), each)] == [each.name for each in given]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("matmul_eficiency: 0.7", "c:1:1: there is no constant 'matmul_eficiency' (did you mean 'matmul_", id="typo"),
        pytest.param("schema: placement/workload/v1", "c:1:1: this is a document of another kind", id="another document"),
        pytest.param("[1]", "c:1:1: constants are a mapping from name to value", id="a list"),
        pytest.param("", "c:1:1: constants are a mapping from name to value", id="empty"),
        pytest.param("matmul_efficiency: 0", "c:1:20: matmul_efficiency cannot be 0: it takes a number from 0.0039 to 1", id="0"),
        pytest.param("matmul_efficiency: 1.01", "cannot be 1.01", id="a share above one"),
        pytest.param("matmul_efficiency: 70%", "cannot be '70%'", id="a percentage"),
        pytest.param("matmul_efficiency: true", "cannot be True", id="a boolean"),
        pytest.param("matmul_efficiency:", "cannot be empty", id="nothing"),
        pytest.param("matmul_efficiency: [0.7]", "cannot be a list", id="a list of one"),
        pytest.param("decode_overhead_us: 2.5e9", "from 12.5 to 500000 (us per step; shipped: 2500)", id="another unit"),
        pytest.param("decode_overhead_us: -1", "it takes 0, or a number from 12.5", id="negative"),
        pytest.param("decode_overhead_us: 2500000", "from 12.5 to 500000 (us per step", id="a thousand times: another unit"),
        pytest.param("fp8_rate: 0.5", "fp8_rate cannot be 0.5: it takes a number from 1 to 4 (8-bit FLOP", id="8 bits slower than 16"),
        pytest.param("sync_bucket_mib: 512.5", "cannot be 512.5: it takes 0, or a whole number from 11", id="a part of a MiB"),
        pytest.param("own_bytes_per_s: 0", "it takes a number from 5e+09", id="a divisor is never 0"),
        pytest.param("sync_bucket_mib: {vale: 3}", "c:1:19: sync_bucket_mib takes `value` and `source`, not 'vale' (did", id="key"),
        pytest.param("sync_bucket_mib: {source: x}", "sync_bucket_mib has no `value`", id="no value"),
        pytest.param("sync_bucket_mib: {value: 3, source: 4}", "the source of sync_bucket_mib is a text, not 4", id="source"),
        pytest.param("sync_bucket_mib: 3\nsync_bucket_mib: 4", "c:2:1: the key 'sync_bucket_mib' is there twice", id="twice"),
    ],
)
def test_what_is_no_constant_is_refused_at_its_place(text, says):
    with pytest.raises(InputError) as raised:
        read(text, name="c")
    assert says in str(raised.value)
    assert raised.value.where.startswith("c:")


@pytest.mark.parametrize("wrong", [Override("nope", 1.0), Override("matmul_efficiency", 1.5)])
def test_python_callers_are_refused_too(wrong):
    with pytest.raises(InputError):
        ask(machine("NV12", 2), job(actor()), overrides=[wrong])


def test_a_file_that_is_none_is_refused(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name, says in (("nope", "there is no constants file"), ("binary", "this is no text"), (".", "Is a directory")):
        with pytest.raises(InputError, match=says):
            constants_of(tmp_path / name)


def test_a_map_gives_its_constants_or_says_that_it_has_none(tmp_path):
    file = tmp_path / "map.yaml"
    file.write_text(dump(plan(ask(*QUESTION)).plan))
    assert constants_of(file) is None
    given = read("train_mfu_dense: 0.3")
    file.write_text(dump(plan(ask(*QUESTION, overrides=given)).plan))
    assert constants_of(file) == given
    file.write_text("generate_time_factor: 1.0")
    assert constants_of(file) == ()


def test_a_damaged_map_is_no_map_without_constants(tmp_path):
    """Wherever it was cut, and whatever its inputs are: it is refused at a place, and never taken for one that replaces nothing."""
    file = tmp_path / "map.yaml"
    text = dump(plan(ask(*QUESTION, overrides=read("train_mfu_dense: 0.3"))).plan)
    lines = text.splitlines(keepends=True)
    head = text[: text.index("inputs:")]
    cut = ["".join(lines[:n]) for n in range(1, len(lines), 7)]
    for damaged in [*cut, head, f"{head}inputs: {{}}\n", f"{head}inputs: 3\n", text.replace("  objective:", "  objectve:")]:
        file.write_text(damaged)
        with pytest.raises(InputError) as raised:
            constants_of(file)
        assert raised.value.where.startswith(f"{file}:")


QUESTION = (machine("NV12", 4), job(actor(), critic(), ref(), reward()))


def test_a_plan_says_what_was_put_in_place_of_the_shipped_numbers():
    given = read("train_mfu_dense: {value: 0.3, source: profile}\nupdate_actor_time_factor: 1.5\n")
    question = ask(*QUESTION, overrides=given)
    answer = plan(question).plan
    assert answer.inputs["constants"] == to_document(given)
    assert "constant train_mfu_dense 0.3 in place of 0.4 (share of peak) (profile)" in answer.estimate.assumptions
    assert "update_actor takes 1.5 times the time that the model predicts (no source given)" in answer.estimate.assumptions
    assert problems(answer, question) == []
    assert load(dump(answer)) == answer
    assert read(dump(answer)) == recorded(answer.inputs["constants"]) == given


def test_the_checker_notices_other_constants():
    question = ask(*QUESTION)
    answer = plan(question.with_overrides(read("train_mfu_dense: 0.3"))).plan
    found = problems(answer, question)
    assert "the map records another constants than the question has" in found
    assert any("the cost model says" in each for each in found)


def test_a_plan_with_shipped_constants_records_none():
    plain, equal = ask(*QUESTION), ask(*QUESTION, overrides=read("generate_time_factor: 1.0\nmatmul_efficiency: 0.78"))
    assert "constants" not in plan(plain).plan.inputs
    assert dump(plan(plain).plan) == dump(plan(equal).plan)


@settings(max_examples=30)
@given(overrides())
def test_no_allowed_value_breaks_planning(given):
    """At worst there is no plan; times stay what solvers can add up."""
    question = ask(machine("NV12", 2), job(actor(), ref()), overrides=given)
    answer = plan(question).plan
    if answer is not None:
        assert problems(answer, question) == []


def test_every_constant_has_a_range_around_its_value():
    for field in dataclasses.fields(Constants):
        may = allowed(field.name)
        assert may.has(getattr(constants(), field.name))
        assert not may.has(-1)
        assert not may.has(float("nan"))
