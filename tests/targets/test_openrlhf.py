"""OpenRLHF's own argument parser and the checks that follow it, cut out of its command without importing vLLM or DeepSpeed."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import typing
from datetime import datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from installed import package_folder
from random_starts import apart_start, shared_start, starts

from placement.targets.openrlhf import NEW, OLD, TARGET
from placement.targets.target import emit
from placement.workloads.workload import RoleName


def folder(version: str) -> Path:
    if version == NEW:
        return package_folder("openrlhf")
    old = os.environ.get("PLACEMENT_OPENRLHF_OLD")
    if old is None:
        pytest.skip("PLACEMENT_OPENRLHF_OLD names no folder with openrlhf 0.9.0")
    return Path(old) / "openrlhf"


def parse(version: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Run what the command does before it calls ``train``."""
    root = folder(version)
    tree = ast.parse((root / "cli" / "train_ppo_ray.py").read_text())
    main = next(node for node in tree.body if isinstance(node, ast.If))
    body = [node for node in main.body if not (isinstance(node, ast.Expr) and "train(args)" in ast.unparse(node))]
    names: dict[str, object] = {"argparse": argparse, "datetime": datetime}
    if version == NEW:
        for name in ("openrlhf", "openrlhf.utils"):
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
        spec = importlib.util.spec_from_file_location("openrlhf.utils.config", root / "utils" / "config.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        monkeypatch.setitem(sys.modules, "openrlhf.utils.config", module)
    monkeypatch.setattr(sys, "argv", ["train_ppo_ray", *words])
    exec(compile(ast.Module(body=body, type_ignores=[]), "train_ppo_ray", "exec"), names)
    found = names["args"]
    return found if isinstance(found, SimpleNamespace) else SimpleNamespace(**vars(found))


def words_of(text: str) -> list[str]:
    """Return the arguments that a launch script gives to the command."""
    joined = text.replace("\\\n", " ")
    line = next(line for line in joined.splitlines() if line.startswith("python -m openrlhf"))
    return [word for word in shlex.split(line)[3:] if word != "$@"]


@pytest.mark.parametrize("version", [NEW, OLD])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_its_parser_takes_what_is_written(version, data, monkeypatch):
    """Every flag is known, the checks pass, and sizes are those of the map; the asserts of ``train`` on groups hold."""
    assert TARGET.rules is not None
    start = data.draw(starts(TARGET.rules))
    words = words_of(emit(TARGET, start, version).files["launch.sh"])
    if RoleName.REWARD not in start.roles:
        words += ["--reward.remote_url" if version == NEW else "--remote_rm_url", "http://127.0.0.1"]
    args = parse(version, words, monkeypatch)
    for role in ("actor", "ref", "critic", "reward"):
        if role in start.seats:
            mine = getattr(args, role).num_gpus_per_node if version == NEW else getattr(args, f"{role}_num_gpus_per_node")
            assert mine == len(start.seats[role])
    engines = args.vllm.num_engines * args.vllm.tensor_parallel_size if version == NEW else (
        args.vllm_num_engines * args.vllm_tensor_parallel_size
    )  # fmt: skip
    assert engines == len(start.seats["actor" if start.workload.is_hybrid else "rollout"])
    critic = args.critic.model_name_or_path if version == NEW else args.critic_pretrain
    assert (critic is not None) == ("critic" in start.seats)
    is_one = args.train.colocate_all if version == NEW else args.colocate_all_models
    assert is_one == start.workload.is_hybrid
    if is_one:
        assert (args.vllm.enable_sleep if version == NEW else args.vllm_enable_sleep) is True


@pytest.mark.parametrize(("version", "other"), [(NEW, OLD), (OLD, NEW)])
@settings(max_examples=1, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_each_version_rejects_flags_of_the_other(version, other, data, monkeypatch, capsys):
    """Which is why there is --target-version."""
    assert TARGET.rules is not None
    words = words_of(emit(TARGET, data.draw(starts(TARGET.rules)), other).files["launch.sh"])
    with pytest.raises(SystemExit):
        parse(version, words, monkeypatch)
    assert "unrecognized arguments" in capsys.readouterr().err


# ── its own groups, on Ray ──────────────────────────────────────────────────────────────────────────────────────────────


class Stop(Exception):
    """All groups are there."""


def groups_on_ray(words: list[str]) -> dict[str, list[int]]:
    """Return role → GPUs that OpenRLHF's own ``train`` and ``RayActorGroup`` make; workers and engines only say where they are."""
    import ray
    from ray.util.placement_group import PlacementGroup, placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    @ray.remote
    class Worker:
        def __init__(self, *arguments):
            pass

        def get_master_addr_port(self):
            return "127.0.0.1", 1

        def where(self):
            return int(os.environ["CUDA_VISIBLE_DEVICES"])

    def create_vllm_engines(count, tp, *others, **named):
        shared = next((other for other in others if isinstance(other, PlacementGroup)), None)
        group = shared or placement_group([{"GPU": 1, "CPU": 1} for _ in range(count * tp)], strategy="PACK")
        ray.get(group.ready())
        share = 0.2 if shared else 1
        at = [PlacementGroupSchedulingStrategy(placement_group=group, placement_group_bundle_index=k) for k in range(count * tp)]
        return [Worker.options(num_gpus=share, num_cpus=share, scheduling_strategy=strategy).remote() for strategy in at]

    class PPOTrainer:
        found: typing.ClassVar[dict[str, list[int]]] = {}

        @classmethod
        def remote(cls, name, strategy, actor, critic, reward, ref, engines, **others):
            groups = {"actor": actor, "critic": critic, "reward": reward, "ref": ref}
            workers = {role: group._actor_handlers for role, group in groups.items() if group is not None}
            cls.found = {role: ray.get([w.where.remote() for w in them]) for role, them in {**workers, "rollout": engines}.items()}
            raise Stop

    patch = pytest.MonkeyPatch()
    args = parse(NEW, words, patch)
    patch.setitem(sys.modules, "openrlhf.trainer", ModuleType("openrlhf.trainer"))
    patch.setitem(sys.modules, "openrlhf.trainer.ppo_trainer", ModuleType("openrlhf.trainer.ppo_trainer"))
    sys.modules["openrlhf.trainer.ppo_trainer"].PPOTrainer = PPOTrainer
    root = folder(NEW)
    names: dict[str, object] = {name: getattr(typing, name) for name in ("Dict", "List", "Optional", "Type", "Any", "Callable", "Tuple")}
    names |= {"os": os, "ray": ray, "PlacementGroup": PlacementGroup, "placement_group": placement_group}
    names |= {"PlacementGroupSchedulingStrategy": PlacementGroupSchedulingStrategy, "BaseModelActor": object}
    names |= dict.fromkeys(("PolicyModelActor", "CriticModelActor", "ReferenceModelActor", "RewardModelActor"), Worker)
    names |= {"create_vllm_engines": create_vllm_engines, "get_strategy": lambda args: SimpleNamespace(print=lambda *words: None)}
    for file, wanted in (("trainer/ray/launcher.py", "RayActorGroup"), ("cli/train_ppo_ray.py", "train")):
        tree = ast.parse((root / file).read_text())
        body = [node for node in tree.body if getattr(node, "name", None) == wanted]
        exec(compile(ast.Module(body=body, type_ignores=[]), file, "exec"), names)
    try:
        names["train"](args)  # type: ignore[operator]
    except Stop:
        return PPOTrainer.found
    raise AssertionError("it never came to its trainer")


@pytest.mark.parametrize("shape", [shared_start, apart_start])
def test_ranks_are_on_the_gpus_of_the_map(shape):
    """OpenRLHF's own code creates the groups on a Ray node that was started as ray-start.sh says: rank by rank the map's GPUs."""
    assert TARGET.rules is not None
    start = shape(TARGET.rules)
    files = emit(TARGET, start, NEW).files
    words = [*words_of(files["launch.sh"]), "--reward.remote_url", "http://127.0.0.1"]
    visible = re.search(r"CUDA_VISIBLE_DEVICES=(\S+)", files["ray-start.sh"])
    assert visible is not None
    environment = {
        **os.environ,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": visible[1],
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    done = subprocess.run(
        [sys.executable, __file__, json.dumps(words)], env=environment, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    if start.workload.is_hybrid:
        assert found.pop("rollout") == found["actor"]
    assert found == {role: [seat.gpu for seat in seats] for role, seats in start.seats.items()}


if __name__ == "__main__":
    import ray

    seen = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
    ray.init("local", num_cpus=32, num_gpus=len(seen), include_dashboard=False, log_to_driver=False)    # no cluster that is there
    print(json.dumps(groups_on_ray(json.loads(sys.argv[1]))))
    ray.shutdown()
