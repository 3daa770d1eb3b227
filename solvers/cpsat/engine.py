"""
One call of CP-SAT: parameters, time limit, Ctrl-C.

CP-SAT takes SIGINT for itself by default and then looks as if the time limit had struck. Here it is told not to and
runs in a thread, while the main thread waits in small steps: a KeyboardInterrupt stops the search, and what was found
is kept.

When to modify: a parameter is tuned (measure first), or CP-SAT reports something new.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ortools.sat.python import cp_model_helper as helper

from solvers.cpsat.proto import Linear, Model

POLL_S = 0.05
START_S = 0.5

SMALL = 20_000
"""Variables up to which presolve costs more than it saves."""

Report = Callable[[int, int], None]
"""Called with (value, bound) of each better solution, from CP-SAT's thread."""


@dataclass(frozen=True, slots=True)
class Found:
    """What one call found: all variables (None if nothing), the proven bound, and how it ended."""

    solution: list[int] | None
    bound: int
    is_optimal: bool
    is_infeasible: bool
    was_interrupted: bool


def minimise(
    model: Model,
    objective: Linear,
    *,
    hint: Mapping[int, int],
    time_limit_s: float,
    workers: int = 1,
    seed: int = 0,
    report: Report | None = None,
) -> Found:
    """
    Minimise *objective* over *model*, starting from *hint* (a value for some of the variables).

    Raises
    ------
    RuntimeError
        If CP-SAT calls the model invalid, which is our bug.
    """
    _state(model, objective, hint)
    parameters = helper.SatParameters()
    parameters.num_workers = workers
    parameters.random_seed = seed
    parameters.max_time_in_seconds = time_limit_s
    parameters.catch_sigint_signal = False
    # Without the linear relaxation these models are proven 3 to 10 times faster.
    parameters.linearization_level = 0
    parameters.cp_model_presolve = model.size > SMALL
    # Probing every literal first costs a third of the time; exchanges are broken by `symmetry`.
    parameters.cp_model_probing_level = 0
    parameters.symmetry_level = 0
    wrapper = helper.SolveWrapper()
    wrapper.set_parameters(parameters)
    # The wrapper does not own the callback: this name keeps it alive until the solve is over.
    callback = None if report is None else _callback(report, objective.constant)
    if callback is not None:
        wrapper.add_solution_callback(callback)
    response, interrupted = _run(wrapper, model)
    status = response.status
    if status == helper.CpSolverStatus.MODEL_INVALID:
        raise RuntimeError("CP-SAT calls our model invalid; please report this with your inputs")
    has_solution = status in (helper.CpSolverStatus.OPTIMAL, helper.CpSolverStatus.FEASIBLE)
    bound = int(response.inner_objective_lower_bound) + objective.constant
    return Found(
        solution=list(response.solution) if has_solution else None,
        bound=max(bound, objective.low),
        is_optimal=status == helper.CpSolverStatus.OPTIMAL,
        is_infeasible=status == helper.CpSolverStatus.INFEASIBLE,
        was_interrupted=interrupted,
    )


def _state(model: Model, objective: Linear, hint: Mapping[int, int]) -> None:
    proto = model.proto
    proto.clear_objective()
    proto.objective.vars.extend(list(objective.terms))
    proto.objective.coeffs.extend(list(objective.terms.values()))
    proto.clear_solution_hint()
    proto.solution_hint.vars.extend(list(hint))
    proto.solution_hint.values.extend(list(hint.values()))


def _callback(report: Report, offset: int) -> helper.SolutionCallback:
    class Callback(helper.SolutionCallback):
        def OnSolutionCallback(self) -> None:  # noqa: N802 - the name that the wrapper calls
            report(int(self.ObjectiveValue()) + offset, int(self.BestObjectiveBound()) + offset)

    return Callback()


def _run(wrapper: helper.SolveWrapper, model: Model) -> tuple[helper.CpSolverResponse, bool]:
    """Solve in a thread; a KeyboardInterrupt while we wait stops the search."""
    began, done = threading.Event(), threading.Event()
    outcome: list[helper.CpSolverResponse | Exception] = []

    def work() -> None:
        began.set()
        try:
            outcome.append(wrapper.solve(model.proto))  # type: ignore[no-untyped-call]
        except Exception as error:
            outcome.append(error)      # raised again where the caller can catch it
        finally:
            done.set()

    thread = threading.Thread(target=work, name="cp-sat", daemon=True)
    interrupted = False
    try:
        thread.start()
    except KeyboardInterrupt:
        # start() waits for the thread to be under way, so most likely it is; if it never will be, there is no search.
        interrupted = True
        if not began.wait(START_S):
            raise
    # An Event and not Thread.join, which with a time limit could return early on 3.11.
    while not done.is_set():
        try:
            while not done.wait(POLL_S):
                if interrupted:
                    # Again and again: a search that has only just begun forgets that it was told to stop.
                    wrapper.stop_search()
        except KeyboardInterrupt:
            interrupted = True      # a second one must not leave the thread alone with the model
            wrapper.stop_search()
    thread.join()
    result = outcome[0]
    if isinstance(result, Exception):
        raise result
    return result, interrupted
