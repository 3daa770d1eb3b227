"""``placement plan --rules all``: one line per preset, and a time limit that all of them share."""

from __future__ import annotations

import pytest

from placement.catalog import load_workload
from placement.cli import presets
from placement.machines.sources import read_machine
from placement.planner import Outcome, SolverName
from placement.program.instance import make_instance
from placement.workloads.rules import PRESETS
from solvers.result import Options, Status

UNKNOWN = Outcome(Status.UNKNOWN, None, "unknown: no plan found within 10 s; try --time-limit")


def ask(rules):
    return make_instance(read_machine("a100-1"), load_workload("grpo-1.5b"), rules)


@pytest.fixture
def clock(monkeypatch):
    """A clock that only planning moves: *planned* says how long each preset takes, and remembers what it was given."""

    class Clock:
        now = 0.0
        given: list[float]
        takes: dict[str, float]

        def plan(self, instance, *, solver, options):
            self.given.append(options.time_limit_s)
            took = self.takes.get(instance.rules.preset, options.time_limit_s)
            self.now += took
            proven = took < options.time_limit_s
            return Outcome(Status.INFEASIBLE, None, "infeasible: …", ("because",)) if proven else UNKNOWN

    found = Clock()
    found.given, found.takes = [], {}
    monkeypatch.setattr(presets, "plan", found.plan)
    monkeypatch.setattr(presets.time, "monotonic", lambda: found.now)
    return found


def test_presets_share_the_time_and_leave_what_they_do_not_need(clock, capsys):
    clock.takes = {"minimal": 0.0, "free": 1.0}
    assert presets.compare(["all"], ask, SolverName.CPSAT, Options(time_limit_s=60.0), as_json=False) == 3
    # 60 / 6, then 50 / 5, then (nothing was needed) 50 / 4 each.
    assert clock.given == [10.0, 10.0, 12.5, 12.5, 12.5, 12.5]
    said = capsys.readouterr()
    assert "not proven within its share of the time: guide, strict, four, colocate (--time-limit, 60 s, is shared by all 6 presets)" in (
        said.err.replace("\n", " ")
    )
    rows = {line.split()[0]: line for line in said.out.splitlines() if line.split()[0] in PRESETS}
    assert "unknown" in rows["guide"]
    assert "no plan found within 10 s" in rows["guide"]
    assert rows["free"].endswith("because")


def test_nothing_is_said_of_time_where_all_is_proven(clock, capsys):
    clock.takes = dict.fromkeys(PRESETS, 0.0)
    assert presets.compare(["all"], ask, SolverName.CPSAT, Options(), as_json=False) == 1
    assert capsys.readouterr().err == ""


def test_when_the_time_is_over_what_needs_no_search_is_still_found(clock):
    presets.compare(["all"], ask, SolverName.CPSAT, Options(time_limit_s=0.0), as_json=False)
    assert clock.given == [0.1] * 6


def test_an_interrupted_comparison_says_what_is_missing(monkeypatch, capsys):
    monkeypatch.setattr(presets, "plan", lambda *_, **__: Outcome(Status.UNKNOWN, None, "unknown: interrupted", interrupted=True))
    assert presets.compare(["all"], ask, SolverName.CPSAT, Options(), as_json=False) == 130
    said = capsys.readouterr()
    assert said.out == ""
    assert "interrupted at preset guide, 5 presets not looked at" in said.err


def test_the_help_says_that_the_limit_is_for_all(placement):
    assert "for all presets together with --rules all" in " ".join(placement("plan", "--help").stdout.split())
