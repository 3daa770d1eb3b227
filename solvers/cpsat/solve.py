"""
The proof: terms in order, each driven to its optimum and kept there.

Terms of the band whose weights fit into 64 bits are minimised together as one weighted sum, which is the same as one
after the other: each weight is larger than all that the later terms can add up to.

When to modify: the order of the terms, or how they are packed into solves.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from solvers import check, greedy
from solvers.bounds import entries, lower_bounds, unproven
from solvers.cpsat import cost, rules
from solvers.cpsat.engine import Found, minimise
from solvers.cpsat.proto import Linear, Model, total
from solvers.cpsat.reduce import reduce
from solvers.cpsat.symmetry import Canonical, canonical
from solvers.cpsat.variables import Variables
from solvers.problem import TERMS_IN_BAND, Problem, Term
from solvers.result import Answer, Options, Result, SolverDisagrees, Status, TermProof

LARGEST_SUM = 2**58
"""Weighted sums stay below it: CP-SAT adds in 64 bits and wants some room."""


def solve(problem: Problem, options: Options | None = None) -> Result:
    """
    Solve *problem* with CP-SAT to a proof of every term.

    `Options.on_incumbent` is called from CP-SAT's thread.

    Raises
    ------
    SolverDisagrees
        If `solvers.check` finds an answer wrong, or another value for a term.
    """
    search = _Search(problem, options or Options())
    try:
        search.run()
    except KeyboardInterrupt:
        search.is_interrupted = True
    return search.result()


class _Search:
    """One problem on its way to a proof: the best answer so far, what is proven, the clock."""

    def __init__(self, problem: Problem, options: Options) -> None:
        self.problem = problem
        self.options = options
        self.deadline = time.monotonic() + options.time_limit_s
        self.answer: Answer | None = None
        self.proofs: list[TermProof] = []
        self.open_bound: dict[Term, int] = {}
        self.is_infeasible = False
        self.is_finished = False
        self.is_interrupted = False

    def result(self) -> Result:
        """Return what is known by now."""
        if self.answer is None:
            status = Status.INFEASIBLE if self.is_infeasible else Status.UNKNOWN
            return Result(status, interrupted=self.is_interrupted)
        only = self.options.first_term_only
        proofs = unproven(self.problem, self.answer, self.proofs, known=self.open_bound, first_term_only=only)
        return Result(
            Status.OPTIMAL if self.is_finished else Status.FEASIBLE, self.answer, proofs, self.is_interrupted
        )

    def run(self) -> None:
        """Prove one term after the other; return early when the time is over, or there is no answer."""
        problem = self.problem
        step_limit = self._first_limit()
        smallest = canonical(problem, reduce(problem, step_limit))
        if smallest.choices.is_empty:
            self._no_answer()
            return
        built = Built(problem, smallest)
        if self.answer is None and step_limit is not None:
            built.keep(built.term(Term.STEP), step_limit)
        if self.answer is not None:
            built.hint = built.x.hint(self.answer)
        for term in entries(problem, first_term_only=True):
            if not self._prove(built, [_goal(term, built.term(term))]):
                return
            value = self.proofs[-1].value
            built.keep(built.term(term), band(problem, value) if term is Term.STEP else value)
        if not self.options.first_term_only:
            if not self._prove_band(built):
                return
            if not self._settle_ids(built):
                return
        self.is_finished = True

    def _first_limit(self) -> int | None:
        """Return the longest step worth looking at, µs: what is known already, or a first answer; None for any."""
        problem, options = self.problem, self.options
        if problem.primary is Term.STEP and options.first_term_only and options.step_below is not None:
            return options.step_below - 1
        self.answer = greedy.first_answer(problem)
        if self.answer is None:
            return None
        step = check.step(problem, self.answer)
        if options.on_incumbent is not None:
            options.on_incumbent(step, lower_bounds(problem)[Term.STEP])
        if problem.primary is not Term.STEP:
            return None
        return step if options.first_term_only else band(problem, step)

    def _prove_band(self, built: Built) -> bool:
        """Drive the terms of the band to their optimum; return whether all are proven."""
        star = self.proofs[-1].value
        goals = [
            _goal(term, built.term(term), known=(star, band(self.problem, star)) if term is Term.STEP else None)
            for term in TERMS_IN_BAND
            if term is not Term.IDS
        ]
        while goals:
            batch, goals = _split(built.model, goals)
            if not self._prove(built, batch):
                return False
            for goal, proof in zip(batch, self.proofs[-len(batch) :], strict=True):
                built.keep(goal.expression, proof.value)
        return True

    def _prove(self, built: Built, goals: Sequence[_Goal]) -> bool:
        """Minimise the lexicographic sum of *goals*; return whether it is proven."""
        if len(goals) == 1 and self.answer is not None:
            term, value = goals[0].term, check.terms(self.problem, self.answer)[goals[0].term]
            if value == lower_bounds(self.problem)[term]:
                self.proofs.append(TermProof(term, value, value))
                return True
        weights = _weights(goals)
        found = self._minimise(built, goals, weights, report=goals[0].term is Term.STEP)
        if self.answer is None:
            if found.is_infeasible:
                self._no_answer()
            return False
        terms = check.terms(self.problem, self.answer)
        # Above their lows, later terms add up to less than one unit of the one before them.
        above = found.bound - sum(w * g.low for g, w in zip(goals, weights, strict=True))
        for goal, weight in zip(goals, weights, strict=True):
            value, bound = terms[goal.term], goal.low + above // weight
            if bound < value and not found.is_optimal:
                self.open_bound[goal.term] = bound
                return False
            self.proofs.append(TermProof(goal.term, value, value))
            above -= weight * (value - goal.low)
        return not self.is_interrupted

    def _settle_ids(self, built: Built) -> bool:
        """Drive the ids to their optimum; return whether that is proven."""
        goals = [_goal(Term.IDS, expression) for expression in cost.ids(built.x)]
        while goals:
            batch, goals = _split(built.model, goals)
            found = self._minimise(built, batch, _weights(batch))
            if not found.is_optimal or found.solution is None:
                return False
            for goal in batch:
                built.keep(goal.expression, goal.expression.value(found.solution))
        return True

    def _minimise(
        self, built: Built, goals: Sequence[_Goal], weights: Sequence[int], *, report: bool = False
    ) -> Found:
        """Minimise; a better answer becomes the best so far, after the checker agreed with it."""
        objective = total(g.expression.scaled(w) for g, w in zip(goals, weights, strict=True))
        found = minimise(
            built.model,
            objective,
            hint=built.hint,
            time_limit_s=max(self.deadline - time.monotonic(), 0.001),
            workers=self.options.workers,
            seed=self.options.seed,
            report=self.options.on_incumbent if report else None,
        )
        self.is_interrupted = self.is_interrupted or found.was_interrupted
        if found.solution is not None:
            answer = built.x.read(found.solution)
            _verify(self.problem, answer, goals, found.solution, is_optimal=found.is_optimal)
            built.hint = dict(enumerate(found.solution))
            if self._is_no_worse(answer, goals):
                self.answer = answer
        elif found.is_infeasible and self.answer is not None:
            raise SolverDisagrees(f"CP-SAT finds no answer where there is one: {self.answer}")
        return found

    def _is_no_worse(self, answer: Answer, goals: Sequence[_Goal]) -> bool:
        """Whether *answer* is at least as good as the best so far (a search that was cut short may fall behind)."""
        if self.answer is None or goals[0].term is Term.IDS:
            return True
        new, old = check.terms(self.problem, answer), check.terms(self.problem, self.answer)
        return [new[g.term] for g in goals] <= [old[g.term] for g in goals]

    def _no_answer(self) -> None:
        if self.answer is not None:
            raise SolverDisagrees(f"CP-SAT finds no answer where there is one: {self.answer}")
        self.is_infeasible = True


class Built:
    """The model; the expression of a term is built when it is first needed."""

    def __init__(self, problem: Problem, smallest: Canonical) -> None:
        self.model = Model()
        self.x = Variables(self.model, problem, smallest.choices)
        self.hint: Mapping[int, int] = {}
        self._expressions: dict[Term, Linear] = {}
        for rule in rules.ALL:
            rule(self.x)
        rules.add_area(self.x)
        rules.add_smallest_ids(self.x, smallest.needs)

    def term(self, term: Term) -> Linear:
        """Return the expression of *term*."""
        if term not in self._expressions:
            self._expressions[term] = cost.TERMS[term](self.x)
        return self._expressions[term]

    def keep(self, expression: Linear, limit: int) -> None:
        """From now on *expression* is at most *limit*."""
        self.model.between(expression.low, expression, limit)


def band(problem: Problem, step: int) -> int:
    """Return the longest step in the band of a shortest step of *step*, µs."""
    return step + step * problem.within_ppm // 1_000_000


# ── several terms in one solve ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Goal:
    """A term to be minimised, and between which values it lies by now."""

    term: Term
    expression: Linear
    low: int
    high: int


def _goal(term: Term, expression: Linear, known: tuple[int, int] | None = None) -> _Goal:
    low, high = known or (expression.low, expression.high)
    return _Goal(term, expression, low, high)


def _weights(goals: Sequence[_Goal]) -> list[int]:
    """Return the weights under which the least sum is the lexicographically least."""
    weights = [1]
    for goal in reversed(goals[1:]):
        weights.append(weights[-1] * (goal.high - goal.low + 1))
    return weights[::-1]


def _split(model: Model, goals: list[_Goal]) -> tuple[list[_Goal], list[_Goal]]:
    """Return the longest beginning of *goals* (at least one) whose weighted sum stays exact, and the rest."""
    for k in range(len(goals), 1, -1):
        weighted = zip(_weights(goals[:k]), goals[:k], strict=True)
        if sum(w * model.magnitude(g.expression) for w, g in weighted) < LARGEST_SUM:
            return goals[:k], goals[k:]
    return goals[:1], goals[1:]


def _verify(
    problem: Problem, answer: Answer, goals: Sequence[_Goal], solution: Sequence[int], *, is_optimal: bool
) -> None:
    """
    Let the checker judge the answer.

    The model's expressions bound the true terms from above; at an optimum they meet them.
    """
    broken = check.violations(problem, answer)
    if broken:
        raise SolverDisagrees(f"CP-SAT's answer breaks a rule: {broken[0]}")
    terms = check.terms(problem, answer)
    for goal in goals:
        if goal.term is Term.IDS:
            continue
        says, true = goal.expression.value(solution), terms[goal.term]
        if true > says or (is_optimal and true != says):
            raise SolverDisagrees(f"CP-SAT says {goal.term} = {says}, the checker says {true}")
