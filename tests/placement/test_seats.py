"""Groups of a device map as seats."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.errors import InputError
from placement.maps.seats import Pool, Seat, pools, read_seats
from placement.text import strict_yaml


def read(text: str) -> dict[str, tuple[Seat, ...]]:
    return dict(read_seats(strict_yaml.load(text, name="map.yaml")))


def test_one_host() -> None:
    found = read("verdict: x\ndevice_map: {actor: [2, 3], critic: [0]}")
    assert found == {"actor": (Seat(None, 2), Seat(None, 3)), "critic": (Seat(None, 0),)}
    assert str(found["actor"][0]) == "2"


def test_several_hosts_keep_the_order_of_ranks() -> None:
    found = read("device_map: {actor: [node1:0, node1:1, 'node0:7'], ref: ['fe80::1:3']}")
    assert [str(seat) for seat in found["actor"]] == ["node1:0", "node1:1", "node0:7"]
    assert found["ref"] == (Seat("fe80::1", 3),)


def test_roles_with_the_same_group_share_a_pool() -> None:
    found = read("device_map: {actor: [0, 1], critic: [2, 3], ref: [0, 1], reward: [3, 2]}")
    assert pools(found) == (
        Pool(("actor", "ref"), found["actor"]),
        Pool(("critic",), found["critic"]),
        Pool(("reward",), found["reward"]),
    )


WRONG = {
    "a list": ("[1, 2]", "map.yaml:1:1: this is no device map"),
    "no groups": ("verdict: none", "map.yaml:1:1: this is no device map: it has no key `device_map`"),
    "no plan": ("verdict: no plan fits\ndevice_map: null", "map.yaml:2:13: the map holds no plan: no plan fits"),
    "a list of groups": ("device_map: [0, 1]", "map.yaml:1:13: device_map is a mapping from roles to lists of GPUs"),
    "empty": ("device_map: {}", "map.yaml:1:13: device_map is a mapping from roles to lists of GPUs"),
    "an empty group": ("device_map: {actor: []}", "map.yaml:1:21: actor is a list of at least one GPU"),
    "a number": ("device_map: {actor: 3}", "map.yaml:1:21: actor is a list of at least one GPU"),
    "negative": ("device_map: {actor: [0, -1]}", "map.yaml:1:25: actor: -1 is no GPU"),
    "text": ("device_map: {actor: [0, one]}", "map.yaml:1:25: actor: 'one' is no GPU"),
    "true": ("device_map: {actor: [true]}", "map.yaml:1:22: actor: True is no GPU"),
    "leading zero": ("device_map: {actor: [node0:01]}", "map.yaml:1:22: actor: 'node0:01' is no GPU"),
    "twice": ("device_map: {actor: [4, 5, 4]}", "map.yaml:1:28: actor: GPU 4 is there twice, as rank 0 and as rank 2"),
    "some named": ("device_map: {actor: ['a:0'], ref: [0]}", "map.yaml:1:36: ref: the entry 0 names no host, and others do"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_maps_are_refused_where_they_are_wrong(name: str) -> None:
    text, says = WRONG[name]
    with pytest.raises(InputError) as caught:
        read(text)
    assert str(caught.value).startswith(says)


GROUPS = st.dictionaries(
    st.sampled_from(["actor", "critic", "ref", "reward"]), st.lists(st.integers(0, 20), min_size=1, max_size=6, unique=True), min_size=1
)


@given(GROUPS)
def test_pools_hold_every_role_once_and_its_seats_in_order(groups: dict[str, list[int]]) -> None:
    found = read(strict_yaml.dump({"device_map": groups}))
    made = pools(found)
    assert sorted(role for pool in made for role in pool.roles) == sorted(groups)
    for pool in made:
        for role in pool.roles:
            assert [seat.gpu for seat in pool.seats] == groups[role]


def test_reading_costs_no_heavy_import() -> None:
    """A job imports this on every node: no solver, no graph, no model of the schema."""
    code = (
        "import sys; import placement.maps.seats, placement.targets.verl_pools, placement.targets.verl_ranks, "
        "placement.targets.verl_agreement, placement.targets.verl_lanes; "
        "print([m for m in ('ortools', 'networkx', 'pydantic', 'torch', 'ray', 'rich', 'typer', 'numpy', 'solvers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
