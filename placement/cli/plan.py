"""
`placement plan`: machine + job → device map.

When to modify: what the command reads, writes or says.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from placement.cli import EXIT_INTERRUPTED, EXIT_NO, EXIT_TIME, kinds
from placement.cli.say import Progress, note
from placement.constants.table import Override
from placement.errors import InputError
from placement.machines.hosts import with_memory
from placement.machines.sources import machine, visible_gpus
from placement.maps.assumptions import must_know, overridden
from placement.maps.devicemap import dump, to_document
from placement.maps.replay import constants_of
from placement.planner import Outcome, SolverName, plan
from placement.program.instance import Instance, Objective, make_instance
from placement.text.output import json_text, refuse_unwritable, write_file, write_stdout
from placement.workloads.rules import Rules, parse_rules
from placement.workloads.target_rules import target_rules
from placement.workloads.workload import Workload
from solvers.result import Options, Status
from topologies.model import Topology


def run(
    *,
    topology: list[str],
    workload: str,
    cards: str | None,
    visible: str | None,
    host_memory_mib: int | None = None,
    rules: list[str],
    target: str | None = None,
    objective: str,
    smallest: str | None = None,
    within_percent: float,
    time_limit_s: float,
    solver: str,
    workers: int,
    constants: Path | None = None,
    calibrate: Path | None = None,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> int:
    """Plan and report; return the exit code."""
    from placement.catalog import load_workload

    presets = "all" in (word.strip() for spec in rules for word in spec.split(","))
    if output is not None:
        if presets:
            raise InputError(
                "--rules all compares the presets and has no map to write: leave out -o, or name one preset "
                "(with --json all maps are on standard output)"
            )
        refuse_unwritable(output, force=force)
    if smallest is not None:
        from placement.cli import smallest as inverse

        inverse.refuse(smallest, presets=presets, cards=cards, solver=solver, calibrates=calibrate is not None)
    if presets and calibrate is not None:
        raise InputError(
            "--rules all compares the presets, each with another plan: calibrate with one of them, write its map with -o, and give that "
            "map as --constants"
        )
    if len(topology) > 1:
        raise InputError("`plan` takes one machine; join sources of one machine with + (topo.txt+gpus.csv)")
    source = topology[0] if topology else None
    if workload == "-" and source is not None and "-" in source.split("+"):
        raise InputError("--topology - and --workload - both read standard input: only one of them can, name a file for the other")
    job = kinds.reading("workload", workload, lambda: load_workload(workload))
    found = kinds.reading("topology", source or "", lambda: machine(source, cards=cards, say=note))
    for warning in found.topology.warnings:
        note(f"warning: {warning}")
    specs = [*_of_target(target, job), job.rules or "", *rules]
    ids = visible_gpus(visible, found)
    hosts = found.topology if host_memory_mib is None else with_memory(found.topology, host_memory_mib, say=note)
    overrides = _constants(constants)
    options = Options(time_limit_s=time_limit_s, workers=workers)

    def ask(parsed: Rules, machine: Topology = hosts) -> Instance:
        return make_instance(
            machine,
            job,
            parsed,
            visible=ids,
            objective=Objective(objective),
            within_percent=within_percent,
            overrides=overrides,
        )

    if presets:
        from placement.cli.presets import compare

        return compare(specs, ask, SolverName(solver), options, as_json=as_json)
    if smallest is not None:
        chosen = parse_rules(*specs)
        looked = inverse.look(smallest, hosts, lambda machine: ask(chosen, machine), SolverName(solver), options)
        outcome, question = inverse.answer(looked, SolverName(solver), options)
        return _report(outcome, question, output=output, force=force, as_json=as_json, beside=inverse.document(looked))
    question = ask(parse_rules(*specs))
    if question.workload.schedule is not job.schedule:
        note(f"target {question.rules.target} runs schedule {question.workload.schedule}, and not {job.schedule}, which the job has")
    if calibrate is not None:
        from placement.cli.calibrate import calibrated

        question = calibrated(question, calibrate, solver=SolverName(solver), options=options)
    with Progress() as progress:
        outcome = plan(question, solver=SolverName(solver), options=replace(options, on_incumbent=progress.update))
    return _report(outcome, question, output=output, force=force, as_json=as_json)


def _constants(path: Path | None) -> tuple[Override, ...]:
    """Return the constants in *path*, and tell the user about them."""
    if path is None:
        return ()
    found = constants_of(path)
    if found is None:
        note(f"{path} was planned with the shipped constants: none is replaced")
    elif not found:
        note(f"{path} replaces no constant: what it names has the shipped value")
    for each in found or ():
        note(overridden(each))
    return found or ()


def _of_target(target: str | None, job: Workload) -> list[str]:
    """Return the rules that go with *target*: what it can express, and its reading of isolation."""
    if target is None:
        return []
    known = target_rules(target)
    preset = None if known is None else known.presets[0 if job.is_hybrid else 1]
    return [*filter(None, [preset]), f"target={target}"]


def _report(
    outcome: Outcome,
    question: Instance,
    *,
    output: Path | None,
    force: bool,
    as_json: bool,
    beside: Mapping[str, object] | None = None,
) -> int:
    """Say what came of *question*; *beside* stands beside it in the JSON document."""
    from placement.cli.notices import notices
    from placement.cli.table import plan_table

    if outcome.plan is None:
        note(outcome.verdict)
        for line in outcome.clash:
            note(f"  {line}" if line.startswith("(") else f"  because {line}")
        for line in must_know(question):
            note(line)
        if as_json:
            from placement.cli.presets import no_plan_document

            write_stdout(json_text({**no_plan_document(outcome), **(beside or {})}))
        if outcome.interrupted:
            return EXIT_INTERRUPTED
        return EXIT_NO if outcome.status is Status.INFEASIBLE else EXIT_TIME
    table = plan_table(outcome.plan, stream=sys.stderr, notices=notices(outcome.plan, question)).rstrip()
    text = json_text({**to_document(outcome.plan), **(beside or {})}) if as_json else dump(outcome.plan)
    if outcome.interrupted:
        # The user stopped us: the best plan so far is shown, but no file says that it is the answer.
        note(table)
        note(dump(outcome.plan))
        return EXIT_INTERRUPTED
    if output is not None:
        note(table)
        write_file(output, text, force=force)
        note(f"written to {output}")
    elif sys.stdout is not None and sys.stdout.isatty():
        # Somebody looks at both: the long map must not scroll the table away.
        write_stdout(text)
        note(table)
    else:
        note(table)
        write_stdout(text)
    return 0
