"""The matrices of ``nvidia-smi topo``: header, lines, cells, whatever damaged them."""
