"""
The machine as a weighted graph of networkx.

Nodes are pairs of kind and number or name: ``("gpu", 0)``, ``("nic", "NIC0")``, ``("nvswitch", 0)``,
``("switch", 0)``, ``("root", 0)``, ``("numa", 0)``, ``("host", 0)``. Every edge has ``gb_per_s`` (what it
carries in one direction; both directions at once get as much), ``kind`` and ``source``. The graph itself has
``topology``, ``cards``, ``links`` (the `Link` of every pair of GPUs of one host), ``nest`` (who is close to
whom), ``above`` (what each node of the PCIe tree hangs from) and ``warnings``.

When to modify: what of a `Wiring` the graph shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from topologies.domains import Device
from topologies.model import Topology
from topologies.wiring import wiring

if TYPE_CHECKING:
    import networkx


def machine_graph(topology: Topology) -> networkx.Graph[Device]:
    """Return *topology* as a weighted graph; see the module's docstring."""
    import networkx

    wired = wiring(topology)
    graph: networkx.Graph[Device] = networkx.Graph(
        topology=topology,
        cards=wired.cards,
        links=wired.links,
        nest=wired.nest,
        above=wired.above,
        warnings=wired.nest.warnings,
    )
    for device, node in wired.nodes.items():
        facts = {"card": node.card} if device[0] == "gpu" else {}
        graph.add_node(device, label=node.label, **facts)
    for (a, b), edge in wired.edges.items():
        graph.add_edge(a, b, gb_per_s=edge.gb_per_s, kind=edge.kind, source=edge.source)
    return graph
