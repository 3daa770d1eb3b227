"""The solver that proves: CP-SAT through its protobuf."""

from solvers.cpsat.solve import solve as solve
