"""A real Ray cluster of several nodes on this machine, each with a machine of its own to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

from placement.machines.ray_probe import VARIABLE
from topologies.catalog import machine_text

MACHINES = {"node2": ("a100-pcie-mixed-4", 4), "node10": ("dgx-h100", 8)}
"""Nodes with GPUs: a shipped machine that each reads, and how many GPUs it offers to Ray."""


@dataclass(frozen=True)
class Running:
    """A running cluster: its address, and Ray's id of each node with GPUs."""

    address: str
    ids: Mapping[str, str]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A head without GPUs, and the nodes of `MACHINES`."""
    folder: Path = tmp_path_factory.mktemp("machines")
    found = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "num_gpus": 0, "include_dashboard": False, "node_name": "head"},
    )
    ids = {}
    try:
        for name, (machine, gpus) in MACHINES.items():
            text = folder / f"{name}.txt"
            text.write_text(machine_text(machine), encoding="utf-8")
            node = found.add_node(
                num_cpus=0, num_gpus=gpus, node_name=name, object_store_memory=80 * 2**20, env_vars={VARIABLE: str(text)}
            )
            ids[name] = node.node_id
        found.wait_for_nodes()
        yield Running(found.address, ids)
    finally:
        found.shutdown()
