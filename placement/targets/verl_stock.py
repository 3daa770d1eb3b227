"""
Target ``verl-stock``: verl as it is, with the GPUs of its pools in the order of `ray start`.

verl gives its pools the first free GPUs of a node, in the order of CUDA_VISIBLE_DEVICES of ``ray start``, and makes pools in a fixed order:
so the list that Ray is started with decides which GPU each rank gets (tests/verl).

When to modify: verl makes pools in another order, or can be told GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placement.errors import InputError
from placement.maps.seats import Pool
from placement.maps.variables import NOSET
from placement.targets.shell import ORDER, assignments, host_file, script, visible
from placement.targets.start import Start
from placement.targets.target import Emitted, Target
from placement.targets.verl_keys import versions
from placement.targets.verl_limits import cpus_per_node, problems
from placement.targets.verl_overrides import config_name, overrides
from placement.targets.verl_read import read_back

ONE_STEP_OFF = "stock verl runs one_step_off by an entry point of its own (experimental/one_step_off_policy), which no file is written for"


def creation_order(start: Start) -> tuple[Pool, ...]:
    """Return the pools as verl makes them: training, reward model, rollout (trainer/ppo/v1/trainer_base.py)."""
    place = {"actor": 0, "critic": 0, "ref": 0, "reward": 1, "rollout": 2}
    return tuple(sorted(start.pools, key=lambda pool: min(place[role] for role in pool.roles)))


def _emit(start: Start, version: str) -> Emitted:
    refuse(start)
    if start.schedule.overlaps_generation and start.schedule != "async":
        raise InputError(f"target verl-stock: {ONE_STEP_OFF}; plan with `schedule: async`")
    order = creation_order(start)
    lines = overrides(start, version)
    files = {"overrides.txt": "".join(f"{line}\n" for line in lines)}
    if len(start.hosts) == 1:
        gpus = ",".join(map(str, start.visible(start.hosts[0], order)))
        files["overrides-running-cluster.txt"] = (
            f'+ray_kwargs.ray_init.runtime_env.env_vars.CUDA_VISIBLE_DEVICES="{gpus}"\n'
            f"+ray_kwargs.ray_init.runtime_env.env_vars.CUDA_DEVICE_ORDER={ORDER['CUDA_DEVICE_ORDER']}\n"
        )
    files |= ray_start(start, {host: start.visible(host, order) for host in start.hosts})
    files["launch.sh"] = launch(config_name(start), version)
    return Emitted(files, notes(start, version))


def refuse(start: Start) -> None:
    """
    Refuse what verl cannot run.

    Raises
    ------
    InputError
        With all reasons.
    """
    wrong = list(problems(start))
    if wrong:
        raise InputError(f"verl cannot run this map: {'; '.join(wrong)}")


def ray_start(start: Start, offered: Mapping[str | None, Sequence[int]], *, named: bool = False) -> dict[str, str]:
    """
    Return the scripts that start Ray, one for each host: the first is the head.

    Parameters
    ----------
    offered
        The GPUs of each host in the order in which its node offers them.
    named
        Whether nodes are given the names of their hosts.
    """
    files = {}
    for k, host in enumerate(start.hosts):
        gpus = offered[host]
        where = "--head --port=6379" if k == 0 else '--address="$1:6379"'
        name = host_file("ray-start", host, ".sh")
        comment = f"bash {name}{'' if k == 0 else ' HEAD_ADDRESS'}: GPUs in the order in which verl takes them. Ray must not run here yet."
        check = f'[ -z "${{{NOSET}:-}}" ] || {{ echo "unset {NOSET}: with it every worker sees all GPUs" >&2; exit 1; }}'
        cpus = cpus_per_node(start)
        too_few = f"verl asks Ray for {cpus} CPUs here, and this host has $(nproc): its pools would wait for ever"
        enough = f'[ "$(nproc)" -ge {cpus} ] || echo "{too_few}" >&2'
        if named and host is not None:
            where += f" --node-name={host}"
        files[name] = script(comment, [check, enough, f"{assignments(visible(gpus))} ray start {where} --num-gpus={len(gpus)}"])
    return files


def launch(config: str, version: str, *, before: Sequence[str] = (), more: Sequence[str] = ()) -> str:
    """
    Return the script that starts verl with the overrides and what is given on its command line.

    Parameters
    ----------
    before
        Lines before the command.
    more
        Words of the command that need the shell.
    """
    comment = (
        f"bash launch.sh data.train_files=… data.val_files=… : starts verl {version} with the overrides beside this file.\n"
        "What you add comes last, and wins."
    )
    lines = [
        'here=$(cd "$(dirname "$0")" && pwd)',
        *before,
        'mapfile -t overrides < "$here/overrides.txt"',
        " ".join(["python3 -m verl.trainer.main_ppo", f"--config-name={config}", '"${overrides[@]}"', *more, '"$@"']),
    ]
    return script(comment, lines)


def notes(start: Start, version: str) -> tuple[str, ...]:
    """Return what whoever starts verl must know."""
    said = [
        f"written for verl {version}; the map holds only on a Ray cluster that nothing else uses: a busy GPU moves all after it",
    ]
    if len(start.hosts) > 1:
        said.append(
            "verl orders nodes by their addresses as text (10.0.0.10 before 10.0.0.2): give the hosts of the map addresses in that order"
        )
    return (*said, *served(start))


def served(start: Start) -> tuple[str, ...]:
    """Return what whoever starts verl must know of its reward model, where there is one."""
    if "reward" not in start.roles:
        return ()
    return ("verl serves the reward model with an engine: gpu_memory_utilization is its weights and 4 GiB; the plan counts forward passes",)


TARGET = Target(
    name="verl-stock",
    title="verl, as it is",
    versions=versions(),
    pins="the order of CUDA_VISIBLE_DEVICES of `ray start`",
    keeps="yes, on each host; hosts by address as text",
    writes={
        "overrides.txt": "Hydra overrides, one a line",
        "overrides-running-cluster.txt": "two more, where Ray runs already on one host",
        "ray-start.sh": "starts Ray, for each host",
        "launch.sh": "starts verl",
    },
    parser="configuration tree (hydra-core), main_ppo and worker groups of verl 0.9.1 on Ray; older versions: a table of their keys",
    cannot=(
        "critic or ref on GPUs of their own: `verl` (our trainer) can",
        "hosts with unequal numbers of GPUs in a pool: its pools would wait for ever",
        "schedule one_step_off: it has an entry point of its own",
    ),
    emit=_emit,
    reads=read_back,
)
