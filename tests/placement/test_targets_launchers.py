"""
Files for launchers: what they hold, that they read back as the map, and what they do when they run.

``python tests/placement/test_targets_launchers.py`` writes the golden files anew; read what changed before you commit them.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from launcher_maps import ONE_HOST, TWO_HOSTS, Groups, any_groups, map_text, uuid

from placement.errors import InputError
from placement.targets import kubernetes
from placement.targets.catalog import MODULES, target, targets
from placement.targets.start import Start, read_start
from placement.targets.target import Emitted, emit, inexpressible
from placement.workloads.rule_values import TARGETS

LAUNCHERS = ("env", "torchrun", "accelerate", "deepspeed", "ray", "slurm", "kubernetes")
GOLDEN = Path(__file__).parents[1] / "data" / "launchers"
SIZES = {None: 8, "node0": 8, "node1": 8}
ASCENDING: Groups = {"actor": [0, 2, 5, 7], "critic": [1, 3], "ref": [0, 2, 5, 7], "reward": [1, 3]}
SAME_ON_BOTH: Groups = {"actor": ["node1:2", "node1:0", "node0:2", "node0:0"], "reward": ["node0:5"]}
SORTED: Groups = {"actor": ["node1:0", "node1:2", "node0:4", "node0:6"], "rollout": ["node1:1", "node0:1"], "reward": ["node0:0"]}

CASES = [
    *((name, "one-host", ASCENDING if name == "deepspeed" else ONE_HOST, False) for name in LAUNCHERS),
    *((name, "two-hosts", {"slurm": SAME_ON_BOTH, "deepspeed": SORTED}.get(name, TWO_HOSTS), False) for name in LAUNCHERS),
    ("kubernetes", "one-host-uuids", ONE_HOST, True),
    ("kubernetes", "two-hosts-uuids", TWO_HOSTS, True),
]


def started(groups: Groups, *, knows: bool = False) -> Start:
    hosts = {entry.partition(":")[0] if isinstance(entry, str) else None for group in groups.values() for entry in group}
    return read_start(map_text(groups, sizes={h: n for h, n in SIZES.items() if h in hosts} if knows else None))


def page(emitted: Emitted) -> str:
    files = "".join(f"# ── {name} ──\n{text}\n" for name, text in emitted.files.items())
    return files + "".join(f"note: {note}\n" for note in emitted.notes)


@pytest.mark.parametrize(("name", "case", "groups", "knows"), [pytest.param(*case, id="-".join(case[:2])) for case in CASES])
def test_the_files_are_these(name: str, case: str, groups: Groups, knows: bool) -> None:
    found = page(emit(target(name), started(groups, knows=knows)))
    assert found == (GOLDEN / f"{name}-{case}.txt").read_text(encoding="utf-8")


def test_each_target_states_its_facts() -> None:
    """What it takes, whose parser reads it, and a refusal for whatever it says that it cannot express."""
    for each in map(target, LAUNCHERS):
        assert each.name in TARGETS
        assert each.title
        assert each.pins
        assert each.keeps
        assert each.writes
        assert bool(each.cannot) == bool(each.refuses or each.rules)
    assert {each.name for each in targets()} == set(MODULES)


# ── round trips ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", [name for name in LAUNCHERS if name != "kubernetes"])
@settings(max_examples=25)
@given(groups=any_groups())
def test_files_read_back_as_the_map(name: str, groups: Groups) -> None:
    """Or the target says what it cannot express, and nothing is written."""
    each, start = target(name), started(groups)
    if list(inexpressible(each, start)):
        with pytest.raises(InputError, match="cannot express this map"):
            emit(each, start)
        return
    files = emit(each, start).files
    assert each.reads is not None
    assert {role: list(group) for role, group in each.reads(files).items()} == {role: list(group) for role, group in groups.items()}
    assert not [file for file in files if "/" in file]
    assert files == emit(each, started(groups)).files


@settings(max_examples=25)
@given(groups=any_groups())
def test_pods_name_the_uuids_of_the_map(groups: Groups) -> None:
    hosts = dict.fromkeys((None, "node0", "node1", "node2", "node10"), 12)
    start = read_start(map_text(groups, sizes=hosts))
    if list(inexpressible(kubernetes.TARGET, start)):
        return
    expected = {role: tuple(uuid(seat.host, seat.gpu) for seat in seats) for role, seats in start.seats.items()}
    assert kubernetes.read_uuids(emit(kubernetes.TARGET, start).files) == expected


@pytest.mark.parametrize(
    ("name", "groups", "said"),
    [
        pytest.param(
            name,
            {"actor": ["node0:0", "node1:0", "node0:1", "node1:1"]},
            "actor change between hosts and come back",
            id=f"{name}: ranks that jump between hosts",
        )
        for name in ("env", "torchrun", "accelerate", "deepspeed", "kubernetes")
    ]
    + [
        pytest.param("accelerate", {"actor": ["node0:0", "node0:1", "node1:0"]}, "actor has 2 on node0, 1 on node1", id="accelerate"),
        pytest.param("deepspeed", {"actor": [5, 2, 7, 0]}, "it sorts GPUs", id="deepspeed: order"),
        pytest.param(
            "deepspeed", {"actor": ["node0:0", "node1:0", "node1:1"]}, "2 GPUs on node1 after 1 on other", id="deepspeed: local ranks"
        ),
        pytest.param("ray", {"actor": [0, 1], "critic": [1, 2]}, "both have GPU 1, and Ray gives a GPU to one", id="ray: shared in part"),
        pytest.param("kubernetes", {"actor": [0, 1], "ref": [1, 0]}, "both have GPU 0, 1", id="kubernetes: shared in another order"),
        pytest.param("slurm", {"actor": ["node0:0", "node1:1"]}, "one map for all nodes of a step", id="slurm: unequal maps"),
        pytest.param("torchrun", {"actor": ["a/b:0"]}, "'a/b' is no name of a host", id="torchrun: a host that is a folder"),
    ],
)
def test_what_cannot_be_expressed_is_refused(name: str, groups: Groups, said: str) -> None:
    with pytest.raises(InputError, match=said):
        emit(target(name), started(groups))


def test_slurm_takes_fewer_gpus_of_the_same_beginning() -> None:
    """Ranks may even jump between hosts: each task is given its host, and takes the next entry of the map there."""
    groups = {"actor": ["node0:3", "node1:3", "node0:1"]}
    slurm = target("slurm")
    assert slurm.reads is not None
    assert slurm.reads(emit(slurm, started(groups)).files) == {"actor": ("node0:3", "node1:3", "node0:1")}


def test_a_node_of_slurm_is_asked_for_whole() -> None:
    """Ids are those of all its GPUs: as many as the machine is known to have, else up to the last that the map uses."""
    groups = {"actor": [2, 1]}
    assert "--gpus-per-node=8" in emit(target("slurm"), started(groups, knows=True)).files["job.sbatch"]
    assert "--gpus-per-node=3" in emit(target("slurm"), started(groups)).files["job.sbatch"]


# ── scripts that run ────────────────────────────────────────────────────────────────────────────────────────────────────

TELL = """#!/usr/bin/env bash
echo "$(basename "$0")|${CUDA_DEVICE_ORDER-}|${CUDA_VISIBLE_DEVICES-}|${PLACEMENT_ROLES-}|${MASTER_ADDR-}|$*" >> "$TOLD"
"""
FAIL = """#!/usr/bin/env bash
if [ "$PLACEMENT_ROLES" = critic,reward ]; then exit 3; fi
echo started > "$TOLD"
exec sleep 300
"""


def run(script: str, files: dict[str, str], folder: Path, command: str, fake: str) -> tuple[int, list[str]]:
    """Run *script* of *files* with *command* faked, and return its exit code and what the fake was told."""
    (folder / "bin").mkdir()
    (folder / "bin" / command).write_text(fake, encoding="utf-8")
    (folder / "bin" / command).chmod(0o755)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    told = folder / "told"
    env = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "TOLD": str(told)}
    done = subprocess.run(
        ["bash", str(folder / script), "train.py", "--x", "a b"], env=env, cwd="/", timeout=60, check=False, capture_output=True, text=True
    )
    return done.returncode, sorted(told.read_text(encoding="utf-8").splitlines()) if told.exists() else []


@pytest.mark.parametrize(("name", "case", "groups", "knows"), [pytest.param(*case, id="-".join(case[:2])) for case in CASES])
def test_every_script_is_bash(name: str, case: str, groups: Groups, knows: bool, tmp_path: Path) -> None:
    for file, text in emit(target(name), started(groups, knows=knows)).files.items():
        if file.endswith((".sh", ".env", ".sbatch")):
            (tmp_path / file).write_text(text, encoding="utf-8")
            subprocess.run(["bash", "-n", str(tmp_path / file)], check=True, timeout=30)


def test_torchrun_is_told_the_order(tmp_path: Path) -> None:
    code, told = run("launch.sh", dict(emit(target("torchrun"), started(ONE_HOST)).files), tmp_path, "torchrun", TELL)
    ends = "--master-addr=127.0.0.1"
    assert code == 0
    assert told == [
        f"torchrun|PCI_BUS_ID|1,3|critic,reward||--nnodes=1 --node-rank=0 --nproc-per-node=2 {ends} --master-port=29501 train.py --x a b",
        f"torchrun|PCI_BUS_ID|5,2,7,0|actor,ref||--nnodes=1 --node-rank=0 --nproc-per-node=4 {ends} --master-port=29500 train.py --x a b",
    ]


def test_each_host_starts_its_share(tmp_path: Path) -> None:
    """node0 is the second of the actor, the first of the rollout, and alone with the reward model."""
    code, told = run("launch-node0.sh", dict(emit(target("torchrun"), started(TWO_HOSTS)).files), tmp_path, "torchrun", TELL)
    assert code == 0
    assert [line.partition(" --nproc")[0] for line in told] == [
        "torchrun|PCI_BUS_ID|0|reward||--nnodes=1 --node-rank=0",
        "torchrun|PCI_BUS_ID|1|rollout||--nnodes=2 --node-rank=0",
        "torchrun|PCI_BUS_ID|4,6|actor,ref||--nnodes=2 --node-rank=1",
    ]


def test_all_end_when_one_pool_fails(tmp_path: Path) -> None:
    started_at = time.monotonic()
    code, _ = run("launch.sh", dict(emit(target("torchrun"), started(ONE_HOST)).files), tmp_path, "torchrun", FAIL)
    assert code == 3
    assert time.monotonic() - started_at < 50    # and not the 300 seconds of the other


@pytest.mark.parametrize(("name", "command"), [("accelerate", "accelerate"), ("deepspeed", "deepspeed")])
def test_launchers_are_told_files_that_exist(name: str, command: str, tmp_path: Path) -> None:
    """Wherever the script is started from."""
    code, told = run("launch.sh", dict(emit(target(name), started(ASCENDING)).files), tmp_path, command, TELL)
    assert code == 0
    assert [line.split("|")[3] for line in told] == ["actor,ref", "critic,reward"]
    for line in told:
        assert [word for word in line.split() if word.startswith("/") and not Path(word).exists()] == []


SRUN = """#!/usr/bin/env bash
if [ "${*: -1}" = --version ]; then exit KNOWS; fi
cp "$SLURM_HOSTFILE" "$TOLD.$PLACEMENT_ROLES"
""" + TELL


@pytest.mark.parametrize("knows", [0, 255], ids=["a new Slurm", "one without allow-task-sharing"])
def test_slurm_steps_are_told_their_hosts_and_map(knows: int, tmp_path: Path) -> None:
    files = dict(emit(target("slurm"), started(SAME_ON_BOTH)).files)
    code, told = run("job.sbatch", files, tmp_path, "srun", SRUN.replace("KNOWS", str(knows)))
    assert code == 0
    assert [line.split("|")[3:5] for line in told] == [["actor", "node1"], ["reward", "node0"]]
    assert (tmp_path / "told.actor").read_text() == "node1\nnode1\nnode0\nnode0\n"
    assert "--gpu-bind=map_gpu:2,0 " in told[0]
    assert ("--gres-flags=allow-task-sharing" in told[0]) == (knows == 0)
    assert told[0].endswith('exec "$@" task train.py --x a b')


def test_environment_lines_are_sourced(tmp_path: Path) -> None:
    (tmp_path / "pool.env").write_text(emit(target("env"), started(ONE_HOST)).files["actor-ref.env"], encoding="utf-8")
    shown = subprocess.run(
        ["bash", "-c", 'source pool.env; echo "$CUDA_VISIBLE_DEVICES $PLACEMENT_ROLES"'],
        cwd=tmp_path, check=True, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert shown.stdout == "5,2,7,0 actor,ref\n"


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name, case, groups, knows in CASES:
        (GOLDEN / f"{name}-{case}.txt").write_text(page(emit(target(name), started(groups, knows=knows))), encoding="utf-8")
