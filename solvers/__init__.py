"""Integers in, integers out: the placement problem, its checker, and three solvers that obey it."""
