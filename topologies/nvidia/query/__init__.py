"""Tables of ``nvidia-smi --query-gpu`` and ``--query-compute-apps``: any columns, any damage."""
