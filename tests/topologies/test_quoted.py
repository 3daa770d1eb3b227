"""Outputs that stand in source code or data as strings: they are read like what was printed."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from topologies.pages.quoted import DECODED, UNQUOTED, unquoted
from topologies.read import read_text

FOLDER = Path(__file__).parent.parent / "data" / "sources"
TEXTS = sorted(path for path in FOLDER.rglob("*") if path.suffix in {".txt", ".csv", ".xml"})


def printed_in(path: Path) -> str:
    """Return the output in *path*; one that names no GPU stands below one that does."""
    text = path.read_text()
    return text if path.name != "ibstat.txt" else (FOLDER / "topo-m.txt").read_text() + "\n" + text


def logged(key: str, end: str) -> Callable[[str], str]:
    """Return what writes each line as an object of JSON with other facts around it."""
    return lambda text: "".join(
        json.dumps({"level": "INFO", key: line + end, "time": "2024-01-02T03:04:05.123Z"}) + "\n" for line in text.splitlines()
    )


def of_ansible(text: str) -> str:
    lines = ",\n".join(f"        {json.dumps(line)}" for line in text.splitlines())
    return f'ok: [node7] => {{\n    "out.stdout_lines": [\n{lines}\n    ]\n}}\n'


def said_twice(text: str) -> str:
    return json.dumps({"cmd": "x", "rc": 0, "stdout": text.strip("\n"), "stdout_lines": text.strip("\n").split("\n")}, indent=4)


def wrapped(text: str) -> str:
    return str(yaml.safe_dump({"stdout": text}, default_style='"'))


def entries(text: str) -> str:
    return str(yaml.safe_dump({"out.stdout_lines": text.splitlines()}))


FORMS: dict[str, Callable[[str], str]] = {
    "JSON": lambda text: json.dumps({"cmd": "x", "stdout": text, "rc": 0}),
    "JSON, no last line end": lambda text: json.dumps({"cmd": "x", "stdout": text.strip("\n"), "rc": 0}),
    "JSON, twice": said_twice,
    "JSON string": json.dumps,
    "JSON list": lambda text: json.dumps(text.splitlines()),
    "Ansible": of_ansible,
    "Ansible, CR LF": lambda text: of_ansible(text).replace("\n", "\r\n"),
    "part of a list": lambda text: "".join(f"  {json.dumps(line)},\n" for line in text.splitlines()),
    "Python list": lambda text: repr(text.splitlines()),
    "Python list of lines with ends": lambda text: repr(text.splitlines(keepends=True)),
    "Python dict": lambda text: repr({"out": text, "rc": 0}),
    "Python bytes": lambda text: repr(text.encode()),
    "YAML block": lambda text: "ok: [node01] => \n  out.stdout: |-\n" + textwrap.indent(text, "    ", lambda _: True),
    "YAML block or string": lambda text: "a:\n" + textwrap.indent(yaml.safe_dump({"stdout": text}, default_style="|"), "  "),
    "YAML string": wrapped,
    "YAML list": entries,
    "YAML list in JSON quotes": lambda text: "  out:\n" + "".join(f"  - {json.dumps(line)}\n" for line in text.splitlines()),
    "log of containers": logged("log", "\n"),
    "log of a program": logged("message", ""),
    "without quotes": lambda text: text.replace("\n", "\\n").replace("\t", "\\t"),
}


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
@pytest.mark.parametrize("form", FORMS)
def test_every_output_is_read_out_of_strings_as_it_was_printed(form: str, path: Path) -> None:
    text = printed_in(path)
    if (form, path.name) == ("without quotes", "ibstat.txt"):
        text = text.replace("'", "")  # its own quotes around names cannot be told from those of a string that lost its own
    printed, found = read_text(text), read_text(FORMS[form](text))
    assert found.replace(warnings=()) == printed.replace(warnings=())
    assert {warning for warning in found.warnings if warning not in (DECODED, UNQUOTED) and "prefix" not in warning} == {*printed.warnings}


LINES = st.lists(
    st.text(st.sampled_from("GPU0 \t\"'\\,[]{}:x1|-"), max_size=12).map(str.rstrip), min_size=2, max_size=6
).map(lambda lines: ["GPU 0: NVIDIA L4", *lines, "GPU 1: NVIDIA L4"])


@given(LINES)
def test_whatever_stands_in_the_lines_comes_back(lines: list[str]) -> None:
    for quoted in (json.dumps(lines), json.dumps(lines, indent=2), repr(lines)):
        assert unquoted(quoted, name="x")[0].split("\n")[1:-2] == lines or "\\" in "".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        '[["GPU0", "X", "NV4"],\n ["GPU1", "NV4", "X"]]\n',
        '{"model": "NVIDIA L4", "note": "it\'s one\\n"}\n',
        "node: don't say 'GPU0' or \"GPU1\", say \"x\"\n",
        '"index", "name"\n"0", "NVIDIA L4"\n"1", "NVIDIA L4"\n',
        "Hardware:\n- 8x NVIDIA H100\n- two CPUs\n",
        '["a", "b"]\n',
    ],
)
def test_other_strings_stay_as_they_are(text: str) -> None:
    assert unquoted(text, name="x") == (text, [])


@pytest.mark.parametrize("escape", ["\\u001b[4m", "\\x1b[4m", "\\033[4m", "\\e[4m", "\x1b[4m"])
@pytest.mark.parametrize("end", ["0m", "m"])
def test_colours_as_source_code_has_them_are_taken_off_where_line_breaks_are_real(escape: str, end: str) -> None:
    header = f"{escape}\tGPU0\tGPU1\tCPU Affinity{escape[:-2]}{end}"
    found = read_text(f"{header}\nGPU0\t X \tNV2\t0-7\nGPU1\tNV2\t X \t8-15\n")
    assert found.warnings == ()
    assert (dict(found.links), [gpu.cpu_affinity for gpu in found.gpus]) == ({(0, 1): "NV2"}, ["0-7", "8-15"])


@pytest.mark.parametrize("dash", "\u2010\u2011\u2012\u2013\u2212")
def test_a_dash_between_numbers_is_a_minus(dash: str) -> None:
    text = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-7,16-23\nGPU1\tPIX\t X \t8-15\n"
    assert read_text(text.replace("-", dash)) == read_text(text)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
@pytest.mark.parametrize("sign", "+-")
@pytest.mark.parametrize("head", ["", "diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1,9 @@\n"])
def test_every_output_is_read_out_of_a_diff(head: str, sign: str, path: Path) -> None:
    text = printed_in(path)
    printed, found = read_text(text), read_text(head + "".join(sign + line for line in text.splitlines(keepends=True)))
    assert found.replace(warnings=()) == printed.replace(warnings=())
    assert {*found.warnings} == {*printed.warnings, f"the lines had a prefix, which was stripped: {sign!r}"}
