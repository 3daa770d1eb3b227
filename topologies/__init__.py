"""Machines as data: read any description of a GPU machine into a `Topology` and a weighted graph."""
