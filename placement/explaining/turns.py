"""
What was found of numbers that turn the choice: where, what comes then, and what staying would cost.

When to modify: something else is said of a turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from placement.explaining.quantities import Quantity

LEAST_REGRET = 0.0005
"""Regret that counts: below it people read 0.0 %."""


@dataclass(frozen=True, slots=True)
class Change:
    """
    What happens at one value.

    Parameters
    ----------
    factor
        The value over the one now.
    becomes
        What the new plan does otherwise, clause by clause; empty when there is none.
    regret
        How much longer the step of the old choice is than the new one's, as a share; None when the old one does not fit any more.
    first_term
        Of another objective than the step: its value with the old choice and with the new one.
    """

    factor: float
    becomes: tuple[str, ...]
    regret: float | None
    first_term: tuple[int, int] | None = None

    @property
    def matters(self) -> bool:
        """Whether who stays loses something."""
        return self.is_worse or self.regret is None or self.regret >= LEAST_REGRET

    def costs_more_than(self, band: float) -> bool:
        """Whether who stays loses more than *band*, a share of the step, or has no room, or loses in another objective."""
        return self.is_worse or self.regret is None or self.regret > band

    @property
    def is_worse(self) -> bool:
        """Whether who stays loses in the objective that was put before the step."""
        return self.first_term is not None and self.first_term[0] > self.first_term[1]


@dataclass(frozen=True, slots=True)
class Turn:
    """
    A quantity that turns the choice.

    Parameters
    ----------
    holds_at
        The factor next to the turn at which the choice still held.
    turned
        What happens at the factor where another choice was first found to come out, whatever staying costs there.
    at_end
        What happens when the quantity is moved all the way.
    costly
        What happens where staying was first found to cost more than the band; None where it does not at the end.
    """

    quantity: Quantity
    holds_at: float
    turned: Change
    at_end: Change
    costly: Change | None = None

    @property
    def is_below(self) -> bool:
        """Whether the choice turns below a value, not above one."""
        return self.turned.factor < self.holds_at

    def is_inside(self, band: float) -> bool:
        """Whether who stays loses no more than *band*, a share of the step, however far the quantity was moved."""
        return not any(change.costs_more_than(band) for change in (self.turned, self.at_end, self.costly) if change is not None)


@dataclass(frozen=True, slots=True)
class Leverage:
    """
    How the shortest step moves with a quantity, whatever is chosen then.

    Parameters
    ----------
    factor
        The end of the range at which it moves most.
    change
        The step there over the step now, less one.
    """

    quantity: Quantity
    factor: float
    change: float


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """
    What the choice rests on.

    Parameters
    ----------
    turns
        Where staying would cost something; the closest first.
    ties
        Quantities of which some value leads to another plan that is no shorter.
    holding
        Quantities that move the figures alone.
    idle
        Quantities on which nothing in the tables depends.
    not_looked_at
        Quantities for which there was no time.
    leverage
        Quantities that move the step, those that move it most first.
    why_not
        Why nothing was looked at; empty otherwise.
    """

    turns: tuple[Turn, ...] = ()
    ties: tuple[Quantity, ...] = ()
    holding: tuple[Quantity, ...] = ()
    idle: tuple[Quantity, ...] = ()
    not_looked_at: tuple[Quantity, ...] = ()
    leverage: tuple[Leverage, ...] = ()
    why_not: str = ""
