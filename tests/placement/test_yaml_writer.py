"""Lists of many entries, which stand on one line each."""

from __future__ import annotations

import yaml

from placement.text.yaml_writer import dump


def test_entries_of_wide_lists_stand_on_one_line_each_and_read_back():
    document = {"a": 1, "rows": [{"name": "x" * 200, "k": {"deep": [1, {"e": "no"}]}}, {}, 3], "empty": [], "z": {"b": None}}
    text = dump(document, wide=("rows", "empty"))
    assert yaml.safe_load(text) == document
    assert len(text.splitlines()) == 7
