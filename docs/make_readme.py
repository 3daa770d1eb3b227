"""
Put the real output of README's first command into README.md, and draw its plan.

    python docs/make_readme.py            write both
    python docs/make_readme.py --check    fail if they differ from what the command says now
"""

from __future__ import annotations

import sys
from pathlib import Path

from made import main

import placement
from placement.cli.table import plan_table
from placement.drawing import draw

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "img" / "readme.svg"
MACHINE, WORKLOAD = "dgx-a100-80gb", "ppo-7b"
MAP_LINES = 24


def contents() -> tuple[str, str]:
    """Return README and picture as they should be."""
    topology = placement.read_machine(MACHINE)
    question = placement.make_instance(topology, placement.load_workload(WORKLOAD), placement.parse_rules("guide"))
    plan = placement.plan(question).plan
    assert plan is not None
    head = "\n".join(placement.dump(plan).splitlines()[:MAP_LINES])
    text = README.read_text(encoding="utf-8")
    text = _filled(text, "<!-- output of:", "text", plan_table(plan, stream=None).rstrip())
    text = _filled(text, "<!-- map of:", "yaml", head)
    return text, draw(topology, roles=plan.device_map)


def _filled(text: str, marker: str, language: str, block: str) -> str:
    start = text.index("\n", text.index(marker)) + 1
    end = text.index("<!-- end -->", start)
    return f"{text[:start]}```{language}\n{block}\n```\n{text[end:]}"


def _pages() -> dict[Path, str]:
    text, picture = contents()
    return {README: text, PICTURE: picture}


if __name__ == "__main__":
    sys.exit(main(__doc__, __file__, _pages))
