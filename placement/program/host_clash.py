"""
Host memory as a reason why there is no plan: how much of it the most frugal plan needs, and what there is.

When to modify: another thing of hosts can be short, or the reason is put into better words.
"""

from __future__ import annotations

import math
import time

from placement.memory.host_memory import moments
from placement.program.instance import Instance
from placement.program.lower import lower
from placement.program.menu import Menu
from placement.program.needs import gib_down, gib_up
from solvers import check
from solvers.greedy import first_answer
from solvers.problem import Problem
from solvers.result import Answer, Options, Solve

ONE_SOLVE_LIMIT_S = 5.0
"""Seconds for one of the solves."""

CLOSE = 0.02
"""The least need is found to 2 %: predictions are not better."""


def too_little(question: Instance, tables: Menu, solve: Solve, deadline: float) -> str:
    """
    Say what plans of *question* need of the host, which is more than it has; they need *tables*.

    Raises
    ------
    KeyboardInterrupt
        If the user stopped one of the solves.
    """
    problem = lower(question, tables).problem
    found = _most_frugal(problem, solve, deadline)
    sentences = []
    names = moments([role.name for role in tables.roles])
    hosts = question.machine.topology.hosts
    for h, (room, total) in enumerate(zip(problem.hosts, question.machine.host_memory_mib, strict=True)):
        if room is None or total is None:
            continue
        has = f"{hosts[h] or 'the host'} has {gib_down(total)}, of which plans may use {gib_down(room)}"
        if found is None:
            sentences.append(has)
            continue
        loads = check.host_loads(problem, found, h)
        if max(loads) > room:
            sentences.append(f"a plan takes about {gib_up(max(loads))} at the least ({names[loads.index(max(loads))]}), {has}")
    return f"host memory: {'; '.join(sentences)}"


def _most_frugal(problem: Problem, solve: Solve, deadline: float) -> Answer | None:
    """
    Return an answer that is right but for the hosts, and whose need of them exceeds what they have by the smallest factor.

    It is the smallest to `CLOSE`, or as small as was found out in time; None where no answer was found at all.
    """
    best = _answer(problem.replace(hosts=(None,) * len(problem.hosts)), solve, deadline)
    refused = 1.0
    while best is not None and (needed := _factor(problem, best)) > refused * (1 + CLOSE) and time.monotonic() < deadline:
        factor = math.sqrt(refused * needed)
        larger = tuple(None if mib is None else int(max(mib, 1) * factor) for mib in problem.hosts)
        answer = _answer(problem.replace(hosts=larger), solve, deadline)
        if answer is None:
            refused = factor
        else:
            best = answer
    return best


def _factor(problem: Problem, answer: Answer) -> float:
    """Return by which factor *answer* needs more of a host than it has, at the worst."""
    return max(
        max(check.host_loads(problem, answer, h)) / max(mib, 1) for h, mib in enumerate(problem.hosts) if mib is not None
    )


def _answer(problem: Problem, solve: Solve, deadline: float) -> Answer | None:
    answer, left = first_answer(problem), min(ONE_SOLVE_LIMIT_S, deadline - time.monotonic())
    if answer is not None or left <= 0:
        return answer
    result = solve(problem, Options(time_limit_s=left, first_term_only=True))
    if result.interrupted:
        raise KeyboardInterrupt
    return result.answer
