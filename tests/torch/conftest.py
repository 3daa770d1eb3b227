"""The command line in a process of its own, and processes of torch that work together over gloo."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Placement = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """Test machines have few cores, and each process would take all of them."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture
def placement(tmp_path: Path, environment: dict[str, str]) -> Placement:
    """Run ``placement ARGS`` in an empty folder."""

    def run(*arguments: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "placement", *map(str, arguments)]
        return subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False, env={**environment, **(env or {})}
        )

    return run
