"""Hostfile and ``--include`` of target ``deepspeed``, read and started by DeepSpeed's own launcher."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from deepspeed.launcher import runner
from launcher_maps import Groups, map_text

from placement.targets.catalog import target
from placement.targets.start import read_start
from placement.targets.target import emit

TWO: Groups = {"actor": ["node1:0", "node1:2", "node0:4", "node0:6"], "reward": ["node0:0"]}
TELL = "import os, sys; open(os.environ['TOLD'], 'a').write(' '.join(os.environ.get(n, '-') for n in sys.argv[1:] if n[0] != '-') + '\\n')"


def write(groups: Groups, folder: Path) -> dict[str, str]:
    files = dict(emit(target("deepspeed"), read_start(map_text(groups))).files)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return files


def test_its_parser_gives_hosts_and_ids_of_the_map(tmp_path: Path) -> None:
    files = write(TWO, tmp_path)
    pool = runner.fetch_hostfile(str(tmp_path / "hostfile"))
    words = next(line for line in files["launch-node0.sh"].splitlines() if "PLACEMENT_ROLES=actor" in line).split()
    active = runner.parse_inclusion_exclusion(pool, words[words.index("--include") + 1], "")
    assert list(active.items()) == [("node1", [0, 2]), ("node0", [4, 6])]


def test_it_sorts_ids(tmp_path: Path) -> None:
    """Which is why a map with other orders is refused."""
    assert runner.parse_node_config_list("node0:5,2,7,0") == {"node0": [0, 2, 5, 7]}


@pytest.mark.parametrize("host", ["node0", "node1"])
def test_processes_are_told_their_gpus(host: str, tmp_path: Path) -> None:
    """The script that is written, with the real launcher, on each of two hosts."""
    write(TWO, tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "deepspeed").write_text(
        f'#!/usr/bin/env bash\nexec {sys.executable} -m deepspeed.launcher.runner "$@"\n', encoding="utf-8"
    )
    (tmp_path / "bin" / "deepspeed").chmod(0o755)
    (tmp_path / "tell.py").write_text(TELL, encoding="utf-8")
    env = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "TOLD": str(tmp_path / "told"), "DS_ACCELERATOR": "cuda"}
    names = ["PLACEMENT_ROLES", "RANK", "WORLD_SIZE", "LOCAL_RANK", "CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES"]
    done = subprocess.run(
        ["bash", f"launch-{host}.sh", "tell.py", *names], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    expected = {
        "node1": ["actor 0 4 0 PCI_BUS_ID 0,2", "actor 1 4 1 PCI_BUS_ID 0,2"],
        "node0": ["actor 2 4 0 PCI_BUS_ID 4,6", "actor 3 4 1 PCI_BUS_ID 4,6", "reward 0 1 0 PCI_BUS_ID 0"],
    }
    assert sorted((tmp_path / "told").read_text().splitlines()) == expected[host]
