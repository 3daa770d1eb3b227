"""
Environment variables by which processes are told their GPUs and their place in a map.

Written by launch scripts (`placement.targets`) and read in the job (`placement.verifying`); imports nothing, as jobs load it on every node.

When to modify: a launcher, or Ray, tells its processes by another variable.
"""

from __future__ import annotations

VISIBLE = "CUDA_VISIBLE_DEVICES"

ORDER = "CUDA_DEVICE_ORDER"

NOSET = "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"
"""Tells Ray to leave CUDA_VISIBLE_DEVICES of its workers alone."""

ROLES = "PLACEMENT_ROLES"
"""The roles of a process, joined by commas."""

HOST = "PLACEMENT_HOST"
"""Says which host of the map this is, where the host calls itself otherwise."""
