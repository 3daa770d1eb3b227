"""
verl itself on local clusters of Ray with GPUs that are declared, not there: pools, pins and schedules are real, training is not.

Needs an environment of its own (tests/verl/requirements.txt) and runs only when this folder is named.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster

from placement.text import strict_yaml

HERE = Path(__file__).parent

RUNTIME = "placement.targets.verl_runtime"

OBJECT_STORE = 80 * 2**20


@dataclass(frozen=True)
class Files:
    """A model, data, and a folder for maps."""

    folder: Path
    model: Path
    data: Path

    def map(self, name: str, groups: Mapping[str, object]) -> Path:
        file = self.folder / f"{name}.yaml"
        file.write_text(strict_yaml.dump({"device_map": groups}), encoding="utf-8")
        return file


@contextmanager
def cluster(nodes: Mapping[str, str], *, modules: str, notes: Path | None = None, cpus: int = 16) -> Iterator[str]:
    """A head without GPUs, and *nodes*: a name and the GPUs in the order in which it offers them. Yields the address."""
    said = {
        "VERL_USE_EXTERNAL_MODULES": modules,
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        **({"SLEEPING_NOTES": str(notes)} if notes else {}),
    }
    before = {name: os.environ.get(name) for name in said}
    os.environ.update(said)
    found = None
    try:
        found = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 16, "num_gpus": 0, "include_dashboard": False, "node_name": "head"},
        )
        for name, gpus in nodes.items():
            found.add_node(
                num_cpus=cpus,
                num_gpus=len(gpus.split(",")),
                node_name=name,
                object_store_memory=OBJECT_STORE,
                env_vars={"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": gpus},
            )
        found.wait_for_nodes()
        yield found.address
    finally:
        ray.shutdown()
        if found is not None:
            found.shutdown()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def overrides(files: Files, said: Mapping[str, object]) -> list[str]:
    """Return what a small job says to verl's configuration; *said* comes last."""
    per_gpu = {
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 1,
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": 1,
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": 1,
        "critic.ppo_micro_batch_size_per_gpu": 1,
    }
    job = {
        "data.train_files": files.data,
        "data.val_files": files.data,
        "data.train_batch_size": 8,
        "data.max_prompt_length": 16,
        "data.max_response_length": 16,
        "data.dataloader_num_workers": 0,
        "actor_rollout_ref.model.path": files.model,
        "critic.model.path": files.model,
        "actor_rollout_ref.rollout.name": "vllm",
        "actor_rollout_ref.rollout.tensor_model_parallel_size": 1,
        "actor_rollout_ref.actor.ppo_mini_batch_size": 8,
        "critic.ppo_mini_batch_size": 8,
        "actor_rollout_ref.actor.use_kl_loss": True,
        **per_gpu,
        "trainer.nnodes": 1,
        "trainer.logger": "console",
        "trainer.val_before_train": False,
        "trainer.resume_mode": "disable",
        "trainer.total_training_steps": 2,
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
        **said,
    }
    return [f"{name}={value}" for name, value in job.items()]


def composed(files: Files, said: Mapping[str, object]) -> Any:
    """Return verl's own configuration tree with these overrides."""
    import hydra

    spec = find_spec("verl")
    assert spec is not None
    assert spec.origin is not None
    with hydra.initialize_config_dir(str(Path(spec.origin).parent / "trainer" / "config"), version_base=None):
        return hydra.compose("ppo_trainer", overrides(files, said))


def main_ppo(address: str, said: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run verl's own command on the cluster at *address*."""
    command = [sys.executable, "-m", "verl.trainer.main_ppo", *said, f"+ray_kwargs.ray_init.address={address}"]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=900, check=False, env=dict(os.environ))
