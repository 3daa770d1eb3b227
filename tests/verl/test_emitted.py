"""
From a plan to running verl with what `placement emit` wrote: start lines, overrides and launch script as they are, on declared GPUs.

Sizes are those of a tiny job; everything that the map says (pools, engines, layouts) is left as it was emitted.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from verl_jobs import Files, cluster
from verl_maps import ACTOR, BIG, FUNCTION, SMALL, job_map

from placement.maps.seats import Seat
from placement.targets.catalog import target
from placement.targets.start import read_start
from placement.targets.target import emit

SPLIT = {
    "actor": {**ACTOR, "gpus": [2]},
    "critic": {**BIG, "gpus": [1]},
    "ref": {**BIG, "gpus": [2]},
    "reward": SMALL,
}
TOGETHER = {"actor": {**ACTOR, "gpus": [4]}, "critic": {**BIG, "gpus": [4]}, "ref": BIG, "reward": FUNCTION}


def emitted(
    name: str, roles: Mapping[str, object], preset: str, folder: Path, *, order: Sequence[int] = (0, 1, 2, 3)
) -> Mapping[str, tuple[int, ...]]:
    """Plan for four GPUs, write the files into *folder* beside the map, and return its groups, with GPU k of the plan as *order* [k]."""
    text = job_map("ppo", "none", roles, name, preset, machine="hgx-a100-4")
    (folder / "map.yaml").write_text(text, encoding="utf-8")
    start = read_start(text)
    seats = {role: tuple(Seat(seat.host, order[seat.gpu]) for seat in group) for role, group in start.seats.items()}
    start = replace(start, seats=seats)
    for file, content in emit(target(name), start).files.items():
        (folder / file).write_text(content, encoding="utf-8")
    return {role: tuple(seat.gpu for seat in seats) for role, seats in start.seats.items()}


def offered(folder: Path) -> str:
    """Return the GPUs with which the emitted script starts Ray."""
    line = (folder / "ray-start.sh").read_text(encoding="utf-8")
    found = re.search(r"CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=(\S+) ray start --head --port=6379 --num-gpus=(\d+)", line)
    assert found is not None
    assert len(found[1].split(",")) == int(found[2])
    return found[1]


def launch(folder: Path, files: Files, address: str, more: Sequence[str]) -> subprocess.Popen[str]:
    """Run the emitted launch script; what is added is the size of the job and where it is."""
    tiny = {
        "data.train_files": files.data,
        "data.val_files": files.data,
        "data.train_batch_size": 8,
        "data.max_prompt_length": 16,
        "data.max_response_length": 16,
        "data.dataloader_num_workers": 0,
        "actor_rollout_ref.model.path": files.model,
        "critic.model.path": files.model,
        "reward.reward_model.model_path": files.model,
        "actor_rollout_ref.actor.ppo_mini_batch_size": 8,
        "trainer.logger": "console",
        "trainer.val_before_train": False,
        "trainer.resume_mode": "disable",
        "trainer.test_freq": -1,
        "trainer.total_training_steps": 2,
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
        "+ray_kwargs.ray_init.address": address,
    }
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.Popen(
        ["bash", str(folder / "launch.sh"), *(f"{key}={value}" for key, value in tiny.items()), *more],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=files.folder, env={**os.environ, "PATH": path},
        start_new_session=True,
    )  # fmt: skip


def test_the_probe_finds_every_rank_on_its_gpu(files: Files, tmp_path: Path) -> None:
    """From a folder whose name has what Hydra's grammar is made of."""
    folder = tmp_path / "lr=1e-5,bs=2 (first)"
    folder.mkdir()
    groups = emitted("verl", SPLIT, "guide", folder)
    assert not set(groups["actor"]) & set(groups["critic"])
    with cluster({"node0": offered(folder)}, modules="", cpus=64) as address:
        job = launch(folder, files, address, ["trainer.v1.trainer_mode=placed_probe"])
        said, _ = job.communicate(timeout=600)
    assert job.returncode == 0, said[-4000:]
    rows = re.findall(r"(\w+) +(\d+) +(?:node0:)?(\d+) +(?:node0:)?(\d+) +ok", said)
    found = {(pool, int(rank)): (int(planned), int(actual)) for pool, rank, planned, actual in rows}
    pools = {"_".join(role for role in groups if groups[role] == gpus): gpus for gpus in groups.values()}
    assert len(pools) > 1
    assert found == {(pool, rank): (gpu, gpu) for pool, gpus in pools.items() for rank, gpu in enumerate(gpus)}, said[-3000:]


def test_a_running_job_is_verified_rank_by_rank(files: Files, tmp_path: Path) -> None:
    """The emitted job trains with workers that sleep, and meanwhile `placement verify` asks its cluster."""
    groups = emitted("verl", SPLIT, "guide", tmp_path)
    notes = tmp_path / "notes.jsonl"
    with cluster({"node0": offered(tmp_path)}, modules="sleeping", notes=notes, cpus=64) as address:
        modules = "sleeping,placement.targets.verl_runtime"
        job = launch(
            tmp_path, files, address,
            [
                "+actor_rollout_ref.rollout.agent.agent_loop_manager_class=sleeping.SleepingLoops",
                "trainer.total_training_steps=50",
                f"++ray_kwargs.ray_init.runtime_env.env_vars.VERL_USE_EXTERNAL_MODULES='{modules}'",
            ],
        )  # fmt: skip
        try:
            end = time.monotonic() + 300
            while not (notes.exists() and "update_actor" in notes.read_text(encoding="utf-8")):
                assert job.poll() is None, job.stdout.read()[-4000:] if job.stdout else ""
                assert time.monotonic() < end
                time.sleep(0.2)
            verified = subprocess.run(
                [sys.executable, "-m", "placement", "verify", str(tmp_path / "map.yaml")],
                capture_output=True, text=True, check=False, timeout=120, env={**os.environ, "RAY_ADDRESS": address},
            )  # fmt: skip
            assert job.poll() is None, "the job ended before its ranks were asked"
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.communicate()
    for role in ("actor", "critic"):
        for rank, gpu in enumerate(groups[role]):
            assert re.search(rf"^rank {rank}: .*GPU {gpu} ", verified.stdout, re.MULTILINE), verified.stdout
    assert verified.stdout.count("not as the map has") == 0, verified.stdout
    seen = {(note["pool"].split("_")[0], note["rank"]): note["visible"] for note in map(json.loads, notes.read_text().splitlines())}
    for role in ("actor", "critic"):
        for rank, gpu in enumerate(groups[role]):
            assert seen[role, rank] == str(gpu)


@pytest.mark.parametrize("runs_already", [False, True], ids=["started by the emitted line", "running already"])
def test_stock_verl_takes_the_gpus_of_the_map(files: Files, tmp_path: Path, runs_already: bool) -> None:
    """In an order that nobody has by chance: of the node (method M1), or of the job where Ray runs already (M2)."""
    groups = emitted("verl-stock", TOGETHER, "colocate", tmp_path, order=(2, 0, 3, 1))
    more = (tmp_path / "overrides-running-cluster.txt").read_text(encoding="utf-8").splitlines() if runs_already else []
    notes = tmp_path / "notes.jsonl"
    with cluster({"node0": "0,1,2,3" if runs_already else offered(tmp_path)}, modules="sleeping", notes=notes, cpus=64) as address:
        loops = "+actor_rollout_ref.rollout.agent.agent_loop_manager_class=sleeping.SleepingLoops"
        job = launch(tmp_path, files, address, [loops, *more])
        said, _ = job.communicate(timeout=600)
    assert job.returncode == 0, said[-4000:]
    ranks = [json.loads(line) for line in notes.read_text(encoding="utf-8").splitlines()]
    found = {note["rank"]: int(note["visible"]) for note in ranks if note["work"] == "update_actor"}
    assert found == dict(enumerate(groups["actor"]))
    assert groups["actor"] == (2, 0, 3, 1)
