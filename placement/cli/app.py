"""
The commands and their options. What they do is in one module each, imported only when the command runs.

When to modify: an option is added or renamed.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Optional

import typer

app = typer.Typer(
    name="placement",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="Which role of a reinforcement-learning job runs on which GPU: topology-aware and proven optimal.",
)


class _Objective(StrEnum):
    step = "step"
    memory = "memory"
    gpus = "gpus"
    bandwidth = "bandwidth"


class _Solver(StrEnum):
    cpsat = "cpsat"
    exhaustive = "exhaustive"
    greedy = "greedy"


class _Shipped(StrEnum):
    gpus = "gpus"
    models = "models"
    machines = "machines"
    workloads = "workloads"
    rules = "rules"


class _Schema(StrEnum):
    workload = "workload"


Gpu = Annotated[
    Optional[str],  # noqa: UP045 - typer reads the annotation
    typer.Option("--gpu", metavar="CARDS", help="Cards where no source names them: a100-40gb, or 0-3=a100-40gb,4-7=a100-80gb."),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Output = Annotated[Optional[Path], typer.Option("-o", "--output", metavar="FILE", help="Write the result here.")]  # noqa: UP045
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]


def _version(value: bool) -> None:
    if value:
        from placement._version import __version__
        from placement.output import write_stdout

        write_stdout(f"placement {__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    pass


@app.command()
def plan(
    topology: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="SRC",
            help="The machine: a file, - (standard input), a shipped name, live, or several joined by +. "
            "Default: this host if an NVIDIA driver answers.",
        ),
    ] = None,
    workload: Annotated[
        str, typer.Option(metavar="SRC", help="The job: a file, -, or a shipped name.")
    ] = "ppo-7b",
    gpu: Gpu = None,
    visible: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="IDS", help="GPUs that the job may see, as in CUDA_VISIBLE_DEVICES: 0,1,4-7 or UUIDs."),
    ] = None,
    rules: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="SPEC", help="A preset and switches: guide,contiguity=off,reserve=8%; all compares the presets."),
    ] = None,
    objective: Annotated[_Objective, typer.Option(help="What comes first.")] = _Objective.step,
    within: Annotated[
        float, typer.Option(metavar="PCT", help="Band around the shortest step in which other terms count, percent.")
    ] = 2.0,
    time_limit: Annotated[float, typer.Option(metavar="S", min=0.0, help="Seconds for solving.")] = 60.0,
    solver: Annotated[_Solver, typer.Option(help="What solves it.")] = _Solver.cpsat,
    workers: Annotated[int, typer.Option(metavar="N", min=1, max=256, help="Solver threads; the answer is the same.")] = 1,
    output: Output = None,
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """Machine + job → device map, proven optimal. YAML on standard output, the table on standard error."""
    from placement.cli import plan as command

    return command.run(
        topology=topology or [],
        workload=workload,
        cards=gpu,
        visible=visible,
        rules=rules or [],
        objective=objective.value,
        within_percent=within,
        time_limit_s=time_limit,
        solver=solver.value,
        workers=workers,
        output=output,
        force=force,
        as_json=as_json,
    )


@app.command()
def topology(
    source: Annotated[str, typer.Argument(metavar="SRC", help="A file, -, a shipped name, live, or several joined by +.")],
    gpu: Gpu = None,
    as_json: AsJson = False,
    as_yaml: Annotated[bool, typer.Option("--yaml", help="The same document as YAML: a topology file.")] = False,
    svg: Annotated[Optional[Path], typer.Option("--svg", metavar="FILE", help="Draw the machine.")] = None,  # noqa: UP045
    force: Force = False,
) -> int:
    """Show what was read: matrix, islands, memory, NICs, warnings."""
    from placement.cli import topology as command

    return command.run(source, cards=gpu, as_json=as_json, as_yaml=as_yaml, svg=svg, force=force)


@app.command()
def catalog(
    kind: Annotated[Optional[_Shipped], typer.Argument(help="What to list; everything when left out.")] = None,  # noqa: UP045
    as_json: AsJson = False,
) -> int:
    """List what is shipped: GPUs, models, machines, workloads, rules."""
    from placement.cli import catalog as command

    return command.run(kind.value if kind else None, as_json=as_json)


@app.command()
def schema(name: Annotated[_Schema, typer.Argument(help="Which document.")] = _Schema.workload) -> int:
    """Print a JSON Schema for editors."""
    from placement import workload_file
    from placement.output import json_text, write_stdout

    assert name is _Schema.workload
    write_stdout(json_text(workload_file.json_schema()))
    return 0
