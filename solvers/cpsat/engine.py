"""
One call of CP-SAT: parameters, time limit, Ctrl-C.

CP-SAT takes SIGINT for itself by default and then looks as if the time limit had struck. Here it is told not to, runs in a
thread, and the main thread waits in small steps: a KeyboardInterrupt stops the search and the incumbent is kept.

When to modify: a parameter is tuned (measure first), or CP-SAT reports something new.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ortools.sat.python import cp_model_helper as helper

from solvers.cpsat.proto import Linear, Model

POLL_S = 0.02


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
    hint: Sequence[int] | None,
    time_limit_s: float,
    workers: int,
    seed: int,
    on_solution: Callable[[int, int], None] | None = None,
) -> Found:
    """
    Minimise *objective* over *model*.

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
    parameters.linearization_level = 0
    parameters.cp_model_presolve = False
    wrapper = helper.SolveWrapper()
    wrapper.set_parameters(parameters)
    if on_solution is not None:
        wrapper.add_solution_callback(_callback(on_solution))
    response, interrupted = _run(wrapper, model)
    status = response.status
    if status == helper.CpSolverStatus.MODEL_INVALID:
        raise RuntimeError("CP-SAT calls our model invalid; please report this with your inputs")
    has_solution = status in (helper.CpSolverStatus.OPTIMAL, helper.CpSolverStatus.FEASIBLE)
    solution = list(response.solution) if has_solution else None
    optimal = status == helper.CpSolverStatus.OPTIMAL
    bound = int(response.inner_objective_lower_bound) + objective.constant if objective.terms else objective.constant
    if optimal and solution is not None:
        bound = objective.value(solution)
    return Found(
        solution=solution,
        bound=max(bound, objective.low),
        is_optimal=optimal,
        is_infeasible=status == helper.CpSolverStatus.INFEASIBLE,
        was_interrupted=interrupted,
    )


def _state(model: Model, objective: Linear, hint: Sequence[int] | None) -> None:
    proto = model.proto
    proto.clear_objective()
    proto.clear_solution_hint()
    proto.objective.vars.extend(list(objective.terms))
    proto.objective.coeffs.extend(list(objective.terms.values()))
    if hint is not None:
        proto.solution_hint.vars.extend(list(range(len(hint))))
        proto.solution_hint.values.extend(list(hint))


def _callback(on_solution: Callable[[int, int], None]) -> helper.SolutionCallback:
    class Callback(helper.SolutionCallback):  # type: ignore[misc]
        def on_solution_callback(self) -> None:
            on_solution(int(self.ObjectiveValue()), int(self.BestObjectiveBound()))

    return Callback()


def _run(wrapper: helper.SolveWrapper, model: Model) -> tuple[helper.CpSolverResponse, bool]:
    """Solve in a thread; a KeyboardInterrupt while we wait stops the search."""
    done = threading.Event()
    outcome: list[helper.CpSolverResponse | BaseException] = []

    def work() -> None:
        try:
            outcome.append(wrapper.solve(model.proto))
        except BaseException as error:
            outcome.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=work, name="cp-sat", daemon=True)
    thread.start()
    interrupted = False
    while True:
        try:
            # An Event and not Thread.join: join with a time limit could return early on 3.11.
            while not done.wait(POLL_S):
                pass
            break
        except KeyboardInterrupt:
            interrupted = True
            wrapper.stop_search()
    thread.join()
    result = outcome[0]
    if isinstance(result, BaseException):
        raise result
    return result, interrupted
