"""Configuration of target ``accelerate``, read and started by accelerate itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from accelerate.commands.config.config_args import ClusterConfig
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_multi_gpu_env
from launcher_maps import ONE_HOST, TWO_HOSTS, Groups, map_text

from placement.targets.catalog import target
from placement.targets.start import read_start
from placement.targets.target import emit

TELL = "import os, sys; open(os.environ['TOLD'], 'a').write(' '.join(os.environ.get(n, '-') for n in sys.argv[1:]) + '\\n')"


def write(groups: Groups, folder: Path) -> None:
    for name, text in emit(target("accelerate"), read_start(map_text(groups))).files.items():
        (folder / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("groups", [ONE_HOST, TWO_HOSTS], ids=["one host", "two hosts"])
def test_every_file_is_a_configuration(groups: Groups, tmp_path: Path) -> None:
    """Unknown keys would be refused."""
    write(groups, tmp_path)
    files = sorted(tmp_path.glob("*.yaml"))
    assert files
    for file in files:
        config = ClusterConfig.from_yaml_file(yaml_file=str(file))
        assert config.num_processes == config.num_machines * len(config.gpu_ids.split(","))


def test_what_the_launcher_makes_of_it(tmp_path: Path) -> None:
    """Two machines of two processes each; GPUs in the order of the map."""
    write(TWO_HOSTS, tmp_path)
    args = launch_command_parser().parse_args(["--config_file", str(tmp_path / "actor-ref-node0.yaml"), "train.py"])
    args, _, _ = _validate_launch_command(args)
    assert args.multi_gpu
    env = prepare_multi_gpu_env(args)
    assert env["CUDA_VISIBLE_DEVICES"] == "4,6"
    assert (args.nnodes, args.nproc_per_node, args.node_rank) == ("2", "2", 1)
    assert (args.rdzv_backend, args.rdzv_endpoint) == ("static", "node1:29500")
    assert env["ACCELERATE_MIXED_PRECISION"] == "bf16"


def test_no_key_is_ignored(tmp_path: Path) -> None:
    """Some keys of the file yield to defaults of the command line (same_network): none of them is written."""
    write(TWO_HOSTS, tmp_path)
    for file in tmp_path.glob("*-node*.yaml"):
        args, _, _ = _validate_launch_command(launch_command_parser().parse_args(["--config_file", str(file), "train.py"]))
        for key, value in yaml.safe_load(file.read_text(encoding="utf-8")).items():
            if key not in ("compute_environment", "distributed_type"):
                assert getattr(args, key) == value


NAMES = ["PLACEMENT_ROLES", "RANK", "WORLD_SIZE", "LOCAL_RANK", "CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES"]


def start(folder: Path, *scripts: str) -> list[str]:
    """Run *scripts* beside each other with the real launcher, and return what the processes were told."""
    (folder / "bin").mkdir()
    launcher = folder / "bin" / "accelerate"
    launcher.write_text(f'#!/usr/bin/env bash\nexec {sys.executable} -m accelerate.commands.accelerate_cli "$@"\n', encoding="utf-8")
    launcher.chmod(0o755)
    (folder / "tell.py").write_text(TELL, encoding="utf-8")
    env = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "TOLD": str(folder / "told"), "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(["bash", script, "tell.py", *NAMES], cwd=folder, env=env, stderr=subprocess.DEVNULL) for script in scripts
    ]
    try:
        assert [one.wait(timeout=240) for one in running] == [0] * len(running)
    finally:
        for one in running:
            one.terminate()
    return sorted((folder / "told").read_text(encoding="utf-8").splitlines())


def test_processes_are_told_their_gpus(tmp_path: Path) -> None:
    """The script that is written: four ranks of the actor, and a pool of one GPU."""
    write({"actor": [5, 2, 7, 0], "reward": [1]}, tmp_path)
    actor = [f"actor {rank} 4 {rank} PCI_BUS_ID 5,2,7,0" for rank in range(4)]
    assert start(tmp_path, "launch.sh") == [*actor, "reward - - - PCI_BUS_ID 1"]


def test_two_hosts_are_one_job(tmp_path: Path) -> None:
    """Both are this one, so that the address of the first is the only thing that is changed."""
    write({"actor": ["node1:3", "node1:1", "node0:2", "node0:0"]}, tmp_path)
    for file in tmp_path.glob("*.yaml"):
        file.write_text(file.read_text().replace("main_process_ip: node1", 'main_process_ip: "127.0.0.1"').replace("29500", "29731"))
    told = start(tmp_path, "launch-node0.sh", "launch-node1.sh")
    assert told == [
        "actor 0 4 0 PCI_BUS_ID 3,1", "actor 1 4 1 PCI_BUS_ID 3,1", "actor 2 4 0 PCI_BUS_ID 2,0", "actor 3 4 1 PCI_BUS_ID 2,0",
    ]  # fmt: skip
