"""What the packages promise to each other and to importers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import placement

PUBLIC = [
    "InputError",
    "Instance",
    "Objective",
    "Options",
    "Outcome",
    "OutputError",
    "PlacementError",
    "Plan",
    "PreflightError",
    "SolverBug",
    "SolverName",
    "TopologyError",
    "__version__",
    "dump",
    "load",
    "load_workload",
    "make_instance",
    "parse_rules",
    "plan",
    "preflight",
    "read_machine",
]


def test_the_public_names_are_these():
    assert placement.__all__ == PUBLIC
    assert dir(placement) == PUBLIC
    for name in PUBLIC:
        assert getattr(placement, name) is not None


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'plam'"):
        placement.plam  # noqa: B018


def imported(code: str) -> set[str]:
    """Return the top-level modules that *code* imports in a fresh interpreter."""
    script = f"{code}\nimport sys; print(*{{m.split('.')[0] for m in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("code", "never"),
    [
        pytest.param(
            "import placement",
            {"ortools", "networkx", "yaml", "pydantic", "typer", "rich", "numpy"},
            id="import placement",
        ),
        pytest.param(
            "import placement; placement.preflight",
            {"ortools", "networkx", "pydantic", "typer", "rich", "numpy", "torch", "ray"},
            id="preflight",
        ),
        pytest.param(
            "import topologies.read", {"ortools", "networkx", "yaml", "pydantic", "numpy"}, id="reading"
        ),
        pytest.param(
            "import placement.cli.app", {"ortools", "networkx", "yaml", "pydantic", "numpy"}, id="--help"
        ),
        pytest.param(
            "import placement as p; "
            "p.plan(p.make_instance(p.read_machine('a100-pcie-mixed-8'), p.load_workload('ppo-1.5b'), p.parse_rules('guide')))",
            {"pandas", "numpy", "torch", "matplotlib"},
            id="a whole plan",
        ),
        pytest.param(
            "import solvers.check, solvers.exhaustive, solvers.greedy",
            {"ortools", "placement", "topologies"},
            id="the checker",
        ),
    ],
)
def test_heavy_modules_are_imported_only_by_what_needs_them(code, never):
    assert not imported(code) & never
