"""Documents that show output show today's output."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "script",
    [
        "make_readme.py",
        "make_pictures.py",
        "make_sources.py",
        "make_validation.py",
        "make_explain.py",
        "make_calibration.py",
        "make_targets.py",
    ],
)
def test_generated_documents_are_fresh(script):
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / script), "--check"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_link_of_the_readme_leads_somewhere():
    import re

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#]+)\)", text)
    assert len(targets) >= 6
    assert [t for t in targets if not t.startswith("http") and not (ROOT / t).exists()] == []


def test_the_readme_says_how_far_predictions_are_off_as_the_page_does():
    import re

    page = (ROOT / "docs" / "validation.md").read_text(encoding="utf-8")
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    means = dict(re.findall(r"^\| (\w+) \| \d+ \| \d+ \| ([\d.]+) % \|", page, re.MULTILINE))
    said = re.search(r"off by ([\d.]+) % for a dense RL step, (\d+) % .*?, (\d+) % for training memory and (\d+) % for", readme)
    assert said is not None
    groups = ("rl_step_dense", "rl_step_moe", "training_memory", "weight_sync")
    assert [float(one) for one in said.groups()] == [float(means[groups[0]]), *(round(float(means[one])) for one in groups[1:])]


def test_the_python_of_the_notebooks_page_runs():
    text = (ROOT / "notebooks" / "README.md").read_text(encoding="utf-8")
    code = text.split("```python\n")[1].split("```")[0]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("optimal: ")
