"""
Draw the pictures of the documentation, ``docs/img/*.svg``.

    python docs/make_pictures.py            write them
    python docs/make_pictures.py --check    draw all, and fail if one differs from what is written

The roles stand where a reader expects them, to show what a drawing can show; they are no answer of the solver.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from placement.drawing import draw
from topologies import sources
from topologies.model import Topology

FOLDER = Path(__file__).with_name("img")

FIRST, LAST = range(4), range(4, 8)
TWO_POOLS = {"actor": FIRST, "critic": LAST, "ref": FIRST, "reward": LAST}


def several(host: Topology, count: int) -> Topology:
    """Return *count* hosts like *host*."""
    size = len(host.gpus)
    return host.replace(
        gpus=tuple(
            gpu.replace(index=gpu.index + k * size, host=f"node{k}")
            for k in range(count)
            for gpu in host.gpus
        ),
        links={
            (i + k * size, j + k * size): code for k in range(count) for (i, j), code in host.links.items()
        },
        gpu_nic={i + k * size: nics for k in range(count) for i, nics in host.gpu_nic.items()},
    )


def pictures() -> dict[str, str]:
    """Return every picture by its file name."""
    load = sources.load
    return {
        "dgx-a100.svg": draw(load("dgx-a100-80gb"), roles=TWO_POOLS, title="PPO on a DGX A100"),
        "dgx-1.svg": draw(
            load("dgx-1-v100"), roles=TWO_POOLS, title="PPO on a DGX-1: one pool on each island"
        ),
        "mixed.svg": draw(
            load("a100-pcie-mixed-8"),
            roles={"actor": LAST, "ref": LAST, "critic": [0, 1], "reward": [3, 2]},
            title="PPO on A100 of 40 and 80 GB",
        ),
        "l40s.svg": draw(load("l40s-8"), title="Eight L40S without NVLink"),
        "cluster.svg": draw(
            several(load("dgx-h100"), 4),
            roles={"actor": range(16), "rollout": range(16, 32), "ref": range(16)},
            title="GRPO on four DGX H100: generation on hosts of its own",
        ),
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
