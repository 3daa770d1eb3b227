"""
Draw the pictures of the documentation, ``docs/img/*.svg``.

    python docs/make_pictures.py            write them
    python docs/make_pictures.py --check    draw all, and fail if one differs from what is written

The roles stand where `placement plan` puts them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from placement.catalog import load_workload
from placement.drawing import draw
from placement.planner import plan
from placement.program.instance import make_instance
from placement.workloads.rules import parse_rules
from topologies import sources

FOLDER = Path(__file__).with_name("img")

def planned(machine: str, workload: str, title: str) -> str:
    """Return the plan of a shipped workload on a shipped machine as a picture."""
    topology = sources.load(machine)
    found = plan(make_instance(topology, load_workload(workload), parse_rules("guide"))).plan
    assert found is not None
    return draw(topology, roles=found.device_map, title=title)


def pictures() -> dict[str, str]:
    """Return every picture by its file name."""
    return {
        "dgx-1.svg": planned("dgx-1-v100", "ppo-1.5b", "PPO, 1.5B, on a DGX-1: one pool on each mesh of four"),
        "mixed.svg": planned("a100-pcie-mixed-8", "ppo-7b", "PPO, 7B, on A100 of 40 and 80 GB: no role mixes them"),
        "l40s.svg": planned("l40s-8", "ppo-7b", "PPO, 7B, on eight L40S without NVLink"),
    }


def main() -> int:
    """Write or check the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--check", action="store_true")
    drawn = pictures()
    if not parser.parse_args().check:
        FOLDER.mkdir(exist_ok=True)
        for name, svg in drawn.items():
            (FOLDER / name).write_text(svg, encoding="utf-8")
        return 0
    stale = [
        name
        for name, svg in drawn.items()
        if not (FOLDER / name).exists() or (FOLDER / name).read_text(encoding="utf-8") != svg
    ]
    for name in stale:
        print(f"docs/img/{name} is not what `python docs/make_pictures.py` draws")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
