"""
The commands and their options (those in common: `parameters`). What they do is in one module each, imported only when the command runs.

When to modify: an option is added or renamed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from placement.cli.parameters import (
    CLUSTERS,
    DEVICES,
    MAX_WORKERS,
    OBJECTIVES,
    PRESETS,
    SCHEMAS,
    SHIPPED,
    SMALLEST,
    SOLVERS,
    SOURCES,
    TARGETS,
    AsJson,
    Command,
    Force,
    Gpu,
    Output,
    among,
    completes,
)

app = typer.Typer(
    name="placement",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="Which role of a reinforcement-learning job runs on which GPU: topology-aware and proven optimal.",
)


def _version(value: bool) -> None:
    if value:
        from placement._version import __version__
        from placement.text.output import write_stdout

        write_stdout(f"placement {__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    pass


@app.command(cls=Command)
def plan(
    topology: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="SRC",
            help=f"The machine: {SOURCES}. "
            "Default: live; on a host without an NVIDIA driver the shipped dgx-a100-80gb.",
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
    host_memory: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="AMOUNT", help="Memory of each host, where it is not what a source says: 1TiB, 512GiB."),
    ] = None,
    rules: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="SPEC",
            help="A preset and switches: guide,contiguity=off,reserve=8%. "
            f"Presets: {', '.join(PRESETS)}; all compares them. `placement catalog rules` says what they mean.",
        ),
    ] = None,
    target: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="NAME",
            help="The framework or launcher that is to run the plan: what it can express holds (rule target). `placement catalog targets` "
            "lists them.",
            autocompletion=completes(TARGETS),
        ),
    ] = None,
    objective: Annotated[
        str, typer.Option(metavar=among(OBJECTIVES), help="What comes first.", autocompletion=completes(OBJECTIVES))
    ] = "step",
    smallest: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar=among(SMALLEST),
            help="The inverse question: the fewest GPUs of the machine, or the smallest card in it, on which the job fits; its plan, and "
            "why the next smaller one does not do.",
            autocompletion=completes(SMALLEST),
        ),
    ] = None,
    within: Annotated[
        str,
        typer.Option(
            metavar="PCT",
            help="Percent: the band around the shortest step (at the objective's optimum, with another objective) in which "
            "other terms count.",
        ),
    ] = "2",
    time_limit: Annotated[str, typer.Option(metavar="S", help="Seconds for solving; for all presets together with --rules all.")] = "60",
    solver: Annotated[
        str, typer.Option(metavar=among(SOLVERS), help="What solves it.", autocompletion=completes(SOLVERS))
    ] = "cpsat",
    workers: Annotated[
        str, typer.Option(metavar="N", help=f"Solver threads, 1 to {MAX_WORKERS}; the answer is the same.")
    ] = "1",
    constants: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--constants",
            metavar="FILE",
            help="Numbers of the cost model of your own (YAML: name and value), or a map that was planned with such. "
            "`placement catalog constants` lists them.",
        ),
    ] = None,
    calibrate: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--calibrate",
            metavar="FILE",
            help="Measured times of a run's stages (YAML, or a log of verl or NeMo-RL): each stage is scaled to them.",
        ),
    ] = None,
    output: Output = None,
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """Machine + job → device map, proven optimal. YAML on standard output, the table on standard error."""
    from placement.cli import options
    from placement.cli import plan as command

    return command.run(
        topology=topology or [],
        workload=workload,
        cards=gpu,
        visible=visible,
        host_memory_mib=None if host_memory is None else options.memory_mib("--host-memory", host_memory),
        rules=rules or [],
        target=None if target is None else options.choice("--target", target, TARGETS),
        objective=options.choice("--objective", objective, OBJECTIVES),
        smallest=None if smallest is None else options.choice("--smallest", smallest, SMALLEST),
        within_percent=options.percentage("--within", within),
        time_limit_s=options.seconds("--time-limit", time_limit),
        solver=options.choice("--solver", solver, SOLVERS),
        workers=options.count("--workers", workers, most=MAX_WORKERS),
        constants=constants,
        calibrate=calibrate,
        output=output,
        force=force,
        as_json=as_json,
    )


@app.command(cls=Command)
def emit(
    source: Annotated[str, typer.Argument(metavar="MAP", help="A device map that `placement plan` wrote; - is standard input.")],
    target: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The framework or launcher: `placement catalog targets` lists them.",
            autocompletion=completes(TARGETS),
        ),
    ],
    target_version: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--target-version", metavar="V", help="Its version, where files differ; the usual one is its newest."),
    ] = None,
    directory: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("-d", "--directory", metavar="DIR", help="The folder for the files; it is made if it is not there."),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """Write the files from which a framework or launcher starts the map."""
    from placement.cli import emit as command
    from placement.cli import options

    return command.run(
        source,
        target=options.choice("--target", target, TARGETS),
        version=target_version,
        directory=directory,
        force=force,
        as_json=as_json,
    )


@app.command(cls=Command)
def verify(
    source: Annotated[str, typer.Argument(metavar="MAP", help="The device map that the job was started from.")],
    role: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="ROLE", help="The role of this process; by default what PLACEMENT_ROLES says, else the map's only pool."),
    ] = None,
    host: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="NAME", help="Which host of the map this is; by default what PLACEMENT_HOST says, else its own name."),
    ] = None,
    time_limit: Annotated[str, typer.Option(metavar="S", help="Seconds in which ranks, or nodes of Ray, must answer.")] = "60",
) -> int:
    """Inside a running job (torchrun, Ray, or one process): is every rank on the GPU that the map has for it?"""
    from placement.cli import options
    from placement.cli import verify as command

    return command.run(source, role=role, host=host, time_limit_s=options.seconds("--time-limit", time_limit))


@app.command(cls=Command, short_help="What a plan rests on, and what fills its GPUs.")
def explain(
    source: Annotated[str, typer.Argument(metavar="MAP", help="A device map that `placement plan` wrote; - is standard input.")],
    move: Annotated[
        str, typer.Option(metavar="PCT", help="Percent by which constants and facts of the machine are moved, 1 to 90.")
    ] = "20",
    time_limit: Annotated[str, typer.Option(metavar="S", help="Seconds for all of it; what is left then is named.")] = "60",
    as_json: AsJson = False,
) -> int:
    """What bounds every stage of a plan, what fills its GPUs, and which numbers its choice rests on."""
    from placement.cli import explain as command
    from placement.cli import options

    return command.run(
        source,
        moved_percent=options.percentage("--move", move, least=1, most=90),
        time_limit_s=options.seconds("--time-limit", time_limit),
        as_json=as_json,
    )


@app.command(cls=Command)
def topology(
    source: Annotated[str, typer.Argument(metavar="SRC", help=f"The machine or cluster: {SOURCES}, {CLUSTERS}.")],
    gpu: Gpu = None,
    as_json: AsJson = False,
    as_yaml: Annotated[bool, typer.Option("--yaml", help="The same document as YAML: a topology file.")] = False,
    svg: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--svg", metavar="FILE", help="Draw the machine in FILE, - is standard output, instead of printing the page."),
    ] = None,
    force: Force = False,
) -> int:
    """Show what was read: matrix, islands, memory, NICs, warnings."""
    from placement.cli import topology as command

    if as_json and as_yaml:
        from placement.errors import InputError

        raise InputError("--json and --yaml both write to standard output: give one of them")
    return command.run(source, cards=gpu, as_json=as_json, as_yaml=as_yaml, svg=svg, force=force)


@app.command(cls=Command)
def collect(
    sources: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(
            metavar="FILE",
            help="A file for each host (node0.txt, or node0/topo.txt), folders of them, or the output of pdsh, srun -l, clush, ansible; "
            "- is standard input.",
        ),
    ] = None,
    network: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="FILE",
            help="What joins the hosts: rails, gb_per_s and domains in YAML, topology.conf or `scontrol show topology` of Slurm, "
            "a tree of topograph.",
        ),
    ] = None,
    ray: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="ADDRESS", help="Ask every node of a running Ray cluster instead: auto, HOST:6379, ray://HOST:10001."),
    ] = None,
    probe: Annotated[
        str, typer.Option(metavar="SRC", help="What each node of the Ray cluster reads: live, or a file that it has.")
    ] = "live",
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Leave out hosts that cannot be read.")] = False,
    output: Output = None,
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """One topology file out of many hosts. YAML on standard output, what was found on standard error."""
    from placement.cli import collect as command

    return command.run(
        sources or [],
        networks=network or [],
        ray=ray,
        probe=probe,
        keep_going=keep_going,
        output=output,
        force=force,
        as_json=as_json,
    )


@app.command(cls=Command, short_help="List what is shipped, from GPUs to constants.")
def catalog(
    kind: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(
            metavar=among(SHIPPED), help="What to list; everything when left out.", autocompletion=completes(SHIPPED)
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """List what is shipped: GPUs, models, machines, workloads, rules, presets, constants, targets."""
    from placement.cli import catalog as command
    from placement.cli import options

    return command.run(None if kind is None else options.choice("the kind", kind, SHIPPED), as_json=as_json)


@app.command(cls=Command)
def schema(
    name: Annotated[
        str, typer.Argument(metavar=among(SCHEMAS), help="Which document.", autocompletion=completes(SCHEMAS))
    ] = "workload",
) -> int:
    """Print a JSON Schema for editors."""
    from placement.cli import options
    from placement.text.output import json_text, write_stdout
    from placement.workloads import workload_file

    options.choice("the schema", name, SCHEMAS)
    write_stdout(json_text(workload_file.json_schema()))
    return 0


@app.command(cls=Command)
def validate(
    folder: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Argument(metavar="FOLDER", help="Measurements laid out like the shipped ones, which are taken when left out."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Hold predictions against published measurements, row by row."""
    from placement.cli import validate as command

    return command.run(folder, as_json=as_json)


@app.command(cls=Command, short_help="Measure this host's GPUs into a topology file.")
def measure(
    topology: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="SRC", help="What is known of this host beside what its driver tells: a topology file of it."),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            metavar=among(DEVICES),
            help="What is measured: the GPUs of this host, or the CPU in their place, a rehearsal that no plan uses.",
            autocompletion=completes(DEVICES),
        ),
    ] = "cuda",
    processes: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="N", help="With --device cpu: how many GPUs are rehearsed; 2, or those of --topology."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and shorter runs: seconds instead of a minute, with more spread.")] = False,
    busy: Annotated[bool, typer.Option("--busy", help="Measure although other processes use the GPUs.")] = False,
    output: Output = None,
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """Measure this host's GPUs with torch: copies, all-reduces, matrix products, memory. A topology file on standard output."""
    from placement.cli import measure as command
    from placement.cli import options

    return command.run(
        topology,
        device=options.choice("--device", device, DEVICES),
        processes=None if processes is None else options.count("--processes", processes, most=command.MOST_PROCESSES),
        quick=quick,
        busy=busy,
        output=output,
        force=force,
        as_json=as_json,
    )
