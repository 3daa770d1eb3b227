"""Topology documents: what is written, and read back."""
