"""What a process sees, held against a map: one mistake, one sentence. Jobs of several processes run in tests/targets and tests/ray."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launcher_maps import ONE_HOST, TWO_HOSTS, Groups, any_groups, map_text, uuid
from nvml_machines import Driver, machine

import placement
from placement.errors import InputError, PreflightError
from placement.machines.ray_probe import token_hint
from placement.targets.catalog import target
from placement.targets.ray import LABEL, ONLY_HOST
from placement.targets.start import read_start
from placement.targets.target import emit, inexpressible
from placement.verifying import ray_nodes
from placement.verifying.compare import compare, findings, map_host
from placement.verifying.observed import Device, Observed, bus_key, observe
from placement.verifying.ray_nodes import Node, compare_nodes
from placement.verifying.wanted import Wanted, parse_wanted

ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
FOUR: Groups = {"actor": ["node0:5", "node0:2", "node1:7", "node1:0"]}


def wanted(groups: Groups = ONE_HOST, role: str | None = "actor", *, sizes: Mapping[str | None, int] | None = None) -> Wanted:
    return parse_wanted(map_text(groups, sizes=sizes), name="map.yaml").of_role(role, {})


def place(rank: int, size: int, local: int, local_size: int, visible: str | None) -> dict[str, str]:
    """Return the environment of a rank of torchrun."""
    values = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": local_size}
    return {**ORDER, **{k: str(v) for k, v in values.items()}, **({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})}


def devices(count: int, host: str | None = None) -> tuple[Device, ...]:
    return tuple(Device(uuid(host, k), f"0000:{k:02X}:00.0") for k in range(count))


def found(environment: Mapping[str, str], want: Wanted, *, host: str = "anything", has: tuple[Device, ...] | None = None) -> list[str]:
    return findings(want, observe(environment, host=host, devices=has))


# ── one process ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("has", [None, devices(8)], ids=["no driver", "a driver"])
def test_ranks_that_are_right(has: tuple[Device, ...] | None) -> None:
    for rank in range(4):
        assert found(place(rank, 4, rank, 4, "5,2,7,0"), wanted(), has=has) == []


def test_a_rank_may_see_its_own_gpu_alone() -> None:
    """As tasks of Slurm (local rank 0) and actors of Ray (no local rank) do."""
    for rank, gpu in enumerate((5, 2, 7, 0)):
        assert found(place(rank, 4, 0, 4, str(gpu)), wanted()) == []
        assert found({**ORDER, "RANK": str(rank), "WORLD_SIZE": "4", "CUDA_VISIBLE_DEVICES": str(gpu)}, wanted()) == []
    (said,) = found({**ORDER, "RANK": "0", "WORLD_SIZE": "4", "CUDA_VISIBLE_DEVICES": "2"}, wanted())
    assert said.startswith("it has GPU 2 alone, and the map has rank 0 on GPU 5: start the nodes")


def test_a_process_without_ranks_takes_all_gpus_of_its_host() -> None:
    assert found({**ORDER, "CUDA_VISIBLE_DEVICES": "5,2,7,0"}, wanted()) == []
    assert len(found({**ORDER, "CUDA_VISIBLE_DEVICES": "5,2,7,0,1"}, wanted())) == 1
    assert len(found({**ORDER, "CUDA_VISIBLE_DEVICES": "5"}, wanted())) == 1


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        pytest.param(place(0, 4, 0, 4, "0,2,5,7"), "has the order 5,2,7,0: local rank k takes the k-th; export CUDA_VIS", id="order"),
        pytest.param(place(0, 4, 0, 4, "5,2"), "gives actor and ref 4 GPUs here (GPU 5 for this rank): 5,2,7,0", id="too few"),
        pytest.param(place(0, 4, 0, 4, "1,2,7,0"), "CUDA_VISIBLE_DEVICES is 1,2,7,0, and the map gives actor and ref GPUs 5,", id="others"),
        pytest.param(place(0, 4, 0, 4, "5,2,2,0"), "names GPU 2 twice (5,2,2,0): each rank needs a GPU of its own", id="twice"),
        pytest.param(place(0, 4, 0, 4, ""), "is empty: this process sees no GPU; export CUDA_VISIBLE_DEVICES=5,2,7,0", id="empty"),
        pytest.param(place(0, 4, 0, 4, "-1"), "names '-1', which is no GPU: CUDA stops reading there", id="none"),
        pytest.param(place(0, 4, 0, 4, None), "is not set, so that local rank k takes GPU k, and the map has GPUs 5,2,7,0", id="unset"),
        pytest.param(place(0, 4, 0, 4, "MIG-1"), "names slices of GPUs (MIG): a map places whole GPUs", id="slices"),
        pytest.param(place(0, 4, 0, 4, "GPU-1,GPU-2,GPU-3,GPU-4"), "neither a driver nor the map tells which GPUs GPU-1", id="uuids"),
        pytest.param(place(0, 4, 0, 4, "5,2,7,0") | {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, "CUDA_DEVICE_ORDER is FASTEST", id="fastest"),
        pytest.param({**place(0, 8, 0, 8, "5,2,7,0")}, "the job has 8 ranks (WORLD_SIZE), and the map gives actor and ref 4", id="size"),
        pytest.param(place(0, 4, 0, 2, "5,2,7,0"), "2 processes run on this host (LOCAL_WORLD_SIZE)", id="local size"),
        pytest.param(place(0, 4, 3, 4, "5,2,7,0"), "rank 0 is local rank 3, and on its GPU 5 the map has local rank 0", id="local rank"),
    ],
)
def test_one_mistake_is_one_sentence(environment: dict[str, str], said: str) -> None:
    sentences = found(environment, wanted())
    assert len(sentences) == 1
    assert said in sentences[0]


@pytest.mark.parametrize(
    ("environment", "host", "said"),
    [
        pytest.param(place(0, 4, 0, 2, "7,0"), "node1", "rank 0 runs on node1, and the map has it on node0", id="swapped node ranks"),
        pytest.param(place(1, 2, 1, 2, "7,0"), "node1", "each host started a job of its own; start one on all of them", id="no --nnodes"),
        pytest.param(place(2, 4, 0, 2, "5,2"), "node1", "is 5,2, and the map gives actor GPUs 7,0 here", id="another's GPUs"),
        pytest.param(place(2, 4, 0, 2, "7,0"), "node2", "this host is node2, and the map has actor on node0, node1", id="another host"),
    ],
)
def test_mistakes_of_several_hosts(environment: dict[str, str], host: str, said: str) -> None:
    sentences = found(environment, wanted(FOUR), host=host)
    assert len(sentences) == 1
    assert said in sentences[0]


def test_names_of_hosts_are_compared_up_to_the_first_dot() -> None:
    assert map_host("node1.cluster.local", ("node0", "node1")) == "node1"
    assert map_host("node1", ("node0.a", "node1.a")) == "node1.a"
    assert map_host("node1", ("node1.a", "node1.b")) is None
    assert map_host("node10", ("node0", "node1")) is None


def test_uuids_are_the_truth_where_the_map_knows_them() -> None:
    """A container counts only the GPUs that it was given: 2, 5 of the host are 0, 1 there."""
    want = wanted({"actor": [5, 2]}, sizes={None: 8})
    given_two = (Device(uuid(None, 2), "0000:02:00.0"), Device(uuid(None, 5), "0000:05:00.0"))
    assert found(place(0, 2, 0, 2, "1,0"), want, has=given_two) == []
    assert found(place(0, 2, 0, 2, f"{uuid(None, 5)},{uuid(None, 2)}"), want, has=given_two) == []
    assert found(place(0, 2, 0, 2, f"{uuid(None, 5)},{uuid(None, 2)}"), want) == []
    assert "has the order 5,2" in found(place(0, 2, 0, 2, "0,1"), want, has=given_two)[0]


def test_a_map_of_one_host_knows_uuids_of_a_machine_that_has_a_name() -> None:
    """Its entries are ids alone, and rows of its topology say ``host: node0``."""
    want = wanted({"actor": [1, 0]}, sizes={"node0": 2})
    assert want.uuids == {seat: uuid("node0", seat.gpu) for seat in want.pool.seats}
    assert read_start(map_text({"actor": [1, 0]}, sizes={"node0": 2})).sizes == {None: 2}


def test_another_card_is_named() -> None:
    want = wanted({"actor": [0, 1]}, sizes={None: 2})
    others = (devices(2)[0], Device("GPU-ffffffff-0000-0000-0000-000000000000", "0000:01:00.0"))
    (said,) = found(place(0, 2, 0, 2, "0,1"), want, has=others)
    assert said.startswith(f"GPU 1 of this host is {others[1].uuid} (0000:01:00.0), and the map was made for {uuid(None, 1)} there")


def test_a_driver_tells_of_ids_that_are_not_there() -> None:
    (said,) = found(place(0, 4, 0, 4, "5,2,7,0"), wanted(), has=devices(4))
    assert "names GPU 5, and this host has 4 GPUs: CUDA stops reading there" in said
    (said,) = found(place(0, 4, 0, 4, "GPU-f"), wanted(), has=devices(4))
    assert "names GPU-f, which is no GPU of this host" in said


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"RANK": "0"}, "RANK is set and WORLD_SIZE is not"),
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE is set and RANK is not"),
        ({"RANK": "one", "WORLD_SIZE": "2"}, "RANK is 'one', and a launcher sets it to a number"),
        ({"LOCAL_RANK": "-1"}, "LOCAL_RANK is '-1'"),
    ],
)
def test_variables_that_say_nothing_are_refused(environment: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        observe(environment)


def test_bus_ids_have_one_form() -> None:
    assert bus_key("00000000:3b:00.0") == bus_key(b"0000:3B:00.0") == "0000:3B:00.0"
    assert bus_key("00010000:3B:00.0") == "00010000:3B:00.0"


# ── which pool ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("role", "told", "said"),
    [
        (None, "", "the map has several pools .actor, ref . critic, reward.: say which one"),
        ("critik", "", "the map has no role 'critik'; did you mean 'critic'|the map has no role 'critik'"),
        (None, "boss", "PLACEMENT_ROLES=boss: the map has no role 'boss'"),
        (None, "actor,critic", "PLACEMENT_ROLES=actor,critic: these roles do not share GPUs"),
    ],
)
def test_which_pool_must_be_said(role: str | None, told: str, said: str) -> None:
    everything = parse_wanted(map_text(ONE_HOST), name="map.yaml")
    with pytest.raises(InputError, match=said):
        everything.of_role(role, {"PLACEMENT_ROLES": told})


def test_the_only_pool_need_not_be_said() -> None:
    assert wanted({"actor": [1], "ref": [1]}, None).title == "actor and ref"


# ── all processes ───────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=25)
@given(groups=any_groups(), data=st.data())
def test_what_torchrun_starts_from_our_files_is_right_and_what_is_changed_is_found(groups: Groups, data: st.DataObject) -> None:
    """Ranks as torchrun makes them of the commands that are written; then two GPUs of one host change places."""
    start = read_start(map_text(groups))
    if list(inexpressible(target("torchrun"), start)):
        return
    pool = data.draw(st.sampled_from(start.pools))
    want = Wanted(pool, {})
    seen: dict[int, Observed] = {}
    for rank, seat in enumerate(pool.seats):
        gpus = start.on_host(pool, seat.host)
        environment = place(rank, len(pool.seats), gpus.index(seat.gpu), len(gpus), ",".join(map(str, gpus)))
        seen[rank] = observe(environment, host=seat.host or "here")
    assert compare(want, seen).is_right
    rank = data.draw(st.sampled_from(sorted(seen)))
    shown = seen[rank].visible
    assert shown is not None
    if len(shown) > 1:
        environment = place(rank, len(pool.seats), seen[rank].local_rank or 0, len(shown), ",".join(reversed(shown)))
        seen[rank] = observe(environment, host=seen[rank].host)
        assert not compare(want, seen).is_right
    del seen[rank]
    assert compare(want, seen).missing == ((rank,) if seen else tuple(range(len(pool.seats))))


def test_two_ranks_on_one_gpu() -> None:
    seen = {rank: observe({**ORDER, "RANK": str(rank), "WORLD_SIZE": "4", "CUDA_VISIBLE_DEVICES": "5"}, host="a") for rank in range(4)}
    verdict = compare(wanted(), seen)
    assert verdict.ranks[0] == []
    assert "it takes GPU 5 of a, which rank 0 takes, too" in verdict.ranks[3]


def test_what_is_seen_travels() -> None:
    seen = observe(place(1, 4, 1, 4, "5,2,7,0"), host="a", devices=devices(3))
    assert Observed.from_plain(seen.to_plain()) == seen


# ── nodes of Ray (a running cluster: tests/ray) ─────────────────────────────────────────────────────────────────────────


def node(name: str, visible: str | None, *workers: Mapping[str, str], gpus: int = 8) -> Node:
    environment = ORDER if visible is None else {**ORDER, "CUDA_VISIBLE_DEVICES": visible}
    return Node((name, "127.0.0.1"), gpus, environment, workers, None)


def test_nodes_are_started_as_target_ray_does() -> None:
    assert (ray_nodes.LABEL, ray_nodes.ONLY_HOST) == (LABEL, ONLY_HOST)
    for groups in (ONE_HOST, TWO_HOSTS):
        files = emit(target("ray"), read_start(map_text(groups))).files
        nodes = []
        for name, text in files.items():
            if name.endswith(".sh"):
                words = dict(word.split("=", 1) for word in text.splitlines()[-1].split() if "=" in word)
                label = words["--labels"].partition("=")[2]
                nodes.append(node(label, words["CUDA_VISIBLE_DEVICES"], gpus=int(words["--num-gpus"])))
        verdict = compare_nodes(parse_wanted(map_text(groups), name="map.yaml"), nodes, None)
        assert verdict.is_right, verdict.nodes
        assert len(verdict.idle) == len(read_start(map_text(groups)).pools)


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([node("node0", "5,2")], "no node of Ray, or more than one, is node1; it has node0: start it with --labels=placement.host=node1"),
        ([node("node0", "5,2"), node("node1", "0,7")], "node1: the node was started where CUDA_VISIBLE_DEVICES is 0,7, and the map"),
        ([node("node0", None), node("node1", "7,0")], "node0: the node was started where CUDA_VISIBLE_DEVICES is not set"),
        ([node("node0", "5,2"), node("node1", "7,0", gpus=1)], "node1: Ray hands out 1 GPUs, and the map uses 2 (7,0)"),
    ],
)
def test_nodes_that_differ_are_named(nodes: list[Node], said: str) -> None:
    verdict = compare_nodes(parse_wanted(map_text(FOUR), name="map.yaml"), nodes, None)
    assert not verdict.is_right
    assert said in verdict.nodes[0]


@pytest.mark.parametrize(("wanted_by", "is_right"), [(None, True), ("openrlhf", True), ("ray", False), ("verl", False)])
def test_a_job_of_which_no_rank_is_heard_is_not_right_where_ranks_tell(wanted_by: str | None, is_right: bool) -> None:
    nodes = [node("node0", "5,2"), node("node1", "7,0")]
    everything = dataclasses.replace(parse_wanted(map_text(FOUR), name="map.yaml"), target=wanted_by)
    verdict = compare_nodes(everything, nodes, None)
    assert verdict.nodes == ()
    assert (verdict.is_right, verdict.is_unheard) == (is_right, not is_right)


def test_other_targets_order_gpus_themselves() -> None:
    """Of their nodes the set counts; a GPU that is not offered is named."""
    nodes = [node("node0", "2,5"), node("node1", "0,3")]
    everything = dataclasses.replace(parse_wanted(map_text(FOUR), name="map.yaml"), target="skyrl")
    assert compare_nodes(everything, nodes, None).nodes == (
        "node1: the node was started where CUDA_VISIBLE_DEVICES is 0,3, and the map uses GPU 7 too",
    )


def test_the_token_of_ray_is_named_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    assert token_hint() == ""
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").touch()
    assert "RAY_AUTH_MODE=token" in token_hint()
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    assert token_hint() == ""


# ── the library call, and the command in a plain process ────────────────────────────────────────────────────────────────


def test_preflight_says_all_in_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "map.yaml").write_text(map_text(ONE_HOST), encoding="utf-8")
    for name, value in place(1, 4, 1, 4, "5,2,7,0").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PLACEMENT_ROLES", "actor,ref")
    placement.preflight(tmp_path / "map.yaml")
    monkeypatch.setenv("PLACEMENT_HOST", "here")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(PreflightError) as error:
        placement.preflight(str(tmp_path / "map.yaml"))
    lines = str(error.value).splitlines()
    assert lines[0] == "rank 1 of actor and ref on here is not where the map has it:"
    assert [line[:24] for line in lines[1:]] == ["  - the job has 2 ranks ", "  - CUDA_VISIBLE_DEVICES"]
    with pytest.raises(PreflightError, match="critic and reward"):
        placement.preflight(tmp_path / "map.yaml", role="critic")
    with pytest.raises(InputError, match="there is no device map 'none"):
        placement.preflight("none.yaml")


def test_preflight_takes_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `placement.load` returns it; of a plan the groups count, and the machine where it is recorded."""
    nothing: Any = None
    plan = placement.Plan(
        verdict="", device_map={"actor": (1, 0)}, ordinals={}, environment={}, roles={}, memory_mib=(), host_memory_mib=(),
        estimate=nothing, proof=nothing, comparison=nothing,
    )  # fmt: skip
    for name, value in place(1, 2, 1, 2, "1,0").items():
        monkeypatch.setenv(name, value)
    placement.preflight(plan)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with pytest.raises(PreflightError, match="has the order 1,0"):
        placement.preflight(plan, role="actor")


def test_preflight_loads_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "map.yaml").write_text(map_text({"actor": [0]}), encoding="utf-8")
    code = (
        "import placement, sys; placement.preflight('map.yaml'); "
        "print({'torch', 'ray', 'ortools', 'networkx', 'pydantic', 'numpy', 'typer'} & set(sys.modules))"
    )
    env = {**os.environ, **place(0, 1, 0, 1, "0")}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(("visible", "code", "last"), [("5,2,7,0", 0, "right"), ("0,2,5,7", 1, None)])
def test_the_command_in_a_plain_process(tmp_path: Path, visible: str, code: int, last: str | None) -> None:
    (tmp_path / "map.yaml").write_text(map_text(ONE_HOST), encoding="utf-8")
    command = [sys.executable, "-m", "placement", "verify", "map.yaml", "--role", "ref", "--host", "a"]
    env = {**os.environ, **ORDER, "CUDA_VISIBLE_DEVICES": visible}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    assert done.stdout.splitlines()[:2] == ["actor, ref: 4 GPUs", "this process: a"]
    assert last in (None, done.stdout.splitlines()[-1])


def test_a_driver_names_the_cards(tmp_path: Path) -> None:
    """The real library of NVIDIA's bindings on a driver that a C file plays; GPU k has UUID …-k and its bus is 7 + 8k."""
    driver = Driver(tmp_path)
    groups: Groups = {"actor": [2, 0]}
    (tmp_path / "map.yaml").write_text(map_text(groups), encoding="utf-8")
    machine_file = driver.write(machine(4))
    env = {
        **driver.environment, "NVML_STUB_MACHINE": str(machine_file), "PLACEMENT_HOST": "a",
        **place(0, 1, 0, 1, "2,0"),
    }  # fmt: skip
    command = [sys.executable, "-m", "placement", "verify", "map.yaml"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    assert "rank 0: a, local rank 0, GPU 2 (GPU-00000000-0000-0000-0000-000000000002, 0000:17:00.0)" in done.stdout
    assert "the job has 1 rank (WORLD_SIZE), and the map gives actor 2 GPUs: start one process for each GPU" in done.stdout
    env |= {"CUDA_VISIBLE_DEVICES": "2,4"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert "CUDA_VISIBLE_DEVICES names GPU 4, and this host has 4 GPUs: CUDA stops reading there" in done.stdout


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({}, "the map has several pools"),
        ({"RANK": "1"}, "RANK is set and WORLD_SIZE is not"),
        ({"RAY_ADDRESS": "127.0.0.1:1"}, "--host says which host of the map a process is on"),
    ],
)
def test_the_command_refuses_in_one_line(tmp_path: Path, env: dict[str, str], said: str) -> None:
    (tmp_path / "map.yaml").write_text(map_text(ONE_HOST), encoding="utf-8")
    role = ["--role", "actor"] if "RANK" in env else []
    command = [sys.executable, "-m", "placement", "verify", "map.yaml", "--host", "a", *role]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **env}, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
