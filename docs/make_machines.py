"""
Plan every shipped workload on every shipped machine and write the table ``docs/machines.md``.

    python docs/make_machines.py            write it
    python docs/make_machines.py --check    plan all, and fail if anything but the solve times differs from what is written

Each plan is checked again by `placement.checking`, which imports no solver and shares the cost model alone with planning.
"""

from __future__ import annotations

import argparse
import platform
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from placement.catalog import load_workload, workload_names
from placement.checking import problems
from placement.planner import Outcome, plan
from placement.program.instance import make_instance
from placement.program.prices import PROVEN, seconds
from placement.workloads.rules import parse_rules
from topologies import sources
from topologies.catalog import machine_names

TABLE = Path(__file__).with_name("machines.md")
HEAD = """\
# Every shipped machine × every shipped workload

Default rules (preset `guide`), default time limit, one solver worker. *step* is the predicted step time of the plan, which is the best
in the band of 2 % around the shortest step ([how a plan is chosen](model.md#how-a-plan-is-chosen)); *status* `optimal` says that every
term is proven. *Rules cost* compares the shortest step with the one that isolation, contiguity, same_card, min_gpus and reward_reserve
forbid. *Colocated* is the trivial plan (every role on all GPUs). Where there is no plan, rules and facts that cannot hold together stand
in its place. Made by `python docs/make_machines.py`; CI plans the whole matrix again and compares everything but the solve times.

![PPO on a DGX-1](img/dgx-1.svg)

![PPO on A100 of 40 and 80 GB](img/mixed.svg)

![PPO on eight L40S](img/l40s.svg)

Solve times on: {machine}.

| machine | workload | status | step | GPUs | rules cost | colocated | solve s |
|---|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    machine: str
    workload: str
    outcome: Outcome
    solve_s: float

    def text(self, *, with_time: bool) -> str:
        """Return the line; the solve time is the only part that changes from run to run."""
        time_cell = f"{self.solve_s:.2f}" if with_time else ""
        if self.outcome.plan is None:
            why = "; ".join(self.outcome.clash)
            return f"| {self.machine} | {self.workload} | {self.outcome.status} | – | – | – | {why} | {time_cell} |"
        p = self.outcome.plan
        free, colocated = p.comparison.free.step_us, p.comparison.colocated
        proven = free and p.comparison.free.note == PROVEN
        cost = f"{100 * (p.proof.objective - free) / free:.1f} %" if proven else p.comparison.free.note
        other = seconds(colocated.step_us) if colocated.step_us else colocated.note
        return (
            f"| {self.machine} | {self.workload} | {p.proof.status} | {seconds(p.estimate.step_us)} | {len(p.used_gpus)} | "
            f"{cost} | {other} | {time_cell} |"
        )


def rows() -> list[Row]:
    """Plan the whole matrix."""
    found = []
    for machine in machine_names():
        topology = sources.load(machine)
        for name in workload_names():
            workload = load_workload(name)
            question = make_instance(topology, workload, parse_rules(*filter(None, [workload.rules])))
            started = time.perf_counter()
            outcome = plan(question)
            spent = time.perf_counter() - started
            if outcome.plan is not None:
                wrong = problems(outcome.plan, question)
                if wrong:
                    raise SystemExit(f"{machine} × {name}: {wrong[0]}")
            found.append(Row(machine, name, outcome, spent))
            print(found[-1].text(with_time=True), flush=True)
    return found


def cpu() -> str:
    """Return what this machine calls its processor."""
    info = Path("/proc/cpuinfo")
    models = re.findall(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE) if info.exists() else []
    return f"{models[0] if models else platform.processor()}, {len(models) or 1} cores, Python {platform.python_version()}"


def main() -> int:
    """Write or check the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    found = rows()
    if not check:
        TABLE.write_text(HEAD.format(machine=cpu()) + "".join(row.text(with_time=True) + "\n" for row in found))
        return 0
    written = [line for line in TABLE.read_text().splitlines() if line.startswith("| ") and not line.startswith("| machine")]
    stale = [
        (old, new)
        for old, new in zip(written, (row.text(with_time=False) for row in found), strict=True)
        if old.rsplit("|", 2)[0] != new.rsplit("|", 2)[0]
    ]
    for old, new in stale:
        print(f"written: {old}\nnow:     {new}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
