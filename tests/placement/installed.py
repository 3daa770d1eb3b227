"""
Where packages lie that tests read without importing them, or import without what their ``__init__`` would pull in.

When to modify: another framework's code is looked at.
"""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path
from types import ModuleType

import pytest


def package_folder(distribution: str, package: str | None = None) -> Path:
    """Return the folder of an installed package; the test is skipped where it is not installed."""
    try:
        found = importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{distribution} is not installed: tests/targets/requirements-frameworks.txt", allow_module_level=True)
    return Path(str(found.locate_file(package or distribution)))


def bare_packages(folder: Path, *names: str) -> None:
    """Make packages importable without their ``__init__``, which would import engines that need GPUs; their modules are the real ones."""
    for name in names:
        module = ModuleType(name)
        module.__path__ = [str(folder.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = module
