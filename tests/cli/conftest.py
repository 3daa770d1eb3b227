"""Run the real command in a real process."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.fixture
def placement(tmp_path):
    """Run ``placement ARGS`` in an empty folder; returns the completed process (text mode)."""

    def run(*arguments, stdin="", **options):
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
