"""Run the real command in a real process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.fixture(autouse=True)
def any_terminal(monkeypatch):
    """Take away what the terminal of whoever runs the tests exports: it decides how wide tables are."""
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def placement(tmp_path):
    """Run ``placement ARGS`` in an empty folder; returns the completed process (text mode)."""

    def run(*arguments, stdin="", **options):
        # Not the inherited environment: readline, which pytest imports, puts COLUMNS there behind Python's back.
        options.setdefault("env", dict(os.environ))
        return subprocess.run(
            [sys.executable, "-m", "placement", *map(str, arguments)],
            input=stdin,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=120,
            check=False,
            **options,
        )

    return run
