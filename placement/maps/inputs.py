"""
What a plan was made from, as data: enough to check, explain, emit and replay it without other files.

When to modify: an input that changes the answer is added.
"""

from __future__ import annotations

from typing import Any

from placement._version import __version__
from placement.program.instance import Instance


def inputs(instance: Instance) -> dict[str, Any]:
    """Return the resolved inputs of *instance* for the device map."""
    from placement.constants import constants_file
    from placement.workloads import workload_file
    from topologies.documents.document import to_document

    document: dict[str, Any] = {
        "version": __version__,
        # Before what no map lacks: of a map that was cut, constants must not be missing unnoticed.
        **({"constants": constants_file.to_document(instance.overrides)} if instance.overrides else {}),
        "topology": to_document(instance.machine.topology),
        "workload": workload_file.to_document(instance.workload),
        "objective": instance.objective.value,
        "within_percent": float(instance.within_percent),
    }
    if instance.visible is not None:
        document["visible"] = list(instance.visible)
    if instance.not_needed:
        document["not_needed"] = list(instance.not_needed)
    return document
