"""What joins hosts: typed, or told by Slurm, topograph, Kubernetes and the GPUs themselves."""
