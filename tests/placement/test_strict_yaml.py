"""The reader never guesses; what the writer writes, every reader understands alike."""

from __future__ import annotations

import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from placement.errors import InputError
from placement.text import strict_yaml
from placement.text.strict_yaml import dump, load

texts = st.text(max_size=40) | st.sampled_from(
    [
        "on",
        "No",
        "y",
        "~",
        "null",
        "010",
        "0x1F",
        "10:00.0",
        "1_000",
        "1e3",
        ".inf",
        "=",
        "<<",
        "2024-01-01",
        "- a",
        "a: b",
        "a #b",
        " ",
        "",
    ]
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(texts, inner, max_size=8),
    max_leaves=30,
)
wide = st.lists(st.integers(0, 10**6), min_size=30, max_size=80) | st.dictionaries(
    texts, texts, min_size=8, max_size=30
)


@given(documents | st.dictionaries(texts, wide, min_size=1, max_size=3) | st.lists(wide, max_size=3))
def test_what_is_written_is_read_back_by_us_and_by_others(document):
    text = dump(document)
    assert document == load(text).data
    assert document == yaml.safe_load(text)
    assert text == dump(document)


@given(st.text(alphabet="ab:-[]{},&*#'\"|>? \n\t0.", max_size=60))
def test_any_text_is_read_or_refused_as_input_error(text):
    assert _refused_at(text).partition(":")[0] == "x.yaml"


@given(st.text(max_size=80))
def test_any_characters_are_read_or_refused_as_input_error(text):
    assert _refused_at(text).partition(":")[0] == "x.yaml"


def _refused_at(text):
    """Return where *text* is refused; its name when it is read."""
    try:
        load(text, name="x.yaml")
    except InputError as error:
        return error.where
    return "x.yaml"


@pytest.fixture(params=["default parser", "pure Python parser"])
def _each_parser(request, monkeypatch):
    if request.param == "pure Python parser":
        monkeypatch.setattr(strict_yaml, "_LOADER", yaml.SafeLoader)


@pytest.mark.usefixtures("_each_parser")
@pytest.mark.parametrize(
    ("scalar", "expected"),
    [
        *(
            pytest.param(t, t, id=f"text {t}")
            for t in ("on", "off", "yes", "NO", "y", "010", "-07", "10:00.0", "190:20:30")
        ),
        *(
            pytest.param(t, t, id=f"text {t}")
            for t in ("0x1F", "0o17", "1_000", ".inf", ".nan", "2024-01-01", "1.2.3", "=", "a b")
        ),
        pytest.param('"true"', "true", id="quoted true is text"),
        pytest.param("'12'", "12", id="quoted number is text"),
        *(pytest.param(t, True, id=t) for t in ("true", "True", "TRUE")),
        pytest.param("false", False, id="false"),
        *(pytest.param(t, None, id=f"null {t!r}") for t in ("", "~", "null")),
        pytest.param("0", 0, id="zero"),
        pytest.param("-12", -12, id="negative"),
        pytest.param("1e-6", 1e-6, id="exponent without a point"),
        pytest.param("+.5", 0.5, id="no digit before the point"),
        pytest.param("7.", 7.0, id="no digit after the point"),
    ],
)
def test_a_plain_scalar_means_what_it_says(scalar, expected):
    read = load(f"key: {scalar}\n").data["key"]
    assert expected == read
    assert type(expected) is type(read)


def test_keys_are_text_and_empty_text_is_null():
    assert load("on: 1\n7: {true: 2}\n").data == {"on": 1, "7": {"true": 2}}
    assert load("").data is None
    assert load("\ufeffa: 1").data == {"a": 1}


def test_aliases_stand_for_their_value():
    document = load("base: &b {tp: [1, 2]}\nother: *b\n")
    assert document.data["other"] == {"tp": [1, 2]}
    assert document.position(("other", "tp", 1)) == (2, 8)


@pytest.mark.usefixtures("_each_parser")
@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        pytest.param(
            "a: 1\nb: 2\na: 3\n",
            "f:3:1",
            "the key 'a' is there twice (first at line 1, column 1)",
            id="duplicate key",
        ),
        pytest.param("a: {x: 1, x: 2}", "f:1:11", "twice", id="duplicate key on one line"),
        pytest.param("a: !!int 3", "f:1:4", "tag", id="tag"),
        pytest.param("a: !!python/object:os.system x", "f:1:4", "tag", id="python tag"),
        pytest.param("a: !x {b: 1}", "f:1:4", "tag", id="tag of a mapping"),
        pytest.param("a: 1\n---\nb: 2\n", "f:2:1", "second document", id="two documents"),
        pytest.param("a: {<<: {b: 1}}", "f:1:5", "merge keys", id="merge key"),
        pytest.param("? [a]\n: b", "f:1:3", "a key must be plain text", id="list as key"),
        pytest.param("&k a: 1", "f:1:1", "a key cannot be an anchor", id="anchored key"),
        pytest.param("a: *b", "f:1:4", "*b names no value", id="unknown alias"),
        pytest.param("a: &a [*a]", "f:1:8", "*a names no value that is complete", id="alias inside itself"),
        pytest.param("a: 9e999", "f:1:4", "too large", id="float overflow"),
        pytest.param("a: " + "9" * 50, "f:1:4", "more than 40 digits", id="endless integer"),
        pytest.param("a:\n  b: [1,\n\n\n", "f:2:9", "no valid YAML", id="the text ends too early"),
        pytest.param("a: b\n\tc: d", "f:2:1", "no valid YAML", id="tab"),
        pytest.param("a: \x00", "f", "no text that YAML allows", id="binary"),
        pytest.param("x" * (1 << 20) + "x", "f", "1,048,576 characters", id="too large"),
        pytest.param("[" * 65 + "]" * 65, "f:1:65", "more than 64 levels", id="too deep"),
    ],
)
def test_what_could_be_misread_is_refused_with_its_place(text, where, says):
    with pytest.raises(InputError) as raised:
        load(text, name="f")
    assert where == raised.value.where
    assert says in str(raised.value)


def test_a_lone_surrogate_is_refused():
    with pytest.raises(InputError, match="no text that YAML allows"):
        load("a: \ud800")


def test_an_alias_bomb_is_refused_before_it_is_built():
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 20))
    with pytest.raises(InputError, match="more than 200,000 values, counting what aliases stand for"):
        load(bomb)


def test_an_error_shows_the_line_with_a_caret():
    with pytest.raises(InputError) as raised:
        load("name: x\nroles:\n  actor: 1\n  actor: 2\n", name="w.yaml")
    assert str(raised.value) == (
        "w.yaml:4:3: the key 'actor' is there twice (first at line 3, column 3)\n    actor: 2\n    ^"
    )


def test_a_long_line_is_shown_around_its_caret():
    with pytest.raises(InputError) as raised:
        load("a: [" + "1, " * 200 + "!x 3]", name="f")
    _, shown, caret = str(raised.value).split("\n")
    assert len(shown) <= 102
    assert shown[caret.index("^") :].startswith("!x 3]")


def test_a_position_falls_back_to_what_encloses_it():
    document = load("a:\n  b: [1, 2]\n")
    assert document.position(("a", "b", 1)) == (2, 10)
    assert document.position(("a", "b", 7)) == (2, 6)
    assert document.position(("a", "b"), key=True) == (2, 3)
    assert document.position(("a", "z")) == (2, 3)
    assert load("").position(("a",)) == (1, 1)
    assert str(load("", name="f").error("nothing is here", ("a",))) == "f:1:1: nothing is here"


def test_the_look_of_what_is_written():
    document = {
        "schema": "placement/device-map/v1",
        "verdict": "optimal: 2.0 s a step",
        "device_map": {"actor": [0, 1], "critic": []},
        "links": {f"{i}-{i + 1}": "NV12" for i in range(12)},
        "memory_mib": [
            {"gpu": 0, "planned": 60123, "name": "on"},
            {"gpu": 1, "text": "x" * 120, "tps": [1, 2]},
        ],
        "gap": 1e-06,
        "nothing": {},
        "notes": ["a long sentence, " + "x" * 60, "another long sentence, " + "y" * 60],
        "nested": [[{"a": [{"b": {"c": 1}}]}]],
    }
    assert dump(document) == (
        "schema: placement/device-map/v1\n"
        'verdict: "optimal: 2.0 s a step"\n'
        "device_map: {actor: [0, 1], critic: []}\n"
        'links: {"0-1": NV12, "1-2": NV12, "2-3": NV12, "3-4": NV12, "4-5": NV12, "5-6": NV12, "6-7": NV12, '
        '"7-8": NV12,\n'
        '  "8-9": NV12, "9-10": NV12, "10-11": NV12, "11-12": NV12}\n'
        "memory_mib:\n"
        '  - {gpu: 0, planned: 60123, name: "on"}\n'
        "  - gpu: 1\n"
        f"    text: {'x' * 120}\n"
        "    tps: [1, 2]\n"
        "gap: 1.0e-06\n"
        "nothing: {}\n"
        "notes:\n"
        f'  - "a long sentence, {"x" * 60}"\n'
        f'  - "another long sentence, {"y" * 60}"\n'
        "nested:\n"
        "  - - a: [{b: {c: 1}}]\n"
    )


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_numbers_that_readers_disagree_about_are_not_written(number):
    with pytest.raises(ValueError, match="cannot be written"):
        dump({"a": number})


def test_only_plain_data_are_written():
    with pytest.raises(TypeError, match="plain data, not set"):
        dump({"a": {1}})
    with pytest.raises(TypeError, match="keys must be text, not 1"):
        dump({1: "a"})
