"""Files of target ``ray`` on a real cluster of two nodes whose GPUs need not exist, and `placement verify` beside the job."""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from launcher_maps import Groups, map_text
from ray.cluster_utils import Cluster

from placement.targets.catalog import target
from placement.targets.start import read_start
from placement.targets.target import emit

MAP: Groups = {
    "actor": [*(f"node1:{gpu}" for gpu in (5, 2)), *(f"node0:{gpu}" for gpu in (7, 0))],
    "rollout": ["node0:3", "node0:1", "node1:0"],
    "ref": [*(f"node1:{gpu}" for gpu in (5, 2)), *(f"node0:{gpu}" for gpu in (7, 0))],
}
GPUS = 8


def visible(host: str, files: dict[str, str]) -> str:
    """Return CUDA_VISIBLE_DEVICES of the node's script, and then what else the node has."""
    first = next(word for word in shlex.split(files[f"ray-{host}.sh"].splitlines()[-1]) if word.startswith("CUDA_VISIBLE"))
    used = first.partition("=")[2].split(",")
    return ",".join(used + [str(gpu) for gpu in range(GPUS) if str(gpu) not in used])


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return dict(emit(target("ray"), read_start(map_text(MAP))).files)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, files: dict[str, str]) -> Path:
    path: Path = tmp_path_factory.mktemp("job")
    (path / "map.yaml").write_text(map_text(MAP), encoding="utf-8")
    for name, text in files.items():
        (path / name).write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def running(files: dict[str, str]) -> Iterator[str]:
    """Two nodes as the scripts start them; they are found by label, whatever they are called."""
    found = Cluster()
    try:
        for k, host in enumerate(("node1", "node0")):
            found.add_node(
                num_cpus=2,
                num_gpus=GPUS,
                labels={"placement.host": host},
                object_store_memory=80 * 2**20,
                env_vars={"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": visible(host, files)},
                **({"include_dashboard": False} if k == 0 else {}),
            )
        found.wait_for_nodes()
        yield found.address
    finally:
        ray.shutdown()
        found.shutdown()


def verify(folder: Path, address: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "placement", "verify", "map.yaml", *arguments]
    env = {**os.environ, "RAY_ADDRESS": address}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=200, check=False, env=env)


def groups_of(folder: Path) -> Any:
    """Import the groups.py that was written."""
    spec = importlib.util.spec_from_file_location("groups", folder / "groups.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rank_class() -> Any:
    """Return an actor that tells where it is; a class of its own, so that workers need not import this file."""

    class Rank:
        def where(self) -> tuple[str, str, str]:
            import os

            import ray

            label = ray.get_runtime_context().get_node_labels()["placement.host"]
            return label, os.environ["CUDA_VISIBLE_DEVICES"], os.environ["CUDA_DEVICE_ORDER"]

    return ray.remote(Rank)


def test_scripts_are_commands_of_ray(files: dict[str, str]) -> None:
    """Ray's own parser takes every option."""
    from ray.scripts.scripts import start

    for name in ("ray-node0.sh", "ray-node1.sh"):
        words = shlex.split(files[name].splitlines()[-1])
        context = start.make_context("start", words[words.index("start") + 1 :])
        assert context.params["labels"] == f"placement.host={name[4:9]}"
        assert context.params["head"] == (name == "ray-node1.sh")


def test_ranks_are_where_the_map_has_them(folder: Path, running: str) -> None:
    """Reserve, start every rank, ask each where it is; the tool finds the same beside the job, and what is then started wrong."""
    done = verify(folder, running)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "nodes of Ray\nright\n"
    assert done.stderr.count("no worker of Ray says that it is a rank of") == 2

    ray.init(address=running, log_to_driver=False, logging_level="ERROR")
    groups = groups_of(folder)
    made = groups.create(timeout_s=120)
    actor = rank_class()
    workers = {
        (role, rank): actor.options(**groups.options(made, role, rank)).remote()
        for role in ("actor", "rollout")
        for rank in range(groups.ranks(role))
    }
    for (role, rank), worker in workers.items():
        host, _, gpu = str(MAP[role][rank]).partition(":")
        assert ray.get(worker.where.remote(), timeout=120) == (host, gpu, "PCI_BUS_ID")
    done = verify(folder, running)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "actor, ref: 4 GPUs on node1, node0" in done.stdout
    assert "rank 2: node0, GPU 7 (no driver answers: by CUDA_VISIBLE_DEVICES and its local rank)" in done.stdout
    assert done.stdout.count("\nright") == 3

    ray.kill(workers["actor", 1])
    wrong = groups.options(made, "actor", 2)
    wrong["runtime_env"]["env_vars"] |= {"RANK": "1"}    # rank 1 on the host and GPU of rank 2
    second = actor.options(**wrong).remote()
    ray.get(second.where.remote(), timeout=120)
    done = verify(folder, running, "--role", "ref")
    assert done.returncode == 1
    assert "rank 1 runs on node0, and the map has it on node1" in done.stdout
    assert "it takes GPU 7 of node0, which rank 1 takes, too" in done.stdout
    assert "rollout" not in done.stdout


def test_a_cluster_of_another_map_is_named(folder: Path, running: str) -> None:
    other = {"actor": ["node0:0", "node2:1"]}
    (folder / "other.yaml").write_text(map_text(other), encoding="utf-8")
    command = [sys.executable, "-m", "placement", "verify", "other.yaml"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, timeout=200, check=False, env={**os.environ, "RAY_ADDRESS": running}
    )
    assert done.returncode == 1
    assert "no node of Ray, or more than one, is node2; it has node0, node1: start it with --labels=placement.host=node2" in done.stdout


def test_no_cluster_is_one_line(folder: Path) -> None:
    done = verify(folder, "127.0.0.1:1")
    assert done.returncode == 2
    assert "no Ray cluster answers at 127.0.0.1:1" in done.stderr
    assert len(done.stderr.splitlines()) == 1
