"""Topology and graph files of NCCL."""
