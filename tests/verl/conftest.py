"""Settings of the tests that run verl (see `verl_jobs`)."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from verl_jobs import Files


def pytest_configure(config: pytest.Config) -> None:
    # Other people's packages warn about each other; ours are errors everywhere else.
    warnings.simplefilter("default")
    config.addinivalue_line("filterwarnings", "default")


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A tiny model and a few prompts."""
    from tiny import write_data, write_model

    folder = tmp_path_factory.mktemp("verl")
    return Files(folder, write_model(folder / "model"), write_data(folder / "data.parquet"))
