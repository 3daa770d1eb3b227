"""Scripts of target ``torchrun`` with the real torchrun, two hosts in one: `placement verify` and `placement.preflight` in their ranks."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from launcher_maps import Groups, map_text

from placement.targets.catalog import target
from placement.targets.start import read_start
from placement.targets.target import emit

EIGHT: Groups = {"actor": [*(f"node0:{gpu}" for gpu in (5, 2, 7, 0)), *(f"node1:{gpu}" for gpu in (1, 3, 6, 4))]}
VERIFY = ["-m", "placement", "verify", "map.yaml", "--time-limit", "40"]


class Job:
    """
    A job on two hosts that are processes of this one.

    Parameters
    ----------
    folder
        Where map and scripts are.
    """

    def __init__(self, folder: Path, groups: Groups) -> None:
        self.folder = folder
        self.port = _free_port()
        (folder / "map.yaml").write_text(map_text(groups), encoding="utf-8")
        self.scripts = dict(emit(target("torchrun"), read_start(map_text(groups))).files)
        (folder / "bin").mkdir()
        torchrun = folder / "bin" / "torchrun"
        torchrun.write_text(f'#!/usr/bin/env bash\nexec {sys.executable} -m torch.distributed.run "$@"\n', encoding="utf-8")
        torchrun.chmod(0o755)

    def change(self, host: str, old: str, new: str) -> None:
        """Change the script of *host*, as whoever starts it wrongly would."""
        name = f"launch-{host}.sh"
        assert old in self.scripts[name]
        self.scripts[name] = self.scripts[name].replace(old, new)

    def run(self, *arguments: str, names: Mapping[str, str] | None = None) -> dict[str, tuple[int, str]]:
        """Start the scripts of all hosts and return exit code and output of each; *names* are what hosts call themselves."""
        processes = {}
        for host in ("node0", "node1"):
            text = re.sub(r"--master-addr=\S+", "--master-addr=127.0.0.1", self.scripts[f"launch-{host}.sh"])
            text = text.replace("--master-port=29500", f"--master-port={self.port}")
            path = self.folder / f"launch-{host}.sh"
            path.write_text(text, encoding="utf-8")
            env = {
                **os.environ,
                "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
                "PLACEMENT_HOST": (names or {}).get(host, host),
                "OMP_NUM_THREADS": "1",
            }
            with (self.folder / f"{host}.out").open("w") as out:
                processes[host] = subprocess.Popen(["bash", str(path), *arguments], cwd=self.folder, env=env, stdout=out, stderr=out)
        try:
            codes = {host: process.wait(timeout=240) for host, process in processes.items()}
        finally:
            for process in processes.values():
                process.terminate()    # the script ends its torchrun, and that its ranks
        return {host: (code, (self.folder / f"{host}.out").read_text()) for host, code in codes.items()}


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path, EIGHT)


def test_a_job_that_is_right(job: Job) -> None:
    """Rank i is on the i-th GPU of the map, on both hosts; torchrun numbered them, and rank 0 says so."""
    (code, said), (other, quiet) = job.run(*VERIFY).values()
    assert (code, other) == (0, 0), said + quiet
    lines = [line for line in said.splitlines() if line.startswith(("actor", "rank", "right"))]
    expected = [
        f"rank {rank}: {host}, local rank {rank % 4}, GPU {gpu} (no driver answers: by CUDA_VISIBLE_DEVICES and its local rank)"
        for rank, (host, gpu) in enumerate(entry.split(":") for entry in map(str, EIGHT["actor"]))
    ]
    assert lines == ["actor: 8 GPUs on node0, node1", *expected, "right"]
    assert "rank" not in quiet


def test_swapped_node_ranks(job: Job) -> None:
    job.change("node0", "--node-rank=0", "--node-rank=1")
    job.change("node1", "--node-rank=1", "--node-rank=0")
    found = job.run(*VERIFY)
    assert [code for code, _ in found.values()] == [1, 1]
    said = found["node1"][1]
    assert "rank 0 runs on node1, and the map has it on node0: start hosts in the order of the map (node0, node1: node1 is --node" in said
    assert "8 ranks not as the map has them" in said
    assert "CUDA_VISIBLE_DEVICES is" not in said


def test_hosts_that_each_start_a_job_of_their_own(job: Job) -> None:
    """As if ``--nnodes`` had been left out."""
    for host in ("node0", "node1"):
        job.change(host, "--nnodes=2", "--standalone --nnodes=1")
    found = job.run(*VERIFY)
    for code, said in found.values():
        assert code == 1
        assert "the job has 4 ranks (WORLD_SIZE), and the map gives actor 8 GPUs on 2 hosts: each host started a job of its own" in said
        assert "4 ranks not as the map has them" in said


def test_wrong_visible_devices_on_one_host(job: Job) -> None:
    job.change("node1", "CUDA_VISIBLE_DEVICES=1,3,6,4", "CUDA_VISIBLE_DEVICES=1,3,4,6")
    found = job.run(*VERIFY)
    assert [code for code, _ in found.values()] == [1, 1]
    said = found["node0"][1]
    assert said.count("CUDA_VISIBLE_DEVICES is 1,3,4,6, and the map has the order 1,3,6,4: local rank k takes the k-th") == 4
    assert "4 ranks not as the map has them" in said


TRAIN = """
import datetime, os, placement, sys, traceback
sys.excepthook = lambda *error: os.write(2, "".join(traceback.format_exception(*error)).encode())     # at once: ranks share the pipe
placement.preflight("map.yaml")
import torch.distributed as dist      # and only now
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
dist.barrier()
os.write(1, f"trained {dist.get_rank()}\\n".encode())
dist.destroy_process_group()
"""


def test_a_script_that_looks_before_it_starts(job: Job) -> None:
    (job.folder / "train.py").write_text(TRAIN, encoding="utf-8")
    found = job.run("train.py")
    assert [code for code, _ in found.values()] == [0, 0], found
    assert sorted(re.findall(r"trained (\d)", "".join(said for _, said in found.values()))) == [str(rank) for rank in range(8)]


def test_a_script_that_would_run_wrongly_stops_with_one_error(job: Job) -> None:
    """Each process looks for itself: a mistake that all hosts see stops all, at once."""
    (job.folder / "train.py").write_text(TRAIN, encoding="utf-8")
    job.change("node0", "--node-rank=0", "--node-rank=1")
    job.change("node1", "--node-rank=1", "--node-rank=0")
    found = job.run("train.py")
    assert [code for code, _ in found.values()] == [1, 1]
    assert "PreflightError: rank 4 of actor on node0 is not where the map has it:" in found["node0"][1]
    assert "  - rank 0 runs on node1, and the map has it on node0" in found["node1"][1]
    assert "trained" not in found["node0"][1] + found["node1"][1]


def test_unequal_hosts_and_several_pools_of_one_launch_script(tmp_path: Path) -> None:
    """torchrun numbers ranks by the processes that each host really has: 1 on node0, 3 on node1."""
    job = Job(tmp_path, {"actor": ["node0:3", "node1:2", "node1:0", "node1:1"]})
    (code, said), (other, quiet) = job.run(*VERIFY).values()
    assert (code, other) == (0, 0), said + quiet
    assert "rank 3: node1, local rank 2, GPU 1" in said


@pytest.mark.parametrize(
    ("rank", "code", "said"),
    [
        pytest.param("0", 1, "rank 1: not reported within 4 s", id="rank 1 never started"),
        pytest.param("1", 2, "rank 1 of 2 reaches nobody at 127.0.0.1:", id="rank 0 never started"),
    ],
)
def test_a_rank_that_is_missing_is_named(rank: str, code: int, said: str, tmp_path: Path) -> None:
    """Started by hand, without torchrun: rank 0 holds the store itself."""
    (tmp_path / "map.yaml").write_text(map_text({"actor": [0, 1]}), encoding="utf-8")
    env = {
        **os.environ,
        "RANK": rank, "WORLD_SIZE": "2", "LOCAL_RANK": rank, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0,1",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()),
    }  # fmt: skip
    command = [sys.executable, "-m", "placement", "verify", "map.yaml", "--time-limit", "4"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
