"""Lists of GPUs and of their NVLinks: ``-L``, ``nvlink --status``, ``-R``, ``dcgmi nvlink``."""
