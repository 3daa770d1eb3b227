"""
Target ``verl``: verl with our trainer mode ``placed``, which builds the pools of a map (`placement.targets.verl_runtime`).

What stock verl takes as overrides is written as for it (`placement.targets.verl_stock`); the groups go in a file of their own that the
trainer reads, and the nodes are started so that Ray hands out GPUs in the order in which the trainer makes its pools.

When to modify: the trainer mode takes other keys, or the nodes must be started otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from placement.errors import InputError
from placement.maps.seats import Seat, read_seats
from placement.targets.blocks import entries
from placement.targets.start import Start
from placement.targets.target import Emitted, Entry, Files, Target
from placement.targets.verl_overrides import config_name, overrides
from placement.targets.verl_pools import MAP_KEY, MODULE, TRIED, node_list, verl_pools
from placement.targets.verl_stock import launch, ray_start, refuse, served
from placement.text import strict_yaml
from placement.workloads.workload import RoleName

MAP = "groups.yaml"
"""The groups of the map: all that the trainer reads, so that the file stays what it was when the job started."""

MODULE_KEY = "VERL_USE_EXTERNAL_MODULES"

HYDRA_READS = (
    """case "$here" in *[\\'\\\\]*|*'${'*) echo "$here: Hydra cannot read a quote, a backslash or \\${ in this name" >&2; exit 1;; esac"""
)
"""What cannot be quoted for Hydra is refused before it fails."""

LINES = (
    "trainer.v1.trainer_mode=placed",
    f"+ray_kwargs.ray_init.runtime_env.env_vars.{MODULE_KEY}={MODULE}",
)
"""The trainer mode, and the module that registers it, for the task runner of a Ray that runs already."""


def _refuses(start: Start) -> Iterator[str]:
    try:
        verl_pools(start.seats)
    except InputError as error:
        yield str(error)
    actor = start.workload.role(RoleName.ACTOR)
    assert actor is not None
    if actor.train is not None and actor.train.lora and "ref" in start.roles and "ref" not in start.pool_of("actor").roles:
        yield "with LoRA the actor without its adapter is the reference, and ref has other GPUs: verl would ignore them"


def _emit(start: Start, version: str) -> Emitted:
    refuse(start)
    pools = verl_pools(start.seats)
    lines = (*overrides(start, version), *LINES)
    files = {
        MAP: strict_yaml.dump({"device_map": {role: list(group) for role, group in _entries(start.seats).items()}}),
        "overrides.txt": "".join(f"{line}\n" for line in lines),
        **ray_start(start, {host: node_list(pools, host) for host in start.hosts}, named=True),
        "launch.sh": launch(
            config_name(start), version, before=[HYDRA_READS, f"export {MODULE_KEY}={MODULE}"], more=[f"\"+{MAP_KEY}='$here/{MAP}'\""]
        ),
    }
    notes = [
        f"written for verl {version}; `bash launch.sh … trainer.v1.trainer_mode=placed_probe` prints where each rank is, and stops",
        "this package must be installed on every node of the cluster, and nothing else may use the cluster's GPUs",
    ]
    if len(start.hosts) > 1:
        notes.append(f"{MAP} must lie under the same path on every node: verl's task runner, which reads it, may be on any of them")
    return Emitted(files, (*notes, *served(start)))


def read_back(files: Files) -> dict[str, tuple[Entry, ...]]:
    """Return role → GPUs from the files."""
    return _entries(read_seats(strict_yaml.load(files[MAP], name=MAP)))


def _entries(seats: Mapping[str, Sequence[Seat]]) -> dict[str, tuple[Entry, ...]]:
    """Return groups as a map writes them."""
    return entries({role: tuple((seat.host, seat.gpu) for seat in group) for role, group in seats.items()})


TARGET = Target(
    name="verl",
    title="verl, with our trainer mode `placed`",
    versions=TRIED,
    pins=f"ids, by {MAP}; a rank elsewhere is an error before a model is loaded",
    keeps="yes, on any hosts",
    writes={
        MAP: "the groups, which the trainer reads",
        "overrides.txt": "Hydra overrides, one a line",
        "ray-start.sh": "starts Ray, for each host",
        "launch.sh": "starts verl with the trainer",
    },
    parser="configuration tree (hydra-core), main_ppo, trainer and worker groups of verl 0.9.1 on Ray with declared GPUs",
    cannot=(
        "a rollout on GPUs of its own: the actor generates",
        "pools that share some of their GPUs, or all in another order of ranks",
        "hosts with unequal numbers of GPUs in a pool: verl's pools have equally many on each",
        "a reference on GPUs of its own with LoRA: the actor without its adapter is the reference",
    ),
    emit=_emit,
    reads=read_back,
    refuses=_refuses,
)
